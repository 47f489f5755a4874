// `policy`: the dtype of each value, by path.
#include "harness.h"

#include <stdio.h>
#include <string.h>

#include "compile.h"
#include "ir/text.h"

#define MODEL                                                                              \
  "pmodel 1\nimport \"std\"\naxis batch = 2, seq = 4, vocab = 5, embed = 6, out = 3\n"     \
  "block half(x) {\n  param w[embed, out] ~ ones\n  y = dot[embed](x, w)\n  return y\n}\n" \
  "model m {\n  input tokens[batch, seq] in vocab\n  input z[batch, seq] : f16\n"          \
  "  param t[vocab, embed] ~ normal(0.1)\n  sub a, b, n = half\n"                          \
  "  x = t[vocab = tokens]\n  p = a(x)\n  q = b(x)\n  r = n(x)\n"                          \
  "  s = mean[batch](p)\n  u = p + q\n  v = f32(z) * q\n"                                  \
  "  minimize mean[seq, out](f32(s)) + mean[batch, seq, out](f32(u + r)) + mean[batch, seq, out](v)\n}\n"
#define TRAIN "train { optimizer = adamw(); lr = 1e-3 }\n"

static void program(Compiled *c, const char *policy) {
  char text[2048];
  snprintf(text, sizeof text, MODEL "%s\n" TRAIN, policy);
  PmFrontendOptions o = {.seed = -1};
  compile(c, "policy.pmodel", text, &o);
  if (c->code) fail_msg("%s", c->text);
  PmStatus *st = pm_module_verify(c->module);
  if (st) fail_msg("%s", pm_status_message(st));
  PmBuf first, again;
  pm_buf_init(&first);
  pm_buf_init(&again);
  pm_module_print(c->module, &first);
  PmModule *back;
  assert_null(pm_module_read(&c->arena, &c->names, "dump", pm_buf_str(&first), first.len, &back));
  pm_module_print(back, &again);
  assert_string_equal(pm_buf_str(&first), pm_buf_str(&again));
  pm_buf_deinit(&first);
  pm_buf_deinit(&again);
}

static const char *value(const Compiled *c, const char *name) {
  const PmFn *f = pm_fn(c->module, c->module->model);
  for (int32_t i = f->n_params; i < f->n_values; i++) {
    if (f->values[i].name && strcmp(f->values[i].name, name) == 0)
      return pm_dtype_text((PmDtype)f->values[i].type.dtype);
  }
  fail_msg("no value %s", name);
  return "";
}

static const PmVar *var(const Compiled *c, const char *path) {
  const PmVarId v = pm_module_find_var(c->module, path);
  assert_true(v != PM_NONE);
  return &c->module->vars[v];
}

static void without_a_policy_all_is_f32(void **state) {
  (void)state;
  Compiled c;
  program(&c, "");
  static const char *const names[] = {"x", "a.y", "s", "u", "v"};
  for (int i = 0; i < 5; i++) assert_string_equal(value(&c, names[i]), "f32");
  assert_int_equal(var(&c, "a.w")->grad, PM_BOOL);
  assert_true(c.module->loss_scale == 0);
  assert_int_equal(var(&c, "z")->type.dtype, PM_F16);
  compiled_free(&c);
}

static void compute_is_what_parameters_are_read_in(void **state) {
  (void)state;
  Compiled c;
  program(&c, "policy { param = f32; compute = bf16; reduce = f32 }");
  static const char *const names[] = {"x", "a.y", "s", "u"};
  for (int i = 0; i < 4; i++) assert_string_equal(value(&c, names[i]), "bf16");
  assert_string_equal(value(&c, "v"), "f32");  // mixed floats promote
  assert_int_equal(var(&c, "a.w")->type.dtype, PM_F32);
  assert_int_equal(var(&c, "a.w/m")->type.dtype, PM_F32);
  // The mean over batch runs in f32.
  const PmFn *f = pm_fn(c.module, c.module->model);
  for (int32_t i = 0; i < f->n_nodes; i++) {
    if (f->nodes[i].op == PM_OP_reduce) assert_int_equal(f->values[f->nodes[i].in[0]].type.dtype, PM_F32);
  }
  compiled_free(&c);
}

static void overrides_go_by_path(void **state) {
  (void)state;
  Compiled c;
  program(&c,
          "policy { compute = bf16; \"b\": compute = f32; \"n.w\": compute = f32; \"a\": param = bf16;\n"
          "  \"a\": grad = bf16; \"t\": grad = f16 }");
  assert_string_equal(value(&c, "a.y"), "bf16");
  assert_string_equal(value(&c, "b.y"), "f32");
  assert_string_equal(value(&c, "n.y"), "f32");  // a parameter in f32 promotes
  assert_string_equal(value(&c, "u"), "bf16");   // results of b are cast back
  assert_int_equal(var(&c, "a.w")->type.dtype, PM_BF16);
  assert_int_equal(var(&c, "a.w")->grad, PM_BOOL);
  assert_int_equal(var(&c, "a.w/v")->type.dtype, PM_F32);
  assert_int_equal(var(&c, "t")->grad, PM_F16);
  assert_int_equal(var(&c, "b.w")->grad, PM_BOOL);
  assert_true(c.module->loss_scale == 65536 && c.module->loss_scale_window == 2000);
  compiled_free(&c);
}

// A cast is a node, and a body's parameters stand before its nodes.
static void a_repeat_reads_outer_parameters_narrower(void **state) {
  (void)state;
  Compiled c;
  PmFrontendOptions o = {.seed = -1};
  compile(&c, "policy.pmodel",
          "pmodel 1\nimport \"std\"\naxis batch = 2, vocab = 5, embed = 6, ff = 3, layer = 2\n"
          "model m {\n  input tokens[batch] in vocab\n  param t[vocab, embed], w[embed, ff], v[embed] ~ ones\n"
          "  x = t[vocab = tokens]\n  repeat layer {\n    param g[embed] ~ ones\n    state u ~ zeros\n    u += 1\n"
          "    x += dot[ff](dot[embed](x, w), w) * g + v\n  }\n  minimize mean[batch, embed](f32(x))\n}\n"
          "policy { compute = bf16 }\n" TRAIN,
          &o);
  if (c.code) fail_msg("%s", c.text);
  PmStatus *st = pm_module_verify(c.module);
  if (st) fail_msg("%s", pm_status_message(st));
  compiled_free(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(without_a_policy_all_is_f32), cmocka_unit_test(compute_is_what_parameters_are_read_in),
      cmocka_unit_test(overrides_go_by_path), cmocka_unit_test(a_repeat_reads_outer_parameters_narrower)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
