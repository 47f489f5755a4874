// Collectives exchange contiguous elements, blocks in member order. What lies otherwise is split, transposed and merged
// around them by ordinary nodes, which are views or become (parts of) kernels.
#include <string.h>

#include "base/assert.h"
#include "codegen/lower_order.h"

typedef struct Coll {
  PmCg *cg;
  PmCgRegion *r;
  PmCgNode node;
  int64_t group;
  int32_t member;  // axis over the members
} Coll;

static int32_t add_member(PmCg *cg) {
  cg->members = pm_grow(cg->arena, cg->members, cg->n_members, &cg->cap_members, sizeof *cg->members);
  return cg->members[cg->n_members++] = cg->next_axis++;
}

static PmCgId exchange(Coll *c, PmCgId x, const PmCgValue *v) {
  PmCgNode n = c->node;
  n.n_axes = n.n_to = 0;
  return pm_cg_node(c->cg, c->r, &n, &x, 1, v);
}

// x with dim `at` cut into (member, rest), the member axis first.
static PmCgId cut(Coll *c, PmCgId x, int32_t at) {
  PmCgValue v = c->r->values[x];
  const int32_t axis = v.dims[at].axis;
  PmCgNode n = {.op = PM_OP_split, .loc = c->node.loc, .origin = c->node.origin, .n_axes = 1, .n_to = 2};
  n.axes[0] = axis;
  n.to[0] = c->member;
  n.to[1] = axis;
  PM_ASSERT(v.rank < PM_CG_RANK && v.dims[at].extent % c->group == 0, "a collective cuts an axis unevenly");
  memmove(&v.dims[at + 1], &v.dims[at], (size_t)(v.rank - at) * sizeof *v.dims);
  v.dims[at] = (PmCgDim){c->member, c->group};
  v.dims[at + 1].extent /= c->group;
  v.rank++;
  const PmCgId s = pm_cg_node(c->cg, c->r, &n, &x, 1, &v);
  PmCgDim order[PM_CG_RANK];
  order[0] = v.dims[at];
  memcpy(&order[1], v.dims, (size_t)at * sizeof *order);
  memcpy(&order[at + 1], &v.dims[at + 1], (size_t)(v.rank - at - 1) * sizeof *order);
  return pm_cg_transpose(c->cg, c->r, &c->node, s, order, v.rank);
}

// The leading member axis of x merged into `axis`.
static PmCgId join(Coll *c, PmCgId x, int32_t axis, const PmCgValue *result) {
  const PmCgValue *v = &c->r->values[x];
  PmCgNode n = {.op = PM_OP_merge, .loc = c->node.loc, .origin = c->node.origin, .n_axes = 2, .n_to = 1};
  n.axes[0] = c->member;
  n.axes[1] = n.to[0] = axis;
  PmCgValue merged = {.dtype = result->dtype, .def = PM_NONE};  // merged at the place of the major part, the first
  merged.dims[merged.rank++] = (PmCgDim){axis, v->dims[pm_cg_find_axis(v, axis)].extent * c->group};
  for (int32_t i = 1; i < v->rank; i++)
    if (v->dims[i].axis != axis) merged.dims[merged.rank++] = v->dims[i];
  const PmCgId y = pm_cg_node(c->cg, c->r, &n, &x, 1, &merged);
  return pm_cg_transpose(c->cg, c->r, &c->node, y, result->dims, result->rank);
}

static PmCgValue with_member(const Coll *c, const PmCgValue *x) {
  PmCgValue v = *x;
  PM_ASSERT(v.rank < PM_CG_RANK, "a collective on %d axes", v.rank);
  memmove(&v.dims[1], &v.dims[0], (size_t)v.rank * sizeof *v.dims);
  v.dims[0] = (PmCgDim){c->member, c->group};
  v.rank++;
  return v;
}

// What is to be split in zigzag over the group, with the ranks' parts one after the other.
static PmCgId set_apart(Coll *c, const PmNode *n, PmCgId x, int32_t axis) {
  return n->attr.zigzag ? pm_cg_reorder(c->cg, c->r, &c->node, x, axis, c->group, true) : x;
}

// The other way round for what was split so and is whole now.
static PmCgId put_together(Coll *c, const PmFn *fn, const PmNode *n, PmCgId x) {
  const PmType *from = &fn->values[n->in[0]].type, *to = &fn->values[n->out].type;
  const PmAxisId axis = n->attr.axes[0];
  const bool ordered = pm_split_is_zigzag(&from->dims[pm_type_find(from, axis)].split);
  if (!ordered || to->dims[pm_type_find(to, axis)].split.n > 0) return x;
  return pm_cg_reorder(c->cg, c->r, &c->node, x, axis, c->group, false);
}

