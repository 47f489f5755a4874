// 16-bit floats in plans. Where no sum is taken, f32 arithmetic rounded once more is what the reference computes, bit
// for bit: it has more than twice the digits of either format. Sums agree up to their order.
#include "fixture.h"

#include "ir/build.h"

enum { N_AXES = 3, N_NODES = 30, N_PARAMS = 4 };

typedef struct Gen {
  PmArena arena;
  PmInterner names;
  PmBuilder b;
  uint64_t seed;
  PmAxisId axes[N_AXES];
  PmValueId pool[N_PARAMS + N_NODES];
  int32_t n;
} Gen;

static int32_t pick(Gen *g, int32_t n) {
  g->seed = g->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (int32_t)((g->seed >> 33) % (uint64_t)n);
}

static PmDtype any_dtype(Gen *g) {
  static const PmDtype dtypes[] = {PM_BF16, PM_F16, PM_F32, PM_BF16, PM_F16};
  return dtypes[pick(g, 5)];
}

static PmType random_type(Gen *g) {
  PmType t = pm_type_scalar(any_dtype(g));
  for (int32_t i = 0; i < N_AXES; i++)
    if (pick(g, 3)) pm_type_add(&t, g->axes[i]);
  return t;
}

// y with x's dtype and the axes of both; x likewise.
static PmValueId binary(Gen *g, PmScalar fn, PmValueId x, PmValueId y) {
  PmType t = *pm_b_type(&g->b, x);
  y = pm_b_cast(&g->b, y, (PmDtype)t.dtype);
  const PmType u = *pm_b_type(&g->b, y);
  for (int32_t i = 0; i < u.rank; i++)
    if (pm_type_find(&t, u.dims[i].axis) == PM_NONE) pm_type_add(&t, u.dims[i].axis);
  return pm_b_map2(&g->b, fn, pm_b_broadcast(&g->b, x, t), pm_b_broadcast(&g->b, y, t));
}

static PmValueId masked(Gen *g, PmValueId x, PmValueId y) {
  const PmValueId sum = binary(g, PM_S_add, x, y);
  const PmType t = *pm_b_type(&g->b, sum);
  if (t.rank == 0) return sum;
  PmType d = t;
  d.dtype = PM_F64;
  const PmValueId at = pm_b_broadcast(&g->b, pm_b_pos(&g->b, t.dims[0].axis), d);
  const PmValueId quarter = pm_b_const(&g->b, (PmDtype)t.dtype, 0.25);
  const PmValueId wave = pm_b_map1(&g->b, PM_S_cos, at);  // a table of the dtype, rounded once from double
  return pm_b_map3(&g->b, PM_S_where, pm_b_map2(&g->b, PM_S_lt, sum, pm_b_broadcast(&g->b, quarter, t)), sum,
                   pm_b_cast(&g->b, wave, (PmDtype)t.dtype));
}

static PmValueId next(Gen *g) {
  static const PmScalar pairs[] = {PM_S_add, PM_S_sub, PM_S_mul, PM_S_max, PM_S_div};
  static const PmScalar unary[] = {PM_S_neg, PM_S_abs, PM_S_sign};
  const PmValueId x = g->pool[pick(g, g->n)], y = g->pool[pick(g, g->n)];
  switch (pick(g, 8)) {
    case 0:
    case 1:
    case 2:
      return binary(g, pairs[pick(g, 5)], x, y);
    case 3:
      return pm_b_map1(&g->b, unary[pick(g, 3)], x);
    case 4:
      return pm_b_cast(&g->b, x, any_dtype(g));
    case 5:
      return pm_b_map1(&g->b, PM_S_sqrt, pm_b_map1(&g->b, PM_S_abs, x));
    case 6: {
      const PmType t = *pm_b_type(&g->b, x);
      return t.rank ? pm_b_reduce(&g->b, PM_MAX, x, &t.dims[pick(g, t.rank)].axis, 1) : x;
    }
    default:
      return masked(g, x, y);
  }
}

static void run(uint64_t seed) {
  static const int64_t sizes[N_AXES] = {3, 5, 17};
  Gen g = {.seed = seed};
  pm_arena_init(&g.arena, 0);
  pm_interner_init(&g.names, &g.arena);
  PmModule *m = pm_module_new(&g.arena, &g.names);
  m->stage = PM_STAGE_LOCAL;
  m->model = m->schedule = m->step = m->eval = PM_NONE;
  for (int32_t i = 0; i < N_AXES; i++)
    g.axes[i] = pm_module_axis(m, pm_intern_printf(&g.names, "x%d", i), sizes[i], (PmLoc){0});
  g.b = (PmBuilder){.m = m, .fn = pm_module_add_fn(m, pm_intern(&g.names, "f"), PM_FN_BODY)};
  for (int32_t i = 0; i < N_PARAMS; i++) g.pool[g.n++] = pm_b_param(&g.b, random_type(&g), NULL);
  for (int32_t i = 0; i < N_NODES; i++) {
    const PmValueId v = next(&g);
    g.pool[g.n++] = v;
  }
  pm_b_results(&g.b, &g.pool[g.n - 8], 8);
  PmBuf text;
  pm_buf_init(&text);
  pm_module_print(m, &text);
  check(pm_buf_str(&text), 0);
  pm_buf_deinit(&text);
  pm_arena_deinit(&g.arena);
}

static void test_equal_bits(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 300; seed++) run(seed);
}

// Of each sum: products and sums in f32, one rounding at the end: one unit of the format, where the order of the sum
// tips it over.
#define SUMS(d)                                                             \
  "module local\naxis a 40\naxis b 24\naxis c 33\naxis v 7\n"               \
  "fn f body {\nparam %0 : " d "[a:40, b:24]\nparam %1 : " d                \
  "[c:33, b:24]\nparam %2 : i32<v>[a:40]\n"                                 \
  "%3 = dot[b](%0, %1) : " d "[a:40, c:33]\n%4 = reduce.sum[a, b](%0) : " d \
  "[]\n"                                                                    \
  "%5 = scatter_add[v](%2, %0) : " d "[v:7, b:24]\nreturn %3, %4, %5\n}\n"

// A product that is held in f32: no rounding but that of its own sum.
static void test_wide_products(void **state) {
  (void)state;
  static const char *const dtypes[] = {"bf16", "f16"};
  for (int32_t i = 0; i < 2; i++) {
    char text[512];
    snprintf(text, sizeof text,
             "module local\naxis a 40\naxis b 24\naxis c 33\nfn f body {\nparam %%0 : %s[a:40, b:24]\nparam %%1 : "
             "%s[c:33, b:24]\n"
             "%%2 = dot[b](%%0, %%1) : f32[a:40, c:33]\nreturn %%2\n}\n",
             dtypes[i], dtypes[i]);
    check(text, 1e-6);
  }
}

static void test_sums(void **state) {
  (void)state;
  check(SUMS("bf16"), 0x1p-8);
  check(SUMS("f16"), 0x1p-11);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_equal_bits), cmocka_unit_test(test_sums),
                                     cmocka_unit_test(test_wide_products)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
