#include <stdarg.h>
#include <string.h>

#include "frontend/lower.h"

// Past this many errors the rest says little, and the walk ends.
#define MAX_ERRORS 60
#define MAX_WORK 4000000

bool pm_lw_error(PmLower *lw, PmDiagCode code, PmSpan span, const char *fmt, ...) {
  for (int32_t i = 0; i < lw->n_reported; i++) {
    if (lw->reported[i].file == span.file && lw->reported[i].lo == span.lo) return false;
  }
  lw->reported = pm_grow(lw->arena, lw->reported, lw->n_reported, &lw->cap_reported, sizeof *lw->reported);
  lw->reported[lw->n_reported++] = span;
  if (lw->n_reported >= MAX_ERRORS) lw->stopped = true;
  PmBuf text;
  pm_buf_init(&text);
  va_list ap;
  va_start(ap, fmt);
  pm_buf_vprintf(&text, fmt, ap);
  va_end(ap);
  pm_diag(lw->diags, code, span, "%s", pm_buf_str(&text));
  pm_buf_deinit(&text);
  // An error inside a function of another file means little without the call that led there.
  for (int32_t i = lw->n_active - 1; i >= 0; i--) {
    PmSpan call = lw->active_calls[i];
    if (call.file < 0 || call.file == span.file) continue;
    pm_diag_label(lw->diags, call, "in `%s`, called here", lw->active[i]->name.text);
    break;
  }
  return true;
}

void pm_lw_later(PmLower *lw, PmSpan span, const char *construct) {
  construct = pm_intern(lw->names, construct);
  for (int32_t i = 0; i < lw->n_later; i++) {
    if (lw->later[i] == construct) return;
  }
  lw->later = pm_grow(lw->arena, lw->later, lw->n_later, &lw->cap_later, sizeof *lw->later);
  lw->later[lw->n_later++] = construct;
  pm_lw_error(lw, PM_E_LATER, span, "%s: not supported by this version", construct);
}

PmVal pm_lw_later_val(PmLower *lw, PmSpan span, const char *construct) {
  pm_lw_later(lw, span, construct);
  return PM_ERROR_VAL;
}

void pm_lw_suggest(PmLower *lw, const char *name, const char *const *candidates, int32_t n) {
  const char *near = pm_did_you_mean(name, candidates, n);
  if (near) pm_diag_help(lw->diags, "did you mean `%s`?", near);
}

const char *pm_lw_text(PmLower *lw, PmSpan span) {
  if (span.file < 0 || span.hi - span.lo > 40) return "this value";
  const char *text = lw->sources->files[span.file].text + span.lo;
  size_t n = (size_t)(span.hi - span.lo);
  if (memchr(text, '\n', n)) return "this value";
  return pm_arena_printf(lw->arena, "`%.*s`", (int)n, text);
}

const char *pm_lw_axes(PmLower *lw, const PmType *t) {
  PmBuf text;
  pm_buf_init(&text);
  pm_buf_putc(&text, '[');
  for (int32_t i = 0; i < t->rank; i++) {
    pm_buf_printf(&text, "%s%s", i ? ", " : "", lw->m->axes[t->dims[i].axis].name);
  }
  pm_buf_putc(&text, ']');
  const char *out = pm_arena_strdup(lw->arena, pm_buf_str(&text));
  pm_buf_deinit(&text);
  return out;
}

const char *pm_lw_val_axes(PmLower *lw, const PmVal *v) {
  return v->kind == PM_V_NODE ? pm_lw_axes(lw, pm_val_type(lw, v)) : "a number";
}

PmLoc pm_lw_loc(PmLower *lw, PmSpan span) {
  if (lw->user_call.file >= 0) span = lw->user_call;
  if (span.file < 0) return (PmLoc){0};
  PmLoc loc = {.path = pm_intern(lw->names, lw->sources->files[span.file].path)};
  pm_sources_line_col(lw->sources, span.file, span.lo, &loc.line, &loc.col);
  return loc;
}

bool pm_lw_work(PmLower *lw, PmSpan span) {
  if (++lw->work <= MAX_WORK) return true;
  lw->stopped = true;
  pm_lw_error(lw, PM_E_LIMIT, span, "the program expands to more than %d expressions", MAX_WORK);
  return false;
}
