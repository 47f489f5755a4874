// What devices in this machine's memory share: the arena, the threads, and how a kernel is cut into chunks.
#ifndef PM_RUNTIME_DEVICES_HOST_H
#define PM_RUNTIME_DEVICES_HOST_H

#include "runtime/device.h"
#include "runtime/devices/blas.h"

typedef struct PmHostDevice {
  PmDevice base;
  const PmProgram *p;
  int64_t rank;
  PmPool *pool;
  const PmKernelFn *fns;
  PmBlas blas;         // cpu device only
  int64_t arena_size;  // whole pages; an inaccessible page follows
} PmHostDevice;

PM_MUST_CHECK PmStatus *pm_host_create(const PmDeviceVtbl *vtbl, const PmProgram *p, int64_t rank,
                                       const PmDeviceOptions *options, PmDevice **out);
void pm_host_destroy(PmDevice *d);
int64_t pm_host_touched(const PmDevice *d);
// Runs the compiled kernel, or the interpreter where there is none.
PmStatus *pm_host_kernel(PmDevice *d, const PmStep *s);
PmStatus *pm_host_slots(PmDevice *d, const PmStep *s);

#endif
