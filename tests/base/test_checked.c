#include "base/checked.h"
#include "harness.h"

static void sums_and_products(void **state) {
  (void)state;
  int64_t v;
  assert_true(pm_add_i64(INT64_MAX - 1, 1, &v));
  assert_int_equal(v, INT64_MAX);
  assert_false(pm_add_i64(INT64_MAX, 1, &v));
  assert_false(pm_add_i64(INT64_MIN, -1, &v));
  assert_true(pm_sub_i64(INT64_MIN + 1, 1, &v));
  assert_false(pm_sub_i64(INT64_MIN, 1, &v));
  assert_true(pm_mul_i64(INT64_C(1) << 31, INT64_C(1) << 31, &v));
  assert_int_equal(v, INT64_C(1) << 62);
  assert_false(pm_mul_i64(INT64_C(1) << 32, INT64_C(1) << 31, &v));
  assert_false(pm_mul_i64(INT64_MIN, -1, &v));
}

static void multiply_add(void **state) {
  (void)state;
  int64_t v;
  assert_true(pm_mad_i64(3, 4, 5, &v));
  assert_int_equal(v, 17);
  assert_false(pm_mad_i64(INT64_MAX, 2, 0, &v));
  assert_false(pm_mad_i64(INT64_MAX, 1, 1, &v));
  assert_true(pm_mad_i64(INT64_MAX, 1, -1, &v));
}

static void align_up(void **state) {
  (void)state;
  int64_t v;
  assert_true(pm_align_i64(0, 64, &v));
  assert_int_equal(v, 0);
  assert_true(pm_align_i64(1, 64, &v));
  assert_int_equal(v, 64);
  assert_true(pm_align_i64(64, 64, &v));
  assert_int_equal(v, 64);
  assert_true(pm_align_i64(-1, 64, &v));
  assert_int_equal(v, 0);
  assert_true(pm_align_i64(INT64_MAX - 63, 64, &v));
  assert_false(pm_align_i64(INT64_MAX - 62, 64, &v));
  assert_false(pm_align_i64(INT64_MAX, 2, &v));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sums_and_products),
      cmocka_unit_test(multiply_add),
      cmocka_unit_test(align_up),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
