// Gradients through functions: calls, repeats, values used several times, parameters not used at all.
#include <string.h>

#include "program.h"

static PmValueId map2(Program *p, PmScalar fn, PmValueId a, PmValueId b) { return pm_b_map2(&p->b, fn, a, b); }

static void finish(Program *p, const PmValueId *results, int32_t n) {
  pm_b_results(&p->b, results, n);
  program_check_gradients(p, p->b.fn, true, -1, 1, 1e-6);
}

static void test_shared_and_unused(void **state) {
  (void)state;
  Program p;
  program_init(&p, 1);
  program_fn(&p, "f", PM_FN_BODY);
  PmType t = program_type(&p, 1, p.j);
  PmValueId x = pm_b_param(&p.b, t, "x");
  pm_b_param(&p.b, t, "unused");
  PmValueId y = pm_b_map1(&p.b, PM_S_exp, x);
  PmValueId z = map2(&p, PM_S_mul, y, map2(&p, PM_S_add, x, y));
  // x is a result too, and z is one twice.
  finish(&p, (PmValueId[]){z, x, z}, 3);
  program_deinit(&p);
}

// body: (c, s | w | x) -> (c', s' | c * x): everything that a loop can do with its values.
static PmFnId loop_body(Program *p) {
  program_fn(p, "body", PM_FN_BODY);
  PmType t = program_type(p, 1, p->j);
  PmValueId c = pm_b_param(&p->b, t, "c"), s = pm_b_param(&p->b, t, "s");
  PmValueId w = pm_b_param(&p->b, program_type(p, 2, p->j, p->k), "w");
  PmValueId x = pm_b_param(&p->b, program_type(p, 1, p->k), "x");
  PmValueId h = pm_b_map1(&p->b, PM_S_tanh, pm_b_dot(&p->b, w, x, &p->k, 1));
  PmValueId next = pm_b_map1(&p->b, PM_S_sin, map2(p, PM_S_add, c, h));
  PmValueId sum = map2(p, PM_S_add, s, map2(p, PM_S_mul, next, c));
  PmValueId out = map2(p, PM_S_mul, c, h);
  pm_b_results(&p->b, (PmValueId[]){next, sum, out}, 3);
  return p->b.fn;
}

static void check_loop(bool reverse) {
  Program p;
  program_init(&p, 2);
  PmFnId body = loop_body(&p);
  program_fn(&p, "f", PM_FN_BODY);
  PmType t = program_type(&p, 1, p.j);
  PmValueId c = pm_b_param(&p.b, t, "c"), s = pm_b_param(&p.b, t, "s");
  PmValueId w = pm_b_param(&p.b, program_type(&p, 2, p.j, p.k), "w");
  PmValueId x = pm_b_param(&p.b, program_type(&p, 2, p.r, p.k), "x");
  PmValueId out = pm_b_repeat(&p.b, body, p.r, 2, 1, reverse, (PmValueId[]){c, s, w, x}, 4);
  finish(&p, (PmValueId[]){out, out + 1, out + 2}, 3);
  program_deinit(&p);
}

static void test_repeat(void **state) {
  (void)state;
  check_loop(false);
  check_loop(true);
}

// Only the sum's last value is used, and it does not depend on s but through the turns.
static void test_repeat_partly_used(void **state) {
  (void)state;
  Program p;
  program_init(&p, 3);
  PmFnId body = loop_body(&p);
  program_fn(&p, "f", PM_FN_BODY);
  PmType t = program_type(&p, 1, p.j);
  PmValueId c = pm_b_param(&p.b, t, "c");
  PmValueId w = pm_b_param(&p.b, program_type(&p, 2, p.j, p.k), "w");
  PmValueId x = pm_b_param(&p.b, program_type(&p, 2, p.r, p.k), "x");
  PmValueId zero = pm_b_splat(&p.b, 0.0, &t);
  PmValueId out = pm_b_repeat(&p.b, body, p.r, 2, 1, false, (PmValueId[]){c, zero, w, x}, 4);
  PmValueId y = out + 1;
  finish(&p, &y, 1);
  program_deinit(&p);
}

