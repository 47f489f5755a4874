// Every example on many meshes: the partitioned step, run on all ranks in lockstep by the reference interpreter in
// double, gives what the logical step gives on one. No kernel takes part, so a difference is a wrong placement or
// collective.
#include <stdio.h>
#include <string.h>

#include "frontend/frontend.h"
#include "harness.h"
#include "plans.h"

typedef struct Case {
  const char *file, *mesh;
  int32_t zero;  // stage, over the mesh axis `data`
  const char *set[12];
  const char *shard[8];  // rules, and directives with their brackets
} Case;

#define LOGICAL_PASSES PM_STEP_PASSES
#define SPLIT_PASSES PM_STEP_PASSES ",masters,split_backward,simplify,pad,place,partition,simplify,bucket"
#define PLACED_PASSES PM_STEP_PASSES ",masters,pad,place"

#define GPT_SMALL "axis.batch=4", "axis.seq=8", "axis.embed=16", "axis.heads=4", "axis.layer=2", "axis.vocab=32"
#define MOE_SMALL "axis.batch=4", "axis.seq=4", "axis.vocab=8", "axis.embed=8", "axis.hdim=4", "axis.ff=4"

#define ROUTER_WHOLE "expert in \"*.wr\" -> none"
#define EXPERTS(mesh) "batch -> " mesh, ROUTER_WHOLE, "param expert -> " mesh
#define LLAMA_LONG "axis.batch=2", "axis.seq=16", "axis.vocab=32", "axis.embed=16", "axis.hdim=4", "axis.ff=16"
#define LLAMA_HEADS LLAMA_LONG, "axis.kvheads=4", "axis.group=4"

// Context parallelism beside other mesh axes, which may have one rank.
#define CP(file, mesh, zero, set, heads, attend)                                                                    \
  {                                                                                                                 \
    file, mesh, zero, {set}, {                                                                                      \
      "batch -> data", heads ", ff, vocab -> tensor", "input seq -> context", "act seq -> context + tensor", attend \
    }                                                                                                               \
  }

