// Functions with a body of their own in the IR: one for each combination of argument types, axes and constants, and the
// declared forward and backward functions that come with them.
#include <string.h>

#include "base/assert.h"
#include "frontend/lower.h"

PmFrame *pm_lw_frame(PmLower *lw, PmFnId fn, PmSpan span) {
  PmFrame *f = PM_NEW(lw->arena, PmFrame);
  f->parent = lw->frame;
  f->b = (PmBuilder){.m = lw->m, .fn = fn, .loc = pm_lw_loc(lw, span)};
  f->var_vals = PM_NEW_N(lw->arena, PmValueId, lw->m->n_vars + 1);
  f->new_vals = PM_NEW_N(lw->arena, PmValueId, lw->m->n_vars + 1);
  for (int32_t i = 0; i < lw->m->n_vars; i++) f->var_vals[i] = f->new_vals[i] = PM_NONE;
  f->micro = PM_NONE;
  lw->frame = f;
  return f;
}

PmScope *pm_lw_fn_scope(PmLower *lw, const PmItem *item, PmUnit *unit, const PmAxisId *axes, const PmVal *args) {
  PmScope *s = pm_scope_new(lw, &unit->globals, PM_SCOPE_FN, unit, item->name.text);
  for (int32_t i = 0; i < item->axes.n; i++) {
    pm_scope_add(lw, s, pm_sym_axis(item->axes.items[i].text, axes[i], item->axes.items[i].span));
  }
  for (int32_t i = 0; i < item->defs.n; i++) {
    pm_scope_add(lw, s, pm_sym_value(item->defs.items[i].name.text, args[i], item->defs.items[i].name.span));
  }
  return s;
}

PmVal pm_lw_fn_body(PmLower *lw, const PmItem *item, PmScope *scope) {
  PmScope *outer = lw->scope;
  bool returned = lw->returned;
  PmVal v;
  lw->scope = scope;
  lw->returned = false;
  if (item->value) {
    v = pm_lw_eval(lw, item->value);
    lw->result_exprs = (PmExprs){0};
  } else {
    pm_lw_stmts(lw, &item->body);
    v = lw->returned ? lw->result : PM_ERROR_VAL;
    if (!lw->returned && !lw->stopped) {
      pm_lw_error(lw, PM_E_PROGRAM, item->name.span, "function `%s` has no `return`", item->name.text);
    }
  }
  lw->scope = outer;
  lw->returned = returned;
  return v;
}

typedef struct Body {
  const PmItem *item;
  PmUnit *unit;
  const PmAxisId *axes;
  const PmVal *args;
  const PmType *types;  // of NODE arguments
  const char *name;     // of the function, made unique
  const PmType *want;   // types that the first n_want results are brought to
  int32_t n_want;
} Body;

static int32_t result_list(PmVal *v, PmVal **out) {
  if (v->kind == PM_V_TUPLE) {
    *out = v->items;
    return v->n;
  }
  *out = v;
  return v->kind == PM_V_ERROR ? 0 : 1;
}

static void name_result(PmLower *lw, PmValueId id, int32_t i) {
  const PmFn *f = pm_fn(lw->m, lw->frame->b.fn);
  if (i >= lw->result_exprs.n || f->values[id].def == PM_NONE) return;
  const PmExpr *e = lw->result_exprs.items[i];
  if (e->kind == PM_X_NAME) pm_b_name(&lw->frame->b, id, e->name, false);
}

static bool fits(const PmLower *lw, PmVal v, const PmType *want) {
  const PmType *type = pm_val_type(lw, &v);
  for (int32_t i = 0; i < type->rank; i++) {
    if (pm_type_find(want, type->dims[i].axis) < 0) return false;
  }
  return true;
}

static bool set_results(PmLower *lw, const Body *body, PmVal v) {
  PmVal *list;
  int32_t n = result_list(&v, &list);
  PmValueId *ids = PM_NEW_N(lw->arena, PmValueId, n + 1);
  for (int32_t i = 0; i < n; i++) {
    PmVal r = pm_lw_data(lw, list[i]);
    if (r.kind != PM_V_NODE || (i < body->n_want && !fits(lw, r, &body->want[i]))) return false;
    ids[i] = i < body->n_want ? pm_lw_coerce(lw, r, &body->want[i]) : r.id;
    name_result(lw, ids[i], i);
  }
  PM_ASSERT(body->n_want == 0 || n >= body->n_want, "%s returns %d values", body->name, n);
  pm_b_results(&lw->frame->b, ids, n);
  return n > 0;
}

