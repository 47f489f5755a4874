// Counter-based random numbers: Philox4x32-10 (Salmon et al., SC 2011). No state: the same (key, counter) gives the
// same words on any rank, thread or device, so values may be made where they are needed.
#ifndef PM_BASE_PHILOX_H
#define PM_BASE_PHILOX_H

#include <stdint.h>

void pm_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);
// The stream key of a path: a 64-bit hash of (seed, path).
uint64_t pm_random_key(uint64_t seed, const char *path);
// Element `index` (global, row-major, logical) of stream `key` at `step`: lane index % 4 of counter (index / 4, step).
uint32_t pm_random_u32(uint64_t key, uint64_t step, uint64_t index);
double pm_random_uniform(uint64_t key, uint64_t step, uint64_t index);  // [0, 1), 24 bits
// Standard normal by Box-Muller in double from lanes (index & ~1, index | 1), rounded to f32.
float pm_random_normal(uint64_t key, uint64_t step, uint64_t index);

#endif
