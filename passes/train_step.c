// The training step and the evaluation function, assembled around the model's forward and backward.
#include <string.h>

#include "base/assert.h"
#include "passes/train_step.h"

typedef struct Results {
  PmValueId *values;
  PmBinding *binds;
  int32_t n;
} Results;

static PmVarId find_step_var(PmModule *m) {
  for (PmVarId v = 0; v < m->n_vars; v++) {
    if (m->vars[v].role == PM_ROLE_STEP) return v;
  }
  return pm_module_add_var(m, (PmVar){.path = pm_intern(m->names, "step"),
                                      .role = PM_ROLE_STEP,
                                      .type = pm_type_scalar(PM_F64),
                                      .owner = PM_NONE,
                                      .update = PM_NONE});
}

static void add_params(PmStep *s) {
  static const PmRole order[] = {PM_ROLE_PARAM, PM_ROLE_STATE, PM_ROLE_INPUT, PM_ROLE_STEP};
  PmModule *m = s->m;
  PmBinding *bind = PM_NEW_N(m->arena, PmBinding, m->n_vars);
  int32_t n = 0;
  for (size_t r = 0; r < sizeof order / sizeof order[0]; r++) {
    for (PmVarId v = 0; v < m->n_vars; v++) {
      if (m->vars[v].role != order[r]) continue;
      s->vars[v] = pm_b_param(&s->b, m->vars[v].type, m->vars[v].path);
      bind[n++] = (PmBinding){.var = v};
    }
  }
  pm_fn(m, s->b.fn)->param_bind = bind;
}

static void push_result(const PmStep *s, Results *r, PmValueId v, PmVarId var, const char *report) {
  r->values[r->n] = v;
  r->binds[r->n++] = (PmBinding){var, report ? pm_intern(s->m->names, report) : NULL};
}

PmValueId pm_step_call_model(PmStep *s, const PmGradPair *p) {
  PmModule *m = s->m;
  const PmFn f = *pm_fn(m, p->use.fn);
  PmValueId *in = PM_NEW_N(s->scratch, PmValueId, f.n_params);
  int32_t n_free = 0;
  for (int32_t i = 0; i < f.n_params; i++) {
    PmVarId var = f.param_bind[i].var;
    in[i] = var != PM_NONE ? s->vars[var] : s->free[n_free++];
  }
  PmValueId first = pm_b_call(&s->b, p->fwd, in, f.n_params);
  for (int32_t i = 0; i < f.n_results; i++) {
    const PmValue *r = &f.values[f.results[i]];
    pm_b_lend_name(&s->b, first + i, r->name, r->bound);
  }
  PmValueId *args = PM_NEW_N(s->scratch, PmValueId, p->n_args);
  for (int32_t i = 0; i < p->n_args; i++) {
    const PmGradArg *a = &p->args[i];
    PM_ASSERT(a->kind != PM_ARG_ACC, "the model is not a loop");
    if (a->kind == PM_ARG_COT) {
      args[i] = pm_loss_scale_seed(&s->scale, &s->b, (PmDtype)pm_b_type(&s->b, first + a->index)->dtype);
    } else {
      args[i] = a->kind == PM_ARG_PARAM ? in[a->index] : first + a->index;
    }
  }
  PmValueId d = pm_b_call(&s->b, p->bwd, args, p->n_args);
  for (int32_t i = 0; i < p->n_grads; i++) {
    PmVarId var = f.param_bind[p->grads[i]].var;
    // A variable that is bound to two parameters owes the sum.
    s->grads[var] = s->grads[var] == PM_NONE ? d + i : pm_b_map2(&s->b, PM_S_add, s->grads[var], d + i);
  }
  return first;
}

// The step as one forward and backward over all rows.
static void run_model(PmStep *s, const PmGradPair *p, PmModelRun *out) {
  const PmFn f = *pm_fn(s->m, p->use.fn);
  *out = (PmModelRun){.loss = pm_step_call_model(s, p), .reports = PM_NEW_N(s->scratch, PmValueId, f.n_results)};
  out->names = PM_NEW_N(s->scratch, const char *, f.n_results);
  for (int32_t i = 1; f.result_bind && i < f.n_results; i++) {
    if (f.result_bind[i].var != PM_NONE) s->after[f.result_bind[i].var] = out->loss + i;
    if (!f.result_bind[i].report) continue;
    out->reports[out->n_reports] = out->loss + i;
    out->names[out->n_reports++] = f.result_bind[i].report;
  }
}

