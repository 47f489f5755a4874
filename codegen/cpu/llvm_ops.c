#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "codegen/cpu/llvm_emit.h"

static PmKDtype value_dtype(const PmInstr *in) {
  return in->op >= PM_I_CMP_EQ && in->op <= PM_I_CMP_LE ? PM_K_BOOL : pm_kdtype_value((PmKDtype)in->dtype);
}

static bool is_float(PmKDtype d) { return d == PM_K_F32 || d == PM_K_F64; }

LLVMTypeRef pm_llvm_type(const PmLlvmEmit *e, PmKDtype d, int32_t lanes) {
  LLVMTypeRef t = d == PM_K_BOOL  ? LLVMInt1TypeInContext(e->ctx)
                  : d == PM_K_I32 ? LLVMInt32TypeInContext(e->ctx)
                  : d == PM_K_F32 ? LLVMFloatTypeInContext(e->ctx)
                                  : LLVMDoubleTypeInContext(e->ctx);
  return lanes == 1 ? t : LLVMVectorType(t, (unsigned)lanes);
}

LLVMValueRef pm_llvm_i64(const PmLlvmEmit *e, int64_t v) {
  return LLVMConstInt(LLVMInt64TypeInContext(e->ctx), (unsigned long long)v, true);
}

static LLVMValueRef const_i32(const PmLlvmEmit *e, int32_t v) {
  return LLVMConstInt(LLVMInt32TypeInContext(e->ctx), (unsigned long long)(int64_t)v, true);
}

static int32_t saturated(double v) {
  if (isnan(v)) return 0;
  return v >= 0x1p31 ? INT32_MAX : v <= -0x1p31 ? INT32_MIN : (int32_t)v;
}

static LLVMValueRef splat_const(LLVMValueRef one, int32_t lanes) {
  LLVMValueRef all[PM_PARTIALS];
  for (int32_t i = 0; i < lanes; i++) all[i] = one;
  return lanes == 1 ? one : LLVMConstVector(all, (unsigned)lanes);
}

LLVMValueRef pm_llvm_const(const PmLlvmEmit *e, PmKDtype d, int32_t lanes, double v) {
  LLVMTypeRef t = pm_llvm_type(e, d, 1);
  LLVMValueRef one = d == PM_K_BOOL  ? LLVMConstInt(t, v != 0, false)
                     : d == PM_K_I32 ? const_i32(e, saturated(v))
                     : d == PM_K_F32 ? LLVMConstReal(t, (double)(float)v)
                                     : LLVMConstReal(t, v);
  return splat_const(one, lanes);
}

LLVMValueRef pm_llvm_splat(const PmLlvmEmit *e, LLVMValueRef v, int32_t lanes) {
  if (lanes == 1) return v;
  if (LLVMIsConstant(v)) return splat_const(v, lanes);
  LLVMValueRef none = LLVMGetPoison(LLVMVectorType(LLVMTypeOf(v), (unsigned)lanes));
  LLVMValueRef first = LLVMBuildInsertElement(e->b, none, v, const_i32(e, 0), "");
  return LLVMBuildShuffleVector(e->b, first, none, splat_const(const_i32(e, 0), lanes), "");
}

LLVMValueRef pm_llvm_mask(const PmLlvmEmit *e) {
  LLVMValueRef all[PM_PARTIALS];
  for (int32_t i = 0; i < e->lanes; i++) all[i] = pm_llvm_const(e, PM_K_BOOL, 1, i < e->active);
  return LLVMConstVector(all, (unsigned)e->lanes);
}

LLVMValueRef pm_llvm_intrinsic(const PmLlvmEmit *e, const char *name, LLVMTypeRef *types, int32_t n_types,
                               LLVMValueRef *args, int32_t n_args) {
  const unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
  PM_ASSERT(id != 0, "LLVM has no intrinsic %s", name);
  LLVMValueRef fn = LLVMGetIntrinsicDeclaration(e->mod, id, types, (size_t)n_types);
  LLVMTypeRef type = LLVMIntrinsicGetType(e->ctx, id, types, (size_t)n_types);
  return LLVMBuildCall2(e->b, type, fn, args, (unsigned)n_args, "");
}

// max and min keep a NaN of either side, and of two equal numbers the second.
static LLVMValueRef extreme(const PmLlvmEmit *e, PmKDtype d, LLVMValueRef a, LLVMValueRef b, bool max) {
  if (d == PM_K_I32) {
    LLVMValueRef first = LLVMBuildICmp(e->b, max ? LLVMIntSGT : LLVMIntSLT, a, b, "");
    return LLVMBuildSelect(e->b, first, a, b, "");
  }
  LLVMValueRef past = LLVMBuildFCmp(e->b, max ? LLVMRealOGT : LLVMRealOLT, a, b, "");
  LLVMValueRef nan = LLVMBuildFCmp(e->b, LLVMRealUNO, a, a, "");
  return LLVMBuildSelect(e->b, nan, a, LLVMBuildSelect(e->b, past, a, b, ""), "");
}

