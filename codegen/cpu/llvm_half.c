// 16-bit floats by integer operations, as base/half.c has them: LLVM's own types call runtime functions that not every
// system has.
#include "codegen/cpu/llvm_emit.h"

typedef struct Half {
  const PmLlvmEmit *e;
  LLVMBuilderRef b;
  int32_t lanes;
} Half;

static LLVMTypeRef int_type(const Half *h, unsigned bits) {
  LLVMTypeRef t = LLVMIntTypeInContext(h->e->ctx, bits);
  return h->lanes == 1 ? t : LLVMVectorType(t, (unsigned)h->lanes);
}

static LLVMValueRef word(const Half *h, uint32_t v) {
  return pm_llvm_splat(h->e, LLVMConstInt(LLVMInt32TypeInContext(h->e->ctx), v, false), h->lanes);
}

static LLVMValueRef to_bits(const Half *h, LLVMValueRef v) { return LLVMBuildBitCast(h->b, v, int_type(h, 32), ""); }

static LLVMValueRef to_float(const Half *h, LLVMValueRef v) {
  return LLVMBuildBitCast(h->b, v, pm_llvm_type(h->e, PM_K_F32, h->lanes), "");
}

static LLVMValueRef add(const Half *h, LLVMValueRef a, uint32_t v) { return LLVMBuildAdd(h->b, a, word(h, v), ""); }
static LLVMValueRef and (const Half *h, LLVMValueRef a, uint32_t v) { return LLVMBuildAnd(h->b, a, word(h, v), ""); }
static LLVMValueRef shift_right(const Half *h, LLVMValueRef a, uint32_t n) {
  return LLVMBuildLShr(h->b, a, word(h, n), "");
}
static LLVMValueRef shift_left(const Half *h, LLVMValueRef a, uint32_t n) {
  return LLVMBuildShl(h->b, a, word(h, n), "");
}
static LLVMValueRef below(const Half *h, LLVMValueRef a, uint32_t v) {
  return LLVMBuildICmp(h->b, LLVMIntULT, a, word(h, v), "");
}
static LLVMValueRef pick(const Half *h, LLVMValueRef c, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildSelect(h->b, c, a, b, "");
}

// Half the last place that is kept, less one when what is kept is even, added: then cutting rounds to nearest even.
static LLVMValueRef nudged(const Half *h, LLVMValueRef u, uint32_t dropped) {
  LLVMValueRef odd = and(h, shift_right(h, u, dropped), 1);
  return LLVMBuildAdd(h->b, add(h, u, (1u << (dropped - 1)) - 1), odd, "");
}

// The bits of v as f32. An f64 is rounded to odd, so that the rounding that follows is the only one.
static LLVMValueRef single_bits(const Half *h, LLVMValueRef v) {
  LLVMTypeRef f32 = pm_llvm_type(h->e, PM_K_F32, h->lanes), f64 = pm_llvm_type(h->e, PM_K_F64, h->lanes);
  if (LLVMTypeOf(v) == f32) return to_bits(h, v);
  LLVMValueRef f = LLVMBuildFPTrunc(h->b, v, f32, ""), back = LLVMBuildFPExt(h->b, f, f64, "");
  LLVMValueRef size = pm_llvm_intrinsic(h->e, "llvm.fabs", &f64, 1, &v, 1);
  LLVMValueRef back_size = pm_llvm_intrinsic(h->e, "llvm.fabs", &f64, 1, &back, 1);
  LLVMValueRef u = to_bits(h, f), past = LLVMBuildFCmp(h->b, LLVMRealOGT, back_size, size, "");
  LLVMValueRef cut = pick(h, past, add(h, u, UINT32_MAX), u);
  LLVMValueRef inexact = LLVMBuildFCmp(h->b, LLVMRealONE, back, v, "");
  return pick(h, inexact, LLVMBuildOr(h->b, cut, word(h, 1), ""), u);
}

static LLVMValueRef pack_bf16(const Half *h, LLVMValueRef u) {
  LLVMValueRef number = below(h, and(h, u, 0x7fffffff), 0x7f800001);
  LLVMValueRef nan = LLVMBuildOr(h->b, u, word(h, 0x7fc00000), "");
  return shift_right(h, pick(h, number, nudged(h, u, 16), nan), 16);
}

static LLVMValueRef pack_f16(const Half *h, LLVMValueRef u) {
  LLVMValueRef size = and(h, u, 0x7fffffff), sign = and(h, shift_right(h, u, 16), 0x8000);
  LLVMValueRef half = to_float(h, word(h, 0x3f000000));
  LLVMValueRef small = add(h, to_bits(h, LLVMBuildFAdd(h->b, to_float(h, size), half, "")), 0u - 0x3f000000);
  LLVMValueRef normal = shift_right(h, add(h, nudged(h, size, 13), 0u - 0x38000000), 13);
  LLVMValueRef past = pick(h, below(h, size, 0x7f800001), word(h, 0x7c00), word(h, 0x7e00));
  LLVMValueRef all = pick(h, below(h, size, 0x38800000), small, pick(h, below(h, size, 0x47800000), normal, past));
  return LLVMBuildOr(h->b, sign, all, "");
}

static LLVMValueRef unpack_f16(const Half *h, LLVMValueRef u) {
  LLVMValueRef sign = shift_left(h, and(h, u, 0x8000), 16), size = shift_left(h, and(h, u, 0x7fff), 13);
  LLVMValueRef least = to_float(h, word(h, 0x38800000));
  LLVMValueRef small = to_bits(h, LLVMBuildFSub(h->b, to_float(h, add(h, size, 0x38800000)), least, ""));
  LLVMValueRef past = LLVMBuildOr(h->b, size, word(h, 0x70000000), "");
  LLVMValueRef finite = pick(h, below(h, size, 0x00800000), small, add(h, size, 0x38000000));
  LLVMValueRef all = pick(h, below(h, size, 0x0f800000), finite, past);
  return to_float(h, LLVMBuildOr(h->b, sign, all, ""));
}

static LLVMValueRef packed(const Half *h, PmKDtype half, LLVMValueRef v) {
  LLVMValueRef u = single_bits(h, v);
  return half == PM_K_BF16 ? pack_bf16(h, u) : pack_f16(h, u);
}

static LLVMValueRef unpacked(const Half *h, PmKDtype half, LLVMValueRef u) {
  return half == PM_K_BF16 ? to_float(h, shift_left(h, u, 16)) : unpack_f16(h, u);
}

LLVMValueRef pm_llvm_pack(const PmLlvmEmit *e, PmKDtype half, LLVMValueRef v, int32_t lanes) {
  const Half h = {e, e->b, lanes};
  return LLVMBuildTrunc(e->b, packed(&h, half, v), int_type(&h, 16), "");
}

LLVMValueRef pm_llvm_unpack(const PmLlvmEmit *e, PmKDtype half, LLVMValueRef bits, int32_t lanes) {
  const Half h = {e, e->b, lanes};
  return unpacked(&h, half, LLVMBuildZExt(e->b, bits, int_type(&h, 32), ""));
}

LLVMValueRef pm_llvm_round(const PmLlvmEmit *e, PmKDtype half, LLVMValueRef v, int32_t lanes) {
  const Half h = {e, e->b, lanes};
  return unpacked(&h, half, packed(&h, half, v));
}
