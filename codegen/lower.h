// What the files of lowering share.
#ifndef PM_CODEGEN_LOWER_H
#define PM_CODEGEN_LOWER_H

#include "codegen/region.h"

// Walks one function of the IR into a region; calls nest.
typedef struct PmCgLower {
  PmCg *cg;
  PmCgRegion *r;
  const PmFn *fn;
  PmCgId *env;         // by value of fn
  const char *origin;  // the outermost composite that this is inside of, or NULL
  int32_t loc;         // of that call, else -1
} PmCgLower;

// Lowers the nodes of lw->fn, whose parameters are in lw->env.
void pm_cg_lower_body(PmCgLower *lw);
// The hook of the node's op.
void pm_cg_lower_node(PmCgLower *lw, const PmNode *n);
// First global index that a rank holds of the dim.
PmCoordTerm pm_cg_offset(const PmCg *cg, const PmDim *d);
// A collective as contiguous exchange, with the splits, transposes and merges that it needs around it.
PmCgId pm_cg_lower_collective(PmCgLower *lw, const PmNode *n, PmCgNode node, PmCgId in, const PmCgValue *result);
// x of every member of the group of `like`, along an axis in front of x's own.
PmCgId pm_cg_gather_members(PmCgLower *lw, const PmCgNode *like, PmCgId x);
// gather_rows or scatter_rows of `src` by `idx`, on contiguous rows.
PmCgId pm_cg_lower_rows(PmCgLower *lw, const PmNode *n, PmCgNode node, PmCgId src, PmCgId idx, const PmCgValue *result);
// x with its axes in the given order; x itself when they are.
PmCgId pm_cg_transpose(PmCg *cg, PmCgRegion *r, const PmCgNode *like, PmCgId x, const PmCgDim *dims, int32_t rank);

#endif
