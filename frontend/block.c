// Statements, and blocks: inlined where they are called, their values named by path.
#include <string.h>

#include "frontend/lower.h"

static bool at_block_level(const PmScope *s) { return s->kind == PM_SCOPE_BLOCK; }
static bool at_model_level(const PmScope *s) { return at_block_level(s) && !s->inst->block && s->inst->n_repeats == 0; }

// Gives a node the path of the name that it is bound to. The first name stays, but `logits` of the model is looked up
// by name and always gets it.
static void name_node(PmLower *lw, const char *name, PmVal v) {
  PmScope *s = lw->scope;
  if (v.kind != PM_V_NODE || !s->naming) return;
  const PmValue *node = &pm_fn(lw->m, lw->frame->b.fn)->values[v.id];
  bool wanted = at_model_level(s) && strcmp(name, "logits") == 0;
  if (node->def == PM_NONE || (node->name && !wanted)) return;
  const char *path = at_block_level(s) ? pm_lw_path(lw, s->path, name) : name;
  pm_b_name(&lw->frame->b, v.id, path, at_block_level(s) && !v.exact);
}

static PmVal keep_type(PmLower *lw, const PmSym *sym, PmName name, PmVal v) {
  if (v.kind != PM_V_NUM && v.kind != PM_V_NODE) return v;
  PmType t = v.kind == PM_V_NODE ? *pm_val_type(lw, &v) : pm_type_scalar(PM_F32);
  bool fits = pm_val_is_data(&v) ? pm_lw_same_axes(&t, &sym->type) : true;
  for (int32_t i = 0; fits && i < t.rank; i++) fits = pm_type_find(&sym->type, t.dims[i].axis) != PM_NONE;
  bool numbers = pm_dtype_is_float((PmDtype)t.dtype) && pm_dtype_is_float((PmDtype)sym->type.dtype);
  if (fits && (numbers || t.dtype == sym->type.dtype)) {
    pm_lw_at(lw, name.span);
    return pm_val_node(pm_lw_coerce(lw, v, &sym->type), false);
  }
  if (pm_lw_error(lw, PM_E_AXES, name.span, "`%s` must keep its type: it has %s%s, and %s%s is assigned", name.text,
                  pm_dtype_text((PmDtype)sym->type.dtype), pm_lw_axes(lw, &sym->type), pm_dtype_text((PmDtype)t.dtype),
                  pm_lw_axes(lw, &t))) {
    pm_diag_label(lw->diags, sym->span, "`%s` comes from outside", name.text);
    pm_diag_note(lw->diags, "names that are carried from turn to turn, and states, have one type");
  }
  return PM_ERROR_VAL;
}

// The value after the step; the name goes on to mean the value at its start.
static void assign_state(PmLower *lw, const PmSym *sym, PmName name, PmVal v) {
  PmFrame *f = lw->frame;
  if (sym->var == PM_NONE || v.kind == PM_V_ERROR) return;
  if (sym->var < f->var_lo || sym->var >= f->var_hi) {
    if (pm_lw_error(lw, PM_E_PROGRAM, name.span, "state `%s` is assigned once a step, but `repeat` comes here often",
                    name.text)) {
      pm_diag_label(lw->diags, sym->span, "declared outside of the `repeat`");
      pm_diag_help(lw->diags, "declare it inside: each turn then has a state of its own");
    }
    return;
  }
  if (f->new_vals[sym->var] != PM_NONE) {
    if (pm_lw_error(lw, PM_E_REDEFINED, name.span, "state `%s` is assigned a second time in one step", name.text)) {
      pm_diag_label(lw->diags, sym->span, "declared here");
      if (lw->n_active > 0) pm_diag_label(lw->diags, lw->active_calls[lw->n_active - 1], "by this call of its block");
      pm_diag_note(lw->diags, "a state reads its value at the start of the step, and is assigned once");
    }
    return;
  }
  v = keep_type(lw, sym, name, v);
  if (v.kind == PM_V_NODE) f->new_vals[sym->var] = v.id;
}

