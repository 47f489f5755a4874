#include "tools/bisect.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "ir/interp.h"
#include "runtime/slices.h"
#include "tools/compare.h"
#include "tools/pipeline.h"
#include "tools/run.h"
#include "tools/show.h"

#define PREFIX "value:"
#define REFERENCE_PASSES PM_STEP_PASSES ",probe"
#define PLAN_PASSES REFERENCE_PASSES "," PM_PLAN_PASSES

typedef struct Bisect {
  PmTool *t;
  const PmModule *plan, *reference;  // as the frontend leaves them
  double *const *vars;
  int64_t step;
  double bound;
} Bisect;

// One value on both sides. A value of a repeat is computed turn by turn, between the turns of its neighbours.
typedef struct Pair {
  const char *name;
  double error;
  int64_t at;
  double plan, reference;
  PmType type;
  const PmNode *repeat;  // the outermost repeat that computes it, or NULL
  int64_t turn;          // the first turn that differs, in the order in which they run
} Pair;

typedef struct Pairs {
  int32_t n;
  Pair *items;
  const PmModule *plan, *reference;
} Pairs;

static PmPassCtx quiet(const Bisect *b, const char *const *names, int32_t n) {
  PmPassCtx ctx = b->t->passes;
  pm_passes_hush(&ctx);
  ctx.diags = pm_diags_new(&b->t->arena, &b->t->sources);
  ctx.probes = names;
  ctx.n_probes = n;
  return ctx;
}

static PmStatus *run_reference(const Bisect *b, PmModule *m, PmTensor **out) {
  PmArena *arena = &b->t->arena;
  const PmFn *f = pm_fn(m, m->step);
  PmTensor *in = PM_NEW_N(arena, PmTensor, f->n_params + 1);
  for (int32_t i = 0; i < f->n_params; i++) {
    PmVarId var = f->param_bind[i].var;
    in[i] = pm_tensor_new(arena, m, &m->vars[var].type);
    memcpy(in[i].data, b->vars[var], (size_t)in[i].n * sizeof(double));
  }
  *out = PM_NEW_N(arena, PmTensor, f->n_results + 1);
  return pm_interp_run(m, m->step, PM_INTERP_EXACT, arena, in, *out);
}

static PmStatus *run_plan(const Bisect *b, const PmModule *reference, PmRun *run) {
  PM_TRY(pm_session_load(run->session, NULL, b->step));
  for (PmVarId i = 0; i < reference->n_vars; i++) {
    int32_t var = pm_session_find_var(run->session, reference->vars[i].path);
    if (var >= 0) PM_TRY(pm_run_set_var(run, var, b->vars[i]));
  }
  return pm_session_run(run->session, PM_ENTRY_STEP);
}

static double difference(double got, double want) {
  // What is infinite or no number on both sides is equal here: masked scores are.
  if (got == want || (isnan(got) && isnan(want))) return 0;
  return isfinite(got) && isfinite(want) ? fabs(got - want) : INFINITY;
}

// The outermost repeat on the way to the node that computes a value.
static const PmNode *repeat_of(const PmModule *m, const PmFn *f, PmValueId v) {
  int32_t def = f->values[v].def;
  const PmNode *n = def == PM_NONE ? NULL : &f->nodes[def];
  if (!n || pm_is_loop(n)) return n;
  if (!pm_is_call(n)) return NULL;
  const PmFn *g = pm_fn(m, n->attr.callee);
  return repeat_of(m, g, g->results[v - n->out]);
}

static int64_t first_turn(const Pair *p, const PmModule *m, const PmTensor *want, const double *got, double most) {
  int64_t turns = pm_axis_size(m, p->repeat->attr.axes[0]), n = want->n / turns;
  for (int64_t k = 0; k < turns; k++) {
    int64_t first = (p->repeat->attr.reverse ? turns - 1 - k : k) * n;
    for (int64_t i = first; i < first + n; i++)
      if (difference(got[i], want->data[i]) > most) return k;
  }
  return turns;
}

