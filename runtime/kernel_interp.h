// The interpreter of kernel IR: the definition of every instruction. Compiled kernels equal it bit for bit.
//
// Where instrs.def leaves room:
//   max(a, b) is `a` when a is NaN or a > b, else `b`; min likewise with <. So of two zeros b is taken.
//   cvt from f32 or f64 to i32 saturates and takes NaN to 0; cvt of a NaN to bool is true.
//   Shift counts are taken modulo 32. bool cvt to a number gives 0 or 1. A loaded bool is true when its byte isn't 0.
//   acc_sum begins with 32 partials of +0, acc_max with -inf (i32: the least); turn i makes p[i % 32] = p[i % 32] + a,
//   or max(p[i % 32], a); at the end p[j] = p[j] + p[j + w], or max(p[j], p[j + w]), for w = 16, 8, 4, 2, 1 and j < w,
//   however many turns there were.
#ifndef PM_RUNTIME_KERNEL_INTERP_H
#define PM_RUNTIME_KERNEL_INTERP_H

#include "runtime/program.h"

// Has the contract of PmKernelFn. The kernel is valid; arguments hold what the kernel declares.
void pm_kernel_interp(const PmKernel *k, char *const *args, const int32_t *scalars, int64_t begin, int64_t end);

#endif
