#include "base/dl.h"

#include <dlfcn.h>

static PmStatus *bind_symbols(void *lib, const char *soname, const PmDlSymbol *symbols, int32_t n) {
  for (int32_t i = 0; i < n; i++) {
    if (!dlsym(lib, symbols[i].name)) {
      return PM_STATUS(PM_ERR_ENVIRONMENT, "library %s has no symbol `%s`", soname, symbols[i].name);
    }
  }
  for (int32_t i = 0; i < n; i++) *symbols[i].slot = dlsym(lib, symbols[i].name);
  return NULL;
}

PmStatus *pm_dl_open(const char *const *sonames, const PmDlSymbol *symbols, int32_t n_symbols) {
  PmBuf tried;
  pm_buf_init(&tried);
  PmStatus *st = NULL;
  for (const char *const *name = sonames; *name; name++) {
    void *lib = dlopen(*name, RTLD_NOW | RTLD_LOCAL);
    if (lib) {
      st = bind_symbols(lib, *name, symbols, n_symbols);
      if (!st) goto done;
      pm_buf_printf(&tried, "\n  %s", pm_status_message(st));
      pm_status_drop(st);
      dlclose(lib);
    } else {
      pm_buf_printf(&tried, "\n  %s", dlerror());
    }
  }
  st = PM_STATUS(PM_ERR_ENVIRONMENT, "no usable library; tried:%s", pm_buf_str(&tried));
done:
  pm_buf_deinit(&tried);
  return st;
}
