// `train`: optimizer, schedule, data.
#include <math.h>
#include <string.h>

#include "frontend/lower.h"

typedef struct Train {
  PmLower *lw;
  const PmItem *item;
} Train;

static const PmExpr *setting(const Train *t, const char *key) {
  const PmExpr *own = NULL;
  for (int32_t i = 0; i < t->item->entries.n; i++) {
    const PmEntry *e = &t->item->entries.items[i];
    if (!e->glob.text && strcmp(e->key.text, key) == 0) own = e->value;
  }
  return pm_lw_setting(t->lw, "train", key, own);
}

#define MAX_WHOLE (INT64_C(1) << 53)
enum { N_KEYS = 8 };

static void check_keys(const Train *t) {
  static const char *const keys[] = {"clip", "data", "loss_scale", "loss_scale_window",
                                     "lr",   "optimizer", "seed", "steps"};
  PmLower *lw = t->lw;
  for (int32_t i = 0; i < t->item->entries.n; i++) {
    const PmEntry *e = &t->item->entries.items[i];
    bool known = e->glob.text != NULL;
    for (int32_t k = 0; k < N_KEYS; k++) known = known || strcmp(keys[k], e->key.text) == 0;
    if (!known) {
      if (pm_lw_error(lw, PM_E_TRAIN, e->key.span, "`train` has no setting `%s`", e->key.text)) {
        pm_lw_suggest_from(lw, e->key.text, keys, N_KEYS, "its settings are");
      }
    }
    for (int32_t k = 0; k < i && known && !e->glob.text; k++) {
      const PmEntry *old = &t->item->entries.items[k];
      if (old->glob.text || old->key.text != e->key.text) continue;
      if (pm_lw_error(lw, PM_E_REDEFINED, e->key.span, "`%s` is set twice", e->key.text)) {
        pm_diag_label(lw->diags, old->key.span, "set here first");
      }
    }
  }
}

// With gradients in f16 the loss is scaled unless the program says otherwise.
static void loss_scale(const Train *t) {
  PmLower *lw = t->lw;
  const PmExpr *scale = setting(t, "loss_scale"), *window = setting(t, "loss_scale_window");
  lw->m->loss_scale = pm_lw_uses_f16(lw) ? 65536 : 0;
  lw->m->loss_scale_window = 2000;
  double s;
  if (window) pm_lw_eval_whole(lw, window, "`loss_scale_window`", 1, MAX_WHOLE, &lw->m->loss_scale_window);
  if (!scale || !pm_lw_eval_num(lw, scale, "`loss_scale`", &s)) return;
  lw->m->loss_scale = s;
  int e;
  if (s >= 1 && frexp(s, &e) == 0.5 && e <= 127) return;
  if (pm_lw_error(lw, PM_E_CONSTANT, scale->span, "`loss_scale` is a power of two, at least 1")) {
    pm_diag_note(lw->diags, "the loss is multiplied by it and the gradients are divided by it, without rounding");
  }
}

static void numbers(const Train *t) {
  PmLower *lw = t->lw;
  const PmExpr *steps = setting(t, "steps"), *seed = setting(t, "seed"), *clip = setting(t, "clip");
  int64_t v;
  if (steps && pm_lw_eval_whole(lw, steps, "`steps`", 1, MAX_WHOLE, &v)) lw->m->steps = v;
  if (seed && pm_lw_eval_whole(lw, seed, "`seed`", 0, MAX_WHOLE, &v)) lw->m->seed = (uint64_t)v;
  double c;
  if (!clip || !pm_lw_eval_num(lw, clip, "`clip`", &c)) return;
  lw->m->clip = c;
  if (!(c > 0)) pm_lw_error(lw, PM_E_CONSTANT, clip->span, "`clip` is the largest gradient norm and must be above 0");
}