PmCgId pm_cg_lower_collective(PmCgLower *lw, const PmNode *n, PmCgNode node, PmCgId in, const PmCgValue *result) {
  Coll c = {.cg = lw->cg, .r = lw->r, .node = node};
  c.group = pm_mesh_group(lw->cg->m, n->attr.mesh, n->attr.n_mesh);
  if (c.group == 1) return in;
  c.member = add_member(lw->cg);
  const PmCgValue x = lw->r->values[in];
  const int32_t axis = n->attr.axes[0];
  switch (n->op) {
    case PM_OP_all_gather: {
      const PmCgValue gathered = with_member(&c, &x);
      return put_together(&c, lw->fn, n, join(&c, exchange(&c, in, &gathered), axis, result));
    }
    case PM_OP_reduce_scatter: {
      const PmCgId parts = cut(&c, set_apart(&c, n, in, axis), pm_cg_find_axis(&x, axis));
      return exchange(&c, parts, result);
    }
    case PM_OP_all_to_all: {
      const PmCgId parts = cut(&c, set_apart(&c, n, in, n->attr.to[0]), pm_cg_find_axis(&x, n->attr.to[0]));
      const PmCgValue moved = lw->r->values[parts];
      return put_together(&c, lw->fn, n, join(&c, exchange(&c, parts, &moved), axis, result));
    }
    default:
      return exchange(&c, in, result);
  }
}

PmCgId pm_cg_gather_members(PmCgLower *lw, const PmCgNode *like, PmCgId x) {
  Coll c = {.cg = lw->cg, .r = lw->r, .node = *like, .member = add_member(lw->cg)};
  c.group = pm_mesh_group(lw->cg->m, like->mesh, like->n_mesh);
  c.node.op = PM_OP_all_gather;
  c.node.index = 0;
  const PmCgValue v = lw->r->values[x], gathered = with_member(&c, &v);
  return exchange(&c, x, &gathered);
}

// ---- exchanges of rows ---------------------------------------------------------------------------------------------
static bool is_row_axis(const PmNode *n, int32_t axis) {
  for (int32_t i = 0; i < n->attr.n_axes; i++)
    if (n->attr.axes[i] == axis) return true;
  return false;
}

static const PmRows *rows_of(const PmCgLower *lw, const PmNode *n, const PmType *table) {
  PmRows *rows = PM_NEW(lw->cg->arena, PmRows);
  rows->n_dims = n->attr.n_axes;
  for (int32_t i = 0; i < rows->n_dims; i++) {
    const PmDim *d = &table->dims[pm_type_find(table, n->attr.axes[i])];
    rows->dims[i].size = pm_axis_size(lw->cg->m, d->axis);
    rows->dims[i].local = pm_dim_local(lw->cg->m, d);
    rows->dims[i].first = pm_cg_offset(lw->cg, d);
  }
  return rows;
}

// `out` with the dims of `rest` behind its own, in the order of `result`, where neither is a row or a position.
static void add_rest(const PmNode *n, const PmCgValue *idx, const PmCgValue *result, PmCgValue *out) {
  for (int32_t i = 0; i < result->rank; i++) {
    const PmCgDim d = result->dims[i];
    if (!is_row_axis(n, d.axis) && pm_cg_find_axis(idx, d.axis) == PM_NONE) out->dims[out->rank++] = d;
  }
}

PmCgId pm_cg_lower_rows(PmCgLower *lw, const PmNode *n, PmCgNode node, PmCgId src, PmCgId idx,
                        const PmCgValue *result) {
  const bool gathers = n->op == PM_OP_gather_rows;
  const PmType *table = &lw->fn->values[gathers ? n->in[0] : n->out].type;
  const PmCgValue at = lw->r->values[idx];
  PmCgValue moved = {.dtype = result->dtype, .def = PM_NONE}, rows = moved;
  node.rows = rows_of(lw, n, table);
  for (int32_t i = 0; i < node.rows->n_dims; i++)
    rows.dims[rows.rank++] = (PmCgDim){n->attr.axes[i], node.rows->dims[i].local};
  for (int32_t i = 0; i < at.rank; i++) moved.dims[moved.rank++] = at.dims[i];
  add_rest(n, &at, result, &rows);
  add_rest(n, &at, result, &moved);
  const PmCgValue *from = gathers ? &rows : &moved;
  const PmCgId in[] = {pm_cg_transpose(lw->cg, lw->r, &node, src, from->dims, from->rank), idx};
  node.n_axes = node.n_to = 0;
  const PmCgId out = pm_cg_node(lw->cg, lw->r, &node, in, 2, gathers ? &moved : &rows);
  return pm_cg_transpose(lw->cg, lw->r, &node, out, result->dims, result->rank);
}
