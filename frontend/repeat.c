// `repeat AXIS { }`: a function of one turn. Names of outside that are assigned inside are carried; other values of
// outside are invariant; parameters and states declared inside are stacked along the axis, and so are the values that
// states have after the step.
#include "base/assert.h"
#include "frontend/lower.h"

typedef struct NameSet {
  PmName *items;
  int32_t n, cap;
  PmScope *seen;
} NameSet;

typedef struct Uses {
  PmLower *lw;
  NameSet assigned, used;
} Uses;

static void add_name(Uses *u, NameSet *set, PmName name) {
  if (!set->seen) set->seen = pm_scope_new(u->lw, NULL, PM_SCOPE_FILE, NULL, "");
  if (pm_scope_find_here(set->seen, name.text)) return;
  pm_scope_put(u->lw, set->seen, pm_sym_value(name.text, PM_ERROR_VAL, name.span));
  set->items = pm_grow(u->lw->arena, set->items, set->n, &set->cap, sizeof *set->items);
  set->items[set->n++] = name;
}

static void walk_args(Uses *u, const PmArgs *args);

static void walk_expr(Uses *u, const PmExpr *e) {
  if (!e) return;
  if (e->kind == PM_X_NAME) add_name(u, &u->used, (PmName){e->name, e->span});
  walk_expr(u, e->a);
  walk_expr(u, e->b);
  walk_args(u, &e->args);
}

static void walk_args(Uses *u, const PmArgs *args) {
  for (int32_t i = 0; i < args->n; i++) {
    walk_expr(u, args->items[i].value);
    walk_expr(u, args->items[i].end);
  }
}

static void walk_stmts(Uses *u, const PmStmts *stmts) {
  for (int32_t i = 0; i < stmts->n; i++) {
    const PmStmt *s = &stmts->items[i];
    if (s->kind == PM_ST_ASSIGN || s->kind == PM_ST_ADD) {
      for (int32_t k = 0; k < s->names.n; k++) {
        add_name(u, &u->assigned, s->names.items[k]);
        if (s->kind == PM_ST_ADD) add_name(u, &u->used, s->names.items[k]);
      }
    }
    if (s->kind != PM_ST_PARAM && s->kind != PM_ST_STATE) walk_expr(u, s->value);
    for (int32_t k = 0; k < s->values.n; k++) walk_expr(u, s->values.items[k]);
    walk_stmts(u, &s->body);
  }
}

typedef struct Turn {
  PmLower *lw;
  PmInst *inst;
  PmFrame *outer, *frame;
  PmScope *scope;  // of the body
  PmValueId *in;   // operands of the repeat node, in the outer frame
  int32_t n, cap;
  PmName *carried;
  int32_t n_carried, cap_carried;
  int32_t n_inv;
} Turn;

static void add_operand(Turn *t, PmValueId outer) {
  t->in = pm_grow(t->lw->arena, t->in, t->n, &t->cap, sizeof *t->in);
  t->in[t->n++] = outer;
}

static PmType outer_type(const Turn *t, PmValueId id) { return *pm_b_type(&t->outer->b, id); }

// Numbers that are carried become f32 data before the repeat.
static void add_carried(Turn *t, PmName name, const PmSym *sym) {
  PmLower *lw = t->lw;
  lw->frame = t->outer;
  pm_lw_at(lw, name.span);
  PmVal start = pm_lw_data(lw, sym->val);
  lw->frame = t->frame;
  PmType type = outer_type(t, start.id);
  add_operand(t, start.id);
  PmValueId id = pm_b_param(&t->frame->b, type, pm_lw_path(lw, t->inst->path, name.text));
  PmSym inner = pm_sym_value(name.text, pm_val_node(id, false), sym->span);
  inner.carried = true;
  inner.type = type;
  pm_scope_put(lw, t->scope, inner);
  t->carried = pm_grow(lw->arena, t->carried, t->n_carried, &t->cap_carried, sizeof *t->carried);
  t->carried[t->n_carried++] = name;
}

static void capture_carried(Turn *t, const NameSet *assigned) {
  for (int32_t i = 0; i < assigned->n; i++) {
    const PmSym *sym = pm_scope_find(t->scope->parent, assigned->items[i].text);
    if (!sym || sym->kind != PM_SYM_VALUE || sym->fixed) continue;
    if (sym->val.kind != PM_V_NODE && sym->val.kind != PM_V_NUM) continue;
    PmSym copy = *sym;
    add_carried(t, assigned->items[i], &copy);
  }
}

