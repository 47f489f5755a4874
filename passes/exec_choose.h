// How each node of the placed graph runs on the mesh.
#ifndef PM_PASSES_EXEC_CHOOSE_H
#define PM_PASSES_EXEC_CHOOSE_H

#include "passes/shard_rules.h"
#include "passes/tree.h"

// What a collective costs beyond its bytes, in bytes: some microseconds at a few gigabytes a second.
#define PM_COLLECTIVE_CHARGE 65536

// The split of each of a node's factors, with conflicts settled.
typedef struct PmExec {
  PmFactors factors;
  PmSplit *split;    // per factor
  uint32_t sums;     // bit per mesh axis: split of a summed factor; the raw result is partial over it
  uint32_t crosses;  // bit per mesh axis: splits both rows and positions, so that rows move between its ranks
} PmExec;

// For one node of the placed function `f`, which is no call. Allocated in `arena`.
PmExec pm_exec_choose(PmArena *arena, const PmModule *m, const PmFn *f, const PmNode *n);

// For all nodes of the tree's functions: [tree function][node]; of calls nothing. Allocated in `arena`. Holds as long
// as the functions stay as they are.
PmExec *const *pm_exec_table(PmArena *arena, const PmModule *m, const PmTree *tree);

#endif
