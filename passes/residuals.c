// Residuals: which forward values the backward is given, where its caller finds them, and what it makes again.
//
// A value that the draft uses is saved, unless pointwise ops and views make it from values that are saved anyway: those
// cost no memory traffic of their own in a fused backward, and the values are the same bit for bit. So `gelu` saves its
// operand, not the four products inside; sums, dots, lookups and calls are never made again.
#include "passes/grad.h"

typedef struct Close {
  PmGradDraft *w;
  const PmGradUse *use;
  PmFn fwd;            // f.fwd before residuals were renamed
  bool *used;          // value of f.fwd: the draft uses it
  bool *saved;         // value of f.fwd: the backward is given it
  PmValueId *results;  // of f.fwd, growing
  int32_t n_results;
  PmValueId *sources;  // argument of f.bwd -> the draft's parameter
  PmValueId *values;   // argument of f.bwd -> value of f.fwd, or PM_NONE
} Close;

static PmDiff *diff(const Close *c) { return c->w->d; }

static bool is_invariant(const PmGradUse *use, int32_t param) {
  return param >= use->n_carry && param < use->n_carry + use->n_inv;
}

static void find_used(Close *c) {
  const PmFn *bwd = pm_fn(diff(c)->m, c->w->p->bwd);
  bool *used = PM_NEW_N(diff(c)->arena, bool, bwd->n_values);
  for (int32_t i = 0; i < bwd->n_nodes; i++) {
    for (int32_t k = 0; k < bwd->nodes[i].n_in; k++) used[bwd->nodes[i].in[k]] = true;
  }
  for (int32_t i = 0; i < bwd->n_results; i++) used[bwd->results[i]] = true;
  for (PmValueId v = 0; v < c->fwd.n_values; v++) {
    PmValueId draft = c->w->of_fwd[v];
    c->used[v] = draft < bwd->n_params && used[draft];
  }
  // A draw is made again from the step and the turns, which every caller has.
  for (int32_t i = 0; i < c->fwd.n_nodes; i++) {
    const PmNode *node = &c->fwd.nodes[i];
    for (int32_t k = 0; (pm_op_flags(node->op) & PM_F_DRAW) && k < node->n_in; k++) {
      PmValueId v = node->in[k];
      c->used[v] = c->used[v] || (v < c->fwd.n_params && c->w->of_fwd[v] < bwd->n_params);
    }
  }
}

// A variable of the module is there in the backward anyway: what is cast or broadcast from it need not be saved.
static bool is_variable(const Close *c, PmValueId param) {
  const PmValue *v = &c->w->f.values[param];
  if ((c->w->f.kind != PM_FN_MODEL && c->w->f.kind != PM_FN_BODY) || !v->name) return false;
  PmVarId var = pm_module_find_var(diff(c)->m, v->name);
  return var != PM_NONE && diff(c)->m->vars[var].role == PM_ROLE_PARAM;
}

// Saves the variables that what is made again is made from.
static void save_variables(Close *c) {
  bool *need = PM_NEW_N(diff(c)->arena, bool, c->fwd.n_values);
  for (PmValueId v = 0; v < c->fwd.n_values; v++) need[v] = c->used[v] && !c->saved[v];
  for (int32_t i = c->fwd.n_nodes - 1; i >= 0; i--) {
    const PmNode *node = &c->fwd.nodes[i];
    for (int32_t k = 0; node->n_out == 1 && need[node->out] && k < node->n_in; k++)
      if (!c->saved[node->in[k]]) need[node->in[k]] = true;
  }
  for (PmValueId v = 0; v < c->fwd.n_params; v++) c->saved[v] = c->saved[v] || need[v];
}

static void find_saved(Close *c) {
  bool *have = PM_NEW_N(diff(c)->arena, bool, c->fwd.n_values);
  for (PmValueId v = 0; v < c->fwd.n_params; v++) {
    c->saved[v] = c->used[v];
    have[v] = c->used[v] || is_variable(c, v);
  }
  for (int32_t i = 0; i < c->fwd.n_nodes; i++) {
    const PmNode *node = &c->fwd.nodes[i];
    bool cheap = pm_is_cheap(node);
    for (int32_t k = 0; cheap && k < node->n_in; k++) cheap = have[node->in[k]];
    for (PmValueId v = node->out; v < node->out + node->n_out; v++) {
      c->saved[v] = c->used[v] && !cheap;
      have[v] = cheap || c->saved[v];
    }
  }
  save_variables(c);
}

