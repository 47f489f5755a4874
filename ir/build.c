#include "ir/build.h"

#include <string.h>

#include "base/assert.h"

// Operand and result types of one node; they live until `types_deinit`.
typedef struct NodeTypes {
  PmType few[8];
  PmType *all;
  PmArena arena;
} NodeTypes;

static PmType *types_init(NodeTypes *t, int32_t n) {
  pm_arena_init(&t->arena, 0);
  t->all = n <= (int32_t)(sizeof t->few / sizeof *t->few) ? t->few : PM_NEW_N(&t->arena, PmType, n);
  return t->all;
}

static void types_deinit(NodeTypes *t) { pm_arena_deinit(&t->arena); }

static PmValueId add_values(PmBuilder *b, const PmType *types, int32_t n, int32_t def) {
  PmFn *f = pm_fn(b->m, b->fn);
  PmValueId first = f->n_values;
  for (int32_t i = 0; i < n; i++) {
    f->values = pm_grow(b->m->arena, f->values, f->n_values, &f->cap_values, sizeof *f->values);
    f->values[f->n_values++] = (PmValue){.type = types[i], .def = def};
  }
  return first;
}

PmValueId pm_b_param(PmBuilder *b, PmType type, const char *name) {
  PmFn *f = pm_fn(b->m, b->fn);
  PM_ASSERT(f->n_nodes == 0 && f->n_values == f->n_params, "%s: a parameter after nodes", f->name);
  PmValueId v = add_values(b, &type, 1, PM_NONE);
  f->n_params++;
  if (name) f->values[v].name = pm_intern(b->m->names, name);
  return v;
}

PmValueId pm_b_node(PmBuilder *b, PmOp op, const PmAttr *attr, const PmValueId *in, int32_t n, const PmType *given) {
  PmFn *f = pm_fn(b->m, b->fn);
  int32_t n_out = pm_infer_n_out(b->m, op, attr, n);
  NodeTypes scratch;
  PmType *types = types_init(&scratch, n + n_out);
  for (int32_t i = 0; i < n; i++) {
    PM_ASSERT(in[i] >= 0 && in[i] < f->n_values, "%s: operand %d of `%s` is no value", f->name, i, pm_op_name(op));
    types[i] = f->values[in[i]].type;
  }
  PmBuf why;
  pm_buf_init(&why);
  bool ok = pm_infer(b->m, op, attr, types, n, given, types + n, n_out, &why);
  PM_ASSERT(ok, "%s: `%s` at %s:%d: %s", f->name, pm_op_name(op), b->loc.path ? b->loc.path : "-", b->loc.line,
            pm_buf_str(&why));
  pm_buf_deinit(&why);
  f->nodes = pm_grow(b->m->arena, f->nodes, f->n_nodes, &f->cap_nodes, sizeof *f->nodes);
  PmNode *node = &f->nodes[f->n_nodes];
  *node = (PmNode){.op = op, .n_in = n, .n_out = n_out, .attr = *attr, .loc = b->loc};
  node->in = PM_NEW_N(b->m->arena, PmValueId, n);
  if (n) memcpy(node->in, in, (size_t)n * sizeof *in);
  node->out = add_values(b, types + n, n_out, f->n_nodes++);
  types_deinit(&scratch);
  return node->out;
}

PmValueId pm_b_const(PmBuilder *b, PmDtype dtype, double v) {
  PmType t = pm_type_scalar(dtype);
  return pm_b_node(b, PM_OP_const, &(PmAttr){.number = v}, NULL, 0, &t);
}

PmValueId pm_b_pos(PmBuilder *b, PmAxisId axis) {
  return pm_b_node(b, PM_OP_pos, &(PmAttr){.n_axes = 1, .axes = {axis}}, NULL, 0, NULL);
}

