// Functions that rename, make or break axes, and indexing by name.
#include <math.h>

#include "frontend/lower.h"

// The tensor argument of an axis op; false after an error.
static bool tensor_arg(PmLower *lw, const PmCall *c, int32_t i, PmVal *out) {
  *out = pm_lw_eval(lw, c->args->items[i].value);
  if (out->kind == PM_V_NODE) return true;
  if (out->kind != PM_V_ERROR) {
    PmSpan span = c->args->items[i].value->span;
    pm_lw_error(lw, PM_E_KIND, span, "`%s` takes a tensor, but %s is a number", c->name, pm_lw_text(lw, span));
  }
  return false;
}

// The axes before the arrow.
static bool from_axes(PmLower *lw, const PmCall *c, PmAxisId *out, int32_t *out_n) {
  if (!pm_lw_axis_list(lw, c->brackets, out, out_n)) return false;
  const char *what = pm_arena_printf(lw->arena, "`%s`", c->name);
  for (int32_t i = 0; i < *out_n; i++) {
    out[i] = pm_lw_rows(lw, out[i], PM_ROWS_ALL, what, c->brackets->items[i].value->span, NULL);
  }
  return true;
}

static bool need_axis(PmLower *lw, const PmCall *c, const PmType *t, PmAxisId axis, PmSpan span) {
  if (pm_type_find(t, axis) != PM_NONE) return true;
  const char *name = lw->m->axes[axis].name;
  if (pm_lw_error(lw, PM_E_NO_AXIS, span, "`%s` changes `%s`, but its operand has no such axis", c->name, name)) {
    pm_diag_label(lw->diags, c->args->items[0].value->span, "%s", pm_lw_axes(lw, t));
    const char *names[PM_MAX_RANK];
    for (int32_t k = 0; k < t->rank; k++) names[k] = lw->m->axes[t->dims[k].axis].name;
    pm_lw_suggest(lw, name, names, t->rank);
  }
  return false;
}

static bool need_arrow(PmLower *lw, const PmCall *c, int32_t n_from, int32_t n_to) {
  bool ok = c->to && c->to->n > 0 && (n_from == 0 || c->brackets->n == n_from) && (n_to == 0 || c->to->n == n_to);
  if (ok) return true;
  const char *form = n_from == 1 ? "split[axis -> major, minor](x)"
                     : n_to == 1 ? "merge[major, minor -> axis](x)"
                                 : "rename[old -> new](x)";
  pm_lw_error(lw, PM_E_ARGS, c->expr->span, "write `%s`", form);
  return false;
}

// The result may not have an axis twice.
static bool axis_free(PmLower *lw, const PmCall *c, const PmType *t, const PmAxisId *gone, int32_t n_gone,
                      PmAxisId axis, PmSpan span) {
  if (pm_type_find(t, axis) == PM_NONE) return true;
  for (int32_t i = 0; i < n_gone; i++) {
    if (gone[i] == axis) return true;
  }
  pm_lw_error(lw, PM_E_AXIS_TWICE, span, "the result of `%s` would have axis `%s` twice", c->name,
              lw->m->axes[axis].name);
  return false;
}

static bool distinct(PmLower *lw, const PmArgs *args, const PmAxisId *axes, int32_t n) {
  for (int32_t k = 0; k < n; k++) {
    if (axes[k] != axes[n]) continue;
    pm_lw_error(lw, PM_E_AXIS_TWICE, args->items[n].value->span, "axis `%s` is listed twice",
                lw->m->axes[axes[n]].name);
    return false;
  }
  return true;
}

PmVal pm_lw_rename(PmLower *lw, const PmCall *c) {
  PmVal v;
  PmAxisId from[PM_MAX_RANK], to[PM_MAX_RANK];
  int32_t n;
  if (!tensor_arg(lw, c, 0, &v) || !need_arrow(lw, c, 0, 0) || !from_axes(lw, c, from, &n)) {
    return PM_ERROR_VAL;
  }
  if (c->to->n != n) {
    pm_lw_error(lw, PM_E_ARGS, c->expr->span, "`rename` needs as many axes after `->` as before: %d, not %d", n,
                c->to->n);
    return PM_ERROR_VAL;
  }
  PmType t = *pm_val_type(lw, &v);
  for (int32_t i = 0; i < n; i++) {
    PmSpan span = c->brackets->items[i].value->span, to_span = c->to->items[i].value->span;
    if (!need_axis(lw, c, &t, from[i], span)) return PM_ERROR_VAL;
    to[i] = pm_lw_target_axis(lw, c->to->items[i].value, lw->m->axes[from[i]].size);
    if (to[i] == PM_NONE || !distinct(lw, c->to, to, i) || !axis_free(lw, c, &t, from, n, to[i], to_span)) {
      return PM_ERROR_VAL;
    }
  }
  pm_lw_at(lw, c->expr->span);
  return pm_val_node(pm_b_rename(&lw->frame->b, v.id, from, to, n), v.exact);
}

