// One hook an op: how it enters a region. Column EMIT of ir/ops.def.
#include <string.h>

#include "codegen/lower_order.h"
#include "codegen/lower_routing.h"

static PmCgNode start(const PmCgLower *lw, const PmNode *n) {
  PmCgNode c = {.op = n->op, .fn = n->attr.fn, .kind = n->attr.kind, .origin = lw->origin};
  c.loc = lw->loc >= 0 ? lw->loc : pm_cg_loc(lw->cg, n->loc);
  c.n_axes = n->attr.n_axes;
  c.n_to = n->attr.n_to;
  for (int32_t i = 0; i < c.n_axes; i++) c.axes[i] = n->attr.axes[i];
  for (int32_t i = 0; i < c.n_to; i++) c.to[i] = n->attr.to[i];
  return c;
}

static const PmType *result_type(const PmCgLower *lw, const PmNode *n) { return &lw->fn->values[n->out].type; }

static const PmType *operand_type(const PmCgLower *lw, const PmNode *n, int32_t i) {
  return &lw->fn->values[n->in[i]].type;
}

static void finish(PmCgLower *lw, const PmNode *n, const PmCgNode *c) {
  PmCgId *in = PM_NEW_N(lw->cg->arena, PmCgId, n->n_in + 1);
  for (int32_t i = 0; i < n->n_in; i++) in[i] = lw->env[n->in[i]];
  const PmCgValue v = pm_cg_local(lw->cg, result_type(lw, n));
  lw->env[n->out] = pm_cg_node(lw->cg, lw->r, c, in, n->n_in, &v);
}

static void emit_const(PmCgLower *lw, const PmNode *n) {
  PmCgNode c = start(lw, n);
  c.number = n->attr.number;
  finish(lw, n, &c);
}

static void emit_pos(PmCgLower *lw, const PmNode *n) {
  PmCgNode c = start(lw, n);
  const PmDim *d = &result_type(lw, n)->dims[0];
  if (pm_split_is_zigzag(&d->split)) {
    lw->env[n->out] = pm_cg_zigzag_pos(lw->cg, lw->r, &c, d);
    return;
  }
  c.offset = pm_cg_offset(lw->cg, d);
  finish(lw, n, &c);
}

static void emit_random(PmCgLower *lw, const PmNode *n) {
  const PmModule *m = lw->cg->m;
  const PmType *t = result_type(lw, n);
  PmCgDraw *draw = PM_NEW(lw->cg->arena, PmCgDraw);
  draw->key = pm_random_stream(m, n->attr.index);
  double stride = 1;
  for (int32_t i = t->rank - 1; i >= 0; i--) {
    if (pm_split_is_zigzag(&t->dims[i].split)) {
      const PmCgZigzag z = pm_cg_zigzag(lw->cg, &t->dims[i]);
      draw->offset[i] = z.minor;
      draw->chunk[i] = z.chunk;
      draw->early[i] = z.early;
      draw->late[i] = z.late;
    } else {
      draw->offset[i] = pm_cg_offset(lw->cg, &t->dims[i]);
    }
    draw->stride[i] = stride;
    stride *= (double)pm_axis_logical(m, t->dims[i].axis);
  }
  for (int32_t i = n->attr.n_axes - 1; i >= 0; i--) {
    draw->turn_stride[i] = stride;
    stride *= (double)pm_axis_logical(m, n->attr.axes[i]);
  }
  PmCgNode c = start(lw, n);
  c.draw = draw;
  finish(lw, n, &c);
}

PmCgId pm_cg_transpose(PmCg *cg, PmCgRegion *r, const PmCgNode *like, PmCgId x, const PmCgDim *dims, int32_t rank) {
  PmCgValue v = r->values[x];
  bool same = v.rank == rank;
  for (int32_t i = 0; same && i < rank; i++) same = v.dims[i].axis == dims[i].axis;
  if (same) return x;
  PmCgNode c = {.op = PM_OP_broadcast, .loc = like->loc, .origin = like->origin};
  v.rank = rank;
  memcpy(v.dims, dims, (size_t)rank * sizeof *dims);
  return pm_cg_node(cg, r, &c, &x, 1, &v);
}

