// Kernels: form, bounds, and independence of parallel turns.
//
// Independence. Two accesses of one memory, at least one a store, must not meet in different turns of the GRID axes.
// Both have the same stride along every GRID axis; what else moves them (loops, SEQ axes, a loaded index, the distance
// of their bases) is a box of further strides. When all strides together, sorted, each exceed what the smaller ones can
// add up to, sums are unique, so equal places mean equal GRID turns. Sound, not complete: a kernel that interleaves in
// some cleverer way is refused.
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "runtime/validate.h"

#define ANY 0x0f      // every dtype of a value
#define STORED 0x3f   // every dtype in memory
#define PAIR_WORK 64  // of comparing two accesses; looking at an instruction is 1

typedef struct OpRule {
  uint8_t dtypes;  // bit set of what the instruction's dtype may be
  bool value;      // defines one
  bool host;       // host kernels only
} OpRule;

#define BIT(d) (1u << (d))
#define FLOATS (BIT(PM_K_F32) | BIT(PM_K_F64))
#define NUMBERS (FLOATS | BIT(PM_K_I32))
#define INTS BIT(PM_K_I32)
#define LOGIC (BIT(PM_K_BOOL) | BIT(PM_K_I32))

static const OpRule rules[PM_INSTR_COUNT] = {
    [PM_I_CONST] = {ANY, true, false},
    [PM_I_INDEX] = {INTS, true, false},
    [PM_I_PARAM] = {INTS, true, false},
    [PM_I_LOAD] = {STORED, true, false},
    [PM_I_STORE] = {STORED, false, false},
    [PM_I_STORE_ADD] = {NUMBERS, false, false},
    [PM_I_LOOP] = {ANY, false, false},
    [PM_I_END] = {ANY, false, false},
    [PM_I_ACC_SUM] = {NUMBERS, true, false},
    [PM_I_ACC_MAX] = {NUMBERS, true, false},
    [PM_I_CVT] = {ANY, true, false},
    [PM_I_ADD] = {NUMBERS, true, false},
    [PM_I_SUB] = {NUMBERS, true, false},
    [PM_I_MUL] = {NUMBERS, true, false},
    [PM_I_DIV] = {FLOATS, true, false},
    [PM_I_FMA] = {FLOATS, true, false},
    [PM_I_NEG] = {NUMBERS, true, false},
    [PM_I_ABS] = {FLOATS, true, false},
    [PM_I_SQRT] = {FLOATS, true, false},
    [PM_I_FLOOR] = {FLOATS, true, false},
    [PM_I_RINT] = {FLOATS, true, false},
    [PM_I_MIN] = {NUMBERS, true, false},
    [PM_I_MAX] = {NUMBERS, true, false},
    [PM_I_CMP_EQ] = {NUMBERS, true, false},
    [PM_I_CMP_NE] = {NUMBERS, true, false},
    [PM_I_CMP_LT] = {NUMBERS, true, false},
    [PM_I_CMP_LE] = {NUMBERS, true, false},
    [PM_I_AND] = {LOGIC, true, false},
    [PM_I_OR] = {LOGIC, true, false},
    [PM_I_NOT] = {BIT(PM_K_BOOL), true, false},
    [PM_I_SELECT] = {ANY, true, false},
    [PM_I_BITCAST] = {INTS | BIT(PM_K_F32), true, false},
    [PM_I_SHL] = {INTS, true, false},
    [PM_I_SHR] = {INTS, true, false},
    [PM_I_MULHI] = {INTS, true, false},
    [PM_I_XOR] = {INTS, true, false},
    [PM_I_CALL_COS] = {BIT(PM_K_F64), true, true},
    [PM_I_CALL_ERF] = {BIT(PM_K_F64), true, true},
    [PM_I_CALL_EXP] = {BIT(PM_K_F64), true, true},
    [PM_I_CALL_LOG] = {BIT(PM_K_F64), true, true},
    [PM_I_CALL_POW] = {BIT(PM_K_F64), true, true},
    [PM_I_CALL_SIN] = {BIT(PM_K_F64), true, true},
    [PM_I_CALL_TANH] = {BIT(PM_K_F64), true, true},
    [PM_I_ROUND_BF16] = {BIT(PM_K_F32), true, false},
    [PM_I_ROUND_F16] = {BIT(PM_K_F32), true, false},
};

