// Random numbers: what a program draws is base/philox.h's, by seed, path, step and global index; evaluation draws
// nothing.
#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "base/philox.h"
#include "frontend/frontend.h"
#include "harness.h"
#include "ir/interp.h"
#include "passes/passes.h"

enum { B = 3, D = 5, L = 4 };

typedef struct Program {
  PmArena arena;
  PmInterner names;
  PmSources sources;
  PmModule *m;
} Program;

#define HEAD "pmodel 1\nimport \"std\"\naxis b = 3, d = 5, layer = 4\n"
#define TRAIN "train {\n  optimizer = sgd()\n  lr = constant(0.1)\n  steps = 3\n  seed = 11\n}\n"

static void program_init(Program *x, const char *text, const char *passes) {
  memset(x, 0, sizeof *x);
  pm_arena_init(&x->arena, 0);
  pm_interner_init(&x->names, &x->arena);
  pm_sources_init(&x->sources, &x->arena);
  PmDiags *diags = pm_diags_new(&x->arena, &x->sources);
  FILE *f = fopen("random.pmodel", "w");
  assert_non_null(f);
  fputs(text, f);
  fclose(f);
  PmFrontendOptions options = {.seed = -1};
  PmStatus *st = pm_frontend_compile(&x->arena, &x->names, &x->sources, diags, "random.pmodel", &options, &x->m);
  PmPassCtx ctx = {.diags = diags, .sources = &x->sources, .verify = true};
  if (!st) st = pm_passes_run(&ctx, x->m, passes);
  pm_diags_print(diags, false, stderr);
  if (st) pm_status_print(st, stderr);
  assert_null(st);
}

static uint64_t key_of(uint64_t seed, const char *stream) {
  int64_t index = (int64_t)(pm_hash64(stream, strlen(stream), 0) >> 1);
  return pm_hash64(&index, sizeof index, seed);
}

// x = ones but for one element that the weights single out: the loss is that element's factor.
static double factor_at(Program *x, int64_t element, double step) {
  const PmFn *f = pm_fn(x->m, x->m->model);
  PmTensor in[4], out[2];
  for (int32_t i = 0; i < f->n_params; i++) {
    in[i] = pm_tensor_new(&x->arena, x->m, &f->values[i].type);
    const PmVar *var = &x->m->vars[f->param_bind[i].var];
    if (var->role == PM_ROLE_STEP) in[i].data[0] = step;
    if (var->role == PM_ROLE_PARAM) in[i].data[element] = 1;
  }
  assert_null(pm_interp_run(x->m, x->m->model, PM_INTERP_F64, &x->arena, in, out));
  return out[0].data[0];
}

static double expected(uint64_t key, double step, int64_t index, double p) {
  return pm_random_uniform(key, (uint64_t)step, (uint64_t)index) < p ? 0 : 1 / (1 - p);
}

static void values_of_each_step(void **state) {
  (void)state;
  Program x;
  program_init(&x, HEAD "model m {\n  param w[b, d] ~ ones\n  minimize sum[b, d](dropout(w, 0.4))\n}\n" TRAIN,
               "simplify");
  for (int32_t step = 1; step <= 3; step++) {
    for (int64_t i = 0; i < B * D; i++) {
      assert_true(fabs(factor_at(&x, i, step) - expected(key_of(11, "#0"), step, i, 0.4)) < 1e-12);
    }
  }
  pm_arena_deinit(&x.arena);
}

// Each turn of a repeat draws its own numbers, and so does each call of `dropout`.
static void turns_and_ordinals(void **state) {
  (void)state;
  Program x;
  program_init(&x,
               HEAD
               "model m {\n  param w[b, d] ~ ones\n  h = w\n"
               "  repeat layer {\n    h = dropout(dropout(h, 0.2), 0.3)\n  }\n"
               "  minimize sum[b, d](h)\n}\n" TRAIN,
               "simplify");
  for (int64_t i = 0; i < B * D; i++) {
    double want = 1;
    for (int64_t turn = 0; turn < L; turn++) {
      want *= expected(key_of(11, "layer#0"), 2, turn * B * D + i, 0.2);
      want *= expected(key_of(11, "layer#1"), 2, turn * B * D + i, 0.3);
    }
    assert_true(fabs(factor_at(&x, i, 2) - want) < 1e-12 * (1 + want));
  }
  pm_arena_deinit(&x.arena);
}

static bool draws(const PmModule *m, PmFnId id) {
  const PmFn *f = pm_fn(m, id);
  for (int32_t i = 0; i < f->n_nodes; i++) {
    uint32_t flags = pm_op_flags(f->nodes[i].op);
    if ((flags & PM_F_DRAW) || ((flags & PM_F_CALL) && draws(m, f->nodes[i].attr.callee))) return true;
  }
  return false;
}

static double logit(Program *x, int32_t *out_params) {
  const PmFn *f = pm_fn(x->m, x->m->eval);
  PmTensor in[8], out[1];
  *out_params = f->n_params;
  for (int32_t i = 0; i < f->n_params; i++) {
    in[i] = pm_tensor_new(&x->arena, x->m, &f->values[i].type);
    for (int64_t e = 0; e < in[i].n; e++) in[i].data[e] = 0.25 + 0.5 * (double)e;
  }
  assert_null(pm_interp_run(x->m, x->m->eval, PM_INTERP_F64, &x->arena, in, out));
  return out[0].data[0];
}

#define NET(body)                                                                       \
  HEAD "model m {\n  param w[d], v[d] ~ ones\n  h = w\n  repeat layer {\n    h = " body \
       "\n  }\n"                                                                        \
       "  logits = h * v\n  minimize sum[d](logits)\n}\n" TRAIN

static void evaluation_has_none(void **state) {
  (void)state;
  Program with, without;
  int32_t n_with, n_without;
  program_init(&with, NET("1.1 * dropout(h, 0.5)"), "simplify,differentiate,simplify");
  program_init(&without, NET("1.1 * h"), "simplify,differentiate,simplify");
  assert_true(draws(with.m, with.m->step));
  assert_false(draws(with.m, with.m->eval));
  double a = logit(&with, &n_with), b = logit(&without, &n_without);
  assert_true(fabs(a - b) < 1e-12);
  pm_arena_deinit(&with.arena);
  pm_arena_deinit(&without.arena);
}

// A rate of 0 is no dropout at all.
static void rate_zero(void **state) {
  (void)state;
  Program x;
  program_init(&x, HEAD "model m {\n  param w[b] ~ ones\n  minimize sum[b](dropout(w, 0.0))\n}\n" TRAIN, "simplify");
  assert_false(draws(x.m, x.m->model));
  pm_arena_deinit(&x.arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(values_of_each_step),
      cmocka_unit_test(turns_and_ordinals),
      cmocka_unit_test(evaluation_has_none),
      cmocka_unit_test(rate_zero),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