static void emit_broadcast(PmCgLower *lw, const PmNode *n) {
  const PmCgNode c = start(lw, n);
  const PmCgValue v = pm_cg_local(lw->cg, result_type(lw, n));
  lw->env[n->out] = pm_cg_transpose(lw->cg, lw->r, &c, lw->env[n->in[0]], v.dims, v.rank);
}

static void emit_cast(PmCgLower *lw, const PmNode *n) {
  const PmCgNode c = start(lw, n);
  const PmCgValue v = pm_cg_local(lw->cg, result_type(lw, n));
  if (v.dtype == lw->r->values[lw->env[n->in[0]]].dtype)
    lw->env[n->out] = lw->env[n->in[0]];
  else
    finish(lw, n, &c);
}

static void emit_map(PmCgLower *lw, const PmNode *n) {
  const PmCgNode c = start(lw, n);
  finish(lw, n, &c);
}

static PmCgId cast_to(PmCgLower *lw, const PmCgNode *like, PmCgId x, uint8_t dtype) {
  const PmCgNode c = {.op = PM_OP_cast, .loc = like->loc, .origin = like->origin};
  PmCgValue v = lw->r->values[x];
  if (v.dtype == dtype) return x;
  v.dtype = dtype;
  return pm_cg_node(lw->cg, lw->r, &c, &x, 1, &v);
}

// Matrix products and scattered sums run in f32 (f64) on operands of that dtype: half types become it before, and their
// sums are rounded once behind.
static void finish_wide(PmCgLower *lw, const PmNode *n, const PmCgNode *c, int32_t first) {
  PmCgId in[2] = {lw->env[n->in[0]], lw->env[n->in[1]]};
  PmCgValue v = pm_cg_local(lw->cg, result_type(lw, n));
  const uint8_t dtype = v.dtype;
  v.dtype = (uint8_t)pm_kdtype_value((PmKDtype)dtype);
  for (int32_t i = first; i < 2; i++) in[i] = cast_to(lw, c, in[i], v.dtype);
  lw->env[n->out] = cast_to(lw, c, pm_cg_node(lw->cg, lw->r, c, in, 2, &v), dtype);
}

static void emit_dot(PmCgLower *lw, const PmNode *n) {
  const PmCgNode c = start(lw, n);
  finish_wide(lw, n, &c, 0);
}

// A large reduction to a number goes over rows first: rows run in parallel, and partial sums stay short.
static void emit_reduce(PmCgLower *lw, const PmNode *n) {
  enum { LARGE = 1 << 15 };
  PmCgNode c = start(lw, n);
  const PmCgId x = lw->env[n->in[0]];
  PmCgValue rows = lw->r->values[x];
  int32_t lead = 0;
  while (lead + 1 < rows.rank && rows.dims[lead].extent == 1) lead++;
  if (c.n_axes == rows.rank && lead + 1 < rows.rank && pm_cg_elements(&rows) > LARGE) {
    const int32_t axis = rows.dims[lead].axis;
    PmCgNode first = c;
    first.n_axes = 0;
    for (int32_t i = 0; i < c.n_axes; i++)
      if (c.axes[i] != axis) first.axes[first.n_axes++] = c.axes[i];
    rows.dims[0] = rows.dims[lead];
    rows.rank = 1;
    rows.dtype = (uint8_t)pm_kdtype_value((PmKDtype)rows.dtype);
    const PmCgId partial = pm_cg_node(lw->cg, lw->r, &first, &x, 1, &rows);
    c.n_axes = 1;
    c.axes[0] = axis;
    const PmCgValue v = pm_cg_local(lw->cg, result_type(lw, n));
    lw->env[n->out] = pm_cg_node(lw->cg, lw->r, &c, &partial, 1, &v);
    return;
  }
  finish(lw, n, &c);
}

