#include "runtime/kernel_interp.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/half.h"

#define PARTIALS 32
#define STACK_VALUES 2048
#define STACK_ACCS 64

typedef union Value {
  uint8_t b;
  int32_t i;
  float f;
  double d;
  int32_t slot;  // of an ACC whose loop runs: nobody may read it yet
} Value;

typedef struct Run {
  const PmKernel *k;
  char *const *args;
  const int32_t *scalars;
  Value *values;
  Value (*partials)[PARTIALS];
  int32_t n_accs;  // slots in use
  int32_t axis;    // innermost open loop
  int64_t turns;   // its extent
  int32_t n_axes;  // axes that have an index now
  int64_t index[PM_KERNEL_MAX_AXES];
} Run;

typedef void InstrFn(Run *r, const PmInstr *in, Value *out);

static float max_f32(float a, float b) { return isnan(a) || a > b ? a : b; }
static float min_f32(float a, float b) { return isnan(a) || a < b ? a : b; }
static double max_f64(double a, double b) { return isnan(a) || a > b ? a : b; }
static double min_f64(double a, double b) { return isnan(a) || a < b ? a : b; }
static int32_t wrap(int64_t v) { return (int32_t)(uint32_t)(uint64_t)v; }

static int32_t truncated(double v) {
  if (isnan(v)) return 0;
  return v >= 0x1p31 ? INT32_MAX : v <= -0x1p31 ? INT32_MIN : (int32_t)v;
}

static void do_CONST(Run *r, const PmInstr *in, Value *out) {
  (void)r;
  if (in->dtype == PM_K_F32) out->f = (float)in->number;
  if (in->dtype == PM_K_F64) out->d = in->number;
  if (in->dtype == PM_K_I32) out->i = truncated(in->number);
  if (in->dtype == PM_K_BOOL) out->b = in->number != 0;
}

static void do_INDEX(Run *r, const PmInstr *in, Value *out) { out->i = (int32_t)r->index[in->arg]; }
static void do_PARAM(Run *r, const PmInstr *in, Value *out) { out->i = r->scalars[in->arg]; }

// The place of an access, or NULL when its loaded index is out of range.
static char *place(const Run *r, const PmInstr *in) {
  int64_t at = in->base;
  for (int32_t x = 0; x < r->n_axes; x++) at += in->stride[x] * r->index[x];
  if (in->dyn >= 0) {
    int64_t dyn = r->values[in->dyn].i;
    if (dyn < 0 || dyn >= in->dyn_extent) return NULL;
    at += dyn * in->dyn_stride;
  }
  return r->args[in->arg] + at * pm_kdtype_bytes(r->k->args[in->arg].dtype);
}

static void do_LOAD(Run *r, const PmInstr *in, Value *out) {
  const char *from = place(r, in);
  *out = (Value){.d = 0};
  if (!from) return;
  uint16_t half;
  if (pm_kdtype_is_half(in->dtype)) {
    memcpy(&half, from, sizeof half);
    out->f = in->dtype == PM_K_BF16 ? pm_bf16_to_f32(half) : pm_f16_to_f32(half);
    return;
  }
  memcpy(out, from, (size_t)pm_kdtype_bytes(in->dtype));
  if (in->dtype == PM_K_BOOL) out->b = out->b != 0;
}

static void do_STORE(Run *r, const PmInstr *in, Value *out) {
  (void)out;
  char *to = place(r, in);
  if (!to) return;
  if (pm_kdtype_is_half(in->dtype)) {
    double v = (double)r->values[in->a].f;
    uint16_t half = in->dtype == PM_K_BF16 ? pm_bf16_from(v) : pm_f16_from(v);
    memcpy(to, &half, sizeof half);
    return;
  }
  memcpy(to, &r->values[in->a], (size_t)pm_kdtype_bytes(in->dtype));
}

static void sum_into(PmKDtype dtype, Value *to, const Value *v) {
  if (dtype == PM_K_F32) to->f = to->f + v->f;
  if (dtype == PM_K_F64) to->d = to->d + v->d;
  if (dtype == PM_K_I32) to->i = wrap((int64_t)to->i + v->i);
}

static void max_into(PmKDtype dtype, Value *to, const Value *v) {
  if (dtype == PM_K_F32) to->f = max_f32(to->f, v->f);
  if (dtype == PM_K_F64) to->d = max_f64(to->d, v->d);
  if (dtype == PM_K_I32) to->i = to->i > v->i ? to->i : v->i;
}

static void do_STORE_ADD(Run *r, const PmInstr *in, Value *out) {
  (void)out;
  char *to = place(r, in);
  if (!to) return;
  size_t bytes = (size_t)pm_kdtype_bytes(in->dtype);
  Value sum = {.d = 0};
  memcpy(&sum, to, bytes);
  sum_into(in->dtype, &sum, &r->values[in->a]);
  memcpy(to, &sum, bytes);
}

static Value least(PmKDtype dtype) {
  if (dtype == PM_K_F32) return (Value){.f = -INFINITY};
  if (dtype == PM_K_F64) return (Value){.d = -INFINITY};
  return (Value){.i = INT32_MIN};
}

