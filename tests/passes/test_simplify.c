// simplify: each rule, what must not be a rule, value numbering, dead code across calls; and random programs, whose
// results may not change by a bit.
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "ir/text.h"
#include "passes/passes.h"
#include "program.h"

static void simplify(Program *p) {
  PmPassCtx ctx = {.verify = true};
  PmStatus *st = pm_passes_run(&ctx, p->m, "simplify");
  if (st) pm_status_print(st, stderr);
  assert_null(st);
  program_verify(p);
}

typedef PmValueId (*Build)(Program *p, PmValueId x, PmType t);

typedef struct Case {
  const char *name;
  Build build;
  int32_t n_nodes;  // that are left
} Case;

static PmValueId num(Program *p, double v, PmType t) { return pm_b_splat(&p->b, v, &t); }
static PmValueId map1(Program *p, PmScalar fn, PmValueId a) { return pm_b_map1(&p->b, fn, a); }
static PmValueId map2(Program *p, PmScalar fn, PmValueId a, PmValueId b) { return pm_b_map2(&p->b, fn, a, b); }

static PmType broad(Program *p, PmType t) {
  PmType to = program_type(p, 3, p->i, p->j, p->k);
  to.dtype = t.dtype;
  return to;
}

#define CASE(name) static PmValueId case_##name(Program *p, PmValueId x, __attribute__((unused)) PmType t)
CASE(mul_one) { return map2(p, PM_S_mul, num(p, 1, t), x); }
CASE(div_one) { return map2(p, PM_S_div, x, num(p, 1, t)); }
CASE(pow_one) { return map2(p, PM_S_pow, x, num(p, 1, t)); }
CASE(sub_zero) { return map2(p, PM_S_sub, x, num(p, 0, t)); }
CASE(add_minus_zero) { return map2(p, PM_S_add, num(p, -0.0, t), x); }
CASE(add_zero_stays) { return map2(p, PM_S_add, x, num(p, 0, t)); }
CASE(sub_minus_zero_stays) { return map2(p, PM_S_sub, x, num(p, -0.0, t)); }
CASE(mul_zero_stays) { return map2(p, PM_S_mul, x, num(p, 0, t)); }
CASE(neg_neg) { return map1(p, PM_S_neg, map1(p, PM_S_neg, x)); }
CASE(add_neg) { return map2(p, PM_S_add, map1(p, PM_S_neg, x), map1(p, PM_S_sin, x)); }
CASE(sub_neg) { return map2(p, PM_S_sub, x, map1(p, PM_S_neg, x)); }
CASE(mul_neg_neg) { return map2(p, PM_S_mul, map1(p, PM_S_neg, x), map1(p, PM_S_neg, x)); }
CASE(max_same) { return map2(p, PM_S_max, x, x); }
CASE(sub_same_stays) { return map2(p, PM_S_sub, x, x); }
CASE(where_same) { return pm_b_map3(&p->b, PM_S_where, map2(p, PM_S_gt, x, num(p, 0, t)), x, x); }
CASE(where_true) {
  t.dtype = PM_BOOL;
  return pm_b_map3(&p->b, PM_S_where, num(p, 1, t), x, map1(p, PM_S_sin, x));
}
CASE(where_not) {
  PmValueId zero = num(p, 0, t);
  return pm_b_map3(&p->b, PM_S_where, map1(p, PM_S_not, map2(p, PM_S_gt, x, zero)), zero, x);
}
CASE(logic) {
  PmType b = t;
  b.dtype = PM_BOOL;
  PmValueId c = map2(p, PM_S_gt, x, num(p, 0, t));
  PmValueId d = map2(p, PM_S_and, map2(p, PM_S_or, num(p, 0, b), c), num(p, 1, b));
  return pm_b_map3(&p->b, PM_S_where, map1(p, PM_S_not, map1(p, PM_S_not, d)), x, num(p, 0, t));
}
CASE(cast_there_and_back) { return pm_b_cast(&p->b, pm_b_cast(&p->b, x, PM_F64), (PmDtype)t.dtype); }
CASE(cast_narrow_stays) { return pm_b_cast(&p->b, pm_b_cast(&p->b, x, PM_BF16), PM_F32); }
CASE(cast_to_index_stays) { return pm_b_cast(&p->b, pm_b_cast(&p->b, x, PM_BOOL), (PmDtype)t.dtype); }
CASE(cast_number) {
  t.dtype = PM_F64;
  PmValueId third = num(p, 1.0 / 3, t);
  return map2(p, PM_S_mul, x, pm_b_cast(&p->b, third, (PmDtype)pm_b_type(&p->b, x)->dtype));
}
CASE(min_same) { return map2(p, PM_S_min, x, x); }
CASE(and_same) {
  PmValueId c = map2(p, PM_S_gt, x, num(p, 0, t));
  return pm_b_map3(&p->b, PM_S_where, map2(p, PM_S_and, c, c), x, num(p, 0, t));
}
CASE(or_same) {
  PmValueId c = map2(p, PM_S_gt, x, num(p, 0, t));
  return pm_b_map3(&p->b, PM_S_where, map2(p, PM_S_or, c, c), x, num(p, 0, t));
}
CASE(div_same_stays) { return map2(p, PM_S_div, x, x); }
CASE(sub_self_negated) { return map2(p, PM_S_add, map1(p, PM_S_neg, x), x); }
CASE(div_power_of_two_stays) { return map2(p, PM_S_div, x, num(p, 2, t)); }
CASE(broadcast_twice) {
  PmType permuted = program_type(p, 3, p->i, p->k, p->j);
  permuted.dtype = t.dtype;
  return pm_b_broadcast(&p->b, pm_b_broadcast(&p->b, x, broad(p, t)), permuted);
}
CASE(sum_of_zeros) { return map2(p, PM_S_add, x, pm_b_reduce(&p->b, PM_SUM, num(p, 0, broad(p, t)), &p->i, 1)); }
CASE(sum_of_minus_zeros_stays) {
  return map2(p, PM_S_add, x, pm_b_reduce(&p->b, PM_SUM, num(p, -0.0, broad(p, t)), &p->i, 1));
}
CASE(views_of_number) {
  PmValueId c = pm_b_rename(&p->b, num(p, 0.5, t), &p->k, &p->k2, 1);
  c = pm_b_split(&p->b, pm_b_rename(&p->b, c, &p->k2, &p->k, 1), p->k, (PmAxisId[]){p->kp, p->kq}, 2);
  return map2(p, PM_S_mul, x, pm_b_merge(&p->b, c, (PmAxisId[]){p->kp, p->kq}, 2, p->k));
}
CASE(merge_split) {
  const PmAxisId parts[] = {p->kp, p->kq};
  PmValueId y = pm_b_split(&p->b, map1(p, PM_S_sin, x), p->k, parts, 2);
  return pm_b_split(&p->b, pm_b_merge(&p->b, y, parts, 2, p->k), p->k, parts, 2);
}
CASE(rename_back) { return pm_b_rename(&p->b, pm_b_rename(&p->b, x, &p->k, &p->k2, 1), &p->k2, &p->k, 1); }
CASE(split_merge) {
  const PmAxisId parts[] = {p->kp, p->kq};
  return pm_b_merge(&p->b, pm_b_split(&p->b, x, p->k, parts, 2), parts, 2, p->k);
}
CASE(split_merge_other_order_stays) {
  return pm_b_merge(&p->b, pm_b_split(&p->b, x, p->k, (PmAxisId[]){p->kp, p->kq}, 2), (PmAxisId[]){p->kq, p->kp}, 2,
                    p->k);
}
CASE(select_stack) {
  return pm_b_select(&p->b, pm_b_stack(&p->b, (PmValueId[]){map1(p, PM_S_sin, x), x}, 2, p->i), p->i, 1);
}
CASE(select_broadcast) {
  PmValueId wide = pm_b_broadcast(&p->b, x, broad(p, t));
  return pm_b_select(&p->b, wide, p->i, 1);
}
CASE(max_of_broadcast) {
  PmValueId wide = pm_b_broadcast(&p->b, x, broad(p, t));
  return pm_b_reduce(&p->b, PM_MAX, wide, &p->i, 1);
}
CASE(sum_of_broadcast_stays) {
  PmValueId wide = pm_b_broadcast(&p->b, x, broad(p, t));
  return pm_b_reduce(&p->b, PM_SUM, wide, &p->i, 1);
}
// const, broadcast, mul
CASE(fold_f64) {
  PmValueId third = map2(p, PM_S_div, pm_b_const(&p->b, PM_F64, 1), pm_b_const(&p->b, PM_F64, 3));
  PmValueId c = pm_b_cast(&p->b, third, (PmDtype)t.dtype);
  return map2(p, PM_S_mul, x, pm_b_broadcast(&p->b, c, t));
}
CASE(fold_f32_exact) { return map2(p, PM_S_mul, x, map2(p, PM_S_add, num(p, 2, t), num(p, 0.5, t))); }
// Two constants, two broadcasts, add, mul: rounding would show.
CASE(fold_f32_inexact_stays) { return map2(p, PM_S_mul, x, map2(p, PM_S_add, num(p, 0.1, t), num(p, 0.2, t))); }
CASE(share) { return map2(p, PM_S_mul, map1(p, PM_S_sin, x), map1(p, PM_S_sin, x)); }
#undef CASE