// Every parameter has a gradient, in the type that it is summed in over ranks.
static void finish_grads(PmStep *s) {
  PmModule *m = s->m;
  for (PmVarId v = 0; v < m->n_vars; v++) {
    if (m->vars[v].role != PM_ROLE_PARAM) continue;
    if (s->grads[v] == PM_NONE) s->grads[v] = pm_b_splat(&s->b, 0.0, &m->vars[v].type);
    if (m->vars[v].grad != PM_BOOL) s->grads[v] = pm_b_cast(&s->b, s->grads[v], (PmDtype)m->vars[v].grad);
    pm_b_name(&s->b, s->grads[v], pm_intern_printf(m->names, "d(%s)", m->vars[v].path), true);
  }
}

// sqrt of the sum of squares over every gradient, each variable once, in f32.
static PmValueId grad_norm(PmStep *s) {
  PmValueId sum = PM_NONE;
  for (PmVarId v = 0; v < s->m->n_vars; v++) {
    if (s->grads[v] == PM_NONE) continue;
    s->b.loc = s->m->vars[v].loc;  // a collective that the norm needs is due to the parameter
    PmValueId g = pm_b_cast(&s->b, s->grads[v], PM_F32);
    PmValueId square = pm_b_map2(&s->b, PM_S_mul, g, g);
    PmType t = *pm_b_type(&s->b, square);
    PmAxisId axes[PM_MAX_RANK];
    for (int32_t i = 0; i < t.rank; i++) axes[i] = t.dims[i].axis;
    if (t.rank > 0) square = pm_b_reduce(&s->b, PM_SUM, square, axes, t.rank);
    sum = sum == PM_NONE ? square : pm_b_map2(&s->b, PM_S_add, sum, square);
  }
  s->b.loc = (PmLoc){0};
  return sum == PM_NONE ? pm_b_const(&s->b, PM_F32, 0.0) : pm_b_map1(&s->b, PM_S_sqrt, sum);
}

// min(1, clip / (norm + 1e-6)), by which every gradient is scaled; PM_NONE without clipping.
static PmValueId clip_scale(PmStep *s, PmValueId norm) {
  if (!(s->m->clip > 0)) return PM_NONE;
  PmValueId safe = pm_b_map2(&s->b, PM_S_add, norm, pm_b_const(&s->b, PM_F32, 1e-6));
  PmValueId ratio = pm_b_map2(&s->b, PM_S_div, pm_b_const(&s->b, PM_F32, s->m->clip), safe);
  return pm_b_map2(&s->b, PM_S_min, pm_b_const(&s->b, PM_F32, 1.0), ratio);
}

static PmValueId scaled(PmStep *s, PmValueId g, PmValueId scale) {
  if (scale == PM_NONE) return g;
  PmType t = *pm_b_type(&s->b, g);
  PmValueId wide = pm_b_broadcast(&s->b, pm_b_cast(&s->b, scale, (PmDtype)t.dtype), t);
  return pm_b_map2(&s->b, PM_S_mul, g, wide);
}

// The gradients of the loss itself, in f32.
static void unscale(PmStep *s) {
  for (PmVarId v = 0; v < s->m->n_vars; v++) {
    if (s->grads[v] != PM_NONE && s->scale.on) s->grads[v] = pm_loss_scale_divide(&s->scale, &s->b, s->grads[v]);
  }
}

static bool same_axes(const PmType *a, const PmType *b) {
  PmType same = *a;
  same.dtype = b->dtype;
  return pm_type_same_logical(&same, b);
}

// (value, gradient, lr, step, states...) -> (value, states...), up to casts of the first four.
static bool is_update(const PmStep *s, const PmFn *f, PmVarId var) {
  const PmModule *m = s->m;
  const PmType number = pm_type_scalar(PM_F64);
  int32_t n = 4;
  for (PmVarId v = s->owned.first[var]; v != PM_NONE; v = s->owned.next[v]) {
    if (m->vars[v].role != PM_ROLE_STATE) continue;
    if (n >= f->n_params || n - 3 >= f->n_results) return false;
    if (!pm_type_same_logical(&f->values[n].type, &m->vars[v].type)) return false;
    if (!pm_type_same_logical(&f->values[f->results[n - 3]].type, &m->vars[v].type)) return false;
    n++;
  }
  return f->n_params == n && f->n_results == n - 3 && same_axes(&f->values[0].type, &m->vars[var].type) &&
         same_axes(&f->values[1].type, &m->vars[var].type) && same_axes(&f->values[2].type, &number) &&
         same_axes(&f->values[3].type, &number) &&
         pm_type_same_logical(&f->values[f->results[0]].type, &m->vars[var].type);
}

