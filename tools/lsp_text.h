// Places in a text as an editor counts them (lines from 0, columns in UTF-16 units), words, and file URIs.
#ifndef PM_TOOLS_LSP_TEXT_H
#define PM_TOOLS_LSP_TEXT_H

#include <stdbool.h>

#include "base/source.h"

typedef struct PmLspPos {
  int32_t line, character;
} PmLspPos;

PmLspPos pm_lsp_pos(const PmSourceFile *f, int32_t at);
// The byte at a position; past the end of a line or of the text: that end.
int32_t pm_lsp_offset(const PmSourceFile *f, PmLspPos pos);

// Where a byte stands: false inside a comment or a string. *out_open: the innermost open bracket before it, or 0.
bool pm_lsp_in_code(const PmSourceFile *f, int32_t at, char *out_open);
// The name that touches byte `at`, as [*out_lo, *out_hi).
bool pm_lsp_word(const PmSourceFile *f, int32_t at, int32_t *out_lo, int32_t *out_hi);

// The path of a file: URI; any other URI is its own path. NULL when the path would hold a NUL.
const char *pm_lsp_path_of_uri(PmArena *arena, const char *uri);
const char *pm_lsp_uri_of_path(PmArena *arena, const char *path);

#endif
