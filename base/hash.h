// Content hashes (XXH64 of xxHash) for checksums and cache keys. Not for untrusted authentication.
#ifndef PM_BASE_HASH_H
#define PM_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

// `data` may be NULL when `len` is 0.
uint64_t pm_hash64(const void *data, size_t len, uint64_t seed);

#endif
