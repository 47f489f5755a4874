// Optimizers: programs over `value`, `grad`, `lr`, `step`, `rank` and states of the parameter's shape. One function for
// each combination of parameter type, rank and constants.
#include <string.h>

#include "frontend/lower.h"

typedef struct Update {
  PmType type;
  int32_t rank;
  const PmVal *args;
  PmFnId fn;
} Update;

typedef struct Optimizer {
  PmLower *lw;
  const PmItem *item;
  PmUnit *unit;
  PmVal *args;    // as called
  PmVar *states;  // path: the bare name
  int32_t n_states, cap_states;
  const PmItemEntry **overrides;
  double *override_values;
  bool *override_hits;
  int32_t n_overrides;
  Update *made;
  int32_t n_made, cap_made;
} Optimizer;

static bool collect_states(Optimizer *o) {
  PmLower *lw = o->lw;
  bool ok = true;
  for (int32_t i = 0; i < o->item->body.n; i++) {
    const PmStmt *s = &o->item->body.items[i];
    if (s->kind != PM_ST_STATE) continue;
    PmVar v = {.role = PM_ROLE_STATE, .init = PM_INIT_CONST, .update = PM_NONE, .owner = PM_NONE};
    if (s->value && !pm_lw_init(lw, s->value, &v)) ok = false;
    if (ok && v.init != PM_INIT_CONST) {
      pm_lw_error(lw, PM_E_CONSTANT, s->value->span, "a state begins with a constant: `zeros`, `ones` or a number");
      ok = false;
    }
    for (int32_t k = 0; k < s->decls.n; k++) {
      if (s->decls.items[k].has_axes) {
        const PmName name = s->decls.items[k].name;
        if (pm_lw_error(lw, PM_E_PROGRAM, name.span, "state `%s` of an optimizer has axes of its own", name.text)) {
          pm_diag_note(lw->diags,
                       "an optimizer runs for every parameter, and its states have that parameter's axes, so that "
                       "they are split wherever it is");
          pm_diag_help(lw->diags,
                       "write `state %s`; a smaller number such as a mean over an axis is computed anew each step",
                       name.text);
        }
        ok = false;
      }
      v.path = s->decls.items[k].name.text;
      v.loc = pm_lw_loc(lw, s->decls.items[k].name.span);
      o->states = pm_grow(lw->arena, o->states, o->n_states, &o->cap_states, sizeof *o->states);
      o->states[o->n_states++] = v;
    }
  }
  return ok;
}

static PmSym fixed(const char *name, PmVal v, PmSpan span) {
  PmSym sym = pm_sym_value(name, v, span);
  sym.fixed = true;
  return sym;
}

static bool add_name(Optimizer *o, PmScope *scope, PmSym sym) {
  sym.name = pm_intern(o->lw->names, sym.name);
  return pm_scope_add(o->lw, scope, sym) != NULL;
}

static PmSym carried(const char *name, PmValueId id, const PmType *type, PmSpan span) {
  PmSym sym = pm_sym_value(name, pm_val_node(id, false), span);
  sym.carried = true;
  sym.type = *type;
  return sym;
}

static PmType state_type(const PmType *value) {
  PmType t = *value;
  t.dtype = PM_F32;
  return t;
}

// The names that an optimizer sees. Parameters of the function are made in the same order.
static PmScope *update_scope(Optimizer *o, const PmType *type, int32_t rank, const PmVal *args) {
  PmLower *lw = o->lw;
  PmBuilder *b = &lw->frame->b;
  PmSpan span = o->item->name.span;
  PmScope *s = pm_scope_new(lw, &o->unit->globals, PM_SCOPE_UPDATE, o->unit, o->item->name.text);
  s->naming = true;
  PmType f64 = pm_type_scalar(PM_F64);
  add_name(o, s, carried("value", pm_b_param(b, *type, "value"), type, span));
  // Moments of what is stored narrow are f32, and so is the gradient that they are made of.
  const PmType wide = state_type(type);
  add_name(o, s, fixed("grad", pm_val_node(pm_b_param(b, wide, "grad"), false), span));
  add_name(o, s, fixed("lr", pm_val_node(pm_b_param(b, f64, "lr"), true), span));
  add_name(o, s, fixed("step", pm_val_node(pm_b_param(b, f64, "step"), true), span));
  add_name(o, s, fixed("rank", pm_val_num(rank), span));
  for (int32_t i = 0; i < o->n_states; i++) {
    const char *name = o->states[i].path;
    add_name(o, s, carried(name, pm_b_param(b, wide, name), &wide, span));
  }
  for (int32_t i = 0; i < o->item->defs.n; i++) {
    add_name(o, s, fixed(o->item->defs.items[i].name.text, args[i], o->item->defs.items[i].name.span));
  }
  return s;
}

