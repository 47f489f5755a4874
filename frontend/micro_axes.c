// Micro-batches in the axes of a program: `batch` is cut, so that every tensor has the rows of one micro-batch, while
// the number `batch` stays what the program says.
#include <string.h>

#include "base/names.h"
#include "frontend/lower.h"

double pm_lw_axis_value(const PmLower *lw, PmAxisId axis) {
  double size = (double)lw->m->axes[axis & ~PM_AXIS_MICRO].size;
  return axis == lw->m->rows ? size * (double)lw->micro : size;
}

PmAxisId pm_lw_rows(PmLower *lw, PmAxisId axis, PmRowsUse use, const char *what, PmSpan span, bool *out_whole) {
  PmAxisId own = axis & ~PM_AXIS_MICRO;
  if (lw->m->rows == PM_NONE || axis != lw->m->rows || use == PM_ROWS_ANY) return own;
  if (use == PM_ROWS_SUM) {
    if (out_whole) *out_whole = true;
    return own;
  }
  if (pm_lw_error(lw, PM_E_MICRO, span, "%s needs all rows of `batch` at once, and a micro-batch has %lld of %lld",
                  what, (long long)lw->m->axes[own].size, (long long)(lw->m->axes[own].size * lw->micro))) {
    pm_diag_label(lw->diags, lw->accumulate->span, "%lld micro-batches", (long long)lw->micro);
    pm_diag_help(lw->diags, "write `batch.micro` for the rows of one micro-batch, or leave `accumulate` out");
  }
  return own;
}

static void put_divisors(int64_t n, PmBuf *out) {
  for (int64_t k = 1; k <= n && k <= 4096 && out->len < 200; k++) {
    if (n % k == 0) pm_buf_printf(out, "%s%lld", out->len ? ", " : "", (long long)k);
  }
}

void pm_lw_divide_batch(PmLower *lw, PmName name, int64_t *size) {
  if (!lw->accumulate || strcmp(name.text, "batch") != 0 || lw->m->rows != PM_NONE) return;
  int64_t n;
  const PmExpr *e = lw->accumulate->args.items[0].value;
  if (!pm_lw_eval_whole(lw, e, "the number of micro-batches", 1, PM_MAX_AXIS_SIZE, &n) || n == 1) return;
  if (*size % n == 0) {
    lw->micro = n;
    *size /= n;
    lw->m->rows = lw->m->n_axes;  // the one that is added next
    return;
  }
  if (!pm_lw_error(lw, PM_E_MICRO_DIVIDE, e->span, "`batch` (%lld) does not divide into %lld micro-batches",
                   (long long)*size, (long long)n)) {
    return;
  }
  PmBuf works;
  pm_buf_init(&works);
  put_divisors(*size, &works);
  pm_diag_label(lw->diags, name.span, "`batch` is set here");
  pm_diag_help(lw->diags, "micro in {%s}", pm_buf_str(&works));
  pm_buf_deinit(&works);
}

static bool says_micro(PmLower *lw, const PmExpr *e) {
  if (!e) return false;
  if (e->kind == PM_X_FIELD && strcmp(e->name, "micro") == 0) return true;
  const PmSym *sym = e->kind == PM_X_NAME ? pm_scope_find(lw->scope, e->name) : NULL;
  if (sym && sym->kind == PM_SYM_AXIS && sym->axis < lw->n_says && lw->says_micro[sym->axis]) return true;
  for (int32_t i = 0; i < e->args.n; i++) {
    if (says_micro(lw, e->args.items[i].value)) return true;
  }
  return says_micro(lw, e->a) || says_micro(lw, e->b);
}

void pm_lw_note_micro_size(PmLower *lw, const PmExpr *size) {
  if (lw->micro < 2) return;
  while (lw->n_says <= lw->m->n_axes) {
    lw->says_micro = pm_grow(lw->arena, lw->says_micro, lw->n_says, &lw->cap_says, sizeof(bool));
    lw->says_micro[lw->n_says++] = false;
  }
  lw->says_micro[lw->m->n_axes] = says_micro(lw, size);
}

void pm_lw_check_capacity(PmLower *lw, PmAxisId slot, int64_t n, PmSpan span) {
  const PmAxis *axis = &lw->m->axes[slot];
  if (lw->micro < 2 || axis->size >= n || (slot < lw->n_says && lw->says_micro[slot])) return;
  if (pm_lw_bounded(lw, slot)) return;  // nothing is dropped
  if (!pm_lw_error(lw, PM_E_MICRO, span, "each micro-batch would fill the %lld slots of `%s` anew",
                   (long long)axis->size, axis->name)) {
    return;
  }
  pm_diag_label(lw->diags, lw->accumulate->span, "%lld micro-batches", (long long)lw->micro);
  pm_diag_note(lw->diags, "what finds no slot is dropped, and that would depend on the number of micro-batches");
  pm_diag_help(lw->diags, "say so in the size of `%s`, with `batch.micro` for `batch`, or write `%s = ragged`",
               axis->name, axis->name);
}

void pm_lw_add_micro_axis(PmLower *lw) {
  if (!lw->accumulate) return;
  const PmExpr *e = lw->accumulate->args.items[0].value;
  const PmSym *batch = pm_scope_find_here(&lw->main->globals, pm_intern(lw->names, "batch"));
  if (!batch || (batch->kind != PM_SYM_AXIS && batch->kind != PM_SYM_ERROR)) {
    if (pm_lw_error(lw, PM_E_MICRO, lw->accumulate->span, "the program has no axis `batch` to divide")) {
      pm_diag_note(lw->diags, "micro-batches are parts of the axis that is named `batch`");
      pm_diag_help(lw->diags, "name the rows of a step so, or leave `accumulate` out");
    }
    return;
  }
  if (lw->micro < 2) return;
  // The dot keeps it apart from every axis of the program.
  const char *name = pm_intern(lw->names, PM_TURN_AXIS);
  if (lw->m->n_axes < PM_MAX_AXES) {
    lw->m->micro = pm_lw_add_axis(lw, name, lw->micro, pm_lw_loc(lw, e->span));
    return;
  }
  pm_lw_error(lw, PM_E_LIMIT, e->span, "more than %d axes", PM_MAX_AXES);
  lw->stopped = true;
}
