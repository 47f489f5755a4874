// Routing and states of a model: what is built, and what the user sees when something is wrong, word for word.
#include "harness.h"

#include <string.h>

#include "compile.h"
#include "ir/text.h"

#define HEAD                   \
  "pmodel 1\nimport \"std\"\n" \
  "axis batch = 4, seq = 8, vocab = 16, kv = seq, embed = 6, heads = 2, hdim = 3\n"

static const struct {
  const char *name, *text, *expected;
} cases[] = {
    {"ragged_too_early",
     HEAD "axis expert = 4, choice = 2, slot = ragged\n"
          "model m {\n"
          "  input x[batch, embed]: f32\n"
          "  param wr[embed, expert] ~ normal(0.1)\n"
          "  p, who = topk[expert -> choice](dot[embed](x, wr))\n"
          "  h = sum[slot](x)\n"
          "  minimize sum[batch, choice](p)\n"
          "}\n",
     "routing.pmodel:9:11: error[E0204]: `slot` is ragged and has no size before its first `dispatch`\n"
     " 4 | axis expert = 4, choice = 2, slot = ragged\n"
     "   |                              ---- declared here\n"
     "...\n"
     " 9 |   h = sum[slot](x)\n"
     "   |           ^^^^\n"
     "help: give it a size: `axis slot = 64`\n"},
    {"ragged_as_a_number",
     HEAD "axis expert = 4, choice = 2, slot = ragged\n"
          "axis twice = 2 * ragged\n"
          "model m {\n"
          "  input x[batch, embed]: f32\n"
          "  param wr[embed, expert] ~ normal(0.1)\n"
          "  p, who = topk[expert -> choice](dot[embed](x, wr))\n"
          "  minimize sum[batch, choice](p)\n"
          "}\n",
     "routing.pmodel:5:18: error[E0206]: `ragged` is no number: it stands alone, as the size of an axis\n"
     " 5 | axis twice = 2 * ragged\n"
     "   |                  ^^^^^^\n"},
    {"ragged_of_two_sizes",
     HEAD "axis expert = 4, choice = 2, slot = ragged\n"
          "model m {\n"
          "  input x[batch, embed]: f32\n"
          "  param wr[embed, expert] ~ normal(0.1)\n"
          "  p, who = topk[expert -> choice](dot[embed](x, wr))\n"
          "  h = dispatch[expert, slot](x, who)\n"
          "  one = who[choice = 0]\n"
          "  g = dispatch[expert, slot](x, one)\n"
          "  minimize sum[batch, choice](p)\n"
          "}\n",
     "routing.pmodel:11:24: error[E0204]: `slot` needs up to 4 slots here, but has 8\n"
     "  9 |   h = dispatch[expert, slot](x, who)\n"
     "    |                        ---- its size comes from this dispatch\n"
     "...\n"
     " 11 |   g = dispatch[expert, slot](x, one)\n"
     "    |                        ^^^^\n"
     "help: declare another ragged axis for this one\n"},
    {"ragged_bound",
     HEAD "axis expert = 4, choice = 2, slot = ragged(bound=0.9), room = ragged(2.0)\n"
          "model m {\n"
          "  input x[batch, embed]: f32\n"
          "  param wr[embed, expert] ~ normal(0.1)\n"
          "  p, who = topk[expert -> choice](dot[embed](x, wr))\n"
          "  minimize sum[batch, choice](p)\n"
          "}\n",
     "routing.pmodel:4:50: error[E0204]: `bound` is 0.9; it multiplies the mean, so it is 1 or more\n"
     " 4 | axis expert = 4, choice = 2, slot = ragged(bound=0.9), room = ragged(2.0)\n"
     "   |                                                  ^^^\n"
     "help: capacity that drops tokens is a size: `ceil(0.9 * choice * batch.micro * seq / expert)`\n"
     "routing.pmodel:4:63: error[E0205]: write `ragged` or `ragged(bound=R)`\n"
     " 4 | axis expert = 4, choice = 2, slot = ragged(bound=0.9), room = ragged(2.0)\n"
     "   |                                                               ^^^^^^^^^^^\n"},
    {"topk_form",
     HEAD "axis expert = 4, choice = 2, slot = ragged\n"
          "model m {\n"
          "  input x[batch, embed]: f32\n"
          "  param wr[embed, expert] ~ normal(0.1)\n"
          "  p, who = topk[expert -> choice](dot[embed](x, wr))\n"
          "  q = topk[expert](x)\n"
          "  minimize sum[batch, choice](p)\n"
          "}\n",
     "routing.pmodel:9:7: error[E0205]: write `topk[e -> c](p)`\n"
     " 9 |   q = topk[expert](x)\n"
     "   |       ^^^^^^^^^^^^^^^\n"},
    {"topk_of_fewer",
     HEAD "axis expert = 4, choice = 2, slot = ragged\n"
          "model m {\n"
          "  input x[batch, embed]: f32\n"
          "  param wr[embed, expert] ~ normal(0.1)\n"
          "  p, who = topk[expert -> choice](dot[embed](x, wr))\n"
          "  q, i = topk[choice -> embed](p)\n"
          "  minimize sum[batch, choice](p)\n"
          "}\n",
     "routing.pmodel:9:10: error[E0204]: `embed` (6) chooses more than `choice` (2) has\n"
     " 9 |   q, i = topk[choice -> embed](p)\n"
     "   |          ^^^^^^^^^^^^^^^^^^^^^^^^\n"},
    {"dispatch_of_no_index",
     HEAD "axis expert = 4, choice = 2, slot = ragged\n"
          "model m {\n"
          "  input x[batch, embed]: f32\n"
          "  param wr[embed, expert] ~ normal(0.1)\n"
          "  p, who = topk[expert -> choice](dot[embed](x, wr))\n"
          "  h = dispatch[expert, slot](x, p)\n"
          "  minimize sum[batch, choice](p)\n"
          "}\n",
     "routing.pmodel:9:33: error[E0234]: `dispatch` takes indices that point into an axis as its second argument\n"
     " 9 |   h = dispatch[expert, slot](x, p)\n"
     "   |                                 ^\n"
     "help: such as the second result of `topk[e -> c](p)`\n"},
    {"dispatch_over_another_axis",
     HEAD "axis expert = 4, choice = 2, slot = ragged\n"
          "model m {\n"
          "  input x[batch, embed]: f32\n"
          "  param wr[embed, expert] ~ normal(0.1)\n"
          "  p, who = topk[expert -> choice](dot[embed](x, wr))\n"
          "  h = dispatch[vocab, slot](x, who)\n"
          "  minimize sum[batch, choice](p)\n"
          "}\n",
     "routing.pmodel:9:32: error[E0234]: `who` points into `expert`, but `dispatch` is over `vocab`\n"
     " 9 |   h = dispatch[vocab, slot](x, who)\n"
     "   |                                ^^^\n"},
    {"combine_without_slots",
     HEAD "axis expert = 4, choice = 2, slot = ragged\n"
          "model m {\n"
          "  input x[batch, embed]: f32\n"
          "  param wr[embed, expert] ~ normal(0.1)\n"
          "  p, who = topk[expert -> choice](dot[embed](x, wr))\n"
          "  h = dispatch[expert, slot](x, who)\n"
          "  y = combine[slot](sum[slot](h), who)\n"
          "  minimize sum[batch, choice](p)\n"
          "}\n",
     "routing.pmodel:10:21: error[E0231]: `combine` needs axis `slot`, which `sum[slot](h)` has not\n"
     " 10 |   y = combine[slot](sum[slot](h), who)\n"
     "    |                     ^^^^^^^^^^^^ [expert, embed]\n"},
    {"combine_with_tokens",
     HEAD "axis expert = 4, choice = 2, slot = ragged\n"
          "model m {\n"
          "  input x[batch, embed]: f32\n"
          "  param wr[embed, expert] ~ normal(0.1)\n"
          "  p, who = topk[expert -> choice](dot[embed](x, wr))\n"
          "  h = dispatch[expert, slot](x, who)\n"
          "  y = combine[slot](outer(h, x), who)\n"
          "  minimize sum[batch, choice](p)\n"
          "}\n",
     "routing.pmodel:10:21: error[E0209]: `outer(h, x)` has axis `batch` already\n"
     " 10 |   y = combine[slot](outer(h, x), who)\n"
     "    |                     ^^^^^^^^^^^ [expert, slot, embed, batch]\n"},
    {"micro_of_another_axis",
     HEAD "model m {\n"
          "  input x[batch, embed]: f32\n"
          "  minimize mean[batch, embed.micro](x)\n"
          "}\n",
     "routing.pmodel:6:24: error[E0202]: `embed.micro` is not an axis\n"
     " 6 |   minimize mean[batch, embed.micro](x)\n"
     "   |                        ^^^^^^^^^^^\n"
     "help: `batch.micro` is the part of `batch` that one micro-batch has\n"},
    {"state_assigned_twice",
     HEAD "model m {\n"
          "  input x[batch, embed]: f32\n"
          "  param w[embed] ~ ones\n"
          "  state n[embed] ~ zeros\n"
          "  n += mean[batch](x)\n"
          "  n = w\n"
          "  minimize mean[batch, embed](x * w)\n"
          "}\n",
     "routing.pmodel:9:3: error[E0203]: state `n` is assigned a second time in one step\n"
     " 7 |   state n[embed] ~ zeros\n"
     "   |         - declared here\n"
     "...\n"
     " 9 |   n = w\n"
     "   |   ^\n"
     "note: a state reads its value at the start of the step, and is assigned once\n"},
    {"state_in_a_repeat",
     HEAD "axis layer = 2\n"
          "model m {\n"
          "  input x[batch, embed]: f32\n"
          "  param w[embed] ~ ones\n"
          "  state n[embed] ~ zeros\n"
          "  y = x\n"
          "  repeat layer {\n"
          "    y = y * w\n"
          "    n += mean[batch](y)\n"
          "  }\n"
          "  minimize mean[batch, embed](y)\n"
          "}\n",
     "routing.pmodel:12:5: error[E0302]: state `n` is assigned once a step, but `repeat` comes here often\n"
     "  8 |   state n[embed] ~ zeros\n"
     "    |         - declared outside of the `repeat`\n"
     "...\n"
     " 12 |     n += mean[batch](y)\n"
     "    |     ^\n"
     "help: declare it inside: each turn then has a state of its own\n"},
    {"state_of_another_type",
     HEAD "model m {\n"
          "  input x[batch, embed]: f32\n"
          "  param w[embed] ~ ones\n"
          "  state n[embed] ~ zeros\n"
          "  n = x\n"
          "  minimize mean[batch, embed](x * w)\n"
          "}\n",
     "routing.pmodel:8:3: error[E0232]: `n` must keep its type: it has f32[embed], and f32[batch, embed] is assigned\n"
     " 7 |   state n[embed] ~ zeros\n"
     "   |         - `n` comes from outside\n"
     " 8 |   n = x\n"
     "   |   ^\n"
     "note: names that are carried from turn to turn, and states, have one type\n"},
    {"state_without_a_start",
     HEAD "model m {\n"
          "  input x[batch, embed]: f32\n"
          "  param w[embed] ~ ones\n"
          "  state n[embed]\n"
          "  minimize mean[batch, embed](x * w)\n"
          "}\n",
     "routing.pmodel:7:3: error[E0302]: state `n` has no initial value\n"
     " 7 |   state n[embed]\n"
     "   |   ^^^^^^^^^^^^^^\n"
     "help: add `~ zeros`, `~ ones` or `~ normal(0.02)`\n"},
};

