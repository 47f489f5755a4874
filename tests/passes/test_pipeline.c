// The pass manager, and the training step that differentiate assembles.
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ir/text.h"
#include "passes/passes.h"
#include "program.h"

static PmVarId add_var(Program *p, const char *path, PmRole role, PmType t) {
  return pm_module_add_var(
      p->m, (PmVar){.path = pm_intern(&p->names, path), .role = role, .type = t, .owner = PM_NONE, .update = PM_NONE});
}

// Momentum: m' = 0.5 m + g, w' = w - lr m'.
static PmFnId add_update(Program *p, PmType t) {
  program_fn(p, "momentum", PM_FN_UPDATE);
  PmValueId w = pm_b_param(&p->b, t, "value"), g = pm_b_param(&p->b, t, "grad");
  PmValueId lr = pm_b_param(&p->b, pm_type_scalar(PM_F32), "lr");
  pm_b_param(&p->b, pm_type_scalar(PM_F32), "step");
  PmValueId m = pm_b_param(&p->b, t, "m");
  PmValueId half = pm_b_map2(&p->b, PM_S_mul, m, pm_b_splat(&p->b, 0.5, &t));
  PmValueId next = pm_b_map2(&p->b, PM_S_add, half, g);
  PmValueId step = pm_b_map2(&p->b, PM_S_mul, next, pm_b_broadcast(&p->b, lr, t));
  pm_b_results(&p->b, (PmValueId[]){pm_b_map2(&p->b, PM_S_sub, w, step), next}, 2);
  return p->b.fn;
}

// logits[j, v] = table[idx] . w; the loss is the mean of tanh(logits)^2 over them, and the report their maximum.
static PmFnId add_model(Program *p, const PmVarId *vars, int32_t n) {
  program_fn(p, "model", PM_FN_MODEL);
  PmBinding *bind = PM_NEW_N(&p->arena, PmBinding, n);
  PmValueId in[8];
  for (int32_t i = 0; i < n; i++) {
    in[i] = pm_b_param(&p->b, p->m->vars[vars[i]].type, p->m->vars[vars[i]].path);
    bind[i] = (PmBinding){.var = vars[i]};
  }
  PmValueId x = pm_b_index(&p->b, in[0], in[2], p->v);
  PmValueId logits = pm_b_dot(&p->b, x, in[1], &p->k, 1);
  pm_b_name(&p->b, logits, "logits", true);
  PmValueId y = pm_b_map1(&p->b, PM_S_tanh, logits);
  PmType t = *pm_b_type(&p->b, y);
  PmAxisId axes[] = {t.dims[0].axis, t.dims[1].axis};
  PmValueId sum = pm_b_reduce(&p->b, PM_SUM, pm_b_map2(&p->b, PM_S_mul, y, y), axes, 2);
  PmValueId loss = pm_b_map2(&p->b, PM_S_div, sum, pm_b_const(&p->b, PM_F32, 6));
  pm_b_results(&p->b, (PmValueId[]){loss, pm_b_reduce(&p->b, PM_MAX, logits, axes, 2)}, 2);
  PmBinding *reports = PM_NEW_N(&p->arena, PmBinding, 2);
  reports[0] = (PmBinding){PM_NONE, pm_intern(&p->names, "loss")};
  reports[1] = (PmBinding){PM_NONE, pm_intern(&p->names, "top")};
  pm_fn(p->m, p->b.fn)->param_bind = bind;
  pm_fn(p->m, p->b.fn)->result_bind = reports;
  return p->b.fn;
}

static void training(Program *p) {
  program_init(p, 1);
  PmType table = program_type(p, 2, p->v, p->k), w = program_type(p, 2, p->k, p->i);
  const PmVarId vars[] = {add_var(p, "table", PM_ROLE_PARAM, table), add_var(p, "w", PM_ROLE_PARAM, w),
                          add_var(p, "idx", PM_ROLE_INPUT, program_index_type(p, p->v, p->j))};
  PmVarId unused = add_var(p, "unused", PM_ROLE_PARAM, w);
  const PmVarId owners[] = {vars[0], vars[1], unused};
  const char *states[] = {"table/m", "w/m", "unused/m"};
  for (int32_t i = 0; i < 3; i++) {
    PmType t = p->m->vars[owners[i]].type;
    PmVarId state = add_var(p, states[i], PM_ROLE_STATE, t);
    p->m->vars[state].owner = owners[i];
    PmFnId update = add_update(p, t);
    p->m->vars[owners[i]].update = update;
  }
  add_var(p, "step", PM_ROLE_STEP, pm_type_scalar(PM_F64));
  program_fn(p, "schedule", PM_FN_SCHEDULE);
  PmValueId at = pm_b_param(&p->b, pm_type_scalar(PM_F64), "step");
  PmValueId lr = pm_b_map2(&p->b, PM_S_div, pm_b_const(&p->b, PM_F64, 1), at);
  pm_b_results(&p->b, &lr, 1);
  p->m->schedule = p->b.fn;
  p->m->model = add_model(p, vars, 3);
  p->m->clip = 0.01;
}

