// Declared backward pairs: used where they are, compared with what is derived from the body, refused where they do not
// fit.
#include <math.h>
#include <string.h>

#include "program.h"

static PmValueId map2(Program *p, PmScalar fn, PmValueId a, PmValueId b) { return pm_b_map2(&p->b, fn, a, b); }

// exp(x - max) and its sum, both over k.
static PmValueId exponentials(Program *p, PmValueId x, PmValueId *out_sum, PmValueId *out_max) {
  PmType t = *pm_b_type(&p->b, x);
  *out_max = pm_b_reduce(&p->b, PM_MAX, x, &p->k, 1);
  PmValueId e = pm_b_map1(&p->b, PM_S_exp, map2(p, PM_S_sub, x, pm_b_broadcast(&p->b, *out_max, t)));
  *out_sum = pm_b_reduce(&p->b, PM_SUM, e, &p->k, 1);
  return e;
}

// softmax[k](x * w), as a composite with a float operand more than it needs and an index operand.
static PmFnId declare_softmax(Program *p, bool with_pair) {
  PmType t = program_type(p, 2, p->j, p->k);
  PmValueId sum, max;
  PmFnId softmax = PM_NONE;
  const char *names[] = {"softmax", "softmax.fwd"};
  for (int32_t i = 0; i < (with_pair ? 2 : 1); i++) {
    program_fn(p, names[i], PM_FN_COMPOSITE);
    PmValueId x = pm_b_param(&p->b, t, "x");
    pm_b_param(&p->b, program_index_type(p, p->v, p->j), "where");
    PmValueId w = pm_b_param(&p->b, t, "w");
    PmValueId e = exponentials(p, map2(p, PM_S_mul, x, w), &sum, &max);
    if (i == 0) {
      PmValueId y = map2(p, PM_S_div, e, pm_b_broadcast(&p->b, sum, t));
      pm_b_results(&p->b, &y, 1);
      softmax = p->b.fn;
    } else {
      // Another residual than the derived pair would choose: the logarithm of the sum.
      PmValueId lse = map2(p, PM_S_add, max, pm_b_map1(&p->b, PM_S_log, sum));
      PmValueId y = map2(p, PM_S_div, e, pm_b_broadcast(&p->b, sum, t));
      pm_b_name(&p->b, y, "y", false);
      pm_b_name(&p->b, lse, "lse", false);
      pm_b_results(&p->b, (PmValueId[]){y, lse}, 2);
    }
  }
  if (!with_pair) return softmax;
  program_fn(p, "softmax.bwd", PM_FN_COMPOSITE);
  PmValueId d = pm_b_param(&p->b, t, "d_y");
  PmValueId w = pm_b_param(&p->b, t, "w"), x = pm_b_param(&p->b, t, "x");
  PmValueId lse = pm_b_param(&p->b, program_type(p, 1, p->j), "lse");
  PmValueId y = pm_b_map1(&p->b, PM_S_exp, map2(p, PM_S_sub, map2(p, PM_S_mul, x, w), pm_b_broadcast(&p->b, lse, t)));
  PmValueId dy = map2(p, PM_S_mul, d, y);
  PmValueId mean = pm_b_broadcast(&p->b, pm_b_reduce(&p->b, PM_SUM, dy, &p->k, 1), t);
  PmValueId dz = map2(p, PM_S_sub, dy, map2(p, PM_S_mul, y, mean));
  pm_b_results(&p->b, (PmValueId[]){map2(p, PM_S_mul, dz, w), map2(p, PM_S_mul, dz, x)}, 2);
  return softmax;
}