LLVMValueRef pm_llvm_into(const PmLlvmEmit *e, const PmInstr *acc, LLVMValueRef to, LLVMValueRef v) {
  if (acc->op == PM_I_ACC_MAX) return extreme(e, (PmKDtype)acc->dtype, to, v, true);
  return acc->dtype == PM_K_I32 ? LLVMBuildAdd(e->b, to, v, "") : LLVMBuildFAdd(e->b, to, v, "");
}

LLVMValueRef pm_llvm_identity(const PmLlvmEmit *e, const PmInstr *acc, int32_t lanes) {
  return pm_llvm_const(e, (PmKDtype)acc->dtype, lanes, acc->op == PM_I_ACC_MAX ? -INFINITY : 0);
}

int32_t pm_llvm_lanes(const PmLlvmEmit *e, int32_t i) { return e->shape.varies[i] ? e->lanes : 1; }

LLVMValueRef pm_llvm_operand(const PmLlvmEmit *e, int32_t operand, int32_t lanes) {
  LLVMValueRef v = e->value[operand];
  return LLVMGetTypeKind(LLVMTypeOf(v)) == LLVMVectorTypeKind ? v : pm_llvm_splat(e, v, lanes);
}

static LLVMValueRef math(const PmLlvmEmit *e, const char *name, LLVMValueRef *args, int32_t n) {
  LLVMTypeRef type = LLVMTypeOf(args[0]);
  return pm_llvm_intrinsic(e, name, &type, 1, args, n);
}

static LLVMValueRef convert(const PmLlvmEmit *e, PmKDtype from, PmKDtype to, LLVMValueRef v, int32_t lanes) {
  LLVMTypeRef type = pm_llvm_type(e, to, lanes);
  if (from == to) return v;
  if (to == PM_K_BOOL) {
    LLVMValueRef zero = pm_llvm_const(e, from, lanes, 0);
    return is_float(from) ? LLVMBuildFCmp(e->b, LLVMRealUNE, v, zero, "") : LLVMBuildICmp(e->b, LLVMIntNE, v, zero, "");
  }
  if (from == PM_K_BOOL)
    return to == PM_K_I32 ? LLVMBuildZExt(e->b, v, type, "") : LLVMBuildUIToFP(e->b, v, type, "");
  if (from == PM_K_I32) return LLVMBuildSIToFP(e->b, v, type, "");
  if (to == PM_K_I32) {
    LLVMTypeRef types[] = {type, LLVMTypeOf(v)};
    return pm_llvm_intrinsic(e, "llvm.fptosi.sat", types, 2, &v, 1);
  }
  return to == PM_K_F64 ? LLVMBuildFPExt(e->b, v, type, "") : LLVMBuildFPTrunc(e->b, v, type, "");
}

static LLVMValueRef compare(const PmLlvmEmit *e, const PmInstr *in, LLVMValueRef a, LLVMValueRef b) {
  static const LLVMRealPredicate real[] = {LLVMRealOEQ, LLVMRealUNE, LLVMRealOLT, LLVMRealOLE};
  static const LLVMIntPredicate whole[] = {LLVMIntEQ, LLVMIntNE, LLVMIntSLT, LLVMIntSLE};
  const int32_t which = in->op - PM_I_CMP_EQ;
  return is_float((PmKDtype)in->dtype) ? LLVMBuildFCmp(e->b, real[which], a, b, "")
                                       : LLVMBuildICmp(e->b, whole[which], a, b, "");
}

static LLVMValueRef lane_index(const PmLlvmEmit *e, const PmInstr *in, int32_t lanes) {
  LLVMValueRef first = LLVMBuildTrunc(e->b, e->index[in->arg], LLVMInt32TypeInContext(e->ctx), "");
  if (lanes == 1) return first;
  LLVMValueRef step[PM_PARTIALS];
  for (int32_t i = 0; i < lanes; i++) step[i] = const_i32(e, i);
  return LLVMBuildAdd(e->b, pm_llvm_splat(e, first, lanes), LLVMConstVector(step, (unsigned)lanes), "");
}

static LLVMValueRef param(const PmLlvmEmit *e, const PmInstr *in) {
  LLVMTypeRef i32 = LLVMInt32TypeInContext(e->ctx);
  LLVMValueRef at = pm_llvm_i64(e, in->arg);
  return LLVMBuildLoad2(e->b, i32, LLVMBuildGEP2(e->b, i32, e->scalars, &at, 1, ""), "");
}

