// The gradient of each op against central differences.
#include "program.h"

// A sine in front of the op and after it, so that its gradient depends on where it is taken.
static PmValueId bend(Program *p, PmValueId v) { return pm_b_map1(&p->b, PM_S_sin, v); }

static void finish(Program *p, PmValueId y, double tol) {
  y = bend(p, y);
  pm_b_results(&p->b, &y, 1);
  program_check_gradients(p, p->b.fn, true, -1, 1, tol);
  program_deinit(p);
}

static PmValueId start(Program *p, uint64_t seed) {
  program_init(p, seed);
  program_fn(p, "f", PM_FN_BODY);
  return bend(p, pm_b_param(&p->b, program_type(p, 2, p->j, p->k), "x"));
}

static void test_broadcast(void **state) {
  (void)state;
  Program p;
  PmValueId x = start(&p, 1);
  finish(&p, pm_b_broadcast(&p.b, x, program_type(&p, 4, p.k, p.i, p.j, p.r)), 1e-6);
  x = start(&p, 2);
  finish(&p, pm_b_broadcast(&p.b, x, program_type(&p, 2, p.k, p.j)), 1e-6);
}

static void test_cast(void **state) {
  (void)state;
  Program p;
  PmValueId x = start(&p, 1);
  PmValueId wide = bend(&p, pm_b_cast(&p.b, x, PM_F64));
  finish(&p, pm_b_cast(&p.b, wide, PM_F32), 1e-6);
}

static void check_dot(uint64_t seed, const PmAxisId *x_axes, int32_t n_x, const PmAxisId *y_axes, int32_t n_y,
                      const PmAxisId *summed, int32_t n) {
  Program p;
  program_init(&p, seed);
  program_fn(&p, "f", PM_FN_BODY);
  PmType tx = pm_type_scalar(PM_F32), ty = tx;
  for (int32_t i = 0; i < n_x; i++) pm_type_add(&tx, x_axes[i]);
  for (int32_t i = 0; i < n_y; i++) pm_type_add(&ty, y_axes[i]);
  PmValueId x = pm_b_param(&p.b, tx, "x"), y = pm_b_param(&p.b, ty, "y");
  finish(&p, pm_b_dot(&p.b, bend(&p, x), bend(&p, y), summed, n), 1e-6);
}

static void test_dot(void **state) {
  (void)state;
  enum { I, J, K, K2 };  // ids of the program's axes, in the order in which program_init makes them
  check_dot(1, (PmAxisId[]){I, J}, 2, (PmAxisId[]){J, K}, 2, (PmAxisId[]){J}, 1);
  check_dot(2, (PmAxisId[]){J, I, K}, 3, (PmAxisId[]){K2, K, I}, 3, (PmAxisId[]){K}, 1);
  check_dot(3, (PmAxisId[]){K, J, I}, 3, (PmAxisId[]){J, K2, K}, 3, (PmAxisId[]){J, K}, 2);
  check_dot(4, (PmAxisId[]){I, J}, 2, (PmAxisId[]){J, I}, 2, (PmAxisId[]){I, J}, 2);
  check_dot(5, (PmAxisId[]){J}, 1, (PmAxisId[]){K}, 1, NULL, 0);
  check_dot(6, (PmAxisId[]){J, K}, 2, (PmAxisId[]){K, J}, 2, NULL, 0);
  check_dot(7, NULL, 0, (PmAxisId[]){K}, 1, NULL, 0);
}

static void test_dot_with_itself(void **state) {
  (void)state;
  Program p;
  PmValueId x = start(&p, 3);
  finish(&p, pm_b_dot(&p.b, x, x, &p.j, 1), 1e-6);
}

static void test_reduce(void **state) {
  (void)state;
  Program p;
  PmValueId x = start(&p, 1);
  finish(&p, pm_b_reduce(&p.b, PM_SUM, x, &p.j, 1), 1e-6);
  x = start(&p, 2);
  finish(&p, pm_b_reduce(&p.b, PM_SUM, x, (PmAxisId[]){p.k, p.j}, 2), 1e-6);
  x = start(&p, 3);
  finish(&p, pm_b_reduce(&p.b, PM_MAX, x, &p.k, 1), 1e-6);
  x = start(&p, 4);
  finish(&p, pm_b_reduce(&p.b, PM_MAX, x, &p.j, 1), 1e-6);
}