static int32_t result_at(const Program *p, const char *report) {
  const PmFn *f = pm_fn(p->m, p->m->step);
  for (int32_t i = 0; i < f->n_results; i++) {
    const PmBinding *bind = &f->result_bind[i];
    const char *name = bind->var != PM_NONE ? p->m->vars[bind->var].path : bind->report;
    if (strcmp(name, report) == 0) return i;
  }
  fail_msg("the step has no result %s", report);
  return 0;
}

static int32_t param_at(const Program *p, PmFnId fn, const char *path) {
  const PmFn *f = pm_fn(p->m, fn);
  for (int32_t i = 0; i < f->n_params; i++) {
    if (strcmp(p->m->vars[f->param_bind[i].var].path, path) == 0) return i;
  }
  fail_msg("no parameter %s", path);
  return 0;
}

static void run_passes(Program *p, const char *names, bool keep_grads) {
  PmPassCtx ctx = {.verify = true, .keep_grads = keep_grads};
  PmStatus *st = pm_passes_run(&ctx, p->m, names);
  if (st) pm_status_print(st, stderr);
  assert_null(st);
  program_verify(p);
}

static double loss_with(Program *p, PmTensor *in, int32_t loss, double *x, double v) {
  double was = *x;
  *x = v;
  double got = program_run(p, p->m->step, PM_INTERP_F64, in)[loss].data[0];
  *x = was;
  return got;
}

static void test_step(void **state) {
  (void)state;
  Program p;
  training(&p);
  run_passes(&p, "simplify,differentiate,simplify", true);
  assert_int_equal(p.m->model, PM_NONE);
  PmFnId step = p.m->step;
  PmTensor *in = program_inputs(&p, step, -1, 1);
  in[param_at(&p, step, "step")].data[0] = 4;
  const PmTensor *out = program_run(&p, step, PM_INTERP_F64, in);
  assert_true(out[result_at(&p, "lr")].data[0] == 0.25);
  double square = 0;
  const char *params[] = {"table", "w", "unused"}, *states[] = {"table/m", "w/m", "unused/m"};
  const char *grads[] = {"d(table)", "d(w)", "d(unused)"};
  for (int32_t k = 0; k < 3; k++) {
    PmTensor *w = &in[param_at(&p, step, params[k])];
    const PmTensor *g = &out[result_at(&p, grads[k])];
    for (int64_t e = 0; e < w->n; e++) {
      double h = 1e-3, at = w->data[e], *x = &w->data[e];
      int32_t loss = result_at(&p, "loss");
      double d = (loss_with(&p, in, loss, x, at - 2 * h) - 8 * loss_with(&p, in, loss, x, at - h) +
                  8 * loss_with(&p, in, loss, x, at + h) - loss_with(&p, in, loss, x, at + 2 * h)) /
                 (12 * h);
      assert_true(fabs(d - g->data[e]) <= 1e-8);
      square += g->data[e] * g->data[e];
    }
  }
  double norm = sqrt(square), scale = fmin(1, 0.01 / (norm + 1e-6));
  assert_true(scale < 0.5);
  assert_true(fabs(out[result_at(&p, "grad_norm")].data[0] - norm) <= 1e-12);
  for (int32_t k = 0; k < 3; k++) {
    const PmTensor *w = &in[param_at(&p, step, params[k])], *m = &in[param_at(&p, step, states[k])];
    const PmTensor *g = &out[result_at(&p, grads[k])];
    for (int64_t e = 0; e < w->n; e++) {
      double m1 = 0.5 * m->data[e] + scale * g->data[e];
      assert_true(fabs(out[result_at(&p, states[k])].data[e] - m1) <= 1e-12);
      assert_true(fabs(out[result_at(&p, params[k])].data[e] - (w->data[e] - 0.25 * m1)) <= 1e-12);
    }
  }
  program_deinit(&p);
}