static void schedule(const Train *t, const PmExpr *e) {
  PmLower *lw = t->lw;
  PmFnId fn = pm_lw_add_fn(lw, "lr", PM_FN_SCHEDULE, e->span);
  pm_lw_frame(lw, fn, e->span);
  PmValueId param = pm_b_param(&lw->frame->b, pm_type_scalar(PM_F64), "step");
  PmVal step = pm_val_node(param, true), steps = pm_val_num((double)lw->m->steps);
  PmScope *outer = lw->scope;
  lw->scope = pm_scope_new(lw, &lw->main->globals, PM_SCOPE_FN, lw->main, "lr");
  pm_scope_put(lw, lw->scope, pm_sym_value(pm_intern(lw->names, "step"), step, e->span));
  pm_scope_put(lw, lw->scope, pm_sym_value(pm_intern(lw->names, "steps"), steps, e->span));
  lw->schedule_step = &step;
  lw->schedule_steps = &steps;
  PmVal v = pm_lw_eval(lw, e);
  lw->schedule_step = lw->schedule_steps = NULL;
  bool number = v.kind == PM_V_NUM || (v.kind == PM_V_NODE && v.exact && pm_val_type(lw, &v)->rank == 0 &&
                                       pm_val_type(lw, &v)->dtype == PM_F64);
  if (number) {
    pm_lw_at(lw, e->span);
    PmValueId id = pm_lw_node(lw, v, PM_F64);
    pm_b_results(&lw->frame->b, &id, 1);
    lw->m->schedule = fn;
  } else {
    if (v.kind != PM_V_ERROR)
      pm_lw_error(lw, PM_E_TRAIN, e->span, "`lr` must be one number, made of `step` and constants");
    pm_fn(lw->m, fn)->dead = true;
  }
  lw->frame = lw->frame->parent;
  lw->scope = outer;
}

// The input that `x = NAME` feeds; PM_NONE after an error.
static PmVarId data_input(PmLower *lw, const PmExpr *e) {
  const char *name = e->kind == PM_X_NAME ? e->name : "";
  int32_t n = 0;
  const char **names = PM_NEW_N(lw->arena, const char *, lw->m->n_vars + 1);
  for (PmVarId v = 0; v < lw->m->n_vars; v++) {
    if (lw->m->vars[v].role != PM_ROLE_INPUT) continue;
    if (lw->m->vars[v].path == name) {
      if (lw->m->vars[v].type.dtype == PM_I32) return v;
      pm_lw_error(lw, PM_E_TRAIN, e->span, "`tokens` feeds inputs declared with `in AXIS`, and `%s` is not", name);
      return PM_NONE;
    }
    names[n++] = lw->m->vars[v].path;
  }
  if (pm_lw_error(lw, PM_E_TRAIN, e->span, "the model has no input %s", pm_lw_text(lw, e->span))) {
    pm_lw_suggest(lw, name, names, n);
  }
  return PM_NONE;
}

static void add_file(PmLower *lw, const char *file, int32_t *cap) {
  PmData *d = &lw->m->data;
  d->files = pm_grow(lw->m->arena, d->files, d->n_files, cap, sizeof *d->files);
  d->files[d->n_files++] = pm_intern(lw->names, file);
}

static bool add_files(PmLower *lw, const PmExpr *e, int32_t *cap) {
  if (e->kind == PM_X_STR) {
    add_file(lw, e->name, cap);
    return true;
  }
  bool ok = e->kind == PM_X_LIST && e->args.n > 0;
  for (int32_t i = 0; ok && i < e->args.n; i++) {
    ok = !e->args.items[i].name.text && e->args.items[i].value->kind == PM_X_STR;
    if (ok) add_file(lw, e->args.items[i].value->name, cap);
  }
  if (!ok) pm_lw_error(lw, PM_E_TRAIN, e->span, "`tokens` takes file names in quotes, one or a list `[\"a\", \"b\"]`");
  return ok;
}

static void data_format(PmLower *lw, const PmExpr *e) {
  static const char *const formats[] = {"bytes", "llmc"};
  for (int32_t i = 0; e->kind == PM_X_STR && i < 2; i++) {
    if (strcmp(formats[i], e->name) == 0) {
      lw->m->data.format = pm_intern(lw->names, e->name);
      return;
    }
  }
  if (pm_lw_error(lw, PM_E_TRAIN, e->span, "the format of data is \"bytes\" or \"llmc\"") && e->kind == PM_X_STR) {
    pm_lw_suggest(lw, e->name, formats, 2);
  }
}

