// The setting `data` of `train`: which files feed which inputs.
#include <string.h>

#include "frontend/lower.h"

typedef struct Data {
  PmLower *lw;
  PmData *d;
  const char *kind;  // "tokens", "npy"
  bool named;        // an argument names an input, which may have an error of its own
  int32_t cap_files, cap_feeds;
} Data;

// Where a model of the file declares the input; else a place of no file.
static PmSpan declared_at(const PmLower *lw, const char *name) {
  for (int32_t i = 0; i < lw->main->text.items.n; i++) {
    const PmItem *it = &lw->main->text.items.items[i];
    for (int32_t k = 0; it->kind == PM_IT_MODEL && k < it->body.n; k++) {
      const PmStmt *s = &it->body.items[k];
      if (s->kind == PM_ST_INPUT && s->decls.items[0].name.text == name) return s->decls.items[0].name.span;
    }
  }
  return PM_NO_SPAN;
}

// The input that `x = NAME` feeds; PM_NONE after an error.
static PmVarId input(const Data *s, const PmExpr *e) {
  PmLower *lw = s->lw;
  const char *name = e->kind == PM_X_NAME ? e->name : "";
  int32_t n = 0;
  const char **names = PM_NEW_N(lw->arena, const char *, lw->m->n_vars + 1);
  for (PmVarId v = 0; v < lw->m->n_vars; v++) {
    if (lw->m->vars[v].role != PM_ROLE_INPUT) continue;
    if (lw->m->vars[v].path == name) return v;
    names[n++] = lw->m->vars[v].path;
  }
  if (declared_at(lw, name).file >= 0) return PM_NONE;  // it has an error of its own
  if (pm_lw_error(lw, PM_E_TRAIN, e->span, "the model has no input %s", pm_lw_text(lw, e->span))) {
    pm_lw_suggest(lw, name, names, n);
  }
  return PM_NONE;
}

static PmVarId token_input(const Data *s, const PmExpr *e) {
  PmVarId v = input(s, e);
  if (v == PM_NONE || s->lw->m->vars[v].type.dtype == PM_I32) return v;
  if (pm_lw_error(s->lw, PM_E_TRAIN, e->span, "`tokens` feeds inputs declared with `in AXIS`, and `%s` is not",
                  s->lw->m->vars[v].path)) {
    pm_diag_help(s->lw->diags, "floats come from arrays: `npy(\"FILE.npy\", x=%s)`", s->lw->m->vars[v].path);
  }
  return PM_NONE;
}

static void add_file(Data *s, const char *file) {
  s->d->files = pm_grow(s->lw->m->arena, s->d->files, s->d->n_files, &s->cap_files, sizeof *s->d->files);
  s->d->files[s->d->n_files++] = pm_intern(s->lw->names, file);
}

static bool add_files(Data *s, const PmExpr *e) {
  if (e->kind == PM_X_STR) {
    add_file(s, e->name);
    return true;
  }
  bool ok = e->kind == PM_X_LIST && e->args.n > 0;
  for (int32_t i = 0; ok && i < e->args.n; i++) {
    ok = !e->args.items[i].name.text && e->args.items[i].value->kind == PM_X_STR;
    if (ok) add_file(s, e->args.items[i].value->name);
  }
  if (!ok) {
    pm_lw_error(s->lw, PM_E_TRAIN, e->span, "`%s` takes file names in quotes, one or a list `[\"a\", \"b\"]`", s->kind);
  }
  return ok;
}

static void shuffle(const Data *s, const PmExpr *e) {
  bool yes = e->kind == PM_X_NAME && strcmp(e->name, "true") == 0;
  bool no = e->kind == PM_X_NAME && strcmp(e->name, "false") == 0;
  s->d->shuffle = yes;
  if (!yes && !no) pm_lw_error(s->lw, PM_E_TRAIN, e->span, "`shuffle` is `true` or `false`");
}

// Whether argument i of the call is the first of its name; else the second is reported.
static bool named_once(PmLower *lw, const PmArgs *args, int32_t i) {
  for (int32_t k = 0; k < i; k++) {
    if (!args->items[i].name.text || args->items[k].name.text != args->items[i].name.text) continue;
    if (pm_lw_error(lw, PM_E_ARGS, args->items[i].name.span, "argument `%s` is given twice",
                    args->items[i].name.text)) {
      pm_diag_label(lw->diags, args->items[k].name.span, "given here first");
    }
    return false;
  }
  return true;
}

