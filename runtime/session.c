#include "runtime/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/half.h"
#include "base/philox.h"
#include "runtime/executor.h"
#include "runtime/slices.h"

struct PmSession {
  PmArena arena;
  const PmProgram *p;
  PmSessionOptions options;
  const PmDeviceVtbl *device;
  int64_t n_ranks;  // that exist here: all of them, or one when nothing runs
  PmExecutor *ranks;
  PmComm **comms;  // NULL when nothing runs
  PmPool *pool;    // a thread a rank
  PmStatus **statuses;
  int64_t step;
  int64_t outside_bytes;
};

// ---- memory outside of the arenas ----------------------------------------------------------------------------------
// Resident bytes of this process; 0 when the system doesn't tell.
static int64_t resident_bytes(void) {
  FILE *f = fopen("/proc/self/statm", "r");
  long long size, resident = 0;
  if (!f) return 0;
  if (fscanf(f, "%lld %lld", &size, &resident) != 2) resident = 0;
  fclose(f);
  return (int64_t)resident * sysconf(_SC_PAGESIZE);
}

static int64_t resident_arenas(const PmSession *s) {
  return s->device->runs && s->options.poison ? s->n_ranks * s->p->arena_bytes : 0;
}

// ---- creation ------------------------------------------------------------------------------------------------------
static PmStatus *create_ranks(PmSession *s) {
  const PmProgram *p = s->p;
  PmDeviceOptions options = {.threads = s->options.threads, .poison = s->options.poison};
  if (options.threads <= 0) {
    int64_t cores = sysconf(_SC_NPROCESSORS_ONLN);
    options.threads = (int32_t)(cores > s->n_ranks ? cores / s->n_ranks : 1);
  }
  if (s->device->compiles && s->options.compiler) {
    PmKernelFn *fns = PM_NEW_N(&s->arena, PmKernelFn, (size_t)p->n_kernels + 1);
    PM_TRY(s->options.compiler->compile(s->options.compiler, p, fns));
    options.fns = fns;
  }
  if (s->device->runs) {
    PmCommOptions comm = {
        .warn_s = s->options.warn_s,
        .deadline_s = s->options.deadline_s,
        .report = s->options.report,
        .context = s->options.context,
    };
    PmComm **comms = PM_NEW_N(&s->arena, PmComm *, s->n_ranks);
    PM_TRY(pm_comm_local_create(p, &comm, comms));
    s->comms = comms;
  }
  for (int64_t r = 0; r < s->n_ranks; r++) {
    s->ranks[r] = (PmExecutor){.p = p, .comm = s->comms ? s->comms[r] : NULL};
    PM_TRY(s->device->create(p, r, &options, &s->ranks[r].device));
  }
  return pm_pool_create((int32_t)s->n_ranks, &s->pool);
}

PmStatus *pm_session_create(const PmProgram *p, const PmSessionOptions *options, PmSession **out) {
  *out = NULL;
  const PmDeviceVtbl *device;
  PM_TRY(pm_device_find(options->device, &device));
  PmArena arena;
  pm_arena_init(&arena, 0);
  PmSession *s = PM_NEW(&arena, PmSession);
  s->arena = arena;
  s->p = p;
  s->options = *options;
  s->device = device;
  s->n_ranks = device->runs ? pm_program_ranks(p) : 1;
  s->ranks = PM_NEW_N(&s->arena, PmExecutor, s->n_ranks);
  s->statuses = PM_NEW_N(&s->arena, PmStatus *, s->n_ranks);
  int64_t before = resident_bytes();
  PmStatus *st = create_ranks(s);
  int64_t outside = resident_bytes() - before - resident_arenas(s);
  s->outside_bytes = outside > 0 ? outside : 0;
  if (st) {
    pm_session_destroy(s);
    return st;
  }
  *out = s;
  return NULL;
}

