#include "tools/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "codegen/cpu/llvm_compiler.h"
#include "runtime/element.h"
#include "runtime/slices.h"
#include "tools/table.h"

#define HANG_S 3.0  // a failed run whose ranks do not come back ends the process after this

// The failure itself comes back as a status, unless a rank hangs.
static void report(void *context, PmCode failed, const char *text) {
  PmRun *r = context;
  if (failed) {
    pm_watchdog_start(&r->watchdog, HANG_S, failed, text);
  } else {
    fprintf(stderr, "pmodel: warning: %s\n", text);
  }
}

// Memory is asked for at once and used later: a machine without it would kill the process in the middle of a step.
static PmStatus *check_memory(const PmTool *t, const PmProgram *p) {
  if (strcmp(t->opt.target, "null") == 0) return NULL;
  int64_t pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE), have = INT64_MAX, need;
  if (pages > 0 && page > 0 && !pm_mul_i64(pages, page, &have)) have = INT64_MAX;
  int64_t ranks = t->launch.transport ? t->launch.transport->here : pm_program_ranks(p);
  if (!pm_mul_i64(ranks, p->arena_bytes, &need)) need = INT64_MAX;
  if (need <= have) return NULL;
  PmArena text;
  pm_arena_init(&text, 0);
  PmStatus *st = PM_STATUS(PM_ERR_LIMIT,
                           "%s rank%s of %s each need %s; this machine has %s (`pmodel show memory` says who "
                           "needs it)",
                           pm_count_text(&text, ranks), pm_plural(ranks), pm_bytes_text(&text, p->arena_bytes),
                           pm_bytes_text(&text, need), pm_bytes_text(&text, have));
  pm_arena_deinit(&text);
  return st;
}

static PmStatus *open_all(PmTool *t, bool poison, PmRun *r) {
  const PmProgram *p = r->p;
  PM_TRY(check_memory(t, p));
  if (strcmp(t->opt.target, "cpu") == 0) {
    PmLlvmOptions llvm = {.cache_dir = t->opt.cache, .opt_level = 2};
    PM_TRY(pm_llvm_compiler_create(&llvm, &r->compiler));
  }
  if (t->opt.threads < 0 || t->opt.threads > 4096) {
    return PM_STATUS(PM_ERR_USAGE, "`--threads` is the number of threads a rank: 0 (as the machine has) to 4096");
  }
  PM_TRY(pm_launch_agree(t, p));
  PmSessionOptions options = {.device = t->opt.target,
                              .threads = (int32_t)t->opt.threads,
                              .compiler = r->compiler,
                              .seed = p->seed,
                              .transport = t->launch.transport,
                              .deadline_s = (double)t->opt.deadline,
                              .poison = poison,
                              .report = report,
                              .context = r};
  PM_TRY(pm_session_create(p, &options, &r->session));
  return pm_session_init(r->session);
}

PmStatus *pm_run_open(PmTool *t, const PmProgram *p, bool poison, PmRun *out) {
  *out = (PmRun){.p = p, .step_var = -1, .watched = true};
  pm_watchdog_init(&out->watchdog);
  for (int32_t i = 0; i < p->n_vars; i++) {
    if (p->vars[i].role == PM_VAR_STEP) out->step_var = i;
  }
  PmStatus *st = open_all(t, poison, out);
  if (st) {
    pm_run_abandon(out, st);
    pm_run_close(out);
  }
  return st;
}

PmStatus *pm_run_open_data(PmRun *r) {
  if (!r->p->data.format) {
    return PM_STATUS(PM_ERR_INPUT,
                     "the model names no data: write `data = tokens(FILES, x=INPUT, y=INPUT)` in its `train` block");
  }
  return pm_data_open(r->p, r->p->seed, &r->data);
}

// Whether the ranks of a run that ends like this do not all see it for themselves.
static bool is_news(const PmStatus *st) {
  PmCode code = pm_status_code(st);
  return code != PM_OK && code != PM_ERR_NONFINITE && code != PM_ERR_VERIFY;
}

void pm_run_abandon(PmRun *r, const PmStatus *why) {
  if (r->session && is_news(why)) pm_session_abandon(r->session, pm_status_message(why));
}

void pm_run_close(PmRun *r) {
  pm_data_close(r->data);
  pm_session_destroy(r->session);
  if (r->compiler) r->compiler->destroy(r->compiler);
  if (r->watched) pm_watchdog_stop(&r->watchdog);
  *r = (PmRun){.step_var = -1};
}

PmStatus *pm_run_step(PmRun *r, int64_t step) {
  PM_TRY(pm_session_load(r->session, r->data, step));
  // Data count steps from 0, the language from 1.
  double number = (double)(step + 1);
  if (r->step_var >= 0) PM_TRY(pm_run_set_var(r, r->step_var, &number));
  return pm_session_run(r->session, PM_ENTRY_STEP);
}

// ---- values --------------------------------------------------------------------------------------------------------
static void widen(PmKDtype dtype, const void *from, int64_t n, double *out) {
  for (int64_t i = 0; i < n; i++) out[i] = pm_element_load(dtype, from, i);
}

static void narrow(PmKDtype dtype, const double *from, int64_t n, void *out) {
  for (int64_t i = 0; i < n; i++) pm_element_store(dtype, out, i, from[i]);
}

static PmStatus *new_bytes(int64_t n, void **out) {
  *out = malloc((size_t)(n > 0 ? n : 1));
  return *out ? NULL : PM_STATUS(PM_ERR_LIMIT, "no memory for %lld bytes", (long long)n);
}

PmStatus *pm_run_output(const PmRun *r, int32_t entry, const PmOutput *o, double *out) {
  int64_t n = pm_dims_elements(o->dims, o->rank);
  void *bytes;
  PM_TRY(new_bytes(n * pm_kdtype_bytes((PmKDtype)o->dtype), &bytes));
  PmStatus *st = pm_session_output(r->session, entry, o->name, bytes);
  if (!st) widen((PmKDtype)o->dtype, bytes, n, out);
  free(bytes);
  return st;
}

PmStatus *pm_run_get_var(const PmRun *r, int32_t var, double *out) {
  const PmProgVar *v = &r->p->vars[var];
  void *bytes;
  PM_TRY(new_bytes(pm_session_var_bytes(r->session, var), &bytes));
  PmStatus *st = pm_session_get_var(r->session, var, bytes);
  if (!st) widen((PmKDtype)v->dtype, bytes, pm_dims_elements(v->dims, v->rank), out);
  free(bytes);
  return st;
}

static PmStatus *set_one(const PmRun *r, int32_t var, const double *values) {
  const PmProgVar *v = &r->p->vars[var];
  int64_t size = pm_session_var_bytes(r->session, var);
  void *bytes;
  PM_TRY(new_bytes(size, &bytes));
  narrow((PmKDtype)v->dtype, values, pm_dims_elements(v->dims, v->rank), bytes);
  PmStatus *st = pm_session_set_var(r->session, var, bytes, size);
  free(bytes);
  return st;
}

PmStatus *pm_run_set_var(const PmRun *r, int32_t var, const double *values) {
  int32_t twin = r->p->vars[var].twin;
  PM_TRY(set_one(r, var, values));
  return twin >= 0 ? set_one(r, twin, values) : NULL;
}
