#include "codegen/recipes.h"

#include <math.h>

#include "base/assert.h"

typedef int32_t Recipe(PmKBuilder *kb, PmScalar fn, PmKDtype d, int32_t a, int32_t b, int32_t c);

int32_t pm_recipe_poly(PmKBuilder *kb, int32_t x, const double *c, int32_t n) {
  const PmKDtype d = pm_kb_dtype(kb, x);
  int32_t p = pm_kb_const(kb, d, c[n - 1]);
  for (int32_t i = n - 2; i >= 0; i--) p = rx_fma(kb, p, x, pm_kb_const(kb, d, c[i]));
  return p;
}

int32_t pm_recipe_pow2(PmKBuilder *kb, int32_t n) {
  return rx_float(kb, rx_2(kb, PM_I_SHL, rx_add(kb, n, rx_i32(kb, 127)), rx_i32(kb, 23)));
}

int32_t pm_recipe_pow_ends(PmKBuilder *kb, int32_t a, int32_t b, int32_t r) {
  const PmKDtype d = pm_kb_dtype(kb, a);
  const int32_t zero = pm_kb_const(kb, d, 0), one = pm_kb_const(kb, d, 1), inf = pm_kb_const(kb, d, INFINITY);
  const int32_t half = rx_mul(kb, b, pm_kb_const(kb, d, 0.5));
  const int32_t whole = rx_eq(kb, rx_1(kb, PM_I_FLOOR, b), b);
  const int32_t odd = rx_2(kb, PM_I_AND, whole, rx_2(kb, PM_I_CMP_NE, rx_1(kb, PM_I_FLOOR, half), half));
  const int32_t below = rx_lt(kb, a, zero);
  // The reciprocal tells -0 from 0.
  const int32_t negative = rx_2(kb, PM_I_OR, below, rx_lt(kb, rx_div(kb, one, a), zero));
  r = rx_select(kb, rx_2(kb, PM_I_AND, negative, odd), rx_neg(kb, r), r);
  const int32_t root = rx_2(kb, PM_I_AND, rx_2(kb, PM_I_AND, below, rx_1(kb, PM_I_NOT, whole)),
                            rx_lt(kb, rx_neg(kb, inf), a));
  r = rx_select(kb, root, pm_kb_const(kb, d, NAN), r);
  const int32_t unit = rx_2(kb, PM_I_AND, rx_eq(kb, rx_abs(kb, a), one), rx_eq(kb, rx_abs(kb, b), inf));
  const int32_t is_one = rx_2(kb, PM_I_OR, rx_eq(kb, a, one), rx_eq(kb, b, zero));
  return rx_select(kb, rx_2(kb, PM_I_OR, unit, is_one), one, r);
}

// A function that host kernels call in the C library, and that others compute in f32 or f64.
static int32_t call(PmKBuilder *kb, PmInstrOp op, PmKDtype d, int32_t a, int32_t b) {
  const int32_t a64 = pm_kb_cvt(kb, PM_K_F64, a), b64 = b < 0 ? -1 : pm_kb_cvt(kb, PM_K_F64, b);
  return pm_kb_cvt(kb, d, pm_kb_op(kb, op, PM_K_F64, a64, b64, -1));
}

static int32_t recipe_exp(PmKBuilder *kb, PmScalar fn, PmKDtype d, int32_t a, int32_t b, int32_t c) {
  (void)fn, (void)b, (void)c;
  if (kb->k->host) return call(kb, PM_I_CALL_EXP, d, a, -1);
  return d == PM_K_F64 ? pm_recipe_exp_f64(kb, a) : pm_recipe_exp_f32(kb, a);
}

static int32_t recipe_log(PmKBuilder *kb, PmScalar fn, PmKDtype d, int32_t a, int32_t b, int32_t c) {
  (void)fn, (void)b, (void)c;
  if (kb->k->host) return call(kb, PM_I_CALL_LOG, d, a, -1);
  return d == PM_K_F64 ? pm_recipe_log_f64(kb, a) : pm_recipe_log_f32(kb, a);
}

static int32_t recipe_tanh(PmKBuilder *kb, PmScalar fn, PmKDtype d, int32_t a, int32_t b, int32_t c) {
  (void)fn, (void)b, (void)c;
  if (kb->k->host) return call(kb, PM_I_CALL_TANH, d, a, -1);
  return d == PM_K_F64 ? pm_recipe_tanh_f64(kb, a) : pm_recipe_tanh_f32(kb, a);
}

static int32_t recipe_erf(PmKBuilder *kb, PmScalar fn, PmKDtype d, int32_t a, int32_t b, int32_t c) {
  (void)fn, (void)b, (void)c;
  if (kb->k->host) return call(kb, PM_I_CALL_ERF, d, a, -1);
  return d == PM_K_F64 ? pm_recipe_erf_f64(kb, a) : pm_recipe_erf_f32(kb, a);
}

