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
    if (c->local && c->in->dims[i].split.n) {
      return pm_refuse(c, "axis %s is split", pm_axis_text(c, c->in->dims[i].axis));
    }
    if (!pm_out_dim(c, c->in, i)) return false;
  }
  return true;
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