void pm_session_destroy(PmSession *s) {
  if (!s) return;
  pm_pool_destroy(s->pool);
  for (int64_t r = 0; r < s->n_ranks; r++) {
    if (s->ranks[r].device) s->device->destroy(s->ranks[r].device);
  }
  if (s->comms) pm_comm_local_destroy(s->comms);
  PmArena arena = s->arena;
  pm_arena_deinit(&arena);
}

// ---- running -------------------------------------------------------------------------------------------------------
typedef PmStatus *RankFn(PmSession *s, int64_t rank, void *context);

typedef struct RankJob {
  PmSession *s;
  RankFn *fn;
  void *context;
} RankJob;

static void run_rank(void *context, int64_t rank) {
  const RankJob *job = context;
  job->s->statuses[rank] = job->fn(job->s, rank, job->context);
}

// Calls fn on every rank's own thread. Of several failures the one that is not a peer's is returned.
static PmStatus *on_ranks(PmSession *s, RankFn *fn, void *context) {
  RankJob job = {s, fn, context};
  pm_pool_run(s->pool, run_rank, &job, s->n_ranks);
  PmStatus *first = NULL;
  for (int64_t r = 0; r < s->n_ranks; r++) {
    PmStatus *st = s->statuses[r];
    bool better = st && (!first || (pm_status_code(first) == PM_ERR_PEER && pm_status_code(st) != PM_ERR_PEER));
    pm_status_drop(better ? first : st);
    if (better) first = st;
    s->statuses[r] = NULL;
  }
  return first;
}

static PmStatus *run_entry(PmSession *s, int64_t rank, void *context) {
  return pm_executor_run(&s->ranks[rank], *(const int32_t *)context, s->step);
}

PmStatus *pm_session_run(PmSession *s, int32_t entry) {
  if (entry < 0 || entry >= PM_ENTRY_COUNT || !s->p->entries[entry].present) {
    return PM_STATUS(PM_ERR_USAGE, "the program has no entry %d", entry);
  }
  return on_ranks(s, run_entry, &entry);
}

// ---- initial values ------------------------------------------------------------------------------------------------
typedef double DrawFn(uint64_t key, uint64_t index);
static double draw_nothing(uint64_t key, uint64_t index) { return (void)key, (void)index, 0.0; }
static double draw_one(uint64_t key, uint64_t index) { return (void)key, (void)index, 1.0; }
static double draw_normal(uint64_t key, uint64_t index) { return (double)pm_random_normal(key, 0, index); }
static double draw_uniform(uint64_t key, uint64_t index) { return 2.0 * pm_random_uniform(key, 0, index) - 1.0; }

static DrawFn *const draw_fns[PM_VAR_INIT_COUNT] = {
    [PM_VAR_INIT_NONE] = draw_nothing,
    [PM_VAR_INIT_CONST] = draw_one,
    [PM_VAR_INIT_NORMAL] = draw_normal,
    [PM_VAR_INIT_UNIFORM] = draw_uniform,
};

static void store(PmKDtype dtype, char *at, int64_t i, double v) {
  if (dtype == PM_K_F32) ((float *)at)[i] = (float)v;
  if (dtype == PM_K_F64) ((double *)at)[i] = v;
  if (dtype == PM_K_BF16) ((uint16_t *)at)[i] = pm_bf16_from(v);
  if (dtype == PM_K_F16) ((uint16_t *)at)[i] = pm_f16_from(v);
  if (dtype == PM_K_I32) ((int32_t *)at)[i] = (int32_t)v;
  if (dtype == PM_K_BOOL) at[i] = v != 0;
}

static double rounded(PmKDtype dtype, double v) {
  if (dtype == PM_K_BF16) return (double)pm_bf16_round(v);
  if (dtype == PM_K_F16) return (double)pm_f16_round(v);
  return dtype == PM_K_F32 ? (double)(float)v : v;
}

typedef struct InitRun {
  const PmProgVar *v;
  const PmProgVar *master;  // or NULL
  DrawFn *draw;
  uint64_t key;
  char *at;
} InitRun;