static bool is_compare(uint8_t op) { return op >= PM_I_CMP_EQ && op <= PM_I_CMP_LE; }
static bool is_acc(uint8_t op) { return op == PM_I_ACC_SUM || op == PM_I_ACC_MAX; }
static bool is_access(uint8_t op) { return op == PM_I_LOAD || op == PM_I_STORE || op == PM_I_STORE_ADD; }
static PmKDtype value_dtype(const PmInstr *in) { return is_compare(in->op) ? PM_K_BOOL : pm_kdtype_value(in->dtype); }
static bool is_round(uint8_t op) { return op == PM_I_ROUND_BF16 || op == PM_I_ROUND_F16; }

typedef struct Checker {
  const PmKernel *k;
  int64_t extent[PM_KERNEL_MAX_AXES];
  int32_t n_axes;
  int32_t open[PM_KERNEL_MAX_AXES];  // axes of the open loops
  int32_t n_open;
  int32_t *loop_of;                    // axis of the loop around instruction i, -1: none
  int32_t around[PM_KERNEL_MAX_AXES];  // axis of the loop around the loop, -1: none
  bool ended[PM_KERNEL_MAX_AXES];      // what such a loop defined is hidden
} Checker;

static bool in_scope(const Checker *c, int32_t axis) {
  if (axis >= 0 && axis < c->k->n_outer) return true;
  for (int32_t i = 0; i < c->n_open; i++) {
    if (c->open[i] == axis) return true;
  }
  return false;
}

static PmStatus *check_operand(const Checker *c, int32_t at, int32_t v, PmKDtype want, bool any) {
  const PmKernel *k = c->k;
  if (v < 0 || v >= at || !rules[k->instrs[v].op].value) {
    return PM_BAD("kernel `%s`, %%%d: operand %d is no earlier value", k->name, at, v);
  }
  int32_t loop = c->loop_of[v];
  bool complete = true;
  // An accumulator belongs to the block around its loop, and is complete only there.
  if (is_acc(k->instrs[v].op)) {
    complete = c->ended[loop];
    loop = c->around[loop];
  }
  if (!complete || (loop >= 0 && c->ended[loop])) {
    return PM_BAD("kernel `%s`, %%%d: operand %d is not visible here", k->name, at, v);
  }
  if (!any && value_dtype(&k->instrs[v]) != want) {
    return PM_BAD("kernel `%s`, %%%d: operand %d is %s, expected %s", k->name, at, v,
                  pm_kdtype_text(value_dtype(&k->instrs[v])), pm_kdtype_text(want));
  }
  return NULL;
}

static PmStatus *check_access(const Checker *c, int32_t at, const PmInstr *in) {
  const PmKernel *k = c->k;
  if (in->arg < 0 || in->arg >= k->n_args) return PM_BAD("kernel `%s`, %%%d: no argument %d", k->name, at, in->arg);
  const PmKArg *arg = &k->args[in->arg];
  bool reads = in->op != PM_I_STORE, writes = in->op != PM_I_LOAD;
  if ((reads && !arg->reads) || (writes && !arg->writes)) {
    return PM_BAD("kernel `%s`, %%%d: argument %d is not declared %s", k->name, at, in->arg,
                  reads && !arg->reads ? "read" : "written");
  }
  if (arg->dtype != in->dtype) return PM_BAD("kernel `%s`, %%%d: argument %d has another dtype", k->name, at, in->arg);
  int64_t lo = in->base, hi = in->base, reach;
  bool ok = true;
  for (int32_t x = 0; x < PM_KERNEL_MAX_AXES; x++) {
    if (!in->stride[x]) continue;
    if (!in_scope(c, x)) return PM_BAD("kernel `%s`, %%%d: stride along axis %d, which is not open", k->name, at, x);
    ok = ok && pm_mul_i64(in->stride[x], c->extent[x] - 1, &reach) &&
         (reach < 0 ? pm_add_i64(lo, reach, &lo) : pm_add_i64(hi, reach, &hi));
  }
  if (in->dyn != -1) {
    PM_TRY(check_operand(c, at, in->dyn, PM_K_I32, false));
    if (in->dyn_extent < 1) return PM_BAD("kernel `%s`, %%%d: loaded index without extent", k->name, at);
    ok = ok && pm_mul_i64(in->dyn_stride, in->dyn_extent - 1, &reach) &&
         (reach < 0 ? pm_add_i64(lo, reach, &lo) : pm_add_i64(hi, reach, &hi));
  }
  int64_t end;
  ok = ok && pm_add_i64(hi, 1, &hi) && pm_mul_i64(hi, pm_kdtype_bytes((PmKDtype)arg->dtype), &end);
  if (!ok || lo < 0 || end > arg->bytes) {
    return PM_BAD("kernel `%s`, %%%d: elements %lld .. %lld of argument %d leave its %lld bytes", k->name, at,
                  (long long)lo, (long long)hi - 1, in->arg, (long long)arg->bytes);
  }
  return NULL;
}