static const Case cases[] = {
    {"gpt_tiny", "data=2", 0, {GPT_SMALL}, {"batch -> data"}},
    {"gpt_tiny", "tensor=2", 0, {GPT_SMALL}, {"heads, ff -> tensor"}},
    {"gpt_tiny", "tensor=4", 0, {GPT_SMALL}, {"heads, ff, vocab -> tensor"}},
    {"gpt_tiny", "data=2,tensor=2", 0, {GPT_SMALL}, {"batch -> data", "heads, ff -> tensor"}},
    {"gpt_tiny", "data=2,tensor=2", 0, {GPT_SMALL}, {"batch -> data", "heads, ff, vocab -> tensor"}},
    {"gpt_tiny", "tensor=2,data=4", 0, {GPT_SMALL}, {"batch -> data", "heads, ff, vocab -> tensor"}},
    {"gpt_tiny",
     "data=2,tensor=2",
     0,
     {GPT_SMALL},
     {"batch -> data", "heads, ff, vocab -> tensor", "act seq -> tensor"}},
    {"gpt_tiny", "a=2,b=2", 0, {GPT_SMALL}, {"batch -> a + b"}},
    {"gpt_tiny", "data=1,tensor=2", 0, {GPT_SMALL}, {"batch -> data", "embed -> tensor"}},
    {"llama_tiny", "data=2", 0, {"axis.batch=4", "axis.seq=8", "axis.vocab=32"}, {"batch -> data"}},
    {"llama_tiny", "tensor=2", 0, {"axis.batch=4", "axis.seq=8", "axis.vocab=32"}, {"kvheads, ff, vocab -> tensor"}},
    {"llama_tiny",
     "data=2,tensor=2",
     0,
     {"axis.batch=4", "axis.seq=8", "axis.vocab=32"},
     {"batch -> data", "kvheads, ff, vocab -> tensor", "act seq -> tensor"}},
    {"mlp", "data=2", 0, {NULL}, {"batch -> data"}},
    {"gpt_tiny", "data=2", 1, {GPT_SMALL}, {"batch -> data"}},
    {"gpt_tiny", "data=4", 2, {GPT_SMALL}, {"batch -> data"}},
    {"gpt_tiny", "data=4", 3, {GPT_SMALL}, {"batch -> data"}},
    {"gpt_tiny", "data=2,tensor=2", 1, {GPT_SMALL}, {"batch -> data", "heads, ff, vocab -> tensor"}},
    {"gpt_tiny",
     "data=2,tensor=2",
     3,
     {GPT_SMALL},
     {"batch -> data", "heads, ff, vocab -> tensor", "act seq -> tensor"}},
    {"llama_tiny", "data=4", 3, {"axis.batch=4", "axis.seq=8", "axis.vocab=32"}, {"batch -> data"}},
    {"mixtral_tiny", "data=2", 0, {MOE_SMALL}, {"batch -> data"}},
    {"mixtral_tiny", "tensor=2", 0, {MOE_SMALL}, {"kvheads, ff -> tensor"}},
    {"mixtral_tiny",
     "data=2,tensor=2",
     0,
     {MOE_SMALL},
     {"batch -> data", "kvheads, ff, vocab -> tensor", "act seq -> tensor"}},
    {"mixtral_tiny", "data=2", 0, {MOE_SMALL}, {"expert in \"*.wr\" -> none", "batch -> data", "param expert -> data"}},
    {"mixtral_tiny", "data=2,tensor=2", 0, {MOE_SMALL}, {"batch -> data", "expert -> tensor"}},
    {"mixtral_tiny", "data=2", 0, {MOE_SMALL, "axis.slot=6"}, {"batch -> data"}},
    {"deepseek_moe_tiny", "data=2", 0, {MOE_SMALL, "axis.moeff=4"}, {"batch -> data"}},
    {"deepseek_moe_tiny", "tensor=2", 0, {MOE_SMALL, "axis.moeff=4"}, {"kvheads, ff, moeff -> tensor"}},
    {"deepseek_moe_tiny",
     "data=2,tensor=2",
     0,
     {MOE_SMALL, "axis.moeff=4"},
     {"batch -> data", "kvheads, ff, moeff -> tensor"}},
    {"deepseek_moe_tiny", "data=4", 0, {MOE_SMALL, "axis.moeff=4"}, {"expert, batch -> data"}},
    {"mixtral_tiny", "data=2", 3, {MOE_SMALL}, {"batch -> data"}},
    {"mixtral_tiny", "data=2", 1, {MOE_SMALL}, {"expert in \"*.wr\" -> none", "batch -> data", "param expert -> data"}},
    {"deepseek_moe_tiny",
     "data=2,tensor=2",
     2,
     {MOE_SMALL, "axis.moeff=4"},
     {"batch -> data", "kvheads, ff, moeff -> tensor"}},
    {"classifier", "data=2,tensor=2", 1, {NULL}, {"batch -> data", "byte, ff, class -> tensor"}},
    {"autoencoder", "data=2,tensor=2", 2, {NULL}, {"batch -> data", "hidden -> tensor"}},
    // Experts on the ranks that hold the tokens: dropless, bounded, with capacity; many ranks, few tokens.
    {"mixtral_tiny", "data=4", 0, {MOE_SMALL}, {EXPERTS("data")}},
    {"mixtral_tiny", "data=8", 0, {MOE_SMALL, "axis.batch=8", "axis.expert=8"}, {EXPERTS("data")}},
    {"mixtral_tiny", "data=4", 0, {MOE_SMALL, "axis.slot=ragged(bound=4)"}, {EXPERTS("data")}},
    {"mixtral_tiny", "data=4", 0, {MOE_SMALL, "axis.slot=5"}, {EXPERTS("data")}},
    {"mixtral_tiny", "data=2", 3, {MOE_SMALL}, {EXPERTS("data")}},
    {"mixtral_tiny", "data=2,tensor=2", 1, {MOE_SMALL}, {EXPERTS("data"), "kvheads, ff -> tensor"}},
    {"mixtral_tiny",
     "data=2,tensor=2",
     1,
     {MOE_SMALL},
     {EXPERTS("data"), "kvheads, ff, vocab -> tensor", "act seq, slot -> tensor"}},
    {"mixtral_tiny", "tensor=2,data=2", 0, {MOE_SMALL, "axis.slot=6"}, {EXPERTS("data"), "act seq, slot -> tensor"}},
    {"mixtral_tiny", "data=2", 0, {MOE_SMALL}, {"act slot -> none", "batch -> data"}},
    {"mixtral_tiny", "dp=2,data=2", 1, {MOE_SMALL}, {"batch -> dp + data", ROUTER_WHOLE, "param expert -> data"}},
    {"mixtral_tiny",
     "dp=2,data=2",
     1,
     {MOE_SMALL},
     {"act slot -> none", "batch -> dp + data", ROUTER_WHOLE, "param expert -> data"}},
    {"mixtral_tiny", "data=2,dp=2", 0, {MOE_SMALL}, {"batch -> data + dp", ROUTER_WHOLE, "param expert -> data"}},
    {"mixtral_tiny",
     "data=2,ep=2",
     0,
     {MOE_SMALL},
     {"batch -> data", "act seq -> ep", ROUTER_WHOLE, "param expert -> ep"}},
    {"deepseek_moe_tiny", "data=8", 0, {MOE_SMALL, "axis.batch=8", "axis.moeff=4"}, {EXPERTS("data")}},
    {"deepseek_moe_tiny", "data=4", 0, {MOE_SMALL, "axis.moeff=4", "axis.slot=ragged"}, {EXPERTS("data")}},
    {"deepseek_moe_tiny",
     "data=2,tensor=2",
     2,
     {MOE_SMALL, "axis.moeff=4"},
     {EXPERTS("data"), "kvheads, ff, moeff -> tensor", "act seq -> tensor"}},
    CP("gpt_tiny", "data=1,context=2,tensor=1", 0, GPT_SMALL, "heads", "ring(kv, over=context)"),
    CP("gpt_tiny", "data=1,context=4,tensor=1", 0, GPT_SMALL, "heads", "ring(kv, over=context)"),
    CP("gpt_tiny", "data=1,context=8,tensor=1", 0, GPT_SMALL, "heads",
       "ring(kv, over=context)"),  // a token a rank: no zigzag
    CP("gpt_tiny", "data=1,context=4,tensor=1", 0, GPT_SMALL, "heads", "ring(kv, over=context, order=plain)"),
    CP("gpt_tiny", "data=1,context=4,tensor=1", 0, GPT_SMALL, "heads", "gather(kv, over=context)"),
    CP("gpt_tiny", "data=1,context=2,tensor=1", 0, GPT_SMALL, "heads", "ulysses(kv, over=context)"),
    CP("gpt_tiny", "data=1,context=4,tensor=1", 0, GPT_SMALL, "heads", "ulysses(kv, over=context)"),
    CP("llama_tiny", "data=1,context=2,tensor=1", 0, LLAMA_LONG, "kvheads", "ring(kv, over=context)"),
    CP("llama_tiny", "data=1,context=8,tensor=1", 0, LLAMA_LONG, "kvheads", "ring(kv, over=context)"),
    CP("llama_tiny", "data=1,context=8,tensor=1", 0, LLAMA_LONG, "kvheads", "gather(kv, over=context)"),
    CP("llama_tiny", "data=1,context=2,tensor=1", 0, LLAMA_LONG, "kvheads", "ulysses(kv, over=context)"),
    CP("llama_tiny", "data=1,context=4,tensor=1", 0, LLAMA_HEADS, "kvheads", "ulysses(kv, over=context, heads=group)"),
    CP("llama_tiny", "data=2,context=4,tensor=2", 3, LLAMA_LONG, "kvheads", "ring(kv, over=context)"),
    CP("llama_tiny", "data=2,context=2,tensor=2", 2, LLAMA_LONG, "kvheads", "ring(kv, over=context, order=plain)"),
    CP("llama_tiny", "context=2,data=2,tensor=2", 1, LLAMA_HEADS, "kvheads", "ulysses(kv, over=context)"),
    CP("mixtral_tiny", "data=2,context=2,tensor=1", 0, MOE_SMALL, "kvheads", "ring(kv, over=context)"),
    CP("deepseek_moe_tiny", "data=1,context=2,tensor=2", 0, MOE_SMALL, "kvheads", "ring(kv, over=context)"),
    {"llama_tiny",
     "context=4,tensor=2",
     0,
     {LLAMA_LONG},
     {"group, ff, vocab -> tensor", "input seq -> context", "act seq -> context + tensor", "ring(kv, over=context)"}},
    {"gpt_tiny", "context=2", 0, {GPT_SMALL}, {"seq -> context", "ring(kv, over=context)"}},  // positions too
    {"mlp_dropout", "data=2,tensor=2", 3, {NULL}, {"batch -> data", "hidden, vocab -> tensor", "act seq -> tensor"}},
};

