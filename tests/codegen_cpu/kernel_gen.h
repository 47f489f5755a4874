// Random valid kernels: every instruction, nested loops, all kinds of strides, loaded indices, scatter.
#ifndef PM_TESTS_CODEGEN_CPU_KERNEL_GEN_H
#define PM_TESTS_CODEGEN_CPU_KERNEL_GEN_H

#include "codegen/kernel_build.h"

PmKernel *kernel_gen(PmArena *arena, uint64_t seed);

#endif