static PmStatus *check_loop(Checker *c, int32_t at, const PmInstr *in) {
  if (in->op == PM_I_END) {
    if (!c->n_open) return PM_BAD("kernel `%s`, %%%d: end without loop", c->k->name, at);
    c->ended[c->open[--c->n_open]] = true;
    return NULL;
  }
  if (c->n_axes == PM_KERNEL_MAX_AXES) {
    return PM_BAD("kernel `%s` has more than %d axes", c->k->name, PM_KERNEL_MAX_AXES);
  }
  if (in->arg != c->n_axes || in->extent < 1 || in->extent > INT32_MAX) {
    return PM_BAD("kernel `%s`, %%%d: loop over axis %d (expected %d), %lld turns", c->k->name, at, in->arg, c->n_axes,
                  (long long)in->extent);
  }
  c->extent[c->n_axes] = in->extent;
  c->around[c->n_axes] = c->n_open ? c->open[c->n_open - 1] : -1;
  c->open[c->n_open++] = c->n_axes++;
  return NULL;
}

static PmStatus *check_instr(Checker *c, int32_t at) {
  const PmKernel *k = c->k;
  const PmInstr *in = &k->instrs[at];
  if (in->op >= PM_INSTR_COUNT || in->dtype >= PM_K_DTYPE_COUNT)
    return PM_BAD("kernel `%s`, %%%d: unknown", k->name, at);
  const OpRule *rule = &rules[in->op];
  if (!(rule->dtypes & BIT(in->dtype))) {
    return PM_BAD("kernel `%s`, %%%d: `%s` has no %s form", k->name, at, pm_instr_text((PmInstrOp)in->op),
                  pm_kdtype_text((PmKDtype)in->dtype));
  }
  if (rule->host && !k->host) {
    return PM_BAD("kernel `%s`, %%%d: `%s` in a compiled kernel", k->name, at, pm_instr_text((PmInstrOp)in->op));
  }
  int32_t loop = c->n_open ? c->open[c->n_open - 1] : -1;
  c->loop_of[at] = loop;
  int32_t operands[3] = {in->a, in->b, in->c};
  int32_t n_in = pm_instr_n_in((PmInstrOp)in->op);
  for (int32_t i = 0; i < 3; i++) {
    if (i >= n_in) {
      if (operands[i] != -1) return PM_BAD("kernel `%s`, %%%d: too many operands", k->name, at);
      continue;
    }
    bool condition = in->op == PM_I_SELECT && i == 0;
    PmKDtype want = condition ? PM_K_BOOL : pm_kdtype_value(in->dtype);
    if (is_round(in->op) && operands[i] >= 0 && operands[i] < at && value_dtype(&k->instrs[operands[i]]) == PM_K_F64)
      want = PM_K_F64;
    if (in->op == PM_I_BITCAST) want = in->dtype == PM_K_F32 ? PM_K_I32 : PM_K_F32;
    PM_TRY(check_operand(c, at, operands[i], want, in->op == PM_I_CVT));
  }
  if (is_acc(in->op) && loop < 0) return PM_BAD("kernel `%s`, %%%d: accumulates outside of a loop", k->name, at);
  if (in->op == PM_I_INDEX && !in_scope(c, in->arg)) {
    return PM_BAD("kernel `%s`, %%%d: axis %d is not open", k->name, at, in->arg);
  }
  if (in->op == PM_I_PARAM && (in->arg < 0 || in->arg >= k->n_scalars)) {
    return PM_BAD("kernel `%s`, %%%d: no scalar %d", k->name, at, in->arg);
  }
  if (is_access(in->op)) return check_access(c, at, in);
  if (in->op == PM_I_LOOP || in->op == PM_I_END) return check_loop(c, at, in);
  return NULL;
}