void pm_lw_assign(PmLower *lw, PmName name, PmVal v) {
  PmSym *here = pm_scope_find_here(lw->scope, name.text);
  bool rebind = here && here->kind == PM_SYM_VALUE && !here->fixed;
  if (here && (here->kind == PM_SYM_ERROR)) return;
  if (here && here->state) {
    PmSym sym = *here;
    assign_state(lw, &sym, name, v);
    return;
  }
  if (here && here->fixed) {
    bool given = lw->scope->kind == PM_SCOPE_UPDATE;
    const char *what = given ? "is given to the optimizer" : "is a parameter, input or constant";
    if (pm_lw_error(lw, PM_E_REDEFINED, name.span, "`%s` %s and cannot be assigned", name.text, what)) {
      if (!given) pm_diag_label(lw->diags, here->span, "declared here");
      if (given) pm_diag_help(lw->diags, "give the new value a name of its own");
    }
    return;
  }
  if (rebind && here->carried) v = keep_type(lw, here, name, v);
  name_node(lw, name.text, v);
  if (!rebind) {
    PmSym sym = pm_sym_value(name.text, v, name.span);
    pm_scope_add(lw, lw->scope, sym);
    return;
  }
  here = pm_scope_find_here(lw->scope, name.text);
  here->val = v;
  if (v.kind == PM_V_ERROR) here->kind = PM_SYM_ERROR;
}

static void check_declared_axes(PmLower *lw, const PmStmt *s, PmVal *v) {
  PmType want = pm_type_scalar(PM_F32);
  if (!pm_lw_type_axes(lw, &s->axes, &want) || v->kind == PM_V_ERROR) return;
  PmType t = v->kind == PM_V_NODE ? *pm_val_type(lw, v) : pm_type_scalar(PM_F32);
  if (v->kind != PM_V_STR && v->kind != PM_V_TUPLE && pm_lw_same_axes(&t, &want)) return;
  if (pm_lw_error(lw, PM_E_AXES, s->names.items[0].span, "`%s` is declared with %s, but its value has %s",
                  s->names.items[0].text, pm_lw_axes(lw, &want), pm_lw_axes(lw, &t))) {
    pm_diag_label(lw->diags, s->value->span, "%s", pm_lw_axes(lw, &t));
  }
}

static void exec_assign(PmLower *lw, const PmStmt *s) {
  PmVal v = pm_lw_eval(lw, s->value);
  if (s->has_axes) check_declared_axes(lw, s, &v);
  int32_t n = v.kind == PM_V_TUPLE ? v.n : 1;
  if (v.kind == PM_V_STR) {
    pm_lw_error(lw, PM_E_KIND, s->value->span, "a string is no value of a model");
    v = PM_ERROR_VAL;
  }
  if (v.kind != PM_V_ERROR && n != s->names.n) {
    pm_lw_error(lw, PM_E_ARGS, s->value->span, "%d name%s on the left, but %d value%s on the right", s->names.n,
                s->names.n == 1 ? "" : "s", n, n == 1 ? "" : "s");
    v = PM_ERROR_VAL;
  }
  for (int32_t i = 0; i < s->names.n; i++) pm_lw_assign(lw, s->names.items[i], v.kind == PM_V_TUPLE ? v.items[i] : v);
}

static void exec_add(PmLower *lw, const PmStmt *s) {
  PmName name = s->names.items[0];
  PmExpr target = {.kind = PM_X_NAME, .name = name.text, .span = name.span, .depth = 1};
  PmVal v[2];
  v[0] = pm_lw_eval(lw, &target);
  v[1] = pm_lw_eval(lw, s->value);
  if (v[0].kind == PM_V_ERROR || v[1].kind == PM_V_ERROR) {
    pm_lw_assign(lw, name, PM_ERROR_VAL);
    return;
  }
  PmSpan spans[2] = {name.span, s->value->span};
  int32_t rank = pm_val_is_data(&v[0]) ? pm_val_type(lw, &v[0])->rank : PM_MAX_RANK;
  PmVal sum = pm_lw_map(lw, PM_S_add, "+=", v, spans, 2, s->span);
  if (sum.kind == PM_V_NODE && pm_val_type(lw, &sum)->rank > rank) {
    if (pm_lw_error(lw, PM_E_WIDEN, s->span, "`+=` would widen `%s`", name.text)) {
      pm_diag_label(lw->diags, spans[0], "%s", pm_lw_val_axes(lw, &v[0]));
      pm_diag_label(lw->diags, spans[1], "%s", pm_lw_val_axes(lw, &v[1]));
    }
    sum = PM_ERROR_VAL;
  }
  pm_lw_assign(lw, name, sum);
}

