#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "fixture.h"
#include "harness.h"
#include "runtime/kernel_interp.h"
#include "runtime/pool.h"
#include "runtime/validate.h"

static void run_valid(const PmKernel *k, char *const *args, const int32_t *scalars) {
  int64_t work = 1 << 20;
  PmStatus *st = pm_validate_kernel(k, &work);
  if (st) pm_status_print(st, stderr);
  assert_null(st);
  pm_kernel_interp(k, args, scalars, 0, k->n_outer ? k->outer[0] : 1);
}

// One instruction on constants; the result's bits.
static uint64_t eval(PmInstrOp op, PmKDtype dtype, PmKDtype from, PmKDtype to, double a, double b, double c) {
  PmArena arena;
  pm_arena_init(&arena, 0);
  PmKernel k;
  Kb kb = kb_new(&arena, &k, "one");
  k.host = true;
  kb_arg(&kb, to, 1, false, true);
  int32_t n = pm_instr_n_in(op);
  int32_t x = kb_const(&kb, op == PM_I_SELECT ? PM_K_BOOL : from, a), y = -1, z = -1;
  if (n > 1) y = kb_const(&kb, from, b);
  if (n > 2) z = kb_const(&kb, from, c);
  kb_store(&kb, 0, kb_op(&kb, op, dtype, x, y, z), 0, 0, 0, 0);
  uint64_t out = 0;
  run_valid(&k, (char *[]){(char *)&out}, NULL);
  pm_arena_deinit(&arena);
  return out;
}

static float f32(PmInstrOp op, double a, double b, double c) {
  uint32_t bits = (uint32_t)eval(op, PM_K_F32, PM_K_F32, PM_K_F32, a, b, c);
  float v;
  memcpy(&v, &bits, 4);
  return v;
}

static double f64(PmInstrOp op, double a, double b, double c) {
  uint64_t bits = eval(op, PM_K_F64, PM_K_F64, PM_K_F64, a, b, c);
  double v;
  memcpy(&v, &bits, 8);
  return v;
}

static int32_t i32(PmInstrOp op, double a, double b) {
  return (int32_t)eval(op, PM_K_I32, PM_K_I32, PM_K_I32, a, b, 0);
}

static bool cmp(PmInstrOp op, PmKDtype dtype, double a, double b) {
  return (eval(op, dtype, dtype, PM_K_BOOL, a, b, 0) & 0xff) != 0;
}

static void arithmetic(void **state) {
  (void)state;
  volatile float third = 1.0f / 3.0f, ten = 10.0f;
  assert_true(f32(PM_I_ADD, (double)third, 10, 0) == third + ten);
  assert_true(f32(PM_I_SUB, 1, 0.1, 0) == 1.0f - 0.1f);
  assert_true(f32(PM_I_MUL, 0.1, 0.1, 0) == 0.1f * 0.1f);
  assert_true(f32(PM_I_DIV, 1, 3, 0) == third);
  assert_true(f32(PM_I_FMA, 0.1, 0.1, -0.01) == fmaf(0.1f, 0.1f, -0.01f));
  assert_true(f64(PM_I_FMA, 0.1, 0.1, -0.01) == fma(0.1, 0.1, -0.01));
  assert_true(f32(PM_I_NEG, 2, 0, 0) == -2.0f && f32(PM_I_ABS, -2, 0, 0) == 2.0f);
  assert_true(f32(PM_I_SQRT, 2, 0, 0) == sqrtf(2.0f) && isnan(f32(PM_I_SQRT, -1, 0, 0)));
  assert_true(f32(PM_I_FLOOR, -1.5, 0, 0) == -2.0f && f32(PM_I_RINT, 2.5, 0, 0) == 2.0f);
  assert_true(f64(PM_I_CALL_POW, 2, 10, 0) == 1024.0 && f64(PM_I_CALL_EXP, 1, 0, 0) == exp(1.0));
  assert_true(f64(PM_I_CALL_TANH, 1, 0, 0) == tanh(1.0) && f64(PM_I_CALL_ERF, 1, 0, 0) == erf(1.0));
  assert_true(f64(PM_I_CALL_LOG, 3, 0, 0) == log(3.0) && f64(PM_I_CALL_SIN, 1, 0, 0) == sin(1.0));
  assert_int_equal(i32(PM_I_ADD, INT32_MAX, 1), INT32_MIN);
  assert_int_equal(i32(PM_I_SUB, INT32_MIN, 1), INT32_MAX);
  assert_int_equal(i32(PM_I_MUL, 65536, 65537), 65536);
  assert_int_equal(i32(PM_I_NEG, INT32_MIN, 0), INT32_MIN);
  assert_int_equal(i32(PM_I_SHL, 1, 31), INT32_MIN);
  assert_int_equal(i32(PM_I_SHR, -1, 28), 15);
  assert_int_equal(i32(PM_I_AND, 12, 10), 8);
  assert_int_equal(i32(PM_I_OR, 12, 10), 14);
}

