#include "base/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t pm_hash64(const void *data, size_t len, uint64_t seed) { return XXH64(data ? data : "", len, seed); }
