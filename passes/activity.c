#include <string.h>

#include "passes/grad.h"

static bool same_flags(const bool *a, const bool *b, int32_t n) {
  if (!a || !b) return a == b;
  return n == 0 || memcmp(a, b, (size_t)n * sizeof *a) == 0;
}

bool pm_grad_use_equal(const PmDiff *d, const PmGradUse *a, const PmGradUse *b) {
  if (a->fn != b->fn || a->loop != b->loop || a->axis != b->axis) return false;
  if (a->n_carry != b->n_carry || a->n_inv != b->n_inv) return false;
  const PmFn *fn = pm_fn(d->m, a->fn);
  const bool held = a->held && b->held ? memcmp(a->held, b->held, (size_t)fn->n_params) == 0 : a->held == b->held;
  return held && same_flags(a->active, b->active, fn->n_params) && same_flags(a->seed, b->seed, fn->n_results);
}

static bool *copy_flags(PmDiff *d, const bool *from, int32_t n) {
  bool *to = PM_NEW_N(d->arena, bool, n);
  if (n) memcpy(to, from, (size_t)n * sizeof *to);
  return to;
}

static PmFlow *find_flow(PmDiff *d, PmFnId fn, const bool *active, const bool *seed) {
  PmGradUse use = {.fn = fn, .axis = PM_NONE, .active = active, .seed = seed};
  for (int32_t i = 0; i < d->n_flows; i++) {
    if (pm_grad_use_equal(d, &d->flows[i]->use, &use)) return d->flows[i];
  }
  return NULL;
}

static PmFlow *add_flow(PmDiff *d, PmFnId fn, const bool *active, const bool *seed) {
  const PmFn *f = pm_fn(d->m, fn);
  PmFlow *flow = PM_NEW(d->arena, PmFlow);
  flow->use = (PmGradUse){.fn = fn, .axis = PM_NONE, .active = copy_flags(d, active, f->n_params)};
  if (seed) flow->use.seed = copy_flags(d, seed, f->n_results);
  d->flows = pm_grow(d->arena, d->flows, d->n_flows, &d->cap_flows, sizeof *d->flows);
  d->flows[d->n_flows++] = flow;
  return flow;
}

static bool is_float(const PmFn *f, PmValueId v) { return pm_dtype_is_float((PmDtype)f->values[v].type.dtype); }

// The parameters of the callee that are active when the node's operands are; a repeat's carried ones in any turn.
static bool *call_active(PmDiff *d, const PmNode *node, const bool *active) {
  bool *in = PM_NEW_N(d->arena, bool, node->n_in);
  for (int32_t i = 0; i < node->n_in; i++) in[i] = active[node->in[i]];
  for (bool changed = node->attr.n_carry > 0; changed;) {
    changed = false;
    const PmFlow *flow = pm_flow_forward(d, node->attr.callee, in);
    for (int32_t i = 0; i < node->attr.n_carry; i++) {
      if (in[i] || !flow->active_out[i]) continue;
      in[i] = true;
      changed = true;
    }
  }
  return in;
}

static void forward_call(PmDiff *d, const PmNode *node, bool *active) {
  const bool *in = call_active(d, node, active);
  const PmFlow *flow = pm_flow_forward(d, node->attr.callee, in);
  for (int32_t i = 0; i < node->n_out; i++) active[node->out + i] = flow->active_out[i];
  for (int32_t i = 0; i < node->attr.n_carry; i++) active[node->out + i] = in[i];
}

const PmFlow *pm_flow_forward(PmDiff *d, PmFnId fn, const bool *active_in) {
  PmFlow *flow = find_flow(d, fn, active_in, NULL);
  if (flow) return flow;
  const PmFn f = *pm_fn(d->m, fn);
  bool *active = PM_NEW_N(d->arena, bool, f.n_values);
  for (int32_t i = 0; i < f.n_params; i++) active[i] = active_in[i] && is_float(&f, i);
  for (int32_t i = 0; i < f.n_nodes; i++) {
    const PmNode *node = &f.nodes[i];
    if (!pm_grad_flows(node)) continue;
    if (pm_op_flags(node->op) & PM_F_CALL) {
      forward_call(d, node, active);
      continue;
    }
    for (int32_t k = 0; k < node->n_in; k++) {
      if (active[node->in[k]] && is_float(&f, node->out)) active[node->out] = true;
    }
  }
  bool *out = PM_NEW_N(d->arena, bool, f.n_results);
  for (int32_t i = 0; i < f.n_results; i++) out[i] = active[f.results[i]];
  flow = add_flow(d, fn, active_in, NULL);
  flow->active = active;
  flow->active_out = out;
  return flow;
}

PmGradUse pm_flow_call(PmDiff *d, const PmNode *node, const bool *active, const bool *useful) {
  PmFnId callee = node->attr.callee;
  bool *in = call_active(d, node, active);
  bool *seed = PM_NEW_N(d->arena, bool, node->n_out);
  for (int32_t i = 0; i < node->n_out; i++) seed[i] = useful[node->out + i];
  for (bool changed = node->attr.n_carry > 0; changed;) {
    changed = false;
    const PmFlow *flow = pm_flow(d, callee, in, seed);
    for (int32_t i = 0; i < node->attr.n_carry; i++) {
      if (seed[i] || !flow->useful[i]) continue;
      seed[i] = true;
      changed = true;
    }
  }
  bool loop = pm_is_loop(node);
  return (PmGradUse){.fn = callee,
                     .loop = loop,
                     .axis = loop ? node->attr.axes[0] : PM_NONE,
                     .n_carry = node->attr.n_carry,
                     .n_inv = node->attr.n_inv,
                     .active = in,
                     .seed = seed};
}

static void backward_call(PmDiff *d, const PmNode *node, const bool *active, bool *useful) {
  PmGradUse use = pm_flow_call(d, node, active, useful);
  const PmFlow *flow = pm_flow(d, use.fn, use.active, use.seed);
  for (int32_t i = 0; i < node->n_in; i++) {
    if (flow->useful[i] && active[node->in[i]]) useful[node->in[i]] = true;
  }
}

const PmFlow *pm_flow(PmDiff *d, PmFnId fn, const bool *active_in, const bool *seed) {
  PmFlow *flow = find_flow(d, fn, active_in, seed);
  if (flow) return flow;
  const PmFlow *forward = pm_flow_forward(d, fn, active_in);
  const PmFn f = *pm_fn(d->m, fn);
  bool *useful = PM_NEW_N(d->arena, bool, f.n_values);
  for (int32_t i = 0; i < f.n_results; i++) {
    if (seed[i] && forward->active_out[i]) useful[f.results[i]] = true;
  }
  for (int32_t i = f.n_nodes - 1; i >= 0; i--) {
    const PmNode *node = &f.nodes[i];
    bool used = false;
    for (int32_t k = 0; k < node->n_out; k++) used = used || useful[node->out + k];
    if (!used) continue;
    if (pm_op_flags(node->op) & PM_F_CALL) {
      backward_call(d, node, forward->active, useful);
      continue;
    }
    for (int32_t k = 0; k < node->n_in; k++) {
      if (forward->active[node->in[k]]) useful[node->in[k]] = true;
    }
  }
  flow = add_flow(d, fn, active_in, seed);
  flow->active = forward->active;
  flow->active_out = forward->active_out;
  flow->useful = useful;
  return flow;
}
