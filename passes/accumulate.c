// Micro-batches: a repeat over their numbers whose turn is one forward and backward, and which carries the sums: of
// every gradient, in the type that it is summed in over ranks, and of what the model returns. A sum starts as zero and
// stays partial over ranks as long as every summand is, so that it is reduced once, after the last turn.

#include "passes/train_step.h"

// The repeat while its operands and its body are gathered.
typedef struct Turns {
  PmStep *s;
  PmBuilder body;
  PmValueId *in;  // operands, in the step: carried, invariant, stacked
  int32_t n, n_carry, n_inv;
  PmValueId *vars;  // variable -> its parameter in the body, or PM_NONE
} Turns;

// The type of free parameter `at` of the model, or of what runs after it; false: there is none. What the model returns
// beside its reports goes to what runs after it.
static bool free_type(const PmModule *m, const PmFn *f, int32_t at, PmType *out) {
  const PmFn *model = pm_fn(m, m->model), *before = m->before == PM_NONE ? NULL : pm_fn(m, m->before);
  int32_t n_before = before ? before->n_results : 0;
  *out = pm_type_scalar(PM_I32);
  if (f == before) return false;
  if (f == model && at-- == 0) return true;
  if (at < n_before) {
    *out = before->values[before->results[at]].type;
    return true;
  }
  for (int32_t k = 0, n = n_before; f != model && k < model->n_results; k++) {
    bool free = !model->result_bind || (!model->result_bind[k].report && model->result_bind[k].var == PM_NONE);
    if (!free || n++ != at) continue;
    *out = model->values[model->results[k]].type;
    return true;
  }
  return false;
}

static PmStatus *check_params(const PmModule *m, const PmFn *f) {
  int32_t at = 0;
  for (int32_t i = 0; i < f->n_params; i++) {
    PmVarId var = f->param_bind ? f->param_bind[i].var : PM_NONE;
    PmType want;
    bool ok = true;
    if (var == PM_NONE) {
      ok = free_type(m, f, at++, &want);
    } else {
      bool input = m->vars[var].role == PM_ROLE_INPUT;
      bool turns = pm_type_find(&m->vars[var].type, m->micro) != PM_NONE;
      want = m->vars[var].type;
      pm_type_drop_axis(&want, m->micro);
      if (m->before != PM_NONE && f == pm_fn(m, m->before)) ok = input;
      if (turns) ok = ok && input && (m->after == PM_NONE || f != pm_fn(m, m->after));
    }
    if (ok && pm_type_same_logical(&f->values[i].type, &want)) continue;
    return PM_STATUS(PM_ERR_INPUT, "parameter %d of `%s` is nothing that micro-batches give", i, f->name);
  }
  return NULL;
}

static bool all_float(const PmFn *f) {
  for (int32_t i = 0; i < f->n_results; i++) {
    if (!pm_dtype_is_float((PmDtype)f->values[f->results[i]].type.dtype)) return false;
  }
  return true;
}

// The parts come from a text that may say anything.
static PmStatus *check_parts(const PmModule *m) {
  const PmFnId parts[] = {m->before, m->model, m->after};
  for (int32_t i = 0; i < 3; i++) {
    if (parts[i] == PM_NONE) continue;
    const PmFn *f = pm_fn(m, parts[i]);
    bool kind = f->kind == (i == 1 ? PM_FN_MODEL : PM_FN_BODY);
    for (int32_t k = 0; k < i; k++) kind = kind && parts[k] != parts[i];
    if (!kind) return PM_STATUS(PM_ERR_INPUT, "`%s` is no part of a step with micro-batches", f->name);
    PM_TRY(check_params(m, f));
    if (i < 2 && !all_float(f)) {
      return PM_STATUS(PM_ERR_INPUT, "micro-batches sum floats, and a result of `%s` is none", f->name);
    }
    for (int32_t k = 0; k < f->n_results; k++) {
      PmVarId var = f->result_bind ? f->result_bind[k].var : PM_NONE;
      bool kept = var != PM_NONE || (f->result_bind && f->result_bind[k].report);
      bool ok = i == 2 ? kept : var == PM_NONE;
      if (ok && var != PM_NONE) ok = m->vars[var].role == PM_ROLE_STATE;
      if (!ok) return PM_STATUS(PM_ERR_INPUT, "result %d of `%s` has no place in the step", k, f->name);
    }
  }
  for (PmVarId v = 0; v < m->n_vars; v++) {
    if (m->vars[v].role == PM_ROLE_INPUT || pm_type_find(&m->vars[v].type, m->micro) == PM_NONE) continue;
    return PM_STATUS(PM_ERR_INPUT, "`%s` has a value for each micro-batch", m->vars[v].path);
  }
  return NULL;
}

