#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runtime/slices.h"
#include "tools/rundir.h"
#include "tools/sample.h"
#include "tools/show.h"

#define PRINT_STEPS 10  // a line every so many steps, or every second

typedef struct Train {
  PmTool *t;
  PmProgram *p;
  PmRun run;
  PmRunDir dir;
  const PmOutput **reports;  // the step's numbers: loss, grad_norm, lr, and what the model reports
  double **values;           // of each: one, or those of the turns of the repeats that it stands in
  int32_t n_reports;
  int64_t tokens;                          // a step; rows where arrays are read
  double start, second_start, last_print;  // seconds; the second step begins when the first has warmed up
  double last_loss;
  bool tty;
} Train;

static double now(void) {
  struct timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

static void collect_reports(Train *tr) {
  const PmEntry *e = &tr->p->entries[PM_ENTRY_STEP];
  PmArena *a = &tr->t->arena;
  tr->reports = (const PmOutput **)pm_arena_alloc_n(a, (size_t)e->n_outputs + 1, sizeof(PmOutput *));
  tr->values = (double **)pm_arena_alloc_n(a, (size_t)e->n_outputs + 1, sizeof(double *));
  for (int32_t i = 0; i < e->n_outputs; i++) {
    const PmOutput *o = &e->outputs[i];
    tr->values[tr->n_reports] = PM_NEW_N(a, double, pm_dims_elements(o->dims, o->rank));
    tr->reports[tr->n_reports++] = o;
  }
}

static int64_t report_size(const Train *tr, int32_t i) {
  return pm_dims_elements(tr->reports[i]->dims, tr->reports[i]->rank);
}

// Index positions that a step reads, which the language calls tokens; rows where data are arrays.
static int64_t step_tokens(const PmProgram *p) {
  if (p->data.n_feeds > 0) {
    PmVarDim rows[PM_PROGRAM_MAX_RANK];
    pm_row_dims(&p->vars[p->data.feeds[0].var], rows);
    return rows[0].size;
  }
  if (p->data.x < 0) return 0;
  const PmProgVar *x = &p->vars[p->data.x];
  return pm_dims_elements(x->dims, x->rank);
}

static double report(const Train *tr, const char *name) {
  for (int32_t i = 0; i < tr->n_reports; i++) {
    if (strcmp(tr->reports[i]->name, name) == 0) return tr->values[i][0];
  }
  return NAN;
}

// Without the first step, which also warms caches and starts threads.
static double seconds_a_step(const Train *tr, int64_t done, double at) {
  if (done > 1) return (at - tr->second_start) / (double)(done - 1);
  return at - tr->start;
}

static double rate(const Train *tr, int64_t done, double at) {
  double seconds = seconds_a_step(tr, done, at);
  return seconds > 0 ? (double)tr->tokens / seconds : 0;
}

// ---- what is shown -------------------------------------------------------------------------------------------------
static void print_json_line(PmBuf *text) {
  printf("%s\n", pm_buf_str(text));
  pm_buf_deinit(text);
  fflush(stdout);
}

static void begin_json(PmJson *j, PmBuf *text, const char *event) {
  pm_buf_init(text);
  pm_json_init(j, text, false);
  pm_json_object(j);
  pm_json_put_str(j, "event", event);
}

static void show_start(const Train *tr) {
  const PmProgram *p = tr->p;
  int64_t elements = 0;
  for (int32_t i = 0; i < p->n_vars; i++) {
    if (p->vars[i].role == PM_VAR_PARAM) elements += pm_dims_elements(p->vars[i].dims, p->vars[i].rank);
  }
  if (tr->t->opt.json) {
    PmBuf text;
    PmJson j;
    begin_json(&j, &text, "start");
    pm_json_put_str(&j, "model", p->model);
    pm_json_put_str(&j, "plan", p->plan);
    pm_json_put_i64(&j, "params", elements);
    pm_json_put_i64(&j, "ranks", pm_program_ranks(p));
    pm_json_put_i64(&j, "steps", p->steps);
    pm_json_put_i64(&j, "tokens_a_step", tr->tokens);
    pm_json_put_i64(&j, "arena_bytes", p->arena_bytes);
    pm_json_end_object(&j);
    print_json_line(&text);
    return;
  }
  PmArena *a = &tr->t->arena;
  printf("%s: %s parameters, plan %s: %s, %s a rank\n", p->model, pm_count_text(a, elements),
         p->plan ? p->plan : "(none)", pm_mesh_text(a, p->n_mesh, p->mesh_name, p->mesh_size),
         pm_bytes_text(a, p->arena_bytes));
  printf("%s steps of %s %s\n", pm_count_text(a, p->steps), pm_count_text(a, tr->tokens),
         p->data.n_feeds ? "rows" : "tokens");
  fflush(stdout);
}

// A number, or a list with a list for each further axis.
static void put_values(PmJson *j, const PmOutput *o, int32_t dim, const double **at) {
  if (dim == o->rank) {
    pm_json_f64(j, *(*at)++);
    return;
  }
  pm_json_array(j);
  for (int64_t i = 0; i < o->dims[dim].size; i++) put_values(j, o, dim + 1, at);
  pm_json_end_array(j);
}

static void put_step(const Train *tr, int64_t done, double at, PmJson *j) {
  pm_json_put_i64(j, "step", done);
  for (int32_t i = 0; i < tr->n_reports; i++) {
    const double *at = tr->values[i];
    pm_json_key(j, tr->reports[i]->name);
    put_values(j, tr->reports[i], 0, &at);
  }
  pm_json_put_f64(j, "tokens_per_s", rate(tr, done, at));
  pm_json_put_f64(j, "seconds", at - tr->start);
  pm_json_end_object(j);
}

// Of many values the span.
static void print_values(const char *name, const double *v, int64_t n) {
  double least = v[0], most = v[0];
  for (int64_t i = 1; i < n; i++) {
    if (v[i] < least) least = v[i];
    if (v[i] > most) most = v[i];
  }
  printf("  %s %.4g", name, least);
  if (n > 1) printf("..%.4g", most);
}

static void print_step(const Train *tr, int64_t done, double at) {
  int64_t steps = tr->p->steps;
  double left = seconds_a_step(tr, done, at) * (double)(steps - done);
  int64_t eta = (int64_t)(left + 0.5);
  printf("%sstep %*" PRId64 "/%" PRId64 "  loss %.4f  lr %.3g  grad_norm %.3g", tr->tty ? "\r" : "",
         snprintf(NULL, 0, "%" PRId64, steps), done, steps, report(tr, "loss"), report(tr, "lr"),
         report(tr, "grad_norm"));
  for (int32_t i = 0; i < tr->n_reports; i++) {
    const char *name = tr->reports[i]->name;
    bool known = strcmp(name, "loss") == 0 || strcmp(name, "lr") == 0 || strcmp(name, "grad_norm") == 0;
    if (!known) print_values(name, tr->values[i], report_size(tr, i));
  }
  if (tr->tokens > 0) printf("  %.0f %s/s", rate(tr, done, at), tr->p->data.n_feeds ? "row" : "tok");
  if (eta >= 3600) {
    printf("  ETA %" PRId64 ":%02" PRId64 ":%02" PRId64, eta / 3600, eta / 60 % 60, eta % 60);
  } else {
    printf("  ETA %" PRId64 ":%02" PRId64, eta / 60, eta % 60);
  }
  // On a terminal the line is written over by the next, but for every tenth.
  bool stays = !tr->tty || done == 1 || done == steps || done % PRINT_STEPS == 0;
  fputs(stays ? "\n" : "   ", stdout);
  fflush(stdout);
}

static PmStatus *show_step(Train *tr, int64_t done) {
  double at = now();
  if (tr->dir.metrics) {
    PmBuf text;
    PmJson j;
    pm_buf_init(&text);
    pm_json_init(&j, &text, false);
    pm_json_object(&j);
    put_step(tr, done, at, &j);
    PmStatus *st = pm_run_dir_metrics(&tr->dir, pm_buf_str(&text));
    pm_buf_deinit(&text);
    PM_TRY(st);
  }
  if (tr->t->opt.json) {
    PmBuf text;
    PmJson j;
    begin_json(&j, &text, "step");
    put_step(tr, done, at, &j);
    print_json_line(&text);
    return NULL;
  }
  bool due = done == 1 || done == tr->p->steps || done % PRINT_STEPS == 0 || at - tr->last_print >= 1;
  if (!due) return NULL;
  tr->last_print = at;
  print_step(tr, done, at);
  return NULL;
}

static PmStatus *show_sample(Train *tr) {
  PmBuf prompt, sample;
  pm_buf_init(&prompt);
  pm_buf_init(&sample);
  PmStatus *st = pm_sample(&tr->run, tr->t->opt.sample, &prompt, &sample);
  if (!st && tr->t->opt.json) {
    PmBuf text;
    PmJson j;
    begin_json(&j, &text, "sample");
    pm_json_put_str(&j, "prompt", pm_buf_str(&prompt));
    pm_json_put_str(&j, "text", pm_buf_str(&sample));
    pm_json_end_object(&j);
    print_json_line(&text);
  } else if (!st) {
    printf("\n--- prompt\n%s\n--- %" PRId64 " tokens, greedily\n%s\n", pm_buf_str(&prompt), tr->t->opt.sample,
           pm_buf_str(&sample));
  }
  pm_buf_deinit(&prompt);
  pm_buf_deinit(&sample);
  return st;
}

static void show_end(const Train *tr) {
  double seconds = now() - tr->start;
  if (tr->t->opt.json) {
    PmBuf text;
    PmJson j;
    begin_json(&j, &text, "end");
    pm_json_put_i64(&j, "steps", tr->p->steps);
    pm_json_put_f64(&j, "seconds", seconds);
    pm_json_put_f64(&j, "loss", report(tr, "loss"));
    pm_json_end_object(&j);
    print_json_line(&text);
  } else {
    printf("%s steps in %.1f s\n", pm_count_text(&tr->t->arena, tr->p->steps), seconds);
  }
}

// ---- the run -------------------------------------------------------------------------------------------------------
static void put_number(PmBuf *out, const char *name, double v) {
  pm_buf_printf(out, "%s%s ", out->len ? ", " : "", name);
  pm_buf_put_f64(out, isnan(v) ? NAN : v);
}

static PmStatus *non_finite(const Train *tr, int32_t i, int64_t done) {
  PmBuf text;
  pm_buf_init(&text);
  for (int32_t k = 0; k < tr->n_reports; k++) {
    if (tr->reports[k]->rank == 0) put_number(&text, tr->reports[k]->name, tr->values[k][0]);
  }
  if (done > 1) pm_buf_printf(&text, "; the loss of the step before was %.4g", tr->last_loss);
  PmStatus *st =
      PM_STATUS(PM_ERR_NONFINITE,
                "`%s` is not finite at step %" PRId64
                " (%s). The run stops, as every later step would be "
                "non-finite too. A lower learning rate, a longer warm-up or `clip` helps against a loss that "
                "runs away",
                tr->reports[i]->name, done, pm_buf_str(&text));
  pm_buf_deinit(&text);
  return st;
}

static PmStatus *check_finite(const Train *tr, int64_t done) {
  // A step that loss scaling skips changes nothing: its gradients, and so their norm, are not finite by intent. With a
  // scale that cannot fall any more nothing would ever change.
  bool skipped = report(tr, "skipped") == 1 && report(tr, "loss_scale") > 1;
  for (int32_t i = 0; i < tr->n_reports; i++) {
    if (skipped && strcmp(tr->reports[i]->name, "grad_norm") == 0) continue;
    for (int64_t k = 0; k < report_size(tr, i); k++) {
      if (!isfinite(tr->values[i][k])) return non_finite(tr, i, done);
    }
  }
  return NULL;
}

static PmStatus *train_step(Train *tr, int64_t step) {
  PM_TRY(pm_run_step(&tr->run, step));
  for (int32_t i = 0; i < tr->n_reports; i++) {
    PM_TRY(pm_run_output(&tr->run, PM_ENTRY_STEP, tr->reports[i], tr->values[i]));
  }
  if (step == 0) tr->second_start = now();
  PM_TRY(show_step(tr, step + 1));
  PM_TRY(check_finite(tr, step + 1));
  tr->last_loss = report(tr, "loss");
  return NULL;
}

static PmStatus *train(Train *tr) {
  PM_TRY(pm_run_open_data(&tr->run));
  show_start(tr);
  tr->start = tr->last_print = now();
  for (int64_t step = 0; step < tr->p->steps; step++) PM_TRY(train_step(tr, step));
  show_end(tr);
  return tr->t->opt.sample > 0 ? show_sample(tr) : NULL;
}

// Nothing runs: one step is counted.
static PmStatus *count(Train *tr) {
  PM_TRY(pm_run_step(&tr->run, 0));
  PmStepCounts c;
  pm_session_counts(tr->run.session, &c);
  int64_t colls = 0, bytes = 0;
  for (int32_t i = 0; i < PM_COLL_COUNT; i++) {
    colls += c.colls[i];
    bytes += c.coll_bytes[i];
  }
  if (tr->t->opt.json) {
    PmBuf text;
    PmJson j;
    begin_json(&j, &text, "count");
    pm_json_put_i64(&j, "kernels", c.steps[PM_STEP_KERNEL]);
    pm_json_put_i64(&j, "dots", c.steps[PM_STEP_DOT]);
    pm_json_put_i64(&j, "collectives", colls);
    pm_json_put_i64(&j, "collective_bytes", bytes);
    pm_json_put_f64(&j, "flops", c.flops);
    pm_json_put_f64(&j, "bytes", c.bytes);
    pm_json_end_object(&j);
    print_json_line(&text);
    return NULL;
  }
  PmArena *a = &tr->t->arena;
  printf(
      "set-up and one step of one rank, counted and not run: %s kernel runs, %s matrix products, %s collectives (%s), "
      "%.4g flop\n",
      pm_count_text(a, c.steps[PM_STEP_KERNEL]), pm_count_text(a, c.steps[PM_STEP_DOT]), pm_count_text(a, colls),
      pm_bytes_text(a, bytes), c.flops);
  return NULL;
}

static PmStatus *check_options(const PmTool *t, const PmProgram *p) {
  if (!p->entries[PM_ENTRY_STEP].present) return PM_STATUS(PM_ERR_INPUT, "the program has no training step");
  PM_TRY(pm_tool_check_ranks(t, p));
  return t->opt.sample > 0 ? pm_sample_check(p) : NULL;
}

PmStatus *pm_cmd_train(PmTool *t) {
  const char *path;
  PM_TRY(pm_tool_file(t, 0, &path));
  Train tr = {.t = t, .tty = isatty(STDOUT_FILENO) != 0};
  PM_TRY(pm_tool_program(t, path, &tr.p, NULL));
  pm_tool_report(t);
  PM_TRY(check_options(t, tr.p));
  tr.tokens = step_tokens(tr.p);
  collect_reports(&tr);
  bool runs = strcmp(t->opt.target, "null") != 0;
  PM_TRY(pm_run_open(t, tr.p, false, &tr.run));
  PmStatus *st = runs ? pm_run_dir_open(t, t->opt.run_dir, path, tr.p, &tr.dir) : NULL;
  if (!st) st = runs ? train(&tr) : count(&tr);
  PmStatus *closed = pm_run_dir_close(&tr.dir);
  if (st) {
    pm_status_drop(closed);
  } else {
    st = closed;
  }
  pm_run_abandon(&tr.run, st);
  pm_run_close(&tr.run);
  return st;
}
