#include "passes/loss_scale.h"

#include <math.h>

static PmVarId add_var(PmModule *m, const char *path, PmDtype dtype, double start) {
  return pm_module_add_var(m, (PmVar){.path = pm_intern(m->names, path),
                                      .role = PM_ROLE_STATE,
                                      .type = pm_type_scalar(dtype),
                                      .init = PM_INIT_CONST,
                                      .init_value = start,
                                      .owner = PM_NONE,
                                      .update = PM_NONE});
}

PmStatus *pm_loss_scale_vars(PmModule *m, PmLossScale *out) {
  static const char *const paths[] = {"step/loss_scale", "step/streak", "step/taken"};
  *out = (PmLossScale){.on = m->loss_scale > 0};
  if (!out->on) return NULL;
  for (int32_t i = 0; i < 3; i++) {
    if (pm_module_find_var(m, paths[i]) != PM_NONE) {
      return PM_STATUS(PM_ERR_INPUT, "variable `%s` stands in the module already", paths[i]);
    }
  }
  out->var_scale = add_var(m, paths[0], PM_F32, m->loss_scale);
  out->var_streak = add_var(m, paths[1], PM_F32, 0);
  out->var_taken = add_var(m, paths[2], PM_F64, 0);
  return NULL;
}

void pm_loss_scale_read(PmLossScale *s, const PmValueId *vars) {
  if (!s->on) return;
  s->scale = vars[s->var_scale];
  s->streak = vars[s->var_streak];
  s->taken = vars[s->var_taken];
}

PmValueId pm_loss_scale_seed(const PmLossScale *s, PmBuilder *b, PmDtype dtype) {
  return s->on ? pm_b_cast(b, s->scale, dtype) : pm_b_const(b, dtype, 1.0);
}

PmValueId pm_loss_scale_divide(const PmLossScale *s, PmBuilder *b, PmValueId v) {
  PmType t = *pm_b_type(b, v);
  if (t.dtype < PM_F32) {
    v = pm_b_cast(b, v, PM_F32);
    t = *pm_b_type(b, v);
  }
  return pm_b_map2(b, PM_S_div, v, pm_b_broadcast(b, pm_b_cast(b, s->scale, (PmDtype)t.dtype), t));
}

PmValueId pm_loss_scale_judge(PmLossScale *s, PmBuilder *b, PmValueId norm) {
  if (!s->on) return norm;
  s->finite = pm_b_map2(b, PM_S_lt, norm, pm_b_const(b, PM_F32, INFINITY));
  PmValueId one = pm_b_const(b, PM_F32, 1), zero = pm_b_const(b, PM_F32, 0);
  s->skipped = pm_b_map3(b, PM_S_where, s->finite, zero, one);
  return pm_loss_scale_divide(s, b, norm);
}

PmValueId pm_loss_scale_step(const PmLossScale *s, PmBuilder *b, PmValueId step) {
  return s->on ? pm_b_map2(b, PM_S_add, s->taken, pm_b_const(b, PM_F64, 1)) : step;
}

void pm_loss_scale_update(const PmLossScale *s, PmBuilder *b, int64_t window, PmValueId *after) {
  if (!s->on) return;
  PmValueId zero = pm_b_const(b, PM_F32, 0), one = pm_b_const(b, PM_F32, 1), two = pm_b_const(b, PM_F32, 2);
  PmValueId streak = pm_b_map2(b, PM_S_add, s->streak, one);
  PmValueId full = pm_b_map2(b, PM_S_ge, streak, pm_b_const(b, PM_F32, (double)window));
  // Past 2^126 the scale itself would overflow.
  PmValueId top = pm_b_const(b, PM_F32, 0x1p126);
  PmValueId more = pm_b_map2(b, PM_S_min, pm_b_map2(b, PM_S_mul, s->scale, two), top);
  PmValueId less = pm_b_map2(b, PM_S_max, pm_b_map2(b, PM_S_div, s->scale, two), one);
  PmValueId kept = pm_b_map3(b, PM_S_where, full, more, s->scale);
  after[s->var_scale] = pm_b_map3(b, PM_S_where, s->finite, kept, less);
  PmValueId counted = pm_b_map3(b, PM_S_where, full, zero, streak);
  after[s->var_streak] = pm_b_map3(b, PM_S_where, s->finite, counted, zero);
  PmValueId none = pm_b_const(b, PM_F64, 0), once = pm_b_const(b, PM_F64, 1);
  after[s->var_taken] = pm_b_map2(b, PM_S_add, s->taken, pm_b_map3(b, PM_S_where, s->finite, once, none));
}

PmValueId pm_loss_scale_choose(const PmLossScale *s, PmBuilder *b, PmVarId var, PmValueId after, PmValueId before) {
  if (!s->on || var == s->var_scale || var == s->var_streak || var == s->var_taken || after == before) return after;
  PmType t = *pm_b_type(b, after);
  PmType wide = t;
  wide.dtype = PM_BOOL;
  return pm_b_map3(b, PM_S_where, pm_b_broadcast(b, s->finite, wide), after, before);
}
