// Every recipe: compiled equals interpreted bit for bit, and both stay within a bound of the C library's value.
#include "run_kernel.h"

#include "base/philox.h"
#include "codegen/recipes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N 524288

typedef struct Case {
  PmScalar fn;
  double ulp;       // largest error in f32
  double relative;  // largest relative error in f64; pow: times 2 + |b log a|
  double most;      // largest |a|; 0: any
} Case;

static const Case cases[] = {
    {PM_S_exp, 1.1, 1e-15, 0},   {PM_S_log, 1.1, 1e-15, 0},   {PM_S_tanh, 1.6, 1e-15, 0}, {PM_S_erf, 1.6, 1e-15, 0},
    {PM_S_sin, 1.6, 1e-15, 1e5}, {PM_S_cos, 1.6, 1e-15, 1e5}, {PM_S_pow, 0.51, 4e-16, 0}, {PM_S_rsqrt, 1.6, 4e-16, 0},
    {PM_S_abs, 0, 0, 0},         {PM_S_sign, 0, 0, 0},
};

static PmKernel *kernel_of(PmArena *arena, PmScalar fn, PmKDtype d, bool host) {
  PmKBuilder kb;
  pm_kb_init(&kb, arena, pm_scalar_name(fn), host, PM_VEC_OUTER);
  const int32_t axis = pm_kb_outer(&kb, N, PM_KA_GRID);
  const int32_t a = pm_kb_arg(&kb, d, 0, true, false), b = pm_kb_arg(&kb, d, 0, true, false);
  const int32_t y = pm_kb_arg(&kb, d, 0, false, true);
  PmKAddr at = pm_kaddr();
  at.stride[axis] = 1;
  const int32_t x = pm_kb_load(&kb, a, &at), z = pm_kb_load(&kb, b, &at);
  pm_kb_store(&kb, y, &at, pm_kb_scalar_fn(&kb, fn, d, x, pm_scalar_arity(fn) == 2 ? z : -1, -1), false);
  PmKernel *k = pm_kb_finish(&kb);
  k->args[b].bytes = k->args[a].bytes;
  return k;
}

