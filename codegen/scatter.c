// scatter_add: zeros, then one pass over the positions in order, so that sums come out the same on every run.
#include <string.h>

#include "base/assert.h"
#include "codegen/eval.h"

static void add_axis(PmCgEval *e, const PmCgDim *d, PmCgAxisKind kind) {
  e->kind[e->n_space] = kind;
  e->space[e->n_space++] = *d;
}

// Kept axes that the indices have, then the positions that are summed, then the rest, over lanes.
static void set_space(PmCgEval *e, const PmCgNode *n) {
  const PmCgRegion *r = e->r;
  const PmCgValue *idx = &r->values[n->in[0]], *up = &r->values[n->in[1]], *out = &r->values[n->out];
  for (int32_t round = 0; round < 3; round++) {
    for (int32_t i = 0; i < up->rank; i++) {
      const PmCgDim *d = &up->dims[r->info[n->in[1]].order[i]];
      const bool kept = d->axis != n->axes[0] && pm_cg_find_axis(out, d->axis) != PM_NONE;
      const bool indexed = pm_cg_find_axis(idx, d->axis) != PM_NONE;
      const int32_t when = !kept ? 1 : indexed ? 0 : 2;
      if (when == round) add_axis(e, d, kept ? PM_CG_GRID : PM_CG_SEQ);
    }
  }
}

static void run(PmCgEval *e, const PmCgNode *n) {
  const PmCgRegion *r = e->r;
  const PmCgValue *out = &r->values[n->out];
  PmCgCoord idx_at[PM_CG_RANK], up_at[PM_CG_RANK], at[PM_CG_RANK];
  pm_cg_identity(e, n->in[0], idx_at);
  pm_cg_identity(e, n->in[1], up_at);
  pm_cg_identity(e, n->out, at);
  const int32_t axis = pm_cg_find_axis(out, n->axes[0]);
  at[axis] = (PmCgCoord){0};
  const int32_t idx = pm_cg_subtract_offset(e, pm_cg_eval(e, n->in[0], idx_at, false), &n->offset);
  const int32_t value = pm_cg_eval(e, n->in[1], up_at, false);
  int64_t stride[PM_CG_RANK];
  pm_cg_canonical(out, r->info[n->out].order, stride);
  pm_cg_store(e, n->out, at, 0, value, true, idx, stride[axis], out->dims[axis].extent);
}

bool pm_cg_emit_scatter(PmCg *cg, PmCgRegion *r, int32_t item) {
  const PmCgNode *n = &r->nodes[r->items[item].node];
  PmCgEval e = {.cg = cg, .r = r, .item = item, .dry = true, .host = r->values[n->out].dtype == PM_K_F64};
  set_space(&e, n);
  run(&e, n);
  if (!pm_cg_layout(&e, 0)) return false;
  pm_cg_emit_fill(cg, r, pm_cg_view(cg, r, n->out)->buf, n->loc);
  pm_cg_begin(&e, "scatter_add", false);
  run(&e, n);
  pm_cg_end(&e, NULL, n->loc);
  return true;
}
