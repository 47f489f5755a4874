// `pmodel verify --against=reference`: the compiled plan next to the reference interpreter, step by step.
//
// Both sides start every step from the reference's variables and from inputs made by a counter, so that an error does
// not grow from step to step and shows where it arises. Gradients are compared raw. Updates are compared from the
// plan's own gradients, which are compared themselves: an optimizer that divides a rounding error by itself would else
// report the gradient's rounding as an error of the update.
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/philox.h"
#include "runtime/slices.h"
#include "tools/bisect.h"
#include "tools/compare.h"
#include "tools/reference.h"
#include "tools/run.h"
#include "tools/show.h"
#include "tools/verify.h"

#define DEFAULT_STEPS 2
#define BOUND 1e-5
#define GRAD_FLOOR 1e-3
#define MAX_HALVINGS 4

typedef struct Verify {
  PmTool *t;
  PmModule *frontend;  // as the frontend left it
  PmModule *m;         // of the plan
  PmProgram *p;
  PmRun run;
  PmReference ref;
  PmCompare cmp;
  int32_t *prog_var;  // variable of the module -> of the program, a parameter's master; -1: the program does without it
  int32_t *prog_copy;  // parameter of the module -> its working copy in the program, -1: none
  double **grads;      // by variable: the plan's raw gradient of this step, NULL: none
  PmArena scratch;     // of this step
  PmSessionMemory memory;
  int64_t steps;  // compared; the last is the first that fails
  bool failed;
  PmSuspect suspect;
} Verify;

static PmVarId step_var(const PmModule *m) {
  for (PmVarId v = 0; v < m->n_vars; v++) {
    if (m->vars[v].role == PM_ROLE_STEP) return v;
  }
  return PM_NONE;
}

// One element in sixteen of an index input is -1, which is legal and means none.
static double make_input(const PmModule *m, const PmType *type, uint64_t key, int64_t step, int64_t i) {
  uint32_t word = pm_random_u32(key, (uint64_t)step, (uint64_t)i);
  if (pm_dtype_is_float((PmDtype)type->dtype)) {
    return pm_reference_round((PmDtype)type->dtype, (double)pm_random_normal(key, (uint64_t)step, (uint64_t)i));
  }
  if (type->dtype == PM_BOOL) return word & 1;
  if (type->index_of == PM_NONE) return word % 64;
  if (word % 16 == 0) return -1;
  return (double)((word >> 4) % (uint64_t)pm_axis_size(m, type->index_of));
}

static void make_inputs(Verify *v, int64_t step) {
  const PmModule *m = v->ref.m;
  for (PmVarId i = 0; i < m->n_vars; i++) {
    if (m->vars[i].role != PM_ROLE_INPUT) continue;
    uint64_t key = pm_random_key(v->p->seed ^ UINT64_C(0x7665726966790000), m->vars[i].path);
    for (int64_t k = 0; k < v->ref.elements[i]; k++) {
      v->ref.vars[i][k] = make_input(m, &m->vars[i].type, key, step, k);
    }
  }
  if (step_var(m) != PM_NONE) v->ref.vars[step_var(m)][0] = (double)(step + 1);
}

// Half the last place of the coarsest 16-bit format that the model computes in; 0: none.
static double coarsest_unit(const PmModule *m) {
  double unit = 0;
  for (PmFnId f = 0; f < m->n_fns; f++) {
    const PmFn *fn = pm_fn(m, f);
    for (PmValueId v = 0; v < fn->n_values && !fn->dead; v++) {
      if (fn->values[v].type.dtype == PM_BF16) return 0x1p-8;
      if (fn->values[v].type.dtype == PM_F16) unit = 0x1p-11;
    }
  }
  return unit;
}

static PmStatus *copy_vars(Verify *v) {
  for (PmVarId i = 0; i < v->ref.m->n_vars; i++) {
    if (v->prog_var[i] >= 0) PM_TRY(pm_run_set_var(&v->run, v->prog_var[i], v->ref.vars[i]));
  }
  return NULL;
}

// The reference knows parameters as the program's text does: stored once, cast where they are read. A plan's working
// copy must be the cast of the plan's own master.
static PmStatus *compare_copy(Verify *v, PmVarId var) {
  if (v->prog_copy[var] < 0) return NULL;
  const int64_t n = v->ref.elements[var];
  double *got = PM_NEW_N(&v->scratch, double, n), *want = PM_NEW_N(&v->scratch, double, n);
  PM_TRY(pm_run_get_var(&v->run, v->prog_copy[var], got));
  PM_TRY(pm_run_get_var(&v->run, v->prog_var[var], want));
  for (int64_t i = 0; i < n; i++) want[i] = pm_reference_round((PmDtype)v->m->vars[var].type.dtype, want[i]);
  pm_compare(&v->cmp, PM_CMP_COPY, v->ref.m->vars[var].path, &v->ref.m->vars[var].type, got, want, n, 0);
  return NULL;
}

