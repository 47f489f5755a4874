// Derivatives of the scalar functions. Each hook gives the cotangent of operand k from the cotangent `c` of the result.
//
// Where a derivative jumps: abs gives 0 at 0; max and min share a tie equally, as frameworks do. The branch of a
// `where` that was not taken gets exactly 0, whatever the cotangent is there: a NaN or an infinity does not pass to it,
// and what that branch alone is made of gets 0 too (passes/grad_ops.c), however steep it is.
#include "base/assert.h"
#include "passes/grad.h"

typedef PmValueId (*Deriv)(PmGrad *g, const PmNode *node, int32_t k, PmValueId c);

static PmValueId operand(PmGrad *g, const PmNode *node, int32_t k) { return g->primal[node->in[k]]; }
static PmValueId result(PmGrad *g, const PmNode *node) { return g->primal[node->out]; }

static PmValueId map1(PmGrad *g, PmScalar fn, PmValueId a) { return pm_b_map1(&g->b, fn, a); }
static PmValueId map2(PmGrad *g, PmScalar fn, PmValueId a, PmValueId b) { return pm_b_map2(&g->b, fn, a, b); }
static PmValueId map3(PmGrad *g, PmScalar fn, PmValueId a, PmValueId b, PmValueId c) {
  return pm_b_map3(&g->b, fn, a, b, c);
}
static PmValueId mul(PmGrad *g, PmValueId a, PmValueId b) { return map2(g, PM_S_mul, a, b); }

static PmValueId deriv_none(PmGrad *g, const PmNode *node, int32_t k, PmValueId c) {
  (void)g, (void)node, (void)k, (void)c;
  return PM_NONE;
}

static PmValueId deriv_abs(PmGrad *g, const PmNode *node, int32_t k, PmValueId c) {
  return mul(g, c, map1(g, PM_S_sign, operand(g, node, k)));
}

static PmValueId deriv_add(PmGrad *g, const PmNode *node, int32_t k, PmValueId c) {
  (void)g, (void)node, (void)k;
  return c;
}

static PmValueId deriv_cos(PmGrad *g, const PmNode *node, int32_t k, PmValueId c) {
  return mul(g, c, map1(g, PM_S_neg, map1(g, PM_S_sin, operand(g, node, k))));
}

static PmValueId deriv_div(PmGrad *g, const PmNode *node, int32_t k, PmValueId c) {
  PmValueId d = map2(g, PM_S_div, c, operand(g, node, 1));
  return k == 0 ? d : map1(g, PM_S_neg, mul(g, d, result(g, node)));
}

static PmValueId deriv_erf(PmGrad *g, const PmNode *node, int32_t k, PmValueId c) {
  PmValueId x = operand(g, node, k);
  PmValueId e = map1(g, PM_S_exp, map1(g, PM_S_neg, mul(g, x, x)));
  return mul(g, c, mul(g, pm_grad_splat(g, 1.1283791670955126, x), e));  // 2 / sqrt(pi)
}

static PmValueId deriv_exp(PmGrad *g, const PmNode *node, int32_t k, PmValueId c) {
  (void)k;
  return mul(g, c, result(g, node));
}

static PmValueId deriv_log(PmGrad *g, const PmNode *node, int32_t k, PmValueId c) {
  return map2(g, PM_S_div, c, operand(g, node, k));
}

// The cotangent of operand k of max (`wins`: gt) or min (lt).
static PmValueId winner(PmGrad *g, const PmNode *node, int32_t k, PmValueId c, PmScalar wins) {
  PmValueId mine = operand(g, node, k), other = operand(g, node, 1 - k);
  PmValueId half = mul(g, c, pm_grad_splat(g, 0.5, c));
  PmValueId zero = pm_grad_splat(g, 0.0, c);
  PmValueId tie = map3(g, PM_S_where, map2(g, PM_S_eq, mine, other), half, zero);
  return map3(g, PM_S_where, map2(g, wins, mine, other), c, tie);
}

