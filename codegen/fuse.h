// What the files of fusion share.
#ifndef PM_CODEGEN_FUSE_H
#define PM_CODEGEN_FUSE_H

#include "codegen/region.h"

enum { PM_CG_CHEAP = 8 };  // cost up to which several kernels may compute a value

// In double: by the interpreter of kernels.
bool pm_cg_is_host(const PmCgRegion *r, const PmCgNode *n);
// Computed once, and stored when any other kernel wants it.
bool pm_cg_is_anchored(const PmCgRegion *r, PmCgId v);
// Computed by kernels, at home in one of them; the rest is computed where it is used, or has a step of its own.
bool pm_cg_is_homed(const PmCgRegion *r, PmCgId v);
// Of the node's own function.
int32_t pm_cg_node_cost(const PmCgNode *n);
// Of one element of v, from what is stored; what is shared counts once. `seen`: zeroed, by value.
int32_t pm_cg_cost(const PmCgRegion *r, int32_t *seen, PmCgId v);
// Fills `cost` and `spread` of r->info.
void pm_cg_find_costs(PmCg *cg, PmCgRegion *r);
// Completes `stored` of r->info.
void pm_cg_choose_stored(PmCg *cg, PmCgRegion *r);

#endif
