#include "base/assert.h"
#include "codegen/cpu/llvm_emit.h"

PmLlvmLoop pm_llvm_loop_begin(PmLlvmEmit *e, LLVMValueRef from, LLVMValueRef to, int64_t step) {
  LLVMBasicBlockRef before = LLVMGetInsertBlock(e->b);
  PmLlvmLoop loop = {.head = LLVMAppendBasicBlockInContext(e->ctx, e->fn, "head"), .step = step};
  LLVMBasicBlockRef body = LLVMAppendBasicBlockInContext(e->ctx, e->fn, "body");
  loop.exit = LLVMAppendBasicBlockInContext(e->ctx, e->fn, "exit");
  LLVMBuildBr(e->b, loop.head);
  LLVMPositionBuilderAtEnd(e->b, loop.head);
  loop.index = LLVMBuildPhi(e->b, LLVMInt64TypeInContext(e->ctx), "");
  LLVMAddIncoming(loop.index, &from, &before, 1);
  LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, loop.index, to, ""), body, loop.exit);
  LLVMPositionBuilderAtEnd(e->b, body);
  return loop;
}

void pm_llvm_loop_end(PmLlvmEmit *e, const PmLlvmLoop *loop) {
  LLVMValueRef next = LLVMBuildNSWAdd(e->b, loop->index, pm_llvm_i64(e, loop->step), "");
  LLVMBasicBlockRef latch = LLVMGetInsertBlock(e->b);
  LLVMAddIncoming(loop->index, &next, &latch, 1);
  LLVMBuildBr(e->b, loop->head);
  LLVMPositionBuilderAtEnd(e->b, loop->exit);
}

// Calls fn for each accumulator that belongs to the loop at i, not to a loop inside of it.
typedef void AccFn(PmLlvmEmit *e, int32_t acc, void *ctx);
static void each_acc(PmLlvmEmit *e, int32_t i, AccFn *fn, void *ctx) {
  for (int32_t j = i + 1; j < e->shape.end[i]; j++) {
    if (e->k->instrs[j].op == PM_I_LOOP) j = e->shape.end[j];
    if (pm_is_acc(e->k->instrs[j].op)) fn(e, j, ctx);
  }
}

// ---- in registers: loops that run in strips ------------------------------------------------------------------------
typedef struct Strips {
  PmLlvmLoop loop;
  LLVMBasicBlockRef before;
  int64_t whole;   // strips with all lanes
  int32_t n_regs;  // registers of a ring: as many strips as have partials of their own
} Strips;

static void ring_init(PmLlvmEmit *e, int32_t acc, void *ctx) {
  const Strips *s = ctx;
  e->ring[acc] = PM_NEW(e->arena, PmLlvmRing);
  for (int32_t r = 0; r < s->n_regs; r++)
    e->ring[acc]->now[r] = pm_llvm_identity(e, &e->k->instrs[acc], e->width);
}

static void ring_enter(PmLlvmEmit *e, int32_t acc, void *ctx) {
  Strips *s = ctx;
  PmLlvmRing *ring = e->ring[acc];
  LLVMBasicBlockRef body = LLVMGetInsertBlock(e->b);
  LLVMPositionBuilderBefore(e->b, LLVMGetFirstInstruction(s->loop.head));
  for (int32_t r = 0; r < s->n_regs; r++) {
    LLVMValueRef phi = LLVMBuildPhi(e->b, LLVMTypeOf(ring->now[r]), "");
    LLVMAddIncoming(phi, &ring->now[r], &s->before, 1);
    ring->now[r] = phi;
  }
  LLVMPositionBuilderAtEnd(e->b, body);
}

static void ring_turn(PmLlvmEmit *e, int32_t acc, void *ctx) {
  const Strips *s = ctx;
  PmLlvmRing *ring = e->ring[acc];
  LLVMBasicBlockRef latch = LLVMGetInsertBlock(e->b);
  for (int32_t r = 0; r < s->n_regs; r++)
    LLVMAddIncoming(ring->now[r], r + 1 < s->n_regs ? &ring->now[r + 1] : &ring->next, &latch, 1);
}

static void ring_rest(PmLlvmEmit *e, int32_t acc, void *ctx) {
  (void)ctx;
  e->ring[acc]->now[0] = e->ring[acc]->next;
}

