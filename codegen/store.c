// What kernels store for each other, once every node has its home.
#include "base/assert.h"
#include "codegen/fuse.h"

bool pm_cg_loads(const PmCgRegion *r, int32_t item, PmCgId v) {
  if (pm_cg_has_step(r, v)) return true;
  return r->info[v].stored && r->info[v].home < item;
}

typedef struct Walk {
  const PmCgRegion *r;
  int32_t item;
  int32_t *seen;       // by value: last item that met it, + 1
  int32_t *n_kernels;  // by value: how many kernels compute it
  bool *foreign;       // anchored, and another kernel needs it
  PmCgVisit *visit;    // of what is read from memory
  void *ctx;
} Walk;

static void walk(Walk *w, PmCgId v, bool root) {
  const PmCgRegion *r = w->r;
  if (w->seen[v] == w->item + 1) return;
  w->seen[v] = w->item + 1;
  if (!root && pm_cg_loads(r, w->item, v)) {
    if (w->visit) w->visit(w->ctx, v);
    return;
  }
  if (r->info[v].is_const || pm_cg_is_table(r, v)) return;
  const PmCgNode *n = pm_cg_def(r, v);
  if (w->n_kernels && pm_cg_is_homed(r, v)) w->n_kernels[v]++;
  if (w->foreign && !root && pm_cg_is_anchored(r, v) && r->info[v].home != w->item && r->info[v].home != PM_NONE) {
    w->foreign[v] = true;
    return;
  }
  for (int32_t i = 0; i < n->n_in; i++) walk(w, n->in[i], false);
}

static void walk_item(Walk *w, int32_t item) {
  const PmCgItem *k = &w->r->items[item];
  w->item = item;
  if (k->kind != PM_CG_KERNEL) {
    const PmCgNode *n = &w->r->nodes[k->node];
    for (int32_t i = 0; i < n->n_in; i++) walk(w, n->in[i], false);
    return;
  }
  for (int32_t i = 0; i < k->n_nodes; i++) {
    const PmCgId v = w->r->nodes[k->nodes[i]].out;
    if (w->r->info[v].stored) walk(w, v, true);
  }
}

void pm_cg_item_reads(const PmCgRegion *r, int32_t item, int32_t *seen, PmCgVisit *visit, void *ctx) {
  Walk w = {.r = r, .visit = visit, .ctx = ctx, .seen = seen};
  walk_item(&w, item);
}

static int32_t *count_uses(PmCg *cg, const PmCgRegion *r) {
  int32_t *uses = PM_NEW_N(cg->arena, int32_t, r->n_values + 1);
  for (int32_t i = 0; i < r->n_nodes; i++)
    for (int32_t k = 0; k < r->nodes[i].n_in; k++) uses[r->nodes[i].in[k]]++;
  for (int32_t i = 0; i < r->n_results; i++) uses[r->results[i]]++;
  return uses;
}

// The node that alone uses v, or NULL.
static const PmCgNode *only_user(const PmCgRegion *r, const int32_t *uses, PmCgId v) {
  if (uses[v] != 1) return NULL;
  for (int32_t i = r->values[v].def + 1; i < r->n_nodes; i++)
    for (int32_t k = 0; k < r->nodes[i].n_in; k++)
      if (r->nodes[i].in[k] == v) return &r->nodes[i];
  return NULL;
}

// One round: what is anchored and wanted elsewhere is stored, and of what several kernels compute at a price the first
// dear values, for with them stored the rest may be cheap; or what is made of one of them, where it is all that it is
// used for. True when anything changed.
static bool store_round(PmCg *cg, PmCgRegion *r) {
  Walk w = {.r = r, .seen = PM_NEW_N(cg->arena, int32_t, r->n_values + 1)};
  w.n_kernels = PM_NEW_N(cg->arena, int32_t, r->n_values + 1);
  w.foreign = PM_NEW_N(cg->arena, bool, r->n_values + 1);
  const int32_t *uses = count_uses(cg, r);
  int32_t *seen = PM_NEW_N(cg->arena, int32_t, r->n_values + 1);
  bool changed = false;
  for (int32_t i = r->n_items - 1; i >= 0; i--) walk_item(&w, i);
  for (int32_t i = 0; i < r->n_nodes; i++) {
    const PmCgNode *n = &r->nodes[i];
    PmCgId v = n->out;
    r->info[v].cost = pm_cg_cost(r, seen, v);
    if (pm_cg_has_step(r, v) || r->info[v].stored || r->info[v].home == PM_NONE) continue;
    if (!w.foreign[v] && (w.n_kernels[v] < 2 || r->info[v].cost <= PM_CG_CHEAP || pm_cg_is_anchored(r, v))) continue;
    const PmCgNode *user = w.foreign[v] ? NULL : only_user(r, uses, v);
    while (user && r->info[user->out].home != PM_NONE && w.n_kernels[user->out] == w.n_kernels[v] &&
           !pm_cg_is_anchored(r, user->out) && !pm_cg_has_step(r, user->out)) {
      v = user->out;
      user = only_user(r, uses, v);
    }
    changed = changed || !r->info[v].stored;
    r->info[v].stored = true;
  }
  return changed;
}

void pm_cg_choose_stored(PmCg *cg, PmCgRegion *r) {
  for (int32_t i = 0; i < r->n_nodes && store_round(cg, r); i++) {
  }
}
