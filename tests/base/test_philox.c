#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "base/philox.h"
#include "harness.h"

// The known-answer vectors of the Random123 distribution for philox4x32-10.
static const struct {
  uint32_t counter[4], key[2], words[4];
} known[] = {
    {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
     {0xffffffff, 0xffffffff},
     {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xa4093822, 0x299f31d0},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

static void known_answers(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    uint32_t words[4];
    pm_philox4x32(known[i].counter, known[i].key, words);
    assert_memory_equal(words, known[i].words, sizeof words);
  }
}

static void elements_are_lanes_of_counters(void **state) {
  (void)state;
  const uint64_t key = UINT64_C(0x299f31d0a4093822), step = UINT64_C(0x0370734413198a2e);
  const uint64_t block = UINT64_C(0x85a308d3243f6a88) & (UINT64_MAX >> 2);
  const uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)step, (uint32_t)(step >> 32)};
  uint32_t words[4];
  pm_philox4x32(counter, (const uint32_t[2]){(uint32_t)key, (uint32_t)(key >> 32)}, words);
  for (uint64_t lane = 0; lane < 4; lane++) {
    assert_int_equal(pm_random_u32(key, step, block * 4 + lane), words[lane]);
    assert_true(pm_random_uniform(key, step, block * 4 + lane) == (words[lane] >> 8) / 16777216.0);
  }
}

static void keys_differ_by_seed_and_path(void **state) {
  (void)state;
  assert_int_equal(pm_random_key(7, "layer.wq"), pm_random_key(7, "layer.wq"));
  assert_true(pm_random_key(7, "layer.wq") != pm_random_key(8, "layer.wq"));
  assert_true(pm_random_key(7, "layer.wq") != pm_random_key(7, "layer.wk"));
}

static void uniform_moments(void **state) {
  (void)state;
  const double n = 200000;
  double sum = 0, squares = 0;
  for (uint64_t i = 0; i < (uint64_t)n; i++) {
    double u = pm_random_uniform(pm_random_key(1, "u"), 3, i);
    assert_true(u >= 0 && u < 1);
    sum += u;
    squares += u * u;
  }
  assert_true(fabs(sum / n - 0.5) < 0.003);
  assert_true(fabs(squares / n - 1.0 / 3) < 0.003);
}

static void normal_moments(void **state) {
  (void)state;
  const double n = 200000;
  double sum = 0, squares = 0, fourth = 0, neighbours = 0, last = 0;
  for (uint64_t i = 0; i < (uint64_t)n; i++) {
    double x = pm_random_normal(pm_random_key(1, "n"), 0, i);
    assert_true(isfinite(x));
    sum += x;
    squares += x * x;
    fourth += x * x * x * x;
    neighbours += x * last;
    last = x;
  }
  assert_true(fabs(sum / n) < 0.01);
  assert_true(fabs(squares / n - 1) < 0.02);
  assert_true(fabs(fourth / n - 3) < 0.1);
  assert_true(fabs(neighbours / n) < 0.01);
}

static void hash_known_answers(void **state) {
  (void)state;
  // XXH64 of the empty text with seed 0, and of "abc", as the xxHash specification has them.
  assert_int_equal(pm_hash64("", 0, 0), UINT64_C(0xef46db3751d8e999));
  assert_int_equal(pm_hash64("abc", 3, 0), UINT64_C(0x44bc2cf5ad770999));
  assert_true(pm_hash64("abc", 3, 1) != pm_hash64("abc", 3, 0));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(known_answers),   cmocka_unit_test(elements_are_lanes_of_counters),
      cmocka_unit_test(uniform_moments), cmocka_unit_test(keys_differ_by_seed_and_path),
      cmocka_unit_test(normal_moments),  cmocka_unit_test(hash_known_answers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