typedef void IntoFn(PmKDtype dtype, Value *to, const Value *v);

static void accumulate(Run *r, const PmInstr *in, Value *out, IntoFn *into, Value first) {
  int64_t turn = r->index[r->axis];
  if (turn == 0) {
    out->slot = r->n_accs++;
    for (int j = 0; j < PARTIALS; j++) r->partials[out->slot][j] = first;
  }
  Value *p = r->partials[out->slot];
  into(in->dtype, &p[turn % PARTIALS], &r->values[in->a]);
  if (turn != r->turns - 1) return;
  for (int w = PARTIALS / 2; w; w /= 2) {
    for (int j = 0; j < w; j++) into(in->dtype, &p[j], &p[j + w]);
  }
  *out = p[0];
}

static void do_ACC_SUM(Run *r, const PmInstr *in, Value *out) { accumulate(r, in, out, sum_into, (Value){.d = 0}); }
static void do_ACC_MAX(Run *r, const PmInstr *in, Value *out) { accumulate(r, in, out, max_into, least(in->dtype)); }

static void do_CVT(Run *r, const PmInstr *in, Value *out) {
  const Value *a = &r->values[in->a];
  PmKDtype from = pm_kdtype_value(r->k->instrs[in->a].dtype);
  uint8_t op = r->k->instrs[in->a].op;
  if (op >= PM_I_CMP_EQ && op <= PM_I_CMP_LE) from = PM_K_BOOL;
  if (from == PM_K_I32 && in->dtype == PM_K_I32) {
    out->i = a->i;
    return;
  }
  // Exact: every source fits a double, which is rounded once below.
  double v = from == PM_K_F32 ? (double)a->f : from == PM_K_F64 ? a->d : from == PM_K_I32 ? a->i : a->b;
  if (in->dtype == PM_K_F32) out->f = (float)v;
  if (in->dtype == PM_K_F64) out->d = v;
  if (in->dtype == PM_K_I32) out->i = truncated(v);
  if (in->dtype == PM_K_BOOL) out->b = v != 0;
}

static double float_operand(const Run *r, const PmInstr *in) {
  const Value *a = &r->values[in->a];
  return r->k->instrs[in->a].dtype == PM_K_F64 ? a->d : (double)a->f;
}

static void do_ROUND_BF16(Run *r, const PmInstr *in, Value *out) { out->f = pm_bf16_round(float_operand(r, in)); }
static void do_ROUND_F16(Run *r, const PmInstr *in, Value *out) { out->f = pm_f16_round(float_operand(r, in)); }

// Defines do_NAME by one expression a dtype, over A, B, C of that dtype.
#define ARITHMETIC(NAME, f32, f64, i32)                          \
  static void do_##NAME(Run *r, const PmInstr *in, Value *out) { \
    const Value *A = &r->values[in->a];                          \
    const Value *B = in->b < 0 ? A : &r->values[in->b];          \
    const Value *C = in->c < 0 ? A : &r->values[in->c];          \
    (void)B;                                                     \
    (void)C;                                                     \
    if (in->dtype == PM_K_F32) out->f = (f32);                   \
    if (in->dtype == PM_K_F64) out->d = (f64);                   \
    if (in->dtype == PM_K_I32) out->i = (i32);                   \
  }
ARITHMETIC(ADD, A->f + B->f, A->d + B->d, wrap((int64_t)A->i + B->i))
ARITHMETIC(SUB, A->f - B->f, A->d - B->d, wrap((int64_t)A->i - B->i))
ARITHMETIC(MUL, A->f * B->f, A->d * B->d, wrap((int64_t)A->i * B->i))
ARITHMETIC(DIV, A->f / B->f, A->d / B->d, 0)
ARITHMETIC(FMA, fmaf(A->f, B->f, C->f), fma(A->d, B->d, C->d), 0)
ARITHMETIC(NEG, -A->f, -A->d, wrap(-(int64_t)A->i))
ARITHMETIC(ABS, fabsf(A->f), fabs(A->d), 0)
ARITHMETIC(SQRT, sqrtf(A->f), sqrt(A->d), 0)
ARITHMETIC(FLOOR, floorf(A->f), floor(A->d), 0)
ARITHMETIC(RINT, rintf(A->f), rint(A->d), 0)
ARITHMETIC(MIN, min_f32(A->f, B->f), min_f64(A->d, B->d), A->i < B->i ? A->i : B->i)
ARITHMETIC(MAX, max_f32(A->f, B->f), max_f64(A->d, B->d), A->i > B->i ? A->i : B->i)
ARITHMETIC(SHL, 0, 0, wrap((int64_t)((uint64_t)(uint32_t)A->i << (B->i & 31))))
ARITHMETIC(SHR, 0, 0, wrap((int64_t)((uint32_t)A->i >> (B->i & 31))))
ARITHMETIC(MULHI, 0, 0, wrap((int64_t)((uint64_t)(uint32_t)A->i * (uint32_t)B->i >> 32)))
ARITHMETIC(XOR, 0, 0, A->i ^ B->i)
ARITHMETIC(CALL_COS, 0, cos(A->d), 0)
ARITHMETIC(CALL_ERF, 0, erf(A->d), 0)
ARITHMETIC(CALL_EXP, 0, exp(A->d), 0)
ARITHMETIC(CALL_LOG, 0, log(A->d), 0)
ARITHMETIC(CALL_POW, 0, pow(A->d, B->d), 0)
ARITHMETIC(CALL_SIN, 0, sin(A->d), 0)
ARITHMETIC(CALL_TANH, 0, tanh(A->d), 0)

