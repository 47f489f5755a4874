// The compiled models next to what JAX computed from the same weights: RECORDED_MODEL names the files.
//
// Three sides run three AdamW steps on the windows that the runtime reads from tokens.bin: the run plan on the cpu
// device, for several meshes; the reference interpreter; and the record. Nothing is reset between steps, so steps 2 and
// 3 see the errors of those before them; eps = 1e-4 in the models keeps Adam from dividing rounding by itself. The
// record is compared where it has values, the other two sides with each other everywhere.
//
// A third comparison starts from the recorded gradients, by element: what the update functions make of them apart from
// the rounding of our own gradients.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "codegen/codegen.h"
#include "harness.h"
#include "recorded.h"
#include "runtime/slices.h"
#include "tools/compare.h"
#include "tools/pipeline.h"
#include "tools/reference.h"
#include "tools/run.h"

#define FILES PM_SOURCE_DIR "/tests/recorded/" RECORDED_MODEL
#define TOKENS PM_SOURCE_DIR "/tests/recorded/tokens.bin"
#define BOUND 1e-5
#define LR 1e-3
#define GRAD_FLOOR 1e-3
#define STATE_FLOOR 1e-3

enum { STEPS = 3, BATCH = 4, SEQ = 8 };

typedef enum Kind { LOSS, GRAD_NORM, GRADIENT, VALUE, FIRST, SECOND, STATE, KINDS } Kind;
static const char *const kind_texts[KINDS] = {"loss", "grad_norm", "grad", "value", "m", "v", "state"};

typedef struct Worst {
  double error;
  int64_t compared;
  char at[80];
} Worst;

typedef struct Models {
  PmTool t;
  PmRecorded weights, steps;
  PmModule *m;  // as the frontend leaves it
  PmProgram *p;
  PmRun run;
  PmReference ref;
} Models;

static void check(Models *c, PmStatus *st) {
  if (!st) return;
  pm_tool_report(&c->t);
  pm_status_print(st, stderr);
  fail_msg("%s", pm_status_message(st));
}

static PmVarId find_role(const PmModule *m, PmRole role) {
  for (PmVarId v = 0; v < m->n_vars; v++) {
    if (m->vars[v].role == role) return v;
  }
  fail_msg("no variable of role %d", (int)role);
  return PM_NONE;
}

// ---- the three sides -----------------------------------------------------------------------------------------------
// mesh: NULL for one rank.
static void compile(Models *c, const char *mesh) {
  memset(c, 0, sizeof *c);
  PmTool *t = &c->t;
  pm_arena_init(&t->arena, 0);
  pm_interner_init(&t->names, &t->arena);
  pm_sources_init(&t->sources, &t->arena);
  t->diags = pm_diags_new(&t->arena, &t->sources);
  t->passes = (PmPassCtx){.diags = t->diags, .sources = &t->sources, .verify = true};
  t->opt.command = PM_CMD_train;
  t->opt.target = "cpu";
  t->opt.seed = -1;
  t->opt.threads = 1;
  t->opt.data = (PmStrList){.items = {TOKENS}, .n = 1};
  t->opt.mesh = mesh;
  t->opt.plan = mesh ? FILES ".pplan" : NULL;
  check(c, pm_recorded_read(FILES ".weights.txt", &t->arena, &c->weights));
  check(c, pm_recorded_read(FILES ".steps.txt", &t->arena, &c->steps));
  check(c, pm_tool_module(t, FILES ".pmodel", "", &c->m));
  check(c, pm_reference_create(&t->arena, &t->passes, c->m, c->m->seed, &c->ref));
  t->passes.keep_grads = true;
  check(c, pm_passes_run(&t->passes, c->m, PM_DEFAULT_PASSES));
  check(c, pm_codegen(&t->arena, c->m, &c->p));
}

static void finish(Models *c) {
  pm_run_close(&c->run);
  pm_reference_deinit(&c->ref);
  pm_arena_deinit(&c->t.arena);
}

