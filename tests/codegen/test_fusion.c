// What becomes one kernel, and that it computes the right thing.
#include "fixture.h"

#include <string.h>

#define HEAD \
  "module local\naxis b 3\naxis s 5\naxis t 5\naxis e 8\naxis v 7\naxis h 2\naxis half 4\naxis pair 2\naxis d 8\n"

static void expect(const char *text, int32_t kernels, int32_t dots, double tolerance) {
  Fixture fx;
  fixture_compile(&fx, text);
  const int32_t got_kernels = count_steps(&fx, PM_ENTRY_STEP, PM_STEP_KERNEL);
  const int32_t got_dots = count_steps(&fx, PM_ENTRY_STEP, PM_STEP_DOT);
  fixture_compare(&fx, tolerance);
  if (got_kernels != kernels || got_dots != dots)
    fail_msg("%d kernels and %d dots, not %d and %d", got_kernels, got_dots, kernels, dots);
  fixture_deinit(&fx);
}

static void test_softmax(void **state) {
  (void)state;
  expect(HEAD
         "fn f body {\nparam %0 : f32[b:3, s:5, t:5]\n%1 = reduce.max[t](%0) : f32[b:3, s:5]\n"
         "%2 = broadcast(%1) : f32[b:3, s:5, t:5]\n%3 = map.sub(%0, %2) : f32[b:3, s:5, t:5]\n"
         "%4 = map.exp(%3) : f32[b:3, s:5, t:5]\n%5 = reduce.sum[t](%4) : f32[b:3, s:5]\n"
         "%6 = broadcast(%5) : f32[b:3, s:5, t:5]\n%7 = map.div(%4, %6) : f32[b:3, s:5, t:5]\nreturn %7\n}\n",
         1, 0, 1e-6);
}

// The residual sum, the row statistics and the result are one kernel, which also stores what a backward pass wants.
#define NORM                                                                                                           \
  "%3 = map.add(%0, %1) : f32[b:3, s:5, e:8]\n%4 = reduce.sum[e](%3) : f32[b:3, s:5]\n%5 = const 0.125 : f32[]\n"      \
  "%6 = broadcast(%5) : f32[b:3, s:5]\n%7 = map.mul(%4, %6) : f32[b:3, s:5]\n%8 = broadcast(%7) : f32[b:3, s:5, "      \
  "e:8]\n"                                                                                                             \
  "%9 = map.sub(%3, %8) : f32[b:3, s:5, e:8]\n%10 = map.mul(%9, %9) : f32[b:3, s:5, e:8]\n"                            \
  "%11 = reduce.sum[e](%10) : f32[b:3, s:5]\n%12 = map.mul(%11, %6) : f32[b:3, s:5]\n%13 = map.rsqrt(%12) : f32[b:3, " \
  "s:5]\n"                                                                                                             \
  "%14 = broadcast(%13) : f32[b:3, s:5, e:8]\n%15 = map.mul(%9, %14) : f32[b:3, s:5, e:8]\n"                           \
  "%16 = broadcast(%2) : f32[b:3, s:5, e:8]\n%17 = map.mul(%15, %16) : f32[b:3, s:5, e:8]\n"

static void test_layernorm(void **state) {
  (void)state;
  expect(HEAD "fn f body {\nparam %0 : f32[b:3, s:5, e:8]\nparam %1 : f32[b:3, s:5, e:8]\nparam %2 : f32[e:8]\n" NORM
              "return %17, %3, %7, %13\n}\n",
         1, 0, 1e-5);
}

// Sums over rows of what the rows' kernel made: the cheap expression is computed again, not stored.
static void test_column_sum(void **state) {
  (void)state;
  expect(HEAD "fn f body {\nparam %0 : f32[b:3, s:5, e:8]\nparam %1 : f32[b:3, s:5, e:8]\nparam %2 : f32[e:8]\n" NORM
              "%18 = map.mul(%1, %15) : f32[b:3, s:5, e:8]\n%19 = reduce.sum[b, s](%18) : f32[e:8]\n"
              "%20 = reduce.sum[b, s](%1) : f32[e:8]\nreturn %17, %19, %20\n}\n",
         2, 0, 1e-5);
}

static void test_xent(void **state) {
  (void)state;
  expect(
      HEAD
      "fn f body {\nparam %0 : f32[b:3, s:5, v:7]\nparam %1 : i32<v>[b:3, s:5]\n"
      "%2 = reduce.max[v](%0) : f32[b:3, s:5]\n%3 = broadcast(%2) : f32[b:3, s:5, v:7]\n"
      "%4 = map.sub(%0, %3) : f32[b:3, s:5, v:7]\n%5 = map.exp(%4) : f32[b:3, s:5, v:7]\n"
      "%6 = reduce.sum[v](%5) : f32[b:3, s:5]\n%7 = map.log(%6) : f32[b:3, s:5]\n%8 = map.add(%7, %2) : f32[b:3, s:5]\n"
      "%9 = index[v](%0, %1) : f32[b:3, s:5]\n%10 = map.sub(%8, %9) : f32[b:3, s:5]\n"
      "%11 = broadcast(%8) : f32[b:3, s:5, v:7]\n%12 = map.sub(%0, %11) : f32[b:3, s:5, v:7]\n"
      "%13 = map.exp(%12) : f32[b:3, s:5, v:7]\n%14 = const 1 : f32[]\n%15 = broadcast(%14) : f32[b:3, s:5]\n"
      "%16 = scatter_add[v](%1, %15) : f32[b:3, s:5, v:7]\n%17 = map.sub(%13, %16) : f32[b:3, s:5, v:7]\n"
      "return %10, %17\n}\n",
      1, 0, 1e-6);
}

