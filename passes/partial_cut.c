// For one mesh axis at a time, every value that may be a partial sum over it is a vertex of a network; the source's
// side of the minimum cut are the values that are computed as partial sums.
//
//   source -> v   (inf)   v is a sum over a split axis: its raw value is partial whatever is decided
//   y -> x        (inf)   y can be partial only if x is: y's node is linear in x, or y is x across a call
//   v -> gate(v)  (cost)  the price of reducing v, paid once if any user wants it reduced
//   gate(v) -> y  (inf)   y uses v; when y is not partial it wants v reduced
//   gate(v) -> sink (inf) some use of v can never take a partial sum
#include "passes/partial_cut.h"

#include <string.h>

#include "passes/net_cut.h"
#include "passes/rewrite.h"

typedef struct Cut {
  PmArena *arena;
  const PmModule *m;
  const PmTree *tree;
  PmExec *const *execs;
  int32_t mesh;
  bool *may;        // per slot: can be partial over `mesh`
  bool *source;     // per slot
  bool *blocked;    // per slot: a carried parameter whose turn does not give back a partial
  uint64_t *needs;  // per slot: operands of its node that must be partial with it
  bool *leads;      // per slot: goes into gradients of parameters only
  bool *rounded;    // per slot: leads, and is narrow or becomes so before it gets there
  int32_t *vertex;  // per slot
  PmNet net;
} Cut;

static const PmExec *exec_of(const Cut *c, int32_t t, int32_t node) { return &c->execs[t][node]; }

// Operands that stay whole sums must not be split over the mesh axis, since the node then runs unsplit along it.
static bool others_free(const Cut *c, const PmFn *f, const PmNode *n, uint64_t set) {
  for (int32_t i = 0; i < n->n_in; i++)
    if (!(set >> i & 1) && pm_type_uses_mesh(&f->values[n->in[i]].type, c->mesh)) return false;
  return true;
}

static bool set_may(Cut *c, int32_t slot) {
  bool changed = !c->may[slot];
  c->may[slot] = true;
  return changed;
}

static bool spread_node(Cut *c, int32_t t, int32_t node) {
  const PmTreeFn *tf = &c->tree->fns[t];
  const PmFn *f = pm_fn(c->m, tf->fn);
  const PmNode *n = &f->nodes[node];
  int32_t out = pm_slot(tf, n->out);
  bool is_max = (pm_op_flags(n->op) & PM_F_REDUCE) && n->attr.kind != PM_SUM;
  if (exec_of(c, t, node)->sums >> c->mesh & 1) {
    c->source[out] = !is_max;
    return !is_max && set_may(c, out);
  }
  if (n->n_in == 0 || n->n_in > 63) return false;
  uint64_t may = 0, zero = 0;
  for (int32_t i = 0; i < n->n_in; i++) {
    if (c->may[pm_slot(tf, n->in[i])])
      may |= UINT64_C(1) << i;
    else if (pm_is_zero(f, n->in[i]))
      zero |= UINT64_C(1) << i;
  }
  uint64_t set = may ? pm_shard_linear(n, may, zero) : 0;
  if (set == 0 || !others_free(c, f, n, set)) return false;
  c->needs[out] = set;
  return set_may(c, out);
}

static bool spread_call(Cut *c, int32_t t, const PmNode *n) {
  const PmTreeFn *tf = &c->tree->fns[t], *callee = pm_tree_callee(c->tree, n);
  const PmFn *f = pm_fn(c->m, tf->fn), *g = pm_fn(c->m, callee->fn);
  bool changed = false;
  for (int32_t i = 0; i < n->n_in; i++) {
    int32_t p = pm_slot(callee, i);
    bool carry = pm_cross_in(n, i) == PM_CROSS_CARRY, zero_carry = carry && pm_is_zero(f, n->in[i]);
    // A sum that is wanted split would be held whole until the last turn.
    if (zero_carry && pm_type_uses_mesh(&g->values[i].type, c->mesh)) continue;
    if (!callee->opaque && !c->blocked[p] && (c->may[pm_slot(tf, n->in[i])] || zero_carry)) changed |= set_may(c, p);
  }
  for (int32_t i = 0; i < n->n_out; i++) {
    bool carry = pm_cross_out(n, i) == PM_CROSS_CARRY;
    // A stack that is wanted split would be held whole until the last turn.
    if (pm_cross_out(n, i) == PM_CROSS_STACK && pm_type_uses_mesh(&f->values[n->out + i].type, c->mesh)) continue;
    if (c->may[pm_slot(callee, g->results[i])] && (!carry || c->may[pm_slot(callee, i)]))
      changed |= set_may(c, pm_slot(tf, n->out + i));
  }
  return changed;
}

static void spread(Cut *c) {
  for (bool changed = true; changed;) {
    changed = false;
    for (int32_t t = 0; t < c->tree->n_fns; t++) {
      const PmFn *f = pm_fn(c->m, c->tree->fns[t].fn);
      for (int32_t i = 0; i < f->n_nodes && !c->tree->fns[t].opaque; i++)
        changed |= pm_is_call(&f->nodes[i]) ? spread_call(c, t, &f->nodes[i]) : spread_node(c, t, i);
    }
  }
}