// The size of target i of a split: given as `name = n`, or that of the declared axis; 0: not said.
static bool split_size(PmLower *lw, const PmCall *c, int32_t i, int64_t *out) {
  const PmExpr *e = c->to->items[i].value;
  *out = 0;
  if (e->kind != PM_X_NAME) return pm_lw_axis(lw, e) != PM_NONE;
  for (int32_t k = 0; k < c->args->n; k++) {
    const PmArg *a = &c->args->items[k];
    if (a->name.text == e->name) return pm_lw_eval_whole(lw, a->value, "the size of a part", 1, PM_MAX_AXIS_SIZE, out);
  }
  const PmSym *sym = pm_scope_find(lw->scope, e->name);
  if (sym && sym->kind == PM_SYM_AXIS) *out = lw->m->axes[sym->axis & ~PM_AXIS_MICRO].size;
  return true;
}

static bool split_names(PmLower *lw, const PmCall *c) {
  for (int32_t k = 0; k < c->args->n; k++) {
    const PmArg *a = &c->args->items[k];
    bool known = !a->name.text;
    for (int32_t i = 0; i < c->to->n; i++) known = known || c->to->items[i].value->name == a->name.text;
    if (known) continue;
    pm_lw_error(lw, PM_E_ARGS, a->name.span, "`split` makes no axis `%s`", a->name.text);
    return false;
  }
  return true;
}

// Fills in the one size that the others leave.
static bool split_rest(PmLower *lw, const PmCall *c, int64_t size, int64_t *sizes, int32_t n) {
  int64_t known = 1;
  int32_t open = PM_NONE;
  for (int32_t i = 0; i < n; i++) {
    if (sizes[i] && !pm_mul_i64(known, sizes[i], &known)) known = INT64_MAX;
    if (sizes[i]) continue;
    if (open != PM_NONE) {
      if (pm_lw_error(lw, PM_E_ARGS, c->expr->span, "the sizes of `%s` and `%s` are both open",
                      c->to->items[open].value->name, c->to->items[i].value->name)) {
        pm_diag_help(lw->diags, "give one: `%s = 2`", c->to->items[open].value->name);
      }
      return false;
    }
    open = i;
  }
  bool fits = open == PM_NONE ? known == size : size % known == 0;
  if (open != PM_NONE && fits) sizes[open] = size / known;
  if (fits) return true;
  pm_lw_error(lw, PM_E_AXIS_SIZE, c->expr->span, "an axis of size %lld does not split into these parts",
              (long long)size);
  return false;
}

PmVal pm_lw_split(PmLower *lw, const PmCall *c) {
  PmVal v;
  PmAxisId from[PM_MAX_RANK], to[PM_MAX_RANK];
  int64_t sizes[PM_MAX_RANK];
  int32_t n;
  if (!tensor_arg(lw, c, 0, &v) || !need_arrow(lw, c, 1, 0) || !from_axes(lw, c, from, &n)) {
    return PM_ERROR_VAL;
  }
  PmType t = *pm_val_type(lw, &v);
  if (!need_axis(lw, c, &t, from[0], c->brackets->items[0].value->span) || !split_names(lw, c)) return PM_ERROR_VAL;
  n = c->to->n;
  if (t.rank - 1 + n > PM_MAX_RANK) {
    pm_lw_error(lw, PM_E_LIMIT, c->expr->span, "a tensor has at most %d axes", PM_MAX_RANK);
    return PM_ERROR_VAL;
  }
  for (int32_t i = 0; i < n; i++) {
    if (!split_size(lw, c, i, &sizes[i])) return PM_ERROR_VAL;
  }
  if (!split_rest(lw, c, lw->m->axes[from[0]].size, sizes, n)) return PM_ERROR_VAL;
  for (int32_t i = 0; i < n; i++) {
    to[i] = pm_lw_target_axis(lw, c->to->items[i].value, sizes[i]);
    if (to[i] == PM_NONE || !distinct(lw, c->to, to, i)) return PM_ERROR_VAL;
    if (!axis_free(lw, c, &t, from, 1, to[i], c->to->items[i].value->span)) return PM_ERROR_VAL;
  }
  pm_lw_at(lw, c->expr->span);
  return pm_val_node(pm_b_split(&lw->frame->b, v.id, from[0], to, n), v.exact);
}

