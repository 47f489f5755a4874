// Rules over numbers. What a rule may do:
//
// 1. A rule is an identity of IEEE arithmetic, true bit for bit for every operand: infinities, NaN (any NaN equals any
//    other) and both zeros. `x * 1`, `x / 1`, `x - 0`, `-(-x)` are such identities. `x + 0` is not (-0 + 0 is 0),
//    though `x + -0` is; `x * 0`, `x - x` and `x / x` are not (infinities, NaN); nothing may be re-associated,
//    distributed or contracted, and a sum over n equal numbers is not n times the number.
// 2. It must hold at every dtype and in both modes of the interpreter: with each result rounded to its dtype, and with
//    every float a double. So constants fold only where rounding cannot show: in f64, or where operands and result are
//    numbers of the result's dtype anyway. `0.1 + 0.2` in f32 stays.
// 3. A cast pair folds only when its first cast loses nothing.
// 4. The result's type is the candidate's, placement included. The engine checks it, and drops a rewrite that does not
//    keep it; a rule need not think of placements, but it must not count on a rewrite being taken.
// 5. A rule looks at definitions only (pm_simp_def): never at users, names or other functions. It terminates: it makes
//    the node an existing value, or simpler (fewer nodes below it, or a constant).
// 6. Rules are tried in table order; the first that fires wins, and the engine starts again on what it made.
#include <math.h>

#include "passes/simplify.h"

static PmDtype dtype_of(const PmSimp *s, PmValueId v) { return (PmDtype)pm_simp_type(s, v)->dtype; }

static bool exact_in(PmDtype dtype, double v) {
  switch (dtype) {
    case PM_F64:
      return true;
    case PM_F32:
      return (double)(float)v == v;
    case PM_I32:
      return v == floor(v) && fabs(v) < 2147483648.0;
    case PM_BOOL:
      return v == 0 || v == 1;
    default:
      return false;
  }
}

static bool is_number(const PmSimp *s, PmValueId v, double number) {
  double got;
  // The sign distinguishes the zeros.
  return pm_simp_is_splat(s, v, &got) && got == number && signbit(got) == signbit(number);
}

// The operand's defining node when it is a map of `fn`, else NULL.
static const PmNode *map_of(const PmSimp *s, PmValueId v, PmScalar fn) {
  const PmNode *def = pm_simp_def(s, v);
  return def && def->op == PM_OP_map && def->attr.fn == fn ? def : NULL;
}

static bool fold_map(PmSimp *s, PmCand *c, PmValueId *out) {
  (void)out;
  double v[3] = {0, 0, 0};
  for (int32_t i = 0; i < c->n_in; i++) {
    if (!pm_simp_is_splat(s, c->in[i], &v[i]) || !exact_in(dtype_of(s, c->in[i]), v[i])) return false;
  }
  double r = pm_scalar_eval(c->attr.fn, v[0], v[1], v[2]);
  if (!exact_in((PmDtype)c->type.dtype, r)) return false;
  pm_simp_make_broadcast(s, c, pm_simp_const(s, (PmDtype)c->type.dtype, r));
  return true;
}

static bool fold_cast(PmSimp *s, PmCand *c, PmValueId *out) {
  (void)out;
  double v;
  // A constant does not say which axis it points into.
  if (c->type.index_of != PM_NONE) return false;
  if (!pm_simp_is_splat(s, c->in[0], &v) || !exact_in(dtype_of(s, c->in[0]), v)) return false;
  PmDtype to = (PmDtype)c->type.dtype;
  // A constant of a narrower float rounds just as the cast would.
  if (!pm_dtype_is_float(to) && !exact_in(to, v)) return false;
  pm_simp_make_broadcast(s, c, pm_simp_const(s, to, v));
  return true;
}

static bool same_cast(PmSimp *s, PmCand *c, PmValueId *out) {
  if (dtype_of(s, c->in[0]) != (PmDtype)c->type.dtype) return false;
  *out = c->in[0];
  return true;
}

// Every number of `from` is a number of `to`.
static bool widens(PmDtype from, PmDtype to) {
  static const bool table[PM_DTYPE_COUNT][PM_DTYPE_COUNT] = {
      [PM_BOOL] =
          {[PM_BOOL] = true, [PM_I32] = true, [PM_F16] = true, [PM_BF16] = true, [PM_F32] = true, [PM_F64] = true},
      [PM_I32] = {[PM_I32] = true, [PM_F64] = true},
      [PM_F16] = {[PM_F16] = true, [PM_F32] = true, [PM_F64] = true},
      [PM_BF16] = {[PM_BF16] = true, [PM_F32] = true, [PM_F64] = true},
      [PM_F32] = {[PM_F32] = true, [PM_F64] = true},
      [PM_F64] = {[PM_F64] = true}};
  return table[from][to];
}

static bool cast_of_cast(PmSimp *s, PmCand *c, PmValueId *out) {
  (void)out;
  const PmNode *def = pm_simp_def(s, c->in[0]);
  if (!def || def->op != PM_OP_cast) return false;
  PmDtype from = dtype_of(s, def->in[0]);
  // To bool and to an integer a cast is not a rounding: the middle type could decide what it is.
  if (!widens(from, dtype_of(s, c->in[0])) ||
      (!pm_dtype_is_float((PmDtype)c->type.dtype) && from != (PmDtype)c->type.dtype)) {
    return false;
  }
  pm_simp_set_operand(s, c, def->in[0]);
  return true;
}

