// Scalar functions in f64, and f32 ones whose middle needs more than f32: the power and the angle's reduction.
// Power series where they converge fast; the two fits of erf are our own (Remez's exchange in 60 digits).
// There are no f64 bit operations: powers of two are made as f32 numbers and converted, exponents are found by scaling.
#include <math.h>

#include "codegen/recipes.h"

#define LEN(a) ((int32_t)(sizeof(a) / sizeof *(a)))

static const double LN2_HIGH = 0x1.62e42fefa39efp-1, LN2_LOW = 0x1.abc9e3b39803fp-56, LOG2_E = 0x1.71547652b82fep+0;
static const double HALF_PI_HIGH = 0x1.921fb54442d18p+0, HALF_PI_LOW = 0x1.1a62633145c07p-54;

// (e^r - 1 - r) / r^2
static const double EXP[] = {1.0 / 2,          1.0 / 6,           1.0 / 24,           1.0 / 120,
                             1.0 / 720,        1.0 / 5040,        1.0 / 40320,        1.0 / 362880,
                             1.0 / 3628800,    1.0 / 39916800,    1.0 / 479001600,    1.0 / 6227020800,
                             1.0 / 87178291200, 1.0 / 1307674368000, 1.0 / 20922789888000, 1.0 / 355687428096000};
// ln((1 + s) / (1 - s)) = 2 s + s w P(w), w = s^2
static const double LOG[] = {2.0 / 3,  2.0 / 5,  2.0 / 7,  2.0 / 9,  2.0 / 11, 2.0 / 13,
                             2.0 / 15, 2.0 / 17, 2.0 / 19, 2.0 / 21, 2.0 / 23};
// erf x = x + x P(u), u = x^2, |x| <= 1: 7.3e-18
static const double ERF[] = {0.12837916709551257,    -0.37612638903183518,   0.11283791670944132,
                             -0.026866170643102704,  0.005223977606044401,   -0.0008548325925672483,
                             0.00012055293465551751, -1.4924710120805206e-5, 1.6447104181949213e-6,
                             -1.6206100615085269e-7, 1.3710044729073774e-8,  -7.7776977005443434e-10};
// e^(x^2) (1 - erf x) = P(t), t = (x - 5/2) / (x + 5/2), on 1 <= x <= 6, the error is that of erf: 1.7e-17
static const double ERFCX[] = {0.2108063640611467,    -0.3717367339492556,    0.25171319320671468,
                               -0.12503305244918071,  0.039922540058226636,   -0.0039936849007365412,
                               -0.0026422875971228522, 0.00087590372254397633, 0.00022670050458767432,
                               -0.00013659533245604761, -5.1037986507754388e-5};
// sin r = r + r u P(u), cos r = 1 - u / 2 + u^2 Q(u), u = r^2, |r| <= pi / 4
static const double SIN[] = {-1.0 / 6,        1.0 / 120,        -1.0 / 5040,         1.0 / 362880,
                             -1.0 / 39916800, 1.0 / 6227020800, -1.0 / 1307674368000, 1.0 / 355687428096000};
static const double COS[] = {1.0 / 24,         -1.0 / 720,          1.0 / 40320,         -1.0 / 3628800,
                             1.0 / 479001600,  -1.0 / 87178291200,  1.0 / 20922789888000};

static int32_t pow2_f64(PmKBuilder *kb, int32_t n) { return pm_kb_cvt(kb, PM_K_F64, pm_recipe_pow2(kb, n)); }

// e^x = p 2^n for |x| < 1e6, by `terms` terms of the series after the second: 8 give 31 bits, 12 all.
static void exp_parts(PmKBuilder *kb, int32_t x, int32_t terms, int32_t *out_p, int32_t *out_n) {
  const int32_t whole = rx_1(kb, PM_I_RINT, rx_mul(kb, x, rx_f64(kb, LOG2_E)));
  int32_t r = rx_fma(kb, whole, rx_f64(kb, -LN2_HIGH), x);
  r = rx_fma(kb, whole, rx_f64(kb, -LN2_LOW), r);
  const int32_t q = rx_fma(kb, rx_mul(kb, r, r), pm_recipe_poly(kb, r, EXP, terms), r);
  *out_p = rx_add(kb, q, rx_f64(kb, 1));
  *out_n = pm_kb_cvt(kb, PM_K_I32, whole);
}

