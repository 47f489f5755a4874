#include "ir/infer.h"

#include <math.h>
#include <string.h>

#include "ir/optable.h"

static void put_why(PmBuf *why, const char *fmt, va_list ap) {
  if (!why) return;
  pm_buf_clear(why);
  pm_buf_vprintf(why, fmt, ap);
}

bool pm_refuse(PmRuleCall *c, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  put_why(c->why, fmt, ap);
  va_end(ap);
  return false;
}

static bool invalid(PmBuf *why, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static bool invalid(PmBuf *why, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  put_why(why, fmt, ap);
  va_end(ap);
  return false;
}

const char *pm_axis_text(const PmRuleCall *c, PmAxisId axis) { return c->m->axes[axis].name; }

static bool splits_valid(const PmModule *m, const PmType *t, PmBuf *why) {
  uint32_t used = 0;
  for (int32_t i = 0; i < t->rank; i++) {
    const PmDim *d = &t->dims[i];
    int64_t parts = 1;
    for (int32_t k = 0; k < d->split.n; k++) {
      uint32_t bit = UINT32_C(1) << d->split.mesh[k];
      if (used & bit) return invalid(why, "mesh axis %s is used twice", m->mesh[d->split.mesh[k]].name);
      used |= bit;
      if (!pm_mul_i64(parts, m->mesh[d->split.mesh[k]].size, &parts)) return invalid(why, "a split of too many parts");
    }
    bool zigzag = pm_split_is_zigzag(&d->split);
    if (zigzag && m->axes[d->axis].pad) return invalid(why, "axis %s is padded, in an order", m->axes[d->axis].name);
    if (zigzag && parts >= 1 && !pm_split_divides(m, &d->split, m->axes[d->axis].size)) {
      return invalid(why, "axis %s of size %lld does not divide into two chunks a rank", m->axes[d->axis].name,
                     (long long)m->axes[d->axis].size);
    }
    if (parts < 1 || m->axes[d->axis].size % parts != 0) {
      return invalid(why, "axis %s of size %lld does not divide into %lld parts", m->axes[d->axis].name,
                     (long long)m->axes[d->axis].size, (long long)parts);
    }
  }
  for (int32_t i = 0; i < t->n_partial; i++) {
    if (used >> t->partial[i].mesh & 1) {
      return invalid(why, "mesh axis %s is both split and partial", m->mesh[t->partial[i].mesh].name);
    }
  }
  return true;
}

static bool dims_valid(const PmModule *m, const PmType *t, PmBuf *why) {
  int64_t elements = 1;
  for (int32_t i = 0; i < t->rank; i++) {
    const PmDim *d = &t->dims[i];
    if (d->axis < 0 || d->axis >= m->n_axes) return invalid(why, "no axis %d", d->axis);
    if (d->split.n > PM_MAX_SPLIT) return invalid(why, "a split over more than %d mesh axes", PM_MAX_SPLIT);
    for (int32_t k = 0; k < d->split.n; k++) {
      if (d->split.mesh[k] >= m->n_mesh) return invalid(why, "no mesh axis %d", d->split.mesh[k]);
    }
    for (int32_t k = 0; k < i; k++) {
      if (t->dims[k].axis == d->axis) return invalid(why, "axis %s stands twice", m->axes[d->axis].name);
    }
    int64_t size = m->axes[d->axis].size;
    if (size < 1 || size > PM_MAX_AXIS_SIZE) return invalid(why, "axis %s has no valid size", m->axes[d->axis].name);
    if (!pm_mul_i64(elements, size, &elements) || elements > PM_MAX_ELEMENTS) {
      return invalid(why, "a type of more than 2^48 elements");
    }
  }
  return true;
}

bool pm_type_valid(const PmModule *m, const PmType *t, bool placed, PmBuf *why) {
  if (t->dtype >= PM_DTYPE_COUNT) return invalid(why, "no dtype %d", t->dtype);
  if (t->rank > PM_MAX_RANK) return invalid(why, "a type of more than %d axes", PM_MAX_RANK);
  if (t->n_partial > PM_MAX_PARTIAL) return invalid(why, "partial over more than %d mesh axes", PM_MAX_PARTIAL);
  if (m->n_mesh > PM_MAX_MESH) return invalid(why, "a mesh of more than %d axes", PM_MAX_MESH);
  if (t->index_of != PM_NONE && (t->index_of < 0 || t->index_of >= m->n_axes || t->dtype != PM_I32)) {
    return invalid(why, "only an i32 points into an axis of the module");
  }
  if (!dims_valid(m, t, why)) return false;
  for (int32_t i = 0; i < t->n_partial; i++) {
    if (t->partial[i].mesh >= m->n_mesh) return invalid(why, "no mesh axis %d", t->partial[i].mesh);
    if (t->partial[i].kind >= PM_REDUCE_COUNT) return invalid(why, "no reduction %d", t->partial[i].kind);
    if (i && t->partial[i - 1].mesh >= t->partial[i].mesh) return invalid(why, "partials are not in mesh order");
  }
  return !placed || splits_valid(m, t, why);
}

bool pm_need_axis(PmRuleCall *c, const PmType *t, PmAxisId axis) {
  if (pm_type_find(t, axis) != PM_NONE) return true;
  return pm_refuse(c, "an operand has no axis %s", pm_axis_text(c, axis));
}

bool pm_need_same_split(PmRuleCall *c, const PmType *a, const PmType *b) {
  if (!c->local) return true;
  for (int32_t i = 0; i < a->rank; i++) {
    int32_t k = pm_type_find(b, a->dims[i].axis);
    if (k != PM_NONE && !pm_split_equal(&a->dims[i].split, &b->dims[k].split)) {
      return pm_refuse(c, "axis %s is split differently", pm_axis_text(c, a->dims[i].axis));
    }
  }
  return true;
}

bool pm_out_axis(PmRuleCall *c, PmAxisId axis) {
  if (pm_type_find(c->out, axis) != PM_NONE) {
    return pm_refuse(c, "axis %s would stand twice in the result", pm_axis_text(c, axis));
  }
  if (c->out->rank >= PM_MAX_RANK) return pm_refuse(c, "a result of more than %d axes", PM_MAX_RANK);
  pm_type_add(c->out, axis);
  return true;
}

bool pm_out_dim(PmRuleCall *c, const PmType *from, int32_t dim) {
  if (!pm_out_axis(c, from->dims[dim].axis)) return false;
  c->out->dims[c->out->rank - 1].split = from->dims[dim].split;
  return true;
}

bool pm_out_partial(PmRuleCall *c, int32_t mesh, PmReduceKind kind) {
  if (!c->local) return true;
  int32_t at = pm_type_partial_on(c->out, mesh);
  if (at != PM_NONE) {
    return c->out->partial[at].kind == kind || pm_refuse(c, "a sum and a max over one mesh axis are owed at once");
  }
  if (c->out->n_partial >= PM_MAX_PARTIAL) return pm_refuse(c, "partial over more than %d mesh axes", PM_MAX_PARTIAL);
  pm_type_add_partial(c->out, mesh, kind);
  return true;
}

bool pm_pass_partials(PmRuleCall *c, const PmType *t) {
  for (int32_t i = 0; i < t->n_partial; i++) {
    if (!pm_out_partial(c, t->partial[i].mesh, (PmReduceKind)t->partial[i].kind)) return false;
  }
  return true;
}

bool pm_pass_sums(PmRuleCall *c, const PmType *t) {
  for (int32_t i = 0; c->local && i < t->n_partial; i++) {
    if (t->partial[i].kind != PM_SUM) return pm_refuse(c, "a partial max does not pass this op");
  }
  return pm_pass_partials(c, t);
}

bool pm_need_no_partial(PmRuleCall *c, const PmType *t) {
  return !c->local || t->n_partial == 0 || pm_refuse(c, "an operand is partial where the op is not linear");
}

bool pm_leave_partials(PmRuleCall *c, const PmSplit *s, PmReduceKind kind) {
  for (int32_t i = 0; i < s->n; i++) {
    if (!pm_out_partial(c, s->mesh[i], kind)) return false;
  }
  return true;
}

bool pm_rule_const(PmRuleCall *c) {
  if (!c->given || c->given->rank) return pm_refuse(c, "a constant needs a scalar type");
  double v = c->attr->number;
  if (c->given->dtype == PM_BOOL && v != 0 && v != 1) return pm_refuse(c, "a bool constant is 0 or 1");
  if (c->given->dtype == PM_I32 && !(v == floor(v) && v >= INT32_MIN && v <= INT32_MAX)) {
    return pm_refuse(c, "an i32 constant is a whole number of 32 bits");
  }
  *c->out = pm_type_scalar((PmDtype)c->given->dtype);
  c->out->index_of = c->given->index_of;
  return true;
}

bool pm_rule_pos(PmRuleCall *c) {
  if (c->attr->n_axes != 1) return pm_refuse(c, "`pos` takes one axis");
  *c->out = pm_type_scalar(PM_F64);
  if (!pm_out_axis(c, c->attr->axes[0])) return false;
  if (c->given && c->given->rank == 1 && c->given->dims[0].axis == c->attr->axes[0]) *c->out->dims = *c->given->dims;
  return true;
}

bool pm_rule_random(PmRuleCall *c) {
  if (!c->given || c->given->dtype != PM_F32) return pm_refuse(c, "`random` needs a result type of f32");
  if (c->n_in != c->attr->n_axes + 1) return pm_refuse(c, "`random` takes the step, and a turn for each of its axes");
  for (int32_t i = 0; i < c->n_in; i++) {
    if (c->in[i].rank || c->in[i].dtype != (i ? PM_I32 : PM_F64)) {
      return pm_refuse(c, "operand %d of `random` is not %s", i, i ? "i32[]" : "f64[]");
    }
    if (!pm_need_no_partial(c, &c->in[i])) return false;
  }
  *c->out = pm_type_scalar(PM_F32);
  for (int32_t i = 0; i < c->given->rank; i++) {
    if (!pm_out_dim(c, c->given, i)) return false;
  }
  return true;
}

bool pm_rule_broadcast(PmRuleCall *c) {
  if (!c->given) return pm_refuse(c, "`broadcast` needs a result type");
  *c->out = pm_type_scalar((PmDtype)c->in->dtype);
  c->out->index_of = c->in->index_of;
  for (int32_t i = 0; i < c->given->rank; i++) {
    if (!pm_out_dim(c, c->given, i)) return false;
  }
  for (int32_t i = 0; i < c->in->rank; i++) {
    if (!pm_need_axis(c, c->out, c->in->dims[i].axis)) return false;
  }
  // A given partial is the caller's word that the ranks' values sum to what is meant: true of zero.
  return pm_need_same_split(c, c->in, c->out) && pm_pass_partials(c, c->in) && pm_pass_partials(c, c->given);
}

bool pm_rule_cast(PmRuleCall *c) {
  if (!c->given) return pm_refuse(c, "`cast` needs a result type");
  *c->out = *c->in;
  c->out->dtype = c->given->dtype;
  if (c->given->dtype == c->in->dtype) return true;
  c->out->index_of = c->given->dtype == PM_I32 ? c->given->index_of : PM_NONE;
  bool floats = pm_dtype_is_float((PmDtype)c->in->dtype) && pm_dtype_is_float((PmDtype)c->given->dtype);
  return floats || pm_need_no_partial(c, c->in);
}

static bool map_dtypes(PmRuleCall *c) {
  bool where = pm_scalar_linear(c->attr->fn) == PM_LIN_BRANCH;
  if (where && c->in[0].dtype != PM_BOOL) return pm_refuse(c, "the condition is not bool");
  const PmType *first = &c->in[where ? 1 : 0];
  for (int32_t i = where ? 2 : 1; i < c->n_in; i++) {
    if (c->in[i].dtype != first->dtype) {
      return pm_refuse(c, "operands of %s and %s", pm_dtype_text((PmDtype)first->dtype),
                       pm_dtype_text((PmDtype)c->in[i].dtype));
    }
  }
  PmScalarOut out = pm_scalar_out(c->attr->fn);
  const char *name = pm_scalar_name(c->attr->fn);
  if (out == PM_OUT_LOGIC && first->dtype != PM_BOOL) return pm_refuse(c, "`%s` takes bools", name);
  if (out == PM_OUT_SAME && !where && first->dtype == PM_BOOL) return pm_refuse(c, "`%s` takes numbers", name);
  c->out->dtype = (uint8_t)(out == PM_OUT_SAME ? first->dtype : PM_BOOL);
  c->out->index_of = where && c->in[1].index_of == c->in[2].index_of ? c->in[1].index_of : PM_NONE;
  return true;
}

static bool same_partials(const PmType *a, const PmType *b) {
  if (a->n_partial != b->n_partial) return false;
  for (int32_t i = 0; i < a->n_partial; i++) {
    if (a->partial[i].mesh != b->partial[i].mesh || a->partial[i].kind != b->partial[i].kind) return false;
  }
  return true;
}

// A product of two partial sums over different mesh axes is partial over both: sum a * sum b = sum sum a * b.
static bool share_partials(const PmType *a, const PmType *b) {
  for (int32_t i = 0; i < a->n_partial; i++) {
    if (pm_type_partial_on(b, a->partial[i].mesh) != PM_NONE) return true;
  }
  return false;
}

static bool map_partials(PmRuleCall *c) {
  if (!c->local) return true;
  int32_t n_partial = 0;
  const PmType *from = c->in;
  for (int32_t i = c->n_in - 1; i >= 0; i--) {
    if (c->in[i].n_partial) n_partial++, from = &c->in[i];
  }
  if (!n_partial) return true;
  PmLinear linear = pm_scalar_linear(c->attr->fn);
  bool ok = false;
  if (linear == PM_LIN_JOINT) {
    ok = c->n_in == 1 || same_partials(&c->in[0], &c->in[1]);
  } else if (linear == PM_LIN_BRANCH) {
    ok = c->in[0].n_partial == 0 && same_partials(&c->in[1], &c->in[2]);
  } else if (linear == PM_LIN_FIRST) {
    ok = n_partial == 1 && from == c->in;
  } else if (linear == PM_LIN_EITHER) {
    ok = !share_partials(&c->in[0], &c->in[1]);
    if (ok && n_partial == 2) return pm_pass_sums(c, &c->in[0]) && pm_pass_sums(c, &c->in[1]);
  }
  if (!ok) return pm_refuse(c, "a partial sum does not pass `%s` here", pm_scalar_name(c->attr->fn));
  return pm_pass_sums(c, from);
}

bool pm_rule_map(PmRuleCall *c) {
  if ((unsigned)c->attr->fn >= PM_SCALAR_COUNT) return pm_refuse(c, "no such scalar function");
  if (c->n_in != pm_scalar_arity(c->attr->fn)) {
    return pm_refuse(c, "`%s` takes %d operands", pm_scalar_name(c->attr->fn), pm_scalar_arity(c->attr->fn));
  }
  *c->out = *c->in;
  memset(c->out->partial, 0, sizeof c->out->partial);
  c->out->n_partial = 0;
  for (int32_t i = 1; i < c->n_in; i++) {
    if (c->in[i].rank != c->in->rank) return pm_refuse(c, "operands have different axes");
    for (int32_t k = 0; k < c->in->rank; k++) {
      if (!pm_need_axis(c, &c->in[i], c->in->dims[k].axis)) return false;
    }
    if (!pm_need_same_split(c, c->in, &c->in[i])) return false;
  }
  return map_dtypes(c) && map_partials(c);
}

static bool has_axis(const PmAttr *a, PmAxisId axis) {
  for (int32_t i = 0; i < a->n_axes; i++) {
    if (a->axes[i] == axis) return true;
  }
  return false;
}

bool pm_rule_dot(PmRuleCall *c) {
  const PmType *x = &c->in[0], *y = &c->in[1];
  if (!pm_dtype_is_float((PmDtype)x->dtype) || !pm_dtype_is_float((PmDtype)y->dtype)) {
    return pm_refuse(c, "`dot` takes floats");
  }
  PmDtype dtype = (PmDtype)(x->dtype > y->dtype ? x->dtype : y->dtype);
  if (c->given && c->given->dtype == PM_F32 && dtype < PM_F32) dtype = PM_F32;
  *c->out = pm_type_scalar(dtype);
  for (int32_t i = 0; i < c->attr->n_axes; i++) {
    if (!pm_need_axis(c, x, c->attr->axes[i]) || !pm_need_axis(c, y, c->attr->axes[i])) return false;
  }
  if (!pm_need_same_split(c, x, y)) return false;
  for (int32_t i = 0; i < x->rank; i++) {
    bool summed = has_axis(c->attr, x->dims[i].axis);
    if (summed ? !pm_leave_partials(c, &x->dims[i].split, PM_SUM) : !pm_out_dim(c, x, i)) return false;
  }
  for (int32_t i = 0; i < y->rank; i++) {
    if (pm_type_find(x, y->dims[i].axis) == PM_NONE && !pm_out_dim(c, y, i)) return false;
  }
  if (c->local && share_partials(x, y)) return pm_refuse(c, "both operands of `dot` are partial over one mesh axis");
  return pm_pass_sums(c, x) && pm_pass_sums(c, y);
}

bool pm_rule_reduce(PmRuleCall *c) {
  if ((unsigned)c->attr->kind >= PM_REDUCE_COUNT) return pm_refuse(c, "no such reduction");
  if (c->in->dtype == PM_BOOL) return pm_refuse(c, "`reduce` takes numbers");
  *c->out = pm_type_scalar((PmDtype)c->in->dtype);
  for (int32_t i = 0; i < c->attr->n_axes; i++) {
    if (!pm_need_axis(c, c->in, c->attr->axes[i])) return false;
  }
  for (int32_t i = 0; i < c->in->rank; i++) {
    bool summed = has_axis(c->attr, c->in->dims[i].axis);
    if (summed ? !pm_leave_partials(c, &c->in->dims[i].split, c->attr->kind) : !pm_out_dim(c, c->in, i)) return false;
  }
  for (int32_t i = 0; c->local && i < c->in->n_partial; i++) {
    if (c->in->partial[i].kind != c->attr->kind)
      return pm_refuse(c, "a partial sum does not pass a max, nor a max a sum");
  }
  return pm_pass_partials(c, c->in);
}

static bool axes_valid(PmRuleCall *c, const PmAxisId *axes, int32_t n) {
  if (n > PM_MAX_RANK) return pm_refuse(c, "more than %d axes", PM_MAX_RANK);
  for (int32_t i = 0; i < n; i++) {
    if (axes[i] < 0 || axes[i] >= c->m->n_axes) return pm_refuse(c, "no axis %d", axes[i]);
    for (int32_t k = 0; k < i; k++) {
      if (axes[k] == axes[i]) return pm_refuse(c, "axis %s is named twice", pm_axis_text(c, axes[i]));
    }
  }
  return true;
}

static bool mesh_valid(PmRuleCall *c) {
  const PmAttr *a = c->attr;
  if (!c->local) return pm_refuse(c, "collectives stand at stage local only");
  if (!a->n_mesh || a->n_mesh > PM_MAX_MESH) return pm_refuse(c, "no mesh axes");
  for (int32_t i = 0; i < a->n_mesh; i++) {
    if (a->mesh[i] >= c->m->n_mesh) return pm_refuse(c, "no mesh axis %d", a->mesh[i]);
    for (int32_t k = 0; k < i; k++) {
      if (a->mesh[k] == a->mesh[i]) return pm_refuse(c, "mesh axis %s is named twice", c->m->mesh[a->mesh[i]].name);
    }
  }
  return true;
}

static bool operands_valid(PmRuleCall *c, PmOp op) {
  uint32_t fields = pm_op_fields(op);
  if (c->n_in < 0 || (pm_op_n_in(op) >= 0 && c->n_in != pm_op_n_in(op))) {
    return pm_refuse(c, "`%s` takes %d operands, not %d", pm_op_name(op), pm_op_n_in(op), c->n_in);
  }
  if (c->n_out != pm_infer_n_out(c->m, op, c->attr, c->n_in)) return pm_refuse(c, "a wrong number of results");
  if ((fields & PM_A_AXES) && !axes_valid(c, c->attr->axes, c->attr->n_axes)) return false;
  if ((fields & PM_A_TO) && !axes_valid(c, c->attr->to, c->attr->n_to)) return false;
  bool group = (fields & PM_A_MESH) || ((fields & PM_A_GROUP) && c->attr->n_mesh);
  if (group && !mesh_valid(c)) return false;
  if (c->attr->zigzag && !(fields & PM_A_ORDER)) return pm_refuse(c, "`%s` makes no split in an order", pm_op_name(op));
  for (int32_t i = 0; i < c->n_in; i++) {
    if (!pm_type_valid(c->m, &c->in[i], c->local, c->why)) return false;
  }
  return !c->given || pm_type_valid(c->m, c->given, c->local, c->why);
}

int32_t pm_infer_n_out(const PmModule *m, PmOp op, const PmAttr *attr, int32_t n_in) {
  if ((unsigned)op >= PM_OP_COUNT) return 0;
  if (!(pm_op_flags(op) & PM_F_CALL)) return pm_op_n_out(op) < 0 ? n_in : pm_op_n_out(op);
  return attr->callee >= 0 && attr->callee < m->n_fns ? m->fns[attr->callee].n_results : 0;
}

bool pm_infer(const PmModule *m, PmOp op, const PmAttr *attr, const PmType *in, int32_t n_in, const PmType *given,
              PmType *out_types, int32_t n_out, PmBuf *why) {
  static bool (*const rules[])(PmRuleCall *) = {
#define OP(name, n_in, n_out, flags) [PM_OP_##name] =
#define TYPE(fn) pm_rule_##fn,
#include "ir/ops.def"
  };
  PmRuleCall c = {.m = m,
                  .attr = attr,
                  .in = in,
                  .n_in = n_in,
                  .given = given,
                  .out = out_types,
                  .n_out = n_out,
                  .why = why,
                  .local = m->stage == PM_STAGE_LOCAL};
  if ((unsigned)op >= PM_OP_COUNT) return pm_refuse(&c, "no such op");
  if (!operands_valid(&c, op) || !rules[op](&c)) return false;
  for (int32_t i = 0; i < n_out; i++) {
    if (!c.local) pm_type_clear_placement(&out_types[i]);
    if (!pm_type_valid(m, &out_types[i], c.local, why)) return false;
  }
  return true;
}
