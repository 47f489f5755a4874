// What a PmDiags holds, for the files that store and print it (diag.c, render.c); everyone else uses base/diag.h.
#ifndef PM_BASE_DIAG_ITEMS_H
#define PM_BASE_DIAG_ITEMS_H

#include "base/diag.h"

typedef struct PmDiagLabel {
  PmSpan span;
  const char *text;
} PmDiagLabel;

typedef struct PmDiagChild {
  const char *level;  // "note" or "help"
  const char *text;
  const char *edit;  // what the primary span should be replaced by, or NULL
} PmDiagChild;

typedef struct PmDiagItem {
  PmDiagCode code;
  PmSpan span;
  const char *message;
  PmDiagLabel *labels;
  int32_t n_labels, cap_labels;
  PmDiagChild *children;
  int32_t n_children, cap_children;
} PmDiagItem;

struct PmDiags {
  PmArena *arena;
  const PmSources *sources;
  PmDiagItem *items;
  int32_t n_items, cap_items;
  int32_t n_errors, n_warnings;  // all that were reported, stored or not
  bool strict;
  bool overflow;  // the newest diagnostic was counted but not stored
};

bool pm_span_placed(const PmDiags *d, PmSpan span);
// "error" or "warning", as --strict has it.
const char *pm_diag_level(const PmDiags *d, PmDiagCode code);
// The first label that stands at the primary span itself, or -1: its text belongs to the primary's caret.
int32_t pm_diag_primary_label(const PmDiags *d, const PmDiagItem *item);
// Appends the text form of one diagnostic, with a line end.
void pm_diag_render(const PmDiags *d, const PmDiagItem *item, PmBuf *out);

#endif