static void test_max_shares_ties(void **state) {
  (void)state;
  Program p;
  program_init(&p, 1);
  program_fn(&p, "f", PM_FN_BODY);
  PmValueId x = pm_b_param(&p.b, program_type(&p, 1, p.k), "x");
  PmValueId y = pm_b_reduce(&p.b, PM_MAX, x, &p.k, 1);
  pm_b_results(&p.b, &y, 1);
  PmFnId f = p.b.fn;
  const PmGradPair *pair;
  assert_null(pm_differentiate_fn(p.m, &p.arena, f, (bool[]){true}, true, &pair));
  PmTensor *in = program_inputs(&p, f, 0, 1);
  const double numbers[] = {3, 1, 3, 2};
  for (int32_t e = 0; e < 4; e++) in[0].data[e] = numbers[e];
  const PmTensor *cot = program_cotangents(&p, f);
  const PmTensor *d = program_gradients(&p, pair, in, cot);
  assert_true(d[0].data[0] == cot[0].data[0] / 2 && d[0].data[2] == d[0].data[0]);
  assert_true(d[0].data[1] == 0 && d[0].data[3] == 0);
  program_deinit(&p);
}

static void test_rename(void **state) {
  (void)state;
  Program p;
  PmValueId x = start(&p, 1);
  PmValueId y = pm_b_rename(&p.b, x, &p.k, &p.k2, 1);
  finish(&p, pm_b_dot(&p.b, x, y, &p.j, 1), 1e-6);
}

static void test_split_merge(void **state) {
  (void)state;
  Program p;
  PmValueId x = start(&p, 1);
  PmValueId parts = bend(&p, pm_b_split(&p.b, x, p.k, (PmAxisId[]){p.kp, p.kq}, 2));
  finish(&p, pm_b_merge(&p.b, parts, (PmAxisId[]){p.kq, p.kp}, 2, p.k2), 1e-6);
}

static void test_select(void **state) {
  (void)state;
  Program p;
  PmValueId x = start(&p, 1);
  PmValueId first = pm_b_select(&p.b, x, p.k, 0), third = pm_b_select(&p.b, x, p.k, 2);
  finish(&p, pm_b_map2(&p.b, PM_S_mul, first, third), 1e-6);
}

static void test_stack(void **state) {
  (void)state;
  Program p;
  PmValueId x = start(&p, 1);
  finish(&p, pm_b_stack(&p.b, (PmValueId[]){x, bend(&p, x)}, 2, p.i), 1e-6);
}

static void test_index(void **state) {
  (void)state;
  Program p;
  program_init(&p, 1);
  program_fn(&p, "f", PM_FN_BODY);
  PmValueId table = pm_b_param(&p.b, program_type(&p, 2, p.v, p.k), "table");
  PmValueId idx = pm_b_param(&p.b, program_index_type(&p, p.v, p.j), "idx");
  finish(&p, pm_b_index(&p.b, bend(&p, table), idx, p.v), 1e-6);
  // The axis of the indices is also one of the table: row j of the table is read where idx[j] points.
  program_init(&p, 2);
  program_fn(&p, "f", PM_FN_BODY);
  table = pm_b_param(&p.b, program_type(&p, 3, p.k, p.v, p.j), "table");
  idx = pm_b_param(&p.b, program_index_type(&p, p.v, p.j), "idx");
  finish(&p, pm_b_index(&p.b, bend(&p, table), idx, p.v), 1e-6);
}