static PmValueId add_invariant(Turn *t, PmValueId outer) {
  const PmFn *f = pm_fn(t->lw->m, t->outer->b.fn);
  const char *name = f->values[outer].name;
  PmType type = f->values[outer].type;
  add_operand(t, outer);
  t->n_inv++;
  return pm_b_param(&t->frame->b, type, name);
}

static void capture_var(Turn *t, PmVarId var) {
  PmValueId outer = t->outer->var_vals[var];
  if (outer != PM_NONE && t->frame->var_vals[var] == PM_NONE) t->frame->var_vals[var] = add_invariant(t, outer);
}

static void capture_used(Turn *t, const NameSet *used) {
  for (int32_t i = 0; i < used->n; i++) {
    const char *name = used->items[i].text;
    const PmSym *sym = pm_scope_find_here(t->scope, name) ? NULL : pm_scope_find(t->scope->parent, name);
    if (!sym) continue;
    if (sym->kind == PM_SYM_SUB) {
      for (PmVarId v = sym->sub->var_lo; v < sym->sub->var_hi; v++) capture_var(t, v);
      continue;
    }
    if (sym->kind != PM_SYM_VALUE || sym->val.kind != PM_V_NODE) continue;
    PmSym inner = *sym;
    if (inner.var != PM_NONE) {
      capture_var(t, inner.var);
      inner.val.id = t->frame->var_vals[inner.var];
    } else {
      inner.val.id = add_invariant(t, inner.val.id);
    }
    inner.carried = false;
    pm_scope_put(t->lw, t->scope, inner);
  }
}

// Gives captured parameters the type that they are read in: with casts, which may stand only after the last parameter
// of the function.
static void read_captured(Turn *t, const NameSet *used) {
  for (int32_t i = 0; i < used->n; i++) {
    PmSym *sym = pm_scope_find_here(t->scope, used->items[i].text);
    if (!sym || sym->kind != PM_SYM_VALUE || sym->carried || sym->var == PM_NONE) continue;
    sym->val.id = pm_lw_read_var(t->lw, sym->var);
  }
}

static void add_stacked(Turn *t) {
  for (PmVarId v = t->inst->var_lo; v < t->inst->var_hi; v++) {
    PmValueId outer = t->outer->var_vals[v];
    PM_ASSERT(outer != PM_NONE, "%s is not seen outside", t->lw->m->vars[v].path);
    PmType whole = outer_type(t, outer);
    PmType type = pm_type_scalar((PmDtype)whole.dtype);
    for (int32_t i = 1; i < whole.rank; i++) pm_type_add(&type, whole.dims[i].axis);
    add_operand(t, outer);
    t->frame->var_vals[v] = pm_b_param(&t->frame->b, type, t->lw->m->vars[v].path);
  }
}

// What draws inside need: the step, and the turns of the repeats around.
static void capture_draws(Turn *t) {
  if (t->lw->step_var == PM_NONE || t->outer->var_vals[t->lw->step_var] == PM_NONE) return;
  capture_var(t, t->lw->step_var);
  if (t->outer->micro != PM_NONE) t->frame->micro = add_invariant(t, t->outer->micro);
  for (int32_t i = 0; i < t->outer->n_turns; i++) {
    t->frame->turn_axes[i] = t->outer->turn_axes[i];
    t->frame->turns[i] = add_invariant(t, t->outer->turns[i]);
  }
  t->frame->n_turns = t->outer->n_turns;
}

// The number of the turn itself, stacked as the parameters are.
static void add_turn(Turn *t) {
  if (t->lw->step_var == PM_NONE || t->outer->var_vals[t->lw->step_var] == PM_NONE) return;
  PmAxisId axis = t->inst->repeats[t->inst->n_repeats - 1];
  PmBuilder *b = &t->outer->b;
  add_operand(t, pm_b_cast(b, pm_b_pos(b, axis), PM_I32));
  t->frame->turn_axes[t->frame->n_turns] = axis;
  t->frame->turns[t->frame->n_turns++] = pm_b_param(&t->frame->b, pm_type_scalar(PM_I32), NULL);
}

// The carried values at the end of a turn, then the states that it assigned and what it reports; false when one of them
// has an error.
static bool set_results(Turn *t) {
  PmLower *lw = t->lw;
  int32_t n = t->n_carried;
  PmValueId *ids = PM_NEW_N(lw->arena, PmValueId, t->n_carried + lw->m->n_vars + t->frame->n_reports + 1);
  for (int32_t i = 0; i < t->n_carried; i++) {
    const PmSym *sym = pm_scope_find_here(t->scope, t->carried[i].text);
    if (sym->kind != PM_SYM_VALUE || sym->val.kind != PM_V_NODE) return false;
    ids[i] = sym->val.id;
  }
  for (PmVarId v = t->inst->var_lo; v < t->inst->var_hi; v++) {
    if (t->frame->new_vals[v] != PM_NONE) ids[n++] = t->frame->new_vals[v];
  }
  for (int32_t i = 0; i < t->frame->n_reports; i++) ids[n++] = t->frame->reports[i].value;
  pm_b_results(&t->frame->b, ids, n);
  return true;
}

