// Backward functions in two parts compute what they computed as one, bit for bit, and make no product or sum twice.
#include <math.h>
#include <string.h>

#include "base/philox.h"
#include "frontend/frontend.h"
#include "passes/passes.h"
#include "passes/split.h"
#include "program.h"

static void same_bits(const PmTensor *a, const PmTensor *b) {
  assert_true(pm_type_equal(&a->type, &b->type));
  assert_int_equal(a->n, b->n);
  for (int64_t i = 0; i < a->n; i++)
    if (!(a->data[i] == b->data[i] || (isnan(a->data[i]) && isnan(b->data[i]))))
      fail_msg("element %lld: %a, not %a", (long long)i, a->data[i], b->data[i]);
}

// Nodes that are not pointwise work or views, as often as they run.
static double heavy(const PmModule *m, PmFnId fn) {
  const PmFn *f = pm_fn(m, fn);
  double n = 0;
  for (int32_t i = 0; i < f->n_nodes; i++) {
    const PmNode *node = &f->nodes[i];
    if (!pm_is_call(node)) {
      n += node->op != PM_OP_map && !(pm_op_flags(node->op) & (PM_F_LINEAR | PM_F_EXACT | PM_F_DRAW));
      continue;
    }
    const int64_t turns = node->op == PM_OP_repeat ? pm_axis_size(m, node->attr.axes[0]) : 1;
    n += (double)turns * heavy(m, node->attr.callee);
  }
  return n;
}

// ---- random functions ----------------------------------------------------------------------------------------------
// The parts of `bwd` on the operands of the whole; out: its results.
static void run_parts(Program *p, const PmHalves *h, PmInterpMode mode, const PmTensor *in, PmTensor *out) {
  const PmFn *f = pm_fn(p->m, h->fn);
  PmTensor *args = PM_NEW_N(&p->arena, PmTensor, f->n_params + h->n_handed + 1);
  int32_t n = 0, n_input = 0;
  for (int32_t i = 0; i < f->n_params; i++)
    if (h->input_takes[i]) args[n++] = in[i];
  assert_int_equal(pm_fn(p->m, h->input)->n_params, n);
  const PmTensor *first = program_run(p, h->input, mode, args);
  for (int32_t r = 0; r < f->n_results; r++)
    if (h->is_input[r]) out[r] = first[n_input++];
  n = 0;
  for (int32_t i = 0; i < f->n_params; i++)
    if (h->weight_takes[i]) args[n++] = in[i];
  for (int32_t i = 0; i < h->n_handed; i++) args[n++] = first[n_input + i];
  assert_int_equal(pm_fn(p->m, h->weight)->n_params, n);
  const PmTensor *second = program_run(p, h->weight, mode, args);
  n = 0;
  for (int32_t r = 0; r < f->n_results; r++)
    if (!h->is_input[r]) out[r] = second[n++];
}

// The same function's whole backward against central differences, which the parts are then as good as.
static void check_differences(uint64_t seed) {
  Program p;
  program_init(&p, seed << 20);
  program_check_gradients(&p, program_random_fn(&p, 16, 2, false), true, -1, 1, 1e-6);
  program_deinit(&p);
}

// Splits the backward function of random programs in many ways; how many were not empty.
static int32_t check_random(uint64_t seed) {
  Program p;
  program_init(&p, seed << 20);
  PmFnId fn = program_random_fn(&p, 16, 2, false);
  const PmFn *f = pm_fn(p.m, fn);
  bool *active = PM_NEW_N(&p.arena, bool, f->n_params);
  for (int32_t i = 0; i < f->n_params; i++) active[i] = pm_dtype_is_float((PmDtype)f->values[i].type.dtype);
  const PmGradPair *pair;
  assert_null(pm_differentiate_fn(p.m, &p.arena, fn, active, true, &pair));
  const PmNode call = {.op = PM_OP_call, .attr.callee = pair->bwd};
  const int32_t n_results = pm_fn(p.m, pair->bwd)->n_results;
  const PmTensor *in = program_inputs(&p, pair->bwd, -1, 1);
  if (seed % 8 == 0) check_differences(seed);
  const double work = heavy(p.m, pair->bwd);
  int32_t n = 0;
  for (int32_t round = 0; round < 4; round++) {
    bool *wanted = PM_NEW_N(&p.arena, bool, n_results + 1);
    for (int32_t r = 0; r < n_results; r++) wanted[r] = round > 0 && program_below(&p, 2);
    PmHalves *h;
    assert_null(pm_split_plan(p.m, &p.arena, &call, wanted, &h));
    if (!h) continue;
    n++;
    pm_split_build(p.m, &p.arena, h);
    program_verify(&p);
    assert_true(heavy(p.m, h->input) + heavy(p.m, h->weight) <= work);
    for (int32_t mode = 0; mode < 2; mode++) {
      PmTensor *got = PM_NEW_N(&p.arena, PmTensor, n_results + 1);
      const PmTensor *want = program_run(&p, pair->bwd, mode ? PM_INTERP_F64 : PM_INTERP_EXACT, in);
      run_parts(&p, h, mode ? PM_INTERP_F64 : PM_INTERP_EXACT, in, got);
      for (int32_t r = 0; r < n_results; r++) same_bits(&got[r], &want[r]);
    }
  }
  program_deinit(&p);
  return n;
}

