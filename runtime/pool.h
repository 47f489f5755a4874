// A pool of threads that share the chunks of one job at a time; the caller is its first thread. Chunks go to threads
// statically, so nothing but time depends on the number of threads. Used by one caller at a time.
#ifndef PM_RUNTIME_POOL_H
#define PM_RUNTIME_POOL_H

#include "base/status.h"

typedef struct PmPool PmPool;
typedef void PmPoolFn(void *context, int64_t chunk);

PM_MUST_CHECK PmStatus *pm_pool_create(int32_t threads, PmPool **out);
void pm_pool_destroy(PmPool *pool);  // NULL is nothing
// Runs fn(context, i) for every i in [0, chunks) and returns when all are done.
void pm_pool_run(PmPool *pool, PmPoolFn *fn, void *context, int64_t chunks);

#endif