static PmStatus *call_update(PmStep *s, PmVarId var, PmValueId g, PmValueId lr, PmValueId step) {
  PmModule *m = s->m;
  PmFnId update = m->vars[var].update;
  if (update == PM_NONE) {
    s->after[var] = s->vars[var];
    return NULL;
  }
  const PmFn f = *pm_fn(m, update);
  if (!is_update(s, &f, var)) {
    return PM_STATUS(PM_ERR_INPUT, "`%s` is not an update of `%s` and its states", f.name, m->vars[var].path);
  }
  PmValueId *in = PM_NEW_N(s->scratch, PmValueId, f.n_params);
  const PmValueId fixed[] = {s->vars[var], g, lr, step};
  int32_t n = 0;
  for (; n < 4; n++) in[n] = pm_b_cast(&s->b, fixed[n], (PmDtype)f.values[n].type.dtype);
  for (PmVarId v = s->owned.first[var]; v != PM_NONE; v = s->owned.next[v]) {
    if (m->vars[v].role == PM_ROLE_STATE) in[n++] = s->vars[v];
  }
  PmValueId out = pm_b_call(&s->b, update, in, n);
  s->after[var] = out++;
  for (PmVarId v = s->owned.first[var]; v != PM_NONE; v = s->owned.next[v]) {
    if (m->vars[v].role == PM_ROLE_STATE) s->after[v] = out++;
  }
  return NULL;
}

static void push_reports(const PmStep *s, Results *r, const PmModelRun *run, PmValueId norm, PmValueId lr,
                         bool keep_grads) {
  push_result(s, r, run->loss, PM_NONE, "loss");
  push_result(s, r, norm, PM_NONE, "grad_norm");
  push_result(s, r, lr, PM_NONE, "lr");
  if (s->scale.on) {
    push_result(s, r, s->scale.scale, PM_NONE, "loss_scale");
    push_result(s, r, s->scale.skipped, PM_NONE, "skipped");
  }
  for (int32_t i = 0; i < run->n_reports; i++) push_result(s, r, run->reports[i], PM_NONE, run->names[i]);
  for (PmVarId v = 0; keep_grads && v < s->m->n_vars; v++) {
    if (s->grads[v] == PM_NONE) continue;
    push_result(s, r, s->grads[v], PM_NONE, pm_intern_printf(s->m->names, "d(%s)", s->m->vars[v].path));
  }
}

static PmStatus *open_step(PmModule *m, PmArena *scratch, PmStep *s) {
  *s = (PmStep){.m = m, .scratch = scratch};
  PM_TRY(pm_loss_scale_vars(m, &s->scale));
  s->b = (PmBuilder){m, pm_module_add_fn(m, "step", PM_FN_STEP), {0}};
  s->owned = pm_vars_owned(m, scratch);
  s->vars = PM_NEW_N(scratch, PmValueId, m->n_vars);
  s->after = PM_NEW_N(scratch, PmValueId, m->n_vars);
  s->grads = PM_NEW_N(scratch, PmValueId, m->n_vars);
  for (PmVarId v = 0; v < m->n_vars; v++) s->vars[v] = s->after[v] = s->grads[v] = PM_NONE;
  add_params(s);
  pm_loss_scale_read(&s->scale, s->vars);
  return NULL;
}

