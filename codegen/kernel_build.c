#include "codegen/kernel_build.h"

#include <string.h>

#include "base/assert.h"
#include "base/checked.h"

static bool has_value(uint8_t op) {
  return op != PM_I_STORE && op != PM_I_STORE_ADD && op != PM_I_LOOP && op != PM_I_END;
}

static bool is_address(uint8_t op) { return op == PM_I_LOAD || op == PM_I_STORE || op == PM_I_STORE_ADD; }

static bool is_compare(uint8_t op) { return op >= PM_I_CMP_EQ && op <= PM_I_CMP_LE; }

PmKAddr pm_kaddr(void) { return (PmKAddr){.dyn = -1}; }

void pm_kb_init(PmKBuilder *kb, PmArena *arena, const char *name, bool host, PmVec vec) {
  *kb = (PmKBuilder){.arena = arena, .k = PM_NEW(arena, PmKernel)};
  kb->k->name = pm_arena_strdup(arena, name);
  kb->k->host = host;
  kb->k->vec = (uint8_t)vec;
}

int32_t pm_kb_outer(PmKBuilder *kb, int64_t extent, PmKAxisKind kind) {
  PmKernel *k = kb->k;
  PM_ASSERT(k->n_instrs == 0 && kb->n_axes < PM_KERNEL_MAX_AXES, "kernel %s: outer axis %d", k->name, kb->n_axes);
  PM_ASSERT(extent >= 1, "kernel %s: an axis of %lld turns", k->name, (long long)extent);
  k->outer[k->n_outer] = extent;
  k->outer_kind[k->n_outer++] = (uint8_t)kind;
  return kb->n_axes++;
}

int32_t pm_kb_arg(PmKBuilder *kb, PmKDtype dtype, int64_t bytes, bool reads, bool writes) {
  PmKernel *k = kb->k;
  PM_ASSERT(k->n_args < PM_KERNEL_MAX_ARGS, "kernel %s has too many arguments", k->name);
  k->args[k->n_args] = (PmKArg){.dtype = (uint8_t)dtype, .reads = reads, .writes = writes, .bytes = bytes};
  return k->n_args++;
}

int32_t pm_kb_scalar(PmKBuilder *kb) {
  PM_ASSERT(kb->k->n_scalars < PM_KERNEL_MAX_SCALARS, "kernel %s has too many scalars", kb->k->name);
  return kb->k->n_scalars++;
}

static PmInstr instr(PmInstrOp op, PmKDtype dtype) {
  return (PmInstr){.op = (uint8_t)op, .dtype = (uint8_t)dtype, .a = -1, .b = -1, .c = -1, .dyn = -1};
}

static int32_t append(PmKBuilder *kb, const PmInstr *in) {
  PmKernel *k = kb->k;
  k->instrs = pm_grow(kb->arena, k->instrs, k->n_instrs, &kb->cap_instrs, sizeof *k->instrs);
  k->instrs[k->n_instrs] = *in;
  return k->n_instrs++;
}

// Appends an instruction without effects and memory, or finds the same one among those visible from here.
static int32_t append_pure(PmKBuilder *kb, const PmInstr *in) {
  int32_t closed = 0;
  for (int32_t i = kb->k->n_instrs - 1; i >= 0; i--) {
    const PmInstr *e = &kb->k->instrs[i];
    closed += (e->op == PM_I_END) - (e->op == PM_I_LOOP && closed > 0);
    if (closed == 0 && e->op == in->op && e->dtype == in->dtype && e->arg == in->arg && e->a == in->a &&
        e->b == in->b && e->c == in->c && memcmp(&e->number, &in->number, sizeof in->number) == 0)
      return i;
  }
  return append(kb, in);
}

int32_t pm_kb_const(PmKBuilder *kb, PmKDtype dtype, double v) {
  PmInstr in = instr(PM_I_CONST, dtype);
  in.number = dtype == PM_K_F32 ? (double)(float)v : dtype == PM_K_BOOL ? (double)(v != 0) : v;
  return append_pure(kb, &in);
}

int32_t pm_kb_index(PmKBuilder *kb, int32_t axis) {
  PM_ASSERT(axis >= 0 && axis < kb->n_axes, "kernel %s has no axis %d", kb->k->name, axis);
  PmInstr in = instr(PM_I_INDEX, PM_K_I32);
  in.arg = (int16_t)axis;
  return append_pure(kb, &in);
}

int32_t pm_kb_param(PmKBuilder *kb, int32_t scalar) {
  PM_ASSERT(scalar >= 0 && scalar < kb->k->n_scalars, "kernel %s has no scalar %d", kb->k->name, scalar);
  PmInstr in = instr(PM_I_PARAM, PM_K_I32);
  in.arg = (int16_t)scalar;
  return append_pure(kb, &in);
}

