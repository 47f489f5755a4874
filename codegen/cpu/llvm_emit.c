#include "codegen/cpu/llvm_emit.h"

#include <string.h>

void pm_llvm_range(PmLlvmEmit *e, int32_t first, int32_t last) {
  for (int32_t i = first; i < last; i++) {
    const PmInstr *in = &e->k->instrs[i];
    if (in->op == PM_I_LOOP) {
      pm_llvm_loop(e, i);
      i = e->shape.end[i];
    } else if (in->op == PM_I_LOAD) {
      e->value[i] = pm_llvm_load(e, i);
    } else if (pm_is_access(in->op)) {
      pm_llvm_store(e, i);
    } else if (pm_is_acc(in->op)) {
      pm_llvm_acc(e, i);
    } else {
      e->value[i] = pm_llvm_op(e, i);
    }
  }
}

static void outer(PmLlvmEmit *e, int32_t axis);

static void outer_turn(PmLlvmEmit *e, int32_t axis, LLVMValueRef index) {
  LLVMValueRef *saved = pm_llvm_places_enter(e, axis, index, 0, e->k->n_instrs);
  outer(e, axis + 1);
  pm_llvm_places_leave(e, 0, e->k->n_instrs, saved);
}

static void outer_strip(PmLlvmEmit *e, int32_t axis, LLVMValueRef index, int32_t active) {
  e->lanes = e->width;
  e->active = active;
  e->lane_axis = axis;
  outer_turn(e, axis, index);
  e->lanes = e->active = 1;
  e->lane_axis = -1;
}

static void outer_lanes(PmLlvmEmit *e, int32_t axis) {
  LLVMValueRef zero = pm_llvm_i64(e, 0), width = pm_llvm_i64(e, e->width);
  const int64_t extent = e->k->outer[axis], whole = extent / e->width * e->width;
  // How much of axis 0 runs is known only when it does.
  LLVMValueRef from = axis == 0 ? e->begin : zero, to = pm_llvm_i64(e, whole);
  if (axis == 0) {
    LLVMValueRef strips = LLVMBuildSDiv(e->b, LLVMBuildNSWSub(e->b, e->end, e->begin, ""), width, "");
    to = LLVMBuildNSWAdd(e->b, e->begin, LLVMBuildNSWMul(e->b, strips, width, ""), "");
  }
  if (whole > 0) {
    const PmLlvmLoop loop = pm_llvm_loop_begin(e, from, to, e->width);
    outer_strip(e, axis, loop.index, e->width);
    pm_llvm_loop_end(e, &loop);
  }
  if (axis == 0) {
    const PmLlvmLoop loop = pm_llvm_loop_begin(e, whole > 0 ? to : from, e->end, 1);
    outer_turn(e, axis, loop.index);
    pm_llvm_loop_end(e, &loop);
  } else if (whole < extent) {
    outer_strip(e, axis, to, (int32_t)(extent - whole));
  }
}

// Outer axes from `axis` on, then the body.
static void outer(PmLlvmEmit *e, int32_t axis) {
  const PmKernel *k = e->k;
  if (axis == k->n_outer) {
    pm_llvm_range(e, 0, k->n_instrs);
    return;
  }
  if (axis == e->shape.lane_outer) {
    outer_lanes(e, axis);
    return;
  }
  LLVMValueRef from = axis == 0 ? e->begin : pm_llvm_i64(e, 0),
               to = axis == 0 ? e->end : pm_llvm_i64(e, k->outer[axis]);
  const PmLlvmLoop loop = pm_llvm_loop_begin(e, from, to, 1);
  outer_turn(e, axis, loop.index);
  pm_llvm_loop_end(e, &loop);
}

static void set_attribute(PmLlvmEmit *e, LLVMValueRef fn, unsigned at, const char *name) {
  const unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
  LLVMAddAttributeAtIndex(fn, at, LLVMCreateEnumAttribute(e->ctx, kind, 0));
}

// Keeps LLVM from pairing our vectors up to 512 bits, where some machines lower their clock.
static void limit_width(PmLlvmEmit *e, LLVMValueRef fn) {
  static const char *const names[] = {"prefer-vector-width", "min-legal-vector-width"};
  for (int32_t i = 0; i < 2; i++)
    LLVMAddAttributeAtIndex(fn, (unsigned)LLVMAttributeFunctionIndex,
                            LLVMCreateStringAttribute(e->ctx, names[i], (unsigned)strlen(names[i]), "256", 3));
}

static bool shares_bytes(const PmLlvmAlias *alias, int32_t n_args, int32_t arg) {
  for (int32_t i = 0; i < n_args; i++)
    if (i != arg && alias->class_of[i] == alias->class_of[arg]) return true;
  return false;
}

