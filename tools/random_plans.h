// Plans by lot: legal ones, for a given number of ranks, as the text of a .pplan.
#ifndef PM_TOOLS_RANDOM_PLANS_H
#define PM_TOOLS_RANDOM_PLANS_H

#include "ir/ir.h"

// Plan `number` for `ranks` ranks and the module, as the frontend leaves it: a mesh of one to three axes, rules over
// axes of its variables and values, sometimes ZeRO, micro-batches and padding. The same for the same seed and number.
// Whether it fits the model in every size is for `place` to say: one that does not is to be thrown away.
void pm_random_plan(const PmModule *m, int64_t ranks, uint64_t seed, uint64_t number, PmBuf *out);

#endif
