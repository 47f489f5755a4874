// Collectives, shards and offsets: every rank runs the one program.
#include "fixture.h"

#define HEAD "module local\naxis b 4\naxis e 8\naxis f 8\naxis v 8\naxis h 4\naxis d 2\nmesh x 2\nmesh y 2\n"

static void test_column_then_row(void **state) {
  (void)state;
  Fixture fx;
  fixture_compile(
      &fx, HEAD
      "fn f body {\nparam %0 : f32[b:4/y, e:8]\nparam %1 : f32[e:8, f:8/x]\nparam %2 : f32[f:8/x, h:4]\n"
      "%3 = dot[e](%0, %1) : f32[b:4/y, f:8/x]\n%4 = map.tanh(%3) : f32[b:4/y, f:8/x]\n"
      "%5 = dot[f](%4, %2) : f32[b:4/y, h:4]{+x}\n%6 = all_reduce.sum[/ x](%5) : f32[b:4/y, h:4]\nreturn %6, %3\n}\n");
  assert_int_equal(count_steps(&fx, PM_ENTRY_STEP, PM_STEP_COLL), 1);
  assert_int_equal(count_steps(&fx, PM_ENTRY_STEP, PM_STEP_KERNEL), 1);
  const PmColl *c = fx.p->entries[PM_ENTRY_STEP].steps[3].u.coll;
  assert_int_equal(c->src.offset, c->dst.offset);  // nothing else reads the operand
  fixture_compare(&fx, 1e-5);
  fixture_deinit(&fx);
}

static void test_moves(void **state) {
  (void)state;
  check(HEAD
        "fn f body {\nparam %0 : f32[b:4/y+x, e:8]\n"
        "%1 = all_gather[b / x](%0) : f32[b:4/y, e:8]\n%2 = all_gather[b / y+x](%0) : f32[b:4, e:8]\n"
        "%3 = all_to_all[b -> e / x](%0) : f32[b:4/y, e:8/x]\n%4 = all_to_all[b -> e / y+x](%0) : f32[b:4, e:8/y+x]\n"
        "%5 = slice[e / x](%1) : f32[b:4/y, e:8/x]\n%6 = all_gather[e / x](%3) : f32[b:4/y, e:8]\n"
        "%7 = map.add(%6, %1) : f32[b:4/y, e:8]\n%8 = permute[/ y+x](%0) : f32[b:4/x+y, e:8]\n"
        "%9 = permute[/ y+x](%1) : f32[b:4/x, e:8]\nreturn %1, %2, %3, %4, %5, %6, %7, %8, %9\n}\n",
        0);
}

static void test_reduce_scatter(void **state) {
  (void)state;
  check(HEAD
        "fn f body {\nparam %0 : f32[b:4/x, e:8]\nparam %1 : f32[b:4/x, h:4]\n%2 = dot[b](%0, %1) : f32[e:8, h:4]{+x}\n"
        "%3 = reduce_scatter.sum[h / x](%2) : f32[e:8, h:4/x]\n%4 = reduce_scatter.sum[e / x](%2) : f32[e:8/x, h:4]\n"
        "%5 = reduce.max[b](%0) : f32[e:8]{max x}\n%6 = all_reduce.max[/ x](%5) : f32[e:8]\nreturn %3, %4, %6\n}\n",
        1e-5);
}

static void test_vocabulary(void **state) {
  (void)state;
  check(HEAD
        "fn f body {\nparam %0 : f32[v:8/x, e:8]\nparam %1 : i32<v>[b:4/y]\nparam %2 : f32[b:4/y, v:8/x]\n"
        "%3 = index[v](%0, %1) : f32[b:4/y, e:8]{+x}\n%4 = all_reduce.sum[/ x](%3) : f32[b:4/y, e:8]\n"
        "%5 = scatter_add[v](%1, %4) : f32[v:8/x, e:8]{+y}\n%6 = all_reduce.sum[/ y](%5) : f32[v:8/x, e:8]\n"
        "%7 = reduce.sum[e](%4) : f32[b:4/y]\n%8 = scatter_add[v](%1, %7) : f32[b:4/y, v:8/x]\n"
        "%9 = map.add(%8, %2) : f32[b:4/y, v:8/x]\nreturn %4, %6, %9\n}\n",
        1e-5);
}

// Positions are global: inline, from a table, and in both at once.
static void test_positions(void **state) {
  (void)state;
  check(HEAD
        "fn f body {\nparam %0 : f32[b:4/y, e:8/x]\n%1 = pos[e] : f64[e:8/x]\n%2 = const 3 : f64[]\n"
        "%3 = broadcast(%2) : f64[e:8/x]\n%4 = map.ge(%1, %3) : bool[e:8/x]\n%5 = broadcast(%4) : bool[b:4/y, e:8/x]\n"
        "%6 = map.neg(%0) : f32[b:4/y, e:8/x]\n%7 = map.where(%5, %0, %6) : f32[b:4/y, e:8/x]\n"
        "%8 = map.sin(%1) : f64[e:8/x]\n%9 = cast(%8) : f32[e:8/x]\n%10 = broadcast(%9) : f32[b:4/y, e:8/x]\n"
        "%11 = map.mul(%7, %10) : f32[b:4/y, e:8/x]\nreturn %11, %1\n}\n",
        1e-6);
}

