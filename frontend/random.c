// Random numbers of a program: `dropout`. A draw is keyed by the path of its block and its ordinal there; the step and
// the turns of the repeats around are its operands, so that functions that draw get these as parameters.
#include <string.h>

#include "base/hash.h"
#include "frontend/lower.h"

// Where a walk looks for draws.
typedef struct Walk {
  PmUnit *unit;   // where calls are looked up; NULL: not at all
  int32_t depth;  // calls so far. Where they nest too deep the program has an error of its own
} Walk;

static bool fn_draws(PmSym *fn, int32_t depth);
static bool expr_draws(const Walk *w, const PmExpr *e);

static bool args_draw(const Walk *w, const PmArgs *args) {
  for (int32_t i = 0; i < args->n; i++) {
    if (expr_draws(w, args->items[i].value) || expr_draws(w, args->items[i].end)) return true;
  }
  return false;
}

static bool name_draws(const Walk *w, const char *name) {
  if (strcmp(name, "dropout") == 0) return true;
  PmSym *sym = w->unit ? pm_scope_find_here(&w->unit->callables, name) : NULL;
  return sym && fn_draws(sym, w->depth + 1);
}

static bool expr_draws(const Walk *w, const PmExpr *e) {
  if (!e) return false;
  if (e->kind == PM_X_NAME && name_draws(w, e->name)) return true;
  return expr_draws(w, e->a) || expr_draws(w, e->b) || args_draw(w, &e->args);
}

static bool stmts_draw(const Walk *w, const PmStmts *stmts) {
  for (int32_t i = 0; i < stmts->n; i++) {
    const PmStmt *s = &stmts->items[i];
    if (expr_draws(w, s->value) || stmts_draw(w, &s->body)) return true;
    for (int32_t k = 0; k < s->values.n; k++) {
      if (expr_draws(w, s->values.items[k])) return true;
    }
  }
  return false;
}

static bool fn_draws(PmSym *fn, int32_t depth) {
  bool is_fn = fn->kind == PM_SYM_ITEM && fn->item->kind == PM_IT_FN;
  if (!is_fn || fn->walked || depth > PM_MAX_NESTING) return fn->draws;
  fn->walked = true;  // before its body: a recursion ends here, and is an error later
  const Walk w = {fn->unit, depth};
  fn->draws = expr_draws(&w, fn->item->value) || stmts_draw(&w, &fn->item->body);
  return fn->draws;
}

bool pm_lw_fn_draws(PmSym *fn) { return fn_draws(fn, 0); }

bool pm_lw_draws(const PmLower *lw) {
  const Walk w = {0};
  for (int32_t u = 0; u < lw->n_units; u++) {
    const PmItems *items = &lw->units[u]->text.items;
    for (int32_t i = 0; i < items->n; i++) {
      if (expr_draws(&w, items->items[i].value) || stmts_draw(&w, &items->items[i].body)) return true;
    }
  }
  return false;
}

static int64_t stream(PmLower *lw) {
  PmInst *inst = lw->scope->inst ? lw->scope->inst : lw->scope->caller;
  const char *name = pm_arena_printf(lw->arena, "%s#%d", inst->path, inst->n_draws++);
  // Positive, so that the text form has no signs.
  return (int64_t)(pm_hash64(name, strlen(name), 0) >> 1);
}

// `batch` of the main file, or PM_NONE.
static PmAxisId batch_axis(PmLower *lw) {
  const PmSym *sym = pm_scope_find_here(&lw->main->globals, pm_intern(lw->names, "batch"));
  return sym && sym->kind == PM_SYM_AXIS ? sym->axis : PM_NONE;
}