static uint64_t next(uint64_t *state) {
  *state += 0x9e3779b97f4a7c15u;
  uint64_t z = *state;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

static const double ENDS[] = {0,      -0.0,   INFINITY, -INFINITY, NAN,   1,       -1,       0.5,    -0.5,
                              2,      -2,     3,        -3,        1.5,   -2.5,    1e-45,    -1e-45, 1e-40,
                              -1e-40, 3.4e38, -3.4e38,  88.72,     88.73, -103.97, -104,     0.625,  0.9375,
                              4,      9.02,   1e5,      -1e5,      7,     1e9,     0x1p-126, 709.7,  -745.1};
#define N_ENDS ((int64_t)(sizeof ENDS / sizeof *ENDS))

// All pairs of special values, then one third every bit pattern, one third around 1, the rest as spread as exponents.
static double sample(PmKDtype d, int64_t i, bool second, uint64_t *state) {
  if (i < N_ENDS * N_ENDS) return ENDS[second ? i / N_ENDS : i % N_ENDS];
  const uint64_t r = next(state);
  if (i % 3 == 0) {
    const uint32_t low = (uint32_t)(r >> 32);
    float f;
    double v;
    memcpy(&f, &low, sizeof f);
    memcpy(&v, &r, sizeof v);
    return d == PM_K_F32 ? (double)f : v;
  }
  const double u = (double)(r >> 11) * 0x1p-53;
  return i % 3 == 1 ? (u - 0.5) * 4 : (u - 0.5) * 220;
}

static void put(char *arg, PmKDtype d, int64_t i, double v) {
  if (d == PM_K_F32)
    ((float *)arg)[i] = (float)v;
  else
    ((double *)arg)[i] = v;
}

static double get(const char *arg, PmKDtype d, int64_t i) {
  return d == PM_K_F32 ? (double)((const float *)arg)[i] : ((const double *)arg)[i];
}

static double ulp_at(double v) {
  const double a = fabs(v);
  int e;
  frexp(a, &e);
  return a < 0x1p-126 ? 0x1p-149 : ldexp(1, e - 24);
}

// Error in ulp (f32) or relative (f64); infinite where one is special and the other isn't.
static double error_of(PmKDtype d, double got, double want) {
  if (isnan(want) || isnan(got)) return isnan(want) && isnan(got) ? 0 : INFINITY;
  const double rounded = d == PM_K_F32 ? (double)(float)want : want;
  if (got == rounded && signbit(got) != signbit(rounded)) return INFINITY;
  if (got == rounded && (d == PM_K_F64 || isinf(got))) return 0;
  if (d == PM_K_F32) return isinf(got) || isinf(rounded) ? INFINITY : fabs(got - want) / ulp_at(want);
  if (isinf(got) || isinf(want)) return INFINITY;
  return fabs(got - want) <= 0x1p-1073 ? 0 : fabs(got - want) / fmax(fabs(want), 0x1p-1022);
}

static void sweep(const Case *c, PmKDtype d) {
  PmArena arena;
  pm_arena_init(&arena, 0);
  PmKernel *k = kernel_of(&arena, c->fn, d, false);
  PmProgram *p = program_of(&arena, &k, 1);
  char **args = args_new(k, 1), **want = args_new(k, 1);
  uint64_t state = 7;
  for (int64_t i = 0; i < N; i++) {
    for (int32_t a = 0; a < 2; a++) {
      const double v = sample(d, i, a == 1, &state);
      put(args[a], d, i, v);
      put(want[a], d, i, v);
    }
  }
  PmKernelCompiler *compiler = compiler_new(0, 2, NULL);
  PmKernelFn fn;
  compile_ok(compiler, p, &fn);
  fn(args, NULL, 0, N);
  pm_kernel_interp(k, want, NULL, 0, N);
  int32_t arg = 0;
  int64_t at = 0;
  if (!args_equal(k, args, want, &arg, &at))
    fail_msg("%s: compiled %a, interpreted %a at %a, %a", k->name, get(args[2], d, at), get(want[2], d, at),
             get(args[0], d, at), get(args[1], d, at));
  double worst = 0;
  int64_t worst_at = 0;
  for (int64_t i = 0; i < N; i++) {
    const double a = get(args[0], d, i), b = get(args[1], d, i);
    if (c->most > 0 && fabs(a) > c->most) continue;
    const double v = pm_scalar_eval(c->fn, a, b, 0);
    double e = error_of(d, get(args[2], d, i), v);
    if (c->fn == PM_S_pow && d == PM_K_F64 && a != 0 && v != 0 && isfinite(v)) e /= 2 + fabs(b * log(fabs(a)));
    if (e > worst) {
      worst = e;
      worst_at = i;
    }
  }
  const double bound = d == PM_K_F32 ? c->ulp : c->relative;
  printf("%-6s %s: error %.3g\n", pm_scalar_name(c->fn), d == PM_K_F32 ? "f32" : "f64", worst);
  if (worst > bound)
    fail_msg("%s: error %g > %g at %a, %a: %a, not %a", k->name, worst, bound, get(args[0], d, worst_at),
             get(args[1], d, worst_at), get(args[2], d, worst_at),
             pm_scalar_eval(c->fn, get(args[0], d, worst_at), get(args[1], d, worst_at), 0));
  compiler->destroy(compiler);
  args_free(k, args);
  args_free(k, want);
  pm_arena_deinit(&arena);
}

static void test_f32(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) sweep(&cases[i], PM_K_F32);
}

static void test_f64(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) sweep(&cases[i], PM_K_F64);
}

// Where padding is followed through a function it counts on these values to the bit (passes/pad_values.c).
static void test_exact_at_zero_and_one(void **state) {
  (void)state;
  static const struct {
    PmScalar fn;
    double at, is;
  } points[] = {{PM_S_exp, 0, 1}, {PM_S_tanh, 0, 0}, {PM_S_erf, 0, 0}, {PM_S_sin, 0, 0},
                {PM_S_cos, 0, 1}, {PM_S_log, 1, 0},  {PM_S_pow, 0, 1}, {PM_S_rsqrt, 1, 1}};
  for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
    for (int32_t d = 0; d < 2; d++) {
      PmKDtype dtype = d ? PM_K_F64 : PM_K_F32;
      PmArena arena;
      pm_arena_init(&arena, 0);
      PmKernel *k = kernel_of(&arena, points[i].fn, dtype, false);
      char **args = args_new(k, 1);
      put(args[0], dtype, 0, points[i].at);
      put(args[1], dtype, 0, 0);
      pm_kernel_interp(k, args, NULL, 0, 1);
      assert_true(get(args[2], dtype, 0) == points[i].is);
      args_free(k, args);
      pm_arena_deinit(&arena);
    }
  }
}

