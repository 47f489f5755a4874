// The order of a finished kernel: it follows from what its instructions compute, not from when the calls made them.
#include <string.h>

#include "codegen/kernel_build.h"
#include "harness.h"

enum { ROWS = 4, COLS = 64 };

typedef struct Made {
  PmKBuilder kb;
  bool back;  // operands from the last to the first
} Made;

// op(a, b) of two numbers, which are made in one order or the other.
static int32_t of_numbers(Made *m, PmInstrOp op, double a, double b) {
  int32_t x, y;
  if (m->back) {
    y = pm_kb_const(&m->kb, PM_K_F32, b);
    x = pm_kb_const(&m->kb, PM_K_F32, a);
  } else {
    x = pm_kb_const(&m->kb, PM_K_F32, a);
    y = pm_kb_const(&m->kb, PM_K_F32, b);
  }
  return pm_kb_op(&m->kb, op, PM_K_F32, x, y, -1);
}

static int32_t op(Made *m, PmInstrOp op, int32_t a, int32_t b) { return pm_kb_op(&m->kb, op, PM_K_F32, a, b, -1); }

// y[r] = (1 + 2) * (sum over c of (x[r, c] - 3 * 4) / (5 - 6)), and z[r, c] = (x[r, c] - 3 * 4) / (5 - 6).
static PmKernel *build(PmArena *arena, bool back) {
  Made m = {.back = back};
  PmKBuilder *kb = &m.kb;
  pm_kb_init(kb, arena, "k", false, PM_VEC_LOOP);
  const int32_t row = pm_kb_outer(kb, ROWS, PM_KA_GRID);
  const int32_t x = pm_kb_arg(kb, PM_K_F32, 0, true, false), y = pm_kb_arg(kb, PM_K_F32, 0, false, true);
  const int32_t z = pm_kb_arg(kb, PM_K_F32, 0, false, true);
  PmKAddr in = pm_kaddr(), out = pm_kaddr();
  out.stride[row] = 1;
  // In front of the loop, in either order: one is needed in the loop, the other only behind it.
  int32_t behind = back ? -1 : of_numbers(&m, PM_I_ADD, 1, 2);
  const int32_t within = of_numbers(&m, PM_I_MUL, 3, 4);
  if (back) behind = of_numbers(&m, PM_I_ADD, 1, 2);
  of_numbers(&m, PM_I_MAX, 7, 8);  // needed nowhere
  const int32_t col = pm_kb_loop(kb, COLS);
  in.stride[row] = COLS;
  in.stride[col] = 1;
  int32_t right = back ? of_numbers(&m, PM_I_SUB, 5, 6) : -1;
  const int32_t left = op(&m, PM_I_SUB, pm_kb_load(kb, x, &in), within);
  if (!back) right = of_numbers(&m, PM_I_SUB, 5, 6);
  const int32_t e = op(&m, PM_I_DIV, left, right);
  pm_kb_store(kb, z, &in, e, false);
  const int32_t sum = pm_kb_acc(kb, PM_SUM, PM_K_F32, e);
  pm_kb_end(kb);
  pm_kb_store(kb, y, &out, op(&m, PM_I_MUL, behind, sum), false);
  return pm_kb_finish(kb);
}

static void test_order_follows_from_formulas(void **state) {
  (void)state;
  // What the loop needs first, then what is needed behind it; each before or in the loop, where it was made.
  static const uint8_t ops[] = {PM_I_CONST, PM_I_CONST, PM_I_MUL,     PM_I_CONST, PM_I_CONST, PM_I_ADD,
                                PM_I_LOOP,  PM_I_LOAD,  PM_I_SUB,     PM_I_CONST, PM_I_CONST, PM_I_SUB,
                                PM_I_DIV,   PM_I_STORE, PM_I_ACC_SUM, PM_I_END,   PM_I_MUL,   PM_I_STORE};
  static const double numbers[] = {3, 4, 1, 2, 5, 6};
  PmArena arena;
  pm_arena_init(&arena, 0);
  for (int32_t back = 0; back < 2; back++) {
    const PmKernel *k = build(&arena, back);
    int32_t n_numbers = 0;
    assert_int_equal(k->n_instrs, sizeof ops);
    for (int32_t i = 0; i < k->n_instrs; i++) {
      const PmInstr *in = &k->instrs[i];
      assert_int_equal(in->op, ops[i]);
      if (in->op == PM_I_CONST) assert_true(in->number == numbers[n_numbers++]);
      assert_true(in->a < i && in->b < i && in->c < i && in->dyn < i);
    }
    assert_int_equal(k->instrs[12].a, 8);
    assert_int_equal(k->instrs[12].b, 11);
    assert_int_equal(k->instrs[16].a, 5);
    assert_int_equal(k->instrs[16].b, 14);
  }
  pm_arena_deinit(&arena);
}

// What stores and loads do to each other does not move: x[0] = x[1], then x[1] = x[0] + (1 + 2).
static void test_accesses_stay(void **state) {
  (void)state;
  PmArena arena;
  pm_arena_init(&arena, 0);
  Made m = {0};
  pm_kb_init(&m.kb, &arena, "k", false, PM_VEC_LOOP);
  const int32_t x = pm_kb_arg(&m.kb, PM_K_F32, 0, true, true);
  PmKAddr first = pm_kaddr(), second = pm_kaddr();
  second.base = 1;
  const int32_t three = of_numbers(&m, PM_I_ADD, 1, 2);
  pm_kb_store(&m.kb, x, &first, pm_kb_load(&m.kb, x, &second), false);
  const int32_t now = pm_kb_load(&m.kb, x, &first);
  pm_kb_store(&m.kb, x, &second, op(&m, PM_I_ADD, now, three), false);
  const PmKernel *k = pm_kb_finish(&m.kb);
  static const uint8_t ops[] = {PM_I_LOAD,  PM_I_STORE, PM_I_LOAD, PM_I_CONST,
                                PM_I_CONST, PM_I_ADD,   PM_I_ADD,  PM_I_STORE};
  assert_int_equal(k->n_instrs, sizeof ops);
  for (int32_t i = 0; i < k->n_instrs; i++) assert_int_equal(k->instrs[i].op, ops[i]);
  assert_int_equal(k->instrs[1].base, 0);
  assert_int_equal(k->instrs[2].base, 0);
  assert_int_equal(k->instrs[7].base, 1);
  assert_int_equal(k->instrs[6].a, 2);
  assert_int_equal(k->instrs[6].b, 5);
  pm_arena_deinit(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_order_follows_from_formulas),
      cmocka_unit_test(test_accesses_stay),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