static void exec_return(PmLower *lw, const PmStmt *s) {
  const PmScope *here = lw->scope;
  bool in_block = at_block_level(here) && here->inst->block && !here->inst->is_turn;
  if (here->kind != PM_SCOPE_FN && !in_block) {
    pm_lw_error(lw, PM_E_PROGRAM, s->span, "`return` stands in functions and blocks");
    return;
  }
  lw->returned = true;
  if (s->values.n == 1) {
    lw->result = pm_lw_eval(lw, s->values.items[0]);
    lw->result_exprs = s->values;
    return;
  }
  PmVal v = {.kind = PM_V_TUPLE, .n = s->values.n, .id = PM_NONE};
  v.items = PM_NEW_N(lw->arena, PmVal, v.n);
  for (int32_t i = 0; i < v.n; i++) {
    v.items[i] = pm_lw_eval(lw, s->values.items[i]);
    if (v.items[i].kind == PM_V_ERROR) v.kind = PM_V_ERROR;
  }
  lw->result = v;
  lw->result_exprs = s->values;
}

static PmVal scalar_result(PmLower *lw, const PmStmt *s, const char *what) {
  PmVal v = pm_lw_data(lw, pm_lw_eval(lw, s->value));
  if (v.kind == PM_V_ERROR) return v;
  PmType t = v.kind == PM_V_NODE ? *pm_val_type(lw, &v) : pm_type_scalar(PM_F32);
  if (v.kind == PM_V_NODE && t.rank == 0 && pm_dtype_is_float((PmDtype)t.dtype)) return v;
  if (v.kind != PM_V_NODE || t.rank == 0) {
    pm_lw_error(lw, PM_E_KIND, s->value->span, "%s one number", what);
    return PM_ERROR_VAL;
  }
  if (pm_lw_error(lw, PM_E_AXES, s->value->span, "%s one number, but this has %s", what, pm_lw_axes(lw, &t))) {
    const char *axes = pm_lw_axes(lw, &t);
    pm_diag_help(lw->diags, "write `mean%s(%s)`", axes, "...");
  }
  return PM_ERROR_VAL;
}

static void exec_minimize(PmLower *lw, const PmStmt *s) {
  if (!at_model_level(lw->scope)) {
    pm_lw_error(lw, PM_E_PROGRAM, s->span, "`minimize` stands in the model, outside `repeat` and blocks");
    lw->misplaced_minimize = true;
    return;
  }
  if (lw->minimize) {
    if (pm_lw_error(lw, PM_E_PROGRAM, s->span, "a second `minimize`")) {
      pm_diag_label(lw->diags, lw->minimize->span, "the first one");
      pm_diag_help(lw->diags, "minimise the sum: `minimize a + b`");
    }
    return;
  }
  lw->minimize = s;
  lw->loss = scalar_result(lw, s, "what is minimised must be");
}

void pm_lw_add_report(PmLower *lw, PmReport report) {
  PmFrame *f = lw->frame;
  f->reports = pm_grow(lw->arena, f->reports, f->n_reports, &f->cap_reports, sizeof *f->reports);
  f->reports[f->n_reports++] = report;
}

