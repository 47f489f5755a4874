// Calls: what a name means, arguments by position and name, and recursion.
#include <string.h>

#include "frontend/lower.h"

bool pm_lw_enter(PmLower *lw, const PmItem *item, PmSpan call) {
  for (int32_t i = 0; i < lw->n_active; i++) {
    if (lw->active[i] != item) continue;
    if (!pm_lw_error(lw, PM_E_RECURSION, call, "`%s` uses itself", item->name.text)) return false;
    pm_diag_label(lw->diags, item->name.span, "`%s` is defined here", item->name.text);
    for (int32_t k = i + 1; k < lw->n_active; k++) {
      pm_diag_note(lw->diags, "through `%s`", lw->active[k]->name.text);
    }
    return false;
  }
  if (lw->n_active >= PM_MAX_NESTING) {
    pm_lw_error(lw, PM_E_NESTING, call, "calls and blocks nest more than %d deep here", PM_MAX_NESTING);
    return false;
  }
  int32_t cap = lw->cap_active;
  lw->active = pm_grow(lw->arena, lw->active, lw->n_active, &cap, sizeof *lw->active);
  lw->active_calls = pm_grow(lw->arena, lw->active_calls, lw->n_active, &lw->cap_active, sizeof *lw->active_calls);
  lw->active_calls[lw->n_active] = call;
  lw->active[lw->n_active++] = item;
  return true;
}

void pm_lw_leave(PmLower *lw) { lw->n_active--; }

static int32_t find_param(const PmDefs *defs, const char *name) {
  for (int32_t i = 0; i < defs->n; i++) {
    if (defs->items[i].name.text == name) return i;
  }
  return PM_NONE;
}

void pm_lw_suggest_compare(PmLower *lw, const char *name) {
  if (pm_scope_find(lw->scope, name)) pm_diag_help(lw->diags, "to compare values, write `%s == ...`", name);
}

static void unknown_param(PmLower *lw, const PmItem *item, PmName name) {
  if (!pm_lw_error(lw, PM_E_ARGS, name.span, "`%s` has no argument `%s`", item->name.text, name.text)) return;
  const char **names = PM_NEW_N(lw->arena, const char *, item->defs.n + 1);
  for (int32_t i = 0; i < item->defs.n; i++) names[i] = item->defs.items[i].name.text;
  pm_lw_suggest_from(lw, name.text, names, item->defs.n, "its arguments are");
  if (!pm_did_you_mean(name.text, names, item->defs.n)) pm_lw_suggest_compare(lw, name.text);
}

// Which parameter each argument is for. False after an error.
static bool match_args(PmLower *lw, const PmItem *item, const PmArgs *args, const PmArg **out) {
  bool ok = true;
  int32_t next = 0;
  for (int32_t i = 0; i < args->n; i++) {
    const PmArg *a = &args->items[i];
    int32_t at = a->name.text ? find_param(&item->defs, a->name.text) : next++;
    PmSpan span = a->name.text ? a->name.span : a->value->span;
    if (a->end) {
      pm_lw_error(lw, PM_E_ARGS, span, "an argument is not a range");
      ok = false;
    } else if (at == PM_NONE) {
      unknown_param(lw, item, a->name);
      ok = false;
    } else if (at >= item->defs.n) {
      pm_lw_error(lw, PM_E_ARGS, span, "`%s` takes %d argument%s", item->name.text, item->defs.n,
                  item->defs.n == 1 ? "" : "s");
      return false;
    } else if (out[at]) {
      pm_lw_error(lw, PM_E_ARGS, span, "argument `%s` is given twice", item->defs.items[at].name.text);
      ok = false;
    } else {
      out[at] = a;
    }
  }
  return ok;
}

static PmVal default_value(PmLower *lw, const PmExpr *e, PmUnit *unit) {
  PmScope *scope = lw->scope;
  PmFrame *frame = lw->frame;
  lw->scope = &unit->globals;
  lw->frame = NULL;
  PmVal v = pm_lw_eval(lw, e);
  lw->scope = scope;
  lw->frame = frame;
  return v;
}