// The summed axes of the updates are those of the indices, and one that neither the indices nor the result have.
static void test_scatter_add(void **state) {
  (void)state;
  Program p;
  program_init(&p, 1);
  program_fn(&p, "f", PM_FN_BODY);
  PmValueId idx = pm_b_param(&p.b, program_index_type(&p, p.v, p.j), "idx");
  PmValueId updates = pm_b_param(&p.b, program_type(&p, 3, p.j, p.i, p.k), "updates");
  finish(&p, pm_b_scatter_add(&p.b, idx, bend(&p, updates), p.v, program_type(&p, 2, p.k, p.v)), 1e-6);
  // Row j of the result takes from row j of the updates alone.
  program_init(&p, 2);
  program_fn(&p, "f", PM_FN_BODY);
  idx = pm_b_param(&p.b, program_index_type(&p, p.v, p.j), "idx");
  updates = pm_b_param(&p.b, program_type(&p, 2, p.k, p.j), "updates");
  finish(&p, pm_b_scatter_add(&p.b, idx, bend(&p, updates), p.v, program_type(&p, 3, p.j, p.v, p.k)), 1e-6);
}

static PmValueId one_to_one(Program *p, PmOp op, PmAxisId from, PmAxisId to, PmValueId x) {
  PmAttr a = {.n_axes = 1, .n_to = 1, .axes = {from}, .to = {to}};
  return pm_b_node(&p->b, op, &a, &x, 1, NULL);
}

// What is chosen gets the gradient, through values, dispatch and combine; the choice itself has none. Some rows are
// dropped: two slots an element for rows that want three.
static void test_routing(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 4; seed++) {
    Program p;
    program_init(&p, seed);
    program_fn(&p, "f", PM_FN_BODY);
    PmAxisId choice = pm_module_axis(p.m, pm_intern(&p.names, "choice"), 2, (PmLoc){0});
    PmAxisId slots = pm_module_axis(p.m, pm_intern(&p.names, "slots"), 8, (PmLoc){0});
    PmValueId scores = pm_b_param(&p.b, program_type(&p, 3, p.i, p.j, p.k), "scores");
    PmValueId x = bend(&p, pm_b_param(&p.b, program_type(&p, 3, p.j, p.i, p.v), "x"));
    PmValueId who = one_to_one(&p, PM_OP_topk, p.k, choice, scores);
    PmValueId w = pm_b_index(&p.b, scores, who, p.k);
    PmValueId slot = one_to_one(&p, PM_OP_slot_of, p.k, slots, who);
    PmValueId rows = pm_b_broadcast(&p.b, x, program_type(&p, 4, p.i, p.j, choice, p.v));
    PmValueId h = bend(&p, pm_b_scatter_add(&p.b, slot, rows, slots, program_type(&p, 2, slots, p.v)));
    PmValueId back = pm_b_index(&p.b, h, slot, slots);
    PmValueId in[2] = {back, w};
    finish(&p, pm_b_mapb(&p.b, PM_S_mul, in, 2), 1e-6);
  }
}

static void test_every_op_has_a_test(void **state) {
  (void)state;
  static const PmOp tested[] = {PM_OP_broadcast,   PM_OP_cast,   PM_OP_call,   PM_OP_dot,    PM_OP_index,
                                PM_OP_map,         PM_OP_merge,  PM_OP_reduce, PM_OP_rename, PM_OP_repeat,
                                PM_OP_scatter_add, PM_OP_select, PM_OP_split,  PM_OP_stack};
  for (int32_t op = 0; op < PM_OP_COUNT; op++) {
    bool found = false;
    for (size_t i = 0; i < sizeof tested / sizeof tested[0]; i++) found = found || tested[i] == (PmOp)op;
    PmNode node = {.op = (PmOp)op, .attr = {.fn = PM_S_add}};
    assert_int_equal(found, pm_grad_flows(&node));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_broadcast), cmocka_unit_test(test_cast),
      cmocka_unit_test(test_dot),       cmocka_unit_test(test_dot_with_itself),
      cmocka_unit_test(test_reduce),    cmocka_unit_test(test_max_shares_ties),
      cmocka_unit_test(test_rename),    cmocka_unit_test(test_split_merge),
      cmocka_unit_test(test_select),    cmocka_unit_test(test_stack),
      cmocka_unit_test(test_index),     cmocka_unit_test(test_scatter_add),
      cmocka_unit_test(test_routing),   cmocka_unit_test(test_every_op_has_a_test),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