// The type with the merged axes side by side, major first, where the minor one stands: then a merge moves no element.
static PmType side_by_side(const PmType *t, const PmAxisId *from, int32_t n) {
  PmType out = pm_type_scalar((PmDtype)t->dtype);
  out.index_of = t->index_of;
  for (int32_t i = 0; i < t->rank; i++) {
    bool merged = false;
    for (int32_t k = 0; k < n; k++) merged = merged || from[k] == t->dims[i].axis;
    if (!merged) pm_type_add(&out, t->dims[i].axis);
    for (int32_t k = 0; t->dims[i].axis == from[n - 1] && k < n; k++) pm_type_add(&out, from[k]);
  }
  return out;
}

PmVal pm_lw_merge(PmLower *lw, const PmCall *c) {
  PmVal v;
  PmAxisId from[PM_MAX_RANK];
  int32_t n;
  if (!tensor_arg(lw, c, 0, &v) || !need_arrow(lw, c, 0, 1) || !from_axes(lw, c, from, &n)) {
    return PM_ERROR_VAL;
  }
  PmType t = *pm_val_type(lw, &v);
  int64_t size = 1;
  for (int32_t i = 0; i < n; i++) {
    if (!need_axis(lw, c, &t, from[i], c->brackets->items[i].value->span)) return PM_ERROR_VAL;
    if (!pm_mul_i64(size, lw->m->axes[from[i]].size, &size)) size = INT64_MAX;
  }
  PmAxisId to = pm_lw_target_axis(lw, c->to->items[0].value, size);
  if (to == PM_NONE || !axis_free(lw, c, &t, from, n, to, c->to->items[0].value->span)) return PM_ERROR_VAL;
  pm_lw_at(lw, c->expr->span);
  v.id = pm_b_broadcast(&lw->frame->b, v.id, side_by_side(&t, from, n));
  return pm_val_node(pm_b_merge(&lw->frame->b, v.id, from, n, to), v.exact);
}

// The operands of a stack as nodes of one type, that of the first tensor among them.
static bool stack_operands(PmLower *lw, const PmCall *c, const PmVal *v, int32_t n, PmValueId *out, bool *out_exact) {
  int32_t first = PM_NONE;
  *out_exact = true;
  for (int32_t i = 0; i < n; i++) {
    if (v[i].kind == PM_V_NODE && (first == PM_NONE || (v[first].exact && !v[i].exact))) first = i;
    *out_exact = *out_exact && !pm_val_is_data(&v[i]);
  }
  if (first == PM_NONE) {
    pm_lw_error(lw, PM_E_KIND, c->expr->span, "`stack` takes tensors, not numbers alone");
    return false;
  }
  PmType want = *pm_val_type(lw, &v[first]);
  for (int32_t i = 0; i < n; i++) {
    PmSpan span = c->args->items[i].value->span;
    PmType t = v[i].kind == PM_V_NODE ? *pm_val_type(lw, &v[i]) : pm_type_scalar((PmDtype)want.dtype);
    bool same = pm_val_is_data(&v[i]) ? pm_lw_same_axes(&t, &want) && t.dtype == want.dtype : t.rank <= want.rank;
    for (int32_t k = 0; same && k < t.rank; k++) same = pm_type_find(&want, t.dims[k].axis) != PM_NONE;
    if (!same) {
      pm_lw_error(lw, PM_E_AXES, span, "`stack` takes tensors of equal axes: %s and %s differ", pm_lw_axes(lw, &want),
                  pm_lw_axes(lw, &t));
      return false;
    }
    pm_lw_at(lw, c->expr->span);
    out[i] = pm_lw_coerce(lw, v[i], &want);
  }
  return true;
}

