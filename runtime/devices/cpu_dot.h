// dot through CBLAS.
#ifndef PM_RUNTIME_DEVICES_CPU_DOT_H
#define PM_RUNTIME_DEVICES_CPU_DOT_H

#include "runtime/devices/blas.h"
#include "runtime/pool.h"
#include "runtime/program.h"

// The dot is valid. How it is cut into library calls depends on its extents only, so the bits do not depend on threads.
void pm_cpu_dot(const PmBlas *blas, PmPool *pool, const PmDot *d, char *arena);

#endif
