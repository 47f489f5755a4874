#include <string.h>

#include "base/assert.h"
#include "passes/grad.h"
#include "passes/passes.h"
#include "passes/simplify.h"

bool pm_grad_wants(const PmGrad *g, PmValueId v) { return g->useful[v]; }

void pm_grad_add(PmGrad *g, PmValueId v, PmValueId d) {
  if (!g->useful[v]) return;
  g->cot[v] = g->cot[v] == PM_NONE ? d : pm_b_map2(&g->b, PM_S_add, g->cot[v], d);
}

PmValueId pm_grad_conform(PmGrad *g, PmValueId v, const PmType *type) {
  PmType to = *type;
  PM_ASSERT(pm_b_type(&g->b, v)->rank == to.rank && pm_b_type(&g->b, v)->dtype == to.dtype, "a cotangent of another type");
  return pm_b_broadcast(&g->b, v, to);
}

PmValueId pm_grad_splat(PmGrad *g, double v, PmValueId like) {
  PmType type = *pm_b_type(&g->b, like);
  return pm_b_splat(&g->b, v, &type);
}

static const char *cot_name(PmModule *m, const char *name) {
  return name ? pm_intern_printf(m->names, "d(%s)", name) : NULL;
}

// The forward function under way, next to the primal one.
typedef struct Forward {
  PmBuilder b;
  PmValueId *of_primal;      // value of f -> value of f.fwd
  const PmGradPair **pairs;  // node of f -> pair, or NULL
  PmValueId *first;          // node of f -> first result of its call in f.fwd
} Forward;

static PmStatus *find_pairs(PmDiff *d, const PmFn *f, const PmFlow *flow, const PmGradPair **out_pairs) {
  for (int32_t i = 0; i < f->n_nodes; i++) {
    const PmNode *node = &f->nodes[i];
    if (!(pm_op_flags(node->op) & PM_F_CALL)) continue;
    bool used = false;
    for (int32_t k = 0; k < node->n_out; k++) used = used || flow->useful[node->out + k];
    if (!used) continue;
    PmGradUse use = pm_flow_call(d, node, flow->active, flow->useful);
    PM_TRY(pm_grad_pair(d, &use, &out_pairs[i]));
  }
  return NULL;
}

// The primal function with its calls replaced by calls of forward functions; residuals are not results yet.
static void build_forward(const PmFn *f, Forward *w) {
  for (int32_t i = 0; i < f->n_params; i++) w->of_primal[i] = pm_rebuild_param(&w->b, &f->values[i]);
  for (int32_t i = 0; i < f->n_nodes; i++) {
    PmNode node = f->nodes[i];
    if (w->pairs[i]) node.attr.callee = w->pairs[i]->fwd;
    w->first[i] = pm_rebuild_node(&w->b, f, &node, w->of_primal);
  }
}

static int64_t type_bytes(const PmModule *m, const PmType *t) {
  int64_t n;
  bool ok = pm_type_elements(m, t, &n);
  PM_ASSERT(ok, "a value of more than 2^48 elements");
  return n * pm_dtype_bytes((PmDtype)t->dtype);
}

// Made again in the backward rather than saved: what constants alone decide, and views and widenings, whose operand is
// not larger than they are.
static bool is_remade(const PmModule *m, const PmFn *fwd, const PmNode *node, const bool *exact) {
  uint32_t flags = pm_op_flags(node->op);
  if (flags & (PM_F_CALL | PM_F_COMM)) return false;
  bool all_exact = true;
  for (int32_t k = 0; k < node->n_in; k++) all_exact = all_exact && exact[node->in[k]];
  if (all_exact) return true;
  return (flags & PM_F_LINEAR) && node->n_in == 1 &&
         type_bytes(m, &fwd->values[node->out].type) >= type_bytes(m, &fwd->values[node->in[0]].type);
}