static PmInst *find_inner(const PmInst *inst, const PmStmt *s) {
  for (int32_t i = 0; i < inst->n_inner; i++) {
    if (inst->inner[i].stmt == s) return inst->inner[i].inst;
  }
  return NULL;
}

static void fail(PmLower *lw, const NameSet *assigned) {
  for (int32_t i = 0; i < assigned->n; i++) {
    PmSym *sym = pm_scope_find_here(lw->scope, assigned->items[i].text);
    if (sym && sym->kind == PM_SYM_VALUE && !sym->fixed) sym->kind = PM_SYM_ERROR;
  }
}

// A repeat in the body was refused, or a name that is assigned in it stands outside as the result of what was already
// reported.
static bool any_failed(PmLower *lw, const PmInst *inst, const NameSet *assigned) {
  for (int32_t i = 0; i < inst->n_inner; i++) {
    if (inst->inner[i].inst->failed) return true;
  }
  for (int32_t i = 0; i < assigned->n; i++) {
    const PmSym *sym = pm_scope_find_here(lw->scope, assigned->items[i].text);
    if (sym && (sym->kind == PM_SYM_ERROR || (sym->kind == PM_SYM_VALUE && sym->val.kind == PM_V_ERROR))) return true;
  }
  return false;
}

void pm_lw_repeat(PmLower *lw, const PmStmt *s) {
  Uses uses = {.lw = lw};
  walk_stmts(&uses, &s->body);
  PmInst *inst = lw->scope->inst ? find_inner(lw->scope->inst, s) : NULL;
  if (!inst || inst->failed) {
    fail(lw, &uses.assigned);
    return;
  }
  Turn t = {.lw = lw, .inst = inst, .outer = lw->frame};
  PmFnId fn = pm_lw_add_fn(lw, pm_lw_path(lw, lw->m->name, inst->path), PM_FN_BODY, s->span);
  t.frame = pm_lw_frame(lw, fn, s->span);
  t.frame->var_lo = inst->var_lo;
  t.frame->var_hi = inst->var_hi;
  t.scope = pm_scope_new(lw, lw->scope, PM_SCOPE_BLOCK, lw->scope->unit, inst->path);
  t.scope->inst = inst;
  t.scope->naming = true;
  capture_carried(&t, &uses.assigned);
  capture_used(&t, &uses.used);
  capture_draws(&t);
  add_stacked(&t);
  add_turn(&t);
  read_captured(&t, &uses.used);
  pm_lw_put_declared(lw, t.scope, inst);
  PmScope *outer_scope = lw->scope;
  lw->scope = t.scope;
  int32_t errors = pm_diags_errors(lw->diags);
  pm_lw_stmts(lw, &s->body);
  bool ok = set_results(&t);
  lw->scope = outer_scope;
  lw->frame = t.outer;
  if (!ok) {
    pm_fn(lw->m, fn)->dead = true;
    fail(lw, &uses.assigned);
    return;
  }
  if (t.n_carried == 0) {
    // What went wrong inside may be why nothing is carried.
    if (pm_diags_errors(lw->diags) == errors && !any_failed(lw, inst, &uses.assigned) &&
        pm_lw_error(lw, PM_E_PROGRAM, s->span, "this `repeat` changes nothing outside")) {
      pm_diag_note(lw->diags, "a name that exists before the `repeat` must be assigned inside: `x += f(x)`");
    }
    return;
  }
  pm_lw_at(lw, s->span);
  PmAxisId axis = inst->repeats[inst->n_repeats - 1];
  PmValueId out = pm_b_repeat(&lw->frame->b, fn, axis, t.n_carried, t.n_inv, false, t.in, t.n);
  for (int32_t i = 0; i < t.n_carried; i++) pm_lw_assign(lw, t.carried[i], pm_val_node(out + i, false));
  out += t.n_carried;
  for (PmVarId v = inst->var_lo; v < inst->var_hi; v++) {
    if (t.frame->new_vals[v] != PM_NONE) t.outer->new_vals[v] = out++;
  }
  for (int32_t i = 0; i < t.frame->n_reports; i++) {
    pm_lw_add_report(lw, (PmReport){t.frame->reports[i].name, out++});
  }
}
