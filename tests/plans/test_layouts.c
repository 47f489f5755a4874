// Small programs, each with the collectives that its placement must come to.
#include "harness.h"
#include "plans.h"

#define AXES(...) \
  (const PmAxisId[]) { __VA_ARGS__, PM_NONE }

static PmValueId gelu_like(Plan *p, PmValueId x) { return pm_b_map1(&p->b, PM_S_tanh, x); }

static PmValueId named(Plan *p, PmValueId v, const char *name) {
  pm_b_name(&p->b, v, name, true);
  return v;
}

typedef struct Axes {
  PmAxisId batch, seq, embed, ff, heads, hdim, vocab;
} Axes;

static Axes make_axes(Plan *p) {
  return (Axes){plan_axis(p, "batch", 4), plan_axis(p, "seq", 6),  plan_axis(p, "embed", 8), plan_axis(p, "ff", 12),
                plan_axis(p, "heads", 4), plan_axis(p, "hdim", 2), plan_axis(p, "vocab", 8)};
}

// x -> column-parallel -> pointwise -> row-parallel: nothing, then one all-reduce.
static void build_mlp(Plan *p, const Axes *a, PmValueId *out_y) {
  PmValueId x = plan_var(p, PM_ROLE_INPUT, PM_F32, "x", PM_NONE, AXES(a->batch, a->seq, a->embed));
  PmValueId w1 = plan_var(p, PM_ROLE_PARAM, PM_F32, "w1", PM_NONE, AXES(a->embed, a->ff));
  PmValueId w2 = plan_var(p, PM_ROLE_PARAM, PM_F32, "w2", PM_NONE, AXES(a->ff, a->embed));
  PmValueId b2 = plan_var(p, PM_ROLE_PARAM, PM_F32, "b2", PM_NONE, AXES(a->embed));
  PmValueId h = named(p, gelu_like(p, pm_b_dot(&p->b, x, w1, &a->embed, 1)), "h");
  PmValueId y = pm_b_dot(&p->b, h, w2, &a->ff, 1);
  *out_y = named(p, pm_b_mapb(&p->b, PM_S_add, (PmValueId[]){y, b2}, 2), "y");
}

static void test_column_row_is_one_all_reduce(void **state) {
  (void)state;
  Plan p;
  plan_init(&p, "tensor=2");
  Axes a = make_axes(&p);
  PmValueId y;
  build_mlp(&p, &a, &y);
  plan_rule(&p, 0, "ff", "tensor");
  plan_check(&p, &y, 1);
  assert_int_equal(plan_count(p.m, PM_OP_all_reduce), 1);
  assert_int_equal(plan_count(p.m, PM_OP_all_gather), 0);
  plan_deinit(&p);
}

static void test_sequence_parallel_is_gather_and_scatter(void **state) {
  (void)state;
  Plan p;
  plan_init(&p, "data=2,tensor=2");
  Axes a = make_axes(&p);
  PmValueId y;
  build_mlp(&p, &a, &y);
  plan_rule(&p, 0, "batch", "data");
  plan_rule(&p, 0, "ff", "tensor");
  plan_rule(&p, 1u << PM_ROLE_ACT | 1u << PM_ROLE_INPUT, "seq", "tensor");
  plan_check(&p, &y, 1);
  assert_int_equal(plan_count(p.m, PM_OP_all_reduce), 0);
  assert_int_equal(plan_count(p.m, PM_OP_all_gather), 1);
  assert_int_equal(plan_count(p.m, PM_OP_reduce_scatter), 1);
  plan_deinit(&p);
}

// Three row-parallel products that are added are reduced once.
static void test_sums_of_partials_are_reduced_once(void **state) {
  (void)state;
  Plan p;
  plan_init(&p, "tensor=4");
  Axes a = make_axes(&p);
  PmValueId sum = PM_NONE;
  for (int32_t i = 0; i < 3; i++) {
    const char *xs[] = {"x0", "x1", "x2"}, *ws[] = {"w0", "w1", "w2"};
    PmValueId x = plan_var(&p, PM_ROLE_INPUT, PM_F32, xs[i], PM_NONE, AXES(a.batch, a.heads, a.hdim));
    (void)plan_var(&p, PM_ROLE_PARAM, PM_F32, ws[i], PM_NONE, AXES(a.heads, a.hdim, a.embed));
    (void)x;
  }
  for (int32_t i = 0; i < 3; i++) {
    PmValueId d = pm_b_dot(&p.b, 2 * i, 2 * i + 1, (PmAxisId[]){a.heads, a.hdim}, 2);
    sum = sum == PM_NONE ? d : pm_b_map2(&p.b, PM_S_add, sum, d);
  }
  PmValueId y = gelu_like(&p, sum);
  plan_rule(&p, 0, "heads", "tensor");
  plan_check(&p, &y, 1);
  assert_int_equal(plan_count(p.m, PM_OP_all_reduce), 1);
  plan_deinit(&p);
}

