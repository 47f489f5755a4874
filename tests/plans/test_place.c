// What rules come to: plans as text, and the placements that values end with.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/philox.h"
#include "frontend/frontend.h"
#include "harness.h"
#include "plans.h"

static const char model[] =
    "pmodel 1\nimport \"std\"\n"
    "axis batch = 8, seq = 4, embed = 8, ff = 16, vocab = 12\n"
    "block mlp(x) {\n  param w1[embed, ff], w2[ff, embed] ~ normal(0.02)\n"
    "  h = tanh(dot[embed](x, w1))\n  return dot[ff](h, w2)\n}\n"
    "model m {\n  input tokens[batch, seq] in vocab\n  input targets[batch, seq] in vocab\n"
    "  param table[vocab, embed] ~ normal(0.02)\n  sub a = mlp\n  sub b = mlp\n"
    "  x = table[vocab = tokens]\n  x += a(x)\n  x += b(x)\n"
    "  minimize mean[batch, seq](xent[vocab](dot[embed](x, table), targets))\n}\n"
    "train {\n  optimizer = adamw()\n  lr = 1e-3\n  steps = 1\n"
    "  data = tokens(\"none\", format=\"bytes\", x=tokens, y=targets)\n}\n";

typedef struct Case {
  Plan p;
  PmModule *m;
  PmCode code;
  char *text;  // diagnostics
} Case;

// Places and, with `passes`, goes on. NULL plan: the first of `options`, or none.
static void run_plan(Case *c, const char *plans, const PmFrontendOptions *options, const char *passes) {
  plan_init(&c->p, "");
  FILE *f = fopen("place.pmodel", "w");
  assert_non_null(f);
  fprintf(f, "%s%s", model, plans);
  fclose(f);
  PmStatus *st =
      pm_frontend_compile(&c->p.arena, &c->p.names, &c->p.sources, c->p.diags, "place.pmodel", options, &c->m);
  PmPassCtx ctx = {.diags = c->p.diags, .sources = &c->p.sources, .verify = true, .keep_grads = true};
  if (!st && pm_diags_errors(c->p.diags) == 0) st = pm_passes_run(&ctx, c->m, passes);
  c->code = pm_diags_errors(c->p.diags) > 0 ? PM_ERR_INPUT : pm_status_code(st);
  pm_status_drop(st);
  size_t n;
  f = open_memstream(&c->text, &n);
  pm_diags_print(c->p.diags, false, f);
  fclose(f);
}

static void case_free(Case *c) {
  free(c->text);
  plan_deinit(&c->p);
}

#define PLACE "simplify,differentiate,simplify,place"

static void place(Case *c, const char *plans, const char *name) {
  PmFrontendOptions o = {.seed = -1, .plan = name};
  run_plan(c, plans, &o, PLACE);
  if (c->code != PM_OK) fail_msg("%s", c->text);
}

// The type of a variable, or of the first named value of that path.
static const PmType *type_of(const Case *c, const char *path) {
  PmVarId var = pm_module_find_var(c->m, path);
  if (var != PM_NONE) return &c->m->vars[var].type;
  for (PmFnId f = 0; f < c->m->n_fns; f++)
    for (PmValueId v = 0; !pm_fn(c->m, f)->dead && v < pm_fn(c->m, f)->n_values; v++) {
      const PmValue *value = &pm_fn(c->m, f)->values[v];
      if (f != c->m->model && value->name && strcmp(value->name, path) == 0) return &value->type;
    }
  fail_msg("no value `%s`", path);
  return NULL;
}

static void expect(const Case *c, const char *path, const char *type) {
  PmBuf text;
  pm_buf_init(&text);
  pm_type_print(c->m, type_of(c, path), &text);
  if (strcmp(pm_buf_str(&text), type) != 0) fail_msg("`%s` is %s, not %s", path, pm_buf_str(&text), type);
  pm_buf_deinit(&text);
}

// ---- which rules there are -----------------------------------------------------------------------------------------
static const char family[] =
    "plan base {\n  mesh p=2, q=2\n  shard batch -> p\n  shard ff -> q\n  zero(stage=1, over=p)\n}\n"
    "plan child extends base {\n  shard batch -> q\n}\n"
    "plan wider extends child {\n  mesh p=2, q=4\n  zero(stage=3, over=p)\n}\n";

