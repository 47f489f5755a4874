#include "run_kernel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"

PmProgram *program_of(PmArena *arena, PmKernel *const *kernels, int32_t n) {
  PmProgram *p = PM_NEW(arena, PmProgram);
  p->arena = arena;
  p->n_kernels = n;
  p->kernels = PM_NEW_N(arena, PmKernel, n);
  PmEntry *entry = &p->entries[PM_ENTRY_STEP];
  *entry = (PmEntry){.present = true, .n_steps = n, .steps = PM_NEW_N(arena, PmStep, n)};
  for (int32_t i = 0; i < n; i++) {
    p->kernels[i] = *kernels[i];
    PmKernelCall *call = PM_NEW(arena, PmKernelCall);
    call->kernel = i;
    int64_t at = 0;
    for (int32_t a = 0; a < kernels[i]->n_args; a++) {
      call->args[a] = (PmRange){at, kernels[i]->args[a].bytes};
      at += kernels[i]->args[a].bytes;
    }
    entry->steps[i] = (PmStep){.kind = PM_STEP_KERNEL, .loc = -1, .op = "test", .u = {.kernel = call}};
  }
  return p;
}

static void expect_ok(PmStatus *st) {
  if (st) fail_msg("%s", pm_status_message(st));
}

PmKernelCompiler *compiler_new(int32_t vector_bits, int32_t opt_level, const char *cache_dir) {
  const PmLlvmOptions opts = {.cache_dir = cache_dir, .vector_bits = vector_bits, .opt_level = opt_level};
  PmKernelCompiler *c = NULL;
  expect_ok(pm_llvm_compiler_create(&opts, &c));
  return c;
}

void compile_ok(PmKernelCompiler *c, const PmProgram *p, PmKernelFn *out_fns) { expect_ok(c->compile(c, p, out_fns)); }

static uint64_t next(uint64_t *state) {
  *state += 0x9e3779b97f4a7c15u;
  uint64_t z = *state;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// Three kinds: finite numbers alone, so that sums show their order; few numbers, so that ties are common; everything.
static double number(uint64_t *state, int32_t kind) {
  static const double odd[] = {0, -0.0, 1, -1, 0.5, -2, INFINITY, -INFINITY, NAN, 1e-40, -3e-39, 3e38, 1e-320};
  const uint64_t r = next(state);
  if (kind == 1) return odd[r % 6];
  if (kind == 2 && r % 16 == 0) return odd[next(state) % (sizeof odd / sizeof *odd)];
  return ((double)(r >> 11) * 0x1p-53 - 0.5) * (r % 3 ? 4 : 2e3);
}

char **args_new(const PmKernel *k, uint64_t seed) {
  char **args = calloc(PM_KERNEL_MAX_ARGS, sizeof *args);
  for (int32_t a = 0; a < k->n_args; a++) {
    const int64_t bytes = k->args[a].bytes;
    const int32_t kind = (int32_t)(next(&seed) % 4) % 3;
    args[a] = malloc((size_t)bytes + 64);
    memset(args[a], 0x5a, (size_t)bytes + 64);
    for (int64_t i = 0; i < bytes / pm_kdtype_bytes((PmKDtype)k->args[a].dtype); i++) {
      const double v = number(&seed, kind);
      if (k->args[a].dtype == PM_K_F32) ((float *)args[a])[i] = (float)v;
      if (k->args[a].dtype == PM_K_F64) ((double *)args[a])[i] = v;
      if (k->args[a].dtype == PM_K_BF16) ((uint16_t *)args[a])[i] = pm_bf16_from(v);
      if (k->args[a].dtype == PM_K_F16) ((uint16_t *)args[a])[i] = pm_f16_from(v);
      if (k->args[a].dtype == PM_K_I32) ((int32_t *)args[a])[i] = (int32_t)(next(&seed) % 12) - 2;
      if (k->args[a].dtype == PM_K_BOOL) args[a][i] = next(&seed) % 2;
    }
  }
  return args;
}

void args_free(const PmKernel *k, char **args) {
  for (int32_t a = 0; a < k->n_args; a++) free(args[a]);
  free(args);
}

static bool both_nan(PmKDtype d, const char *a, const char *b) {
  float fa, fb;
  double da, db;
  uint16_t ha, hb;
  if (pm_kdtype_is_half(d)) {
    memcpy(&ha, a, sizeof ha);
    memcpy(&hb, b, sizeof hb);
    return d == PM_K_BF16 ? isnan(pm_bf16_to_f32(ha)) && isnan(pm_bf16_to_f32(hb))
                          : isnan(pm_f16_to_f32(ha)) && isnan(pm_f16_to_f32(hb));
  }
  if (d == PM_K_F32) {
    memcpy(&fa, a, sizeof fa);
    memcpy(&fb, b, sizeof fb);
    return isnan(fa) && isnan(fb);
  }
  if (d != PM_K_F64) return false;
  memcpy(&da, a, sizeof da);
  memcpy(&db, b, sizeof db);
  return isnan(da) && isnan(db);
}

bool args_equal(const PmKernel *k, char *const *a, char *const *b, int32_t *out_arg, int64_t *out_element) {
  for (int32_t x = 0; x < k->n_args; x++) {
    const PmKDtype d = (PmKDtype)k->args[x].dtype;
    const int64_t size = pm_kdtype_bytes(d), bytes = k->args[x].bytes + 64;  // and the guard behind it
    for (int64_t i = 0; i < bytes; i += size) {
      if (memcmp(a[x] + i, b[x] + i, (size_t)size) == 0 || both_nan(d, a[x] + i, b[x] + i)) continue;
      *out_arg = x;
      *out_element = i / size;
      return false;
    }
  }
  return true;
}
