#include "harness.h"

#include <string.h>

#include "compile.h"

static const char text[] =
    "pmodel 1\n"
    "axis a = 4, b = 6\n"
    "const k = 2\n"
    "model m {\n  param w[a, b] ~ normal(k)\n  minimize sum[a, b](w * w)\n}\n"
    "train {\n  steps = 10; seed = 3\n}\n"
    "plan base {\n  mesh x=2, y=3\n  shard a -> x\n  shard b -> y\n}\n"
    "plan child extends base {\n  mesh x=4, y=1\n  shard state a, b in \"w\" -> x + y\n  shard zz -> none\n"
    "  pin(\"w\", [a, b/x+y])\n}\n";

static PmFrontendOptions with(const char *plan) { return (PmFrontendOptions){.seed = -1, .plan = plan}; }

static void no_plan_means_one_rank(void **state) {
  (void)state;
  Compiled c;
  compile(&c, "plan.pmodel", text, NULL);
  assert_int_equal(c.code, PM_OK);
  assert_null(c.module->plan);
  assert_int_equal(c.module->n_mesh, 0);
  assert_int_equal(c.module->n_rules, 0);
  assert_int_equal(c.module->steps, 10);
  assert_int_equal(c.module->seed, 3);
  compiled_free(&c);
}

static void children_come_first(void **state) {
  (void)state;
  Compiled c;
  PmFrontendOptions o = with("child");
  compile(&c, "plan.pmodel", text, &o);
  const PmModule *m = c.module;
  assert_int_equal(m->n_mesh, 2);
  assert_int_equal(m->mesh[0].size, 4);
  assert_int_equal(m->n_rules, 5);
  assert_string_equal(m->rules[0].pin, "w");
  assert_int_equal(m->rules[0].pin_dims[1].split.n, 2);
  assert_string_equal(m->rules[1].text, "shard state a, b in \"w\" -> x + y");
  assert_int_equal(m->rules[1].roles, 1u << PM_ROLE_STATE);
  assert_string_equal(m->rules[1].scope, "w");
  assert_true(m->rules[2].none);
  assert_int_equal(m->rules[2].axes[0], PM_NONE);
  assert_string_equal(m->rules[3].text, "shard a -> x");
  assert_int_equal(m->rules[4].mesh[0], 1);
  compiled_free(&c);
}

static void command_line_wins(void **state) {
  (void)state;
  Compiled c;
  const char *shard[] = {"b -> x"}, *set[] = {"a=8", "const.k=3", "train.seed=9"};
  PmFrontendOptions o = {
      .seed = -1, .plan = "base", .mesh = "x=2", .shard = shard, .n_shard = 1, .set = set, .n_set = 3};
  o.steps = 77;
  compile(&c, "plan.pmodel", text, &o);
  const PmModule *m = c.module;
  assert_string_equal(c.text, "");
  assert_int_equal(m->mesh[0].size, 2);
  assert_int_equal(m->mesh[1].size, 1);
  assert_string_equal(m->rules[0].text, "shard b -> x");
  assert_string_equal(m->rules[0].loc.path, "--shard");
  assert_int_equal(pm_axis_size(m, pm_module_find_axis(m, "a")), 8);
  assert_true(m->vars[0].init_value == 3);
  assert_int_equal(m->steps, 77);
  assert_int_equal(m->seed, 9);
  compiled_free(&c);
}

static void mesh_without_plan_is_ambiguous(void **state) {
  (void)state;
  Compiled c;
  PmFrontendOptions o = {.seed = -1, .mesh = "x=2"};
  compile(&c, "plan.pmodel", text, &o);
  assert_string_equal(c.text,
                      "--mesh:1:1: error[E0401]: plan.pmodel has several plans, and `--plan` chooses none\n"
                      " 1 | x=2\n   | ^^^\n"
                      "note: plan `base`\nnote: plan `child`\n");
  compiled_free(&c);
}

static void unknown_names_have_suggestions(void **state) {
  (void)state;
  Compiled c;
  const char *set[] = {"axis.aa=8"};
  PmFrontendOptions o = {.seed = -1, .plan = "chil", .set = set, .n_set = 1};
  compile(&c, "plan.pmodel", text, &o);
  assert_non_null(strstr(c.text, "error[E0401]: plan.pmodel has no plan `chil`"));
  assert_non_null(strstr(c.text, "did you mean `child`?"));
  assert_non_null(strstr(c.text, "`--set` names `aa`, but plan.pmodel has no such axis"));
  compiled_free(&c);
}

static void files_are_plans_too(void **state) {
  (void)state;
  FILE *f = fopen("other.pplan", "w");
  assert_non_null(f);
  fputs("mesh r=2\nshard a -> r\nzero(stage=0)\n", f);
  fclose(f);
  Compiled c;
  PmFrontendOptions o = with("other.pplan");
  compile_plan(&c, "plan.pmodel", text, &o);
  assert_string_equal(c.text, "");
  assert_int_equal(c.plan.n_lines, 3);
  assert_string_equal(c.plan.lines[0].text, "mesh r=2");
  assert_string_equal(c.plan.lines[0].origin, "other.pplan:1:1");
  assert_string_equal(c.plan.lines[2].text, "shard a -> r");
  assert_string_equal(c.plan.lines[2].origin, "other.pplan:2:1");
  compiled_free(&c);
}

// A child's directive replaces its parent's of the same kind; of those that stand once for each axis or path, the one with
// the same first argument.
static void directives_are_replaced(void **state) {
  (void)state;
  static const char program[] =
      "pmodel 1\naxis a = 4, b = 6\n"
      "model m {\n  param w[a, b], v[a] ~ zeros\n  minimize sum[a, b](w * w) + sum[a](v)\n}\n"
      "plan base {\n  mesh x=2, y=1\n  pin(\"w\", [a/x, b])\n  pin(\"v\", [a/x])\n  zero(stage=1, over=x)\n"
      "  overlap(off)\n}\n"
      "plan child extends base {\n  pin(\"w\", [a, b/x])\n  zero(stage=0)\n}\n";
  static const char *const lines[] = {"mesh x=2, y=1", "pin(\"w\", [a, b/x])", "zero(stage=0)", "pin(\"v\", [a/x])",
                                      "overlap(off)"};
  Compiled c;
  PmFrontendOptions o = with("child");
  compile_plan(&c, "plan.pmodel", program, &o);
  assert_string_equal(c.text, "");
  assert_int_equal(c.plan.n_lines, 5);
  for (int32_t i = 0; i < 5; i++) assert_string_equal(c.plan.lines[i].text, lines[i]);
  compiled_free(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(no_plan_means_one_rank),
      cmocka_unit_test(children_come_first),
      cmocka_unit_test(command_line_wins),
      cmocka_unit_test(mesh_without_plan_is_ambiguous),
      cmocka_unit_test(unknown_names_have_suggestions),
      cmocka_unit_test(files_are_plans_too),
      cmocka_unit_test(directives_are_replaced),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
