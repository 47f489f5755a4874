// `pmodel verify` on a plan that computes something else: the first value that differs is named, with its line and
// placement. The fault is put into the module of the plan: one node adds where it should subtract.
#include <string.h>

#include "frontend/frontend.h"
#include "harness.h"
#include "ir/interp.h"
#include "tools/bisect.h"
#include "tools/random_plans.h"

static const char program[] =
    "pmodel 1\n"
    "import \"std\"\n"
    "axis batch = 4, embed = 6, ff = 8, layer = 3\n"
    "model m {\n"
    "  input x[batch, embed] : f32\n"
    "  param w[embed] ~ normal(0.5)\n"
    "  y = x * w\n"
    "  repeat layer {\n"
    "    param w1[embed, ff], w2[ff, embed] ~ normal(0.5)\n"
    "    param b[ff] ~ uniform(0.5)\n"
    "    a = dot[embed](y, w1)\n"
    "    h = a + b\n"
    "    y += dot[ff](tanh(h), w2)\n"
    "  }\n"
    "  z = y - w\n"
    "  minimize mean[batch, embed](z * z)\n"
    "}\n"
    "train { optimizer = sgd(); lr = constant(1e-3) }\n"
    "plan p { mesh data=2, tensor=2\n"
    "  shard batch -> data\n"
    "  shard ff -> tensor\n"
    "}\n";

typedef struct Sides {
  PmTool tool;
  PmModule *plan, *reference;
  double **vars;
} Sides;

static void open_sides(Sides *s) {
  *s = (Sides){.tool = {.opt = {.target = "cpu", .threads = 1, .plan = "p"}}};
  PmTool *t = &s->tool;
  pm_arena_init(&t->arena, 0);
  pm_interner_init(&t->names, &t->arena);
  pm_sources_init(&t->sources, &t->arena);
  t->diags = pm_diags_new(&t->arena, &t->sources);
  t->passes = (PmPassCtx){.diags = t->diags, .sources = &t->sources, .verify = true};
  PmFrontendOptions options = {.plan = "p", .seed = -1};
  PmStatus *st = pm_frontend_compile_text(&t->arena, &t->names, &t->sources, t->diags, "m.pmodel", program,
                                          strlen(program), &options, &s->plan);
  if (st) pm_diags_print(t->diags, false, stderr);
  assert_null(st);
  s->reference = pm_module_clone(s->plan, &t->arena);
  const PmModule *m = s->reference;
  s->vars = (double **)pm_arena_alloc_n(&t->arena, (size_t)m->n_vars + 1, sizeof *s->vars);
  for (PmVarId v = 0; v < m->n_vars; v++) {
    int64_t n;
    assert_true(pm_type_elements(m, &m->vars[v].type, &n));
    s->vars[v] = PM_NEW_N(&t->arena, double, n);
    if (m->vars[v].init != PM_INIT_NONE) pm_var_init(m, v, 5, s->vars[v]);
    for (int64_t i = 0; m->vars[v].role == PM_ROLE_INPUT && i < n; i++) s->vars[v][i] = (double)(i % 7) - 3;
    if (m->vars[v].role == PM_ROLE_STEP) s->vars[v][0] = 1;
  }
}

static void close_sides(Sides *s) { pm_arena_deinit(&s->tool.arena); }

// Lets the node that makes the value compute `fn` instead.
static void break_value(PmModule *m, const char *name, PmScalar fn) {
  for (PmFnId id = 0; id < m->n_fns; id++) {
    PmFn *f = pm_fn(m, id);
    for (int32_t i = 0; i < f->n_nodes; i++) {
      PmNode *n = &f->nodes[i];
      const char *has = n->n_out == 1 ? f->values[n->out].name : NULL;
      if (!has || strcmp(has, name) != 0) continue;
      assert_int_equal(n->op, PM_OP_map);
      n->attr.fn = fn;
      return;
    }
  }
  fail_msg("no value `%s`", name);
}

static void test_equal_sides(void **state) {
  (void)state;
  Sides s;
  PmSuspect suspect;
  open_sides(&s);
  assert_null(pm_bisect(&s.tool, s.plan, s.reference, s.vars, 0, 1e-5, &suspect));
  assert_null(suspect.name);
  assert_true(suspect.agree >= 6);
  close_sides(&s);
}

static void expect_suspect(const char *name, int32_t line, const char *type) {
  Sides s;
  PmSuspect suspect;
  open_sides(&s);
  break_value(s.plan, name, PM_S_mul);
  assert_null(pm_bisect(&s.tool, s.plan, s.reference, s.vars, 0, 1e-5, &suspect));
  assert_non_null(suspect.name);
  assert_string_equal(suspect.name, name);
  assert_string_equal(suspect.loc.path, "m.pmodel");
  assert_int_equal(suspect.loc.line, line);
  assert_string_equal(suspect.type, type);
  assert_true(suspect.error > 1e-2);
  close_sides(&s);
}

static void test_the_first_value_is_named(void **state) {
  (void)state;
  expect_suspect("layer.h", 12, "f32[batch:4/data, ff:8/tensor]");
  expect_suspect("z", 15, "f32[batch:4/data, embed:6]");
}

static void test_values_before_it_agree(void **state) {
  (void)state;
  Sides s;
  PmSuspect suspect;
  open_sides(&s);
  break_value(s.plan, "z", PM_S_add);
  assert_null(pm_bisect(&s.tool, s.plan, s.reference, s.vars, 0, 1e-5, &suspect));
  assert_string_equal(suspect.name, "z");
  assert_true(suspect.agree >= 4);
  assert_string_equal(suspect.last_good, "layer.y");
  close_sides(&s);
}

// The same seed and number make the same plan; a mesh has as many ranks as were asked for.
static void test_random_plans(void **state) {
  (void)state;
  Sides s;
  open_sides(&s);
  PmBuf first, again;
  pm_buf_init(&first);
  pm_buf_init(&again);
  int32_t different = 0;
  for (uint64_t i = 0; i < 50; i++) {
    pm_buf_clear(&first);
    pm_buf_clear(&again);
    pm_random_plan(s.reference, 12, 3, i, &first);
    pm_random_plan(s.reference, 12, 3, i, &again);
    assert_string_equal(pm_buf_str(&first), pm_buf_str(&again));
    pm_buf_clear(&again);
    pm_random_plan(s.reference, 12, 3, i + 1, &again);
    different += strcmp(pm_buf_str(&first), pm_buf_str(&again)) != 0;
    int64_t ranks = 1, size;
    for (const char *at = pm_buf_str(&first); *at != '\n'; at++)
      if (*at == '=' && sscanf(at + 1, "%ld", &size) == 1) ranks *= size;
    assert_int_equal(ranks, 12);
  }
  assert_true(different > 45);
  pm_buf_deinit(&first);
  pm_buf_deinit(&again);
  close_sides(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_equal_sides),
      cmocka_unit_test(test_the_first_value_is_named),
      cmocka_unit_test(test_values_before_it_agree),
      cmocka_unit_test(test_random_plans),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