static void set_address(PmKBuilder *kb, PmInstr *in, int32_t arg, const PmKAddr *at) {
  PM_ASSERT(arg >= 0 && arg < kb->k->n_args, "kernel %s has no argument %d", kb->k->name, arg);
  PM_ASSERT(at->dyn < 0 || pm_kb_dtype(kb, at->dyn) == PM_K_I32, "kernel %s: a loaded index is i32", kb->k->name);
  in->arg = (int16_t)arg;
  in->dtype = kb->k->args[arg].dtype;
  in->base = at->base;
  memcpy(in->stride, at->stride, sizeof in->stride);
  in->dyn = at->dyn;
  in->dyn_stride = at->dyn_stride;
  in->dyn_extent = at->dyn_extent;
}

int32_t pm_kb_load(PmKBuilder *kb, int32_t arg, const PmKAddr *at) {
  PmInstr in = instr(PM_I_LOAD, PM_K_F32);
  set_address(kb, &in, arg, at);
  return append(kb, &in);
}

void pm_kb_store(PmKBuilder *kb, int32_t arg, const PmKAddr *at, int32_t value, bool add) {
  PmInstr in = instr(add ? PM_I_STORE_ADD : PM_I_STORE, PM_K_F32);
  set_address(kb, &in, arg, at);
  PM_ASSERT(pm_kb_dtype(kb, value) == pm_kdtype_value((PmKDtype)in.dtype), "kernel %s: a store to argument %d of another dtype",
            kb->k->name, arg);
  in.a = value;
  append(kb, &in);
}

int32_t pm_kb_loop(PmKBuilder *kb, int64_t extent) {
  PM_ASSERT(kb->n_axes < PM_KERNEL_MAX_AXES, "kernel %s has too many axes", kb->k->name);
  PM_ASSERT(extent >= 1, "kernel %s: a loop of %lld turns", kb->k->name, (long long)extent);
  PmInstr in = instr(PM_I_LOOP, PM_K_I32);
  in.arg = (int16_t)kb->n_axes;
  in.extent = extent;
  append(kb, &in);
  kb->open_loops++;
  return kb->n_axes++;
}

void pm_kb_end(PmKBuilder *kb) {
  PM_ASSERT(kb->open_loops > 0, "kernel %s: no loop is open", kb->k->name);
  kb->open_loops--;
  const PmInstr in = instr(PM_I_END, PM_K_I32);
  append(kb, &in);
}

int32_t pm_kb_acc(PmKBuilder *kb, PmReduceKind kind, PmKDtype dtype, int32_t value) {
  PM_ASSERT(kb->open_loops > 0, "kernel %s: an accumulator outside of loops", kb->k->name);
  PM_ASSERT(pm_kb_dtype(kb, value) == dtype, "kernel %s: an accumulator of another dtype", kb->k->name);
  PmInstr in = instr(kind == PM_SUM ? PM_I_ACC_SUM : PM_I_ACC_MAX, dtype);
  in.a = value;
  return append(kb, &in);
}

// Asserts that every operand is there and has the dtype that the instruction takes.
static void check_operands(const PmKBuilder *kb, const PmInstr *in) {
  const int32_t n_in = pm_instr_n_in((PmInstrOp)in->op);
  const int32_t operands[] = {in->a, in->b, in->c};
  for (int32_t i = 0; i < 3; i++) {
    if (i >= n_in) {
      PM_ASSERT(operands[i] < 0, "kernel %s: instruction %d takes %d operands", kb->k->name, in->op, n_in);
      continue;
    }
    PM_ASSERT(operands[i] >= 0 && operands[i] < kb->k->n_instrs, "kernel %s: instruction %d lacks operand %d",
              kb->k->name, in->op, i);
    const PmKDtype d = pm_kb_dtype(kb, operands[i]);
    const bool round = in->op == PM_I_ROUND_BF16 || in->op == PM_I_ROUND_F16;
    const bool any = in->op == PM_I_CVT || in->op == PM_I_BITCAST || (round && d == PM_K_F64);
    const PmKDtype want = in->op == PM_I_SELECT && i == 0 ? PM_K_BOOL : (PmKDtype)in->dtype;
    PM_ASSERT(any || d == want, "kernel %s: operand %d of instruction %d has dtype %d, not %d", kb->k->name, i, in->op,
              d, want);
  }
}

int32_t pm_kb_op(PmKBuilder *kb, PmInstrOp op, PmKDtype dtype, int32_t a, int32_t b, int32_t c) {
  PmInstr in = instr(op, dtype);
  in.a = a;
  in.b = b;
  in.c = c;
  check_operands(kb, &in);
  return append_pure(kb, &in);
}

int32_t pm_kb_cvt(PmKBuilder *kb, PmKDtype to, int32_t a) {
  return pm_kb_dtype(kb, a) == to ? a : pm_kb_op(kb, PM_I_CVT, to, a, -1, -1);
}

