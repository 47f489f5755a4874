// Scalar functions in f32. The polynomials are our own minimax fits (Remez's exchange in 50 digits); the comment above
// each gives the interval and the largest relative error of the function before rounding.
#include <math.h>

#include "codegen/recipes.h"

#define LEN(a) ((int32_t)(sizeof(a) / sizeof *(a)))

// ln 2 as the sum of two f32 numbers. One fma subtracts a multiple of the first exactly, so it may have all 24 bits.
static const double LN2_HIGH = 0x1.62e430p-1, LN2_LOW = -0x1.05c610p-29;
static const double LOG2_E = 0x1.715476p+0;
static const double TO_INT = 0x1.8p+23;  // a f32 number plus this has its nearest integer in the low bits
static const int32_t TO_INT_BITS = 0x4b400000;

// e^r = 1 + r + r^2 P(r) on |r| <= ln 2 / 2: 3.1e-9
static const double EXP[] = {0.49999993431703501, 0.166665203984985, 0.041668390870492596, 0.0083687451625132315,
                             0.0013814535970923536};
// ln(1 + f) = f - f^2 / 2 + f^3 P(f) on sqrt(1/2) <= 1 + f <= sqrt(2): 7.6e-10
static const double LOG[] = {0.33333312415230045,  -0.25000009636172051, 0.20002133583976579,
                             -0.16668006944834035, 0.14219224462904635,  -0.12405134285113659,
                             0.11890322068561742,  -0.11679660879357439, 0.067466108689508555};
// tanh x = x + x u P(u), u = x^2 <= 0.4: 5.0e-9
static const double TANH[] = {-0.33333276059262985, 0.1333127443152653, -0.053725126540545122, 0.020589826299530697,
                              -0.0056483163120836674};
// erf x = x + x P(u), u = x^2, |x| <= 0.9375: 5.2e-10
static const double ERF[] = {0.12837916651692047,   -0.37612632602142492, 0.11283678436795882, -0.026858468557354607,
                             0.0051987613344574912, -0.00081173223255993728, 8.2643771434416205e-5};
// ln(1 - erf x) = P(x) on 0.9375 <= x <= 4, the error is that of erf: 1.5e-9
static const double ERFC[] = {-0.00022195808124135509, -1.127567594595219,   -0.63736327831949163,
                              -0.10377344151422915,    0.022151006378549074, -0.003024247924176972,
                              0.00019401036917256794};
// sin r = r + r u P(u), u = r^2, |r| <= pi / 4: 3.8e-9
static const double SIN[] = {-0.16666654602287125, 0.008332160291999896, -0.00019515218101051205};
// cos r = 1 - u / 2 + u^2 P(u): 1.2e-10
static const double COS[] = {0.041666645670164728, -0.0013887315616795934, 2.4433082710888908e-5};

// e^x = p 2^n for -104 <= x <= 89.
static void exp_parts(PmKBuilder *kb, int32_t x, int32_t *out_p, int32_t *out_n) {
  const int32_t shift = rx_f32(kb, TO_INT);
  const int32_t t = rx_fma(kb, x, rx_f32(kb, LOG2_E), shift);
  const int32_t whole = rx_sub(kb, t, shift);
  int32_t r = rx_fma(kb, whole, rx_f32(kb, -LN2_HIGH), x);
  r = rx_fma(kb, whole, rx_f32(kb, -LN2_LOW), r);
  const int32_t q = rx_fma(kb, rx_mul(kb, r, r), pm_recipe_poly(kb, r, EXP, LEN(EXP)), r);
  *out_p = rx_add(kb, q, rx_f32(kb, 1));
  *out_n = rx_sub(kb, rx_bits(kb, t), rx_i32(kb, TO_INT_BITS));
}

// e^x where the result is a normal number: |x| <= 87.
static int32_t exp_normal(PmKBuilder *kb, int32_t x) {
  int32_t p, n;
  exp_parts(kb, x, &p, &n);
  return rx_mul(kb, p, pm_recipe_pow2(kb, n));
}

int32_t pm_recipe_exp_f32(PmKBuilder *kb, int32_t x) {
  int32_t p, n;
  exp_parts(kb, rx_clamp(kb, x, rx_f32(kb, -104), rx_f32(kb, 89)), &p, &n);
  // 2^n in two factors: the first product is exact, the second rounds once, into the subnormals too.
  const int32_t offset = rx_add(kb, n, rx_i32(kb, 512));
  const int32_t half = rx_sub(kb, rx_2(kb, PM_I_SHR, offset, rx_i32(kb, 1)), rx_i32(kb, 256));
  p = rx_mul(kb, p, pm_recipe_pow2(kb, half));
  return rx_mul(kb, p, pm_recipe_pow2(kb, rx_sub(kb, n, half)));
}

