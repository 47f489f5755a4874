#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/diag.h"
#include "base/intern.h"
#include "base/utf8.h"
#include "harness.h"

static void buffer_appends(void **state) {
  (void)state;
  PmBuf b;
  pm_buf_init(&b);
  assert_string_equal(pm_buf_str(&b), "");
  pm_buf_put(&b, "", 0);
  pm_buf_puts(&b, "ab");
  pm_buf_putc(&b, 'c');
  pm_buf_printf(&b, "-%05d", 42);
  assert_string_equal(pm_buf_str(&b), "abc-00042");
  assert_int_equal(b.len, 9);
  for (int i = 0; i < 1000; i++) pm_buf_printf(&b, "%d,", i);
  assert_int_equal(b.len, 9 + 10 * 2 + 90 * 3 + 900 * 4);
  assert_int_equal(strlen(pm_buf_str(&b)), b.len);
  pm_buf_clear(&b);
  assert_string_equal(pm_buf_str(&b), "");
  pm_buf_put(&b, "a\0b", 3);
  assert_memory_equal(pm_buf_str(&b), "a\0b", 4);
  pm_buf_deinit(&b);
  assert_string_equal(pm_buf_str(&b), "");
}

static void shortest_doubles(void **state) {
  (void)state;
  static const struct {
    double value;
    const char *text;
  } cases[] = {
      {0.0, "0"},
      {-0.0, "-0"},
      {0.5, "0.5"},
      {1e-5, "1e-05"},
      {0.1, "0.1"},
      {1.0 / 3, "0.3333333333333333"},
      {0.1 + 0.2, "0.30000000000000004"},
      {1e300, "1e+300"},
      {INFINITY, "inf"},
      {-INFINITY, "-inf"},
      {NAN, "nan"},
      {5e-324, "4.94065645841247e-324"},
      {123456789.0, "123456789"},
  };
  PmBuf b;
  pm_buf_init(&b);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    pm_buf_clear(&b);
    pm_buf_put_f64(&b, cases[i].value);
    assert_string_equal(pm_buf_str(&b), cases[i].text);
    if (!isnan(cases[i].value)) assert_true(strtod(pm_buf_str(&b), NULL) == cases[i].value);
  }
  pm_buf_deinit(&b);
}

static void equal_text_has_one_address(void **state) {
  (void)state;
  PmArena a;
  pm_arena_init(&a, 0);
  PmInterner in;
  pm_interner_init(&in, &a);
  assert_null(pm_intern_find(&in, "embed"));
  const char *embed = pm_intern(&in, "embed");
  assert_ptr_equal(pm_intern_n(&in, "embedding", 5), embed);
  assert_ptr_equal(pm_intern_printf(&in, "em%s", "bed"), embed);
  assert_ptr_equal(pm_intern_find(&in, "embed"), embed);
  assert_null(pm_intern_find(&in, "embe"));
  assert_ptr_not_equal(pm_intern(&in, "embedding"), embed);
  assert_string_equal(pm_intern(&in, ""), "");
  assert_ptr_equal(pm_intern_n(&in, "x", 0), pm_intern(&in, ""));
  for (int i = 0; i < 20000; i++) pm_intern_printf(&in, "name%d", i);
  assert_ptr_equal(pm_intern(&in, "embed"), embed);
  for (int i = 0; i < 20000; i++) {
    char name[32];
    snprintf(name, sizeof name, "name%d", i);
    assert_string_equal(pm_intern_find(&in, name), name);
  }
  assert_int_equal(in.n_used, 20003);
  pm_arena_deinit(&a);
}

static void utf8_lengths(void **state) {
  (void)state;
  assert_int_equal(pm_utf8_len("a"), 1);
  assert_int_equal(pm_utf8_len("é"), 2);
  assert_int_equal(pm_utf8_len("→"), 3);
  assert_int_equal(pm_utf8_len("\xf0\x9f\x98\x80"), 4);
  static const char *const bad[] = {
      "\x80",     "\xc0\x80", "\xc3", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80",
      "\xe2\x86", "\xff",
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_int_equal(pm_utf8_len(bad[i]), 0);
}

static void nearest_names(void **state) {
  (void)state;
  static const char *const names[] = {"seq", "embed", "heads", "vocab", "set"};
  assert_string_equal(pm_did_you_mean("sqe", names, 5), "seq");
  assert_string_equal(pm_did_you_mean("embd", names, 5), "embed");
  assert_string_equal(pm_did_you_mean("head", names, 5), "heads");
  assert_string_equal(pm_did_you_mean("sez", names, 5), "seq");
  assert_null(pm_did_you_mean("tensor", names, 5));
  assert_null(pm_did_you_mean("", names, 5));
  assert_null(pm_did_you_mean("seq", names, 0));
  char *longer = calloc(1, 1 << 20);
  memset(longer, 's', (1 << 20) - 1);
  assert_null(pm_did_you_mean(longer, names, 5));
  assert_null(pm_did_you_mean("seq", (const char *const[]){longer}, 1));
  free(longer);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(buffer_appends), cmocka_unit_test(shortest_doubles),
      cmocka_unit_test(utf8_lengths),   cmocka_unit_test(equal_text_has_one_address),
      cmocka_unit_test(nearest_names),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