static PmFnId build(PmLower *lw, const Body *body) {
  PmFrame *outer = lw->frame;
  PmSpan user_call = lw->user_call;
  lw->user_call = PM_NO_SPAN;
  PmFnId fn = pm_lw_add_fn(lw, body->name, PM_FN_COMPOSITE, body->item->span);
  pm_fn(lw->m, fn)->base = body->item->name.text;
  pm_lw_frame(lw, fn, body->item->name.span);
  PmVal *args = PM_NEW_N(lw->arena, PmVal, body->item->defs.n + 1);
  for (int32_t i = 0; i < body->item->defs.n; i++) {
    args[i] = body->args[i];
    if (args[i].kind == PM_V_NODE) {
      args[i].id = pm_b_param(&lw->frame->b, body->types[i], body->item->defs.items[i].name.text);
    }
  }
  PmScope *scope = pm_lw_fn_scope(lw, body->item, body->unit, body->axes, args);
  scope->naming = true;
  PmVal v = pm_lw_fn_body(lw, body->item, scope);
  bool ok = v.kind != PM_V_ERROR && set_results(lw, body, v) && !pm_lw_sums_whole(lw, fn);
  if (!ok) pm_fn(lw->m, fn)->dead = true;
  lw->frame = outer;
  lw->user_call = user_call;
  return ok ? fn : PM_NONE;
}

static const PmSym *companion(PmLower *lw, const PmSym *fn, const char *suffix) {
  const char *name = pm_intern_printf(lw->names, "%s_%s", fn->item->name.text, suffix);
  const PmSym *sym = pm_scope_find_here(&fn->unit->callables, name);
  return sym && sym->kind == PM_SYM_ITEM && sym->item->kind == PM_IT_FN && sym->unit == fn->unit ? sym : NULL;
}

static PmType type_of(const PmLower *lw, PmFnId fn, PmValueId id) { return pm_fn(lw->m, fn)->values[id].type; }

static int32_t find_def(const PmItem *item, const char *name) {
  for (int32_t i = 0; i < item->defs.n; i++) {
    if (item->defs.items[i].name.text == name) return i;
  }
  return PM_NONE;
}

// Finds the result of fwd that carries `name`; the first `n` only.
static int32_t find_result(const PmLower *lw, PmFnId fwd, const char *name, int32_t n) {
  const PmFn *f = pm_fn(lw->m, fwd);
  for (int32_t i = 0; i < n; i++) {
    if (f->values[f->results[i]].name == name) return i;
  }
  return PM_NONE;
}

// A parameter of bwd is a parameter of the function, a result of fwd, or "d_" and a result of the function.
static void bwd_param(PmLower *lw, const Body *x, PmFnId fwd, int32_t n_results, const char *name, PmVal *out_arg,
                      PmType *out_type) {
  int32_t own = find_def(x->item, name);
  if (own != PM_NONE) {
    *out_arg = x->args[own];
    *out_type = x->types[own];
    return;
  }
  int32_t at = find_result(lw, fwd, name, pm_fn(lw->m, fwd)->n_results);
  if (at == PM_NONE && strncmp(name, "d_", 2) == 0)
    at = find_result(lw, fwd, pm_intern(lw->names, name + 2), n_results);
  PM_ASSERT(at != PM_NONE, "%s: `%s` is neither a parameter nor a result", x->name, name);
  *out_arg = pm_val_node(PM_NONE, false);
  *out_type = type_of(lw, fwd, pm_fn(lw->m, fwd)->results[at]);
}

// A declared derivative is for the usual axes of the arguments. With others, as with values of attention that have an
// axis of their own, it need not build: the function's own body is differentiated then.
static void build_derivative(PmLower *lw, const PmSym *fn, const Body *x, PmFnId made) {
  const PmSym *fwd = companion(lw, fn, "fwd"), *bwd = companion(lw, fn, "bwd");
  if (!fwd || !bwd) return;
  const char *name = pm_fn(lw->m, made)->name;
  int32_t n_results = pm_fn(lw->m, made)->n_results;
  PmType *want = PM_NEW_N(lw->arena, PmType, n_results + x->item->defs.n + 1);
  for (int32_t i = 0; i < n_results; i++) want[i] = type_of(lw, made, pm_fn(lw->m, made)->results[i]);
  Body f = *x;
  f.item = fwd->item;
  f.name = pm_arena_printf(lw->arena, "%s.fwd", name);
  f.want = want;
  f.n_want = n_results;
  PmFnId fwd_fn = build(lw, &f);
  if (lw->stopped) return;
  PM_ASSERT(fwd_fn != PM_NONE, "%s does not build", f.name);
  int32_t n = bwd->item->defs.n;
  PmVal *args = PM_NEW_N(lw->arena, PmVal, n + 1);
  PmType *types = PM_NEW_N(lw->arena, PmType, n + 1);
  for (int32_t i = 0; i < n; i++) {
    bwd_param(lw, x, fwd_fn, n_results, bwd->item->defs.items[i].name.text, &args[i], &types[i]);
  }
  Body b = {.item = bwd->item, .unit = x->unit, .axes = x->axes, .args = args, .types = types, .want = want};
  b.name = pm_arena_printf(lw->arena, "%s.bwd", name);
  for (int32_t i = 0; i < x->item->defs.n; i++) {
    if (pm_val_is_data(&x->args[i]) && pm_dtype_is_float((PmDtype)x->types[i].dtype)) want[b.n_want++] = x->types[i];
  }
  bool trial = lw->trial;
  lw->trial = true;
  if (build(lw, &b) == PM_NONE) pm_fn(lw->m, fwd_fn)->dead = true;
  lw->trial = trial;
}

