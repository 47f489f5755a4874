// Type rules of the ops that make, break or point into axes, of calls, and of collectives.
#include <string.h>

#include "ir/infer.h"

// Product of the sizes of `axes`; false past the limit of one axis.
static bool product(const PmRuleCall *c, const PmAxisId *axes, int32_t n, int64_t *out) {
  *out = 1;
  for (int32_t i = 0; i < n; i++) {
    if (!pm_mul_i64(*out, c->m->axes[axes[i]].size, out) || *out > PM_MAX_AXIS_SIZE) return false;
  }
  return true;
}

static bool start(PmRuleCall *c) {
  *c->out = pm_type_scalar((PmDtype)c->in->dtype);
  c->out->index_of = c->in->index_of;
  return pm_pass_partials(c, c->in);
}

bool pm_rule_rename(PmRuleCall *c) {
  const PmAttr *a = c->attr;
  if (!a->n_axes || a->n_axes != a->n_to) return pm_refuse(c, "`rename` takes pairs of axes");
  if (!start(c)) return false;
  for (int32_t i = 0; i < a->n_axes; i++) {
    if (!pm_need_axis(c, c->in, a->axes[i])) return false;
    if (c->m->axes[a->axes[i]].size != c->m->axes[a->to[i]].size) {
      return pm_refuse(c, "axes %s and %s have different sizes", pm_axis_text(c, a->axes[i]),
                       pm_axis_text(c, a->to[i]));
    }
  }
  for (int32_t i = 0; i < c->in->rank; i++) {
    PmAxisId axis = c->in->dims[i].axis;
    for (int32_t k = 0; k < a->n_axes; k++) {
      if (a->axes[k] == c->in->dims[i].axis) axis = a->to[k];
    }
    if (!pm_out_axis(c, axis)) return false;
    c->out->dims[i].split = c->in->dims[i].split;
  }
  return true;
}

bool pm_rule_local(PmRuleCall *c) {
  const PmAttr *a = c->attr;
  if (!c->local) return pm_refuse(c, "`local` stands at stage local only");
  if (a->n_axes != 1 || a->n_to != 1 || !c->given) return pm_refuse(c, "`local` takes two axes and a result type");
  int32_t to = pm_type_find(c->given, a->to[0]);
  if (!start(c) || !pm_need_axis(c, c->in, a->axes[0])) return false;
  if (to == PM_NONE) return pm_refuse(c, "the result type has no axis %s", pm_axis_text(c, a->to[0]));
  for (int32_t i = 0; i < c->in->rank; i++) {
    const PmDim *d = &c->in->dims[i];
    if (d->axis != a->axes[0]) {
      if (!pm_out_dim(c, c->in, i)) return false;
      continue;
    }
    if (!pm_type_valid(c->m, c->given, true, c->why)) return false;
    if (pm_dim_local(c->m, d) != pm_dim_local(c->m, &c->given->dims[to])) {
      return pm_refuse(c, "a rank does not hold as much of %s as of %s", pm_axis_text(c, d->axis),
                       pm_axis_text(c, a->to[0]));
    }
    if (!pm_out_dim(c, c->given, to)) return false;
  }
  return true;
}

bool pm_rule_split(PmRuleCall *c) {
  const PmAttr *a = c->attr;
  int64_t size;
  if (a->n_axes != 1 || !a->n_to) return pm_refuse(c, "`split` takes one axis and its parts");
  if (!start(c) || !pm_need_axis(c, c->in, a->axes[0])) return false;
  if (!product(c, a->to, a->n_to, &size) || size != c->m->axes[a->axes[0]].size) {
    return pm_refuse(c, "the parts do not make up axis %s", pm_axis_text(c, a->axes[0]));
  }
  for (int32_t i = 0; i < c->in->rank; i++) {
    if (c->in->dims[i].axis != a->axes[0]) {
      if (!pm_out_dim(c, c->in, i)) return false;
      continue;
    }
    int32_t major = c->out->rank;
    for (int32_t k = 0; k < a->n_to; k++) {
      if (!pm_out_axis(c, a->to[k])) return false;
    }
    c->out->dims[major].split = c->in->dims[i].split;
  }
  return true;
}