// f32, uniform in [0, 1), of the axes of `like`. Elements count in the order of its axes, but `batch` first: then a
// micro-batch draws what its rows have in the whole batch, as its number is one more turn.
static PmValueId draw(PmLower *lw, const PmType *like) {
  PmFrame *f = lw->frame;
  PmType type = pm_type_scalar(PM_F32), wanted = type;
  PmAxisId batch = batch_axis(lw);
  bool rows = batch != PM_NONE && pm_type_find(like, batch) != PM_NONE;
  if (rows) pm_type_add(&type, batch);
  for (int32_t i = 0; i < like->rank; i++) {
    pm_type_add(&wanted, like->dims[i].axis);
    if (like->dims[i].axis != batch) pm_type_add(&type, like->dims[i].axis);
  }
  PmAttr attr = {.index = stream(lw), .n_axes = (uint8_t)f->n_turns};
  PmValueId in[PM_MAX_RANK + 1] = {f->var_vals[lw->step_var]};
  for (int32_t i = 0; i < f->n_turns; i++) {
    attr.axes[i] = f->turn_axes[i];
    in[i + 1] = f->turns[i];
  }
  if (rows && f->micro != PM_NONE) {
    attr.axes[attr.n_axes++] = lw->m->micro;
    in[attr.n_axes] = f->micro;
  }
  return pm_b_broadcast(&f->b, pm_b_node(&f->b, PM_OP_random, &attr, in, attr.n_axes + 1, &type), wanted);
}

static PmValueId splat(PmBuilder *b, double v, const PmType *type) {
  return pm_b_broadcast(b, pm_b_const(b, (PmDtype)type->dtype, v), *type);
}

// Where u < limit `then`, elsewhere `other`.
static PmValueId choose(PmBuilder *b, PmValueId u, double limit, double then, PmValueId other) {
  PmType type = *pm_b_type(b, u);
  PmValueId bound = splat(b, limit, &type), chosen = splat(b, then, &type);
  PmValueId hit = pm_b_map2(b, PM_S_lt, u, bound);
  return pm_b_map3(b, PM_S_where, hit, chosen, other);
}

// x / (1 - p) where a draw is at least p, else 0; x itself in evaluation, where draws are 1 (passes/eval_mode.c).
PmVal pm_lw_dropout(PmLower *lw, const PmCall *c) {
  const PmExpr *value = c->args->items[0].value, *rate = c->args->items[1].value;
  PmVal x = pm_lw_eval(lw, value);
  double p;
  if (!pm_lw_eval_num(lw, rate, "the rate of `dropout`", &p) || x.kind == PM_V_ERROR) return PM_ERROR_VAL;
  if (!(p >= 0) || !(p < 1)) {
    if (pm_lw_error(lw, PM_E_CONSTANT, rate->span, "the rate of `dropout` is in [0, 1)")) {
      pm_diag_note(lw->diags, "it is the part that is dropped: 0.1 keeps nine of ten");
    }
    return PM_ERROR_VAL;
  }
  if (x.kind != PM_V_NODE || !pm_dtype_is_float((PmDtype)pm_val_type(lw, &x)->dtype)) {
    pm_lw_error(lw, PM_E_DTYPE, value->span, "`dropout` takes a tensor of floats");
    return PM_ERROR_VAL;
  }
  bool in_block = lw->scope->inst || lw->scope->caller;
  if (lw->step_var == PM_NONE || lw->frame->var_vals[lw->step_var] == PM_NONE || !in_block) {
    if (pm_lw_error(lw, PM_E_PROGRAM, c->name_span, "`dropout` stands in models and blocks, and in what they call")) {
      if (lw->n_active > 0) pm_diag_label(lw->diags, lw->active_calls[lw->n_active - 1], "called here");
      pm_diag_note(lw->diags, "what it drops depends on the path of the block, the step and the turn");
    }
    return PM_ERROR_VAL;
  }
  if (p == 0) return x;
  if (lw->frame->n_turns == PM_MAX_RANK && lw->frame->micro != PM_NONE) {
    pm_lw_error(lw, PM_E_LIMIT, c->name_span, "with micro-batches `dropout` stands inside at most %d repeats",
                PM_MAX_RANK - 1);
    return PM_ERROR_VAL;
  }
  pm_lw_at(lw, c->expr->span);
  x = pm_lw_data(lw, x);
  PmBuilder *b = &lw->frame->b;
  PmType type = *pm_val_type(lw, &x);
  PmValueId u = draw(lw, &type);
  PmType f32 = *pm_b_type(b, u);
  PmValueId kept = choose(b, u, 1, 1 / (1 - p), splat(b, 1, &f32));
  PmValueId factor = pm_b_cast(b, choose(b, u, p, 0, kept), (PmDtype)type.dtype);
  return pm_val_node(pm_b_map2(b, PM_S_mul, x.id, factor), false);
}