// A carried parameter may be partial only if every turn gives back a partial; one that does not is blocked, and all is
// computed again without it.
static bool block_carries(Cut *c) {
  bool changed = false;
  for (int32_t t = 0; t < c->tree->n_fns; t++) {
    const PmTreeFn *tf = &c->tree->fns[t];
    const PmFn *f = pm_fn(c->m, tf->fn);
    if (tf->parent == PM_NONE) continue;
    const PmNode *n = &pm_fn(c->m, c->tree->fns[tf->parent].fn)->nodes[tf->node];
    for (int32_t i = 0; pm_is_loop(n) && i < n->attr.n_carry; i++) {
      int32_t p = pm_slot(tf, i);
      if (!c->may[p] || c->may[pm_slot(tf, f->results[i])]) continue;
      c->blocked[p] = true;
      changed = true;
    }
  }
  return changed;
}

static void find_candidates(Cut *c) {
  do {
    for (int32_t s = 0; s < c->tree->n_slots; s++) c->may[s] = c->source[s] = false;
    spread(c);
  } while (block_carries(c));
}

static int32_t value_vertex(const Cut *c, int32_t slot) { return 2 + 2 * c->vertex[slot]; }
static int32_t gate_vertex(const Cut *c, int32_t slot) { return 3 + 2 * c->vertex[slot]; }
enum { SOURCE, SINK };

// `user` (a slot, or PM_NONE when the use can never take a partial) reads `slot`.
static void use(Cut *c, int32_t slot, int32_t user) {
  if (!c->may[slot]) return;
  if (user == PM_NONE || !c->may[user]) {
    pm_net_edge(&c->net, gate_vertex(c, slot), SINK, PM_NET_INF);
    return;
  }
  pm_net_edge(&c->net, gate_vertex(c, slot), value_vertex(c, user), PM_NET_INF);
  pm_net_edge(&c->net, value_vertex(c, user), value_vertex(c, slot), PM_NET_INF);
}

static bool is_narrow(PmDtype d) { return d == PM_BF16 || d == PM_F16; }

// The gradient of a parameter, held in a wide type.
static bool is_gradient(const Cut *c, const PmTreeFn *tf, const PmValue *v) {
  if (tf->parent != PM_NONE || !v->name || is_narrow((PmDtype)v->type.dtype) || strncmp(v->name, "d(", 2) != 0)
    return false;
  size_t n = strlen(v->name);
  if (n < 4) return false;
  PmVarId var = pm_module_find_var(c->m, pm_arena_strndup(c->arena, v->name + 2, n - 3));
  return var != PM_NONE && c->m->vars[var].role == PM_ROLE_PARAM;
}

// Which values of a function only go into the gradients of parameters, by sums and casts. Callers come before.
static void find_leading(Cut *c, int32_t t) {
  const PmTreeFn *tf = &c->tree->fns[t];
  const PmFn *f = pm_fn(c->m, tf->fn);
  bool *leads = c->leads + pm_slot(tf, 0);
  for (PmValueId v = 0; v < f->n_values; v++) leads[v] = true;
  for (int32_t i = 0; i < f->n_results; i++) {
    const PmTreeFn *caller = tf->parent == PM_NONE ? NULL : &c->tree->fns[tf->parent];
    const PmNode *n = caller ? &pm_fn(c->m, caller->fn)->nodes[tf->node] : NULL;
    if (!n || !c->leads[pm_slot(caller, n->out + i)]) leads[f->results[i]] = false;
  }
  for (int32_t i = f->n_nodes - 1; i >= 0; i--) {
    const PmNode *n = &f->nodes[i];
    for (int32_t k = 0; k < n->n_out; k++)
      if (is_gradient(c, tf, &f->values[n->out + k])) leads[n->out + k] = true;
    for (int32_t k = 0; k < n->n_in; k++) {
      bool hands_on =
          !pm_is_call(n) && leads[n->out] && c->may[pm_slot(tf, n->out)] && (c->needs[pm_slot(tf, n->out)] >> k & 1);
      if (!hands_on) leads[n->in[k]] = false;
    }
  }
  bool *rounded = c->rounded + pm_slot(tf, 0);
  for (PmValueId v = 0; v < f->n_values; v++) rounded[v] = leads[v] && is_narrow((PmDtype)f->values[v].type.dtype);
  for (int32_t i = f->n_nodes - 1; i >= 0; i--) {
    const PmNode *n = &f->nodes[i];
    for (int32_t k = 0; k < n->n_in && !pm_is_call(n); k++)
      if (leads[n->in[k]] && rounded[n->out]) rounded[n->in[k]] = true;
  }
}

