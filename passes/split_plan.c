// Which nodes of a backward function run in its input part, and what that hands to the weight part.
//
// The input part is what the wanted results hang on, and the input parts of inner calls with all that these hang on. Of
// a loop's carried results those belong to it that other results hang on: what the next turn waits for. Sums of the
// gradients of invariants hang on nothing and nothing on them, so they are carried by the weight part's loop.
//
// What the weight part reads of the input part's values is either handed to it or made again there from what is handed
// or what its caller has (parameters that are not carried). Only pointwise work and views are made again, never a
// product, a sum, a lookup or a call. A minimum cut chooses the fewest bytes; of equal ones those next to their use.
#include <string.h>

#include "base/checked.h"
#include "passes/net_cut.h"
#include "passes/split.h"

typedef struct Planner {
  PmModule *m;
  PmArena *arena;
  PmHalves *p;
  PmFn f;       // a copy: the module's table does not move here, but its functions are only read
  bool *needs;  // by value: the input part makes or takes it
  bool *wants;  // by value: the weight part reads it
} Planner;

static bool *flags(const Planner *s, int32_t n) { return PM_NEW_N(s->arena, bool, n + 1); }

static bool any_out(const bool *set, const PmNode *n) {
  for (int32_t k = 0; k < n->n_out; k++)
    if (set[n->out + k]) return true;
  return false;
}

// ---- the input part ------------------------------------------------------------------------------------------------
// Carried results that other results hang on.
static void find_chain(Planner *s) {
  for (int32_t i = 0; i < s->p->n_carry; i++) {
    bool *hangs = flags(s, s->f.n_values);
    hangs[i] = true;
    for (int32_t k = 0; k < s->f.n_nodes; k++) {
      const PmNode *n = &s->f.nodes[k];
      bool any = false;
      for (int32_t j = 0; j < n->n_in; j++) any = any || hangs[n->in[j]];
      for (int32_t j = 0; any && j < n->n_out; j++) hangs[n->out + j] = true;
    }
    for (int32_t r = 0; r < s->f.n_results; r++)
      if (r != i && hangs[s->f.results[r]]) s->p->is_input[i] = true;
  }
}

static PmStatus *mark_call(Planner *s, int32_t i) {
  const PmNode *n = &s->f.nodes[i];
  bool *wanted = flags(s, n->n_out);
  bool all = true;
  for (int32_t k = 0; k < n->n_out; k++) all = (wanted[k] = s->needs[n->out + k]) && all;
  s->p->inner[i] = NULL;
  if (!all) PM_TRY(pm_split_plan(s->m, s->arena, n, wanted, &s->p->inner[i]));
  const PmHalves *inner = s->p->inner[i];
  if (!inner) return NULL;
  s->p->in_input[i] = true;
  for (int32_t k = 0; k < n->n_in; k++)
    if (inner->input_takes[k]) s->needs[n->in[k]] = true;
  return NULL;
}

static PmStatus *mark_input(Planner *s) {
  memset(s->needs, 0, (size_t)s->f.n_values * sizeof *s->needs);
  for (int32_t r = 0; r < s->f.n_results; r++)
    if (s->p->is_input[r]) s->needs[s->f.results[r]] = true;
  for (int32_t i = s->f.n_nodes - 1; i >= 0; i--) {
    const PmNode *n = &s->f.nodes[i];
    s->p->in_input[i] = false;
    if (pm_is_call(n)) PM_TRY(mark_call(s, i));
    if (s->p->inner[i] || !any_out(s->needs, n)) continue;
    s->p->in_input[i] = true;
    for (int32_t k = 0; k < n->n_in; k++) s->needs[n->in[k]] = true;
  }
  return NULL;
}

// What a turn takes the turn before must give.
static bool close_carried(Planner *s) {
  bool changed = false;
  for (int32_t i = 0; i < s->p->n_carry; i++) {
    if (!s->needs[i] || s->p->is_input[i]) continue;
    s->p->is_input[i] = true;
    changed = true;
  }
  return changed;
}

// ---- what the weight part reads ------------------------------------------------------------------------------------
static PmType stacked(PmAxisId axis, const PmType *t) {
  PmType to = pm_type_scalar((PmDtype)t->dtype);
  to.index_of = t->index_of;
  pm_type_add(&to, axis);
  for (int32_t d = 0; d < t->rank; d++) pm_type_add(&to, t->dims[d].axis);
  return to;
}

