#include "models.h"

#include <stdio.h>
#include <string.h>

#include "codegen/codegen.h"
#include "harness.h"
#include "tools/pipeline.h"

const Example examples[N_EXAMPLES] = {
    {.name = "mlp", .ranks = 1},        {.name = "mlp", .plan = PM_SOURCE_DIR "/tests/memory/mlp.pplan", .ranks = 4},
    {.name = "gpt_tiny", .ranks = 1},   {.name = "gpt_tiny", .plan = "dp2_tp2", .ranks = 4},
    {.name = "llama_tiny", .ranks = 1}, {.name = "llama_tiny", .plan = "dp2_tp2", .ranks = 4},
};

void must(PmStatus *st) {
  if (!st) return;
  pm_status_print(st, stderr);
  fail_msg("%s", pm_status_message(st));
}

void example_compile(const Example *e, Compiled *out) {
  memset(out, 0, sizeof *out);
  PmTool *t = &out->t;
  pm_arena_init(&t->arena, 0);
  pm_interner_init(&t->names, &t->arena);
  pm_sources_init(&t->sources, &t->arena);
  t->diags = pm_diags_new(&t->arena, &t->sources);
  t->passes = (PmPassCtx){.diags = t->diags, .sources = &t->sources, .verify = true};
  t->opt.command = PM_CMD_train;
  t->opt.target = "cpu";
  t->opt.diagnostics = "text";
  t->opt.seed = -1;
  t->opt.plan = e->plan;
  PmModule *m;
  PmStatus *st =
      pm_tool_program(t, pm_arena_printf(&t->arena, "%s/examples/%s.pmodel", PM_SOURCE_DIR, e->name), &out->p, &m);
  pm_tool_report(t);
  must(st);
  assert_int_equal(pm_program_ranks(out->p), e->ranks);
}

void example_free(Compiled *c) { pm_arena_deinit(&c->t.arena); }

const char *example_text(const Example *e) {
  static _Thread_local char text[80];
  snprintf(text, sizeof text, "%s on %s", e->name, e->ranks == 1 ? "one rank" : "data=2,tensor=2");
  return text;
}
