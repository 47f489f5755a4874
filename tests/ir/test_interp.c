#include "fixture.h"

#include <math.h>
#include <string.h>

#define HEAD "module logical\naxis a 2\naxis b 3\naxis c 2\naxis k 4\naxis ab 6\naxis t 3\n"

#define ARR(...) ((const double[]){__VA_ARGS__})
#define IN(...) ((const double *const[]){__VA_ARGS__})

static void check(const char *fn, PmInterpMode mode, const double *const *in, const double *const *want,
                  double tolerance) {
  Fixture fx;
  PmBuf text;
  pm_buf_init(&text);
  pm_buf_printf(&text, HEAD "%s", fn);
  fixture_init(&fx);
  fixture_read(&fx, pm_buf_str(&text));
  fixture_run(&fx, "f", mode, in, want, tolerance);
  fixture_deinit(&fx);
  pm_buf_deinit(&text);
}

static void test_pointwise(void **state) {
  (void)state;
  check(
      "fn f body {\nparam %0 : f32[b:3]\nparam %1 : f32[a:2, b:3]\n"
      "%2 = broadcast(%0) : f32[b:3, a:2]\n%3 = map.sub(%2, %1) : f32[b:3, a:2]\n"
      "%4 = const 2 : f32[]\n%5 = broadcast(%4) : f32[b:3, a:2]\n%6 = map.lt(%3, %5) : bool[b:3, a:2]\n"
      "%7 = map.where(%6, %3, %5) : f32[b:3, a:2]\nreturn %2, %3, %7\n}\n",
      PM_INTERP_F64, IN(ARR(10, 20, 30), ARR(1, 2, 3, 9, 19, 29)),
      IN(ARR(10, 10, 20, 20, 30, 30), ARR(9, 1, 18, 1, 27, 1), ARR(2, 1, 2, 1, 2, 1)), 0);
  check(
      "fn f body {\n%0 = pos[b] : f64[b:3]\n%1 = cast(%0) : i32[b:3]\n%2 = map.mod(%1, %1) : i32[b:3]\nreturn %0, "
      "%1\n}\n",
      PM_INTERP_EXACT, NULL, IN(ARR(0, 1, 2), ARR(0, 1, 2)), 0);
  check(
      "fn f body {\nparam %0 : f64[k:4]\n%1 = cast(%0) : i32[k:4]\n%2 = cast(%0) : bool[k:4]\n"
      "%3 = map.not(%2) : bool[k:4]\nreturn %1, %3\n}\n",
      PM_INTERP_F64, IN(ARR(-1.7, 0, (double)NAN, 1e300)), IN(ARR(-1, 0, 0, INT32_MAX), ARR(0, 1, 0, 0)), 0);
  check(
      "fn f body {\nparam %0 : f32[b:3]\nparam %1 : f32[b:3]\n%2 = map.max(%0, %1) : f32[b:3]\n"
      "%3 = map.min(%1, %0) : f32[b:3]\nreturn %2, %3\n}\n",
      PM_INTERP_EXACT, IN(ARR(1, (double)NAN, 3), ARR(2, 2, (double)NAN)),
      IN(ARR(2, (double)NAN, (double)NAN), ARR(1, (double)NAN, (double)NAN)), 0);
}

static void test_rounding(void **state) {
  (void)state;
  const char *fn =
      "fn f body {\nparam %0 : f64[k:4]\n%1 = cast(%0) : f32[k:4]\n%2 = cast(%0) : bf16[k:4]\n"
      "%3 = cast(%0) : f16[k:4]\nreturn %1, %2, %3\n}\n";
  // Halfway cases go to even; 1e-40 is subnormal in bf16, 3e-8 rounds to the smallest f16; large values overflow.
  const double *x = ARR(1 + 0x1p-8, 1 + 3 * 0x1p-8, 65520, 3e-8);
  check(fn, PM_INTERP_F64, IN(x), IN(x, x, x), 0);
  check(fn, PM_INTERP_EXACT, IN(x),
        IN(ARR(1 + 0x1p-8, 1 + 3 * 0x1p-8, 65520, (double)3e-8f), ARR(1, 1 + 0x1p-6, 65536, 0x1.02p-25),
           ARR(1 + 0x1p-8, 1 + 3 * 0x1p-8, HUGE_VAL, 0x1p-24)),
        0);
  check(fn, PM_INTERP_EXACT, IN(ARR(-0.1, 3.4e38, 65519, 1e-40)),
        IN(ARR((double)-0.1f, (double)3.4e38f, 65519, (double)1e-40f), ARR(-0x1.9ap-4, HUGE_VAL, 65536, 0x1.1p-133),
           ARR(-0x1.998p-4, HUGE_VAL, 65504, 0)),
        0x1p-133);
  // Sums accumulate in double and round once.
  check("fn f body {\nparam %0 : f32[k:4]\n%1 = reduce.sum[k](%0) : f32[]\n%2 = dot[k](%0, %0) : f32[]\nreturn %1\n}\n",
        PM_INTERP_EXACT, IN(ARR(16777216, 1, 1, 0)), IN(ARR(16777218)), 0);
}

