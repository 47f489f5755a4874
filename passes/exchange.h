// Which lookups and scatters of a placed module run as an exchange of rows among ranks.
#ifndef PM_PASSES_EXCHANGE_H
#define PM_PASSES_EXCHANGE_H

#include "ir/ir.h"

// By axis: slots that some slot_of gives out. Indices into it name each row once.
bool *pm_slot_axes(PmArena *arena, const PmModule *m);

// Turns each scatter_add by slots, with the `split` of its rows behind it, into a scatter_rows, and each index by
// slots, with the `merge` of its rows before it, into a gather_rows, where both the rows and the positions are split
// over a mesh axis of more than one rank: then only the rows that are chosen move, at most one for each position, where
// otherwise all positions' rows would be gathered, or results for all positions reduced.
// Values keep their ids, nodes do not keep their places.
void pm_exchange_form(PmArena *scratch, PmModule *m);

#endif