// With the backward in its input and weight parts.
static const Case split_cases[] = {
    {"gpt_tiny", "data=2", 0, {GPT_SMALL}, {"batch -> data"}},
    {"gpt_tiny", "data=2,tensor=2", 1, {GPT_SMALL}, {"batch -> data", "heads, ff, vocab -> tensor"}},
    {"gpt_tiny", "data=4", 2, {GPT_SMALL}, {"batch -> data"}},
    {"gpt_tiny", "data=4", 3, {GPT_SMALL}, {"batch -> data"}},
    {"gpt_tiny", "tensor=2", 0, {GPT_SMALL}, {"heads, ff, vocab -> tensor", "act seq -> tensor"}},
    {"mixtral_tiny", "data=2", 1, {MOE_SMALL}, {"expert in \"*.wr\" -> none", "batch -> data", "param expert -> data"}},
};

static int32_t count(const char *const *list, int32_t most) {
  int32_t n = 0;
  while (n < most && list[n]) n++;
  return n;
}

// The case's mesh and rules as a plan file; returns its path.
static const char *write_plan(const Case *c) {
  static const char path[] = "case.pplan";
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fprintf(f, "mesh %s\n", c->mesh);
  for (int32_t i = 0; i < count(c->shard, 8); i++)
    fprintf(f, "%s%s\n", strchr(c->shard[i], '(') ? "" : "shard ", c->shard[i]);
  if (c->zero) fprintf(f, "zero(stage=%d, over=data)\n", c->zero);
  fclose(f);
  return path;
}

