// The null device runs nothing. It is also the skeleton of a new device.
#include <stdlib.h>

#include "runtime/devices/devices.h"

static PmStatus *create(const PmProgram *p, int64_t rank, const PmDeviceOptions *options, PmDevice **out) {
  (void)p;
  (void)rank;
  (void)options;
  PmDevice *d = calloc(1, sizeof *d);
  if (!d) pm_memory_exhausted(sizeof *d, 0);
  d->vtbl = &pm_device_null;
  *out = d;
  return NULL;
}

static void destroy(PmDevice *d) { free(d); }

static PmStatus *skip(PmDevice *d, const PmStep *s) {
  (void)d;
  (void)s;
  return NULL;
}

static int64_t touched(const PmDevice *d) {
  (void)d;
  return 0;
}

const PmDeviceVtbl pm_device_null = {
    .name = "null",
    .compiles = false,
    .runs = false,
    .create = create,
    .destroy = destroy,
    .kernel = skip,
    .dot = skip,
    .slots = skip,
    .touched = touched,
};