// Lanes [first, first + n) of v.
static LLVMValueRef part(PmLlvmEmit *e, LLVMValueRef v, int32_t first, int32_t n) {
  LLVMValueRef which[PM_PARTIALS];
  LLVMTypeRef i32 = LLVMInt32TypeInContext(e->ctx);
  for (int32_t i = 0; i < n; i++) which[i] = LLVMConstInt(i32, (unsigned long long)(first + i), false);
  if (n == 1) return LLVMBuildExtractElement(e->b, v, which[0], "");
  return LLVMBuildShuffleVector(e->b, v, LLVMGetPoison(LLVMTypeOf(v)), LLVMConstVector(which, (unsigned)n), "");
}

// Partials that no turn reaches keep what they began with, which changes nothing: they are left out.
typedef LLVMValueRef LeafFn(PmLlvmEmit *e, int32_t acc, int32_t j, void *ctx);
static LLVMValueRef tree(PmLlvmEmit *e, int32_t acc, int32_t j, int32_t apart, int32_t n, LeafFn *leaf, void *ctx) {
  if (j >= n) return NULL;
  if (apart >= n) return leaf(e, acc, j, ctx);
  LLVMValueRef a = tree(e, acc, j, apart * 2, n, leaf, ctx), b = tree(e, acc, j + apart, apart * 2, n, leaf, ctx);
  return b ? pm_llvm_into(e, &e->k->instrs[acc], a, b) : a;
}

static LLVMValueRef ring_leaf(PmLlvmEmit *e, int32_t acc, int32_t j, void *ctx) {
  const Strips *s = ctx;
  const int32_t turned = (int32_t)(s->whole % s->n_regs);
  return e->ring[acc]->now[(j - turned + s->n_regs) % s->n_regs];
}

static void ring_combine(PmLlvmEmit *e, int32_t acc, void *ctx) {
  const Strips *s = ctx;
  LLVMValueRef v = tree(e, acc, 0, 1, s->n_regs, ring_leaf, ctx);
  for (int32_t half = e->width / 2; half >= 1; half /= 2)
    v = pm_llvm_into(e, &e->k->instrs[acc], part(e, v, 0, half), part(e, v, half, half));
  e->value[acc] = v;
}

static void strip(PmLlvmEmit *e, int32_t i, LLVMValueRef index, int32_t active) {
  const int32_t last = e->shape.end[i];
  e->lanes = e->width;
  e->active = active;
  e->lane_axis = e->k->instrs[i].arg;
  e->in_strips = true;
  LLVMValueRef *saved = pm_llvm_places_enter(e, e->lane_axis, index, i + 1, last);
  pm_llvm_range(e, i + 1, last);
  pm_llvm_places_leave(e, i + 1, last, saved);
  e->lanes = e->active = 1;
  e->lane_axis = -1;
  e->in_strips = false;
}

static void loop_in_strips(PmLlvmEmit *e, int32_t i) {
  const int64_t extent = e->k->instrs[i].extent, whole = extent / e->width, rest = extent % e->width;
  const int64_t strips = whole + (rest > 0), most = PM_PARTIALS / e->width;
  Strips s = {.whole = whole, .n_regs = (int32_t)(strips < most ? strips : most)};
  each_acc(e, i, ring_init, &s);
  if (whole > 0) {
    s.before = LLVMGetInsertBlock(e->b);
    s.loop = pm_llvm_loop_begin(e, pm_llvm_i64(e, 0), pm_llvm_i64(e, whole * e->width), e->width);
    each_acc(e, i, ring_enter, &s);
    strip(e, i, s.loop.index, e->width);
    each_acc(e, i, ring_turn, &s);
    pm_llvm_loop_end(e, &s.loop);
  }
  if (rest > 0) {
    strip(e, i, pm_llvm_i64(e, whole * e->width), (int32_t)rest);
    each_acc(e, i, ring_rest, &s);
  }
  each_acc(e, i, ring_combine, &s);
}

// ---- in memory: other loops ----------------------------------------------------------------------------------------
static LLVMTypeRef partial_type(const PmLlvmEmit *e, int32_t acc) {
  return pm_llvm_type(e, (PmKDtype)e->k->instrs[acc].dtype, pm_llvm_lanes(e, acc));
}

