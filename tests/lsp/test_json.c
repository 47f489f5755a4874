// The reader of messages: what RFC 8259 allows, each thing that it refuses, and the limits.
#include <string.h>

#include "base/buf.h"
#include "harness.h"
#include "tools/lsp_json.h"

static const PmLspJson *read(PmArena *arena, const char *text, const char **out_why) {
  return pm_lsp_json_read(arena, text, strlen(text), out_why);
}

static int setup(void **state) {
  static PmArena arena;
  pm_arena_init(&arena, 0);
  *state = &arena;
  return 0;
}

static int teardown(void **state) {
  pm_arena_deinit(*state);
  return 0;
}

static void values(void **state) {
  const char *why;
  const PmLspJson *v =
      read(*state, " {\"a\": [1, -2.5e1, true, false, null], \"b\": {\"c\": \"d\"}, \"a\": 7, \"\": 0}\r\n\t", &why);
  assert_non_null(v);
  assert_null(why);
  const PmLspJson *a = pm_lsp_json_get(v, "a");
  assert_int_equal(a->kind, PM_LJ_ARRAY);
  assert_true(a->first->num == 1);
  assert_true(a->first->next->num == -25);
  assert_true(a->first->next->next->truth);
  assert_false(a->first->next->next->next->truth);
  assert_int_equal(a->first->next->next->next->next->kind, PM_LJ_NULL);
  assert_null(a->first->next->next->next->next->next);
  assert_string_equal(pm_lsp_json_str(pm_lsp_json_get(pm_lsp_json_get(v, "b"), "c")), "d");
  assert_non_null(pm_lsp_json_get(v, ""));
  assert_null(pm_lsp_json_get(v, "c"));
  assert_null(pm_lsp_json_get(a, "a"));
  assert_null(pm_lsp_json_get(NULL, "a"));
  assert_null(pm_lsp_json_str(NULL));
  assert_int_equal(read(*state, "[]", &why)->kind, PM_LJ_ARRAY);
}

static void strings(void **state) {
  const char *why;
  const PmLspJson *v =
      read(*state, "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\u00e9\\u20AC\\ud83d\\ude42\xc3\xa9\x7f\"", &why);
  assert_non_null(v);
  assert_string_equal(v->str, "\"\\/\b\f\n\r\tA\xc3\xa9\xe2\x82\xac\xf0\x9f\x99\x82\xc3\xa9\x7f");
  v = read(*state, "\"a\\u0000b\"", &why);
  assert_int_equal(v->len, 3);
  assert_memory_equal(v->str, "a\0b", 4);
  assert_null(pm_lsp_json_str(v));
}

static void whole_numbers(void **state) {
  const char *why;
  int64_t n;
  assert_true(pm_lsp_json_int(read(*state, "2147483647", &why), 0, INT32_MAX, &n));
  assert_int_equal(n, INT32_MAX);
  assert_false(pm_lsp_json_int(read(*state, "2147483648", &why), 0, INT32_MAX, &n));
  assert_false(pm_lsp_json_int(read(*state, "-1", &why), 0, INT32_MAX, &n));
  assert_false(pm_lsp_json_int(read(*state, "0.5", &why), 0, INT32_MAX, &n));
  assert_false(pm_lsp_json_int(read(*state, "1e300", &why), 0, INT32_MAX, &n));
  assert_false(pm_lsp_json_int(read(*state, "\"1\"", &why), 0, INT32_MAX, &n));
  assert_true(pm_lsp_json_int(read(*state, "1.0e2", &why), 0, INT32_MAX, &n));
  assert_int_equal(n, 100);
}