static Turns open_turns(PmStep *s, const char *name, int32_t max_operands) {
  PmModule *m = s->m;
  Turns t = {.s = s, .body = {m, pm_module_add_fn(m, name, PM_FN_BODY), {0}}};
  t.in = PM_NEW_N(s->scratch, PmValueId, max_operands + 2 * m->n_vars + 2);
  t.vars = PM_NEW_N(s->scratch, PmValueId, m->n_vars + 1);
  for (PmVarId v = 0; v < m->n_vars; v++) t.vars[v] = PM_NONE;
  return t;
}

static PmValueId add_zero(Turns *t, const PmType *type, const char *name) {
  PmType own = *type;
  t->in[t->n++] = pm_b_splat(&t->s->b, 0, &own);
  t->n_carry++;
  return pm_b_param(&t->body, own, name);
}

// A sum of what the model returns: not narrower than f32.
static PmValueId add_sum(Turns *t, const PmFn *f, int32_t result) {
  PmType type = f->values[f->results[result]].type;
  if (type.dtype < PM_F32) type.dtype = PM_F32;
  return add_zero(t, &type, NULL);
}

static PmValueId plus(PmBuilder *b, PmValueId sum, PmValueId v) {
  return pm_b_map2(b, PM_S_add, sum, pm_b_cast(b, v, (PmDtype)pm_b_type(b, sum)->dtype));
}

static PmValueId add_invariant(Turns *t, PmValueId v) {
  PmType type = *pm_b_type(&t->s->b, v);
  t->in[t->n++] = v;
  t->n_inv++;
  return pm_b_param(&t->body, type, NULL);
}

static bool has_turns(const PmModule *m, PmVarId v) { return pm_type_find(&m->vars[v].type, m->micro) != PM_NONE; }

// The variables that every micro-batch sees whole.
static void add_fixed_vars(Turns *t, const bool *used) {
  PmModule *m = t->s->m;
  for (PmVarId v = 0; v < m->n_vars; v++) {
    if (!used[v] || has_turns(m, v)) continue;
    t->vars[v] = add_invariant(t, t->s->vars[v]);
    pm_b_value(&t->body, t->vars[v])->name = m->vars[v].path;
  }
}

// The inputs with rows, micro-batch by micro-batch.
static void add_inputs(Turns *t, const bool *used) {
  PmModule *m = t->s->m;
  for (PmVarId v = 0; v < m->n_vars; v++) {
    if (!used[v] || !has_turns(m, v)) continue;
    PmType type = m->vars[v].type, first = type;
    pm_type_drop_axis(&type, m->micro);
    first.rank = 0;
    pm_type_add(&first, m->micro);
    for (int32_t i = 0; i < type.rank; i++) pm_type_add(&first, type.dims[i].axis);
    t->in[t->n++] = pm_b_broadcast(&t->s->b, t->s->vars[v], first);
    t->vars[v] = pm_b_param(&t->body, type, m->vars[v].path);
  }
}

static PmValueId close_turns(Turns *t, const PmValueId *sums) {
  pm_b_results(&t->body, sums, t->n_carry);
  return pm_b_repeat(&t->s->b, t->body.fn, t->s->m->micro, t->n_carry, t->n_inv, false, t->in, t->n);
}