// What is still to be rounded on its way to the wide gradient of a parameter costs as much as it would in f32, and a
// little more: sums over ranks run in the gradient's type, where the gradient is stored.
static int64_t reduce_cost(const Cut *c, const PmTreeFn *tf, PmValueId v) {
  PmType t = pm_fn(c->m, tf->fn)->values[v].type;
  bool scatters = pm_type_uses_mesh(&t, c->mesh);
  pm_type_cut_mesh(&t, c->mesh);
  bool rounded = c->rounded[pm_slot(tf, v)];
  if (rounded) t.dtype = PM_F32;
  int64_t bytes = pm_type_local_bytes(c->m, &t);
  return tf->turns * (PM_COLLECTIVE_CHARGE + (scatters ? 1 : 2) * bytes + rounded);
}

static void node_uses(Cut *c, const PmTreeFn *tf, const PmNode *n) {
  int32_t out = n->n_out > 0 ? pm_slot(tf, n->out) : PM_NONE;
  for (int32_t i = 0; i < n->n_in; i++) {
    bool passes = out != PM_NONE && c->may[out] && !c->source[out] && (c->needs[out] >> i & 1);
    use(c, pm_slot(tf, n->in[i]), passes ? out : PM_NONE);
  }
}

static void call_uses(Cut *c, const PmTreeFn *tf, const PmNode *n) {
  const PmTreeFn *callee = pm_tree_callee(c->tree, n);
  const PmFn *g = pm_fn(c->m, callee->fn);
  for (int32_t i = 0; i < n->n_in; i++) use(c, pm_slot(tf, n->in[i]), pm_slot(callee, i));
  for (int32_t i = 0; i < n->n_out; i++) {
    int32_t result = pm_slot(callee, g->results[i]), out = pm_slot(tf, n->out + i), param = pm_slot(callee, i);
    bool carry = pm_cross_out(n, i) == PM_CROSS_CARRY;
    if (carry) use(c, result, param);
    use(c, result, out);
    if (carry && c->may[out]) pm_net_edge(&c->net, value_vertex(c, out), value_vertex(c, param), PM_NET_INF);
  }
}

static void build_net(Cut *c, int32_t n_may) {
  pm_net_init(&c->net, c->arena, 2 + 2 * n_may);
  for (int32_t t = 0; t < c->tree->n_fns; t++) find_leading(c, t);
  for (int32_t t = 0; t < c->tree->n_fns; t++) {
    const PmTreeFn *tf = &c->tree->fns[t];
    const PmFn *f = pm_fn(c->m, tf->fn);
    for (PmValueId v = 0; v < f->n_values; v++) {
      int32_t s = pm_slot(tf, v);
      if (!c->may[s]) continue;
      if (c->source[s]) pm_net_edge(&c->net, SOURCE, value_vertex(c, s), PM_NET_INF);
      pm_net_edge(&c->net, value_vertex(c, s), gate_vertex(c, s), reduce_cost(c, tf, v));
    }
    for (int32_t i = 0; i < f->n_nodes; i++) {
      if (pm_is_call(&f->nodes[i]))
        call_uses(c, tf, &f->nodes[i]);
      else
        node_uses(c, tf, &f->nodes[i]);
    }
    for (int32_t i = 0; tf->parent == PM_NONE && i < f->n_results; i++) use(c, pm_slot(tf, f->results[i]), PM_NONE);
  }
}

static void cut_mesh(Cut *c, PmPartials *out) {
  find_candidates(c);
  int32_t n_may = 0;
  for (int32_t s = 0; s < c->tree->n_slots; s++) c->vertex[s] = c->may[s] ? n_may++ : PM_NONE;
  if (n_may == 0) return;
  build_net(c, n_may);
  bool *side = PM_NEW_N(c->arena, bool, c->net.n_vertices);
  pm_net_min_cut(&c->net, SOURCE, SINK, side);
  for (int32_t s = 0; s < c->tree->n_slots; s++)
    if (c->may[s] && side[value_vertex(c, s)]) out->mask[s] |= UINT32_C(1) << c->mesh;
}

PmPartials pm_partial_cut(PmArena *arena, const PmModule *m, const PmTree *tree, PmExec *const *execs) {
  PmPartials out = {.mask = PM_NEW_N(arena, uint32_t, tree->n_slots + 1)};
  Cut c = {.arena = arena, .m = m, .tree = tree, .execs = execs};
  c.may = PM_NEW_N(arena, bool, tree->n_slots + 1);
  c.source = PM_NEW_N(arena, bool, tree->n_slots + 1);
  c.blocked = PM_NEW_N(arena, bool, tree->n_slots + 1);
  c.needs = PM_NEW_N(arena, uint64_t, tree->n_slots + 1);
  c.leads = PM_NEW_N(arena, bool, tree->n_slots + 1);
  c.rounded = PM_NEW_N(arena, bool, tree->n_slots + 1);
  c.vertex = PM_NEW_N(arena, int32_t, tree->n_slots + 1);
  for (c.mesh = 0; c.mesh < m->n_mesh; c.mesh++) {
    for (int32_t s = 0; s < tree->n_slots; s++) c.blocked[s] = false;
    cut_mesh(&c, &out);
  }
  return out;
}
