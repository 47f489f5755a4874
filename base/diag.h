// Diagnostics: the user's text is wrong. Many per run; each has a code, a span with a caret, labels, notes and a
// help line.
//
//   pm_diag(d, PM_E_UNKNOWN_NAME, span, "unknown name `%s`", name);
//   pm_diag_label(d, other_span, "declared here");   // all of these attach to the newest diagnostic
//   pm_diag_help(d, "did you mean `%s`?", near);
//
// Codes, their severity, title and explanation are rows of base/diag.def; `pmodel explain CODE` prints the row.
#ifndef PM_BASE_DIAG_H
#define PM_BASE_DIAG_H

#include <stdbool.h>

#include "base/intern.h"
#include "base/source.h"

typedef enum PmDiagCode {
#define DIAG(name, code, severity, title, page) PM_##name,
#include "base/diag.def"
  PM_DIAG_COUNT
} PmDiagCode;

typedef enum PmSeverity { PM_SEV_ERROR, PM_SEV_WARNING } PmSeverity;

typedef struct PmDiags PmDiags;

PmDiags *pm_diags_new(PmArena *arena, const PmSources *sources);
void pm_diag(PmDiags *d, PmDiagCode code, PmSpan span, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
void pm_diag_label(PmDiags *d, PmSpan span, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void pm_diag_note(PmDiags *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void pm_diag_help(PmDiags *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
// "did you mean `near`?". Where the primary span is the text `name`, the help carries the edit that puts `near` there.
void pm_diag_suggest(PmDiags *d, const char *name, const char *near);

// An edit that a suggestion carries: `text` in place of `span`.
typedef struct PmDiagEdit {
  PmSpan span;
  const char *text;
} PmDiagEdit;
// The edits in the order of their places, none over another; the list lives in the arena of `d`.
int32_t pm_diags_edits(const PmDiags *d, PmDiagEdit **out);

int32_t pm_diags_errors(const PmDiags *d);
int32_t pm_diags_warnings(const PmDiags *d);
// Under --strict warnings count and print as errors.
void pm_diags_set_strict(PmDiags *d, bool strict);
// At most 20 are printed in source order, then a count. Text form as rustc's; json: one object a line.
void pm_diags_print(const PmDiags *d, bool json, FILE *to);

const char *pm_diag_code_text(PmDiagCode code);  // "E0231"
const char *pm_diag_title(PmDiagCode code);
const char *pm_diag_page(PmDiagCode code);
PmSeverity pm_diag_severity(PmDiagCode code);
bool pm_diag_find(const char *text, PmDiagCode *out_code);  // "E0231", any case

// The candidate nearest to `name` by edit distance (at most max(1, length / 3) edits), or NULL. Ties: the first.
const char *pm_did_you_mean(const char *name, const char *const *candidates, int32_t n);

#endif
