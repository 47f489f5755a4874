#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/half.h"
#include "harness.h"

// By the definition: the multiple of the format's unit at v that is nearest, the even one of two.
static double nearest(double v, int bits, int min_exp, double largest) {
  int e;
  if (v == 0 || !isfinite(v)) return v;
  frexp(v, &e);
  if (e - 1 < min_exp) e = min_exp + 1;
  double r = nearbyint(ldexp(v, bits - e));
  r = ldexp(r, e - bits);
  return fabs(r) > largest ? copysign(INFINITY, v) : r;
}

static bool same(double a, double b) { return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b)); }

static void check(double v) {
  assert_true(same((double)pm_bf16_round(v), nearest(v, 8, -126, 0x1.fep127)));
  assert_true(same((double)pm_f16_round(v), nearest(v, 11, -14, 65504)));
}

static void test_every_number_is_itself(void **state) {
  (void)state;
  for (uint32_t u = 0; u < 1u << 16; u++) {
    float b = pm_bf16_to_f32((uint16_t)u), h = pm_f16_to_f32((uint16_t)u);
    if (!isnan(b)) assert_int_equal(pm_bf16_from((double)b), u);
    if (!isnan(h)) assert_int_equal(pm_f16_from((double)h), u);
    assert_int_equal(isnan(b), (u & 0x7fff) > 0x7f80);
    assert_int_equal(isnan(h), (u & 0x7fff) > 0x7c00);
    if (isnan(h)) assert_true(isnan(pm_f16_to_f32(pm_f16_from((double)h))));
  }
  assert_true(pm_f16_to_f32(0x3c00) == 1.0f && pm_f16_to_f32(0xc000) == -2.0f && pm_f16_to_f32(1) == 0x1p-24f);
  assert_true(pm_f16_to_f32(0x7bff) == 65504.0f && pm_bf16_to_f32(0x3f80) == 1.0f && pm_bf16_to_f32(1) == 0x1p-133f);
}

static void test_rounds_once(void **state) {
  (void)state;
  uint64_t s = 1;
  for (int32_t i = 0; i < 400000; i++) {
    s = s * 6364136223846793005u + 1442695040888963407u;
    double v = ldexp((double)(int64_t)s * 0x1p-63, (int)((s >> 20) % 300) - 150);
    check(v);
    // Half way between two numbers of a format, and next to it: rounding to f32 first would lose the difference.
    double f = (double)pm_f16_round(v), g = (double)pm_bf16_round(v);
    if (isfinite(f)) check(f * (1 + 0x1p-11)), check(nextafter(f * (1 + 0x1p-11), INFINITY));
    if (isfinite(g)) check(g * (1 + 0x1p-8)), check(nextafter(g * (1 + 0x1p-8), 0));
  }
  const double ends[] = {0.0, -0.0,  65519.99, 65520,  0x1p-25,    0x1.1p-25,    -0x1p-14, INFINITY,   -INFINITY,
                         NAN, 1e300, -1e300,   1e-300, 0x1.ffp127, 0x1.feffp127, 0x1p-134, 0x1.8p-134, 3.4e38};
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) check(ends[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_number_is_itself), cmocka_unit_test(test_rounds_once)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
