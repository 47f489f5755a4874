#include <math.h>
#include <string.h>

#include "frontend/lower.h"

PmAxisId pm_lw_axis_name(PmLower *lw, PmName name) {
  PmSym *sym = pm_scope_find(lw->scope, name.text);
  if (sym && sym->kind == PM_SYM_AXIS) return pm_lw_sized(lw, sym->axis, name.span) ? sym->axis : PM_NONE;
  if (sym && (sym->kind == PM_SYM_ERROR || sym->val.kind == PM_V_ERROR)) return PM_NONE;
  const char **names;
  int32_t n = pm_scope_names(lw, lw->scope, PM_SYM_AXIS, &names);
  if (sym) {
    if (pm_lw_error(lw, PM_E_UNKNOWN_AXIS, name.span, "`%s` is not an axis", name.text)) {
      if (sym->span.file >= 0) pm_diag_label(lw->diags, sym->span, "`%s` is declared here", name.text);
      pm_diag_note(lw->diags, "square brackets hold axes, round brackets hold tensors");
    }
    return PM_NONE;
  }
  if (pm_lw_error(lw, PM_E_UNKNOWN_AXIS, name.span, "unknown axis `%s`", name.text)) {
    if (pm_did_you_mean(name.text, names, n)) {
      pm_lw_suggest(lw, name.text, names, n);
    } else {
      pm_diag_help(lw->diags, "declare it: `axis %s = SIZE`", name.text);
    }
  }
  return PM_NONE;
}

static PmRagged *find_ragged(const PmLower *lw, PmAxisId axis) {
  axis &= ~PM_AXIS_MICRO;
  for (int32_t i = 0; i < lw->n_ragged; i++) {
    if (lw->ragged[i].axis == axis) return &lw->ragged[i];
  }
  return NULL;
}

bool pm_lw_sized(PmLower *lw, PmAxisId axis, PmSpan span) {
  const PmRagged *r = find_ragged(lw, axis);
  if (!r || r->sized) return true;
  const char *name = lw->m->axes[axis].name;
  if (pm_lw_error(lw, PM_E_AXIS_SIZE, span, "`%s` is ragged and has no size before its first `dispatch`", name)) {
    pm_diag_label(lw->diags, r->span, "declared here");
    pm_diag_help(lw->diags, "give it a size: `axis %s = 64`", name);
  }
  return false;
}

bool pm_lw_bounded(const PmLower *lw, PmAxisId axis) {
  const PmRagged *r = find_ragged(lw, axis);
  return r && r->bound > 0;
}

void pm_lw_resolve_ragged(PmLower *lw, const PmExpr *e, int64_t n, int64_t experts) {
  const PmSym *sym = e->kind == PM_X_NAME ? pm_scope_find(lw->scope, e->name) : NULL;
  PmRagged *r = sym && sym->kind == PM_SYM_AXIS ? find_ragged(lw, sym->axis) : NULL;
  if (!r) return;
  PmAxis *axis = &lw->m->axes[r->axis];
  double mean = (double)n / (double)experts;
  if (r->bound > 0 && r->bound * mean < (double)n) n = (int64_t)ceil(r->bound * mean);
  if (n < 1 || n > PM_MAX_AXIS_SIZE) {
    pm_lw_error(lw, PM_E_LIMIT, e->span, "`%s` would need more slots than an axis may have", axis->name);
    n = 1;
  }
  if (!r->sized) {
    axis->size = n;
    r->sized = true;
    r->first = e->span;
  }
  if (axis->size == n) return;
  if (pm_lw_error(lw, PM_E_AXIS_SIZE, e->span, "`%s` needs up to %lld slots here, but has %lld", axis->name,
                  (long long)n, (long long)axis->size)) {
    pm_diag_label(lw->diags, r->first, "its size comes from this dispatch");
    pm_diag_help(lw->diags, "declare another ragged axis for this one");
  }
}

PmAxisId pm_lw_micro(PmLower *lw, const PmExpr *e) {
  PmName name = {e->a->name, e->a->span};
  if (e->a->kind == PM_X_NAME && strcmp(e->name, "micro") == 0 && strcmp(name.text, "batch") == 0) {
    PmAxisId axis = pm_lw_axis_name(lw, name);
    return axis == PM_NONE || axis != lw->m->rows ? axis : axis | PM_AXIS_MICRO;
  }
  if (pm_lw_error(lw, PM_E_UNKNOWN_AXIS, e->span, "%s is not an axis", pm_lw_text(lw, e->span)) &&
      !pm_lw_suggest_micro(lw, e)) {
    pm_diag_help(lw->diags, "`batch.micro` is the part of `batch` that one micro-batch has");
  }
  return PM_NONE;
}

bool pm_lw_suggest_micro(PmLower *lw, const PmExpr *e) {
  static const char *const known[] = {"batch.micro"};
  const char *text = e->a->kind == PM_X_NAME ? pm_intern_printf(lw->names, "%s.%s", e->a->name, e->name) : "";
  if (!pm_did_you_mean(text, known, 1)) return false;
  pm_lw_suggest(lw, text, known, 1);
  return true;
}

PmAxisId pm_lw_axis(PmLower *lw, const PmExpr *e) {
  if (e->kind == PM_X_FIELD) return pm_lw_micro(lw, e);
  if (e->kind != PM_X_NAME) {
    pm_lw_error(lw, PM_E_UNKNOWN_AXIS, e->span, "square brackets hold axis names, and %s is none",
                pm_lw_text(lw, e->span));
    return PM_NONE;
  }
  return pm_lw_axis_name(lw, (PmName){e->name, e->span});
}

