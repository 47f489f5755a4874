#include <string.h>

#include "codegen/cpu/llvm_emit.h"

static const unsigned ALIGN[] = {[PM_K_BOOL] = 1, [PM_K_I32] = 4, [PM_K_F32] = 4, [PM_K_F64] = 8, [PM_K_BF16] = 2, [PM_K_F16] = 2};

// In memory a bool is a byte, and a half float 16 bits.
static LLVMTypeRef memory_type(const PmLlvmEmit *e, PmKDtype d, int32_t lanes) {
  if (d != PM_K_BOOL && !pm_kdtype_is_half(d)) return pm_llvm_type(e, d, lanes);
  LLVMTypeRef one = d == PM_K_BOOL ? LLVMInt8TypeInContext(e->ctx) : LLVMInt16TypeInContext(e->ctx);
  return lanes == 1 ? one : LLVMVectorType(one, (unsigned)lanes);
}

static LLVMValueRef from_memory(const PmLlvmEmit *e, PmKDtype d, LLVMValueRef v, int32_t lanes) {
  if (pm_kdtype_is_half(d)) return pm_llvm_unpack(e, d, v, lanes);
  if (d != PM_K_BOOL) return v;
  return LLVMBuildICmp(e->b, LLVMIntNE, v, LLVMConstNull(LLVMTypeOf(v)), "");
}

static LLVMValueRef to_memory(const PmLlvmEmit *e, PmKDtype d, LLVMValueRef v, int32_t lanes) {
  if (pm_kdtype_is_half(d)) return pm_llvm_pack(e, d, v, lanes);
  return d == PM_K_BOOL ? LLVMBuildZExt(e->b, v, memory_type(e, d, lanes), "") : v;
}

static LLVMValueRef lane_number(const PmLlvmEmit *e, int32_t lane) {
  return LLVMConstInt(LLVMInt32TypeInContext(e->ctx), (unsigned long long)lane, false);
}

// `place` moved by `index` times `stride` elements.
static LLVMValueRef moved(const PmLlvmEmit *e, PmKDtype d, LLVMValueRef place, LLVMValueRef index, int64_t stride) {
  if (stride == 0) return place;
  LLVMValueRef by = stride == 1 ? index : LLVMBuildMul(e->b, index, pm_llvm_i64(e, stride), "");
  return LLVMBuildGEP2(e->b, memory_type(e, d, 1), place, &by, 1, "");
}

void pm_llvm_places_begin(PmLlvmEmit *e) {
  for (int32_t i = 0; i < e->k->n_instrs; i++) {
    const PmInstr *in = &e->k->instrs[i];
    if (pm_is_access(in->op))
      e->place[i] = moved(e, (PmKDtype)in->dtype, e->args[in->arg], pm_llvm_i64(e, in->base), in->base != 0);
  }
}

LLVMValueRef *pm_llvm_places_enter(PmLlvmEmit *e, int32_t axis, LLVMValueRef index, int32_t first, int32_t last) {
  const size_t bytes = (size_t)(last - first) * sizeof *e->place;
  LLVMValueRef *saved = pm_arena_alloc(e->arena, bytes + 1);
  memcpy(saved, e->place + first, bytes);
  e->index[axis] = index;
  for (int32_t i = first; i < last; i++) {
    const PmInstr *in = &e->k->instrs[i];
    if (pm_is_access(in->op)) e->place[i] = moved(e, (PmKDtype)in->dtype, e->place[i], index, in->stride[axis]);
  }
  return saved;
}

void pm_llvm_places_leave(PmLlvmEmit *e, int32_t first, int32_t last, LLVMValueRef *saved) {
  memcpy(e->place + first, saved, (size_t)(last - first) * sizeof *e->place);
}

static int64_t lane_stride(const PmLlvmEmit *e, const PmInstr *in) {
  return e->lanes > 1 ? in->stride[e->lane_axis] : 0;
}

static bool dyn_varies(const PmLlvmEmit *e, const PmInstr *in) {
  return in->dyn >= 0 && pm_llvm_lanes(e, in->dyn) > 1;
}

