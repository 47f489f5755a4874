// Items of kind kernel -> one kernel each.
//
// A row (or column) kernel runs in rounds: round l loops over the reduced axes once, computes the reductions that need
// those of l rounds before, and stores what varies along the looped axes and needs no more than that. What does not
// vary is computed before the loop that uses it. Numbers of rows are stored at the end.
#include <string.h>

#include "codegen/eval.h"

typedef struct Root {
  PmCgId v;
  bool full;      // varies along looped axes
  int32_t level;  // reductions before it
} Root;

typedef struct Kernel {
  PmCgEval e;
  bool column;
  Root *roots;
  int32_t n_roots;
  PmCgId *reduces;
  int32_t n_reduces;
  int32_t *level;          // by value, + 1
  int32_t first, n_parts;  // of a stack that is alone: the operands that this kernel stores
  int32_t n_rounds;        // with a loop
  int32_t max_level;
} Kernel;

// Levels of v and of the reductions at home here that it needs, which are appended to k->reduces.
static int32_t find_level(Kernel *k, PmCgId v) {
  const PmCgRegion *r = k->e.r;
  if (k->level[v]) return k->level[v] - 1;
  int32_t level = 0;
  const PmCgNode *n = pm_cg_def(r, v);
  if (!r->info[v].is_const && !pm_cg_loads(r, k->e.item, v) && !pm_cg_is_table(r, v)) {
    for (int32_t i = 0; i < n->n_in; i++) {
      const int32_t in = find_level(k, n->in[i]);
      if (in > level) level = in;
    }
    bool loops = false;
    for (int32_t i = 0; i < n->n_axes && n->op == PM_OP_reduce; i++) {
      const PmCgValue *x = &r->values[n->in[0]];
      loops = loops || x->dims[pm_cg_find_axis(x, n->axes[i])].extent > 1;
    }
    if (loops) {
      k->reduces[k->n_reduces++] = v;
      level++;
    }
  }
  k->level[v] = level + 1;
  if (level > k->max_level) k->max_level = level;
  return level;
}

// The axes of the kernel's space in the order of what it stores (or of what it reduces).
static int32_t lead_axes(const Kernel *k, const PmCgItem *item, int32_t *out) {
  const PmCgRegion *r = k->e.r;
  PmCgId lead = k->roots[0].v;
  const PmCgNode *n = pm_cg_def(r, lead);
  bool whole = false;
  for (int32_t i = 0; i < k->n_roots && !whole; i++) {
    PmCgDim space[PM_CG_RANK];
    const PmCgNode *x = pm_cg_def(r, k->roots[i].v);
    if (x->op == PM_OP_reduce || pm_cg_space(r, x, space) != item->n_space) continue;
    lead = x->out;
    n = x;
    whole = true;
  }
  if (!whole && k->n_reduces) {
    lead = pm_cg_def(r, k->reduces[0])->in[0];
    n = NULL;
  }
  const PmCgValue *v = &r->values[lead];
  int32_t n_out = 0;
  for (int32_t i = 0; i < v->rank; i++) {
    const int32_t axis = v->dims[r->info[lead].order[i]].axis;
    if (n && n->op == PM_OP_stack && axis == n->to[0]) continue;
    if (n && n->op == PM_OP_merge && axis == n->to[0]) {
      for (int32_t p = 0; p < n->n_axes; p++) out[n_out++] = n->axes[p];
      continue;
    }
    out[n_out++] = axis;
  }
  return n_out;
}

static void set_space(Kernel *k, const PmCgItem *item) {
  int32_t lead[2 * PM_CG_RANK];
  const int32_t n_lead = lead_axes(k, item, lead);
  for (int32_t loops = 0; loops < 2; loops++) {
    for (int32_t i = 0; i < n_lead + item->n_space; i++) {
      const int32_t axis = i < n_lead ? lead[i] : item->space[i - n_lead].axis;
      int32_t at = PM_NONE;
      for (int32_t p = 0; p < item->n_space; p++)
        if (item->space[p].axis == axis) at = p;
      if (at == PM_NONE || item->looped[at] != (loops == 1)) continue;
      bool known = false;
      for (int32_t p = 0; p < k->e.n_space; p++) known = known || k->e.space[p].axis == axis;
      if (known) continue;
      k->e.kind[k->e.n_space] = loops ? PM_CG_LOOP : PM_CG_GRID;
      k->e.space[k->e.n_space++] = item->space[at];
    }
  }
}