// ---- tokens --------------------------------------------------------------------------------------------------------
static void token_format(const Data *s, const PmExpr *e) {
  static const char *const formats[] = {"bytes", "llmc"};
  for (int32_t i = 0; e->kind == PM_X_STR && i < 2; i++) {
    if (strcmp(formats[i], e->name) == 0) {
      s->d->format = pm_intern(s->lw->names, e->name);
      return;
    }
  }
  if (pm_lw_error(s->lw, PM_E_TRAIN, e->span, "the format of data is \"bytes\" or \"llmc\"") && e->kind == PM_X_STR) {
    pm_lw_suggest(s->lw, e->name, formats, 2);
  }
}

static void token_arg(Data *s, const PmArg *a) {
  static const char *const names[] = {"format", "shuffle", "x", "y"};
  const char *name = a->name.text;
  if (!name) {
    add_files(s, a->value);
  } else if (strcmp(name, "format") == 0) {
    token_format(s, a->value);
  } else if (strcmp(name, "x") == 0) {
    s->named = true;
    s->d->x = token_input(s, a->value);
  } else if (strcmp(name, "y") == 0) {
    s->d->y = token_input(s, a->value);
  } else if (strcmp(name, "shuffle") == 0) {
    shuffle(s, a->value);
  } else if (pm_lw_error(s->lw, PM_E_ARGS, a->name.span, "`tokens` has no argument `%s`", name)) {
    pm_lw_suggest(s->lw, name, names, 4);
  }
}

static void check_pair(const Data *s, const PmExpr *e) {
  PmLower *lw = s->lw;
  if (s->d->x == PM_NONE || s->d->y == PM_NONE) return;
  const PmVar *x = &lw->m->vars[s->d->x], *y = &lw->m->vars[s->d->y];
  if (pm_type_same_logical(&x->type, &y->type)) return;
  if (pm_lw_error(lw, PM_E_TRAIN, e->span, "`%s` is `%s` shifted by one, so both need the same axes and vocabulary",
                  y->path, x->path)) {
    pm_diag_note(lw->diags, "`%s`%s and `%s`%s", x->path, pm_lw_axes(lw, &x->type), y->path, pm_lw_axes(lw, &y->type));
  }
}

static void tokens(Data *s, const PmExpr *e) {
  int32_t errors = pm_diags_errors(s->lw->diags);
  for (int32_t i = 0; i < e->args.n; i++) {
    if (named_once(s->lw, &e->args, i)) token_arg(s, &e->args.items[i]);
  }
  if (pm_diags_errors(s->lw->diags) > errors) return;
  const char *missing = s->d->n_files == 0 ? "a file name"
                        : !s->d->format    ? "`format=\"bytes\"` or `format=\"llmc\"`"
                        : !s->named        ? "`x=INPUT`"
                                           : NULL;
  if (missing) pm_lw_error(s->lw, PM_E_TRAIN, e->span, "`tokens` needs %s", missing);
  check_pair(s, e);
}

// ---- npy -----------------------------------------------------------------------------------------------------------
// Rows are elements of an input's first axis: all inputs need the same.
static bool check_rows(const Data *s, PmVarId var, PmSpan span) {
  PmLower *lw = s->lw;
  const PmVar *v = &lw->m->vars[var];
  if (v->type.rank == 0) {
    pm_lw_error(lw, PM_E_TRAIN, span, "`%s` has no axis: an array feeds one row an element of the first axis", v->path);
    return false;
  }
  for (int32_t i = 0; i < s->d->n_feeds; i++) {
    const PmVar *other = &lw->m->vars[s->d->feeds[i].var];
    if (s->d->feeds[i].var == var) {
      pm_lw_error(lw, PM_E_TRAIN, span, "`%s` is fed twice", v->path);
      return false;
    }
    if (other->type.dims[0].axis == v->type.dims[0].axis) continue;
    if (pm_lw_error(lw, PM_E_TRAIN, span, "`%s` and `%s` begin with different axes, and rows stand along the first",
                    other->path, v->path)) {
      pm_diag_note(lw->diags, "`%s`%s and `%s`%s", other->path, pm_lw_axes(lw, &other->type), v->path,
                   pm_lw_axes(lw, &v->type));
    }
    return false;
  }
  return true;
}

static void npy_feed(Data *s, const PmArg *a, int32_t first) {
  PmVarId var = input(s, a->value);
  s->named = true;
  if (var == PM_NONE || !check_rows(s, var, a->value->span)) return;
  s->d->feeds = pm_grow(s->lw->m->arena, s->d->feeds, s->d->n_feeds, &s->cap_feeds, sizeof *s->d->feeds);
  s->d->feeds[s->d->n_feeds++] = (PmFeed){var, first, s->d->n_files - first};
}