static bool same_args(const PmLower *lw, const Body *x, const PmInstance *i) {
  if (i->item != x->item || i->reduce != lw->reduce ||
      memcmp(i->axes, x->axes, (size_t)x->item->axes.n * sizeof *x->axes) != 0)
    return false;
  for (int32_t k = 0; k < i->n_args; k++) {
    const PmVal *a = &i->args[k], *b = &x->args[k];
    if (a->kind != b->kind || a->exact != b->exact || a->truth != b->truth) return false;
    if (a->kind == PM_V_NUM && memcmp(&a->num, &b->num, sizeof a->num) != 0) return false;
    if (a->kind == PM_V_NODE && !pm_type_same_logical(&i->types[k], &x->types[k])) return false;
  }
  return true;
}

static PmFnId instantiate(PmLower *lw, const PmSym *fn, const Body *x, bool *out_written_out) {
  for (int32_t i = 0; i < lw->n_instances; i++) {
    if (!same_args(lw, x, &lw->instances[i])) continue;
    *out_written_out = lw->instances[i].written_out;
    return lw->instances[i].fn;
  }
  int32_t sums = lw->n_whole_sums;
  PmFnId made = build(lw, x);
  bool written_out = lw->n_whole_sums > sums;
  lw->n_whole_sums = sums;
  lw->instances = pm_grow(lw->arena, lw->instances, lw->n_instances, &lw->cap_instances, sizeof *lw->instances);
  PmInstance *inst = &lw->instances[lw->n_instances++];
  *inst = (PmInstance){
      .item = x->item, .n_args = x->item->defs.n, .reduce = lw->reduce, .fn = made, .written_out = written_out};
  *out_written_out = written_out;
  memcpy(inst->axes, x->axes, (size_t)x->item->axes.n * sizeof *x->axes);
  inst->args = PM_NEW_N(lw->arena, PmVal, inst->n_args + 1);
  inst->types = PM_NEW_N(lw->arena, PmType, inst->n_args + 1);
  memcpy(inst->args, x->args, (size_t)inst->n_args * sizeof *x->args);
  memcpy(inst->types, x->types, (size_t)inst->n_args * sizeof *x->types);
  if (made != PM_NONE && fn->unit->is_std) build_derivative(lw, fn, x, made);
  return made;
}

PmVal pm_lw_call_composite(PmLower *lw, const PmSym *fn, const PmAxisId *axes, const PmVal *args, PmSpan span,
                           bool *out_written_out) {
  int32_t n = fn->item->defs.n, n_in = 0;
  PmType *types = PM_NEW_N(lw->arena, PmType, n + 1);
  PmValueId *in = PM_NEW_N(lw->arena, PmValueId, n + 1);
  for (int32_t i = 0; i < n; i++) {
    if (args[i].kind != PM_V_NODE) continue;
    types[i] = *pm_val_type(lw, &args[i]);
    in[n_in++] = args[i].id;
  }
  Body x = {
      .item = fn->item, .unit = fn->unit, .axes = axes, .args = args, .types = types, .name = fn->item->name.text};
  PmFnId callee = instantiate(lw, fn, &x, out_written_out);
  if (callee == PM_NONE) return PM_ERROR_VAL;
  pm_lw_at(lw, span);
  PmValueId out = pm_b_call(&lw->frame->b, callee, in, n_in);
  int32_t n_out = pm_fn(lw->m, callee)->n_results;
  if (n_out == 1) return pm_val_node(out, false);
  PmVal v = {.kind = PM_V_TUPLE, .n = n_out, .id = PM_NONE};
  v.items = PM_NEW_N(lw->arena, PmVal, n_out);
  for (int32_t i = 0; i < n_out; i++) v.items[i] = pm_val_node(out + i, false);
  return v;
}