// The key of a report in the metrics: its path. What every step tells anyway is taken.
static bool take_report_name(PmLower *lw, PmName name, const char *path) {
  static const char *const always[] = {"event",   "grad_norm", "loss", "loss_scale",  "lr",
                                       "seconds", "skipped",   "step", "tokens_per_s"};
  bool taken = false;
  for (size_t i = 0; i < sizeof always / sizeof *always; i++) taken = taken || strcmp(always[i], path) == 0;
  if (!lw->reported_names) lw->reported_names = pm_scope_new(lw, NULL, PM_SCOPE_FILE, NULL, "");
  const PmSym *old = pm_scope_find_here(lw->reported_names, path);
  if (!old && !taken) {
    pm_scope_put(lw, lw->reported_names, pm_sym_value(path, PM_ERROR_VAL, name.span));
    return true;
  }
  if (!pm_lw_error(lw, PM_E_REDEFINED, name.span, "`%s` is reported already", path)) return false;
  if (old && old->span.lo != name.span.lo) pm_diag_label(lw->diags, old->span, "here");
  if (old && old->span.lo == name.span.lo) pm_diag_help(lw->diags, "the block is called twice: report outside of it");
  if (taken) pm_diag_note(lw->diags, "every step tells it; choose another name");
  return false;
}

static void exec_report(PmLower *lw, const PmStmt *s) {
  if (!at_block_level(lw->scope)) {
    pm_lw_error(lw, PM_E_PROGRAM, s->span, "`report` stands in models and blocks, not in functions");
    return;
  }
  PmName name = s->names.items[0];
  const char *path = pm_lw_path(lw, lw->scope->path, name.text);
  if (!take_report_name(lw, name, path)) return;
  PmVal v = scalar_result(lw, s, "what is reported must be");
  if (v.kind == PM_V_NODE) pm_lw_add_report(lw, (PmReport){path, v.id});
}

// Declarations were dealt with before; here only their place is checked.
static void check_declaration(PmLower *lw, const PmStmt *s) {
  if (lw->scope->kind == PM_SCOPE_UPDATE && s->kind == PM_ST_STATE) return;
  if (!at_block_level(lw->scope)) {
    pm_lw_error(lw, PM_E_PROGRAM, s->span,
                "parameters, states, inputs and blocks are declared in models and blocks only");
  }
}

static void exec(PmLower *lw, const PmStmt *s) {
  switch (s->kind) {
    case PM_ST_PARAM:
    case PM_ST_STATE:
    case PM_ST_INPUT:
    case PM_ST_SUB:
      check_declaration(lw, s);
      break;
    case PM_ST_REPEAT:
      if (at_block_level(lw->scope)) {
        pm_lw_repeat(lw, s);
      } else {
        pm_lw_error(lw, PM_E_PROGRAM, s->span, "`repeat` stands in models and blocks only");
      }
      break;
    case PM_ST_RETURN:
      exec_return(lw, s);
      break;
    case PM_ST_MINIMIZE:
      exec_minimize(lw, s);
      break;
    case PM_ST_REPORT:
      exec_report(lw, s);
      break;
    case PM_ST_ASSIGN:
      exec_assign(lw, s);
      break;
    case PM_ST_ADD:
      exec_add(lw, s);
      break;
  }
}

void pm_lw_stmts(PmLower *lw, const PmStmts *stmts) {
  for (int32_t i = 0; i < stmts->n && !lw->stopped; i++) {
    const PmStmt *s = &stmts->items[i];
    if (!pm_lw_work(lw, s->span)) return;
    if (lw->returned) {
      pm_lw_error(lw, PM_E_PROGRAM, s->span, "nothing may follow `return`");
      return;
    }
    exec(lw, s);
  }
}

PmValueId pm_lw_read_var(PmLower *lw, PmVarId var) {
  PmValueId id = lw->frame->var_vals[var];
  const PmVar *v = &lw->m->vars[var];
  if (id == PM_NONE || v->role != PM_ROLE_PARAM) return id;
  PmLoc here = lw->frame->b.loc;
  lw->frame->b.loc = v->loc;
  id = pm_b_cast(&lw->frame->b, id, pm_lw_format(lw, PM_FORMAT_COMPUTE, v->path));
  lw->frame->b.loc = here;
  return id;
}

