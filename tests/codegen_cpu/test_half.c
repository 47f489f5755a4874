// The 16-bit formats in compiled kernels: every bit pattern in, and out of every neighbourhood of one.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "run_kernel.h"

enum { ALL = 1 << 16, N = 3 * ALL };

static PmKernel *kernel(PmArena *arena, PmKDtype from, PmKDtype to, PmInstrOp op, const char *name) {
  PmKBuilder kb;
  PmKAddr at = pm_kaddr();
  pm_kb_init(&kb, arena, name, false, PM_VEC_OUTER);
  at.stride[pm_kb_outer(&kb, from == PM_K_BF16 || from == PM_K_F16 ? ALL : N, PM_KA_GRID)] = 1;
  const int32_t a = pm_kb_arg(&kb, from, 0, true, false), b = pm_kb_arg(&kb, to, 0, false, true);
  int32_t v = pm_kb_load(&kb, a, &at);
  if (op) v = pm_kb_op(&kb, op, PM_K_F32, v, -1, -1);
  pm_kb_store(&kb, b, &at, v, false);
  return pm_kb_finish(&kb);
}

static bool same(float a, float b) { return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b)); }

// Each number of the format, the point half way to the next one, and a little past it.
static double probe(PmKDtype half, int32_t i) {
  const uint16_t u = (uint16_t)(i / 3), next = (uint16_t)(u + 1);
  const double x = (double)(half == PM_K_BF16 ? pm_bf16_to_f32(u) : pm_f16_to_f32(u));
  const double y = (double)(half == PM_K_BF16 ? pm_bf16_to_f32(next) : pm_f16_to_f32(next));
  const double middle = x / 2 + y / 2;
  return i % 3 == 0 ? x : i % 3 == 1 ? middle : nextafter(middle, INFINITY);
}

static void test_formats(void **state) {
  (void)state;
  static const PmKDtype halves[] = {PM_K_BF16, PM_K_F16};
  PmArena arena;
  pm_arena_init(&arena, 0);
  for (int32_t h = 0; h < 2; h++) {
    const PmInstrOp op = h == 0 ? PM_I_ROUND_BF16 : PM_I_ROUND_F16;
    PmKernel *ks[] = {kernel(&arena, halves[h], PM_K_F32, 0, "unpack"), kernel(&arena, PM_K_F32, halves[h], 0, "pack"),
                      kernel(&arena, PM_K_F32, PM_K_F32, op, "round32"),
                      kernel(&arena, PM_K_F64, PM_K_F32, op, "round64")};
    PmKernelCompiler *c = compiler_new(256, 2, NULL);
    PmKernelFn fns[4];
    compile_ok(c, program_of(&arena, ks, 4), fns);
    uint16_t *bits = malloc(N * sizeof *bits);
    float *f = malloc(N * sizeof *f), *out = malloc(N * sizeof *out);
    double *d = malloc(N * sizeof *d);
    for (int32_t i = 0; i < ALL; i++) bits[i] = (uint16_t)i;
    fns[0]((char *const[]){(char *)bits, (char *)f}, NULL, 0, ALL);
    for (int32_t i = 0; i < ALL; i++)
      assert_true(same(f[i], h == 0 ? pm_bf16_to_f32((uint16_t)i) : pm_f16_to_f32((uint16_t)i)));
    for (int32_t i = 0; i < N; i++) f[i] = (float)(d[i] = probe(halves[h], i));
    fns[1]((char *const[]){(char *)f, (char *)bits}, NULL, 0, N);
    fns[2]((char *const[]){(char *)f, (char *)out}, NULL, 0, N);
    for (int32_t i = 0; i < N; i++) {
      const double v = (double)f[i];
      const float want = h == 0 ? pm_bf16_round(v) : pm_f16_round(v);
      assert_true(same(out[i], want));
      assert_true(same(h == 0 ? pm_bf16_to_f32(bits[i]) : pm_f16_to_f32(bits[i]), want));
    }
    fns[3]((char *const[]){(char *)d, (char *)out}, NULL, 0, N);
    for (int32_t i = 0; i < N; i++) assert_true(same(out[i], h == 0 ? pm_bf16_round(d[i]) : pm_f16_round(d[i])));
    c->destroy(c);
    free(bits);
    free(f);
    free(out);
    free(d);
  }
  pm_arena_deinit(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_formats)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
