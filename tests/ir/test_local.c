// Stage LOCAL: the ranks run in lockstep, and a placed program gives what the whole one gives.
#include "fixture.h"

#include <stdlib.h>

#define AXES "axis b 4\naxis e 8\naxis f 8\naxis g 4\naxis v 8\naxis h 4\naxis d 2\n"
#define LOCAL "module local\n" AXES "mesh x 2\nmesh y 2\nmesh z 3\n"
#define LOGICAL "module logical\n" AXES

// Both functions `f` get the same whole inputs, small integers, so that sums are exact in any order.
static void same(const char *whole, const char *local) {
  Fixture a, b;
  fixture_init(&a);
  fixture_init(&b);
  fixture_read(&a, whole);
  fixture_read(&b, local);
  const PmFn *f = pm_fn(a.m, pm_module_find_fn(a.m, "f"));
  const double *in[8], *want[8];
  PmTensor args[8], out[8];
  uint64_t seed = 3;
  for (int32_t i = 0; i < f->n_params; i++) {
    args[i] = pm_tensor_new(&a.arena, a.m, &f->values[i].type);
    for (int64_t k = 0; k < args[i].n; k++) {
      seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
      args[i].data[k] = (double)((seed >> 40) % 9);
      if (f->values[i].type.dtype == PM_I32) args[i].data[k] = (double)((seed >> 40) % 8);
    }
    in[i] = args[i].data;
  }
  PmStatus *st = pm_interp_run(a.m, pm_module_find_fn(a.m, "f"), PM_INTERP_EXACT, &a.arena, args, out);
  if (st) fail_msg("%s", pm_status_message(st));
  for (int32_t i = 0; i < f->n_results; i++) want[i] = out[i].data;
  fixture_run(&b, "f", PM_INTERP_EXACT, in, want, 0);
  fixture_deinit(&a);
  fixture_deinit(&b);
}

static void test_row_split(void **state) {
  (void)state;
  same(LOGICAL
       "fn f body {\nparam %0 : f32[b:4, e:8]\nparam %1 : f32[e:8, f:8]\n"
       "%2 = dot[e](%0, %1) : f32[b:4, f:8]\nreturn %2, %2\n}\n",
       LOCAL
       "fn f body {\nparam %0 : f32[b:4, e:8/x]\nparam %1 : f32[e:8/x, f:8]\n"
       "%2 = dot[e](%0, %1) : f32[b:4, f:8]{+x}\n%3 = all_reduce.sum[/ x](%2) : f32[b:4, f:8]\nreturn %3, %2\n}\n");
}

// Megatron: a column split, then a row split, batch over another mesh axis.
static void test_column_then_row(void **state) {
  (void)state;
  same(LOGICAL
       "fn f body {\nparam %0 : f32[b:4, e:8]\nparam %1 : f32[e:8, f:8]\nparam %2 : f32[f:8, g:4]\n"
       "%3 = dot[e](%0, %1) : f32[b:4, f:8]\n%4 = dot[f](%3, %2) : f32[b:4, g:4]\n"
       "%5 = reduce.sum[b](%4) : f32[g:4]\nreturn %4, %5\n}\n",
       LOCAL
       "fn f body {\nparam %0 : f32[b:4/y, e:8]\nparam %1 : f32[e:8, f:8/x]\nparam %2 : f32[f:8/x, g:4]\n"
       "%3 = dot[e](%0, %1) : f32[b:4/y, f:8/x]\n%4 = dot[f](%3, %2) : f32[b:4/y, g:4]{+x}\n"
       "%5 = reduce_scatter.sum[g / x](%4) : f32[b:4/y, g:4/x]\n%6 = all_gather[g / x](%5) : f32[b:4/y, g:4]\n"
       "%7 = reduce.sum[b](%5) : f32[g:4/x]{+y}\nreturn %6, %7\n}\n");
}