static void data_arg(PmLower *lw, const PmArg *a, int32_t *cap) {
  static const char *const names[] = {"format", "shuffle", "x", "y"};
  const char *name = a->name.text;
  if (!name) {
    add_files(lw, a->value, cap);
  } else if (strcmp(name, "format") == 0) {
    data_format(lw, a->value);
  } else if (strcmp(name, "x") == 0) {
    lw->m->data.x = data_input(lw, a->value);
  } else if (strcmp(name, "y") == 0) {
    lw->m->data.y = data_input(lw, a->value);
  } else if (strcmp(name, "shuffle") == 0) {
    bool yes = a->value->kind == PM_X_NAME && strcmp(a->value->name, "true") == 0;
    bool no = a->value->kind == PM_X_NAME && strcmp(a->value->name, "false") == 0;
    lw->m->data.shuffle = yes;
    if (!yes && !no) pm_lw_error(lw, PM_E_TRAIN, a->value->span, "`shuffle` is `true` or `false`");
  } else if (pm_lw_error(lw, PM_E_ARGS, a->name.span, "`tokens` has no argument `%s`", name)) {
    pm_lw_suggest(lw, name, names, 4);
  }
}

static void check_pair(PmLower *lw, const PmExpr *e) {
  const PmData *d = &lw->m->data;
  if (d->x == PM_NONE || d->y == PM_NONE) return;
  const PmVar *x = &lw->m->vars[d->x], *y = &lw->m->vars[d->y];
  if (pm_type_same_logical(&x->type, &y->type)) return;
  if (pm_lw_error(lw, PM_E_TRAIN, e->span, "`%s` is `%s` shifted by one, so both need the same axes and vocabulary",
                  y->path, x->path)) {
    pm_diag_note(lw->diags, "`%s`%s and `%s`%s", x->path, pm_lw_axes(lw, &x->type), y->path, pm_lw_axes(lw, &y->type));
  }
}

static void data(const Train *t, const PmExpr *e) {
  PmLower *lw = t->lw;
  static const char *const kinds[] = {"npy", "tokens"};
  const char *kind = e->kind == PM_X_CALL && e->a->kind == PM_X_NAME ? e->a->name : "";
  if (strcmp(kind, "npy") == 0) {
    pm_lw_later(lw, e->a->span, "`npy` data");
    return;
  }
  if (strcmp(kind, "tokens") != 0) {
    if (pm_lw_error(lw, PM_E_TRAIN, e->span, "`data` is `tokens(FILES, format=\"bytes\", x=..., y=...)`")) {
      pm_lw_suggest(lw, kind, kinds, 2);
    }
    return;
  }
  int32_t cap = 0, errors = pm_diags_errors(lw->diags);
  for (int32_t i = 0; i < e->args.n; i++) data_arg(lw, &e->args.items[i], &cap);
  if (pm_diags_errors(lw->diags) > errors) return;
  const char *missing = lw->m->data.n_files == 0   ? "a file name"
                        : !lw->m->data.format      ? "`format=\"bytes\"` or `format=\"llmc\"`"
                        : lw->m->data.x == PM_NONE ? "`x=INPUT`"
                                                   : NULL;
  if (missing) pm_lw_error(lw, PM_E_TRAIN, e->span, "`tokens` needs %s", missing);
  check_pair(lw, e);
}

static void replace_files(PmLower *lw) {
  if (!lw->options->n_data) return;
  int32_t cap = 0;
  lw->m->data.files = NULL;
  lw->m->data.n_files = 0;
  for (int32_t i = 0; i < lw->options->n_data; i++) add_file(lw, lw->options->data[i], &cap);
}

void pm_lw_train(PmLower *lw, const PmItem *train) {
  static const PmItem none = {.kind = PM_IT_TRAIN};
  Train t = {lw, train ? train : &none};
  check_keys(&t);
  numbers(&t);
  loss_scale(&t);
  if (lw->options->steps > 0) lw->m->steps = lw->options->steps;
  if (lw->options->seed >= 0) lw->m->seed = (uint64_t)lw->options->seed;
  const PmExpr *optimizer = setting(&t, "optimizer"), *lr = setting(&t, "lr"), *files = setting(&t, "data");
  if (files) data(&t, files);
  replace_files(lw);
  if (lr) schedule(&t, lr);
  if (optimizer && !lr && pm_lw_error(lw, PM_E_TRAIN, t.item->span, "`train` has an optimizer, but no `lr`")) {
    pm_diag_help(lw->diags, "add `lr = 1e-3`, or a schedule such as `lr = warmup_cosine(peak=1e-3, warmup=100)`");
  }
  if (optimizer) pm_lw_optimizer(lw, optimizer, &t.item->entries);
}
