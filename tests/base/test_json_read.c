#include "base/json_read.h"

#include <math.h>
#include <string.h>

#include "base/buf.h"
#include "harness.h"

static PmArena arena;

static const PmJsonValue *good(const char *text) {
  const PmJsonValue *v;
  PmJsonError error;
  if (!pm_json_read(&arena, text, strlen(text), false, &v, &error))
    fail_msg("%s: %s at %d", text, error.message, error.at);
  return v;
}

static void bad(const char *text, int32_t at, const char *message) {
  const PmJsonValue *v;
  PmJsonError error;
  if (pm_json_read(&arena, text, strlen(text), false, &v, &error)) fail_msg("%s was read", text);
  assert_string_equal(error.message, message);
  if (error.at != at) fail_msg("%s: at %d, expected %d", text, error.at, at);
}

static void values(void **state) {
  (void)state;
  const PmJsonValue *v =
      good(" { \"a\" : [1, -2.5e1, true, false, null] , \"b\":{\"c\":\"x\"}, \"d\":[], \"e\":{} }\n");
  assert_int_equal(v->kind, PM_JSON_OBJECT);
  const PmJsonValue *a = pm_json_get(v, "a"), *i = a->first;
  assert_int_equal(a->kind, PM_JSON_ARRAY);
  assert_int_equal(i->kind, PM_JSON_INT);
  assert_int_equal(i->integer, 1);
  i = i->next;
  assert_int_equal(i->kind, PM_JSON_REAL);
  assert_true(fabs(i->real + 25.0) < 1e-12);
  i = i->next;
  assert_true(i->kind == PM_JSON_BOOL && i->flag);
  i = i->next;
  assert_true(i->kind == PM_JSON_BOOL && !i->flag);
  i = i->next;
  assert_true(i->kind == PM_JSON_NULL && !i->next);
  assert_string_equal(pm_json_get(pm_json_get(v, "b"), "c")->str, "x");
  assert_null(pm_json_get(v, "d")->first);
  assert_null(pm_json_get(v, "e")->first);
  assert_null(pm_json_get(v, "f"));
  assert_null(pm_json_get(a, "a"));
  assert_null(pm_json_get(NULL, "a"));
  assert_null(pm_json_text(NULL));
  assert_null(pm_json_text(a));
  assert_non_null(pm_json_get(good("{\"\":0}"), ""));
  assert_int_equal(pm_json_get(v, "b")->key_lo, 42);
}

static void numbers(void **state) {
  (void)state;
  assert_true(good("9223372036854775807")->integer == INT64_MAX);
  assert_true(good("-9223372036854775808")->integer == INT64_MIN);
  assert_int_equal(good("9223372036854775808")->kind, PM_JSON_REAL);
  assert_int_equal(good("1.0")->kind, PM_JSON_REAL);
  assert_int_equal(good("-0")->kind, PM_JSON_INT);
  assert_true(good("1e-999")->real >= 0);
  bad("1e999", 0, "a number is out of range");
  bad("01", 0, "a number begins with a 0");
  bad("-", 1, "a digit is missing");
  bad("1.", 2, "a digit is missing behind the point");
  bad("1e+", 3, "a digit is missing in the exponent");
  bad("+1", 0, "a value should stand here");
  bad(".5", 0, "a value should stand here");
  bad("NaN", 0, "a value should stand here");
  bad("0x10", 1, "something stands behind the value");
}

static void whole_numbers(void **state) {
  (void)state;
  int64_t n;
  assert_true(pm_json_whole(good("2147483647"), 0, INT32_MAX, &n));
  assert_int_equal(n, INT32_MAX);
  assert_false(pm_json_whole(good("2147483648"), 0, INT32_MAX, &n));
  assert_false(pm_json_whole(good("-1"), 0, INT32_MAX, &n));
  assert_false(pm_json_whole(good("0.5"), 0, INT32_MAX, &n));
  assert_false(pm_json_whole(good("1e300"), INT64_MIN, INT64_MAX, &n));
  assert_false(pm_json_whole(good("9223372036854775808"), INT64_MIN, INT64_MAX, &n));
  assert_false(pm_json_whole(good("\"1\""), 0, INT32_MAX, &n));
  assert_false(pm_json_whole(NULL, 0, INT32_MAX, &n));
  assert_true(pm_json_whole(good("1.0e2"), 0, INT32_MAX, &n));
  assert_int_equal(n, 100);
}

// Where the caller takes them, and in values only.
static void nul_in_strings(void **state) {
  (void)state;
  const PmJsonValue *v;
  PmJsonError error;
  assert_true(pm_json_read(&arena, "\"a\\u0000b\"", 10, true, &v, &error));
  assert_int_equal(v->str_len, 3);
  assert_memory_equal(v->str, "a\0b", 4);
  assert_null(pm_json_text(v));
  assert_string_equal(pm_json_text(good("\"ab\"")), "ab");
  assert_false(pm_json_read(&arena, "{\"a\\u0000\":1}", 13, true, &v, &error));
  assert_string_equal(error.message, "a NUL inside a string");
}