void pm_recipe_split_f32(PmKBuilder *kb, int32_t x, int32_t *out_k, int32_t *out_m) {
  const int32_t root_half = 0x3f3504f3, one = 0x3f800000;
  const int32_t tiny = rx_lt(kb, x, rx_f32(kb, 0x1p-126));
  const int32_t bits = rx_bits(kb, rx_select(kb, tiny, rx_mul(kb, x, rx_f32(kb, 0x1p+23)), x));
  const int32_t offset = rx_add(kb, bits, rx_i32(kb, one - root_half));
  const int32_t shift = rx_i32(kb, 23);
  const int32_t k = rx_sub(kb, rx_2(kb, PM_I_SHR, offset, shift), rx_i32(kb, 127));
  *out_m = rx_float(kb, rx_sub(kb, bits, rx_2(kb, PM_I_SHL, k, shift)));
  *out_k = rx_sub(kb, k, rx_select(kb, tiny, shift, rx_i32(kb, 0)));
}

int32_t pm_recipe_log_ends(PmKBuilder *kb, int32_t x, int32_t r) {
  const PmKDtype d = pm_kb_dtype(kb, x);
  const int32_t zero = pm_kb_const(kb, d, 0), inf = pm_kb_const(kb, d, INFINITY);
  r = rx_select(kb, rx_lt(kb, x, inf), r, x);
  r = rx_select(kb, rx_eq(kb, x, zero), rx_neg(kb, inf), r);
  return rx_select(kb, rx_lt(kb, x, zero), pm_kb_const(kb, d, NAN), r);
}

int32_t pm_recipe_log_f32(PmKBuilder *kb, int32_t x) {
  int32_t k, m;
  pm_recipe_split_f32(kb, x, &k, &m);
  k = pm_kb_cvt(kb, PM_K_F32, k);
  const int32_t f = rx_sub(kb, m, rx_f32(kb, 1)), f2 = rx_mul(kb, f, f);
  int32_t y = rx_mul(kb, k, rx_f32(kb, LN2_LOW));
  y = rx_fma(kb, rx_mul(kb, f2, f), pm_recipe_poly(kb, f, LOG, LEN(LOG)), y);
  y = rx_fma(kb, f2, rx_f32(kb, -0.5), y);
  const int32_t r = rx_fma(kb, k, rx_f32(kb, LN2_HIGH), rx_add(kb, f, y));
  return pm_recipe_log_ends(kb, x, r);
}

// r >= 0 (or NaN) with the sign of x
static int32_t copy_sign(PmKBuilder *kb, int32_t r, int32_t x) {
  const int32_t sign = rx_2(kb, PM_I_AND, rx_bits(kb, x), rx_i32(kb, INT32_MIN));
  return rx_float(kb, rx_2(kb, PM_I_OR, rx_bits(kb, r), sign));
}

int32_t pm_recipe_tanh_f32(PmKBuilder *kb, int32_t x) {
  const int32_t ax = rx_abs(kb, x), u = rx_mul(kb, x, x), one = rx_f32(kb, 1), two = rx_f32(kb, 2);
  const int32_t small = rx_fma(kb, rx_mul(kb, ax, u), pm_recipe_poly(kb, u, TANH, LEN(TANH)), ax);
  // tanh x = 1 - 2 / (e^2x + 1), which is 1 in f32 from 9.02 on.
  const int32_t e = exp_normal(kb, rx_mul(kb, rx_2(kb, PM_I_MIN, ax, rx_f32(kb, 10)), two));
  const int32_t big = rx_sub(kb, one, rx_div(kb, two, rx_add(kb, e, one)));
  return copy_sign(kb, rx_select(kb, rx_lt(kb, ax, rx_f32(kb, 0.625)), small, big), x);
}

int32_t pm_recipe_erf_f32(PmKBuilder *kb, int32_t x) {
  const int32_t ax = rx_abs(kb, x), u = rx_mul(kb, x, x);
  const int32_t small = rx_fma(kb, x, pm_recipe_poly(kb, u, ERF, LEN(ERF)), x);
  const int32_t z = rx_2(kb, PM_I_MIN, ax, rx_f32(kb, 4));
  const int32_t big = rx_sub(kb, rx_f32(kb, 1), exp_normal(kb, pm_recipe_poly(kb, z, ERFC, LEN(ERFC))));
  return rx_select(kb, rx_lt(kb, ax, rx_f32(kb, 0.9375)), small, copy_sign(kb, big, x));
}

int32_t pm_recipe_sin_f32(PmKBuilder *kb, int32_t x, bool cosine) {
  int32_t q, r64;
  pm_recipe_quadrant(kb, pm_kb_cvt(kb, PM_K_F64, x), &q, &r64);
  const int32_t r = pm_kb_cvt(kb, PM_K_F32, r64), u = rx_mul(kb, r, r);
  const int32_t s = rx_fma(kb, rx_mul(kb, r, u), pm_recipe_poly(kb, u, SIN, LEN(SIN)), r);
  const int32_t c2 = rx_fma(kb, u, rx_f32(kb, -0.5), rx_f32(kb, 1));
  const int32_t c = rx_fma(kb, rx_mul(kb, u, u), pm_recipe_poly(kb, u, COS, LEN(COS)), c2);
  const int32_t y = pm_recipe_turn(kb, q, s, c, cosine);
  return cosine ? y : rx_select(kb, rx_eq(kb, x, rx_f32(kb, 0)), x, y);  // the quadrant's fma loses the sign of -0
}