// The loop nest: (arguments..., scalars, begin, end). As parameters the arguments can be declared not to overlap.
static LLVMTypeRef nest(PmLlvmEmit *e) {
  const int32_t n = e->k->n_args;
  LLVMTypeRef params[PM_KERNEL_MAX_ARGS + 3], i64 = LLVMInt64TypeInContext(e->ctx);
  for (int32_t i = 0; i <= n; i++) params[i] = LLVMPointerTypeInContext(e->ctx, 0);
  params[n + 1] = params[n + 2] = i64;
  LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(e->ctx), params, (unsigned)n + 3, false);
  e->fn = LLVMAddFunction(e->mod, "nest", type);
  LLVMSetLinkage(e->fn, LLVMInternalLinkage);
  set_attribute(e, e->fn, (unsigned)LLVMAttributeFunctionIndex, "nounwind");
  limit_width(e, e->fn);
  for (int32_t i = 0; i < n; i++) {
    e->args[i] = LLVMGetParam(e->fn, (unsigned)i);
    if (!shares_bytes(e->alias, n, i)) set_attribute(e, e->fn, (unsigned)i + 1, "noalias");
  }
  e->scalars = LLVMGetParam(e->fn, (unsigned)n);
  set_attribute(e, e->fn, (unsigned)n + 1, "noalias");
  e->begin = LLVMGetParam(e->fn, (unsigned)n + 1);
  e->end = LLVMGetParam(e->fn, (unsigned)n + 2);
  e->entry = LLVMAppendBasicBlockInContext(e->ctx, e->fn, "entry");
  LLVMBasicBlockRef start = LLVMAppendBasicBlockInContext(e->ctx, e->fn, "start");
  LLVMPositionBuilderAtEnd(e->b, e->entry);
  LLVMBuildBr(e->b, start);
  LLVMPositionBuilderAtEnd(e->b, start);
  pm_llvm_places_begin(e);
  if (e->k->n_outer > 0) {
    outer(e, 0);
  } else {
    const PmLlvmLoop once = pm_llvm_loop_begin(e, e->begin, e->end, 1);
    outer(e, 0);
    pm_llvm_loop_end(e, &once);
  }
  LLVMBuildRetVoid(e->b);
  return type;
}

static void wrapper(PmLlvmEmit *e, LLVMTypeRef nest_type, const char *name) {
  const int32_t n = e->k->n_args;
  LLVMTypeRef ptr = LLVMPointerTypeInContext(e->ctx, 0), i64 = LLVMInt64TypeInContext(e->ctx);
  LLVMTypeRef params[] = {ptr, ptr, i64, i64};
  LLVMValueRef fn = LLVMAddFunction(e->mod, name, LLVMFunctionType(LLVMVoidTypeInContext(e->ctx), params, 4, false));
  set_attribute(e, fn, (unsigned)LLVMAttributeFunctionIndex, "nounwind");
  limit_width(e, fn);
  LLVMPositionBuilderAtEnd(e->b, LLVMAppendBasicBlockInContext(e->ctx, fn, "entry"));
  LLVMValueRef pass[PM_KERNEL_MAX_ARGS + 3];
  for (int32_t i = 0; i < n; i++) {
    LLVMValueRef at = pm_llvm_i64(e, i);
    pass[i] = LLVMBuildLoad2(e->b, ptr, LLVMBuildGEP2(e->b, ptr, LLVMGetParam(fn, 0), &at, 1, ""), "");
  }
  for (int32_t i = 0; i < 3; i++) pass[n + i] = LLVMGetParam(fn, (unsigned)i + 1);
  LLVMBuildCall2(e->b, nest_type, e->fn, pass, (unsigned)n + 3, "");
  LLVMBuildRetVoid(e->b);
}

void pm_llvm_emit(PmArena *arena, LLVMModuleRef mod, const PmKernel *k, const PmLlvmAlias *alias, int32_t width,
                  const char *name) {
  PmLlvmEmit e = {.arena = arena,
                  .ctx = LLVMGetModuleContext(mod),
                  .mod = mod,
                  .k = k,
                  .alias = alias,
                  .width = width,
                  .lanes = 1,
                  .active = 1,
                  .lane_axis = -1,
                  .value = PM_NEW_N(arena, LLVMValueRef, k->n_instrs + 1),
                  .place = PM_NEW_N(arena, LLVMValueRef, k->n_instrs + 1),
                  .partial = PM_NEW_N(arena, LLVMValueRef, k->n_instrs + 1),
                  .ring = PM_NEW_N(arena, PmLlvmRing *, k->n_instrs + 1)};
  e.b = LLVMCreateBuilderInContext(e.ctx);
  pm_llvm_shape(&e.shape, arena, k, alias);
  wrapper(&e, nest(&e), name);
  LLVMDisposeBuilder(e.b);
}