static void test_rules_of_a_child_come_before_its_parents(void **state) {
  (void)state;
  Case c;
  place(&c, family, "base");
  expect(&c, "tokens", "i32<vocab>[batch:8/p, seq:4]");
  expect(&c, "a.h", "f32[batch:8/p, seq:4, ff:16/q]");
  expect(&c, "a.w1", "f32[embed:8, ff:16/q]");
  case_free(&c);
  place(&c, family, "child");
  expect(&c, "tokens", "i32<vocab>[batch:8/q, seq:4]");
  expect(&c, "a.h", "f32[batch:8/q, seq:4, ff:16]");  // the child's rule took q
  expect(&c, "a.w1", "f32[embed:8, ff:16/q]");
  case_free(&c);
}

static void test_mesh_and_directives_of_a_child_replace_its_parents(void **state) {
  (void)state;
  Case c;
  place(&c, family, "child");
  expect(&c, "a.w1", "f32[embed:8, ff:16/q]");      // stage 1: parameters stay as they are used
  expect(&c, "a.w1/m", "f32[embed:8/p, ff:16/q]");  // their states are split further
  case_free(&c);
  place(&c, family, "wider");
  expect(&c, "tokens", "i32<vocab>[batch:8/q, seq:4]");
  expect(&c, "a.w1", "f32[embed:8/p, ff:16/q]");
  assert_int_equal(c.m->mesh[1].size, 4);
  case_free(&c);
}

static void test_none_closes_an_axis_to_later_rules(void **state) {
  (void)state;
  Case c;
  place(&c, "plan p {\n  mesh p=2\n  shard ff in \"a*\" -> none\n  shard ff -> p\n}\n", "p");
  expect(&c, "a.w1", "f32[embed:8, ff:16]");
  expect(&c, "a.h", "f32[batch:8, seq:4, ff:16]");
  expect(&c, "b.w1", "f32[embed:8, ff:16/p]");
  expect(&c, "b.h", "f32[batch:8, seq:4, ff:16/p]");
  case_free(&c);
}

// Tokens are looked up in a cut table as they are: never cut, whether by a rule's word or left open, then gathered.
static void lookups_gather_nothing(const char *plan) {
  Case c;
  PmFrontendOptions o = {.seed = -1, .plan = "p"};
  run_plan(&c, plan, &o, PM_DEFAULT_PASSES);
  if (c.code != PM_OK) fail_msg("%s", c.text);
  expect(&c, "tokens", "i32<vocab>[batch:8, seq:4]");
  int32_t n_gathers = 0;
  for (PmFnId f = 0; f < c.m->n_fns; f++) {
    const PmFn *fn = pm_fn(c.m, f);
    for (int32_t i = 0; !fn->dead && i < fn->n_nodes; i++) {
      if (fn->nodes[i].op != PM_OP_all_gather) continue;
      n_gathers++;
      assert_int_not_equal(fn->values[fn->nodes[i].out].type.dtype, PM_I32);
    }
  }
  assert_true(n_gathers > 0);  // of what positions split
  case_free(&c);
}

static void test_inputs_of_lookups_in_cut_tables_stay_whole(void **state) {
  (void)state;
  lookups_gather_nothing(
      "plan p {\n  mesh p=2\n  shard input seq -> none\n  shard vocab, ff -> p\n  shard act seq -> p\n}\n");
  lookups_gather_nothing("plan p {\n  mesh p=2\n  shard vocab, ff -> p\n  shard act seq -> p\n}\n");
}

static void test_a_target_takes_the_mesh_axes_that_are_free(void **state) {
  (void)state;
  Case c;
  place(&c, "plan p {\n  mesh p=2, q=2\n  shard act seq -> p\n  shard batch -> p + q\n}\n", "p");
  expect(&c, "tokens", "i32<vocab>[batch:8/p+q, seq:4]");  // an input: nothing else took p
  expect(&c, "a.h", "f32[batch:8/q, seq:4/p, ff:16]");
  case_free(&c);
  place(&c, "plan p {\n  mesh p=2, q=2\n  shard batch -> q + p\n}\n", "p");
  expect(&c, "tokens", "i32<vocab>[batch:8/q+p, seq:4]");
  case_free(&c);
}