static void test_moves(void **state) {
  (void)state;
  // Two mesh axes on one dim, in both orders; moves between dims; every result equals the input.
  same(LOGICAL
       "fn f body {\nparam %0 : f32[b:4, e:8]\n"
       "return %0, %0, %0, %0, %0, %0, %0\n}\n",
       LOCAL
       "fn f body {\nparam %0 : f32[b:4/y+x, e:8]\n"
       "%1 = all_gather[b / x](%0) : f32[b:4/y, e:8]\n%2 = all_gather[b / y+x](%0) : f32[b:4, e:8]\n"
       "%3 = all_to_all[b -> e / x](%0) : f32[b:4/y, e:8/x]\n"
       "%4 = all_to_all[b -> e / y+x](%0) : f32[b:4, e:8/y+x]\n"
       "%5 = slice[e / x](%1) : f32[b:4/y, e:8/x]\n%6 = permute[/ y+x](%0) : f32[b:4/x+y, e:8]\n"
       "%7 = permute[/ y+x](%1) : f32[b:4/x, e:8]\nreturn %1, %2, %3, %4, %5, %6, %7\n}\n");
}

// In zigzag rank r of c has chunks r and 2 c - 1 - r: what is whole is in its own order again, whatever way it came.
static void test_zigzag_moves(void **state) {
  (void)state;
  same(LOGICAL "fn f body {\nparam %0 : f32[b:4, e:8]\nreturn %0, %0, %0, %0, %0, %0, %0, %0\n}\n", LOCAL
       "fn f body {\nparam %0 : f32[b:4, e:8/x~zigzag]\n%1 = all_gather[e / x](%0) : f32[b:4, e:8]\n"
       "%2 = all_to_all[e -> b / x](%0) : f32[b:4/x, e:8]\n%3 = slice[e / x](%1) : f32[b:4, e:8/x]\n"
       "%4 = slice[e / x~zigzag](%1) : f32[b:4, e:8/x~zigzag]\n"
       "%5 = slice[e / y](%4) : f32[b:4, e:8/x~zigzag+y]\n"
       "%6 = all_gather[e / y](%5) : f32[b:4, e:8/x~zigzag]\n"
       "%7 = all_to_all[b -> e / x~zigzag](%2) : f32[b:4, e:8/x~zigzag]\n"
       "return %1, %2, %3, %4, %5, %6, %7, %0\n}\n");
  same(LOGICAL
       "fn f body {\nparam %0 : f32[b:4, e:8]\nparam %1 : f32[b:4, f:8]\n%2 = dot[b](%0, %1) : f32[e:8, f:8]\n"
       "return %2\n}\n",
       LOCAL
       "fn f body {\nparam %0 : f32[b:4/x, e:8]\nparam %1 : f32[b:4/x, f:8]\n"
       "%2 = dot[b](%0, %1) : f32[e:8, f:8]{+x}\n"
       "%3 = reduce_scatter.sum[e / x~zigzag](%2) : f32[e:8/x~zigzag, f:8]\nreturn %3\n}\n");
}

// Positions, rows, sums and shapes of a zigzag split.
static void test_zigzag_ops(void **state) {
  (void)state;
  same(LOGICAL
       "fn f body {\nparam %0 : f32[b:4, e:8]\nparam %1 : f32[e:8, f:8]\n%2 = pos[e] : f64[e:8]\n"
       "%3 = split[e -> h, d](%0) : f32[b:4, h:4, d:2]\n%4 = dot[e](%0, %1) : f32[b:4, f:8]\n"
       "return %2, %3, %4, %2\n}\n",
       LOCAL
       "fn f body {\nparam %0 : f32[b:4, e:8/x~zigzag]\nparam %1 : f32[e:8/x~zigzag, f:8]\n"
       "%2 = pos[e] : f64[e:8/x~zigzag]\n%3 = split[e -> h, d](%0) : f32[b:4, h:4/x~zigzag, d:2]\n"
       "%4 = dot[e](%0, %1) : f32[b:4, f:8]{+x}\n%5 = all_reduce.sum[/ x](%4) : f32[b:4, f:8]\n"
       "%6 = pos[e] : f64[e:8/x~zigzag+y]\nreturn %2, %3, %5, %6\n}\n");
  same(LOGICAL
       "fn f body {\nparam %0 : f32[v:8, e:8]\nparam %1 : i32<v>[b:4]\n%2 = index[v](%0, %1) : f32[b:4, e:8]\n"
       "%3 = scatter_add[v](%1, %2) : f32[v:8, e:8]\nreturn %2, %3\n}\n",
       LOCAL
       "fn f body {\nparam %0 : f32[v:8/x~zigzag, e:8]\nparam %1 : i32<v>[b:4]\n"
       "%2 = index[v](%0, %1) : f32[b:4, e:8]{+x}\n%3 = all_reduce.sum[/ x](%2) : f32[b:4, e:8]\n"
       "%4 = scatter_add[v](%1, %3) : f32[v:8/x~zigzag, e:8]\nreturn %3, %4\n}\n");
}