bool pm_rule_merge(PmRuleCall *c) {
  const PmAttr *a = c->attr;
  int64_t size;
  if (!a->n_axes || a->n_to != 1) return pm_refuse(c, "`merge` takes axes and one new axis");
  if (!start(c)) return false;
  if (!product(c, a->axes, a->n_axes, &size) || size != c->m->axes[a->to[0]].size) {
    return pm_refuse(c, "the parts do not make up axis %s", pm_axis_text(c, a->to[0]));
  }
  for (int32_t k = 0; k < a->n_axes; k++) {
    if (!pm_need_axis(c, c->in, a->axes[k])) return false;
    if (c->local && k && c->in->dims[pm_type_find(c->in, a->axes[k])].split.n) {
      return pm_refuse(c, "axis %s is split, but not the major part", pm_axis_text(c, a->axes[k]));
    }
  }
  for (int32_t i = 0; i < c->in->rank; i++) {
    PmAxisId axis = c->in->dims[i].axis;
    bool minor = false;
    for (int32_t k = 1; k < a->n_axes; k++) minor = minor || a->axes[k] == axis;
    if (minor) continue;
    if (!pm_out_axis(c, axis == a->axes[0] ? a->to[0] : axis)) return false;
    c->out->dims[c->out->rank - 1].split = c->in->dims[i].split;
  }
  return true;
}

bool pm_rule_stack(PmRuleCall *c) {
  const PmAttr *a = c->attr;
  if (a->n_to != 1 || c->n_in < 1 || c->m->axes[a->to[0]].size != c->n_in) {
    return pm_refuse(c, "`stack` takes one operand an element of the new axis");
  }
  if (!start(c) || !pm_out_axis(c, a->to[0])) return false;
  for (int32_t i = 0; i < c->in->rank; i++) {
    if (!pm_out_dim(c, c->in, i)) return false;
  }
  for (int32_t k = 1; k < c->n_in; k++) {
    const PmType *t = &c->in[k];
    if (t->dtype != c->in->dtype || t->rank != c->in->rank) return pm_refuse(c, "operands of different types");
    for (int32_t i = 0; i < t->rank; i++) {
      if (!pm_need_axis(c, c->in, t->dims[i].axis)) return false;
    }
    if (!pm_need_same_split(c, c->in, t)) return false;
    if (c->local && t->n_partial != c->in->n_partial) return pm_refuse(c, "operands are not partial alike");
    for (int32_t i = 0; c->local && i < t->n_partial; i++) {
      if (t->partial[i].mesh != c->in->partial[i].mesh || t->partial[i].kind != c->in->partial[i].kind) {
        return pm_refuse(c, "operands are not partial alike");
      }
    }
    if (t->index_of != c->in->index_of) c->out->index_of = PM_NONE;
  }
  return true;
}

bool pm_rule_select(PmRuleCall *c) {
  const PmAttr *a = c->attr;
  if (a->n_axes != 1) return pm_refuse(c, "`select` takes one axis");
  if (!start(c) || !pm_need_axis(c, c->in, a->axes[0])) return false;
  if (a->index < 0 || a->index >= c->m->axes[a->axes[0]].size) {
    return pm_refuse(c, "no element %lld of axis %s", (long long)a->index, pm_axis_text(c, a->axes[0]));
  }
  for (int32_t i = 0; i < c->in->rank; i++) {
    if (c->in->dims[i].axis != a->axes[0]) {
      if (!pm_out_dim(c, c->in, i)) return false;
    } else if (c->local && c->in->dims[i].split.n) {
      return pm_refuse(c, "axis %s is split", pm_axis_text(c, a->axes[0]));
    }
  }
  return true;
}