// Opens the draft of f.bwd: every value of f.fwd that is not remade is a parameter, to be cut to those that are used;
// then come the cotangents of seeded results. Fills of_fwd (value of f.fwd -> draft).
static void open_draft(PmGrad *g, const PmGradUse *use, const PmFlow *flow, const Forward *w, PmValueId *of_fwd,
                       PmValueId *out_seeds) {
  PmModule *m = g->d->m;
  const PmFn fwd = *pm_fn(m, w->b.fn);
  bool *exact = PM_NEW_N(g->d->arena, bool, fwd.n_values);
  bool *remade = PM_NEW_N(g->d->arena, bool, fwd.n_nodes);
  for (int32_t v = 0; v < fwd.n_params; v++) of_fwd[v] = pm_rebuild_param(&g->b, &fwd.values[v]);
  for (int32_t i = 0; i < fwd.n_nodes; i++) {
    const PmNode *node = &fwd.nodes[i];
    remade[i] = is_remade(m, &fwd, node, exact);
    bool all_exact = remade[i];
    for (int32_t k = 0; k < node->n_in; k++) all_exact = all_exact && exact[node->in[k]];
    for (int32_t k = 0; k < node->n_out; k++) {
      exact[node->out + k] = all_exact;
      if (!remade[i]) of_fwd[node->out + k] = pm_rebuild_param(&g->b, &fwd.values[node->out + k]);
    }
  }
  for (int32_t i = 0; i < g->f.n_results; i++) {
    out_seeds[i] = PM_NONE;
    // A carried value that the turn overwrites passes no cotangent to it, but its place carries that of the parameter.
    bool carried = use->loop && i < use->n_carry;
    if (!use->seed[i] || !(flow->active_out[i] || carried)) continue;
    const PmValue *r = &g->f.values[g->f.results[i]];
    out_seeds[i] = pm_b_param(&g->b, r->type, cot_name(m, r->name));
    pm_b_value(&g->b, out_seeds[i])->bound = r->bound;
  }
  for (int32_t i = 0; i < fwd.n_nodes; i++) {
    if (remade[i]) pm_rebuild_node(&g->b, &fwd, &fwd.nodes[i], of_fwd);
  }
}

static void name_cot(PmGrad *g, PmValueId v) {
  const PmValue *p = &g->f.values[v];
  if (g->cot[v] != PM_NONE) pm_b_lend_name(&g->b, g->cot[v], cot_name(g->d->m, p->name), p->bound);
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
  const PmType *type = &g->f.values[param].type;
  PmValueId v = g->cot[param] != PM_NONE ? pm_grad_conform(g, g->cot[param], type) : pm_b_splat(&g->b, 0.0, type);
  const PmValue *value = &g->f.values[param];
  pm_b_lend_name(&g->b, v, cot_name(g->d->m, value->name), value->bound);
  results[p->n_grads] = v;
  p->grads[p->n_grads++] = param;
}

// The draft's results. A loop gives every carried cotangent that it takes, if only as zeros, so that the turns close.
static void close_draft(PmGradPair *p, PmGrad *g, const PmGradUse *use, const PmValueId *seeds) {
  int32_t n = g->f.n_params;
  PmValueId *results = PM_NEW_N(g->d->arena, PmValueId, n);
  p->grads = PM_NEW_N(g->d->arena, int32_t, n);
  for (int32_t i = 0; i < n; i++) {
    bool wanted = use->loop && i < use->n_carry ? seeds[i] != PM_NONE : g->cot[i] != PM_NONE;
    if (wanted) push_grad(p, g, results, i);
  }
  pm_b_results(&g->b, results, p->n_grads);
}

// An axis of the repeat's size that `t` does not have. A residual that has the repeat axis itself cannot be stacked along
// it: it is saved under this other name.
static PmAxisId other_axis(PmModule *m, PmAxisId axis, const PmType *t) {
  for (int32_t k = 1;; k++) {
    const char *name = pm_intern_printf(m->names, "%s.saved%d", m->axes[axis].name, k);
    PmAxisId other = pm_module_axis(m, name, m->axes[axis].size, m->axes[axis].loc);
    if (pm_type_find(t, other) == PM_NONE) return other;
  }
}

static bool must_rename(const PmGradUse *use, const PmType *t) {
  return use->loop && pm_type_find(t, use->axis) != PM_NONE;
}

static void push_arg(PmGradPair *p, PmGradArgKind kind, int32_t index, PmValueId *sources, PmValueId draft) {
  p->args[p->n_args] = (PmGradArg){kind, index};
  sources[p->n_args++] = draft;
}

// Where the caller finds value `v` of f.fwd. Carried values of a loop change from turn to turn, so that their parameter
// and result at the caller are not what this turn had; they become residuals like any other.
static PmGradArg find_source(const PmGradUse *use, const PmFn *f, Forward *w, PmValueId *results, int32_t *n_results,
                             PmValueId v) {
  int32_t n_fixed = use->loop ? use->n_carry : 0;
  if (v < f->n_params && v >= n_fixed) return (PmGradArg){PM_ARG_PARAM, v};
  for (int32_t i = n_fixed; i < f->n_results; i++) {
    if (results[i] == v) return (PmGradArg){PM_ARG_RESULT, i};
  }
  const PmType type = *pm_b_type(&w->b, v);
  if (must_rename(use, &type)) {
    PmAxisId other = other_axis(w->b.m, use->axis, &type);
    v = pm_b_rename(&w->b, v, &use->axis, &other, 1);
  }
  results[*n_results] = v;
  return (PmGradArg){PM_ARG_RESULT, (*n_results)++};
}