static void test_sums(void **state) {
  (void)state;
  check(
      "fn f body {\nparam %0 : f64[a:2, b:3]\nparam %1 : f64[c:2, b:3]\n%2 = dot[b](%0, %1) : f64[a:2, c:2]\n"
      "%3 = dot[b](%1, %0) : f64[c:2, a:2]\n%4 = dot[](%0, %0) : f64[a:2, b:3]\nreturn %2, %3, %4\n}\n",
      PM_INTERP_F64, IN(ARR(1, 2, 3, 4, 5, 6), ARR(1, 0, -1, 2, 1, 0)),
      IN(ARR(-2, 4, -2, 13), ARR(-2, -2, 4, 13), ARR(1, 4, 9, 16, 25, 36)), 0);
  check(
      "fn f body {\nparam %0 : f64[a:2, b:3, c:2]\nparam %1 : f64[c:2, a:2, b:3]\n"
      "%2 = dot[a](%0, %1) : f64[b:3, c:2]\n%3 = dot[c, a](%0, %1) : f64[b:3]\nreturn %2, %3\n}\n",
      PM_INTERP_F64, IN(ARR(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12), ARR(1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4)),
      IN(ARR(15, 38, 21, 52, 27, 66), ARR(53, 73, 93)), 0);
  check(
      "fn f body {\nparam %0 : f64[a:2, b:3]\n%1 = reduce.sum[b](%0) : f64[a:2]\n%2 = reduce.max[a](%0) : f64[b:3]\n"
      "%3 = reduce.sum[b, a](%0) : f64[]\nreturn %1, %2, %3\n}\n",
      PM_INTERP_F64, IN(ARR(1, -2, 3, -4, 5, (double)NAN)),
      IN(ARR(2, (double)NAN), ARR(1, 5, (double)NAN), ARR((double)NAN)), 0);
}

static void test_axes(void **state) {
  (void)state;
  const double *x = ARR(1, 2, 3, 4, 5, 6);
  check(
      "fn f body {\nparam %0 : f64[a:2, b:3]\n%1 = rename[b -> t](%0) : f64[a:2, t:3]\n"
      "%2 = merge[a, b -> ab](%0) : f64[ab:6]\n%3 = merge[b, a -> ab](%0) : f64[ab:6]\n"
      "%4 = split[ab -> b, a](%2) : f64[b:3, a:2]\n%5 = select[a = 1](%0) : f64[b:3]\n"
      "%6 = select[b = 0](%0) : f64[a:2]\n%7 = stack[-> c](%4, %0) : f64[c:2, b:3, a:2]\n"
      "return %1, %2, %3, %4, %5, %6, %7\n}\n",
      PM_INTERP_F64, IN(x),
      IN(x, x, ARR(1, 4, 2, 5, 3, 6), x, ARR(4, 5, 6), ARR(1, 4), ARR(1, 2, 3, 4, 5, 6, 1, 4, 2, 5, 3, 6)), 0);
  // Parts that do not stand together.
  check("fn f body {\nparam %0 : f64[b:3, c:2, a:2]\n%1 = merge[a, b -> ab](%0) : f64[c:2, ab:6]\nreturn %1\n}\n",
        PM_INTERP_F64, IN(ARR(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)), IN(ARR(1, 5, 9, 2, 6, 10, 3, 7, 11, 4, 8, 12)),
        0);
}

static void test_indexing(void **state) {
  (void)state;
  check(
      "fn f body {\nparam %0 : f64[k:4, a:2]\nparam %1 : i32<k>[b:3]\n%2 = index[k](%0, %1) : f64[b:3, a:2]\n"
      "%3 = scatter_add[k](%1, %2) : f64[a:2, k:4]\nreturn %2, %3\n}\n",
      PM_INTERP_F64, IN(ARR(1, 2, 3, 4, 5, 6, 7, 8), ARR(3, 0, 3)),
      IN(ARR(7, 8, 1, 2, 7, 8), ARR(1, 0, 0, 14, 2, 0, 0, 16)), 0);
  // A shared axis aligns; positions outside read 0 and drop their updates.
  check(
      "fn f body {\nparam %0 : f64[b:3, k:4]\nparam %1 : i32<k>[b:3]\n%2 = index[k](%0, %1) : f64[b:3]\n"
      "%3 = const 1 : f64[]\n%4 = broadcast(%3) : f64[b:3]\n%5 = scatter_add[k](%1, %4) : f64[b:3, k:4]\n"
      "return %2, %5\n}\n",
      PM_INTERP_F64, IN(ARR(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12), ARR(1, 4, -1)),
      IN(ARR(2, 0, 0), ARR(0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)), 0);
  // Indices that stand on the very axis into which they point.
  check(
      "fn f body {\nparam %0 : f64[b:3, a:2]\nparam %1 : i32<b>[b:3]\n%2 = index[b](%0, %1) : f64[b:3, a:2]\n"
      "%3 = scatter_add[b](%1, %0) : f64[b:3, a:2]\nreturn %2, %3\n}\n",
      PM_INTERP_F64, IN(ARR(1, 2, 3, 4, 5, 6), ARR(2, 0, 0)), IN(ARR(5, 6, 1, 2, 1, 2), ARR(8, 10, 0, 0, 1, 2)), 0);
}

