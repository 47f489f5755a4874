// What a model declares, made before anything is built: parameters and inputs with their paths, blocks with their
// names.
#include <string.h>

#include "frontend/lower.h"

#define MAX_VARS 65536

const char *pm_lw_path(PmLower *lw, const char *path, const char *name) {
  return *path ? pm_intern_printf(lw->names, "%s.%s", path, name) : name;
}

PmVarId pm_lw_add_var(PmLower *lw, PmVar v) {
  return pm_module_find_var(lw->m, v.path) == PM_NONE ? pm_module_add_var(lw->m, v) : PM_NONE;
}

// One number argument of normal(s) and uniform(s).
static bool init_arg(PmLower *lw, const PmExpr *e, const char *what, double *out) {
  if (e->args.n != 1 || e->args.items[0].name.text) {
    pm_lw_error(lw, PM_E_ARGS, e->span, "`%s` takes one number", what);
    return false;
  }
  return pm_lw_eval_num(lw, e->args.items[0].value, what, out);
}

bool pm_lw_init(PmLower *lw, const PmExpr *e, PmVar *v) {
  const PmExpr *f = e->kind == PM_X_CALL ? e->a : e;
  const char *name = f->kind == PM_X_NAME && !pm_scope_find(lw->scope, f->name) ? f->name : "";
  v->init = PM_INIT_CONST;
  if (e->kind == PM_X_CALL && strcmp(name, "normal") == 0) {
    v->init = PM_INIT_NORMAL;
    return init_arg(lw, e, "normal", &v->init_value);
  }
  if (e->kind == PM_X_CALL && strcmp(name, "uniform") == 0) {
    v->init = PM_INIT_UNIFORM;
    return init_arg(lw, e, "uniform", &v->init_value);
  }
  if (e->kind == PM_X_NAME && (strcmp(name, "zeros") == 0 || strcmp(name, "ones") == 0)) {
    v->init_value = strcmp(name, "ones") == 0;
    return true;
  }
  if (*name && !pm_lw_is_builtin(name) && !pm_lw_callable(lw, name) && strcmp(name, "inf") != 0) {
    static const char *const known[] = {"normal", "ones", "uniform", "zeros"};
    if (pm_lw_error(lw, PM_E_UNKNOWN_NAME, f->span, "unknown initialiser `%s`", name)) {
      pm_lw_suggest(lw, name, known, 4);
      pm_diag_note(lw->diags, "there are `zeros`, `ones`, `normal(s)`, `uniform(s)`, and any constant number");
    }
    return false;
  }
  return pm_lw_eval_num(lw, e, "the initial value", &v->init_value);
}

// What lives from step to step has no rows, or it would be one for each micro-batch.
static bool check_rows(PmLower *lw, const PmDecl *d, const PmType *t) {
  if (lw->m->rows == PM_NONE || pm_type_find(t, lw->m->rows) == PM_NONE) return true;
  if (pm_lw_error(lw, PM_E_MICRO, d->name.span, "`%s` has axis `batch`, of which a micro-batch sees a part",
                  d->name.text)) {
    pm_diag_label(lw->diags, lw->accumulate->span, "%lld micro-batches", (long long)lw->micro);
    pm_diag_help(lw->diags, "leave `accumulate` out, or the axis");
  }
  return false;
}

// The type of an input as it is stored: the number of the micro-batch right before its rows, so that the elements stand
// in the order of the whole batch.
static bool add_turns(PmLower *lw, const PmDecl *d, PmType *t) {
  int32_t at = lw->m->rows == PM_NONE ? PM_NONE : pm_type_find(t, lw->m->rows);
  if (at == PM_NONE) return true;
  if (t->rank == PM_MAX_RANK) {
    pm_lw_error(lw, PM_E_LIMIT, d->name.span, "with micro-batches an input has at most %d axes", PM_MAX_RANK - 1);
    return false;
  }
  for (int32_t i = t->rank++; i > at; i--) t->dims[i] = t->dims[i - 1];
  t->dims[at] = (PmDim){.axis = lw->m->micro};
  return true;
}

static bool var_type(PmLower *lw, const PmInst *inst, const PmDecl *d, PmDtype dtype, PmType *t) {
  *t = pm_type_scalar(dtype);
  for (int32_t i = 0; i < inst->n_repeats; i++) pm_type_add(t, inst->repeats[i]);
  if (!pm_lw_type_axes(lw, &d->axes, t)) return false;
  int64_t elements;
  if (pm_type_elements(lw->m, t, &elements)) return true;
  pm_lw_error(lw, PM_E_LIMIT, d->name.span, "`%s` has more than 2^48 elements", d->name.text);
  return false;
}

