// Derives f.fwd and f.bwd from the body of f.
#include "base/assert.h"
#include "passes/grad.h"
#include "passes/simplify.h"

bool pm_grad_wants(const PmGrad *g, PmValueId v) { return g->useful[v]; }

PmType pm_grad_held_type(const PmFn *f, const PmGradUse *use, int32_t param) {
  PmType t = f->values[param].type;
  if (use->held && use->held[param] != PM_BOOL) t.dtype = use->held[param];
  return t;
}

// The cotangent of a variable is summed and handed on in the type that its gradient is held in, and so are those of its
// casts and views where that type is the wider one: no product or sum is rounded to a narrow type on its way.
static void hold_cots(PmGrad *g, const PmGradUse *use) {
  g->held = PM_NEW_N(g->d->arena, uint8_t, g->f.n_values);
  for (PmValueId v = 0; v < g->f.n_values; v++) g->held[v] = g->f.values[v].type.dtype;
  for (int32_t i = 0; use->held && i < g->f.n_params; i++) g->held[i] = pm_grad_held_type(&g->f, use, i).dtype;
  for (int32_t i = 0; use->held && i < g->f.n_nodes; i++) {
    const PmNode *n = &g->f.nodes[i];
    if (!(pm_op_flags(n->op) & PM_F_LINEAR) || n->n_in != 1) continue;
    const bool of_variable = n->in[0] < g->f.n_params ? use->held[n->in[0]] != PM_BOOL
                                                      : g->held[n->in[0]] != g->f.values[n->in[0]].type.dtype;
    if (of_variable && g->held[n->in[0]] > g->held[n->out]) g->held[n->out] = g->held[n->in[0]];
  }
}

void pm_grad_add(PmGrad *g, PmValueId v, PmValueId d) {
  if (!g->useful[v]) return;
  d = pm_b_cast(&g->b, d, (PmDtype)g->held[v]);
  g->cot[v] = g->cot[v] == PM_NONE ? d : pm_b_map2(&g->b, PM_S_add, g->cot[v], d);
}

PmValueId pm_grad_conform(PmGrad *g, PmValueId v, const PmType *type) {
  PmType to = *type;
  PM_ASSERT(pm_b_type(&g->b, v)->rank == to.rank && pm_b_type(&g->b, v)->dtype == to.dtype,
            "a cotangent of another type");
  return pm_b_broadcast(&g->b, v, to);
}

PmValueId pm_grad_splat(PmGrad *g, double v, PmValueId like) {
  PmType type = *pm_b_type(&g->b, like);
  return pm_b_splat(&g->b, v, &type);
}

const char *pm_grad_name(PmModule *m, const char *name) {
  return name ? pm_intern_printf(m->names, "d(%s)", name) : NULL;
}

// Variables go into the bodies of repeats; functions of the library give cotangents in their parameters' types.
static const uint8_t *call_held(PmDiff *d, const PmNode *node, const PmGradUse *of, const PmGradUse *use) {
  if (!of->held || pm_fn(d->m, use->fn)->kind != PM_FN_BODY) return NULL;
  const int32_t n_params = pm_fn(d->m, of->fn)->n_params;
  uint8_t *held = PM_NEW_N(d->arena, uint8_t, node->n_in);
  for (int32_t i = use->n_carry; i < node->n_in; i++)
    if (node->in[i] < n_params) held[i] = of->held[node->in[i]];
  return held;
}

static PmStatus *find_pairs(PmDiff *d, const PmFn *f, const PmGradUse *of, const PmFlow *flow,
                            const PmGradPair **out_pairs) {
  for (int32_t i = 0; i < f->n_nodes; i++) {
    const PmNode *node = &f->nodes[i];
    if (!(pm_op_flags(node->op) & PM_F_CALL)) continue;
    bool used = false;
    for (int32_t k = 0; k < node->n_out; k++) used = used || flow->useful[node->out + k];
    if (!used) continue;
    PmGradUse use = pm_flow_call(d, node, flow->active, flow->useful);
    use.held = call_held(d, node, of, &use);
    PM_TRY(pm_grad_pair(d, &use, &out_pairs[i]));
  }
  return NULL;
}

// The primal function with its calls replaced by calls of forward functions; residuals are not results yet.
static void build_forward(const PmFn *f, PmGradDraft *w) {
  for (int32_t i = 0; i < f->n_params; i++) w->of_primal[i] = pm_rebuild_param(&w->b, &f->values[i]);
  for (int32_t i = 0; i < f->n_nodes; i++) {
    PmNode node = f->nodes[i];
    if (w->pairs[i]) node.attr.callee = w->pairs[i]->fwd;
    w->first[i] = pm_rebuild_node(&w->b, f, &node, w->of_primal);
  }
}

