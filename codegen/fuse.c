// Fusion: which kernel computes which node, and what is stored.
//
// 1. Cheap expressions have no home: they are computed wherever they are used. Forwards, each node that is dear,
//    reduces or is read by something outside of kernels gets one: the latest kernel that works on the same space, is
//    connected with it (reads its values, shares a large operand, or sums columns of the same space) and stands after
//    all that the node needs; else a new kernel. A kernel is pointwise (no looped axes), a row kernel (the looped axes
//    are physically inner: reductions and what uses them share one pass over rows) or a column kernel (the looped axes
//    lead).
// 2. A value is stored when something outside of kernels reads it. Beyond that a kernel that needs a dear value of
//    another one computes it again where nobody else computes it; else the value is stored. So is what must not be
//    computed per element: a reduction, a number that is broadcast, a number in double.
#include <string.h>

#include "codegen/fuse.h"

enum {
  MAX_EXT = 16,     // values from elsewhere a kernel may read
  MAX_STORED = 16,  // values that it stores for others
  MAX_WORK = 256,   // by the costs of its nodes' functions
  MAX_REDUCES = 6,  // each may take a loop, and loops are axes
  WINDOW = 48,      // how many kernels back a node looks for its home
  SMALL_SPACE = 4096,
  MIN_ROWS = 8,  // fewer rows than this leave cores idle
};

typedef struct Deps {
  PmCgId *v;
  bool *same;  // reached without change of coordinates
  int32_t n, cap_v, cap_same;
} Deps;

int32_t pm_cg_space(const PmCgRegion *r, const PmCgNode *n, PmCgDim *out) {
  const bool inner = n->op == PM_OP_reduce || n->op == PM_OP_stack || n->op == PM_OP_merge;
  const PmCgValue *v = &r->values[inner ? n->in[0] : n->out];
  memcpy(out, v->dims, (size_t)v->rank * sizeof *out);
  return v->rank;
}

static void add_dep(PmCg *cg, Deps *d, PmCgId v, bool same) {
  for (int32_t i = 0; i < d->n; i++) {
    if (d->v[i] != v) continue;
    d->same[i] = d->same[i] && same;
    return;
  }
  d->v = pm_grow(cg->arena, d->v, d->n, &d->cap_v, sizeof *d->v);
  d->same = pm_grow(cg->arena, d->same, d->n, &d->cap_same, sizeof *d->same);
  d->v[d->n] = v;
  d->same[d->n++] = same;
}

static void find_deps(PmCg *cg, const PmCgRegion *r, PmCgId v, bool same, Deps *d) {
  const PmCgNode *n = pm_cg_def(r, v);
  if ((r->info[v].is_const || r->info[v].exact) && !r->info[v].stored) return;
  if (pm_cg_has_step(r, v) || pm_cg_is_homed(r, v)) {
    const bool whole = n && (n->op == PM_OP_stack || n->op == PM_OP_merge);  // there once all of its parts are stored
    add_dep(cg, d, v, same && !whole);
    return;
  }
  if (pm_cg_is_table(r, v)) return;
  const bool keeps = n->op == PM_OP_broadcast || n->op == PM_OP_cast || n->op == PM_OP_map;
  for (int32_t i = 0; i < n->n_in; i++) find_deps(cg, r, n->in[i], same && keeps, d);
}

// What node n needs, past what is computed in place.
static void node_deps(PmCg *cg, const PmCgRegion *r, const PmCgNode *n, Deps *d) {
  if (r->info[n->out].is_const || pm_cg_is_table(r, n->out)) return;
  const bool keeps = n->op != PM_OP_rename && n->op != PM_OP_split && n->op != PM_OP_select && n->op != PM_OP_slice;
  for (int32_t i = 0; i < n->n_in; i++) find_deps(cg, r, n->in[i], keeps && !(n->op == PM_OP_index && i == 0), d);
}

// ---- homes ----------------------------------------------------------------------------------------------------------
static int32_t space_find(const PmCgItem *k, int32_t axis) {
  for (int32_t i = 0; i < k->n_space; i++)
    if (k->space[i].axis == axis) return i;
  return PM_NONE;
}

// Extents count too: what was sliced along an axis has fewer turns than what was not.
static bool space_within(const PmCgItem *k, const PmCgDim *t, int32_t n) {
  for (int32_t i = 0; i < n; i++) {
    const int32_t at = space_find(k, t[i].axis);
    if (at == PM_NONE || k->space[at].extent != t[i].extent) return false;
  }
  return true;
}

static int32_t n_looped(const PmCgItem *k) {
  int32_t n = 0;
  for (int32_t i = 0; i < k->n_space; i++) n += k->looped[i];
  return n;
}

