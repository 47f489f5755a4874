// Functions that the language itself knows: elementwise functions, sums and dot products.
#include <math.h>
#include <string.h>

#include "frontend/lower.h"

typedef enum Brackets { BR_NONE, BR_AXES, BR_ANY } Brackets;

typedef struct Builtin {
  const char *name;
  PmVal (*handler)(PmLower *lw, const PmCall *call, const struct Builtin *row);
  PmScalar scalar;
  Brackets brackets;
  int32_t min, max;
  const char *form, *doc;
} Builtin;

static PmVal eval_arg(PmLower *lw, const PmCall *c, int32_t i) { return pm_lw_eval(lw, c->args->items[i].value); }
static PmSpan arg_span(const PmCall *c, int32_t i) { return c->args->items[i].value->span; }

// Positional arguments come first; only the functions that look for them take named ones.
static const PmExpr *named_arg(const PmCall *c, const char *name) {
  for (int32_t i = 0; i < c->args->n; i++) {
    if (c->args->items[i].name.text && strcmp(c->args->items[i].name.text, name) == 0) return c->args->items[i].value;
  }
  return NULL;
}

static PmVal apply(PmLower *lw, const PmCall *c, PmScalar fn) {
  PmVal v[3];
  PmSpan spans[3];
  bool bad = false;
  for (int32_t i = 0; i < c->args->n; i++) {
    v[i] = eval_arg(lw, c, i);
    spans[i] = arg_span(c, i);
    bad = bad || v[i].kind == PM_V_ERROR;
  }
  return bad ? PM_ERROR_VAL : pm_lw_map(lw, fn, c->name, v, spans, c->args->n, c->expr->span);
}

static PmVal builtin_map(PmLower *lw, const PmCall *c, const Builtin *row) { return apply(lw, c, row->scalar); }

static PmVal builtin_ceil(PmLower *lw, const PmCall *c, const Builtin *row) {
  (void)row;
  PmVal v = eval_arg(lw, c, 0);
  PmSpan span = arg_span(c, 0);
  if (v.kind == PM_V_NUM) return pm_val_num(ceil(v.num));
  v = pm_lw_map(lw, PM_S_neg, "ceil", &v, &span, 1, c->expr->span);
  v = pm_lw_map(lw, PM_S_floor, "ceil", &v, &span, 1, c->expr->span);
  return pm_lw_map(lw, PM_S_neg, "ceil", &v, &span, 1, c->expr->span);
}

static PmVal builtin_f32(PmLower *lw, const PmCall *c, const Builtin *row) {
  (void)row;
  PmVal v = eval_arg(lw, c, 0);
  if (v.kind == PM_V_NUM) return v;
  if (v.kind != PM_V_NODE) {
    if (v.kind != PM_V_ERROR) pm_lw_error(lw, PM_E_KIND, arg_span(c, 0), "`f32` takes one tensor");
    return PM_ERROR_VAL;
  }
  pm_lw_at(lw, c->expr->span);
  return pm_val_node(pm_lw_node(lw, v, PM_F32), false);
}

// cast_like(x, ref): x in the dtype of `ref`. For functions that cannot name the dtype that their caller's values have.
static PmVal builtin_cast_like(PmLower *lw, const PmCall *c, const Builtin *row) {
  (void)row;
  PmVal v = eval_arg(lw, c, 0), ref = eval_arg(lw, c, 1);
  if (v.kind == PM_V_ERROR || ref.kind == PM_V_ERROR) return PM_ERROR_VAL;
  if (!pm_val_is_data(&v) || !pm_val_is_data(&ref) || !pm_dtype_is_float((PmDtype)pm_val_type(lw, &ref)->dtype)) {
    pm_lw_error(lw, PM_E_DTYPE, c->expr->span, "`cast_like` takes a tensor, and one of floats");
    return PM_ERROR_VAL;
  }
  pm_lw_at(lw, c->expr->span);
  return pm_val_node(pm_lw_node(lw, v, (PmDtype)pm_val_type(lw, &ref)->dtype), false);
}

