// How each value of the model depends on the micro-batch. A sum over all rows is of one micro-batch a summand of what
// the program means; it stays a summand through ops that are linear in it, where a value that is no summand is averaged
// over the micro-batches to be added. Any other op on it must wait until after the last micro-batch, unless the sum is
// made of inputs alone: then it is summed before the first.
#include "frontend/micro.h"

#include <stdlib.h>

void pm_lw_whole_sum(PmLower *lw, PmValueId v) {
  lw->whole_sums = pm_grow(lw->arena, lw->whole_sums, lw->n_whole_sums, &lw->cap_whole_sums, sizeof *lw->whole_sums);
  lw->whole_sums[lw->n_whole_sums++] = (PmWholeSum){lw->frame->b.fn, v};
}

bool pm_lw_sums_whole(const PmLower *lw, PmFnId fn) {
  for (int32_t i = 0; i < lw->n_whole_sums; i++) {
    if (lw->whole_sums[i].fn == fn) return true;
  }
  return false;
}

static int by_place(const void *a, const void *b) {
  const PmMark *x = a, *y = b;
  if (x->fn != y->fn) return x->fn < y->fn ? -1 : 1;
  if (x->node != y->node) return x->node < y->node ? -1 : 1;
  return x->order < y->order ? -1 : x->order > y->order;
}

static int by_fn(const void *a, const void *b) {
  const PmWholeSum *x = a, *y = b;
  return x->fn < y->fn ? -1 : x->fn > y->fn;
}

// That of the newest mark that is not behind the node.
PmSpan pm_micro_span(const PmMicro *mi, const PmMicroFn *f, int32_t node) {
  int32_t lo = 0, hi = mi->lw->n_marks;
  while (lo < hi) {
    int32_t mid = lo + (hi - lo) / 2;
    const PmMark *mark = &mi->lw->marks[mid];
    if (mark->fn < f->id || (mark->fn == f->id && mark->node <= node)) {
      lo = mid + 1;
    } else {
      hi = mid;
    }
  }
  return lo > 0 && mi->lw->marks[lo - 1].fn == f->id ? mi->lw->marks[lo - 1].span : PM_NO_SPAN;
}

static void find_whole_sums(const PmMicro *mi, PmMicroFn *f) {
  int32_t lo = 0, hi = mi->lw->n_whole_sums;
  while (lo < hi) {
    int32_t mid = lo + (hi - lo) / 2;
    if (mi->lw->whole_sums[mid].fn < f->id) {
      lo = mid + 1;
    } else {
      hi = mid;
    }
  }
  for (; lo < mi->lw->n_whole_sums && mi->lw->whole_sums[lo].fn == f->id; lo++) {
    f->whole[mi->lw->whole_sums[lo].value] = true;
  }
}

bool pm_micro_rows(const PmMicro *mi, const PmType *t) { return pm_type_find(t, mi->lw->m->rows) != PM_NONE; }

bool pm_micro_joint(const PmNode *n, int32_t operand) {
  uint32_t flags = pm_op_flags(n->op);
  if (n->op != PM_OP_map) return (flags & PM_F_LINEAR) != 0;
  PmLinear how = pm_scalar_linear(n->attr.fn);
  return how == PM_LIN_JOINT || (how == PM_LIN_BRANCH && operand > 0);
}

bool pm_micro_outside(const PmMicroFn *f, PmValueId v, PmValueId *out) {
  if (!f->outer || f->f.values[v].def != PM_NONE) return false;
  const PmNode *n = &f->outer->f.nodes[f->node];
  *out = n->in[v];
  return v >= n->attr.n_carry && v < n->attr.n_carry + n->attr.n_inv;
}

// The result of a node of which some operands are summands is a summand: it is linear in them.
static bool stays_summand(const PmMicroFn *f, const PmNode *n, const uint8_t *part) {
  uint32_t flags = pm_op_flags(n->op);
  if ((flags & PM_F_CALL) || !pm_dtype_is_float((PmDtype)f->f.values[n->out].type.dtype)) return false;
  int32_t sums = 0;
  for (int32_t i = 0; i < n->n_in; i++) {
    sums += part[i] == PM_PART_SUM;
    if (!pm_micro_joint(n, i) && part[i] != PM_PART_SUM && part[i] != PM_PART_SAME) return false;
  }
  if (n->op == PM_OP_map) {
    PmLinear how = pm_scalar_linear(n->attr.fn);
    if (how == PM_LIN_JOINT) return true;
    if (how == PM_LIN_BRANCH) return part[0] == PM_PART_SAME;
    if (how == PM_LIN_FIRST) return sums == 1 && part[0] == PM_PART_SUM;
    return how == PM_LIN_EITHER && sums == 1;
  }
  if (flags & PM_F_LINEAR) return true;
  if (flags & PM_F_BILINEAR) return sums == 1;
  if (flags & PM_F_REDUCE) return n->attr.kind == PM_SUM;
  if (flags & PM_F_LINEAR0) return sums == 1 && part[0] == PM_PART_SUM;
  return (flags & PM_F_LINEAR1) && sums == 1 && part[1] == PM_PART_SUM;
}