static const Case cases[] = {
#define ROW(name, left) {#name, case_##name, left}
    ROW(mul_one, 0),
    ROW(div_one, 0),
    ROW(pow_one, 0),
    ROW(sub_zero, 0),
    ROW(add_minus_zero, 0),
    ROW(add_zero_stays, 3),
    ROW(sub_minus_zero_stays, 3),
    ROW(mul_zero_stays, 3),
    ROW(neg_neg, 0),
    ROW(add_neg, 2),
    ROW(sub_neg, 1),
    ROW(mul_neg_neg, 1),
    ROW(max_same, 0),
    ROW(sub_same_stays, 1),
    ROW(where_same, 0),
    ROW(where_true, 0),
    ROW(where_not, 4),
    ROW(logic, 4),
    ROW(cast_there_and_back, 0),
    ROW(cast_narrow_stays, 2),
    ROW(broadcast_twice, 1),
    ROW(rename_back, 0),
    ROW(split_merge, 0),
    ROW(split_merge_other_order_stays, 2),
    ROW(select_stack, 0),
    ROW(select_broadcast, 0),
    ROW(max_of_broadcast, 0),
    ROW(sum_of_broadcast_stays, 2),
    ROW(fold_f64, 3),
    ROW(fold_f32_exact, 3),
    ROW(fold_f32_inexact_stays, 6),
    ROW(share, 2),
    ROW(cast_to_index_stays, 2),
    ROW(cast_number, 3),
    ROW(min_same, 0),
    ROW(and_same, 4),
    ROW(or_same, 4),
    ROW(div_same_stays, 1),
    ROW(sub_self_negated, 1),
    ROW(div_power_of_two_stays, 3),
    ROW(sum_of_zeros, 3),
    ROW(sum_of_minus_zeros_stays, 4),
    ROW(views_of_number, 3),
    ROW(merge_split, 2),
#undef ROW
};