static PmVal builtin_pos(PmLower *lw, const PmCall *c, const Builtin *row) {
  (void)row;
  PmAxisId axis = pm_lw_axis(lw, c->args->items[0].value);
  if (axis == PM_NONE) return PM_ERROR_VAL;
  axis = pm_lw_rows(lw, axis, PM_ROWS_ALL, "`pos`", arg_span(c, 0), NULL);
  if (!lw->frame) {
    pm_lw_error(lw, PM_E_CONSTANT, c->expr->span, "`pos` has one value a position; a constant is needed here");
    return PM_ERROR_VAL;
  }
  pm_lw_at(lw, c->expr->span);
  return pm_val_node(pm_b_pos(&lw->frame->b, axis), true);
}

// The operand of a sum over `axes`: a tensor that has them all.
static bool need_axes(PmLower *lw, const PmCall *c, int32_t arg, const PmVal *v, const PmAxisId *axes, int32_t n) {
  if (v->kind == PM_V_ERROR) return false;
  if (v->kind == PM_V_NUM && !v->truth) {
    pm_lw_error(lw, PM_E_NO_AXIS, arg_span(c, arg), "`%s` goes over axes, but %s is a number", c->name,
                pm_lw_text(lw, arg_span(c, arg)));
    return false;
  }
  if (v->kind != PM_V_NODE || pm_val_type(lw, v)->dtype == PM_BOOL) {
    if (pm_lw_error(lw, PM_E_DTYPE, arg_span(c, arg), "`%s` takes a tensor of numbers", c->name)) {
      pm_diag_help(lw->diags, "write `where(condition, 1.0, 0.0)` to count");
    }
    return false;
  }
  PmType t = *pm_val_type(lw, v);
  for (int32_t i = 0; i < n; i++) {
    if (pm_type_find(&t, axes[i]) != PM_NONE) continue;
    const char *axis = lw->m->axes[axes[i]].name;
    if (pm_lw_error(lw, PM_E_NO_AXIS, c->brackets->items[i].value->span, "`%s` sums over `%s`, but %s has no such axis",
                    c->name, axis, pm_lw_text(lw, arg_span(c, arg)))) {
      pm_diag_label(lw->diags, arg_span(c, arg), "%s", pm_lw_axes(lw, &t));
      const char *names[PM_MAX_RANK];
      for (int32_t k = 0; k < t.rank; k++) names[k] = lw->m->axes[t.dims[k].axis].name;
      pm_lw_suggest(lw, axis, names, t.rank);
    }
    return false;
  }
  return true;
}

// The axes that a function goes over.
typedef struct Over {
  PmAxisId axes[PM_MAX_RANK];
  int32_t n;
  bool whole;    // it goes on over the micro-batches
  double count;  // the elements that meet
} Over;

static bool over_axes(PmLower *lw, const PmCall *c, PmRowsUse use, Over *out) {
  *out = (Over){.count = 1};
  if (!pm_lw_axis_list(lw, c->brackets, out->axes, &out->n)) return false;
  const char *what = pm_arena_printf(lw->arena, "`%s`", c->name);
  for (int32_t i = 0; i < out->n; i++) {
    out->count *= pm_lw_axis_value(lw, out->axes[i]);
    out->axes[i] = pm_lw_rows(lw, out->axes[i], use, what, c->brackets->items[i].value->span, &out->whole);
  }
  return true;
}

static bool reduced(PmLower *lw, const PmCall *c, PmRowsUse use, PmVal *v, Over *out) {
  *v = eval_arg(lw, c, 0);
  return over_axes(lw, c, use, out) && need_axes(lw, c, 0, v, out->axes, out->n);
}

static PmVal reduce(PmLower *lw, const PmCall *c, PmReduceKind kind, PmVal v, const Over *over) {
  pm_lw_at(lw, c->expr->span);
  if (pm_val_type(lw, &v)->dtype == PM_I32) v = pm_val_node(pm_lw_node(lw, v, PM_F32), false);
  PmValueId id = pm_b_reduce(&lw->frame->b, kind, v.id, over->axes, over->n);
  if (over->whole) pm_lw_whole_sum(lw, id);
  return pm_val_node(id, v.exact);
}