void pm_lw_put_declared(PmLower *lw, PmScope *scope, const PmInst *inst) {
  for (int32_t i = 0; i < inst->n_vars; i++) {
    const PmInstVar *v = &inst->vars[i];
    PmValueId id = v->var == PM_NONE ? PM_NONE : pm_lw_read_var(lw, v->var);
    PmSym sym = pm_sym_value(v->name.text, id == PM_NONE ? PM_ERROR_VAL : pm_val_node(id, false), v->name.span);
    sym.fixed = true;
    sym.var = v->var;
    sym.state = v->var != PM_NONE && lw->m->vars[v->var].role == PM_ROLE_STATE;
    if (id != PM_NONE) sym.type = *pm_b_type(&lw->frame->b, id);
    pm_scope_put(lw, scope, sym);
  }
  for (int32_t i = 0; i < inst->n_subs; i++) {
    const PmInstSub *s = &inst->subs[i];
    pm_scope_put(lw, scope,
                 (PmSym){.name = s->name.text,
                         .kind = PM_SYM_SUB,
                         .span = s->name.span,
                         .axis = PM_NONE,
                         .var = PM_NONE,
                         .sub = s->inst});
  }
}

static PmVal run_block(PmLower *lw, PmInst *sub, const PmVal *args) {
  const PmItem *block = sub->block;
  PmScope *outer = lw->scope;
  bool returned = lw->returned;
  PmScope *scope = pm_scope_new(lw, &sub->unit->globals, PM_SCOPE_BLOCK, sub->unit, sub->path);
  scope->inst = sub;
  scope->naming = true;
  for (int32_t i = 0; i < block->axes.n; i++) {
    pm_scope_put(lw, scope, pm_sym_axis(block->axes.items[i].text, sub->axes[i], block->axes.items[i].span));
  }
  pm_lw_put_declared(lw, scope, sub);
  for (int32_t i = 0; i < block->defs.n; i++) {
    pm_scope_add(lw, scope, pm_sym_value(block->defs.items[i].name.text, args[i], block->defs.items[i].name.span));
  }
  lw->scope = scope;
  lw->returned = false;
  pm_lw_stmts(lw, &block->body);
  PmVal v = lw->returned ? lw->result : PM_ERROR_VAL;
  if (!lw->returned && !lw->stopped) {
    pm_lw_error(lw, PM_E_PROGRAM, block->name.span, "block `%s` has no `return`", block->name.text);
  }
  // The block's result has the block's own path.
  const PmValue *node = v.kind == PM_V_NODE ? &pm_fn(lw->m, lw->frame->b.fn)->values[v.id] : NULL;
  if (node && !node->name && node->def != PM_NONE && !v.exact) pm_b_name(&lw->frame->b, v.id, sub->path, true);
  lw->scope = outer;
  lw->returned = returned;
  return v;
}

PmVal pm_lw_call_sub(PmLower *lw, PmInst *sub, const PmArgs *args, PmSpan span) {
  if (sub->failed) return PM_ERROR_VAL;
  PmVal *values = PM_NEW_N(lw->arena, PmVal, sub->block->defs.n + 1);
  if (!pm_lw_bind(lw, sub->block, sub->unit, args, span, values)) return PM_ERROR_VAL;
  if (!pm_lw_enter(lw, sub->block, span)) return PM_ERROR_VAL;
  PmSpan user_call = lw->user_call;
  PmDtype outside = pm_lw_format(lw, PM_FORMAT_COMPUTE, lw->scope->path), reduce = lw->reduce;
  PmDtype inside = pm_lw_format(lw, PM_FORMAT_COMPUTE, sub->path);
  pm_lw_at(lw, span);
  for (int32_t i = 0; inside != outside && i < sub->block->defs.n; i++)
    values[i] = pm_lw_as_float(lw, values[i], inside);
  lw->reduce = pm_lw_format(lw, PM_FORMAT_REDUCE, sub->path);
  if (sub->unit->is_std && user_call.file < 0) lw->user_call = span;
  PmVal v = run_block(lw, sub, values);
  lw->user_call = user_call;
  lw->reduce = reduce;
  pm_lw_leave(lw);
  pm_lw_at(lw, span);
  return inside != outside ? pm_lw_as_float(lw, v, outside) : v;
}
