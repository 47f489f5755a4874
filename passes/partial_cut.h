// Where partial sums are reduced: a minimum cut of the linear region behind each of them.
#ifndef PM_PASSES_PARTIAL_CUT_H
#define PM_PASSES_PARTIAL_CUT_H

#include "passes/exec_choose.h"

// Bit per mesh axis: the raw value in this slot is a partial sum over it, carried on to those of its users that can
// take it so. Everything else reads the reduced value.
typedef struct PmPartials {
  uint32_t *mask;  // per slot
} PmPartials;

// `execs`: pm_exec_table of the tree. For every mesh axis: sources are summed split factors; a partial may pass nodes
// that are linear in it, and calls. The cut that moves the fewest bytes (a fixed charge a collective, times the turns
// of the repeats around it) is taken; ties go to the earliest place. Two partials that are added are so reduced once, a
// row-parallel product at once, and a parameter's gradient after its repeat. O(V E) for each mesh axis and augmenting
// path, on values that can be partial.
PmPartials pm_partial_cut(PmArena *arena, const PmModule *m, const PmTree *tree, PmExec *const *execs);

#endif