// A row lookup in a table that is split by rows: local rows, then one sum; its gradient needs nothing.
static void test_vocab_parallel_lookup(void **state) {
  (void)state;
  Plan p;
  plan_init(&p, "tensor=4");
  Axes a = make_axes(&p);
  PmValueId t = plan_var(&p, PM_ROLE_INPUT, PM_I32, "tokens", a.vocab, AXES(a.batch, a.seq));
  PmValueId w = plan_var(&p, PM_ROLE_PARAM, PM_F32, "w", PM_NONE, AXES(a.vocab, a.embed));
  PmValueId dy = plan_var(&p, PM_ROLE_INPUT, PM_F32, "dy", PM_NONE, AXES(a.batch, a.seq, a.embed));
  PmValueId x = pm_b_index(&p.b, w, t, a.vocab);
  PmValueId y = gelu_like(&p, x);
  PmValueId dw = named(&p, pm_b_scatter_add(&p.b, t, dy, a.vocab, *pm_b_type(&p.b, w)), "dw");
  plan_rule(&p, 0, "vocab", "tensor");
  plan_check(&p, (PmValueId[]){y, dw}, 2);
  assert_int_equal(plan_count(p.m, PM_OP_all_reduce), 1);
  plan_deinit(&p);
}

static void test_softmax_over_a_split_axis(void **state) {
  (void)state;
  Plan p;
  plan_init(&p, "data=2,tensor=2");
  Axes a = make_axes(&p);
  PmValueId x = plan_var(&p, PM_ROLE_INPUT, PM_F32, "x", PM_NONE, AXES(a.batch, a.vocab));
  PmValueId top = pm_b_reduce(&p.b, PM_MAX, x, &a.vocab, 1);
  PmValueId e = pm_b_map1(&p.b, PM_S_exp, pm_b_mapb(&p.b, PM_S_sub, (PmValueId[]){x, top}, 2));
  PmValueId z = pm_b_reduce(&p.b, PM_SUM, e, &a.vocab, 1);
  PmValueId y = named(&p, pm_b_mapb(&p.b, PM_S_div, (PmValueId[]){e, z}, 2), "y");
  plan_rule(&p, 0, "batch", "data");
  plan_rule(&p, 0, "vocab", "tensor");
  plan_check(&p, &y, 1);
  assert_int_equal(plan_count(p.m, PM_OP_all_reduce), 2);
  assert_int_equal(plan_count(p.m, PM_OP_all_gather), 0);
  plan_deinit(&p);
}

// The gradient of a weight over the batch is a partial sum that leaves the repeat and is reduced once, not once a turn.
static void test_partials_leave_a_repeat(void **state) {
  (void)state;
  Plan p;
  plan_init(&p, "data=2");
  Axes a = make_axes(&p);
  PmAxisId layer = plan_axis(&p, "layer", 3);
  PmValueId x = plan_var(&p, PM_ROLE_INPUT, PM_F32, "x", PM_NONE, AXES(a.batch, a.embed));
  PmValueId ws = plan_var(&p, PM_ROLE_PARAM, PM_F32, "w", PM_NONE, AXES(layer, a.embed, a.ff));
  PmFnId body = pm_module_add_fn(p.m, "body", PM_FN_BODY);
  PmBuilder b = {.m = p.m, .fn = body, .loc = p.b.loc};
  PmType tx = *pm_b_type(&p.b, x), tw = pm_type_scalar(PM_F32);
  pm_type_add(&tw, a.embed);
  pm_type_add(&tw, a.ff);
  PmValueId bx = pm_b_param(&b, tx, "bx"), bw = pm_b_param(&b, tw, "bw");
  PmValueId h = pm_b_dot(&b, bx, bw, &a.embed, 1);
  PmValueId dw = pm_b_dot(&b, bx, h, &a.batch, 1);
  PmValueId back = pm_b_map1(&b, PM_S_tanh, pm_b_dot(&b, h, bw, &a.ff, 1));
  pm_b_results(&b, (PmValueId[]){back, dw}, 2);
  PmValueId out = pm_b_repeat(&p.b, body, layer, 1, 0, false, (PmValueId[]){x, ws}, 2);
  PmValueId square = pm_b_map2(&p.b, PM_S_mul, out + 1, out + 1);
  plan_rule(&p, 0, "batch", "data");
  plan_check(&p, (PmValueId[]){out, square}, 2);
  assert_int_equal(plan_count(p.m, PM_OP_all_reduce), 1);
  plan_deinit(&p);
}

