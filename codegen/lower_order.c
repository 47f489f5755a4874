#include "codegen/lower_order.h"

#include <string.h>

#include "base/assert.h"

typedef struct Make {
  PmCg *cg;
  PmCgRegion *r;
  const PmCgNode *like;
} Make;

PmCgZigzag pm_cg_zigzag(const PmCg *cg, const PmDim *d) {
  const int64_t c = cg->m->mesh[d->split.mesh[0]].size, local = pm_dim_local(cg->m, d);
  PmCgZigzag z = {.chunk = pm_axis_size(cg->m, d->axis) / (2 * c)};
  int64_t stride = local;
  for (int32_t i = d->split.n - 1; i > 0; i--) {
    z.minor.stride[d->split.mesh[i]] = stride;
    stride *= cg->m->mesh[d->split.mesh[i]].size;
  }
  z.early.stride[d->split.mesh[0]] = z.chunk;
  z.late.constant = (2 * c - 2) * z.chunk;
  z.late.stride[d->split.mesh[0]] = -z.chunk;
  return z;
}

static PmCgNode start(const Make *k, PmOp op) {
  return (PmCgNode){.op = op, .loc = k->like->loc, .origin = k->like->origin};
}

static PmCgId wide(const Make *k, PmCgId x, const PmCgDim *dims, int32_t rank) {
  return pm_cg_transpose(k->cg, k->r, k->like, x, dims, rank);
}

static PmCgId renamed(const Make *k, PmCgId x, int32_t from, int32_t to) {
  PmCgNode n = start(k, PM_OP_rename);
  PmCgValue v = k->r->values[x];
  n.n_axes = n.n_to = 1;
  n.axes[0] = from;
  n.to[0] = to;
  v.dims[pm_cg_find_axis(&v, from)].axis = to;
  return pm_cg_node(k->cg, k->r, &n, &x, 1, &v);
}

// offset, offset + 1, ... along d, as exact numbers; `range` is an axis of the module that is at least as long.
static PmCgId positions(const Make *k, PmCgDim d, int32_t range, PmCoordTerm offset) {
  PmCgNode n = start(k, PM_OP_pos);
  PmCgValue v = {.dtype = PM_K_F64, .rank = 1, .def = PM_NONE};
  n.n_axes = 1;
  n.axes[0] = range;
  n.offset = offset;
  v.dims[0] = (PmCgDim){range, d.extent};
  const PmCgId p = pm_cg_node(k->cg, k->r, &n, NULL, 0, &v);
  return d.axis == range ? p : renamed(k, p, range, d.axis);
}

// A number of the rank along d: a position on an axis of one element.
static PmCgId number_of_rank(const Make *k, PmCgDim d, int32_t range, PmCoordTerm value) {
  const int32_t one = k->cg->next_axis++;
  const PmCgId p = positions(k, (PmCgDim){one, 1}, range, value);
  PmCgNode n = start(k, PM_OP_select);
  n.n_axes = 1;
  n.axes[0] = one;
  const PmCgValue scalar = {.dtype = PM_K_F64, .def = PM_NONE};
  return wide(k, pm_cg_node(k->cg, k->r, &n, &p, 1, &scalar), &d, 1);
}

static PmCgId constant(const Make *k, PmCgDim d, double v) {
  PmCgNode n = start(k, PM_OP_const);
  n.number = v;
  const PmCgValue scalar = {.dtype = PM_K_F64, .def = PM_NONE};
  return wide(k, pm_cg_node(k->cg, k->r, &n, NULL, 0, &scalar), &d, 1);
}

static PmCgId map(const Make *k, PmScalar fn, PmCgId a, PmCgId b, PmCgId c) {
  PmCgNode n = start(k, PM_OP_map);
  const PmCgId in[] = {a, b, c};
  PmCgValue v = k->r->values[fn == PM_S_where ? b : a];
  n.fn = fn;
  if (pm_scalar_out(fn) != PM_OUT_SAME) v.dtype = PM_K_BOOL;
  return pm_cg_node(k->cg, k->r, &n, in, pm_scalar_arity(fn), &v);
}

