// From a partitioned module (stage LOCAL) to a run plan.
#ifndef PM_CODEGEN_CODEGEN_H
#define PM_CODEGEN_CODEGEN_H

#include "ir/ir.h"
#include "runtime/program.h"

// Inlines calls, fuses, emits kernels and steps (entries setup, step, eval), plans the arena. The program lives in
// `arena`. LIMIT when an extent passes what a kernel can index (2^31 turns of one axis); INTERNAL on our own bugs.
PM_MUST_CHECK PmStatus *pm_codegen(PmArena *arena, const PmModule *m, PmProgram **out);

#endif
