// topk and slot_of as sums over comparisons, in nodes that fuse like any others: no kernel of their own, no order of
// threads that results could depend on. All numbers are counts in f32, exact below 2^24.
#include "codegen/lower_routing.h"

#include <string.h>

#include "base/assert.h"

enum {
  LONG_DIM = 32,  // dims of positions longer than this are cut in two: the work goes with the sum of their extents
  COUNT_BITS = 24,
};

typedef struct Make {
  PmCg *cg;
  PmCgRegion *r;
  PmCgNode like;
} Make;

static const PmCgValue *value_of(const Make *k, PmCgId v) { return &k->r->values[v]; }

static PmCgNode start(const Make *k, PmOp op) {
  return (PmCgNode){.op = op, .loc = k->like.loc, .origin = k->like.origin};
}

static PmCgDim dim_of(const Make *k, PmCgId v, int32_t axis) {
  const int32_t at = pm_cg_find_axis(value_of(k, v), axis);
  PM_ASSERT(at != PM_NONE, "a value without the axis that it is asked for");
  return value_of(k, v)->dims[at];
}

static PmCgValue without(const PmCgValue *v, int32_t axis) {
  PmCgValue out = *v;
  const int32_t at = pm_cg_find_axis(v, axis);
  memmove(&out.dims[at], &out.dims[at + 1], (size_t)(v->rank - at - 1) * sizeof *out.dims);
  out.rank--;
  return out;
}

static PmCgValue with(const PmCgValue *v, PmCgDim d) {
  PmCgValue out = *v;
  PM_ASSERT(out.rank < PM_CG_RANK, "routing on %d axes", out.rank);
  out.dims[out.rank++] = d;
  return out;
}

// x on the axes of `shape`, which hold its own.
static PmCgId wide(Make *k, PmCgId x, const PmCgValue *shape) {
  return pm_cg_transpose(k->cg, k->r, &k->like, x, shape->dims, shape->rank);
}

static PmCgId number(Make *k, PmKDtype dtype, double v, const PmCgValue *shape) {
  PmCgNode n = start(k, PM_OP_const);
  n.number = v;
  const PmCgValue scalar = {.dtype = (uint8_t)dtype, .def = PM_NONE};
  return wide(k, pm_cg_node(k->cg, k->r, &n, NULL, 0, &scalar), shape);
}

static PmCgId renamed(Make *k, PmCgId x, int32_t from, int32_t to) {
  PmCgNode n = start(k, PM_OP_rename);
  PmCgValue v = *value_of(k, x);
  n.n_axes = n.n_to = 1;
  n.axes[0] = from;
  n.to[0] = to;
  v.dims[pm_cg_find_axis(&v, from)].axis = to;
  return pm_cg_node(k->cg, k->r, &n, &x, 1, &v);
}

static PmCgId cast(Make *k, PmCgId x, PmKDtype dtype) {
  const PmCgNode n = start(k, PM_OP_cast);
  PmCgValue v = *value_of(k, x);
  v.dtype = (uint8_t)dtype;
  return pm_cg_node(k->cg, k->r, &n, &x, 1, &v);
}

// 0, 1, ... along d, as exact numbers. `range` is an axis of the module that is at least as long.
static PmCgId positions(Make *k, PmCgDim d, PmAxisId range) {
  PmCgNode n = start(k, PM_OP_pos);
  PmCgValue v = {.dtype = PM_K_F64, .rank = 1, .def = PM_NONE};
  n.n_axes = 1;
  n.axes[0] = range;
  v.dims[0] = (PmCgDim){range, d.extent};
  const PmCgId p = pm_cg_node(k->cg, k->r, &n, NULL, 0, &v);
  return d.axis == range ? p : renamed(k, p, range, d.axis);
}

static PmCgId map(Make *k, PmScalar fn, PmCgId a, PmCgId b, PmCgId c) {
  PmCgNode n = start(k, PM_OP_map);
  const PmCgId in[] = {a, b, c};
  PmCgValue v = *value_of(k, fn == PM_S_where ? b : a);
  n.fn = fn;
  if (pm_scalar_out(fn) != PM_OUT_SAME) v.dtype = PM_K_BOOL;
  return pm_cg_node(k->cg, k->r, &n, in, pm_scalar_arity(fn), &v);
}

static PmCgId map2(Make *k, PmScalar fn, PmCgId a, PmCgId b) { return map(k, fn, a, b, PM_NONE); }

static PmCgId sum(Make *k, PmCgId x, int32_t axis) {
  PmCgNode n = start(k, PM_OP_reduce);
  const PmCgValue v = without(value_of(k, x), axis);
  n.kind = PM_SUM;
  n.n_axes = 1;
  n.axes[0] = axis;
  return pm_cg_node(k->cg, k->r, &n, &x, 1, &v);
}

