// Every example on many meshes: the partitioned step, run on all ranks in lockstep by the reference interpreter in double,
// gives what the logical step gives on one. No kernel takes part, so a difference is a wrong placement or collective.
#include <stdio.h>

#include "frontend/frontend.h"
#include "harness.h"
#include "plans.h"

typedef struct Case {
  const char *file, *mesh, *set[12];
  const char *shard[8];
} Case;

#define GPT_SMALL "axis.batch=4", "axis.seq=8", "axis.embed=16", "axis.heads=4", "axis.layer=2", "axis.vocab=32"

static const Case cases[] = {
    {"gpt_tiny", "data=2", {GPT_SMALL}, {"batch -> data"}},
    {"gpt_tiny", "tensor=2", {GPT_SMALL}, {"heads, ff -> tensor"}},
    {"gpt_tiny", "tensor=4", {GPT_SMALL}, {"heads, ff, vocab -> tensor"}},
    {"gpt_tiny", "data=2,tensor=2", {GPT_SMALL}, {"batch -> data", "heads, ff -> tensor"}},
    {"gpt_tiny", "data=2,tensor=2", {GPT_SMALL}, {"batch -> data", "heads, ff, vocab -> tensor"}},
    {"gpt_tiny", "tensor=2,data=4", {GPT_SMALL}, {"batch -> data", "heads, ff, vocab -> tensor"}},
    {"gpt_tiny", "data=2,tensor=2", {GPT_SMALL}, {"batch -> data", "heads, ff, vocab -> tensor", "act seq -> tensor"}},
    {"gpt_tiny", "a=2,b=2", {GPT_SMALL}, {"batch -> a + b"}},
    {"gpt_tiny", "data=1,tensor=2", {GPT_SMALL}, {"batch -> data", "embed -> tensor"}},
    {"llama_tiny", "data=2", {"axis.batch=4", "axis.seq=8", "axis.vocab=32"}, {"batch -> data"}},
    {"llama_tiny", "tensor=2", {"axis.batch=4", "axis.seq=8", "axis.vocab=32"}, {"kvheads, ff, vocab -> tensor"}},
    {"llama_tiny", "data=2,tensor=2", {"axis.batch=4", "axis.seq=8", "axis.vocab=32"},
     {"batch -> data", "kvheads, ff, vocab -> tensor", "act seq -> tensor"}},
    {"mlp", "data=2", {NULL}, {"batch -> data"}},
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
  for (int32_t i = 0; i < count(c->shard, 8); i++) fprintf(f, "shard %s\n", c->shard[i]);
  fclose(f);
  return path;
}

static PmModule *compile(Plan *p, const Case *c, bool sharded) {
  char path[512];
  snprintf(path, sizeof path, "%s/examples/%s.pmodel", PM_SOURCE_DIR, c->file);
  PmFrontendOptions opts = {.seed = -1, .set = c->set, .n_set = count(c->set, 12)};
  if (sharded) opts.plan = write_plan(c);
  PmModule *m = NULL;
  PmStatus *st = pm_frontend_compile(&p->arena, &p->names, &p->sources, p->diags, path, &opts, &m);
  PmPassCtx ctx = {.diags = p->diags, .sources = &p->sources, .verify = true, .keep_grads = true};
  if (!st) st = pm_passes_run(&ctx, m, sharded ? PM_DEFAULT_PASSES : "simplify,differentiate,simplify");
  if (st) {
    pm_diags_print(p->diags, false, stderr);
    fail_msg("%s on %s: %s", c->file, c->mesh, pm_status_message(st));
  }
  return m;
}

static void test_case(void **state) {
  const Case *c = *state;
  Plan p;
  plan_init(&p, "");
  PmModule *logical = compile(&p, c, false), *local = compile(&p, c, true);
  double error = plan_worst_error(&p.arena, logical, logical->step, local, local->step, 3);
  print_message("%s on %s: %g\n", c->file, c->mesh, error);
  assert_true(error <= 1e-9);
  plan_deinit(&p);
}

int main(void) {
  struct CMUnitTest tests[sizeof cases / sizeof cases[0]];
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    tests[i] = (struct CMUnitTest){.name = cases[i].file, .test_func = test_case, .initial_state = (void *)&cases[i]};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
