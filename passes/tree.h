// The functions that the entry functions reach, as a tree: after `specialise` each has exactly one caller, so that a
// value has one placement. Every (function, value) pair has a slot in flat side tables.
#ifndef PM_PASSES_TREE_H
#define PM_PASSES_TREE_H

#include "ir/ir.h"

typedef struct PmTreeFn {
  PmFnId fn;
  int32_t parent;  // index into PmTree.fns of the caller, PM_NONE for an entry function
  int32_t node;    // the calling node in the parent
  int64_t turns;   // product of the repeat extents around it
  int32_t slot;    // slot of value 0
  bool opaque;     // `partition` writes its body anew, as a whole: no partial sum crosses into it or out of it
} PmTreeFn;

typedef struct PmTree {
  int32_t n_fns;
  PmTreeFn *fns;   // callers before callees; entry functions (step, eval) first
  int32_t *of_fn;  // per PmFnId: index into fns, or PM_NONE
  int32_t n_slots;
} PmTree;

// Gives every call and repeat node a callee of its own by cloning shared callees. Deterministic.
void pm_specialise(PmModule *m);
PmTree pm_tree_build(PmArena *arena, const PmModule *m);

static inline int32_t pm_slot(const PmTreeFn *t, PmValueId v) { return t->slot + v; }
// The callee's tree entry for a call or repeat node of `t`.
const PmTreeFn *pm_tree_callee(const PmTree *tree, const PmNode *n);

// How values cross a call or repeat node: operand i is the callee's parameter i; result i is its result i. For repeat
// nodes: what kind of crossing each is.
typedef enum PmCross { PM_CROSS_PLAIN, PM_CROSS_CARRY, PM_CROSS_STACK } PmCross;
PmCross pm_cross_in(const PmNode *n, int32_t i);
PmCross pm_cross_out(const PmNode *n, int32_t i);

#endif
