#include "runtime/executor.h"

typedef PmStatus *StepFn(PmExecutor *x, const PmStep *s, int64_t step);

static PmStatus *run_kernel(PmExecutor *x, const PmStep *s, int64_t step) {
  (void)step;
  return x->device->vtbl->kernel(x->device, s);
}

static PmStatus *run_dot(PmExecutor *x, const PmStep *s, int64_t step) {
  (void)step;
  return x->device->vtbl->dot(x->device, s);
}

static PmStatus *run_slots(PmExecutor *x, const PmStep *s, int64_t step) {
  PmStatus *st = x->device->vtbl->slots(x->device, s);
  return st ? pm_status_wrap(st, __FILE__, __LINE__, "at step %lld", (long long)step) : NULL;
}

static PmStatus *run_coll(PmExecutor *x, const PmStep *s, int64_t step) {
  const PmColl *c = s->u.coll;
  x->counts.colls[c->kind]++;
  x->counts.coll_bytes[c->kind] += pm_coll_bytes(c);
  if (!x->comm) return NULL;
  PmCommCall call = {
      .coll = c,
      .src = x->device->arena + c->src.offset,
      .dst = x->device->arena + c->dst.offset,
      .base = x->device->arena,
      .idx = c->rows ? (const int32_t *)(const void *)(x->device->arena + c->rows->idx.offset) : NULL,
      .op = s->op,
      .loc = s->loc >= 0 ? &x->p->locs[s->loc] : NULL,
      .step = step,
  };
  return x->comm->vtbl->run(x->comm, &call);
}

static StepFn *const step_fns[PM_STEP_KIND_COUNT] = {
    [PM_STEP_KERNEL] = run_kernel,
    [PM_STEP_DOT] = run_dot,
    [PM_STEP_COLL] = run_coll,
    [PM_STEP_SLOTS] = run_slots,
};

PmStatus *pm_executor_run(PmExecutor *x, int32_t entry, int64_t step) {
  const PmEntry *e = &x->p->entries[entry];
  for (int32_t i = 0; i < e->n_steps; i++) {
    const PmStep *s = &e->steps[i];
    PmStatus *st = step_fns[s->kind](x, s, step);
    if (st) {
      if (x->comm) x->comm->vtbl->abandon(x->comm, pm_status_message(st));
      return pm_status_wrap(st, __FILE__, __LINE__, "instruction %d (%s)", i, s->op);
    }
    x->counts.steps[s->kind]++;
    x->counts.flops += s->flops;
    x->counts.bytes += s->bytes;
  }
  return NULL;
}
