#include "harness.h"

#include <string.h>

#include "compile.h"
#include "frontend/ast.h"
#include "ir/text.h"

#define DATA PM_SOURCE_DIR "/tests/frontend/data/"
#define EXAMPLES PM_SOURCE_DIR "/examples/"

// Verifies the module, and that its text reads back to itself.
static void check_module(Compiled *c) {
  assert_int_equal(c->code, PM_OK);
  assert_string_equal(c->text, "");
  PmStatus *st = pm_module_verify(c->module);
  if (st) fail_msg("%s", pm_status_message(st));
  PmBuf first, again;
  pm_buf_init(&first);
  pm_buf_init(&again);
  pm_module_print(c->module, &first);
  PmModule *back;
  st = pm_module_read(&c->arena, &c->names, "dump", pm_buf_str(&first), first.len, &back);
  if (st) fail_msg("%s", pm_status_message(st));
  pm_module_print(back, &again);
  assert_string_equal(pm_buf_str(&first), pm_buf_str(&again));
  pm_buf_deinit(&first);
  pm_buf_deinit(&again);
}

static void compiles(const char *file, const char *plan, int64_t params) {
  Compiled c;
  PmFrontendOptions o = {.seed = -1, .plan = plan};
  compile(&c, file, NULL, &o);
  if (c.text[0]) print_message("%s", c.text);
  check_module(&c);
  if (params) assert_int_equal(count_params(c.module), params);
  compiled_free(&c);
}

static void examples_compile(void **state) {
  (void)state;
  compiles(EXAMPLES "mlp.pmodel", NULL, 0);
  compiles(EXAMPLES "mlp.pmodel", "tp2", 0);
  compiles(EXAMPLES "gpt_tiny.pmodel", NULL, 834304);
  compiles(EXAMPLES "gpt_tiny.pmodel", "dp2_tp2", 834304);
  compiles(EXAMPLES "llama_tiny.pmodel", "dp2_tp2", 106816);
}

static void known_sizes_come_out(void **state) {
  (void)state;
  compiles(EXAMPLES "gpt2.pmodel", NULL, 124475904);
  compiles(EXAMPLES "gpt2.pmodel", "dp4_tp2", 124475904);
  compiles(EXAMPLES "llama3_8b.pmodel", NULL, 8030261248);
  compiles(EXAMPLES "llama3_8b.pmodel", "dp4_tp8", 8030261248);
  Compiled c;
  const char *set[] = {"axis.vocab=50257"};
  PmFrontendOptions o = {.seed = -1, .set = set, .n_set = 1};
  compile(&c, EXAMPLES "gpt2.pmodel", NULL, &o);
  check_module(&c);
  assert_int_equal(count_params(c.module), 124439808);
  compiled_free(&c);
}

static void specification_parses(void **state) {
  (void)state;
  static const char *const files[] = {DATA "gpt2.pmodel", DATA "llama3.pmodel", DATA "mixtral.pmodel"};
  for (int i = 0; i < 3; i++) {
    PmArena arena;
    pm_arena_init(&arena, 0);
    PmInterner names;
    pm_interner_init(&names, &arena);
    PmSources sources;
    pm_sources_init(&sources, &arena);
    PmDiags *diags = pm_diags_new(&arena, &sources);
    int32_t file;
    assert_null(pm_sources_load(&sources, files[i], PM_MAX_FILE_BYTES, &file));
    PmText text;
    assert_true(pm_parse(&arena, &names, &sources, diags, file, PM_TEXT_FILE, &text));
    assert_int_equal(pm_diags_errors(diags), 0);
    pm_arena_deinit(&arena);
  }
}

static int count(const char *text, const char *what) {
  int n = 0;
  for (const char *at = text; (at = strstr(at, what)); at += strlen(what)) n++;
  return n;
}

// What comes with later versions is named, once each, and nothing else is said.
static void later_constructs_are_named_once(void **state) {
  (void)state;
  Compiled c;
  PmFrontendOptions o = {.seed = -1, .plan = "ep8_tp2_pp2"};
  compile(&c, DATA "mixtral.pmodel", NULL, &o);
  assert_int_equal(c.code, PM_ERR_INPUT);
  static const char *const named[] = {"`ragged` axes",
                                      "`topk`",
                                      "`dispatch`",
                                      "axis `.micro`",
                                      "`combine`",
                                      "`pipeline(schedule=\"1f1b\", micro=8)`"};
  for (int i = 0; i < 6; i++) {
    PmBuf line;
    pm_buf_init(&line);
    pm_buf_printf(&line, "%s: not supported by this version", named[i]);
    if (count(c.text, pm_buf_str(&line)) != 1) fail_msg("%s\n%s", named[i], c.text);
    pm_buf_deinit(&line);
  }
  assert_int_equal(count(c.text, "error["), 6);
  assert_int_equal(count(c.text, "error[E0199]"), 6);
  compiled_free(&c);
  compile(&c, DATA "gpt2.pmodel", NULL, NULL);
  assert_int_equal(count(c.text, "error["), 0);
  compiled_free(&c);
}