static LLVMValueRef high_product(const PmLlvmEmit *e, LLVMValueRef a, LLVMValueRef b, int32_t lanes) {
  LLVMTypeRef wide = LLVMInt64TypeInContext(e->ctx);
  LLVMValueRef half = pm_llvm_i64(e, 32);
  if (lanes > 1) {
    wide = LLVMVectorType(wide, (unsigned)lanes);
    half = pm_llvm_splat(e, half, lanes);
  }
  LLVMValueRef product = LLVMBuildMul(e->b, LLVMBuildZExt(e->b, a, wide, ""), LLVMBuildZExt(e->b, b, wide, ""), "");
  return LLVMBuildTrunc(e->b, LLVMBuildLShr(e->b, product, half, ""), LLVMTypeOf(a), "");
}

LLVMValueRef pm_llvm_op(const PmLlvmEmit *e, int32_t i) {
  const PmInstr *in = &e->k->instrs[i];
  const int32_t lanes = pm_llvm_lanes(e, i);
  const bool real = is_float((PmKDtype)in->dtype);
  const int32_t operands[] = {in->a, in->b, in->c};
  LLVMValueRef v[3] = {NULL, NULL, NULL};
  for (int32_t j = 0; j < 3; j++)
    if (operands[j] >= 0) v[j] = pm_llvm_operand(e, operands[j], lanes);
  switch ((PmInstrOp)in->op) {
    case PM_I_CONST: return pm_llvm_const(e, (PmKDtype)in->dtype, 1, in->number);
    case PM_I_INDEX: return lane_index(e, in, lanes);
    case PM_I_PARAM: return param(e, in);
    case PM_I_CVT: return convert(e, value_dtype(&e->k->instrs[in->a]), (PmKDtype)in->dtype, v[0], lanes);
    case PM_I_ROUND_BF16: return pm_llvm_round(e, PM_K_BF16, v[0], lanes);
    case PM_I_ROUND_F16: return pm_llvm_round(e, PM_K_F16, v[0], lanes);
    case PM_I_ADD: return real ? LLVMBuildFAdd(e->b, v[0], v[1], "") : LLVMBuildAdd(e->b, v[0], v[1], "");
    case PM_I_SUB: return real ? LLVMBuildFSub(e->b, v[0], v[1], "") : LLVMBuildSub(e->b, v[0], v[1], "");
    case PM_I_MUL: return real ? LLVMBuildFMul(e->b, v[0], v[1], "") : LLVMBuildMul(e->b, v[0], v[1], "");
    case PM_I_DIV: return LLVMBuildFDiv(e->b, v[0], v[1], "");
    case PM_I_FMA: return math(e, "llvm.fma", v, 3);
    case PM_I_NEG: return real ? LLVMBuildFNeg(e->b, v[0], "") : LLVMBuildNeg(e->b, v[0], "");
    case PM_I_ABS: return math(e, "llvm.fabs", v, 1);
    case PM_I_SQRT: return math(e, "llvm.sqrt", v, 1);
    case PM_I_FLOOR: return math(e, "llvm.floor", v, 1);
    case PM_I_RINT: return math(e, "llvm.roundeven", v, 1);
    case PM_I_MIN: return extreme(e, (PmKDtype)in->dtype, v[0], v[1], false);
    case PM_I_MAX: return extreme(e, (PmKDtype)in->dtype, v[0], v[1], true);
    case PM_I_CMP_EQ:
    case PM_I_CMP_NE:
    case PM_I_CMP_LT:
    case PM_I_CMP_LE: return compare(e, in, v[0], v[1]);
    case PM_I_AND: return LLVMBuildAnd(e->b, v[0], v[1], "");
    case PM_I_OR: return LLVMBuildOr(e->b, v[0], v[1], "");
    case PM_I_NOT: return LLVMBuildNot(e->b, v[0], "");
    case PM_I_SELECT: return LLVMBuildSelect(e->b, v[0], v[1], v[2], "");
    case PM_I_BITCAST: return LLVMBuildBitCast(e->b, v[0], pm_llvm_type(e, (PmKDtype)in->dtype, lanes), "");
    case PM_I_MULHI: return high_product(e, v[0], v[1], lanes);
    case PM_I_XOR: return LLVMBuildXor(e->b, v[0], v[1], "");
    case PM_I_SHL:
    case PM_I_SHR: {
      LLVMValueRef by = LLVMBuildAnd(e->b, v[1], pm_llvm_const(e, PM_K_I32, lanes, 31), "");
      return in->op == PM_I_SHL ? LLVMBuildShl(e->b, v[0], by, "") : LLVMBuildLShr(e->b, v[0], by, "");
    }
    default: PM_UNREACHABLE("kernel %s: instruction %d (%d) is not compiled", e->k->name, i, in->op);
  }
}
