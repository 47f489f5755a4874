// From one placement of a value to another by the cheapest list of collectives.
#ifndef PM_PASSES_RESHARD_H
#define PM_PASSES_RESHARD_H

#include "ir/build.h"

#define PM_RESHARD_MAX_STEPS 32

typedef struct PmReshardStep {
  PmOp op;  // all_reduce, reduce_scatter, permute, all_to_all, all_gather or slice
  PmAttr attr;
  PmType result;
  int64_t bytes;  // that one rank sends at most, by the ring or direct algorithm's volume
} PmReshardStep;

typedef struct PmReshard {
  int32_t n;
  PmReshardStep steps[PM_RESHARD_MAX_STEPS];
  int64_t bytes;    // of all steps
  int64_t peak;     // local bytes of the largest placement on the way, both ends counted
  int32_t n_colls;  // steps that are no slices
} PmReshard;

// `from` and `to` are one logical type; partial sums of `to` are a subset of those of `from`. Of all lists of steps
// that use only mesh axes along which the two differ, one that sends the fewest bytes among those that never hold more
// than the larger of the two ends; where there is none of these, among all. Ties: fewer collectives, then fewer steps.
// A search over the placements between them (Dijkstra): their number grows as the factorial of the mesh axes that
// differ, so past PM_RESHARD_MAX_AXES of these the value is gathered along them and sliced.
#define PM_RESHARD_MAX_AXES 5
PmReshard pm_reshard_plan(const PmModule *m, const PmType *from, const PmType *to);
// Appends the plan's nodes. Reductions carry `cause` as their place, the rest the builder's own.
PmValueId pm_reshard_emit(PmBuilder *b, PmValueId v, const PmReshard *plan, PmLoc cause);

#endif
