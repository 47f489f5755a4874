// Functions of the IR -> regions: calls are inlined, types become local shapes.
#include "codegen/lower.h"

#include <string.h>

#include "base/assert.h"

static const uint8_t KDTYPE[PM_DTYPE_COUNT] = {
    [PM_BOOL] = PM_K_BOOL, [PM_I32] = PM_K_I32, [PM_F16] = PM_K_F16,
    [PM_BF16] = PM_K_BF16, [PM_F32] = PM_K_F32, [PM_F64] = PM_K_F64,
};

PmCgValue pm_cg_local(PmCg *cg, const PmType *t) {
  PmCgValue v = {.rank = t->rank, .def = PM_NONE};
  v.dtype = KDTYPE[t->dtype];
  for (int32_t i = 0; i < t->rank; i++) {
    v.dims[i] = (PmCgDim){t->dims[i].axis, pm_dim_local(cg->m, &t->dims[i])};
    if (v.dims[i].extent > INT32_MAX && !cg->status)
      cg->status = PM_STATUS(PM_ERR_LIMIT, "axis %s has %lld elements on one rank; kernels count to 2^31",
                             cg->m->axes[t->dims[i].axis].name, (long long)v.dims[i].extent);
  }
  return v;
}

PmCoordTerm pm_cg_offset(const PmCg *cg, const PmDim *d) {
  PmCoordTerm t = {0};
  int64_t stride = pm_dim_local(cg->m, d);
  for (int32_t i = d->split.n - 1; i >= 0; i--) {
    t.stride[d->split.mesh[i]] = stride;
    PM_ASSERT(pm_mul_i64(stride, cg->m->mesh[d->split.mesh[i]].size, &stride), "an axis past 2^63");
  }
  return t;
}

void pm_cg_lower_body(PmCgLower *lw) {
  for (int32_t i = 0; i < lw->fn->n_nodes && !lw->cg->status; i++) {
    const PmNode *n = &lw->fn->nodes[i];
    pm_cg_lower_node(lw, n);
    for (int32_t k = 0; k < n->n_out; k++) {
      PmCgValue *v = &lw->r->values[lw->env[n->out + k]];
      if (!v->name) v->name = lw->fn->values[n->out + k].name;
    }
  }
}

// Drops nodes that no result needs.
static void sweep(PmCg *cg, PmCgRegion *r) {
  bool *live = PM_NEW_N(cg->arena, bool, r->n_values + 1);
  PmCgId *to = PM_NEW_N(cg->arena, PmCgId, r->n_values + 1);
  for (int32_t i = 0; i < r->n_results; i++) live[r->results[i]] = true;
  for (int32_t i = r->n_nodes - 1; i >= 0; i--) {
    const PmCgNode *n = &r->nodes[i];
    bool any = false;
    for (int32_t k = 0; k < n->n_out; k++) any = any || live[n->out + k];
    for (int32_t k = 0; k < n->n_out; k++) live[n->out + k] = any;
    for (int32_t k = 0; any && k < n->n_in; k++) live[n->in[k]] = true;
  }
  int32_t n_values = 0, n_nodes = 0;
  for (int32_t i = 0; i < r->n_values; i++) {
    if (!live[i] && i >= r->n_params) continue;
    to[i] = n_values;
    r->values[n_values++] = r->values[i];
  }
  for (int32_t i = 0; i < r->n_nodes; i++) {
    PmCgNode n = r->nodes[i];
    if (!live[n.out]) continue;
    for (int32_t k = 0; k < n.n_in; k++) n.in[k] = to[n.in[k]];
    n.out = to[n.out];
    for (int32_t k = 0; k < n.n_out; k++) r->values[n.out + k].def = n_nodes;
    r->nodes[n_nodes++] = n;
  }
  for (int32_t i = 0; i < r->n_results; i++) r->results[i] = to[r->results[i]];
  r->n_values = n_values;
  r->n_nodes = n_nodes;
}

PmCgRegion *pm_cg_lower(PmCg *cg, PmFnId id) {
  const PmFn *fn = pm_fn(cg->m, id);
  PmCgRegion *r = pm_cg_region_new(cg);
  PmCgLower lw = {.cg = cg, .r = r, .fn = fn, .env = PM_NEW_N(cg->arena, PmCgId, fn->n_values + 1), .loc = -1};
  for (int32_t i = 0; i < fn->n_params; i++) {
    PmCgValue v = pm_cg_local(cg, &fn->values[i].type);
    v.name = fn->values[i].name;
    lw.env[i] = pm_cg_value(cg, r, &v);
  }
  r->n_params = fn->n_params;
  pm_cg_lower_body(&lw);
  r->n_results = fn->n_results;
  r->results = PM_NEW_N(cg->arena, PmCgId, fn->n_results + 1);
  for (int32_t i = 0; i < fn->n_results && !cg->status; i++) r->results[i] = lw.env[fn->results[i]];
  if (!cg->status) sweep(cg, r);
  return r;
}