// Gives ids to what inner calls hand on.
static void number_handed(Planner *s) {
  PmHalves *p = s->p;
  p->n_values = s->f.n_values;
  for (int32_t i = 0; i < s->f.n_nodes; i++) {
    p->first_handed[i] = p->n_values;
    if (p->inner[i]) p->n_values += p->inner[i]->n_handed;
  }
  p->types = PM_NEW_N(s->arena, PmType, p->n_values + 1);
  for (PmValueId v = 0; v < s->f.n_values; v++) p->types[v] = s->f.values[v].type;
  for (int32_t i = 0; i < s->f.n_nodes; i++) {
    const PmHalves *inner = p->inner[i];
    int32_t to = p->first_handed[i];
    for (PmValueId v = 0; inner && v < inner->n_values; v++) {
      if (!inner->handed[v]) continue;
      PmType t = inner->types[v];
      // The repeat's own axis stands in a stack under another name, of the same size.
      int32_t own = inner->loop ? pm_type_find(&t, inner->axis) : PM_NONE;
      if (own != PM_NONE) t.dims[own].axis = pm_other_axis(s->m, inner->axis, &t);
      p->types[to++] = inner->loop ? stacked(inner->axis, &t) : t;
    }
  }
}

static bool runs_weight(const Planner *s, int32_t i) {
  const PmNode *n = &s->f.nodes[i];
  const PmHalves *inner = s->p->inner[i];
  if (!inner) return !s->p->in_input[i] && any_out(s->wants, n);
  for (int32_t k = 0; k < n->n_out; k++)
    if (!inner->is_input[k] && s->wants[n->out + k]) return true;
  return false;
}

static void want_operands(Planner *s, int32_t i) {
  const PmNode *n = &s->f.nodes[i];
  const PmHalves *inner = s->p->inner[i];
  for (int32_t k = 0; k < n->n_in; k++)
    if (!inner || inner->weight_takes[k]) s->wants[n->in[k]] = true;
  for (int32_t k = 0; inner && k < inner->n_handed; k++) s->wants[s->p->first_handed[i] + k] = true;
}

static void mark_weight(Planner *s) {
  s->wants = flags(s, s->p->n_values);
  for (int32_t r = 0; r < s->f.n_results; r++)
    if (!s->p->is_input[r]) s->wants[s->f.results[r]] = true;
  for (int32_t i = s->f.n_nodes - 1; i >= 0; i--) {
    s->p->in_weight[i] = runs_weight(s, i);
    if (s->p->in_weight[i]) want_operands(s, i);
  }
}

// ---- the cut -------------------------------------------------------------------------------------------------------
enum { WANTED, ORIGIN };  // source and sink

static int32_t want_vertex(PmValueId v) { return 2 + 2 * v; }
static int32_t make_vertex(PmValueId v) { return 3 + 2 * v; }

static void cut_value(Planner *s, PmNet *net, PmValueId v, const PmNode *cheap) {
  pm_net_edge(net, want_vertex(v), make_vertex(v), pm_type_whole_bytes(s->m, &s->p->types[v]));
  if (s->wants[v]) pm_net_edge(net, WANTED, want_vertex(v), PM_NET_INF);
  if (!cheap) pm_net_edge(net, make_vertex(v), ORIGIN, PM_NET_INF);
  for (int32_t k = 0; cheap && k < cheap->n_in; k++)
    pm_net_edge(net, make_vertex(v), want_vertex(cheap->in[k]), PM_NET_INF);
}

// By value: it is the input part's alone unless it is handed on or made again.
static void find_owned(const Planner *s, bool *owned) {
  for (int32_t i = 0; i < s->p->n_carry; i++) owned[i] = s->p->is_input[i];
  for (int32_t i = 0; i < s->f.n_nodes; i++) {
    const PmNode *n = &s->f.nodes[i];
    const PmHalves *inner = s->p->inner[i];
    for (int32_t k = 0; s->p->in_input[i] && k < n->n_out; k++) owned[n->out + k] = !inner || inner->is_input[k];
    for (int32_t k = 0; inner && k < inner->n_handed; k++) owned[s->p->first_handed[i] + k] = true;
  }
}

static const PmNode *cheap_def(const Planner *s, PmValueId v) {
  if (v >= s->f.n_values || s->f.values[v].def == PM_NONE) return NULL;
  const PmNode *n = &s->f.nodes[s->f.values[v].def];
  return pm_is_cheap(n) ? n : NULL;
}

