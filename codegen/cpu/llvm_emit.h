// From one kernel to one LLVM function, through the builder API.
//
// How lanes work. The shape (llvm_shape.c) says which axis is spread over lanes and which values differ between lanes.
// A value that doesn't is emitted as a scalar and splatted where a vector needs it. The same body may be emitted
// several times: once for whole strips (lanes = width), once for the rest, either as a strip in which only the first
// `active` lanes load and store (a rest known here) or as a scalar loop (a rest known at run time; lanes = 1).
//
// The order of every sum is that of runtime/program.h whatever the width. Nothing carries fast-math flags.
// Ownership: everything lives in the emitter's arena and LLVM context.
#ifndef PM_CODEGEN_CPU_LLVM_EMIT_H
#define PM_CODEGEN_CPU_LLVM_EMIT_H

#include <llvm-c/Core.h>

#include "base/arena.h"
#include "runtime/program.h"

#define PM_PARTIALS 32

// Arguments of one class may share bytes in some call; arguments of different classes never do.
typedef struct PmLlvmAlias {
  int8_t class_of[PM_KERNEL_MAX_ARGS];
  bool same_start[PM_KERNEL_MAX_ARGS];  // by class: its arguments begin at one byte in every call
} PmLlvmAlias;

typedef struct PmLlvmShape {
  int32_t lane_outer;  // outer axis spread over lanes, -1: none
  int32_t *end;        // by instruction: LOOP: its END
  bool *innermost;     // LOOP: no loop inside
  bool *strips;        // LOOP: runs in strips of lanes
  bool *varies;        // the value differs between lanes
} PmLlvmShape;

// The accumulator of a loop that runs in strips. Register r holds the partials of one strip; each strip adds to
// register 0, then the registers move down one place, so that one copy of the body serves all.
typedef struct PmLlvmRing {
  LLVMValueRef now[PM_PARTIALS];
  LLVMValueRef next;
} PmLlvmRing;

typedef struct PmLlvmEmit {
  PmArena *arena;
  LLVMContextRef ctx;
  LLVMModuleRef mod;
  LLVMBuilderRef b;
  const PmKernel *k;
  const PmLlvmAlias *alias;
  PmLlvmShape shape;
  int32_t width, lanes, active;
  int32_t lane_axis;     // the axis whose turns the lanes are, -1 while lanes == 1
  bool in_strips;        // inside of a loop that runs in strips
  LLVMValueRef fn;
  LLVMBasicBlockRef entry;
  LLVMValueRef args[PM_KERNEL_MAX_ARGS], scalars, begin, end;
  LLVMValueRef index[PM_KERNEL_MAX_AXES];  // i64; of the lane axis: of lane 0
  LLVMValueRef *value;   // by instruction
  LLVMValueRef *place;   // LOAD, STORE*: address as far as the open axes determine it
  LLVMValueRef *partial; // ACC in memory: the array
  PmLlvmRing **ring;     // ACC in registers
} PmLlvmEmit;

// ---- llvm_shape.c
void pm_llvm_shape(PmLlvmShape *out, PmArena *arena, const PmKernel *k, const PmLlvmAlias *alias);
static inline bool pm_is_access(uint8_t op) { return op == PM_I_LOAD || op == PM_I_STORE || op == PM_I_STORE_ADD; }
static inline bool pm_is_acc(uint8_t op) { return op == PM_I_ACC_SUM || op == PM_I_ACC_MAX; }

// ---- llvm_ops.c
LLVMTypeRef pm_llvm_type(const PmLlvmEmit *e, PmKDtype d, int32_t lanes);      // bool: i1
LLVMValueRef pm_llvm_const(const PmLlvmEmit *e, PmKDtype d, int32_t lanes, double v);
LLVMValueRef pm_llvm_i64(const PmLlvmEmit *e, int64_t v);
LLVMValueRef pm_llvm_splat(const PmLlvmEmit *e, LLVMValueRef v, int32_t lanes);  // v itself when lanes == 1
LLVMValueRef pm_llvm_mask(const PmLlvmEmit *e);                                // i1 vector: the active lanes
LLVMValueRef pm_llvm_intrinsic(const PmLlvmEmit *e, const char *name, LLVMTypeRef *types, int32_t n_types,
                               LLVMValueRef *args, int32_t n_args);
// acc_sum and acc_max of two values of one type, and what they begin with.
LLVMValueRef pm_llvm_into(const PmLlvmEmit *e, const PmInstr *acc, LLVMValueRef to, LLVMValueRef v);
LLVMValueRef pm_llvm_identity(const PmLlvmEmit *e, const PmInstr *acc, int32_t lanes);
// Lanes of instruction i's value now, and the value of `operand` with that many lanes.
int32_t pm_llvm_lanes(const PmLlvmEmit *e, int32_t i);
LLVMValueRef pm_llvm_operand(const PmLlvmEmit *e, int32_t operand, int32_t lanes);
// Every instruction but LOAD, STORE*, LOOP, END, ACC_*.
LLVMValueRef pm_llvm_op(const PmLlvmEmit *e, int32_t i);

// ---- llvm_half.c
// The 16 bits of a float (f32, f64) rounded to a half dtype, the f32 of such bits, and both at once.
LLVMValueRef pm_llvm_pack(const PmLlvmEmit *e, PmKDtype half, LLVMValueRef v, int32_t lanes);
LLVMValueRef pm_llvm_unpack(const PmLlvmEmit *e, PmKDtype half, LLVMValueRef bits, int32_t lanes);
LLVMValueRef pm_llvm_round(const PmLlvmEmit *e, PmKDtype half, LLVMValueRef v, int32_t lanes);

// ---- llvm_memory.c
// The address of each access while no axis is open.
void pm_llvm_places_begin(PmLlvmEmit *e);
// Enters `axis` at `index` for the accesses in [first, last); returns what pm_llvm_places_leave restores.
LLVMValueRef *pm_llvm_places_enter(PmLlvmEmit *e, int32_t axis, LLVMValueRef index, int32_t first, int32_t last);
void pm_llvm_places_leave(PmLlvmEmit *e, int32_t first, int32_t last, LLVMValueRef *saved);
LLVMValueRef pm_llvm_load(PmLlvmEmit *e, int32_t i);
void pm_llvm_store(PmLlvmEmit *e, int32_t i);

// ---- llvm_loops.c
typedef struct PmLlvmLoop {
  LLVMBasicBlockRef head, exit;
  LLVMValueRef index;
  int64_t step;
} PmLlvmLoop;
PmLlvmLoop pm_llvm_loop_begin(PmLlvmEmit *e, LLVMValueRef from, LLVMValueRef to, int64_t step);
void pm_llvm_loop_end(PmLlvmEmit *e, const PmLlvmLoop *loop);
// LOOP at instruction i with its body, and ACC inside of it.
void pm_llvm_loop(PmLlvmEmit *e, int32_t i);
void pm_llvm_acc(PmLlvmEmit *e, int32_t i);

// ---- llvm_emit.c
void pm_llvm_range(PmLlvmEmit *e, int32_t first, int32_t last);
// Adds `void name(ptr args, ptr scalars, i64 begin, i64 end)` to the module.
void pm_llvm_emit(PmArena *arena, LLVMModuleRef mod, const PmKernel *k, const PmLlvmAlias *alias, int32_t width,
                  const char *name);

#endif