static bool *used_vars(const PmStep *s, const PmFn *f) {
  bool *used = PM_NEW_N(s->scratch, bool, s->m->n_vars + 1);
  for (int32_t i = 0; f->param_bind && i < f->n_params; i++) {
    if (f->param_bind[i].var != PM_NONE) used[f->param_bind[i].var] = true;
  }
  return used;
}

// Calls `fn` with the values of its variables, and the free ones in order. Returns the first result.
static PmValueId call_bound(const PmStep *s, PmBuilder *b, PmFnId fn, const PmValueId *vars, const PmValueId *free) {
  const PmFn f = *pm_fn(s->m, fn);
  PmValueId *in = PM_NEW_N(s->scratch, PmValueId, f.n_params + 1);
  for (int32_t i = 0; i < f.n_params; i++) {
    PmVarId var = f.param_bind ? f.param_bind[i].var : PM_NONE;
    in[i] = var != PM_NONE ? vars[var] : *free++;
  }
  for (int32_t i = 0; i < f.n_params; i++) in[i] = pm_b_cast(b, in[i], (PmDtype)f.values[i].type.dtype);
  return pm_b_call(b, fn, in, f.n_params);
}

// The sums over all micro-batches that the first one needs already. Returns the first.
static PmValueId run_before(PmStep *s) {
  PmModule *m = s->m;
  const PmFn f = *pm_fn(m, m->before);
  Turns t = open_turns(s, "step.before", f.n_results);
  PmValueId *sums = PM_NEW_N(s->scratch, PmValueId, f.n_results + 1);
  const bool *used = used_vars(s, &f);
  for (int32_t i = 0; i < f.n_results; i++) sums[i] = add_sum(&t, &f, i);
  add_fixed_vars(&t, used);
  add_inputs(&t, used);
  PmValueId out = call_bound(s, &t.body, m->before, t.vars, NULL);
  for (int32_t i = 0; i < f.n_results; i++) sums[i] = plus(&t.body, sums[i], out + i);
  return close_turns(&t, sums);
}

static PmType grad_type(const PmModule *m, PmVarId v) {
  PmType type = m->vars[v].type;
  if (m->vars[v].grad != PM_BOOL) type.dtype = m->vars[v].grad;
  return type;
}

static PmDtype count_dtype(const PmModule *m, int32_t i) {
  const PmFn *f = pm_fn(m, m->before);
  return (PmDtype)f->values[f->results[i]].type.dtype;
}

// One micro-batch after the other. Fills the gradients; returns the first of the model's summed results.
static PmValueId run_turns(PmStep *s, const PmGradPair *p, PmValueId counts, int32_t n_counts) {
  PmModule *m = s->m;
  const PmFn f = *pm_fn(m, p->use.fn);
  Turns t = open_turns(s, "step.micro", m->n_vars + f.n_results + n_counts);
  const bool *used = used_vars(s, &f);
  PmStep one = {.m = m, .scratch = s->scratch, .vars = t.vars, .scale = s->scale};
  one.after = PM_NEW_N(s->scratch, PmValueId, m->n_vars + 1);
  one.grads = PM_NEW_N(s->scratch, PmValueId, m->n_vars + 1);
  one.free = PM_NEW_N(s->scratch, PmValueId, n_counts + 1);
  PmValueId *sums = PM_NEW_N(s->scratch, PmValueId, m->n_vars + f.n_results + 1);
  bool *summed = PM_NEW_N(s->scratch, bool, m->n_vars + 1);
  for (int32_t i = 0; i < p->n_grads; i++) summed[f.param_bind[p->grads[i]].var] = true;
  for (PmVarId v = 0; v < m->n_vars; v++) {
    one.after[v] = one.grads[v] = PM_NONE;
    if (!summed[v]) continue;
    PmType type = grad_type(m, v);
    const char *name = pm_intern_printf(m->names, "d(%s)", m->vars[v].path);
    const int32_t at = t.n_carry;  // before the sum is added to them
    sums[at] = add_zero(&t, &type, name);
  }
  int32_t n_grads = t.n_carry;
  for (int32_t i = 0; i < f.n_results; i++) sums[n_grads + i] = add_sum(&t, &f, i);
  add_fixed_vars(&t, used);
  for (int32_t i = 0; i < n_counts; i++) {
    one.free[i + 1] = add_invariant(&t, pm_b_cast(&s->b, counts + i, count_dtype(m, i)));
  }
  if (one.scale.on) one.scale.scale = add_invariant(&t, s->scale.scale);
  add_inputs(&t, used);
  t.in[t.n++] = pm_b_cast(&s->b, pm_b_pos(&s->b, m->micro), PM_I32);
  one.free[0] = pm_b_param(&t.body, pm_type_scalar(PM_I32), NULL);
  one.b = t.body;
  PmValueId first = pm_step_call_model(&one, p);
  t.body = one.b;
  int32_t n = 0;
  for (PmVarId v = 0; v < m->n_vars; v++) {
    if (!summed[v]) continue;
    sums[n] = plus(&t.body, sums[n], one.grads[v]);
    pm_b_name(&t.body, sums[n++], pm_intern_printf(m->names, "d(%s)", m->vars[v].path), true);
  }
  for (int32_t i = 0; i < f.n_results; i++, n++) sums[n] = plus(&t.body, sums[n], first + i);
  PmValueId out = close_turns(&t, sums);
  n = 0;
  for (PmVarId v = 0; v < m->n_vars; v++) {
    if (summed[v]) s->grads[v] = out + n++;
  }
  return out + n_grads;
}