static void test_random(void **state) {
  (void)state;
  int32_t n = 0;
  for (uint64_t seed = 1; seed <= 150; seed++) n += check_random(seed);
  assert_true(n >= 150);
}

// ---- the cut -------------------------------------------------------------------------------------------------------
// y = exp(x) broadcast and used in both parts: the narrow value is handed on, and what is made of it made again.
static void test_narrow_is_handed(void **state) {
  (void)state;
  Program p;
  program_init(&p, 1);
  program_fn(&p, "f.bwd", PM_FN_BODY);
  const PmType row = program_type(&p, 1, p.j), all = program_type(&p, 2, p.j, p.k);
  PmValueId x = pm_b_param(&p.b, all, "x"), w = pm_b_param(&p.b, all, "w");
  PmValueId sum = pm_b_reduce(&p.b, PM_SUM, x, &p.k, 1);
  PmValueId wide = pm_b_broadcast(&p.b, pm_b_map1(&p.b, PM_S_exp, sum), all);
  PmValueId dx = pm_b_map2(&p.b, PM_S_mul, wide, x);
  PmValueId dw = pm_b_dot(&p.b, pm_b_map2(&p.b, PM_S_mul, wide, w), w, &p.k, 1);
  pm_b_results(&p.b, (PmValueId[]){dx, dw}, 2);
  const PmNode call = {.op = PM_OP_call, .attr.callee = p.b.fn};
  PmHalves *h;
  assert_null(pm_split_plan(p.m, &p.arena, &call, (bool[]){true, false}, &h));
  assert_non_null(h);
  assert_int_equal(h->n_handed, 1);
  for (PmValueId v = 0; v < h->n_values; v++)
    if (h->handed[v]) assert_true(pm_type_equal(&h->types[v], &row));
  assert_true(h->input_takes[x] && !h->input_takes[w]);
  assert_true(!h->weight_takes[x] && h->weight_takes[w]);
  // Nothing for one of the parts: the call stays whole.
  assert_null(pm_split_plan(p.m, &p.arena, &call, (bool[]){false, false}, &h));
  assert_null(h);
  assert_null(pm_split_plan(p.m, &p.arena, &call, (bool[]){true, true}, &h));
  assert_null(h);
  program_deinit(&p);
}

// ---- examples ------------------------------------------------------------------------------------------------------
typedef struct Example {
  const char *name;
  const char *set[8];
} Example;

static const Example examples[] = {
    {"deepseek_moe_tiny", {"axis.seq=6", "axis.vocab=32"}},
    {"gpt2", {"axis.batch=2", "axis.seq=5", "axis.vocab=32", "axis.layer=3", "axis.embed=24"}},
    {"gpt_tiny", {"axis.batch=2", "axis.seq=5", "axis.vocab=32", "axis.embed=32"}},
    {"llama3_8b",
     {"axis.batch=2", "axis.seq=5", "axis.vocab=32", "axis.layer=2", "axis.embed=16", "axis.ff=24", "axis.hdim=4"}},
    {"llama_tiny", {"axis.batch=2", "axis.seq=6", "axis.vocab=32"}},
    {"mixtral_8x7b",
     {"axis.batch=2", "axis.seq=5", "axis.vocab=32", "axis.layer=2", "axis.embed=16", "axis.ff=24", "axis.hdim=4"}},
    {"mixtral_tiny", {"axis.batch=2", "axis.seq=6", "axis.vocab=32"}},
    {"mlp", {"axis.batch=3", "axis.seq=5", "axis.vocab=32"}},
    {"mlp_dropout", {"axis.batch=3", "axis.seq=5", "axis.vocab=32"}},
};