static PmModule *compile(Plan *p, const Case *c, const char *passes) {
  char path[512];
  snprintf(path, sizeof path, "%s/examples/%s.pmodel", PM_SOURCE_DIR, c->file);
  PmFrontendOptions opts = {.seed = -1, .set = c->set, .n_set = count(c->set, 12)};
  if (strcmp(passes, LOGICAL_PASSES) != 0) opts.plan = write_plan(c);
  PmModule *m = NULL;
  PmStatus *st = pm_frontend_compile(&p->arena, &p->names, &p->sources, p->diags, path, &opts, &m);
  PmPassCtx ctx = {.diags = p->diags, .sources = &p->sources, .verify = true, .keep_grads = true};
  if (!st) st = pm_passes_run(&ctx, m, passes);
  if (st) {
    pm_diags_print(p->diags, false, stderr);
    fail_msg("%s on %s: %s", c->file, c->mesh, pm_status_message(st));
  }
  return m;
}

static void check_case(const Case *c, const char *passes) {
  Plan p;
  plan_init(&p, "");
  PmModule *logical = compile(&p, c, LOGICAL_PASSES), *local = compile(&p, c, passes);
  double error = plan_worst_error(&p.arena, logical, logical->step, local, local->step, 3);
  print_message("%s on %s: %g\n", c->file, c->mesh, error);
  assert_true(error <= 1e-9);
  plan_deinit(&p);
}

static void test_case(void **state) { check_case(*state, PM_DEFAULT_PASSES); }
static void test_split_case(void **state) { check_case(*state, SPLIT_PASSES); }

typedef struct Counts {
  int64_t all_reduce, all_gather, reduce_scatter, all_to_all, shift, scatter_rows, gather_rows;
} Counts;

// Of the functions whose name ends so, or that are clones of this composite.
static Counts counts_of(const PmModule *m, const char *suffix) {
  Counts c = {0};
  for (int32_t k = 0; k < m->n_fns; k++) {
    const PmFn *f = pm_fn(m, k);
    size_t n = strlen(f->name), s = strlen(suffix);
    bool is_base = f->base && strcmp(f->base, suffix) == 0;
    if (f->dead || (!is_base && (n < s || strcmp(f->name + n - s, suffix) != 0))) continue;
    for (int32_t i = 0; i < f->n_nodes; i++) {
      c.all_reduce += f->nodes[i].op == PM_OP_all_reduce;
      c.all_gather += f->nodes[i].op == PM_OP_all_gather;
      c.reduce_scatter += f->nodes[i].op == PM_OP_reduce_scatter;
      c.all_to_all += f->nodes[i].op == PM_OP_all_to_all;
      c.scatter_rows += f->nodes[i].op == PM_OP_scatter_rows;
      c.gather_rows += f->nodes[i].op == PM_OP_gather_rows;
      c.shift += f->nodes[i].op == PM_OP_shift;
    }
  }
  return c;
}

static void assert_counts(Counts got, Counts want) { assert_memory_equal(&got, &want, sizeof got); }

// Megatron's cut: two all-reduces a layer forward and two backward; the step adds one for the norm.
static void test_tensor_parallel_counts(void **state) {
  (void)state;
  static const Case c = {"gpt_tiny", "tensor=2", 0, {GPT_SMALL}, {"heads, ff -> tensor"}};
  Plan p;
  plan_init(&p, "");
  PmModule *m = compile(&p, &c, PM_DEFAULT_PASSES);
  assert_counts(counts_of(m, ".layer.fwd"), (Counts){.all_reduce = 2});
  assert_counts(counts_of(m, ".layer.bwd"), (Counts){.all_reduce = 2});
  assert_counts(counts_of(m, "gpt_tiny.fwd"), (Counts){0});
  assert_counts(counts_of(m, "gpt_tiny.bwd"), (Counts){0});
  assert_counts(counts_of(m, "step"), (Counts){.all_reduce = 1});
  plan_deinit(&p);
}

