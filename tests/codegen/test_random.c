// Random graphs: whatever fusion makes of them, the plan computes what the reference computes.
#include "fixture.h"

#include <stdlib.h>

#include "ir/build.h"

enum { N_AXES = 5, N_NODES = 24, N_PARAMS = 4 };

static uint64_t next(uint64_t *seed) {
  *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return *seed >> 33;
}

typedef struct Gen {
  Fixture fx;
  PmBuilder b;
  uint64_t seed;
  PmAxisId axes[N_AXES];
  PmAxisId pair, whole, major, minor;  // whole = major x minor
  PmValueId pool[N_PARAMS + 8 * N_NODES];
  int32_t n;
} Gen;

static int32_t pick(Gen *g, int32_t n) { return (int32_t)(next(&g->seed) % (uint64_t)n); }

static PmValueId any(Gen *g) { return g->pool[pick(g, g->n)]; }

static void keep(Gen *g, PmValueId v) { g->pool[g->n++] = v; }

static PmType random_type(Gen *g) {
  PmType t = pm_type_scalar(PM_F32);
  for (int32_t i = 0; i < 3; i++) {
    const PmAxisId a = pick(g, 5) ? g->axes[pick(g, N_AXES)] : g->whole;
    if (pm_type_find(&t, a) == PM_NONE) pm_type_add(&t, a);
  }
  return t;
}

// Both operands broadcast to the axes of both.
static PmValueId binary(Gen *g, PmScalar fn, PmValueId x, PmValueId y) {
  PmType t = *pm_b_type(&g->b, x);
  const PmType u = *pm_b_type(&g->b, y);
  for (int32_t i = 0; i < u.rank; i++)
    if (pm_type_find(&t, u.dims[i].axis) == PM_NONE) {
      if (t.rank == 5) return x;
      pm_type_add(&t, u.dims[i].axis);
    }
  return pm_b_map2(&g->b, fn, pm_b_broadcast(&g->b, x, t), pm_b_broadcast(&g->b, y, t));
}

static PmValueId reduced(Gen *g, PmValueId x) {
  const PmType t = *pm_b_type(&g->b, x);
  PmAxisId axes[PM_MAX_RANK];
  int32_t n = 0;
  for (int32_t i = 0; i < t.rank; i++)
    if (pick(g, 2)) axes[n++] = t.dims[i].axis;
  return n ? pm_b_reduce(&g->b, pick(g, 3) ? PM_SUM : PM_MAX, x, axes, n) : x;
}

static PmValueId transposed(Gen *g, PmValueId x) {
  PmType t = *pm_b_type(&g->b, x);
  for (int32_t i = t.rank - 1; i > 0; i--) {
    const int32_t k = pick(g, i + 1);
    const PmDim d = t.dims[i];
    t.dims[i] = t.dims[k];
    t.dims[k] = d;
  }
  return pm_b_broadcast(&g->b, x, t);
}

static PmValueId reshaped(Gen *g, PmValueId x) {
  const PmType t = *pm_b_type(&g->b, x);
  const PmAxisId parts[] = {g->major, g->minor}, swapped[] = {g->minor, g->major};
  if (pm_type_find(&t, g->whole) == PM_NONE || pm_type_find(&t, g->major) != PM_NONE) return x;
  const PmValueId s = pm_b_split(&g->b, x, g->whole, parts, 2);
  switch (pick(g, 3)) {
    case 0:
      return pm_b_merge(&g->b, pm_b_map1(&g->b, PM_S_neg, s), parts, 2, g->whole);
    case 1:
      return pm_b_merge(&g->b, s, swapped, 2, g->whole);
    default:
      return pm_b_select(&g->b, s, g->minor, pick(g, 2));
  }
}

static PmValueId product(Gen *g, PmValueId x, PmValueId y) {
  const PmType t = *pm_b_type(&g->b, x), u = *pm_b_type(&g->b, y);
  PmAxisId axes[PM_MAX_RANK];
  int32_t n = 0, rank = t.rank;
  for (int32_t i = 0; i < u.rank; i++) {
    const bool shared = pm_type_find(&t, u.dims[i].axis) != PM_NONE;
    if (shared && (n == 0 || pick(g, 2))) axes[n++] = u.dims[i].axis;
    rank += !shared;
  }
  return n && rank - n <= 5 ? pm_b_dot(&g->b, x, y, axes, n) : x;
}

static PmValueId stacked(Gen *g, PmValueId x) {
  const PmType t = *pm_b_type(&g->b, x);
  if (t.rank == 0 || t.rank > 4 || pm_type_find(&t, g->pair) != PM_NONE) return x;
  const PmValueId in[] = {x, pm_b_map1(&g->b, PM_S_tanh, x)};
  const PmValueId s = pm_b_stack(&g->b, in, 2, g->pair);
  return pick(g, 2) ? pm_b_select(&g->b, s, g->pair, pick(g, 2)) : pm_b_reduce(&g->b, PM_SUM, s, &g->pair, 1);
}

