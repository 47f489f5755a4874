#include "passes/zero.h"

#include <string.h>

#include "base/assert.h"

typedef struct Zero {
  PmModule *m;
  const PmTree *tree;
  const PmTreeFn *step;  // tree entry of the step
  const PmFn *f;         // the step
  const PmRule *rule;
  bool *repeats;  // per axis: some repeat runs over it
  PmPlaced *slots;
  PmPlaced *vars;
  PmOwned owned;
  int32_t *var_slot;      // by variable: its slot as a parameter of the step, or PM_NONE
  PmValueId *first_grad;  // by variable: the first value of the step that has its gradient's name, or PM_NONE
  PmValueId *next_grad;   // by value of the step: the next of that name, or PM_NONE
  int32_t *update_of;     // by parameter of the step: the call that updates it, or PM_NONE
  int32_t n_whole;        // parameters that stay whole over some mesh axis
  int64_t whole_bytes;    // of them, on one rank
  const char *whole;      // the first
} Zero;

const PmRule *pm_zero_rule(const PmModule *m) {
  for (int32_t i = 0; i < m->n_rules; i++)
    if (m->rules[i].zero > 0) return &m->rules[i];
  return NULL;
}

static int64_t local_size(const PmModule *m, const PmType *t, const PmPlaced *p, int32_t dim) {
  return pm_axis_size(m, t->dims[dim].axis) / pm_split_parts(m, &p->split[dim]);
}

// The largest axis, as it lies now, that `ways` divides; PM_NONE when there is none.
static int32_t largest_dim(const Zero *z, const PmType *t, const PmPlaced *p, int64_t ways) {
  int32_t best = PM_NONE;
  for (int32_t d = 0; d < t->rank; d++) {
    int64_t size = local_size(z->m, t, p, d);
    if (z->repeats[t->dims[d].axis] || size % ways != 0) continue;
    if (best == PM_NONE || size > local_size(z->m, t, p, best)) best = d;
  }
  return best;
}

static void add_split(const Zero *z, PmPlaced *p, int32_t dim, int32_t mesh) {
  if (!pm_split_push(&p->split[dim], mesh)) return;
  p->decided = (uint16_t)(p->decided | 1u << dim);
  p->why[dim] = z->rule->text;
  p->by[dim] = NULL;
}

// Splits a tensor further over the free mesh axes; false when some of them found no axis.
static bool split_further(const Zero *z, const PmType *t, PmPlaced *p) {
  int32_t mesh[PM_MAX_SPLIT], n = 0;
  int64_t ways = 1;
  for (int32_t i = 0; i < z->rule->n_mesh; i++) {
    int64_t size = z->m->mesh[z->rule->mesh[i]].size;
    if (size == 1 || pm_placed_uses(t, p, PM_NONE, z->rule->mesh[i])) continue;
    mesh[n++] = z->rule->mesh[i];
    ways *= size;
  }
  int32_t dim = largest_dim(z, t, p, ways);
  bool all = true;
  for (int32_t i = 0; i < n; i++) {
    int32_t own = dim != PM_NONE ? dim : largest_dim(z, t, p, z->m->mesh[mesh[i]].size);
    if (own == PM_NONE)
      all = false;
    else
      add_split(z, p, own, mesh[i]);
  }
  return all;
}

static PmVarId grad_of(const Zero *z, const char *name) {
  size_t n = name ? strlen(name) : 0;
  if (n < 4 || strncmp(name, "d(", 2) != 0 || name[n - 1] != ')') return PM_NONE;
  return pm_module_find_var(z->m, pm_intern_n(z->m->names, name + 2, n - 3));
}

