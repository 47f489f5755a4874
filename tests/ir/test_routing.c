// topk and slot_of by hand, and what their type rules refuse.
#include "fixture.h"

#define HEAD "module logical\naxis t 4\naxis e 3\naxis c 2\naxis es 6\naxis e1 3\naxis x 5\n"
#define ARR(...) ((const double[]){__VA_ARGS__})
#define IN(...) ((const double *const[]){__VA_ARGS__})

static void check(const char *fn, const double *const *in, const double *const *want) {
  Fixture fx;
  PmBuf text;
  pm_buf_init(&text);
  pm_buf_printf(&text, HEAD "%s", fn);
  fixture_init(&fx);
  fixture_read(&fx, pm_buf_str(&text));
  fixture_run(&fx, "f", PM_INTERP_EXACT, in, want, 0);
  fixture_deinit(&fx);
  pm_buf_deinit(&text);
}

// Ties go to the lowest position.
static void test_topk(void **state) {
  (void)state;
  check(
      "fn f body {\nparam %0 : f32[t:4, e:3]\n%1 = topk[e -> c](%0) : i32<e>[t:4, c:2]\n"
      "%2 = topk[t -> c](%0) : i32<t>[c:2, e:3]\nreturn %1, %2\n}\n",
      IN(ARR(1, 2, 3, 5, 5, 5, -1, -3, -2, 0, 7, 7)), IN(ARR(2, 1, 0, 1, 0, 2, 1, 2), ARR(1, 3, 3, 0, 1, 1)));
}

// Slots in the order of the tokens, then of their choices; past two slots, or outside of the experts: -1.
static void test_slot_of(void **state) {
  (void)state;
  check(
      "fn f body {\nparam %0 : i32<e>[t:4, c:2]\n%1 = slot_of[e -> es](%0) : i32<es>[t:4, c:2]\n"
      "%2 = slot_of[e -> e1](%0) : i32<e1>[t:4, c:2]\nreturn %1, %2\n}\n",
      IN(ARR(1, 0, 1, 2, 0, 1, -1, 2)), IN(ARR(2, 0, 3, 4, 1, -1, -1, 5), ARR(1, 0, -1, 2, -1, -1, -1, -1)));
}

static void test_refusals(void **state) {
  (void)state;
  static const struct {
    const char *param, *node, *why;
  } rows[] = {
      {"f32[t:4, e:3]", "topk[t, e -> c](%0) : i32<e>[c:2]", "one axis"},
      {"f32[t:4, e:3]", "topk[x -> c](%0) : i32<x>[t:4, c:2]", "no axis x"},
      {"i32[t:4, e:3]", "topk[e -> c](%0) : i32<e>[t:4, c:2]", "floats"},
      {"f32[t:4, e:3]", "topk[e -> x](%0) : i32<e>[t:4, x:5]", "fewer elements"},
      {"f32[c:2, e:3]", "topk[e -> c](%0) : i32<e>[c:2]", "twice"},
      {"i32<t>[c:2]", "slot_of[e -> es](%0) : i32<es>[c:2]", "do not point"},
      {"f32[c:2]", "slot_of[e -> es](%0) : i32<es>[c:2]", "do not point"},
      {"i32<e>[c:2]", "slot_of[e -> x](%0) : i32<x>[c:2]", "equal number of slots"},
      {"i32<e>[c:2, e:3]", "slot_of[e -> es](%0) : i32<es>[c:2, e:3]", "axis e themselves"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    PmBuf text;
    pm_buf_init(&text);
    pm_buf_printf(&text, HEAD "fn f body {\nparam %%0 : %s\n%%1 = %s\nreturn %%1\n}\n", rows[i].param, rows[i].node);
    fixture_refuse(pm_buf_str(&text), rows[i].why);
    pm_buf_deinit(&text);
  }
  static const char local[] =
      "module local\nmesh m 2\naxis t 4\naxis e 2\naxis c 2\naxis es 8\nfn f body {\nparam %%0 : %s\n%%1 = %s\n"
      "return %%1\n}\n";
  static const char *const split[][2] = {
      {"f32[t:4, e:2/m]", "topk[e -> c](%0) : i32<e>[t:4, c:2]"},
      {"i32<e>[t:4/m]", "slot_of[e -> es](%0) : i32<es>[t:4/m]"},
      {"i32<e>[t:4]", "slot_of[e -> es / m](%0) : i32<es>[t:4]"},
      {"i32<e>[t:4/m, c:2]", "slot_of[e -> es](%0) : i32<es>[t:4/m, c:2]"},
      {"i32<e>[t:4, c:2/m]", "slot_of[e -> es / m](%0) : i32<es>[t:4, c:2/m]"},
      {"i32<e>[t:4, c:2/m]", "slot_of[e -> es](%0) : i32<es>[t:4, c:2/m]"},
  };
  for (size_t i = 0; i < sizeof split / sizeof split[0]; i++) {
    PmBuf text;
    pm_buf_init(&text);
    pm_buf_printf(&text, local, split[i][0], split[i][1]);
    fixture_refuse(pm_buf_str(&text), "is split");
    pm_buf_deinit(&text);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_topk),
      cmocka_unit_test(test_slot_of),
      cmocka_unit_test(test_refusals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
