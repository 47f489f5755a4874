// Private to place: splits travel from the values that rules bind to all others.
//
// A group is what must be split alike: the dims along one factor of a node (shard_rules.h), or one dim of a value on
// both sides of a call, or of a variable in every function that has it. Only splits travel: that a rule closed an axis
// of one value says nothing of its neighbours. A value takes of its neighbour's split the longest prefix that its own
// other dims leave free and that divides.
#ifndef PM_PASSES_PROPAGATE_H
#define PM_PASSES_PROPAGATE_H

#include "passes/place.h"

typedef struct PmPropagation PmPropagation;

// Finds the groups of the tree's functions. `slots`: per slot of the tree, read and written by pm_propagate. `apart`:
// the optimizer's part of the step is propagated on its own, and variables that it gives back are not linked with what
// they were. Lives in `scratch`; module, tree and slots must stay where they are as long.
PmPropagation *pm_propagation_new(PmArena *scratch, const PmModule *m, const PmTree *tree, PmPlaced *slots, bool apart);

// Fills dims that are not decided, rule by rule in the plan's order, so that of two splits that meet in an open value
// the earlier rule's wins; for each rule to three fixed points: along pointwise ops and views in both directions, so
// that `dot(x, w) + b` is split as its named sum is; then along all ops from operands to results; then in all
// directions. Forward before backward keeps the choice of a producer over that of a consumer, so that a value that
// several others read is split as it comes. `update`: where the optimizer's part is apart, that part; else the rest.
// What the slots hold when it is called is final.
void pm_propagate(PmPropagation *p, bool update);

// Per tree function: it is the optimizer's as a whole.
const bool *pm_propagation_updates(const PmPropagation *p);

#endif