// The reduced axes include the physically innermost one (or nothing is left to spread over lanes).
static bool is_row_reduce(const PmCgRegion *r, const PmCgNode *n) {
  const PmCgValue *x = &r->values[n->in[0]];
  for (int32_t i = x->rank - 1; i >= 0; i--) {
    const PmCgDim *d = &x->dims[r->info[n->in[0]].order[i]];
    if (d->extent == 1) continue;
    for (int32_t k = 0; k < n->n_axes; k++)
      if (n->axes[k] == d->axis) return true;
    return false;
  }
  return true;
}

static bool enough_rows(const PmCgItem *k, const bool *looped) {
  int64_t rows = 1, all = 1;
  for (int32_t i = 0; i < k->n_space; i++) {
    all *= k->space[i].extent;
    if (!looped[i]) rows *= k->space[i].extent;
  }
  return all <= SMALL_SPACE || rows >= MIN_ROWS;
}

// Fits a reduction: the kernel's looped axes become (or are) the reduced ones.
static bool fits_reduce(const PmCgRegion *r, PmCgItem *k, const PmCgNode *n, const PmCgDim *t, int32_t n_t,
                        bool apply) {
  bool looped[PM_CG_RANK] = {0};
  int32_t reduces = 0;
  if (n_t != k->n_space || !space_within(k, t, n_t) || k->column == is_row_reduce(r, n)) return false;
  for (int32_t i = 0; i < n->n_axes; i++) looped[space_find(k, n->axes[i])] = true;
  if (n_looped(k) && memcmp(looped, k->looped, sizeof looped) != 0) return false;
  if (!n_looped(k) && !enough_rows(k, looped)) return false;
  for (int32_t i = 0; i < k->n_nodes; i++) reduces += r->nodes[k->nodes[i]].op == PM_OP_reduce;
  if (reduces >= MAX_REDUCES) return false;
  if (apply) memcpy(k->looped, looped, sizeof looped);
  return true;
}

static bool fits_pointwise(const PmCgRegion *r, PmCgItem *k, const PmCgNode *n, const PmCgDim *t, int32_t n_t,
                           bool reads_it, bool apply) {
  const int32_t loops = n_looped(k);
  if (n_t == k->n_space && space_within(k, t, n_t)) return !k->column;
  if (loops && n_t == k->n_space - loops && space_within(k, t, n_t)) {
    for (int32_t i = 0; i < n_t; i++)
      if (k->looped[space_find(k, t[i].axis)]) return false;
    return true;
  }
  // A pointwise kernel on rows' numbers takes in the rows themselves.
  if (loops || !reads_it || k->n_space == 0 || n_t <= k->n_space) return false;
  PmCgItem wide = *k;
  wide.n_space = n_t;
  memcpy(wide.space, t, (size_t)n_t * sizeof *t);
  for (int32_t i = 0; i < n_t; i++) wide.looped[i] = space_find(k, t[i].axis) == PM_NONE;
  const PmCgValue *v = &r->values[n->out];
  const int32_t last = v->rank == n_t ? v->dims[r->info[n->out].order[n_t - 1]].axis : PM_NONE;
  if (!space_within(&wide, k->space, k->n_space) || !enough_rows(&wide, wide.looped) || last == PM_NONE ||
      !wide.looped[space_find(&wide, last)])
    return false;
  if (apply) *k = wide;
  return true;
}

static bool has_ext(const PmCgItem *k, PmCgId v) {
  for (int32_t i = 0; i < k->n_ext; i++)
    if (k->ext[i] == v) return true;
  return false;
}

static bool joins(const PmCgRegion *r, int32_t item, const PmCgNode *n, const Deps *d, bool apply) {
  PmCgItem *k = &r->items[item];
  PmCgDim t[PM_CG_RANK];
  const int32_t n_t = pm_cg_space(r, n, t);
  if (k->kind != PM_CG_KERNEL || k->host != pm_cg_is_host(r, n)) return false;
  bool reads_it = false, shares = (n_t == 0 && k->n_space == 0) || (k->column && n->op == PM_OP_reduce);
  int32_t n_ext = k->n_ext;
  for (int32_t i = 0; i < d->n; i++) {
    const PmCgInfo *u = &r->info[d->v[i]];
    if (u->home == item && r->items[item].kind == PM_CG_KERNEL) {
      if (!d->same[i]) return false;
      reads_it = true;
      continue;
    }
    if (u->ready >= item) return false;
    const bool known = has_ext(k, d->v[i]);
    shares = shares || (known && r->values[d->v[i]].rank > 0);
    n_ext += !known;
  }
  int32_t n_stored = 0;
  for (int32_t i = 0; i < k->n_nodes; i++) n_stored += r->info[r->nodes[k->nodes[i]].out].stored;
  if (k->work > MAX_WORK || n_stored >= MAX_STORED || n_ext > MAX_EXT || (!reads_it && !shares)) return false;
  return n->op == PM_OP_reduce ? fits_reduce(r, k, n, t, n_t, apply) : fits_pointwise(r, k, n, t, n_t, reads_it, apply);
}

