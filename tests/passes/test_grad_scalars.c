// The derivative of each scalar function against central differences, on the part of the line where it has one.
#include <math.h>

#include "program.h"

typedef struct Row {
  PmScalar fn;
  double lo, hi;
} Row;

static const Row rows[] = {
    {PM_S_abs, 0.1, 2},  {PM_S_abs, -2, -0.1}, {PM_S_add, -2, 2},  {PM_S_cos, -3, 3},    {PM_S_div, 0.5, 2},
    {PM_S_erf, -2, 2},   {PM_S_exp, -2, 2},    {PM_S_log, 0.2, 3}, {PM_S_max, -2, 2},    {PM_S_min, -2, 2},
    {PM_S_mul, -2, 2},   {PM_S_neg, -2, 2},    {PM_S_pow, 0.3, 2}, {PM_S_rsqrt, 0.3, 3}, {PM_S_sin, -3, 3},
    {PM_S_sqrt, 0.3, 3}, {PM_S_sub, -2, 2},    {PM_S_tanh, -2, 2}, {PM_S_where, -2, 2},
};

static void test_each_scalar(void **state) {
  (void)state;
  bool seen[PM_SCALAR_COUNT] = {false};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    Program p;
    program_init(&p, i);
    program_fn(&p, "f", PM_FN_BODY);
    PmType t = program_type(&p, 2, p.j, p.k);
    PmType cond = t;
    cond.dtype = PM_BOOL;
    PmValueId in[3];
    int32_t n = pm_scalar_arity(rows[i].fn);
    for (int32_t k = 0; k < n; k++) in[k] = pm_b_param(&p.b, rows[i].fn == PM_S_where && k == 0 ? cond : t, NULL);
    PmValueId y = pm_b_map(&p.b, rows[i].fn, in, n);
    pm_b_results(&p.b, &y, 1);
    seen[rows[i].fn] = true;
    program_check_gradients(&p, p.b.fn, true, rows[i].lo, rows[i].hi, 1e-6);
    program_deinit(&p);
  }
  for (int32_t fn = 0; fn < PM_SCALAR_COUNT; fn++) assert_int_equal(seen[fn], pm_deriv_flows((PmScalar)fn));
}

// The gradient of y = f(...) at given scalars, for a cotangent of 1.
static double at_point(PmScalar fn, int32_t k, double a, double b) {
  Program p;
  program_init(&p, 0);
  program_fn(&p, "f", PM_FN_BODY);
  PmType t = program_type(&p, 0);
  PmValueId in[2] = {pm_b_param(&p.b, t, NULL), pm_b_param(&p.b, t, NULL)};
  PmValueId y = pm_b_map(&p.b, fn, in, pm_scalar_arity(fn));
  pm_b_results(&p.b, &y, 1);
  PmFnId f = p.b.fn;
  const PmGradPair *pair;
  assert_null(pm_differentiate_fn(p.m, &p.arena, f, (bool[]){true, true}, true, &pair));
  PmTensor *x = program_inputs(&p, f, 0, 1);
  PmTensor *cot = program_cotangents(&p, f);
  x[0].data[0] = a;
  x[1].data[0] = b;
  cot[0].data[0] = 1;
  double d = program_gradients(&p, pair, x, cot)[k].data[0];
  program_deinit(&p);
  return d;
}

static void test_corners(void **state) {
  (void)state;
  assert_true(at_point(PM_S_abs, 0, 0, 0) == 0);
  assert_true(at_point(PM_S_max, 0, 1, 1) == 0.5 && at_point(PM_S_max, 1, 1, 1) == 0.5);
  assert_true(at_point(PM_S_min, 0, 1, 1) == 0.5 && at_point(PM_S_min, 1, 1, 1) == 0.5);
  assert_true(at_point(PM_S_pow, 0, 0, 0) == 0);
  assert_true(at_point(PM_S_pow, 0, 0, 2) == 0);
  assert_true(at_point(PM_S_pow, 1, 0, 2) == 0);
  assert_true(at_point(PM_S_pow, 0, -3, 2) == -6);
}