// Adds a variable and its name in the pre-pass scope. A failed one stays known by name, so that uses stay silent.
static void add_var(PmLower *lw, PmInst *inst, const PmDecl *d, PmVar v, bool ok) {
  PmInstVar iv = {d->name, PM_NONE};
  v.path = pm_lw_path(lw, inst->path, d->name.text);
  v.owner = v.update = PM_NONE;
  v.loc = pm_lw_loc(lw, d->name.span);
  PmSym sym = pm_sym_value(d->name.text, pm_val_node(PM_NONE, false), d->name.span);
  sym.fixed = true;
  if (!pm_scope_add(lw, lw->scope, sym)) return;
  if (ok && strcmp(v.path, "step") == 0) {
    pm_lw_error(lw, PM_E_REDEFINED, d->name.span, "`step` is the number of the training step; choose another name");
    ok = false;
  }
  if (ok && lw->m->n_vars >= MAX_VARS) {
    pm_lw_error(lw, PM_E_LIMIT, d->name.span, "more than %d parameters", MAX_VARS);
    lw->stopped = true;
    ok = false;
  }
  if (ok) iv.var = pm_lw_add_var(lw, v);
  if (iv.var != PM_NONE) {
    lw->var_repeats = pm_grow(lw->arena, lw->var_repeats, lw->n_var_repeats, &lw->cap_var_repeats, sizeof(int32_t));
    lw->var_repeats[lw->n_var_repeats++] = inst->n_repeats;
  } else if (ok) {
    if (pm_lw_error(lw, PM_E_REDEFINED, d->name.span, "the path `%s` is taken by another parameter", v.path)) {
      pm_diag_help(lw->diags, "give one of them another name, or put it into a `block`");
    }
  }
  inst->vars = pm_grow(lw->arena, inst->vars, inst->n_vars, &inst->cap_vars, sizeof *inst->vars);
  inst->vars[inst->n_vars++] = iv;
}

static void declare_params(PmLower *lw, PmInst *inst, const PmStmt *s) {
  PmVar v = {.role = PM_ROLE_PARAM};
  bool init_ok = true;
  if (!s->value) {
    if (pm_lw_error(lw, PM_E_PROGRAM, s->span, "parameter `%s` has no initial value", s->decls.items[0].name.text)) {
      pm_diag_help(lw->diags, "add `~ normal(0.02)`, `~ zeros` or `~ ones`");
    }
    init_ok = false;
  } else {
    init_ok = pm_lw_init(lw, s->value, &v);
  }
  for (int32_t i = 0; i < s->decls.n; i++) {
    const PmDecl *d = &s->decls.items[i];
    bool ok = true;
    if (!d->has_axes) {
      if (pm_lw_error(lw, PM_E_PROGRAM, d->name.span, "parameter `%s` has no axes", d->name.text)) {
        pm_diag_help(lw->diags, "write `%s[AXES]`", d->name.text);
      }
      ok = false;
    }
    const char *path = pm_lw_path(lw, inst->path, d->name.text);
    ok = ok && var_type(lw, inst, d, pm_lw_format(lw, PM_FORMAT_PARAM, path), &v.type) && check_rows(lw, d, &v.type);
    const PmDtype grad = pm_lw_format(lw, PM_FORMAT_GRAD, path);
    v.grad = (uint8_t)(grad == (PmDtype)v.type.dtype ? PM_BOOL : grad);
    add_var(lw, inst, d, v, ok && init_ok);
  }
}

// Axes may be left out: a state of one number.
static void declare_states(PmLower *lw, PmInst *inst, const PmStmt *s) {
  PmVar v = {.role = PM_ROLE_STATE};
  bool init_ok = s->value && pm_lw_init(lw, s->value, &v);
  if (!s->value &&
      pm_lw_error(lw, PM_E_PROGRAM, s->span, "state `%s` has no initial value", s->decls.items[0].name.text)) {
    pm_diag_help(lw->diags, "add `~ zeros`, `~ ones` or `~ normal(0.02)`");
  }
  for (int32_t i = 0; i < s->decls.n; i++) {
    const PmDecl *d = &s->decls.items[i];
    bool ok = var_type(lw, inst, d, PM_F32, &v.type) && check_rows(lw, d, &v.type);
    add_var(lw, inst, d, v, ok && init_ok);
  }
}

static bool input_dtype(PmLower *lw, const PmStmt *s, PmDtype *out) {
  const char *name = s->of.text;
  if (pm_lw_float_dtype(name, out)) return true;
  static const char *const known[] = {"f32", "bf16", "f16"};
  if (pm_lw_error(lw, PM_E_DTYPE, s->of.span, "an input is `: f32`, `: bf16`, `: f16` or `in AXIS`, not `: %s`",
                  name)) {
    pm_lw_suggest(lw, name, known, 3);
  }
  return false;
}

