// Values and elementwise operators: exact numbers, promotion, and the containment rule of broadcasting.
#include <math.h>

#include "base/assert.h"
#include "frontend/lower.h"

PmVal pm_val_num(double v) { return (PmVal){.kind = PM_V_NUM, .num = v, .id = PM_NONE}; }
PmVal pm_val_truth(bool v) { return (PmVal){.kind = PM_V_NUM, .num = v, .truth = true, .id = PM_NONE}; }
PmVal pm_val_node(PmValueId id, bool exact) { return (PmVal){.kind = PM_V_NODE, .id = id, .exact = exact}; }

const PmType *pm_val_type(const PmLower *lw, const PmVal *v) { return pm_b_type(&lw->frame->b, v->id); }
bool pm_val_is_data(const PmVal *v) { return v->kind == PM_V_NODE && !v->exact; }

void pm_lw_at(PmLower *lw, PmSpan span) {
  lw->frame->b.loc = pm_lw_loc(lw, span);
  if (lw->micro < 2) return;
  const PmFn *f = pm_fn(lw->m, lw->frame->b.fn);
  lw->marks = pm_grow(lw->arena, lw->marks, lw->n_marks, &lw->cap_marks, sizeof *lw->marks);
  PmSpan seen = lw->user_call.file >= 0 ? lw->user_call : span;
  lw->marks[lw->n_marks] = (PmMark){lw->frame->b.fn, f->n_nodes, lw->n_marks, seen};
  lw->n_marks++;
}

PmValueId pm_lw_node(PmLower *lw, PmVal v, PmDtype dtype) {
  PM_ASSERT(v.kind == PM_V_NUM || v.kind == PM_V_NODE, "value of kind %d", (int)v.kind);
  if (v.kind == PM_V_NUM) return pm_b_const(&lw->frame->b, dtype, v.num);
  return pm_b_cast(&lw->frame->b, v.id, dtype);
}

PmVal pm_lw_as_float(PmLower *lw, PmVal v, PmDtype dtype) {
  for (int32_t i = 0; v.kind == PM_V_TUPLE && i < v.n; i++) v.items[i] = pm_lw_as_float(lw, v.items[i], dtype);
  if (!pm_val_is_data(&v) || !pm_dtype_is_float((PmDtype)pm_val_type(lw, &v)->dtype)) return v;
  return pm_val_node(pm_lw_node(lw, v, dtype), false);
}

bool pm_lw_same_axes(const PmType *a, const PmType *b) {
  if (a->rank != b->rank) return false;
  for (int32_t i = 0; i < a->rank; i++) {
    if (pm_type_find(b, a->dims[i].axis) == PM_NONE) return false;
  }
  return true;
}

PmValueId pm_lw_coerce(PmLower *lw, PmVal v, const PmType *want) {
  PmType to = *want;
  return pm_b_broadcast(&lw->frame->b, pm_lw_node(lw, v, (PmDtype)to.dtype), to);
}

PmVal pm_lw_data(PmLower *lw, PmVal v) {
  if (v.kind != PM_V_NUM && v.kind != PM_V_NODE) return v;
  bool boolean = v.kind == PM_V_NUM ? v.truth : pm_val_type(lw, &v)->dtype == PM_BOOL;
  if (pm_val_is_data(&v)) return v;
  return pm_val_node(pm_lw_node(lw, v, boolean ? PM_BOOL : PM_F32), false);
}

static PmDtype dtype_of(const PmLower *lw, const PmVal *v) {
  if (v->kind == PM_V_NUM) return v->truth ? PM_BOOL : PM_F64;
  return (PmDtype)pm_val_type(lw, v)->dtype;
}

typedef struct Operands {
  PmLower *lw;
  PmScalar fn;
  const char *what;
  const PmVal *v;
  const PmSpan *spans;
  int32_t n;
  PmSpan span;
} Operands;

