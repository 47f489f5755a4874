#include "kernel_gen.h"

#define MAX_VALUES 600

typedef struct Gen {
  PmKBuilder kb;
  uint64_t state;
  int32_t values[PM_K_DTYPE_COUNT][MAX_VALUES];  // visible ones
  int32_t n_values[PM_K_DTYPE_COUNT];
  int64_t extent[PM_KERNEL_MAX_AXES];
  bool open[PM_KERNEL_MAX_AXES];
  bool last_only;  // outer axes but the last run in order: scatter is allowed
  int64_t turns;   // of the innermost body so far
} Gen;

static uint64_t next(Gen *g) {
  g->state += 0x9e3779b97f4a7c15u;
  uint64_t z = g->state;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

static int32_t below(Gen *g, int32_t n) { return (int32_t)(next(g) % (uint64_t)n); }

static void add_value(Gen *g, int32_t v) {
  const PmKDtype d = pm_kb_dtype(&g->kb, v);
  if (g->n_values[d] < MAX_VALUES) g->values[d][g->n_values[d]++] = v;
}

static int32_t any(Gen *g, PmKDtype d) {
  static const double numbers[] = {0, 1, -1, 2.5, 1e-40, -0.75, 3, 7};
  if (g->n_values[d] == 0 || below(g, 8) == 0) return pm_kb_const(&g->kb, d, numbers[below(g, 8)]);
  // Mostly late values, so that chains grow.
  const int32_t n = g->n_values[d], back = below(g, below(g, 3) ? 4 : n);
  return g->values[d][back < n ? n - 1 - back : 0];
}

// An address of a fresh argument over the open axes; `unique`: no two turns of the outer axes share an element.
static PmKAddr address(Gen *g, bool unique) {
  PmKAddr at = pm_kaddr();
  int64_t size = 1;
  const bool reverse = below(g, 2);
  for (int32_t j = 0; j < g->kb.n_axes; j++) {
    const int32_t a = reverse ? j : g->kb.n_axes - 1 - j;
    const bool outer = a < g->kb.k->n_outer;
    if (!g->open[a] || (!(unique && outer) && below(g, 3) == 0)) continue;
    const int64_t gap = below(g, 6) == 0 ? 3 : 1;
    at.stride[a] = size * gap;
    if (below(g, 12) == 0) {
      at.base += at.stride[a] * (g->extent[a] - 1);
      at.stride[a] = -at.stride[a];
    }
    size *= gap * g->extent[a];
    if (size > 200000) break;
  }
  at.base += below(g, 4) == 0 ? 5 : 0;
  return at;
}

static void gen_load(Gen *g) {
  if (g->kb.k->n_args >= PM_KERNEL_MAX_ARGS - 4) return;
  const int32_t r = below(g, 10);
  static const PmKDtype floats[] = {PM_K_F32, PM_K_F32, PM_K_BF16, PM_K_F16};
  const PmKDtype d = r < 6 ? floats[below(g, 4)] : r < 8 ? PM_K_I32 : r < 9 ? PM_K_F64 : PM_K_BOOL;
  PmKAddr at = address(g, false);
  if (below(g, 4) == 0 && g->n_values[PM_K_I32] > 0) {
    at.dyn = any(g, PM_K_I32);
    at.dyn_extent = 1 + below(g, 9);
    at.dyn_stride = 1 + below(g, 40);
  }
  add_value(g, pm_kb_load(&g->kb, pm_kb_arg(&g->kb, d, 0, true, false), &at));
}

static int64_t product(const PmKernel *k) {
  int64_t n = 1;
  for (int32_t i = 0; i < k->n_outer; i++) n *= k->outer[i];
  return n;
}

// Stores `value`, or any when it is -1.
static void gen_store(Gen *g, int32_t value) {
  const PmKernel *k = g->kb.k;
  if (k->n_args >= PM_KERNEL_MAX_ARGS || product(k) > 60000) return;
  if (value < 0) {
    const int32_t r = below(g, 10);
    value = any(g, r < 6 ? PM_K_F32 : r < 8 ? PM_K_I32 : r < 9 ? PM_K_F64 : PM_K_BOOL);
  }
  PmKDtype d = pm_kb_dtype(&g->kb, value);
  const bool half = d == PM_K_F32 && below(g, 4) == 0;
  const bool add = d != PM_K_BOOL && !half && below(g, 3) == 0;
  if (half) d = below(g, 2) ? PM_K_BF16 : PM_K_F16;
  if (g->last_only && below(g, 2)) {
    PmKAddr at = pm_kaddr();
    const int32_t last = k->n_outer - 1;
    at.stride[last] = 1;
    at.dyn = any(g, PM_K_I32);
    at.dyn_stride = k->outer[last];
    at.dyn_extent = 1 + below(g, 9);
    pm_kb_store(&g->kb, pm_kb_arg(&g->kb, d, 0, true, true), &at, value, add);
    return;
  }
  PmKAddr at = address(g, true);
  const int32_t arg = pm_kb_arg(&g->kb, d, 0, true, true);
  if (d == PM_K_BOOL || below(g, 3)) {
    pm_kb_store(&g->kb, arg, &at, value, add);
    return;
  }
  const int32_t old = pm_kb_load(&g->kb, arg, &at);
  add_value(g, old);
  pm_kb_store(&g->kb, arg, &at, pm_kb_op(&g->kb, PM_I_ADD, pm_kdtype_value(d), old, value, -1), add);
  if (below(g, 2)) add_value(g, pm_kb_load(&g->kb, arg, &at));
}

static void gen_op(Gen *g) {
  static const uint8_t floats[] = {PM_I_ADD,  PM_I_SUB,   PM_I_MUL,  PM_I_DIV, PM_I_FMA, PM_I_NEG, PM_I_ABS,
                                   PM_I_SQRT, PM_I_FLOOR, PM_I_RINT, PM_I_MIN, PM_I_MAX, PM_I_SELECT};
  static const uint8_t ints[] = {PM_I_ADD, PM_I_SUB, PM_I_MUL, PM_I_NEG, PM_I_MIN, PM_I_MAX,
                                 PM_I_AND, PM_I_OR,  PM_I_SHL, PM_I_SHR, PM_I_MULHI, PM_I_XOR, PM_I_SELECT};
  static const uint8_t bools[] = {PM_I_AND, PM_I_OR, PM_I_NOT, PM_I_SELECT};
  static const int8_t n_in[] = {
#define INSTR(name, text, n, what) n,
#include "runtime/instrs.def"
  };
  const int32_t r = below(g, 12);
  const PmKDtype d = r < 6 ? PM_K_F32 : r < 8 ? PM_K_F64 : r < 11 ? PM_K_I32 : PM_K_BOOL;
  const uint8_t op = d == PM_K_I32    ? ints[below(g, sizeof ints)]
                     : d == PM_K_BOOL ? bools[below(g, sizeof bools)]
                                      : floats[below(g, sizeof floats)];
  const int32_t n = n_in[op];
  const int32_t a = any(g, op == PM_I_SELECT ? PM_K_BOOL : d), b = n > 1 ? any(g, d) : -1, c = n > 2 ? any(g, d) : -1;
  add_value(g, pm_kb_op(&g->kb, (PmInstrOp)op, d, a, b, c));
}

static void gen_other(Gen *g) {
  PmKBuilder *kb = &g->kb;
  const PmKDtype d = (PmKDtype)(1 + below(g, 3));
  switch (below(g, 8)) {
    case 0: add_value(g, pm_kb_op(kb, (PmInstrOp)(PM_I_CMP_EQ + below(g, 4)), d, any(g, d), any(g, d), -1)); break;
    case 1: add_value(g, pm_kb_cvt(kb, (PmKDtype)below(g, 4), any(g, d))); break;
    case 2: add_value(g, pm_kb_cvt(kb, d, any(g, PM_K_BOOL))); break;
    case 3: add_value(g, pm_kb_op(kb, PM_I_BITCAST, PM_K_F32, any(g, PM_K_I32), -1, -1)); break;
    case 4: {  // a NaN has no one bit pattern
      const int32_t x = any(g, PM_K_F32), zero = pm_kb_const(kb, PM_K_F32, 0);
      const int32_t same = pm_kb_op(kb, PM_I_CMP_EQ, PM_K_F32, x, x, -1);
      add_value(g, pm_kb_op(kb, PM_I_BITCAST, PM_K_I32, pm_kb_op(kb, PM_I_SELECT, PM_K_F32, same, x, zero), -1, -1));
      break;
    }
    case 5: {
      const PmKDtype from = below(g, 2) ? PM_K_F32 : PM_K_F64;
      add_value(g, pm_kb_op(kb, below(g, 2) ? PM_I_ROUND_BF16 : PM_I_ROUND_F16, PM_K_F32, any(g, from), -1, -1));
      break;
    }
    case 6: {
      const int32_t a = below(g, kb->n_axes + 1);
      if (a < kb->n_axes && g->open[a]) add_value(g, pm_kb_index(kb, a));
      break;
    }
    default: {
      static const PmScalar fns[] = {PM_S_exp, PM_S_log, PM_S_tanh, PM_S_sign, PM_S_rsqrt, PM_S_mod};
      const PmScalar fn = fns[below(g, 6)];
      add_value(g, pm_kb_scalar_fn(kb, fn, PM_K_F32, any(g, PM_K_F32), fn == PM_S_mod ? any(g, PM_K_F32) : -1, -1));
    }
  }
}

static void gen_body(Gen *g, int32_t length, int32_t depth);

static void gen_loop(Gen *g, int32_t depth) {
  static const int64_t extents[] = {1, 2, 3, 5, 7, 8, 9, 16, 17, 18, 22, 24, 31, 32, 33, 40, 63, 64, 65, 100, 200};
  const int64_t extent = extents[below(g, 21)];
  if (g->kb.n_axes >= PM_KERNEL_MAX_AXES || g->turns * extent > 20000) return;
  int32_t n_values[PM_K_DTYPE_COUNT], accs[3], n_accs = below(g, 4);
  for (int32_t d = 0; d < PM_K_DTYPE_COUNT; d++) n_values[d] = g->n_values[d];
  g->turns *= extent;
  const int32_t axis = pm_kb_loop(&g->kb, extent);
  g->extent[axis] = extent;
  g->open[axis] = true;
  gen_load(g);
  gen_body(g, 2 + below(g, 10), depth + 1);
  for (int32_t i = 0; i < n_accs; i++) {
    const PmKDtype d = below(g, 2) ? PM_K_F32 : (PmKDtype)(1 + below(g, 3));
    const int32_t value = g->n_values[d] > n_values[d] ? g->values[d][g->n_values[d] - 1] : any(g, d);
    accs[i] = pm_kb_acc(&g->kb, below(g, 3) ? PM_SUM : PM_MAX, d, value);
  }
  if (below(g, 4) == 0) gen_body(g, 2, depth + 1);
  pm_kb_end(&g->kb);
  g->open[axis] = false;
  g->turns /= extent;
  for (int32_t d = 0; d < PM_K_DTYPE_COUNT; d++) g->n_values[d] = n_values[d];
  for (int32_t i = 0; i < n_accs; i++) {
    add_value(g, accs[i]);
    if (below(g, 2)) gen_store(g, accs[i]);
  }
}

static void gen_body(Gen *g, int32_t length, int32_t depth) {
  for (int32_t i = 0; i < length; i++) {
    const int32_t r = below(g, 20);
    if (r < 3)
      gen_load(g);
    else if (r < 5 && depth < 3)
      gen_loop(g, depth);
    else if (r < 6)
      gen_store(g, -1);
    else if (r < 10)
      gen_other(g);
    else
      gen_op(g);
  }
}

PmKernel *kernel_gen(PmArena *arena, uint64_t seed) {
  static const int64_t extents[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 24, 31, 33};
  Gen g = {.state = seed, .turns = 1};
  pm_kb_init(&g.kb, arena, pm_arena_printf(arena, "random.%llu", (unsigned long long)seed), false,
             below(&g, 2) ? PM_VEC_LOOP : PM_VEC_OUTER);
  const int32_t n_outer = below(&g, 4);
  g.last_only = n_outer > 0 && below(&g, 3) == 0;
  for (int32_t i = 0; i < n_outer; i++) {
    int64_t extent = extents[below(&g, 14)];
    if (g.turns * extent > 600) extent = 3;
    const bool seq = g.last_only ? i + 1 < n_outer || below(&g, 3) == 0 : below(&g, 10) == 0;
    const int32_t axis = pm_kb_outer(&g.kb, extent, seq ? PM_KA_SEQ : PM_KA_GRID);
    g.extent[axis] = extent;
    g.open[axis] = true;
    g.turns *= extent;
  }
  for (int32_t i = below(&g, 3); i > 0; i--) add_value(&g, pm_kb_param(&g.kb, pm_kb_scalar(&g.kb)));
  gen_load(&g);
  gen_load(&g);
  gen_body(&g, 6 + below(&g, 24), 0);
  for (int32_t i = 0; i < 3; i++) gen_store(&g, -1);
  return pm_kb_finish(&g.kb);
}