static void refusals(void **state) {
  static const struct {
    const char *text, *why;
  } cases[] = {
      {"", "expected a value"},
      {" ", "expected a value"},
      {"nul", "expected a value"},
      {"True", "expected a value"},
      {"NaN", "expected a value"},
      {"+1", "expected a value"},
      {".5", "expected a value"},
      {"'a'", "expected a value"},
      {"[1,]", "expected a value"},
      {"[", "expected a value"},
      {"[1", "expected `,` or the end of a list"},
      {"[1 2]", "expected `,` or the end of a list"},
      {"[1}", "expected `,` or the end of a list"},
      {"{\"a\" 1}", "expected `:`"},
      {"{a: 1}", "expected a string"},
      {"{\"a\": 1,}", "expected a string"},
      {"-", "a number without digits"},
      {"1.", "a number without digits"},
      {"1e", "a number without digits"},
      {"1e+", "a number without digits"},
      {"01", "text after the value"},
      {"1 1", "text after the value"},
      {"0x10", "text after the value"},
      {"nullx", "text after the value"},
      {"1e999", "a number past the range of doubles"},
      {"\"a", "a string without end"},
      {"\"a\\", "a string without end"},
      {"\"\\u12", "a string without end"},
      {"\"\\u12\"", "`\\u` needs four hexadecimal digits"},
      {"\"\\x\"", "an unknown escape"},
      {"\"\\ud800\"", "half of a surrogate pair"},
      {"\"\\ud800\\n\"", "half of a surrogate pair"},
      {"\"\\ud800\\u0041\"", "half of a surrogate pair"},
      {"\"\\udc00\"", "half of a surrogate pair"},
      {"\"a\nb\"", "a control character in a string"},
      {"\"\x80\"", "a string that is not UTF-8"},
      {"\"\xc0\x80\"", "a string that is not UTF-8"},
      {"\"\xed\xa0\x80\"", "a string that is not UTF-8"},
      {"\"\xe2\x82\"", "a string that is not UTF-8"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const char *why = NULL;
    if (read(*state, cases[i].text, &why)) fail_msg("`%s` was read", cases[i].text);
    if (strcmp(why, cases[i].why) != 0) fail_msg("`%s`: %s, expected %s", cases[i].text, why, cases[i].why);
  }
}

static void nul_bytes(void **state) {
  const char *why;
  assert_null(pm_lsp_json_read(*state, "1\0", 2, &why));
  assert_null(pm_lsp_json_read(*state, "\"\0\"", 3, &why));
  assert_string_equal(why, "a control character in a string");
}

// `n` times `text`.
static void repeat(PmBuf *b, const char *text, int32_t n) {
  for (int32_t i = 0; i < n; i++) pm_buf_puts(b, text);
}

static void limits(void **state) {
  const char *why;
  PmBuf b;
  pm_buf_init(&b);
  repeat(&b, "[", PM_LSP_JSON_MAX_DEPTH);
  repeat(&b, "]", PM_LSP_JSON_MAX_DEPTH);
  assert_non_null(read(*state, pm_buf_str(&b), &why));
  pm_buf_clear(&b);
  repeat(&b, "[", PM_LSP_JSON_MAX_DEPTH + 1);
  assert_null(read(*state, pm_buf_str(&b), &why));
  assert_string_equal(why, "values nest too deep");

  pm_buf_clear(&b);
  pm_buf_puts(&b, "[0");
  repeat(&b, ",0", PM_LSP_JSON_MAX_VALUES - 2);
  pm_buf_puts(&b, "]");
  assert_non_null(read(*state, pm_buf_str(&b), &why));
  b.len--;
  pm_buf_puts(&b, ",0]");
  assert_null(read(*state, pm_buf_str(&b), &why));
  assert_string_equal(why, "too many values");
  pm_buf_deinit(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(values, setup, teardown),
      cmocka_unit_test_setup_teardown(strings, setup, teardown),
      cmocka_unit_test_setup_teardown(whole_numbers, setup, teardown),
      cmocka_unit_test_setup_teardown(refusals, setup, teardown),
      cmocka_unit_test_setup_teardown(nul_bytes, setup, teardown),
      cmocka_unit_test_setup_teardown(limits, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