static bool need_index(PmRuleCall *c, const PmType *idx) {
  if (c->attr->n_axes != 1) return pm_refuse(c, "one indexed axis is needed");
  if (idx->dtype != PM_I32 || idx->index_of != c->attr->axes[0]) {
    return pm_refuse(c, "the indices do not point into axis %s", pm_axis_text(c, c->attr->axes[0]));
  }
  return pm_need_no_partial(c, idx);
}

bool pm_rule_index(PmRuleCall *c) {
  const PmType *table = &c->in[0], *idx = &c->in[1];
  if (!need_index(c, idx)) return false;
  PmAxisId axis = c->attr->axes[0];
  if (!pm_need_axis(c, table, axis)) return false;
  *c->out = pm_type_scalar((PmDtype)table->dtype);
  c->out->index_of = table->index_of;
  PmType rest = *table;  // without the indexed axis, which never aligns with an axis of the indices
  int32_t at = pm_type_find(table, axis);
  for (int32_t i = at; i + 1 < rest.rank; i++) rest.dims[i] = rest.dims[i + 1];
  rest.rank--;
  if (!pm_need_same_split(c, &rest, idx)) return false;
  for (int32_t i = 0; i < table->rank; i++) {
    if (i != at) {
      if (!pm_out_dim(c, table, i)) return false;
      continue;
    }
    for (int32_t k = 0; k < idx->rank; k++) {
      if (pm_type_find(&rest, idx->dims[k].axis) == PM_NONE && !pm_out_dim(c, idx, k)) return false;
    }
  }
  return pm_leave_partials(c, &table->dims[at].split, PM_SUM) && pm_pass_sums(c, table);
}

bool pm_rule_scatter_add(PmRuleCall *c) {
  const PmType *idx = &c->in[0], *up = &c->in[1];
  if (!need_index(c, idx)) return false;
  PmAxisId axis = c->attr->axes[0];
  if (!c->given) return pm_refuse(c, "`scatter_add` needs a result type");
  if (up->dtype == PM_BOOL || c->given->dtype != up->dtype) {
    return pm_refuse(c, "the result has not the updates' dtype");
  }
  if (!pm_need_axis(c, c->given, axis)) return false;
  *c->out = pm_type_scalar((PmDtype)up->dtype);
  for (int32_t i = 0; i < c->given->rank; i++) {
    PmAxisId kept = c->given->dims[i].axis;
    if (!pm_out_dim(c, c->given, i)) return false;
    if (kept == axis) continue;
    if (!pm_need_axis(c, up, kept)) return false;
    if (c->local && !pm_split_equal(&c->given->dims[i].split, &up->dims[pm_type_find(up, kept)].split)) {
      return pm_refuse(c, "axis %s is split differently", pm_axis_text(c, kept));
    }
  }
  for (int32_t i = 0; i < idx->rank; i++) {
    if (!pm_need_axis(c, up, idx->dims[i].axis)) return false;
  }
  if (!pm_need_same_split(c, idx, up)) return false;
  for (int32_t i = 0; i < up->rank; i++) {
    bool kept = up->dims[i].axis != axis && pm_type_find(c->out, up->dims[i].axis) != PM_NONE;
    if (!kept && !pm_leave_partials(c, &up->dims[i].split, PM_SUM)) return false;
  }
  return pm_pass_sums(c, up);
}

static bool type_agrees(PmRuleCall *c, const PmType *a, const PmType *b) {
  return c->local ? pm_type_equal(a, b) : pm_type_same_logical(a, b);
}

// The callee, or NULL where there is none that takes n_in operands. Its parameters and results are valid values.
static const PmFn *callee(PmRuleCall *c) {
  PmFnId id = c->attr->callee;
  if (id < 0 || id >= c->m->n_fns || c->m->fns[id].dead) {
    pm_refuse(c, "no such function");
    return NULL;
  }
  const PmFn *f = &c->m->fns[id];
  if (f->n_params != c->n_in) {
    pm_refuse(c, "%s takes %d operands, not %d", f->name, f->n_params, c->n_in);
    return NULL;
  }
  for (int32_t i = 0; i < f->n_results; i++) {
    if (f->results[i] < 0 || f->results[i] >= f->n_values) {
      pm_refuse(c, "%s has no result %d", f->name, i);
      return NULL;
    }
  }
  return f;
}