static void push_report(PmModelRun *run, PmValueId v, const char *name) {
  run->reports[run->n_reports] = v;
  run->names[run->n_reports++] = name;
}

static void run_after(PmStep *s, PmValueId first, PmValueId counts, int32_t n_counts, PmModelRun *run) {
  PmModule *m = s->m;
  const PmFn model = *pm_fn(m, m->model), f = *pm_fn(m, m->after);
  PmValueId *free = PM_NEW_N(s->scratch, PmValueId, n_counts + model.n_results + 1);
  int32_t n = 0;
  for (; n < n_counts; n++) free[n] = counts + n;
  for (int32_t i = 0; i < model.n_results; i++) {
    if (!model.result_bind || !model.result_bind[i].report) free[n++] = first + i;
  }
  PmValueId out = call_bound(s, &s->b, m->after, s->vars, free);
  for (int32_t i = 0; i < f.n_results; i++) {
    if (f.result_bind[i].var != PM_NONE) s->after[f.result_bind[i].var] = out + i;
    if (f.result_bind[i].report) push_report(run, out + i, f.result_bind[i].report);
  }
}

// Part of the step from now on: a function like any other.
static void unbind(PmModule *m, PmFnId *fn) {
  if (*fn == PM_NONE) return;
  pm_fn(m, *fn)->param_bind = pm_fn(m, *fn)->result_bind = NULL;
  *fn = PM_NONE;
}

PmStatus *pm_step_accumulate(PmStep *s, const PmGradPair *p, PmModelRun *out) {
  PmModule *m = s->m;
  PM_TRY(check_parts(m));
  const PmFn model = *pm_fn(m, m->model);
  int32_t n_counts = m->before == PM_NONE ? 0 : pm_fn(m, m->before)->n_results;
  int32_t n_after = m->after == PM_NONE ? 0 : pm_fn(m, m->after)->n_results;
  *out = (PmModelRun){.reports = PM_NEW_N(s->scratch, PmValueId, model.n_results + n_after + 1)};
  out->names = PM_NEW_N(s->scratch, const char *, model.n_results + n_after + 1);
  PmValueId counts = n_counts ? run_before(s) : PM_NONE;
  PmValueId first = run_turns(s, p, counts, n_counts);
  out->loss = first;
  for (int32_t i = 1; i < model.n_results; i++) {
    if (model.result_bind && model.result_bind[i].report) push_report(out, first + i, model.result_bind[i].report);
  }
  if (m->after != PM_NONE) run_after(s, first, counts, n_counts, out);
  unbind(m, &m->before);
  unbind(m, &m->after);
  return NULL;
}
