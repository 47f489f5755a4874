#include "runtime/initial.h"

#include <string.h>

#include "base/half.h"
#include "base/philox.h"
#include "runtime/element.h"
#include "runtime/slices.h"

typedef double DrawFn(uint64_t key, uint64_t index);
static double draw_nothing(uint64_t key, uint64_t index) { return (void)key, (void)index, 0.0; }
static double draw_one(uint64_t key, uint64_t index) { return (void)key, (void)index, 1.0; }
static double draw_normal(uint64_t key, uint64_t index) { return (double)pm_random_normal(key, 0, index); }
static double draw_uniform(uint64_t key, uint64_t index) { return 2.0 * pm_random_uniform(key, 0, index) - 1.0; }

static DrawFn *const draw_fns[PM_VAR_INIT_COUNT] = {
    [PM_VAR_INIT_NONE] = draw_nothing,
    [PM_VAR_INIT_CONST] = draw_one,
    [PM_VAR_INIT_NORMAL] = draw_normal,
    [PM_VAR_INIT_UNIFORM] = draw_uniform,
};

static double rounded(PmKDtype dtype, double v) {
  if (dtype == PM_K_BF16) return (double)pm_bf16_round(v);
  if (dtype == PM_K_F16) return (double)pm_f16_round(v);
  return dtype == PM_K_F32 ? (double)(float)v : v;
}

typedef struct InitRun {
  const PmProgVar *v;
  const PmProgVar *master;  // or NULL
  DrawFn *draw;
  uint64_t key;
  char *at;
} InitRun;

static PmStatus *init_run(void *context, int64_t local, int64_t global, int64_t n) {
  const InitRun *r = context;
  for (int64_t i = 0; i < n; i++) {
    double x = r->v->init_value * r->draw(r->key, (uint64_t)(global + i));
    if (r->master) x = rounded((PmKDtype)r->master->dtype, x);
    pm_element_store((PmKDtype)r->v->dtype, r->at, local + i, x);
  }
  return NULL;
}

PmStatus *pm_initial_fill(const PmProgram *p, int32_t var, uint64_t seed, int64_t rank, char *arena) {
  const PmProgVar *v = &p->vars[var];
  const PmProgVar *twin = v->twin >= 0 ? &p->vars[v->twin] : NULL;
  InitRun run = {
      .v = v,
      .master = twin && v->role == PM_VAR_PARAM ? twin : NULL,
      .draw = draw_fns[v->init],
      .key = pm_random_key(seed, twin && v->role == PM_VAR_STATE ? twin->path : v->path),
      .at = arena + v->at.offset,
  };
  memset(run.at, 0, (size_t)v->at.bytes);  // padding is zero
  return pm_slice_walk(p, v->dims, v->rank, rank, init_run, &run);
}