// Made again in the backward rather than saved: what constants alone decide, and views and widenings, whose operand is
// not larger than they are. An axis taken apart stays so: its minor part may be split over ranks, which it could not be
// inside of the whole.
static bool is_remade(const PmModule *m, const PmFn *fwd, const PmNode *node, const bool *exact) {
  uint32_t flags = pm_op_flags(node->op);
  if (flags & (PM_F_CALL | PM_F_COMM)) return false;
  bool all_exact = true;
  for (int32_t k = 0; k < node->n_in; k++) all_exact = all_exact && exact[node->in[k]];
  if (all_exact) return true;
  if (node->attr.n_to > 1) return false;
  return (flags & PM_F_LINEAR) && node->n_in == 1 &&
         pm_type_whole_bytes(m, &fwd->values[node->out].type) >= pm_type_whole_bytes(m, &fwd->values[node->in[0]].type);
}

// Opens the draft of f.bwd: every value of f.fwd that is not remade is a parameter; then come the cotangents of seeded
// results.
static void open_draft(PmGradDraft *w, PmGrad *g, const PmFlow *flow) {
  PmModule *m = w->d->m;
  const PmGradUse *use = &w->p->use;
  const PmFn fwd = *pm_fn(m, w->p->fwd);
  bool *exact = PM_NEW_N(w->d->arena, bool, fwd.n_values);
  bool *remade = PM_NEW_N(w->d->arena, bool, fwd.n_nodes);
  w->n_fwd = fwd.n_values;
  w->of_fwd = PM_NEW_N(w->d->arena, PmValueId, fwd.n_values);
  w->seeds = PM_NEW_N(w->d->arena, PmValueId, w->f.n_results);
  for (int32_t v = 0; v < fwd.n_params; v++) w->of_fwd[v] = pm_rebuild_param(&g->b, &fwd.values[v]);
  for (int32_t i = 0; i < fwd.n_nodes; i++) {
    const PmNode *node = &fwd.nodes[i];
    remade[i] = is_remade(m, &fwd, node, exact);
    bool all_exact = remade[i];
    for (int32_t k = 0; k < node->n_in; k++) all_exact = all_exact && exact[node->in[k]];
    for (int32_t k = 0; k < node->n_out; k++) {
      exact[node->out + k] = all_exact;
      if (!remade[i]) w->of_fwd[node->out + k] = pm_rebuild_param(&g->b, &fwd.values[node->out + k]);
    }
  }
  for (int32_t i = 0; i < w->f.n_results; i++) {
    w->seeds[i] = PM_NONE;
    // A carried value that the turn overwrites passes no cotangent to it, but its place carries that of the parameter.
    bool carried = use->loop && i < use->n_carry;
    if (!use->seed[i] || !(flow->active_out[i] || carried)) continue;
    const PmValue *r = &w->f.values[w->f.results[i]];
    w->seeds[i] = pm_b_param(&g->b, r->type, pm_grad_name(m, r->name));
    pm_b_value(&g->b, w->seeds[i])->bound = r->bound;
  }
  for (int32_t i = 0; i < fwd.n_nodes; i++) {
    if (remade[i]) pm_rebuild_node(&g->b, &fwd, &fwd.nodes[i], w->of_fwd);
  }
}

static void name_cot(PmGrad *g, PmValueId v) {
  const PmValue *p = &g->f.values[v];
  if (g->cot[v] != PM_NONE) pm_b_lend_name(&g->b, g->cot[v], pm_grad_name(g->d->m, p->name), p->bound);
}

static void sweep_back(PmGrad *g) {
  for (int32_t i = g->f.n_nodes - 1; i >= 0; i--) {
    const PmNode *node = &g->f.nodes[i];
    bool any = false;
    for (int32_t k = 0; k < node->n_out; k++) {
      any = any || g->cot[node->out + k] != PM_NONE;
      name_cot(g, node->out + k);
    }
    g->b.loc = node->loc;
    if (any) pm_grad_node(g, node);
  }
  for (int32_t i = 0; i < g->f.n_params; i++) name_cot(g, i);
}

static void push_grad(PmGradPair *p, PmGrad *g, PmValueId *results, int32_t param) {
  const PmType type = pm_grad_held_type(&g->f, &p->use, param);
  PmValueId v = g->cot[param] != PM_NONE ? pm_grad_conform(g, g->cot[param], &type) : pm_b_splat(&g->b, 0.0, &type);
  const PmValue *value = &g->f.values[param];
  pm_b_lend_name(&g->b, v, pm_grad_name(g->d->m, value->name), value->bound);
  results[p->n_grads] = v;
  p->grads[p->n_grads++] = param;
}

// The draft's results. A loop gives every carried cotangent that it takes, if only as zeros, so that the turns close.
static void close_draft(PmGradDraft *w, PmGrad *g) {
  PmGradPair *p = w->p;
  int32_t n = w->f.n_params;
  PmValueId *results = PM_NEW_N(w->d->arena, PmValueId, n);
  p->grads = PM_NEW_N(w->d->arena, int32_t, n);
  for (int32_t i = 0; i < n; i++) {
    bool carried = p->use.loop && i < p->use.n_carry;
    if (carried ? w->seeds[i] != PM_NONE : g->cot[i] != PM_NONE) push_grad(p, g, results, i);
  }
  pm_b_results(&g->b, results, p->n_grads);
}