static void order_and_nan(void **state) {
  (void)state;
  assert_true(f32(PM_I_MAX, 1, 2, 0) == 2.0f && f32(PM_I_MIN, 1, 2, 0) == 1.0f);
  assert_true(isnan(f32(PM_I_MAX, NAN, 2, 0)) && isnan(f32(PM_I_MAX, 2, NAN, 0)));
  assert_true(isnan(f64(PM_I_MIN, NAN, 2, 0)) && isnan(f64(PM_I_MIN, 2, NAN, 0)));
  assert_true(signbit(f32(PM_I_MAX, 0.0, -0.0, 0)) && !signbit(f32(PM_I_MAX, -0.0, 0.0, 0)));
  assert_int_equal(i32(PM_I_MAX, -3, 2), 2);
  assert_true(cmp(PM_I_CMP_LT, PM_K_F32, 1, 2) && !cmp(PM_I_CMP_LT, PM_K_F32, NAN, 2));
  assert_true(cmp(PM_I_CMP_NE, PM_K_F64, NAN, NAN) && !cmp(PM_I_CMP_EQ, PM_K_F64, NAN, NAN));
  assert_true(cmp(PM_I_CMP_LE, PM_K_I32, 2, 2) && cmp(PM_I_CMP_EQ, PM_K_I32, 2, 2));
  assert_true(f32(PM_I_SELECT, 1, 5, 6) == 5.0f && f32(PM_I_SELECT, 0, 5, 6) == 6.0f);
}

static void conversions(void **state) {
  (void)state;
  assert_int_equal((int32_t)eval(PM_I_CVT, PM_K_I32, PM_K_F32, PM_K_I32, -1.9, 0, 0), -1);
  assert_int_equal((int32_t)eval(PM_I_CVT, PM_K_I32, PM_K_F64, PM_K_I32, 1e20, 0, 0), INT32_MAX);
  assert_int_equal((int32_t)eval(PM_I_CVT, PM_K_I32, PM_K_F32, PM_K_I32, -1e20, 0, 0), INT32_MIN);
  assert_int_equal((int32_t)eval(PM_I_CVT, PM_K_I32, PM_K_F32, PM_K_I32, NAN, 0, 0), 0);
  assert_int_equal((uint32_t)eval(PM_I_CVT, PM_K_F32, PM_K_I32, PM_K_F32, 16777217, 0, 0), 0x4b800000);
  assert_int_equal((uint32_t)eval(PM_I_CVT, PM_K_F32, PM_K_BOOL, PM_K_F32, 1, 0, 0), 0x3f800000);
  assert_int_equal(eval(PM_I_CVT, PM_K_BOOL, PM_K_F32, PM_K_BOOL, NAN, 0, 0), 1);
  assert_int_equal((uint32_t)eval(PM_I_BITCAST, PM_K_I32, PM_K_F32, PM_K_I32, 1, 0, 0), 0x3f800000);
  assert_int_equal((uint32_t)eval(PM_I_BITCAST, PM_K_F32, PM_K_I32, PM_K_F32, 0x3f800000, 0, 0), 0x3f800000);
}

static void sums_are_trees_of_32(void **state) {
  (void)state;
  for (int64_t n = 1; n < 150; n += n < 70 ? 1 : 13) {
    PmArena arena;
    pm_arena_init(&arena, 0);
    PmKernel k;
    Kb b = kb_new(&arena, &k, "sum");
    kb_arg(&b, PM_K_F32, n, true, false);
    kb_arg(&b, PM_K_F32, 2, false, true);
    kb_loop(&b, n);
    int32_t v = kb_load(&b, 0, 0, 1, 0, 0);
    int32_t sum = kb_op(&b, PM_I_ACC_SUM, PM_K_F32, v, -1, -1), top = kb_op(&b, PM_I_ACC_MAX, PM_K_F32, v, -1, -1);
    kb_end(&b);
    kb_store(&b, 1, sum, 0, 0, 0, 0);
    kb_store(&b, 1, top, 1, 0, 0, 0);
    float in[150], out[2], p[32] = {0}, most = -INFINITY;
    for (int64_t i = 0; i < n; i++) {
      in[i] = sinf((float)i * 1.7f) * 3.0f;
      p[i % 32] += in[i];
      if (in[i] > most) most = in[i];
    }
    for (int w = 16; w; w /= 2) {
      for (int j = 0; j < w; j++) p[j] += p[j + w];
    }
    run_valid(&k, (char *[]){(char *)in, (char *)out}, NULL);
    assert_memory_equal(&out[0], &p[0], 4);
    assert_memory_equal(&out[1], &most, 4);
    in[n / 2] = NAN;
    run_valid(&k, (char *[]){(char *)in, (char *)out}, NULL);
    assert_true(isnan(out[0]) && isnan(out[1]));
    pm_arena_deinit(&arena);
  }
}

