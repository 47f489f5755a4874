// Type rules of the routing ops.
#include "ir/infer.h"

// One axis made of another one.
static bool one_to_one(PmRuleCall *c) {
  if (c->attr->n_axes != 1 || c->attr->n_to != 1) return pm_refuse(c, "one axis and one new axis are needed");
  return pm_need_no_partial(c, c->in);
}

bool pm_rule_slot_of(PmRuleCall *c) {
  const PmAttr *a = c->attr;
  if (!one_to_one(c)) return false;
  if (c->in->dtype != PM_I32 || c->in->index_of != a->axes[0]) {
    return pm_refuse(c, "the indices do not point into axis %s", pm_axis_text(c, a->axes[0]));
  }
  if (pm_type_find(c->in, a->axes[0]) != PM_NONE) {
    return pm_refuse(c, "the indices have axis %s themselves", pm_axis_text(c, a->axes[0]));
  }
  if (c->m->axes[a->to[0]].size % c->m->axes[a->axes[0]].size != 0) {
    return pm_refuse(c, "axis %s has no equal number of slots for each element of %s", pm_axis_text(c, a->to[0]),
                     pm_axis_text(c, a->axes[0]));
  }
  *c->out = pm_type_scalar(PM_I32);
  c->out->index_of = a->to[0];
  for (int32_t i = 0; i < c->in->rank; i++) {
    PmSplit counted = {0};
    for (int32_t k = 0; k < a->n_mesh && i == 0; k++) pm_split_push(&counted, a->mesh[k]);
    if (c->local && !pm_split_equal(&c->in->dims[i].split, &counted)) {
      return pm_refuse(c, "axis %s is split otherwise than it is counted", pm_axis_text(c, c->in->dims[i].axis));
    }
    if (!pm_out_dim(c, c->in, i)) return false;
  }
  return c->in->rank > 0 || a->n_mesh == 0 || pm_refuse(c, "one position is counted on several ranks");
}

static bool has_axis(const PmAttr *a, PmAxisId axis) {
  for (int32_t i = 0; i < a->n_axes; i++)
    if (a->axes[i] == axis) return true;
  return false;
}

static bool in_group(const PmAttr *a, int32_t mesh) {
  for (int32_t i = 0; i < a->n_mesh; i++)
    if (a->mesh[i] == mesh) return true;
  return false;
}

// The mesh axes outside of the group that split axes of `t`, the row axes or all others, leave sums.
static bool leave_outside(PmRuleCall *c, const PmType *t, bool rows) {
  for (int32_t i = 0; i < t->rank; i++) {
    PmSplit s = {0};
    if (has_axis(c->attr, t->dims[i].axis) != rows) continue;
    for (int32_t k = 0; k < t->dims[i].split.n; k++)
      if (!in_group(c->attr, t->dims[i].split.mesh[k])) pm_split_push(&s, t->dims[i].split.mesh[k]);
    if (!pm_leave_partials(c, &s, PM_SUM)) return false;
  }
  return true;
}

static bool splits(const PmRuleCall *c, const PmType *t, int32_t mesh, bool rows) {
  for (int32_t i = 0; i < t->rank; i++)
    if (has_axis(c->attr, t->dims[i].axis) == rows && pm_split_has(&t->dims[i].split, mesh)) return true;
  return false;
}

// `table` has the row axes, `moved` those of the indices in their stead.
static bool rows_fit(PmRuleCall *c, const PmType *idx, const PmType *table, const PmType *moved) {
  const PmAttr *a = c->attr;
  int64_t rows = 1;
  if (!c->given) return pm_refuse(c, "a result type is needed");
  if (a->n_axes < 1 || a->n_axes > 2) return pm_refuse(c, "rows have one or two axes");
  for (int32_t i = 0; i < a->n_axes; i++) {
    if (!pm_need_axis(c, table, a->axes[i])) return false;
    if (!pm_mul_i64(rows, c->m->axes[a->axes[i]].size, &rows)) return pm_refuse(c, "too many rows");
  }
  if (idx->dtype != PM_I32 || idx->index_of == PM_NONE || c->m->axes[idx->index_of].size != rows) {
    return pm_refuse(c, "the indices do not point into the %lld rows", (long long)rows);
  }
  if (table->dtype != moved->dtype) return pm_refuse(c, "rows of two dtypes");
  if (moved->rank != idx->rank + table->rank - a->n_axes) return pm_refuse(c, "a row has other axes on the other side");
  for (int32_t i = 0; i < idx->rank; i++)
    if (!pm_need_axis(c, moved, idx->dims[i].axis)) return false;
  for (int32_t i = 0; i < table->rank; i++) {
    PmAxisId axis = table->dims[i].axis;
    bool row = has_axis(a, axis);
    if (pm_type_find(idx, axis) != PM_NONE || (row && pm_type_find(moved, axis) != PM_NONE)) {
      return pm_refuse(c, "axis %s stands on both sides", pm_axis_text(c, axis));
    }
    if (!row && !pm_need_axis(c, moved, axis)) return false;
  }
  for (int32_t i = 0; c->local && i < a->n_mesh; i++) {
    if (!splits(c, idx, a->mesh[i], false) || !splits(c, table, a->mesh[i], true)) {
      return pm_refuse(c, "mesh axis %s splits not both positions and rows", c->m->mesh[a->mesh[i]].name);
    }
  }
  *c->out = pm_type_scalar((PmDtype)c->given->dtype);
  for (int32_t i = 0; i < c->given->rank; i++)
    if (!pm_out_dim(c, c->given, i)) return false;
  return pm_need_same_split(c, idx, moved) && pm_need_same_split(c, table, moved) && pm_need_no_partial(c, idx);
}

bool pm_rule_gather_rows(PmRuleCall *c) {
  const PmType *table = &c->in[0], *idx = &c->in[1];
  if (!rows_fit(c, idx, table, c->given)) return false;
  c->out->index_of = table->index_of;
  return leave_outside(c, table, true) && pm_pass_sums(c, table);
}

bool pm_rule_scatter_rows(PmRuleCall *c) {
  const PmType *idx = &c->in[0], *up = &c->in[1];
  if (!rows_fit(c, idx, c->given, up)) return false;
  return leave_outside(c, idx, false) && pm_pass_sums(c, up);
}

bool pm_rule_topk(PmRuleCall *c) {
  const PmAttr *a = c->attr;
  if (!one_to_one(c) || !pm_need_axis(c, c->in, a->axes[0])) return false;
  if (!pm_dtype_is_float((PmDtype)c->in->dtype)) return pm_refuse(c, "`topk` takes floats");
  if (c->m->axes[a->to[0]].size > c->m->axes[a->axes[0]].size) {
    return pm_refuse(c, "axis %s has fewer elements than %s", pm_axis_text(c, a->axes[0]), pm_axis_text(c, a->to[0]));
  }
  *c->out = pm_type_scalar(PM_I32);
  c->out->index_of = a->axes[0];
  for (int32_t i = 0; i < c->in->rank; i++) {
    if (c->in->dims[i].axis != a->axes[0]) {
      if (!pm_out_dim(c, c->in, i)) return false;
      continue;
    }
    if (c->local && c->in->dims[i].split.n) return pm_refuse(c, "axis %s is split", pm_axis_text(c, a->axes[0]));
    if (!pm_out_axis(c, a->to[0])) return false;
  }
  return true;
}