static PmStatus *init_run(void *context, int64_t local, int64_t global, int64_t n) {
  const InitRun *r = context;
  for (int64_t i = 0; i < n; i++) {
    double x = r->v->init_value * r->draw(r->key, (uint64_t)(global + i));
    if (r->master) x = rounded((PmKDtype)r->master->dtype, x);
    store((PmKDtype)r->v->dtype, r->at, local + i, x);
  }
  return NULL;
}

static PmStatus *init_rank(PmSession *s, int64_t rank, void *context) {
  (void)context;
  for (int32_t i = 0; i < s->p->n_vars; i++) {
    const PmProgVar *v = &s->p->vars[i];
    const PmProgVar *twin = v->twin >= 0 ? &s->p->vars[v->twin] : NULL;
    InitRun run = {
        .v = v,
        .master = twin && v->role == PM_VAR_PARAM ? twin : NULL,
        .draw = draw_fns[v->init],
        .key = pm_random_key(s->options.seed, twin && v->role == PM_VAR_STATE ? twin->path : v->path),
        .at = s->ranks[rank].device->arena + v->at.offset,
    };
    memset(run.at, 0, (size_t)v->at.bytes);  // padding is zero
    PM_TRY(pm_slice_walk(s->p, v->dims, v->rank, rank, init_run, &run));
  }
  return NULL;
}

PmStatus *pm_session_init(PmSession *s) {
  if (s->device->runs) PM_TRY(on_ranks(s, init_rank, NULL));
  return s->p->entries[PM_ENTRY_SETUP].present ? pm_session_run(s, PM_ENTRY_SETUP) : NULL;
}

// ---- values in and out ---------------------------------------------------------------------------------------------
int32_t pm_session_find_var(const PmSession *s, const char *path) {
  for (int32_t i = 0; i < s->p->n_vars; i++) {
    if (strcmp(s->p->vars[i].path, path) == 0) return i;
  }
  return -1;
}

static PmStatus *check_var(const PmSession *s, int32_t var) {
  if (var >= 0 && var < s->p->n_vars) return NULL;
  return PM_STATUS(PM_ERR_USAGE, "the program has no variable %d", var);
}

int64_t pm_session_var_bytes(const PmSession *s, int32_t var) {
  const PmProgVar *v = &s->p->vars[var];
  return pm_dims_elements(v->dims, v->rank) * pm_kdtype_bytes((PmKDtype)v->dtype);
}

typedef struct CopyRun {
  const char *what;
  char *local;
  char *global;        // written by a gather only
  const char *source;  // of a scatter
  int64_t size, rank;
  bool compare;  // a slice that another rank has given already
} CopyRun;

static PmStatus *scatter_run(void *context, int64_t local, int64_t global, int64_t n) {
  const CopyRun *c = context;
  memcpy(c->local + local * c->size, c->source + global * c->size, (size_t)(n * c->size));
  return NULL;
}

static PmStatus *gather_run(void *context, int64_t local, int64_t global, int64_t n) {
  const CopyRun *c = context;
  const char *from = c->local + local * c->size;
  char *to = c->global + global * c->size;
  if (!c->compare) {
    memcpy(to, from, (size_t)(n * c->size));
    return NULL;
  }
  for (int64_t i = 0; i < n && memcmp(to, from, (size_t)(n * c->size)) != 0; i++) {
    if (memcmp(to + i * c->size, from + i * c->size, (size_t)c->size) == 0) continue;
    return PM_STATUS(PM_ERR_CORRUPTION, "`%s`: rank %lld holds other bits than its replica, first in element %lld",
                     c->what, (long long)c->rank, (long long)(global + i));
  }
  return NULL;
}

PmStatus *pm_session_set_var(PmSession *s, int32_t var, const void *global, int64_t bytes) {
  PM_TRY(check_var(s, var));
  const PmProgVar *v = &s->p->vars[var];
  if (bytes != pm_session_var_bytes(s, var)) {
    return PM_STATUS(PM_ERR_USAGE, "`%s` has %lld bytes, not %lld", v->path, (long long)pm_session_var_bytes(s, var),
                     (long long)bytes);
  }
  for (int64_t r = 0; r < s->n_ranks && s->device->runs; r++) {
    CopyRun c = {.local = s->ranks[r].device->arena + v->at.offset,
                 .source = global,
                 .size = pm_kdtype_bytes((PmKDtype)v->dtype)};
    PM_TRY(pm_slice_walk(s->p, v->dims, v->rank, r, scatter_run, &c));
  }
  return NULL;
}