static void test_roles_and_scopes_narrow_a_rule(void **state) {
  (void)state;
  Case c;
  place(&c, "plan p {\n  mesh p=2, q=2\n  shard param ff in \"a.*\" -> p\n  shard state ff in \"b.*\" -> q\n}\n", "p");
  expect(&c, "a.w1", "f32[embed:8, ff:16/p]");
  expect(&c, "a.w1/m", "f32[embed:8, ff:16/p]");  // follows its parameter
  expect(&c, "b.w1/m", "f32[embed:8, ff:16/q]");
  expect(&c, "b.w2/v", "f32[ff:16/q, embed:8]");
  case_free(&c);
}

static void test_the_command_line_comes_before_the_plan(void **state) {
  (void)state;
  Case c;
  const char *shard[] = {"batch -> q", "ff -> none"}, *set[] = {"axis.batch=16", "ff=32"};
  PmFrontendOptions o = {
      .seed = -1, .plan = "base", .mesh = "q=4,p=1", .shard = shard, .n_shard = 2, .set = set, .n_set = 2};
  run_plan(&c, family, &o, PLACE);
  assert_int_equal(c.code, PM_OK);
  expect(&c, "tokens", "i32<vocab>[batch:16/q, seq:4]");
  expect(&c, "a.w1", "f32[embed:8, ff:32]");
  case_free(&c);
}

static void test_a_plan_file_is_read_alone(void **state) {
  (void)state;
  Case c;
  FILE *f = fopen("alone.pplan", "w");
  assert_non_null(f);
  fputs("mesh z=4\nshard seq -> z\n", f);
  fclose(f);
  PmFrontendOptions o = {.seed = -1, .plan = "alone.pplan"};
  run_plan(&c, family, &o, PLACE);
  assert_int_equal(c.code, PM_OK);
  expect(&c, "tokens", "i32<vocab>[batch:8, seq:4/z]");
  assert_int_equal(c.m->n_rules, 1);
  case_free(&c);
}

// ---- sizes ---------------------------------------------------------------------------------------------------------
static void test_mesh_axes_of_one_rank_split_nothing(void **state) {
  (void)state;
  Case c;
  PmFrontendOptions o = {.seed = -1, .plan = "p"};
  run_plan(&c,
           "plan p {\n  mesh one=1, p=2\n  pin(\"a.h\", [batch/one, seq, ff/p])\n  shard batch -> one\n"
           "  shard ff -> one + p\n}\n",
           &o, PM_DEFAULT_PASSES);
  if (c.code != PM_OK) fail_msg("%s", c.text);
  expect(&c, "tokens", "i32<vocab>[batch:8, seq:4]");
  expect(&c, "a.w1", "f32[embed:8, ff:16/p]");
  for (PmFnId f = 0; f < c.m->n_fns; f++)
    for (int32_t i = 0; !pm_fn(c.m, f)->dead && i < pm_fn(c.m, f)->n_nodes; i++) {
      const PmAttr *a = &pm_fn(c.m, f)->nodes[i].attr;
      for (int32_t k = 0; k < a->n_mesh; k++) assert_int_equal(a->mesh[k], 1);
    }
  case_free(&c);
}

static void test_a_size_that_does_not_divide_is_an_error(void **state) {
  (void)state;
  Case c;
  PmFrontendOptions o = {.seed = -1, .plan = "p"};
  run_plan(&c, "plan p {\n  mesh p=4, q=4\n  shard batch -> p + q\n}\n", &o, PLACE);
  assert_int_equal(c.code, PM_ERR_INPUT);
  assert_non_null(strstr(c.text, "error[E0412]: `batch` (8) does not divide over `q` (4)"));
  case_free(&c);
}

// ---- conflicts -----------------------------------------------------------------------------------------------------
// Two splits over one mesh axis meet in the product: batch comes with x, ff with w1. The earlier rule's wins.
static void test_the_earlier_rule_wins_where_two_splits_meet(void **state) {
  (void)state;
  Case c;
  place(&c, "plan p {\n  mesh p=2\n  shard input batch -> p\n  shard param ff -> p\n}\n", "p");
  expect(&c, "a.h", "f32[batch:8/p, seq:4, ff:16]");
  case_free(&c);
  place(&c, "plan p {\n  mesh p=2\n  shard param ff -> p\n  shard input batch -> p\n}\n", "p");
  expect(&c, "a.h", "f32[batch:8, seq:4, ff:16/p]");
  case_free(&c);
}

