#include <math.h>

#include "base/json.h"
#include "child.h"

static void write_sample(PmJson *j) {
  pm_json_object(j);
  pm_json_key(j, "name");
  pm_json_str(j, "mlp");
  pm_json_key(j, "sizes");
  pm_json_array(j);
  pm_json_i64(j, INT64_MIN);
  pm_json_i64(j, INT64_MAX);
  pm_json_end_array(j);
  pm_json_key(j, "empty");
  pm_json_object(j);
  pm_json_end_object(j);
  pm_json_key(j, "none");
  pm_json_array(j);
  pm_json_end_array(j);
  pm_json_key(j, "values");
  pm_json_array(j);
  pm_json_f64(j, 0.1);
  pm_json_f64(j, NAN);
  pm_json_f64(j, -INFINITY);
  pm_json_bool(j, true);
  pm_json_bool(j, false);
  pm_json_null(j);
  pm_json_end_array(j);
  pm_json_end_object(j);
}

static void compact(void **state) {
  (void)state;
  PmBuf b;
  PmJson j;
  pm_buf_init(&b);
  pm_json_init(&j, &b, false);
  write_sample(&j);
  assert_string_equal(pm_buf_str(&b),
                      "{\"name\":\"mlp\",\"sizes\":[-9223372036854775808,9223372036854775807],\"empty\":{},\"none\":[],"
                      "\"values\":[0.1,null,null,true,false,null]}");
  pm_buf_deinit(&b);
}

static void pretty(void **state) {
  (void)state;
  PmBuf b;
  PmJson j;
  pm_buf_init(&b);
  pm_json_init(&j, &b, true);
  write_sample(&j);
  assert_string_equal(pm_buf_str(&b),
                      "{\n"
                      "  \"name\": \"mlp\",\n"
                      "  \"sizes\": [\n"
                      "    -9223372036854775808,\n"
                      "    9223372036854775807\n"
                      "  ],\n"
                      "  \"empty\": {},\n"
                      "  \"none\": [],\n"
                      "  \"values\": [\n"
                      "    0.1,\n"
                      "    null,\n"
                      "    null,\n"
                      "    true,\n"
                      "    false,\n"
                      "    null\n"
                      "  ]\n"
                      "}");
  pm_buf_deinit(&b);
}

static void escapes(void **state) {
  (void)state;
  PmBuf b;
  PmJson j;
  pm_buf_init(&b);
  pm_json_init(&j, &b, false);
  pm_json_array(&j);
  pm_json_str(&j, "\"\\\b\f\n\r\t\x01\x1f\x7f/");
  pm_json_str(&j, "caf\xc3\xa9 \xe2\x86\x92");
  pm_json_str(&j, "bad\xff\xc3 end\xe2\x86");
  pm_json_end_array(&j);
  assert_string_equal(pm_buf_str(&b),
                      "[\"\\\"\\\\\\b\\f\\n\\r\\t\\u0001\\u001f\\u007f/\",\"caf\xc3\xa9 \xe2\x86\x92\","
                      "\"bad\\ufffd\\ufffd end\\ufffd\\ufffd\"]");
  pm_buf_deinit(&b);
}

static void nests_to_63(void **state) {
  (void)state;
  PmBuf b;
  PmJson j;
  pm_buf_init(&b);
  pm_json_init(&j, &b, false);
  for (int i = 0; i < 63; i++) {
    if (i) pm_json_i64(&j, 1);
    pm_json_array(&j);
  }
  for (int i = 0; i < 63; i++) pm_json_end_array(&j);
  assert_int_equal(b.len, 63 * 2 + 62 * 2);
  pm_buf_deinit(&b);
}

static void too_deep(void) {
  PmBuf b;
  PmJson j;
  pm_buf_init(&b);
  pm_json_init(&j, &b, false);
  for (int i = 0; i < 64; i++) pm_json_array(&j);
}

static void unbalanced(void) {
  PmBuf b;
  PmJson j;
  pm_buf_init(&b);
  pm_json_init(&j, &b, false);
  pm_json_end_object(&j);
}

static void misuse_is_an_assert(void **state) {
  (void)state;
  assert_int_equal(child_exit_code(too_deep, NULL, 0), 70);
  assert_int_equal(child_exit_code(unbalanced, NULL, 0), 70);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(compact),
      cmocka_unit_test(pretty),
      cmocka_unit_test(escapes),
      cmocka_unit_test(nests_to_63),
      cmocka_unit_test(misuse_is_an_assert),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
