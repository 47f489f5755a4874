// Elements of stored arrays: every dtype keeps what it can hold, and rounds what it cannot.
#include "runtime/element.h"

#include <math.h>
#include <string.h>

#include "harness.h"

// What element 1 holds once `v` is stored there; its neighbours keep their bytes.
static double stored(PmKDtype dtype, double v) {
  _Alignas(8) unsigned char bytes[3 * 8];
  memset(bytes, 0xa5, sizeof bytes);
  pm_element_store(dtype, bytes, 1, v);
  const int64_t size = pm_kdtype_bytes(dtype);
  for (int64_t i = 0; i < size; i++) assert_true(bytes[i] == 0xa5 && bytes[2 * size + i] == 0xa5);
  return pm_element_load(dtype, bytes, 1);
}

static void test_what_is_kept(void **state) {
  (void)state;
  const PmKDtype floats[] = {PM_K_F16, PM_K_BF16, PM_K_F32, PM_K_F64};
  const double values[] = {0, 1, -2.5, 96, INFINITY, -INFINITY};
  for (int32_t d = 0; d < 4; d++) {
    for (int32_t i = 0; i < 6; i++) assert_true(stored(floats[d], values[i]) == values[i]);
    assert_true(isnan(stored(floats[d], NAN)));
    assert_true(signbit(stored(floats[d], -0.0)));
  }
  assert_true(stored(PM_K_I32, -2147483648.0) == -2147483648.0);
  assert_true(stored(PM_K_I32, 2147483647) == 2147483647);
}

static void test_what_is_rounded(void **state) {
  (void)state;
  assert_true(stored(PM_K_F16, 2049) == 2048 && stored(PM_K_F16, 2051) == 2052);  // ties to even, at 11 bits
  assert_true(stored(PM_K_BF16, 257) == 256 && stored(PM_K_BF16, 259) == 260);    // at 8 bits
  assert_true(stored(PM_K_F32, 16777217) == 16777216);                            // at 24 bits
  assert_true(isinf(stored(PM_K_F16, 65520)) && stored(PM_K_F16, 65519) == 65504);
  assert_true(stored(PM_K_I32, 2.9) == 2 && stored(PM_K_I32, -2.9) == -2);
  assert_true(stored(PM_K_BOOL, -0.5) == 1 && stored(PM_K_BOOL, 0) == 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_what_is_kept), cmocka_unit_test(test_what_is_rounded)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
