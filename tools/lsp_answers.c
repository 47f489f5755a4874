#include "tools/lsp_answers.h"

#include <string.h>

#include "base/diag_items.h"
#include "frontend/format.h"
#include "tools/lsp_names.h"
#include "tools/show.h"

static void put_pos(PmJson *j, const PmSourceFile *f, int32_t at) {
  PmLspPos pos = pm_lsp_pos(f, at);
  pm_json_object(j);
  pm_json_put_i64(j, "line", pos.line);
  pm_json_put_i64(j, "character", pos.character);
  pm_json_end_object(j);
}

void pm_lsp_put_range(PmJson *j, const PmSourceFile *f, int32_t lo, int32_t hi) {
  pm_json_object(j);
  pm_json_key(j, "start");
  put_pos(j, f, lo);
  pm_json_key(j, "end");
  put_pos(j, f, hi);
  pm_json_end_object(j);
}

// The message with its notes; what stands outside of the document names its place.
static void put_message(PmJson *j, const PmLspState *s, const PmDiagItem *item) {
  PmBuf text;
  pm_buf_init(&text);
  if (item->span.file >= 0 && item->span.file != s->file) {
    pm_sources_put_loc(&s->sources, item->span, &text);
    pm_buf_puts(&text, ": ");
  }
  pm_buf_puts(&text, item->message);
  int32_t own = pm_diag_primary_label(s->diags, item);
  if (own >= 0) pm_buf_printf(&text, ": %s", item->labels[own].text);
  for (int32_t i = 0; i < item->n_labels; i++) {
    if (i == own || item->labels[i].span.file == s->file) continue;
    pm_buf_puts(&text, "\n");
    pm_sources_put_loc(&s->sources, item->labels[i].span, &text);
    pm_buf_printf(&text, ": %s", item->labels[i].text);
  }
  for (int32_t i = 0; i < item->n_children; i++) {
    pm_buf_printf(&text, "\n%s: %s", item->children[i].level, item->children[i].text);
  }
  pm_json_put_str(j, "message", pm_buf_str(&text));
  pm_buf_deinit(&text);
}

static void put_related(PmJson *j, const PmLspDoc *d, const PmDiagItem *item) {
  const PmLspState *s = d->now;
  int32_t own = pm_diag_primary_label(s->diags, item);
  pm_json_key(j, "relatedInformation");
  pm_json_array(j);
  for (int32_t i = 0; i < item->n_labels; i++) {
    const PmDiagLabel *label = &item->labels[i];
    if (i == own || label->span.file != s->file) continue;
    pm_json_object(j);
    pm_json_key(j, "location");
    pm_json_object(j);
    pm_json_put_str(j, "uri", d->uri);
    pm_json_key(j, "range");
    pm_lsp_put_range(j, pm_lsp_source(s), label->span.lo, label->span.hi);
    pm_json_end_object(j);
    pm_json_put_str(j, "message", label->text);
    pm_json_end_object(j);
  }
  pm_json_end_array(j);
}

static void put_diagnostic(PmJson *j, const PmLspDoc *d, const PmDiagItem *item) {
  const PmLspState *s = d->now;
  bool here = item->span.file == s->file;
  pm_json_object(j);
  pm_json_key(j, "range");
  pm_lsp_put_range(j, pm_lsp_source(s), here ? item->span.lo : 0, here ? item->span.hi : 0);
  pm_json_put_i64(j, "severity", strcmp(pm_diag_level(s->diags, item->code), "error") == 0 ? 1 : 2);
  pm_json_put_str(j, "code", pm_diag_code_text(item->code));
  pm_json_put_str(j, "source", "pmodel");
  put_message(j, s, item);
  put_related(j, d, item);
  pm_json_end_object(j);
}

static void put_failure(PmJson *j, const PmLspState *s) {
  pm_json_object(j);
  pm_json_key(j, "range");
  pm_lsp_put_range(j, pm_lsp_source(s), 0, 0);
  pm_json_put_i64(j, "severity", 1);
  pm_json_put_str(j, "source", "pmodel");
  pm_json_put_str(j, "message", s->failure);
  pm_json_end_object(j);
}

void pm_lsp_put_diagnostics(PmJson *j, const PmLspDoc *d, const char *uri) {
  pm_json_object(j);
  pm_json_put_str(j, "uri", uri);
  if (d && d->has_version) pm_json_put_i64(j, "version", d->version);
  pm_json_key(j, "diagnostics");
  pm_json_array(j);
  if (d && d->now->failure) put_failure(j, d->now);
  int32_t n = d ? d->now->diags->n_items : 0;
  for (int32_t i = 0; i < n && i < PM_LSP_MAX_DIAGS; i++) put_diagnostic(j, d, &d->now->diags->items[i]);
  pm_json_end_array(j);
  pm_json_end_object(j);
}