// With the sequence split between: gathers and scatters in place of the all-reduces; the saved column inputs are
// gathered again for the weights' gradients; vocabulary-parallel embedding and loss never gather logits.
static void test_sequence_parallel_counts(void **state) {
  (void)state;
  static const Case c = {"gpt_tiny", "tensor=2", 0, {GPT_SMALL}, {"heads, ff, vocab -> tensor", "act seq -> tensor"}};
  Plan p;
  plan_init(&p, "");
  PmModule *m = compile(&p, &c, PM_DEFAULT_PASSES);
  assert_counts(counts_of(m, ".layer.fwd"), (Counts){.all_gather = 2, .reduce_scatter = 2});
  assert_counts(counts_of(m, ".layer.bwd"), (Counts){.all_gather = 4, .reduce_scatter = 2});
  Counts fwd = counts_of(m, "gpt_tiny.fwd");
  assert_int_equal(fwd.reduce_scatter, 1);  // the embedding
  assert_int_equal(fwd.all_reduce, 0);
  assert_counts(counts_of(m, "xent_fwd"), (Counts){.all_reduce = 3});
  assert_int_equal(counts_of(m, "gpt_tiny.bwd").all_reduce, 1);  // gradients of norms and of biases on rows
  plan_deinit(&p);
}

// Data parallelism: one all-reduce of all gradients, after the layers.
static void test_data_parallel_counts(void **state) {
  (void)state;
  static const Case c = {"gpt_tiny", "data=2", 0, {GPT_SMALL}, {"batch -> data"}};
  Plan p;
  plan_init(&p, "");
  PmModule *m = compile(&p, &c, PM_DEFAULT_PASSES);
  assert_counts(counts_of(m, ".layer.fwd"), (Counts){0});
  assert_counts(counts_of(m, ".layer.bwd"), (Counts){0});
  assert_counts(counts_of(m, "gpt_tiny.bwd"), (Counts){.all_reduce = 1});
  assert_counts(counts_of(m, "step"), (Counts){0});
  int32_t n_params = 0, n_reduced = 0;
  for (PmVarId v = 0; v < m->n_vars; v++) n_params += m->vars[v].role == PM_ROLE_PARAM;
  const PmFn *bwd = pm_fn(m, pm_module_find_fn(m, "gpt_tiny.bwd"));
  for (int32_t i = 0; i < bwd->n_nodes; i++)
    if (bwd->nodes[i].op == PM_OP_all_reduce) n_reduced = bwd->nodes[i].n_in;
  assert_int_equal(n_reduced, n_params);
  plan_deinit(&p);
}

// In parts: what the layer before waits for is in the input part; sums of gradients over data are in the weight part.
static void test_split_counts(void **state) {
  (void)state;
  static const Case tensor = {"gpt_tiny", "tensor=2", 0, {GPT_SMALL}, {"heads, ff -> tensor"}};
  static const Case data = {"gpt_tiny", "data=2", 2, {GPT_SMALL}, {"batch -> data"}};
  Plan p;
  plan_init(&p, "");
  PmModule *m = compile(&p, &tensor, SPLIT_PASSES);
  assert_counts(counts_of(m, ".layer.bwd_input"), (Counts){.all_reduce = 2});
  assert_counts(counts_of(m, ".layer.bwd_weight"), (Counts){0});
  assert_counts(counts_of(m, "gpt_tiny.bwd_input"), (Counts){0});
  assert_counts(counts_of(m, "gpt_tiny.bwd_weight"), (Counts){0});
  assert_counts(counts_of(m, "step"), (Counts){.all_reduce = 1});
  plan_deinit(&p);
  plan_init(&p, "");
  m = compile(&p, &data, SPLIT_PASSES);
  int64_t n_layer = 0;
  for (PmVarId v = 0; v < m->n_vars; v++)
    n_layer += m->vars[v].role == PM_ROLE_PARAM && strncmp(m->vars[v].path, "layer.", 6) == 0;
  assert_counts(counts_of(m, ".layer.bwd_input"), (Counts){0});
  assert_counts(counts_of(m, ".layer.bwd_weight"), (Counts){.reduce_scatter = n_layer});
  plan_deinit(&p);
}

