// Gradients of the ops. A hook reads the cotangent of the node's result and adds one to each operand that wants it.
// Axes may stand in any order in a cotangent: names make a transpose free. Exact order is needed where functions meet,
// and pm_grad_conform makes it there.
#include "passes/grad.h"

typedef void (*Hook)(PmGrad *g, const PmNode *node);

static const PmType *primal_type(const PmGrad *g, PmValueId v) { return &g->f.values[v].type; }

static void grad_none(PmGrad *g, const PmNode *node) { (void)g, (void)node; }

// Sums over the axes that the operand does not have.
static void grad_broadcast(PmGrad *g, const PmNode *node) {
  const PmType *x = primal_type(g, node->in[0]), *y = primal_type(g, node->out);
  PmAxisId axes[PM_MAX_RANK];
  int32_t n = 0;
  for (int32_t i = 0; i < y->rank; i++) {
    if (pm_type_find(x, y->dims[i].axis) == PM_NONE) axes[n++] = y->dims[i].axis;
  }
  PmValueId c = g->cot[node->out];
  pm_grad_add(g, node->in[0], n > 0 ? pm_b_reduce(&g->b, PM_SUM, c, axes, n) : c);
}

// What an operand hands on where it is not taken: all that its only reader says.
static void pass_untaken(PmGrad *g, PmValueId v, PmUntaken from) {
  if (g->readers[v] == 1) g->untaken[v] = from;
}

static void grad_cast(PmGrad *g, const PmNode *node) {
  pm_grad_add(g, node->in[0], g->cot[node->out]);
  pass_untaken(g, node->in[0], g->untaken[node->out]);
}

// Exactly 0 where the value is not taken. A zero cotangent is not enough: times the infinite slope of a log or a root
// it is no number. What adds or negates has no slope to multiply with.
static PmValueId stop_untaken(PmGrad *g, const PmNode *node, PmValueId d) {
  PmUntaken u = g->untaken[node->out];
  if (u.cond == PM_NONE || pm_scalar_linear(node->attr.fn) == PM_LIN_JOINT) return d;
  PmValueId zero = pm_grad_splat(g, 0.0, d);
  return pm_b_map3(&g->b, PM_S_where, u.cond, u.when ? zero : d, u.when ? d : zero);
}

static void grad_map(PmGrad *g, const PmNode *node) {
  bool chooses = node->attr.fn == PM_S_where;
  for (int32_t k = 0; k < node->n_in; k++) {
    if (!pm_grad_wants(g, node->in[k])) continue;
    PmValueId d = pm_deriv(g, node, k, g->cot[node->out]);
    if (d == PM_NONE) continue;
    pm_grad_add(g, node->in[k], chooses ? d : stop_untaken(g, node, d));
    PmUntaken branch = {.cond = g->primal[node->in[0]], .when = k == 2};
    pass_untaken(g, node->in[k], chooses ? branch : g->untaken[node->out]);
  }
}

// Cotangent of operand k of a dot: summed with the other operand over the axes that only the other has. Of the two
// operand orders the one whose kept axes begin as the wanted ones do gives the wanted axis order most often. What is
// held in f32 takes the sums as they are.
static void dot_operand(PmGrad *g, const PmNode *node, int32_t k) {
  const PmType *want = primal_type(g, node->in[k]), *other = primal_type(g, node->in[1 - k]);
  const PmType *y = primal_type(g, node->out);
  PmAxisId axes[PM_MAX_RANK];
  int32_t n = 0;
  for (int32_t i = 0; i < other->rank; i++) {
    PmAxisId axis = other->dims[i].axis;
    if (pm_type_find(want, axis) == PM_NONE && pm_type_find(y, axis) != PM_NONE) axes[n++] = axis;
  }
  PmValueId c = g->cot[node->out], o = g->primal[node->in[1 - k]];
  bool other_first = want->rank > 0 && pm_type_find(y, want->dims[0].axis) == PM_NONE;
  PmValueId x = other_first ? o : c, z = other_first ? c : o;
  bool wide = g->held[node->in[k]] == PM_F32;
  pm_grad_add(g, node->in[k], wide ? pm_b_dot_f32(&g->b, x, z, axes, n) : pm_b_dot(&g->b, x, z, axes, n));
}

static void grad_dot(PmGrad *g, const PmNode *node) {
  for (int32_t k = 0; k < 2; k++) {
    if (pm_grad_wants(g, node->in[k])) dot_operand(g, node, k);
  }
}

// A sum passes its cotangent to every element; a maximum to the elements that equal it, in equal shares.
static void grad_reduce(PmGrad *g, const PmNode *node) {
  PmType x = *primal_type(g, node->in[0]);
  PmValueId c = g->cot[node->out];
  if (node->attr.kind == PM_SUM) {
    pm_grad_add(g, node->in[0], pm_b_broadcast(&g->b, c, x));
    return;
  }
  PmValueId top = pm_b_broadcast(&g->b, g->primal[node->out], x);
  PmValueId hit = pm_b_map2(&g->b, PM_S_eq, g->primal[node->in[0]], top);
  PmValueId zero = pm_b_splat(&g->b, 0.0, &x), one = pm_b_splat(&g->b, 1.0, &x);
  PmValueId hits = pm_b_map3(&g->b, PM_S_where, hit, one, zero);
  PmValueId count = pm_b_reduce(&g->b, PM_SUM, hits, node->attr.axes, node->attr.n_axes);
  PmValueId share = pm_b_broadcast(&g->b, pm_b_map2(&g->b, PM_S_div, c, count), x);
  pm_grad_add(g, node->in[0], pm_b_map3(&g->b, PM_S_where, hit, share, zero));
}

