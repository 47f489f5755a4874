// topk, slot_of and the exchanges of rows: the plan's results are the definition's, exactly.
#include "fixture.h"

#define HEAD                                                                                                         \
  "module local\naxis b 3\naxis s 5\naxis long 96\naxis prime 37\naxis e 8\naxis c 3\naxis es 48\naxis one 8\naxis " \
  "big 4096\n"

// Rounded operands have ties.
static void test_topk(void **state) {
  (void)state;
  check(HEAD
        "fn f body {\nparam %0 : f32[b:3, s:5, e:8]\n%1 = topk[e -> c](%0) : i32<e>[b:3, s:5, c:3]\n"
        "%2 = map.floor(%0) : f32[b:3, s:5, e:8]\n%3 = topk[e -> c](%2) : i32<e>[b:3, s:5, c:3]\n"
        "%4 = topk[s -> c](%2) : i32<s>[b:3, c:3, e:8]\n%5 = index[e](%2, %3) : f32[b:3, s:5, c:3]\n"
        "%6 = topk[b -> c](%0) : i32<b>[c:3, s:5, e:8]\nreturn %1, %3, %4, %5, %6\n}\n",
        0);
}

static void test_topk_of_a_row(void **state) {
  (void)state;
  check(HEAD "fn f body {\nparam %0 : f32[e:8]\n%1 = topk[e -> c](%0) : i32<e>[c:3]\nreturn %1\n}\n", 0);
}

// Indices outside of the axis take no slot; with 6 slots an element some positions find none.
static void test_slots(void **state) {
  (void)state;
  check(HEAD
        "fn f body {\nparam %0 : i32<e>[b:3, s:5, c:3]\nparam %1 : i32<e>[s:5]\nparam %2 : i32<e>[]\n"
        "param %3 : i32<e>[b:3, c:3]\n"
        "%4 = slot_of[e -> es](%0) : i32<es>[b:3, s:5, c:3]\n%5 = slot_of[e -> es](%1) : i32<es>[s:5]\n"
        "%6 = slot_of[e -> es](%2) : i32<es>[]\n%7 = slot_of[e -> one](%0) : i32<one>[b:3, s:5, c:3]\n"
        "%8 = slot_of[e -> big](%3) : i32<big>[b:3, c:3]\nreturn %4, %5, %6, %7, %8\n}\n",
        0);
}

static void test_long_axes(void **state) {
  (void)state;
  check(HEAD
        "fn f body {\nparam %0 : i32<e>[b:3, long:96, c:3]\nparam %1 : i32<e>[long:96]\nparam %2 : i32<e>[prime:37, "
        "c:3]\n"
        "%3 = slot_of[e -> big](%0) : i32<big>[b:3, long:96, c:3]\n%4 = slot_of[e -> es](%1) : i32<es>[long:96]\n"
        "%5 = slot_of[e -> es](%2) : i32<es>[prime:37, c:3]\nreturn %3, %4, %5\n}\n",
        0);
}

// Rows to their slots and back.
static void test_dispatch_and_combine(void **state) {
  (void)state;
  check(HEAD
        "axis d 4\nfn f body {\nparam %0 : i32<e>[b:3, s:5, c:3]\nparam %1 : f32[b:3, s:5, d:4]\n"
        "%2 = slot_of[e -> es](%0) : i32<es>[b:3, s:5, c:3]\n"
        "%3 = broadcast(%1) : f32[b:3, s:5, c:3, d:4]\n%4 = scatter_add[es](%2, %3) : f32[es:48, d:4]\n"
        "%5 = map.sin(%4) : f32[es:48, d:4]\n%6 = index[es](%5, %2) : f32[b:3, s:5, c:3, d:4]\nreturn %4, %6\n}\n",
        1e-6);
}

// The same on four ranks: counted where the positions are, moved to where the slots are; all of it exact.
static void test_ranks(void **state) {
  (void)state;
  Fixture fx;
  fixture_compile(
      &fx,
      "module local\naxis b 4\naxis s 5\naxis e 8\naxis c 3\naxis r 4\naxis d 4\naxis es 32\nmesh x 2\nmesh "
      "y 2\nfn f body {\nparam %0 : i32<e>[b:4/x+y, s:5, c:3]\nparam %1 : f32[b:4/x+y, d:4, s:5]\n"
      "%2 = slot_of[e -> es / x+y](%0) : i32<es>[b:4/x+y, s:5, c:3]\n"
      "%3 = broadcast(%1) : f32[d:4, b:4/x+y, s:5, c:3]\n"
      "%4 = scatter_rows[e, r / x+y](%2, %3) : f32[e:8/y, r:4/x, d:4]\n"
      "%5 = map.neg(%4) : f32[e:8/y, r:4/x, d:4]\n"
      "%6 = gather_rows[e, r / x+y](%5, %2) : f32[b:4/x+y, d:4, s:5, c:3]\n"
      "%7 = scatter_rows[e, r / x](%2, %6) : f32[d:4, r:4, e:8/x]{+y}\n"
      "%8 = all_reduce.sum[/ y](%7) : f32[d:4, r:4, e:8/x]\n"
      "%9 = gather_rows[e, r / x](%8, %2) : f32[b:4/x+y, s:5, c:3, d:4]\nreturn %2, %4, %6, %8, %9\n}\n");
  assert_int_equal(count_steps(&fx, PM_ENTRY_STEP, PM_STEP_SLOTS), 2);
  assert_int_equal(count_steps(&fx, PM_ENTRY_STEP, PM_STEP_COLL), 6);
  fixture_compare(&fx, 0);
  fixture_deinit(&fx);
}

// Half floats move as they are.
static void test_ranks_in_halves(void **state) {
  (void)state;
  check(
      "module local\naxis b 4\naxis e 8\naxis d 4\naxis es 32\nmesh x 2\nfn f body {\nparam %0 : i32<e>[b:4/x]\n"
      "param %1 : bf16[b:4/x, d:4]\n%2 = slot_of[e -> es / x](%0) : i32<es>[b:4/x]\n"
      "%3 = scatter_rows[es / x](%2, %1) : bf16[es:32/x, d:4]\n"
      "%4 = gather_rows[es / x](%3, %2) : bf16[b:4/x, d:4]\nreturn %3, %4\n}\n",
      0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_topk),
      cmocka_unit_test(test_topk_of_a_row),
      cmocka_unit_test(test_slots),
      cmocka_unit_test(test_long_axes),
      cmocka_unit_test(test_dispatch_and_combine),
      cmocka_unit_test(test_ranks),
      cmocka_unit_test(test_ranks_in_halves),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
