#include "base/diag.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/assert.h"
#include "base/diag_items.h"
#include "base/json.h"

#define MAX_PRINTED 20
// A hostile file may hold a mistake in every byte: more than this are counted, but not kept.
#define MAX_STORED 4096

typedef struct CodeRow {
  const char *code;
  PmSeverity severity;
  const char *title, *page;
} CodeRow;

static const CodeRow rows[PM_DIAG_COUNT] = {
#define DIAG(name, code, severity, title, page) [PM_##name] = {code, PM_SEV_##severity, title, page},
#include "base/diag.def"
};

static const CodeRow *row_of(PmDiagCode code) {
  PM_ASSERT((unsigned)code < PM_DIAG_COUNT, "diagnostic code %d", (int)code);
  return &rows[code];
}

const char *pm_diag_code_text(PmDiagCode code) { return row_of(code)->code; }
const char *pm_diag_title(PmDiagCode code) { return row_of(code)->title; }
const char *pm_diag_page(PmDiagCode code) { return row_of(code)->page; }
PmSeverity pm_diag_severity(PmDiagCode code) { return row_of(code)->severity; }

bool pm_diag_find(const char *text, PmDiagCode *out_code) {
  for (int i = 0; i < PM_DIAG_COUNT; i++) {
    if (strcasecmp(rows[i].code, text) == 0) {
      *out_code = (PmDiagCode)i;
      return true;
    }
  }
  return false;
}

PmDiags *pm_diags_new(PmArena *arena, const PmSources *sources) {
  PmDiags *d = PM_NEW(arena, PmDiags);
  d->arena = arena;
  d->sources = sources;
  return d;
}

static const char *format_text(PmArena *arena, const char *fmt, va_list ap) {
  PmBuf text;
  pm_buf_init(&text);
  pm_buf_vprintf(&text, fmt, ap);
  const char *copy = pm_arena_strdup(arena, pm_buf_str(&text));
  pm_buf_deinit(&text);
  return copy;
}

void pm_diag(PmDiags *d, PmDiagCode code, PmSpan span, const char *fmt, ...) {
  int32_t *count = row_of(code)->severity == PM_SEV_ERROR ? &d->n_errors : &d->n_warnings;
  if (*count < INT32_MAX) ++*count;
  d->overflow = d->n_items >= MAX_STORED;
  if (d->overflow) return;
  va_list ap;
  va_start(ap, fmt);
  const char *message = format_text(d->arena, fmt, ap);
  va_end(ap);
  d->items = pm_grow(d->arena, d->items, d->n_items, &d->cap_items, sizeof *d->items);
  d->items[d->n_items++] = (PmDiagItem){.code = code, .span = span, .message = message};
}

// The diagnostic that labels and children belong to, or NULL when it isn't kept.
static PmDiagItem *newest(PmDiags *d) {
  PM_ASSERT(d->n_items > 0, "a label or note before the first diagnostic");
  return d->overflow ? NULL : &d->items[d->n_items - 1];
}

void pm_diag_label(PmDiags *d, PmSpan span, const char *fmt, ...) {
  PmDiagItem *item = newest(d);
  if (!item) return;
  va_list ap;
  va_start(ap, fmt);
  const char *text = format_text(d->arena, fmt, ap);
  va_end(ap);
  item->labels = pm_grow(d->arena, item->labels, item->n_labels, &item->cap_labels, sizeof *item->labels);
  item->labels[item->n_labels++] = (PmDiagLabel){span, text};
}

static void add_child(PmDiags *d, const char *level, const char *fmt, va_list ap) {
  PmDiagItem *item = newest(d);
  if (!item) return;
  const char *text = format_text(d->arena, fmt, ap);
  item->children = pm_grow(d->arena, item->children, item->n_children, &item->cap_children, sizeof *item->children);
  item->children[item->n_children++] = (PmDiagChild){level, text, NULL};
}

void pm_diag_note(PmDiags *d, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  add_child(d, "note", fmt, ap);
  va_end(ap);
}

void pm_diag_help(PmDiags *d, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  add_child(d, "help", fmt, ap);
  va_end(ap);
}

static bool stands_at(const PmDiags *d, PmSpan span, const char *name) {
  if (!pm_span_placed(d, span)) return false;
  size_t n = strlen(name);
  return (size_t)(span.hi - span.lo) == n && memcmp(d->sources->files[span.file].text + span.lo, name, n) == 0;
}

void pm_diag_suggest(PmDiags *d, const char *name, const char *near) {
  pm_diag_help(d, "did you mean `%s`?", near);
  PmDiagItem *item = newest(d);
  if (!item || !stands_at(d, item->span, name)) return;
  item->children[item->n_children - 1].edit = pm_arena_strdup(d->arena, near);
}

