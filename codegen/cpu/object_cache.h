// Object files on disk, one a kernel, by a 128-bit key. A damaged, foreign or unreadable entry is a miss, and an entry
// that can't be written is left out: the cache never fails a run. Safe against several processes: entries appear by
// rename.
#ifndef PM_CODEGEN_CPU_OBJECT_CACHE_H
#define PM_CODEGEN_CPU_OBJECT_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

typedef struct PmObjectKey {
  uint64_t lo, hi;
} PmObjectKey;

// Appends the object to `out`; false on a miss.
bool pm_object_cache_read(const char *dir, PmObjectKey key, PmBuf *out);
void pm_object_cache_write(const char *dir, PmObjectKey key, const void *data, size_t len);

#endif