static int32_t recipe_sin(PmKBuilder *kb, PmScalar fn, PmKDtype d, int32_t a, int32_t b, int32_t c) {
  (void)fn, (void)b, (void)c;
  if (kb->k->host) return call(kb, PM_I_CALL_SIN, d, a, -1);
  return d == PM_K_F64 ? pm_recipe_sin_f64(kb, a, false) : pm_recipe_sin_f32(kb, a, false);
}

static int32_t recipe_cos(PmKBuilder *kb, PmScalar fn, PmKDtype d, int32_t a, int32_t b, int32_t c) {
  (void)fn, (void)b, (void)c;
  if (kb->k->host) return call(kb, PM_I_CALL_COS, d, a, -1);
  return d == PM_K_F64 ? pm_recipe_sin_f64(kb, a, true) : pm_recipe_sin_f32(kb, a, true);
}

static int32_t recipe_pow(PmKBuilder *kb, PmScalar fn, PmKDtype d, int32_t a, int32_t b, int32_t c) {
  (void)fn, (void)c;
  if (kb->k->host) return call(kb, PM_I_CALL_POW, d, a, b);
  return d == PM_K_F64 ? pm_recipe_pow_f64(kb, a, b) : pm_recipe_pow_f32(kb, a, b);
}

static int32_t recipe_rsqrt(PmKBuilder *kb, PmScalar fn, PmKDtype d, int32_t a, int32_t b, int32_t c) {
  (void)fn, (void)b, (void)c;
  return rx_div(kb, pm_kb_const(kb, d, 1), rx_1(kb, PM_I_SQRT, a));
}

static int32_t recipe_abs(PmKBuilder *kb, PmScalar fn, PmKDtype d, int32_t a, int32_t b, int32_t c) {
  (void)fn, (void)b, (void)c;
  return d == PM_K_I32 ? rx_2(kb, PM_I_MAX, a, rx_neg(kb, a)) : rx_abs(kb, a);
}

static int32_t recipe_sign(PmKBuilder *kb, PmScalar fn, PmKDtype d, int32_t a, int32_t b, int32_t c) {
  (void)fn, (void)b, (void)c;
  const int32_t zero = pm_kb_const(kb, d, 0);
  const int32_t rest = rx_select(kb, rx_lt(kb, a, zero), pm_kb_const(kb, d, -1), zero);
  return rx_select(kb, rx_lt(kb, zero, a), pm_kb_const(kb, d, 1), rest);
}

static int32_t recipe_mod(PmKBuilder *kb, PmScalar fn, PmKDtype d, int32_t a, int32_t b, int32_t c) {
  (void)fn, (void)d, (void)c;
  return rx_sub(kb, a, rx_mul(kb, rx_1(kb, PM_I_FLOOR, rx_div(kb, a, b)), b));
}

static int32_t recipe_direct(PmKBuilder *kb, PmScalar fn, PmKDtype d, int32_t a, int32_t b, int32_t c) {
  static const struct {
    uint8_t op;
    bool swap, logic;
  } rows[PM_SCALAR_COUNT] = {
      [PM_S_add] = {.op = PM_I_ADD},
      [PM_S_and] = {.op = PM_I_AND, .logic = true},
      [PM_S_div] = {.op = PM_I_DIV},
      [PM_S_eq] = {.op = PM_I_CMP_EQ},
      [PM_S_floor] = {.op = PM_I_FLOOR},
      [PM_S_ge] = {.op = PM_I_CMP_LE, .swap = true},
      [PM_S_gt] = {.op = PM_I_CMP_LT, .swap = true},
      [PM_S_le] = {.op = PM_I_CMP_LE},
      [PM_S_lt] = {.op = PM_I_CMP_LT},
      [PM_S_max] = {.op = PM_I_MAX},
      [PM_S_min] = {.op = PM_I_MIN},
      [PM_S_mul] = {.op = PM_I_MUL},
      [PM_S_ne] = {.op = PM_I_CMP_NE},
      [PM_S_neg] = {.op = PM_I_NEG},
      [PM_S_not] = {.op = PM_I_NOT, .logic = true},
      [PM_S_or] = {.op = PM_I_OR, .logic = true},
      [PM_S_sqrt] = {.op = PM_I_SQRT},
      [PM_S_sub] = {.op = PM_I_SUB},
      [PM_S_where] = {.op = PM_I_SELECT},
  };
  PM_ASSERT(rows[fn].op != PM_I_CONST, "scalar function %d has no instruction of its own", fn);
  return pm_kb_op(kb, (PmInstrOp)rows[fn].op, rows[fn].logic ? PM_K_BOOL : d, rows[fn].swap ? b : a,
                  rows[fn].swap ? a : b, c);
}

int32_t pm_kb_scalar_fn(PmKBuilder *kb, PmScalar fn, PmKDtype dtype, int32_t a, int32_t b, int32_t c) {
  static Recipe *const recipes[] = {
#define RECIPE(fn) recipe_##fn,
#include "ir/scalars.def"
  };
  PM_ASSERT(fn >= 0 && fn < PM_SCALAR_COUNT, "no scalar function %d", fn);
  return recipes[fn](kb, fn, dtype, a, b, c);
}