// Where the step has what belongs to each variable: there may be tens of thousands of them.
static void list_step(Zero *z) {
  PmArena *arena = z->m->arena;
  z->owned = pm_vars_owned(z->m, arena);
  z->var_slot = PM_NEW_N(arena, int32_t, z->m->n_vars + 1);
  z->first_grad = PM_NEW_N(arena, PmValueId, z->m->n_vars + 1);
  z->next_grad = PM_NEW_N(arena, PmValueId, z->f->n_values + 1);
  z->update_of = PM_NEW_N(arena, int32_t, z->f->n_params + 1);
  for (PmVarId v = 0; v < z->m->n_vars; v++) z->var_slot[v] = z->first_grad[v] = PM_NONE;
  for (int32_t k = 0; k < z->f->n_params; k++) {
    z->update_of[k] = PM_NONE;
    if (z->f->param_bind[k].var != PM_NONE) z->var_slot[z->f->param_bind[k].var] = pm_slot(z->step, k);
  }
  for (PmValueId k = z->f->n_values - 1; k >= z->f->n_params; k--) {
    PmVarId var = grad_of(z, z->f->values[k].name);
    if (var == PM_NONE) continue;
    z->next_grad[k] = z->first_grad[var];
    z->first_grad[var] = k;
  }
  for (int32_t i = 0; i < z->f->n_nodes; i++) {
    const PmNode *n = &z->f->nodes[i];
    if (!pm_is_call(n) || n->n_in == 0 || n->in[0] >= z->f->n_params) continue;
    if (pm_fn(z->m, n->attr.callee)->kind == PM_FN_UPDATE) z->update_of[n->in[0]] = i;
  }
}

// Gives `slot` the placement `p` of a value of type `like`, axis by axis.
static void impose(const Zero *z, int32_t slot, const PmType *t, const PmPlaced *p, const PmType *like) {
  for (int32_t d = 0; d < t->rank; d++) {
    int32_t e = pm_type_find(like, t->dims[d].axis);
    if (e == PM_NONE) continue;
    PmPlaced *to = &z->slots[slot];
    to->decided = (uint16_t)(to->decided | 1u << d);
    to->split[d] = p->split[e];
    to->why[d] = p->why[e] ? p->why[e] : z->rule->text;
    to->by[d] = NULL;
    to->rule[d] = 0;
  }
}

// From stage 2 on a gradient that a repeat produces turn by turn is scattered in each turn: its producer's stack is
// placed as it is stored. The sums of micro-batches are kept so too, and all that is added to them: `v` is then a sum
// in the body of that repeat, whose operands are followed to the calls that make them.
static void impose_in_turns(const Zero *z, const PmTreeFn *tf, PmValueId v, const PmPlaced *p, const PmType *like) {
  const PmFn *f = pm_fn(z->m, tf->fn);
  int32_t def = f->values[v].def;
  if (def == PM_NONE) return;
  const PmNode *n = &f->nodes[def];
  for (int32_t i = 0; !pm_is_call(n) && tf != z->step && i < n->n_in; i++) {
    impose(z, pm_slot(tf, n->in[i]), &f->values[n->in[i]].type, p, like);
    impose_in_turns(z, tf, n->in[i], p, like);
  }
  if (!pm_is_call(n)) return;
  const PmTreeFn *callee = pm_tree_callee(z->tree, n);
  const PmFn *g = pm_fn(z->m, callee->fn);
  PmValueId result = g->results[v - n->out];
  if (pm_is_loop(n) && n->attr.axes[0] == z->m->micro) {
    impose(z, pm_slot(callee, v - n->out), &g->values[v - n->out].type, p, like);
    impose(z, pm_slot(callee, result), &g->values[result].type, p, like);
    impose_in_turns(z, callee, result, p, like);
    return;
  }
  int32_t maker = g->values[result].def;
  if (maker == PM_NONE || !pm_is_call(&g->nodes[maker])) return;
  if (pm_cross_out(&g->nodes[maker], result - g->nodes[maker].out) != PM_CROSS_STACK) return;
  impose(z, pm_slot(callee, result), &g->values[result].type, p, like);
}

static void store_grads(const Zero *z, PmVarId var) {
  const PmVar *v = &z->m->vars[var];
  for (PmValueId k = z->first_grad[var]; k != PM_NONE; k = z->next_grad[k]) {
    impose(z, pm_slot(z->step, k), &z->f->values[k].type, &z->vars[var], &v->type);
    if (z->rule->zero >= 2) impose_in_turns(z, z->step, k, &z->vars[var], &v->type);
  }
}