static bool varies(const Kernel *k, PmCgId v) {
  PmCgDim space[PM_CG_RANK];
  const PmCgNode *n = pm_cg_def(k->e.r, v);
  if (n->op == PM_OP_reduce) return false;
  const int32_t rank = pm_cg_space(k->e.r, n, space);
  for (int32_t i = 0; i < rank; i++)
    for (int32_t p = 0; p < k->e.n_space; p++)
      if (k->e.space[p].axis == space[i].axis && k->e.kind[p] == PM_CG_LOOP && space[i].extent > 1) return true;
  return false;
}

// Expression i that root v stores, or PM_NONE past the last.
static PmCgId root_expr(const Kernel *k, PmCgId v, int32_t i) {
  const PmCgNode *n = pm_cg_def(k->e.r, v);
  if (n->op == PM_OP_stack && k->n_parts) return i < k->n_parts ? n->in[k->first + i] : PM_NONE;
  if (n->op == PM_OP_stack || n->op == PM_OP_merge) return i < n->n_in ? n->in[i] : PM_NONE;
  return i == 0 ? v : PM_NONE;
}

static void store_root(Kernel *k, PmCgId v, int32_t i, int32_t value) {
  const PmCgRegion *r = k->e.r;
  const PmCgNode *n = pm_cg_def(r, v);
  const PmCgValue *x = &r->values[v];
  PmCgCoord at[PM_CG_RANK];
  pm_cg_identity(&k->e, v, at);
  if (n->op == PM_OP_stack) {
    const int32_t d = pm_cg_find_axis(x, n->to[0]);
    at[d] = (PmCgCoord){.c = k->first + i};
  }
  if (n->op == PM_OP_merge) {
    PmCgCoord in[PM_CG_RANK], sum = {0};
    pm_cg_identity(&k->e, n->in[0], in);
    const PmCgValue *y = &r->values[n->in[0]];
    for (int32_t p = 0; p < n->n_axes; p++) {
      const int32_t d = pm_cg_find_axis(y, n->axes[p]);
      for (int32_t s = 0; s < k->e.n_space; s++) sum.k[s] = sum.k[s] * y->dims[d].extent + in[d].k[s];
    }
    at[pm_cg_find_axis(x, n->to[0])] = sum;
  }
  pm_cg_store(&k->e, v, at, 0, value, false, -1, 0, 0);
}

static int32_t eval_at_home(Kernel *k, PmCgId v) {
  PmCgCoord at[PM_CG_RANK];
  pm_cg_identity(&k->e, v, at);
  return pm_cg_eval(&k->e, v, at, false);
}

static void hoist_at_home(Kernel *k, PmCgId v) {
  PmCgCoord at[PM_CG_RANK];
  pm_cg_identity(&k->e, v, at);
  pm_cg_hoist(&k->e, v, at);
}

static void open_loops(Kernel *k) {
  for (int32_t g = 0; g < k->e.n_groups && !k->e.dry; g++)
    if (k->e.groups[g].kind == PM_CG_LOOP) k->e.groups[g].axis = pm_kb_loop(&k->e.kb, k->e.groups[g].extent);
}

// Ends the loops, and sums each value of `acc` over them on the way.
static void close_loops(Kernel *k, const PmCgId *reduces, int32_t n) {
  const PmCgRegion *r = k->e.r;
  for (int32_t g = k->e.n_groups - 1; g >= 0 && !k->e.dry; g--) {
    if (k->e.groups[g].kind != PM_CG_LOOP) continue;
    for (int32_t i = 0; i < n; i++) {
      const PmCgId v = reduces[i];
      const PmKDtype d = pm_kdtype_value((PmKDtype)r->values[v].dtype);
      const int32_t sum = pm_kb_acc(&k->e.kb, pm_cg_def(r, v)->kind, d, k->e.acc[v] - 1);
      k->e.acc[v] = sum + 1;
    }
    pm_kb_end(&k->e.kb);
    k->e.groups[g].axis = PM_NONE;
  }
}