static void cut(Planner *s) {
  PmHalves *p = s->p;
  bool *owned = flags(s, p->n_values), *side = flags(s, 2 + 2 * p->n_values);
  find_owned(s, owned);
  PmNet net;
  pm_net_init(&net, s->arena, 2 + 2 * p->n_values);
  for (PmValueId v = 0; v < p->n_values; v++)
    if (owned[v]) cut_value(s, &net, v, cheap_def(s, v));
  pm_net_min_cut(&net, WANTED, ORIGIN, side);
  p->handed = flags(s, p->n_values);
  for (PmValueId v = 0; v < p->n_values; v++) {
    if (!owned[v] || !side[want_vertex(v)]) continue;
    p->handed[v] = !side[make_vertex(v)];
    p->n_handed += p->handed[v];
    if (!p->handed[v]) p->in_weight[s->f.values[v].def] = true;
  }
}

static void find_taken(Planner *s) {
  PmHalves *p = s->p;
  p->input_takes = s->needs;
  p->weight_takes = flags(s, s->f.n_params);
  for (int32_t i = 0; i < p->n_carry; i++) {
    p->input_takes[i] = p->is_input[i];
    p->weight_takes[i] = !p->is_input[i];
  }
  for (int32_t i = 0; i < s->f.n_nodes; i++) {
    const PmNode *n = &s->f.nodes[i];
    for (int32_t k = 0; p->in_weight[i] && k < n->n_in; k++) {
      const bool reads = !p->inner[i] || p->inner[i]->weight_takes[k];
      if (reads && n->in[k] >= p->n_carry && n->in[k] < s->f.n_params) p->weight_takes[n->in[k]] = true;
    }
  }
  for (int32_t r = 0; r < s->f.n_results; r++) {
    const PmValueId v = s->f.results[r];
    if (!p->is_input[r] && v >= p->n_carry && v < s->f.n_params) p->weight_takes[v] = true;
  }
}

static PmStatus *check_stacks(const Planner *s) {
  const PmHalves *p = s->p;
  for (PmValueId v = 0; p->loop && v < p->n_values; v++) {
    int64_t n;
    if (!p->handed[v]) continue;
    bool fits = p->types[v].rank < PM_MAX_RANK && pm_type_elements(s->m, &p->types[v], &n) &&
                pm_mul_i64(n, pm_axis_size(s->m, p->axis), &n) && n <= PM_MAX_ELEMENTS;
    if (fits) continue;
    return PM_STATUS(PM_ERR_LIMIT, "what `%s` hands to its weight part passes %d axes or 2^48 elements", s->f.name,
                     PM_MAX_RANK);
  }
  return NULL;
}

static bool is_empty(const Planner *s) {
  bool any = false, all = true;
  for (int32_t i = 0; i < s->f.n_nodes; i++) any = any || s->p->in_input[i];
  for (int32_t r = 0; r < s->f.n_results; r++) all = all && s->p->is_input[r];
  return !any || all;
}

PmStatus *pm_split_plan(PmModule *m, PmArena *arena, const PmNode *call, const bool *wanted, PmHalves **out) {
  Planner s = {.m = m, .arena = arena, .p = PM_NEW(arena, PmHalves), .f = *pm_fn(m, call->attr.callee)};
  PmHalves *p = s.p;
  p->fn = call->attr.callee;
  p->loop = pm_is_loop(call);
  p->axis = p->loop ? call->attr.axes[0] : PM_NONE;
  p->n_carry = call->attr.n_carry;
  p->input = p->weight = PM_NONE;
  p->is_input = flags(&s, s.f.n_results);
  p->in_input = flags(&s, s.f.n_nodes);
  p->in_weight = flags(&s, s.f.n_nodes);
  p->inner = (PmHalves **)pm_arena_alloc_n(arena, (size_t)s.f.n_nodes + 1, sizeof(PmHalves *));
  p->first_handed = PM_NEW_N(arena, int32_t, s.f.n_nodes + 1);
  s.needs = flags(&s, s.f.n_values);
  *out = NULL;
  for (int32_t r = 0; r < s.f.n_results; r++) p->is_input[r] = wanted[r];
  find_chain(&s);
  do {
    PM_TRY(mark_input(&s));
  } while (close_carried(&s));
  if (is_empty(&s)) return NULL;
  number_handed(&s);
  mark_weight(&s);
  cut(&s);
  find_taken(&s);
  PM_TRY(check_stacks(&s));
  *out = p;
  return NULL;
}
