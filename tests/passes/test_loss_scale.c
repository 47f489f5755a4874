// Dynamic loss scaling, step by step. The gradient of sum(f16(w) * f16(x)) by w is x, held in f16 while it is scaled.
#include <math.h>
#include <string.h>

#include "passes/passes.h"
#include "program.h"

static PmVarId add_var(Program *p, const char *path, PmRole role, PmType t, PmVarId owner) {
  return pm_module_add_var(
      p->m, (PmVar){.path = pm_intern(&p->names, path), .role = role, .type = t, .owner = owner, .update = PM_NONE});
}

// w' = w - lr g, and a state that counts its updates.
static PmFnId add_update(Program *p, PmType t) {
  program_fn(p, "descent", PM_FN_UPDATE);
  PmValueId w = pm_b_param(&p->b, t, "value"), g = pm_b_param(&p->b, t, "grad");
  PmValueId lr = pm_b_param(&p->b, pm_type_scalar(PM_F32), "lr");
  pm_b_param(&p->b, pm_type_scalar(PM_F32), "step");
  PmValueId n = pm_b_param(&p->b, t, "n");
  PmValueId down = pm_b_map2(&p->b, PM_S_mul, g, pm_b_broadcast(&p->b, lr, t));
  PmValueId count = pm_b_map2(&p->b, PM_S_add, n, pm_b_splat(&p->b, 1, &t));
  pm_b_results(&p->b, (PmValueId[]){pm_b_map2(&p->b, PM_S_sub, w, down), count}, 2);
  return p->b.fn;
}

static PmFnId add_schedule(Program *p) {
  program_fn(p, "schedule", PM_FN_SCHEDULE);
  PmValueId at = pm_b_param(&p->b, pm_type_scalar(PM_F64), "step");
  PmValueId lr = pm_b_map2(&p->b, PM_S_mul, at, pm_b_const(&p->b, PM_F64, 0.5));
  pm_b_results(&p->b, &lr, 1);
  return p->b.fn;
}

static PmFnId add_model(Program *p, PmVarId w, PmVarId x) {
  program_fn(p, "model", PM_FN_MODEL);
  PmType t = program_type(p, 1, p->k);
  PmValueId a = pm_b_param(&p->b, t, "w"), b = pm_b_param(&p->b, t, "x");
  PmValueId y = pm_b_map2(&p->b, PM_S_mul, pm_b_cast(&p->b, a, PM_F16), pm_b_cast(&p->b, b, PM_F16));
  PmValueId loss = pm_b_reduce(&p->b, PM_SUM, pm_b_cast(&p->b, y, PM_F32), &p->k, 1);
  pm_b_results(&p->b, &loss, 1);
  PmBinding *params = PM_NEW_N(&p->arena, PmBinding, 2), *report = PM_NEW(&p->arena, PmBinding);
  params[0] = (PmBinding){.var = w};
  params[1] = (PmBinding){.var = x};
  *report = (PmBinding){PM_NONE, pm_intern(&p->names, "loss")};
  pm_fn(p->m, p->b.fn)->param_bind = params;
  pm_fn(p->m, p->b.fn)->result_bind = report;
  return p->b.fn;
}

static void training(Program *p) {
  program_init(p, 1);
  PmType t = program_type(p, 1, p->k);
  PmVarId w = add_var(p, "w", PM_ROLE_PARAM, t, PM_NONE), x = add_var(p, "x", PM_ROLE_INPUT, t, PM_NONE);
  add_var(p, "step", PM_ROLE_STEP, pm_type_scalar(PM_F64), PM_NONE);
  add_var(p, "w/n", PM_ROLE_STATE, t, w);
  PmFnId update = add_update(p, t);
  p->m->vars[w].update = update;
  p->m->vars[w].grad = PM_F16;
  p->m->schedule = add_schedule(p);
  p->m->model = add_model(p, w, x);
  p->m->loss_scale = 65536;
  p->m->loss_scale_window = 2;
  program_verify(p);
  PmPassCtx ctx = {.verify = true, .keep_grads = true};
  assert_null(pm_passes_run(&ctx, p->m, "simplify,differentiate,simplify"));
  program_verify(p);
}

