// Files: reading, imports, and what stands at the top level of each.
#include <stdlib.h>
#include <string.h>

#include "frontend/lower.h"
#include "frontend/std.h"

static PmUnit *load(PmLower *lw, int32_t file, const char *path, int32_t depth);

static PmUnit *find_unit(PmLower *lw, const char *path) {
  for (int32_t i = 0; i < lw->n_units; i++) {
    if (strcmp(lw->units[i]->path, path) == 0) return lw->units[i];
  }
  return NULL;
}

static bool stays_inside(const char *name) {
  if (name[0] == '/' || name[0] == 0) return false;
  for (const char *part = name; part;) {
    size_t n = strcspn(part, "/");
    if ((n == 2 && strncmp(part, "..", 2) == 0) || (n == 1 && part[0] == '.') || n == 0) return false;
    part = part[n] ? part + n + 1 : NULL;
  }
  return true;
}

static const char *import_path(PmLower *lw, const PmUnit *from, const char *name) {
  const char *slash = strrchr(from->path, '/');
  size_t n = strlen(name);
  const char *suffix = n > 7 && strcmp(name + n - 7, ".pmodel") == 0 ? "" : ".pmodel";
  int dir = slash ? (int)(slash - from->path) + 1 : 0;
  return pm_arena_printf(lw->arena, "%.*s%s%s", dir, from->path, name, suffix);
}

// Whether a link on the way to the file leaves the importing file's folder; a file that is not there leads nowhere.
static bool leads_outside(PmLower *lw, const PmUnit *from, const char *path) {
  const char *slash = strrchr(from->path, '/');
  const char *folder = slash ? pm_arena_strndup(lw->arena, from->path, (size_t)(slash - from->path) + 1) : ".";
  char *real_folder = realpath(folder, NULL), *real = realpath(path, NULL);
  size_t n = real_folder ? strlen(real_folder) : 0;
  bool outside = real && real_folder && n > 1 && (strncmp(real, real_folder, n) != 0 || real[n] != '/');
  free(real_folder);
  free(real);
  return outside;
}

static void report_cycle(PmLower *lw, const PmUnit *unit, PmSpan span) {
  if (!pm_lw_error(lw, PM_E_IMPORT_CYCLE, span, "%s imports itself", unit->path)) return;
  for (int32_t i = 0; i < lw->n_units; i++) {
    if (lw->units[i]->loading && lw->units[i] != unit) pm_diag_note(lw->diags, "through %s", lw->units[i]->path);
  }
}

// The unit that an import names; NULL after an error.
static PmUnit *import(PmLower *lw, const PmUnit *from, PmName name, int32_t depth) {
  if (strcmp(name.text, "std") == 0) {
    PmUnit *std = find_unit(lw, "std");
    if (std) return std;
    int32_t file = pm_sources_add(lw->sources, "std", (const char *)pm_std_text, pm_std_text_len);
    return load(lw, file, "std", depth + 1);
  }
  if (!stays_inside(name.text)) {
    if (pm_lw_error(lw, PM_E_IMPORT, name.span, "cannot import \"%s\"", name.text)) {
      pm_diag_note(lw->diags, "imports are \"std\" or relative paths downwards, without `.` and `..`");
    }
    return NULL;
  }
  if (depth >= PM_MAX_IMPORT_DEPTH) {
    pm_lw_error(lw, PM_E_LIMIT, name.span, "imports nest more than %d deep", PM_MAX_IMPORT_DEPTH);
    return NULL;
  }
  const char *path = import_path(lw, from, name.text);
  PmUnit *unit = find_unit(lw, path);
  if (unit && unit->loading) {
    report_cycle(lw, unit, name.span);
    return NULL;
  }
  if (unit) return unit;
  if (leads_outside(lw, from, path)) {
    if (pm_lw_error(lw, PM_E_IMPORT, name.span, "cannot import \"%s\"", name.text))
      pm_diag_note(lw->diags, "%s is a link that leaves the folder of %s", path, from->path);
    return NULL;
  }
  int32_t file;
  PmStatus *st = pm_sources_load(lw->sources, path, PM_MAX_FILE_BYTES, &file);
  if (!st) return load(lw, file, path, depth + 1);
  pm_lw_error(lw, PM_E_IMPORT, name.span, "%s", pm_status_message(st));
  pm_status_drop(st);
  return NULL;
}

