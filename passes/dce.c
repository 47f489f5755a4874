// Dead code: a value lives when a result that somebody uses depends on it. Liveness crosses calls, so that a callee
// loses the parameters, results and carried values that none of its callers needs; all of it is one least fixed point.

#include "passes/simplify.h"

typedef struct Live {
  PmModule *m;
  PmArena *scratch;
  bool *reached;   // a function: called, or a root
  bool *fixed;     // a function: its signature stays
  bool **values;   // by function, by value
  bool **results;  // by function, by result
  bool changed;    // in this round
} Live;

static void set(Live *l, bool *flag) {
  if (*flag) return;
  *flag = true;
  l->changed = true;
}

static void add_root(Live *l, PmFnId fn) {
  if (fn == PM_NONE) return;
  l->reached[fn] = true;
  l->fixed[fn] = true;
}

// What the module itself refers to. A module that has neither a step nor a model is a bare set of functions: those that
// no other calls are then the roots.
static void find_roots(Live *l, const PmFnId *order, int32_t n_order) {
  const PmModule *m = l->m;
  if (m->step != PM_NONE || m->model != PM_NONE) {
    add_root(l, m->step);
    add_root(l, m->eval);
    if (m->step == PM_NONE) {
      add_root(l, m->model);
      add_root(l, m->schedule);
      add_root(l, m->before);
      add_root(l, m->after);
      for (PmVarId v = 0; v < m->n_vars; v++) add_root(l, m->vars[v].update);
    }
    return;
  }
  bool *called = PM_NEW_N(l->scratch, bool, m->n_fns);
  for (int32_t i = 0; i < n_order; i++) {
    const PmFn *fn = pm_fn(m, order[i]);
    for (int32_t k = 0; k < fn->n_nodes; k++) {
      if (pm_op_flags(fn->nodes[k].op) & PM_F_CALL) called[fn->nodes[k].attr.callee] = true;
    }
  }
  for (int32_t i = 0; i < n_order; i++) {
    if (!called[order[i]]) add_root(l, order[i]);
  }
}

// Until `differentiate` has used them, the functions of a declared pair live as long as their composite, and the names
// of all three signatures refer to each other.
static void keep_pair(Live *l, PmFnId fn) {
  PmFnId fwd, bwd;
  if (l->m->step != PM_NONE || l->m->model == PM_NONE || !pm_declared_pair(l->m, fn, &fwd, &bwd)) return;
  PmFnId all[] = {fn, fwd, bwd};
  for (int32_t i = 0; i < 3; i++) {
    set(l, &l->reached[all[i]]);
    set(l, &l->fixed[all[i]]);
  }
}

static void mark_call(Live *l, const PmNode *node, bool *live) {
  PmFnId callee = node->attr.callee;
  set(l, &l->reached[callee]);
  bool *params = l->values[callee];
  bool *results = l->results[callee];
  for (int32_t k = 0; k < node->n_out; k++) {
    if (live[node->out + k]) set(l, &results[k]);
  }
  // A carried value that the body reads must also be computed by it, and one that is computed needs its place.
  for (int32_t k = 0; k < node->attr.n_carry; k++) {
    if (params[k]) set(l, &results[k]);
    if (results[k]) set(l, &params[k]);
  }
  for (int32_t k = 0; k < node->n_in; k++) {
    if (params[k]) set(l, &live[node->in[k]]);
  }
}

static bool node_live(const PmNode *node, const bool *live) {
  for (int32_t k = 0; k < node->n_out; k++) {
    if (live[node->out + k]) return true;
  }
  return false;
}

static void mark_fn(Live *l, PmFnId id) {
  const PmFn *fn = pm_fn(l->m, id);
  bool *live = l->values[id];
  keep_pair(l, id);
  for (int32_t i = 0; i < fn->n_params && l->fixed[id]; i++) set(l, &live[i]);
  for (int32_t i = 0; i < fn->n_results; i++) {
    if (l->fixed[id]) set(l, &l->results[id][i]);
    if (l->results[id][i]) set(l, &live[fn->results[i]]);
  }
  for (int32_t i = fn->n_nodes - 1; i >= 0; i--) {
    const PmNode *node = &fn->nodes[i];
    if (!node_live(node, live)) continue;
    if (pm_op_flags(node->op) & PM_F_CALL) {
      mark_call(l, node, live);
      continue;
    }
    for (int32_t k = 0; k < node->n_in; k++) set(l, &live[node->in[k]]);
  }
}

static bool all_set(const bool *flags, int32_t n) {
  for (int32_t i = 0; i < n; i++) {
    if (!flags[i]) return false;
  }
  return true;
}

static void sweep_call(const Live *l, PmBuilder *b, const PmFn *old, const PmNode *node, PmValueId *map) {
  PmFnId callee = node->attr.callee;
  const bool *params = l->values[callee];
  const bool *results = l->results[callee];
  PmNode call = *node;
  PmValueId *in = PM_NEW_N(l->m->arena, PmValueId, node->n_in);
  call.n_in = call.n_out = 0;
  call.attr.n_carry = call.attr.n_inv = 0;
  for (int32_t k = 0; k < node->n_in; k++) {
    if (!params[k]) continue;
    in[call.n_in++] = map[node->in[k]];
    call.attr.n_carry += k < node->attr.n_carry;
    call.attr.n_inv += k >= node->attr.n_carry && k < node->attr.n_carry + node->attr.n_inv;
  }
  b->loc = node->loc;
  PmValueId v = pm_b_node(b, call.op, &call.attr, in, call.n_in, NULL);
  for (int32_t k = 0; k < node->n_out; k++) {
    if (!results[k]) continue;
    const PmValue *from = &old->values[node->out + k];
    PmValue *to = pm_b_value(b, v);
    to->type = from->type;
    to->name = from->name;
    to->bound = from->bound;
    map[node->out + k] = v++;
  }
}

