// The functions that an entry function reaches, callers before callees and earlier calls first, with how often each
// runs.
#ifndef PM_TOOLS_REACH_H
#define PM_TOOLS_REACH_H

#include "base/checked.h"
#include "ir/ir.h"

typedef struct PmReach {
  PmFnId *fns;
  int64_t *runs;  // by position in fns: how often it runs in one run of the entry; saturates at INT64_MAX
  int32_t n;
} PmReach;

PmReach pm_reach(PmArena *arena, const PmModule *m, PmFnId entry);
// How often one run of the node runs its callee: the extent of a repeat, else 1.
int64_t pm_node_turns(const PmModule *m, const PmNode *n);

// Counts of a program that no machine will ever run: they stop at INT64_MAX.
static inline int64_t pm_saturating_add(int64_t a, int64_t b) {
  int64_t sum;
  return pm_add_i64(a, b, &sum) ? sum : INT64_MAX;
}
static inline int64_t pm_saturating_mul(int64_t a, int64_t b) {
  int64_t product;
  return pm_mul_i64(a, b, &product) ? product : INT64_MAX;
}

#endif