static PmCgId map2(const Make *k, PmScalar fn, PmCgId a, PmCgId b) { return map(k, fn, a, b, PM_NONE); }

PmCgId pm_cg_zigzag_pos(PmCg *cg, PmCgRegion *r, const PmCgNode *like, const PmDim *dim) {
  const Make k = {cg, r, like};
  const PmCgZigzag z = pm_cg_zigzag(cg, dim);
  const PmCgDim d = {dim->axis, pm_dim_local(cg->m, dim)};
  const PmCgId at = positions(&k, d, dim->axis, z.minor);
  const PmCgId is_early = map2(&k, PM_S_lt, at, constant(&k, d, (double)z.chunk));
  const PmCgId shift = map(&k, PM_S_where, is_early, number_of_rank(&k, d, dim->axis, z.early),
                           number_of_rank(&k, d, dim->axis, z.late));
  return map2(&k, PM_S_add, at, shift);
}

// For each chunk of the result the chunk of the operand, as an index. Part p of c has chunks p and 2 c - 1 - p.
static PmCgId chunk_order(const Make *k, PmCgDim d, int32_t range, int64_t ranks, bool apart) {
  const double c = (double)ranks;
  const PmCgId at = positions(k, d, range, (PmCoordTerm){0});
  const PmCgId twice = map2(k, PM_S_mul, at, constant(k, d, 2));
  PmCgId from = map2(k, PM_S_min, twice, map2(k, PM_S_sub, constant(k, d, 4 * c - 1), twice));
  if (apart) {
    const PmCgId part = map(k, PM_S_floor, map2(k, PM_S_mul, at, constant(k, d, 0.5)), PM_NONE, PM_NONE);
    const PmCgId two = map2(k, PM_S_mul, part, constant(k, d, 2));
    const PmCgId is_late = map2(k, PM_S_gt, at, two);
    from = map(k, PM_S_where, is_late, map2(k, PM_S_sub, constant(k, d, 2 * c - 1), part), part);
  }
  PmCgValue v = k->r->values[from];
  v.dtype = PM_K_I32;
  const PmCgNode n = start(k, PM_OP_cast);
  return pm_cg_node(k->cg, k->r, &n, &from, 1, &v);
}

PmCgId pm_cg_reorder(PmCg *cg, PmCgRegion *r, const PmCgNode *like, PmCgId x, int32_t axis, int64_t ranks, bool apart) {
  const Make k = {cg, r, like};
  const PmCgValue whole = r->values[x];
  const int32_t at = pm_cg_find_axis(&whole, axis), from = cg->next_axis++, to = cg->next_axis++;
  const PmCgDim chunks = {from, 2 * ranks}, order = {to, 2 * ranks};
  PmCgValue v = whole;
  PM_ASSERT(v.rank < PM_CG_RANK && v.dims[at].extent % chunks.extent == 0, "an axis that is not of whole chunks");
  memmove(&v.dims[at + 1], &v.dims[at], (size_t)(v.rank - at) * sizeof *v.dims);
  v.dims[at] = chunks;
  v.dims[at + 1].extent /= chunks.extent;
  v.rank++;
  PmCgNode split = start(&k, PM_OP_split);
  split.n_axes = 1;
  split.n_to = 2;
  split.axes[0] = split.to[1] = axis;
  split.to[0] = from;
  const PmCgId cut = pm_cg_node(cg, r, &split, &x, 1, &v);
  PmCgNode index = start(&k, PM_OP_index);
  index.n_axes = 1;
  index.axes[0] = from;
  const PmCgId in[] = {cut, chunk_order(&k, order, axis, ranks, apart)};
  v.dims[at] = order;
  const PmCgId moved = pm_cg_node(cg, r, &index, in, 2, &v);
  PmCgNode merge = start(&k, PM_OP_merge);
  merge.n_axes = 2;
  merge.n_to = 1;
  merge.axes[0] = to;
  merge.axes[1] = merge.to[0] = axis;
  PmCgValue out = whole;
  return pm_cg_node(cg, r, &merge, &moved, 1, &out);
}
