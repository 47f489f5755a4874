// Padding: where masks stand, where none is needed, and what cannot be padded. Values are compared by plans_random and
// tools_verify_padding.
#include <math.h>

#include "../plans/plans.h"
#include "harness.h"
#include "passes/rewrite.h"

#define AXES(...) \
  (const PmAxisId[]) { __VA_ARGS__, PM_NONE }

static void pad_rule(Plan *p, PmAxisId axis) {
  PmRule *r = &p->m->rules[p->m->n_rules++];
  *r = (PmRule){.pad = true, .n_axes = 1, .span = PM_NO_SPAN, .text = "pad"};
  r->axes = PM_NEW_N(&p->arena, PmAxisId, 1);
  r->axes[0] = axis;
}

// Runs `pad` on the model with these results; the number of masks that it put in, or -1 for a refusal.
static int32_t pad(Plan *p, const PmValueId *results, int32_t n) {
  pm_b_results(&p->b, results, n);
  PmPassCtx ctx = {.diags = p->diags, .sources = &p->sources, .verify = true};
  int32_t before = 0, after = 0;
  const PmFn *f = pm_fn(p->m, p->m->model);
  for (int32_t i = 0; i < f->n_nodes; i++) before += f->nodes[i].op == PM_OP_map && f->nodes[i].attr.fn == PM_S_where;
  PmStatus *st = pm_passes_run(&ctx, p->m, "pad");
  if (st) {
    assert_int_equal(pm_status_code(st), PM_ERR_INPUT);
    pm_status_drop(st);
    return -1;
  }
  f = pm_fn(p->m, p->m->model);
  for (int32_t i = 0; i < f->n_nodes; i++) after += f->nodes[i].op == PM_OP_map && f->nodes[i].attr.fn == PM_S_where;
  return after - before;
}

typedef struct Mlp {
  PmAxisId batch, embed, ff;
  PmValueId x, w1, w2;
} Mlp;

static Mlp mlp(Plan *p) {
  Mlp m = {.batch = plan_axis(p, "batch", 4), .embed = plan_axis(p, "embed", 6), .ff = plan_axis(p, "ff", 10)};
  m.x = plan_var(p, PM_ROLE_INPUT, PM_F32, "x", PM_NONE, AXES(m.batch, m.embed));
  m.w1 = plan_var(p, PM_ROLE_PARAM, PM_F32, "w1", PM_NONE, AXES(m.embed, m.ff));
  m.w2 = plan_var(p, PM_ROLE_PARAM, PM_F32, "w2", PM_NONE, AXES(m.ff, m.embed));
  return m;
}

// The same on a mesh, with `ff` split over it and padded.
static Mlp padded_mlp(Plan *p, const char *mesh) {
  plan_init(p, mesh);
  Mlp m = mlp(p);
  plan_rule(p, 0, "ff", "tensor");
  pad_rule(p, m.ff);
  return m;
}

// silu(0) = 0 / (1 + exp(-0)) is zero, step by step.
static PmValueId silu(Plan *p, PmValueId x) {
  PmType t = *pm_b_type(&p->b, x);
  PmValueId e = pm_b_map1(&p->b, PM_S_exp, pm_b_map1(&p->b, PM_S_neg, x));
  return pm_b_map2(&p->b, PM_S_div, x, pm_b_map2(&p->b, PM_S_add, pm_b_splat(&p->b, 1, &t), e));
}

static void test_sizes(void **state) {
  (void)state;
  Plan p;
  Mlp m = padded_mlp(&p, "tensor=4");
  PmValueId h = pm_b_dot(&p.b, m.x, m.w1, &m.embed, 1);
  assert_int_equal(pad(&p, &h, 1), 0);
  assert_int_equal(pm_axis_size(p.m, m.ff), 12);
  assert_int_equal(pm_axis_logical(p.m, m.ff), 10);
  PmBuf text;
  pm_buf_init(&text);
  pm_type_print(p.m, &p.m->vars[1].type, &text);
  assert_string_equal(pm_buf_str(&text), "f32[embed:6, ff:10^12]");
  pm_buf_deinit(&text);
  plan_deinit(&p);
}

// What divides is left alone, and so is an axis that no rule touches.
static void test_nothing_to_pad(void **state) {
  (void)state;
  Plan p;
  Mlp m = padded_mlp(&p, "tensor=5");
  pad_rule(&p, m.embed);
  PmValueId h = pm_b_dot(&p.b, m.x, m.w1, &m.embed, 1);
  assert_int_equal(pad(&p, &h, 1), 0);
  assert_int_equal(pm_axis_size(p.m, m.ff), 10);
  assert_int_equal(pm_axis_size(p.m, m.embed), 6);
  plan_deinit(&p);
}

static void test_zeros_need_no_mask(void **state) {
  (void)state;
  Plan p;
  Mlp m = padded_mlp(&p, "tensor=4");
  PmValueId h = silu(&p, pm_b_dot(&p.b, m.x, m.w1, &m.embed, 1));
  PmValueId y = pm_b_dot(&p.b, h, m.w2, &m.ff, 1);
  assert_int_equal(pad(&p, &y, 1), 0);
  plan_deinit(&p);
}

