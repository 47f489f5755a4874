// Routing: topk, dispatch and combine. Each (token, choice) has one slot of its expert: `slot_of` numbers the pairs of
// expert and slot, so that a dispatch is a scatter and a combine a lookup on the merged axis, each the other's
// transpose.
#include "frontend/lower.h"

static bool is_float(const PmLower *lw, const PmVal *v) {
  return v->kind == PM_V_NODE && pm_dtype_is_float((PmDtype)pm_val_type(lw, v)->dtype);
}

static PmSpan arg_span(const PmCall *c, int32_t i) { return c->args->items[i].value->span; }

// Axes in square brackets: n before the arrow, n_to after it.
static bool bracket_axes(PmLower *lw, const PmCall *c, int32_t n, int32_t n_to, const char *form, PmAxisId *out,
                         PmAxisId *out_to) {
  int32_t got = 0, got_to = 0;
  if (!c->brackets || c->brackets->n != n || (c->to ? c->to->n : 0) != n_to) {
    pm_lw_error(lw, PM_E_ARGS, c->expr->span, "write `%s`", form);
    return false;
  }
  if (!pm_lw_axis_list(lw, c->brackets, out, &got)) return false;
  if (n_to > 0 && !pm_lw_axis_list(lw, c->to, out_to, &got_to)) return false;
  const char *what = pm_arena_printf(lw->arena, "`%s`", c->name);
  for (int32_t i = 0; i < n + n_to; i++) {
    PmAxisId *axis = i < n ? &out[i] : &out_to[i - n];
    const PmArgs *from = i < n ? c->brackets : c->to;
    *axis = pm_lw_rows(lw, *axis, PM_ROWS_ALL, what, from->items[i < n ? i : i - n].value->span, NULL);
  }
  return true;
}

static bool has_axis(const PmLower *lw, const PmVal *v, PmAxisId axis) {
  return pm_type_find(pm_val_type(lw, v), axis) != PM_NONE;
}

static bool need_axis(PmLower *lw, const PmCall *c, int32_t arg, const PmVal *v, PmAxisId axis) {
  if (has_axis(lw, v, axis)) return true;
  if (pm_lw_error(lw, PM_E_NO_AXIS, arg_span(c, arg), "`%s` needs axis `%s`, which %s has not", c->name,
                  lw->m->axes[axis].name, pm_lw_text(lw, arg_span(c, arg)))) {
    pm_diag_label(lw->diags, arg_span(c, arg), "%s", pm_lw_val_axes(lw, v));
  }
  return false;
}

static bool need_no_axis(PmLower *lw, const PmCall *c, int32_t arg, const PmVal *v, PmAxisId axis) {
  if (!has_axis(lw, v, axis)) return true;
  if (pm_lw_error(lw, PM_E_AXIS_TWICE, arg_span(c, arg), "%s has axis `%s` already", pm_lw_text(lw, arg_span(c, arg)),
                  lw->m->axes[axis].name)) {
    pm_diag_label(lw->diags, arg_span(c, arg), "%s", pm_lw_val_axes(lw, v));
  }
  return false;
}

// topk[e -> c](p): the c largest elements and their positions, in place of e.
PmVal pm_lw_topk(PmLower *lw, const PmCall *c) {
  PmAxisId from, to;
  PmVal p = pm_lw_eval(lw, c->args->items[0].value);
  if (!bracket_axes(lw, c, 1, 1, "topk[e -> c](p)", &from, &to) || p.kind == PM_V_ERROR) return PM_ERROR_VAL;
  if (!is_float(lw, &p)) {
    pm_lw_error(lw, PM_E_DTYPE, arg_span(c, 0), "`topk` takes a tensor of floats");
    return PM_ERROR_VAL;
  }
  if (!need_axis(lw, c, 0, &p, from) || !need_no_axis(lw, c, 0, &p, to)) return PM_ERROR_VAL;
  const PmAxis *e = &lw->m->axes[from], *k = &lw->m->axes[to];
  if (k->size > e->size) {
    pm_lw_error(lw, PM_E_AXIS_SIZE, c->expr->span, "`%s` (%lld) chooses more than `%s` (%lld) has", k->name,
                (long long)k->size, e->name, (long long)e->size);
    return PM_ERROR_VAL;
  }
  pm_lw_at(lw, c->expr->span);
  p = pm_lw_data(lw, p);
  PmBuilder *b = &lw->frame->b;
  PmAttr a = {.n_axes = 1, .n_to = 1, .axes = {from}, .to = {to}};
  PmValueId who = pm_b_node(b, PM_OP_topk, &a, &p.id, 1, NULL);
  PmVal v = {.kind = PM_V_TUPLE, .n = 2, .id = PM_NONE, .items = PM_NEW_N(lw->arena, PmVal, 2)};
  v.items[0] = pm_val_node(pm_b_index(b, p.id, who, from), false);
  v.items[1] = pm_val_node(who, false);
  return v;
}