static Pair compare(const Bisect *b, const PmModule *m, int32_t result, const PmTensor *want, const double *got) {
  const PmFn *f = pm_fn(m, m->step);
  Pair p = {.name = f->result_bind[result].report + strlen(PREFIX), .type = want->type};
  p.repeat = repeat_of(m, f, f->results[result]);
  double worst = -1, most = 0;
  for (int64_t i = 0; i < want->n; i++) {
    double d = difference(got[i], want->data[i]);
    if (isfinite(want->data[i])) most = fmax(most, fabs(want->data[i]));
    if (d <= worst) continue;
    worst = d;
    p.at = i;
  }
  p.error = worst <= 0 ? 0 : most > 0 ? worst / most : INFINITY;
  p.plan = want->n ? got[p.at] : 0;
  p.reference = want->n ? want->data[p.at] : 0;
  if (p.repeat && p.error > b->bound) p.turn = first_turn(&p, m, want, got, b->bound * most);
  return p;
}

static PmStatus *pair_outputs(const Bisect *b, const PmRun *run, const PmTensor *results, Pairs *out) {
  const PmFn *f = pm_fn(out->reference, out->reference->step);
  out->items = PM_NEW_N(&b->t->arena, Pair, f->n_results + 1);
  for (int32_t i = 0; i < f->n_results; i++) {
    const char *report = f->result_bind[i].report;
    if (!report || strncmp(report, PREFIX, strlen(PREFIX)) != 0) continue;
    const PmOutput *o = pm_session_find_output(run->session, PM_ENTRY_STEP, report);
    if (!o || pm_dims_elements(o->dims, o->rank) != results[i].n) continue;
    double *got = PM_NEW_N(&b->t->arena, double, results[i].n);
    PM_TRY(pm_run_output(run, PM_ENTRY_STEP, o, got));
    out->items[out->n++] = compare(b, out->reference, i, &results[i], got);
  }
  return NULL;
}

// Both sides with the named values returned; names NULL: all.
static PmStatus *probe(const Bisect *b, const char *const *names, int32_t n, Pairs *out) {
  PmTool *t = b->t;
  PmPassCtx ctx = quiet(b, names, n);
  PmModule *reference = pm_module_clone(b->reference, &t->arena), *plan = pm_module_clone(b->plan, &t->arena);
  *out = (Pairs){.plan = plan, .reference = reference};
  PM_TRY(pm_passes_run(&ctx, reference, REFERENCE_PASSES));
  if (t->opt.unroll) PM_TRY(pm_passes_run(&ctx, plan, "unroll"));
  PM_TRY(pm_passes_run(&ctx, plan, PLAN_PASSES));
  PmTensor *results;
  PM_TRY(run_reference(b, reference, &results));
  PmProgram *p;
  PM_TRY(pm_tool_codegen(t, plan, &p));
  PmRun run;
  PM_TRY(pm_run_open(t, p, false, &run));
  PmStatus *st = run_plan(b, reference, &run);
  if (!st) st = pair_outputs(b, &run, results, out);
  pm_run_abandon(&run, st);
  pm_run_close(&run);
  return st;
}

// Returned one at a time, a value leaves the rest of the program as it was: what fusion did stays.
static PmStatus *halve(const Bisect *b, const Pairs *all, Pairs *out, int32_t *out_index) {
  int32_t lo = 0, hi = all->n;
  *out_index = PM_NONE;
  while (lo < hi) {
    int32_t mid = lo + (hi - lo) / 2;
    Pairs one;
    PM_TRY(probe(b, &all->items[mid].name, 1, &one));
    if (one.n == 1 && one.items[0].error > b->bound) {
      *out = one;
      *out_index = hi = mid;
    } else {
      lo = mid + 1;
    }
  }
  return NULL;
}

// The value of that name in the partitioned module: where it is computed, and its placement.
static void locate(const Bisect *b, const PmModule *m, PmSuspect *s) {
  for (PmFnId id = 0; id < m->n_fns; id++) {
    const PmFn *f = pm_fn(m, id);
    for (int32_t i = 0; i < f->n_nodes && !f->dead; i++) {
      const PmNode *n = &f->nodes[i];
      const PmValue *v = n->n_out > 0 ? &f->values[n->out] : NULL;
      if (!v || pm_is_call(n) || !v->name || strcmp(v->name, s->name) != 0) continue;
      PmBuf text;
      pm_buf_init(&text);
      pm_type_print(m, &v->type, &text);
      s->type = pm_arena_strdup(&b->t->arena, pm_buf_str(&text));
      s->why = v->why;
      s->loc = n->loc;
      pm_buf_deinit(&text);
      return;
    }
  }
}