// Schedules receive the step and the number of steps by name.
static const PmVal *implicit_arg(const PmLower *lw, const char *name) {
  if (lw->schedule_step && strcmp(name, "step") == 0) return lw->schedule_step;
  if (lw->schedule_steps && strcmp(name, "steps") == 0) return lw->schedule_steps;
  return NULL;
}

bool pm_lw_bind(PmLower *lw, const PmItem *item, PmUnit *unit, const PmArgs *args, PmSpan span, PmVal *out) {
  const PmArg **given = PM_NEW_N(lw->arena, const PmArg *, item->defs.n + 1);
  bool ok = match_args(lw, item, args, given);
  for (int32_t i = 0; i < item->defs.n; i++) {
    const PmDef *def = &item->defs.items[i];
    const PmVal *implicit = implicit_arg(lw, def->name.text);
    if (given[i]) {
      out[i] = pm_lw_eval(lw, given[i]->value);
    } else if (implicit) {
      out[i] = *implicit;
    } else if (def->value) {
      out[i] = default_value(lw, def->value, unit);
    } else {
      if (ok && pm_lw_error(lw, PM_E_ARGS, span, "`%s` needs argument `%s`", item->name.text, def->name.text)) {
        pm_diag_label(lw->diags, def->name.span, "declared here");
      }
      ok = false;
      continue;
    }
    ok = ok && out[i].kind != PM_V_ERROR;
    if (out[i].kind != PM_V_TUPLE && out[i].kind != PM_V_STR) continue;
    pm_lw_error(lw, PM_E_KIND, given[i] ? given[i]->value->span : span, "argument `%s` must be one tensor or number",
                def->name.text);
    ok = false;
  }
  return ok;
}

static PmVal inline_fn(PmLower *lw, const PmSym *fn, const PmAxisId *axes, const PmVal *args, PmSpan span) {
  PmSpan user_call = lw->user_call;
  // The user's line is what matters for code of the library that has no function of its own.
  if (fn->unit->is_std && user_call.file < 0) lw->user_call = span;
  PmScope *scope = pm_lw_fn_scope(lw, fn->item, fn->unit, axes, args);
  scope->caller = lw->scope->inst ? lw->scope->inst : lw->scope->caller;
  PmVal v = pm_lw_fn_body(lw, fn->item, scope);
  lw->user_call = user_call;
  return v;
}

static PmVal call_fn(PmLower *lw, PmSym fn, bool draws, const PmCall *c) {
  PmSpan span = c->expr->span;
  PmVal *args = PM_NEW_N(lw->arena, PmVal, fn.item->defs.n + 1);
  bool ok = pm_lw_bind(lw, fn.item, fn.unit, c->args, span, args);
  PmAxisId axes[PM_MAX_RANK];
  int32_t n_axes = 0;
  if (c->brackets && !pm_lw_axis_list(lw, c->brackets, axes, &n_axes)) return PM_ERROR_VAL;
  if (n_axes != fn.item->axes.n || (c->to && c->to->n)) {
    if (pm_lw_error(lw, PM_E_ARGS, c->name_span, "`%s` takes %d ax%ss in square brackets, not %d", c->name,
                    fn.item->axes.n, fn.item->axes.n == 1 ? "i" : "e", n_axes)) {
      pm_diag_label(lw->diags, fn.span, "defined here");
    }
    return PM_ERROR_VAL;
  }
  if (!ok || !pm_lw_enter(lw, fn.item, span)) return PM_ERROR_VAL;
  bool data = false, numbers = lw->micro > 1;
  for (int32_t i = 0; i < fn.item->defs.n; i++) data = data || pm_val_is_data(&args[i]);
  // A function of numbers alone may combine sums over all rows, and how it does so is seen only where it is written
  // out.
  for (int32_t i = 0; lw->micro > 1 && i < fn.item->defs.n; i++) {
    numbers = numbers && (args[i].kind != PM_V_NODE || pm_val_type(lw, &args[i])->rank == 0);
  }
  // What draws needs the path, step and turn of where it is called.
  bool inlined = !data || numbers || draws || (fn.item->value && fn.item->axes.n == 0);
  PmVal v = PM_ERROR_VAL;
  if (!inlined) v = pm_lw_call_composite(lw, &fn, axes, args, span, &inlined);
  if (inlined) v = inline_fn(lw, &fn, axes, args, span);
  pm_lw_leave(lw);
  return v;
}