typedef struct Model {
  PmArena arena;
  PmInterner names;
  PmSources sources;
  PmModule *m;
} Model;

static void model_init(Model *x, const Example *e, const char *passes) {
  memset(x, 0, sizeof *x);
  pm_arena_init(&x->arena, 0);
  pm_interner_init(&x->names, &x->arena);
  pm_sources_init(&x->sources, &x->arena);
  PmDiags *diags = pm_diags_new(&x->arena, &x->sources);
  PmFrontendOptions options = {.seed = -1, .set = e->set};
  while (options.n_set < 8 && e->set[options.n_set]) options.n_set++;
  const char *path = pm_arena_printf(&x->arena, PM_SOURCE_DIR "/examples/%s.pmodel", e->name);
  PmStatus *st = pm_frontend_compile(&x->arena, &x->names, &x->sources, diags, path, &options, &x->m);
  PmPassCtx ctx = {.diags = diags, .sources = &x->sources, .verify = true, .keep_grads = true};
  if (!st) st = pm_passes_run(&ctx, x->m, passes);
  pm_diags_print(diags, false, stderr);
  if (st) pm_status_print(st, stderr);
  assert_null(st);
}

static const PmTensor *run_step(Model *x) {
  const PmFn *f = pm_fn(x->m, x->m->step);
  PmTensor *in = PM_NEW_N(&x->arena, PmTensor, f->n_params), *out = PM_NEW_N(&x->arena, PmTensor, f->n_results);
  for (int32_t i = 0; i < f->n_params; i++) {
    const PmVar *var = &x->m->vars[f->param_bind[i].var];
    const uint64_t key = pm_random_key(11, var->path);
    in[i] = pm_tensor_new(&x->arena, x->m, &var->type);
    if (var->init != PM_INIT_NONE) pm_var_init(x->m, f->param_bind[i].var, 3, in[i].data);
    for (int64_t e = 0; e < in[i].n; e++) {
      if (var->role == PM_ROLE_STEP) in[i].data[e] = 2;
      if (var->role == PM_ROLE_INPUT) in[i].data[e] = pm_random_u32(key, 0, (uint64_t)e) % 32;
    }
  }
  assert_null(pm_interp_run(x->m, x->m->step, PM_INTERP_EXACT, &x->arena, in, out));
  return out;
}

static int32_t count_parts(const PmModule *m, const char *suffix) {
  int32_t n = 0;
  for (PmFnId fn = 0; fn < m->n_fns; fn++) {
    const char *name = pm_fn(m, fn)->name;
    const size_t len = strlen(name), tail = strlen(suffix);
    n += !pm_fn(m, fn)->dead && len >= tail && strcmp(name + len - tail, suffix) == 0;
  }
  return n;
}

static void test_examples(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
    Model whole, parts;
    model_init(&whole, &examples[i], "simplify,differentiate,simplify,masters");
    model_init(&parts, &examples[i], "simplify,differentiate,simplify,masters,split_backward,simplify");
    assert_true(heavy(whole.m, whole.m->step) == heavy(parts.m, parts.m->step));
    // mlp has no layers: its backward is all gradients of parameters.
    const int32_t n = strcmp(examples[i].name, "mlp") == 0 ? 0 : 2;
    assert_int_equal(count_parts(parts.m, ".bwd_input"), n);
    assert_int_equal(count_parts(parts.m, ".bwd_weight"), n);
    const int32_t n_results = pm_fn(whole.m, whole.m->step)->n_results;
    assert_int_equal(pm_fn(parts.m, parts.m->step)->n_results, n_results);
    const PmTensor *want = run_step(&whole), *got = run_step(&parts);
    for (int32_t r = 0; r < n_results; r++) same_bits(&got[r], &want[r]);
    pm_arena_deinit(&whole.arena);
    pm_arena_deinit(&parts.arena);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_random), cmocka_unit_test(test_narrow_is_handed),
                                     cmocka_unit_test(test_examples)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