static PmPart combine(const PmMicro *mi, const PmMicroFn *f, const PmNode *n, const uint8_t *part) {
  PmPart worst = PM_PART_SAME;
  bool sums = false, rows = false;
  for (int32_t i = 0; i < n->n_in; i++) {
    if (part[i] > worst) worst = (PmPart)part[i];
    sums = sums || part[i] == PM_PART_SUM;
    rows = rows || (part[i] == PM_PART_OWN && pm_micro_rows(mi, &f->f.values[n->in[i]].type));
  }
  if (worst == PM_PART_NEVER) return worst;
  bool row_by_row = false;
  for (int32_t k = 0; k < n->n_out; k++) row_by_row = row_by_row || pm_micro_rows(mi, &f->f.values[n->out + k].type);
  if (worst <= PM_PART_OWN) return f->whole[n->out] ? PM_PART_SUM : worst;
  if (sums && worst == PM_PART_SUM && !row_by_row && stays_summand(f, n, part)) return PM_PART_SUM;
  return rows || row_by_row ? PM_PART_NEVER : PM_PART_LATE;
}

// Summed over the micro-batches before the first, the value is what the program means. What is made of a sum by other
// ops than products with constants is not: one added to each summand would count once a micro-batch.
static bool may_count(const PmMicroFn *f, int32_t at, PmPart got) {
  const PmNode *n = &f->f.nodes[at];
  if (f->early_in[at] || (pm_op_flags(n->op) & PM_F_DRAW)) return false;
  bool of_sums = got == PM_PART_SUM && !f->whole[n->out];
  for (int32_t i = 0; i < n->n_in; i++) {
    if (!f->counted[n->in[i]]) return false;
    if (of_sums && f->part[n->in[i]] != PM_PART_SUM && pm_micro_joint(n, i)) return false;
  }
  return true;
}

// What a node of counts is once their sums are made before the first micro-batch: `n + 1` is no sum of anything over
// micro-batches, but the same in all.
static PmPart of_counts(const PmMicro *mi, PmMicroFn *f, int32_t at, uint8_t *part) {
  const PmNode *n = &f->f.nodes[at];
  for (int32_t i = 0; i < n->n_in; i++) {
    if (n->n_in > 64 || !(f->counted[n->in[i]] || f->again[n->in[i]])) return PM_PART_SUM;
  }
  for (int32_t i = 0; i < n->n_in; i++) {
    if (part[i] != PM_PART_SUM) continue;
    f->early_in[at] |= UINT64_C(1) << i;
    part[i] = PM_PART_SAME;
  }
  return combine(mi, f, n, part);
}

static void class_node(PmMicro *mi, PmMicroFn *f, int32_t at) {
  const PmNode *n = &f->f.nodes[at];
  uint8_t *part = PM_NEW_N(mi->lw->arena, uint8_t, n->n_in + 1);
  bool again = true;
  for (int32_t i = 0; i < n->n_in; i++) part[i] = f->part[n->in[i]];
  f->early_in[at] = 0;
  PmPart got = combine(mi, f, n, part);
  for (int32_t i = 0; got > PM_PART_SUM && i < n->n_in && i < 64; i++) {
    if (part[i] != PM_PART_SUM || !f->counted[n->in[i]]) continue;
    f->early_in[at] |= UINT64_C(1) << i;
    part[i] = PM_PART_SAME;
  }
  if (f->early_in[at]) got = combine(mi, f, n, part);
  bool counted = may_count(f, at, got);
  if (got == PM_PART_SUM && !counted) got = of_counts(mi, f, at, part);
  for (int32_t i = 0; i < n->n_in; i++) {
    again = again && (f->again[n->in[i]] || (i < 64 && (f->early_in[at] >> i & 1)));
  }
  PmSpan sum = PM_NO_SPAN, use = PM_NO_SPAN;
  if (f->whole[n->out] && got == PM_PART_SUM) sum = pm_micro_span(mi, f, at);
  // Of the operands the one that is late already tells why.
  for (int32_t i = n->n_in - 1; got > PM_PART_OWN && i >= 0; i--) {
    if (part[i] < PM_PART_SUM || (part[i] == PM_PART_SUM && use.file >= 0)) continue;
    sum = f->sum[n->in[i]];
    use = f->use[n->in[i]];
  }
  if (got > PM_PART_SUM && use.file < 0) use = pm_micro_span(mi, f, at);
  for (PmValueId v = n->out; v < n->out + n->n_out; v++) {
    f->part[v] = (uint8_t)got;
    f->counted[v] = counted;
    f->again[v] = got == PM_PART_SAME && again;
    f->sum[v] = sum;
    f->use[v] = use;
  }
}