static void declare_input(PmLower *lw, PmInst *inst, const PmStmt *s) {
  const PmDecl *d = &s->decls.items[0];
  PmVar v = {.role = PM_ROLE_INPUT, .init = PM_INIT_NONE};
  bool ok = inst->block == NULL && inst->n_repeats == 0;
  if (!ok) pm_lw_error(lw, PM_E_PROGRAM, d->name.span, "inputs are declared in the model, outside `repeat` and blocks");
  PmDtype dtype = PM_I32;
  PmAxisId of = PM_NONE;
  if (s->of_is_axis) {
    of = pm_lw_axis_name(lw, s->of);
    if (of != PM_NONE) of = pm_lw_rows(lw, of, PM_ROWS_ALL, "an input", s->of.span, NULL);
    ok = ok && of != PM_NONE;
  } else {
    ok = input_dtype(lw, s, &dtype) && ok;
  }
  ok = var_type(lw, inst, d, dtype, &v.type) && add_turns(lw, d, &v.type) && ok;
  v.type.index_of = of;
  add_var(lw, inst, d, v, ok);
}

static void declare(PmLower *lw, PmInst *inst, const PmStmts *stmts);

static void declare_inside(PmLower *lw, PmInst *inst, PmScope *scope, const PmStmts *stmts) {
  PmScope *outer = lw->scope;
  lw->scope = scope;
  inst->var_lo = lw->m->n_vars;
  declare(lw, inst, stmts);
  inst->var_hi = lw->m->n_vars;
  lw->scope = outer;
}

// The block that `sub NAME = block` names; NULL after an error.
static const PmSym *sub_block(PmLower *lw, const PmStmt *s) {
  const PmSym *sym = pm_lw_callable(lw, s->of.text);
  if (sym && sym->kind == PM_SYM_ITEM && sym->item->kind == PM_IT_BLOCK) return sym;
  if (sym && sym->kind == PM_SYM_ERROR) return NULL;
  if (sym) {
    if (pm_lw_error(lw, PM_E_KIND, s->of.span, "`%s` is not a block", s->of.text)) {
      pm_diag_label(lw->diags, sym->span, "declared here");
      if (sym->item->kind == PM_IT_FN) pm_diag_help(lw->diags, "a `fn` has no parameters: call it without `sub`");
    }
    return NULL;
  }
  if (!pm_lw_error(lw, PM_E_UNKNOWN_NAME, s->of.span, "unknown block `%s`", s->of.text)) return NULL;
  PmScope *all = &lw->scope->unit->callables;
  const char **names = PM_NEW_N(lw->arena, const char *, all->n + 1);
  int32_t n = 0;
  for (int32_t i = 0; i < all->n; i++) {
    if (all->syms[i].kind == PM_SYM_ITEM && all->syms[i].item->kind == PM_IT_BLOCK) names[n++] = all->syms[i].name;
  }
  pm_lw_suggest(lw, s->of.text, names, n);
  return NULL;
}

static bool sub_axes(PmLower *lw, const PmStmt *s, const PmItem *block, PmAxisId *out) {
  if (s->axes.n != block->axes.n) {
    if (pm_lw_error(lw, PM_E_ARGS, s->of.span, "block `%s` takes %d ax%ss in square brackets, not %d", s->of.text,
                    block->axes.n, block->axes.n == 1 ? "i" : "e", s->axes.n)) {
      pm_diag_label(lw->diags, block->name.span, "defined here");
    }
    return false;
  }
  PmType t = pm_type_scalar(PM_F32);
  if (!pm_lw_type_axes(lw, &s->axes, &t)) return false;
  for (int32_t i = 0; i < t.rank; i++) out[i] = t.dims[i].axis;
  return true;
}