static bool same_bits(double a, double b) { return (isnan(a) && isnan(b)) || memcmp(&a, &b, sizeof a) == 0; }

static void expect_same(const PmTensor *a, const PmTensor *b, int32_t n) {
  for (int32_t i = 0; i < n; i++) {
    assert_true(pm_type_equal(&a[i].type, &b[i].type));
    for (int64_t e = 0; e < a[i].n; e++) {
      if (!same_bits(a[i].data[e], b[i].data[e])) fail_msg("result %d: %a is now %a", i, a[i].data[e], b[i].data[e]);
    }
  }
}

static double rounded(PmDtype dtype, double v) {
  return dtype == PM_F16    ? (double)pm_f16_round(v)
         : dtype == PM_BF16 ? (double)pm_bf16_round(v)
         : dtype == PM_F32  ? (double)(float)v
                            : v;
}

// The least positive number of each dtype, and its largest, among others.
static const double odd[] = {0.0,   -0.0, INFINITY, -INFINITY, NAN,    0x1p-149, -0x1.8p127, 0x1p-133,
                             65504, 1e-7, 0x1p-24,  -0x1p-126, 1 / 3., -1,       0x1.fep127, 2};

static void check_case(const Case *c, PmDtype dtype) {
  for (uint64_t seed = 0; seed < 4; seed++) {
    Program p;
    program_init(&p, seed << 20);
    program_fn(&p, "f", PM_FN_BODY);
    PmType t = program_type(&p, 2, p.j, p.k);
    t.dtype = (uint8_t)dtype;
    PmValueId x = pm_b_param(&p.b, t, "x");
    PmValueId y = c->build(&p, x, t);
    pm_b_results(&p.b, &y, 1);
    PmFnId f = p.b.fn;
    PmTensor *in = program_inputs(&p, f, -2, 2);
    // Every element is an odd one for some seed.
    for (int64_t k = 0; k < in[0].n; k++) {
      in[0].data[k] = rounded(dtype, program_below(&p, 2) || seed == 0 ? odd[(k + (int64_t)seed) % 16] : in[0].data[k]);
    }
    const PmTensor *before[2];
    for (int32_t mode = 0; mode < 2; mode++)
      before[mode] = program_run(&p, f, mode ? PM_INTERP_EXACT : PM_INTERP_F64, in);
    simplify(&p);
    if (dtype == PM_F32 && pm_fn(p.m, f)->n_nodes != c->n_nodes) {
      fail_msg("%s: %d nodes are left, not %d", c->name, pm_fn(p.m, f)->n_nodes, c->n_nodes);
    }
    for (int32_t mode = 0; mode < 2; mode++) {
      expect_same(before[mode], program_run(&p, f, mode ? PM_INTERP_EXACT : PM_INTERP_F64, in), 1);
    }
    program_deinit(&p);
  }
}