// Calls it twice, so that one result's cotangent is the other's.
static PmFnId user(Program *p, PmFnId softmax) {
  program_fn(p, "f", PM_FN_BODY);
  PmType t = program_type(p, 2, p->j, p->k);
  PmValueId x = pm_b_param(&p->b, t, "x"), idx = pm_b_param(&p->b, program_index_type(p, p->v, p->j), "idx");
  PmValueId y = pm_b_call(&p->b, softmax, (PmValueId[]){x, idx, pm_b_splat(&p->b, 2.0, &t)}, 3);
  PmValueId z = pm_b_call(&p->b, softmax, (PmValueId[]){y, idx, x}, 3);
  pm_b_results(&p->b, (PmValueId[]){z, y}, 2);
  return p->b.fn;
}

static bool calls(const Program *p, PmFnId fn, const char *callee) {
  const PmFn *f = pm_fn(p->m, fn);
  for (int32_t i = 0; i < f->n_nodes; i++) {
    const PmNode *node = &f->nodes[i];
    if (node->op == PM_OP_call && strcmp(pm_fn(p->m, node->attr.callee)->name, callee) == 0) return true;
  }
  return false;
}

static void test_declared_equals_derived(void **state) {
  (void)state;
  Program p;
  program_init(&p, 1);
  PmFnId f = user(&p, declare_softmax(&p, true));
  const bool active[] = {true, false};
  const PmGradPair *derived, *declared;
  assert_null(pm_differentiate_fn(p.m, &p.arena, f, active, false, &derived));
  assert_null(pm_differentiate_fn(p.m, &p.arena, f, active, true, &declared));
  program_verify(&p);
  assert_true(calls(&p, declared->fwd, "softmax.fwd") && calls(&p, declared->bwd, "softmax.bwd"));
  assert_false(calls(&p, derived->fwd, "softmax.fwd") || calls(&p, derived->bwd, "softmax.bwd"));
  PmTensor *in = program_inputs(&p, f, -1, 1), *cot = program_cotangents(&p, f);
  PmTensor *a = program_gradients(&p, derived, in, cot), *b = program_gradients(&p, declared, in, cot);
  for (int64_t e = 0; e < a[0].n; e++) assert_true(fabs(a[0].data[e] - b[0].data[e]) <= 1e-13);
  program_deinit(&p);
}

static void test_against_differences(void **state) {
  (void)state;
  for (int32_t declared = 0; declared < 2; declared++) {
    Program p;
    program_init(&p, 2);
    program_check_gradients(&p, user(&p, declare_softmax(&p, declared)), declared, -1, 1, 1e-6);
    program_deinit(&p);
  }
}

static PmStatus *try_pair(Program *p, PmFnId f) {
  const PmGradPair *pair;
  return pm_differentiate_fn(p->m, &p->arena, f, (bool[]){true, false}, true, &pair);
}

static void expect_input_error(PmStatus *st, const char *part) {
  assert_int_equal(pm_status_code(st), PM_ERR_INPUT);
  if (!strstr(pm_status_message(st), part)) fail_msg("`%s` not in `%s`", part, pm_status_message(st));
  pm_status_drop(st);
}

static void test_pairs_that_do_not_fit(void **state) {
  (void)state;
  Program p;
  program_init(&p, 3);
  PmFnId f = user(&p, declare_softmax(&p, true));
  PmFn *fwd = pm_fn(p.m, pm_module_find_fn(p.m, "softmax.fwd")),
       *bwd = pm_fn(p.m, pm_module_find_fn(p.m, "softmax.bwd"));
  bwd->values[0].name = "d_z";
  expect_input_error(try_pair(&p, f), "`d_z` is no parameter of");
  bwd->values[0].name = "lse";
  expect_input_error(try_pair(&p, f), "not of the type");
  bwd->values[0].name = "d_y";
  bwd->n_results--;
  expect_input_error(try_pair(&p, f), "does not return the cotangent of parameter 2");
  bwd->n_results++;
  fwd->results[0] = fwd->results[1];
  expect_input_error(try_pair(&p, f), "does not take and return");
  program_deinit(&p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_declared_equals_derived),
      cmocka_unit_test(test_against_differences),
      cmocka_unit_test(test_pairs_that_do_not_fit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
