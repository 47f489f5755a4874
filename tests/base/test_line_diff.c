// Hunks that turn one text into the other, with as few edits as there can be.
#include <stdlib.h>
#include <string.h>

#include "base/line_diff.h"
#include "harness.h"

static void expect(const char *a, const char *b, const char *want) {
  PmArena arena;
  PmBuf out;
  pm_arena_init(&arena, 0);
  pm_buf_init(&out);
  pm_line_diff(&arena, a, strlen(a), b, strlen(b), &out);
  assert_string_equal(pm_buf_str(&out), want);
  pm_buf_deinit(&out);
  pm_arena_deinit(&arena);
}

static void hunks_have_three_lines_around_them(void **state) {
  (void)state;
  expect("", "", "");
  expect("a\nb\n", "a\nb\n", "");
  expect("", "a\n", "@@ -0,0 +1,1 @@\n+a\n");
  expect("a\n", "", "@@ -1,1 +0,0 @@\n-a\n");
  expect("a\nb\nc\n", "a\nX\nc\n", "@@ -1,3 +1,3 @@\n a\n-b\n+X\n c\n");
  expect("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\n5\n6\n7\n8\nX\n", "@@ -6,4 +6,4 @@\n 6\n 7\n 8\n-9\n+X\n");
  expect("A\n1\n2\n3\n4\n5\n6\nB\n", "X\n1\n2\n3\n4\n5\n6\nY\n",
         "@@ -1,8 +1,8 @@\n-A\n+X\n 1\n 2\n 3\n 4\n 5\n 6\n-B\n+Y\n");
  expect("A\n1\n2\n3\n4\n5\n6\n7\nB\n", "X\n1\n2\n3\n4\n5\n6\n7\nY\n",
         "@@ -1,4 +1,4 @@\n-A\n+X\n 1\n 2\n 3\n@@ -6,4 +6,4 @@\n 5\n 6\n 7\n-B\n+Y\n");
}

static char *random_text(uint32_t *seed, int32_t lines, uint32_t letters) {
  char *s = malloc((size_t)lines * 2 + 1);
  assert_non_null(s);
  for (int32_t i = 0; i < lines; i++) {
    *seed = *seed * 1664525u + 1013904223u;
    s[2 * i] = (char)('a' + (*seed >> 16) % letters);
    s[2 * i + 1] = '\n';
  }
  s[2 * lines] = 0;
  return s;
}

// Applies the hunks to `a`: what comes out, and the number of lines that were taken out or put in.
static int32_t apply(const char *a, const char *hunks, PmBuf *out) {
  int32_t edits = 0;
  const char *rest = a;
  while (*hunks) {
    long first = 0, count = 0;
    assert_int_equal(sscanf(hunks, "@@ -%ld,%ld", &first, &count), 2);
    hunks = strchr(hunks, '\n') + 1;
    const char *start = a + 2 * (count ? first - 1 : first);
    assert_true(start >= rest);
    pm_buf_put(out, rest, (size_t)(start - rest));
    rest = start;
    while (*hunks && *hunks != '@') {
      if (*hunks != '+') {
        assert_memory_equal(hunks + 1, rest, 2);
        rest += 2;
      }
      if (*hunks != '-') pm_buf_put(out, hunks + 1, 2);
      edits += *hunks != ' ';
      hunks += 3;
    }
  }
  pm_buf_puts(out, rest);
  return edits;
}

// By the table of the longest common subsequences of all prefixes.
static int32_t fewest_edits(const char *a, const char *b, int32_t n, int32_t m) {
  int32_t *row = calloc((size_t)m + 1, sizeof *row);
  assert_non_null(row);
  for (int32_t i = 0; i < n; i++) {
    for (int32_t j = 0, corner = 0; j < m; j++) {
      const int32_t up = row[j + 1];
      row[j + 1] = a[2 * i] == b[2 * j] ? corner + 1 : up > row[j] ? up : row[j];
      corner = up;
    }
  }
  const int32_t common = row[m];
  free(row);
  return n + m - 2 * common;
}

// The hunks turn `a` into `b`, with so many edits.
static void expect_edits(const char *a, const char *b, int32_t edits) {
  PmArena arena;
  PmBuf hunks, out;
  pm_arena_init(&arena, 0);
  pm_buf_init(&hunks);
  pm_buf_init(&out);
  pm_line_diff(&arena, a, strlen(a), b, strlen(b), &hunks);
  assert_int_equal(apply(a, pm_buf_str(&hunks), &out), edits);
  assert_string_equal(pm_buf_str(&out), b);
  pm_buf_deinit(&out);
  pm_buf_deinit(&hunks);
  pm_arena_deinit(&arena);
}

static void random_texts_turn_into_each_other_with_the_fewest_edits(void **state) {
  (void)state;
  uint32_t seed = 7;
  for (int32_t i = 0; i < 3000; i++) {
    seed = seed * 1664525u + 1013904223u;
    const int32_t n = (int32_t)((seed >> 8) % 40), m = (int32_t)((seed >> 20) % 40);
    const uint32_t letters = 1 + (seed >> 4) % 12;
    char *a = random_text(&seed, n, letters), *b = random_text(&seed, m, letters);
    expect_edits(a, b, fewest_edits(a, b, n, m));
    free(a);
    free(b);
  }
}

// Ten thousand lines without one in common: the search is given up, and all of them are replaced.
static void texts_with_nothing_in_common_are_replaced(void **state) {
  (void)state;
  enum { LINES = 10000 };
  uint32_t seed = 1;
  char *a = random_text(&seed, LINES, 1), *b = random_text(&seed, LINES, 1);
  memset(b, 'b', 2 * LINES);
  for (int32_t i = 0; i < LINES; i++) b[2 * i + 1] = '\n';
  expect_edits(a, b, 2 * LINES);
  free(a);
  free(b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(hunks_have_three_lines_around_them),
      cmocka_unit_test(random_texts_turn_into_each_other_with_the_fewest_edits),
      cmocka_unit_test(texts_with_nothing_in_common_are_replaced),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