static void test_eval(void **state) {
  (void)state;
  Program p;
  training(&p);
  run_passes(&p, "differentiate,simplify", false);
  const PmFn *eval = pm_fn(p.m, p.m->eval);
  assert_int_equal(eval->n_params, 3);
  assert_int_equal(eval->n_results, 1);
  assert_string_equal(eval->result_bind[0].report, "logits");
  PmTensor *in = program_inputs(&p, p.m->step, -1, 1), *few = program_inputs(&p, p.m->eval, 0, 1);
  const char *paths[] = {"table", "w", "idx"};
  for (int32_t i = 0; i < 3; i++) few[param_at(&p, p.m->eval, paths[i])] = in[param_at(&p, p.m->step, paths[i])];
  const PmTensor *out = program_run(&p, p.m->eval, PM_INTERP_F64, few);
  double top = -INFINITY;
  for (int64_t e = 0; e < out[0].n; e++) top = fmax(top, out[0].data[e]);
  assert_true(top == program_run(&p, p.m->step, PM_INTERP_F64, in)[result_at(&p, "top")].data[0]);
  const PmFn *step = pm_fn(p.m, p.m->step);
  for (int32_t i = 0; i < step->n_results; i++) {
    assert_true(!step->result_bind[i].report || strncmp(step->result_bind[i].report, "d(", 2) != 0);
  }
  program_deinit(&p);
}

static void expect_error(Program *p, const char *passes, PmCode code, const char *part) {
  PmPassCtx ctx = {0};
  PmStatus *st = pm_passes_run(&ctx, p->m, passes);
  assert_int_equal(pm_status_code(st), code);
  if (!strstr(pm_status_message(st), part)) fail_msg("`%s` not in `%s`", part, pm_status_message(st));
  pm_status_drop(st);
}

static void test_order(void **state) {
  (void)state;
  Program p;
  training(&p);
  expect_error(&p, "simplfy", PM_ERR_USAGE, "did you mean `simplify`?");
  expect_error(&p, "simplify,", PM_ERR_USAGE, "unknown pass ``");
  expect_error(&p, "place,differentiate", PM_ERR_USAGE, "gradients are placed with their primals");
  expect_error(&p, "partition", PM_ERR_USAGE, "takes a module at stage placed");
  run_passes(&p, "", false);
  run_passes(&p, "differentiate", false);
  expect_error(&p, "differentiate", PM_ERR_INPUT, "has a training step already");
  p.m->step = p.m->model = PM_NONE;
  expect_error(&p, "differentiate", PM_ERR_INPUT, "no model");
  program_deinit(&p);
}

static void test_models_that_cannot_train(void **state) {
  (void)state;
  Program p;
  training(&p);
  PmFn *model = pm_fn(p.m, p.m->model);
  model->results[0] = model->nodes[0].out;
  expect_error(&p, "differentiate", PM_ERR_INPUT, "not one number");
  program_deinit(&p);
  training(&p);
  pm_fn(p.m, p.m->model)->param_bind[0].var = PM_NONE;
  expect_error(&p, "differentiate", PM_ERR_INPUT, "is not bound to a variable");
  program_deinit(&p);
  training(&p);
  p.m->vars[0].update = p.m->model;
  expect_error(&p, "differentiate", PM_ERR_INPUT, "is not an update of `table`");
  program_deinit(&p);
}

static void test_dump(void **state) {
  (void)state;
  Program p;
  training(&p);
  char dir[] = "/tmp/pm_dump_XXXXXX";
  assert_non_null(mkdtemp(dir));
  PmPassCtx ctx = {.dump_to = dir};
  assert_null(pm_passes_run(&ctx, p.m, "simplify,differentiate"));
  const char *names[] = {"00-simplify.pir", "01-differentiate.pir"};
  for (int32_t i = 0; i < 2; i++) {
    char *path = pm_arena_printf(&p.arena, "%s/%s", dir, names[i]);
    assert_int_equal(access(path, R_OK), 0);
    assert_int_equal(unlink(path), 0);
  }
  assert_int_equal(rmdir(dir), 0);
  ctx.dump_to = "/proc/nowhere";
  PmStatus *st = pm_passes_run(&ctx, p.m, "simplify");
  assert_int_equal(pm_status_code(st), PM_ERR_ENVIRONMENT);
  pm_status_drop(st);
  program_deinit(&p);
}

// Calls that nest deeper than the limit end in a status, whatever the order of the functions.
static void test_nesting(void **state) {
  (void)state;
  Program p;
  program_init(&p, 1);
  PmType t = program_type(&p, 0);
  PmFnId last = PM_NONE;
  for (int32_t i = 0; i < 1000; i++) {
    program_fn(&p, "f", PM_FN_COMPOSITE);
    PmValueId x = pm_b_param(&p.b, t, NULL);
    if (last != PM_NONE) x = pm_b_call(&p.b, last, &x, 1);
    pm_b_results(&p.b, &x, 1);
    last = p.b.fn;
  }
  expect_error(&p, "simplify", PM_ERR_LIMIT, "nest deeper");
  program_deinit(&p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_step), cmocka_unit_test(test_eval),    cmocka_unit_test(test_order),
      cmocka_unit_test(test_dump), cmocka_unit_test(test_nesting), cmocka_unit_test(test_models_that_cannot_train),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
