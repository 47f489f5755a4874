// How a node runs on one device: which mesh axes split each of its factors. Results ask for the splits that `place`
// gave them; summed factors take what their operands have. A mesh axis wanted by two factors goes to the one along
// which more elements of operands already lie. One by which the operand is split along an axis that must be whole goes
// to another axis of it where that saves bytes: the operand is dealt out anew and the result gathered.
#include "passes/exec_choose.h"

static double elements(const PmModule *m, const PmType *t) {
  double n = 1;
  for (int32_t d = 0; d < t->rank; d++) n *= (double)pm_axis_size(m, t->dims[d].axis);
  return n;
}

// The operands' split of a summed factor: that of the largest operand that has one.
static PmSplit summed_split(const PmModule *m, const PmFn *f, const PmNode *n, const PmFactor *fac) {
  PmSplit best = {0};
  double most = -1;
  for (int32_t i = 0; i < n->n_in; i++) {
    if (fac->in_dim[i] < 0) continue;
    const PmType *t = &f->values[n->in[i]].type;
    const PmSplit *s = &t->dims[fac->in_dim[i]].split;
    if (s->n == 0 || elements(m, t) <= most) continue;
    most = elements(m, t);
    best = *s;
  }
  return best;
}

// Elements of operands (or results) that already lie split by `mesh` along this factor.
static double at_home(const PmModule *m, const PmFn *f, const PmNode *n, const PmFactor *fac, int32_t mesh,
                      bool results) {
  double sum = 0;
  for (int32_t i = 0; i < (results ? n->n_out : n->n_in); i++) {
    const PmType *t = &f->values[results ? n->out + i : n->in[i]].type;
    int32_t dim = results ? fac->out_dim[i] : fac->in_dim[i];
    if (dim >= 0 && pm_split_has(&t->dims[dim].split, mesh)) sum += elements(m, t);
  }
  return sum;
}

// A table stays where its rows are: it is not gathered to look rows up, nor reduced whole to keep some. Then operands
// count first: a result that is wanted split can still be scattered as it is reduced.
static bool better(const PmModule *m, const PmFn *f, const PmNode *n, const PmFactor *a, const PmFactor *b,
                   int32_t mesh) {
  if (a->rows != b->rows) return a->rows;
  double x = at_home(m, f, n, a, mesh, false), y = at_home(m, f, n, b, mesh, false);
  return x != y ? x > y : at_home(m, f, n, a, mesh, true) > at_home(m, f, n, b, mesh, true);
}

// The longest prefix that divides the factor's every dim: `merge` links an axis with its major part, which is smaller.
static void cut_to_divide(const PmModule *m, const PmFn *f, const PmNode *n, const PmFactor *fac, PmSplit *s) {
  for (int32_t i = 0; i < n->n_in + n->n_out; i++) {
    bool is_in = i < n->n_in;
    int32_t dim = is_in ? fac->in_dim[i] : fac->out_dim[i - n->n_in];
    if (dim < 0) continue;
    const PmType *t = &f->values[is_in ? n->in[i] : n->out + i - n->n_in].type;
    while (s->n > 0 && !pm_split_divides(m, s, pm_axis_size(m, t->dims[dim].axis))) s->n--;
  }
  // Indices are counted from the first row that a rank has, and slots from what the ranks before it have counted, which
  // takes rows and positions that follow one another.
  if ((fac->rows || fac->counted) && s->zigzag) *s = (PmSplit){0};
}

// Rows and positions of one exchange share a mesh axis: that is what moves.
static bool is_exchange(const PmFactor *a, const PmFactor *b) {
  return (a->rows && b->positions) || (a->positions && b->rows);
}

static void settle(const PmModule *m, const PmFn *f, const PmNode *n, PmExec *e, int32_t mesh) {
  int32_t winner = PM_NONE;
  for (int32_t i = 0; i < e->factors.n; i++) {
    if (!pm_split_has(&e->split[i], mesh)) continue;
    if (winner == PM_NONE) {
      winner = i;
      continue;
    }
    if (is_exchange(&e->factors.items[i], &e->factors.items[winner])) {
      e->crosses |= UINT32_C(1) << mesh;
      continue;
    }
    // A third factor would have to take it from both sides of the exchange.
    bool wins = !(e->crosses >> mesh & 1) && better(m, f, n, &e->factors.items[i], &e->factors.items[winner], mesh);
    pm_split_cut(&e->split[wins ? winner : i], mesh);
    if (wins) winner = i;
  }
}

static bool splits_both(const PmExec *e, int32_t mesh) {
  bool rows = false, positions = false;
  for (int32_t i = 0; i < e->factors.n; i++) {
    if (!pm_split_has(&e->split[i], mesh)) continue;
    rows = rows || e->factors.items[i].rows;
    positions = positions || e->factors.items[i].positions;
  }
  return rows && positions;
}

// A mesh axis that one side of an exchange lost to another factor took those behind it along: where rows or positions
// are no longer split, nothing crosses.
static void drop_half_exchanges(const PmModule *m, PmExec *e) {
  for (int32_t mesh = 0; mesh < m->n_mesh; mesh++)
    if (!splits_both(e, mesh)) e->crosses &= ~(UINT32_C(1) << mesh);
}

// Mesh axis `mesh` splits no factor: the operand (the only one) is wanted whole along it.
static bool is_unused(const PmExec *e, int32_t mesh) {
  for (int32_t i = 0; i < e->factors.n; i++)
    if (pm_split_has(&e->split[i], mesh)) return false;
  return true;
}