static void strings(void **state) {
  (void)state;
  assert_string_equal(good("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"")->str, "\"\\/\b\f\n\r\t");
  assert_string_equal(good("\"\\u0041\\u00e9\\u20AC\\ud83d\\ude00\"")->str, "A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
  assert_string_equal(good("\"\"")->str, "");
  bad("\"abc", 0, "a string does not end");
  bad("\"\\", 1, "an unknown escape");
  bad("\"\\x\"", 1, "an unknown escape");
  bad("\"\\u12g4\"", 5, "`\\u` needs four hexadecimal digits");
  bad("\"\\u0000\"", 1, "a NUL inside a string");
  bad("\"\\ud83d\"", 1, "half of a surrogate pair");
  bad("\"\\ud83d\\u0041\"", 1, "half of a surrogate pair");
  bad("\"\\ude00\"", 1, "half of a surrogate pair");
  bad("\"\n\"", 1, "a control character inside a string");
  bad("\"\\ud800\\n\"", 1, "half of a surrogate pair");
  bad("\"\xff\"", 1, "bytes that are no UTF-8");
  bad("\"\xc0\x80\"", 1, "bytes that are no UTF-8");
  bad("\"\xed\xa0\x80\"", 1, "bytes that are no UTF-8");
  bad("\"\xe2\x82\"", 1, "bytes that are no UTF-8");
}

static void structure(void **state) {
  (void)state;
  bad("", 0, "the text ends too early");
  bad("tru", 0, "a value should stand here");
  bad("truex", 4, "something stands behind the value");
  bad("[1,]", 3, "a value should stand here");
  bad("[1 2]", 3, "`,` or `]` should stand here");
  bad("[1", 2, "`,` or `]` should stand here");
  bad("{\"a\":1,}", 7, "a key in quotes should stand here");
  bad("{a:1}", 1, "a key in quotes should stand here");
  bad("{\"a\" 1}", 5, "a `:` is missing behind the key");
  bad("{\"a\":1 \"b\":2}", 7, "`,` or `}` should stand here");
  bad("{\"a\":1,\"\\u0061\":2}", 7, "the key stands here a second time");
  bad("// x\n1", 0, "a value should stand here");
  bad("1 1", 2, "something stands behind the value");
}

// A NUL in the text is a byte like any other that may not stand there.
static void nul_in_text(void **state) {
  (void)state;
  const PmJsonValue *v;
  PmJsonError error;
  assert_false(pm_json_read(&arena, "1\0", 2, true, &v, &error));
  assert_false(pm_json_read(&arena, "\"a\0b\"", 5, true, &v, &error));
  assert_false(pm_json_read(&arena, "[\0]", 3, true, &v, &error));
}

static void limits(void **state) {
  (void)state;
  PmBuf text;
  pm_buf_init(&text);
  for (int i = 0; i < PM_JSON_MAX_DEPTH; i++) pm_buf_putc(&text, '[');
  for (int i = 0; i < PM_JSON_MAX_DEPTH; i++) pm_buf_putc(&text, ']');
  good(pm_buf_str(&text));
  pm_buf_clear(&text);
  for (int i = 0; i < 1000000; i++) pm_buf_putc(&text, '[');
  bad(pm_buf_str(&text), PM_JSON_MAX_DEPTH, "values nest more than 64 deep");
  pm_buf_clear(&text);
  pm_buf_puts(&text, "[0");
  for (int i = 0; i < PM_JSON_MAX_VALUES - 2; i++) pm_buf_puts(&text, ",0");
  pm_buf_putc(&text, ']');
  good(pm_buf_str(&text));
  pm_buf_clear(&text);
  pm_buf_puts(&text, "[0");
  for (int i = 0; i < PM_JSON_MAX_VALUES - 1; i++) pm_buf_puts(&text, ",0");
  pm_buf_putc(&text, ']');
  bad(pm_buf_str(&text), 2 * PM_JSON_MAX_VALUES - 1, "more than 16384 values");
  pm_buf_deinit(&text);
}

static int setup(void **state) {
  (void)state;
  pm_arena_init(&arena, 0);
  return 0;
}

static int teardown(void **state) {
  (void)state;
  pm_arena_deinit(&arena);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(values),      cmocka_unit_test(whole_numbers), cmocka_unit_test(nul_in_strings),
      cmocka_unit_test(numbers),     cmocka_unit_test(strings),       cmocka_unit_test(structure),
      cmocka_unit_test(nul_in_text), cmocka_unit_test(limits),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
