// The answers of `pmodel lsp` about one document: each writes one JSON value.
#ifndef PM_TOOLS_LSP_ANSWERS_H
#define PM_TOOLS_LSP_ANSWERS_H

#include "base/json.h"
#include "tools/lsp_doc.h"
#include "tools/lsp_text.h"

#define PM_LSP_MAX_DIAGS 200

// The parameters of textDocument/publishDiagnostics. d NULL: the document `uri` was closed and has none.
void pm_lsp_put_diagnostics(PmJson *j, const PmLspDoc *d, const char *uri);
// A Hover, or null. `scratch` is for what the answer needs while it is written.
void pm_lsp_put_hover(PmJson *j, PmArena *scratch, const PmLspDoc *d, PmLspPos pos);
// A Location, or null.
void pm_lsp_put_definition(PmJson *j, PmArena *scratch, const PmLspDoc *d, PmLspPos pos);
// The edits that `pmodel fmt` would make: one of the whole text, or none; null when the text has syntax errors.
void pm_lsp_put_formatting(PmJson *j, PmArena *scratch, const PmLspDoc *d);
// A list of completion items: axes, where the position is inside square brackets.
void pm_lsp_put_completion(PmJson *j, PmArena *scratch, const PmLspDoc *d, PmLspPos pos);

void pm_lsp_put_range(PmJson *j, const PmSourceFile *f, int32_t lo, int32_t hi);

#endif