static bool must_rename(const PmGradUse *use, const PmGradArg *a, const PmType *t) {
  return use->loop && a->kind == PM_ARG_RESULT && pm_type_find(t, use->axis) != PM_NONE;
}

// Where the caller finds value `v` of f.fwd. Carried values of a loop change from turn to turn, so that their parameter
// and result at the caller are not what this turn had; they become residuals like any other.
static PmGradArg find_source(Close *c, PmValueId v) {
  int32_t n_fixed = c->use->loop ? c->use->n_carry : 0;
  if (v < c->fwd.n_params && v >= n_fixed) return (PmGradArg){PM_ARG_PARAM, v};
  for (int32_t i = n_fixed; i < c->w->f.n_results; i++) {
    if (c->results[i] == v) return (PmGradArg){PM_ARG_RESULT, i};
  }
  PmGradArg a = {PM_ARG_RESULT, c->n_results};
  PmBuilder *b = &c->w->b;
  const PmType type = *pm_b_type(b, v);
  if (must_rename(c->use, &a, &type)) {
    PmAxisId other = pm_other_axis(b->m, c->use->axis, &type);
    v = pm_b_rename(b, v, &c->use->axis, &other, 1);
  }
  c->results[c->n_results++] = v;
  return a;
}

static void push_arg(Close *c, PmGradArg a, PmValueId source, PmValueId value) {
  PmGradPair *p = c->w->p;
  c->sources[p->n_args] = source;
  c->values[p->n_args] = value;
  p->args[p->n_args++] = a;
}

// The carried arguments of a loop: cotangents, then sums for invariants.
static void push_carried(Close *c) {
  PmGradPair *p = c->w->p;
  for (int32_t i = 0; i < c->use->n_carry; i++) {
    if (c->w->seeds[i] != PM_NONE) push_arg(c, (PmGradArg){PM_ARG_COT, i}, c->w->seeds[i], PM_NONE);
  }
  for (int32_t i = 0; i < p->n_grads; i++) {
    if (is_invariant(c->use, p->grads[i])) push_arg(c, (PmGradArg){PM_ARG_ACC, p->grads[i]}, PM_NONE, PM_NONE);
  }
  p->bwd_carry = p->n_args;
}

static void choose_args(Close *c) {
  PmGradDraft *w = c->w;
  PmGradPair *p = w->p;
  bool loop = c->use->loop;
  PmGradArg *found = PM_NEW_N(diff(c)->arena, PmGradArg, c->fwd.n_values);
  for (PmValueId v = 0; v < c->fwd.n_values; v++) {
    if (c->saved[v]) found[v] = find_source(c, v);
  }
  pm_b_results(&w->b, c->results, c->n_results);
  if (loop) push_carried(c);
  // In a loop residuals that every turn shares come first; elsewhere the order is that of the forward.
  for (int32_t round = 0; round < 2; round++) {
    for (PmValueId v = 0; v < c->fwd.n_values; v++) {
      if (!c->saved[v]) continue;
      bool shared = !loop || (found[v].kind == PM_ARG_PARAM && is_invariant(c->use, found[v].index));
      if (shared == (round == 0)) push_arg(c, found[v], w->of_fwd[v], v);
    }
    if (loop && round == 0) p->bwd_inv = p->n_args - p->bwd_carry;
  }
  for (int32_t i = loop ? c->use->n_carry : 0; i < w->f.n_results; i++) {
    if (w->seeds[i] != PM_NONE) push_arg(c, (PmGradArg){PM_ARG_COT, i}, w->seeds[i], PM_NONE);
  }
}

// Appends what is used but not saved, with all that it is made from, to the final backward. made: value of f.fwd ->
// value there, filled for the saved ones.
static void remake(Close *c, PmBuilder *b, PmValueId *made) {
  bool *need = PM_NEW_N(diff(c)->arena, bool, c->fwd.n_values);
  for (PmValueId v = 0; v < c->fwd.n_values; v++) need[v] = c->used[v] && !c->saved[v];
  for (int32_t i = c->fwd.n_nodes - 1; i >= 0; i--) {
    const PmNode *node = &c->fwd.nodes[i];
    // Only cheap nodes are made again, and these have one result.
    for (int32_t k = 0; node->n_out == 1 && need[node->out] && k < node->n_in; k++) {
      if (!c->saved[node->in[k]]) need[node->in[k]] = true;
    }
  }
  for (int32_t i = 0; i < c->fwd.n_nodes; i++) {
    const PmNode *node = &c->fwd.nodes[i];
    if (node->n_out == 1 && need[node->out]) pm_rebuild_node(b, &c->fwd, node, made);
  }
}

