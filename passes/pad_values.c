// What stands in the padding of every value: a fixed point over all functions, from "not known yet" downwards. A number
// is followed only through ops that give the same number in every float type: zeros, ones and what small integers come
// to.
#include <math.h>

#include "passes/pad.h"
#include "passes/rewrite.h"
#include "passes/shard_rules.h"

typedef struct Find {
  const PmModule *m;
  const PmTree *tree;
  PmArena *arena;
  PmPadValue **at;  // per slot
  bool changed;
} Find;

static const PmPadValue any = {.kind = PM_PAD_ANY};

static PmPadValue known(double value) {
  // Small integers and infinities are exact in every float type and in every order of evaluation.
  bool exact = isinf(value) || (fabs(value) <= 128 && value == floor(value));
  return exact ? (PmPadValue){.kind = PM_PAD_KNOWN, .value = value} : any;
}

static PmPadValue both(PmPadValue a, PmPadValue b) {
  if (a.kind == PM_PAD_OPEN) return b;
  if (b.kind == PM_PAD_OPEN) return a;
  return a.kind == PM_PAD_KNOWN && b.kind == PM_PAD_KNOWN && a.value == b.value ? a : any;
}

static void learn(Find *f, int32_t slot, int32_t dim, PmPadValue v) {
  PmPadValue *to = &f->at[slot][dim];
  PmPadValue now = both(*to, v);
  f->changed |= now.kind != to->kind;
  *to = now;
}

// Operand i of a map, in the padding of `axis`.
static PmPadValue operand_at(const Find *f, const PmTreeFn *t, const PmFn *fn, PmValueId v, PmAxisId axis) {
  double number;
  if (pm_is_splat(fn, v, &number)) return known(number);
  int32_t d = pm_type_find(&fn->values[v].type, axis);
  return d < 0 ? any : f->at[pm_slot(t, v)][d];
}

// A product with zero is zero as long as the other factor is a number: what has the axis too may be anything in its own
// padding, what has it not is a value of the program.
static PmPadValue product(const PmFn *fn, const PmNode *n, const PmPadValue *in, PmAxisId axis) {
  for (int32_t i = 0; i < 2; i++) {
    bool other_padded = pm_type_find(&fn->values[n->in[1 - i]].type, axis) >= 0;
    if (pm_pad_is(&in[i], 0) && !other_padded) return known(0);
  }
  return any;
}

static PmPadValue map_value(const Find *f, const PmTreeFn *t, const PmFn *fn, const PmNode *n, PmAxisId axis) {
  PmPadValue in[3] = {{0}};
  bool open = false, all = true;
  for (int32_t i = 0; i < n->n_in; i++) {
    in[i] = operand_at(f, t, fn, n->in[i], axis);
    open |= in[i].kind == PM_PAD_OPEN;
    all &= in[i].kind == PM_PAD_KNOWN;
  }
  if (open) return (PmPadValue){0};
  if (all) {
    double value = pm_scalar_eval(n->attr.fn, in[0].value, in[1].value, in[2].value);
    return isnan(value) ? any : known(value);
  }
  PmLinear linear = pm_scalar_linear(n->attr.fn);
  if (linear == PM_LIN_EITHER) return product(fn, n, in, axis);
  bool divides = linear == PM_LIN_FIRST && pm_type_find(&fn->values[n->in[1]].type, axis) < 0;
  if (divides && pm_pad_is(&in[0], 0)) return in[0];
  return linear == PM_LIN_BRANCH ? both(in[1], in[2]) : any;
}

// `axis` passes this node as `fac`; what the result holds in its padding follows from the operands that have the axis.
static PmPadValue passed(const Find *f, const PmTreeFn *t, const PmFn *fn, const PmNode *n, const PmFactor *fac) {
  PmPadValue v = {0};
  bool some = false;
  for (int32_t i = 0; i < n->n_in; i++) {
    if (fac->in_dim[i] < 0) continue;
    v = both(v, f->at[pm_slot(t, n->in[i])][fac->in_dim[i]]);
    some = true;
  }
  uint32_t flags = pm_op_flags(n->op);
  double number;
  if (pm_is_splat(fn, n->out, &number)) return known(number);
  if (!some) return flags & PM_F_LINEAR1 ? known(0) : any;  // no index points into the padding of a table
  if (flags & (PM_F_LINEAR | PM_F_VIEW)) return v;
  bool sums = (flags & PM_F_BILINEAR) || ((flags & PM_F_REDUCE) && n->attr.kind == PM_SUM);
  if (flags & PM_F_REDUCE && !sums) return v;  // the largest of equal numbers
  if (v.kind == PM_PAD_OPEN) return v;
  // Sums of zeros, and rows, looked up or scattered, whose own padding is zero.
  bool rows = ((flags & PM_F_LINEAR0) && fac->in_dim[1] < 0) || ((flags & PM_F_LINEAR1) && fac->in_dim[0] < 0);
  return (sums || rows) && pm_pad_is(&v, 0) ? v : any;
}