bool pm_rule_call(PmRuleCall *c) {
  const PmFn *f = callee(c);
  if (!f) return false;
  for (int32_t i = 0; i < c->n_in; i++) {
    if (!type_agrees(c, &c->in[i], &f->values[i].type)) {
      return pm_refuse(c, "operand %d is not of the type that %s takes", i, f->name);
    }
  }
  for (int32_t i = 0; i < c->n_out; i++) c->out[i] = f->values[f->results[i]].type;
  return true;
}

// `outer` is `inner` with the whole repeat axis before it.
static bool stacked_agrees(PmRuleCall *c, const PmType *outer, const PmType *inner) {
  if (!outer->rank || outer->dims[0].axis != c->attr->axes[0]) return false;
  if (c->local && outer->dims[0].split.n) return false;
  PmType rest = *outer;
  rest.rank--;
  for (int32_t i = 0; i < rest.rank; i++) rest.dims[i] = outer->dims[i + 1];
  return type_agrees(c, &rest, inner);
}

bool pm_rule_repeat(PmRuleCall *c) {
  const PmAttr *a = c->attr;
  const PmFn *f = callee(c);
  if (!f) return false;
  if (a->n_axes != 1) return pm_refuse(c, "`repeat` takes one axis");
  if (a->n_carry < 0 || a->n_inv < 0 || a->n_carry > c->n_in || a->n_inv > c->n_in - a->n_carry ||
      a->n_carry > c->n_out) {
    return pm_refuse(c, "`repeat` carries more values than there are");
  }
  for (int32_t i = 0; i < c->n_in; i++) {
    bool whole = i < a->n_carry + a->n_inv;
    const PmType *want = &f->values[i].type;
    if (whole ? !type_agrees(c, &c->in[i], want) : !stacked_agrees(c, &c->in[i], want)) {
      return pm_refuse(c, "operand %d is not of the type that %s takes", i, f->name);
    }
  }
  for (int32_t i = 0; i < c->n_out; i++) {
    const PmType *t = &f->values[f->results[i]].type;
    if (i < a->n_carry) {
      if (!type_agrees(c, t, &f->values[i].type)) return pm_refuse(c, "carried value %d changes its type", i);
      c->out[i] = *t;
      continue;
    }
    if (!pm_type_valid(c->m, t, c->local, c->why)) return false;
    if (t->rank >= PM_MAX_RANK || pm_type_find(t, a->axes[0]) != PM_NONE) {
      return pm_refuse(c, "result %d has no room for the repeat axis", i);
    }
    PmType out = *t;
    for (int32_t k = out.rank++; k > 0; k--) out.dims[k] = out.dims[k - 1];
    out.dims[0] = (PmDim){.axis = a->axes[0]};
    c->out[i] = out;
  }
  return true;
}

// Takes the attribute's mesh axes off the minor end of the split of dim `at` of the result.
static bool pop_split(PmRuleCall *c, int32_t at) {
  PmSplit *s = &c->out->dims[at].split;
  int32_t n = c->attr->n_mesh;
  for (int32_t i = 0; i < n; i++) {
    if (n > s->n || s->mesh[s->n - n + i] != c->attr->mesh[i]) {
      return pm_refuse(c, "the split of axis %s does not end with these mesh axes",
                       pm_axis_text(c, c->out->dims[at].axis));
    }
  }
  if (s->zigzag && s->n == n && n > 1) return pm_refuse(c, "an order over one mesh axis does not go with others");
  for (int32_t i = 0; i < n; i++) s->mesh[--s->n] = 0;
  if (s->n == 0) s->zigzag = false;
  return true;
}