static void test_rules(void **state) {
  (void)state;
  static const PmDtype dtypes[] = {PM_F32, PM_BF16, PM_F16, PM_F64};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    for (int32_t d = 0; d < 4; d++) check_case(&cases[i], dtypes[d]);
  }
}

static void test_dead_across_calls(void **state) {
  (void)state;
  Program p;
  program_init(&p, 1);
  // Carries a, b, c: b depends on c only, and nothing outside reads either; w serves b alone.
  program_fn(&p, "body", PM_FN_BODY);
  PmType t = program_type(&p, 1, p.j);
  PmValueId a = pm_b_param(&p.b, t, "a"), b = pm_b_param(&p.b, t, "b"), c = pm_b_param(&p.b, t, "c");
  PmValueId w = pm_b_param(&p.b, t, "w"), x = pm_b_param(&p.b, t, "x");
  PmValueId a2 = map2(&p, PM_S_add, a, x), b2 = map2(&p, PM_S_mul, b, map2(&p, PM_S_add, c, w));
  pm_b_results(&p.b, (PmValueId[]){a2, b2, map1(&p, PM_S_sin, c), map1(&p, PM_S_exp, x), x}, 5);
  PmFnId body = p.b.fn;
  program_fn(&p, "orphan", PM_FN_COMPOSITE);
  PmValueId o = pm_b_param(&p.b, t, "o");
  pm_b_results(&p.b, &o, 1);
  PmFnId orphan = p.b.fn;
  program_fn(&p, "f", PM_FN_MODEL);
  PmFnId f = p.b.fn;
  PmValueId in[5];
  for (int32_t i = 0; i < 4; i++) in[i] = pm_b_param(&p.b, t, NULL);
  in[4] = pm_b_param(&p.b, program_type(&p, 2, p.r, p.j), NULL);
  PmValueId out = pm_b_repeat(&p.b, body, p.r, 3, 1, false, in, 5);
  pm_b_results(&p.b, (PmValueId[]){out, out + 4}, 2);
  p.m->model = f;
  simplify(&p);
  assert_true(pm_fn(p.m, orphan)->dead);
  assert_int_equal(pm_fn(p.m, body)->n_params, 2);
  assert_int_equal(pm_fn(p.m, body)->n_results, 1);
  assert_int_equal(pm_fn(p.m, f)->n_params, 5);
  const PmNode *node = &pm_fn(p.m, f)->nodes[0];
  assert_int_equal(node->attr.n_carry, 1);
  assert_int_equal(node->attr.n_inv, 0);
  // The last produced value is the stacked operand itself.
  assert_int_equal(pm_fn(p.m, f)->results[1], 4);
  program_deinit(&p);
}

// Two values that rules of a plan may name stay two; an unnamed one takes the name of what it replaces.
static void test_names(void **state) {
  (void)state;
  Program p;
  program_init(&p, 2);
  program_fn(&p, "f", PM_FN_BODY);
  PmType t = program_type(&p, 1, p.j);
  PmValueId x = pm_b_param(&p.b, t, "x");
  PmValueId in[3];
  const char *const names[] = {NULL, "q", "k"};
  for (int32_t i = 0; i < 3; i++) {
    in[i] = map1(&p, PM_S_sin, x);
    pm_b_name(&p.b, in[i], names[i], i > 0);
  }
  pm_b_results(&p.b, in, 3);
  simplify(&p);
  const PmFn *f = pm_fn(p.m, p.b.fn);
  assert_int_equal(f->n_nodes, 2);
  assert_int_equal(f->results[0], f->results[1]);
  assert_string_equal(f->values[f->results[0]].name, "q");
  assert_string_equal(f->values[f->results[2]].name, "k");
  program_deinit(&p);
}

