// What an editor shows for the name under the cursor.
#include <string.h>

#include "tools/lsp_answers.h"
#include "tools/lsp_names.h"
#include "tools/show.h"

#define MAX_LISTED 8   // instances of one name: a block may stand in many places
#define MAX_COMMENT 6  // lines
#define MAX_LINE 400

typedef struct Hover {
  PmArena *scratch;
  const PmLspState *s;
  PmBuf text;
  int32_t n_listed, n_more;
} Hover;

static const char *type_text(PmArena *arena, const PmModule *m, const PmType *type) {
  PmBuf b;
  pm_buf_init(&b);
  pm_type_print(m, type, &b);
  const char *text = pm_arena_strdup(arena, pm_buf_str(&b));
  pm_buf_deinit(&b);
  return text;
}

static void put_bytes(Hover *h, int64_t elements, PmDtype dtype, const char *where) {
  int64_t bytes;
  if (!pm_mul_i64(elements, pm_dtype_bytes(dtype), &bytes)) return;
  pm_buf_printf(&h->text, ", %s%s", pm_bytes_text(h->scratch, bytes), where);
}

static void put_placed(Hover *h, const PmType *type, const char *why) {
  const PmModule *m = h->s->placed;
  pm_buf_printf(&h->text, "\n  plan %s: `%s`", m->plan, type_text(h->scratch, m, type));
  put_bytes(h, pm_type_local_elements(m, type), (PmDtype)type->dtype, " on each rank");
  pm_buf_printf(&h->text, " (%s)", why ? why : "whole");
}

static void put_value(Hover *h, const char *what, const char *path, const PmType *type) {
  int64_t elements;
  pm_buf_printf(&h->text, "%s- %s`%s`: `%s`", h->text.len ? "\n" : "", what, path,
                type_text(h->scratch, h->s->module, type));
  if (pm_type_elements(h->s->module, type, &elements)) put_bytes(h, elements, (PmDtype)type->dtype, "");
}

static bool room(Hover *h) {
  if (h->n_listed < MAX_LISTED) return ++h->n_listed;
  h->n_more++;
  return false;
}

static void put_placed_var(Hover *h, PmVarId var) {
  const PmModule *m = h->s->placed;
  const PmFn *f = m->step != PM_NONE ? pm_fn(m, m->step) : NULL;
  for (int32_t i = 0; f && f->param_bind && i < f->n_params; i++) {
    if (f->param_bind[i].var != var) continue;
    put_placed(h, &f->values[i].type, f->values[i].why);
    return;
  }
}

static bool same_place(const PmLoc *loc, const PmSourceFile *f, int32_t line, int32_t col) {
  return loc->path && loc->line == line && loc->col == col && strcmp(loc->path, f->path) == 0;
}

static void put_vars(Hover *h, const PmLspDecl *d) {
  static const char *const roles[] = {[PM_ROLE_PARAM] = "param ", [PM_ROLE_STATE] = "state ", [PM_ROLE_ACT] = "",
                                      [PM_ROLE_GRAD] = "",        [PM_ROLE_INPUT] = "input ", [PM_ROLE_STEP] = ""};
  const PmModule *m = h->s->module;
  int32_t line, col;
  pm_sources_line_col(&h->s->sources, d->span.file, d->span.lo, &line, &col);
  for (PmVarId i = 0; i < m->n_vars; i++) {
    const PmVar *v = &m->vars[i];
    if (v->owner != PM_NONE || !same_place(&v->loc, pm_lsp_source(h->s), line, col) || !room(h)) continue;
    put_value(h, roles[v->role], v->path, &v->type);
    if (h->s->placed) put_placed_var(h, i);
  }
}

static bool shows_values(const PmFn *f) { return !f->dead && (f->kind == PM_FN_MODEL || f->kind == PM_FN_BODY); }

// Passes split and rename functions: the value is found by its path, where it is computed forwards.
static void put_placed_value(Hover *h, const char *path) {
  const PmModule *m = h->s->placed;
  for (int32_t f = 0; f < m->n_fns; f++) {
    const PmFn *fn = pm_fn(m, f);
    if (fn->dead || fn->kind == PM_FN_COMPOSITE || fn->kind == PM_FN_UPDATE) continue;
    for (PmValueId v = fn->n_params; v < fn->n_values; v++) {
      if (!fn->values[v].name || strcmp(fn->values[v].name, path) != 0) continue;
      put_placed(h, &fn->values[v].type, fn->values[v].why);
      return;
    }
  }
}

// Whether the last part of a path is the name.
static bool ends_in(const char *path, const char *name) {
  const char *dot = strrchr(path, '.');
  return strcmp(dot ? dot + 1 : path, name) == 0;
}