static bool *used_values(PmDiff *d, const PmFn *fn) {
  bool *used = PM_NEW_N(d->arena, bool, fn->n_values);
  for (int32_t i = 0; i < fn->n_nodes; i++) {
    for (int32_t k = 0; k < fn->nodes[i].n_in; k++) used[fn->nodes[i].in[k]] = true;
  }
  for (int32_t i = 0; i < fn->n_results; i++) used[fn->results[i]] = true;
  return used;
}

static bool is_invariant(const PmGradUse *use, int32_t param) {
  return param >= use->n_carry && param < use->n_carry + use->n_inv;
}

// Decides the parameters of f.bwd from what the draft uses, and completes the results of f.fwd with residuals.
// sources[i]: the draft's parameter that becomes argument i, or PM_NONE for a sum.
static void choose_args(PmDiff *d, PmGradPair *p, const PmFn *f, Forward *w, const PmValueId *of_fwd,
                        const PmValueId *seeds, PmValueId *sources) {
  const PmGradUse *use = &p->use;
  const PmFn *bwd = pm_fn(d->m, p->bwd);
  int32_t n_fwd = pm_fn(d->m, p->fwd)->n_values;
  const bool *used = used_values(d, bwd);
  PmValueId *results = PM_NEW_N(d->arena, PmValueId, f->n_results + n_fwd);
  int32_t n_results = f->n_results;
  for (int32_t i = 0; i < n_results; i++) results[i] = w->of_primal[f->results[i]];
  PmGradArg *residuals = PM_NEW_N(d->arena, PmGradArg, n_fwd);
  PmValueId *drafts = PM_NEW_N(d->arena, PmValueId, n_fwd);
  int32_t n = 0;
  for (PmValueId v = 0; v < n_fwd; v++) {
    PmValueId draft = of_fwd[v];
    if (draft >= bwd->n_params || !used[draft]) continue;
    drafts[n] = draft;
    residuals[n++] = find_source(use, f, w, results, &n_results, v);
  }
  pm_b_results(&w->b, results, n_results);

  if (use->loop) {
    for (int32_t i = 0; i < use->n_carry; i++) {
      if (seeds[i] != PM_NONE) push_arg(p, PM_ARG_COT, i, sources, seeds[i]);
    }
    for (int32_t i = 0; i < p->n_grads; i++) {
      if (is_invariant(use, p->grads[i])) push_arg(p, PM_ARG_ACC, p->grads[i], sources, PM_NONE);
    }
    p->bwd_carry = p->n_args;
  }
  for (int32_t round = 0; round < 2; round++) {
    for (int32_t i = 0; i < n; i++) {
      bool first = !use->loop || (residuals[i].kind == PM_ARG_PARAM && is_invariant(use, residuals[i].index));
      if (first == (round == 0)) push_arg(p, residuals[i].kind, residuals[i].index, sources, drafts[i]);
    }
    if (round == 0) p->bwd_inv = use->loop ? p->n_args - p->bwd_carry : 0;
  }
  for (int32_t i = use->loop ? use->n_carry : 0; i < f->n_results; i++) {
    if (seeds[i] != PM_NONE) push_arg(p, PM_ARG_COT, i, sources, seeds[i]);
  }
}

static PmType result_type(const PmModule *m, PmFnId fn, int32_t i) {
  const PmFn *f = pm_fn(m, fn);
  return f->values[f->results[i]].type;
}

static bool is_saved_renamed(const PmGradPair *p, const PmGradArg *a, const PmType *t) {
  return a->kind == PM_ARG_RESULT && must_rename(&p->use, t);
}