// A value goes round once: after as many shifts as there are ranks it is home, and before that it is elsewhere.
static void test_shift(void **state) {
  (void)state;
  Fixture fx;
  fixture_init(&fx);
  fixture_read(&fx, LOCAL
               "axis part 2\nfn f body {\nparam %0 : f32[e:8/x+y]\n%1 = shift[/ x](%0) : f32[e:8/x+y]\n"
               "%2 = shift[/ y](%0) : f32[e:8/x+y]\n%3 = shift[/ x+y](%0) : f32[e:8/x+y]\n"
               "%4 = local[e -> part](%3) : f32[part:2]\n%5 = local[part -> e](%4) : f32[e:8/x+y]\n"
               "return %1, %2, %3, %5\n}\n");
  const double in[] = {0, 1, 2, 3, 4, 5, 6, 7};
  const double by_x[] = {4, 5, 6, 7, 0, 1, 2, 3}, by_y[] = {2, 3, 0, 1, 6, 7, 4, 5},
               by_both[] = {6, 7, 0, 1, 2, 3, 4, 5};
  fixture_run(&fx, "f", PM_INTERP_EXACT, (const double *[]){in}, (const double *[]){by_x, by_y, by_both, by_both}, 0);
  fixture_deinit(&fx);
}

static void test_max(void **state) {
  (void)state;
  same(LOGICAL "fn f body {\nparam %0 : f32[b:4, e:8]\n%1 = reduce.max[e](%0) : f32[b:4]\nreturn %1, %1, %1\n}\n", LOCAL
       "fn f body {\nparam %0 : f32[b:4, e:8/x+y]\n%1 = reduce.max[e](%0) : f32[b:4]{max x, max y}\n"
       "%2 = all_reduce.max[/ y+x](%1) : f32[b:4]\n"
       "%3 = all_reduce.max[/ y](%1) : f32[b:4]{max x}\n"
       "%4 = reduce_scatter.max[b / x](%3) : f32[b:4/x]\nreturn %2, %1, %4\n}\n");
}

// A vocabulary-parallel embedding and its gradient.
static void test_rows_of_other_ranks(void **state) {
  (void)state;
  same(LOGICAL
       "fn f body {\nparam %0 : f32[v:8, e:8]\nparam %1 : i32<v>[b:4]\n"
       "%2 = index[v](%0, %1) : f32[b:4, e:8]\n%3 = scatter_add[v](%1, %2) : f32[v:8, e:8]\n"
       "%4 = scatter_add[v](%1, %2) : f32[v:8, e:8]\nreturn %2, %3, %4\n}\n",
       LOCAL
       "fn f body {\nparam %0 : f32[v:8/x, e:8]\nparam %1 : i32<v>[b:4/y]\n"
       "%2 = index[v](%0, %1) : f32[b:4/y, e:8]{+x}\n%3 = all_reduce.sum[/ x](%2) : f32[b:4/y, e:8]\n"
       "%4 = scatter_add[v](%1, %3) : f32[v:8/x, e:8]{+y}\n"
       "%5 = slice[e / x](%3) : f32[b:4/y, e:8/x]\n"
       "%6 = scatter_add[v](%1, %5) : f32[v:8, e:8/x]{+y}\nreturn %2, %4, %6\n}\n");
}

