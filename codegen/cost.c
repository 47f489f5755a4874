// Costs of computing a value again, and what follows from them: who has a home, and who is computed once only.
#include "base/assert.h"
#include "codegen/fuse.h"

bool pm_cg_is_onehot(const PmCgRegion *r, const PmCgNode *n) {
  const PmCgValue *out = &r->values[n->out], *up = &r->values[n->in[1]];
  for (int32_t i = 0; i < up->rank; i++)
    if (up->dims[i].axis == n->axes[0] || pm_cg_find_axis(out, up->dims[i].axis) == PM_NONE) return false;
  return true;
}

bool pm_cg_is_host(const PmCgRegion *r, const PmCgNode *n) {
  if (pm_cg_is_table(r, n->out)) return false;
  bool f64 = r->values[n->out].dtype == PM_K_F64;
  for (int32_t i = 0; i < n->n_in; i++)
    f64 = f64 || (r->values[n->in[i]].dtype == PM_K_F64 && !r->info[n->in[i]].exact);
  return f64;
}

bool pm_cg_is_anchored(const PmCgRegion *r, PmCgId v) {
  const PmCgNode *n = pm_cg_def(r, v);
  return n->op == PM_OP_reduce || r->info[v].spread || pm_cg_is_host(r, n);
}

bool pm_cg_is_homed(const PmCgRegion *r, PmCgId v) {
  const PmCgNode *n = pm_cg_def(r, v);
  const PmCgInfo *info = &r->info[v];
  if (pm_cg_has_step(r, v)) return false;
  if (info->stored) return true;
  if (info->exact || info->is_const || pm_cg_is_table(r, v)) return false;
  const bool computes = n->op == PM_OP_map || n->op == PM_OP_reduce || n->op == PM_OP_index ||
                        n->op == PM_OP_scatter_add || n->op == PM_OP_cast;
  return computes && (info->cost > PM_CG_CHEAP || pm_cg_is_anchored(r, v));
}

static int32_t map_cost(PmScalar fn) {
  switch (fn) {
    case PM_S_cos:
    case PM_S_sin:
    case PM_S_erf:
    case PM_S_exp:
    case PM_S_log:
    case PM_S_pow:
    case PM_S_tanh:
      return 12;
    case PM_S_div:
    case PM_S_mod:
    case PM_S_rsqrt:
    case PM_S_sqrt:
      return 3;
    default:
      return 1;
  }
}

int32_t pm_cg_node_cost(const PmCgNode *n) {
  if (n->op == PM_OP_map) return map_cost(n->fn);
  enum { DRAW = 24 };  // ten rounds of Philox
  if (n->op == PM_OP_random) return DRAW;
  return n->op == PM_OP_scatter_add ? 3 : n->op == PM_OP_pos || n->op == PM_OP_index;
}

static int32_t load_cost(const PmCgValue *v) { return v->rank > 1 ? 4 : 1; }

typedef struct Cost {
  const PmCgRegion *r;
  int32_t *seen;  // by value: the last root that met it, + 1
  PmCgId root;
  int32_t sum;
} Cost;

static void add_cost(Cost *c, PmCgId v) {
  enum { LIMIT = 64 };  // dear enough; more is not worth counting
  const PmCgRegion *r = c->r;
  if (c->seen[v] == c->root + 1 || c->sum > LIMIT || r->info[v].is_const) return;
  c->seen[v] = c->root + 1;
  const PmCgNode *n = pm_cg_def(r, v);
  if (pm_cg_has_step(r, v) || r->info[v].stored || pm_cg_is_table(r, v) || n->op == PM_OP_reduce) {
    c->sum += load_cost(&r->values[v]);
    return;
  }
  c->sum += pm_cg_node_cost(n);
  for (int32_t i = 0; i < n->n_in; i++) add_cost(c, n->in[i]);
}

int32_t pm_cg_cost(const PmCgRegion *r, int32_t *seen, PmCgId v) {
  Cost c = {r, seen, v, 0};
  add_cost(&c, v);
  return c.sum;
}

void pm_cg_find_costs(PmCg *cg, PmCgRegion *r) {
  enum { SPREAD = 4, FEW = 4, DEAR = 24 };
  int32_t *seen = PM_NEW_N(cg->arena, int32_t, r->n_values + 1);
  for (int32_t i = 0; i < r->n_params; i++) r->info[i].cost = load_cost(&r->values[i]);
  for (int32_t i = 0; i < r->n_nodes; i++) {
    const PmCgNode *n = &r->nodes[i];
    for (int32_t k = 0; k < n->n_out; k++) r->info[n->out + k].cost = pm_cg_cost(r, seen, n->out + k);
    if (n->op != PM_OP_broadcast) continue;
    PmCgInfo *x = &r->info[n->in[0]];
    const int64_t times = pm_cg_elements(&r->values[n->out]) / pm_cg_elements(&r->values[n->in[0]]);
    if (times == 1 || x->cost <= SPREAD || (times < FEW && x->cost <= DEAR)) continue;
    if (!x->exact && !pm_cg_has_step(r, n->in[0]) && !pm_cg_is_table(r, n->in[0])) x->spread = true;
  }
}