static void expose(PmLower *lw, PmUnit *to, const PmUnit *from, PmSpan span) {
  for (int32_t i = 0; i < from->callables.n; i++) {
    const PmSym *sym = &from->callables.syms[i];
    if (sym->unit != from) continue;
    const PmSym *old = pm_scope_find_here(&to->callables, sym->name);
    if (old && old->item == sym->item) continue;
    if (old) {
      pm_lw_error(lw, PM_E_REDEFINED, span, "`%s` comes from two imports", sym->name);
      continue;
    }
    pm_scope_put(lw, &to->callables, *sym);
  }
}

// `ragged` or `ragged(bound=R)`: the size is left open. The bound, 0 without one, is R >= 1: an element that is chosen
// as often as the mean of all must fit.
static bool is_ragged(PmLower *lw, const PmExpr *e, double *out_bound) {
  *out_bound = 0;
  const PmExpr *f = e->kind == PM_X_CALL ? e->a : e;
  if (f->kind != PM_X_NAME || strcmp(f->name, "ragged") != 0 || pm_scope_find(lw->scope, f->name)) return false;
  if (e->kind != PM_X_CALL) return true;
  const PmArg *a = e->args.n == 1 ? &e->args.items[0] : NULL;
  if (!a || !a->name.text || strcmp(a->name.text, "bound") != 0) {
    pm_lw_error(lw, PM_E_ARGS, e->span, "write `ragged` or `ragged(bound=R)`");
  } else if (pm_lw_eval_num(lw, a->value, "`bound`", out_bound) && !(*out_bound >= 1)) {
    if (pm_lw_error(lw, PM_E_AXIS_SIZE, a->value->span, "`bound` is %g; it multiplies the mean, so it is 1 or more",
                    *out_bound)) {
      pm_diag_help(lw->diags, "capacity that drops tokens is a size: `ceil(%g * choice * batch.micro * seq / expert)`",
                   *out_bound);
    }
    *out_bound = 0;
  }
  return true;
}

static void add_ragged(PmLower *lw, PmAxisId axis, double bound, PmSpan span) {
  lw->ragged = pm_grow(lw->arena, lw->ragged, lw->n_ragged, &lw->cap_ragged, sizeof *lw->ragged);
  lw->ragged[lw->n_ragged++] = (PmRagged){.axis = axis, .bound = bound, .span = span};
}

static void define_axes(PmLower *lw, PmUnit *u, const PmItem *it) {
  for (int32_t i = 0; i < it->defs.n; i++) {
    const PmDef *d = &it->defs.items[i];
    const PmExpr *value = u == lw->main ? pm_lw_setting(lw, "axis", d->name.text, d->value) : d->value;
    int64_t size = 1;
    PmAxisId axis = PM_NONE;
    const char *what = pm_arena_printf(lw->arena, "the size of axis `%s`", d->name.text);
    if (lw->m->n_axes >= PM_MAX_AXES) {
      pm_lw_error(lw, PM_E_LIMIT, d->name.span, "more than %d axes", PM_MAX_AXES);
      lw->stopped = true;
      return;
    }
    PmSym sym = pm_sym_axis(d->name.text, axis, d->name.span);
    double bound;
    bool ragged = is_ragged(lw, value, &bound);
    bool sized = ragged || pm_lw_eval_whole(lw, value, what, 1, PM_MAX_AXIS_SIZE, &size);
    if (sized && u == lw->main) pm_lw_divide_batch(lw, d->name, &size);
    if (sized) {
      PmLoc loc = pm_lw_loc(lw, d->name.span);
      const PmSym *old = pm_scope_find_here(&u->globals, d->name.text);
      bool taken = old && old->kind != PM_SYM_ERROR;  // a name that has failed once may be given again
      if (!taken) {
        if (u == lw->main && !ragged) pm_lw_note_micro_size(lw, value);
        axis = u == lw->main ? pm_lw_add_axis(lw, d->name.text, size, loc)
                             : pm_module_local_axis(lw->m, d->name.text, size);
      }
      sym.kind = PM_SYM_AXIS;
      sym.axis = axis;
      if (ragged && !taken) add_ragged(lw, axis, bound, d->name.span);
    }
    pm_scope_add(lw, &u->globals, sym);
  }
}