static const PmRecordedTensor *recorded(Models *c, int step, const char *kind, const char *path) {
  const char *name = pm_arena_printf(&c->t.arena, "%d/%s%s%s", step, kind, path ? "/" : "", path ? path : "");
  const PmRecordedTensor *t = pm_recorded_find(&c->steps, name);
  if (!t) fail_msg("%s is not recorded", name);
  return t;
}

static double recorded_scalar(Models *c, int step, const char *kind) {
  return recorded(c, step, kind, NULL)->values[0];
}

// The weights of the record in place of the models' own, on the reference's side; every parameter has one.
static void set_weights(Models *c) {
  const PmModule *m = c->ref.m;
  int32_t params = 0;
  for (PmVarId v = 0; v < m->n_vars; v++) {
    if (m->vars[v].role != PM_ROLE_PARAM) continue;
    const PmRecordedTensor *w = pm_recorded_find(&c->weights, m->vars[v].path);
    if (!w) fail_msg("%s has no weights", m->vars[v].path);
    assert_int_equal(w->n_elements, c->ref.elements[v]);
    memcpy(c->ref.vars[v], w->values, (size_t)w->n_elements * sizeof(double));
    params++;
  }
  assert_int_equal(params, c->weights.n_tensors);
}

static void open_run(Models *c) {
  check(c, pm_run_open(&c->t, c->p, false, &c->run));
  check(c, pm_run_open_data(&c->run));
  for (PmVarId v = 0; v < c->ref.m->n_vars; v++) {
    if (c->ref.m->vars[v].role != PM_ROLE_PARAM) continue;
    int32_t var = pm_session_find_var(c->run.session, c->ref.m->vars[v].path);
    assert_true(var >= 0);
    check(c, pm_run_set_var(&c->run, var, c->ref.vars[v]));
  }
}

static double *plan_var(Models *c, PmVarId v) {
  int32_t var = pm_session_find_var(c->run.session, c->ref.m->vars[v].path);
  assert_true(var >= 0);
  assert_int_equal(pm_dims_elements(c->p->vars[var].dims, c->p->vars[var].rank), c->ref.elements[v]);
  double *out = PM_NEW_N(&c->t.arena, double, c->ref.elements[v]);
  check(c, pm_run_get_var(&c->run, var, out));
  return out;
}

static double *plan_output(Models *c, const char *name, int64_t n) {
  const PmOutput *o = pm_session_find_output(c->run.session, PM_ENTRY_STEP, name);
  if (!o) fail_msg("the plan has no output %s", name);
  assert_int_equal(pm_dims_elements(o->dims, o->rank), n);
  double *out = PM_NEW_N(&c->t.arena, double, n);
  check(c, pm_run_output(&c->run, PM_ENTRY_STEP, o, out));
  return out;
}

static double *reference_output(Models *c, const char *name, int64_t n) {
  const PmTensor *t = pm_reference_report(&c->ref, name);
  if (!t) fail_msg("the reference has no report %s", name);
  assert_int_equal(t->n, n);
  return t->data;
}

// Tokens as README.md of this folder says, which the runtime's reader must have found too.
static void load_tokens(Models *c, int step) {
  unsigned char bytes[STEPS * BATCH * SEQ + 1];
  FILE *f = fopen(TOKENS, "rb");
  assert_non_null(f);
  assert_int_equal(fread(bytes, 1, sizeof bytes, f), sizeof bytes);
  fclose(f);
  for (PmVarId v = 0; v < c->ref.m->n_vars; v++) {
    if (c->ref.m->vars[v].role != PM_ROLE_INPUT) continue;
    int moved = strcmp(c->ref.m->vars[v].path, "targets") == 0;
    assert_int_equal(c->ref.elements[v], BATCH * SEQ);
    const double *read = plan_var(c, v);
    for (int i = 0; i < BATCH * SEQ; i++) {
      c->ref.vars[v][i] = bytes[(step - 1) * BATCH * SEQ + i + moved];
      assert_true(read[i] == c->ref.vars[v][i]);
    }
  }
  c->ref.vars[find_role(c->ref.m, PM_ROLE_STEP)][0] = step;
}