// Sums of several values at once, of other sizes, one of which is partial over another mesh axis too.
static void test_bucket(void **state) {
  (void)state;
  same(LOGICAL
       "fn f body {\nparam %0 : f32[b:4, e:8]\n%1 = reduce.sum[b](%0) : f32[e:8]\n%2 = reduce.sum[e](%0) : f32[b:4]\n"
       "%3 = reduce.sum[b, e](%0) : f32[]\nreturn %1, %2, %3, %1\n}\n",
       LOCAL
       "fn f body {\nparam %0 : f32[b:4/x, e:8/y]\n%1 = reduce.sum[b](%0) : f32[e:8/y]{+x}\n"
       "%2 = reduce.sum[b, e](%0) : f32[]{+x, +y}\n"
       "%3, %4, %5 = all_reduce.sum[/ x](%1, %2, %1) : f32[e:8/y], f32[]{+y}, f32[e:8/y]\n"
       "%6 = all_gather[e / y](%5) : f32[e:8]\n%7 = all_reduce.sum[/ y](%4) : f32[]\n"
       "%8 = reduce.sum[e](%0) : f32[b:4/x]{+y}\n%9 = all_reduce.sum[/ y](%8) : f32[b:4/x]\n"
       "return %3, %9, %7, %6\n}\n");
}

// Slots of split positions are those of all; rows go to the rank that holds them, by one mesh axis or by two, or are
// summed over the one that does not move them.
static void test_slots_and_rows(void **state) {
  (void)state;
  same(LOGICAL
       "axis ve 64\nfn f body {\nparam %0 : f32[b:4, g:4, e:8]\nparam %1 : i32<v>[b:4, g:4]\n"
       "%2 = slot_of[v -> ve](%1) : i32<ve>[b:4, g:4]\n%3 = scatter_add[ve](%2, %0) : f32[ve:64, e:8]\n"
       "%4 = split[ve -> v, f](%3) : f32[v:8, f:8, e:8]\n%5 = index[ve](%3, %2) : f32[b:4, g:4, e:8]\n"
       "return %2, %4, %5, %4, %5, %4, %5, %4\n}\n",
       LOCAL
       "axis ve 64\nfn f body {\nparam %0 : f32[b:4/x+y, g:4, e:8]\nparam %1 : i32<v>[b:4/x+y, g:4]\n"
       "%2 = slot_of[v -> ve / x+y](%1) : i32<ve>[b:4/x+y, g:4]\n"
       "%3 = scatter_rows[v, f / x+y](%2, %0) : f32[v:8/y, f:8/x, e:8]\n"
       "%4 = gather_rows[v, f / x+y](%3, %2) : f32[b:4/x+y, g:4, e:8]\n"
       "%5 = scatter_rows[v, f / x](%2, %0) : f32[v:8/x, f:8, e:8]{+y}\n"
       "%6 = all_reduce.sum[/ y](%5) : f32[v:8/x, f:8, e:8]\n"
       "%7 = gather_rows[v, f / x](%6, %2) : f32[b:4/x+y, g:4, e:8]\n"
       "%8 = scatter_rows[v, f / x+y](%2, %0) : f32[f:8, e:8, v:8/y+x]\n"
       "%9 = gather_rows[v, f / y+x](%8, %2) : f32[e:8, b:4/x+y, g:4]\n"
       "%10 = broadcast(%8) : f32[v:8/y+x, f:8, e:8]\n%11 = broadcast(%9) : f32[b:4/x+y, g:4, e:8]\n"
       "return %2, %3, %4, %5, %7, %10, %11, %6\n}\n");
}

static void test_positions_and_shapes(void **state) {
  (void)state;
  same(LOGICAL
       "fn f body {\nparam %0 : f32[b:4, e:8]\n%1 = pos[e] : f64[e:8]\n%2 = split[e -> h, d](%0) : f32[b:4, h:4, d:2]\n"
       "%3 = merge[d, h -> e](%2) : f32[b:4, e:8]\n%4 = broadcast(%1) : f64[b:4, e:8]\nreturn %1, %2, %3, %4\n}\n",
       LOCAL
       "fn f body {\nparam %0 : f32[b:4/y, e:8/x]\n%1 = pos[e] : f64[e:8/x]\n"
       "%2 = split[e -> h, d](%0) : f32[b:4/y, h:4/x, d:2]\n%3 = all_gather[h / x](%2) : f32[b:4/y, h:4, d:2]\n"
       "%4 = slice[d / x](%3) : f32[b:4/y, h:4, d:2/x]\n%5 = merge[d, h -> e](%4) : f32[b:4/y, e:8/x]\n"
       "%6 = broadcast(%1) : f64[b:4/y, e:8/x]\nreturn %1, %2, %5, %6\n}\n");
}

