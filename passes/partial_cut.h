// Where partial sums are reduced: a minimum cut of the linear region behind each of them.
#ifndef PM_PASSES_PARTIAL_CUT_H
#define PM_PASSES_PARTIAL_CUT_H

#include "passes/shard_rules.h"
#include "passes/tree.h"

// What a collective costs beyond its bytes, in bytes: some microseconds at a few gigabytes a second.
#define PM_COLLECTIVE_CHARGE 65536

// How a node of the placed graph runs: the split of each of its factors, with conflicts settled.
typedef struct PmExec {
  PmFactors factors;
  PmSplit *split;  // per factor
  uint32_t sums;   // bit per mesh axis: split of a summed factor; the raw result is partial over it
  uint32_t crosses;  // bit per mesh axis: splits both rows and positions, so that rows move between its ranks
} PmExec;

PmExec pm_exec_choose(PmArena *arena, const PmModule *m, const PmFn *f, const PmNode *n);

// Bit per mesh axis: the raw value in this slot is a partial sum over it, carried on to those of its users that can
// take it so. Everything else reads the reduced value.
typedef struct PmPartials {
  uint32_t *mask;  // per slot
} PmPartials;

// For every mesh axis: sources are summed split factors; a partial may pass nodes that are linear in it, and calls. The
// cut that moves the fewest bytes (a fixed charge a collective, times the turns of the repeats around it) is taken;
// ties go to the earliest place. Two partials that are added are so reduced once, a row-parallel product at once, and a
// parameter's gradient after its repeat. O(V E) for each mesh axis and augmenting path, on values that can be partial.
PmPartials pm_partial_cut(PmArena *arena, const PmModule *m, const PmTree *tree);

// Constant zero, which is as good as a partial sum.
bool pm_is_zero(const PmFn *f, PmValueId v);

#endif