// Builds f.bwd again with the chosen parameters; a loop adds its sums.
static void pack_backward(PmDiff *d, const PmGradPair *p, const PmFn *f, const PmValueId *sources) {
  PmFn draft = pm_rebuild_begin(d->m, p->bwd);
  PmBuilder b = {d->m, p->bwd, {0}};
  PmValueId *map = PM_NEW_N(d->arena, PmValueId, draft.n_values);
  PmValueId *sums = PM_NEW_N(d->arena, PmValueId, f->n_params);
  for (int32_t i = 0; i < p->n_args; i++) {
    const PmGradArg *a = &p->args[i];
    if (a->kind == PM_ARG_ACC) {
      sums[a->index] = pm_b_param(&b, f->values[a->index].type, NULL);
    } else if (is_saved_renamed(p, a, &draft.values[sources[i]].type)) {
      map[sources[i]] = pm_b_param(&b, result_type(d->m, p->fwd, a->index), NULL);
    } else {
      map[sources[i]] = pm_rebuild_param(&b, &draft.values[sources[i]]);
    }
  }
  for (int32_t i = 0; i < p->n_args; i++) {
    const PmGradArg *a = &p->args[i];
    if (a->kind == PM_ARG_ACC || !is_saved_renamed(p, a, &draft.values[sources[i]].type)) continue;
    const PmType back = draft.values[sources[i]].type, saved = result_type(d->m, p->fwd, a->index);
    PmAxisId other = saved.dims[pm_type_find(&back, p->use.axis)].axis;
    map[sources[i]] = pm_b_rename(&b, map[sources[i]], &other, &p->use.axis, 1);
  }
  for (int32_t i = 0; i < draft.n_nodes; i++) pm_rebuild_node(&b, &draft, &draft.nodes[i], map);
  PmValueId *results = PM_NEW_N(d->arena, PmValueId, p->n_grads);
  for (int32_t i = 0; i < p->n_grads; i++) {
    results[i] = map[draft.results[i]];
    if (!p->use.loop || !is_invariant(&p->use, p->grads[i])) continue;
    const PmValue *value = &f->values[p->grads[i]];
    results[i] = pm_b_map2(&b, PM_S_add, sums[p->grads[i]], results[i]);
    pm_b_lend_name(&b, results[i], cot_name(d->m, value->name), value->bound);
  }
  pm_b_results(&b, results, p->n_grads);
}

static PmFnId add_suffixed(PmModule *m, const PmFn *f, const char *suffix) {
  PmFnKind kind = f->kind == PM_FN_COMPOSITE ? PM_FN_COMPOSITE : PM_FN_BODY;
  PmFnId id = pm_module_add_fn(m, pm_intern_printf(m->names, "%s%s", f->name, suffix), kind);
  if (f->base) pm_fn(m, id)->base = pm_intern_printf(m->names, "%s%s", f->base, suffix);
  return id;
}

static PmStatus *derive_pair(PmDiff *d, PmGradPair *p) {
  PmModule *m = d->m;
  const PmFn f = *pm_fn(m, p->use.fn);
  const PmFlow *flow = pm_flow(d, p->use.fn, p->use.active, p->use.seed);
  Forward w = {.of_primal = PM_NEW_N(d->arena, PmValueId, f.n_values),
               .pairs = (const PmGradPair **)pm_arena_alloc_n(d->arena, (size_t)f.n_nodes, sizeof(PmGradPair *)),
               .first = PM_NEW_N(d->arena, PmValueId, f.n_nodes)};
  PM_TRY(find_pairs(d, &f, flow, w.pairs));
  p->fwd = add_suffixed(m, &f, ".fwd");
  p->bwd = add_suffixed(m, &f, ".bwd");
  w.b = (PmBuilder){m, p->fwd, {0}};
  build_forward(&f, &w);

  PmGrad g = {.d = d, .b = {m, p->bwd, {0}}, .f = f, .useful = flow->useful, .pairs = w.pairs};
  int32_t n_fwd = pm_fn(m, p->fwd)->n_values;
  PmValueId *of_fwd = PM_NEW_N(d->arena, PmValueId, n_fwd);
  PmValueId *seeds = PM_NEW_N(d->arena, PmValueId, f.n_results);
  open_draft(&g, &p->use, flow, &w, of_fwd, seeds);
  g.primal = PM_NEW_N(d->arena, PmValueId, f.n_values);
  g.cot = PM_NEW_N(d->arena, PmValueId, f.n_values);
  for (PmValueId v = 0; v < f.n_values; v++) {
    g.primal[v] = of_fwd[w.of_primal[v]];
    g.cot[v] = PM_NONE;
  }
  g.call_results = PM_NEW_N(d->arena, PmValueId *, f.n_nodes);
  for (int32_t i = 0; i < f.n_nodes; i++) g.call_results[i] = &of_fwd[w.first[i]];
  for (int32_t i = 0; i < f.n_results; i++) {
    if (seeds[i] != PM_NONE) pm_grad_add(&g, f.results[i], seeds[i]);
  }
  sweep_back(&g);
  close_draft(p, &g, &p->use, seeds);

  bool changed = false;
  pm_simplify_fn(m, d->arena, p->bwd, &changed);
  pm_dce_fn(m, d->arena, p->bwd);
  p->args = PM_NEW_N(d->arena, PmGradArg, n_fwd + f.n_results + f.n_params);
  PmValueId *sources = PM_NEW_N(d->arena, PmValueId, n_fwd + f.n_results + f.n_params);
  choose_args(d, p, &f, &w, of_fwd, seeds, sources);
  pack_backward(d, p, &f, sources);
  return NULL;
}