static PmFnId add_suffixed(PmModule *m, const PmFn *f, const char *suffix) {
  PmFnKind kind = f->kind == PM_FN_COMPOSITE ? PM_FN_COMPOSITE : PM_FN_BODY;
  PmFnId id = pm_module_add_fn(m, pm_intern_printf(m->names, "%s%s", f->name, suffix), kind);
  if (f->base) pm_fn(m, id)->base = pm_intern_printf(m->names, "%s%s", f->base, suffix);
  return id;
}

static void count_readers(PmGrad *g) {
  g->readers = PM_NEW_N(g->d->arena, int32_t, g->f.n_values);
  g->untaken = PM_NEW_N(g->d->arena, PmUntaken, g->f.n_values);
  for (PmValueId v = 0; v < g->f.n_values; v++) g->untaken[v].cond = PM_NONE;
  for (int32_t i = 0; i < g->f.n_results; i++) g->readers[g->f.results[i]]++;
  for (int32_t i = 0; i < g->f.n_nodes; i++) {
    const PmNode *n = &g->f.nodes[i];
    for (int32_t k = 0; k < n->n_in; k++) {
      bool again = false;
      for (int32_t j = 0; j < k && n->n_in <= 3; j++) again |= n->in[j] == n->in[k];
      g->readers[n->in[k]] += !again;
    }
  }
}

static void draft_backward(PmGradDraft *w, const PmFlow *flow) {
  PmDiff *d = w->d;
  const PmFn *f = &w->f;
  PmGrad g = {.d = d, .b = {d->m, w->p->bwd, {0}}, .f = *f, .useful = flow->useful, .pairs = w->pairs};
  hold_cots(&g, &w->p->use);
  count_readers(&g);
  open_draft(w, &g, flow);
  g.primal = PM_NEW_N(d->arena, PmValueId, f->n_values);
  g.cot = PM_NEW_N(d->arena, PmValueId, f->n_values);
  for (PmValueId v = 0; v < f->n_values; v++) {
    g.primal[v] = w->of_fwd[w->of_primal[v]];
    g.cot[v] = PM_NONE;
  }
  g.call_results = PM_NEW_N(d->arena, PmValueId *, f->n_nodes);
  for (int32_t i = 0; i < f->n_nodes; i++) g.call_results[i] = &w->of_fwd[w->first[i]];
  for (int32_t i = 0; i < f->n_results; i++) {
    if (w->seeds[i] != PM_NONE) pm_grad_add(&g, f->results[i], w->seeds[i]);
  }
  sweep_back(&g);
  close_draft(w, &g);
}

// What a loop saves is stacked along its axis: LIMIT when such a stack passes what a type may hold.
static PmStatus *check_stacks(const PmDiff *d, const PmGradPair *p) {
  if (!p->use.loop) return NULL;
  const PmFn *f = pm_fn(d->m, p->fwd);
  int64_t turns = pm_axis_size(d->m, p->use.axis);
  for (int32_t i = p->use.n_carry; i < f->n_results; i++) {
    const PmValue *v = &f->values[f->results[i]];
    int64_t n;
    if (v->type.rank < PM_MAX_RANK && pm_type_elements(d->m, &v->type, &n) && pm_mul_i64(n, turns, &n) &&
        n <= PM_MAX_ELEMENTS)
      continue;
    return PM_STATUS(PM_ERR_LIMIT,
                     "%s in `%s`, kept for the backward pass over %lld turns, passes %d axes or 2^48 elements",
                     v->name ? v->name : "a value without a name", f->name, (long long)turns, PM_MAX_RANK);
  }
  return NULL;
}

PmStatus *pm_grad_derive(PmDiff *d, PmGradPair *p) {
  PmModule *m = d->m;
  PmGradDraft w = {.d = d, .p = p, .f = *pm_fn(m, p->use.fn)};
  const PmFlow *flow = pm_flow(d, p->use.fn, p->use.active, p->use.seed);
  w.of_primal = PM_NEW_N(d->arena, PmValueId, w.f.n_values);
  w.first = PM_NEW_N(d->arena, PmValueId, w.f.n_nodes);
  w.pairs = (const PmGradPair **)pm_arena_alloc_n(d->arena, (size_t)w.f.n_nodes, sizeof(PmGradPair *));
  PM_TRY(find_pairs(d, &w.f, &p->use, flow, w.pairs));
  p->fwd = add_suffixed(m, &w.f, ".fwd");
  p->bwd = add_suffixed(m, &w.f, ".bwd");
  w.b = (PmBuilder){m, p->fwd, {0}};
  build_forward(&w.f, &w);
  draft_backward(&w, flow);
  PmRebuildRoom room = {.arena = d->arena};
  bool changed = false;
  pm_simplify_fn(m, d->arena, &room, p->bwd, &changed);
  pm_dce_fn(m, d->arena, &room, p->bwd);
  pm_grad_close(&w);
  PM_TRY(check_stacks(d, p));
  pm_simplify_fn(m, d->arena, &room, p->bwd, &changed);
  pm_dce_fn(m, d->arena, &room, p->bwd);
  return NULL;
}