static PmStatus *check_shape(const PmKernel *k) {
  if (!k->name) return PM_BAD("a kernel has no name");
  if (k->n_outer < 0 || k->n_outer > PM_KERNEL_MAX_AXES || k->n_args < 0 || k->n_args > PM_KERNEL_MAX_ARGS ||
      k->n_scalars < 0 || k->n_scalars > PM_KERNEL_MAX_SCALARS || k->n_instrs < 0 || k->vec > PM_VEC_LOOP) {
    return PM_BAD("kernel `%s` has impossible counts", k->name);
  }
  for (int32_t x = 0; x < k->n_outer; x++) {
    if (k->outer[x] < 1 || k->outer[x] > INT32_MAX || k->outer_kind[x] > PM_KA_SEQ) {
      return PM_BAD("kernel `%s`: axis %d has %lld turns", k->name, x, (long long)k->outer[x]);
    }
  }
  for (int32_t a = 0; a < k->n_args; a++) {
    if (k->args[a].dtype >= PM_K_DTYPE_COUNT || k->args[a].bytes < 0) {
      return PM_BAD("kernel `%s`: argument %d is malformed", k->name, a);
    }
  }
  return NULL;
}

// ---- independence --------------------------------------------------------------------------------------------------
static int by_stride(const void *a, const void *b) {
  int64_t x = ((const PmSpan1 *)a)->stride, y = ((const PmSpan1 *)b)->stride;
  return x < y ? -1 : x > y;
}

bool pm_spans_apart(PmSpan1 *axes, int32_t n) {
  qsort(axes, (size_t)n, sizeof *axes, by_stride);
  int64_t below = 0, reach;  // the largest sum of the smaller strides
  for (int32_t i = 0; i < n; i++) {
    if (axes[i].extent <= 1) continue;
    if (axes[i].stride <= below) return false;
    if (!pm_mul_i64(axes[i].stride, axes[i].extent - 1, &reach) || !pm_add_i64(below, reach, &below)) return false;
  }
  return true;
}

#define MAX_SPANS (2 * PM_KERNEL_MAX_AXES + 4)

typedef struct Box {
  PmSpan1 axes[MAX_SPANS];
  int32_t n;
  int64_t base;
} Box;

// One more free movement; a second one of the same stride lengthens the first.
static void box_add(Box *b, int64_t stride, int64_t extent) {
  if (stride == 0 || extent <= 1) return;
  if (stride < 0) {
    b->base += stride * (extent - 1);
    stride = -stride;
  }
  for (int32_t i = 0; i < b->n; i++) {
    if (b->axes[i].stride == stride) {
      b->axes[i].extent += extent - 1;
      return;
    }
  }
  b->axes[b->n++] = (PmSpan1){stride, extent};
}

static int64_t extent_of(const PmKernel *k, const int64_t *loop_extent, int32_t x) {
  return x < k->n_outer ? k->outer[x] : loop_extent[x];
}

static bool is_grid(const PmKernel *k, int32_t x) {
  return x < k->n_outer && k->outer_kind[x] == PM_KA_GRID && k->outer[x] > 1;
}

static Box inner_box(const PmKernel *k, const int64_t *loop_extent, const PmInstr *in) {
  Box b = {.base = in->base};
  for (int32_t x = 0; x < PM_KERNEL_MAX_AXES; x++) {
    if (!is_grid(k, x)) box_add(&b, in->stride[x], extent_of(k, loop_extent, x));
  }
  if (in->dyn >= 0) box_add(&b, in->dyn_stride, in->dyn_extent);
  return b;
}

