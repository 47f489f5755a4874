// topk and slot_of, which become sums over comparisons: the plan's results are the definition's, exactly.
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

// Long axes are counted in two parts, where they have a divisor.
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

static void test_too_many_positions(void **state) {
  (void)state;
  Fixture fx;
  PmStatus *st;
  static const char text[] =
      "module local\naxis n 16777216\naxis e 2\naxis es 4\nfn f body {\nparam %0 : i32<e>[n:16777216]\n"
      "%1 = slot_of[e -> es](%0) : i32<es>[n:16777216]\nreturn %1\n}\n";
  pm_arena_init(&fx.arena, 0);
  pm_interner_init(&fx.names, &fx.arena);
  assert_null(pm_module_read(&fx.arena, &fx.names, "text", text, sizeof text - 1, &fx.m));
  fx.m->step = pm_module_find_fn(fx.m, "f");
  PmFn *f = pm_fn(fx.m, fx.m->step);
  f->kind = PM_FN_STEP;
  f->param_bind = PM_NEW(&fx.arena, PmBinding);
  f->result_bind = PM_NEW(&fx.arena, PmBinding);
  PmVar var = {.path = pm_intern(&fx.names, "who"), .role = PM_ROLE_INPUT, .owner = PM_NONE, .update = PM_NONE};
  var.type = f->values[0].type;
  f->param_bind[0].var = pm_module_add_var(fx.m, var);
  f->result_bind[0] = (PmBinding){PM_NONE, pm_intern(&fx.names, "r0")};
  st = pm_codegen(&fx.arena, fx.m, &fx.p);
  assert_int_equal(pm_status_code(st), PM_ERR_LIMIT);
  pm_status_drop(st);
  pm_arena_deinit(&fx.arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_topk),
      cmocka_unit_test(test_topk_of_a_row),
      cmocka_unit_test(test_slots),
      cmocka_unit_test(test_long_axes),
      cmocka_unit_test(test_dispatch_and_combine),
      cmocka_unit_test(test_too_many_positions),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
