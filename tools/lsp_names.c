#include "tools/lsp_names.h"

#include <string.h>

#include "frontend/ast.h"
#include "tools/lsp_text.h"

static const PmText *tree_of(const PmLspState *s) { return &s->trees[s->file]; }

// The syntax errors of programs have been reported by the compilation.
void pm_lsp_parse(PmLspState *s) {
  PmDiags *unread = pm_diags_new(&s->arena, &s->sources);
  s->n_trees = s->sources.n_files;
  s->trees = PM_NEW_N(&s->arena, PmText, s->n_trees);
  for (int32_t i = 0; i < s->n_trees; i++) {
    bool plan = s->is_plan && i == s->file;
    bool ok = pm_parse(&s->arena, &s->names, &s->sources, plan ? s->diags : unread, i,
                       plan ? PM_TEXT_PLAN : PM_TEXT_FILE, &s->trees[i]);
    if (i == s->file) s->parsed = ok;
  }
}

typedef struct Search {
  const char *name;
  int32_t at;
  bool found;
  PmLspDecl first, near;
} Search;

static void meet(Search *s, PmLspDeclKind kind, PmName name, PmSpan end) {
  if (!name.text || strcmp(name.text, s->name) != 0) return;
  PmLspDecl d = {.kind = kind, .name = name.text, .span = name.span, .end = end};
  if (!s->found) s->first = s->near = d;
  if (name.span.lo <= s->at) s->near = d;
  s->found = true;
}

static void meet_names(Search *s, PmLspDeclKind kind, const PmNames *names, PmSpan end) {
  for (int32_t i = 0; i < names->n; i++) meet(s, kind, names->items[i], end);
}

static void meet_defs(Search *s, PmLspDeclKind kind, const PmDefs *defs) {
  for (int32_t i = 0; i < defs->n; i++) meet(s, kind, defs->items[i].name, defs->items[i].name.span);
}

static void meet_body(Search *s, const PmStmts *body) {
  for (int32_t i = 0; i < body->n; i++) {
    const PmStmt *st = &body->items[i];
    for (int32_t k = 0; k < st->decls.n; k++) {
      meet(s, PM_LD_VARIABLE, st->decls.items[k].name, st->decls.items[k].name.span);
    }
    meet_names(s, st->kind == PM_ST_SUB ? PM_LD_SUB : PM_LD_VALUE, &st->names, st->span);
    meet_body(s, &st->body);
  }
}

static void meet_inside(Search *s, const PmItem *it) {
  meet_names(s, PM_LD_AXIS_ARG, &it->axes, it->span);
  if (it->kind != PM_IT_AXIS && it->kind != PM_IT_CONST) meet_defs(s, PM_LD_FORMAL, &it->defs);
  meet_body(s, &it->body);
  for (int32_t i = 0; i < it->plan.n; i++) meet_defs(s, PM_LD_MESH, &it->plan.items[i].mesh);
}

static bool is_callable(const PmItem *it) {
  return it->kind == PM_IT_FN || it->kind == PM_IT_BLOCK || it->kind == PM_IT_OPTIMIZER;
}

static void meet_globals(Search *s, const PmText *tree) {
  for (int32_t i = 0; i < tree->plan.n; i++) meet_defs(s, PM_LD_MESH, &tree->plan.items[i].mesh);
  for (int32_t i = 0; i < tree->items.n; i++) {
    const PmItem *it = &tree->items.items[i];
    if (it->kind == PM_IT_AXIS) meet_defs(s, PM_LD_AXIS, &it->defs);
    if (it->kind == PM_IT_CONST) meet_defs(s, PM_LD_CONST, &it->defs);
    if (is_callable(it) || it->kind == PM_IT_MODEL || it->kind == PM_IT_PLAN) {
      meet(s, PM_LD_ITEM, it->name, it->span);
    }
  }
}

// What `train`, `policy` and `plan` speak of: the model's values, and mesh axes that another plan declares.
static void meet_outside(Search *s, const PmText *tree) {
  for (int32_t i = 0; i < tree->items.n && !s->found; i++) {
    const PmItem *it = &tree->items.items[i];
    if (it->kind == PM_IT_MODEL || it->kind == PM_IT_PLAN) meet_inside(s, it);
  }
}

static void meet_imports(Search *s, const PmLspState *state) {
  for (int32_t f = 0; f < state->n_trees && !s->found; f++) {
    const PmText *tree = &state->trees[f];
    for (int32_t i = 0; f != state->file && i < tree->items.n; i++) {
      const PmItem *it = &tree->items.items[i];
      if (is_callable(it)) meet(s, PM_LD_ITEM, it->name, it->span);
    }
  }
}

static const PmItem *item_at(const PmText *tree, int32_t at) {
  const PmItem *in = NULL;
  for (int32_t i = 0; i < tree->items.n && tree->items.items[i].span.lo <= at; i++) in = &tree->items.items[i];
  return in;
}

// The character behind a name and the space after it; '=' only where it is not `==`.
static char char_after(const PmSourceFile *f, int32_t at, const char *name) {
  const char *c = f->text + at + strlen(name);
  c += strspn(c, " \t");
  return c[0] == '=' && c[1] == '=' ? '\0' : *c;
}

static bool is_settings(const PmItem *it) { return it && (it->kind == PM_IT_TRAIN || it->kind == PM_IT_POLICY); }

// Whether the name is only a key here: of an entry (`steps = 2`) or of an argument (`f(x=y)`).
static bool is_key(const PmSourceFile *f, int32_t at, const Search *s, bool settings) {
  char open;
  bool code = pm_lsp_in_code(f, at, &open);
  return code && char_after(f, at, s->name) == '=' && (settings || open == '(') && s->near.span.lo != at;
}

bool pm_lsp_find(const PmLspState *state, const char *name, int32_t at, PmLspDecl *out_first, PmLspDecl *out_near) {
  Search s = {.name = name, .at = at};
  const PmText *tree = tree_of(state);
  const PmSourceFile *f = pm_lsp_source(state);
  const PmItem *in = item_at(tree, at);
  bool settings = is_settings(in), called = settings && char_after(f, at, name) == '(';
  if (in) meet_inside(&s, in);
  if (!s.found) meet_globals(&s, tree);
  // What is called there is a function: `tokens(...)` is none of the model's values.
  if (!s.found && !called && (settings || (in && in->kind == PM_IT_PLAN))) meet_outside(&s, tree);
  if (!s.found) meet_imports(&s, state);
  if (s.found && is_key(f, at, &s, settings)) return false;
  *out_first = s.first;
  *out_near = s.near;
  return s.found;
}

int32_t pm_lsp_axis_args(PmArena *arena, const PmLspState *s, int32_t at, const char ***out) {
  const PmItem *in = item_at(tree_of(s), at);
  int32_t n = in ? in->axes.n : 0;
  *out = PM_NEW_N(arena, const char *, n + 1);
  for (int32_t i = 0; i < n; i++) (*out)[i] = in->axes.items[i].text;
  return n;
}

int32_t pm_lsp_axes(PmArena *arena, const PmLspState *s, const char ***out) {
  const PmText *tree = tree_of(s);
  int32_t n = 0, cap = 0;
  *out = NULL;
  for (int32_t i = 0; i < tree->items.n; i++) {
    const PmItem *it = &tree->items.items[i];
    for (int32_t k = 0; it->kind == PM_IT_AXIS && k < it->defs.n; k++) {
      *out = pm_grow(arena, *out, n, &cap, sizeof **out);
      (*out)[n++] = it->defs.items[k].name.text;
    }
  }
  return n;
}