static void messages(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    Compiled c;
    compile(&c, "routing.pmodel", cases[i].text, NULL);
    if (strcmp(c.text, cases[i].expected) != 0) {
      fail_msg("%s: got\n%s\nexpected\n%s", cases[i].name, c.text, cases[i].expected);
    }
    assert_int_equal(c.code, PM_ERR_INPUT);
    compiled_free(&c);
  }
}

static const PmNode *find_node(const PmModule *m, PmFnId fn, PmOp op) {
  const PmFn *f = pm_fn(m, fn);
  for (int32_t i = 0; i < f->n_nodes; i++) {
    if (f->nodes[i].op == op) return &f->nodes[i];
  }
  fail_msg("%s has no %s", f->name, pm_op_name(op));
  return NULL;
}

// A ragged axis has a slot for each token and choice; a micro-batch is the batch.
static void ragged_slots(void **state) {
  (void)state;
  Compiled c;
  compile(&c, "ragged.pmodel",
          HEAD
          "axis expert = 4, choice = 2, slot = ragged, room = 2 * batch.micro * seq\n"
          "model m {\n"
          "  input x[batch, seq, embed]: f32\n"
          "  param wr[embed, expert] ~ normal(0.1)\n"
          "  p, who = topk[expert -> choice](dot[embed](x, wr))\n"
          "  h = dispatch[expert, slot](x, who)\n"
          "  y: [batch, seq, choice, embed] = combine[slot](h, who)\n"
          "  minimize mean[batch.micro, seq, choice, embed](y * p)\n"
          "}\n",
          NULL);
  assert_string_equal(c.text, "");
  assert_null(pm_module_verify(c.module));
  const PmModule *m = c.module;
  assert_int_equal(pm_axis_size(m, pm_module_find_axis(m, "slot")), 64);
  assert_int_equal(pm_axis_size(m, pm_module_find_axis(m, "room")), 64);
  const PmNode *scatter = find_node(m, m->model, PM_OP_scatter_add);
  assert_string_equal(m->axes[scatter->attr.axes[0]].name, "expert.slot");
  assert_int_equal(pm_axis_size(m, scatter->attr.axes[0]), 256);
  compiled_free(&c);
}