static PmCgId where(Make *k, PmCgId condition, PmCgId yes) {
  const PmCgValue shape = *value_of(k, yes);
  return map(k, PM_S_where, condition, yes, number(k, (PmKDtype)shape.dtype, 0, &shape));
}

// How often `condition` holds along `axis`.
static PmCgId count(Make *k, PmCgId condition, int32_t axis) {
  const PmCgValue shape = *value_of(k, condition);
  return sum(k, where(k, condition, number(k, PM_K_F32, 1, &shape)), axis);
}

// An element's place is the number of those that stand before it; the place of a choice is found by looking for it.
PmCgId pm_cg_lower_topk(PmCg *cg, PmCgRegion *r, const PmCgNode *like, PmCgId x, const PmCgValue *result) {
  Make k = {cg, r, *like};
  const PmAxisId from = like->axes[0], to = like->to[0];
  const PmCgDim e = dim_of(&k, x, from), f = {cg->next_axis++, e.extent};
  const PmCgDim c = result->dims[pm_cg_find_axis(result, to)];
  const PmCgValue rest = without(value_of(&k, x), from), rows = with(&rest, e), pairs = with(&rows, f);
  const PmCgId own = wide(&k, x, &pairs), other = wide(&k, renamed(&k, x, from, f.axis), &pairs);
  const PmCgId first =
      map2(&k, PM_S_lt, wide(&k, positions(&k, f, from), &pairs), wide(&k, positions(&k, e, from), &pairs));
  const PmCgId tie = map2(&k, PM_S_and, map2(&k, PM_S_eq, other, own), first);
  const PmCgId place = count(&k, map2(&k, PM_S_or, map2(&k, PM_S_gt, other, own), tie), f.axis);
  const PmCgValue choices = with(&rest, c), table = with(&choices, e);
  const PmCgId wanted = wide(&k, cast(&k, positions(&k, c, to), PM_K_F32), &table);
  const PmCgId hit = map2(&k, PM_S_eq, wide(&k, place, &table), wanted);
  const PmCgId at = wide(&k, cast(&k, positions(&k, e, from), PM_K_F32), &table);
  const PmCgId chosen = cast(&k, sum(&k, where(&k, hit, at), e.axis), PM_K_I32);
  return pm_cg_transpose(cg, r, like, chosen, result->dims, result->rank);
}

// ---- slot_of -------------------------------------------------------------------------------------------------------
// The largest divisor that is not above the square root.
static int64_t near_root(int64_t n) {
  int64_t best = 1;
  for (int64_t d = 2; d * d <= n; d++)
    if (n % d == 0) best = d;
  return best;
}

typedef struct Cut {
  int32_t axis, major, minor;
  int64_t extent;
} Cut;

static PmCgId cut(Make *k, PmCgId x, const Cut *c, int64_t minor) {
  PmCgNode n = start(k, PM_OP_split);
  PmCgValue v = *value_of(k, x);
  const int32_t at = pm_cg_find_axis(&v, c->axis);
  n.n_axes = 1;
  n.n_to = 2;
  n.axes[0] = c->axis;
  n.to[0] = c->major;
  n.to[1] = c->minor;
  memmove(&v.dims[at + 1], &v.dims[at], (size_t)(v.rank - at) * sizeof *v.dims);
  v.dims[at] = (PmCgDim){c->major, c->extent / minor};
  v.dims[at + 1] = (PmCgDim){c->minor, minor};
  v.rank++;
  return pm_cg_node(k->cg, k->r, &n, &x, 1, &v);
}

static PmCgId join(Make *k, PmCgId x, const Cut *c) {
  PmCgNode n = start(k, PM_OP_merge);
  PmCgValue v = without(value_of(k, x), c->minor);
  n.n_axes = 2;
  n.n_to = 1;
  n.axes[0] = c->major;
  n.axes[1] = c->minor;
  n.to[0] = c->axis;
  v.dims[pm_cg_find_axis(&v, c->major)] = (PmCgDim){c->axis, c->extent};
  return pm_cg_node(k->cg, k->r, &n, &x, 1, &v);
}

// Sum of n over the positions on d before each: n without d's own, then d.
static PmCgId sum_before(Make *k, PmCgId n, PmCgDim d, PmAxisId range) {
  const PmCgDim m = {k->cg->next_axis++, d.extent};
  const PmCgValue shape = *value_of(k, n), pairs = with(&shape, m);
  const PmCgId before =
      map2(k, PM_S_lt, wide(k, positions(k, m, range), &pairs), wide(k, positions(k, d, range), &pairs));
  return sum(k, where(k, before, wide(k, renamed(k, n, d.axis, m.axis), &pairs)), m.axis);
}