int32_t pm_recipe_exp_f64(PmKBuilder *kb, int32_t x) {
  int32_t p, n;
  exp_parts(kb, rx_clamp(kb, x, rx_f64(kb, -746), rx_f64(kb, 710)), 12, &p, &n);
  // n = 16 a + b: 2^8a twice, so that only the last product rounds, into the subnormals too.
  const int32_t four = rx_i32(kb, 4), offset = rx_add(kb, n, rx_i32(kb, 2048));
  const int32_t a = rx_sub(kb, rx_2(kb, PM_I_SHR, offset, four), rx_i32(kb, 128));
  const int32_t b = rx_2(kb, PM_I_AND, n, rx_i32(kb, 15));
  int32_t scale = pow2_f64(kb, a);
  for (int32_t i = 0; i < 3; i++) scale = rx_mul(kb, scale, scale);
  return rx_mul(kb, rx_mul(kb, rx_mul(kb, p, pow2_f64(kb, b)), scale), scale);
}

// k ln 2 + ln m for an m near [sqrt(1/2), sqrt(2)], by `terms` terms of the series: 5 give 34 bits, 11 all.
static int32_t log_parts(PmKBuilder *kb, int32_t k, int32_t m, int32_t terms) {
  const int32_t f = rx_sub(kb, m, rx_f64(kb, 1));
  const int32_t s = rx_div(kb, f, rx_add(kb, m, rx_f64(kb, 1))), w = rx_mul(kb, s, s);
  const int32_t half = rx_mul(kb, rx_mul(kb, f, f), rx_f64(kb, 0.5));
  // 2 s = f - f^2 / 2 + s f^2 / 2, so the small terms gather first and f is added last, exact.
  const int32_t inner = rx_fma(kb, w, pm_recipe_poly(kb, w, LOG, terms), half);
  const int32_t rest = rx_fma(kb, s, inner, rx_mul(kb, k, rx_f64(kb, LN2_LOW)));
  return rx_fma(kb, k, rx_f64(kb, LN2_HIGH), rx_sub(kb, f, rx_sub(kb, half, rest)));
}

int32_t pm_recipe_log_f64(PmKBuilder *kb, int32_t x) {
  static const struct {
    double bound, by;
    int32_t k;
  } steps[] = {{0x1p+512, 0x1p-512, 512},  {0x1p+256, 0x1p-256, 256},  {0x1p+120, 0x1p-140, 140},
               {0x1p-512, 0x1p+512, -512}, {0x1p-256, 0x1p+256, -256}, {0x1p-256, 0x1p+256, -256},
               {0x1p-120, 0x1p+140, -140}};
  int32_t y = x, k = rx_i32(kb, 0);
  for (int32_t i = 0; i < LEN(steps); i++) {
    const int32_t bound = rx_f64(kb, steps[i].bound);
    const int32_t out = steps[i].k > 0 ? rx_2(kb, PM_I_CMP_LE, bound, y) : rx_lt(kb, y, bound);
    k = rx_select(kb, out, rx_add(kb, k, rx_i32(kb, steps[i].k)), k);
    y = rx_select(kb, out, rx_mul(kb, y, rx_f64(kb, steps[i].by)), y);
  }
  int32_t k32, m32;
  pm_recipe_split_f32(kb, pm_kb_cvt(kb, PM_K_F32, y), &k32, &m32);
  const int32_t m = rx_mul(kb, y, pow2_f64(kb, rx_neg(kb, k32)));
  const int32_t r = log_parts(kb, pm_kb_cvt(kb, PM_K_F64, rx_add(kb, k, k32)), m, LEN(LOG));
  return pm_recipe_log_ends(kb, x, r);
}

// r >= 0 with the sign of x; x itself at 0 and NaN.
static int32_t copy_sign(PmKBuilder *kb, int32_t r, int32_t x) {
  const int32_t zero = rx_f64(kb, 0);
  return rx_select(kb, rx_lt(kb, zero, x), r, rx_select(kb, rx_lt(kb, x, zero), rx_neg(kb, r), x));
}

int32_t pm_recipe_tanh_f64(PmKBuilder *kb, int32_t x) {
  const int32_t y = rx_mul(kb, rx_2(kb, PM_I_MIN, rx_abs(kb, x), rx_f64(kb, 22)), rx_f64(kb, 2));
  // e^y - 1 without cancellation below 0.7; tanh x = (e^2x - 1) / (e^2x + 1).
  const int32_t small = rx_fma(kb, rx_mul(kb, y, y), pm_recipe_poly(kb, y, EXP, LEN(EXP)), y);
  const int32_t big = rx_sub(kb, pm_recipe_exp_f64(kb, y), rx_f64(kb, 1));
  const int32_t e = rx_select(kb, rx_lt(kb, y, rx_f64(kb, 0.7)), small, big);
  return copy_sign(kb, rx_div(kb, e, rx_add(kb, e, rx_f64(kb, 2))), x);
}