PmValueId pm_b_broadcast(PmBuilder *b, PmValueId x, PmType to) {
  const PmType *t = pm_b_type(b, x);
  bool equal = t->rank == to.rank;
  for (int32_t i = 0; equal && i < t->rank; i++) {
    equal = t->dims[i].axis == to.dims[i].axis && pm_split_equal(&t->dims[i].split, &to.dims[i].split);
  }
  return equal ? x : pm_b_node(b, PM_OP_broadcast, &(PmAttr){0}, &x, 1, &to);
}

PmValueId pm_b_cast(PmBuilder *b, PmValueId x, PmDtype to) {
  if (pm_b_type(b, x)->dtype == to) return x;
  PmType t = pm_type_scalar(to);
  return pm_b_node(b, PM_OP_cast, &(PmAttr){0}, &x, 1, &t);
}

PmValueId pm_b_map(PmBuilder *b, PmScalar fn, const PmValueId *in, int32_t n) {
  return pm_b_node(b, PM_OP_map, &(PmAttr){.fn = fn}, in, n, NULL);
}

PmValueId pm_b_map1(PmBuilder *b, PmScalar fn, PmValueId a) { return pm_b_map(b, fn, &a, 1); }

PmValueId pm_b_map2(PmBuilder *b, PmScalar fn, PmValueId a, PmValueId c) {
  return pm_b_map(b, fn, (PmValueId[]){a, c}, 2);
}

PmValueId pm_b_map3(PmBuilder *b, PmScalar fn, PmValueId a, PmValueId c, PmValueId d) {
  return pm_b_map(b, fn, (PmValueId[]){a, c, d}, 3);
}

PmValueId pm_b_mapb(PmBuilder *b, PmScalar fn, const PmValueId *in, int32_t n) {
  PM_ASSERT(n >= 1 && n <= 3, "`%s` of %d operands", pm_scalar_name(fn), n);
  PmType widest = *pm_b_type(b, in[0]);
  for (int32_t i = 1; i < n; i++) {
    if (pm_b_type(b, in[i])->rank > widest.rank) widest = *pm_b_type(b, in[i]);
  }
  PmValueId wide[3];
  for (int32_t i = 0; i < n; i++) {
    wide[i] = pm_b_type(b, in[i])->rank < widest.rank ? pm_b_broadcast(b, in[i], widest) : in[i];
  }
  return pm_b_map(b, fn, wide, n);
}

static void put_axes(uint8_t *out_n, PmAxisId *out, const PmAxisId *axes, int32_t n) {
  PM_ASSERT(n >= 0 && n <= PM_MAX_RANK, "%d axes", n);
  *out_n = (uint8_t)n;
  if (n) memcpy(out, axes, (size_t)n * sizeof *axes);
}

PmValueId pm_b_dot(PmBuilder *b, PmValueId x, PmValueId y, const PmAxisId *axes, int32_t n) {
  PmAttr a = {0};
  put_axes(&a.n_axes, a.axes, axes, n);
  return pm_b_node(b, PM_OP_dot, &a, (PmValueId[]){x, y}, 2, NULL);
}

PmValueId pm_b_dot_f32(PmBuilder *b, PmValueId x, PmValueId y, const PmAxisId *axes, int32_t n) {
  const PmType wide = pm_type_scalar(PM_F32);
  PmAttr a = {0};
  put_axes(&a.n_axes, a.axes, axes, n);
  return pm_b_node(b, PM_OP_dot, &a, (PmValueId[]){x, y}, 2, &wide);
}

PmValueId pm_b_reduce(PmBuilder *b, PmReduceKind kind, PmValueId x, const PmAxisId *axes, int32_t n) {
  PmAttr a = {.kind = kind};
  put_axes(&a.n_axes, a.axes, axes, n);
  return pm_b_node(b, PM_OP_reduce, &a, &x, 1, NULL);
}

PmValueId pm_b_rename(PmBuilder *b, PmValueId x, const PmAxisId *from, const PmAxisId *to, int32_t n) {
  PmAttr a = {0};
  put_axes(&a.n_axes, a.axes, from, n);
  put_axes(&a.n_to, a.to, to, n);
  return pm_b_node(b, PM_OP_rename, &a, &x, 1, NULL);
}

