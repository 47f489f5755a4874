// Building kernel IR, and expanding scalar functions of the IR into primitive instructions ("recipes").
//
// exp, log, tanh, erf, rsqrt, pow, sin and cos are polynomials of our own, written once here: the kernel interpreter and
// every printer see primitive instructions only, so they agree bit for bit by construction. In host kernels (double) the
// same call emits PM_I_CALL_*.
#ifndef PM_CODEGEN_KERNEL_BUILD_H
#define PM_CODEGEN_KERNEL_BUILD_H

#include "ir/ir.h"
#include "runtime/program.h"

typedef struct PmKBuilder {
  PmArena *arena;
  PmKernel *k;
  int32_t cap_instrs;
  int32_t n_axes;      // axes given out: outer axes, then loops
  int32_t open_loops;
} PmKBuilder;

// An address; zeroed strides and dyn = -1 by pm_kaddr.
typedef struct PmKAddr {
  int64_t base;
  int64_t stride[PM_KERNEL_MAX_AXES];
  int32_t dyn;
  int64_t dyn_stride, dyn_extent;
} PmKAddr;
PmKAddr pm_kaddr(void);

// A new kernel in `arena`; outer axes must be added before any instruction.
void pm_kb_init(PmKBuilder *kb, PmArena *arena, const char *name, bool host, PmVec vec);
int32_t pm_kb_outer(PmKBuilder *kb, int64_t extent, PmKAxisKind kind);        // returns the axis number
int32_t pm_kb_arg(PmKBuilder *kb, PmKDtype dtype, int64_t bytes, bool reads, bool writes);
int32_t pm_kb_scalar(PmKBuilder *kb);                                          // returns the scalar number
int32_t pm_kb_const(PmKBuilder *kb, PmKDtype dtype, double v);
int32_t pm_kb_index(PmKBuilder *kb, int32_t axis);                             // i32
int32_t pm_kb_param(PmKBuilder *kb, int32_t scalar);                           // i32
int32_t pm_kb_load(PmKBuilder *kb, int32_t arg, const PmKAddr *at);
void pm_kb_store(PmKBuilder *kb, int32_t arg, const PmKAddr *at, int32_t value, bool add);
int32_t pm_kb_loop(PmKBuilder *kb, int64_t extent);                            // returns the axis number
void pm_kb_end(PmKBuilder *kb);
int32_t pm_kb_acc(PmKBuilder *kb, PmReduceKind kind, PmKDtype dtype, int32_t value);
int32_t pm_kb_op(PmKBuilder *kb, PmInstrOp op, PmKDtype dtype, int32_t a, int32_t b, int32_t c);
int32_t pm_kb_cvt(PmKBuilder *kb, PmKDtype to, int32_t a);                     // a itself when it has that dtype
// As pm_kb_cvt; for a half dtype the f32 value that is a rounded to it once, from any dtype.
int32_t pm_kb_as(PmKBuilder *kb, PmKDtype to, int32_t a);
PmKDtype pm_kb_dtype(const PmKBuilder *kb, int32_t value);
// A scalar function of ir/scalars.def by its RECIPE column; operands have dtype `dtype` (where: a is bool).
int32_t pm_kb_scalar_fn(PmKBuilder *kb, PmScalar fn, PmKDtype dtype, int32_t a, int32_t b, int32_t c);
// Drops unused instructions, puts those that only compute in the order in which loads, sums and stores need them, sets
// arg ranges that were given as 0 from the addresses used, and returns the kernel. So nested calls may build a formula:
// in which order C evaluates their arguments makes no difference, as long as at most one of them loads.
PmKernel *pm_kb_finish(PmKBuilder *kb);

#endif
