// From one placement of a value to another by the cheapest short list of collectives.
#ifndef PM_PASSES_RESHARD_H
#define PM_PASSES_RESHARD_H

#include "ir/build.h"

#define PM_RESHARD_MAX_STEPS 32

typedef struct PmReshardStep {
  PmOp op;  // all_reduce, reduce_scatter, all_to_all, all_gather or slice
  PmAttr attr;
  PmType result;
  int64_t bytes;  // that one rank sends, by the ring or direct algorithm's volume
} PmReshardStep;

typedef struct PmReshard {
  int32_t n;
  PmReshardStep steps[PM_RESHARD_MAX_STEPS];
  int64_t bytes;
} PmReshard;

// `from` and `to` are one logical type; partial sums of `to` are a subset of those of `from`. Partials are reduced
// first (into a split where `to` has one); then slice < all-to-all < gather, never gathering what a shorter way moves.
PmReshard pm_reshard_plan(const PmModule *m, const PmType *from, const PmType *to);
// Appends the plan's nodes. Reductions carry `cause` as their place, the rest the builder's own.
PmValueId pm_reshard_emit(PmBuilder *b, PmValueId v, const PmReshard *plan, PmLoc cause);

#endif