// Two slices of one value have the same axes with other extents: one kernel cannot walk both.
static void test_slices_along_two_axes(void **state) {
  (void)state;
  check(HEAD
        "fn f body {\nparam %0 : f32[b:4, e:8]\n%1 = slice[b / x](%0) : f32[b:4/x, e:8]\n"
        "%2 = slice[e / x](%0) : f32[b:4, e:8/x]\n%3 = map.tanh(%1) : f32[b:4/x, e:8]\n"
        "%4 = map.tanh(%2) : f32[b:4, e:8/x]\nreturn %3, %4\n}\n",
        1e-6);
}

// The two orders of a split: positions, random numbers of global elements, and every way between.
static void test_zigzag(void **state) {
  (void)state;
  check(HEAD
        "fn f body {\nparam %0 : f32[b:4, e:8/x~zigzag]\n%1 = all_gather[e / x](%0) : f32[b:4, e:8]\n"
        "%2 = all_to_all[e -> b / x](%0) : f32[b:4/x, e:8]\n%3 = slice[e / x](%1) : f32[b:4, e:8/x]\n"
        "%4 = slice[e / x~zigzag](%1) : f32[b:4, e:8/x~zigzag]\n%5 = slice[e / y](%4) : f32[b:4, e:8/x~zigzag+y]\n"
        "%6 = all_to_all[b -> e / x~zigzag](%2) : f32[b:4, e:8/x~zigzag]\n"
        "%7 = map.tanh(%6) : f32[b:4, e:8/x~zigzag]\nreturn %1, %2, %3, %4, %5, %6, %7\n}\n",
        1e-6);
  check(HEAD
        "fn f body {\nparam %0 : f32[b:4/x, e:8]\nparam %1 : f32[b:4/x, h:4]\n%2 = dot[b](%0, %1) : f32[e:8, h:4]{+x}\n"
        "%3 = reduce_scatter.sum[h / x~zigzag](%2) : f32[e:8, h:4/x~zigzag]\n"
        "%4 = reduce_scatter.sum[e / x~zigzag](%2) : f32[e:8/x~zigzag, h:4]\nreturn %3, %4\n}\n",
        1e-5);
  check(HEAD
        "fn f body {\nparam %0 : f32[b:4, e:8/x~zigzag]\nparam %1 : f32[b:4, f:8/x~zigzag+y]\n"
        "%2 = pos[e] : f64[e:8/x~zigzag]\n%3 = cast(%2) : f32[e:8/x~zigzag]\n"
        "%4 = broadcast(%3) : f32[b:4, e:8/x~zigzag]\n%5 = map.mul(%0, %4) : f32[b:4, e:8/x~zigzag]\n"
        "%6 = pos[f] : f64[f:8/x~zigzag+y]\n%7 = map.sin(%6) : f64[f:8/x~zigzag+y]\n"
        "%8 = cast(%7) : f32[f:8/x~zigzag+y]\n%9 = broadcast(%8) : f32[b:4, f:8/x~zigzag+y]\n"
        "%10 = map.mul(%1, %9) : f32[b:4, f:8/x~zigzag+y]\n%11 = const 1 : f64[]\n"
        "%12 = random[= 5](%11) : f32[b:4, e:8/x~zigzag]\n%13 = map.add(%5, %12) : f32[b:4, e:8/x~zigzag]\n"
        "%14 = random[= 5](%11) : f32[b:4, f:8/x~zigzag+y]\n%15 = map.add(%10, %14) : f32[b:4, f:8/x~zigzag+y]\n"
        "return %13, %15, %2\n}\n",
        1e-6);
}

static void test_shift(void **state) {
  (void)state;
  check(HEAD
        "axis part 2\nfn f body {\nparam %0 : f32[b:4, e:8/x+y]\n%1 = shift[/ x](%0) : f32[b:4, e:8/x+y]\n"
        "%2 = shift[/ x+y](%1) : f32[b:4, e:8/x+y]\n%3 = local[e -> part](%2) : f32[b:4, part:2]\n"
        "%4 = shift[/ y](%3) : f32[b:4, part:2]\n%5 = map.tanh(%4) : f32[b:4, part:2]\n"
        "%6 = local[part -> e](%5) : f32[b:4, e:8/x+y]\nreturn %1, %2, %6\n}\n",
        1e-6);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_column_then_row), cmocka_unit_test(test_moves),
      cmocka_unit_test(test_reduce_scatter),  cmocka_unit_test(test_vocabulary),
      cmocka_unit_test(test_positions),       cmocka_unit_test(test_slices_along_two_axes),
      cmocka_unit_test(test_zigzag),          cmocka_unit_test(test_shift),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