// The parameters of f.bwd, with renamed residuals named back. map: draft -> final; made: value of f.fwd -> final.
static void add_params(Close *c, PmBuilder *b, const PmFn *draft, PmValueId *map, PmValueId *made, PmValueId *sums) {
  const PmGradPair *p = c->w->p;
  const PmFn fwd = *pm_fn(b->m, p->fwd);
  for (int32_t i = 0; i < p->n_args; i++) {
    const PmGradArg *a = &p->args[i];
    if (a->kind == PM_ARG_ACC) {
      sums[a->index] = pm_b_param(b, pm_grad_held_type(&c->w->f, c->use, a->index), NULL);
      continue;
    }
    const PmValue *v = &draft->values[c->sources[i]];
    map[c->sources[i]] = must_rename(c->use, a, &v->type) ? pm_b_param(b, fwd.values[fwd.results[a->index]].type, NULL)
                                                          : pm_rebuild_param(b, v);
  }
  for (int32_t i = 0; i < p->n_args; i++) {
    const PmGradArg *a = &p->args[i];
    if (a->kind == PM_ARG_ACC) continue;
    const PmValue *v = &draft->values[c->sources[i]];
    if (must_rename(c->use, a, &v->type)) {
      PmAxisId other = fwd.values[fwd.results[a->index]].type.dims[pm_type_find(&v->type, c->use->axis)].axis;
      map[c->sources[i]] = pm_b_rename(b, map[c->sources[i]], &other, &c->use->axis, 1);
    }
    if (c->values[i] != PM_NONE) made[c->values[i]] = map[c->sources[i]];
  }
}

// Builds f.bwd again from its draft, with the chosen parameters; a loop adds its sums.
static void pack_backward(Close *c) {
  PmGradPair *p = c->w->p;
  PmModule *m = diff(c)->m;
  const PmFn *f = &c->w->f;
  PmFn draft = pm_rebuild_begin(m, p->bwd);
  PmBuilder b = {m, p->bwd, {0}};
  PmValueId *map = PM_NEW_N(diff(c)->arena, PmValueId, draft.n_values);
  PmValueId *made = PM_NEW_N(diff(c)->arena, PmValueId, c->fwd.n_values);
  PmValueId *sums = PM_NEW_N(diff(c)->arena, PmValueId, f->n_params);
  add_params(c, &b, &draft, map, made, sums);
  remake(c, &b, made);
  for (PmValueId v = 0; v < c->fwd.n_values; v++) {
    if (c->used[v]) map[c->w->of_fwd[v]] = made[v];
  }
  for (int32_t i = 0; i < draft.n_nodes; i++) pm_rebuild_node(&b, &draft, &draft.nodes[i], map);
  PmValueId *results = PM_NEW_N(diff(c)->arena, PmValueId, p->n_grads);
  for (int32_t i = 0; i < p->n_grads; i++) {
    results[i] = map[draft.results[i]];
    if (!p->use.loop || !is_invariant(&p->use, p->grads[i])) continue;
    const PmValue *value = &f->values[p->grads[i]];
    results[i] = pm_b_map2(&b, PM_S_add, sums[p->grads[i]], results[i]);
    pm_b_lend_name(&b, results[i], pm_grad_name(m, value->name), value->bound);
  }
  pm_b_results(&b, results, p->n_grads);
}

void pm_grad_close(PmGradDraft *w) {
  PmArena *arena = w->d->arena;
  const PmFn *f = &w->f;
  int32_t max_args = w->n_fwd + f->n_results + f->n_params;
  Close c = {.w = w, .use = &w->p->use, .fwd = *pm_fn(w->d->m, w->p->fwd)};
  c.used = PM_NEW_N(arena, bool, w->n_fwd);
  c.saved = PM_NEW_N(arena, bool, w->n_fwd);
  c.results = PM_NEW_N(arena, PmValueId, f->n_results + w->n_fwd);
  c.sources = PM_NEW_N(arena, PmValueId, max_args);
  c.values = PM_NEW_N(arena, PmValueId, max_args);
  w->p->args = PM_NEW_N(arena, PmGradArg, max_args);
  c.n_results = f->n_results;
  for (int32_t i = 0; i < f->n_results; i++) c.results[i] = w->of_primal[f->results[i]];
  find_used(&c);
  find_saved(&c);
  choose_args(&c);
  pack_backward(&c);
}
