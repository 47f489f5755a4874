// Whole models, from their text: the step's gradients against central differences of its loss, for a few elements of
// every parameter.
#include <math.h>
#include <string.h>

#include "base/philox.h"
#include "frontend/frontend.h"
#include "harness.h"
#include "ir/interp.h"
#include "passes/passes.h"

typedef struct Model {
  PmArena arena, scratch;
  PmInterner names;
  PmSources sources;
  PmModule *m;
  PmTensor *in;
  int32_t loss;
} Model;

static int32_t report_at(const Model *x, const char *name) {
  const PmFn *f = pm_fn(x->m, x->m->step);
  for (int32_t i = 0; i < f->n_results; i++) {
    if (f->result_bind[i].report && strcmp(f->result_bind[i].report, name) == 0) return i;
  }
  fail_msg("no report %s", name);
  return 0;
}

// Parameters away from zero, so that every term counts; inputs anywhere.
static void fill(const Model *x, int32_t i) {
  const PmFn *f = pm_fn(x->m, x->m->step);
  const PmVar *var = &x->m->vars[f->param_bind[i].var];
  uint64_t key = pm_random_key(11, var->path);
  for (int64_t e = 0; e < x->in[i].n; e++) {
    double u = pm_random_uniform(key, 0, (uint64_t)e);
    bool index = var->type.index_of != PM_NONE;
    double input = index ? floor(u * (double)pm_axis_size(x->m, var->type.index_of)) : u;
    x->in[i].data[e] = var->role == PM_ROLE_PARAM   ? 0.4 * u - 0.2
                       : var->role == PM_ROLE_INPUT ? input
                       : var->role == PM_ROLE_STEP  ? 1
                                                    : 0;
  }
}

static void model_init(Model *x, const char *path) {
  memset(x, 0, sizeof *x);
  pm_arena_init(&x->arena, 0);
  pm_arena_init(&x->scratch, 0);
  pm_interner_init(&x->names, &x->arena);
  pm_sources_init(&x->sources, &x->arena);
  PmDiags *diags = pm_diags_new(&x->arena, &x->sources);
  PmFrontendOptions options = {.seed = -1};
  PmStatus *st = pm_frontend_compile(&x->arena, &x->names, &x->sources, diags, path, &options, &x->m);
  PmPassCtx ctx = {.diags = diags, .sources = &x->sources, .verify = true, .keep_grads = true};
  if (!st) st = pm_passes_run(&ctx, x->m, "simplify,differentiate,simplify");
  pm_diags_print(diags, false, stderr);
  if (st) pm_status_print(st, stderr);
  assert_null(st);
  const PmFn *f = pm_fn(x->m, x->m->step);
  x->in = PM_NEW_N(&x->arena, PmTensor, f->n_params);
  for (int32_t i = 0; i < f->n_params; i++) {
    x->in[i] = pm_tensor_new(&x->arena, x->m, &f->values[i].type);
    fill(x, i);
  }
  x->loss = report_at(x, "loss");
}

static double loss_at(Model *x, double *at, double v) {
  PmTensor *out = PM_NEW_N(&x->scratch, PmTensor, pm_fn(x->m, x->m->step)->n_results);
  double was = *at;
  *at = v;
  assert_null(pm_interp_run(x->m, x->m->step, PM_INTERP_F64, &x->scratch, x->in, out));
  *at = was;
  double loss = out[x->loss].data[0];
  pm_arena_reset(&x->scratch);
  return loss;
}

static void check_model(const char *name) {
  Model x;
  model_init(&x, name);
  const PmFn *f = pm_fn(x.m, x.m->step);
  PmTensor *out = PM_NEW_N(&x.arena, PmTensor, f->n_results);
  assert_null(pm_interp_run(x.m, x.m->step, PM_INTERP_F64, &x.arena, x.in, out));
  for (int32_t i = 0; i < f->n_params; i++) {
    const PmVar *var = &x.m->vars[f->param_bind[i].var];
    if (var->role != PM_ROLE_PARAM) continue;
    const PmTensor *g = &out[report_at(&x, pm_arena_printf(&x.arena, "d(%s)", var->path))];
    double largest = 1e-3;
    for (int64_t e = 0; e < g->n; e++) largest = fmax(largest, fabs(g->data[e]));
    for (uint64_t k = 0; k < 2; k++) {
      int64_t e = (int64_t)(pm_random_u32(5, k, (uint64_t)i) % (uint64_t)g->n);
      double h = 1e-3, *at = &x.in[i].data[e], v = *at;
      double d = (loss_at(&x, at, v - 2 * h) - 8 * loss_at(&x, at, v - h) + 8 * loss_at(&x, at, v + h) -
                  loss_at(&x, at, v + 2 * h)) /
                 (12 * h);
      if (!(fabs(d - g->data[e]) <= 1e-6 * largest))
        fail_msg("%s[%lld]: %g, not %g", var->path, (long long)e, g->data[e], d);
    }
  }
  pm_arena_deinit(&x.scratch);
  pm_arena_deinit(&x.arena);
}

static void test_gpt2(void **state) {
  (void)state;
  check_model(PM_SOURCE_DIR "/tests/recorded/gpt2_tiny.pmodel");
}

static void test_llama(void **state) {
  (void)state;
  check_model(PM_SOURCE_DIR "/tests/recorded/llama_tiny.pmodel");
}

// The draws are the same in every run of a step, so that differences see a fixed function.
static void test_dropout(void **state) {
  (void)state;
  check_model(PM_SOURCE_DIR "/examples/mlp_dropout.pmodel");
}

static void test_classifier(void **state) {
  (void)state;
  check_model(PM_SOURCE_DIR "/examples/classifier.pmodel");
}

static void test_autoencoder(void **state) {
  (void)state;
  check_model(PM_SOURCE_DIR "/examples/autoencoder.pmodel");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_gpt2), cmocka_unit_test(test_llama),
                                     cmocka_unit_test(test_dropout), cmocka_unit_test(test_classifier),
                                     cmocka_unit_test(test_autoencoder)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
