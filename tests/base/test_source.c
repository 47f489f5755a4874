#include "base/source.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness.h"

static PmArena arena;
static PmSources sources;

static int set_up(void **state) {
  (void)state;
  pm_arena_init(&arena, 0);
  pm_sources_init(&sources, &arena);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  pm_arena_deinit(&arena);
  return 0;
}

static void assert_at(int32_t file, int32_t at, int32_t line, int32_t col) {
  int32_t l, c;
  pm_sources_line_col(&sources, file, at, &l, &c);
  assert_int_equal(l, line);
  assert_int_equal(c, col);
}

static void lines_and_columns(void **state) {
  (void)state;
  const char *text = "ab\n\ncaf\xc3\xa9 x\r\nend";
  int32_t f = pm_sources_add(&sources, "a.pmodel", text, strlen(text));
  assert_at(f, 0, 1, 1);
  assert_at(f, 2, 1, 3);
  assert_at(f, 3, 2, 1);
  assert_at(f, 4, 3, 1);
  assert_at(f, 9, 3, 5);
  assert_at(f, 10, 3, 6);
  assert_at(f, 13, 4, 1);
  assert_at(f, 16, 4, 4);
  assert_at(f, 1000, 4, 4);
  assert_at(f, -5, 1, 1);
  int32_t lo, hi;
  pm_sources_line_span(&sources, f, 3, &lo, &hi);
  assert_int_equal(lo, 4);
  assert_int_equal(hi, 11);
  pm_sources_line_span(&sources, f, 2, &lo, &hi);
  assert_int_equal(lo, hi);
}

static void empty_text(void **state) {
  (void)state;
  int32_t f = pm_sources_add(&sources, "empty", "", 0);
  assert_at(f, 0, 1, 1);
  int32_t lo, hi;
  pm_sources_line_span(&sources, f, 1, &lo, &hi);
  assert_int_equal(hi, 0);
}

static void locations(void **state) {
  (void)state;
  int32_t f = pm_sources_add(&sources, "dir/b.pmodel", "x\ny = z", 7);
  PmBuf b;
  pm_buf_init(&b);
  pm_sources_put_loc(&sources, (PmSpan){f, 6, 7}, &b);
  assert_string_equal(pm_buf_str(&b), "dir/b.pmodel:2:5");
  pm_buf_clear(&b);
  pm_sources_put_loc(&sources, PM_NO_SPAN, &b);
  assert_string_equal(pm_buf_str(&b), "-");
  pm_buf_deinit(&b);
}

static void expect_failure(const char *path, size_t limit, PmCode code, const char *message) {
  int32_t file = -7;
  PmStatus *st = pm_sources_load(&sources, path, limit, &file);
  assert_int_equal(pm_status_code(st), code);
  assert_non_null(strstr(pm_status_message(st), message));
  assert_int_equal(file, -7);
  pm_status_drop(st);
}

static void write_file(const char *path, const void *data, size_t n) {
  FILE *to = fopen(path, "wb");
  assert_non_null(to);
  assert_int_equal(fwrite(data, 1, n, to), n);
  assert_int_equal(fclose(to), 0);
}

static void byte_order_mark(void **state) {
  (void)state;
  const char *text =
      "\xef\xbb\xbf"
      "ab\r\nc";
  int32_t f = pm_sources_add(&sources, "a.pmodel", text, strlen(text));
  assert_at(f, 0, 1, 1);
  assert_at(f, 3, 1, 1);
  assert_at(f, 4, 1, 2);
  assert_at(f, 7, 2, 1);
  int32_t lo, hi;
  pm_sources_line_span(&sources, f, 1, &lo, &hi);
  assert_int_equal(lo, 3);
  assert_int_equal(hi, 5);
  f = pm_sources_add(&sources, "cut.pmodel", text, 2);
  assert_at(f, 2, 1, 2);
}

static void files(void **state) {
  (void)state;
  char dir[] = "/tmp/pm_source_XXXXXX", path[64];
  assert_non_null(mkdtemp(dir));
  snprintf(path, sizeof path, "%s/x.pmodel", dir);
  write_file(path, "model x\n", 8);
  int32_t file;
  PmStatus *st = pm_sources_load(&sources, path, 8, &file);
  assert_null(st);
  assert_string_equal(sources.files[file].text, "model x\n");
  assert_string_equal(sources.files[file].path, path);
  assert_int_equal(sources.files[file].len, 8);
  expect_failure(path, 7, PM_ERR_LIMIT, "larger than the limit of 7 bytes");
  expect_failure(path, 0, PM_ERR_LIMIT, "larger than the limit of 0 bytes");
  write_file(path, "ab\0cd", 5);
  expect_failure(path, 100, PM_ERR_INPUT, "byte 2 is NUL");
  write_file(path, "", 0);
  st = pm_sources_load(&sources, path, SIZE_MAX, &file);
  assert_null(st);
  assert_int_equal(sources.files[file].len, 0);
  expect_failure(dir, 100, PM_ERR_INPUT, "is a directory");
  expect_failure("/dev/zero", 1 << 20, PM_ERR_LIMIT, "larger than the limit");
  assert_int_equal(unlink(path), 0);
  expect_failure(path, 100, PM_ERR_ENVIRONMENT, "No such file");
  assert_int_equal(rmdir(dir), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(lines_and_columns, set_up, tear_down),
      cmocka_unit_test_setup_teardown(empty_text, set_up, tear_down),
      cmocka_unit_test_setup_teardown(locations, set_up, tear_down),
      cmocka_unit_test_setup_teardown(byte_order_mark, set_up, tear_down),
      cmocka_unit_test_setup_teardown(files, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
