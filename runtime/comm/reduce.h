// Reducing several sources to one result, element by element, in the order in which the sources stand. What every
// communicator computes with, so that all of them give the same bits.
#ifndef PM_RUNTIME_COMM_REDUCE_H
#define PM_RUNTIME_COMM_REDUCE_H

#include "runtime/program.h"

#define PM_REDUCE_BLOCK 4096  // bytes: what the caches hold of every source and of the result at a time

// out[0 .. bytes) = source 0 op source 1 op ..., each source read from its byte `from` on. reduce: as in PmColl.
// `bytes` are whole elements, PM_REDUCE_BLOCK at most. Sums of half floats are taken in f32 and rounded once; max
// propagates NaN. `out` overlaps no source.
void pm_reduce_block(PmKDtype dtype, uint8_t reduce, const char *const *sources, int32_t n_sources, int64_t from,
                     int64_t bytes, char *out);
// The same for any number of bytes. `out + k` may be source i's `from + k`, but no other place of a source.
void pm_reduce(PmKDtype dtype, uint8_t reduce, const char *const *sources, int32_t n_sources, int64_t from,
               int64_t bytes, char *out);

#endif