// A sum of floats narrower than the policy's `reduce` type runs in that type; the caller casts what comes of it back.
static PmVal widened(PmLower *lw, const PmCall *c, PmVal v) {
  pm_lw_at(lw, c->expr->span);
  PmDtype d = (PmDtype)pm_val_type(lw, &v)->dtype;
  return pm_dtype_is_float(d) && d < lw->reduce ? pm_lw_as_float(lw, v, lw->reduce) : v;
}

static PmVal narrowed(PmLower *lw, PmVal v, PmDtype like) {
  return v.kind == PM_V_NODE && pm_dtype_is_float(like) ? pm_lw_as_float(lw, v, like) : v;
}

static PmVal builtin_sum(PmLower *lw, const PmCall *c, const Builtin *row) {
  (void)row;
  PmVal v;
  Over over;
  if (!reduced(lw, c, PM_ROWS_SUM, &v, &over)) return PM_ERROR_VAL;
  PmDtype like = (PmDtype)pm_val_type(lw, &v)->dtype;
  return narrowed(lw, reduce(lw, c, PM_SUM, widened(lw, c, v), &over), like);
}

static PmVal negated(PmLower *lw, const PmCall *c, PmVal v) {
  return pm_lw_map(lw, PM_S_neg, c->name, &v, &c->expr->span, 1, c->expr->span);
}

// max(a, b) is elementwise; max[axes](x) goes over axes. A minimum over axes is the negative of a maximum.
static PmVal builtin_max(PmLower *lw, const PmCall *c, const Builtin *row) {
  if (!c->brackets) {
    if (c->args->n == 2) return apply(lw, c, row->scalar);
    if (pm_lw_error(lw, PM_E_ARGS, c->expr->span, "`%s` takes two values, or axes in square brackets", c->name)) {
      pm_diag_help(lw->diags, "write `%s[AXES](x)`", c->name);
    }
    return PM_ERROR_VAL;
  }
  PmVal v;
  Over over;
  if (!reduced(lw, c, PM_ROWS_ALL, &v, &over)) return PM_ERROR_VAL;
  if (row->scalar == PM_S_max) return reduce(lw, c, PM_MAX, v, &over);
  return negated(lw, c, reduce(lw, c, PM_MAX, negated(lw, c, v), &over));
}

static PmVal divide(PmLower *lw, const PmCall *c, PmVal a, PmVal b) {
  PmSpan spans[2] = {c->expr->span, c->expr->span};
  return pm_lw_map(lw, PM_S_div, c->name, (PmVal[]){a, b}, spans, 2, c->expr->span);
}

static PmVal map_with(PmLower *lw, const PmCall *c, PmScalar fn, PmVal a, PmVal b, PmVal d, int32_t n) {
  PmSpan s = c->expr->span;
  return pm_lw_map(lw, fn, c->name, (PmVal[]){a, b, d}, (PmSpan[]){s, s, s}, n, s);
}

// Mean over the elements that the mask allows; 0 where there is none.
static PmVal masked_mean(PmLower *lw, const PmCall *c, const PmExpr *where, PmVal v, const Over *over) {
  PmVal mask = pm_lw_eval(lw, where);
  if (mask.kind == PM_V_ERROR) return PM_ERROR_VAL;
  PmSpan spans[3] = {where->span, arg_span(c, 0), c->expr->span};
  PmVal kept = pm_lw_map(lw, PM_S_where, "where", (PmVal[]){mask, v, pm_val_num(0)}, spans, 3, c->expr->span);
  if (kept.kind != PM_V_NODE) return PM_ERROR_VAL;
  PmType wide = *pm_val_type(lw, &kept);
  PmVal one = map_with(lw, c, PM_S_where, mask, pm_val_num(1), pm_val_num(0), 3);
  if (one.kind == PM_V_ERROR) return PM_ERROR_VAL;
  PmVal ones = pm_val_node(pm_lw_coerce(lw, one, &wide), kept.exact);
  PmVal sum = reduce(lw, c, PM_SUM, kept, over);
  PmVal count = map_with(lw, c, PM_S_max, reduce(lw, c, PM_SUM, ones, over), pm_val_num(1), PM_ERROR_VAL, 2);
  return divide(lw, c, sum, count);
}

