#include <math.h>
#include <string.h>

#include "frontend/lower.h"

#define MAX_DEPTH 1000

static PmVal unknown_name(PmLower *lw, const PmExpr *e) {
  const PmSym *callable = pm_lw_callable(lw, e->name);
  if (callable || pm_lw_is_builtin(e->name)) {
    if (pm_lw_error(lw, PM_E_KIND, e->span, "`%s` is a function, not a value", e->name)) {
      pm_diag_help(lw->diags, "call it: `%s(...)`", e->name);
    }
    return PM_ERROR_VAL;
  }
  const char **names;
  int32_t n = pm_scope_names(lw, lw->scope, -1, &names);
  if (!pm_lw_error(lw, PM_E_UNKNOWN_NAME, e->span, "unknown name `%s`", e->name)) return PM_ERROR_VAL;
  if (pm_did_you_mean(e->name, names, n)) {
    pm_lw_suggest(lw, e->name, names, n);
  } else if (lw->n_active > 0) {
    pm_diag_note(lw->diags, "functions and blocks see their own arguments, and the axes and constants of their file");
    pm_diag_help(lw->diags, "pass it as an argument");
  }
  return PM_ERROR_VAL;
}

static PmVal eval_name(PmLower *lw, const PmExpr *e) {
  PmSym *sym = pm_scope_find(lw->scope, e->name);
  if (!sym && strcmp(e->name, "inf") == 0) return pm_val_num(INFINITY);
  if (!sym && strcmp(e->name, "ragged") == 0) {
    pm_lw_error(lw, PM_E_KIND, e->span, "`ragged` is no number: it stands alone, as the size of an axis");
    return PM_ERROR_VAL;
  }
  if (!sym) return unknown_name(lw, e);
  switch (sym->kind) {
    case PM_SYM_AXIS:
      if (!pm_lw_sized(lw, sym->axis, e->span)) return PM_ERROR_VAL;
      return pm_val_num(pm_lw_axis_value(lw, sym->axis));
    case PM_SYM_VALUE:
      if (sym->val.kind != PM_V_NODE || lw->frame) return sym->val;
      pm_lw_error(lw, PM_E_CONSTANT, e->span, "`%s` is computed only when the model runs; a constant is needed here",
                  e->name);
      return PM_ERROR_VAL;
    case PM_SYM_SUB:
      if (pm_lw_error(lw, PM_E_KIND, e->span, "`%s` is a block, not a value", e->name)) {
        pm_diag_help(lw->diags, "call it: `%s(...)`", e->name);
      }
      return PM_ERROR_VAL;
    case PM_SYM_ITEM:
    case PM_SYM_ERROR:
      break;
  }
  return PM_ERROR_VAL;
}

static PmVal eval_unary(PmLower *lw, const PmExpr *e) {
  PmVal a = pm_lw_eval(lw, e->a);
  return pm_lw_map(lw, e->fn, e->name, &a, &e->a->span, 1, e->span);
}

static PmVal eval_binary(PmLower *lw, const PmExpr *e) {
  PmVal v[2] = {pm_lw_eval(lw, e->a), PM_ERROR_VAL};
  v[1] = pm_lw_eval(lw, e->b);
  if (v[0].kind == PM_V_ERROR || v[1].kind == PM_V_ERROR) return PM_ERROR_VAL;
  PmSpan spans[2] = {e->a->span, e->b->span};
  if (e->fn == PM_S_pow) return pm_lw_pow(lw, v[0], v[1], spans, e->span);
  return pm_lw_map(lw, e->fn, e->name, v, spans, 2, e->span);
}

static PmVal eval_list(PmLower *lw, const PmExpr *e) {
  pm_lw_error(lw, PM_E_KIND, e->span, "a list may stand only as an argument of `train` and `plan`");
  return PM_ERROR_VAL;
}

static PmVal eval_bracket(PmLower *lw, const PmExpr *e) {
  bool function = e->a->kind == PM_X_NAME && !pm_scope_find(lw->scope, e->a->name) &&
                  (pm_lw_is_builtin(e->a->name) || pm_lw_callable(lw, e->a->name));
  if (function) {
    if (pm_lw_error(lw, PM_E_KIND, e->span, "`%s[...]` is a function without its arguments", e->a->name)) {
      const PmSym *sym = pm_lw_callable(lw, e->a->name);
      bool bare = sym && sym->item && sym->item->axes.n == 0;
      pm_diag_help(lw->diags, "square brackets hold axes, round brackets hold tensors: `%s%s(x)`", e->a->name,
                   bare ? "" : "[...]");
    }
    return PM_ERROR_VAL;
  }
  return pm_lw_index(lw, e);
}