static void define_consts(PmLower *lw, PmUnit *u, const PmItem *it) {
  for (int32_t i = 0; i < it->defs.n; i++) {
    const PmDef *d = &it->defs.items[i];
    const PmExpr *value = u == lw->main ? pm_lw_setting(lw, "const", d->name.text, d->value) : d->value;
    double v;
    const char *what = pm_arena_printf(lw->arena, "constant `%s`", d->name.text);
    bool ok = pm_lw_eval_num(lw, value, what, &v);
    PmSym sym = pm_sym_value(d->name.text, ok ? pm_val_num(v) : PM_ERROR_VAL, d->name.span);
    sym.fixed = true;
    pm_scope_add(lw, &u->globals, sym);
  }
}

static void define_item(PmLower *lw, PmUnit *u, const PmItem *it) {
  PmSym sym = {.name = it->name.text, .kind = PM_SYM_ITEM, .span = it->name.span, .axis = PM_NONE, .var = PM_NONE};
  sym.item = it;
  sym.unit = u;
  if (pm_lw_is_builtin(it->name.text)) {
    pm_lw_error(lw, PM_E_REDEFINED, it->name.span, "`%s` is a function of the language itself", it->name.text);
    return;
  }
  const PmSym *old = pm_scope_find_here(&u->callables, it->name.text);
  if (!old) old = pm_scope_find_here(&u->globals, it->name.text);
  if (!old) {
    pm_scope_put(lw, &u->callables, sym);
    return;
  }
  if (!pm_lw_error(lw, PM_E_REDEFINED, it->name.span, "`%s` is already defined", it->name.text)) return;
  if (old->unit && old->unit->is_std) {
    pm_diag_note(lw->diags, "the standard library has it; choose another name, or do not `import \"std\"`");
  } else {
    pm_diag_label(lw->diags, old->span, "defined here");
  }
}

static void check_version(PmLower *lw, const PmItem *it) {
  if (it->number != 1) {
    pm_lw_error(lw, PM_E_LATER, it->span, "version %g of the language: this program knows version 1", it->number);
  }
}

static void define(PmLower *lw, PmUnit *u, int32_t depth) {
  PmScope *outer = lw->scope;
  lw->scope = &u->globals;
  for (int32_t i = 0; i < u->text.items.n; i++) {
    const PmItem *it = &u->text.items.items[i];
    if (it->kind == PM_IT_VERSION) check_version(lw, it);
    if (it->kind != PM_IT_IMPORT) continue;
    const PmUnit *from = import(lw, u, it->name, depth);
    if (from) expose(lw, u, from, it->span);
  }
  for (int32_t i = 0; i < u->text.items.n && !lw->stopped; i++) {
    const PmItem *it = &u->text.items.items[i];
    if (it->kind == PM_IT_AXIS) define_axes(lw, u, it);
    if (it->kind == PM_IT_CONST) define_consts(lw, u, it);
    if (it->kind == PM_IT_FN || it->kind == PM_IT_BLOCK || it->kind == PM_IT_OPTIMIZER) define_item(lw, u, it);
  }
  lw->scope = outer;
}

static PmUnit *load(PmLower *lw, int32_t file, const char *path, int32_t depth) {
  PmUnit *u = PM_NEW(lw->arena, PmUnit);
  u->file = file;
  u->path = path;
  u->is_std = strcmp(path, "std") == 0;
  u->globals.unit = u->callables.unit = u;
  u->globals.kind = u->callables.kind = PM_SCOPE_FILE;
  lw->units = pm_grow(lw->arena, lw->units, lw->n_units, &lw->cap_units, sizeof *lw->units);
  lw->units[lw->n_units++] = u;
  if (!lw->main) lw->main = u;
  u->loading = true;
  if (pm_parse(lw->arena, lw->names, lw->sources, lw->diags, file, PM_TEXT_FILE, &u->text)) {
    if (u == lw->main) pm_lw_choose_plan(lw);
    define(lw, u, depth);
    if (u == lw->main) pm_lw_add_micro_axis(lw);
  } else {
    lw->broken = true;
  }
  u->loading = false;
  return u;
}