// npy(FILES, x=INPUT, FILES, y=INPUT, ...): a name says which input the files before it feed.
static void npy(Data *s, const PmExpr *e) {
  PmLower *lw = s->lw;
  int32_t first = 0, errors = pm_diags_errors(lw->diags);
  s->d->format = pm_intern(lw->names, "npy");
  for (int32_t i = 0; i < e->args.n; i++) {
    const PmArg *a = &e->args.items[i];
    if (!named_once(lw, &e->args, i)) return;
    if (!a->name.text) {
      if (!add_files(s, a->value)) return;
    } else if (strcmp(a->name.text, "shuffle") == 0) {
      shuffle(s, a->value);
    } else if (first == s->d->n_files) {
      if (pm_lw_error(lw, PM_E_TRAIN, a->name.span, "no file stands before `%s`", a->name.text)) {
        pm_diag_help(lw->diags, "files stand before the input that they feed: `npy(\"x.npy\", x=a, \"y.npy\", y=b)`");
      }
      return;
    } else {
      npy_feed(s, a, first);
      first = s->d->n_files;
    }
  }
  if (pm_diags_errors(lw->diags) > errors || (s->named && first == s->d->n_files)) return;
  if (pm_lw_error(lw, PM_E_TRAIN, e->span,
                  s->d->n_files > first ? "`npy` does not say which input its last files feed"
                                        : "`npy` needs files and the input that they feed")) {
    pm_diag_help(lw->diags, "write `npy(\"FILE.npy\", x=INPUT)`");
  }
}

// ---- every input ----------------------------------------------------------------------------------------------------
static bool is_fed(const PmData *d, PmVarId v) {
  for (int32_t i = 0; i < d->n_feeds; i++) {
    if (d->feeds[i].var == v) return true;
  }
  return d->x == v || d->y == v;
}

// An input that no file feeds would be zero in every step.
static void check_all_fed(const Data *s, PmSpan span) {
  PmLower *lw = s->lw;
  for (PmVarId v = 0; v < lw->m->n_vars; v++) {
    const char *path = lw->m->vars[v].path;
    if (lw->m->vars[v].role != PM_ROLE_INPUT || is_fed(s->d, v)) continue;
    if (lw->options->trains) {
      if (!pm_lw_error(lw, PM_E_TRAIN, span, "`data` feeds every input but `%s`", path)) return;
    } else {
      pm_diag(lw->diags, PM_W_UNFED, span, "`data` feeds every input but `%s`: it cannot be trained so", path);
    }
    PmSpan at = declared_at(lw, path);
    if (at.file >= 0) pm_diag_label(lw->diags, at, "declared here");
    if (strcmp(s->kind, "npy") == 0) {
      pm_diag_help(lw->diags, "write `npy(..., \"FILE.npy\", %s=%s)`", path, path);
    } else {
      pm_diag_help(lw->diags, "`tokens` feeds `x`, and `y` with the same shifted by one; `npy` feeds any inputs");
    }
    return;
  }
}

// ---- the setting ---------------------------------------------------------------------------------------------------
static void replace_files(Data *s, PmSpan span) {
  PmLower *lw = s->lw;
  if (!lw->options->n_data) return;
  if (s->d->n_feeds > 1) {
    pm_lw_error(lw, PM_E_TRAIN, span, "`--data` replaces the files of one input, and %d are fed here", s->d->n_feeds);
    return;
  }
  s->d->files = NULL;
  s->d->n_files = s->cap_files = 0;
  for (int32_t i = 0; i < lw->options->n_data; i++) add_file(s, lw->options->data[i]);
  if (s->d->n_feeds) s->d->feeds[0].n_files = s->d->n_files;
}

void pm_lw_data_setting(PmLower *lw, const PmExpr *e) {
  static const char *const kinds[] = {"npy", "tokens"};
  Data s = {.lw = lw, .d = &lw->m->data};
  int32_t errors = pm_diags_errors(lw->diags);
  s.kind = e && e->kind == PM_X_CALL && e->a->kind == PM_X_NAME ? e->a->name : "";
  if (strcmp(s.kind, "tokens") == 0) {
    tokens(&s, e);
  } else if (strcmp(s.kind, "npy") == 0) {
    npy(&s, e);
  } else if (e && pm_lw_error(lw, PM_E_TRAIN, e->span,
                              "`data` is `tokens(FILES, format=\"bytes\", x=INPUT)` or `npy(FILES, x=INPUT)`")) {
    pm_lw_suggest(lw, s.kind, kinds, 2);
  }
  if (e && pm_diags_errors(lw->diags) == errors) check_all_fed(&s, e->span);
  replace_files(&s, e ? e->span : PM_NO_SPAN);
}