static PmVal eval_field(PmLower *lw, const PmExpr *e) {
  if (e->a->kind == PM_X_NAME && strcmp(e->name, "micro") == 0) {
    PmAxisId axis = pm_lw_micro(lw, e);
    return axis == PM_NONE ? PM_ERROR_VAL : pm_val_num(pm_lw_axis_value(lw, axis));
  }
  if (pm_lw_error(lw, PM_E_KIND, e->span, "values have no parts: nothing is named `.%s`", e->name) &&
      !pm_lw_suggest_micro(lw, e)) {
    pm_diag_note(lw->diags, "paths such as `layer.attn.q` stand in plans, as strings");
  }
  return PM_ERROR_VAL;
}

static PmVal eval_kind(PmLower *lw, const PmExpr *e) {
  switch (e->kind) {
    case PM_X_NUM:
      return pm_val_num(e->num);
    case PM_X_STR:
      return (PmVal){.kind = PM_V_STR, .str = e->name, .id = PM_NONE};
    case PM_X_NAME:
      return eval_name(lw, e);
    case PM_X_LIST:
      return eval_list(lw, e);
    case PM_X_UNARY:
      return eval_unary(lw, e);
    case PM_X_BINARY:
      return eval_binary(lw, e);
    case PM_X_BRACKET:
      return eval_bracket(lw, e);
    case PM_X_CALL:
      return pm_lw_call(lw, e);
    case PM_X_FIELD:
      return eval_field(lw, e);
  }
  return PM_ERROR_VAL;
}

PmVal pm_lw_eval(PmLower *lw, const PmExpr *e) {
  if (lw->stopped || !pm_lw_work(lw, e->span)) return PM_ERROR_VAL;
  if (lw->depth >= MAX_DEPTH) {
    lw->stopped = true;
    pm_lw_error(lw, PM_E_NESTING, e->span, "calls and operators nest more than %d deep here", MAX_DEPTH);
    return PM_ERROR_VAL;
  }
  lw->depth++;
  PmVal v = eval_kind(lw, e);
  lw->depth--;
  return v;
}

bool pm_lw_eval_num(PmLower *lw, const PmExpr *e, const char *what, double *out) {
  PmFrame *frame = lw->frame;
  lw->frame = NULL;
  PmVal v = pm_lw_eval(lw, e);
  lw->frame = frame;
  if (v.kind == PM_V_ERROR) return false;
  if (v.kind != PM_V_NUM || v.truth) {
    pm_lw_error(lw, PM_E_CONSTANT, e->span, "%s must be a number made of constants and axis sizes", what);
    return false;
  }
  *out = v.num;
  return true;
}

// Where a number came from: the axes and constants that stand in `e`, with their values.
static void put_sizes(PmLower *lw, const PmExpr *e, PmBuf *out) {
  if (!e) return;
  put_sizes(lw, e->a, out);
  put_sizes(lw, e->b, out);
  if (e->kind != PM_X_NAME) return;
  const PmSym *sym = pm_scope_find(lw->scope, e->name);
  if (!sym || (sym->kind != PM_SYM_AXIS && (sym->kind != PM_SYM_VALUE || sym->val.kind != PM_V_NUM))) return;
  if (sym->kind == PM_SYM_AXIS && sym->axis == PM_NONE) return;
  pm_buf_printf(out, "%s`%s` is ", out->len ? ", " : "", e->name);
  pm_buf_put_f64(out, sym->kind == PM_SYM_AXIS ? pm_lw_axis_value(lw, sym->axis) : sym->val.num);
}

static void note_sizes(PmLower *lw, const PmExpr *e) {
  PmBuf text;
  pm_buf_init(&text);
  if (e->kind != PM_X_NAME) put_sizes(lw, e, &text);
  if (text.len) pm_diag_note(lw->diags, "%s", pm_buf_str(&text));
  pm_buf_deinit(&text);
}

bool pm_lw_eval_whole(PmLower *lw, const PmExpr *e, const char *what, int64_t lo, int64_t hi, int64_t *out) {
  double v;
  if (!pm_lw_eval_num(lw, e, what, &v)) return false;
  // Above 2^53 doubles skip whole numbers, so bounds are compared as doubles before the conversion.
  if (v != floor(v) || !(v >= (double)lo) || !(v <= (double)hi)) {
    PmBuf text;
    pm_buf_init(&text);
    pm_buf_put_f64(&text, v);
    if (pm_lw_error(lw, PM_E_CONSTANT, e->span, "%s is %s", what, pm_buf_str(&text))) {
      note_sizes(lw, e);
      pm_diag_note(lw->diags, "a whole number from %lld to %lld is needed", (long long)lo, (long long)hi);
    }
    pm_buf_deinit(&text);
    return false;
  }
  *out = (int64_t)v;
  return true;
}
