// Ring attention: keys and values go round, and every rank meets every block of them.
#ifndef PM_PASSES_RING_H
#define PM_PASSES_RING_H

#include "ir/build.h"
#include "passes/attend.h"

// Writes the body of b's function, at stage LOCAL, whose parameters are made: attention `core` of `old`, the placed
// function that it takes the place of. `results`: the types that its results are brought to; the results are set.
//
// Of c ranks each begins with its own block, then takes c - 1 turns. In a turn keys and values move on by one rank
// (`shift`), and what they add is merged: (o, m, l) by the running maximum m of the scores, with o and l in f32.
// The backward sends the sums of dk and dv round with their block, and once more home: c shifts. A block that comes
// from a later part of the sequence is masked as a whole; of the own block the usual triangle is. No row is ever
// masked whole, since a query sees its own key.
void pm_ring_build(PmBuilder *b, const PmFn *old, const PmCore *core, const PmType *results);

#endif