// A product over axes that come split over one mesh axis, one in each operand: the larger operand stays where it is.
static void test_fewer_bytes_move_where_no_rule_decides(void **state) {
  (void)state;
  for (int32_t small = 0; small < 2; small++) {
    Plan p;
    plan_init(&p, "m=2");
    PmAxisId i = plan_axis(&p, "i", 4), j = plan_axis(&p, "j", 4), n = plan_axis(&p, "n", 64);
    PmAxisId x_axes[] = {i, j, n, PM_NONE}, y_axes[] = {i, j, PM_NONE};
    PmValueId x = plan_var(&p, small ? PM_ROLE_INPUT : PM_ROLE_PARAM, PM_F32, "x", PM_NONE, x_axes);
    PmValueId y = plan_var(&p, small ? PM_ROLE_PARAM : PM_ROLE_INPUT, PM_F32, "y", PM_NONE, y_axes);
    PmValueId d = pm_b_map1(&p.b, PM_S_tanh, pm_b_dot(&p.b, x, y, (PmAxisId[]){i, j}, 2));
    plan_rule(&p, 1u << PM_ROLE_INPUT, "i", "m");
    plan_rule(&p, 1u << PM_ROLE_PARAM, "j", "m");
    plan_check(&p, &d, 1);
    assert_int_equal(plan_count(p.m, PM_OP_all_to_all), 1);
    const PmFn *f = pm_fn(p.m, p.m->model);
    for (int32_t k = 0; k < f->n_nodes; k++)
      if (f->nodes[k].op == PM_OP_all_to_all) assert_int_equal(f->values[f->nodes[k].in[0]].type.rank, 2);
    plan_deinit(&p);
  }
}

// ---- what has been seen to go wrong elsewhere ----------------------------------------------------------------------
static void test_gradients_lie_as_what_they_are_gradients_of(void **state) {
  (void)state;
  Case c;
  place(&c, "plan p {\n  mesh p=2, q=2\n  shard batch -> p\n  shard ff -> q\n  shard act seq -> q\n}\n", "p");
  int32_t n = 0;
  for (PmFnId f = 0; f < c.m->n_fns; f++)
    for (PmValueId v = 0; f != c.m->model && !pm_fn(c.m, f)->dead && v < pm_fn(c.m, f)->n_values; v++) {
      const PmValue *value = &pm_fn(c.m, f)->values[v];
      size_t len = value->name ? strlen(value->name) : 0;
      if (len < 4 || strncmp(value->name, "d(", 2) != 0) continue;
      char path[128];
      snprintf(path, sizeof path, "%.*s", (int)len - 3, value->name + 2);
      const PmType *of = type_of(&c, path);
      for (int32_t d = 0; d < of->rank; d++) {
        int32_t e = pm_type_find(&value->type, of->dims[d].axis);
        if (e < 0 || !pm_split_equal(&of->dims[d].split, &value->type.dims[e].split))
          fail_msg("%s is not split as %s", value->name, path);
      }
      n++;
    }
  assert_true(n >= 6);
  case_free(&c);
}

// A product per group, batch split: nothing moves, with one group and with several.
static void test_grouped_products_move_nothing(void **state) {
  (void)state;
  for (int64_t groups = 1; groups <= 4; groups *= 2) {
    Plan p;
    plan_init(&p, "data=4");
    PmAxisId b = plan_axis(&p, "b", 8), g = plan_axis(&p, "g", groups), e = plan_axis(&p, "e", 6);
    PmAxisId f = plan_axis(&p, "f", 5), x_axes[] = {b, g, e, PM_NONE}, w_axes[] = {g, e, f, PM_NONE};
    PmValueId x = plan_var(&p, PM_ROLE_INPUT, PM_F32, "x", PM_NONE, x_axes);
    PmValueId w = plan_var(&p, PM_ROLE_PARAM, PM_F32, "w", PM_NONE, w_axes);
    PmValueId y = pm_b_map1(&p.b, PM_S_tanh, pm_b_dot(&p.b, x, w, &e, 1));
    plan_rule(&p, 0, "b", "data");
    plan_check(&p, &y, 1);
    for (PmOp op = 0; op < PM_OP_COUNT; op++)
      if (pm_op_flags(op) & PM_F_COMM) assert_int_equal(plan_count(p.m, op), 0);
    plan_deinit(&p);
  }
}