// A bounded one has its part of them, rounded up, and never more than all.
static void bounded_slots(void **state) {
  (void)state;
  static const struct {
    const char *bound;
    int64_t slots;
  } rows[] = {{"1", 16}, {"1.3", 21}, {"2.0", 32}, {"4", 64}, {"100", 64}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    Compiled c;
    PmBuf text;
    pm_buf_init(&text);
    pm_buf_printf(&text,
                  HEAD
                  "axis expert = 4, choice = 2, slot = ragged(bound=%s)\n"
                  "model m {\n"
                  "  input x[batch, seq, embed]: f32\n"
                  "  param wr[embed, expert] ~ normal(0.1)\n"
                  "  p, who = topk[expert -> choice](dot[embed](x, wr))\n"
                  "  h = dispatch[expert, slot](x, who)\n"
                  "  y: [batch, seq, choice, embed] = combine[slot](h, who)\n"
                  "  minimize mean[batch.micro, seq, choice, embed](y * p)\n"
                  "}\n",
                  rows[i].bound);
    compile(&c, "bounded.pmodel", pm_buf_str(&text), NULL);
    pm_buf_deinit(&text);
    assert_string_equal(c.text, "");
    const PmModule *m = c.module;
    assert_int_equal(pm_axis_size(m, pm_module_find_axis(m, "slot")), rows[i].slots);
    assert_true(find_node(m, m->model, PM_OP_slot_of)->attr.bounded);
    compiled_free(&c);
  }
}

