#include <math.h>

#include "harness.h"
#include "tools/compare.h"

typedef struct Fixture {
  PmArena arena;
  PmInterner names;
  PmModule *m;
  PmType type;
  PmCompare c;
} Fixture;

static void setup(Fixture *fx) {
  pm_arena_init(&fx->arena, 0);
  pm_interner_init(&fx->names, &fx->arena);
  fx->m = pm_module_new(&fx->arena, &fx->names);
  PmLoc none = {0};
  fx->type = pm_type_scalar(PM_F32);
  pm_type_add(&fx->type, pm_module_axis(fx->m, "a", 2, none));
  pm_type_add(&fx->type, pm_module_axis(fx->m, "b", 3, none));
  fx->c = (PmCompare){.m = fx->m, .bound = 1e-5, .step = 1};
}

static void test_measure(void **state) {
  (void)state;
  Fixture fx;
  setup(&fx);
  const double b[6] = {1, 2, -4, 0, 0, 1e-9};
  double a[6] = {1, 2, -4, 0, 0, 1e-9};
  pm_compare(&fx.c, PM_CMP_GRADIENT, "d(w)", &fx.type, a, b, 6, 0);
  assert_true(fx.c.worst[PM_CMP_GRADIENT].error == 0);
  assert_true(pm_compare_ok(&fx.c));
  // Relative to the largest element of the reference, not to the element itself.
  a[4] = 4e-6;
  pm_compare(&fx.c, PM_CMP_GRADIENT, "d(v)", &fx.type, a, b, 6, 0);
  assert_true(fabs(fx.c.worst[PM_CMP_GRADIENT].error - 1e-6) < 1e-12);
  assert_int_equal(fx.c.worst[PM_CMP_GRADIENT].at, 4);
  assert_string_equal(fx.c.worst[PM_CMP_GRADIENT].path, "d(v)");
  assert_int_equal(fx.c.worst[PM_CMP_GRADIENT].tensors, 2);
  assert_true(pm_compare_ok(&fx.c));
  a[4] = 1e-3;
  pm_compare(&fx.c, PM_CMP_GRADIENT, "d(u)", &fx.type, a, b, 6, 0);
  assert_false(pm_compare_ok(&fx.c));
  pm_arena_deinit(&fx.arena);
}

static void test_floor(void **state) {
  (void)state;
  Fixture fx;
  setup(&fx);
  const double zero[6] = {0};
  const double a[6] = {0, 0, 1e-9, 0, 0, 0};
  pm_compare(&fx.c, PM_CMP_GRADIENT, "d(b)", &fx.type, a, zero, 6, 1e-3);
  assert_true(fabs(fx.c.worst[PM_CMP_GRADIENT].error - 1e-6) < 1e-12);
  pm_compare(&fx.c, PM_CMP_LOSS, "loss", &fx.type, a, zero, 6, 0);
  assert_true(isinf(fx.c.worst[PM_CMP_LOSS].error));
  assert_false(pm_compare_ok(&fx.c));
  pm_arena_deinit(&fx.arena);
}

static void test_not_finite(void **state) {
  (void)state;
  Fixture fx;
  setup(&fx);
  const double nan[6] = {0, NAN, 0, 0, 0, 0}, good[6] = {1, 1, 1, 1, 1, 1};
  pm_compare(&fx.c, PM_CMP_PARAM, "w", &fx.type, nan, good, 6, 1);
  assert_true(isinf(fx.c.worst[PM_CMP_PARAM].error));
  assert_int_equal(fx.c.worst[PM_CMP_PARAM].at, 1);
  pm_compare(&fx.c, PM_CMP_STATE, "w/m", &fx.type, nan, nan, 6, 1);
  assert_false(pm_compare_ok(&fx.c));
  pm_arena_deinit(&fx.arena);
}

// Initial values have no tolerance.
static void test_initial(void **state) {
  (void)state;
  Fixture fx;
  setup(&fx);
  const double b[6] = {1, 1, 1, 1, 1, 1}, a[6] = {1, 1, 1, 1, 1 + 1e-15, 1};
  pm_compare(&fx.c, PM_CMP_INITIAL, "w", &fx.type, a, b, 6, 0);
  assert_false(pm_compare_ok(&fx.c));
  pm_arena_deinit(&fx.arena);
}

// A model's states come from activations, in whatever format these have; an optimizer's from f32 alone.
static void test_model_states_have_the_bound_of_activations(void **state) {
  (void)state;
  Fixture fx;
  setup(&fx);
  fx.c.unit = 0x1p-8;
  assert_true(pm_compare_bound(&fx.c, PM_CMP_MODEL_STATE) == 0x1p-5);
  assert_true(pm_compare_bound(&fx.c, PM_CMP_LOGITS) == 0x1p-5);
  assert_true(pm_compare_bound(&fx.c, PM_CMP_STATE) == fx.c.bound);
  assert_true(pm_compare_bound(&fx.c, PM_CMP_PARAM) == fx.c.bound);
  pm_arena_deinit(&fx.arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_measure),
      cmocka_unit_test(test_floor),
      cmocka_unit_test(test_not_finite),
      cmocka_unit_test(test_initial),
      cmocka_unit_test(test_model_states_have_the_bound_of_activations),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