// Index of the value named `name` among `ids`, or PM_NONE.
static int32_t find_named(const PmFn *fn, const PmValueId *ids, int32_t n, const char *name) {
  for (int32_t i = 0; i < n; i++) {
    const char *got = fn->values[ids ? ids[i] : i].name;
    if (got && name && strcmp(got, name) == 0) return i;
  }
  return PM_NONE;
}

// A name of f.bwd's parameter, resolved: a parameter of f, a result of f.fwd, or "d_" and a result of f.
static PmStatus *declared_arg(const PmFn *f, const PmFn *fwd, const PmFn *bwd, int32_t i, PmGradArg *out) {
  const char *name = bwd->values[i].name ? bwd->values[i].name : "";
  int32_t at = find_named(f, NULL, f->n_params, name);
  *out = (PmGradArg){PM_ARG_PARAM, at};
  if (at == PM_NONE) {
    at = find_named(fwd, fwd->results, fwd->n_results, name);
    *out = (PmGradArg){PM_ARG_RESULT, at};
  }
  if (at == PM_NONE && strncmp(name, "d_", 2) == 0) {
    at = find_named(fwd, fwd->results, f->n_results, name + 2);
    *out = (PmGradArg){PM_ARG_COT, at};
  }
  if (at == PM_NONE) {
    return PM_STATUS(PM_ERR_INPUT, "`%s`: parameter `%s` is no parameter of `%s`, no result of `%s` and no cotangent",
                     bwd->name, name, f->name, fwd->name);
  }
  const PmType *has = &bwd->values[i].type;
  const PmType *want = out->kind == PM_ARG_PARAM ? &f->values[at].type : &fwd->values[fwd->results[at]].type;
  if (pm_type_same_logical(has, want)) return NULL;
  return PM_STATUS(PM_ERR_INPUT, "`%s`: parameter `%s` is not of the type of what it names", bwd->name, name);
}

static PmStatus *declared_pair(PmDiff *d, PmGradPair *p) {
  const PmFn *f = pm_fn(d->m, p->use.fn), *fwd = pm_fn(d->m, p->fwd), *bwd = pm_fn(d->m, p->bwd);
  bool fits = fwd->n_params == f->n_params && fwd->n_results >= f->n_results;
  for (int32_t i = 0; fits && i < f->n_params; i++) {
    fits = pm_type_same_logical(&fwd->values[i].type, &f->values[i].type);
  }
  for (int32_t i = 0; fits && i < f->n_results; i++) {
    fits = pm_type_same_logical(&fwd->values[fwd->results[i]].type, &f->values[f->results[i]].type);
  }
  if (!fits) return PM_STATUS(PM_ERR_INPUT, "`%s` does not take and return what `%s` does", fwd->name, f->name);
  p->n_args = bwd->n_params;
  p->args = PM_NEW_N(d->arena, PmGradArg, p->n_args);
  for (int32_t i = 0; i < p->n_args; i++) PM_TRY(declared_arg(f, fwd, bwd, i, &p->args[i]));
  p->grads = PM_NEW_N(d->arena, int32_t, f->n_params);
  for (int32_t i = 0; i < f->n_params; i++) {
    if (!pm_dtype_is_float((PmDtype)f->values[i].type.dtype)) continue;
    if (p->n_grads == bwd->n_results ||
        !pm_type_same_logical(&bwd->values[bwd->results[p->n_grads]].type, &f->values[i].type)) {
      return PM_STATUS(PM_ERR_INPUT, "`%s` does not return the cotangent of parameter %d of `%s`", bwd->name, i, f->name);
    }
    p->grads[p->n_grads++] = i;
  }
  if (p->n_grads == bwd->n_results) return NULL;
  return PM_STATUS(PM_ERR_INPUT, "`%s` returns more than the cotangents of `%s`", bwd->name, f->name);
}