// ---- comparison with the record ------------------------------------------------------------------------------------
static double floor_of(Models *c, int step, Kind kind) {
  double grad = GRAD_FLOOR * recorded_scalar(c, step, "grad_max");
  double moment = grad * recorded_scalar(c, step, "clip_scale");
  const double floors[KINDS] = {
      [GRADIENT] = grad, [VALUE] = LR, [FIRST] = moment, [SECOND] = moment * moment, [STATE] = STATE_FLOOR};
  return floors[kind];
}

static void compare(Models *c, int step, Kind kind, const char *path, const double *actual, Worst *worst) {
  const PmRecordedTensor *want = recorded(c, step, kind_texts[kind], path);
  double error = pm_recorded_error(want, actual, floor_of(c, step, kind));
  worst[kind].compared += want->n_values;
  if (error < worst[kind].error) return;
  worst[kind].error = error;
  snprintf(worst[kind].at, sizeof worst[kind].at, "%s", want->name);
}

static void judge(const char *side, const char *mesh, const Worst *worst) {
  for (int k = 0; k < KINDS; k++) {
    if (worst[k].compared == 0) continue;
    print_message("  %-22s %-17s %-9s %6lld values, worst %.1e at %s\n", side, mesh ? mesh : "one rank", kind_texts[k],
                  (long long)worst[k].compared, worst[k].error, worst[k].at);
  }
  for (int k = 0; k < KINDS; k++) {
    if (!(worst[k].error <= BOUND)) fail_msg("%s differs from the record by %g", worst[k].at, worst[k].error);
  }
}

// A moment of a parameter, or a state of the model itself.
static Kind state_kind(const Models *c, PmVarId state) {
  if (c->ref.m->vars[state].owner == PM_NONE) return STATE;
  assert_in_range(c->ref.degree[state], 1, 2);
  return c->ref.degree[state] == 2 ? SECOND : FIRST;
}

static void compare_vars(Models *c, int step, bool plan, bool states, Worst *worst) {
  const PmModule *m = c->ref.m;
  for (PmVarId v = 0; v < m->n_vars; v++) {
    const PmVar *var = &m->vars[v];
    if (var->role != PM_ROLE_PARAM && var->role != PM_ROLE_STATE) continue;
    if (var->role == PM_ROLE_STATE && var->owner == PM_NONE && !states) continue;
    const double *actual = plan ? plan_var(c, v) : c->ref.vars[v];
    bool state = var->role == PM_ROLE_STATE;
    compare(c, step, state ? state_kind(c, v) : VALUE, m->vars[state && var->owner != PM_NONE ? var->owner : v].path,
            actual, worst);
  }
}

typedef double *OutputOf(Models *c, const char *name, int64_t n);

static void compare_outputs(Models *c, int step, OutputOf *output_of, Worst *worst) {
  const PmModule *m = c->ref.m;
  compare(c, step, LOSS, NULL, output_of(c, "loss", 1), worst);
  compare(c, step, GRAD_NORM, NULL, output_of(c, "grad_norm", 1), worst);
  for (PmVarId v = 0; v < m->n_vars; v++) {
    if (m->vars[v].role != PM_ROLE_PARAM) continue;
    const char *name = pm_arena_printf(&c->t.arena, "d(%s)", m->vars[v].path);
    compare(c, step, GRADIENT, m->vars[v].path, output_of(c, name, c->ref.elements[v]), worst);
  }
}

// ---- the plan and the interpreter with each other ------------------------------------------------------------------
static void cross_outputs(Models *c, int step, PmCompare *cross) {
  const PmFn *f = pm_fn(c->ref.m, c->ref.m->step);
  for (int32_t i = 0; i < f->n_results; i++) {
    const char *name = f->result_bind[i].report;
    if (!name) continue;
    const PmTensor *want = &c->ref.results[i];
    bool grad = strncmp(name, "d(", 2) == 0;
    pm_compare(cross, grad ? PM_CMP_GRADIENT : PM_CMP_REPORT, name, &want->type, plan_output(c, name, want->n),
               want->data, want->n, grad ? floor_of(c, step, GRADIENT) : 0);
  }
}