static PmVal builtin_mean(PmLower *lw, const PmCall *c, const Builtin *row) {
  (void)row;
  PmVal v;
  Over over;
  if (!reduced(lw, c, PM_ROWS_SUM, &v, &over)) return PM_ERROR_VAL;
  PmDtype like = (PmDtype)pm_val_type(lw, &v)->dtype;
  v = widened(lw, c, v);
  const PmExpr *where = named_arg(c, "where");
  if (where) return narrowed(lw, masked_mean(lw, c, where, v, &over), like);
  return narrowed(lw, divide(lw, c, reduce(lw, c, PM_SUM, v, &over), pm_val_num(over.count)), like);
}

// Values in scope that have the summed axes and all axes of the operand that lacks them.
static void suggest_operand(PmLower *lw, const PmType *has, const PmAxisId *axes, int32_t n) {
  const PmScope *s = lw->scope;
  for (int32_t i = 0; i < s->n; i++) {
    const PmSym *sym = &s->syms[i];
    if (sym->kind != PM_SYM_VALUE || sym->var == PM_NONE || sym->val.kind != PM_V_NODE) continue;
    PmType t = *pm_val_type(lw, &sym->val);
    bool fits = true;
    for (int32_t k = 0; k < n; k++) fits = fits && pm_type_find(&t, axes[k]) != PM_NONE;
    for (int32_t k = 0; k < has->rank; k++) fits = fits && pm_type_find(&t, has->dims[k].axis) != PM_NONE;
    if (!fits) continue;
    pm_diag_help(lw->diags, "a parameter here with these axes: `%s`%s", sym->name, pm_lw_axes(lw, &t));
    return;
  }
}

static bool dot_operands(PmLower *lw, const PmCall *c, const PmVal *v, const PmAxisId *axes, int32_t n) {
  for (int32_t i = 0; i < 2; i++) {
    if (v[i].kind == PM_V_ERROR) return false;
    if (v[i].kind != PM_V_NODE || !pm_dtype_is_float((PmDtype)pm_val_type(lw, &v[i])->dtype)) {
      if (pm_lw_error(lw, PM_E_DTYPE, arg_span(c, i), "`dot` takes two tensors of floats") && v[i].kind == PM_V_NODE) {
        pm_diag_label(lw->diags, arg_span(c, i), "%s", pm_dtype_text((PmDtype)pm_val_type(lw, &v[i])->dtype));
      }
      return false;
    }
  }
  for (int32_t i = 0; i < n; i++) {
    for (int32_t k = 0; k < 2; k++) {
      PmType t = *pm_val_type(lw, &v[k]);
      if (pm_type_find(&t, axes[i]) != PM_NONE) continue;
      if (pm_lw_error(lw, PM_E_NO_AXIS, c->brackets->items[i].value->span,
                      "`dot` sums over `%s`, but %s has no such axis", lw->m->axes[axes[i]].name,
                      pm_lw_text(lw, arg_span(c, k)))) {
        pm_diag_label(lw->diags, arg_span(c, 0), "%s", pm_lw_val_axes(lw, &v[0]));
        pm_diag_label(lw->diags, arg_span(c, 1), "%s", pm_lw_val_axes(lw, &v[1]));
        suggest_operand(lw, &t, axes, n);
      }
      return false;
    }
  }
  return true;
}

static bool fits_rank(PmLower *lw, const PmCall *c, int32_t rank) {
  if (rank <= PM_MAX_RANK) return true;
  pm_lw_error(lw, PM_E_LIMIT, c->expr->span, "the result of `%s` would have %d axes; a tensor has at most %d", c->name,
              rank, PM_MAX_RANK);
  return false;
}

static int32_t union_rank(const PmType *a, const PmType *b) {
  int32_t rank = a->rank;
  for (int32_t i = 0; i < b->rank; i++) rank += pm_type_find(a, b->dims[i].axis) == PM_NONE;
  return rank;
}

static PmVal dot(PmLower *lw, const PmCall *c, PmVal x, PmVal y, const PmAxisId *axes, int32_t n) {
  if (!fits_rank(lw, c, union_rank(pm_val_type(lw, &x), pm_val_type(lw, &y)) - n)) return PM_ERROR_VAL;
  pm_lw_at(lw, c->expr->span);
  bool exact = x.exact && y.exact;
  // An exact operand takes the data's dtype.
  if (x.exact && !exact) x.id = pm_lw_node(lw, x, (PmDtype)pm_val_type(lw, &y)->dtype);
  if (y.exact && !exact) y.id = pm_lw_node(lw, y, (PmDtype)pm_val_type(lw, &x)->dtype);
  return pm_val_node(pm_b_dot(&lw->frame->b, x.id, y.id, axes, n), exact);
}

