// Masters and working copies: the step computes the same bits as without them, and only parameters that are read in one
// narrower type are split.
#include <string.h>

#include "base/half.h"
#include "base/philox.h"
#include "frontend/frontend.h"
#include "harness.h"
#include "ir/interp.h"
#include "ir/text.h"
#include "passes/passes.h"

#define WITHOUT "simplify,differentiate,simplify"
#define WITH WITHOUT ",masters"

typedef struct Model {
  PmArena arena;
  PmInterner names;
  PmSources sources;
  PmDiags *diags;
  PmModule *m;
  double *values[256];  // by variable
} Model;

static const char mixed_text[] =
    "pmodel 1\nimport \"std\"\naxis batch = 2, seq = 3, vocab = 5, layer = 2, embed = 4, ff = 6\n"
    "block mlp(x) {\n  param w1[embed, ff], w2[ff, embed] ~ normal(0.5)\n  param nb[embed] ~ zeros\n"
    "  return dot[ff](tanh(dot[embed](x, w1)), w2) + nb\n}\n"
    "block scaled(x, w) {\n  param s[embed] ~ uniform(0.7)\n  return x * w * s\n}\n"
    "model m {\n  input tokens[batch, seq] in vocab\n  input targets[batch, seq] in vocab\n"
    "  param table[vocab, embed] ~ normal(0.5)\n  param mix[embed] ~ ones\n  x = table[vocab = tokens]\n"
    "  repeat layer {\n    sub f = mlp\n    x += f(x)\n  }\n  sub g = scaled\n  y = g(x, mix) * mix\n"
    "  logits = dot[embed](y, table)\n  minimize mean[batch, seq](xent[vocab](logits, targets))\n}\n"
    "policy { compute = bf16; \"mix\": compute = f32; \"*.nb\": compute = f32; \"g\": compute = bf16 }\n"
    "train { optimizer = adamw(); lr = 1e-2; clip = 0.1 }\n";

static PmStatus *run_passes(Model *x, const char *passes) {
  PmPassCtx ctx = {.diags = x->diags, .sources = &x->sources, .verify = true, .keep_grads = true};
  return pm_passes_run(&ctx, x->m, passes);
}

static void model_init(Model *x, const char *text, const char *passes) {
  memset(x, 0, sizeof *x);
  pm_arena_init(&x->arena, 0);
  pm_interner_init(&x->names, &x->arena);
  pm_sources_init(&x->sources, &x->arena);
  x->diags = pm_diags_new(&x->arena, &x->sources);
  PmFrontendOptions options = {.seed = -1};
  PmStatus *st = pm_frontend_compile_text(&x->arena, &x->names, &x->sources, x->diags, "m.pmodel", text, strlen(text),
                                          &options, &x->m);
  if (!st) st = run_passes(x, passes);
  pm_diags_print(x->diags, false, stderr);
  if (st) pm_status_print(st, stderr);
  assert_null(st);
}

static int64_t elements(const PmModule *m, PmVarId v) {
  int64_t n;
  assert_true(pm_type_elements(m, &m->vars[v].type, &n));
  return n;
}

static void init_values(Model *x) {
  assert_true(x->m->n_vars < 256);
  for (PmVarId v = 0; v < x->m->n_vars; v++) {
    const PmVar *var = &x->m->vars[v];
    const uint64_t key = pm_random_key(5, var->path);
    x->values[v] = PM_NEW_N(&x->arena, double, elements(x->m, v));
    if (var->init != PM_INIT_NONE) pm_var_init(x->m, v, 3, x->values[v]);
    for (int64_t i = 0; var->role == PM_ROLE_INPUT && i < elements(x->m, v); i++)
      x->values[v][i] = pm_random_u32(key, 0, (uint64_t)i) % 5;
    if (var->role == PM_ROLE_STEP) x->values[v][0] = 1;
  }
}