static int compare_edits(const void *pa, const void *pb) {
  const PmSpan *a = &((const PmDiagEdit *)pa)->span, *b = &((const PmDiagEdit *)pb)->span;
  if (a->file != b->file) return a->file < b->file ? -1 : 1;
  return a->lo < b->lo ? -1 : a->lo > b->lo;
}

int32_t pm_diags_edits(const PmDiags *d, PmDiagEdit **out) {
  PmDiagEdit *edits = PM_NEW_N(d->arena, PmDiagEdit, d->n_items + 1);
  int32_t n = 0, kept = 0;
  for (int32_t i = 0; i < d->n_items; i++) {
    const PmDiagItem *item = &d->items[i];
    for (int32_t c = 0; c < item->n_children; c++) {
      if (!item->children[c].edit) continue;
      edits[n++] = (PmDiagEdit){item->span, item->children[c].edit};
      break;
    }
  }
  if (n > 0) qsort(edits, (size_t)n, sizeof *edits, compare_edits);
  for (int32_t i = 0; i < n; i++) {
    const PmSpan *last = kept > 0 ? &edits[kept - 1].span : NULL;
    if (last && last->file == edits[i].span.file && edits[i].span.lo < last->hi) continue;
    edits[kept++] = edits[i];
  }
  *out = edits;
  return kept;
}

int32_t pm_diags_errors(const PmDiags *d) {
  int32_t n = d->n_errors;
  if (d->strict && __builtin_add_overflow(n, d->n_warnings, &n)) n = INT32_MAX;
  return n;
}

int32_t pm_diags_warnings(const PmDiags *d) { return d->strict ? 0 : d->n_warnings; }

void pm_diags_set_strict(PmDiags *d, bool strict) { d->strict = strict; }

bool pm_span_placed(const PmDiags *d, PmSpan span) { return span.file >= 0 && span.file < d->sources->n_files; }

int32_t pm_diag_primary_label(const PmDiags *d, const PmDiagItem *item) {
  if (!pm_span_placed(d, item->span)) return -1;
  for (int32_t i = 0; i < item->n_labels; i++) {
    PmSpan s = item->labels[i].span;
    if (s.file == item->span.file && s.lo == item->span.lo && s.hi == item->span.hi) return i;
  }
  return -1;
}

const char *pm_diag_level(const PmDiags *d, PmDiagCode code) {
  return d->strict || row_of(code)->severity == PM_SEV_ERROR ? "error" : "warning";
}

static void json_span(PmJson *j, const PmDiags *d, PmSpan span, bool primary, const char *label, const char *edit) {
  int32_t line, col, end_line, end_col;
  pm_sources_line_col(d->sources, span.file, span.lo, &line, &col);
  pm_sources_line_col(d->sources, span.file, span.hi, &end_line, &end_col);
  pm_json_object(j);
  pm_json_key(j, "file_name");
  pm_json_str(j, d->sources->files[span.file].path);
  pm_json_key(j, "byte_start");
  pm_json_i64(j, span.lo);
  pm_json_key(j, "byte_end");
  pm_json_i64(j, span.hi);
  pm_json_key(j, "line_start");
  pm_json_i64(j, line);
  pm_json_key(j, "line_end");
  pm_json_i64(j, end_line);
  pm_json_key(j, "column_start");
  pm_json_i64(j, col);
  pm_json_key(j, "column_end");
  pm_json_i64(j, end_col);
  pm_json_key(j, "is_primary");
  pm_json_bool(j, primary);
  pm_json_key(j, "label");
  if (label) {
    pm_json_str(j, label);
  } else {
    pm_json_null(j);
  }
  if (edit) {
    pm_json_key(j, "suggested_replacement");
    pm_json_str(j, edit);
    pm_json_key(j, "suggestion_applicability");
    pm_json_str(j, "MachineApplicable");
  }
  pm_json_end_object(j);
}

// `item`: the diagnostic that the child belongs to, or NULL.
static void json_child(PmJson *j, const PmDiags *d, const PmDiagChild *child, const PmDiagItem *item) {
  pm_json_object(j);
  pm_json_key(j, "message");
  pm_json_str(j, child->text);
  pm_json_key(j, "code");
  pm_json_null(j);
  pm_json_key(j, "level");
  pm_json_str(j, child->level);
  pm_json_key(j, "spans");
  pm_json_array(j);
  if (item && child->edit) json_span(j, d, item->span, true, NULL, child->edit);
  pm_json_end_array(j);
  pm_json_key(j, "children");
  pm_json_array(j);
  pm_json_end_array(j);
  pm_json_key(j, "rendered");
  pm_json_null(j);
  pm_json_end_object(j);
}

