#include "runtime/devices/host.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/checked.h"
#include "runtime/kernel_interp.h"

#define PAGE 4096
#define POISON 0xff
// Starting threads on a job costs some microseconds; less work than this stays on one.
#define SMALL_BYTES 262144.0
#define SMALL_FLOPS 1e6
#define CHUNKS 32

PmStatus *pm_host_create(const PmDeviceVtbl *vtbl, const PmProgram *p, int64_t rank, const PmDeviceOptions *options,
                         PmDevice **out) {
  *out = NULL;
  PmHostDevice *d = calloc(1, sizeof *d);
  if (!d) pm_memory_exhausted(sizeof *d, 0);
  d->base.vtbl = vtbl;
  d->p = p;
  d->rank = rank;
  d->fns = options->fns;
  if (!pm_align_i64(p->arena_bytes, PAGE, &d->arena_size)) {
    free(d);
    return PM_STATUS(PM_ERR_LIMIT, "an arena of %lld bytes", (long long)p->arena_bytes);
  }
  void *at = mmap(NULL, (size_t)d->arena_size + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) {
    free(d);
    return PM_STATUS(PM_ERR_LIMIT, "rank %lld needs %lld bytes of memory: %s", (long long)rank,
                     (long long)p->arena_bytes, strerror(errno));
  }
  d->base.arena = at;
  PmStatus *st = NULL;
  if (mprotect(d->base.arena + d->arena_size, PAGE, PROT_NONE) != 0) {
    st = PM_STATUS(PM_ERR_ENVIRONMENT, "cannot guard the arena: %s", strerror(errno));
  }
  if (!st) st = pm_pool_create(options->threads, &d->pool);
  if (st) {
    pm_host_destroy(&d->base);
    return st;
  }
  if (options->poison) memset(d->base.arena, POISON, (size_t)d->arena_size);
  *out = &d->base;
  return NULL;
}

void pm_host_destroy(PmDevice *device) {
  PmHostDevice *d = (PmHostDevice *)device;
  pm_pool_destroy(d->pool);
  munmap(d->base.arena, (size_t)d->arena_size + PAGE);
  free(d);
}

int64_t pm_host_touched(const PmDevice *device) {
  const PmHostDevice *d = (const PmHostDevice *)device;
  int64_t n = d->arena_size;
  while (n && (unsigned char)d->base.arena[n - 1] == POISON) n--;
  return n;
}

typedef struct KernelJob {
  const PmKernel *k;
  PmKernelFn fn;
  char *args[PM_KERNEL_MAX_ARGS];
  int32_t scalars[PM_KERNEL_MAX_SCALARS];
  int64_t extent, chunks;
} KernelJob;

static void run_chunk(void *context, int64_t i) {
  const KernelJob *job = context;
  int64_t per = job->extent / job->chunks, rest = job->extent % job->chunks;
  int64_t begin = per * i + (i < rest ? i : rest), end = begin + per + (i < rest);
  if (job->fn) {
    job->fn(job->args, job->scalars, begin, end);
  } else {
    pm_kernel_interp(job->k, job->args, job->scalars, begin, end);
  }
}

PmStatus *pm_host_kernel(PmDevice *device, const PmStep *s) {
  PmHostDevice *d = (PmHostDevice *)device;
  const PmKernelCall *call = s->u.kernel;
  KernelJob job = {.k = &d->p->kernels[call->kernel], .extent = 1, .chunks = 1};
  job.fn = d->fns ? d->fns[call->kernel] : NULL;
  double bytes = 0;
  for (int32_t i = 0; i < job.k->n_args; i++) {
    job.args[i] = d->base.arena + call->args[i].offset;
    bytes += (double)job.k->args[i].bytes;
  }
  for (int32_t i = 0; i < job.k->n_scalars; i++) {
    job.scalars[i] = (int32_t)pm_coord_term(d->p, &call->scalars[i], d->rank);
  }
  // The interpreter is slow enough to be worth sharing, but for the small tables of host kernels.
  bool small = (job.fn || job.k->host) && bytes < SMALL_BYTES && s->flops < SMALL_FLOPS;
  if (job.k->n_outer) job.extent = job.k->outer[0];
  if (job.k->n_outer && job.k->outer_kind[0] == PM_KA_GRID && !small) {
    job.chunks = job.extent < CHUNKS ? job.extent : CHUNKS;
  }
  pm_pool_run(d->pool, run_chunk, &job, job.chunks);
  return NULL;
}
