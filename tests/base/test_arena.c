#include <string.h>

#include "base/arena.h"
#include "child.h"

static void aligned_and_zeroed(void **state) {
  (void)state;
  PmArena a;
  pm_arena_init(&a, 0);
  for (size_t size = 0; size < 3000; size += 7) {
    unsigned char *p = pm_arena_alloc(&a, size);
    assert_non_null(p);
    assert_int_equal((uintptr_t)p % 16, 0);
    for (size_t i = 0; i < size; i++) assert_int_equal(p[i], 0);
    if (size) memset(p, 0xaa, size);
  }
  pm_arena_deinit(&a);
}

static void allocations_do_not_overlap(void **state) {
  (void)state;
  PmArena a;
  pm_arena_init(&a, 0);
  enum { N = 400 };
  unsigned char *p[N];
  size_t size[N];
  for (size_t i = 0; i < N; i++) {
    size[i] = (i * 7919) % 9001 + 1;
    p[i] = pm_arena_alloc(&a, size[i]);
    memset(p[i], (int)(i & 0xff), size[i]);
  }
  for (size_t i = 0; i < N; i++) {
    for (size_t k = 0; k < size[i]; k++) assert_int_equal(p[i][k], i & 0xff);
  }
  pm_arena_deinit(&a);
}

static void reset_clears_and_reuses(void **state) {
  (void)state;
  PmArena a;
  pm_arena_init(&a, 0);
  pm_arena_reset(&a);
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < 1000; i++) {
      unsigned char *p = pm_arena_alloc(&a, 100);
      for (int k = 0; k < 100; k++) assert_int_equal(p[k], 0);
      memset(p, 0xff, 100);
    }
    assert_true(a.used >= 100000);
    pm_arena_reset(&a);
    assert_int_equal(a.used, 0);
  }
  pm_arena_deinit(&a);
}

static void text_helpers(void **state) {
  (void)state;
  PmArena a;
  pm_arena_init(&a, 0);
  assert_string_equal(pm_arena_strdup(&a, ""), "");
  assert_string_equal(pm_arena_strndup(&a, "abcdef", 3), "abc");
  assert_string_equal(pm_arena_strndup(&a, "ab", 100), "ab");
  assert_string_equal(pm_arena_printf(&a, "%s-%d", "x", 42), "x-42");
  pm_arena_deinit(&a);
}

static void grow_keeps_elements(void **state) {
  (void)state;
  PmArena a;
  pm_arena_init(&a, 0);
  int64_t *data = NULL;
  int32_t cap = 0;
  for (int32_t n = 0; n < 1000; n++) {
    data = pm_grow(&a, data, n, &cap, sizeof *data);
    assert_true(cap > n);
    assert_int_equal(data[n], 0);
    data[n] = n;
  }
  for (int32_t i = 0; i < 1000; i++) assert_int_equal(data[i], i);
  pm_arena_deinit(&a);
}

static void pass_the_limit(void) {
  PmArena a;
  pm_arena_init(&a, 1 << 16);
  for (;;) pm_arena_alloc(&a, 1000);
}

static void huge_size(void) {
  PmArena a;
  pm_arena_init(&a, 0);
  pm_arena_alloc(&a, SIZE_MAX - 8);
}

static void huge_product(void) {
  PmArena a;
  pm_arena_init(&a, 0);
  pm_arena_alloc_n(&a, SIZE_MAX / 2, 3);
}

static void negative_count(void) {
  PmArena a;
  pm_arena_init(&a, 0);
  int64_t n = -1;
  (void)PM_NEW_N(&a, int64_t, n);
}

static void grow_past_int32(void) {
  PmArena a;
  pm_arena_init(&a, 0);
  int32_t cap = INT32_MAX / 2 + 1;
  char byte = 0;
  pm_grow(&a, &byte, cap, &cap, 1);
}

// Blocks of every size, taken before the mark and after it, by turns.
static void rewinding_gives_back_what_came_after_the_mark(void **state) {
  (void)state;
  const size_t sizes[] = {8, 3000, 100, 70000, 16, 5000, 300000, 40, 2000000, 1};
  enum { N = sizeof sizes / sizeof *sizes };
  for (int32_t before = 0; before <= N; before++) {
    PmArena a;
    pm_arena_init(&a, 0);
    unsigned char *kept[N];
    for (int32_t i = 0; i < before; i++) memset(kept[i] = pm_arena_alloc(&a, sizes[i]), i + 1, sizes[i]);
    const size_t used = a.used;
    const PmArenaMark mark = pm_arena_mark(&a);
    for (int32_t turn = 0; turn < 3; turn++) {
      for (int32_t i = 0; i < N; i++) {
        unsigned char *p = pm_arena_alloc(&a, sizes[(i + turn) % N]);
        for (size_t k = 0; k < sizes[(i + turn) % N]; k++) assert_int_equal(p[k], 0);
        memset(p, 0xee, sizes[(i + turn) % N]);
      }
      pm_arena_rewind(&a, mark);
      assert_int_equal(a.used, used);
      for (int32_t i = 0; i < before; i++)
        for (size_t k = 0; k < sizes[i]; k++) assert_int_equal(kept[i][k], i + 1);
    }
    pm_arena_deinit(&a);
  }
}

static void hostile_sizes_exit_with_limit(void **state) {
  (void)state;
  char text[256];
  assert_int_equal(child_exit_code(pass_the_limit, text, sizeof text), 4);
  assert_non_null(strstr(text, "limit of 65536 bytes"));
  assert_int_equal(child_exit_code(huge_size, text, sizeof text), 4);
  assert_non_null(strstr(text, "out of memory"));
  assert_int_equal(child_exit_code(huge_product, NULL, 0), 4);
  assert_int_equal(child_exit_code(negative_count, NULL, 0), 4);
  assert_int_equal(child_exit_code(grow_past_int32, NULL, 0), 4);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(aligned_and_zeroed),
      cmocka_unit_test(allocations_do_not_overlap),
      cmocka_unit_test(reset_clears_and_reuses),
      cmocka_unit_test(text_helpers),
      cmocka_unit_test(grow_keeps_elements),
      cmocka_unit_test(hostile_sizes_exit_with_limit),
      cmocka_unit_test(rewinding_gives_back_what_came_after_the_mark),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