// ZeRO: 1, one reduce-scatter and one gather a parameter and step; 2, the scatter in each layer's backward; 3, gathers
// in each layer, forward and again backward, and none at the end.
static void test_zero_counts(void **state) {
  (void)state;
  for (int32_t stage = 1; stage <= 3; stage++) {
    Case c = {"gpt_tiny", "data=2", stage, {GPT_SMALL}, {"batch -> data"}};
    Plan p;
    plan_init(&p, "");
    PmModule *m = compile(&p, &c, PM_DEFAULT_PASSES);
    int64_t n_params = 0, n_layer = 0;
    for (PmVarId v = 0; v < m->n_vars; v++) {
      n_params += m->vars[v].role == PM_ROLE_PARAM;
      n_layer += m->vars[v].role == PM_ROLE_PARAM && strncmp(m->vars[v].path, "layer.", 6) == 0;
    }
    Counts step = counts_of(m, "step"), fwd = counts_of(m, ".layer.fwd"), bwd = counts_of(m, ".layer.bwd");
    assert_int_equal(step.all_reduce, 1);  // the norm
    assert_int_equal(step.all_gather, stage < 3 ? n_params : 0);
    assert_int_equal(step.reduce_scatter, stage == 1 ? n_params : n_params - n_layer);
    assert_int_equal(bwd.reduce_scatter, stage == 1 ? 0 : n_layer);
    assert_int_equal(fwd.all_gather, stage == 3 ? n_layer : 0);
    assert_true(stage == 3 ? bwd.all_gather > 0 : bwd.all_gather == 0);
    plan_deinit(&p);
  }
}

// Experts on `data`: two exchanges of rows a layer forward, and the two sums of the balance; two exchanges backward.
// The counts that come first are part of slot_of.
static void test_expert_parallel_counts(void **state) {
  (void)state;
  static const char *const slots[] = {"axis.slot=ragged", "axis.slot=6", "axis.slot=ragged(bound=2)"};
  for (int32_t i = 0; i < 3; i++) {
    const Case c = {"mixtral_tiny", "data=2", 0, {MOE_SMALL, slots[i]}, {EXPERTS("data")}};
    Plan p;
    plan_init(&p, "");
    PmModule *m = compile(&p, &c, PM_DEFAULT_PASSES);
    assert_counts(counts_of(m, ".layer.fwd"), (Counts){.all_reduce = 2, .scatter_rows = 1, .gather_rows = 1});
    assert_counts(counts_of(m, ".layer.bwd"), (Counts){.scatter_rows = 1, .gather_rows = 1});
    int64_t counting = 0;
    for (int32_t f = 0; f < m->n_fns; f++)
      for (int32_t k = 0; !m->fns[f].dead && k < m->fns[f].n_nodes; k++)
        counting += m->fns[f].nodes[k].op == PM_OP_slot_of && m->fns[f].nodes[k].attr.n_mesh == 1;
    assert_int_equal(counting, 2);  // of the step and of eval, once each
    plan_deinit(&p);
  }
}

// Without rules for experts or slots each rank takes its part of the slots of every expert; with them split over fewer
// ranks than tokens are, its part of its experts' slots. A rule that closes the slots leaves them whole.
static void test_slots_follow_tokens(void **state) {
  (void)state;
  static const struct {
    Case c;
    const char *type;
  } rows[] = {
      {{"mixtral_tiny", "data=2", 0, {NULL}, {"batch -> data"}}, "f32[expert:4, slot:256/data, embed:64]"},
      {{"mixtral_tiny", "dp=2,ep=2", 0, {NULL}, {"batch -> dp + ep", ROUTER_WHOLE, "param expert -> ep"}},
       "f32[expert:4/ep, slot:256/dp, embed:64]"},
      {{"mixtral_tiny", "data=2,tensor=2", 0, {NULL}, {EXPERTS("data"), "ff -> tensor", "act seq -> tensor"}},
       "f32[expert:4/data, slot:256/tensor, embed:64]"},
      {{"mixtral_tiny", "data=2", 0, {NULL}, {EXPERTS("data")}}, "f32[expert:4/data, slot:256, embed:64]"},
      {{"mixtral_tiny", "data=2", 0, {"axis.slot=33"}, {"batch -> data"}}, "f32[expert:4, slot:33, embed:64]"},
      {{"mixtral_tiny", "data=2", 0, {NULL}, {"act slot -> none", "batch -> data"}},
       "f32[expert:4, slot:256, embed:64]"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    Plan p;
    PmBuf text;
    plan_init(&p, "");
    pm_buf_init(&text);
    PmModule *m = compile(&p, &rows[i].c, PM_DEFAULT_PASSES);
    const PmFn *f = pm_fn(m, pm_module_find_fn(m, "mixtral_tiny.layer.fwd"));
    int32_t found = 0;
    for (int32_t k = 0; k < f->n_nodes; k++) {
      const PmType *t = &f->values[f->nodes[k].out].type;
      const bool one = f->values[f->nodes[k].out].name && strcmp(f->values[f->nodes[k].out].name, "layer.ffn.h") == 0;
      if (!one || t->n_partial || f->nodes[k].op == PM_OP_all_gather || f->nodes[k].op == PM_OP_dot) continue;
      pm_buf_clear(&text);
      pm_type_print(m, t, &text);
      assert_string_equal(pm_buf_str(&text), rows[i].type);
      found++;
    }
    assert_true(found > 0);
    pm_buf_deinit(&text);
    plan_deinit(&p);
  }
}

// What the slots of a dispatch get goes on through the experts and their gradients, in every function.
static void test_split_slots_spread(void **state) {
  (void)state;
  static const Case rows[] = {
      {"mixtral_tiny", "data=2", 0, {NULL}, {"batch -> data"}},
      {"mixtral_tiny", "dp=2,ep=2", 0, {NULL}, {"batch -> dp + ep", ROUTER_WHOLE, "param expert -> ep"}},
      {"deepseek_moe_tiny", "data=2", 0, {"axis.slot=ragged"}, {"batch -> data"}},
  };
  static const char *const split_by[] = {"data", "dp", "data"};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    Plan p;
    plan_init(&p, "");
    PmModule *m = compile(&p, &rows[i], PLACED_PASSES);
    const int32_t slot = pm_module_find_axis(m, "slot"), mesh = pm_module_find_mesh(m, split_by[i]);
    int32_t found = 0;
    for (int32_t k = 0; k < m->n_fns; k++) {
      for (PmValueId v = 0; !m->fns[k].dead && v < m->fns[k].n_values; v++) {
        const PmType *t = &m->fns[k].values[v].type;
        const int32_t dim = pm_type_find(t, slot);
        if (dim == PM_NONE) continue;
        if (!pm_split_has(&t->dims[dim].split, mesh))
          fail_msg("row %d: value %d of %s", (int)i, (int)v, m->fns[k].name);
        found++;
      }
    }
    assert_true(found > 20);
    plan_deinit(&p);
  }
}

