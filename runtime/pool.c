#include "runtime/pool.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "runtime/futex.h"

#define SLEEP 10.0

typedef struct Worker {
  PmPool *pool;
  int32_t index;
  pthread_t thread;
} Worker;

struct PmPool {
  int32_t threads, started;
  PmWord job;    // counts jobs
  PmWord left;   // workers that have not finished the job
  PmPoolFn *fn;  // NULL: stop
  void *context;
  int64_t chunks;
  Worker workers[];
};

static void share(PmPool *pool, int32_t index) {
  int64_t per = pool->chunks / pool->threads, rest = pool->chunks % pool->threads;
  int64_t begin = per * index + (index < rest ? index : rest), end = begin + per + (index < rest);
  for (int64_t i = begin; i < end; i++) pool->fn(pool->context, i);
}

static void *work(void *arg) {
  Worker *w = arg;
  PmPool *pool = w->pool;
  for (uint32_t seen = 0;; seen++) {
    while (atomic_load(&pool->job) == seen) pm_word_wait(&pool->job, seen, SLEEP);
    if (!pool->fn) return NULL;
    share(pool, w->index);
    if (atomic_fetch_sub(&pool->left, 1) == 1) pm_word_wake_all(&pool->left);
  }
}

static void post(PmPool *pool, PmPoolFn *fn, void *context, int64_t chunks) {
  pool->fn = fn;
  pool->context = context;
  pool->chunks = chunks;
  atomic_store(&pool->left, (uint32_t)pool->threads - 1);
  atomic_fetch_add(&pool->job, 1);
  pm_word_wake_all(&pool->job);
}

PmStatus *pm_pool_create(int32_t threads, PmPool **out) {
  *out = NULL;
  PmPool *pool = calloc(1, sizeof *pool + (size_t)threads * sizeof *pool->workers);
  if (!pool) pm_memory_exhausted(sizeof *pool, 0);
  pool->threads = threads;
  for (int32_t i = 1; i < threads; i++) {
    pool->workers[i] = (Worker){.pool = pool, .index = i};
    int err = pthread_create(&pool->workers[i].thread, NULL, work, &pool->workers[i]);
    if (err) {
      pm_pool_destroy(pool);
      return PM_STATUS(PM_ERR_ENVIRONMENT, "cannot start thread %d of %d: %s", i, threads, strerror(err));
    }
    pool->started++;
  }
  *out = pool;
  return NULL;
}

void pm_pool_destroy(PmPool *pool) {
  if (!pool) return;
  post(pool, NULL, NULL, 0);
  for (int32_t i = 1; i <= pool->started; i++) pthread_join(pool->workers[i].thread, NULL);
  free(pool);
}

void pm_pool_run(PmPool *pool, PmPoolFn *fn, void *context, int64_t chunks) {
  if (pool->threads == 1 || chunks <= 1) {
    for (int64_t i = 0; i < chunks; i++) fn(context, i);
    return;
  }
  post(pool, fn, context, chunks);
  share(pool, 0);
  for (uint32_t left; (left = atomic_load(&pool->left)) != 0;) pm_word_wait(&pool->left, left, SLEEP);
}