// The second argument of dispatch and combine: indices that point into an axis.
static bool indices(PmLower *lw, const PmCall *c, PmVal *out, PmAxisId *out_expert) {
  *out = pm_lw_eval(lw, c->args->items[1].value);
  if (out->kind == PM_V_ERROR) return false;
  PmType t = out->kind == PM_V_NODE ? *pm_val_type(lw, out) : pm_type_scalar(PM_F32);
  if (t.dtype != PM_I32 || t.index_of == PM_NONE) {
    if (pm_lw_error(lw, PM_E_INDEX, arg_span(c, 1), "`%s` takes indices that point into an axis as its second argument",
                    c->name)) {
      pm_diag_help(lw->diags, "such as the second result of `topk[e -> c](p)`");
    }
    return false;
  }
  *out_expert = t.index_of;
  return need_no_axis(lw, c, 1, out, t.index_of);
}

static int64_t positions(const PmLower *lw, const PmType *t) {
  int64_t n = 1;
  for (int32_t i = 0; i < t->rank; i++) {
    if (!pm_mul_i64(n, lw->m->axes[t->dims[i].axis].size, &n)) n = INT64_MAX;
  }
  return n;
}

// The axis over the slots of all experts, expert major; PM_NONE after an error.
static PmAxisId slot_axis(PmLower *lw, const PmCall *c, PmAxisId expert, PmAxisId slot) {
  const char *e = lw->m->axes[expert].name, *s = lw->m->axes[slot].name;
  int64_t n;
  if (pm_mul_i64(lw->m->axes[expert].size, lw->m->axes[slot].size, &n) && n <= PM_MAX_AXIS_SIZE &&
      lw->m->n_axes < PM_MAX_AXES) {
    return pm_module_local_axis(lw->m, pm_intern_printf(lw->names, "%s.%s", e, s), n);
  }
  pm_lw_error(lw, PM_E_LIMIT, c->expr->span, "`%s` and `%s` together have too many slots", e, s);
  return PM_NONE;
}

static PmValueId slots_of(PmLower *lw, PmVal who, PmAxisId expert, PmAxisId slot, PmAxisId merged) {
  PmAttr a = {.n_axes = 1, .n_to = 1, .axes = {expert}, .to = {merged}, .bounded = pm_lw_bounded(lw, slot)};
  return pm_b_node(&lw->frame->b, PM_OP_slot_of, &a, &who.id, 1, NULL);
}

static bool fits_rank(PmLower *lw, const PmCall *c, int32_t rank) {
  if (rank <= PM_MAX_RANK) return true;
  pm_lw_error(lw, PM_E_LIMIT, c->expr->span, "the rows of `%s` would have %d axes; a tensor has at most %d", c->name,
              rank, PM_MAX_RANK);
  return false;
}