void pm_lsp_put_definition(PmJson *j, PmArena *scratch, const PmLspDoc *d, PmLspPos pos) {
  const PmLspState *s = d->now;
  const PmSourceFile *f = pm_lsp_source(s);
  int32_t at = pm_lsp_offset(f, pos), lo, hi;
  char open;
  PmLspDecl first, near;
  bool found = pm_lsp_in_code(f, at, &open) && pm_lsp_word(f, at, &lo, &hi) &&
               pm_lsp_find(s, pm_arena_strndup(scratch, f->text + lo, (size_t)(hi - lo)), lo, &first, &near);
  // The standard library is part of the program: no file has it.
  if (!found || strcmp(s->sources.files[first.span.file].path, "std") == 0) {
    pm_json_null(j);
    return;
  }
  const PmSourceFile *to = &s->sources.files[first.span.file];
  pm_json_object(j);
  pm_json_put_str(j, "uri", first.span.file == s->file ? d->uri : pm_lsp_uri_of_path(scratch, to->path));
  pm_json_key(j, "range");
  pm_lsp_put_range(j, to, first.span.lo, first.span.hi);
  pm_json_end_object(j);
}

static void put_axis_item(PmJson *j, const PmLspState *s, const char *name) {
  PmAxisId axis = s->module ? pm_module_find_axis(s->module, name) : PM_NONE;
  pm_json_object(j);
  pm_json_put_str(j, "label", name);
  pm_json_put_i64(j, "kind", 21);  // CompletionItemKind.Constant
  if (axis != PM_NONE) {
    char size[32];
    snprintf(size, sizeof size, "%lld", (long long)pm_axis_size(s->module, axis));
    pm_json_put_str(j, "detail", size);
  } else {
    pm_json_put_str(j, "detail", "axis");
  }
  pm_json_end_object(j);
}

void pm_lsp_put_completion(PmJson *j, PmArena *scratch, const PmLspDoc *d, PmLspPos pos) {
  const PmSourceFile *f = pm_lsp_source(d->now);
  int32_t at = pm_lsp_offset(f, pos);
  char open;
  pm_json_array(j);
  if (pm_lsp_in_code(f, at, &open) && open == '[') {
    // While a line is half written its text has a syntax error: axes come from the last text without one, and those of
    // the block around it from wherever its head could be read.
    const char **names;
    int32_t n = pm_lsp_axis_args(scratch, d->now, at, &names);
    for (int32_t i = 0; i < n; i++) put_axis_item(j, d->now, names[i]);
    const PmLspState *s = d->good ? d->good : d->now;
    n = pm_lsp_axes(scratch, s, &names);
    for (int32_t i = 0; i < n; i++) put_axis_item(j, s, names[i]);
  }
  pm_json_end_array(j);
}

void pm_lsp_put_formatting(PmJson *j, PmArena *scratch, const PmLspDoc *d) {
  const PmSourceFile *f = pm_lsp_source(d->now);
  PmInterner names;
  PmBuf text;
  pm_interner_init(&names, scratch);
  pm_buf_init(&text);
  PmDiags *unread = pm_diags_new(scratch, &d->now->sources);
  // A text that could be no source is not what the editor has.
  if (d->now->failure || !pm_format(scratch, &names, &d->now->sources, unread, d->now->file, d->now->is_plan, &text)) {
    pm_json_null(j);
    pm_buf_deinit(&text);
    return;
  }
  pm_json_array(j);
  if (strcmp(pm_buf_str(&text), f->text) != 0) {
    pm_json_object(j);
    pm_json_key(j, "range");
    // Line ends belong to the range, so it ends on a line of its own behind the last.
    PmLspPos end = pm_lsp_pos(f, f->len);
    if (f->len > 0 && f->text[f->len - 1] == '\n') end = (PmLspPos){pm_lsp_pos(f, f->len - 1).line + 1, 0};
    pm_json_object(j);
    pm_json_key(j, "start");
    put_pos(j, f, 0);
    pm_json_key(j, "end");
    pm_json_object(j);
    pm_json_put_i64(j, "line", end.line);
    pm_json_put_i64(j, "character", end.character);
    pm_json_end_object(j);
    pm_json_end_object(j);
    pm_json_put_str(j, "newText", pm_buf_str(&text));
    pm_json_end_object(j);
  }
  pm_json_end_array(j);
  pm_buf_deinit(&text);
}