// What the sequence-parallel layer of a dense model sends is set aside: one more gather before the experts and one
// scatter behind them; backward two gathers (of the gradient and of what was saved) and a scatter.
static void test_expert_tensor_parallel_counts(void **state) {
  (void)state;
  static const Case moe = {
      "mixtral_tiny", "data=2,tensor=2", 0, {NULL}, {EXPERTS("data"), "kvheads, ff -> tensor", "act seq -> tensor"}};
  Plan p;
  plan_init(&p, "");
  PmModule *m = compile(&p, &moe, PM_DEFAULT_PASSES);
  const int32_t expert = pm_module_find_axis(m, "expert");
  Counts got[2] = {{0}, {0}};
  for (int32_t k = 0; k < m->n_fns; k++) {
    const PmFn *f = pm_fn(m, k);
    const bool bwd = strcmp(f->name, "mixtral_tiny.layer.bwd") == 0;
    if (f->dead || (!bwd && strcmp(f->name, "mixtral_tiny.layer.fwd") != 0)) continue;
    for (int32_t i = 0; i < f->n_nodes; i++) {
      const PmNode *n = &f->nodes[i];
      if (pm_type_find(&f->values[n->out].type, expert) == PM_NONE && n->op != PM_OP_gather_rows) continue;
      got[bwd].all_gather += n->op == PM_OP_all_gather;
      got[bwd].reduce_scatter += n->op == PM_OP_reduce_scatter;
      got[bwd].scatter_rows += n->op == PM_OP_scatter_rows;
      got[bwd].gather_rows += n->op == PM_OP_gather_rows;
      if (n->op == PM_OP_scatter_rows || n->op == PM_OP_gather_rows) assert_int_equal(n->attr.n_mesh, 2);
    }
  }
  assert_counts(got[0], (Counts){.all_gather = 1, .reduce_scatter = 1, .scatter_rows = 1, .gather_rows = 1});
  assert_counts(got[1], (Counts){.all_gather = 2, .reduce_scatter = 1, .scatter_rows = 1, .gather_rows = 1});
  plan_deinit(&p);
}