static bool to_binary(PmSimp *s, PmCand *c, PmScalar fn, PmValueId a, PmValueId b) {
  c->attr.fn = fn;
  c->in = PM_NEW_N(s->m->arena, PmValueId, 2);
  c->in[0] = a;
  c->in[1] = b;
  c->n_in = 2;
  return true;
}

static bool add_rules(PmSimp *s, PmCand *c, PmValueId *out) {
  for (int32_t i = 0; i < 2; i++) {
    if (is_number(s, c->in[i], -0.0)) {
      *out = c->in[1 - i];
      return true;
    }
  }
  for (int32_t i = 1; i >= 0; i--) {
    const PmNode *neg = map_of(s, c->in[i], PM_S_neg);
    if (neg) return to_binary(s, c, PM_S_sub, c->in[1 - i], neg->in[0]);
  }
  return false;
}

static bool sub_rules(PmSimp *s, PmCand *c, PmValueId *out) {
  if (is_number(s, c->in[1], 0.0)) {
    *out = c->in[0];
    return true;
  }
  const PmNode *neg = map_of(s, c->in[1], PM_S_neg);
  return neg && to_binary(s, c, PM_S_add, c->in[0], neg->in[0]);
}

static bool mul_one(PmSimp *s, PmCand *c, PmValueId *out) {
  for (int32_t i = 0; i < 2; i++) {
    if (!is_number(s, c->in[i], 1.0)) continue;
    *out = c->in[1 - i];
    return true;
  }
  return false;
}

static bool mul_neg_neg(PmSimp *s, PmCand *c, PmValueId *out) {
  (void)out;
  const PmNode *a = map_of(s, c->in[0], PM_S_neg);
  const PmNode *b = map_of(s, c->in[1], PM_S_neg);
  return a && b && to_binary(s, c, PM_S_mul, a->in[0], b->in[0]);
}

// x / 1 and x ** 1.
static bool right_one(PmSimp *s, PmCand *c, PmValueId *out) {
  if (!is_number(s, c->in[1], 1.0)) return false;
  *out = c->in[0];
  return true;
}

// -(-x) and !(!x).
static bool involution(PmSimp *s, PmCand *c, PmValueId *out) {
  const PmNode *inner = map_of(s, c->in[0], c->attr.fn);
  if (!inner) return false;
  *out = inner->in[0];
  return true;
}

// max(x, x), min(x, x), x and x, x or x.
static bool idempotent(PmSimp *s, PmCand *c, PmValueId *out) {
  (void)s;
  if (c->in[0] != c->in[1]) return false;
  *out = c->in[0];
  return true;
}

// The unit leaves the other operand; the opposite bool swallows it.
static bool logic_const(PmSimp *s, PmCand *c, PmValueId *out) {
  double unit = c->attr.fn == PM_S_and;
  for (int32_t i = 0; i < 2; i++) {
    double v;
    if (!pm_simp_is_splat(s, c->in[i], &v)) continue;
    *out = (v != 0) == (unit != 0) ? c->in[1 - i] : c->in[i];
    return true;
  }
  return false;
}

static bool where_rules(PmSimp *s, PmCand *c, PmValueId *out) {
  double v;
  if (c->in[1] == c->in[2]) {
    *out = c->in[1];
  } else if (pm_simp_is_splat(s, c->in[0], &v)) {
    *out = v != 0 ? c->in[1] : c->in[2];
  } else {
    return false;
  }
  return true;
}

static bool where_not(PmSimp *s, PmCand *c, PmValueId *out) {
  (void)out;
  const PmNode *not = map_of(s, c->in[0], PM_S_not);
  if (!not) return false;
  PmValueId *in = PM_NEW_N(s->m->arena, PmValueId, 3);
  in[0] = not->in[0];
  in[1] = c->in[2];
  in[2] = c->in[1];
  c->in = in;
  return true;
}

const PmSimpRow pm_simp_scalar_rows[] = {
    {PM_OP_cast, PM_SCALAR_COUNT, same_cast},
    {PM_OP_cast, PM_SCALAR_COUNT, fold_cast},
    {PM_OP_cast, PM_SCALAR_COUNT, cast_of_cast},
    {PM_OP_map, PM_SCALAR_COUNT, fold_map},
    {PM_OP_map, PM_S_add, add_rules},
    {PM_OP_map, PM_S_and, idempotent},
    {PM_OP_map, PM_S_and, logic_const},
    {PM_OP_map, PM_S_div, right_one},
    {PM_OP_map, PM_S_max, idempotent},
    {PM_OP_map, PM_S_min, idempotent},
    {PM_OP_map, PM_S_mul, mul_one},
    {PM_OP_map, PM_S_mul, mul_neg_neg},
    {PM_OP_map, PM_S_neg, involution},
    {PM_OP_map, PM_S_not, involution},
    {PM_OP_map, PM_S_or, idempotent},
    {PM_OP_map, PM_S_or, logic_const},
    {PM_OP_map, PM_S_pow, right_one},
    {PM_OP_map, PM_S_sub, sub_rules},
    {PM_OP_map, PM_S_where, where_rules},
    {PM_OP_map, PM_S_where, where_not},
    {PM_OP_COUNT, PM_SCALAR_COUNT, NULL},
};