static bool plain_values(const Operands *o) {
  for (int32_t i = 0; i < o->n; i++) {
    if (o->v[i].kind == PM_V_ERROR) return false;
    if (o->v[i].kind == PM_V_NUM || o->v[i].kind == PM_V_NODE) continue;
    pm_lw_error(o->lw, PM_E_KIND, o->spans[i], "`%s` takes numbers and tensors, not %s", o->what,
                o->v[i].kind == PM_V_STR ? "a string" : "several values");
    return false;
  }
  return true;
}

static bool refuse_dtype(const Operands *o, int32_t i, const char *wants, const char *help) {
  if (pm_lw_error(o->lw, PM_E_DTYPE, o->spans[i], "`%s` takes %s, but %s is %s", o->what, wants,
                  pm_lw_text(o->lw, o->spans[i]), pm_dtype_text(dtype_of(o->lw, &o->v[i])))) {
    const PmVal *v = &o->v[i];
    PmAxisId of = v->kind == PM_V_NODE ? pm_val_type(o->lw, v)->index_of : PM_NONE;
    if (of != PM_NONE) {
      pm_diag_note(o->lw->diags, "these are indices: they choose along an axis, as in `table[%s = %s]`",
                   o->lw->m->axes[of].name, pm_lw_bare_text(o->lw, o->spans[i]));
    }
    if (help) pm_diag_help(o->lw->diags, "%s", help);
  }
  return false;
}

// The dtype that operands `from`.. are brought to. Exact operands take the data's.
static bool common_dtype(const Operands *o, int32_t from, PmDtype *out) {
  PmScalarOut kind = pm_scalar_out(o->fn);
  *out = kind == PM_OUT_LOGIC ? PM_BOOL : PM_F64;
  bool any = false;
  for (int32_t i = from; i < o->n; i++) {
    PmDtype d = dtype_of(o->lw, &o->v[i]);
    if (kind == PM_OUT_LOGIC) {
      if (d != PM_BOOL) return refuse_dtype(o, i, "truth values", "compare first: `x > 0`");
      continue;
    }
    if (d == PM_BOOL) return refuse_dtype(o, i, "numbers", "write `where(condition, 1.0, 0.0)`");
    if (!pm_val_is_data(&o->v[i])) continue;
    if (kind == PM_OUT_SAME && !pm_dtype_is_float(d)) return refuse_dtype(o, i, "floats", "cast with `f32(...)`");
    if (!any) {
      *out = d;
    } else if (pm_dtype_is_float(d) != pm_dtype_is_float(*out)) {
      return refuse_dtype(o, i, pm_dtype_is_float(*out) ? "floats here" : "an integer here", "cast with `f32(...)`");
    } else if (d > *out) {
      *out = d;
    }
    any = true;
  }
  for (int32_t i = from; any && *out == PM_I32 && i < o->n; i++) {
    const PmVal *v = &o->v[i];
    if (v->kind != PM_V_NUM || (v->num == floor(v->num) && fabs(v->num) <= INT32_MAX)) continue;
    pm_lw_error(o->lw, PM_E_CONSTANT, o->spans[i],
                "an index is compared with %s, which is not a whole number of 32 bits", pm_lw_text(o->lw, o->spans[i]));
    return false;
  }
  return true;
}

static bool contains(const PmType *wide, const PmType *t, PmAxisId *out_missing) {
  for (int32_t i = 0; i < t->rank; i++) {
    if (pm_type_find(wide, t->dims[i].axis) != PM_NONE) continue;
    *out_missing = t->dims[i].axis;
    return false;
  }
  return true;
}

static void label_operands(const Operands *o) {
  PmLower *lw = o->lw;
  for (int32_t i = 0; i < o->n; i++) {
    if (o->v[i].kind != PM_V_NODE) continue;
    pm_diag_label(lw->diags, o->spans[i], "%s%s", pm_lw_val_axes(lw, &o->v[i]), o->v[i].exact ? " (index value)" : "");
  }
}