// The carried value is overwritten by one that nothing differentiable decides: only the first turn sees the operand.
static void test_repeat_overwritten(void **state) {
  (void)state;
  Program p;
  program_init(&p, 4);
  program_fn(&p, "body", PM_FN_BODY);
  PmType t = program_type(&p, 1, p.j);
  PmValueId x = pm_b_param(&p.b, t, "x"), y = pm_b_param(&p.b, t, "y");
  PmValueId next = map2(&p, PM_S_add, y, map2(&p, PM_S_mul, x, x));
  PmValueId two = pm_b_splat(&p.b, 2.0, &t);
  pm_b_results(&p.b, (PmValueId[]){two, next}, 2);
  PmFnId body = p.b.fn;
  program_fn(&p, "f", PM_FN_BODY);
  x = pm_b_param(&p.b, t, "x");
  y = pm_b_param(&p.b, t, "y");
  PmValueId out = pm_b_repeat(&p.b, body, p.r, 2, 0, false, (PmValueId[]){x, y}, 2);
  finish(&p, (PmValueId[]){out, out + 1}, 2);
  program_deinit(&p);
}

// One callee, two uses: with a different active operand each, so that they become two pairs.
static void test_call(void **state) {
  (void)state;
  Program p;
  program_init(&p, 5);
  program_fn(&p, "g", PM_FN_COMPOSITE);
  PmType t = program_type(&p, 1, p.j);
  PmValueId a = pm_b_param(&p.b, t, "a"), b = pm_b_param(&p.b, t, "b");
  PmValueId y = map2(&p, PM_S_mul, pm_b_map1(&p.b, PM_S_exp, a), b);
  pm_b_results(&p.b, (PmValueId[]){y, b}, 2);
  PmFnId g = p.b.fn;
  program_fn(&p, "f", PM_FN_BODY);
  PmValueId x = pm_b_param(&p.b, t, "x");
  PmValueId one = pm_b_splat(&p.b, 1.0, &t);
  PmValueId u = pm_b_call(&p.b, g, (PmValueId[]){x, one}, 2);
  PmValueId v = pm_b_call(&p.b, g, (PmValueId[]){u, x}, 2);
  finish(&p, (PmValueId[]){v, v + 1, u + 1}, 3);
  assert_true(pm_module_find_fn(p.m, "g.fwd") != PM_NONE);
  assert_true(pm_module_find_fn(p.m, "g.bwd.2") != PM_NONE);
  program_deinit(&p);
}

static void test_random(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < 60; seed++) {
    Program p;
    program_init(&p, seed << 20);
    PmFnId fn = program_random_fn(&p, 10, seed % 3 == 0 ? 0 : 2, false);
    program_verify(&p);
    program_check_gradients(&p, fn, true, -1, 1, 1e-6);
    program_deinit(&p);
  }
}

// Residuals: what the caller has is not returned again, constants are remade, and views are not saved.
static void test_residuals(void **state) {
  (void)state;
  Program p;
  program_init(&p, 6);
  program_fn(&p, "f", PM_FN_BODY);
  PmType t = program_type(&p, 2, p.j, p.k);
  PmValueId x = pm_b_param(&p.b, t, "x"), gain = pm_b_param(&p.b, program_type(&p, 1, p.k), "gain");
  PmValueId h = pm_b_map1(&p.b, PM_S_exp, x);
  PmValueId wide = pm_b_broadcast(&p.b, gain, t);
  PmValueId scaled = map2(&p, PM_S_mul, h, wide);
  PmValueId y = map2(&p, PM_S_mul, scaled, pm_b_splat(&p.b, 3.0, &t));
  pm_b_results(&p.b, &y, 1);
  const PmGradPair *pair;
  assert_null(pm_differentiate_fn(p.m, &p.arena, p.b.fn, (bool[]){true, true}, true, &pair));
  assert_int_equal(pm_fn(p.m, pair->fwd)->n_results, 2);  // y, h
  assert_int_equal(pair->n_args, 3);
  assert_int_equal(pair->args[0].kind, PM_ARG_PARAM);
  assert_int_equal(pair->args[0].index, 1);
  assert_int_equal(pair->args[1].kind, PM_ARG_RESULT);
  assert_int_equal(pair->args[1].index, 1);
  assert_int_equal(pair->args[2].kind, PM_ARG_COT);
  program_deinit(&p);
}