// The loaded index in this lane as i64.
static LLVMValueRef dyn_index(const PmLlvmEmit *e, const PmInstr *in, int32_t lane) {
  LLVMValueRef v = e->value[in->dyn];
  if (dyn_varies(e, in)) v = LLVMBuildExtractElement(e->b, v, lane_number(e, lane), "");
  return LLVMBuildSExt(e->b, v, LLVMInt64TypeInContext(e->ctx), "");
}

static LLVMValueRef in_range(const PmLlvmEmit *e, const PmInstr *in, LLVMValueRef dyn) {
  return LLVMBuildICmp(e->b, LLVMIntULT, dyn, pm_llvm_i64(e, in->dyn_extent), "");
}

static LLVMValueRef lane_place(const PmLlvmEmit *e, int32_t i, int32_t lane) {
  const PmInstr *in = &e->k->instrs[i];
  return moved(e, (PmKDtype)in->dtype, e->place[i], pm_llvm_i64(e, lane * lane_stride(e, in)), lane != 0);
}

static LLVMValueRef plain_load(const PmLlvmEmit *e, PmKDtype d, LLVMValueRef at, int32_t lanes) {
  LLVMValueRef v = LLVMBuildLoad2(e->b, memory_type(e, d, lanes), at, "");
  LLVMSetAlignment(v, ALIGN[d]);
  return v;
}

static void plain_store(const PmLlvmEmit *e, PmKDtype d, LLVMValueRef v, LLVMValueRef at) {
  LLVMSetAlignment(LLVMBuildStore(e->b, v, at), ALIGN[d]);
}

// A vector of neighbours; the lanes past `active` are zero and not read.
static LLVMValueRef strip_load(const PmLlvmEmit *e, PmKDtype d, LLVMValueRef at) {
  if (e->active == e->lanes) return plain_load(e, d, at, e->lanes);
  LLVMTypeRef types[] = {memory_type(e, d, e->lanes), LLVMTypeOf(at)};
  LLVMValueRef args[] = {at, lane_number(e, (int32_t)ALIGN[d]), pm_llvm_mask(e), LLVMConstNull(types[0])};
  return pm_llvm_intrinsic(e, "llvm.masked.load", types, 2, args, 4);
}

static void strip_store(const PmLlvmEmit *e, PmKDtype d, LLVMValueRef v, LLVMValueRef at) {
  if (e->active == e->lanes) {
    plain_store(e, d, v, at);
    return;
  }
  LLVMTypeRef types[] = {LLVMTypeOf(v), LLVMTypeOf(at)};
  LLVMValueRef args[] = {v, at, lane_number(e, (int32_t)ALIGN[d]), pm_llvm_mask(e)};
  pm_llvm_intrinsic(e, "llvm.masked.store", types, 2, args, 4);
}

// Element of one lane; 0 when its loaded index is out of range (index 0 is read instead, which always exists).
static LLVMValueRef lane_load(const PmLlvmEmit *e, int32_t i, int32_t lane) {
  const PmInstr *in = &e->k->instrs[i];
  const PmKDtype d = (PmKDtype)in->dtype;
  LLVMValueRef at = lane_place(e, i, lane);
  if (in->dyn < 0) return plain_load(e, d, at, 1);
  LLVMValueRef dyn = dyn_index(e, in, lane), ok = in_range(e, in, dyn);
  LLVMValueRef safe = LLVMBuildSelect(e->b, ok, dyn, pm_llvm_i64(e, 0), "");
  LLVMValueRef v = plain_load(e, d, moved(e, d, at, safe, in->dyn_stride), 1);
  return LLVMBuildSelect(e->b, ok, v, LLVMConstNull(LLVMTypeOf(v)), "");
}