static PmStatus *compare_initial(Verify *v) {
  const PmModule *m = v->ref.m;
  for (PmVarId i = 0; i < m->n_vars; i++) {
    if (v->prog_var[i] < 0 || m->vars[i].init == PM_INIT_NONE) continue;
    double *got = PM_NEW_N(&v->scratch, double, v->ref.elements[i]);
    PM_TRY(pm_run_get_var(&v->run, v->prog_var[i], got));
    pm_compare(&v->cmp, PM_CMP_INITIAL, m->vars[i].path, &m->vars[i].type, got, v->ref.vars[i], v->ref.elements[i], 0);
    PM_TRY(compare_copy(v, i));
  }
  return NULL;
}

static PmVarId grad_var(const PmModule *m, const char *report) {
  size_t len = strlen(report);
  for (PmVarId i = 0; i < m->n_vars; i++) {
    const char *path = m->vars[i].path;
    if (len == strlen(path) + 3 && strncmp(report, "d(", 2) == 0 && strncmp(report + 2, path, len - 3) == 0) return i;
  }
  return PM_NONE;
}

static double largest_gradient(const PmReference *ref) {
  const PmFn *f = pm_fn(ref->m, ref->m->step);
  double largest = 0;
  for (int32_t i = 0; i < f->n_results; i++) {
    const char *report = f->result_bind[i].report;
    if (!report || grad_var(ref->m, report) == PM_NONE) continue;
    for (int64_t k = 0; k < ref->results[i].n; k++) {
      if (isfinite(ref->results[i].data[k]) && fabs(ref->results[i].data[k]) > largest)
        largest = fabs(ref->results[i].data[k]);
    }
  }
  return largest;
}

static PmCompareKind report_kind(const char *name) {
  if (strcmp(name, "loss") == 0) return PM_CMP_LOSS;
  return strcmp(name, "grad_norm") == 0 ? PM_CMP_GRAD_NORM : PM_CMP_REPORT;
}

// Loss, norm, reports and gradients: what the step returns beside the variables.
static PmStatus *compare_outputs(Verify *v, double grad_floor) {
  const PmEntry *e = &v->p->entries[PM_ENTRY_STEP];
  for (int32_t i = 0; i < e->n_outputs; i++) {
    const PmOutput *o = &e->outputs[i];
    const PmTensor *want = pm_reference_report(&v->ref, o->name);
    int64_t n = pm_dims_elements(o->dims, o->rank);
    if (!want || want->n != n) {
      return PM_STATUS(PM_ERR_INTERNAL, "the reference has no output `%s` of %" PRId64 " elements", o->name, n);
    }
    double *got = PM_NEW_N(&v->scratch, double, n);
    PM_TRY(pm_run_output(&v->run, PM_ENTRY_STEP, o, got));
    PmVarId var = grad_var(v->ref.m, o->name);
    if (var != PM_NONE) v->grads[var] = got;
    // Which of the numbers overflowed, and to what, hangs on the order of sums.
    bool overflow = pm_reference_skipped(&v->ref) && (var != PM_NONE || strcmp(o->name, "grad_norm") == 0);
    if (overflow) continue;
    PmCompareKind kind = var != PM_NONE ? PM_CMP_GRADIENT : report_kind(o->name);
    pm_compare(&v->cmp, kind, o->name, &want->type, got, want->data, n, var != PM_NONE ? grad_floor : 0);
  }
  return NULL;
}

static PmStatus *compare_var(Verify *v, PmVarId var, PmCompareKind kind, const PmTensor *want, double floor) {
  if (v->prog_var[var] < 0) return NULL;
  const PmVar *info = &v->ref.m->vars[var];
  double *got = PM_NEW_N(&v->scratch, double, want->n);
  PM_TRY(pm_run_get_var(&v->run, v->prog_var[var], got));
  pm_compare(&v->cmp, kind, info->path, &info->type, got, want->data, want->n, floor);
  return NULL;
}

static double report_value(const Verify *v, const char *name) {
  const PmTensor *t = pm_reference_report(&v->ref, name);
  return t && t->n == 1 ? t->data[0] : 0;
}

