// Random kernels: what is compiled equals the interpreter bit for bit, at every optimisation level and vector width.
#include "run_kernel.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "kernel_gen.h"
#include "runtime/validate.h"

#define N_KERNELS 150

static void run_in_parts(const PmKernel *k, PmKernelFn fn, char *const *args, const int32_t *scalars) {
  const int64_t n = k->n_outer > 0 ? k->outer[0] : 1;
  if (n == 1 || k->outer_kind[0] == PM_KA_SEQ) {
    fn(args, scalars, 0, n);
    return;
  }
  const int64_t first = n / 3, second = n - n / 4;
  fn(args, scalars, first, second);
  fn(args, scalars, 0, first);
  fn(args, scalars, second, n);
}

static void check(const PmKernel *k, PmKernelFn fn, uint64_t seed, int32_t bits, int32_t level) {
  static const int32_t scalars[PM_KERNEL_MAX_SCALARS] = {3, -1, 1, 0, 7, 2, 5, 4};
  char **got = args_new(k, seed), **want = args_new(k, seed);
  run_in_parts(k, fn, got, scalars);
  pm_kernel_interp(k, want, scalars, 0, k->n_outer > 0 ? k->outer[0] : 1);
  int32_t arg = 0;
  int64_t element = 0;
  if (!args_equal(k, got, want, &arg, &element)) {
    const PmLlvmOptions opts = {.vector_bits = bits, .opt_level = level};
    PmBuf text;
    pm_buf_init(&text);
    if (!pm_llvm_print(&opts, k, &text)) fputs(pm_buf_str(&text), stderr);
    fail_msg("%s (vec %d), %d bits, level %d: argument %d, element %lld: %#x, not %#x", k->name, k->vec, bits, level,
             arg, (long long)element, ((unsigned *)got[arg])[element], ((unsigned *)want[arg])[element]);
  }
  args_free(k, got);
  args_free(k, want);
}

static void test_random(void **state) {
  (void)state;
  PmArena arena;
  pm_arena_init(&arena, 0);
  PmKernel *kernels[N_KERNELS];
  const char *from = getenv("PM_TEST_SEED");
  const uint64_t seed = from ? strtoull(from, NULL, 10) : 1;
  int32_t ops[PM_INSTR_COUNT] = {0};
  for (int32_t i = 0; i < N_KERNELS; i++) {
    kernels[i] = kernel_gen(&arena, seed * 1000 + (uint64_t)i);
    for (int32_t j = 0; j < kernels[i]->n_instrs; j++) ops[kernels[i]->instrs[j].op]++;
    int64_t work = 1 << 24;
    PmStatus *st = pm_validate_kernel(kernels[i], &work);
    if (st) fail_msg("the generator is wrong: %s", pm_status_message(st));
  }
  for (int32_t op = 0; op < PM_I_CALL_COS; op++) assert_true(ops[op] > 0);
  assert_true(ops[PM_I_ROUND_BF16] > 0 && ops[PM_I_ROUND_F16] > 0);
  PmProgram *p = program_of(&arena, kernels, N_KERNELS);
  for (int32_t bits = 128; bits <= 256; bits *= 2) {
    for (int32_t level = 0; level <= 2; level += 2) {
      PmKernelCompiler *c = compiler_new(bits, level, NULL);
      PmKernelFn fns[N_KERNELS];
      compile_ok(c, p, fns);
      for (int32_t i = 0; i < N_KERNELS; i++) check(kernels[i], fns[i], (uint64_t)i, bits, level);
      c->destroy(c);
    }
  }
  pm_arena_deinit(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_random)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