static void nested_accumulators(void **state) {
  (void)state;
  PmArena arena;
  pm_arena_init(&arena, 0);
  PmKernel k;
  Kb b = kb_new(&arena, &k, "nested");
  kb_outer(&b, 3, PM_KA_GRID);
  kb_arg(&b, PM_K_I32, 24, true, false);
  kb_arg(&b, PM_K_I32, 3, false, true);
  kb_loop(&b, 2);
  kb_loop(&b, 4);
  int32_t v = kb_load(&b, 0, 0, 8, 4, 1);
  int32_t inner = kb_op(&b, PM_I_ACC_MAX, PM_K_I32, v, -1, -1);
  kb_end(&b);
  int32_t outer = kb_op(&b, PM_I_ACC_SUM, PM_K_I32, inner, -1, -1);
  kb_end(&b);
  kb_store(&b, 1, outer, 0, 1, 0, 0);
  int32_t in[24], out[3];
  for (int i = 0; i < 24; i++) in[i] = i;
  run_valid(&k, (char *[]){(char *)in, (char *)out}, NULL);
  assert_int_equal(out[0], 3 + 7);
  assert_int_equal(out[2], 19 + 23);
  pm_arena_deinit(&arena);
}

static void loaded_indices_are_checked(void **state) {
  (void)state;
  PmArena arena;
  pm_arena_init(&arena, 0);
  PmKernel k;
  Kb b = kb_new(&arena, &k, "embed");
  kb_outer(&b, 4, PM_KA_SEQ);
  kb_outer(&b, 2, PM_KA_GRID);
  k.n_scalars = 1;
  kb_arg(&b, PM_K_I32, 4, true, false);
  kb_arg(&b, PM_K_F32, 6, true, true);
  kb_arg(&b, PM_K_F32, 8, false, true);
  int32_t at = kb_load(&b, 0, 0, 1, 0, 0);
  int32_t first = kb_op(&b, PM_I_PARAM, PM_K_I32, -1, -1, -1);
  int32_t dyn = kb_op(&b, PM_I_SUB, PM_K_I32, at, first, -1);
  int32_t v = kb_load(&b, 1, 0, 0, 1, 0);
  kb_last(&b)->dyn = dyn;
  kb_last(&b)->dyn_stride = 2;
  kb_last(&b)->dyn_extent = 3;
  kb_store(&b, 2, v, 0, 2, 1, 0);
  int32_t one = kb_const(&b, PM_K_F32, 1);
  kb_op(&b, PM_I_STORE_ADD, PM_K_F32, one, -1, -1);
  kb_last(&b)->arg = 1;
  kb_last(&b)->stride[1] = 1;
  kb_last(&b)->dyn = dyn;
  kb_last(&b)->dyn_stride = 2;
  kb_last(&b)->dyn_extent = 3;
  int32_t index[4] = {12, 9, 13, 12}, shift = 10;
  float table[6] = {1, 2, 3, 4, 5, 6}, out[8];
  run_valid(&k, (char *[]){(char *)index, (char *)table, (char *)out}, &shift);
  const float want[8] = {5, 6, 0, 0, 0, 0, 6, 7}, left[6] = {1, 2, 3, 4, 7, 8};
  assert_memory_equal(out, want, sizeof want);
  assert_memory_equal(table, left, sizeof left);
  pm_arena_deinit(&arena);
}

typedef struct Tally {
  _Atomic int32_t seen[100];
} Tally;

static void count(void *context, int64_t i) { ((Tally *)context)->seen[i]++; }

static void pools_run_every_chunk_once(void **state) {
  (void)state;
  for (int32_t threads = 1; threads <= 8; threads++) {
    PmPool *pool = NULL;
    assert_null(pm_pool_create(threads, &pool));
    for (int64_t chunks = 0; chunks <= 100; chunks += 9) {
      Tally t = {0};
      pm_pool_run(pool, count, &t, chunks);
      for (int64_t i = 0; i < 100; i++) assert_int_equal(t.seen[i], i < chunks);
    }
    for (int i = 0; i < 500; i++) {
      Tally t = {0};
      pm_pool_run(pool, count, &t, 3);
      assert_int_equal(t.seen[0] + t.seen[1] + t.seen[2], 3);
    }
    pm_pool_destroy(pool);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(arithmetic),
      cmocka_unit_test(order_and_nan),
      cmocka_unit_test(conversions),
      cmocka_unit_test(sums_are_trees_of_32),
      cmocka_unit_test(nested_accumulators),
      cmocka_unit_test(loaded_indices_are_checked),
      cmocka_unit_test(pools_run_every_chunk_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