// Context parallelism, by how attention crosses the split sequence; shifts of a turn run once in each of c - 1 turns.
static void test_context_parallel_counts(void **state) {
  (void)state;
  const char *mesh = "data=1,context=4,tensor=1";
  Plan p;
  plan_init(&p, "");
  const Case ring = CP("gpt_tiny", mesh, 0, GPT_SMALL, "heads", "ring(kv, over=context)");
  PmModule *m = compile(&p, &ring, PM_DEFAULT_PASSES);
  assert_counts(counts_of(m, "causal_attention_fwd"), (Counts){0});
  assert_counts(counts_of(m, "causal_attention.fwd.turn"), (Counts){.shift = 1});  // keys and values, packed
  assert_counts(counts_of(m, "causal_attention.bwd.turn"), (Counts){.shift = 2});  // their gradients too
  assert_counts(counts_of(m, "causal_attention_bwd"), (Counts){.shift = 1});       // and those once more, home
  assert_int_equal(pm_axis_size(m, pm_module_find_axis(m, "ring.turn")), 3);
  assert_counts(counts_of(m, ".layer.fwd"), (Counts){0});
  assert_counts(counts_of(m, ".layer.bwd"), (Counts){0});
  const Case gather = CP("gpt_tiny", mesh, 0, GPT_SMALL, "heads", "gather(kv, over=context)");
  m = compile(&p, &gather, PM_DEFAULT_PASSES);
  assert_counts(counts_of(m, "causal_attention_fwd"), (Counts){.all_gather = 2});
  assert_counts(counts_of(m, "causal_attention_bwd"), (Counts){.all_gather = 2, .reduce_scatter = 2});
  const Case ulysses = CP("gpt_tiny", mesh, 0, GPT_SMALL, "heads", "ulysses(kv, over=context)");
  m = compile(&p, &ulysses, PM_DEFAULT_PASSES);
  assert_counts(counts_of(m, "causal_attention_fwd"), (Counts){0});
  assert_counts(counts_of(m, ".layer.fwd"), (Counts){.all_to_all = 4});            // q, k, v; o
  assert_counts(counts_of(m, "causal_attention_bwd"), (Counts){.all_to_all = 2});  // d_o, and a number a row
  assert_counts(counts_of(m, ".layer.bwd"), (Counts){.all_to_all = 3});            // dq, dk, dv
  plan_deinit(&p);
}

// The order of a split goes with it: to tokens, targets and all between; other axes have none.
static void test_zigzag_is_in_the_types(void **state) {
  (void)state;
  Plan p;
  plan_init(&p, "");
  const Case c = CP("gpt_tiny", "data=2,context=2,tensor=2", 0, GPT_SMALL, "heads", "ring(kv, over=context)");
  PmModule *m = compile(&p, &c, PM_DEFAULT_PASSES);
  PmAxisId seq = pm_module_find_axis(m, "seq"), kv = pm_module_find_axis(m, "kv");
  int32_t context = pm_module_find_mesh(m, "context"), n = 0;
  for (int32_t k = 0; k < m->n_fns; k++) {
    for (PmValueId v = 0; !m->fns[k].dead && v < m->fns[k].n_values; v++) {
      const PmType *t = &m->fns[k].values[v].type;
      for (int32_t d = 0; d < t->rank; d++) {
        const PmSplit *s = &t->dims[d].split;
        bool sequence = t->dims[d].axis == seq || t->dims[d].axis == kv;
        if (s->n == 0) continue;
        assert_int_equal(s->zigzag, sequence && s->mesh[0] == context);
        n += s->zigzag;
      }
    }
  }
  assert_true(n > 100);
  for (PmVarId v = 0; v < m->n_vars; v++)
    if (m->vars[v].role == PM_ROLE_INPUT && m->vars[v].type.rank == 2)
      assert_true(m->vars[v].type.dims[1].split.zigzag);
  plan_deinit(&p);
}

int main(void) {
  enum { N_CASES = sizeof cases / sizeof cases[0], N_SPLIT = sizeof split_cases / sizeof split_cases[0] };
  const struct CMUnitTest counts[] = {cmocka_unit_test(test_tensor_parallel_counts),
                                      cmocka_unit_test(test_sequence_parallel_counts),
                                      cmocka_unit_test(test_data_parallel_counts),
                                      cmocka_unit_test(test_zero_counts),
                                      cmocka_unit_test(test_split_counts),
                                      cmocka_unit_test(test_context_parallel_counts),
                                      cmocka_unit_test(test_zigzag_is_in_the_types),
                                      cmocka_unit_test(test_expert_parallel_counts),
                                      cmocka_unit_test(test_expert_tensor_parallel_counts),
                                      cmocka_unit_test(test_slots_follow_tokens),
                                      cmocka_unit_test(test_split_slots_spread)};
  enum { N_COUNTS = sizeof counts / sizeof counts[0] };
  struct CMUnitTest tests[N_CASES + N_SPLIT + N_COUNTS];
  int32_t n = 0;
  for (size_t i = 0; i < N_CASES; i++)
    tests[n++] = (struct CMUnitTest){.name = cases[i].file, .test_func = test_case, .initial_state = (void *)&cases[i]};
  for (size_t i = 0; i < N_SPLIT; i++)
    tests[n++] = (struct CMUnitTest){
        .name = split_cases[i].file, .test_func = test_split_case, .initial_state = (void *)&split_cases[i]};
  for (size_t i = 0; i < N_COUNTS; i++) tests[n++] = counts[i];
  return cmocka_run_group_tests(tests, NULL, NULL);
}
