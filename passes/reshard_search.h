// The search behind passes/reshard.h.
#ifndef PM_PASSES_RESHARD_SEARCH_H
#define PM_PASSES_RESHARD_SEARCH_H

#include "passes/reshard.h"

typedef struct PmReshardMove {
  PmOp op;
  int32_t dim, to;  // that mesh axes leave or come to; of an all_to_all they go from `dim` to `to`
  PmType result;
} PmReshardMove;

// Fills out_moves (PM_RESHARD_MAX_STEPS) with the cheapest way from one placement to the other and returns their number;
// PM_NONE when the two differ in more mesh axes than are searched.
int32_t pm_reshard_search(const PmModule *m, const PmType *from, const PmType *to, PmReshardMove *out_moves);

// `to` with what both have of each split, from the major end, and the partial sums that both have.
PmType pm_reshard_common(const PmType *from, const PmType *to);

#endif
