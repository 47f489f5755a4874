// The reference device: every kernel in the interpreter, dot by plain loops that add in double and round once a turn.
#include "runtime/devices/devices.h"
#include "runtime/devices/host.h"

static PmStatus *create(const PmProgram *p, int64_t rank, const PmDeviceOptions *options, PmDevice **out) {
  PmDeviceOptions mine = *options;
  mine.fns = NULL;
  return pm_host_create(&pm_device_interp, p, rank, &mine, out);
}

typedef struct DotJob {
  const PmDot *d;
  char *arena;
} DotJob;

static double get(const PmDot *d, const char *at, int64_t i) {
  return d->dtype == PM_K_F32 ? (double)((const float *)at)[i] : ((const double *)at)[i];
}

static void put(const PmDot *d, char *at, int64_t i, double v) {
  if (d->dtype == PM_K_F32) {
    ((float *)at)[i] = (float)v;
  } else {
    ((double *)at)[i] = v;
  }
}

// Row m of the result, for every turn of the loops.
static void run_row(void *context, int64_t m) {
  const DotJob *job = context;
  const PmDot *d = job->d;
  const char *pa = job->arena + d->a.offset, *pb = job->arena + d->b.offset;
  char *pc = job->arena + d->c.offset;
  int64_t at[PM_DOT_MAX_LOOPS] = {0}, a = 0, b = 0, c = 0;
  for (;;) {
    bool add = false;
    for (int32_t l = 0; l < d->n_loops; l++) add = add || (d->loops[l].sum && at[l]);
    for (int64_t n = 0; n < d->n; n++) {
      double sum = 0;
      for (int64_t k = 0; k < d->k; k++) {
        sum += get(d, pa, a + m * d->a_m + k * d->a_k) * get(d, pb, b + k * d->b_k + n * d->b_n);
      }
      int64_t to = c + m * d->c_m + n * d->c_n;
      put(d, pc, to, add ? get(d, pc, to) + sum : sum);
    }
    int32_t l = d->n_loops - 1;
    for (; l >= 0; l--) {
      const PmDotLoop *loop = &d->loops[l];
      a += loop->a;
      b += loop->b;
      c += loop->c;
      if (++at[l] < loop->extent) break;
      a -= loop->a * loop->extent;
      b -= loop->b * loop->extent;
      c -= loop->c * loop->extent;
      at[l] = 0;
    }
    if (l < 0) return;
  }
}

static PmStatus *dot(PmDevice *device, const PmStep *s) {
  DotJob job = {.d = s->u.dot, .arena = device->arena};
  pm_pool_run(((PmHostDevice *)device)->pool, run_row, &job, job.d->m);
  return NULL;
}

const PmDeviceVtbl pm_device_interp = {
    .name = "interp",
    .compiles = false,
    .runs = true,
    .create = create,
    .destroy = pm_host_destroy,
    .kernel = pm_host_kernel,
    .dot = dot,
    .slots = pm_host_slots,
    .touched = pm_host_touched,
};