// "heads" of one operand against "kv" of the other with the same size: most likely one was to be renamed.
static void suggest_rename(const Operands *o, PmAxisId missing, const PmType *wide) {
  PmLower *lw = o->lw;
  const PmAxis *a = &lw->m->axes[missing];
  for (int32_t i = 0; i < wide->rank; i++) {
    const PmAxis *b = &lw->m->axes[wide->dims[i].axis];
    if (b->size != a->size) continue;
    pm_diag_help(lw->diags, "`%s` and `%s` have the same size: was a `rename[%s -> %s]` forgotten?", a->name, b->name,
                 b->name, a->name);
    return;
  }
}

static bool refuse_axes(const Operands *o, int32_t wide, int32_t other, PmAxisId missing) {
  PmLower *lw = o->lw;
  const char *axis = lw->m->axes[missing].name;
  PmType w = *pm_val_type(lw, &o->v[wide]);
  if (o->v[other].exact) {
    if (!pm_lw_error(lw, PM_E_WIDEN, o->span, "`%s` would widen %s: it has no axis `%s`, which %s has", o->what,
                     pm_lw_text(lw, o->spans[wide]), axis, pm_lw_text(lw, o->spans[other]))) {
      return false;
    }
    label_operands(o);
    pm_diag_note(lw->diags, "values made of `pos` and numbers may not add axes to data");
    suggest_rename(o, missing, &w);
    return false;
  }
  if (!pm_lw_error(lw, PM_E_BROADCAST, o->span, "`%s` cannot combine %s with %s: neither's axes contain the other's",
                   o->what, pm_lw_val_axes(lw, &o->v[wide]), pm_lw_val_axes(lw, &o->v[other]))) {
    return false;
  }
  label_operands(o);
  PmType t = *pm_val_type(lw, &o->v[other]);
  PmAxisId back = PM_NONE;
  contains(&t, &w, &back);
  pm_diag_note(lw->diags, "`%s` stands in one only, and so does `%s`", axis, lw->m->axes[back].name);
  suggest_rename(o, missing, &w);
  pm_diag_help(lw->diags, "write `outer(a, b)` where every pair is wanted");
  return false;
}

// The axes of the result: those of the data operand that contains all others (the left one on a tie); without data, the
// union in order of appearance.
static bool result_axes(const Operands *o, PmType *out) {
  PmLower *lw = o->lw;
  int32_t wide = PM_NONE;
  for (int32_t i = 0; i < o->n; i++) {
    if (!pm_val_is_data(&o->v[i])) continue;
    if (wide == PM_NONE || pm_val_type(lw, &o->v[i])->rank > pm_val_type(lw, &o->v[wide])->rank) wide = i;
  }
  *out = pm_type_scalar(PM_F64);
  if (wide != PM_NONE) {
    PmType w = *pm_val_type(lw, &o->v[wide]);
    for (int32_t i = 0; i < o->n; i++) {
      PmAxisId missing;
      if (o->v[i].kind == PM_V_NODE && !contains(&w, pm_val_type(lw, &o->v[i]), &missing)) {
        return refuse_axes(o, wide, i, missing);
      }
    }
    for (int32_t i = 0; i < w.rank; i++) pm_type_add(out, w.dims[i].axis);
    return true;
  }
  for (int32_t i = 0; i < o->n; i++) {
    if (o->v[i].kind != PM_V_NODE) continue;
    PmType t = *pm_val_type(lw, &o->v[i]);
    for (int32_t k = 0; k < t.rank; k++) {
      if (pm_type_find(out, t.dims[k].axis) != PM_NONE) continue;
      if (out->rank >= PM_MAX_RANK) {
        pm_lw_error(lw, PM_E_LIMIT, o->span, "a tensor has at most %d axes", PM_MAX_RANK);
        return false;
      }
      pm_type_add(out, t.dims[k].axis);
    }
  }
  return true;
}

static bool all_numbers(const Operands *o) {
  for (int32_t i = 0; i < o->n; i++) {
    if (o->v[i].kind != PM_V_NUM) return false;
  }
  return true;
}