// Runs an entry function on the variables' values; results that are bound to variables become these at the end.
static const PmTensor *run(Model *x, PmFnId fn) {
  const PmFn *f = pm_fn(x->m, fn);
  PmTensor *in = PM_NEW_N(&x->arena, PmTensor, f->n_params + 1), *out = PM_NEW_N(&x->arena, PmTensor, f->n_results + 1);
  for (int32_t i = 0; i < f->n_params; i++) {
    in[i] = pm_tensor_new(&x->arena, x->m, &f->values[i].type);
    memcpy(in[i].data, x->values[f->param_bind[i].var], (size_t)in[i].n * sizeof(double));
  }
  assert_null(pm_interp_run(x->m, fn, PM_INTERP_EXACT, &x->arena, in, out));
  for (int32_t i = 0; i < f->n_results; i++)
    if (f->result_bind[i].var != PM_NONE)
      memcpy(x->values[f->result_bind[i].var], out[i].data, (size_t)out[i].n * sizeof(double));
  return out;
}

static PmVarId find(const Model *x, const char *path) {
  const PmVarId v = pm_module_find_var(x->m, path);
  if (v == PM_NONE) fail_msg("no variable %s", path);
  return v;
}

// Each variable of `one` is in `two`, or its master is, bit for bit; copies are the casts of their masters.
static void same_values(const Model *one, const Model *two) {
  for (PmVarId v = 0; v < one->m->n_vars; v++) {
    const PmVarId copy = find(two, one->m->vars[v].path), master = pm_var_master(two->m, copy);
    const double *want = one->values[v], *got = two->values[master == PM_NONE ? copy : master];
    for (int64_t i = 0; i < elements(one->m, v); i++) {
      assert_true(want[i] == got[i]);
      if (master != PM_NONE) assert_true(two->values[copy][i] == (double)pm_bf16_round(want[i]));
    }
  }
}

static void same_reports(const Model *one, const PmTensor *a, const Model *two, const PmTensor *b) {
  const PmFn *f = pm_fn(one->m, one->m->step), *g = pm_fn(two->m, two->m->step);
  int32_t found = 0;
  for (int32_t i = 0; i < f->n_results; i++) {
    for (int32_t k = 0; f->result_bind[i].report && k < g->n_results; k++) {
      if (!g->result_bind[k].report || strcmp(g->result_bind[k].report, f->result_bind[i].report) != 0) continue;
      found++;
      assert_int_equal(a[i].type.dtype, b[k].type.dtype);
      assert_memory_equal(a[i].data, b[k].data, (size_t)a[i].n * sizeof(double));
    }
  }
  assert_int_equal(found, 3 + 6);  // loss, norm, rate; six gradients
}

static void test_same_step(void **state) {
  (void)state;
  Model one, two;
  model_init(&one, mixed_text, WITHOUT);
  model_init(&two, mixed_text, WITH);
  init_values(&one);
  init_values(&two);
  same_values(&one, &two);
  for (int32_t step = 1; step <= 3; step++) {
    one.values[find(&one, "step")][0] = two.values[find(&two, "step")][0] = step;
    const PmTensor *a = run(&one, one.m->step), *b = run(&two, two.m->step);
    same_reports(&one, a, &two, b);
    same_values(&one, &two);
    const PmTensor *p = run(&one, one.m->eval), *q = run(&two, two.m->eval);
    assert_memory_equal(p[0].data, q[0].data, (size_t)p[0].n * sizeof(double));
  }
  pm_arena_deinit(&one.arena);
  pm_arena_deinit(&two.arena);
}

