// Rules over axes: views of views, broadcasts of broadcasts. They move elements, never change them, so each is exact;
// the requirements of simplify_rules.c hold here too.
#include "base/assert.h"
#include "passes/simplify.h"

static const PmNode *operand_of(const PmSimp *s, const PmCand *c, PmOp op) {
  const PmNode *def = pm_simp_def(s, c->in[0]);
  return def && def->op == op ? def : NULL;
}

static bool same_axes(const PmAxisId *a, int32_t n_a, const PmAxisId *b, int32_t n_b) {
  if (n_a != n_b) return false;
  for (int32_t i = 0; i < n_a; i++) {
    if (a[i] != b[i]) return false;
  }
  return true;
}

static bool same_broadcast(PmSimp *s, PmCand *c, PmValueId *out) {
  if (!pm_type_equal(pm_simp_type(s, c->in[0]), &c->type)) return false;
  *out = c->in[0];
  return true;
}

static bool broadcast_of_broadcast(PmSimp *s, PmCand *c, PmValueId *out) {
  (void)out;
  const PmNode *def = operand_of(s, c, PM_OP_broadcast);
  if (!def) return false;
  pm_simp_set_operand(s, c, def->in[0]);
  return true;
}

// A view of one number everywhere is a broadcast of that number.
static bool view_of_splat(PmSimp *s, PmCand *c, PmValueId *out) {
  (void)out;
  double v;
  if (!pm_simp_is_splat(s, c->in[0], &v)) return false;
  pm_simp_make_broadcast(s, c, pm_simp_const(s, (PmDtype)c->type.dtype, v));
  return true;
}

static bool empty_reduce(PmSimp *s, PmCand *c, PmValueId *out) {
  (void)s;
  if (c->attr.n_axes != 0) return false;
  *out = c->in[0];
  return true;
}

// The maximum over axes that the operand was broadcast along; what is left of the operand has every other axis.
static bool max_of_broadcast(PmSimp *s, PmCand *c, PmValueId *out) {
  (void)out;
  const PmNode *def = operand_of(s, c, PM_OP_broadcast);
  if (!def || c->attr.kind != PM_MAX) return false;
  for (int32_t i = 0; i < c->attr.n_axes; i++) {
    if (pm_type_find(pm_simp_type(s, def->in[0]), c->attr.axes[i]) != PM_NONE) return false;
  }
  pm_simp_make_broadcast(s, c, def->in[0]);
  return true;
}

// Any number of zeros adds up to zero; -0 stays out, since sums start from 0.
static bool sum_of_zeros(PmSimp *s, PmCand *c, PmValueId *out) {
  (void)out;
  double v;
  if (c->attr.kind != PM_SUM || !pm_simp_is_splat(s, c->in[0], &v) || v != 0 || 1 / v < 0) return false;
  pm_simp_make_broadcast(s, c, pm_simp_const(s, (PmDtype)c->type.dtype, 0.0));
  return true;
}

static PmAxisId renamed(const PmAttr *a, PmAxisId axis) {
  for (int32_t i = 0; i < a->n_axes; i++) {
    if (a->axes[i] == axis) return a->to[i];
  }
  return axis;
}

// Composes renames; pairs that come back to where they began go.
static bool rename_of_rename(PmSimp *s, PmCand *c, PmValueId *out) {
  const PmNode *def = operand_of(s, c, PM_OP_rename);
  PmValueId x = def ? def->in[0] : c->in[0];
  PmType type = *pm_simp_type(s, x);
  PmAttr attr = {0};
  for (int32_t i = 0; i < type.rank; i++) {
    PmAxisId from = type.dims[i].axis;
    PmAxisId to = renamed(&c->attr, def ? renamed(&def->attr, from) : from);
    if (from == to) continue;
    attr.axes[attr.n_axes] = from;
    attr.to[attr.n_axes++] = to;
  }
  if (attr.n_axes == 0) {
    *out = x;
    return true;
  }
  if (!def) return false;
  attr.n_to = attr.n_axes;
  c->attr = attr;
  pm_simp_set_operand(s, c, x);
  return true;
}

static bool split_of_merge(PmSimp *s, PmCand *c, PmValueId *out) {
  const PmNode *def = operand_of(s, c, PM_OP_merge);
  if (!def || def->attr.to[0] != c->attr.axes[0]) return false;
  if (!same_axes(def->attr.axes, def->attr.n_axes, c->attr.to, c->attr.n_to)) return false;
  *out = def->in[0];
  return true;
}

static bool merge_of_split(PmSimp *s, PmCand *c, PmValueId *out) {
  const PmNode *def = operand_of(s, c, PM_OP_split);
  if (!def || def->attr.axes[0] != c->attr.to[0]) return false;
  if (!same_axes(def->attr.to, def->attr.n_to, c->attr.axes, c->attr.n_axes)) return false;
  *out = def->in[0];
  return true;
}

static bool select_of_stack(PmSimp *s, PmCand *c, PmValueId *out) {
  const PmNode *def = operand_of(s, c, PM_OP_stack);
  if (!def || def->attr.to[0] != c->attr.axes[0]) return false;
  PM_ASSERT(c->attr.index >= 0 && c->attr.index < def->n_in, "select %lld of a stack of %d", (long long)c->attr.index,
            def->n_in);
  *out = def->in[c->attr.index];
  return true;
}

static bool select_of_broadcast(PmSimp *s, PmCand *c, PmValueId *out) {
  (void)out;
  const PmNode *def = operand_of(s, c, PM_OP_broadcast);
  if (!def || pm_type_find(pm_simp_type(s, def->in[0]), c->attr.axes[0]) != PM_NONE) return false;
  pm_simp_make_broadcast(s, c, def->in[0]);
  return true;
}

const PmSimpRow pm_simp_axis_rows[] = {
    {PM_OP_broadcast, PM_SCALAR_COUNT, same_broadcast},
    {PM_OP_broadcast, PM_SCALAR_COUNT, broadcast_of_broadcast},
    {PM_OP_merge, PM_SCALAR_COUNT, view_of_splat},
    {PM_OP_merge, PM_SCALAR_COUNT, merge_of_split},
    {PM_OP_reduce, PM_SCALAR_COUNT, empty_reduce},
    {PM_OP_reduce, PM_SCALAR_COUNT, max_of_broadcast},
    {PM_OP_reduce, PM_SCALAR_COUNT, sum_of_zeros},
    {PM_OP_rename, PM_SCALAR_COUNT, view_of_splat},
    {PM_OP_rename, PM_SCALAR_COUNT, rename_of_rename},
    {PM_OP_select, PM_SCALAR_COUNT, view_of_splat},
    {PM_OP_select, PM_SCALAR_COUNT, select_of_stack},
    {PM_OP_select, PM_SCALAR_COUNT, select_of_broadcast},
    {PM_OP_split, PM_SCALAR_COUNT, view_of_splat},
    {PM_OP_split, PM_SCALAR_COUNT, split_of_merge},
    {PM_OP_COUNT, PM_SCALAR_COUNT, NULL},
};