static void test_what_is_not_zero_is_masked(void **state) {
  (void)state;
  Plan p;
  Mlp m = padded_mlp(&p, "tensor=4");
  PmValueId h = pm_b_map1(&p.b, PM_S_exp, pm_b_dot(&p.b, m.x, m.w1, &m.embed, 1));
  const PmValueId out[] = {pm_b_dot(&p.b, h, m.w2, &m.ff, 1), pm_b_reduce(&p.b, PM_MAX, h, &m.ff, 1),
                           pm_b_reduce(&p.b, PM_SUM, h, &m.ff, 1), pm_b_reduce(&p.b, PM_SUM, h, &m.batch, 1)};
  assert_int_equal(pad(&p, out, 4), 3);  // the last sums along another axis
  plan_deinit(&p);
}

// The maximum of zeros in the padding and negative numbers would be zero.
static void test_the_maximum_sees_no_zeros(void **state) {
  (void)state;
  Plan p;
  Mlp m = padded_mlp(&p, "tensor=4");
  PmValueId most = pm_b_reduce(&p.b, PM_MAX, pm_b_dot(&p.b, m.x, m.w1, &m.embed, 1), &m.ff, 1);
  assert_int_equal(pad(&p, &most, 1), 1);
  plan_deinit(&p);
}

// Zero times what may be infinite in its own padding is not known to be zero.
static void test_a_product_of_two_padded_values(void **state) {
  (void)state;
  Plan p;
  Mlp m = padded_mlp(&p, "tensor=4");
  PmValueId h = pm_b_dot(&p.b, m.x, m.w1, &m.embed, 1);
  PmValueId product = pm_b_map2(&p.b, PM_S_mul, h, pm_b_map1(&p.b, PM_S_log, h));
  PmValueId sum = pm_b_reduce(&p.b, PM_SUM, product, &m.ff, 1);
  assert_int_equal(pad(&p, &sum, 1), 1);
  plan_deinit(&p);
}

static void test_renamed_axes_grow_together(void **state) {
  (void)state;
  Plan p;
  plan_init(&p, "tensor=4");
  Mlp m = mlp(&p);
  PmAxisId other = plan_axis(&p, "other", 10);
  plan_rule(&p, 0, "ff", "tensor");
  pad_rule(&p, other);
  PmValueId h = pm_b_rename(&p.b, m.w1, &m.ff, &other, 1);
  assert_int_equal(pad(&p, &h, 1), 0);
  assert_int_equal(pm_axis_size(p.m, m.ff), 12);
  assert_int_equal(pm_axis_size(p.m, other), 12);
  plan_deinit(&p);
}

static void test_major_and_minor_parts(void **state) {
  (void)state;
  for (int32_t minor = 0; minor < 2; minor++) {
    Plan p;
    plan_init(&p, "tensor=4");
    Mlp m = mlp(&p);
    PmAxisId flat = plan_axis(&p, "flat", 60);
    plan_rule(&p, 0, "ff", "tensor");
    pad_rule(&p, m.ff);
    const PmAxisId parts[] = {minor ? m.embed : m.ff, minor ? m.ff : m.embed};
    PmValueId y = pm_b_merge(&p.b, m.w1, parts, 2, flat);
    assert_int_equal(pad(&p, &y, 1), minor ? -1 : 0);
    if (!minor) assert_int_equal(pm_axis_size(p.m, flat), 72);
    plan_deinit(&p);
  }
}

static void test_stacks_and_choices_are_refused(void **state) {
  (void)state;
  for (int32_t k = 0; k < 2; k++) {
    Plan p;
    plan_init(&p, "tensor=2");
    Mlp m = mlp(&p);
    PmAxisId three = plan_axis(&p, "three", 3);
    plan_rule(&p, 0, "three", "tensor");
    pad_rule(&p, three);
    PmAttr topk = {.n_axes = 1, .axes = {m.ff}, .n_to = 1, .to = {three}};
    PmValueId y = k ? pm_b_node(&p.b, PM_OP_topk, &topk, &m.w1, 1, NULL)
                    : pm_b_stack(&p.b, (PmValueId[]){m.w1, m.w1, m.w1}, 3, three);
    assert_int_equal(pad(&p, &y, 1), -1);
    plan_deinit(&p);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sizes),
      cmocka_unit_test(test_nothing_to_pad),
      cmocka_unit_test(test_zeros_need_no_mask),
      cmocka_unit_test(test_what_is_not_zero_is_masked),
      cmocka_unit_test(test_the_maximum_sees_no_zeros),
      cmocka_unit_test(test_a_product_of_two_padded_values),
      cmocka_unit_test(test_renamed_axes_grow_together),
      cmocka_unit_test(test_major_and_minor_parts),
      cmocka_unit_test(test_stacks_and_choices_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