// Different GRID turns of p and q never meet; q's places lie `shift` elements further.
static bool apart(const PmKernel *k, const int64_t *loop_extent, const PmInstr *p, const PmInstr *q, int64_t shift) {
  Box a = inner_box(k, loop_extent, p), b = inner_box(k, loop_extent, q);
  for (int32_t i = 0; i < b.n; i++) {
    int32_t j = 0;
    while (j < a.n && a.axes[j].stride != b.axes[i].stride) j++;
    if (j == a.n) a.axes[a.n++] = (PmSpan1){b.axes[i].stride, 1};
    if (b.axes[i].extent > a.axes[j].extent) a.axes[j].extent = b.axes[i].extent;
  }
  int64_t distance;
  if (!pm_sub_i64(b.base, a.base, &distance) || !pm_add_i64(distance, shift, &distance)) return false;
  box_add(&a, distance < 0 ? -distance : distance, 2);
  PmSpan1 all[MAX_SPANS + PM_KERNEL_MAX_AXES];
  int32_t n = a.n;
  memcpy(all, a.axes, (size_t)n * sizeof *all);
  for (int32_t x = 0; x < k->n_outer; x++) {
    if (!is_grid(k, x)) continue;
    if (p->stride[x] != q->stride[x]) return false;
    int64_t stride = p->stride[x] < 0 ? -p->stride[x] : p->stride[x];
    all[n++] = (PmSpan1){stride, k->outer[x]};
  }
  return pm_spans_apart(all, n);
}

static void loop_extents(const PmKernel *k, int64_t *out_extent) {
  for (int32_t x = 0; x < PM_KERNEL_MAX_AXES; x++) out_extent[x] = 1;
  for (int32_t i = 0; i < k->n_instrs; i++) {
    if (k->instrs[i].op == PM_I_LOOP) out_extent[k->instrs[i].arg] = k->instrs[i].extent;
  }
}

static bool has_grid(const PmKernel *k) {
  for (int32_t x = 0; x < k->n_outer; x++) {
    if (is_grid(k, x)) return true;
  }
  return false;
}

PmStatus *pm_validate_overlap(const PmKernel *k, int32_t x, int32_t y, int64_t shift, int64_t *work) {
  if (!has_grid(k)) return NULL;
  int64_t size = pm_kdtype_bytes((PmKDtype)k->args[x].dtype);
  if (pm_kdtype_bytes((PmKDtype)k->args[y].dtype) != size || shift % size != 0) {
    return PM_BAD("kernel `%s`: arguments %d and %d overlap with other element sizes", k->name, x, y);
  }
  int64_t extent[PM_KERNEL_MAX_AXES];
  loop_extents(k, extent);
  for (int32_t i = 0; i < k->n_instrs; i++) {
    const PmInstr *p = &k->instrs[i];
    if (!is_access(p->op) || p->arg != x) continue;
    for (int32_t j = 0; j < k->n_instrs; j++) {
      const PmInstr *q = &k->instrs[j];
      if (--*work < 0) return PM_STATUS(PM_ERR_LIMIT, "the program is too large to prove its kernels independent");
      if (!is_access(q->op) || q->arg != y || (p->op == PM_I_LOAD && q->op == PM_I_LOAD)) continue;
      if (x == y && j < i) continue;
      *work -= PAIR_WORK;
      if (!apart(k, extent, p, q, shift / size)) {
        return PM_BAD("kernel `%s`: parallel turns may meet in %%%d and %%%d", k->name, i, j);
      }
    }
  }
  return NULL;
}

PmStatus *pm_validate_kernel(const PmKernel *k, int64_t *work) {
  PM_TRY(check_shape(k));
  Checker c = {.k = k, .n_axes = k->n_outer};
  for (int32_t x = 0; x < k->n_outer; x++) c.extent[x] = k->outer[x];
  c.loop_of = calloc((size_t)k->n_instrs + 1, sizeof *c.loop_of);
  if (!c.loop_of) pm_memory_exhausted((size_t)k->n_instrs * sizeof *c.loop_of, 0);
  PmStatus *st = NULL;
  for (int32_t i = 0; i < k->n_instrs; i++) PM_TRY_CLEAN(st, check_instr(&c, i), done);
  if (c.n_open) st = PM_BAD("kernel `%s`: a loop has no end", k->name);
  for (int32_t a = 0; a < k->n_args && !st; a++) {
    if (k->args[a].writes) st = pm_validate_overlap(k, a, a, 0, work);
  }
done:
  free(c.loop_of);
  return st;
}
