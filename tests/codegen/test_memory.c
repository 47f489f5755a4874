// The arena planner against its definition.
#include <stdbool.h>

#include "harness.h"
#include "passes/memory.h"

enum { ALIGN = 64 };

static uint64_t next(uint64_t *seed) {
  *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return *seed >> 33;
}

static int64_t aligned(int64_t v) { return (v + ALIGN - 1) / ALIGN * ALIGN; }

static void check_plan(const PmLive *live, int32_t n, int64_t peak, int64_t bound) {
  int64_t highest = 0;
  for (int32_t i = 0; i < n; i++) {
    assert_true(live[i].offset >= 0 && live[i].offset % ALIGN == 0);
    if (live[i].offset + aligned(live[i].bytes) > highest) highest = live[i].offset + aligned(live[i].bytes);
    for (int32_t k = 0; k < i; k++) {
      const bool meet = live[i].first <= live[k].last && live[k].first <= live[i].last;
      const bool overlap =
          live[i].offset < live[k].offset + live[k].bytes && live[k].offset < live[i].offset + live[i].bytes;
      assert_false(meet && overlap);
    }
  }
  assert_int_equal(peak, highest);
  assert_true(peak >= bound);
}

static int64_t brute_bound(const PmLive *live, int32_t n) {
  int64_t most = 0;
  for (int32_t t = 0; t < 200; t++) {
    int64_t sum = 0;
    for (int32_t i = 0; i < n; i++)
      if (live[i].first <= t && t <= live[i].last) sum += aligned(live[i].bytes);
    if (sum > most) most = sum;
  }
  return most;
}

static void test_random(void **state) {
  (void)state;
  uint64_t seed = 11;
  for (int32_t round = 0; round < 200; round++) {
    PmLive live[120];
    const int32_t n = (int32_t)(next(&seed) % 120);
    PmArena arena;
    pm_arena_init(&arena, 0);
    for (int32_t i = 0; i < n; i++) {
      const int32_t first = (int32_t)(next(&seed) % 100);
      live[i] = (PmLive){1 + (int64_t)(next(&seed) % 5000), first, first + (int32_t)(next(&seed) % 60), -1};
    }
    const int64_t bound = pm_memory_bound(&arena, live, n, ALIGN);
    assert_int_equal(bound, brute_bound(live, n));
    check_plan(live, n, pm_memory_plan(&arena, live, n, ALIGN), bound);
    pm_arena_deinit(&arena);
  }
}

// Layers forward, which save some of their values, and back, with temporaries of each turn: the peak is the bound.
static void test_training(void **state) {
  (void)state;
  uint64_t seed = 5;
  for (int32_t layers = 2; layers <= 32; layers *= 2) {
    enum { SAVED = 5, TEMPS = 6, STEPS = 10 };
    PmArena arena;
    PmLive *live;
    int32_t n = 0;
    pm_arena_init(&arena, 0);
    live = PM_NEW_N(&arena, PmLive, layers * 2 * (SAVED + 2 * TEMPS));
    const int32_t end = 2 * layers * STEPS;
    int64_t saved[SAVED], temps[TEMPS];
    for (int32_t i = 0; i < SAVED; i++) saved[i] = 64 * (1 + (int64_t)(next(&seed) % 500));
    for (int32_t i = 0; i < TEMPS; i++) temps[i] = 64 * (1 + (int64_t)(next(&seed) % 900));
    for (int32_t l = 0; l < layers; l++) {
      const int32_t fwd = l * STEPS, bwd = end - (l + 1) * STEPS;
      for (int32_t i = 0; i < SAVED; i++) live[n++] = (PmLive){saved[i], fwd + i, bwd + STEPS - 1 - i, 0};
      for (int32_t i = 0; i < TEMPS; i++) {
        live[n++] = (PmLive){temps[i], fwd + i, fwd + i + 2, 0};
        live[n++] = (PmLive){temps[i], bwd + i, bwd + i + 3, 0};
      }
      live[n++] = (PmLive){saved[0], bwd, end - 1, 0};  // a gradient, until the update
    }
    const int64_t bound = pm_memory_bound(&arena, live, n, ALIGN), peak = pm_memory_plan(&arena, live, n, ALIGN);
    check_plan(live, n, peak, bound);
    assert_true((double)peak <= 1.02 * (double)bound);
    pm_arena_deinit(&arena);
  }
}

static void test_empty(void **state) {
  (void)state;
  PmArena arena;
  pm_arena_init(&arena, 0);
  assert_int_equal(pm_memory_plan(&arena, NULL, 0, ALIGN), 0);
  PmLive one = {1, 0, 0, -1};
  assert_int_equal(pm_memory_plan(&arena, &one, 1, ALIGN), ALIGN);
  pm_arena_deinit(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_random), cmocka_unit_test(test_training),
                                     cmocka_unit_test(test_empty)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