static void test_axis_moves_by_all_to_all(void **state) {
  (void)state;
  Plan p;
  plan_init(&p, "data=2");
  Axes a = make_axes(&p);
  PmValueId x = plan_var(&p, PM_ROLE_INPUT, PM_F32, "x", PM_NONE, AXES(a.batch, a.seq));
  PmValueId y = named(&p, gelu_like(&p, x), "y");
  plan_rule(&p, 1u << PM_ROLE_INPUT, "batch", "data");
  plan_rule(&p, 1u << PM_ROLE_ACT, "seq", "data");
  plan_check(&p, &y, 1);
  assert_int_equal(plan_count(p.m, PM_OP_all_to_all), 1);
  assert_int_equal(plan_count(p.m, PM_OP_all_gather), 0);
  plan_deinit(&p);
}

// The merged axis divides over more ranks than its major part has elements: the merge runs whole.
static void test_merge_of_a_small_major_part(void **state) {
  (void)state;
  Plan p;
  plan_init(&p, "tensor=8");
  PmAxisId embed = plan_axis(&p, "embed", 8), pair = plan_axis(&p, "pair", 2), half = plan_axis(&p, "half", 4);
  PmValueId x = plan_var(&p, PM_ROLE_INPUT, PM_F32, "x", PM_NONE, AXES(embed));
  PmValueId h = named(&p, pm_b_split(&p.b, x, embed, AXES(pair, half), 2), "h");
  PmValueId y = named(&p, pm_b_merge(&p.b, gelu_like(&p, h), AXES(pair, half), 2, embed), "y");
  plan_rule(&p, 0, "embed", "tensor");
  plan_check(&p, &y, 1);
  plan_deinit(&p);
}

static void test_indivisible_axis_is_an_error(void **state) {
  (void)state;
  Plan p;
  plan_init(&p, "tensor=5");
  Axes a = make_axes(&p);
  PmValueId y;
  build_mlp(&p, &a, &y);
  plan_rule(&p, 0, "ff", "tensor");
  pm_b_results(&p.b, &y, 1);
  PmPassCtx ctx = {.diags = p.diags, .sources = &p.sources, .verify = true};
  PmStatus *st = pm_passes_run(&ctx, p.m, "place");
  assert_int_equal(pm_status_code(st), PM_ERR_INPUT);
  pm_status_drop(st);
  assert_int_equal(pm_diags_errors(p.diags), 1);
  plan_deinit(&p);
}

static void test_idle_rule_is_a_warning(void **state) {
  (void)state;
  Plan p;
  plan_init(&p, "tensor=2");
  Axes a = make_axes(&p);
  PmValueId y;
  build_mlp(&p, &a, &y);
  plan_rule(&p, 0, "heads", "tensor");
  plan_check(&p, &y, 1);
  assert_int_equal(pm_diags_warnings(p.diags), 1);
  plan_deinit(&p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_column_row_is_one_all_reduce),
      cmocka_unit_test(test_sequence_parallel_is_gather_and_scatter),
      cmocka_unit_test(test_sums_of_partials_are_reduced_once),
      cmocka_unit_test(test_vocab_parallel_lookup),
      cmocka_unit_test(test_softmax_over_a_split_axis),
      cmocka_unit_test(test_partials_leave_a_repeat),
      cmocka_unit_test(test_axis_moves_by_all_to_all),
      cmocka_unit_test(test_merge_of_a_small_major_part),
      cmocka_unit_test(test_indivisible_axis_is_an_error),
      cmocka_unit_test(test_idle_rule_is_a_warning),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