static void run_round(Kernel *k, int32_t level) {
  const PmCgRegion *r = k->e.r;
  PmCgId *reduces = PM_NEW_N(k->e.cg->arena, PmCgId, k->n_reduces + 1);
  int32_t n = 0, n_full = 0;
  for (int32_t i = 0; i < k->n_reduces; i++)
    if (k->level[k->reduces[i]] - 1 == level + 1) reduces[n++] = k->reduces[i];
  for (int32_t i = 0; i < k->n_roots; i++) n_full += k->roots[i].full && k->roots[i].level == level;
  if (n + n_full == 0) return;
  if (k->e.dry) k->n_rounds++;
  for (int32_t i = 0; i < n; i++) hoist_at_home(k, pm_cg_def(r, reduces[i])->in[0]);
  for (int32_t i = 0; i < k->n_roots; i++) {
    if (!k->roots[i].full || k->roots[i].level != level) continue;
    for (int32_t j = 0; root_expr(k, k->roots[i].v, j) != PM_NONE; j++)
      hoist_at_home(k, root_expr(k, k->roots[i].v, j));
  }
  k->e.n_hoisted = 0;
  const int32_t mark = k->e.n_entries;
  open_loops(k);
  for (int32_t i = 0; i < n; i++) {
    const PmCgNode *red = pm_cg_def(r, reduces[i]);
    pm_cg_word(&k->e, red->origin ? red->origin : pm_reduce_text(red->kind));
    k->e.acc[reduces[i]] = eval_at_home(k, red->in[0]) + 1;
  }
  for (int32_t i = 0; i < k->n_roots; i++) {
    if (!k->roots[i].full || k->roots[i].level != level) continue;
    for (int32_t j = 0; root_expr(k, k->roots[i].v, j) != PM_NONE; j++)
      store_root(k, k->roots[i].v, j, eval_at_home(k, root_expr(k, k->roots[i].v, j)));
  }
  close_loops(k, reduces, n);
  k->e.n_entries = mark;
}

static void run(Kernel *k) {
  int32_t n_values = 0;
  for (int32_t level = 0; level <= k->max_level; level++) run_round(k, level);
  for (int32_t i = 0; i < k->n_roots; i++)
    for (int32_t j = 0; !k->roots[i].full && root_expr(k, k->roots[i].v, j) != PM_NONE; j++) n_values++;
  // All values before all stores: a result may take the place of something that the kernel reads.
  int32_t *values = PM_NEW_N(k->e.cg->arena, int32_t, n_values + 1), at = 0;
  for (int32_t i = 0; i < k->n_roots; i++)
    for (int32_t j = 0; !k->roots[i].full && root_expr(k, k->roots[i].v, j) != PM_NONE; j++)
      values[at++] = eval_at_home(k, root_expr(k, k->roots[i].v, j));
  at = 0;
  for (int32_t i = 0; i < k->n_roots; i++)
    for (int32_t j = 0; !k->roots[i].full && root_expr(k, k->roots[i].v, j) != PM_NONE; j++)
      store_root(k, k->roots[i].v, j, values[at++]);
}