PmStatus *pm_grad_pair(PmDiff *d, const PmGradUse *use, const PmGradPair **out) {
  for (int32_t i = 0; i < d->n_pairs; i++) {
    if (!pm_grad_use_equal(d, &d->pairs[i]->use, use)) continue;
    *out = d->pairs[i];
    return NULL;
  }
  PmGradPair *p = PM_NEW(d->arena, PmGradPair);
  p->use = *use;
  bool declared = d->use_declared && !use->loop && pm_declared_pair(d->m, use->fn, &p->fwd, &p->bwd);
  if (declared && p->fwd < d->n_declared && p->bwd < d->n_declared) {
    PM_TRY(declared_pair(d, p));
  } else {
    PM_TRY(derive_pair(d, p));
  }
  d->pairs = (PmGradPair **)pm_grow(d->arena, (void *)d->pairs, d->n_pairs, &d->cap_pairs, sizeof *d->pairs);
  d->pairs[d->n_pairs++] = p;
  *out = p;
  return NULL;
}

PmStatus *pm_differentiate_fn(PmModule *m, PmArena *scratch, PmFnId fn, const bool *active, bool use_declared,
                              const PmGradPair **out) {
  PmDiff d = {.m = m, .arena = scratch, .use_declared = use_declared, .n_declared = m->n_fns};
  const PmFn *f = pm_fn(m, fn);
  bool *seed = PM_NEW_N(scratch, bool, f->n_results);
  for (int32_t i = 0; i < f->n_results; i++) {
    seed[i] = pm_dtype_is_float((PmDtype)f->values[f->results[i]].type.dtype);
  }
  PmGradUse use = {.fn = fn, .axis = PM_NONE, .active = active, .seed = seed};
  return pm_grad_pair(&d, &use, out);
}

static PmStatus *differentiate_model(PmModule *m, PmArena *scratch, const PmGradPair **out) {
  if (m->model == PM_NONE || m->schedule == PM_NONE) {
    return PM_STATUS(PM_ERR_INPUT, "the module has no model and schedule to train");
  }
  const PmFn *f = pm_fn(m, m->model);
  if (!f->param_bind || f->n_results < 1) {
    return PM_STATUS(PM_ERR_INPUT, "model `%s` is not bound to variables, or minimises nothing", f->name);
  }
  const PmType *loss = &f->values[f->results[0]].type;
  if (loss->rank != 0 || !pm_dtype_is_float((PmDtype)loss->dtype)) {
    return PM_STATUS(PM_ERR_INPUT, "model `%s` minimises a value that is not one number", f->name);
  }
  bool *active = PM_NEW_N(scratch, bool, f->n_params);
  bool *seed = PM_NEW_N(scratch, bool, f->n_results);
  for (int32_t i = 0; i < f->n_params; i++) {
    PmVarId var = f->param_bind[i].var;
    if (var == PM_NONE || m->vars[var].role == PM_ROLE_ACT || m->vars[var].role == PM_ROLE_GRAD) {
      return PM_STATUS(PM_ERR_INPUT, "parameter %d of model `%s` is not bound to a variable of the step", i, f->name);
    }
    active[i] = m->vars[var].role == PM_ROLE_PARAM;
  }
  seed[0] = true;
  PmDiff d = {.m = m, .arena = scratch, .use_declared = true, .n_declared = m->n_fns};
  PmGradUse use = {.fn = m->model, .axis = PM_NONE, .active = active, .seed = seed};
  return pm_grad_pair(&d, &use, out);
}

PmStatus *pm_pass_differentiate(PmPassCtx *ctx, PmModule *m) {
  PmArena scratch;
  pm_arena_init(&scratch, 0);
  PmStatus *st = NULL;
  PmFnId *order;
  int32_t n;
  const PmGradPair *model;
  if (m->step != PM_NONE) {
    st = PM_STATUS(PM_ERR_INPUT, "the module has a training step already");
    goto done;
  }
  // Refuses calls that nest deeper than the recursion over them may go.
  PM_TRY_CLEAN(st, pm_fn_order(m, &scratch, &order, &n), done);
  PM_TRY_CLEAN(st, differentiate_model(m, &scratch, &model), done);
  PM_TRY_CLEAN(st, pm_train_step_build(m, &scratch, model, ctx->keep_grads), done);
done:
  pm_arena_deinit(&scratch);
  return st;
}