// The loaded index is one for all lanes.
static LLVMValueRef strip_load_at(const PmLlvmEmit *e, int32_t i) {
  const PmInstr *in = &e->k->instrs[i];
  const PmKDtype d = (PmKDtype)in->dtype;
  if (in->dyn < 0) return strip_load(e, d, e->place[i]);
  LLVMValueRef dyn = dyn_index(e, in, 0), ok = in_range(e, in, dyn);
  LLVMValueRef safe = LLVMBuildSelect(e->b, ok, dyn, pm_llvm_i64(e, 0), "");
  LLVMValueRef v = strip_load(e, d, moved(e, d, e->place[i], safe, in->dyn_stride));
  return LLVMBuildSelect(e->b, ok, v, LLVMConstNull(LLVMTypeOf(v)), "");
}

LLVMValueRef pm_llvm_load(PmLlvmEmit *e, int32_t i) {
  const PmInstr *in = &e->k->instrs[i];
  const PmKDtype d = (PmKDtype)in->dtype;
  const int32_t lanes = pm_llvm_lanes(e, i);
  if (lanes == 1) return from_memory(e, d, lane_load(e, i, 0), 1);
  if (lane_stride(e, in) == 1 && !dyn_varies(e, in)) return from_memory(e, d, strip_load_at(e, i), lanes);
  LLVMValueRef v = LLVMConstNull(memory_type(e, d, lanes));
  for (int32_t l = 0; l < e->active; l++)
    v = LLVMBuildInsertElement(e->b, v, lane_load(e, i, l), lane_number(e, l), "");
  return from_memory(e, d, v, lanes);
}

static void store_one(const PmLlvmEmit *e, const PmInstr *in, LLVMValueRef v, LLVMValueRef at, bool strip) {
  const PmKDtype d = (PmKDtype)in->dtype;
  if (in->op == PM_I_STORE_ADD) {
    const PmInstr sum = {.op = PM_I_ACC_SUM, .dtype = in->dtype};
    v = pm_llvm_into(e, &sum, strip ? strip_load(e, d, at) : plain_load(e, d, at, 1), v);
  }
  v = to_memory(e, d, v, strip ? e->lanes : 1);
  if (strip)
    strip_store(e, d, v, at);
  else
    plain_store(e, d, v, at);
}

// Stores to `at`, moved by the loaded index of `lane`, which may say that there is nothing to do.
static void store_checked(const PmLlvmEmit *e, const PmInstr *in, LLVMValueRef v, LLVMValueRef at, int32_t lane,
                          bool strip) {
  if (in->dyn < 0) {
    store_one(e, in, v, at, strip);
    return;
  }
  LLVMValueRef dyn = dyn_index(e, in, lane), ok = in_range(e, in, dyn);
  LLVMBasicBlockRef inside = LLVMAppendBasicBlockInContext(e->ctx, e->fn, "inside");
  LLVMBasicBlockRef behind = LLVMAppendBasicBlockInContext(e->ctx, e->fn, "behind");
  LLVMBuildCondBr(e->b, ok, inside, behind);
  LLVMPositionBuilderAtEnd(e->b, inside);
  store_one(e, in, v, moved(e, (PmKDtype)in->dtype, at, dyn, in->dyn_stride), strip);
  LLVMBuildBr(e->b, behind);
  LLVMPositionBuilderAtEnd(e->b, behind);
}

void pm_llvm_store(PmLlvmEmit *e, int32_t i) {
  const PmInstr *in = &e->k->instrs[i];
  if (e->lanes > 1 && lane_stride(e, in) == 1 && !dyn_varies(e, in)) {
    store_checked(e, in, pm_llvm_operand(e, in->a, e->lanes), e->place[i], 0, true);
    return;
  }
  // Lane by lane and in order: two lanes may name one place.
  LLVMValueRef v = e->value[in->a];
  const bool vector = LLVMGetTypeKind(LLVMTypeOf(v)) == LLVMVectorTypeKind;
  for (int32_t l = 0; l < e->active; l++) {
    LLVMValueRef one = vector ? LLVMBuildExtractElement(e->b, v, lane_number(e, l), "") : v;
    store_checked(e, in, one, lane_place(e, i, l), l, false);
  }
}