// A scatter of updates that are split over data by position and over tensor by column: one sum over data.
static void test_a_scatter_reduces_over_data_only(void **state) {
  (void)state;
  Plan p;
  plan_init(&p, "data=2,tensor=2");
  PmAxisId b = plan_axis(&p, "b", 8), v = plan_axis(&p, "v", 16), e = plan_axis(&p, "e", 6);
  PmAxisId idx_axes[] = {b, PM_NONE}, up_axes[] = {b, e, PM_NONE}, w_axes[] = {v, e, PM_NONE};
  PmValueId idx = plan_var(&p, PM_ROLE_INPUT, PM_I32, "idx", v, idx_axes);
  PmValueId up = plan_var(&p, PM_ROLE_INPUT, PM_F32, "up", PM_NONE, up_axes);
  PmValueId w = plan_var(&p, PM_ROLE_PARAM, PM_F32, "w", PM_NONE, w_axes);
  PmValueId s = pm_b_scatter_add(&p.b, idx, up, v, *pm_b_type(&p.b, w));
  PmValueId y = pm_b_map1(&p.b, PM_S_tanh, pm_b_map2(&p.b, PM_S_add, s, w));
  plan_rule(&p, 0, "b", "data");
  plan_rule(&p, 0, "e", "tensor");
  plan_check(&p, &y, 1);
  assert_int_equal(plan_count(p.m, PM_OP_all_reduce), 1);
  for (PmOp op = 0; op < PM_OP_COUNT; op++)
    if ((pm_op_flags(op) & PM_F_COMM) && op != PM_OP_all_reduce) assert_int_equal(plan_count(p.m, op), 0);
  plan_deinit(&p);
}

// One collective of this kind, and no other.
static void expect_only(const Plan *p, PmOp only) {
  for (PmOp op = 0; op < PM_OP_COUNT; op++)
    if (pm_op_flags(op) & PM_F_COMM) assert_int_equal(plan_count(p->m, op), op == only);
}

// Rows split over data, cut into `ways` parts of which the user wants each whole and its rows split: what is asked for
// comes out, by one exchange in which only rows that change ranks move. Where data divides the parts that is an
// all-to-all. So it is on the way back, and along other axes that are split over other ranks.
static void splits_and_merges(const char *mesh, int64_t ways, int64_t rows, PmOp by) {
  for (int32_t merges = 0; merges < 2; merges++) {
    Plan p;
    plan_init(&p, mesh);
    PmAxisId b = plan_axis(&p, "b", ways * rows), half = plan_axis(&p, "half", ways), row = plan_axis(&p, "row", rows);
    PmAxisId e = plan_axis(&p, "e", 4), parts[] = {half, row};
    PmAxisId axes[] = {e, merges ? half : b, merges ? row : PM_NONE, PM_NONE};
    PmValueId x = plan_var(&p, PM_ROLE_INPUT, PM_F32, "x", PM_NONE, axes);
    PmValueId y = merges ? pm_b_merge(&p.b, x, parts, 2, b) : pm_b_split(&p.b, x, b, parts, 2);
    pm_b_name(&p.b, y, "y", true);
    y = pm_b_map1(&p.b, PM_S_tanh, y);
    plan_rule(&p, 0, "b, row", "data");
    plan_rule(&p, 0, "e", "tensor");
    plan_check(&p, &y, 1);
    const PmFn *f = pm_fn(p.m, p.m->model);
    const PmType *t = &f->values[f->results[0]].type;
    assert_int_equal(t->dims[pm_type_find(t, merges ? b : row)].split.n, 1);
    if (!merges) assert_int_equal(t->dims[pm_type_find(t, half)].split.n, 0);
    expect_only(&p, by);
    plan_deinit(&p);
  }
}

static void test_a_split_axis_honours_the_placement_of_its_parts(void **state) {
  (void)state;
  splits_and_merges("data=4,tensor=1", 2, 4, PM_OP_gather_rows);
  splits_and_merges("data=4,tensor=2", 2, 4, PM_OP_gather_rows);
  splits_and_merges("tensor=2,data=4", 3, 8, PM_OP_gather_rows);
  splits_and_merges("data=3,tensor=2", 2, 3, PM_OP_gather_rows);
  splits_and_merges("data=2,tensor=2", 4, 6, PM_OP_all_to_all);
}