static PmStatus *gather(const PmSession *s, const char *what, const PmVarDim *dims, int32_t n, PmKDtype dtype,
                        const PmRange *at, void *out) {
  int64_t size = pm_kdtype_bytes(dtype);
  if (!s->device->runs) {
    memset(out, 0, (size_t)(pm_dims_elements(dims, n) * size));
    return NULL;
  }
  for (int64_t r = 0; r < s->n_ranks; r++) {
    // The first rank of those with one slice comes before its replicas, so what it gave is there to compare with.
    CopyRun c = {.what = what,
                 .local = s->ranks[r].device->arena + at->offset,
                 .global = out,
                 .size = size,
                 .rank = r,
                 .compare = !pm_slice_first(s->p, dims, n, r)};
    PM_TRY(pm_slice_walk(s->p, dims, n, r, gather_run, &c));
  }
  return NULL;
}

PmStatus *pm_session_get_var(const PmSession *s, int32_t var, void *out_global) {
  PM_TRY(check_var(s, var));
  const PmProgVar *v = &s->p->vars[var];
  return gather(s, v->path, v->dims, v->rank, (PmKDtype)v->dtype, &v->at, out_global);
}

const PmOutput *pm_session_find_output(const PmSession *s, int32_t entry, const char *name) {
  if (entry < 0 || entry >= PM_ENTRY_COUNT) return NULL;
  const PmEntry *e = &s->p->entries[entry];
  for (int32_t i = 0; i < e->n_outputs; i++) {
    if (strcmp(e->outputs[i].name, name) == 0) return &e->outputs[i];
  }
  return NULL;
}

PmStatus *pm_session_output(const PmSession *s, int32_t entry, const char *name, void *out_global) {
  const PmOutput *o = pm_session_find_output(s, entry, name);
  if (!o) return PM_STATUS(PM_ERR_USAGE, "entry %d has no output `%s`", entry, name);
  return gather(s, name, o->dims, o->rank, (PmKDtype)o->dtype, &o->at, out_global);
}

typedef struct Load {
  const PmData *data;
} Load;

static PmStatus *load_rank(PmSession *s, int64_t rank, void *context) {
  const Load *load = context;
  char *arena = s->ranks[rank].device->arena;
  for (int32_t i = 0; i < s->p->n_vars; i++) {
    const PmProgVar *v = &s->p->vars[i];
    if (v->role == PM_VAR_STEP) store((PmKDtype)v->dtype, arena + v->at.offset, 0, (double)s->step);
    if (!load->data || !pm_data_feeds(load->data, i)) continue;
    PM_TRY(pm_data_fill(load->data, i, rank, s->step, arena + v->at.offset));
  }
  return NULL;
}

PmStatus *pm_session_load(PmSession *s, const PmData *data, int64_t step) {
  if (step < 0 || step > INT32_MAX) return PM_STATUS(PM_ERR_LIMIT, "step %lld", (long long)step);
  s->step = step;
  Load load = {data};
  return s->device->runs ? on_ranks(s, load_rank, &load) : NULL;
}

// ---- accounts ------------------------------------------------------------------------------------------------------
void pm_session_memory(const PmSession *s, PmSessionMemory *out) {
  *out = (PmSessionMemory){.arena_bytes = s->p->arena_bytes, .outside_bytes = s->outside_bytes};
  for (int64_t r = 0; r < s->n_ranks; r++) {
    int64_t touched = s->device->touched(s->ranks[r].device);
    if (touched > out->touched_bytes) out->touched_bytes = touched;
  }
}

void pm_session_counts(const PmSession *s, PmStepCounts *out) { *out = s->ranks[0].counts; }