static PmValueId masked(Gen *g, PmValueId x) {
  const PmType t = *pm_b_type(&g->b, x);
  if (t.rank < 2) return x;
  PmType d = t;
  d.dtype = PM_F64;
  const PmValueId p = pm_b_broadcast(&g->b, pm_b_pos(&g->b, t.dims[0].axis), d);
  const PmValueId q = pm_b_broadcast(&g->b, pm_b_pos(&g->b, t.dims[1].axis), d);
  if (pick(g, 2))
    return pm_b_map3(&g->b, PM_S_where, pm_b_map2(&g->b, PM_S_ge, p, q), x, pm_b_map1(&g->b, PM_S_abs, x));
  return pm_b_map2(&g->b, PM_S_mul, x,
                   pm_b_cast(&g->b, pm_b_map1(&g->b, PM_S_cos, pm_b_map2(&g->b, PM_S_add, p, q)), PM_F32));
}

static void step(Gen *g) {
  static const PmScalar unary[] = {PM_S_tanh, PM_S_sin, PM_S_neg, PM_S_abs};
  static const PmScalar pairs[] = {PM_S_add, PM_S_mul, PM_S_sub, PM_S_max};
  const PmValueId x = any(g), y = any(g);
  switch (pick(g, 10)) {
    case 0:
    case 1:
      keep(g, pm_b_map1(&g->b, unary[pick(g, 4)], x));
      break;
    case 2:
    case 3:
      keep(g, binary(g, pairs[pick(g, 4)], x, y));
      break;
    case 4:
      keep(g, reduced(g, x));
      break;
    case 5:
      keep(g, transposed(g, x));
      break;
    case 6:
      keep(g, reshaped(g, x));
      break;
    case 7:
      keep(g, product(g, x, y));
      break;
    case 8:
      keep(g, stacked(g, x));
      break;
    default:
      keep(g, masked(g, x));
      break;
  }
  // Sums stay near 1, so that one tolerance serves all.
  g->pool[g->n - 1] = pm_b_map1(&g->b, PM_S_tanh, g->pool[g->n - 1]);
}

static void run(uint64_t seed) {
  static const int64_t sizes[N_AXES] = {3, 4, 2, 5, 1};
  Gen g = {.seed = seed};
  pm_arena_init(&g.fx.arena, 0);
  pm_interner_init(&g.fx.names, &g.fx.arena);
  PmModule *m = pm_module_new(&g.fx.arena, &g.fx.names);
  m->stage = PM_STAGE_LOCAL;
  m->model = m->schedule = m->step = m->eval = PM_NONE;
  for (int32_t i = 0; i < N_AXES; i++)
    g.axes[i] = pm_module_axis(m, pm_intern_printf(&g.fx.names, "x%d", i), sizes[i], (PmLoc){0});
  g.pair = pm_module_axis(m, pm_intern(&g.fx.names, "pair"), 2, (PmLoc){0});
  g.whole = pm_module_axis(m, pm_intern(&g.fx.names, "whole"), 6, (PmLoc){0});
  g.major = pm_module_axis(m, pm_intern(&g.fx.names, "major"), 3, (PmLoc){0});
  g.minor = pm_module_axis(m, pm_intern(&g.fx.names, "minor"), 2, (PmLoc){0});
  g.b = (PmBuilder){.m = m, .fn = pm_module_add_fn(m, pm_intern(&g.fx.names, "f"), PM_FN_BODY)};
  for (int32_t i = 0; i < N_PARAMS; i++) keep(&g, pm_b_param(&g.b, random_type(&g), NULL));
  for (int32_t i = 0; i < N_NODES; i++) step(&g);
  PmValueId results[6];
  for (int32_t i = 0; i < 6; i++) results[i] = i < 3 ? g.pool[g.n - 1 - i] : any(&g);
  pm_b_results(&g.b, results, 6);
  PmBuf text;
  pm_buf_init(&text);
  pm_module_print(m, &text);
  if (getenv("SHOW")) fprintf(stderr, "seed %llu\n%s", (unsigned long long)seed, pm_buf_str(&text));
  check(pm_buf_str(&text), 2e-5);
  pm_buf_deinit(&text);
  pm_arena_deinit(&g.fx.arena);
}

static void test_random(void **state) {
  (void)state;
  const char *one = getenv("SEED");
  const uint64_t first = one ? strtoull(one, NULL, 10) : 1, n = one ? 1 : 300;
  for (uint64_t seed = first; seed < first + n; seed++) run(seed);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_random)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