static void declare_sub(PmLower *lw, PmInst *inst, const PmStmt *s) {
  const PmSym *found = sub_block(lw, s);
  PmSym block = found ? *found : (PmSym){0};
  PmAxisId axes[PM_MAX_RANK] = {0};
  bool ok = found && sub_axes(lw, s, block.item, axes);
  for (int32_t i = 0; i < s->names.n && !lw->stopped; i++) {
    PmName name = s->names.items[i];
    PmInst *sub = PM_NEW(lw->arena, PmInst);
    *sub =
        (PmInst){.path = pm_lw_path(lw, inst->path, name.text), .block = block.item, .unit = block.unit, .failed = !ok};
    memcpy(sub->axes, axes, sizeof axes);
    memcpy(sub->repeats, inst->repeats, sizeof sub->repeats);
    sub->n_repeats = inst->n_repeats;
    sub->var_lo = sub->var_hi = lw->m->n_vars;
    PmSym sym = {.name = name.text, .kind = PM_SYM_SUB, .span = name.span, .sub = sub, .var = PM_NONE, .axis = PM_NONE};
    if (!pm_scope_add(lw, lw->scope, sym)) continue;
    inst->subs = pm_grow(lw->arena, inst->subs, inst->n_subs, &inst->cap_subs, sizeof *inst->subs);
    inst->subs[inst->n_subs++] = (PmInstSub){name, sub};
    lw->work += 7;  // an instance takes the memory of several expressions
    if (!ok || !pm_lw_work(lw, name.span)) continue;
    if (!pm_lw_enter(lw, block.item, s->of.span)) {
      sub->failed = true;
      continue;
    }
    PmScope *scope = pm_scope_new(lw, &block.unit->globals, PM_SCOPE_BLOCK, block.unit, sub->path);
    for (int32_t k = 0; k < block.item->axes.n; k++) {
      pm_scope_add(lw, scope, pm_sym_axis(block.item->axes.items[k].text, axes[k], block.item->axes.items[k].span));
    }
    declare_inside(lw, sub, scope, &block.item->body);
    pm_lw_leave(lw);
  }
}

static void declare_repeat(PmLower *lw, PmInst *inst, const PmStmt *s) {
  PmInst *inner = PM_NEW(lw->arena, PmInst);
  *inner = (PmInst){
      .path = pm_lw_path(lw, inst->path, s->of.text), .block = inst->block, .unit = inst->unit, .is_turn = true};
  memcpy(inner->repeats, inst->repeats, sizeof inner->repeats);
  inner->n_repeats = inst->n_repeats;
  inst->inner = pm_grow(lw->arena, inst->inner, inst->n_inner, &inst->cap_inner, sizeof *inst->inner);
  inst->inner[inst->n_inner++] = (PmInstRepeat){s, inner};
  PmAxisId axis = pm_lw_axis_name(lw, s->of);
  if (axis != PM_NONE) axis = pm_lw_rows(lw, axis, PM_ROWS_ALL, "`repeat`", s->of.span, NULL);
  inner->failed = axis == PM_NONE;
  for (int32_t i = 0; i < inner->n_repeats; i++) {
    if (inner->repeats[i] != axis || inner->failed) continue;
    pm_lw_error(lw, PM_E_AXIS_TWICE, s->of.span, "`repeat %s` stands inside another one", s->of.text);
    inner->failed = true;
  }
  if (inner->n_repeats >= PM_MAX_RANK && !inner->failed) {
    pm_lw_error(lw, PM_E_LIMIT, s->of.span, "`repeat` nests more than %d deep", PM_MAX_RANK);
    inner->failed = true;
  }
  if (inner->failed) return;
  inner->repeats[inner->n_repeats++] = axis;
  PmScope *scope = pm_scope_new(lw, lw->scope, PM_SCOPE_BLOCK, lw->scope->unit, inner->path);
  declare_inside(lw, inner, scope, &s->body);
}

// Values have no number yet: an initial value that uses one is told so.
static void declare_values(PmLower *lw, const PmNames *names) {
  for (int32_t i = 0; i < names->n; i++) {
    PmName name = names->items[i];
    if (pm_scope_find(lw->scope, name.text)) continue;
    pm_scope_put(lw, lw->scope, pm_sym_value(name.text, pm_val_node(PM_NONE, false), name.span));
  }
}

static void declare(PmLower *lw, PmInst *inst, const PmStmts *stmts) {
  for (int32_t i = 0; i < stmts->n && !lw->stopped; i++) {
    const PmStmt *s = &stmts->items[i];
    if (s->kind == PM_ST_PARAM) declare_params(lw, inst, s);
    if (s->kind == PM_ST_STATE) declare_states(lw, inst, s);
    if (s->kind == PM_ST_INPUT) declare_input(lw, inst, s);
    if (s->kind == PM_ST_SUB) declare_sub(lw, inst, s);
    if (s->kind == PM_ST_REPEAT) declare_repeat(lw, inst, s);
    if (s->kind == PM_ST_ASSIGN) declare_values(lw, &s->names);
  }
}

PmInst *pm_inst_model(PmLower *lw, const PmItem *model) {
  PmInst *inst = PM_NEW(lw->arena, PmInst);
  *inst = (PmInst){.path = "", .unit = lw->main};
  declare_inside(lw, inst, pm_scope_new(lw, &lw->main->globals, PM_SCOPE_BLOCK, lw->main, ""), &model->body);
  return inst;
}