// Earlier positions in the row of the last dim with the same index.
static PmCgId same_before(Make *k, PmCgId idx, PmCgDim d, PmAxisId range) {
  const PmCgDim m = {k->cg->next_axis++, d.extent};
  const PmCgValue shape = *value_of(k, idx), pairs = with(&shape, m);
  const PmCgId before =
      map2(k, PM_S_lt, wide(k, positions(k, m, range), &pairs), wide(k, positions(k, d, range), &pairs));
  const PmCgId same = map2(k, PM_S_eq, wide(k, renamed(k, idx, d.axis, m.axis), &pairs), wide(k, idx, &pairs));
  return count(k, map2(k, PM_S_and, same, before), m.axis);
}

static PmCgId look_up(Make *k, PmCgId table, PmCgId idx, int32_t axis) {
  PmCgNode n = start(k, PM_OP_index);
  PmCgValue v = *value_of(k, idx);
  const PmCgId in[] = {table, idx};
  n.n_axes = 1;
  n.axes[0] = axis;
  v.dtype = value_of(k, table)->dtype;
  return pm_cg_node(k->cg, k->r, &n, in, 2, &v);
}

// Earlier positions with the same index: those that differ first on dim l stand before it there, for each l. Counts by
// index of everything below l are summed over the positions before, and looked up.
static PmCgId earlier(Make *k, PmCgId idx, PmCgDim e, const PmAxisId *range) {
  const PmCgValue shape = *value_of(k, idx);
  const PmCgDim last = shape.dims[shape.rank - 1];
  PmCgId total = same_before(k, idx, last, range[shape.rank - 1]);
  if (shape.rank == 1) return total;
  const PmCgValue table = with(&shape, e);
  const PmCgId element = wide(k, cast(k, positions(k, e, e.axis), PM_K_I32), &table);
  PmCgId n = count(k, map2(k, PM_S_eq, wide(k, idx, &table), element), last.axis);
  for (int32_t l = shape.rank - 2; l >= 0; l--) {
    const PmCgId before = sum_before(k, n, shape.dims[l], range[l]);
    total = map2(k, PM_S_add, total, look_up(k, before, idx, e.axis));
    if (l > 0) n = sum(k, n, shape.dims[l].axis);
  }
  return total;
}

PmCgId pm_cg_lower_slot_of(PmCg *cg, PmCgRegion *r, const PmCgNode *like, PmCgId idx, const PmCgValue *result) {
  Make k = {cg, r, *like};
  const PmAxisId from = like->axes[0];
  const PmCgDim e = {from, pm_axis_size(cg->m, from)};
  const int64_t slots = pm_axis_size(cg->m, like->to[0]) / e.extent;
  PmCgId total, parts = idx;
  Cut cuts[PM_CG_RANK];
  PmAxisId range[PM_CG_RANK];
  int32_t n_cuts = 0, rank = 0;
  if (pm_axis_size(cg->m, like->to[0]) > INT32_MAX) {
    cg->status = PM_STATUS(PM_ERR_LIMIT, "axis %s has %lld slots; kernels count to 2^31", cg->m->axes[like->to[0]].name,
                           (long long)pm_axis_size(cg->m, like->to[0]));
    return idx;
  }
  if (pm_cg_elements(result) >= INT64_C(1) << COUNT_BITS) {
    cg->status = PM_STATUS(PM_ERR_LIMIT, "%lld positions are given slots at once; kernels count them up to 2^%d",
                           (long long)pm_cg_elements(result), COUNT_BITS);
    return idx;
  }
  for (int32_t i = 0; i < result->rank; i++) {
    const PmCgDim d = result->dims[i];
    const int64_t minor = d.extent > LONG_DIM && result->rank + n_cuts < PM_CG_RANK - 3 ? near_root(d.extent) : 1;
    range[rank++] = d.axis;
    if (minor == 1) continue;
    range[rank++] = d.axis;
    cuts[n_cuts] = (Cut){d.axis, cg->next_axis, cg->next_axis + 1, d.extent};
    cg->next_axis += 2;
    parts = cut(&k, parts, &cuts[n_cuts++], minor);
  }
  total = result->rank > 0 ? earlier(&k, parts, e, range) : number(&k, PM_K_F32, 0, result);
  for (int32_t i = 0; i < n_cuts; i++) total = join(&k, total, &cuts[i]);
  total = pm_cg_transpose(cg, r, like, total, result->dims, result->rank);
  const PmCgId inside = map2(&k, PM_S_and, map2(&k, PM_S_ge, idx, number(&k, PM_K_I32, 0, result)),
                             map2(&k, PM_S_lt, idx, number(&k, PM_K_I32, (double)e.extent, result)));
  const PmCgId fits = map2(&k, PM_S_lt, total, number(&k, PM_K_F32, (double)slots, result));
  const PmCgId first = map2(&k, PM_S_mul, idx, number(&k, PM_K_I32, (double)slots, result));
  const PmCgId slot = map2(&k, PM_S_add, first, cast(&k, total, PM_K_I32));
  return map(&k, PM_S_where, map2(&k, PM_S_and, inside, fits), slot, number(&k, PM_K_I32, -1, result));
}