PmVal pm_lw_stack(PmLower *lw, const PmCall *c) {
  int32_t n = c->args->n;
  PmVal *v = PM_NEW_N(lw->arena, PmVal, n);
  bool bad = false;
  for (int32_t i = 0; i < n; i++) {
    v[i] = pm_lw_eval(lw, c->args->items[i].value);
    bad = bad || (v[i].kind != PM_V_NODE && v[i].kind != PM_V_NUM);
  }
  if (bad) return PM_ERROR_VAL;
  if (c->brackets->n != 1 || (c->to && c->to->n)) {
    pm_lw_error(lw, PM_E_ARGS, c->expr->span, "write `stack[axis](a, b)`");
    return PM_ERROR_VAL;
  }
  PmValueId *in = PM_NEW_N(lw->arena, PmValueId, n);
  bool exact;
  if (!stack_operands(lw, c, v, n, in, &exact)) return PM_ERROR_VAL;
  const PmExpr *target = c->brackets->items[0].value;
  PmAxisId axis = pm_lw_target_axis(lw, target, n);
  PmType t = *pm_b_type(&lw->frame->b, in[0]);
  if (axis == PM_NONE || !axis_free(lw, c, &t, NULL, 0, axis, target->span)) return PM_ERROR_VAL;
  if (t.rank >= PM_MAX_RANK) {
    pm_lw_error(lw, PM_E_LIMIT, c->expr->span, "a tensor has at most %d axes", PM_MAX_RANK);
    return PM_ERROR_VAL;
  }
  return pm_val_node(pm_b_stack(&lw->frame->b, in, n, axis), exact);
}

static PmVal select_at(PmLower *lw, const PmExpr *e, PmVal v, PmAxisId axis, const PmArg *a, double at) {
  int64_t size = lw->m->axes[axis].size;
  if (at != floor(at) || at < 0 || at >= (double)size) {
    pm_lw_error(lw, PM_E_CONSTANT, a->value->span, "axis `%s` has positions 0 to %lld", lw->m->axes[axis].name,
                (long long)size - 1);
    return PM_ERROR_VAL;
  }
  pm_lw_at(lw, e->span);
  return pm_val_node(pm_b_select(&lw->frame->b, v.id, axis, (int64_t)at), v.exact);
}

static PmVal index_by(PmLower *lw, const PmExpr *e, PmVal v, PmAxisId axis, const PmArg *a, PmVal at) {
  if (at.exact) at = pm_lw_positions(lw, at, axis, a->value->span);
  if (at.kind == PM_V_ERROR) return at;
  PmType t = *pm_val_type(lw, &v), i = *pm_val_type(lw, &at);
  const char *name = lw->m->axes[axis].name;
  if (i.dtype != PM_I32) {
    pm_lw_error(lw, PM_E_DTYPE, a->value->span, "an index is an integer, but %s is %s", pm_lw_text(lw, a->value->span),
                pm_dtype_text((PmDtype)i.dtype));
    return PM_ERROR_VAL;
  }
  if (i.index_of != axis) {
    if (i.index_of == PM_NONE) {
      pm_lw_error(lw, PM_E_INDEX, a->value->span, "%s does not say which axis it points into; `%s` is indexed",
                  pm_lw_text(lw, a->value->span), name);
    } else {
      pm_lw_error(lw, PM_E_INDEX, a->value->span, "%s points into `%s`, but `%s` is indexed",
                  pm_lw_text(lw, a->value->span), lw->m->axes[i.index_of].name, name);
    }
    return PM_ERROR_VAL;
  }
  int32_t rank = t.rank - 1;
  for (int32_t k = 0; k < i.rank; k++) {
    PmAxisId own = i.dims[k].axis;
    if (own == axis) {
      if (pm_lw_error(lw, PM_E_AXIS_TWICE, a->value->span, "the index itself has axis `%s`", name)) {
        pm_diag_help(lw->diags, "give the index another axis, and `rename` that one afterwards");
      }
      return PM_ERROR_VAL;
    }
    rank += pm_type_find(&t, own) == PM_NONE;
  }
  if (rank > PM_MAX_RANK) {
    pm_lw_error(lw, PM_E_LIMIT, e->span, "a tensor has at most %d axes", PM_MAX_RANK);
    return PM_ERROR_VAL;
  }
  pm_lw_at(lw, e->span);
  if (v.exact) v = pm_val_node(pm_lw_node(lw, v, PM_F32), false);
  return pm_val_node(pm_b_index(&lw->frame->b, v.id, at.id, axis), false);
}