static const char *element(const Bisect *b, const PmModule *m, const Pair *p) {
  PmBuf text;
  pm_buf_init(&text);
  pm_put_element(m, &p->type, p->at, &text);
  const char *out = pm_arena_strdup(&b->t->arena, pm_buf_str(&text));
  pm_buf_deinit(&text);
  return out;
}

static void accuse(const Bisect *b, const Pairs *in, const Pair *p, PmSuspect *out) {
  out->name = p->name;
  out->error = p->error;
  out->plan = p->plan;
  out->reference = p->reference;
  out->at = element(b, in->reference, p);
  locate(b, in->plan, out);
}

// The first pair that differs: in a repeat, of the earliest turn.
static int32_t earliest(const Bisect *b, const Pairs *all) {
  int32_t best = PM_NONE;
  for (int32_t i = 0; i < all->n; i++) {
    const Pair *p = &all->items[i];
    if (p->error <= b->bound) continue;
    if (best == PM_NONE) best = i;
    if (p->repeat && p->repeat == all->items[best].repeat && p->turn < all->items[best].turn) best = i;
  }
  return best;
}

PmStatus *pm_bisect(PmTool *t, const PmModule *plan, const PmModule *reference, double *const *vars, int64_t step,
                    double bound, PmSuspect *out) {
  Bisect b = {.t = t, .plan = plan, .reference = reference, .vars = vars, .step = step, .bound = bound};
  *out = (PmSuspect){0};
  Pairs all, one;
  PM_TRY(probe(&b, NULL, 0, &all));
  int32_t first = earliest(&b, &all);
  for (int32_t i = 0; i < all.n && i != first; i++) {
    if (all.items[i].error > bound) continue;
    out->agree++;
    out->last_good = all.items[i].name;
  }
  if (first != PM_NONE) {
    accuse(&b, &all, &all.items[first], out);
    return NULL;
  }
  int32_t at;
  PM_TRY(halve(&b, &all, &one, &at));
  if (at == PM_NONE) return NULL;
  out->alone = true;
  out->agree = at;
  out->last_good = at > 0 ? all.items[at - 1].name : NULL;
  accuse(&b, &one, &one.items[0], out);
  return NULL;
}

void pm_suspect_print(const PmSuspect *s, FILE *to) {
  if (!s->name) {
    fprintf(to, "\nall %" PRId64 " named values of the step agree: what differs is computed after them\n", s->agree);
    return;
  }
  fprintf(to, "\nthe first value that differs: `%s`, error %.2e%s\n", s->name, s->error,
          s->alone ? " (only while the values before it are not returned)" : "");
  if (s->loc.path) fprintf(to, "  computed at %s:%d:%d", s->loc.path, s->loc.line, s->loc.col);
  if (s->type) fprintf(to, " as %s", s->type);
  if (s->why) fprintf(to, ", %s", s->why);
  fprintf(to, "\n  at %s the plan has %.9g, the reference %.9g\n", s->at, s->plan, s->reference);
  fprintf(to, "  %" PRId64 " values before it agree%s%s%s\n", s->agree, s->last_good ? ", the last of them `" : "",
          s->last_good ? s->last_good : "", s->last_good ? "`" : "");
}

void pm_suspect_json(const PmSuspect *s, PmJson *j) {
  if (!s->name) {
    pm_json_null(j);
    return;
  }
  pm_json_object(j);
  pm_json_put_str(j, "value", s->name);
  pm_json_put_str(j, "file", s->loc.path);
  pm_json_put_i64(j, "line", s->loc.line);
  pm_json_put_str(j, "type", s->type);
  pm_json_put_f64(j, "error", s->error);
  pm_json_put_str(j, "at", s->at);
  pm_json_put_f64(j, "plan", s->plan);
  pm_json_put_f64(j, "reference", s->reference);
  pm_json_put_i64(j, "agree", s->agree);
  pm_json_put_str(j, "last_good", s->last_good);
  pm_json_end_object(j);
}
