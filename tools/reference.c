#include "tools/reference.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/half.h"

static PmTensor tensor_of(const PmReference *r, PmVarId var) {
  return (PmTensor){.type = r->m->vars[var].type, .n = r->elements[var], .ranks = 1, .data = r->vars[var]};
}

static PmStatus *run_entry(PmReference *r, PmFnId fn, PmTensor **out) {
  const PmFn *f = pm_fn(r->m, fn);
  PmTensor *in = PM_NEW_N(&r->scratch, PmTensor, f->n_params + 1);
  for (int32_t i = 0; i < f->n_params; i++) in[i] = tensor_of(r, f->param_bind[i].var);
  *out = PM_NEW_N(&r->scratch, PmTensor, f->n_results + 1);
  return pm_interp_run(r->m, fn, PM_INTERP_EXACT, &r->scratch, in, *out);
}

PmStatus *pm_reference_step(PmReference *r) {
  pm_arena_reset(&r->scratch);
  r->results = NULL;
  return run_entry(r, r->m->step, &r->results);
}

const PmTensor *pm_reference_report(const PmReference *r, const char *name) {
  const PmFn *f = pm_fn(r->m, r->m->step);
  for (int32_t i = 0; r->results && i < f->n_results; i++) {
    const char *report = f->result_bind[i].report;
    if (report && strcmp(report, name) == 0) return &r->results[i];
  }
  return NULL;
}

const PmTensor *pm_reference_result(const PmReference *r, PmVarId var) {
  const PmFn *f = pm_fn(r->m, r->m->step);
  for (int32_t i = 0; r->results && i < f->n_results; i++) {
    if (f->result_bind[i].var == var) return &r->results[i];
  }
  return NULL;
}

bool pm_reference_skipped(const PmReference *r) {
  const PmTensor *t = pm_reference_report(r, "skipped");
  return t && t->data[0] != 0;
}

void pm_reference_advance(PmReference *r) {
  const PmFn *f = pm_fn(r->m, r->m->step);
  for (int32_t i = 0; r->results && i < f->n_results; i++) {
    PmVarId var = f->result_bind[i].var;
    if (var == PM_NONE) continue;
    memcpy(r->vars[var], r->results[i].data, (size_t)r->elements[var] * sizeof(double));
  }
}

PmStatus *pm_reference_eval(PmReference *r, PmTensor *out_logits) {
  *out_logits = (PmTensor){0};
  if (r->m->eval == PM_NONE) return NULL;
  PmTensor *results;
  PM_TRY(run_entry(r, r->m->eval, &results));
  *out_logits = results[0];
  return NULL;
}

// ---- updates -------------------------------------------------------------------------------------------------------
// The factor of clipping as the training step has it, in f32.
static double clip_scale(const PmModule *m, double norm) {
  if (!(m->clip > 0)) return 1;
  float ratio = (float)m->clip / ((float)norm + 1e-6f);
  return ratio < 1 ? (double)ratio : 1;
}

double pm_reference_round(PmDtype dtype, double v) {
  if (dtype == PM_BF16) return (double)pm_bf16_round(v);
  if (dtype == PM_F16) return (double)pm_f16_round(v);
  return dtype == PM_F32 ? (double)(float)v : v;
}

static const PmType *gradient_param(const PmReference *r, PmVarId var) {
  const PmFn *f = pm_fn(r->declared, r->declared->vars[var].update);
  return &f->values[1].type;
}

// The dtype that the training step holds the gradient in when it clips.
static PmDtype gradient_dtype(const PmModule *m, PmVarId var) {
  PmDtype d = m->vars[var].grad != PM_BOOL ? (PmDtype)m->vars[var].grad : (PmDtype)m->vars[var].type.dtype;
  return m->loss_scale > 0 && d < PM_F32 ? PM_F32 : d;
}

static PmTensor scalar_of(PmReference *r, const PmType *type, double v) {
  PmTensor t = pm_tensor_new(&r->scratch, r->declared, type);
  for (int64_t i = 0; i < t.n; i++) t.data[i] = pm_reference_round((PmDtype)type->dtype, v);
  return t;
}

static PmStatus *run_update(PmReference *r, PmVarId var, PmTensor grad, double lr, double step, bool from_zero,
                            PmTensor **out) {
  const PmModule *m = r->declared;
  PmFnId update = m->vars[var].update;
  const PmFn *f = pm_fn(m, update);
  PM_ASSERT(f->n_params >= 4, "`%s` takes %d parameters", f->name, f->n_params);
  PmTensor *in = PM_NEW_N(&r->scratch, PmTensor, f->n_params);
  int32_t n = 0;
  in[n++] = tensor_of(r, var);
  in[n++] = grad;
  in[n] = scalar_of(r, &f->values[n].type, lr), n++;
  in[n] = scalar_of(r, &f->values[n].type, step), n++;
  for (PmVarId v = 0; v < m->n_vars && n < f->n_params; v++) {
    if (m->vars[v].role != PM_ROLE_STATE || m->vars[v].owner != var) continue;
    in[n++] = from_zero ? pm_tensor_new(&r->scratch, m, &m->vars[v].type) : tensor_of(r, v);
  }
  *out = PM_NEW_N(&r->scratch, PmTensor, f->n_results + 1);
  return pm_interp_run(m, update, PM_INTERP_EXACT, &r->scratch, in, *out);
}