// log(where(c, a, b)) with a zero in b: the cotangent of the where is infinite there, and a must not see it.
static void test_where_stops_infinity(void **state) {
  (void)state;
  Program p;
  program_init(&p, 0);
  program_fn(&p, "f", PM_FN_BODY);
  PmType t = program_type(&p, 1, p.i), cond = t;
  cond.dtype = PM_BOOL;
  PmValueId c = pm_b_param(&p.b, cond, "c"), a = pm_b_param(&p.b, t, "a"), b = pm_b_param(&p.b, t, "b");
  PmValueId y = pm_b_map1(&p.b, PM_S_log, pm_b_map3(&p.b, PM_S_where, c, a, b));
  pm_b_results(&p.b, &y, 1);
  PmFnId f = p.b.fn;
  const PmGradPair *pair;
  assert_null(pm_differentiate_fn(p.m, &p.arena, f, (bool[]){false, true, true}, true, &pair));
  PmTensor *in = program_inputs(&p, f, 1, 2);
  in[0].data[0] = 1;
  in[0].data[1] = 0;
  in[2].data[1] = 0;
  const PmTensor *cot = program_cotangents(&p, f);
  const PmTensor *d = program_gradients(&p, pair, in, cot);
  assert_true(d[1].data[0] == cot[0].data[0] / in[1].data[0]);
  assert_true(d[1].data[1] == 0 && isinf(d[2].data[1]) && d[2].data[0] == 0);
  program_deinit(&p);
}

typedef PmValueId (*Chain)(Program *p, PmValueId y);
static PmValueId chain_log(Program *p, PmValueId y) { return pm_b_map1(&p->b, PM_S_log, y); }
static PmValueId chain_sqrt(Program *p, PmValueId y) { return pm_b_map1(&p->b, PM_S_sqrt, y); }
static PmValueId chain_rsqrt(Program *p, PmValueId y) { return pm_b_map1(&p->b, PM_S_rsqrt, y); }
static PmValueId chain_div(Program *p, PmValueId y) { return pm_b_map2(&p->b, PM_S_div, y, y); }
static PmValueId chain_entropy(Program *p, PmValueId y) { return pm_b_map2(&p->b, PM_S_mul, y, chain_log(p, y)); }
static PmValueId chain_square(Program *p, PmValueId y) {
  PmValueId l = chain_log(p, y);
  return pm_b_map1(&p->b, PM_S_neg, pm_b_map2(&p->b, PM_S_mul, l, l));
}
static PmValueId chain_power(Program *p, PmValueId y) {
  PmType t = *pm_b_type(&p->b, y);
  PmValueId positive = pm_b_map2(&p->b, PM_S_max, y, pm_b_splat(&p->b, 0, &t));
  return pm_b_map2(&p->b, PM_S_pow, positive, pm_b_splat(&p->b, 0.5, &t));
}

// where(y > 0, f(y), 0) and its mirror at y = 0, where the slope of f is infinite: the gradient is 0 there, not 0 times
// infinity, and that of f elsewhere.
static void test_untaken_branches_leak_nothing(void **state) {
  (void)state;
  static const Chain chains[] = {chain_log,     chain_sqrt,   chain_rsqrt, chain_div,
                                 chain_entropy, chain_square, chain_power};
  for (size_t i = 0; i < 2 * (sizeof chains / sizeof *chains); i++) {
    Program p;
    program_init(&p, i);
    PmFnId fns[2];
    for (int32_t guarded = 0; guarded < 2; guarded++) {
      program_fn(&p, guarded ? "guarded" : "plain", PM_FN_BODY);
      PmType t = program_type(&p, 1, p.i);
      PmValueId y = pm_b_param(&p.b, t, "y"), zero = pm_b_splat(&p.b, 0, &t), out = chains[i / 2](&p, y);
      bool mirror = i % 2;
      PmValueId cond = pm_b_map2(&p.b, mirror ? PM_S_le : PM_S_gt, y, zero);
      if (guarded) out = pm_b_map3(&p.b, PM_S_where, cond, mirror ? zero : out, mirror ? out : zero);
      pm_b_results(&p.b, &out, 1);
      fns[guarded] = p.b.fn;
    }
    const PmTensor *d[2];
    PmTensor *in = program_inputs(&p, fns[0], 1, 2);
    const PmTensor *cot = program_cotangents(&p, fns[0]);
    for (int32_t guarded = 0; guarded < 2; guarded++) {
      const PmGradPair *pair;
      assert_null(pm_differentiate_fn(p.m, &p.arena, fns[guarded], (bool[]){true}, true, &pair));
      if (guarded) in[0].data[1] = 0;
      d[guarded] = program_gradients(&p, pair, in, cot);
    }
    assert_true(isfinite(d[0][0].data[0]) && d[1][0].data[0] == d[0][0].data[0]);
    assert_true(d[1][0].data[1] == 0);
    program_deinit(&p);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_each_scalar),
      cmocka_unit_test(test_corners),
      cmocka_unit_test(test_where_stops_infinity),
      cmocka_unit_test(test_untaken_branches_leak_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