static PmMicroFn *new_fn(PmMicro *mi, PmFnId id, PmMicroFn *outer, int32_t node) {
  PmArena *arena = mi->lw->arena;
  PmMicroFn *f = PM_NEW(arena, PmMicroFn);
  *f = (PmMicroFn){.id = id, .f = *pm_fn(mi->lw->m, id), .outer = outer, .node = node};
  int32_t n = f->f.n_values + 1;
  f->inner = (PmMicroFn **)pm_arena_alloc_n(arena, (size_t)f->f.n_nodes + 1, sizeof(PmMicroFn *));
  f->part = PM_NEW_N(arena, uint8_t, n);
  f->whole = PM_NEW_N(arena, bool, n);
  f->counted = PM_NEW_N(arena, bool, n);
  f->again = PM_NEW_N(arena, bool, n);
  f->sum = PM_NEW_N(arena, PmSpan, n);
  f->use = PM_NEW_N(arena, PmSpan, n);
  f->late = PM_NEW_N(arena, bool, n);
  f->front = PM_NEW_N(arena, bool, n);
  f->early = PM_NEW_N(arena, int32_t, n);
  f->before = PM_NEW_N(arena, PmValueId, n);
  f->early_in = PM_NEW_N(arena, uint64_t, f->f.n_nodes + 1);
  for (int32_t i = 0; i < n; i++) {
    f->early[i] = f->before[i] = PM_NONE;
    f->sum[i] = f->use[i] = PM_NO_SPAN;
  }
  find_whole_sums(mi, f);
  return f;
}

static void class_fn(PmMicro *mi, PmMicroFn *f);

// What a carried name is when one turn finds it as `a` and the next as `b`.
static PmPart join(PmPart a, PmPart b) {
  PmPart most = a > b ? a : b;
  return most == PM_PART_LATE ? PM_PART_NEVER : most;
}

static void take_param(PmMicroFn *f, PmValueId param, const PmMicroFn *from, PmValueId v, PmPart part) {
  f->part[param] = (uint8_t)part;
  if (f->sum[param].file < 0) f->sum[param] = from->sum[v];
  if (f->use[param].file < 0) f->use[param] = from->use[v];
}

static void class_repeat(PmMicro *mi, PmMicroFn *f, int32_t at) {
  const PmNode *n = &f->f.nodes[at];
  if (!f->inner[at]) f->inner[at] = new_fn(mi, n->attr.callee, f, at);
  PmMicroFn *g = f->inner[at];
  for (int32_t i = 0; i < n->n_in; i++) {
    PmPart part = (PmPart)f->part[n->in[i]];
    bool carried = i < n->attr.n_carry, invariant = !carried && i < n->attr.n_carry + n->attr.n_inv;
    take_param(g, i, f, n->in[i], carried && part == PM_PART_LATE ? PM_PART_NEVER : part);
    g->counted[i] = invariant && f->counted[n->in[i]];
    g->again[i] = !carried && f->again[n->in[i]];
  }
  for (bool changed = true; changed;) {
    changed = false;
    class_fn(mi, g);
    for (int32_t i = 0; i < n->attr.n_carry; i++) {
      PmPart part = join((PmPart)g->part[i], (PmPart)g->part[g->f.results[i]]);
      if (part == (PmPart)g->part[i]) continue;
      take_param(g, i, g, g->f.results[i], part);
      changed = true;
    }
  }
  for (int32_t k = 0; k < n->n_out; k++) {
    PmValueId r = k < n->attr.n_carry ? k : g->f.results[k];
    f->part[n->out + k] = g->part[r];
    f->counted[n->out + k] = false;
    f->again[n->out + k] = k >= n->attr.n_carry && g->again[r];
    f->sum[n->out + k] = g->sum[r];
    f->use[n->out + k] = g->use[r];
  }
}

static void class_fn(PmMicro *mi, PmMicroFn *f) {
  for (int32_t i = 0; i < f->f.n_nodes; i++) {
    if (pm_is_loop(&f->f.nodes[i])) {
      class_repeat(mi, f, i);
    } else if (f->f.nodes[i].n_out > 0) {
      class_node(mi, f, i);
    }
  }
}

static void class_model(PmMicro *mi) {
  PmMicroFn *f = mi->model;
  for (int32_t i = 0; i < f->f.n_params; i++) {
    PmVarId var = f->f.param_bind[i].var;
    bool input = var != PM_NONE && mi->lw->m->vars[var].role == PM_ROLE_INPUT;
    bool own = var == PM_NONE || (input && pm_micro_rows(mi, &f->f.values[i].type));
    f->part[i] = own ? PM_PART_OWN : PM_PART_SAME;
    f->counted[i] = input;
    f->again[i] = !own;
  }
  class_fn(mi, f);
}

void pm_lw_micro_batches(PmLower *lw) {
  PmMicro mi = {.lw = lw};
  if (lw->n_marks) qsort(lw->marks, (size_t)lw->n_marks, sizeof *lw->marks, by_place);
  if (lw->n_whole_sums) qsort(lw->whole_sums, (size_t)lw->n_whole_sums, sizeof *lw->whole_sums, by_fn);
  mi.model = new_fn(&mi, lw->m->model, NULL, PM_NONE);
  class_model(&mi);
  if (pm_micro_need(&mi)) pm_micro_split(&mi);
}