int32_t pm_kb_as(PmKBuilder *kb, PmKDtype to, int32_t a) {
  if (!pm_kdtype_is_half(to)) return pm_kb_cvt(kb, to, a);
  const PmKDtype from = pm_kb_dtype(kb, a);
  // Both steps are exact, so the value is rounded once.
  if (from == PM_K_BOOL) a = pm_kb_cvt(kb, PM_K_F32, a);
  if (from == PM_K_I32) a = pm_kb_cvt(kb, PM_K_F64, a);
  const PmInstr *in = &kb->k->instrs[a];
  const PmInstrOp op = to == PM_K_BF16 ? PM_I_ROUND_BF16 : PM_I_ROUND_F16;
  if (in->op == op || (in->op == PM_I_LOAD && in->dtype == to)) return a;
  return pm_kb_op(kb, op, PM_K_F32, a, -1, -1);
}

PmKDtype pm_kb_dtype(const PmKBuilder *kb, int32_t value) {
  PM_ASSERT(value >= 0 && value < kb->k->n_instrs, "kernel %s has no value %d", kb->k->name, value);
  const PmInstr *in = &kb->k->instrs[value];
  PM_ASSERT(has_value(in->op), "kernel %s: instruction %d has no value", kb->k->name, value);
  return is_compare(in->op) ? PM_K_BOOL : pm_kdtype_value((PmKDtype)in->dtype);
}

// ---- finish --------------------------------------------------------------------------------------------------------
// Marks what a store needs; a loop lives when something in it does.
static bool *mark_live(const PmKBuilder *kb) {
  const PmKernel *k = kb->k;
  bool *live = PM_NEW_N(kb->arena, bool, k->n_instrs + 1);
  int32_t ends[PM_KERNEL_MAX_AXES], depth = 0;
  for (int32_t i = k->n_instrs - 1; i >= 0; i--) {
    const PmInstr *in = &k->instrs[i];
    if (in->op == PM_I_END) {
      ends[depth++] = i;
    } else if (in->op == PM_I_LOOP) {
      live[i] = live[ends[--depth]];
      if (depth > 0 && live[i]) live[ends[depth - 1]] = true;
    } else if (live[i] || !has_value(in->op)) {
      live[i] = true;
      if (depth > 0) live[ends[depth - 1]] = true;
      const int32_t uses[] = {in->a, in->b, in->c, in->dyn};
      for (int32_t u = 0; u < 4; u++)
        if (uses[u] >= 0) live[uses[u]] = true;
    }
  }
  return live;
}

// Drops dead instructions; values and axes are renumbered.
static void sweep(PmKBuilder *kb) {
  PmKernel *k = kb->k;
  const bool *live = mark_live(kb);
  int32_t *to = PM_NEW_N(kb->arena, int32_t, k->n_instrs + 1);
  int32_t axis_to[PM_KERNEL_MAX_AXES], n_axes = k->n_outer, n = 0;
  for (int32_t i = 0; i < PM_KERNEL_MAX_AXES; i++) axis_to[i] = i < k->n_outer ? i : -1;
  for (int32_t i = 0; i < k->n_instrs; i++) {
    if (!live[i]) continue;
    PmInstr in = k->instrs[i];
    if (in.op == PM_I_LOOP) axis_to[in.arg] = n_axes++;
    if (in.op == PM_I_LOOP || in.op == PM_I_INDEX) in.arg = (int16_t)axis_to[in.arg];
    int32_t *uses[] = {&in.a, &in.b, &in.c, &in.dyn};
    for (int32_t u = 0; u < 4; u++)
      if (*uses[u] >= 0) *uses[u] = to[*uses[u]];
    if (is_address(in.op)) {
      int64_t stride[PM_KERNEL_MAX_AXES] = {0};
      for (int32_t a = 0; a < PM_KERNEL_MAX_AXES; a++)
        if (axis_to[a] >= 0) stride[axis_to[a]] = in.stride[a];
      memcpy(in.stride, stride, sizeof stride);
    }
    to[i] = n;
    k->instrs[n++] = in;
  }
  k->n_instrs = n;
  kb->n_axes = n_axes;
}

static bool is_pinned(uint8_t op) {
  return !has_value(op) || op == PM_I_LOAD || op == PM_I_ACC_SUM || op == PM_I_ACC_MAX;
}

static bool is_edge(const PmKernel *k, int32_t i) {
  return k->instrs[i].op == PM_I_LOOP || k->instrs[i].op == PM_I_END;
}