static const PmValue *named(const PmModule *m, PmFnId fn, const char *name) {
  const PmFn *f = pm_fn(m, fn);
  for (int32_t i = f->n_params; i < f->n_values; i++) {
    if (f->values[i].name && strcmp(f->values[i].name, name) == 0) return &f->values[i];
  }
  return NULL;
}

static void names_and_bindings(void **state) {
  (void)state;
  Compiled c;
  compile(&c, EXAMPLES "gpt_tiny.pmodel", NULL, NULL);
  PmModule *m = c.module;
  PmFnId body = pm_module_find_fn(m, "gpt_tiny.layer");
  assert_int_equal(pm_fn(m, body)->kind, PM_FN_BODY);
  assert_true(named(m, body, "layer.attn.q")->bound);
  assert_true(named(m, body, "layer.ffn")->bound);
  assert_true(named(m, m->model, "logits")->bound);
  const PmFn *model = pm_fn(m, m->model);
  assert_string_equal(model->result_bind[0].report, "loss");
  assert_int_equal(model->n_results, 1);
  assert_string_equal(m->vars[model->param_bind[2].var].path, "wte");
  PmVarId wq = pm_module_find_var(m, "layer.attn.wq");
  assert_int_equal(m->vars[wq].type.dims[0].axis, pm_module_find_axis(m, "layer"));
  PmVarId state_m = pm_module_find_var(m, "layer.attn.wq/m");
  assert_int_equal(m->vars[state_m].owner, wq);
  assert_int_equal(m->vars[pm_module_find_var(m, "step")].role, PM_ROLE_STEP);
  assert_int_equal(pm_fn(m, m->vars[wq].update)->kind, PM_FN_UPDATE);
  // The override of `*.b?` makes another function than that of the weights.
  assert_int_not_equal(m->vars[pm_module_find_var(m, "layer.attn.bq")].update,
                       m->vars[pm_module_find_var(m, "layer.attn.wq")].update);
  assert_int_equal(m->steps, 600);
  assert_int_equal(m->data.x, pm_module_find_var(m, "tokens"));
  assert_int_equal(pm_fn(m, m->schedule)->n_params, 1);
  compiled_free(&c);
}

static void two_compiles_are_equal(void **state) {
  (void)state;
  PmBuf text[2];
  for (int i = 0; i < 2; i++) {
    Compiled c;
    PmFrontendOptions o = {.seed = -1, .plan = "dp2_tp2"};
    compile(&c, EXAMPLES "llama_tiny.pmodel", NULL, &o);
    pm_buf_init(&text[i]);
    pm_module_print(c.module, &text[i]);
    compiled_free(&c);
  }
  assert_string_equal(pm_buf_str(&text[0]), pm_buf_str(&text[1]));
  pm_buf_deinit(&text[0]);
  pm_buf_deinit(&text[1]);
}

// Nested repeats, blocks of outside called inside, two carried values, reports, float inputs.
static void composition(void **state) {
  (void)state;
  Compiled c;
  compile(&c, "composition.pmodel",
          "pmodel 1\nimport \"std\"\n"
          "axis batch = 2, d = 4, outer_ = 2, inner = 3\n"
          "block lin(x, scale=1.0) {\n  param w[d] ~ uniform(0.5)\n  return x * w * scale\n}\n"
          "block stack2(x) {\n"
          "  sub a = lin\n"
          "  repeat inner {\n    sub b = lin\n    x = b(x, scale=0.5) + a(x)\n  }\n"
          "  return x\n}\n"
          "model m {\n"
          "  input x[batch, d]: f32\n"
          "  param bias[d] ~ 0.5\n"
          "  sub shared = lin\n"
          "  y = x\n"
          "  aux = 0.0\n"
          "  repeat outer_ {\n"
          "    sub s = stack2\n"
          "    y = shared(s(y)) + bias\n"
          "    aux += mean[batch, d](y * y) / outer_\n"
          "  }\n"
          "  z = outer(sum[d](y), sum[batch](y))\n"
          "  w, v = pair(y)\n"
          "  report aux = aux\n"
          "  minimize mean[batch, d](z * w) + sum[batch](v) + aux\n"
          "}\n"
          "fn pair(x) {\n  m = mean[d](x, where=x > 0.0)\n  return softplus(x), m\n}\n",
          NULL);
  if (c.text[0]) print_message("%s", c.text);
  check_module(&c);
  PmVarId w = pm_module_find_var(c.module, "outer_.s.inner.b.w");
  assert_int_not_equal(w, PM_NONE);
  assert_int_equal(c.module->vars[w].type.rank, 3);
  assert_int_equal(c.module->vars[pm_module_find_var(c.module, "outer_.s.a.w")].type.rank, 2);
  assert_string_equal(pm_fn(c.module, c.module->model)->result_bind[1].report, "aux");
  compiled_free(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(examples_compile),     cmocka_unit_test(known_sizes_come_out),
      cmocka_unit_test(specification_parses), cmocka_unit_test(later_constructs_are_named_once),
      cmocka_unit_test(names_and_bindings),   cmocka_unit_test(two_compiles_are_equal),
      cmocka_unit_test(composition),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