PmValueId pm_b_split(PmBuilder *b, PmValueId x, PmAxisId from, const PmAxisId *to, int32_t n) {
  PmAttr a = {.n_axes = 1, .axes = {from}};
  put_axes(&a.n_to, a.to, to, n);
  return pm_b_node(b, PM_OP_split, &a, &x, 1, NULL);
}

PmValueId pm_b_merge(PmBuilder *b, PmValueId x, const PmAxisId *from, int32_t n, PmAxisId to) {
  PmAttr a = {.n_to = 1, .to = {to}};
  put_axes(&a.n_axes, a.axes, from, n);
  return pm_b_node(b, PM_OP_merge, &a, &x, 1, NULL);
}

PmValueId pm_b_stack(PmBuilder *b, const PmValueId *in, int32_t n, PmAxisId axis) {
  return pm_b_node(b, PM_OP_stack, &(PmAttr){.n_to = 1, .to = {axis}}, in, n, NULL);
}

PmValueId pm_b_select(PmBuilder *b, PmValueId x, PmAxisId axis, int64_t index) {
  return pm_b_node(b, PM_OP_select, &(PmAttr){.index = index, .n_axes = 1, .axes = {axis}}, &x, 1, NULL);
}

PmValueId pm_b_index(PmBuilder *b, PmValueId table, PmValueId idx, PmAxisId axis) {
  return pm_b_node(b, PM_OP_index, &(PmAttr){.n_axes = 1, .axes = {axis}}, (PmValueId[]){table, idx}, 2, NULL);
}

PmValueId pm_b_scatter_add(PmBuilder *b, PmValueId idx, PmValueId updates, PmAxisId axis, PmType to) {
  return pm_b_node(b, PM_OP_scatter_add, &(PmAttr){.n_axes = 1, .axes = {axis}}, (PmValueId[]){idx, updates}, 2, &to);
}

PmValueId pm_b_call(PmBuilder *b, PmFnId callee, const PmValueId *in, int32_t n) {
  return pm_b_node(b, PM_OP_call, &(PmAttr){.callee = callee}, in, n, NULL);
}

PmValueId pm_b_repeat(PmBuilder *b, PmFnId callee, PmAxisId axis, int32_t n_carry, int32_t n_inv, bool reverse,
                      const PmValueId *in, int32_t n) {
  PmAttr a = {.callee = callee, .n_carry = n_carry, .n_inv = n_inv, .reverse = reverse, .n_axes = 1, .axes = {axis}};
  return pm_b_node(b, PM_OP_repeat, &a, in, n, NULL);
}

void pm_b_results(PmBuilder *b, const PmValueId *results, int32_t n) {
  PmFn *f = pm_fn(b->m, b->fn);
  for (int32_t i = 0; i < n; i++) {
    PM_ASSERT(results[i] >= 0 && results[i] < f->n_values, "%s: result %d is no value", f->name, i);
  }
  f->results = PM_NEW_N(b->m->arena, PmValueId, n);
  if (n) memcpy(f->results, results, (size_t)n * sizeof *results);
  f->n_results = n;
}

void pm_b_name(PmBuilder *b, PmValueId v, const char *name, bool bound) {
  PmFn *f = pm_fn(b->m, b->fn);
  PM_ASSERT(v >= 0 && v < f->n_values, "%s: %d is no value", f->name, v);
  f->values[v].name = name ? pm_intern(b->m->names, name) : NULL;
  f->values[v].bound = bound;
}

const PmType *pm_b_type(const PmBuilder *b, PmValueId v) {
  const PmFn *f = pm_fn(b->m, b->fn);
  PM_ASSERT(v >= 0 && v < f->n_values, "%s: %d is no value", f->name, v);
  return &f->values[v].type;
}
