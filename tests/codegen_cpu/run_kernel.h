// Runs one kernel in the interpreter and compiled in several ways, and compares every byte of its arguments.
#ifndef PM_TESTS_CODEGEN_CPU_RUN_KERNEL_H
#define PM_TESTS_CODEGEN_CPU_RUN_KERNEL_H

#include "harness.h"

#include "codegen/cpu/llvm_compiler.h"
#include "codegen/kernel_build.h"
#include "runtime/kernel_interp.h"

// A program of one entry that calls each kernel once, its arguments side by side.
PmProgram *program_of(PmArena *arena, PmKernel *const *kernels, int32_t n);
PmKernelCompiler *compiler_new(int32_t vector_bits, int32_t opt_level, const char *cache_dir);
void compile_ok(PmKernelCompiler *c, const PmProgram *p, PmKernelFn *out_fns);

// Fresh memory for the arguments, filled by `seed`: numbers of every kind, small indices in i32, 0 or 1 in bool.
char **args_new(const PmKernel *k, uint64_t seed);
void args_free(const PmKernel *k, char **args);
// Equal bits; any NaN equals any NaN.
bool args_equal(const PmKernel *k, char *const *a, char *const *b, int32_t *out_arg, int64_t *out_element);

#endif