// Builds the function again from what lives. `l` NULL: parameters, results and the callees' signatures stay.
static void sweep(PmModule *m, PmArena *scratch, PmRebuildRoom *room, PmFnId id, const bool *live, const bool *results,
                  const Live *l) {
  PmFn old = pm_rebuild_begin_in(room, m, id);
  PmBuilder b = {m, id, {0}};
  PmValueId *map = PM_NEW_N(scratch, PmValueId, old.n_values);
  for (int32_t i = 0; i < old.n_params; i++) {
    if (live[i] || !l) map[i] = pm_rebuild_param(&b, &old.values[i]);
  }
  for (int32_t i = 0; i < old.n_nodes; i++) {
    const PmNode *node = &old.nodes[i];
    if (!node_live(node, live)) continue;
    if (l && (pm_op_flags(node->op) & PM_F_CALL)) {
      sweep_call(l, &b, &old, node, map);
    } else {
      pm_rebuild_node(&b, &old, node, map);
    }
  }
  PmValueId *kept = PM_NEW_N(scratch, PmValueId, old.n_results);
  int32_t n_kept = 0;
  for (int32_t i = 0; i < old.n_results; i++) {
    if (!l || results[i]) kept[n_kept++] = map[old.results[i]];
  }
  pm_b_results(&b, kept, n_kept);
  pm_rebuild_end(room, m, id, &old);
}

void pm_dce_fn(PmModule *m, PmArena *scratch, PmRebuildRoom *room, PmFnId id) {
  const PmFn *fn = pm_fn(m, id);
  bool *live = PM_NEW_N(scratch, bool, fn->n_values);
  for (int32_t i = 0; i < fn->n_results; i++) live[fn->results[i]] = true;
  for (int32_t i = fn->n_nodes - 1; i >= 0; i--) {
    const PmNode *node = &fn->nodes[i];
    for (int32_t k = 0; node_live(node, live) && k < node->n_in; k++) live[node->in[k]] = true;
  }
  sweep(m, scratch, room, id, live, NULL, NULL);
}

static void forget(PmFnId *ref, PmFnId fn) {
  if (*ref == fn) *ref = PM_NONE;
}

static void bury(PmModule *m, PmFnId id) {
  pm_fn(m, id)->dead = true;
  forget(&m->model, id);
  forget(&m->schedule, id);
  forget(&m->before, id);
  forget(&m->after, id);
  for (PmVarId v = 0; v < m->n_vars; v++) forget(&m->vars[v].update, id);
}

// Nothing of the function goes, and nothing of the signatures of what it calls.
static bool is_whole(const Live *l, PmFnId id, const bool *same_signature) {
  const PmFn *fn = pm_fn(l->m, id);
  if (!all_set(l->values[id], fn->n_values) || !all_set(l->results[id], fn->n_results)) return false;
  for (int32_t i = 0; i < fn->n_nodes; i++) {
    if (pm_is_call(&fn->nodes[i]) && !same_signature[fn->nodes[i].attr.callee]) return false;
  }
  return true;
}

void pm_dce_module(PmModule *m, PmArena *scratch, PmRebuildRoom *room, const PmFnId *order, int32_t n_order,
                   bool *io_touched, bool *out_changed) {
  Live l = {.m = m, .scratch = scratch};
  l.reached = PM_NEW_N(scratch, bool, m->n_fns);
  l.fixed = PM_NEW_N(scratch, bool, m->n_fns);
  l.values = PM_NEW_N(scratch, bool *, m->n_fns);
  l.results = PM_NEW_N(scratch, bool *, m->n_fns);
  for (int32_t i = 0; i < n_order; i++) {
    l.values[order[i]] = PM_NEW_N(scratch, bool, pm_fn(m, order[i])->n_values);
    l.results[order[i]] = PM_NEW_N(scratch, bool, pm_fn(m, order[i])->n_results);
  }
  find_roots(&l, order, n_order);
  do {
    l.changed = false;
    for (int32_t i = n_order - 1; i >= 0; i--) {
      if (l.reached[order[i]]) mark_fn(&l, order[i]);
    }
  } while (l.changed);
  bool *same_signature = PM_NEW_N(scratch, bool, m->n_fns);
  for (int32_t i = 0; i < n_order; i++) {
    const PmFn *fn = pm_fn(m, order[i]);
    same_signature[order[i]] = all_set(l.values[order[i]], fn->n_params) && all_set(l.results[order[i]], fn->n_results);
  }
  for (int32_t i = 0; i < n_order; i++) {
    PmFnId id = order[i];
    const PmFn *fn = pm_fn(m, id);
    if (!l.reached[id]) {
      bury(m, id);
      *out_changed = true;
      continue;
    }
    if (is_whole(&l, id, same_signature)) continue;
    io_touched[id] = true;
    // A callee may have lost a parameter even where all of this function lives.
    if (!all_set(l.values[id], fn->n_values) || !all_set(l.results[id], fn->n_results)) *out_changed = true;
    sweep(m, scratch, room, id, l.values[id], l.results[id], &l);
  }
}
