// Inputs that name rows of a cut table, as tokens do those of a vocabulary-parallel embedding.
#ifndef PM_PASSES_PLACE_INPUTS_H
#define PM_PASSES_PLACE_INPUTS_H

#include "passes/place.h"

// Bars propagation from splitting such an input over the mesh axes that cut the rows: every lookup would have to gather
// it, where a whole one costs nothing, as it comes from the host, and is sliced for nothing where another use wants a
// part. Rules still may. Sets PmPlaced.barred of the inputs and of all parameters that they are handed to. Call after
// the rules have fired.
void pm_place_inputs(PmArena *scratch, const PmModule *m, const PmTree *tree, PmPlaced *slots);

#endif
