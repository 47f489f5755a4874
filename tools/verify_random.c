// `pmodel verify --random-plans=N`: legal plans by lot, each next to the reference interpreter.
#include <inttypes.h>

#include "tools/pipeline.h"
#include "tools/random_plans.h"
#include "tools/show.h"
#include "tools/verify.h"

#define DEFAULT_RANKS 4
#define TRIES 60  // plans drawn for each that is legal

typedef struct Lot {
  PmTool *t;
  const char *path;
  int64_t steps, ranks;
  uint64_t seed, number;  // of the next plan
  PmBuf plan;
  PmVerdict verdict;
} Lot;

// A tool of its own for one plan, so that what the plan needs is given back after it.
static void open_tool(const PmTool *from, PmTool *out) {
  *out = (PmTool){.opt = from->opt};
  pm_arena_init(&out->arena, 0);
  pm_interner_init(&out->names, &out->arena);
  pm_sources_init(&out->sources, &out->arena);
  out->diags = pm_diags_new(&out->arena, &out->sources);
  out->passes = from->passes;
  out->passes.diags = out->diags;
  out->passes.sources = &out->sources;
  out->opt.ranks = 0;
  out->reported = true;  // a rule that never fires is no news here
}

static PmStatus *module_of(const Lot *lot, PmTool *own, const char *plan, PmModule **out) {
  PmFrontendOptions options = pm_tool_frontend(own);
  options.plan = plan ? "random.pplan" : NULL;
  options.plan_text = plan;
  options.mesh = NULL;
  options.n_shard = 0;
  return pm_frontend_compile(&own->arena, &own->names, &own->sources, own->diags, lot->path, &options, out);
}

// Whether frontend and passes take the plan; what they do not take is not legal.
static bool is_legal(const Lot *lot) {
  PmTool own;
  PmModule *m;
  open_tool(lot->t, &own);
  PmStatus *st = module_of(lot, &own, pm_buf_str(&lot->plan), &m);
  if (!st) st = pm_passes_run(&own.passes, m, PM_PLACE_PASSES);
  bool legal = !st;
  pm_status_drop(st);
  pm_arena_deinit(&own.arena);
  return legal;
}

static PmStatus *draw(Lot *lot, const PmModule *m) {
  for (int32_t i = 0; i < TRIES; i++) {
    pm_buf_clear(&lot->plan);
    pm_random_plan(m, lot->ranks, lot->seed, lot->number++, &lot->plan);
    if (is_legal(lot)) return NULL;
  }
  return PM_STATUS(PM_ERR_INPUT, "found no legal plan for %" PRId64 " ranks in %d tries", lot->ranks, TRIES);
}

static PmStatus *verify_one(Lot *lot) {
  PmTool own;
  PmModule *m;
  open_tool(lot->t, &own);
  PmStatus *st = module_of(lot, &own, pm_buf_str(&lot->plan), &m);
  if (!st) st = pm_verify_module(&own, m, lot->steps, true, &lot->verdict);
  pm_arena_deinit(&own.arena);
  return st;
}

// The items on one line: "mesh a=2, b=2; shard batch -> a; zero(stage=1, over=a)".
static void put_line(const PmBuf *plan, PmBuf *out) {
  const char *text = pm_buf_str(plan);
  for (size_t i = 0; text[i]; i++) {
    if (text[i] != '\n')
      pm_buf_putc(out, text[i]);
    else if (text[i + 1])
      pm_buf_puts(out, "; ");
  }
}

static void print_one(const Lot *lot, int64_t i, PmAnswer *a) {
  PmBuf line;
  pm_buf_init(&line);
  put_line(&lot->plan, &line);
  if (lot->t->opt.json) {
    pm_json_object(&a->json);
    pm_json_put_str(&a->json, "plan", pm_buf_str(&lot->plan));
    pm_json_put_f64(&a->json, "worst", lot->verdict.worst);
    pm_json_put_bool(&a->json, "ok", lot->verdict.ok);
    pm_json_end_object(&a->json);
  } else {
    printf("%4" PRId64 "  %-6s  %.2e  %s\n", i + 1, lot->verdict.ok ? "ok" : "FAILED", lot->verdict.worst,
           pm_buf_str(&line));
    fflush(stdout);
  }
  pm_buf_deinit(&line);
}

static PmStatus *run_all(Lot *lot, const PmModule *m, PmAnswer *a) {
  for (int64_t i = 0; i < lot->t->opt.random_plans; i++) {
    PM_TRY(draw(lot, m));
    PmStatus *st = verify_one(lot);
    if (!st || pm_status_code(st) == PM_ERR_VERIFY) print_one(lot, i, a);
    if (!st) continue;
    if (!lot->t->opt.json) printf("\nthe plan, as a .pplan:\n%s", pm_buf_str(&lot->plan));
    return st;
  }
  return NULL;
}

PmStatus *pm_verify_random(PmTool *t, const char *path) {
  if (t->opt.plan || t->opt.mesh || t->opt.shard.n)
    return PM_STATUS(PM_ERR_USAGE, "`--random-plans` makes the plans: leave out `--plan`, `--mesh` and `--shard`");
  Lot lot = {.t = t, .path = path, .ranks = t->opt.ranks ? t->opt.ranks : DEFAULT_RANKS};
  PM_TRY(pm_verify_steps(t, &lot.steps));
  if (lot.ranks > 64) return PM_STATUS(PM_ERR_LIMIT, "random plans run on at most 64 ranks, not %" PRId64, lot.ranks);
  PmModule *m;
  PM_TRY(pm_tool_module(t, path, "", &m));
  lot.seed = m->seed;
  pm_buf_init(&lot.plan);
  PmAnswer a;
  if (t->opt.json) {
    pm_answer_begin(&a);
    pm_json_put_i64(&a.json, "ranks", lot.ranks);
    pm_json_key(&a.json, "plans");
    pm_json_array(&a.json);
  }
  PmStatus *st = run_all(&lot, m, &a);
  if (t->opt.json) {
    pm_json_end_array(&a.json);
    pm_json_put_bool(&a.json, "ok", st == NULL);
    pm_answer_end(&a);
  }
  pm_buf_deinit(&lot.plan);
  return st;
}