static PmStatus *plan_norm(Verify *v, double *out) {
  const PmOutput *o = pm_session_find_output(v->run.session, PM_ENTRY_STEP, "grad_norm");
  *out = 0;
  return o && o->rank == 0 ? pm_run_output(&v->run, PM_ENTRY_STEP, o, out) : NULL;
}

static PmStatus *compare_updates(Verify *v, double grad_floor) {
  const PmModule *m = v->ref.m;
  double norm, lr = report_value(v, "lr");
  PM_TRY(plan_norm(v, &norm));
  for (PmVarId var = 0; var < m->n_vars; var++) {
    if (m->vars[var].role != PM_ROLE_PARAM || !v->grads[var] || m->vars[var].update == PM_NONE) continue;
    PmTensor *want;
    PM_TRY(pm_reference_update(&v->ref, var, v->grads[var], norm, lr, &want));
    PM_TRY(compare_var(v, var, PM_CMP_PARAM, want, fabs(lr)));
    PM_TRY(compare_copy(v, var));
    for (PmVarId s = 0; s < m->n_vars; s++) {
      if (m->vars[s].role != PM_ROLE_STATE || m->vars[s].owner != var) continue;
      double floor = v->ref.degree[s] == 2 ? grad_floor * grad_floor : grad_floor;
      PM_TRY(compare_var(v, s, PM_CMP_STATE, ++want, floor));
    }
  }
  return NULL;
}

// States of the model itself, and the loss scale and its counters: no gradient takes part, so they are compared as the
// step leaves them.
static PmStatus *compare_states(Verify *v) {
  const PmModule *m = v->ref.m;
  const PmFn *f = pm_fn(m, m->step);
  for (int32_t i = 0; i < f->n_results; i++) {
    PmVarId var = f->result_bind[i].var;
    if (var == PM_NONE || m->vars[var].role != PM_ROLE_STATE || m->vars[var].owner != PM_NONE) continue;
    bool counter = strncmp(m->vars[var].path, "step/", 5) == 0;
    PM_TRY(compare_var(v, var, counter ? PM_CMP_STATE : PM_CMP_MODEL_STATE, &v->ref.results[i], 0));
  }
  return NULL;
}

static PmStatus *compare_eval(Verify *v) {
  const PmOutput *o = pm_session_find_output(v->run.session, PM_ENTRY_EVAL, "logits");
  if (!o || !v->p->entries[PM_ENTRY_EVAL].present) return NULL;
  PmTensor want;
  PM_TRY(pm_reference_eval(&v->ref, &want));
  PM_TRY(copy_vars(v));
  PM_TRY(pm_session_run(v->run.session, PM_ENTRY_EVAL));
  int64_t n = pm_dims_elements(o->dims, o->rank);
  if (!want.data || want.n != n) return PM_STATUS(PM_ERR_INTERNAL, "the reference has no such logits");
  double *got = PM_NEW_N(&v->scratch, double, n);
  PM_TRY(pm_run_output(&v->run, PM_ENTRY_EVAL, o, got));
  pm_compare(&v->cmp, PM_CMP_LOGITS, "logits", &want.type, got, want.data, n, 0);
  return NULL;
}

static PmStatus *run_step(Verify *v) {
  PM_TRY(copy_vars(v));
  PM_TRY(pm_session_run(v->run.session, PM_ENTRY_STEP));
  return pm_reference_step(&v->ref);
}

static PmStatus *skips_differ(Verify *v, bool *out) {
  const PmOutput *o = pm_session_find_output(v->run.session, PM_ENTRY_STEP, "skipped");
  double skipped = 0;
  if (o && o->rank == 0) PM_TRY(pm_run_output(&v->run, PM_ENTRY_STEP, o, &skipped));
  *out = o && (skipped != 0) != pm_reference_skipped(&v->ref);
  return NULL;
}

// Close to the largest number of its format, whether a sum overflows hangs on its order: such a step is compared at a
// smaller loss scale.
static PmStatus *run_alike(Verify *v) {
  PmVarId scale = pm_module_find_var(v->ref.m, "step/loss_scale");
  PM_TRY(run_step(v));
  for (int32_t i = 0; i < MAX_HALVINGS && scale != PM_NONE; i++) {
    bool differ;
    PM_TRY(skips_differ(v, &differ));
    if (!differ) break;
    v->ref.vars[scale][0] /= 2;
    PM_TRY(run_step(v));
  }
  return NULL;
}

