// topk as sums over comparisons, in nodes that fuse like any others: no kernel of its own, no order of threads that
// results could depend on. All numbers are counts in f32, exact below 2^24. slot_of counts in steps of its own.
#include "codegen/lower_routing.h"

#include <string.h>

#include "base/assert.h"

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
  const PmCgId own_place = wide(&k, positions(&k, e, from), &pairs);
  const PmCgId first = map2(&k, PM_S_lt, wide(&k, positions(&k, f, from), &pairs), own_place);
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
PmCgId pm_cg_lower_slot_of(PmCgLower *lw, const PmNode *n, const PmCgNode *like, PmCgId idx, const PmCgValue *result) {
  const PmModule *m = lw->cg->m;
  const PmAxisId from = n->attr.axes[0];
  if (pm_axis_size(m, n->attr.to[0]) > INT32_MAX || pm_cg_elements(result) > INT32_MAX) {
    lw->cg->status = PM_STATUS(PM_ERR_LIMIT, "axis %s has %lld slots for %lld positions; slots are counted to 2^31",
                               m->axes[n->attr.to[0]].name, (long long)pm_axis_size(m, n->attr.to[0]),
                               (long long)pm_cg_elements(result));
    return idx;
  }
  PmCgId in[2] = {idx, PM_NONE};
  PmCgNode number = *like;
  number.index = n->attr.bounded;
  if (pm_mesh_group(m, n->attr.mesh, n->attr.n_mesh) == 1) return pm_cg_node(lw->cg, lw->r, &number, in, 1, result);
  PmCgNode counting = *like;
  counting.n_to = 0;
  memset(counting.to, 0, sizeof counting.to);
  const PmCgValue counts = {.dtype = PM_K_I32, .rank = 1, .dims = {{from, pm_axis_size(m, from)}}, .def = PM_NONE};
  number.n_mesh = n->attr.n_mesh;
  memcpy(number.mesh, n->attr.mesh, sizeof n->attr.mesh);
  in[1] = pm_cg_gather_members(lw, &number, pm_cg_node(lw->cg, lw->r, &counting, &idx, 1, &counts));
  return pm_cg_node(lw->cg, lw->r, &number, in, 2, result);
}
