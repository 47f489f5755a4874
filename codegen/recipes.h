// Shared by the recipes: short names for primitive instructions, polynomials, and powers of two. A value is an
// instruction number; the dtype of a sum or product is that of its operands.
#ifndef PM_CODEGEN_RECIPES_H
#define PM_CODEGEN_RECIPES_H

#include "codegen/kernel_build.h"

static inline int32_t rx_2(PmKBuilder *kb, PmInstrOp op, int32_t a, int32_t b) {
  return pm_kb_op(kb, op, pm_kb_dtype(kb, a), a, b, -1);
}
static inline int32_t rx_1(PmKBuilder *kb, PmInstrOp op, int32_t a) {
  return pm_kb_op(kb, op, pm_kb_dtype(kb, a), a, -1, -1);
}
static inline int32_t rx_add(PmKBuilder *kb, int32_t a, int32_t b) { return rx_2(kb, PM_I_ADD, a, b); }
static inline int32_t rx_sub(PmKBuilder *kb, int32_t a, int32_t b) { return rx_2(kb, PM_I_SUB, a, b); }
static inline int32_t rx_mul(PmKBuilder *kb, int32_t a, int32_t b) { return rx_2(kb, PM_I_MUL, a, b); }
static inline int32_t rx_div(PmKBuilder *kb, int32_t a, int32_t b) { return rx_2(kb, PM_I_DIV, a, b); }
static inline int32_t rx_neg(PmKBuilder *kb, int32_t a) { return rx_1(kb, PM_I_NEG, a); }
static inline int32_t rx_abs(PmKBuilder *kb, int32_t a) { return rx_1(kb, PM_I_ABS, a); }
static inline int32_t rx_lt(PmKBuilder *kb, int32_t a, int32_t b) { return rx_2(kb, PM_I_CMP_LT, a, b); }
static inline int32_t rx_eq(PmKBuilder *kb, int32_t a, int32_t b) { return rx_2(kb, PM_I_CMP_EQ, a, b); }
static inline int32_t rx_fma(PmKBuilder *kb, int32_t a, int32_t b, int32_t c) {
  return pm_kb_op(kb, PM_I_FMA, pm_kb_dtype(kb, a), a, b, c);
}
static inline int32_t rx_select(PmKBuilder *kb, int32_t a, int32_t b, int32_t c) {
  return pm_kb_op(kb, PM_I_SELECT, pm_kb_dtype(kb, b), a, b, c);
}
static inline int32_t rx_f32(PmKBuilder *kb, double v) { return pm_kb_const(kb, PM_K_F32, v); }
static inline int32_t rx_f64(PmKBuilder *kb, double v) { return pm_kb_const(kb, PM_K_F64, v); }
static inline int32_t rx_i32(PmKBuilder *kb, int32_t v) { return pm_kb_const(kb, PM_K_I32, v); }
static inline int32_t rx_bits(PmKBuilder *kb, int32_t a) { return pm_kb_op(kb, PM_I_BITCAST, PM_K_I32, a, -1, -1); }
static inline int32_t rx_float(PmKBuilder *kb, int32_t a) { return pm_kb_op(kb, PM_I_BITCAST, PM_K_F32, a, -1, -1); }
static inline int32_t rx_clamp(PmKBuilder *kb, int32_t x, int32_t lo, int32_t hi) {
  return rx_2(kb, PM_I_MIN, rx_2(kb, PM_I_MAX, x, lo), hi);
}

// c[0] + c[1] x + ... + c[n - 1] x^(n - 1) by Horner's rule with fma.
int32_t pm_recipe_poly(PmKBuilder *kb, int32_t x, const double *c, int32_t n);
// 2^n as f32 for an i32 n in -126 .. 127.
int32_t pm_recipe_pow2(PmKBuilder *kb, int32_t n);
// A positive f32 value x = 2^k m with m in [sqrt(1/2), sqrt(2)); subnormals included. Any k, m for other values.
void pm_recipe_split_f32(PmKBuilder *kb, int32_t x, int32_t *out_k, int32_t *out_m);
// The logarithm's values at arguments where the general formula `r` does not hold: inf, NaN, 0, negative numbers.
int32_t pm_recipe_log_ends(PmKBuilder *kb, int32_t x, int32_t r);
// Index of the quadrant of x (i32, 0 .. 3) and what remains, in f64: x = (pi / 2) q + r, |r| <= pi / 4; NaN past
// |x| = 1e9, where the quadrant would leave i32.
void pm_recipe_quadrant(PmKBuilder *kb, int32_t x, int32_t *out_q, int32_t *out_r);
// The sine (or cosine) of x from sine s and cosine c of the rest r; q is the quadrant.
int32_t pm_recipe_turn(PmKBuilder *kb, int32_t q, int32_t s, int32_t c, bool cosine);

// 1 for a power's ends that IEEE 754 fixes, the sign of a negative base, NaN for its fractional powers; r = |a|^b.
int32_t pm_recipe_pow_ends(PmKBuilder *kb, int32_t a, int32_t b, int32_t r);

// pm_random_uniform of base/philox.h, as f32: `step` and `index` are f64 values, whole, in [0, 2^53).
int32_t pm_recipe_uniform(PmKBuilder *kb, uint64_t key, int32_t step, int32_t index);

// f32. Largest errors over dense sweeps: exp 1.0 ulp, log 0.8, tanh 1.3, erf 1.2, sin and cos 1.5 (|x| <= 1e5), pow
// 0.51. Subnormals are not flushed.
int32_t pm_recipe_exp_f32(PmKBuilder *kb, int32_t x);
int32_t pm_recipe_log_f32(PmKBuilder *kb, int32_t x);
int32_t pm_recipe_tanh_f32(PmKBuilder *kb, int32_t x);
int32_t pm_recipe_erf_f32(PmKBuilder *kb, int32_t x);
int32_t pm_recipe_sin_f32(PmKBuilder *kb, int32_t x, bool cosine);
int32_t pm_recipe_pow_f32(PmKBuilder *kb, int32_t a, int32_t b);

// f64. Relative error at most 1e-15; pow: 4e-16 (2 + |b log a|).
int32_t pm_recipe_exp_f64(PmKBuilder *kb, int32_t x);
int32_t pm_recipe_log_f64(PmKBuilder *kb, int32_t x);
int32_t pm_recipe_tanh_f64(PmKBuilder *kb, int32_t x);
int32_t pm_recipe_erf_f64(PmKBuilder *kb, int32_t x);
int32_t pm_recipe_sin_f64(PmKBuilder *kb, int32_t x, bool cosine);
int32_t pm_recipe_pow_f64(PmKBuilder *kb, int32_t a, int32_t b);

#endif