static PmVal builtin_dot(PmLower *lw, const PmCall *c, const Builtin *row) {
  (void)row;
  PmVal v[2] = {eval_arg(lw, c, 0), PM_ERROR_VAL};
  v[1] = eval_arg(lw, c, 1);
  Over over;
  if (!over_axes(lw, c, PM_ROWS_SUM, &over) || !dot_operands(lw, c, v, over.axes, over.n)) return PM_ERROR_VAL;
  PmVal sum = dot(lw, c, v[0], v[1], over.axes, over.n);
  if (over.whole && sum.kind == PM_V_NODE) pm_lw_whole_sum(lw, sum.id);
  return sum;
}

// dot_like(x, y, ref): sums every axis that x and y share and `ref` has not. For backward passes, where a function
// cannot name the extra axes that its caller's values have.
static PmVal builtin_dot_like(PmLower *lw, const PmCall *c, const Builtin *row) {
  (void)row;
  PmVal v[3];
  for (int32_t i = 0; i < 3; i++) v[i] = eval_arg(lw, c, i);
  if (v[2].kind == PM_V_ERROR || !dot_operands(lw, c, v, NULL, 0)) return PM_ERROR_VAL;
  if (v[2].kind != PM_V_NODE) {
    pm_lw_error(lw, PM_E_KIND, arg_span(c, 2), "`dot_like` takes a tensor as its third argument");
    return PM_ERROR_VAL;
  }
  PmType x = *pm_val_type(lw, &v[0]), y = *pm_val_type(lw, &v[1]), ref = *pm_val_type(lw, &v[2]);
  PmAxisId axes[PM_MAX_RANK];
  int32_t n = 0;
  for (int32_t i = 0; i < x.rank; i++) {
    PmAxisId axis = x.dims[i].axis;
    if (pm_type_find(&y, axis) != PM_NONE && pm_type_find(&ref, axis) == PM_NONE) axes[n++] = axis;
  }
  return dot(lw, c, v[0], v[1], axes, n);
}

static PmVal builtin_outer(PmLower *lw, const PmCall *c, const Builtin *row) {
  (void)row;
  PmVal v[2] = {eval_arg(lw, c, 0), PM_ERROR_VAL};
  v[1] = eval_arg(lw, c, 1);
  if (!dot_operands(lw, c, v, NULL, 0)) return PM_ERROR_VAL;
  return dot(lw, c, v[0], v[1], NULL, 0);
}

// onehot[e](i): 1 where the position on e is the index, else 0, as f32; e becomes the last axis.
static PmVal builtin_onehot(PmLower *lw, const PmCall *c, const Builtin *row) {
  (void)row;
  PmVal v = eval_arg(lw, c, 0);
  Over over;
  if (!over_axes(lw, c, PM_ROWS_ALL, &over) || v.kind == PM_V_ERROR) return PM_ERROR_VAL;
  const PmAxisId *axes = over.axes;
  if (over.n != 1 || v.kind != PM_V_NODE || pm_val_type(lw, &v)->dtype != PM_I32) {
    pm_lw_error(lw, PM_E_ARGS, c->expr->span, "`onehot[axis](i)` takes one axis and an index into it");
    return PM_ERROR_VAL;
  }
  PmType to = *pm_val_type(lw, &v);
  if (!fits_rank(lw, c, to.rank + 1)) return PM_ERROR_VAL;
  if (pm_type_find(&to, axes[0]) != PM_NONE) {
    pm_lw_error(lw, PM_E_AXIS_TWICE, c->expr->span, "the index already has axis `%s`", lw->m->axes[axes[0]].name);
    return PM_ERROR_VAL;
  }
  pm_type_add(&to, axes[0]);
  pm_lw_at(lw, c->expr->span);
  PmBuilder *b = &lw->frame->b;
  PmValueId at = pm_b_broadcast(b, pm_b_cast(b, pm_b_pos(b, axes[0]), PM_I32), to);
  PmValueId hit = pm_b_map2(b, PM_S_eq, pm_b_broadcast(b, v.id, to), at);
  return pm_val_node(pm_b_cast(b, hit, PM_F32), false);
}

