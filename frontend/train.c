// `train`: its settings, the schedule and the optimizer; `data` is read in data.c.
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
    const PmItemEntry *e = &t->item->entries.items[i];
    if (!e->glob.text && strcmp(e->key.text, key) == 0) own = e->value;
  }
  return pm_lw_setting(t->lw, "train", key, own);
}

#define MAX_WHOLE (INT64_C(1) << 53)

static const char *const keys[] = {"clip", "data",      "loss_scale", "loss_scale_window",
                                   "lr",   "optimizer", "seed",       "steps"};
enum { N_KEYS = sizeof keys / sizeof *keys };

bool pm_lw_is_train_key(const char *key) {
  for (int32_t k = 0; k < N_KEYS; k++) {
    if (strcmp(keys[k], key) == 0) return true;
  }
  return false;
}

void pm_lw_no_train_key(PmLower *lw, PmName key) {
  if (!pm_lw_error(lw, PM_E_TRAIN, key.span, "`train` has no setting `%s`", key.text)) return;
  pm_lw_suggest_from(lw, key.text, keys, N_KEYS, "its settings are");
}

static void check_keys(const Train *t) {
  PmLower *lw = t->lw;
  for (int32_t i = 0; i < t->item->entries.n; i++) {
    const PmItemEntry *e = &t->item->entries.items[i];
    bool known = e->glob.text || pm_lw_is_train_key(e->key.text);
    if (!known) pm_lw_no_train_key(lw, e->key);
    for (int32_t k = 0; k < i && known && !e->glob.text; k++) {
      const PmItemEntry *old = &t->item->entries.items[k];
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

void pm_lw_train(PmLower *lw, const PmItem *train) {
  static const PmItem none = {.kind = PM_IT_TRAIN};
  Train t = {lw, train ? train : &none};
  check_keys(&t);
  numbers(&t);
  loss_scale(&t);
  if (lw->options->steps > 0) lw->m->steps = lw->options->steps;
  if (lw->options->seed >= 0) lw->m->seed = (uint64_t)lw->options->seed;
  const PmExpr *optimizer = setting(&t, "optimizer"), *lr = setting(&t, "lr"), *files = setting(&t, "data");
  pm_lw_data_setting(lw, files);
  if (lr) schedule(&t, lr);
  if (optimizer && !lr && pm_lw_error(lw, PM_E_TRAIN, t.item->span, "`train` has an optimizer, but no `lr`")) {
    pm_diag_help(lw->diags, "add `lr = 1e-3`, or a schedule such as `lr = warmup_cosine(peak=1e-3, warmup=100)`");
  }
  if (optimizer) pm_lw_optimizer(lw, optimizer, &t.item->entries);
}