// A search along an axis that comes split: the rows are dealt out, not the whole gathered, where that saves bytes.
static void test_a_search_deals_out_its_rows(void **state) {
  (void)state;
  for (int64_t rows = 3; rows <= 96; rows += 93) {  // 3 rows do not divide
    Plan p;
    plan_init(&p, "m=4");
    PmAxisId b = plan_axis(&p, "b", rows), v = plan_axis(&p, "v", 2048), c = plan_axis(&p, "c", 2);
    PmAxisId axes[] = {b, v, PM_NONE};
    PmValueId x = plan_var(&p, PM_ROLE_INPUT, PM_F32, "x", PM_NONE, axes);
    PmAttr a = {.n_axes = 1, .axes = {v}, .n_to = 1, .to = {c}};
    PmValueId top = pm_b_node(&p.b, PM_OP_topk, &a, &x, 1, NULL);
    plan_rule(&p, 0, "v", "m");
    plan_check(&p, &top, 1);
    assert_int_equal(plan_count(p.m, PM_OP_all_to_all), rows == 96);
    assert_int_equal(plan_count(p.m, PM_OP_all_gather), 1);
    plan_deinit(&p);
  }
}

static int64_t size_of_step(const char *layers) {
  Plan p;
  plan_init(&p, "");
  const char *set[] = {layers};
  PmFrontendOptions o = {.seed = -1, .plan = "dp2_tp2", .set = set, .n_set = 1};
  PmModule *m;
  PmStatus *st =
      pm_frontend_compile(&p.arena, &p.names, &p.sources, p.diags, PM_SOURCE_DIR "/examples/gpt_tiny.pmodel", &o, &m);
  PmPassCtx ctx = {.diags = p.diags, .sources = &p.sources, .verify = true};
  if (!st) {
    m->bucket = INT64_MAX;  // more layers fill more buckets
    st = pm_passes_run(&ctx, m, PM_DEFAULT_PASSES);
  }
  assert_null(st);
  int64_t n = 0;
  for (PmFnId f = 0; f < m->n_fns; f++)
    if (!pm_fn(m, f)->dead) n += pm_fn(m, f)->n_nodes;
  plan_deinit(&p);
  return n;
}

static void test_depth_costs_nothing(void **state) {
  (void)state;
  assert_int_equal(size_of_step("axis.layer=80"), size_of_step("axis.layer=2"));
}

// ---- plans that nobody would write ---------------------------------------------------------------------------------
typedef struct Dice {
  uint64_t seed, n;
} Dice;

static uint32_t roll(Dice *d, uint32_t below) {
  return pm_random_u32(pm_random_key(d->seed, "plan"), 0, d->n++) % below;
}

static const char *pick(Dice *d, const char *const *words, uint32_t n) { return words[roll(d, n)]; }

static void put_pin(PmBuf *b, Dice *d, const char *const *axes) {
  static const char *const paths[] = {"a.h", "a.w1", "x", "tokens", "*", "b.*", "a.w1/m", "zz"};
  pm_buf_printf(b, "  pin(\"%s\", [", pick(d, paths, 8));
  uint32_t first = roll(d, 7), n = roll(d, 4);
  for (uint32_t i = 0; i < n; i++) {
    pm_buf_printf(b, "%s%s", i ? ", " : "", axes[(first + i) % 7]);
    if (roll(d, 2)) pm_buf_printf(b, "/%s", roll(d, 2) ? "p" : roll(d, 2) ? "q" : "p+q");
  }
  pm_buf_puts(b, "])\n");
}

static void put_random_plan(PmBuf *b, Dice *d) {
  static const char *const axes[] = {"batch", "seq", "embed", "ff", "batch", "ff", "zz"};
  static const char *const roles[] = {"", "", "", "param ", "state ", "act ", "grad ", "input "};
  static const char *const scopes[] = {"", "", "", " in \"a.*\"", " in \"*.w1\"", " in \"zz\""};
  static const char *const targets[] = {"p", "q", "r", "p + q", "q + p", "r + q + p", "none"};
  pm_buf_printf(b, "plan random {\n  mesh p=%u, q=%u, r=%u\n", 1 + roll(d, 4), 1 + roll(d, 2), 1 + roll(d, 2));
  for (uint32_t i = roll(d, 6); i > 0; i--) {
    if (roll(d, 5) == 0) {
      put_pin(b, d, axes);
      continue;
    }
    pm_buf_printf(b, "  shard %s%s", pick(d, roles, 8), pick(d, axes, 7));
    if (roll(d, 3) == 0) pm_buf_printf(b, ", %s", pick(d, axes, 7));
    pm_buf_printf(b, "%s -> %s\n", pick(d, scopes, 6), pick(d, targets, 7));
  }
  if (roll(d, 3) == 0) pm_buf_printf(b, "  zero(stage=%u, over=%s)\n", roll(d, 4), pick(d, targets, 6));
  pm_buf_puts(b, "}\n");
}

