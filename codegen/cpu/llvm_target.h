// What code is generated for, and the way from one kernel to one object file. A target is not changed after its
// creation; threads may use one together.
#ifndef PM_CODEGEN_CPU_LLVM_TARGET_H
#define PM_CODEGEN_CPU_LLVM_TARGET_H

#include "codegen/cpu/llvm_compiler.h"
#include "codegen/cpu/llvm_emit.h"
#include "codegen/cpu/object_cache.h"

typedef struct PmLlvmTarget {
  char *triple, *cpu, *features;  // LLVM's
  int32_t width;                  // lanes of a strip
  int32_t opt_level;
} PmLlvmTarget;

PM_MUST_CHECK PmStatus *pm_llvm_target_init(PmLlvmTarget *t, const PmLlvmOptions *opts);
void pm_llvm_target_deinit(PmLlvmTarget *t);
// Names what the kernel's code depends on: not its name, nor how large its arguments are.
PmObjectKey pm_llvm_key(const PmLlvmTarget *t, const PmKernel *k, const PmLlvmAlias *alias);
// Which arguments share bytes in some call of the program.
void pm_llvm_alias(const PmProgram *p, int32_t kernel, PmLlvmAlias *out);
// No two arguments do.
PmLlvmAlias pm_llvm_no_alias(void);
// The object file that defines `symbol`.
PM_MUST_CHECK PmStatus *pm_llvm_object(const PmLlvmTarget *t, const PmKernel *k, const PmLlvmAlias *alias,
                                       const char *symbol, PmBuf *out);
PM_MUST_CHECK PmStatus *pm_llvm_text(const PmLlvmTarget *t, const PmKernel *k, const PmLlvmAlias *alias,
                                     const char *symbol, PmBuf *out);

#endif
