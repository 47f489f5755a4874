// CPU kernels through LLVM-C (ORC LLJIT): kernel IR in, machine code out, with explicit vectors and no fast-math.
#ifndef PM_CODEGEN_CPU_LLVM_COMPILER_H
#define PM_CODEGEN_CPU_LLVM_COMPILER_H

#include "base/arena.h"
#include "runtime/program.h"

typedef struct PmLlvmOptions {
  const char *cache_dir;  // object files by hash of kernel, target CPU and printer version; NULL: none
  int32_t vector_bits;    // 0: from the target (256 with AVX2); 128 for tests
  int32_t opt_level;      // 0 .. 3 of the code generator; the bits do not depend on it
} PmLlvmOptions;

PM_MUST_CHECK PmStatus *pm_llvm_compiler_create(const PmLlvmOptions *opts, PmKernelCompiler **out);
// LLVM IR of one kernel as text, for `show kernels` and tests.
PM_MUST_CHECK PmStatus *pm_llvm_print(const PmLlvmOptions *opts, const PmKernel *k, PmBuf *out);

typedef struct PmLlvmInfo {
  const char *version, *triple, *cpu;  // "19.1.7", "x86_64-pc-linux-gnu", "skylake-avx512"
  int32_t vector_bits;
} PmLlvmInfo;

// The library that is linked in, and what it compiles for on this machine.
PM_MUST_CHECK PmStatus *pm_llvm_describe(PmArena *arena, PmLlvmInfo *out);

#endif