static int32_t add_item(PmCg *cg, PmCgRegion *r, PmCgItemKind kind, int32_t node) {
  r->items = pm_grow(cg->arena, r->items, r->n_items, &r->cap_items, sizeof *r->items);
  r->items[r->n_items] = (PmCgItem){.kind = kind, .node = node};
  return r->n_items++;
}

static int32_t new_kernel(PmCg *cg, PmCgRegion *r, const PmCgNode *n) {
  const int32_t item = add_item(cg, r, PM_CG_KERNEL, PM_NONE);
  PmCgItem *k = &r->items[item];
  k->n_space = pm_cg_space(r, n, k->space);
  k->host = pm_cg_is_host(r, n);
  if (n->op == PM_OP_reduce) {
    k->column = !is_row_reduce(r, n);
    for (int32_t i = 0; i < n->n_axes; i++) k->looped[space_find(k, n->axes[i])] = true;
  }
  return item;
}

static void enter(PmCg *cg, PmCgRegion *r, int32_t item, int32_t node, const Deps *d) {
  PmCgItem *k = &r->items[item];
  k->nodes = pm_grow(cg->arena, k->nodes, k->n_nodes, &k->cap_nodes, sizeof *k->nodes);
  k->nodes[k->n_nodes++] = node;
  k->work += pm_cg_node_cost(&r->nodes[node]);
  r->info[r->nodes[node].out].home = item;
  for (int32_t i = 0; i < d->n; i++) {
    if (r->info[d->v[i]].home == item || has_ext(k, d->v[i])) continue;
    k->ext = pm_grow(cg->arena, k->ext, k->n_ext, &k->cap_ext, sizeof *k->ext);
    k->ext[k->n_ext++] = d->v[i];
  }
}

static void own_item(PmCg *cg, PmCgRegion *r, int32_t node) {
  const PmCgNode *n = &r->nodes[node];
  const PmCgItemKind kind = n->op == PM_OP_dot           ? PM_CG_DOT
                            : n->op == PM_OP_scatter_add ? PM_CG_SCATTER
                            : n->op == PM_OP_repeat      ? PM_CG_REPEAT
                            : n->op == PM_OP_slot_of     ? PM_CG_SLOTS
                                                         : PM_CG_COLL;
  const int32_t item = add_item(cg, r, kind, node);
  for (int32_t i = 0; i < n->n_out; i++) r->info[n->out + i].home = r->info[n->out + i].ready = item;
}

static void find_home(PmCg *cg, PmCgRegion *r, int32_t node, const Deps *d) {
  const PmCgNode *n = &r->nodes[node];
  PmCgInfo *info = &r->info[n->out];
  int32_t item = PM_NONE;
  const int32_t stop = r->n_items > WINDOW ? r->n_items - WINDOW : 0;
  for (int32_t k = r->n_items - 1; k >= stop && item == PM_NONE && !r->cut[node]; k--)
    if (joins(r, k, n, d, false)) item = k;
  if (item == PM_NONE)
    item = new_kernel(cg, r, n);
  else
    joins(r, item, n, d, true);
  enter(cg, r, item, node, d);
  info->ready = item;
}

// Numbers in double that need nothing but parameters: in front of all else, as they hold up kernels.
static bool is_early(const PmCgRegion *r, const PmCgNode *n, const Deps *d) {
  if (!pm_cg_is_host(r, n) || r->values[n->out].rank > 0) return false;
  for (int32_t i = 0; i < d->n; i++)
    if (d->v[i] >= r->n_params && (r->info[d->v[i]].home == PM_NONE || !r->items[r->info[d->v[i]].home].host))
      return false;
  return true;
}

static void find_homes(PmCg *cg, PmCgRegion *r) {
  for (int32_t i = 0; i < r->n_values; i++) r->info[i].home = r->info[i].ready = PM_NONE;
  pm_cg_find_costs(cg, r);
  for (int32_t early = 1; early >= 0; early--) {
    for (int32_t i = 0; i < r->n_nodes; i++) {
      const PmCgNode *n = &r->nodes[i];
      PmCgInfo *info = &r->info[n->out];
      if (info->home != PM_NONE) continue;
      if (pm_cg_has_step(r, n->out)) {
        if (!early) own_item(cg, r, i);
        continue;
      }
      Deps d = {0};
      node_deps(cg, r, n, &d);
      for (int32_t k = 0; k < d.n && !early; k++)
        if (r->info[d.v[k]].ready > info->ready) info->ready = r->info[d.v[k]].ready;
      if (pm_cg_is_homed(r, n->out) && (!early || is_early(r, n, &d))) find_home(cg, r, i, &d);
    }
  }
}

void pm_cg_fuse(PmCg *cg, PmCgRegion *r) {
  find_homes(cg, r);
  pm_cg_choose_stored(cg, r);
}
