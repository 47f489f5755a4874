// dot through CBLAS: the one place that knows it.
#ifndef PM_RUNTIME_DEVICES_CPU_DOT_H
#define PM_RUNTIME_DEVICES_CPU_DOT_H

#include "runtime/pool.h"
#include "runtime/program.h"

// Keeps the library from starting threads of its own; ours call it side by side.
void pm_cpu_dot_setup(void);
// The dot is valid. How it is cut into library calls depends on its extents only, so the bits do not depend on threads.
void pm_cpu_dot(PmPool *pool, const PmDot *d, char *arena);

#endif