static PmValueId deriv_max(PmGrad *g, const PmNode *node, int32_t k, PmValueId c) {
  return winner(g, node, k, c, PM_S_gt);
}

static PmValueId deriv_min(PmGrad *g, const PmNode *node, int32_t k, PmValueId c) {
  return winner(g, node, k, c, PM_S_lt);
}

static PmValueId deriv_mul(PmGrad *g, const PmNode *node, int32_t k, PmValueId c) {
  return mul(g, c, operand(g, node, 1 - k));
}

static PmValueId deriv_neg(PmGrad *g, const PmNode *node, int32_t k, PmValueId c) {
  (void)node, (void)k;
  return map1(g, PM_S_neg, c);
}

// d/da a^b = b a^(b-1), which is 0 for b = 0 also where a^-1 is infinite; d/db a^b = a^b log(a), which is 0 at a = 0.
static PmValueId deriv_pow(PmGrad *g, const PmNode *node, int32_t k, PmValueId c) {
  PmValueId a = operand(g, node, 0), b = operand(g, node, 1);
  PmValueId zero = pm_grad_splat(g, 0.0, a);
  if (k == 0) {
    PmValueId less = map2(g, PM_S_sub, b, pm_grad_splat(g, 1.0, b));
    PmValueId d = mul(g, b, map2(g, PM_S_pow, a, less));
    return mul(g, c, map3(g, PM_S_where, map2(g, PM_S_eq, b, zero), zero, d));
  }
  PmValueId log = map1(g, PM_S_log, a);
  PmValueId d = mul(g, result(g, node), log);
  return mul(g, c, map3(g, PM_S_where, map2(g, PM_S_eq, a, zero), zero, d));
}

static PmValueId deriv_rsqrt(PmGrad *g, const PmNode *node, int32_t k, PmValueId c) {
  (void)k;
  PmValueId y = result(g, node);
  PmValueId cube = mul(g, y, mul(g, y, y));
  return mul(g, c, mul(g, pm_grad_splat(g, -0.5, y), cube));
}

static PmValueId deriv_sin(PmGrad *g, const PmNode *node, int32_t k, PmValueId c) {
  return mul(g, c, map1(g, PM_S_cos, operand(g, node, k)));
}

static PmValueId deriv_sqrt(PmGrad *g, const PmNode *node, int32_t k, PmValueId c) {
  (void)k;
  PmValueId y = result(g, node);
  return map2(g, PM_S_div, mul(g, c, pm_grad_splat(g, 0.5, c)), y);
}

static PmValueId deriv_sub(PmGrad *g, const PmNode *node, int32_t k, PmValueId c) {
  (void)node;
  return k == 0 ? c : map1(g, PM_S_neg, c);
}

static PmValueId deriv_tanh(PmGrad *g, const PmNode *node, int32_t k, PmValueId c) {
  (void)k;
  PmValueId y = result(g, node);
  PmValueId square = mul(g, y, y);
  return mul(g, c, map2(g, PM_S_sub, pm_grad_splat(g, 1.0, y), square));
}

static PmValueId deriv_where(PmGrad *g, const PmNode *node, int32_t k, PmValueId c) {
  PmValueId zero = pm_grad_splat(g, 0.0, c);
  PmValueId cond = operand(g, node, 0);
  return k == 1 ? map3(g, PM_S_where, cond, c, zero) : map3(g, PM_S_where, cond, zero, c);
}

static const Deriv derivs[] = {
#define SCALAR(name, arity, out, linear) [PM_S_##name] =
#define DERIV(fn) deriv_##fn,
#include "ir/scalars.def"
};

bool pm_deriv_flows(PmScalar fn) { return derivs[fn] != deriv_none; }

PmValueId pm_deriv(PmGrad *g, const PmNode *node, int32_t k, PmValueId c) {
  return derivs[node->attr.fn](g, node, k, c);
}
