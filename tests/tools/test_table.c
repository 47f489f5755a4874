#include <stdlib.h>

#include "harness.h"
#include "tools/table.h"

static void test_counts(void **state) {
  (void)state;
  PmArena a;
  pm_arena_init(&a, 0);
  assert_string_equal(pm_count_text(&a, 0), "0");
  assert_string_equal(pm_count_text(&a, 999), "999");
  assert_string_equal(pm_count_text(&a, 1000), "1,000");
  assert_string_equal(pm_count_text(&a, -123456), "-123,456");
  assert_string_equal(pm_count_text(&a, 8030261248), "8,030,261,248");
  assert_string_equal(pm_count_text(&a, INT64_MIN), "-9,223,372,036,854,775,808");
  assert_string_equal(pm_bytes_text(&a, 1023), "1023 B");
  assert_string_equal(pm_bytes_text(&a, 1536), "1.5 KiB");
  assert_string_equal(pm_bytes_text(&a, INT64_C(3) << 40), "3.0 TiB");
  assert_string_equal(pm_plural(1), "");
  assert_string_equal(pm_plural(0), "s");
  pm_arena_deinit(&a);
}

static void test_columns(void **state) {
  (void)state;
  PmArena a;
  pm_arena_init(&a, 0);
  PmTable t;
  pm_table_init(&t, &a, "lrl");
  pm_table_cell(&t, "name");
  pm_table_cell(&t, "n");
  pm_table_cell(&t, NULL);
  pm_table_printf(&t, "\xc3\xa4%d", 1);  // two bytes, one column
  pm_table_count(&t, 12345);
  pm_table_cell(&t, "end");
  char *text = NULL;
  size_t len = 0;
  FILE *to = open_memstream(&text, &len);
  pm_table_print(&t, "> ", to);
  fclose(to);
  assert_string_equal(text,
                      "> name       n\n> \xc3\xa4"
                      "1    12,345  end\n");
  free(text);
  pm_arena_deinit(&a);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_counts), cmocka_unit_test(test_columns)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
