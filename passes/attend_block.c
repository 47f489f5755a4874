#include "passes/attend_block.h"

#include <math.h>

static PmValueId f32(PmBuilder *b, PmValueId x) { return pm_b_cast(b, x, PM_F32); }
static PmValueId mul(PmBuilder *b, PmValueId x, PmValueId y) { return pm_b_mapb(b, PM_S_mul, (PmValueId[]){x, y}, 2); }
static PmValueId add(PmBuilder *b, PmValueId x, PmValueId y) { return pm_b_mapb(b, PM_S_add, (PmValueId[]){x, y}, 2); }
static PmValueId sub(PmBuilder *b, PmValueId x, PmValueId y) { return pm_b_mapb(b, PM_S_sub, (PmValueId[]){x, y}, 2); }
static PmValueId where(PmBuilder *b, PmValueId cond, PmValueId x, PmValueId y) {
  return pm_b_mapb(b, PM_S_where, (PmValueId[]){cond, x, y}, 3);
}
static PmValueId constant_like(PmBuilder *b, PmValueId x, double v) {
  return pm_b_const(b, (PmDtype)pm_b_type(b, x)->dtype, v);
}

static double scale_of(const PmBuilder *b, PmAxisId d) { return pow((double)pm_axis_size(b->m, d), -0.5); }

static PmValueId scores(PmBuilder *b, PmAxisId d, PmValueId q, PmValueId k) {
  PmValueId a = pm_b_dot(b, q, k, &d, 1);
  return f32(b, mul(b, a, constant_like(b, a, scale_of(b, d))));
}

PmBlockSums pm_block_attend(PmBuilder *b, PmAxisId d, PmValueId q, PmValueId k, PmValueId v, PmAxisId keys,
                            PmValueId visible) {
  PmValueId a = scores(b, d, q, k);
  if (visible != PM_NONE) a = where(b, visible, a, constant_like(b, a, -INFINITY));
  PmBlockSums s = {.m = pm_b_reduce(b, PM_MAX, a, &keys, 1)};
  PmValueId e = pm_b_map1(b, PM_S_exp, sub(b, a, s.m));
  s.l = pm_b_reduce(b, PM_SUM, e, &keys, 1);
  s.o = f32(b, pm_b_dot(b, e, v, &keys, 1));
  return s;
}

void pm_block_merge(PmBuilder *b, PmBlockSums *s, const PmBlockSums *other, PmValueId visible) {
  PmValueId top = pm_b_map2(b, PM_S_max, s->m, other->m);
  if (visible != PM_NONE) top = where(b, visible, top, s->m);
  PmValueId mine = pm_b_map1(b, PM_S_exp, sub(b, s->m, top));
  PmValueId theirs = pm_b_map1(b, PM_S_exp, sub(b, other->m, top));
  if (visible != PM_NONE) theirs = where(b, visible, theirs, constant_like(b, theirs, 0));
  PmValueId o = mul(b, other->o, theirs);
  s->o = add(b, mul(b, s->o, mine), o);
  PmValueId l = mul(b, other->l, theirs);
  s->l = add(b, mul(b, s->l, mine), l);
  s->m = top;
}

// Axes of `x` that `k` has not, but for `keys`: what a gradient of the keys is summed over.
static int32_t summed_axes(PmBuilder *b, PmValueId x, PmValueId k, PmAxisId d, PmAxisId out[PM_MAX_RANK]) {
  PmType tx = *pm_b_type(b, x), tk = *pm_b_type(b, k);
  int32_t n = 0;
  for (int32_t i = 0; i < tx.rank; i++)
    if (tx.dims[i].axis != d && pm_type_find(&tk, tx.dims[i].axis) < 0) out[n++] = tx.dims[i].axis;
  return n;
}

PmBlockGrads pm_block_attend_back(PmBuilder *b, PmAxisId d, const PmBlockQuery *x, PmValueId k, PmValueId v,
                                  PmAxisId keys, PmValueId visible) {
  PmValueId p = pm_b_map1(b, PM_S_exp, sub(b, scores(b, d, x->q, k), x->lse));
  if (visible != PM_NONE) p = where(b, visible, p, constant_like(b, p, 0));
  PmValueId dp = f32(b, pm_b_dot(b, x->d_o, v, &d, 1));
  PmValueId scale = constant_like(b, p, scale_of(b, d));
  PmValueId g = mul(b, mul(b, p, sub(b, dp, x->delta)), scale);
  PmAxisId axes[PM_MAX_RANK];
  int32_t n = summed_axes(b, x->q, k, d, axes);
  PmBlockGrads out = {.dq = f32(b, pm_b_dot(b, g, k, &keys, 1))};
  out.dk = f32(b, pm_b_dot(b, g, x->q, axes, n));
  n = summed_axes(b, x->d_o, v, d, axes);
  out.dv = f32(b, pm_b_dot(b, p, x->d_o, axes, n));
  return out;
}

PmValueId pm_block_delta(PmBuilder *b, PmAxisId d, PmValueId d_o, PmValueId o) {
  o = f32(b, o);
  return pm_b_reduce(b, PM_SUM, mul(b, f32(b, d_o), o), &d, 1);
}