static void test_control(void **state) {
  (void)state;
  const char *text =
      "fn g body {\nparam %0 : f64[a:2]\nparam %1 : f64[]\nparam %2 : f64[a:2]\n"
      "%3 = broadcast(%1) : f64[a:2]\n%4 = map.mul(%0, %3) : f64[a:2]\n%5 = map.add(%4, %2) : f64[a:2]\n"
      "return %5, %0, %5\n}\n"
      "fn f body {\nparam %0 : f64[a:2]\nparam %1 : f64[]\nparam %2 : f64[b:3, a:2]\n"
      "%3, %4, %5 = repeat[b] @g carry=1 inv=1 (%0, %1, %2) : f64[a:2], f64[b:3, a:2], f64[b:3, a:2]\n"
      "%6, %7, %8 = repeat[b] @g carry=1 inv=1 reverse (%0, %1, %2) : f64[a:2], f64[b:3, a:2], f64[b:3, a:2]\n"
      "%9, %10, %11 = call @g(%0, %1, %3) : f64[a:2], f64[a:2], f64[a:2]\n"
      "return %3, %4, %5, %6, %7, %9, %10, %0\n}\n";
  check(text, PM_INTERP_F64, IN(ARR(1, 2), ARR(10), ARR(1, 2, 3, 4, 5, 6)),
        IN(ARR(1135, 2246), ARR(1, 2, 11, 22, 113, 224), ARR(11, 22, 113, 224, 1135, 2246), ARR(1531, 2642),
           ARR(153, 264, 15, 26, 1, 2), ARR(1145, 2266), ARR(1, 2), ARR(1, 2)),
        0);
}

static void test_init(void **state) {
  (void)state;
  Fixture fx;
  fixture_init(&fx);
  fixture_read(
      &fx,
      "module logical\naxis n 10000\naxis m 2\nvar \"w\" param f32[n:10000] normal(0.5)\n"
      "var \"u\" param f32[n:10000] uniform(0.25)\nvar \"c\" param f32[m:2] const(3)\nvar \"z\" input f32[m:2] none\n");
  double *x = PM_NEW_N(&fx.arena, double, 10000), *y = PM_NEW_N(&fx.arena, double, 10000);
  double sum = 0, squares = 0;
  pm_var_init(fx.m, 0, 1, x);
  pm_var_init(fx.m, 0, 1, y);
  assert_memory_equal(x, y, 10000 * sizeof *x);
  for (int32_t i = 0; i < 10000; i++) {
    assert_true(x[i] == (double)(float)x[i]);
    sum += x[i];
    squares += x[i] * x[i];
  }
  assert_true(fabs(sum / 10000) < 0.02 && fabs(sqrt(squares / 10000) - 0.5) < 0.02);
  pm_var_init(fx.m, 0, 2, y);
  assert_true(memcmp(x, y, 10000 * sizeof *x) != 0);
  pm_var_init(fx.m, 1, 1, x);
  for (int32_t i = 0; i < 10000; i++) assert_true(x[i] >= -0.25 && x[i] < 0.25);
  pm_var_init(fx.m, 2, 1, x);
  assert_true(x[0] == 3 && x[1] == 3);
  pm_var_init(fx.m, 3, 1, x);
  assert_true(x[0] == 0 && x[1] == 0);
  fixture_deinit(&fx);
}

static void test_failures(void **state) {
  (void)state;
  Fixture fx;
  fixture_init(&fx);
  fixture_read(&fx,
               "module logical\naxis n 1048576\naxis m 1048576\nfn g body {\n%0 = const 1 : f32[]\n"
               "%1 = broadcast(%0) : f32[n:1048576]\n%2 = broadcast(%1) : f32[m:1048576, n:1048576]\n"
               "%3 = reduce.sum[m](%2) : f32[n:1048576]\nreturn %1, %3\n}\n"
               "fn f body {\n%0, %1 = call @g() : f32[n:1048576], f32[n:1048576]\nreturn %0\n}\n"
               "fn h body {\nparam %0 : f32[n:1048576]\nreturn %0\n}\n");
  PmTensor out[2], wrong = {.n = 1, .ranks = 1};
  PmStatus *st = pm_interp_run(fx.m, pm_module_find_fn(fx.m, "f"), PM_INTERP_F64, &fx.arena, NULL, out);
  assert_int_equal(pm_status_code(st), PM_ERR_LIMIT);
  pm_status_drop(st);
  st = pm_interp_run(fx.m, pm_module_find_fn(fx.m, "h"), PM_INTERP_F64, &fx.arena, &wrong, out);
  assert_int_equal(pm_status_code(st), PM_ERR_INTERNAL);
  pm_status_drop(st);
  fixture_deinit(&fx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_pointwise), cmocka_unit_test(test_rounding), cmocka_unit_test(test_sums),
      cmocka_unit_test(test_axes),      cmocka_unit_test(test_indexing), cmocka_unit_test(test_control),
      cmocka_unit_test(test_init),      cmocka_unit_test(test_failures),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