// Values that the statement of the declaration binds, in every place where its block stands.
static void put_values(Hover *h, const PmLspDecl *d) {
  const PmModule *m = h->s->module;
  const PmSourceFile *src = pm_lsp_source(h->s);
  int32_t first, last, col;
  pm_sources_line_col(&h->s->sources, d->span.file, d->span.lo, &first, &col);
  pm_sources_line_col(&h->s->sources, d->end.file, d->end.hi, &last, &col);
  for (int32_t f = 0; f < m->n_fns; f++) {
    const PmFn *fn = pm_fn(m, f);
    for (PmValueId v = shows_values(fn) ? fn->n_params : fn->n_values; v < fn->n_values; v++) {
      const PmValue *x = &fn->values[v];
      if (!x->name || x->def == PM_NONE || !ends_in(x->name, d->name)) continue;
      const PmLoc *loc = &fn->nodes[x->def].loc;
      if (!loc->path || strcmp(loc->path, src->path) != 0 || loc->line < first || loc->line > last) continue;
      if (!room(h)) continue;
      put_value(h, "", x->name, &x->type);
      if (h->s->placed) put_placed_value(h, x->name);
    }
  }
}

static void put_axis(Hover *h, const PmLspDecl *d) {
  const PmModule *m = h->s->module;
  PmAxisId axis = m ? pm_module_find_axis(m, d->name) : PM_NONE;
  pm_buf_printf(&h->text, "axis `%s`", d->name);
  if (axis != PM_NONE) pm_buf_printf(&h->text, " = %s", pm_count_text(h->scratch, pm_axis_size(m, axis)));
}

// The first of the lines of comment that stand right above `line`, at most MAX_COMMENT of them; `line` when there is
// none.
static int32_t comment_above(const Hover *h, int32_t file, int32_t line) {
  const PmSourceFile *f = &h->s->sources.files[file];
  int32_t first = line, lo, hi;
  while (first > 1 && line - first < MAX_COMMENT) {
    pm_sources_line_span(&h->s->sources, file, first - 1, &lo, &hi);
    while (lo < hi && f->text[lo] == ' ') lo++;
    if (lo == hi || f->text[lo] != '#') break;
    first--;
  }
  return first;
}

// The line of the declaration with the comment above it, and where it is.
static void put_origin(Hover *h, const PmLspDecl *d) {
  int32_t line, col, lo, hi;
  pm_sources_line_col(&h->s->sources, d->span.file, d->span.lo, &line, &col);
  const PmSourceFile *f = &h->s->sources.files[d->span.file];
  const char *gap = h->text.len ? "\n\n" : "";
  for (int32_t i = comment_above(h, d->span.file, line); i < line; i++) {
    pm_sources_line_span(&h->s->sources, d->span.file, i, &lo, &hi);
    while (lo < hi && (f->text[lo] == ' ' || f->text[lo] == '#')) lo++;
    pm_buf_printf(&h->text, "%s%.*s", gap, hi - lo > MAX_LINE ? MAX_LINE : hi - lo, f->text + lo);
    gap = "\n";
  }
  pm_sources_line_span(&h->s->sources, d->span.file, line, &lo, &hi);
  if (hi - lo > MAX_LINE) hi = lo + MAX_LINE;
  pm_buf_printf(&h->text, "%s```pmodel\n%.*s\n```\n%s:%d", h->text.len ? "\n\n" : "", hi - lo, f->text + lo, f->path,
                line);
}

// The answer about bytes [lo, hi); frees the text.
static void put_contents(Hover *h, PmJson *j, int32_t lo, int32_t hi) {
  pm_json_object(j);
  pm_json_key(j, "contents");
  pm_json_object(j);
  pm_json_put_str(j, "kind", "markdown");
  pm_json_put_str(j, "value", pm_buf_str(&h->text));
  pm_json_end_object(j);
  pm_json_key(j, "range");
  pm_lsp_put_range(j, pm_lsp_source(h->s), lo, hi);
  pm_json_end_object(j);
  pm_buf_deinit(&h->text);
}

void pm_lsp_put_hover(PmJson *j, PmArena *scratch, const PmLspDoc *doc, PmLspPos pos) {
  Hover h = {.scratch = scratch, .s = doc->now};
  const PmSourceFile *f = pm_lsp_source(h.s);
  int32_t at = pm_lsp_offset(f, pos), lo, hi;
  char open;
  PmLspDecl first, near;
  const char *form, *what;
  if (!pm_lsp_in_code(f, at, &open) || !pm_lsp_word(f, at, &lo, &hi)) {
    pm_json_null(j);
    return;
  }
  const char *name = pm_arena_strndup(h.scratch, f->text + lo, (size_t)(hi - lo));
  if (!pm_lsp_find(h.s, name, lo, &first, &near)) {
    bool called = f->text[hi] == '(' || f->text[hi] == '[';
    if (!called || !pm_builtin_doc(name, &form, &what)) {
      pm_json_null(j);
      return;
    }
    pm_buf_init(&h.text);
    pm_buf_printf(&h.text, "```pmodel\n%s\n```\n%s", form, what);
    put_contents(&h, j, lo, hi);
    return;
  }
  pm_buf_init(&h.text);
  if (near.kind == PM_LD_AXIS) put_axis(&h, &near);
  if (near.kind == PM_LD_VARIABLE && h.s->module) put_vars(&h, &near);
  if (near.kind == PM_LD_VALUE && h.s->module) put_values(&h, &near);
  if (h.n_more) pm_buf_printf(&h.text, "\n- and %d more", h.n_more);
  put_origin(&h, near.kind == PM_LD_VALUE ? &near : &first);
  put_contents(&h, j, lo, hi);
}
