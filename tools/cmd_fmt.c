#include <string.h>

#include "base/checked.h"
#include "frontend/format.h"
#include "tools/pipeline.h"

static bool has_suffix(const char *text, const char *suffix) {
  size_t n = strlen(text), k = strlen(suffix);
  return n >= k && strcmp(text + n - k, suffix) == 0;
}

// Without --check and -i the answer goes to stdout; with --check a file that would change is named on stdout.
static PmStatus *format_file(PmTool *t, const char *path, bool *out_changed) {
  int32_t file;
  PM_TRY(pm_sources_load(&t->sources, path, PM_MAX_FILE_BYTES, &file));
  PmBuf text;
  pm_buf_init(&text);
  PmStatus *st = NULL;
  if (!pm_format(&t->arena, &t->names, &t->sources, t->diags, file, has_suffix(path, ".pplan"), &text)) {
    st = PM_STATUS(PM_ERR_INPUT, "%s: not formatted", path);
    goto done;
  }
  const PmSourceFile *source = &t->sources.files[file];
  *out_changed = text.len != (size_t)source->len || memcmp(pm_buf_str(&text), source->text, text.len) != 0;
  if (t->opt.check) {
    if (*out_changed) printf("%s\n", path);
  } else if (!t->opt.in_place) {
    fwrite(pm_buf_str(&text), 1, text.len, stdout);
  } else if (*out_changed) {
    PM_TRY_CLEAN(st, pm_tool_write(path, pm_buf_str(&text), text.len), done);
  }
done:
  pm_buf_deinit(&text);
  return st;
}

PmStatus *pm_cmd_fmt(PmTool *t) {
  if (t->opt.n_args == 0) return PM_STATUS(PM_ERR_USAGE, "`pmodel fmt` needs a file: `pmodel fmt --help`");
  if (t->opt.check && t->opt.in_place)
    return PM_STATUS(PM_ERR_USAGE, "`--check` changes no file: `-i` cannot stand with it");
  int32_t changed = 0;
  for (int32_t i = 0; i < t->opt.n_args; i++) {
    bool one = false;
    PM_TRY(format_file(t, t->opt.args[i], &one));
    changed += one;
  }
  if (!t->opt.check || changed == 0) return NULL;
  return PM_STATUS(PM_ERR_INPUT, "%d file%s not in the canonical layout: `pmodel fmt -i` rewrites", changed,
                   changed == 1 ? " is" : "s are");
}