static void visit_node(Find *f, const PmTreeFn *t, const PmFn *fn, const PmNode *n) {
  PmFactors factors = pm_shard_factors(f->arena, fn, n);
  for (int32_t i = 0; i < factors.n; i++) {
    const PmFactor *fac = &factors.items[i];
    for (int32_t k = 0; k < n->n_out; k++) {
      if (fac->out_dim[k] < 0) continue;
      PmAxisId axis = fn->values[n->out + k].type.dims[fac->out_dim[k]].axis;
      if (f->m->axes[axis].pad == 0) continue;
      PmPadValue v = n->op == PM_OP_map ? map_value(f, t, fn, n, axis) : passed(f, t, fn, n, fac);
      if (fac->kind == PM_FACTOR_WHOLE) v = any;
      learn(f, pm_slot(t, n->out + k), fac->out_dim[k], v);
    }
  }
}

// Dim by dim from one side of a call to the other; leading dims are skipped where the repeat axis stands.
static void cross(Find *f, int32_t from, int32_t skip_from, int32_t to, int32_t skip_to, int32_t rank) {
  for (int32_t d = 0; d < rank; d++) learn(f, to, d + skip_to, f->at[from][d + skip_from]);
}

static void visit_call(Find *f, const PmTreeFn *t, const PmNode *n) {
  const PmTreeFn *callee = pm_tree_callee(f->tree, n);
  const PmFn *g = pm_fn(f->m, callee->fn);
  for (int32_t i = 0; i < n->n_in; i++) {
    int32_t skip = pm_cross_in(n, i) == PM_CROSS_STACK;
    cross(f, pm_slot(t, n->in[i]), skip, pm_slot(callee, i), 0, g->values[i].type.rank);
  }
  for (int32_t i = 0; i < n->n_out; i++) {
    PmCross kind = pm_cross_out(n, i);
    int32_t result = pm_slot(callee, g->results[i]), rank = g->values[g->results[i]].type.rank;
    cross(f, result, 0, pm_slot(t, n->out + i), kind == PM_CROSS_STACK, rank);
    if (kind == PM_CROSS_CARRY) cross(f, result, 0, pm_slot(callee, i), 0, rank);
  }
}

PmPadValue **pm_pad_values(PmArena *arena, const PmModule *m, const PmTree *tree) {
  Find f = {.m = m, .tree = tree, .arena = arena, .at = PM_NEW_N(arena, PmPadValue *, tree->n_slots + 1)};
  for (int32_t i = 0; i < tree->n_fns; i++) {
    const PmTreeFn *t = &tree->fns[i];
    const PmFn *fn = pm_fn(m, t->fn);
    for (PmValueId v = 0; v < fn->n_values; v++) {
      int32_t rank = fn->values[v].type.rank;
      f.at[pm_slot(t, v)] = PM_NEW_N(arena, PmPadValue, rank + 1);
      for (int32_t d = 0; t->parent == PM_NONE && v < fn->n_params && d < rank; d++) f.at[pm_slot(t, v)][d] = known(0);
    }
  }
  do {
    f.changed = false;
    for (int32_t i = 0; i < tree->n_fns; i++) {
      const PmTreeFn *t = &tree->fns[i];
      const PmFn *fn = pm_fn(m, t->fn);
      for (int32_t k = 0; k < fn->n_nodes; k++) {
        const PmNode *n = &fn->nodes[k];
        if (pm_is_call(n))
          visit_call(&f, t, n);
        else
          visit_node(&f, t, fn, n);
      }
    }
  } while (f.changed);
  return f.at;
}