static void test_which(void **state) {
  (void)state;
  static const char *const split[] = {"table", "layer.f.w1", "layer.f.w2", "g.s"}, *const whole[] = {"mix",
                                                                                                     "layer.f.nb"};
  Model x;
  model_init(&x, mixed_text, WITH);
  for (int32_t i = 0; i < 4; i++) {
    const PmVarId v = find(&x, split[i]), master = pm_var_master(x.m, v);
    assert_int_not_equal(master, PM_NONE);
    const PmVar *copy = &x.m->vars[v], *of = &x.m->vars[master];
    assert_true(copy->role == PM_ROLE_PARAM && copy->type.dtype == PM_BF16 && copy->grad == PM_F32);
    assert_true(of->role == PM_ROLE_STATE && of->type.dtype == PM_F32 && of->owner == v && of->update == PM_NONE);
    assert_string_equal(of->path, pm_arena_printf(&x.arena, "%s/master", split[i]));
  }
  for (int32_t i = 0; i < 2; i++) {
    assert_int_equal(pm_var_master(x.m, find(&x, whole[i])), PM_NONE);
    assert_int_equal(x.m->vars[find(&x, whole[i])].type.dtype, PM_F32);
  }
  pm_arena_deinit(&x.arena);
}

// The products and sums that make the gradients of working copies are not rounded to the narrow type.
static void test_gradients_are_wide(void **state) {
  (void)state;
  Model x;
  model_init(&x, mixed_text, WITH);
  int32_t products = 0;
  for (PmFnId id = 0; id < x.m->n_fns; id++) {
    const PmFn *f = pm_fn(x.m, id);
    for (int32_t i = 0; !f->dead && i < f->n_nodes; i++) {
      const PmNode *n = &f->nodes[i];
      const char *name = n->n_out > 0 ? f->values[n->out].name : NULL;
      const bool of_param = name && (strstr(name, ".w1)") || strstr(name, ".w2)") || strcmp(name, "d(table)") == 0);
      if (!of_param) continue;
      assert_int_equal(f->values[n->out].type.dtype, PM_F32);
      if (n->op != PM_OP_dot) continue;
      products++;
      assert_int_equal(f->values[n->in[0]].type.dtype, PM_BF16);
    }
  }
  assert_int_equal(products, 2);
  pm_arena_deinit(&x.arena);
}

static void test_nothing_to_do(void **state) {
  (void)state;
  static const char *const policies[] = {"", "policy { param = bf16; compute = bf16 }\n", "policy { param = bf16 }\n"};
  for (int32_t i = 0; i < 3; i++) {
    Model x;
    char text[4096];
    snprintf(text, sizeof text, "%s", mixed_text);
    char *at = strstr(text, "policy"), *train = strstr(mixed_text, "train");
    snprintf(at, sizeof text - (size_t)(at - text), "%s%s", policies[i], train);
    model_init(&x, text, WITHOUT);
    PmBuf before, after;
    pm_buf_init(&before);
    pm_buf_init(&after);
    pm_module_print(x.m, &before);
    assert_null(run_passes(&x, "masters"));
    pm_module_print(x.m, &after);
    assert_string_equal(pm_buf_str(&before), pm_buf_str(&after));
    pm_buf_deinit(&before);
    pm_buf_deinit(&after);
    pm_arena_deinit(&x.arena);
  }
}

static void test_again_and_taken(void **state) {
  (void)state;
  Model x;
  model_init(&x, mixed_text, WITH);
  const int32_t n = x.m->n_vars;
  assert_null(run_passes(&x, "masters"));
  assert_int_equal(x.m->n_vars, n);
  pm_arena_deinit(&x.arena);
  model_init(&x, mixed_text, WITHOUT);
  PmVar taken = x.m->vars[find(&x, "table")];
  taken.path = pm_intern(&x.names, "table/master");
  pm_module_add_var(x.m, taken);
  PmStatus *st = run_passes(&x, "masters");
  assert_int_equal(pm_status_code(st), PM_ERR_INPUT);
  assert_non_null(strstr(pm_status_message(st), "`table/master` stands in the module already"));
  pm_status_drop(st);
  pm_arena_deinit(&x.arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_step), cmocka_unit_test(test_which),
                                     cmocka_unit_test(test_gradients_are_wide), cmocka_unit_test(test_nothing_to_do),
                                     cmocka_unit_test(test_again_and_taken)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
