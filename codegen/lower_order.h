// Splits in zigzag order (PmSplit): global positions, and the two orders of an axis that is held whole.
#ifndef PM_CODEGEN_LOWER_ORDER_H
#define PM_CODEGEN_LOWER_ORDER_H

#include "codegen/lower.h"

// Where element i of what a rank holds of a dim in zigzag order stands in the axis:
//   global index = i + minor + (i + minor < chunk ? early : late)
// minor: by the mesh axes behind the first; early, late: by the first, for the rank's two chunks of `chunk` elements.
typedef struct PmCgZigzag {
  int64_t chunk;
  PmCoordTerm minor, early, late;
} PmCgZigzag;

PmCgZigzag pm_cg_zigzag(const PmCg *cg, const PmDim *d);
// Global positions along the dim, as exact numbers; `like` is the node of `pos`.
PmCgId pm_cg_zigzag_pos(PmCg *cg, PmCgRegion *r, const PmCgNode *like, const PmDim *d);
// x, which has all of `axis` in the order of `ranks` zigzag parts one after the other, in its own order; or, with
// `apart`, the other way round.
PmCgId pm_cg_reorder(PmCg *cg, PmCgRegion *r, const PmCgNode *like, PmCgId x, int32_t axis, int64_t ranks, bool apart);

#endif