// One device's program: equal collectives are one, placements stay as they are.
static void test_local(void **state) {
  (void)state;
  Program p;
  program_init(&p, 3);
  p.m->stage = PM_STAGE_LOCAL;
  p.m->n_mesh = 1;
  p.m->mesh = PM_NEW(&p.arena, PmMeshAxis);
  p.m->mesh[0] = (PmMeshAxis){.name = pm_intern(&p.names, "data"), .size = 2};
  program_fn(&p, "f", PM_FN_BODY);
  PmType t = program_type(&p, 2, p.i, p.j);
  pm_split_push(&t.dims[0].split, 0);
  PmValueId x = pm_b_param(&p.b, t, "x");
  PmValueId scaled = map2(&p, PM_S_mul, x, num(&p, 1, t));
  PmValueId owed = pm_b_reduce(&p.b, PM_SUM, scaled, &p.i, 1);
  PmAttr attr = {.kind = PM_SUM, .n_mesh = 1};
  PmValueId a = pm_b_node(&p.b, PM_OP_all_reduce, &attr, &owed, 1, NULL);
  PmValueId c = pm_b_node(&p.b, PM_OP_all_reduce, &attr, &owed, 1, NULL);
  PmValueId y = map2(&p, PM_S_mul, a, map1(&p, PM_S_neg, map1(&p, PM_S_neg, c)));
  pm_b_results(&p.b, (PmValueId[]){y, map1(&p, PM_S_neg, map1(&p, PM_S_neg, owed))}, 2);
  PmFnId f = p.b.fn;
  const PmTensor *in = program_inputs(&p, f, -1, 1);
  const PmTensor *before = program_run(&p, f, PM_INTERP_EXACT, in);
  simplify(&p);
  assert_int_equal(pm_fn(p.m, f)->n_nodes, 3);
  assert_int_equal(pm_fn(p.m, f)->values[pm_fn(p.m, f)->results[1]].type.n_partial, 1);
  expect_same(before, program_run(&p, f, PM_INTERP_EXACT, in), 2);
  program_deinit(&p);
}

static void test_random(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < 80; seed++) {
    Program p;
    program_init(&p, (seed + 1000) << 20);
    PmFnId fn = program_random_fn(&p, 16, seed % 4 == 0 ? 0 : 2, true);
    const PmTensor *in = program_inputs(&p, fn, -1, 1);
    const PmTensor *exact = program_run(&p, fn, PM_INTERP_EXACT, in);
    const PmTensor *real = program_run(&p, fn, PM_INTERP_F64, in);
    simplify(&p);
    expect_same(exact, program_run(&p, fn, PM_INTERP_EXACT, in), pm_fn(p.m, fn)->n_results);
    expect_same(real, program_run(&p, fn, PM_INTERP_F64, in), pm_fn(p.m, fn)->n_results);
    PmBuf once, twice;
    pm_buf_init(&once);
    pm_buf_init(&twice);
    pm_module_print(p.m, &once);
    simplify(&p);
    pm_module_print(p.m, &twice);
    assert_string_equal(pm_buf_str(&once), pm_buf_str(&twice));
    pm_buf_deinit(&once);
    pm_buf_deinit(&twice);
    program_deinit(&p);
  }
}

// Differentiating the simplified program, and simplifying the pair, leaves the gradients right.
static void test_random_gradients(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < 20; seed++) {
    Program p;
    program_init(&p, (seed + 5000) << 20);
    PmFnId fn = program_random_fn(&p, 12, 2, false);
    simplify(&p);
    program_check_gradients(&p, fn, true, -1, 1, 1e-6);
    program_deinit(&p);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rules),  cmocka_unit_test(test_dead_across_calls),
      cmocka_unit_test(test_names),  cmocka_unit_test(test_local),
      cmocka_unit_test(test_random), cmocka_unit_test(test_random_gradients),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