// The first number that is finite on neither side, if all that fail are such: nothing is known about the plan then.
static const PmWorst *overflow(const PmCompare *c) {
  const PmWorst *first = NULL;
  for (int32_t k = 0; k < PM_CMP_COUNT; k++) {
    const PmWorst *w = &c->worst[k];
    if (w->error <= pm_compare_bound(c, (PmCompareKind)k)) continue;
    if (isfinite(w->plan) || isfinite(w->reference)) return NULL;
    if (!first) first = w;
  }
  return first;
}

static PmStatus *verify_step(Verify *v, int64_t step) {
  pm_arena_reset(&v->scratch);
  memset((void *)v->grads, 0, (size_t)v->ref.m->n_vars * sizeof *v->grads);
  v->cmp.step = step + 1;
  make_inputs(v, step);
  PM_TRY(pm_session_load(v->run.session, NULL, step));
  PM_TRY(run_alike(v));
  double grad_floor = GRAD_FLOOR * largest_gradient(&v->ref);
  PM_TRY(compare_outputs(v, grad_floor));
  PM_TRY(compare_updates(v, grad_floor));
  PM_TRY(compare_states(v));
  if (step == 0) PM_TRY(compare_eval(v));
  v->steps = step + 1;
  v->failed = !pm_compare_ok(&v->cmp);
  if (v->failed && !overflow(&v->cmp))
    return pm_bisect(v->t, v->frontend, v->frontend, v->ref.vars, step, pm_compare_bound(&v->cmp, PM_CMP_GRADIENT),
                     &v->suspect);
  if (!v->failed) pm_reference_advance(&v->ref);
  return NULL;
}

// The highest byte that the ranks wrote lies in the last alignment unit of the predicted arena.
static bool memory_ok(const Verify *v) {
  return v->memory.touched_bytes <= v->memory.arena_bytes &&
         v->memory.touched_bytes > v->memory.arena_bytes - PM_ARENA_ALIGN;
}

static void print_json(const Verify *v) {
  PmAnswer a;
  pm_answer_begin(&a);
  PmJson *j = &a.json;
  pm_json_put_str(j, "model", v->p->model);
  pm_json_put_str(j, "plan", v->p->plan);
  pm_json_put_i64(j, "ranks", pm_program_ranks(v->p));
  pm_json_put_i64(j, "steps", v->steps);
  pm_json_key(j, "compared");
  pm_compare_json(&v->cmp, j);
  pm_json_key(j, "first_difference");
  pm_suspect_json(&v->suspect, j);
  pm_json_key(j, "memory");
  pm_json_object(j);
  pm_json_put_i64(j, "arena_bytes", v->memory.arena_bytes);
  pm_json_put_i64(j, "touched_bytes", v->memory.touched_bytes);
  pm_json_put_i64(j, "outside_bytes", v->memory.outside_bytes);
  pm_json_put_bool(j, "ok", memory_ok(v));
  pm_json_end_object(j);
  pm_json_put_bool(j, "ok", pm_compare_ok(&v->cmp) && memory_ok(v));
  pm_answer_end(&a);
}

static void print_text(Verify *v) {
  PmArena *a = &v->t->arena;
  printf("%s, plan %s: %s, %" PRId64 " step%s against the reference interpreter\n", v->p->model,
         v->p->plan ? v->p->plan : "(none)", pm_mesh_text(a, v->p->n_mesh, v->p->mesh_name, v->p->mesh_size), v->steps,
         pm_plural(v->steps));
  printf(
      "error = max |plan - reference| / max(max |reference|, floor); every step starts from the reference's parameters "
      "and states,\nand updates are compared from the plan's own gradients\n\n");
  pm_compare_print(&v->cmp, a, stdout);
  if (v->failed && !overflow(&v->cmp)) pm_suspect_print(&v->suspect, stdout);
  printf("\nmemory of each rank: predicted %s bytes, highest byte touched %s: %s\n",
         pm_count_text(a, v->memory.arena_bytes), pm_count_text(a, v->memory.touched_bytes),
         memory_ok(v) ? "equal within the alignment" : "FAILED");
  printf("memory outside of the arenas, of the process: %s bytes (compiler, code, BLAS, threads; measured)\n",
         pm_count_text(a, v->memory.outside_bytes));
}

static PmStatus *run_all(Verify *v, int64_t steps) {
  PM_TRY(compare_initial(v));
  for (int64_t step = 0; step < steps && !v->failed; step++) PM_TRY(verify_step(v, step));
  pm_session_memory(v->run.session, &v->memory);
  return NULL;
}