// Past 1e9 the quadrant is not computed: NaN, not a wrong number.
static void test_far_angles_are_nan(void **state) {
  (void)state;
  PmArena arena;
  pm_arena_init(&arena, 0);
  PmKernel *k = kernel_of(&arena, PM_S_sin, PM_K_F32, false);
  char **args = args_new(k, 1);
  ((float *)args[0])[0] = 1.1e9f;
  ((float *)args[0])[1] = 0.9e9f;
  pm_kernel_interp(k, args, NULL, 0, 2);
  assert_true(isnan(((float *)args[2])[0]));
  assert_true(fabs(((float *)args[2])[1] - sin((double)0.9e9f)) < 1e-7);
  args_free(k, args);
  pm_arena_deinit(&arena);
}

// Host kernels call the C library: the values are its own.
static void test_host(void **state) {
  (void)state;
  PmArena arena;
  pm_arena_init(&arena, 0);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    PmKernel *k = kernel_of(&arena, cases[i].fn, PM_K_F64, true);
    char **args = args_new(k, i);
    pm_kernel_interp(k, args, NULL, 0, 1000);
    for (int64_t j = 0; j < 1000; j++) {
      const double v = pm_scalar_eval(cases[i].fn, get(args[0], PM_K_F64, j), get(args[1], PM_K_F64, j), 0);
      assert_true(error_of(PM_K_F64, get(args[2], PM_K_F64, j), v) == 0);
    }
    args_free(k, args);
  }
  pm_arena_deinit(&arena);
}

static double whole_number(int64_t i, uint64_t *state) {
  static const double ends[] = {0,      1,      2,          3,      4,          7,         8589934588,
                                0x1p31, 0x1p32, 0x1p33 - 1, 0x1p34, 0x1p48 - 1, 0x1p53 - 1};
  const int64_t n = sizeof ends / sizeof *ends;
  if (i < n) return ends[i];
  return (double)(next(state) >> (11 + next(state) % 50));
}

// The kernel's random numbers are base/philox.h's, bit for bit.
static void test_uniform(void **state) {
  (void)state;
  PmArena arena;
  pm_arena_init(&arena, 0);
  PmKBuilder kb;
  const uint64_t key = 0xfedcba9876543210u;
  pm_kb_init(&kb, &arena, "uniform", false, PM_VEC_OUTER);
  const int32_t axis = pm_kb_outer(&kb, N, PM_KA_GRID);
  const int32_t a = pm_kb_arg(&kb, PM_K_F64, 0, true, false), b = pm_kb_arg(&kb, PM_K_F64, 0, true, false);
  const int32_t y = pm_kb_arg(&kb, PM_K_F32, 0, false, true);
  PmKAddr at = pm_kaddr();
  at.stride[axis] = 1;
  const int32_t step = pm_kb_load(&kb, a, &at), index = pm_kb_load(&kb, b, &at);
  pm_kb_store(&kb, y, &at, pm_recipe_uniform(&kb, key, step, index), false);
  PmKernel *k = pm_kb_finish(&kb);
  PmProgram *p = program_of(&arena, &k, 1);
  char **args = args_new(k, 1), **want = args_new(k, 1);
  uint64_t stream = 5;
  for (int64_t i = 0; i < N; i++) {
    for (int32_t arg = 0; arg < 2; arg++) {
      const double v = arg ? whole_number(i, &stream) : whole_number(i / 13, &stream);
      put(args[arg], PM_K_F64, i, v);
      put(want[arg], PM_K_F64, i, v);
    }
  }
  PmKernelCompiler *compiler = compiler_new(0, 2, NULL);
  PmKernelFn fn;
  compile_ok(compiler, p, &fn);
  fn(args, NULL, 0, N);
  pm_kernel_interp(k, want, NULL, 0, N);
  int32_t arg = 0;
  int64_t where = 0;
  assert_true(args_equal(k, args, want, &arg, &where));
  for (int64_t i = 0; i < N; i++) {
    const uint64_t s = (uint64_t)get(args[0], PM_K_F64, i), e = (uint64_t)get(args[1], PM_K_F64, i);
    assert_true(get(args[2], PM_K_F32, i) == pm_random_uniform(key, s, e));
  }
  compiler->destroy(compiler);
  args_free(k, args);
  args_free(k, want);
  pm_arena_deinit(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_f32),
      cmocka_unit_test(test_f64),
      cmocka_unit_test(test_exact_at_zero_and_one),
      cmocka_unit_test(test_far_angles_are_nan),
      cmocka_unit_test(test_host),
      cmocka_unit_test(test_uniform),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