#define COMPARISON(NAME, op)                                                                             \
  static void do_##NAME(Run *r, const PmInstr *in, Value *out) {                                         \
    const Value *A = &r->values[in->a], *B = &r->values[in->b];                                          \
    out->b = in->dtype == PM_K_F32 ? A->f op B->f : in->dtype == PM_K_F64 ? A->d op B->d : A->i op B->i; \
  }
COMPARISON(CMP_EQ, ==)
COMPARISON(CMP_NE, !=)
COMPARISON(CMP_LT, <)
COMPARISON(CMP_LE, <=)

static void do_AND(Run *r, const PmInstr *in, Value *out) {
  const Value *a = &r->values[in->a], *b = &r->values[in->b];
  if (in->dtype == PM_K_I32) out->i = a->i & b->i;
  if (in->dtype == PM_K_BOOL) out->b = a->b & b->b;
}

static void do_OR(Run *r, const PmInstr *in, Value *out) {
  const Value *a = &r->values[in->a], *b = &r->values[in->b];
  if (in->dtype == PM_K_I32) out->i = a->i | b->i;
  if (in->dtype == PM_K_BOOL) out->b = a->b | b->b;
}

static void do_NOT(Run *r, const PmInstr *in, Value *out) { out->b = !r->values[in->a].b; }
static void do_SELECT(Run *r, const PmInstr *in, Value *out) { *out = r->values[r->values[in->a].b ? in->b : in->c]; }
static void do_BITCAST(Run *r, const PmInstr *in, Value *out) { *out = r->values[in->a]; }

// Control is run_block's; the table needs a function.
static void do_LOOP(Run *r, const PmInstr *in, Value *out) { (void)r, (void)in, (void)out; }
static void do_END(Run *r, const PmInstr *in, Value *out) { (void)r, (void)in, (void)out; }

static InstrFn *const instr_fns[] = {
#define INSTR(name, text, n_in, what) do_##name,
#include "runtime/instrs.def"
};

// Runs from instruction `at` to the END of its block; returns the instruction behind it.
static int32_t run_block(Run *r, int32_t at) {
  while (at < r->k->n_instrs) {
    const PmInstr *in = &r->k->instrs[at];
    if (in->op == PM_I_END) return at + 1;
    if (in->op != PM_I_LOOP) {
      instr_fns[in->op](r, in, &r->values[at]);
      at++;
      continue;
    }
    Run outside = *r;
    int32_t behind = at + 1;
    // Includes earlier loops that have ended: a valid access has stride 0 along those.
    r->n_axes = in->arg + 1;
    for (int64_t turn = 0; turn < in->extent; turn++) {
      r->axis = in->arg;
      r->turns = in->extent;
      r->index[in->arg] = turn;
      behind = run_block(r, at + 1);
    }
    r->n_axes = outside.n_axes;
    r->axis = outside.axis;
    r->turns = outside.turns;
    r->n_accs = outside.n_accs;
    at = behind;
  }
  return at;
}

static void run_outer(Run *r, int64_t begin, int64_t end) {
  const PmKernel *k = r->k;
  if (k->n_outer == 0) {
    if (begin < end) run_block(r, 0);
    return;
  }
  r->n_axes = k->n_outer;
  r->index[0] = begin;
  while (r->index[0] < end) {
    run_block(r, 0);
    int32_t x = k->n_outer - 1;
    while (x > 0 && ++r->index[x] == k->outer[x]) r->index[x--] = 0;
    if (x == 0) r->index[0]++;
  }
}

static void *scratch(int32_t n, size_t size) {
  void *p = calloc((size_t)n, size);
  if (!p) pm_memory_exhausted((size_t)n * size, 0);
  return p;
}

void pm_kernel_interp(const PmKernel *k, char *const *args, const int32_t *scalars, int64_t begin, int64_t end) {
  Value stack_values[STACK_VALUES];
  Value stack_partials[STACK_ACCS][PARTIALS];
  int32_t n_accs = 0;
  for (int32_t i = 0; i < k->n_instrs; i++) {
    n_accs += k->instrs[i].op == PM_I_ACC_SUM || k->instrs[i].op == PM_I_ACC_MAX;
  }
  bool big = k->n_instrs > STACK_VALUES || n_accs > STACK_ACCS;
  Run r = {.k = k, .args = args, .scalars = scalars, .values = stack_values, .partials = stack_partials};
  if (big) {
    r.values = scratch(k->n_instrs + 1, sizeof *r.values);
    r.partials = scratch(n_accs + 1, sizeof *r.partials);
  }
  run_outer(&r, begin, end);
  if (big) {
    free(r.values);
    free(r.partials);
  }
}