static bool set_results(Optimizer *o, PmScope *s) {
  PmLower *lw = o->lw;
  PmValueId *ids = PM_NEW_N(lw->arena, PmValueId, o->n_states + 1);
  for (int32_t i = 0; i <= o->n_states; i++) {
    const char *name = i == 0 ? pm_intern(lw->names, "value") : o->states[i - 1].path;
    const PmSym *sym = pm_scope_find_here(s, name);
    if (!sym || sym->kind != PM_SYM_VALUE || sym->val.kind != PM_V_NODE) return false;
    ids[i] = sym->val.id;
  }
  pm_b_results(&lw->frame->b, ids, o->n_states + 1);
  return true;
}

static bool assigns_value(const PmStmts *body) {
  for (int32_t i = 0; i < body->n; i++) {
    const PmStmt *s = &body->items[i];
    for (int32_t k = 0; k < s->names.n; k++) {
      if (strcmp(s->names.items[k].text, "value") == 0) return true;
    }
  }
  return false;
}

static PmFnId build_update(Optimizer *o, const PmType *type, int32_t rank, const PmVal *args) {
  PmLower *lw = o->lw;
  PmFnId fn = pm_lw_add_fn(lw, o->item->name.text, PM_FN_UPDATE, o->item->name.span);
  PmFrame *outer_frame = lw->frame;
  PmScope *outer_scope = lw->scope;
  pm_lw_frame(lw, fn, o->item->name.span);
  lw->scope = update_scope(o, type, rank, args);
  lw->returned = false;
  pm_lw_stmts(lw, &o->item->body);
  bool ok = set_results(o, lw->scope);
  if (!assigns_value(&o->item->body)) {
    PmSpan span = o->item->name.span;
    if (pm_lw_error(lw, PM_E_PROGRAM, span, "optimizer `%s` never assigns `value`: nothing would be trained",
                    o->item->name.text)) {
      pm_diag_help(lw->diags, "end it with an update such as `value = value - lr * grad`");
    }
    ok = false;
  }
  lw->frame = outer_frame;
  lw->scope = outer_scope;
  if (!ok) pm_fn(lw->m, fn)->dead = true;
  return ok ? fn : PM_NONE;
}

static bool same_values(const PmVal *a, const PmVal *b, int32_t n) {
  for (int32_t i = 0; i < n; i++) {
    if (memcmp(&a[i].num, &b[i].num, sizeof a[i].num) != 0) return false;
  }
  return true;
}

static PmFnId update_for(Optimizer *o, const PmType *type, int32_t rank, const PmVal *args) {
  for (int32_t i = 0; i < o->n_made; i++) {
    Update *u = &o->made[i];
    if (u->rank == rank && pm_type_same_logical(&u->type, type) && same_values(u->args, args, o->item->defs.n))
      return u->fn;
  }
  PmFnId fn = build_update(o, type, rank, args);
  o->made = pm_grow(o->lw->arena, o->made, o->n_made, &o->cap_made, sizeof *o->made);
  o->made[o->n_made++] = (Update){*type, rank, args, fn};
  return fn;
}

// The arguments for the parameter at `path`: as called, then the entries that match, the last one winning.
static PmVal *args_for(Optimizer *o, const char *path) {
  int32_t n = o->item->defs.n;
  PmVal *args = PM_NEW_N(o->lw->arena, PmVal, n + 1);
  if (n) memcpy(args, o->args, (size_t)n * sizeof *args);
  for (int32_t i = 0; i < o->n_overrides; i++) {
    if (!pm_lw_matches(o->lw, o->overrides[i]->glob, path)) continue;
    o->override_hits[i] = true;
    for (int32_t k = 0; k < n; k++) {
      if (o->item->defs.items[k].name.text == o->overrides[i]->key.text) args[k] = pm_val_num(o->override_values[i]);
    }
  }
  return args;
}

