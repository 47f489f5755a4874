// What variables hold before the first step.
//
// An element is init_value times a number drawn by (seed, path of the variable, index of the element in the whole), and
// rounded to the variable's dtype: the same on any mesh and on any number of ranks. A working copy is its master's
// value, rounded once more.
#ifndef PM_RUNTIME_INITIAL_H
#define PM_RUNTIME_INITIAL_H

#include "runtime/program.h"

// Writes the rank's part of variable `var`, padding zero, at its place in the rank's arena. O(elements of the part).
PM_MUST_CHECK PmStatus *pm_initial_fill(const PmProgram *p, int32_t var, uint64_t seed, int64_t rank, char *arena);

#endif