// The optimizer's call for this parameter (for its master, where it has one) works on the stored parts.
static void store_update(const Zero *z, PmVarId var) {
  PmVarId updated = var;
  for (PmVarId s = z->owned.first[var]; s != PM_NONE; s = z->owned.next[s])
    if (z->m->vars[s].master) updated = s;
  if (z->var_slot[updated] == PM_NONE) return;
  const int32_t call = z->update_of[z->var_slot[updated] - pm_slot(z->step, 0)];
  if (call == PM_NONE) return;
  const PmTreeFn *callee = pm_tree_callee(z->tree, &z->f->nodes[call]);
  const PmFn *g = pm_fn(z->m, callee->fn);
  for (int32_t k = 0; k < g->n_params; k++)
    impose(z, pm_slot(callee, k), &g->values[k].type, &z->vars[var], &z->m->vars[var].type);
}

static void store_param(Zero *z, PmVarId var) {
  const PmVar *v = &z->m->vars[var];
  int32_t slot = z->var_slot[var];
  if (slot == PM_NONE) return;
  PmPlaced stored = z->slots[slot];
  if (!split_further(z, &v->type, &stored) && v->type.rank > 0) {
    if (z->n_whole++ == 0) z->whole = v->path;
    z->whole_bytes += pm_type_local_bytes(z->m, &v->type);
  }
  z->vars[var] = stored;
  store_grads(z, var);
  store_update(z, var);
  for (PmVarId s = z->owned.first[var]; s != PM_NONE; s = z->owned.next[s]) {
    if (z->var_slot[s] == PM_NONE) continue;
    impose(z, z->var_slot[s], &z->m->vars[s].type, &stored, &v->type);
    z->vars[s] = z->slots[z->var_slot[s]];
  }
  if (z->rule->zero < 3) z->vars[var] = z->slots[slot];
}

// What the model's part has left open is whole: the optimizer's part may not decide it.
static void close_model(const Zero *z) {
  for (PmValueId v = 0; v < z->f->n_values; v++) {
    int32_t def = z->f->values[v].def;
    bool from_model = def == PM_NONE;
    if (def != PM_NONE && pm_is_call(&z->f->nodes[def]))
      from_model = pm_fn(z->m, z->f->nodes[def].attr.callee)->kind == PM_FN_BODY;
    if (from_model) z->slots[pm_slot(z->step, v)].decided = (uint16_t)((1u << z->f->values[v].type.rank) - 1);
  }
}

static void find_repeats(Zero *z) {
  for (int32_t t = 0; t < z->tree->n_fns; t++) {
    const PmFn *f = pm_fn(z->m, z->tree->fns[t].fn);
    for (int32_t i = 0; i < f->n_nodes; i++)
      if (pm_is_loop(&f->nodes[i])) z->repeats[f->nodes[i].attr.axes[0]] = true;
  }
}

static void report_whole(const Zero *z, PmDiags *diags) {
  pm_diag(diags, PM_W_ZERO_WHOLE, z->rule->span, "%d parameter%s stay%s whole over a mesh axis of `%s`", z->n_whole,
          z->n_whole == 1 ? "" : "s", z->n_whole == 1 ? "s" : "", z->rule->text);
  pm_diag_label(diags, z->rule->span, "`%s`%s: %lld bytes on every rank", z->whole, z->n_whole == 1 ? "" : ", ...",
                (long long)z->whole_bytes);
}

void pm_zero_store(PmModule *m, const PmTree *tree, PmPlaced *slots, PmDiags *diags, PmPlaced *out_vars) {
  Zero z = {.m = m, .tree = tree, .rule = pm_zero_rule(m), .slots = slots, .vars = out_vars};
  PM_ASSERT(z.rule && m->step != PM_NONE, "no step to store split");
  z.step = &tree->fns[tree->of_fn[m->step]];
  z.f = pm_fn(m, m->step);
  z.repeats = PM_NEW_N(m->arena, bool, m->n_axes + 1);
  find_repeats(&z);
  close_model(&z);
  list_step(&z);
  for (PmVarId v = 0; v < m->n_vars; v++)
    if (z.var_slot[v] != PM_NONE) out_vars[v] = slots[z.var_slot[v]];
  for (PmVarId v = 0; v < m->n_vars; v++)
    if (m->vars[v].role == PM_ROLE_PARAM && m->vars[v].update != PM_NONE) store_param(&z, v);
  if (z.n_whole > 0) report_whole(&z, diags);
}
