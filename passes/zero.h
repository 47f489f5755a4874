// ZeRO (Rajbhandari et al., arXiv 1910.02054): what data ranks hold alike is stored split and gathered where it is
// used.
//
// Storage and use are two placements. Ops see only the use placement, so activations never follow a ZeRO split; what is
// stored split are optimizer states (stage 1), gradients (2) and parameters (3). The optimizer's part of the step runs
// where its states lie.
#ifndef PM_PASSES_ZERO_H
#define PM_PASSES_ZERO_H

#include "passes/place.h"

// The plan's zero(stage >= 1), or NULL.
const PmRule *pm_zero_rule(const PmModule *m);

// Decides, once the model's values are placed, where variables and the optimizer's operands lie: the split axis is the
// largest local one (never a repeat axis; ties: the first) that the free mesh axes of `over` divide together, else each
// mesh axis goes to the largest axis that it divides, else the tensor stays whole, with a warning that states its
// bytes. out_vars: per variable, the placement it is stored in.
void pm_zero_store(PmModule *m, const PmTree *tree, PmPlaced *slots, PmDiags *diags, PmPlaced *out_vars);

#endif