static void test_repeat(void **state) {
  (void)state;
  same(LOGICAL
       "fn g body {\nparam %0 : f32[b:4, e:8]\nparam %1 : f32[e:8]\n%2 = broadcast(%1) : f32[b:4, e:8]\n"
       "%3 = map.add(%0, %2) : f32[b:4, e:8]\n%4 = reduce.sum[e](%3) : f32[b:4]\nreturn %3, %4\n}\n"
       "fn f body {\nparam %0 : f32[b:4, e:8]\nparam %1 : f32[h:4, e:8]\n"
       "%2, %3 = repeat[h] @g carry=1 inv=0 reverse (%0, %1) : f32[b:4, e:8], f32[h:4, b:4]\nreturn %2, %3\n}\n",
       LOCAL
       "fn g body {\nparam %0 : f32[b:4/y, e:8/x]\nparam %1 : f32[e:8/x]\n%2 = broadcast(%1) : f32[b:4/y, e:8/x]\n"
       "%3 = map.add(%0, %2) : f32[b:4/y, e:8/x]\n%4 = reduce.sum[e](%3) : f32[b:4/y]{+x}\nreturn %3, %4\n}\n"
       "fn f body {\nparam %0 : f32[b:4/y, e:8/x]\nparam %1 : f32[h:4, e:8/x]\n"
       "%2, %3 = repeat[h] @g carry=1 inv=0 reverse (%0, %1) : f32[b:4/y, e:8/x], f32[h:4, b:4/y]{+x}\n"
       "return %2, %3\n}\n");
}

static void test_scatter_gather(void **state) {
  (void)state;
  Fixture fx;
  fixture_init(&fx);
  fixture_read(&fx, LOCAL "fn f body {\nparam %0 : f32[b:4/y+x, e:8]{+z}\nreturn %0\n}\n");
  PmTensor t = pm_tensor_new(&fx.arena, fx.m, &pm_fn(fx.m, 0)->values[0].type);
  assert_int_equal(t.ranks, 12);
  assert_int_equal(t.n, 8);
  double global[32], back[32];
  for (int32_t i = 0; i < 32; i++) global[i] = i;
  pm_tensor_scatter(fx.m, global, &t);
  // Rank (x, y, z) holds row 2y + x; only z = 0 holds the sum.
  for (int32_t r = 0; r < 12; r++) {
    int32_t x = r / 6, y = r / 3 % 2, z = r % 3;
    for (int32_t i = 0; i < 8; i++) assert_true(t.data[r * 8 + i] == (z ? 0 : (2 * y + x) * 8 + i));
  }
  for (int32_t i = 0; i < 8; i++) t.data[8 + i] = 100;
  pm_tensor_gather(fx.m, &t, back);
  for (int32_t i = 0; i < 32; i++) assert_true(back[i] == global[i] + (i < 8 ? 100 : 0));
  fixture_deinit(&fx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_zigzag_moves),
      cmocka_unit_test(test_zigzag_ops),
      cmocka_unit_test(test_shift),
      cmocka_unit_test(test_row_split),
      cmocka_unit_test(test_column_then_row),
      cmocka_unit_test(test_moves),
      cmocka_unit_test(test_max),
      cmocka_unit_test(test_rows_of_other_ranks),
      cmocka_unit_test(test_slots_and_rows),
      cmocka_unit_test(test_bucket),
      cmocka_unit_test(test_positions_and_shapes),
      cmocka_unit_test(test_repeat),
      cmocka_unit_test(test_scatter_gather),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