static PmVal call_item(PmLower *lw, PmSym sym, bool draws, const PmCall *c) {
  if (sym.item->kind == PM_IT_FN) return call_fn(lw, sym, draws, c);
  if (sym.item->kind == PM_IT_BLOCK) {
    if (pm_lw_error(lw, PM_E_KIND, c->name_span, "`%s` is a block: its parameters need a name before it is used",
                    c->name)) {
      pm_diag_help(lw->diags, "write `sub x = %s` first, then call `x(...)`", c->name);
    }
    return PM_ERROR_VAL;
  }
  pm_lw_error(lw, PM_E_KIND, c->name_span, "`%s` is an optimizer and stands in `train` only", c->name);
  return PM_ERROR_VAL;
}

static PmVal unknown_call(PmLower *lw, const PmCall *c) {
  if (!pm_lw_error(lw, PM_E_UNKNOWN_NAME, c->name_span, "unknown function or block `%s`", c->name)) return PM_ERROR_VAL;
  const char **lists[3];
  int32_t n[3];
  n[0] = pm_scope_names(lw, lw->scope, PM_SYM_SUB, &lists[0]);
  n[1] = pm_scope_names(lw, &lw->scope->unit->callables, -1, &lists[1]);
  n[2] = pm_lw_builtin_names(lw, &lists[2]);
  const char **all = PM_NEW_N(lw->arena, const char *, n[0] + n[1] + n[2] + 1);
  int32_t total = 0;
  for (int32_t i = 0; i < 3; i++) {
    for (int32_t k = 0; k < n[i]; k++) all[total++] = lists[i][k];
  }
  const char *near = pm_did_you_mean(c->name, all, total);
  if (near) {
    pm_diag_suggest(lw->diags, c->name, near);
  } else if (n[1] == 0) {
    pm_diag_help(lw->diags, "`import \"std\"` brings the standard library");
  }
  return PM_ERROR_VAL;
}

PmVal pm_lw_call(PmLower *lw, const PmExpr *e) {
  const PmExpr *f = e->a;
  PmCall c = {.expr = e, .args = &e->args};
  if (f->kind == PM_X_BRACKET) {
    c.brackets = &f->args;
    c.to = &f->to;
    f = f->a;
  }
  if (f->kind != PM_X_NAME) {
    pm_lw_error(lw, PM_E_KIND, f->span, "only a name can be called");
    return PM_ERROR_VAL;
  }
  c.name = f->name;
  c.name_span = f->span;
  PmSym *sym = pm_scope_find(lw->scope, f->name);
  if (sym && sym->kind == PM_SYM_ERROR) return PM_ERROR_VAL;
  if (sym && sym->kind == PM_SYM_SUB) {
    if (!c.brackets) return pm_lw_call_sub(lw, sym->sub, &e->args, e->span);
    if (pm_lw_error(lw, PM_E_ARGS, c.name_span, "`%s` has its axes already", c.name)) {
      pm_diag_label(lw->diags, sym->span, "from this `sub`");
    }
    return PM_ERROR_VAL;
  }
  PmVal v;
  if (pm_lw_builtin(lw, &c, &v)) return v;
  PmSym *callable = pm_lw_callable(lw, f->name);
  if (callable && callable->kind == PM_SYM_ERROR) return PM_ERROR_VAL;
  if (callable) return call_item(lw, *callable, pm_lw_fn_draws(callable), &c);
  if (!sym) return unknown_call(lw, &c);
  if (pm_lw_error(lw, PM_E_KIND, f->span, "`%s` is %s and cannot be called", f->name,
                  sym->kind == PM_SYM_AXIS ? "an axis" : "a value")) {
    pm_diag_help(lw->diags, "to index it, write `%s[axis = ...]`", f->name);
  }
  return PM_ERROR_VAL;
}
