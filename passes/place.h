// What `place` computes, kept for `show sharding`.
#ifndef PM_PASSES_PLACE_H
#define PM_PASSES_PLACE_H

#include "passes/tree.h"

// The placement of one value while it is being decided: per dim, whether it is decided, how, and by what.
typedef struct PmPlaced {
  uint16_t decided;  // bit per dim
  PmSplit split[PM_MAX_RANK];
  const char *why[PM_MAX_RANK];  // the rule it goes back to
  int16_t rule[PM_MAX_RANK];     // its index; pins come before all rules
  const char *by[PM_MAX_RANK];   // the op that it was propagated through last, NULL: the rule itself
  uint32_t barred;               // bit per mesh axis that propagation does not split it over (place_inputs.h)
} PmPlaced;

// Whether a dim other than `dim` (PM_NONE: any dim) is split over the mesh axis.
bool pm_placed_uses(const PmType *t, const PmPlaced *p, int32_t dim, int32_t mesh);
// The mesh axes of `want` (major to minor, in order) that the value can still take on `dim`: not used by another of its
// dims, more than one rank, and dividing the axis. Stops at the first that does not divide.
PmSplit pm_placed_allow(const PmModule *m, const PmType *t, const PmPlaced *p, int32_t dim, const PmSplit *want);

// Fires the plan's rules on every value that rules bind. Reports rules that never fire and axes that do not divide.
void pm_place_rules(PmModule *m, const PmTree *tree, PmPlaced *slots, PmDiags *diags);

#endif
