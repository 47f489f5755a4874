// The canonical layout of a program: what `pmodel fmt` writes.
//
// Kept: every token but `;` at a line end, every comment, the author's line breaks, single blank lines. Set anew: the
// indentation (two spaces a brace, four for a line that goes on), the space between tokens, the column of comments at
// line ends (neighbours share one), breaks after `{` and around `}` of a block of several lines. Formatting twice
// changes nothing, and the tree stays the same.
#ifndef PM_FRONTEND_FORMAT_H
#define PM_FRONTEND_FORMAT_H

#include "base/diag.h"
#include "base/intern.h"

// Appends the text of source `file` in its canonical layout. False, with diagnostics and nothing appended, where the
// text does not follow the grammar. is_plan: the items of a plan alone (a .pplan), not a whole program.
bool pm_format(PmArena *arena, PmInterner *names, const PmSources *sources, PmDiags *diags, int32_t file, bool is_plan,
               PmBuf *out);

#endif