// One object a line, with the keys of rustc's convention.
static void put_json(const PmDiags *d, const PmDiagItem *item, const char *rendered, PmBuf *out) {
  PmJson j;
  pm_json_init(&j, out, false);
  pm_json_object(&j);
  pm_json_key(&j, "message");
  pm_json_str(&j, item->message);
  pm_json_key(&j, "code");
  pm_json_object(&j);
  pm_json_key(&j, "code");
  pm_json_str(&j, pm_diag_code_text(item->code));
  pm_json_key(&j, "explanation");
  pm_json_str(&j, pm_diag_page(item->code));
  pm_json_end_object(&j);
  pm_json_key(&j, "level");
  pm_json_str(&j, pm_diag_level(d, item->code));
  pm_json_key(&j, "spans");
  pm_json_array(&j);
  int32_t own = pm_diag_primary_label(d, item);
  if (pm_span_placed(d, item->span)) json_span(&j, d, item->span, true, own < 0 ? NULL : item->labels[own].text, NULL);
  for (int32_t i = 0; i < item->n_labels; i++) {
    const PmDiagLabel *label = &item->labels[i];
    if (i != own && pm_span_placed(d, label->span)) json_span(&j, d, label->span, false, label->text, NULL);
  }
  pm_json_end_array(&j);
  pm_json_key(&j, "children");
  pm_json_array(&j);
  for (int32_t i = 0; i < item->n_children; i++) json_child(&j, d, &item->children[i], item);
  pm_json_end_array(&j);
  pm_json_key(&j, "rendered");
  pm_json_str(&j, rendered);
  pm_json_end_object(&j);
  pm_buf_putc(out, '\n');
}

static void put_json_count(const char *level, const char *text, PmBuf *out) {
  PmJson j;
  pm_json_init(&j, out, false);
  json_child(&j, NULL, &(PmDiagChild){level, text, NULL}, NULL);
  pm_buf_putc(out, '\n');
}

// Source order: file, then byte, then the order of reporting. Diagnostics without a place come last.
static int compare_items(const void *pa, const void *pb, void *context) {
  const PmDiags *d = context;
  int32_t ia = *(const int32_t *)pa, ib = *(const int32_t *)pb;
  const PmDiagItem *a = &d->items[ia], *b = &d->items[ib];
  bool a_placed = pm_span_placed(d, a->span), b_placed = pm_span_placed(d, b->span);
  if (a_placed != b_placed) return a_placed ? -1 : 1;
  if (a_placed && a->span.file != b->span.file) return a->span.file < b->span.file ? -1 : 1;
  if (a_placed && a->span.lo != b->span.lo) return a->span.lo < b->span.lo ? -1 : 1;
  return ia < ib ? -1 : ia > ib;
}

static const char *plural(int64_t n) { return n == 1 ? "" : "s"; }

void pm_diags_print(const PmDiags *d, bool json, FILE *to) {
  if (!d->n_items) return;
  PmBuf out, rendered;
  pm_buf_init(&out);
  pm_buf_init(&rendered);
  int32_t order[MAX_STORED];
  for (int32_t i = 0; i < d->n_items; i++) order[i] = i;
  qsort_r(order, (size_t)d->n_items, sizeof *order, compare_items, (void *)(uintptr_t)d);
  for (int32_t i = 0; i < d->n_items && i < MAX_PRINTED; i++) {
    const PmDiagItem *item = &d->items[order[i]];
    pm_buf_clear(&rendered);
    pm_diag_render(d, item, &rendered);
    if (json) {
      put_json(d, item, pm_buf_str(&rendered), &out);
    } else {
      pm_buf_puts(&out, pm_buf_str(&rendered));
    }
  }
  int64_t errors = pm_diags_errors(d), warnings = pm_diags_warnings(d);
  if (errors + warnings > MAX_PRINTED) {
    pm_buf_clear(&rendered);
    pm_buf_printf(&rendered, "%lld error%s and %lld warning%s in all; the first %d are shown", (long long)errors,
                  plural(errors), (long long)warnings, plural(warnings), MAX_PRINTED);
    if (json) {
      put_json_count(errors ? "error" : "warning", pm_buf_str(&rendered), &out);
    } else {
      pm_buf_printf(&out, "%s\n", pm_buf_str(&rendered));
    }
  }
  fwrite(pm_buf_str(&out), 1, out.len, to);
  pm_buf_deinit(&rendered);
  pm_buf_deinit(&out);
}