// Gathering sends (g - 1)/g of the operand; dealing it out anew (g - 1)/g of a part, and then as much of the result.
static bool pays(const PmModule *m, const PmFn *f, const PmNode *n, int32_t mesh) {
  const PmType *x = &f->values[n->in[0]].type, *y = &f->values[n->out].type;
  double ways = (double)m->mesh[mesh].size, parts = 1;
  for (int32_t d = 0; d < x->rank; d++) parts *= (double)pm_split_parts(m, &x->dims[d].split);
  double in = elements(m, x) / (parts / ways) * (double)pm_dtype_bytes((PmDtype)x->dtype);
  double out = elements(m, y) / (parts / ways) * (double)pm_dtype_bytes((PmDtype)y->dtype);
  return (1 - 1 / ways) * (in - in / ways - out) > PM_COLLECTIVE_CHARGE;
}

static void deal_out(const PmModule *m, const PmFn *f, const PmNode *n, PmExec *e, int32_t mesh) {
  for (int32_t i = 0; i < e->factors.n; i++) {
    const PmFactor *fac = &e->factors.items[i];
    if (fac->kind != PM_FACTOR_PASS || fac->in_dim[0] < 0 || fac->out_dim[0] < 0) continue;
    PmSplit s = e->split[i];
    if (!pm_split_push(&s, mesh)) continue;
    int32_t n_mesh = s.n;
    cut_to_divide(m, f, n, fac, &s);
    if (s.n != n_mesh) continue;
    e->split[i] = s;
    return;
  }
}

// The mesh axes of the operand's dims that must be whole.
static void move_blocked(const PmModule *m, const PmFn *f, const PmNode *n, PmExec *e) {
  const PmType *x = &f->values[n->in[0]].type;
  for (int32_t i = 0; i < e->factors.n; i++) {
    int32_t d = e->factors.items[i].in_dim[0];
    if (e->factors.items[i].kind != PM_FACTOR_WHOLE || d < 0) continue;
    for (int32_t k = 0; k < x->dims[d].split.n; k++) {
      int32_t mesh = x->dims[d].split.mesh[k];
      if (is_unused(e, mesh) && pays(m, f, n, mesh)) deal_out(m, f, n, e, mesh);
    }
  }
}

// The operand lies split where the result is whole, by a mesh axis that the result has on a dim which the node makes: it
// stays as it lies, and the result is what changes places. Else the operand would be gathered.
static void keep_at_home(const PmModule *m, const PmFn *f, const PmNode *n, PmExec *e) {
  const PmType *x = &f->values[n->in[0]].type, *y = &f->values[n->out].type;
  for (int32_t i = 0; i < e->factors.n; i++) {
    const PmFactor *fac = &e->factors.items[i];
    if (fac->kind != PM_FACTOR_PASS || fac->in_dim[0] < 0 || e->split[i].n > 0) continue;
    PmSplit s = x->dims[fac->in_dim[0]].split;
    if (s.n != 1 || !is_unused(e, s.mesh[0]) || !pm_type_uses_mesh(y, s.mesh[0])) continue;
    cut_to_divide(m, f, n, fac, &s);
    e->split[i] = s;
  }
}

PmExec pm_exec_choose(PmArena *arena, const PmModule *m, const PmFn *f, const PmNode *n) {
  PmExec e = {.factors = pm_shard_factors(arena, f, n)};
  e.split = PM_NEW_N(arena, PmSplit, e.factors.n + 1);
  for (int32_t i = 0; i < e.factors.n; i++) {
    const PmFactor *fac = &e.factors.items[i];
    if (fac->kind == PM_FACTOR_SUM) e.split[i] = summed_split(m, f, n, fac);
    for (int32_t k = 0; k < n->n_out; k++)
      if (fac->kind == PM_FACTOR_PASS && fac->out_dim[k] >= 0)
        e.split[i] = f->values[n->out + k].type.dims[fac->out_dim[k]].split;
    cut_to_divide(m, f, n, fac, &e.split[i]);
  }
  for (int32_t mesh = 0; mesh < m->n_mesh; mesh++) settle(m, f, n, &e, mesh);
  drop_half_exchanges(m, &e);
  if (n->n_in == 1) move_blocked(m, f, n, &e);
  if (n->n_in == 1 && (pm_op_flags(n->op) & PM_F_VIEW)) keep_at_home(m, f, n, &e);
  for (int32_t i = 0; i < e.factors.n; i++)
    for (int32_t k = 0; e.factors.items[i].kind == PM_FACTOR_SUM && k < e.split[i].n; k++)
      e.sums |= UINT32_C(1) << e.split[i].mesh[k];
  e.sums &= ~e.crosses;
  return e;
}

PmExec *const *pm_exec_table(PmArena *arena, const PmModule *m, const PmTree *tree) {
  PmExec **execs = PM_NEW_N(arena, PmExec *, tree->n_fns + 1);
  for (int32_t t = 0; t < tree->n_fns; t++) {
    const PmFn *f = pm_fn(m, tree->fns[t].fn);
    execs[t] = PM_NEW_N(arena, PmExec, f->n_nodes + 1);
    for (int32_t i = 0; i < f->n_nodes; i++)
      if (!pm_is_call(&f->nodes[i])) execs[t][i] = pm_exec_choose(arena, m, f, &f->nodes[i]);
  }
  return execs;
}
