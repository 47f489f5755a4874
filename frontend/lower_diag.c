#include <stdarg.h>
#include <string.h>

#include "base/glob.h"
#include "frontend/lower.h"

// Past this many errors the rest says little, and the walk ends.
#define MAX_ERRORS 60
// Past this many, errors are neither looked up nor counted: a hostile list has one at each name.
#define MAX_REMEMBERED 1024
#define MAX_WORK 262144
#define MAX_FUNCTIONS 8192
#define MAX_MATCHING (INT64_C(1) << 31)

static bool was_reported(const PmLower *lw, PmSpan span) {
  for (int32_t i = 0; i < lw->n_reported; i++) {
    if (lw->reported[i].file == span.file && lw->reported[i].lo == span.lo) return true;
  }
  return false;
}

static void remember(PmLower *lw, PmSpan span) {
  lw->reported = pm_grow(lw->arena, lw->reported, lw->n_reported, &lw->cap_reported, sizeof *lw->reported);
  lw->reported[lw->n_reported++] = span;
}

// The newest call out of another file, through which the walk came to `span`; file -1: none.
static PmSpan call_from_outside(const PmLower *lw, PmSpan span) {
  for (int32_t i = lw->n_active - 1; i >= 0; i--) {
    PmSpan call = lw->active_calls[i];
    if (call.file >= 0 && call.file != span.file) return call;
  }
  return PM_NO_SPAN;
}

bool pm_lw_error(PmLower *lw, PmDiagCode code, PmSpan span, const char *fmt, ...) {
  if (lw->trial) return false;
  // An error inside a function of another file has its cause in the call that led there: one error a call.
  PmSpan call = call_from_outside(lw, span);
  if (lw->n_reported >= MAX_REMEMBERED) return false;
  if (was_reported(lw, span) || (call.file >= 0 && was_reported(lw, call))) return false;
  remember(lw, span);
  if (call.file >= 0) remember(lw, call);
  if (lw->n_reported >= MAX_ERRORS) lw->stopped = true;
  PmBuf text;
  pm_buf_init(&text);
  va_list ap;
  va_start(ap, fmt);
  pm_buf_vprintf(&text, fmt, ap);
  va_end(ap);
  pm_diag(lw->diags, code, span, "%s", pm_buf_str(&text));
  pm_buf_deinit(&text);
  if (call.file >= 0) pm_diag_label(lw->diags, call, "called here");
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

void pm_lw_suggest(PmLower *lw, const char *name, const char *const *candidates, int32_t n) {
  const char *near = pm_did_you_mean(name, candidates, n);
  if (near) pm_diag_suggest(lw->diags, name, near);
}

void pm_lw_suggest_from(PmLower *lw, const char *name, const char *const *candidates, int32_t n, const char *what) {
  if (pm_did_you_mean(name, candidates, n)) {
    pm_lw_suggest(lw, name, candidates, n);
    return;
  }
  if (n == 0) return;
  PmBuf text;
  pm_buf_init(&text);
  for (int32_t i = 0; i < n; i++) {
    pm_buf_printf(&text, "%s`%s`", i == 0 ? "" : i == n - 1 ? " and " : ", ", candidates[i]);
  }
  pm_diag_note(lw->diags, "%s %s", what, pm_buf_str(&text));
  pm_buf_deinit(&text);
}

const char *pm_lw_bare_text(PmLower *lw, PmSpan span) {
  const char *text = pm_lw_text(lw, span);
  size_t n = strlen(text);
  return text[0] == '`' ? pm_arena_strndup(lw->arena, text + 1, n - 2) : text;
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
  const PmSourceFile *file = &lw->sources->files[span.file];
  PmLoc loc = {.path = pm_intern(lw->names, file->path)};
  // Columns are counted from the start of the line, and a hostile file has one line of a million names: go on from the
  // newest place where that is possible.
  PmSpan last = lw->last_loc_span;
  int32_t line = lw->last_loc.line;
  bool same_line = last.file == span.file && line > 0 && span.lo >= last.lo &&
                   (line == file->n_lines || span.lo < file->line_starts[line]);
  if (same_line) {
    loc.line = line;
    loc.col = lw->last_loc.col;
    for (int32_t i = last.lo; i < span.lo; i++) loc.col += ((unsigned char)file->text[i] & 0xc0) != 0x80;
  } else {
    pm_sources_line_col(lw->sources, span.file, span.lo, &loc.line, &loc.col);
  }
  lw->last_loc_span = span;
  lw->last_loc = loc;
  return loc;
}

// A limit is reported even where what does not build is given up in silence.
static void stop(PmLower *lw, PmSpan span, const char *what, int32_t most) {
  bool trial = lw->trial;
  lw->trial = false;
  lw->stopped = true;
  pm_lw_error(lw, PM_E_LIMIT, span, "the program expands to more than %d %s", most, what);
  lw->trial = trial;
}

bool pm_lw_work(PmLower *lw, PmSpan span) {
  if (++lw->work <= MAX_WORK) return true;
  if (!lw->stopped) stop(lw, span, "expressions", MAX_WORK);
  return false;
}

PmFnId pm_lw_add_fn(PmLower *lw, const char *name, PmFnKind kind, PmSpan span) {
  if (!lw->fn_names.slots) pm_name_map_init(&lw->fn_names, lw->arena);
  name = pm_intern(lw->names, name);
  int32_t at = pm_name_map_get(&lw->fn_names, name);
  if (at == PM_NONE) {
    at = lw->n_fn_numbers++;
    lw->fn_numbers = pm_grow(lw->arena, lw->fn_numbers, at, &lw->cap_fn_numbers, sizeof *lw->fn_numbers);
    lw->fn_numbers[at] = 1;
    pm_name_map_add(&lw->fn_names, name, at);
  }
  if (lw->m->n_fns >= MAX_FUNCTIONS && !lw->stopped) stop(lw, span, "functions", MAX_FUNCTIONS);
  return pm_module_add_fn_from(lw->m, name, kind, &lw->fn_numbers[at]);
}

bool pm_lw_matches(PmLower *lw, PmName glob, const char *path) {
  if (lw->stopped) return false;
  lw->matching += 32 + (int64_t)strlen(glob.text) * (int64_t)strlen(path);
  if (lw->matching <= MAX_MATCHING) return pm_glob_match(glob.text, path);
  pm_lw_error(lw, PM_E_LIMIT, glob.span, "there are too many patterns for so many paths");
  lw->stopped = true;
  return false;
}