// The partitioned step against the step of one rank.
static void check_numbers(Case *c, uint64_t seed) {
  PmFrontendOptions o = {.seed = -1};
  PmModule *m;
  PmStatus *st = pm_frontend_compile(&c->p.arena, &c->p.names, &c->p.sources, c->p.diags, "place.pmodel", &o, &m);
  PmPassCtx ctx = {.diags = c->p.diags, .sources = &c->p.sources, .keep_grads = true};
  if (!st) st = pm_passes_run(&ctx, m, "simplify,differentiate,simplify");
  assert_null(st);
  double error = plan_worst_error(&c->p.arena, m, m->step, c->m, c->m->step, seed);
  if (!(error <= 1e-9)) fail_msg("seed %llu: error %g", (unsigned long long)seed, error);
}

// Each ends in a verified program, of which some are run, or in a diagnostic, never in an assertion.
static void test_random_plans_end_in_a_program_or_a_diagnostic(void **state) {
  (void)state;
  const char *most = getenv("PM_TEST_SEEDS");
  uint64_t n_seeds = most ? strtoull(most, NULL, 10) : 300;
  int32_t n_ok = 0, n_refused = 0;
  for (uint64_t seed = 1; seed <= n_seeds; seed++) {
    PmBuf text;
    pm_buf_init(&text);
    put_random_plan(&text, &(Dice){.seed = seed});
    Case c;
    PmFrontendOptions o = {.seed = -1, .plan = "random"};
    run_plan(&c, pm_buf_str(&text), &o, PM_DEFAULT_PASSES);
    if (c.code == PM_OK) {
      n_ok++;
      if (seed % 3 == 0) check_numbers(&c, seed);
    } else {
      n_refused++;
      if (c.code != PM_ERR_INPUT || !strstr(c.text, "error[E"))
        fail_msg("seed %llu ends with %d and says `%s`:\n%s", (unsigned long long)seed, (int)c.code, c.text,
                 pm_buf_str(&text));
    }
    case_free(&c);
    pm_buf_deinit(&text);
  }
  print_message("%d plans compile, %d are refused\n", n_ok, n_refused);
  assert_true(n_ok > n_refused / 8 && n_refused > 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rules_of_a_child_come_before_its_parents),
      cmocka_unit_test(test_mesh_and_directives_of_a_child_replace_its_parents),
      cmocka_unit_test(test_none_closes_an_axis_to_later_rules),
      cmocka_unit_test(test_inputs_of_lookups_in_cut_tables_stay_whole),
      cmocka_unit_test(test_a_target_takes_the_mesh_axes_that_are_free),
      cmocka_unit_test(test_roles_and_scopes_narrow_a_rule),
      cmocka_unit_test(test_the_command_line_comes_before_the_plan),
      cmocka_unit_test(test_a_plan_file_is_read_alone),
      cmocka_unit_test(test_mesh_axes_of_one_rank_split_nothing),
      cmocka_unit_test(test_a_size_that_does_not_divide_is_an_error),
      cmocka_unit_test(test_the_earlier_rule_wins_where_two_splits_meet),
      cmocka_unit_test(test_fewer_bytes_move_where_no_rule_decides),
      cmocka_unit_test(test_gradients_lie_as_what_they_are_gradients_of),
      cmocka_unit_test(test_grouped_products_move_nothing),
      cmocka_unit_test(test_a_scatter_reduces_over_data_only),
      cmocka_unit_test(test_a_split_axis_honours_the_placement_of_its_parts),
      cmocka_unit_test(test_a_search_deals_out_its_rows),
      cmocka_unit_test(test_depth_costs_nothing),
      cmocka_unit_test(test_random_plans_end_in_a_program_or_a_diagnostic),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