// Appends to `out`, of n entries, instruction `root` behind what it needs that is not there yet: operands from left to
// right, each behind its own. By instruction, `looked_at` counts the operands looked at. Returns the entries there are.
static int32_t append_needed(const PmKernel *k, int32_t root, uint8_t *looked_at, int32_t *stack, int32_t *out,
                             int32_t n) {
  int32_t depth = 0;
  stack[depth++] = root;
  while (depth > 0) {
    const int32_t i = stack[depth - 1];
    const PmInstr *in = &k->instrs[i];
    const int32_t uses[] = {in->a, in->b, in->c, in->dyn};
    if (looked_at[i] == 4) {
      out[n++] = i;
      depth--;
      continue;
    }
    const int32_t use = uses[looked_at[i]++];
    if (use >= 0 && looked_at[use] == 0) stack[depth++] = use;
  }
  return n;
}

// Puts the instructions that only compute in the order in which the others need them, each in the loop, before or
// behind the same inner loops, where it stood. So the order follows from the formulas: not from the order in which C
// evaluated the arguments of the calls that made them, which is the compiler's choice. Everything is live.
static void put_in_order(PmKBuilder *kb) {
  PmKernel *k = kb->k;
  const int32_t n = k->n_instrs;
  int32_t *needed = PM_NEW_N(kb->arena, int32_t, n + 1), *stack = PM_NEW_N(kb->arena, int32_t, n + 1);
  uint8_t *looked_at = PM_NEW_N(kb->arena, uint8_t, n + 1);
  int32_t n_needed = 0;
  for (int32_t i = 0; i < n; i++)
    if (is_pinned(k->instrs[i].op)) n_needed = append_needed(k, i, looked_at, stack, needed, n_needed);
  PM_ASSERT(n_needed == n, "kernel %s: %d of %d instructions are needed", k->name, n_needed, n);

  // A run, which keeps its places, is what stands between two loop ends or beginnings; each of those is one of its own.
  int32_t *run = PM_NEW_N(kb->arena, int32_t, n + 1), *filled = PM_NEW_N(kb->arena, int32_t, n + 1);
  int32_t *to = PM_NEW_N(kb->arena, int32_t, n + 1);
  for (int32_t i = 0; i < n; i++) run[i] = i == 0 || is_edge(k, i) || is_edge(k, i - 1) ? i : run[i - 1];
  PmInstr *instrs = PM_NEW_N(kb->arena, PmInstr, n + 1);
  for (int32_t j = 0; j < n; j++) {
    const int32_t i = needed[j];
    PmInstr in = k->instrs[i];
    to[i] = run[i] + filled[run[i]]++;
    int32_t *uses[] = {&in.a, &in.b, &in.c, &in.dyn};
    for (int32_t u = 0; u < 4; u++)
      if (*uses[u] >= 0) *uses[u] = to[*uses[u]];
    instrs[to[i]] = in;
  }
  k->instrs = instrs;
}

// Bytes of its argument up to the end of the last element that the access can touch.
static int64_t reach(const PmKBuilder *kb, const PmInstr *in, const int64_t *extent) {
  int64_t last = in->base;
  bool ok = true;
  for (int32_t a = 0; a < kb->n_axes; a++)
    if (in->stride[a] > 0) ok = ok && pm_mad_i64(in->stride[a], extent[a] - 1, last, &last);
  if (in->dyn >= 0 && in->dyn_stride > 0 && in->dyn_extent > 0)
    ok = ok && pm_mad_i64(in->dyn_stride, in->dyn_extent - 1, last, &last);
  ok = ok && pm_add_i64(last, 1, &last) && pm_mul_i64(last, pm_kdtype_bytes((PmKDtype)in->dtype), &last);
  PM_ASSERT(ok, "kernel %s: an address past 2^63", kb->k->name);
  return last;
}

static void set_ranges(PmKBuilder *kb) {
  PmKernel *k = kb->k;
  bool open[PM_KERNEL_MAX_ARGS];
  int64_t extent[PM_KERNEL_MAX_AXES];
  for (int32_t i = 0; i < k->n_args; i++) open[i] = k->args[i].bytes == 0;
  for (int32_t i = 0; i < k->n_outer; i++) extent[i] = k->outer[i];
  for (int32_t i = 0; i < k->n_instrs; i++) {
    const PmInstr *in = &k->instrs[i];
    if (in->op == PM_I_LOOP) extent[in->arg] = in->extent;
  }
  for (int32_t i = 0; i < k->n_instrs; i++) {
    const PmInstr *in = &k->instrs[i];
    if (!is_address(in->op) || !open[in->arg]) continue;
    const int64_t end = reach(kb, in, extent);
    if (k->args[in->arg].bytes < end) k->args[in->arg].bytes = end;
  }
}

PmKernel *pm_kb_finish(PmKBuilder *kb) {
  PM_ASSERT(kb->open_loops == 0, "kernel %s: %d loops are open", kb->k->name, kb->open_loops);
  sweep(kb);
  put_in_order(kb);
  set_ranges(kb);
  return kb->k;
}