#define AXES_HANDLER(name)                                                        \
  static PmVal builtin_##name(PmLower *lw, const PmCall *c, const Builtin *row) { \
    (void)row;                                                                    \
    return pm_lw_##name(lw, c);                                                   \
  }
AXES_HANDLER(rename)
AXES_HANDLER(split)
AXES_HANDLER(merge)
AXES_HANDLER(stack)
AXES_HANDLER(topk)
AXES_HANDLER(dispatch)
AXES_HANDLER(combine)
AXES_HANDLER(dropout)

static const Builtin builtins[] = {
#define BUILTIN(name, handler, scalar, brackets, min, max, form, doc) \
  {#name, builtin_##handler, PM_S_##scalar, BR_##brackets, min, max, form, doc},
#include "frontend/builtins.def"
};

#define N_BUILTINS ((int32_t)(sizeof builtins / sizeof *builtins))

static const Builtin *find(const char *name) {
  for (int32_t i = 0; i < N_BUILTINS; i++) {
    if (strcmp(builtins[i].name, name) == 0) return &builtins[i];
  }
  return NULL;
}

bool pm_lw_is_builtin(const char *name) { return find(name) != NULL; }

bool pm_builtin_doc(const char *name, const char **out_form, const char **out_doc) {
  const Builtin *row = find(name);
  if (!row) return false;
  *out_form = row->form;
  *out_doc = row->doc;
  return true;
}

int32_t pm_lw_builtin_names(PmLower *lw, const char ***out) {
  const char **names = PM_NEW_N(lw->arena, const char *, N_BUILTINS);
  for (int32_t i = 0; i < N_BUILTINS; i++) names[i] = builtins[i].name;
  *out = names;
  return N_BUILTINS;
}

static bool allowed_name(const Builtin *row, const char *name) {
  if (row->handler == builtin_mean) return strcmp(name, "where") == 0;
  return row->handler == builtin_split;
}

static bool shape_fits(PmLower *lw, const PmCall *c, const Builtin *row) {
  if (row->brackets == BR_NONE && c->brackets) {
    pm_lw_error(lw, PM_E_ARGS, c->name_span, "`%s` takes no axes in square brackets", row->name);
    return false;
  }
  if (row->brackets == BR_AXES && !c->brackets) {
    if (pm_lw_error(lw, PM_E_ARGS, c->name_span, "`%s` needs axes in square brackets", row->name)) {
      pm_diag_help(lw->diags, "write `%s[AXES](...)`", row->name);
    }
    return false;
  }
  int32_t n = 0;
  for (int32_t i = 0; i < c->args->n; i++) {
    const PmArg *a = &c->args->items[i];
    if (!a->name.text) {
      n++;
    } else if (!allowed_name(row, a->name.text)) {
      if (pm_lw_error(lw, PM_E_ARGS, a->name.span, "`%s` has no argument `%s`", row->name, a->name.text)) {
        pm_lw_suggest_compare(lw, a->name.text);
      }
      return false;
    }
  }
  if (n >= row->min && n <= row->max) return true;
  if (row->min == row->max) {
    pm_lw_error(lw, PM_E_ARGS, c->expr->span, "`%s` takes %d argument%s, not %d", row->name, row->min,
                row->min == 1 ? "" : "s", n);
  } else {
    pm_lw_error(lw, PM_E_ARGS, c->expr->span, "`%s` takes %d to %d arguments, not %d", row->name, row->min, row->max,
                n);
  }
  return false;
}

bool pm_lw_builtin(PmLower *lw, const PmCall *call, PmVal *out) {
  const Builtin *row = find(call->name);
  if (!row) return false;
  *out = shape_fits(lw, call, row) ? row->handler(lw, call, row) : PM_ERROR_VAL;
  if (out->kind == PM_V_ERROR) pm_lw_fail_targets(lw, call->to);
  return true;
}