bool pm_lw_axis_list(PmLower *lw, const PmArgs *args, PmAxisId *out, int32_t *out_n) {
  bool ok = true;
  *out_n = 0;
  for (int32_t i = 0; i < args->n; i++) {
    const PmArg *a = &args->items[i];
    if (a->name.text) {
      pm_lw_error(lw, PM_E_ARGS, a->name.span, "a list of axes has no `%s = ...`", a->name.text);
      ok = false;
      continue;
    }
    PmAxisId axis = pm_lw_axis(lw, a->value);
    if (axis == PM_NONE) {
      ok = false;
      continue;
    }
    for (int32_t k = 0; k < *out_n; k++) {
      if ((out[k] & ~PM_AXIS_MICRO) != (axis & ~PM_AXIS_MICRO)) continue;
      pm_lw_error(lw, PM_E_AXIS_TWICE, a->value->span, "axis `%s` is listed twice",
                  lw->m->axes[axis & ~PM_AXIS_MICRO].name);
      ok = false;
    }
    if (*out_n >= PM_MAX_RANK) {
      pm_lw_error(lw, PM_E_LIMIT, a->value->span, "more than %d axes", PM_MAX_RANK);
      return false;
    }
    out[(*out_n)++] = axis;
  }
  return ok;
}

PmAxisId pm_lw_target_axis(PmLower *lw, const PmExpr *e, int64_t size) {
  PmSym *sym = e->kind == PM_X_NAME ? pm_scope_find(lw->scope, e->name) : NULL;
  if (sym || e->kind != PM_X_NAME) {
    PmAxisId axis = pm_lw_axis(lw, e);
    if (axis != PM_NONE) axis = pm_lw_rows(lw, axis, PM_ROWS_ALL, "an axis that is made here", e->span, NULL);
    if (axis == PM_NONE || size == 0 || lw->m->axes[axis].size == size) return axis;
    if (pm_lw_error(lw, PM_E_AXIS_SIZE, e->span, "axis `%s` has size %lld, but %lld is needed here",
                    sym ? e->name : lw->m->axes[axis].name, (long long)lw->m->axes[axis].size, (long long)size)) {
      if (sym && sym->span.file >= 0) pm_diag_label(lw->diags, sym->span, "`%s` comes from here", e->name);
      if (lw->micro > 1) {
        pm_diag_note(lw->diags, "of `batch` a micro-batch has %lld rows, `batch.micro`",
                     (long long)lw->m->axes[lw->m->rows].size);
      }
    }
    return PM_NONE;
  }
  if (size == 0) return pm_lw_axis(lw, e);
  if (size < 0 || size > PM_MAX_AXIS_SIZE || lw->m->n_axes >= PM_MAX_AXES) {
    pm_lw_error(lw, PM_E_LIMIT, e->span, "axis `%s` would pass a limit of sizes or numbers of axes", e->name);
    return PM_NONE;
  }
  // A local axis of a function must not meet an axis of the program that happens to have its name.
  const char *name = e->name;
  if (lw->scope->kind == PM_SCOPE_FN && pm_scope_find_here(&lw->main->globals, name)) {
    name = pm_intern_printf(lw->names, "%s.%s", lw->scope->path, name);
  }
  PmAxisId axis = pm_module_local_axis(lw->m, name, size);
  pm_scope_put(lw, lw->scope, pm_sym_axis(e->name, axis, e->span));
  return axis;
}

void pm_lw_fail_targets(PmLower *lw, const PmArgs *to) {
  for (int32_t i = 0; to && i < to->n; i++) {
    const PmExpr *e = to->items[i].value;
    if (e->kind != PM_X_NAME || pm_scope_find(lw->scope, e->name)) continue;
    pm_scope_put(lw, lw->scope, pm_sym_axis(e->name, PM_NONE, e->span));
  }
}

PmAxisId pm_lw_add_axis(PmLower *lw, const char *name, int64_t size, PmLoc loc) {
  PmModule *m = lw->m;
  m->axes = pm_grow(m->arena, m->axes, m->n_axes, &m->cap_axes, sizeof *m->axes);
  m->axes[m->n_axes] = (PmAxis){.name = name, .size = size, .loc = loc};
  return m->n_axes++;
}

bool pm_lw_type_axes(PmLower *lw, const PmNames *names, PmType *t) {
  bool ok = true;
  const int32_t given = t->rank;  // axes of the repeats around
  for (int32_t i = 0; i < names->n; i++) {
    PmAxisId axis = pm_lw_axis_name(lw, names->items[i]);
    if (axis != PM_NONE) axis = pm_lw_rows(lw, axis, PM_ROWS_ANY, NULL, names->items[i].span, NULL);
    if (axis == PM_NONE) {
      ok = false;
    } else if (pm_type_find(t, axis) != PM_NONE) {
      const char *name = names->items[i].text;
      bool said = pm_lw_error(lw, PM_E_AXIS_TWICE, names->items[i].span, "axis `%s` stands twice", name);
      if (said && pm_type_find(t, axis) < given) {
        pm_diag_note(lw->diags, "what is declared inside `repeat %s` has that axis as its first already", name);
      }
      ok = false;
    } else if (t->rank >= PM_MAX_RANK) {
      pm_lw_error(lw, PM_E_LIMIT, names->items[i].span, "a tensor has at most %d axes", PM_MAX_RANK);
      return false;
    } else {
      pm_type_add(t, axis);
    }
  }
  return ok;
}