int32_t pm_recipe_erf_f64(PmKBuilder *kb, int32_t x) {
  const int32_t ax = rx_abs(kb, x), u = rx_mul(kb, x, x), one = rx_f64(kb, 1), centre = rx_f64(kb, 2.5);
  const int32_t small = rx_fma(kb, x, pm_recipe_poly(kb, u, ERF, LEN(ERF)), x);
  const int32_t z = rx_2(kb, PM_I_MIN, ax, rx_f64(kb, 6));
  const int32_t t = rx_div(kb, rx_sub(kb, z, centre), rx_add(kb, z, centre));
  const int32_t tail = rx_mul(kb, pm_recipe_exp_f64(kb, rx_neg(kb, rx_mul(kb, z, z))),
                              pm_recipe_poly(kb, t, ERFCX, LEN(ERFCX)));
  return rx_select(kb, rx_lt(kb, ax, one), small, copy_sign(kb, rx_sub(kb, one, tail), x));
}

void pm_recipe_quadrant(PmKBuilder *kb, int32_t x, int32_t *out_q, int32_t *out_r) {
  const int32_t near = rx_2(kb, PM_I_CMP_LE, rx_abs(kb, x), rx_f64(kb, 1e9));
  const int32_t y = rx_select(kb, near, x, rx_f64(kb, NAN));
  const int32_t n = rx_1(kb, PM_I_RINT, rx_mul(kb, y, rx_f64(kb, 1 / HALF_PI_HIGH)));
  const int32_t r = rx_fma(kb, n, rx_f64(kb, -HALF_PI_HIGH), y);
  *out_r = rx_fma(kb, n, rx_f64(kb, -HALF_PI_LOW), r);
  *out_q = rx_2(kb, PM_I_AND, pm_kb_cvt(kb, PM_K_I32, n), rx_i32(kb, 3));
}

int32_t pm_recipe_turn(PmKBuilder *kb, int32_t q, int32_t s, int32_t c, bool cosine) {
  const int32_t zero = rx_i32(kb, 0);
  const int32_t turn = cosine ? rx_add(kb, q, rx_i32(kb, 1)) : q;
  const int32_t even = rx_eq(kb, rx_2(kb, PM_I_AND, turn, rx_i32(kb, 1)), zero);
  const int32_t plus = rx_eq(kb, rx_2(kb, PM_I_AND, turn, rx_i32(kb, 2)), zero);
  const int32_t y = rx_select(kb, even, s, c);
  return rx_select(kb, plus, y, rx_neg(kb, y));
}

int32_t pm_recipe_sin_f64(PmKBuilder *kb, int32_t x, bool cosine) {
  int32_t q, r;
  pm_recipe_quadrant(kb, x, &q, &r);
  const int32_t u = rx_mul(kb, r, r);
  const int32_t s = rx_fma(kb, rx_mul(kb, r, u), pm_recipe_poly(kb, u, SIN, LEN(SIN)), r);
  const int32_t c2 = rx_fma(kb, u, rx_f64(kb, -0.5), rx_f64(kb, 1));
  const int32_t c = rx_fma(kb, rx_mul(kb, u, u), pm_recipe_poly(kb, u, COS, LEN(COS)), c2);
  const int32_t y = pm_recipe_turn(kb, q, s, c, cosine);
  return cosine ? y : rx_select(kb, rx_eq(kb, x, rx_f64(kb, 0)), x, y);  // the quadrant's fma loses the sign of -0
}

int32_t pm_recipe_pow_f32(PmKBuilder *kb, int32_t a, int32_t b) {
  const int32_t base = rx_abs(kb, a);
  int32_t k, m, p, n;
  pm_recipe_split_f32(kb, base, &k, &m);
  const int32_t raw = log_parts(kb, pm_kb_cvt(kb, PM_K_F64, k), pm_kb_cvt(kb, PM_K_F64, m), 7);
  const int32_t log = pm_recipe_log_ends(kb, pm_kb_cvt(kb, PM_K_F64, base), raw);
  const int32_t t = rx_mul(kb, pm_kb_cvt(kb, PM_K_F64, b), log);
  exp_parts(kb, rx_clamp(kb, t, rx_f64(kb, -105), rx_f64(kb, 90)), 9, &p, &n);
  // 2^n fits f64 but not f32, where it is made; the conversion rounds once.
  const int32_t offset = rx_add(kb, n, rx_i32(kb, 512));
  const int32_t half = rx_sub(kb, rx_2(kb, PM_I_SHR, offset, rx_i32(kb, 1)), rx_i32(kb, 256));
  p = rx_mul(kb, p, pow2_f64(kb, half));
  p = rx_mul(kb, p, pow2_f64(kb, rx_sub(kb, n, half)));
  return pm_recipe_pow_ends(kb, a, b, pm_kb_cvt(kb, PM_K_F32, p));
}

int32_t pm_recipe_pow_f64(PmKBuilder *kb, int32_t a, int32_t b) {
  const int32_t t = rx_mul(kb, b, pm_recipe_log_f64(kb, rx_abs(kb, a)));
  return pm_recipe_pow_ends(kb, a, b, pm_recipe_exp_f64(kb, t));
}