static void emit_merge(PmCgLower *lw, const PmNode *n) {
  const PmCgNode c = start(lw, n);
  finish(lw, n, &c);
}

// On one rank only the name changes.
static void emit_local(PmCgLower *lw, const PmNode *n) {
  PmCgNode c = start(lw, n);
  c.op = PM_OP_rename;
  finish(lw, n, &c);
}

static void emit_rename(PmCgLower *lw, const PmNode *n) {
  const PmCgNode c = start(lw, n);
  finish(lw, n, &c);
}

static void emit_split(PmCgLower *lw, const PmNode *n) {
  const PmCgNode c = start(lw, n);
  finish(lw, n, &c);
}

static void emit_select(PmCgLower *lw, const PmNode *n) {
  PmCgNode c = start(lw, n);
  c.index = n->attr.index;
  finish(lw, n, &c);
}

static void emit_stack(PmCgLower *lw, const PmNode *n) {
  const PmCgNode c = start(lw, n);
  finish(lw, n, &c);
}

static void emit_slice(PmCgLower *lw, const PmNode *n) {
  PmCgNode c = start(lw, n);
  const PmType *t = result_type(lw, n);
  PmCgId x = lw->env[n->in[0]];
  if (n->attr.zigzag)
    x = pm_cg_reorder(lw->cg, lw->r, &c, x, n->attr.axes[0], lw->cg->m->mesh[n->attr.mesh[0]].size, true);
  // Offset within what the rank already holds: by the coordinates over the new mesh axes alone.
  int64_t stride = pm_dim_local(lw->cg->m, &t->dims[pm_type_find(t, n->attr.axes[0])]);
  for (int32_t i = n->attr.n_mesh - 1; i >= 0; i--) {
    c.offset.stride[n->attr.mesh[i]] = stride;
    stride *= lw->cg->m->mesh[n->attr.mesh[i]].size;
  }
  const PmCgValue v = pm_cg_local(lw->cg, t);
  lw->env[n->out] = pm_cg_node(lw->cg, lw->r, &c, &x, 1, &v);
}

static void emit_index(PmCgLower *lw, const PmNode *n) {
  PmCgNode c = start(lw, n);
  const PmType *t = operand_type(lw, n, 0);
  c.offset = pm_cg_offset(lw->cg, &t->dims[pm_type_find(t, n->attr.axes[0])]);
  finish(lw, n, &c);
}

static void emit_scatter_add(PmCgLower *lw, const PmNode *n) {
  PmCgNode c = start(lw, n);
  const PmType *t = result_type(lw, n);
  c.offset = pm_cg_offset(lw->cg, &t->dims[pm_type_find(t, n->attr.axes[0])]);
  finish_wide(lw, n, &c, 1);
}

static void emit_slot_of(PmCgLower *lw, const PmNode *n) {
  const PmCgNode c = start(lw, n);
  const PmCgValue v = pm_cg_local(lw->cg, result_type(lw, n));
  lw->env[n->out] = pm_cg_lower_slot_of(lw, n, &c, lw->env[n->in[0]], &v);
}

static void emit_topk(PmCgLower *lw, const PmNode *n) {
  const PmCgNode c = start(lw, n);
  const PmCgValue v = pm_cg_local(lw->cg, result_type(lw, n));
  lw->env[n->out] = pm_cg_lower_topk(lw->cg, lw->r, &c, lw->env[n->in[0]], &v);
}

static void emit_call(PmCgLower *lw, const PmNode *n) {
  const PmFn *callee = pm_fn(lw->cg->m, n->attr.callee);
  PmCgLower in = {.cg = lw->cg, .r = lw->r, .fn = callee, .origin = lw->origin, .loc = lw->loc};
  in.env = PM_NEW_N(lw->cg->arena, PmCgId, callee->n_values + 1);
  if (!in.origin && callee->base) {
    in.origin = callee->base;
    in.loc = pm_cg_loc(lw->cg, n->loc);
  }
  for (int32_t i = 0; i < callee->n_params; i++) in.env[i] = lw->env[n->in[i]];
  pm_cg_lower_body(&in);
  for (int32_t i = 0; i < callee->n_results && !lw->cg->status; i++) lw->env[n->out + i] = in.env[callee->results[i]];
}