static PmVal fold(const Operands *o) {
  double x[3] = {0};
  for (int32_t i = 0; i < o->n; i++) x[i] = o->v[i].num;
  double r = pm_scalar_eval(o->fn, x[0], x[1], x[2]);
  return pm_scalar_out(o->fn) == PM_OUT_SAME ? pm_val_num(r) : pm_val_truth(r != 0);
}

PmVal pm_lw_map(PmLower *lw, PmScalar fn, const char *what, const PmVal *v, const PmSpan *spans, int32_t n,
                PmSpan span) {
  Operands o = {lw, fn, what, v, spans, n, span};
  if (!plain_values(&o)) return PM_ERROR_VAL;
  bool where = pm_scalar_linear(fn) == PM_LIN_BRANCH;
  PmDtype dtype;
  if (where && dtype_of(lw, &v[0]) != PM_BOOL) {
    refuse_dtype(&o, 0, "a truth value first", "compare: `x > 0`");
    return PM_ERROR_VAL;
  }
  if (!common_dtype(&o, where ? 1 : 0, &dtype)) return PM_ERROR_VAL;
  if (all_numbers(&o)) return fold(&o);
  // A condition known now chooses a branch; its axes are then those of the branch alone.
  if (where && v[0].kind == PM_V_NUM) return v[0].num != 0 ? v[1] : v[2];
  PmType to;
  if (!result_axes(&o, &to)) return PM_ERROR_VAL;
  // Two numbers under a condition on data are data: alone, numbers are f32.
  if (where && dtype == PM_F64 && pm_val_is_data(&v[0])) dtype = PM_F32;
  pm_lw_at(lw, span);
  PmBuilder *b = &lw->frame->b;
  PmValueId in[3];
  bool exact = true;
  for (int32_t i = 0; i < n; i++) {
    exact = exact && !pm_val_is_data(&v[i]);
    in[i] = pm_lw_node(lw, v[i], where && i == 0 ? PM_BOOL : dtype);
    if (pm_b_type(b, in[i])->rank < to.rank) in[i] = pm_b_broadcast(b, in[i], to);
  }
  // The result has the order of the first operand: bring a permuted one to the containing operand's order.
  in[0] = pm_b_broadcast(b, in[0], to);
  return pm_val_node(pm_b_map(b, fn, in, n), exact);
}

static PmVal multiply(PmLower *lw, PmVal a, PmVal b, PmSpan span) {
  return pm_lw_map(lw, PM_S_mul, "*", (PmVal[]){a, b}, (PmSpan[]){span, span}, 2, span);
}

#define MAX_POWER 16

// x ** n for a small whole n is repeated multiplication, by squaring.
static PmVal power(PmLower *lw, PmVal x, int32_t n, PmSpan span) {
  PmVal r = PM_ERROR_VAL;
  bool have = false;
  while (n > 0) {
    if (n & 1) {
      r = have ? multiply(lw, r, x, span) : x;
      have = true;
    }
    n >>= 1;
    if (n > 0) x = multiply(lw, x, x, span);
  }
  return r;
}

PmVal pm_lw_pow(PmLower *lw, PmVal a, PmVal b, const PmSpan *spans, PmSpan span) {
  bool constant = a.kind == PM_V_NODE && b.kind == PM_V_NUM && !b.truth;
  bool is_float = constant && pm_dtype_is_float(dtype_of(lw, &a));
  if (is_float && b.num == floor(b.num) && b.num >= 1 && b.num <= MAX_POWER) return power(lw, a, (int32_t)b.num, span);
  if (is_float && b.num == 0.5) return pm_lw_map(lw, PM_S_sqrt, "**", &a, spans, 1, span);
  if (is_float && b.num == -0.5) return pm_lw_map(lw, PM_S_rsqrt, "**", &a, spans, 1, span);
  return pm_lw_map(lw, PM_S_pow, "**", (PmVal[]){a, b}, spans, 2, span);
}