static LLVMValueRef partial_at(PmLlvmEmit *e, int32_t acc, LLVMValueRef j) {
  return LLVMBuildGEP2(e->b, partial_type(e, acc), e->partial[acc], &j, 1, "");
}

static int32_t n_partials(const PmLlvmEmit *e, int32_t loop) {
  const int64_t extent = e->k->instrs[loop].extent;
  return extent < PM_PARTIALS ? (int32_t)extent : PM_PARTIALS;
}

static void partial_init(PmLlvmEmit *e, int32_t acc, void *ctx) {
  const int32_t *n = ctx;
  // All stack memory is taken in the entry block, so that loops around don't take it again.
  LLVMBasicBlockRef here = LLVMGetInsertBlock(e->b);
  LLVMPositionBuilderBefore(e->b, LLVMGetBasicBlockTerminator(e->entry));
  e->partial[acc] = LLVMBuildArrayAlloca(e->b, partial_type(e, acc), pm_llvm_i64(e, *n), "");
  LLVMPositionBuilderAtEnd(e->b, here);
  const PmLlvmLoop loop = pm_llvm_loop_begin(e, pm_llvm_i64(e, 0), pm_llvm_i64(e, *n), 1);
  LLVMBuildStore(e->b, pm_llvm_identity(e, &e->k->instrs[acc], pm_llvm_lanes(e, acc)), partial_at(e, acc, loop.index));
  pm_llvm_loop_end(e, &loop);
}

static LLVMValueRef partial_leaf(PmLlvmEmit *e, int32_t acc, int32_t j, void *ctx) {
  (void)ctx;
  return LLVMBuildLoad2(e->b, partial_type(e, acc), partial_at(e, acc, pm_llvm_i64(e, j)), "");
}

static void partial_combine(PmLlvmEmit *e, int32_t acc, void *ctx) {
  const int32_t *n = ctx;
  e->value[acc] = tree(e, acc, 0, 1, *n, partial_leaf, NULL);
}

static void loop_turn_by_turn(PmLlvmEmit *e, int32_t i) {
  const PmInstr *in = &e->k->instrs[i];
  const int32_t last = e->shape.end[i];
  int32_t n = n_partials(e, i);
  each_acc(e, i, partial_init, &n);
  const PmLlvmLoop loop = pm_llvm_loop_begin(e, pm_llvm_i64(e, 0), pm_llvm_i64(e, in->extent), 1);
  LLVMValueRef *saved = pm_llvm_places_enter(e, in->arg, loop.index, i + 1, last);
  pm_llvm_range(e, i + 1, last);
  pm_llvm_places_leave(e, i + 1, last, saved);
  pm_llvm_loop_end(e, &loop);
  each_acc(e, i, partial_combine, &n);
}

void pm_llvm_loop(PmLlvmEmit *e, int32_t i) {
  if (e->shape.strips[i])
    loop_in_strips(e, i);
  else
    loop_turn_by_turn(e, i);
}

void pm_llvm_acc(PmLlvmEmit *e, int32_t i) {
  const PmInstr *in = &e->k->instrs[i];
  if (e->in_strips) {
    LLVMValueRef now = e->ring[i]->now[0];
    LLVMValueRef next = pm_llvm_into(e, in, now, pm_llvm_operand(e, in->a, e->lanes));
    e->ring[i]->next = e->active < e->lanes ? LLVMBuildSelect(e->b, pm_llvm_mask(e), next, now, "") : next;
    return;
  }
  int32_t loop = i;
  while (e->k->instrs[loop].op != PM_I_LOOP || e->shape.end[loop] < i) loop--;
  LLVMValueRef turn = e->index[e->k->instrs[loop].arg];
  LLVMValueRef j = LLVMBuildAnd(e->b, turn, pm_llvm_i64(e, PM_PARTIALS - 1), "");
  LLVMValueRef at = partial_at(e, i, j);
  LLVMValueRef now = LLVMBuildLoad2(e->b, partial_type(e, i), at, "");
  LLVMBuildStore(e->b, pm_llvm_into(e, in, now, pm_llvm_operand(e, in->a, pm_llvm_lanes(e, i))), at);
}