// Further results of the node that makes `first`, which is the first.
static void add_results(PmCgLower *lw, const PmNode *n, PmCgId first) {
  PmCgNode *made = &lw->r->nodes[lw->r->values[first].def];
  for (int32_t i = made->n_out; i < n->n_out; i++) {
    PmCgValue v = pm_cg_local(lw->cg, &lw->fn->values[n->out + i].type);
    v.def = lw->r->values[first].def;
    pm_cg_value(lw->cg, lw->r, &v);
    made->n_out++;
  }
  for (int32_t i = 0; i < n->n_out; i++) lw->env[n->out + i] = first + i;
}

static void emit_repeat(PmCgLower *lw, const PmNode *n) {
  PmCgNode c = start(lw, n);
  PmCgRegion *body;
  if ((lw->cg->status = pm_cg_build(lw->cg, n->attr.callee, &body))) return;
  c.body = body;
  c.n_carry = n->attr.n_carry;
  c.n_inv = n->attr.n_inv;
  c.reverse = n->attr.reverse;
  c.index = pm_axis_size(lw->cg->m, n->attr.axes[0]);
  finish(lw, n, &c);
  add_results(lw, n, lw->env[n->out]);
}

// A bucket: operands and results lie contiguous, each by itself.
static void emit_bucket(PmCgLower *lw, const PmNode *n, const PmCgNode *c) {
  PmCgId *in = PM_NEW_N(lw->cg->arena, PmCgId, n->n_in);
  for (int32_t i = 0; i < n->n_in; i++) lw->env[n->out + i] = in[i] = lw->env[n->in[i]];
  if (pm_mesh_group(lw->cg->m, n->attr.mesh, n->attr.n_mesh) == 1) return;
  const PmCgValue v = pm_cg_local(lw->cg, result_type(lw, n));
  add_results(lw, n, pm_cg_node(lw->cg, lw->r, c, in, n->n_in, &v));
}

static void emit_collective(PmCgLower *lw, const PmNode *n) {
  PmCgNode c = start(lw, n);
  c.n_mesh = n->attr.n_mesh;
  memcpy(c.mesh, n->attr.mesh, sizeof c.mesh);
  PmPermute p;
  if (n->op == PM_OP_permute && pm_permute_orders(lw->cg->m, &lw->fn->values[n->in[0]].type, result_type(lw, n), &p))
    memcpy(c.mesh_to, p.to, (size_t)p.n);
  if (n->n_in > 1) {
    emit_bucket(lw, n, &c);
    return;
  }
  const PmCgValue v = pm_cg_local(lw->cg, result_type(lw, n));
  lw->env[n->out] = pm_cg_lower_collective(lw, n, c, lw->env[n->in[0]], &v);
}

static void emit_rows(PmCgLower *lw, const PmNode *n) {
  PmCgNode c = start(lw, n);
  const bool gathers = n->op == PM_OP_gather_rows;
  c.n_mesh = n->attr.n_mesh;
  memcpy(c.mesh, n->attr.mesh, sizeof c.mesh);
  const PmCgValue v = pm_cg_local(lw->cg, result_type(lw, n));
  lw->env[n->out] = pm_cg_lower_rows(lw, n, c, lw->env[n->in[gathers ? 0 : 1]], lw->env[n->in[gathers ? 1 : 0]], &v);
}

void pm_cg_lower_node(PmCgLower *lw, const PmNode *n) {
  typedef void Hook(PmCgLower *, const PmNode *);
  static Hook *const hooks[] = {
#define EMIT(fn) emit_##fn,
#include "ir/ops.def"
  };
  hooks[n->op](lw, n);
}
