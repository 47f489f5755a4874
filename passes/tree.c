#include "passes/tree.h"

#include "base/assert.h"

// step and eval, or the bare model before `differentiate` has run.
static int32_t entry_fns(const PmModule *m, PmFnId out[2]) {
  int32_t n = 0;
  if (m->step != PM_NONE) out[n++] = m->step;
  if (m->eval != PM_NONE) out[n++] = m->eval;
  if (n == 0 && m->model != PM_NONE) out[n++] = m->model;
  return n;
}

static PmFnId clone_fn(PmModule *m, PmFnId from, int32_t *number) {
  PmFnId id = pm_module_add_fn_from(m, pm_fn(m, from)->name, pm_fn(m, from)->kind, number);
  const PmFn *src = pm_fn(m, from);
  PmFn *dst = pm_fn(m, id);
  const char *name = dst->name;
  *dst = *src;
  dst->name = name;
  dst->values = pm_arena_copy(m->arena, src->values, src->n_values, sizeof *src->values);
  dst->cap_values = src->n_values;
  dst->nodes = pm_arena_copy(m->arena, src->nodes, src->n_nodes, sizeof *src->nodes);
  dst->cap_nodes = src->n_nodes;
  for (int32_t i = 0; i < src->n_nodes; i++)
    dst->nodes[i].in = pm_arena_copy(m->arena, src->nodes[i].in, src->nodes[i].n_in, sizeof *src->nodes[i].in);
  dst->results = pm_arena_copy(m->arena, src->results, src->n_results, sizeof *src->results);
  return id;
}

// Depth first in node order. uses: by function, 0 before it has a caller, then the number of its newest clone.
static void specialise_fn(PmModule *m, PmFnId fn, int32_t **uses, int32_t *cap) {
  for (int32_t i = 0; i < pm_fn(m, fn)->n_nodes; i++) {
    if (!pm_is_call(&pm_fn(m, fn)->nodes[i])) continue;
    PmFnId callee = pm_fn(m, fn)->nodes[i].attr.callee;
    if ((*uses)[callee]) {
      callee = clone_fn(m, callee, &(*uses)[callee]);
      pm_fn(m, fn)->nodes[i].attr.callee = callee;
      while (*cap < m->n_fns) *uses = pm_grow(m->arena, *uses, *cap, cap, sizeof **uses);
    }
    (*uses)[callee] = 1;
    specialise_fn(m, callee, uses, cap);
  }
}

void pm_specialise(PmModule *m) {
  int32_t cap = m->n_fns;
  int32_t *uses = PM_NEW_N(m->arena, int32_t, cap + 1);
  PmFnId entries[2];
  int32_t n = entry_fns(m, entries);
  for (int32_t i = 0; i < n; i++) specialise_fn(m, entries[i], &uses, &cap);
}

static void visit(PmArena *arena, const PmModule *m, PmTree *tree, int32_t *cap, PmFnId fn, int32_t parent,
                  int32_t node, int64_t turns) {
  PM_ASSERT(tree->of_fn[fn] == PM_NONE, "function %s has two callers", pm_fn(m, fn)->name);
  tree->fns = pm_grow(arena, tree->fns, tree->n_fns, cap, sizeof *tree->fns);
  int32_t self = tree->n_fns++;
  tree->of_fn[fn] = self;
  tree->fns[self] = (PmTreeFn){.fn = fn, .parent = parent, .node = node, .turns = turns, .slot = tree->n_slots};
  tree->n_slots += pm_fn(m, fn)->n_values;
  for (int32_t i = 0; i < pm_fn(m, fn)->n_nodes; i++) {
    const PmNode *n = &pm_fn(m, fn)->nodes[i];
    if (!pm_is_call(n)) continue;
    int64_t inner = pm_is_loop(n) ? turns * pm_axis_size(m, n->attr.axes[0]) : turns;
    visit(arena, m, tree, cap, n->attr.callee, self, i, inner);
  }
}

PmTree pm_tree_build(PmArena *arena, const PmModule *m) {
  PmTree tree = {.of_fn = PM_NEW_N(arena, int32_t, m->n_fns + 1)};
  for (int32_t i = 0; i < m->n_fns; i++) tree.of_fn[i] = PM_NONE;
  int32_t cap = 0;
  PmFnId entries[2];
  int32_t n = entry_fns(m, entries);
  for (int32_t i = 0; i < n; i++) visit(arena, m, &tree, &cap, entries[i], PM_NONE, PM_NONE, 1);
  return tree;
}

const PmTreeFn *pm_tree_callee(const PmTree *tree, const PmNode *n) { return &tree->fns[tree->of_fn[n->attr.callee]]; }

PmCross pm_cross_in(const PmNode *n, int32_t i) {
  if (!pm_is_loop(n)) return PM_CROSS_PLAIN;
  if (i < n->attr.n_carry) return PM_CROSS_CARRY;
  return i < n->attr.n_carry + n->attr.n_inv ? PM_CROSS_PLAIN : PM_CROSS_STACK;
}

PmCross pm_cross_out(const PmNode *n, int32_t i) {
  if (!pm_is_loop(n)) return PM_CROSS_PLAIN;
  return i < n->attr.n_carry ? PM_CROSS_CARRY : PM_CROSS_STACK;
}
