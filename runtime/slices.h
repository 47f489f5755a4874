// A rank's slice of a global array, as runs that are contiguous in both. Arrays are row-major.
#ifndef PM_RUNTIME_SLICES_H
#define PM_RUNTIME_SLICES_H

#include "runtime/program.h"

// Elements [local, local + n) of the rank's part are elements [global, global + n) of the whole. Padding has no element
// of the whole and is left out.
typedef PmStatus *PmRunFn(void *context, int64_t local, int64_t global, int64_t n);

// Calls fn for every run, in ascending order of both; stops at its first status.
PM_MUST_CHECK PmStatus *pm_slice_walk(const PmProgram *p, const PmVarDim *dims, int32_t rank_of_array, int64_t rank,
                                      PmRunFn *fn, void *context);
int64_t pm_dims_elements(const PmVarDim *dims, int32_t n);  // global
// The dims of an input as a step counts its rows: the axis that numbers micro-batches and that of their rows are one.
// Global sizes only; out has room for PM_PROGRAM_MAX_RANK. Returns how many there are.
int32_t pm_row_dims(const PmProgVar *v, PmVarDim *out);
// True when no other rank before this one holds the same slice.
bool pm_slice_first(const PmProgram *p, const PmVarDim *dims, int32_t n, int64_t rank);

#endif
