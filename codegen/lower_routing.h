// Lowering of the routing ops. `like` is the op's node: its place and axes; `result` is the local shape of the result.
#ifndef PM_CODEGEN_LOWER_ROUTING_H
#define PM_CODEGEN_LOWER_ROUTING_H

#include "codegen/lower.h"

PmCgId pm_cg_lower_topk(PmCg *cg, PmCgRegion *r, const PmCgNode *like, PmCgId x, const PmCgValue *result);
// Where the first dim is split: counts of this rank, counts of all, then slots. LIMIT in cg->status past 2^31 positions
// or slots.
PmCgId pm_cg_lower_slot_of(PmCgLower *lw, const PmNode *n, const PmCgNode *like, PmCgId idx, const PmCgValue *result);

#endif