static double current_step(const PmReference *r) {
  PmVarId taken = pm_module_find_var(r->m, "step/taken");
  if (r->m->loss_scale > 0 && taken != PM_NONE) return r->vars[taken][0] + 1;
  for (PmVarId v = 0; v < r->m->n_vars; v++) {
    if (r->m->vars[v].role == PM_ROLE_STEP) return r->vars[v][0];
  }
  return 1;
}

// A step that is skipped: the variable and its states as they are.
static PmStatus *keep(PmReference *r, PmVarId var, PmTensor **out) {
  const PmModule *m = r->declared;
  *out = PM_NEW_N(&r->scratch, PmTensor, m->n_vars + 1);
  (*out)[0] = tensor_of(r, var);
  int32_t n = 1;
  for (PmVarId v = 0; v < m->n_vars; v++) {
    if (m->vars[v].role == PM_ROLE_STATE && m->vars[v].owner == var) (*out)[n++] = tensor_of(r, v);
  }
  return NULL;
}

PmStatus *pm_reference_update(PmReference *r, PmVarId var, const double *grad, double norm, double lr, PmTensor **out) {
  if (r->m->loss_scale > 0 && !isfinite(norm)) return keep(r, var, out);
  PmTensor g = pm_tensor_new(&r->scratch, r->declared, gradient_param(r, var));
  PmDtype dtype = gradient_dtype(r->m, var);
  double scale = pm_reference_round(dtype, clip_scale(r->m, norm));
  for (int64_t i = 0; i < g.n; i++) g.data[i] = pm_reference_round(dtype, grad[i] * scale);
  return run_update(r, var, g, lr, current_step(r), false, out);
}

// From a state of zero, twice the gradient makes twice a first moment and four times a second one.
static PmStatus *find_degrees(PmReference *r, PmVarId var) {
  const PmModule *m = r->declared;
  if (m->vars[var].update == PM_NONE) return NULL;
  pm_arena_reset(&r->scratch);
  PmTensor *once, *twice;
  PM_TRY(run_update(r, var, scalar_of(r, gradient_param(r, var), 1), 0, 1, true, &once));
  PM_TRY(run_update(r, var, scalar_of(r, gradient_param(r, var), 2), 0, 1, true, &twice));
  int32_t n = 1;
  for (PmVarId v = 0; v < m->n_vars; v++) {
    if (m->vars[v].role != PM_ROLE_STATE || m->vars[v].owner != var) continue;
    double ratio = once[n].data[0] != 0 ? twice[n].data[0] / once[n].data[0] : 0;
    r->degree[v] = fabs(ratio - 2) < 1e-3 ? 1 : fabs(ratio - 4) < 1e-3 ? 2 : 0;
    n++;
  }
  return NULL;
}

// ---- creation ------------------------------------------------------------------------------------------------------
PmStatus *pm_reference_create(PmArena *arena, const PmPassCtx *ctx, const PmModule *m, uint64_t seed,
                              PmReference *out) {
  PmReference *r = out;
  *r = (PmReference){.declared = pm_module_clone(m, arena), .m = pm_module_clone(m, arena)};
  pm_arena_init(&r->scratch, 0);
  PmPassCtx quiet = *ctx;
  pm_passes_hush(&quiet);
  quiet.keep_grads = true;
  PM_TRY(pm_passes_run(&quiet, r->m, PM_STEP_PASSES));
  int32_t n = r->m->n_vars;
  r->elements = PM_NEW_N(arena, int64_t, n);
  r->degree = PM_NEW_N(arena, int32_t, n);
  r->vars = (double **)pm_arena_alloc_n(arena, (size_t)n, sizeof *r->vars);
  for (PmVarId v = 0; v < n; v++) {
    if (!pm_type_elements(r->m, &r->m->vars[v].type, &r->elements[v])) {
      return PM_STATUS(PM_ERR_LIMIT, "`%s` is too large for the reference", r->m->vars[v].path);
    }
    r->vars[v] = PM_NEW_N(arena, double, r->elements[v]);
    if (r->m->vars[v].init != PM_INIT_NONE) pm_var_init(r->m, v, seed, r->vars[v]);
  }
  for (PmVarId v = 0; v < r->declared->n_vars; v++) PM_TRY(find_degrees(r, v));
  return NULL;
}

void pm_reference_deinit(PmReference *r) { pm_arena_deinit(&r->scratch); }
