// Inputs that name rows of a cut table.
#include "passes/place_inputs.h"

typedef struct Inputs {
  PmArena *scratch;
  const PmModule *m;
  const PmTree *tree;
  PmPlaced *slots;
  int32_t *root;     // by slot: that of the entry function's parameter that calls hand on to it, or PM_NONE
  PmVarId *var;      // by slot: the variable of its root, or PM_NONE
  uint32_t *barred;  // by variable
} Inputs;

static void find_roots(Inputs *x) {
  x->root = PM_NEW_N(x->scratch, int32_t, x->tree->n_slots + 1);
  x->var = PM_NEW_N(x->scratch, PmVarId, x->tree->n_slots + 1);
  for (int32_t s = 0; s < x->tree->n_slots; s++) x->root[s] = x->var[s] = PM_NONE;
  for (int32_t i = 0; i < x->tree->n_fns; i++) {  // callers stand before callees
    const PmTreeFn *t = &x->tree->fns[i];
    const PmFn *f = pm_fn(x->m, t->fn);
    for (int32_t v = 0; t->parent == PM_NONE && f->param_bind && v < f->n_params; v++) {
      x->root[pm_slot(t, v)] = pm_slot(t, v);
      x->var[pm_slot(t, v)] = f->param_bind[v].var;
    }
    for (int32_t k = 0; k < f->n_nodes; k++) {
      const PmNode *n = &f->nodes[k];
      for (int32_t in = 0; pm_is_call(n) && in < n->n_in; in++) {
        const int32_t from = pm_slot(t, n->in[in]), to = pm_slot(pm_tree_callee(x->tree, n), in);
        x->root[to] = x->root[from];
        x->var[to] = x->var[from];
      }
    }
  }
}

// Mesh axes that rules put on the rows of the table that `n` looks up.
static uint32_t cut_rows(const Inputs *x, const PmTreeFn *t, const PmFn *f, const PmNode *n) {
  const int32_t own = pm_slot(t, n->in[0]), root = x->root[own];
  const PmPlaced *table = &x->slots[root == PM_NONE ? own : root];
  // A parameter that a repeat stacks has the axes of its root behind the repeated one.
  const PmVarId var = x->var[own];
  const PmType *type = var == PM_NONE ? &f->values[n->in[0]].type : &x->m->vars[var].type;
  uint32_t cut = 0;
  for (int32_t i = 0; i < n->attr.n_axes; i++) {
    const PmSplit *split = &table->split[pm_type_find(type, n->attr.axes[i])];
    for (int32_t k = 0; k < split->n; k++) cut |= UINT32_C(1) << split->mesh[k];
  }
  return cut;
}

static bool is_input(const Inputs *x, int32_t slot) {
  return x->var[slot] != PM_NONE && x->m->vars[x->var[slot]].role == PM_ROLE_INPUT;
}

void pm_place_inputs(PmArena *scratch, const PmModule *m, const PmTree *tree, PmPlaced *slots) {
  Inputs x = {.scratch = scratch, .m = m, .tree = tree, .slots = slots};
  x.barred = PM_NEW_N(scratch, uint32_t, m->n_vars + 1);
  find_roots(&x);
  for (int32_t i = 0; i < tree->n_fns; i++) {
    const PmTreeFn *t = &tree->fns[i];
    const PmFn *f = pm_fn(m, t->fn);
    for (int32_t k = 0; k < f->n_nodes; k++) {
      const PmNode *n = &f->nodes[k];
      if (n->op != PM_OP_index || !is_input(&x, pm_slot(t, n->in[1]))) continue;
      x.barred[x.var[pm_slot(t, n->in[1])]] |= cut_rows(&x, t, f, n);
    }
  }
  for (int32_t s = 0; s < tree->n_slots; s++)
    if (is_input(&x, s)) slots[s].barred = x.barred[x.var[s]];
}