static PmStatus *build_step(PmModule *m, PmArena *scratch, const PmGradPair *model, bool keep_grads) {
  PmVarId step_var = find_step_var(m);
  PmStep s;
  PM_TRY(open_step(m, scratch, &s));
  PmModelRun run;
  if (m->micro == PM_NONE) {
    run_model(&s, model, &run);
  } else {
    PM_TRY(pm_step_accumulate(&s, model, &run));
  }
  finish_grads(&s);
  PmValueId norm = pm_loss_scale_judge(&s.scale, &s.b, grad_norm(&s));
  unscale(&s);
  PmValueId scale = clip_scale(&s, norm);
  const PmFn schedule = *pm_fn(m, m->schedule);
  if (schedule.n_params != 1 || schedule.n_results != 1 || schedule.values[0].type.rank != 0) {
    return PM_STATUS(PM_ERR_INPUT, "`%s` is not a schedule: one step number in, one learning rate out", schedule.name);
  }
  PmValueId step = pm_loss_scale_step(&s.scale, &s.b, s.vars[step_var]);
  PmValueId at = pm_b_cast(&s.b, step, (PmDtype)schedule.values[0].type.dtype);
  PmValueId lr = pm_b_call(&s.b, m->schedule, &at, 1);
  for (PmVarId v = 0; v < m->n_vars; v++) {
    if (m->vars[v].role == PM_ROLE_PARAM) PM_TRY(call_update(&s, v, scaled(&s, s.grads[v], scale), lr, step));
  }
  pm_loss_scale_update(&s.scale, &s.b, m->loss_scale_window, s.after);
  int32_t max_results = 2 * m->n_vars + 5 + run.n_reports;
  Results r = {PM_NEW_N(scratch, PmValueId, max_results), PM_NEW_N(m->arena, PmBinding, max_results), 0};
  static const PmRole kept[] = {PM_ROLE_PARAM, PM_ROLE_STATE};
  for (int32_t k = 0; k < 2; k++) {
    for (PmVarId v = 0; v < m->n_vars; v++) {
      if (m->vars[v].role != kept[k]) continue;
      PmValueId after = s.after[v] != PM_NONE ? s.after[v] : s.vars[v];
      push_result(&s, &r, pm_loss_scale_choose(&s.scale, &s.b, v, after, s.vars[v]), v, NULL);
    }
  }
  push_reports(&s, &r, &run, norm, lr, keep_grads);
  pm_b_results(&s.b, r.values, r.n);
  pm_fn(m, s.b.fn)->result_bind = r.binds;
  m->step = s.b.fn;
  return NULL;
}

// With micro-batches evaluation is over the rows of the first: `eval` takes inputs as they are stored. No evaluation
// where the logits need a sum over all rows.
static void first_micro_batch(PmModule *m, PmArena *scratch) {
  PmFn old = pm_rebuild_begin(m, m->eval);
  PmBuilder b = {m, m->eval, {0}};
  PmValueId *map = PM_NEW_N(scratch, PmValueId, old.n_values);
  PmBinding *bind = PM_NEW_N(m->arena, PmBinding, old.n_params + 1);
  bool turn = false;
  int32_t n = 0;
  for (int32_t i = 0; i < old.n_params; i++) {
    PmVarId var = old.param_bind[i].var;
    if (var == PM_NONE) continue;
    PmValue v = old.values[i];
    v.type = m->vars[var].type;
    map[i] = pm_rebuild_param(&b, &v);
    bind[n++] = old.param_bind[i];
  }
  for (int32_t i = 0; i < old.n_params; i++) {
    PmVarId var = old.param_bind[i].var;
    if (var != PM_NONE && pm_type_find(&m->vars[var].type, m->micro) != PM_NONE) {
      map[i] = pm_b_select(&b, map[i], m->micro, 0);
    }
    if (var != PM_NONE) continue;
    if (turn || old.values[i].type.dtype != PM_I32) {
      pm_fn(m, m->eval)->dead = true;
      m->eval = PM_NONE;
      return;
    }
    turn = true;
    map[i] = pm_b_const(&b, PM_I32, 0);
  }
  for (int32_t i = 0; i < old.n_nodes; i++) pm_rebuild_node(&b, &old, &old.nodes[i], map);
  pm_b_results(&b, &map[old.results[0]], 1);
  pm_fn(m, m->eval)->param_bind = bind;
}

static void build_eval(PmModule *m, PmArena *scratch) {
  const PmFn *f = pm_fn(m, m->model);
  for (PmValueId v = 0; v < f->n_values; v++) {
    if (!f->values[v].name || strcmp(f->values[v].name, "logits") != 0) continue;
    m->eval = pm_fn_cut(m, scratch, m->model, v, "eval", PM_FN_EVAL);
    if (m->micro != PM_NONE) first_micro_batch(m, scratch);
    if (m->eval == PM_NONE) return;
    PmBinding *bind = PM_NEW(m->arena, PmBinding);
    *bind = (PmBinding){PM_NONE, pm_intern(m->names, "logits")};
    pm_fn(m, m->eval)->result_bind = bind;
    pm_eval_mode(m, scratch, m->eval);
    return;
  }
}

PmStatus *pm_train_step_build(PmModule *m, PmArena *scratch, const PmGradPair *model, bool keep_grads) {
  PM_TRY(build_step(m, scratch, model, keep_grads));
  build_eval(m, scratch);
  return NULL;
}