// One in the model, one number in a block, one a turn: read at the start of the step, bound to what they are assigned.
static void states(void **state) {
  (void)state;
  Compiled c;
  compile(&c, "states.pmodel",
          HEAD
          "axis layer = 3\n"
          "block counted(x) {\n  state n ~ 5.0\n  n += 1\n  return x * n\n}\n"
          "model m {\n"
          "  input x[batch, embed]: f32\n"
          "  param w[embed] ~ ones\n"
          "  state first[embed], unused[embed] ~ zeros\n"
          "  sub c = counted\n"
          "  y = c(x) * w\n"
          "  first = mean[batch](y)\n"
          "  z = y - first\n"
          "  repeat layer {\n"
          "    sub d = counted\n"
          "    state s[embed] ~ ones\n"
          "    z = d(z) * s\n"
          "    s = s + mean[batch](z)\n"
          "  }\n"
          "  minimize mean[batch, embed](z)\n"
          "}\n"
          "train { optimizer = adamw(); lr = 0.1 }\n",
          NULL);
  assert_string_equal(c.text, "");
  assert_null(pm_module_verify(c.module));
  const PmModule *m = c.module;
  const PmFn *f = pm_fn(m, m->model);
  static const char *const assigned[] = {"first", "c.n", "layer.s", "layer.d.n"};
  int32_t bound = 0;
  for (int32_t i = 1; i < f->n_results; i++) {
    PmVarId v = f->result_bind[i].var;
    assert_true(v != PM_NONE && m->vars[v].role == PM_ROLE_STATE && m->vars[v].owner == PM_NONE);
    assert_true(pm_type_same_logical(&f->values[f->results[i]].type, &m->vars[v].type));
    for (int k = 0; k < 4; k++) bound += strcmp(m->vars[v].path, assigned[k]) == 0;
  }
  assert_int_equal(bound, 4);
  assert_int_equal(f->n_results, 5);
  const PmVar *n = &m->vars[pm_module_find_var(m, "layer.d.n")];
  assert_int_equal(n->type.rank, 1);
  assert_int_equal(n->type.dims[0].axis, pm_module_find_axis(m, "layer"));
  assert_true(n->init_value == 5.0);
  compiled_free(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(messages),
      cmocka_unit_test(ragged_slots),
      cmocka_unit_test(bounded_slots),
      cmocka_unit_test(states),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