static bool push_split(PmRuleCall *c, int32_t at) {
  PmSplit *s = &c->out->dims[at].split;
  if (c->attr->zigzag && (s->n || c->attr->n_mesh != 1)) {
    return pm_refuse(c, "zigzag is an order over one mesh axis, the first");
  }
  for (int32_t i = 0; i < c->attr->n_mesh; i++) {
    if (!pm_split_push(s, c->attr->mesh[i])) {
      return pm_refuse(c, "a split over more than %d mesh axes", PM_MAX_SPLIT);
    }
  }
  if (c->attr->zigzag) s->zigzag = true;
  return true;
}

// The type of operand `k` without the partials that the attributes name, into result `k`.
static bool drop_partials(PmRuleCall *c, int32_t k) {
  c->out[k] = c->in[k];
  for (int32_t i = 0; i < c->attr->n_mesh; i++) {
    int32_t at = pm_type_partial_on(&c->in[k], c->attr->mesh[i]);
    if (at == PM_NONE || c->in[k].partial[at].kind != c->attr->kind) {
      return pm_refuse(c, "the operand owes no such reduction over mesh axis %s", c->m->mesh[c->attr->mesh[i]].name);
    }
    pm_type_drop_partial(&c->out[k], c->attr->mesh[i]);
  }
  return true;
}

static bool one_axis(PmRuleCall *c) {
  *c->out = *c->in;
  if (c->attr->n_axes != 1) return pm_refuse(c, "one axis is needed");
  return pm_need_axis(c, c->in, c->attr->axes[0]);
}

bool pm_rule_all_reduce(PmRuleCall *c) {
  if (c->n_in < 1 || c->n_in > PM_MAX_PARTS) return pm_refuse(c, "`all_reduce` takes 1 to %d operands", PM_MAX_PARTS);
  for (int32_t i = 0; i < c->n_in; i++) {
    if (c->in[i].dtype != c->in->dtype) return pm_refuse(c, "operand %d is of another dtype than the first", i);
    if (!drop_partials(c, i)) return false;
  }
  return true;
}

bool pm_rule_all_gather(PmRuleCall *c) { return one_axis(c) && pop_split(c, pm_type_find(c->in, c->attr->axes[0])); }

bool pm_rule_reduce_scatter(PmRuleCall *c) {
  return one_axis(c) && drop_partials(c, 0) && push_split(c, pm_type_find(c->in, c->attr->axes[0]));
}

bool pm_rule_all_to_all(PmRuleCall *c) {
  if (!one_axis(c)) return false;
  if (c->attr->n_to != 1 || c->attr->to[0] == c->attr->axes[0]) return pm_refuse(c, "`all_to_all` takes two axes");
  if (!pm_need_axis(c, c->in, c->attr->to[0])) return false;
  return pop_split(c, pm_type_find(c->in, c->attr->axes[0])) && push_split(c, pm_type_find(c->in, c->attr->to[0]));
}

bool pm_rule_permute(PmRuleCall *c) {
  if (!c->given || !pm_type_same_logical(c->in, c->given))
    return pm_refuse(c, "`permute` needs a type of the same axes");
  *c->out = *c->given;
  if (!c->local) return true;
  PmPermute p;
  if (!pm_permute_orders(c->m, c->in, c->given, &p)) return pm_refuse(c, "`permute` changes the shape of the parts");
  if (p.n != c->attr->n_mesh || memcmp(p.from, c->attr->mesh, (size_t)p.n) != 0) {
    return pm_refuse(c, "these are not the mesh axes among which `permute` moves parts");
  }
  return true;
}

bool pm_rule_shift(PmRuleCall *c) {
  *c->out = *c->in;
  return true;
}

bool pm_rule_slice(PmRuleCall *c) { return one_axis(c) && push_split(c, pm_type_find(c->in, c->attr->axes[0])); }
