#include "runtime/device.h"

#include <string.h>

#include "runtime/devices/devices.h"

PmStatus *pm_device_find(const char *name, const PmDeviceVtbl **out) {
  static const PmDeviceVtbl *const all[] = {&pm_device_cpu, &pm_device_interp, &pm_device_null};
  PmBuf known = {0};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    if (strcmp(all[i]->name, name) == 0) {
      *out = all[i];
      pm_buf_deinit(&known);
      return NULL;
    }
    pm_buf_printf(&known, "%s%s", i ? ", " : "", all[i]->name);
  }
  *out = NULL;
  PmStatus *st = PM_STATUS(PM_ERR_USAGE, "no device `%s`; there are %s", name, pm_buf_str(&known));
  pm_buf_deinit(&known);
  return st;
}
