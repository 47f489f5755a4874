// What a placement came to that its author is unlikely to have meant.
#ifndef PM_PASSES_PLACE_WARN_H
#define PM_PASSES_PLACE_WARN_H

#include "passes/place.h"

// `m` has its placed types already. Warns of values of the model's forward and backward that a rule splits on the way in
// and that are not split so inside (W0409), and of ops that need an axis whole which comes split, where what is gathered
// is large (W0410). `update_fn`: per tree function, whether it belongs to the optimizer.
void pm_place_warn(const PmModule *m, const PmTree *tree, const PmPlaced *slots, const bool *update_fn, PmDiags *diags);

#endif
