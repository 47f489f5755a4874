// Positions along an axis that are known when a program is compiled: slices, and tables made of `pos`.
//
// Both become an `index` by integers that are cast from exact numbers, so that every pass sees what it knows. The
// numbers are looked at here, because a position outside of its axis would read as 0 without a word.
#include <math.h>

#include "frontend/lower.h"
#include "ir/interp.h"

#define MAX_POSITIONS (INT64_C(1) << 20)

// The nodes of the current function that `v` is made of, as a function of their own.
typedef struct Extract {
  PmLower *lw;
  PmFnId from, to;
  bool *wanted;      // by value
  PmValueId *made;   // by value
  int64_t elements;  // of all of them
} Extract;

// Marks what is wanted; false when a parameter is among it, or it is too large.
static bool mark(Extract *x, PmValueId last) {
  const PmFn *f = pm_fn(x->lw->m, x->from);
  x->wanted[last] = true;
  for (int32_t i = f->n_nodes - 1; i >= 0; i--) {
    const PmNode *n = &f->nodes[i];
    if (!x->wanted[n->out]) continue;
    int64_t size;
    if (!pm_type_elements(x->lw->m, &f->values[n->out].type, &size) || (x->elements += size) > 4 * MAX_POSITIONS) {
      return false;
    }
    for (int32_t k = 0; k < n->n_in; k++) x->wanted[n->in[k]] = true;
  }
  for (int32_t i = 0; i < f->n_params; i++) {
    if (x->wanted[i]) return false;
  }
  return true;
}

static void copy(Extract *x, PmValueId last) {
  PmLower *lw = x->lw;
  PmBuilder b = {.m = lw->m, .fn = x->to};
  for (int32_t i = 0; i < pm_fn(lw->m, x->from)->n_nodes; i++) {
    const PmNode n = pm_fn(lw->m, x->from)->nodes[i];
    if (!x->wanted[n.out]) continue;
    PmValueId *in = PM_NEW_N(lw->arena, PmValueId, n.n_in + 1);
    for (int32_t k = 0; k < n.n_in; k++) in[k] = x->made[n.in[k]];
    const PmType type = pm_fn(lw->m, x->from)->values[n.out].type;
    x->made[n.out] = pm_b_node(&b, n.op, &n.attr, in, n.n_in, &type);
  }
  pm_b_results(&b, &x->made[last], 1);
}

typedef enum Outcome { KNOWN, UNKNOWN, BAD } Outcome;

// Runs the function and looks for a number that is no position of an axis of `size`.
static Outcome look(const PmModule *m, PmFnId fn, int64_t size, double *out_bad) {
  PmArena scratch;
  pm_arena_init(&scratch, PM_MAX_SCRATCH_BYTES);
  PmTensor t;
  PmStatus *st = pm_interp_run(m, fn, PM_INTERP_EXACT, &scratch, NULL, &t);
  Outcome outcome = st ? UNKNOWN : KNOWN;
  for (int64_t i = 0; outcome == KNOWN && i < t.n; i++) {
    *out_bad = t.data[i];
    if (!(t.data[i] >= 0) || t.data[i] >= (double)size || t.data[i] != floor(t.data[i])) outcome = BAD;
  }
  pm_status_drop(st);
  pm_arena_deinit(&scratch);
  return outcome;
}

static Outcome check(PmLower *lw, PmValueId v, int64_t size, double *out_bad) {
  PmModule *m = lw->m;
  const PmFn *f = pm_fn(m, lw->frame->b.fn);
  Extract x = {.lw = lw, .from = lw->frame->b.fn};
  x.wanted = PM_NEW_N(lw->arena, bool, f->n_values);
  x.made = PM_NEW_N(lw->arena, PmValueId, f->n_values);
  if (!mark(&x, v)) return UNKNOWN;
  x.to = pm_module_add_fn(m, "positions", PM_FN_BODY);
  copy(&x, v);
  Outcome outcome = look(m, x.to, size, out_bad);
  // It was the last one, and nothing has its number.
  m->n_fns--;
  return outcome;
}

static PmVal as_index(PmLower *lw, PmValueId v, PmAxisId axis) {
  PmType type = *pm_b_type(&lw->frame->b, v);
  type.dtype = PM_I32;
  type.index_of = axis;
  return pm_val_node(pm_b_node(&lw->frame->b, PM_OP_cast, &(PmAttr){0}, &v, 1, &type), false);
}

PmVal pm_lw_positions(PmLower *lw, PmVal at, PmAxisId axis, PmSpan span) {
  const char *name = lw->m->axes[axis].name;
  int64_t size = lw->m->axes[axis].size;
  const PmType *t = pm_val_type(lw, &at);
  if (t->dtype != PM_F64) {
    pm_lw_error(lw, PM_E_DTYPE, span, "an index is an integer, but %s is %s", pm_lw_text(lw, span),
                pm_dtype_text((PmDtype)t->dtype));
    return PM_ERROR_VAL;
  }
  int64_t n;
  if (!pm_type_elements(lw->m, t, &n) || n > MAX_POSITIONS) {
    pm_lw_error(lw, PM_E_LIMIT, span, "an index made of `pos` has at most %lld elements", (long long)MAX_POSITIONS);
    return PM_ERROR_VAL;
  }
  double bad = 0;
  switch (check(lw, at.id, size, &bad)) {
    case KNOWN:
      pm_lw_at(lw, span);
      return as_index(lw, at.id, axis);
    case UNKNOWN:
      if (pm_lw_error(lw, PM_E_INDEX, span, "%s does not say which axis it points into; `%s` is indexed",
                      pm_lw_text(lw, span), name)) {
        pm_diag_note(lw->diags, "only positions made of `pos` and constants are looked at before the program runs");
      }
      return PM_ERROR_VAL;
    case BAD:
      break;
  }
  if (pm_lw_error(lw, PM_E_CONSTANT, span, "axis `%s` has positions 0 to %lld, and this is %g somewhere", name,
                  (long long)size - 1, bad)) {
    pm_diag_help(lw->diags, "`min`, `max` and `floor` keep positions in their axis");
  }
  return PM_ERROR_VAL;
}

PmVal pm_lw_slice(PmLower *lw, PmVal x, PmAxisId axis, int64_t lo, int64_t hi, PmAxisId to) {
  PmBuilder *b = &lw->frame->b;
  if (hi - lo == lw->m->axes[axis].size) {
    return to == axis ? x : pm_val_node(pm_b_rename(b, x.id, &axis, &to, 1), x.exact);
  }
  if (x.exact) x = pm_val_node(pm_lw_node(lw, x, PM_F32), false);
  PmValueId at = pm_b_pos(b, to);
  const PmType type = *pm_b_type(b, at);
  PmValueId first = pm_b_broadcast(b, pm_b_const(b, PM_F64, (double)lo), type);
  at = as_index(lw, pm_b_map2(b, PM_S_add, at, first), axis).id;
  return pm_val_node(pm_b_index(b, x.id, at, axis), false);
}
