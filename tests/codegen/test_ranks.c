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

// Of a bucket each result takes the place of its operand, if nothing else reads that: of the four not that of the
// second, which is returned too, nor of the third, a view of it.
static void test_bucket(void **state) {
  (void)state;
  Fixture fx;
  fixture_compile(&fx, HEAD
                  "fn f body {\nparam %0 : f32[b:4/x, e:8]\nparam %1 : f32[b:4/x, h:4]\n"
                  "%2 = dot[b](%0, %1) : f32[e:8, h:4]{+x}\n%3 = reduce.sum[b](%0) : f32[e:8]{+x}\n"
                  "%4 = reduce.sum[b](%1) : f32[h:4]{+x}\n%5 = rename[e -> f](%3) : f32[f:8]{+x}\n"
                  "%6, %7, %8, %9 = all_reduce.sum[/ x](%2, %3, %5, %4) : f32[e:8, h:4], f32[e:8], f32[f:8], f32[h:4]\n"
                  "%10 = map.mul(%9, %9) : f32[h:4]\n%11 = all_reduce.sum[/ x](%3) : f32[e:8]\n"
                  "%12 = map.neg(%11) : f32[e:8]\nreturn %6, %7, %8, %10, %12\n}\n");
  assert_int_equal(count_steps(&fx, PM_ENTRY_STEP, PM_STEP_COLL), 2);
  const PmEntry *e = &fx.p->entries[PM_ENTRY_STEP];
  int32_t n_buckets = 0;
  for (int32_t i = 0; i < e->n_steps; i++) {
    const PmColl *c = e->steps[i].kind == PM_STEP_COLL ? e->steps[i].u.coll : NULL;
    if (!c || c->n_more == 0) continue;
    static const int64_t counts[] = {32, 8, 8, 4};
    n_buckets++;
    assert_int_equal(c->n_more, 3);
    for (int32_t k = 0; k < 4; k++) {
      const PmCollPart part = pm_coll_part(c, k);
      assert_int_equal(part.count, counts[k]);
      assert_int_equal(part.src.offset == part.dst.offset, k == 0 || k == 3);
    }
    assert_true(e->steps[i].bytes == 2 * (32 + 8 + 8 + 4) * 4);
  }
  assert_int_equal(n_buckets, 1);
  fixture_compare(&fx, 1e-5);
  fixture_deinit(&fx);
}

// Gradients that a repeat stacks make room too: it is not read again. What it carries may lie anywhere.
static void test_bucket_of_repeat(void **state) {
  (void)state;
  Fixture fx;
  fixture_compile(&fx, HEAD
                  "fn g body {\nparam %0 : f32[e:8]{+x}\nparam %1 : f32[b:4/x, e:8]\n"
                  "%2 = reduce.sum[b](%1) : f32[e:8]{+x}\n%3 = map.add(%0, %2) : f32[e:8]{+x}\n"
                  "return %3, %2\n}\n"
                  "fn f body {\nparam %0 : f32[d:2, b:4/x, e:8]\n%1 = reduce.sum[d, b](%0) : f32[e:8]{+x}\n"
                  "%2, %3 = repeat[d] @g carry=1 inv=0 (%1, %0) : f32[e:8]{+x}, f32[d:2, e:8]{+x}\n"
                  "%4, %5 = all_reduce.sum[/ x](%2, %3) : f32[e:8], f32[d:2, e:8]\nreturn %4, %5\n}\n");
  assert_int_equal(count_steps(&fx, PM_ENTRY_STEP, PM_STEP_COLL), 1);
  const PmEntry *e = &fx.p->entries[PM_ENTRY_STEP];
  for (int32_t i = 0; i < e->n_steps; i++) {
    if (e->steps[i].kind != PM_STEP_COLL) continue;
    const PmColl *c = e->steps[i].u.coll;
    assert_int_equal(c->n_more, 1);
    assert_int_not_equal(c->src.offset, c->dst.offset);
    assert_int_equal(c->more[0].src.offset, c->more[0].dst.offset);
  }
  fixture_compare(&fx, 1e-5);
  fixture_deinit(&fx);
}

// A carried value that a body hands on, and stacks as it comes, lives in the stack: that gives no room.
static void test_bucket_of_stacked_carry(void **state) {
  (void)state;
  check(HEAD
        "fn g body {\nparam %0 : f32[e:8]{+x}\nparam %1 : f32[b:4/x, e:8]\n"
        "%2 = reduce.sum[b](%1) : f32[e:8]{+x}\nreturn %0, %0, %2\n}\n"
        "fn f body {\nparam %0 : f32[d:2, b:4/x, e:8]\n%1 = reduce.sum[d, b](%0) : f32[e:8]{+x}\n"
        "%2, %3, %4 = repeat[d] @g carry=1 inv=0 (%1, %0) : f32[e:8]{+x}, f32[d:2, e:8]{+x}, f32[d:2, e:8]{+x}\n"
        "%5, %6 = all_reduce.sum[/ x](%3, %4) : f32[d:2, e:8], f32[d:2, e:8]\n%7 = all_reduce.sum[/ x](%2) : f32[e:8]\n"
        "%8 = map.add(%7, %7) : f32[e:8]\nreturn %5, %6, %7, %8\n}\n",
        1e-5);
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
      cmocka_unit_test(test_column_then_row),
      cmocka_unit_test(test_bucket),
      cmocka_unit_test(test_bucket_of_repeat),
      cmocka_unit_test(test_bucket_of_stacked_carry),
      cmocka_unit_test(test_moves),
      cmocka_unit_test(test_reduce_scatter),
      cmocka_unit_test(test_vocabulary),
      cmocka_unit_test(test_positions),
      cmocka_unit_test(test_slices_along_two_axes),
      cmocka_unit_test(test_zigzag),
      cmocka_unit_test(test_shift),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