// dispatch[e, s](x, i): x's rows in the slots of the experts that i names.
PmVal pm_lw_dispatch(PmLower *lw, const PmCall *c) {
  PmVal x = pm_lw_eval(lw, c->args->items[0].value), who;
  PmAxisId axes[2], expert;
  // The size of a ragged axis is known only now, from the indices.
  if (!indices(lw, c, &who, &expert) || x.kind == PM_V_ERROR) return PM_ERROR_VAL;
  PmType i = *pm_val_type(lw, &who);
  if (c->brackets && c->brackets->n == 2) {
    pm_lw_resolve_ragged(lw, c->brackets->items[1].value, positions(lw, &i), lw->m->axes[expert].size);
  }
  if (!bracket_axes(lw, c, 2, 0, "dispatch[expert, slot](x, i)", axes, NULL)) return PM_ERROR_VAL;
  if (axes[0] != expert) {
    pm_lw_error(lw, PM_E_INDEX, arg_span(c, 1), "%s points into `%s`, but `dispatch` is over `%s`",
                pm_lw_text(lw, arg_span(c, 1)), lw->m->axes[expert].name, lw->m->axes[axes[0]].name);
    return PM_ERROR_VAL;
  }
  if (!is_float(lw, &x)) {
    pm_lw_error(lw, PM_E_DTYPE, arg_span(c, 0), "`dispatch` takes a tensor of floats");
    return PM_ERROR_VAL;
  }
  if (!need_no_axis(lw, c, 0, &x, axes[0]) || !need_no_axis(lw, c, 0, &x, axes[1])) return PM_ERROR_VAL;
  PmAxisId merged = slot_axis(lw, c, expert, axes[1]);
  if (merged == PM_NONE) return PM_ERROR_VAL;
  if (lw->m->rows != PM_NONE && pm_type_find(&i, lw->m->rows) != PM_NONE) {
    pm_lw_check_capacity(lw, axes[1], positions(lw, &i), c->expr->span);
  }
  pm_lw_at(lw, c->expr->span);
  x = pm_lw_data(lw, x);
  PmType rows = *pm_val_type(lw, &x), updates = i, to = pm_type_scalar((PmDtype)rows.dtype);
  updates.dtype = rows.dtype;
  updates.index_of = PM_NONE;
  pm_type_add(&to, merged);
  int32_t rest = 0;
  for (int32_t k = 0; k < rows.rank; k++) rest += pm_type_find(&i, rows.dims[k].axis) == PM_NONE;
  if (!fits_rank(lw, c, i.rank + rest) || !fits_rank(lw, c, rest + 2)) return PM_ERROR_VAL;
  for (int32_t k = 0; k < rows.rank; k++) {
    if (pm_type_find(&i, rows.dims[k].axis) != PM_NONE) continue;
    pm_type_add(&updates, rows.dims[k].axis);
    pm_type_add(&to, rows.dims[k].axis);
  }
  PmBuilder *b = &lw->frame->b;
  PmValueId slots = slots_of(lw, who, expert, axes[1], merged);
  PmValueId h = pm_b_scatter_add(b, slots, pm_b_broadcast(b, x.id, updates), merged, to);
  return pm_val_node(pm_b_split(b, h, merged, axes, 2), false);
}

// combine[s](h, i): for each position of i the row of its slot, 0 where it was dropped.
PmVal pm_lw_combine(PmLower *lw, const PmCall *c) {
  PmVal h = pm_lw_eval(lw, c->args->items[0].value), who;
  PmAxisId axes[2];
  if (!bracket_axes(lw, c, 1, 0, "combine[slot](h, i)", &axes[1], NULL)) return PM_ERROR_VAL;
  if (!indices(lw, c, &who, &axes[0]) || h.kind == PM_V_ERROR) return PM_ERROR_VAL;
  if (!is_float(lw, &h)) {
    pm_lw_error(lw, PM_E_DTYPE, arg_span(c, 0), "`combine` takes a tensor of floats");
    return PM_ERROR_VAL;
  }
  PmType i = *pm_val_type(lw, &who);
  if (!need_axis(lw, c, 0, &h, axes[0]) || !need_axis(lw, c, 0, &h, axes[1])) return PM_ERROR_VAL;
  for (int32_t k = 0; k < i.rank; k++) {
    if (!need_no_axis(lw, c, 0, &h, i.dims[k].axis)) return PM_ERROR_VAL;
  }
  PmAxisId merged = slot_axis(lw, c, axes[0], axes[1]);
  if (merged == PM_NONE || !fits_rank(lw, c, i.rank + pm_val_type(lw, &h)->rank - 2)) return PM_ERROR_VAL;
  pm_lw_at(lw, c->expr->span);
  h = pm_lw_data(lw, h);
  PmBuilder *b = &lw->frame->b;
  PmType rows = *pm_val_type(lw, &h), flat = pm_type_scalar((PmDtype)rows.dtype);
  pm_type_add(&flat, axes[0]);
  pm_type_add(&flat, axes[1]);
  for (int32_t k = 0; k < rows.rank; k++) {
    if (pm_type_find(&flat, rows.dims[k].axis) == PM_NONE) pm_type_add(&flat, rows.dims[k].axis);
  }
  PmValueId table = pm_b_merge(b, pm_b_broadcast(b, h.id, flat), axes, 2, merged);
  return pm_val_node(pm_b_index(b, table, slots_of(lw, who, axes[0], axes[1], merged), merged), false);
}