static PmVal slice_of(PmLower *lw, const PmExpr *e, PmVal v, PmAxisId axis, const PmArg *a, const PmExpr *target) {
  int64_t size = lw->m->axes[axis].size, lo, hi;
  if (!pm_lw_eval_whole(lw, a->value, "the first position of a slice", 0, size - 1, &lo)) return PM_ERROR_VAL;
  if (!pm_lw_eval_whole(lw, a->end, "the end of a slice", lo + 1, size, &hi)) return PM_ERROR_VAL;
  if (!target) {
    const char *name = lw->m->axes[axis].name;
    if (lo == 0 && hi == size) return v;
    if (pm_lw_error(lw, PM_E_ARGS, a->name.span, "a slice needs an axis of its own: `%s` has size %lld, not %lld", name,
                    (long long)size, (long long)(hi - lo))) {
      pm_diag_help(lw->diags, "name one behind an arrow: `%s[%s = %lld : %lld -> part]`",
                   e->a->kind == PM_X_NAME ? e->a->name : "x", name, (long long)lo, (long long)hi);
    }
    return PM_ERROR_VAL;
  }
  PmAxisId to = pm_lw_target_axis(lw, target, hi - lo);
  if (to == PM_NONE) return PM_ERROR_VAL;
  if (to != axis && pm_type_find(pm_val_type(lw, &v), to) != PM_NONE) {
    pm_lw_error(lw, PM_E_AXIS_TWICE, target->span, "the slice would have axis `%s` twice", lw->m->axes[to].name);
    return PM_ERROR_VAL;
  }
  pm_lw_at(lw, e->span);
  return pm_lw_slice(lw, v, axis, lo, hi, to);
}

// `target`: the axis behind the arrow for a slice, or NULL.
static PmVal index_one(PmLower *lw, const PmExpr *e, PmVal v, const PmArg *a, const PmExpr *target) {
  if (!a->name.text) {
    if (pm_lw_error(lw, PM_E_ARGS, a->value->span, "an index names its axis")) {
      pm_diag_help(lw->diags, "write `%s[axis = ...]`", e->a->kind == PM_X_NAME ? e->a->name : "x");
    }
    return PM_ERROR_VAL;
  }
  PmAxisId axis = pm_lw_axis_name(lw, a->name);
  if (axis == PM_NONE) return PM_ERROR_VAL;
  axis = pm_lw_rows(lw, axis, PM_ROWS_ALL, "an index", a->name.span, NULL);
  PmType t = *pm_val_type(lw, &v);
  if (pm_type_find(&t, axis) == PM_NONE) {
    if (pm_lw_error(lw, PM_E_NO_AXIS, a->name.span, "%s has no axis `%s` to index", pm_lw_text(lw, e->a->span),
                    lw->m->axes[axis].name)) {
      pm_diag_label(lw->diags, e->a->span, "%s", pm_lw_axes(lw, &t));
    }
    return PM_ERROR_VAL;
  }
  if (a->end) return slice_of(lw, e, v, axis, a, target);
  PmVal at = pm_lw_eval(lw, a->value);
  if (at.kind == PM_V_NUM && !at.truth) return select_at(lw, e, v, axis, a, at.num);
  if (at.kind == PM_V_NODE) return index_by(lw, e, v, axis, a, at);
  if (at.kind != PM_V_ERROR) pm_lw_error(lw, PM_E_KIND, a->value->span, "an index is a number or a tensor of indices");
  return PM_ERROR_VAL;
}

static PmVal index_by_name(PmLower *lw, const PmExpr *e) {
  PmVal v = pm_lw_eval(lw, e->a);
  if (v.kind == PM_V_ERROR) return v;
  if (v.kind != PM_V_NODE) {
    pm_lw_error(lw, PM_E_KIND, e->a->span, "only a tensor can be indexed");
    return PM_ERROR_VAL;
  }
  int32_t slices = 0, taken = 0;
  for (int32_t i = 0; i < e->args.n; i++) slices += e->args.items[i].end != NULL;
  if (e->to.n && e->to.n != slices) {
    pm_lw_error(lw, PM_E_ARGS, e->span,
                slices ? "as many axes stand behind `->` as there are slices: %d, not %d"
                       : "an index has no `->`, only a slice `axis = a : b` has",
                slices, e->to.n);
    return PM_ERROR_VAL;
  }
  for (int32_t i = 0; i < e->args.n && v.kind == PM_V_NODE; i++) {
    const PmArg *a = &e->args.items[i];
    v = index_one(lw, e, v, a, a->end && e->to.n ? e->to.items[taken++].value : NULL);
  }
  return v;
}

PmVal pm_lw_index(PmLower *lw, const PmExpr *e) {
  PmVal v = index_by_name(lw, e);
  if (v.kind == PM_V_ERROR) pm_lw_fail_targets(lw, &e->to);
  return v;
}