PmStatus *pm_lw_load_main(PmLower *lw, const char *path) {
  int32_t file;
  PM_TRY(pm_sources_load(lw->sources, path, PM_MAX_FILE_BYTES, &file));
  lw->main = NULL;
  load(lw, file, pm_arena_strdup(lw->arena, path), 0);
  return NULL;
}

PmStatus *pm_lw_load_text(PmLower *lw, const char *path, const char *text, size_t len) {
  if (len > PM_MAX_FILE_BYTES) {
    return PM_STATUS(PM_ERR_LIMIT, "%s is larger than the limit of %d bytes", path, PM_MAX_FILE_BYTES);
  }
  const char *nul = memchr(text, 0, len);
  if (nul) return PM_STATUS(PM_ERR_INPUT, "%s is not text: byte %td is NUL", path, nul - text);
  const char *name = pm_arena_strdup(lw->arena, path);
  int32_t file = pm_sources_add(lw->sources, name, pm_arena_strndup(lw->arena, text, len), len);
  lw->main = NULL;
  load(lw, file, name, 0);
  return NULL;
}

bool pm_lw_parse_option(PmLower *lw, const char *origin, const char *text, PmTextForm form, PmText *out) {
  int32_t file = pm_sources_add(lw->sources, origin, pm_arena_strdup(lw->arena, text), strlen(text));
  return pm_parse(lw->arena, lw->names, lw->sources, lw->diags, file, form, out);
}

void pm_lw_read_settings(PmLower *lw) {
  const PmFrontendOptions *o = lw->options;
  lw->settings = PM_NEW_N(lw->arena, PmSetting, o->n_set + 1);
  for (int32_t i = 0; i < o->n_set; i++) {
    const char *text = o->set[i];
    const char *dot = strpbrk(text, ".=");
    const char *kind = NULL;
    if (dot && *dot == '.') {
      kind = pm_arena_strndup(lw->arena, text, (size_t)(dot - text));
      text = dot + 1;
    }
    PmText tree;
    if (!pm_lw_parse_option(lw, "--set", text, PM_TEXT_SETTINGS, &tree)) continue;
    const PmDef *d = &tree.defs.items[0];
    static const char *const kinds[] = {"axis", "const", "train"};
    bool known = !kind;
    for (int32_t k = 0; kind && k < 3; k++) known = known || strcmp(kinds[k], kind) == 0;
    if (!known || tree.defs.n != 1) {
      if (pm_lw_error(lw, PM_E_PLAN, d->name.span,
                      "`--set` takes one NAME=VALUE, axis.NAME, const.NAME or train.NAME")) {
        if (!known) pm_lw_suggest(lw, kind, kinds, 3);
      }
      continue;
    }
    lw->settings[lw->n_settings++] = (PmSetting){.kind = kind, .name = d->name, .value = d->value};
  }
}

const PmExpr *pm_lw_setting(PmLower *lw, const char *kind, const char *name, const PmExpr *own) {
  const PmExpr *value = own;
  for (int32_t i = 0; i < lw->n_settings; i++) {
    PmSetting *s = &lw->settings[i];
    if (strcmp(s->name.text, name) != 0) continue;
    if (s->kind ? strcmp(s->kind, kind) != 0 : strcmp(kind, "train") == 0) continue;
    s->used = true;
    value = s->value;
  }
  return value;
}

void pm_lw_check_settings(PmLower *lw) {
  const char **names;
  int32_t n = pm_scope_names(lw, &lw->main->globals, -1, &names);
  for (int32_t i = 0; i < lw->n_settings; i++) {
    const PmSetting *s = &lw->settings[i];
    if (s->used) continue;
    if (s->kind && strcmp(s->kind, "train") == 0) {
      pm_lw_no_train_key(lw, s->name);
      continue;
    }
    if (pm_lw_error(lw, PM_E_UNKNOWN_NAME, s->name.span, "`--set` names `%s`, but %s has no such %s", s->name.text,
                    lw->main->path, s->kind ? s->kind : "axis or constant")) {
      pm_lw_suggest(lw, s->name.text, names, n);
      if (!s->kind && pm_lw_is_train_key(s->name.text)) {
        pm_diag_help(lw->diags, "a setting of `train` is replaced by `--set train.%s=VALUE`", s->name.text);
      }
    }
  }
}