// Pointwise values are made again from their operands when those are there anyway: gelu saves x alone.
static void test_pointwise_is_remade(void **state) {
  (void)state;
  Program p;
  program_init(&p, 8);
  program_fn(&p, "gelu", PM_FN_COMPOSITE);
  PmType t = program_type(&p, 2, p.j, p.k);
  PmValueId x = pm_b_param(&p.b, t, "x");
  PmValueId cube = map2(&p, PM_S_pow, x, pm_b_splat(&p.b, 3, &t));
  PmValueId sum = map2(&p, PM_S_add, x, map2(&p, PM_S_mul, pm_b_splat(&p.b, 0.044715, &t), cube));
  PmValueId bent = pm_b_map1(&p.b, PM_S_tanh, map2(&p, PM_S_mul, pm_b_splat(&p.b, 0.7978845608, &t), sum));
  PmValueId gate = map2(&p, PM_S_add, pm_b_splat(&p.b, 1, &t), bent);
  PmValueId y = map2(&p, PM_S_mul, map2(&p, PM_S_mul, pm_b_splat(&p.b, 0.5, &t), x), gate);
  pm_b_results(&p.b, &y, 1);
  const PmGradPair *pair;
  assert_null(pm_differentiate_fn(p.m, &p.arena, p.b.fn, (bool[]){true}, true, &pair));
  assert_int_equal(pm_fn(p.m, pair->fwd)->n_results, 1);
  assert_int_equal(pair->n_args, 2);
  assert_int_equal(pair->args[0].kind, PM_ARG_PARAM);
  program_check_gradients(&p, p.b.fn, false, -2, 2, 1e-6);
  program_deinit(&p);
}

static void test_names(void **state) {
  (void)state;
  Program p;
  program_init(&p, 7);
  program_fn(&p, "f", PM_FN_BODY);
  PmType t = program_type(&p, 1, p.j);
  PmValueId x = pm_b_param(&p.b, t, "x");
  PmValueId h = map2(&p, PM_S_mul, x, x);
  pm_b_name(&p.b, h, "layer.attn.q", true);
  PmValueId y = pm_b_map1(&p.b, PM_S_exp, h);
  pm_b_results(&p.b, &y, 1);
  const PmGradPair *pair;
  assert_null(pm_differentiate_fn(p.m, &p.arena, p.b.fn, (bool[]){true}, true, &pair));
  bool found = false;
  const PmFn *bwd = pm_fn(p.m, pair->bwd);
  for (int32_t v = 0; v < bwd->n_values; v++) {
    found =
        found || (bwd->values[v].name && strcmp(bwd->values[v].name, "d(layer.attn.q)") == 0 && bwd->values[v].bound);
  }
  assert_true(found);
  assert_string_equal(bwd->values[bwd->results[0]].name, "d(x)");
  program_deinit(&p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_shared_and_unused),
      cmocka_unit_test(test_repeat),
      cmocka_unit_test(test_repeat_partly_used),
      cmocka_unit_test(test_repeat_overwritten),
      cmocka_unit_test(test_call),
      cmocka_unit_test(test_residuals),
      cmocka_unit_test(test_pointwise_is_remade),
      cmocka_unit_test(test_names),
      cmocka_unit_test(test_random),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
