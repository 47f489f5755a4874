// Order of terms in long scalar sums.
#ifndef PM_PASSES_REGROUP_H
#define PM_PASSES_REGROUP_H

#include "passes/tree.h"

// Reorders the terms of chains of scalar additions, so that terms that come out as partial sums over the same mesh axes
// stand together: each group is then reduced once. The gradient norm so needs one all-reduce a mesh axis, whatever the
// number of parameters. Changes the order of rounding only, and by placement alone, so every rank agrees.
void pm_regroup_sums(PmArena *arena, PmModule *m, const PmTree *tree);

#endif