static PmStatus *compile_plan(Verify *v, PmModule *m) {
  PmTool *t = v->t;
  v->m = m;
  v->frontend = pm_module_clone(m, &t->arena);
  t->arena.limit = 0;  // the reference's values are as large as the model's
  PM_TRY(pm_reference_create(&t->arena, &t->passes, v->m, v->m->seed, &v->ref));
  t->passes.keep_grads = true;
  PM_TRY(pm_tool_unroll(t, v->m));
  PM_TRY(pm_passes_run(&t->passes, v->m, PM_DEFAULT_PASSES));
  PM_TRY(pm_tool_codegen(t, v->m, &v->p));
  pm_tool_report(t);
  return pm_tool_check_ranks(t, v->p);
}

static void match_vars(Verify *v) {
  const PmModule *m = v->ref.m;
  v->prog_var = PM_NEW_N(&v->t->arena, int32_t, m->n_vars);
  v->grads = (double **)pm_arena_alloc_n(&v->t->arena, (size_t)m->n_vars, sizeof *v->grads);
  v->prog_copy = PM_NEW_N(&v->t->arena, int32_t, m->n_vars);
  for (PmVarId i = 0; i < m->n_vars; i++) {
    const int32_t var = pm_session_find_var(v->run.session, m->vars[i].path);
    const int32_t master = var >= 0 && m->vars[i].role == PM_ROLE_PARAM ? v->p->vars[var].twin : -1;
    v->prog_var[i] = master >= 0 ? master : var;
    v->prog_copy[i] = master >= 0 ? var : -1;
  }
}

static PmStatus *verdict(const Verify *v, PmVerdict *out) {
  *out = (PmVerdict){.ok = !v->failed && memory_ok(v), .ranks = pm_program_ranks(v->p)};
  for (int32_t k = 0; k < PM_CMP_COUNT; k++) {
    if (v->cmp.worst[k].tensors > 0 && k != PM_CMP_INITIAL) out->worst = fmax(out->worst, v->cmp.worst[k].error);
  }
  const PmWorst *both = v->failed ? overflow(&v->cmp) : NULL;
  if (both) {
    return PM_STATUS(
        PM_ERR_VERIFY,
        "`%s` is not finite at step %" PRId64
        ", in the reference either: the model is so on any plan, "
        "and its numbers cannot be compared. Smaller initial values or a lower rate help, or fewer `--steps`",
        both->path, both->step);
  }
  if (v->failed) return PM_STATUS(PM_ERR_VERIFY, "the plan's numbers are not the reference's");
  return out->ok ? NULL : PM_STATUS(PM_ERR_VERIFY, "the memory that was used is not what was predicted");
}

PmStatus *pm_verify_module(PmTool *t, PmModule *m, int64_t steps, bool quiet, PmVerdict *out) {
  *out = (PmVerdict){0};
  Verify v = {.t = t};
  pm_arena_init(&v.scratch, 0);
  PmStatus *st = compile_plan(&v, m);
  if (!st) st = pm_run_open(t, v.p, true, &v.run);
  if (!st) {
    v.cmp = (PmCompare){.m = v.ref.m, .bound = BOUND, .unit = coarsest_unit(v.ref.m)};
    match_vars(&v);
    st = run_all(&v, steps);
    bool print = !st && (!quiet || v.failed || !memory_ok(&v));
    if (print && t->opt.json && !quiet)
      print_json(&v);
    else if (print && !t->opt.json)
      print_text(&v);
    if (!st) st = verdict(&v, out);
  }
  pm_run_abandon(&v.run, st);
  pm_run_close(&v.run);
  pm_reference_deinit(&v.ref);
  pm_arena_deinit(&v.scratch);
  return st;
}

PmStatus *pm_verify_steps(const PmTool *t, int64_t *out_steps) {
  *out_steps = t->opt.steps == 0 ? DEFAULT_STEPS : t->opt.steps;
  if (*out_steps < 0) return PM_STATUS(PM_ERR_USAGE, "`--steps` needs a positive number");
  if (strcmp(t->opt.target, "null") == 0)
    return PM_STATUS(PM_ERR_USAGE, "`--target null` computes no numbers to verify");
  return NULL;
}

PmStatus *pm_verify_reference(PmTool *t, const char *path) {
  int64_t steps;
  PmModule *m;
  PmVerdict verdict;
  PM_TRY(pm_verify_steps(t, &steps));
  PM_TRY(pm_tool_module(t, path, "", &m));
  return pm_verify_module(t, m, steps, false, &verdict);
}