static void cross_vars(Models *c, int step, PmCompare *cross) {
  const PmModule *m = c->ref.m;
  for (PmVarId v = 0; v < m->n_vars; v++) {
    bool state = m->vars[v].role == PM_ROLE_STATE;
    if (m->vars[v].role != PM_ROLE_PARAM && !state) continue;
    double floor = floor_of(c, step, state ? state_kind(c, v) : VALUE);
    pm_compare(cross, state ? PM_CMP_STATE : PM_CMP_PARAM, m->vars[v].path, &m->vars[v].type, plan_var(c, v),
               c->ref.vars[v], c->ref.elements[v], floor);
  }
}

// ---- tests ---------------------------------------------------------------------------------------------------------
static void three_sides(const char *mesh, int64_t ranks) {
  Models c;
  Worst plan[KINDS] = {0}, reference[KINDS] = {0};
  compile(&c, mesh);
  assert_int_equal(pm_program_ranks(c.p), ranks);
  set_weights(&c);
  open_run(&c);
  PmCompare cross = {.m = c.ref.m, .bound = BOUND};
  for (int step = 1; step <= STEPS; step++) {
    check(&c, pm_run_step(&c.run, step - 1));
    load_tokens(&c, step);
    check(&c, pm_reference_step(&c.ref));
    cross.step = step;
    compare_outputs(&c, step, plan_output, plan);
    compare_outputs(&c, step, reference_output, reference);
    cross_outputs(&c, step, &cross);
    pm_reference_advance(&c.ref);
    compare_vars(&c, step, true, true, plan);
    compare_vars(&c, step, false, true, reference);
    cross_vars(&c, step, &cross);
  }
  judge("cpu plan", mesh, plan);
  judge("reference interpreter", mesh, reference);
  if (!pm_compare_ok(&cross)) {
    pm_compare_print(&cross, &c.t.arena, stderr);
    fail_msg("the plan and the interpreter differ");
  }
  finish(&c);
}

static void one_rank(void **state) {
  (void)state;
  three_sides(NULL, 1);
}

static void data_parallel(void **state) {
  (void)state;
  three_sides("data=2", 2);
}

static void tensor_parallel(void **state) {
  (void)state;
  three_sides("tensor=2", 2);
}

static void both_parallel(void **state) {
  (void)state;
  three_sides("data=2,tensor=2", 4);
}

// Elements of a parameter do not see each other in AdamW: those without a recorded gradient stay out of the comparison.
static void updates_of_recorded_gradients(void **state) {
  (void)state;
  Models c;
  Worst worst[KINDS] = {0};
  compile(&c, NULL);
  set_weights(&c);
  const PmModule *m = c.ref.m;
  for (int step = 1; step <= STEPS; step++) {
    c.ref.vars[find_role(m, PM_ROLE_STEP)][0] = step;
    for (PmVarId v = 0; v < m->n_vars; v++) {
      if (m->vars[v].role != PM_ROLE_PARAM) continue;
      const PmRecordedTensor *g = recorded(&c, step, "grad", m->vars[v].path);
      double *grad = PM_NEW_N(&c.t.arena, double, c.ref.elements[v]);
      for (int64_t i = 0; i < g->n_values; i++) grad[i * g->stride] = g->values[i];
      PmTensor *out;
      check(&c, pm_reference_update(&c.ref, v, grad, recorded_scalar(&c, step, "grad_norm"), LR, &out));
      memcpy(c.ref.vars[v], out->data, (size_t)out->n * sizeof(double));
      for (PmVarId s = 0; s < m->n_vars; s++) {
        if (m->vars[s].role != PM_ROLE_STATE || m->vars[s].owner != v) continue;
        out++;
        memcpy(c.ref.vars[s], out->data, (size_t)out->n * sizeof(double));
      }
    }
    compare_vars(&c, step, false, false, worst);
  }
  judge("recorded gradients", NULL, worst);
  finish(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_rank),
      cmocka_unit_test(data_parallel),
      cmocka_unit_test(tensor_parallel),
      cmocka_unit_test(both_parallel),
      cmocka_unit_test(updates_of_recorded_gradients),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