typedef struct Run {
  Program *p;
  PmTensor *in;
  const PmTensor *out;
} Run;

static PmTensor *before(const Run *r, const char *path) {
  const PmFn *f = pm_fn(r->p->m, r->p->m->step);
  for (int32_t i = 0; i < f->n_params; i++) {
    if (strcmp(r->p->m->vars[f->param_bind[i].var].path, path) == 0) return &r->in[i];
  }
  fail_msg("no parameter %s", path);
  return NULL;
}

static const PmTensor *after(const Run *r, const char *name) {
  const PmFn *f = pm_fn(r->p->m, r->p->m->step);
  for (int32_t i = 0; i < f->n_results; i++) {
    const PmBinding *b = &f->result_bind[i];
    if (strcmp(b->var != PM_NONE ? r->p->m->vars[b->var].path : b->report, name) == 0) return &r->out[i];
  }
  fail_msg("no result %s", name);
  return NULL;
}

// One step with x[0] = first; what it leaves becomes what the next begins with.
static void step(Run *r, double first) {
  static const char *const kept[] = {"w", "w/n", "step/loss_scale", "step/streak", "step/taken"};
  before(r, "x")->data[0] = first;
  r->out = program_run(r->p, r->p->m->step, PM_INTERP_EXACT, r->in);
  for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
    const PmTensor *t = after(r, kept[i]);
    memcpy(before(r, kept[i])->data, t->data, (size_t)t->n * sizeof *t->data);
  }
}

static void expect(const Run *r, double w0, double n, double scale, double streak, double taken, double lr) {
  assert_true(after(r, "w")->data[0] == w0);
  for (int64_t i = 0; i < 4; i++) assert_true(after(r, "w/n")->data[i] == n);
  assert_true(after(r, "step/loss_scale")->data[0] == scale);
  assert_true(after(r, "step/streak")->data[0] == streak);
  assert_true(after(r, "step/taken")->data[0] == taken);
  assert_true(after(r, "lr")->data[0] == lr);
}

static void test_scale(void **state) {
  (void)state;
  Program p;
  training(&p);
  Run r = {.p = &p, .in = program_inputs(&p, p.m->step, 0, 0)};
  before(&r, "step/loss_scale")->data[0] = 65536;
  before(&r, "w")->data[0] = 8;
  step(&r, 1);  // 65536 is past the largest f16
  assert_true(after(&r, "skipped")->data[0] == 1 && after(&r, "loss_scale")->data[0] == 65536);
  assert_true(!isfinite(after(&r, "grad_norm")->data[0]) && after(&r, "loss")->data[0] == 8);
  expect(&r, 8, 0, 32768, 0, 0, 0.5);
  step(&r, 1);
  assert_true(after(&r, "skipped")->data[0] == 0 && after(&r, "loss_scale")->data[0] == 32768);
  assert_true(after(&r, "grad_norm")->data[0] == 1 && after(&r, "d(w)")->data[0] == 1);
  expect(&r, 7.5, 1, 32768, 1, 1, 0.5);  // the rate of the first step: the one that was skipped did not count
  step(&r, 1);
  expect(&r, 6.5, 2, 65536, 0, 2, 1);  // two steps without overflow
  step(&r, 1);
  expect(&r, 6.5, 2, 32768, 0, 2, 1.5);
  step(&r, NAN);
  assert_true(after(&r, "skipped")->data[0] == 1);
  expect(&r, 6.5, 2, 16384, 0, 2, 1.5);
  step(&r, 0x1p-24);  // the least f16
  expect(&r, 6.5, 3, 16384, 1, 3, 1.5);
  assert_true(after(&r, "d(w)")->data[0] == 0x1p-24);
  program_deinit(&p);
}

// The scale does not fall below 1.
static void test_floor(void **state) {
  (void)state;
  Program p;
  training(&p);
  Run r = {.p = &p, .in = program_inputs(&p, p.m->step, 0, 0)};
  before(&r, "step/loss_scale")->data[0] = 2;
  for (int32_t i = 0; i < 3; i++) step(&r, INFINITY);
  expect(&r, 0, 0, 1, 0, 0, 0.5);
  program_deinit(&p);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_scale), cmocka_unit_test(test_floor)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