static bool read_overrides(Optimizer *o, const PmItemEntries *entries) {
  PmLower *lw = o->lw;
  bool ok = true;
  o->overrides = PM_NEW_N(lw->arena, const PmItemEntry *, entries->n + 1);
  o->override_values = PM_NEW_N(lw->arena, double, entries->n + 1);
  o->override_hits = PM_NEW_N(lw->arena, bool, entries->n + 1);
  const char **names = PM_NEW_N(lw->arena, const char *, o->item->defs.n + 1);
  for (int32_t k = 0; k < o->item->defs.n; k++) names[k] = o->item->defs.items[k].name.text;
  for (int32_t i = 0; i < entries->n; i++) {
    const PmItemEntry *e = &entries->items[i];
    if (!e->glob.text) continue;
    bool known = false;
    for (int32_t k = 0; k < o->item->defs.n; k++) known = known || names[k] == e->key.text;
    if (!known) {
      if (pm_lw_error(lw, PM_E_ARGS, e->key.span, "`%s` has no argument `%s`", o->item->name.text, e->key.text)) {
        pm_lw_suggest_from(lw, e->key.text, names, o->item->defs.n, "its arguments are");
      }
      ok = false;
      continue;
    }
    if (!pm_lw_eval_num(lw, e->value, e->key.text, &o->override_values[o->n_overrides])) {
      ok = false;
      continue;
    }
    o->overrides[o->n_overrides++] = e;
  }
  return ok;
}

static void add_states(Optimizer *o, PmVarId param) {
  PmLower *lw = o->lw;
  for (int32_t i = 0; i < o->n_states; i++) {
    PmVar v = o->states[i];
    v.path = pm_arena_printf(lw->arena, "%s/%s", lw->m->vars[param].path, o->states[i].path);
    v.type = state_type(&lw->m->vars[param].type);
    v.owner = param;
    pm_lw_add_var(lw, v);
  }
}

// `adamw(...)` -> the optimizer's symbol and its arguments.
static bool find_optimizer(PmLower *lw, const PmExpr *e, Optimizer *o) {
  const PmExpr *f = e->kind == PM_X_CALL ? e->a : e;
  if (f->kind != PM_X_NAME) {
    pm_lw_error(lw, PM_E_TRAIN, e->span, "an optimizer is needed here, such as `adamw(decay=0.1)`");
    return false;
  }
  const PmSym *sym = pm_lw_callable(lw, f->name);
  if (!sym || sym->kind != PM_SYM_ITEM || sym->item->kind != PM_IT_OPTIMIZER) {
    if (!pm_lw_error(lw, PM_E_UNKNOWN_NAME, f->span, "unknown optimizer `%s`", f->name)) return false;
    PmScope *all = &lw->main->callables;
    const char **names = PM_NEW_N(lw->arena, const char *, all->n + 1);
    int32_t n = 0;
    for (int32_t i = 0; i < all->n; i++) {
      if (all->syms[i].kind == PM_SYM_ITEM && all->syms[i].item->kind == PM_IT_OPTIMIZER)
        names[n++] = all->syms[i].name;
    }
    pm_lw_suggest(lw, f->name, names, n);
    if (n == 0) pm_diag_help(lw->diags, "`import \"std\"` brings `adamw`, `sgd` and `momentum`");
    return false;
  }
  o->item = sym->item;
  o->unit = sym->unit;
  o->args = PM_NEW_N(lw->arena, PmVal, sym->item->defs.n + 1);
  static const PmArgs none = {0};
  return pm_lw_bind(lw, o->item, o->unit, e->kind == PM_X_CALL ? &e->args : &none, e->span, o->args);
}

void pm_lw_optimizer(PmLower *lw, const PmExpr *e, const PmItemEntries *overrides) {
  Optimizer o = {.lw = lw};
  if (!find_optimizer(lw, e, &o) || !read_overrides(&o, overrides) || !collect_states(&o)) return;
  int32_t n = lw->n_var_repeats;
  for (PmVarId v = 0; v < n && !lw->stopped; v++) {
    if (lw->m->vars[v].role != PM_ROLE_PARAM) continue;
    PmType type = lw->m->vars[v].type;
    const PmVal *args = args_for(&o, lw->m->vars[v].path);
    PmFnId fn = update_for(&o, &type, type.rank - lw->var_repeats[v], args);
    if (fn == PM_NONE) return;
    lw->m->vars[v].update = fn;
    add_states(&o, v);
  }
  // Where the model has errors its parameters are not all known.
  for (int32_t i = 0; i < o.n_overrides && !lw->stopped && pm_diags_errors(lw->diags) == 0; i++) {
    if (o.override_hits[i]) continue;
    pm_diag(lw->diags, PM_W_GLOB_IDLE, o.overrides[i]->glob.span, "`\"%s\"` matches no parameter",
            o.overrides[i]->glob.text);
  }
}