static void grad_merge(PmGrad *g, const PmNode *node) {
  const PmAttr *a = &node->attr;
  pm_grad_add(g, node->in[0], pm_b_split(&g->b, g->cot[node->out], a->to[0], a->axes, a->n_axes));
}

static void grad_split(PmGrad *g, const PmNode *node) {
  const PmAttr *a = &node->attr;
  pm_grad_add(g, node->in[0], pm_b_merge(&g->b, g->cot[node->out], a->to, a->n_to, a->axes[0]));
}

static void grad_rename(PmGrad *g, const PmNode *node) {
  const PmAttr *a = &node->attr;
  pm_grad_add(g, node->in[0], pm_b_rename(&g->b, g->cot[node->out], a->to, a->axes, a->n_axes));
}

// The type of operand 0 in the dtype of the cotangent that there is.
static PmType cot_type(const PmGrad *g, const PmNode *node) {
  PmType t = *primal_type(g, node->in[0]);
  t.dtype = pm_b_type(&g->b, g->cot[node->out])->dtype;
  return t;
}

// The cotangent stands at the selected position; elsewhere it is 0.
static void grad_select(PmGrad *g, const PmNode *node) {
  PmType x = cot_type(g, node);
  PmValueId pos = pm_b_pos(&g->b, node->attr.axes[0]);
  PmType line = *pm_b_type(&g->b, pos);
  PmValueId hit = pm_b_map2(&g->b, PM_S_eq, pos, pm_b_splat(&g->b, (double)node->attr.index, &line));
  PmValueId c = pm_b_broadcast(&g->b, g->cot[node->out], x);
  PmValueId zero = pm_b_splat(&g->b, 0.0, &x);
  pm_grad_add(g, node->in[0], pm_b_map3(&g->b, PM_S_where, pm_b_broadcast(&g->b, hit, x), c, zero));
}

static void grad_stack(PmGrad *g, const PmNode *node) {
  for (int32_t k = 0; k < node->n_in; k++) {
    if (!pm_grad_wants(g, node->in[k])) continue;
    pm_grad_add(g, node->in[k], pm_b_select(&g->b, g->cot[node->out], node->attr.to[0], k));
  }
}

static void grad_index(PmGrad *g, const PmNode *node) {
  PmType table = *primal_type(g, node->in[0]);
  table.dtype = g->held[node->in[0]];
  PmValueId c = pm_b_cast(&g->b, g->cot[node->out], (PmDtype)table.dtype);
  pm_grad_add(g, node->in[0], pm_b_scatter_add(&g->b, g->primal[node->in[1]], c, node->attr.axes[0], table));
}

// The transpose of index. Axes of the updates that neither the indices nor the result have were summed.
static void grad_scatter_add(PmGrad *g, const PmNode *node) {
  PmType x = *primal_type(g, node->in[1]);
  PmValueId c = pm_b_index(&g->b, g->cot[node->out], g->primal[node->in[0]], node->attr.axes[0]);
  pm_grad_add(g, node->in[1], pm_b_broadcast(&g->b, c, x));
}

// The value that argument `a` of the callee's backward takes.
static PmValueId argument(PmGrad *g, const PmNode *node, int32_t index, const PmGradArg *a) {
  PmType sum;
  switch (a->kind) {
    case PM_ARG_PARAM:
      return g->primal[node->in[a->index]];
    case PM_ARG_RESULT:
      return g->call_results[index][a->index];
    case PM_ARG_ACC:
      sum = pm_grad_held_type(pm_fn(g->d->m, node->attr.callee), &g->pairs[index]->use, a->index);
      return pm_b_splat(&g->b, 0.0, &sum);
    case PM_ARG_COT:
      break;
  }
  PmValueId out = node->out + a->index;
  if (g->cot[out] == PM_NONE) return pm_b_splat(&g->b, 0.0, primal_type(g, out));
  return pm_grad_conform(g, g->cot[out], primal_type(g, out));
}

static PmValueId *arguments(PmGrad *g, const PmNode *node, const PmGradPair **out_pair) {
  int32_t index = (int32_t)(node - g->f.nodes);
  const PmGradPair *pair = g->pairs[index];
  *out_pair = pair;
  if (!pair) return NULL;
  PmValueId *in = PM_NEW_N(g->d->arena, PmValueId, pair->n_args);
  for (int32_t i = 0; i < pair->n_args; i++) in[i] = argument(g, node, index, &pair->args[i]);
  return in;
}

static void grad_call(PmGrad *g, const PmNode *node) {
  const PmGradPair *pair;
  PmValueId *in = arguments(g, node, &pair);
  if (!pair) return;
  PmValueId d = pm_b_call(&g->b, pair->bwd, in, pair->n_args);
  for (int32_t i = 0; i < pair->n_grads; i++) pm_grad_add(g, node->in[pair->grads[i]], d + i);
}

static void grad_repeat(PmGrad *g, const PmNode *node) {
  const PmGradPair *pair;
  PmValueId *in = arguments(g, node, &pair);
  if (!pair) return;
  PmValueId d = pm_b_repeat(&g->b, pair->bwd, node->attr.axes[0], pair->bwd_carry, pair->bwd_inv, !node->attr.reverse,
                            in, pair->n_args);
  for (int32_t i = 0; i < pair->n_grads; i++) pm_grad_add(g, node->in[pair->grads[i]], d + i);
}

static const Hook hooks[] = {
#define OP(name, n_in, n_out, flags) [PM_OP_##name] =
#define GRAD(fn) grad_##fn,
#include "ir/ops.def"
};

bool pm_grad_flows(const PmNode *node) {
  if (hooks[node->op] == grad_map) return pm_deriv_flows(node->attr.fn);
  return hooks[node->op] != grad_none;
}

void pm_grad_node(PmGrad *g, const PmNode *node) { hooks[node->op](g, node); }