// Rotary positions: two tables, one kernel; the result lies as the dot that reads it wants it.
static void test_rope(void **state) {
  (void)state;
  expect(
      HEAD
      "fn f body {\nparam %0 : f32[b:3, s:5, h:2, d:8]\nparam %1 : f32[b:3, t:5, h:2, d:8]\n"
      "%2 = split[d -> pair, half](%0) : f32[b:3, s:5, h:2, pair:2, half:4]\n"
      "%3 = select[pair = 0](%2) : f32[b:3, s:5, h:2, half:4]\n%4 = select[pair = 1](%2) : f32[b:3, s:5, h:2, half:4]\n"
      "%5 = pos[s] : f64[s:5]\n%6 = pos[half] : f64[half:4]\n%7 = const 100 : f64[]\n%8 = broadcast(%7) : f64[half:4]\n"
      "%9 = map.neg(%6) : f64[half:4]\n%10 = map.pow(%8, %9) : f64[half:4]\n%11 = broadcast(%5) : f64[s:5, half:4]\n"
      "%12 = broadcast(%10) : f64[s:5, half:4]\n%13 = map.mul(%11, %12) : f64[s:5, half:4]\n"
      "%14 = map.cos(%13) : f64[s:5, half:4]\n%15 = broadcast(%14) : f64[b:3, s:5, h:2, half:4]\n"
      "%16 = cast(%15) : f32[b:3, s:5, h:2, half:4]\n%17 = map.sin(%13) : f64[s:5, half:4]\n"
      "%18 = cast(%17) : f32[s:5, half:4]\n%19 = broadcast(%18) : f32[b:3, s:5, h:2, half:4]\n"
      "%20 = map.mul(%3, %16) : f32[b:3, s:5, h:2, half:4]\n%21 = map.mul(%4, %19) : f32[b:3, s:5, h:2, half:4]\n"
      "%22 = map.sub(%20, %21) : f32[b:3, s:5, h:2, half:4]\n%23 = map.mul(%4, %16) : f32[b:3, s:5, h:2, half:4]\n"
      "%24 = map.mul(%3, %19) : f32[b:3, s:5, h:2, half:4]\n%25 = map.add(%23, %24) : f32[b:3, s:5, h:2, half:4]\n"
      "%26 = stack[-> pair](%22, %25) : f32[pair:2, b:3, s:5, h:2, half:4]\n"
      "%27 = merge[pair, half -> d](%26) : f32[d:8, b:3, s:5, h:2]\n"
      "%28 = dot[d](%27, %1) : f32[b:3, s:5, h:2, t:5]\nreturn %28\n}\n",
      1, 1, 1e-5);
}

// An update runs in place: state and value are written where they are read.
static void test_in_place(void **state) {
  (void)state;
  Fixture fx;
  fixture_compile(&fx,
                  "module local\naxis e 8\n"
                  "train step=\"up\"\nvar \"w\" param f32[e:8] none\nvar \"m\" state f32[e:8] none owner=\"w\"\n"
                  "var \"x\" input f32[e:8] none\nfn up step {\nparam %0 : f32[e:8] var=\"w\"\n"
                  "param %1 : f32[e:8] var=\"m\"\nparam %2 : f32[e:8] var=\"x\"\n%3 = map.add(%1, %2) : f32[e:8]\n"
                  "%4 = map.sub(%0, %3) : f32[e:8]\nreturn %4 var=\"w\", %3 var=\"m\"\n}\n");
  assert_int_equal(fx.p->entries[PM_ENTRY_STEP].n_steps, 1);
  assert_int_equal(fx.p->arena_bytes, fx.p->persistent_bytes);
  fixture_compare(&fx, 0);
  fixture_deinit(&fx);
}

// A sum of more tensors than a kernel takes arguments: part of it is stored on the way.
static void test_sum_of_many(void **state) {
  (void)state;
  enum { N = 100 };
  PmBuf text;
  pm_buf_init(&text);
  pm_buf_puts(&text, "module local\naxis b 4\naxis d 8\nfn f body {\nparam %0 : f32[b:4, d:8]\n");
  for (int i = 1; i <= N; i++) pm_buf_printf(&text, "param %%%d : f32[b:4, d:8]\n", i);
  for (int i = 1; i <= N; i++)
    pm_buf_printf(&text, "%%%d = map.add(%%%d, %%%d) : f32[b:4, d:8]\n", N + i, i == 1 ? 0 : N + i - 1, i);
  pm_buf_printf(&text, "return %%%d\n}\n", 2 * N);
  check(pm_buf_str(&text), 1e-5);
  pm_buf_deinit(&text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_softmax),     cmocka_unit_test(test_layernorm), cmocka_unit_test(test_column_sum),
      cmocka_unit_test(test_xent),        cmocka_unit_test(test_rope),      cmocka_unit_test(test_in_place),
      cmocka_unit_test(test_sum_of_many),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