// A result that goes to a variable is written straight into it when nothing reads the old value afterwards, and this
// kernel reads it only where it writes.
static void place_in_variable(Kernel *k, PmCgId v, PmVarId var) {
  PmCgRegion *r = k->e.r;
  int32_t param = PM_NONE;
  for (int32_t i = 0; i < r->n_params; i++)
    if (r->param_var[i] == var) param = i;
  if (param == PM_NONE || k->n_rounds || k->n_parts || r->info[v].view_known || r->last_reader[param] > k->e.item)
    return;
  const PmCgAccess *store = NULL;
  for (int32_t i = 0; i < k->e.n_accesses; i++) {
    if (!k->e.accesses[i].store || k->e.accesses[i].value != v) continue;
    if (store) return;
    store = &k->e.accesses[i];
  }
  for (int32_t i = 0; i < k->e.n_accesses; i++) {
    const PmCgAccess *a = &k->e.accesses[i];
    if (a->store || a->buf != param) continue;
    if (a->dyn || a->base != store->base || memcmp(a->stride, store->stride, sizeof a->stride) != 0) return;
  }
  PmCgView *view = &r->info[v].view;
  *view = (PmCgView){.buf = param};
  pm_cg_canonical(&r->values[v], r->info[v].order, view->stride);
  r->info[v].view_known = true;
  r->last_reader[param] = INT32_MAX;  // taken
}

static int32_t find_loc(const Kernel *k) {
  for (int32_t i = k->n_roots - 1; i >= 0; i--)
    if (pm_cg_def(k->e.r, k->roots[i].v)->loc >= 0) return pm_cg_def(k->e.r, k->roots[i].v)->loc;
  return -1;
}

// n_parts 0: all that the item stores.
static bool emit_parts(PmCg *cg, PmCgRegion *r, int32_t item, int32_t first, int32_t n_parts) {
  const PmCgItem *it = &r->items[item];
  Kernel k = {.e = {.cg = cg, .r = r, .item = item, .host = it->host, .dry = true}, .column = it->column};
  k.first = first;
  k.n_parts = n_parts;
  k.roots = PM_NEW_N(cg->arena, Root, it->n_nodes + 1);
  k.reduces = r->by_value[0];
  k.level = r->by_value[1];
  k.e.acc = r->by_value[2];
  memset(k.level, 0, (size_t)r->n_values * sizeof *k.level);
  memset(k.e.acc, 0, (size_t)r->n_values * sizeof *k.e.acc);
  for (int32_t i = 0; i < it->n_nodes; i++) {
    const PmCgId v = r->nodes[it->nodes[i]].out;
    if (r->info[v].stored) k.roots[k.n_roots++] = (Root){.v = v};
  }
  if (k.n_roots == 0) return true;
  for (int32_t i = 0; i < k.n_roots; i++)
    for (int32_t j = 0; root_expr(&k, k.roots[i].v, j) != PM_NONE; j++) {
      const int32_t level = find_level(&k, root_expr(&k, k.roots[i].v, j));
      if (level > k.roots[i].level) k.roots[i].level = level;
    }
  set_space(&k, it);
  for (int32_t i = 0; i < k.n_roots; i++) k.roots[i].full = varies(&k, k.roots[i].v);
  run(&k);
  if (!pm_cg_layout(&k.e, k.n_rounds)) return false;
  for (int32_t i = 0; r->result_var && i < r->n_results; i++)
    for (int32_t j = 0; j < k.n_roots; j++)
      if (k.roots[j].v == r->results[i] && r->result_var[i] != PM_NONE)
        place_in_variable(&k, r->results[i], r->result_var[i]);
  pm_cg_begin(&k.e, pm_cg_words(&k.e), it->column);
  run(&k);
  pm_cg_end(&k.e, NULL, find_loc(&k));
  return true;
}

// The parts of a stack in halves until each kernel is within the limits; not of a single part.
static bool emit_halves(PmCg *cg, PmCgRegion *r, int32_t item, int32_t first, int32_t n) {
  if (n < 2) return false;
  for (int32_t half = 0; half < 2; half++) {
    const int32_t at = half ? first + n / 2 : first, parts = half ? n - n / 2 : n / 2;
    if (!emit_parts(cg, r, item, at, parts) && !emit_halves(cg, r, item, at, parts)) return false;
  }
  return true;
}

bool pm_cg_emit_kernel(PmCg *cg, PmCgRegion *r, int32_t item) {
  if (emit_parts(cg, r, item, 0, 0)) return true;
  const PmCgItem *it = &r->items[item];
  const PmCgNode *n = &r->nodes[it->nodes[0]];
  return it->n_nodes == 1 && n->op == PM_OP_stack && emit_halves(cg, r, item, 0, n->n_in);
}
