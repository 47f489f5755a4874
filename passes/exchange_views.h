// Splits and merges of an axis whose parts lie across ranks in another way than the whole does.
#ifndef PM_PASSES_EXCHANGE_VIEWS_H
#define PM_PASSES_EXCHANGE_VIEWS_H

#include "ir/ir.h"

// The node, of a placed function, is a split in two axes, or a merge of two; one mesh axis divides the whole and one
// the minor part, and it is the same; and it does not divide the major part, from where an all-to-all would do. Rows
// are counted in 32 bits: longer axes are left alone.
bool pm_view_exchanges(const PmModule *m, const PmFn *f, const PmNode *n);

// Turns each such node of a placed module into a gather_rows: every position gets the row that stands there, from the
// rank that has it. Only rows that change ranks are sent, where otherwise the whole would be gathered on all of them.
// Values are numbered anew.
void pm_exchange_views(PmArena *scratch, PmModule *m);

#endif
