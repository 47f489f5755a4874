#include "runtime/session.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "runtime/comm/groups.h"
#include "runtime/comm/remote.h"
#include "runtime/element.h"
#include "runtime/executor.h"
#include "runtime/initial.h"
#include "runtime/slices.h"

typedef struct Exchange {  // what all ranks have of a value, by rank, when they are in several processes
  char *bytes;
  int64_t size;
} Exchange;

struct PmSession {
  PmArena arena;
  const PmProgram *p;
  PmSessionOptions options;
  const PmDeviceVtbl *device;
  int64_t n_ranks;      // of the program
  int64_t first, here;  // ranks in this process; one when nothing runs
  PmExecutor *ranks;    // by rank - first, as all arrays here
  PmComm **comms;       // NULL when nothing runs
  PmPool *pool;         // a thread a rank
  Exchange *exchange;
  PmColl all;  // among all ranks, of nothing
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
  return s->device->runs && s->options.poison ? s->here * s->p->arena_bytes : 0;
}

// ---- creation ------------------------------------------------------------------------------------------------------
// Of each rank: the machine's cores are shared with its other ranks, and a launcher may have given this process a part
// of them.
static int32_t default_threads(const PmSession *s) {
  const PmTransport *t = s->options.transport;
  int64_t cores = sysconf(_SC_NPROCESSORS_ONLN), allowed = cores;
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) allowed = CPU_COUNT(&set);
  int64_t mine = cores / (t ? t->here : s->here), limit = allowed / s->here;
  if (mine > limit) mine = limit;
  return mine > 1 ? (int32_t)mine : 1;
}

static PmStatus *create_comms(PmSession *s) {
  PmCommOptions options = {
      .warn_s = s->options.warn_s,
      .deadline_s = s->options.deadline_s,
      .report = s->options.report,
      .context = s->options.context,
  };
  PmComm **comms = PM_NEW_N(&s->arena, PmComm *, s->here);
  if (s->options.transport) {
    PM_TRY(pm_comm_remote_create(s->p, s->options.transport, &options, comms));
  } else {
    PM_TRY(pm_comm_local_create(s->p, &options, comms));
  }
  s->comms = comms;
  return NULL;
}

static PmStatus *create_ranks(PmSession *s) {
  const PmProgram *p = s->p;
  PmDeviceOptions options = {.threads = s->options.threads, .ranks_here = s->here, .poison = s->options.poison};
  if (options.threads <= 0) options.threads = default_threads(s);
  if (s->device->runs) PM_TRY(create_comms(s));
  if (s->device->compiles && s->options.compiler) {
    PmKernelFn *fns = PM_NEW_N(&s->arena, PmKernelFn, (size_t)p->n_kernels + 1);
    PM_TRY(s->options.compiler->compile(s->options.compiler, p, fns));
    options.fns = fns;
  }
  for (int64_t i = 0; i < s->here; i++) {
    s->ranks[i] = (PmExecutor){.p = p, .comm = s->comms ? s->comms[i] : NULL};
    PM_TRY(s->device->create(p, s->first + i, &options, &s->ranks[i].device));
  }
  return pm_pool_create((int32_t)s->here, &s->pool);
}

static PmStatus *check_transport(const PmProgram *p, const PmTransport *t) {
  if (!t || t->size == pm_program_ranks(p)) return NULL;
  return PM_STATUS(PM_ERR_USAGE, "the program has %lld ranks, but %lld processes were started",
                   (long long)pm_program_ranks(p), (long long)t->size);
}

PmStatus *pm_session_create(const PmProgram *p, const PmSessionOptions *options, PmSession **out) {
  *out = NULL;
  const PmDeviceVtbl *device;
  PM_TRY(pm_device_find(options->device, &device));
  PM_TRY(check_transport(p, options->transport));
  PmArena arena;
  pm_arena_init(&arena, 0);
  PmSession *s = PM_NEW(&arena, PmSession);
  s->arena = arena;
  s->p = p;
  s->options = *options;
  s->device = device;
  s->n_ranks = pm_program_ranks(p);
  s->first = options->transport ? options->transport->rank : 0;
  s->here = device->runs && !options->transport ? s->n_ranks : 1;
  s->all = pm_comm_among_all(p, PM_COLL_ALL_REDUCE, PM_K_F32, 0);
  s->ranks = PM_NEW_N(&s->arena, PmExecutor, s->here);
  s->statuses = PM_NEW_N(&s->arena, PmStatus *, s->here);
  s->exchange = PM_NEW(&s->arena, Exchange);
  int64_t before = resident_bytes();
  PmStatus *st = create_ranks(s);
  int64_t outside = resident_bytes() - before - resident_arenas(s);
  s->outside_bytes = outside > 0 ? outside : 0;
  if (st) {
    pm_session_abandon(s, pm_status_message(st));
    pm_session_destroy(s);
    return st;
  }
  *out = s;
  return NULL;
}

void pm_session_destroy(PmSession *s) {
  if (!s) return;
  pm_pool_destroy(s->pool);
  for (int64_t i = 0; i < s->here; i++) {
    if (s->ranks[i].device) s->device->destroy(s->ranks[i].device);
  }
  if (s->comms && s->options.transport) pm_comm_remote_destroy(s->comms[0]);
  if (s->comms && !s->options.transport) pm_comm_local_destroy(s->comms);
  free(s->exchange->bytes);
  PmArena arena = s->arena;
  pm_arena_deinit(&arena);
}

void pm_session_abandon(PmSession *s, const char *why) {
  if (s->comms) s->comms[0]->vtbl->abandon(s->comms[0], why);
}

// ---- running -------------------------------------------------------------------------------------------------------
typedef PmStatus *RankFn(PmSession *s, int64_t rank, void *context);

typedef struct RankJob {
  PmSession *s;
  RankFn *fn;
  void *context;
} RankJob;

static void run_rank(void *context, int64_t i) {
  const RankJob *job = context;
  job->s->statuses[i] = job->fn(job->s, job->s->first + i, job->context);
}

static PmExecutor *executor(const PmSession *s, int64_t rank) { return &s->ranks[rank - s->first]; }

// Calls fn for every rank of this process on the rank's own thread. Of several failures the one that is not a peer's is
// returned.
static PmStatus *on_ranks(PmSession *s, RankFn *fn, void *context) {
  RankJob job = {s, fn, context};
  pm_pool_run(s->pool, run_rank, &job, s->here);
  PmStatus *first = NULL;
  for (int64_t i = 0; i < s->here; i++) {
    PmStatus *st = s->statuses[i];
    bool better = st && (!first || (pm_status_code(first) == PM_ERR_PEER && pm_status_code(st) != PM_ERR_PEER));
    pm_status_drop(better ? first : st);
    if (better) first = st;
    s->statuses[i] = NULL;
  }
  return first;
}

// Messages count training steps from 1, as people do.
static int64_t step_number(const PmSession *s, int32_t entry) { return entry == PM_ENTRY_SETUP ? 0 : s->step + 1; }

static PmStatus *run_entry(PmSession *s, int64_t rank, void *context) {
  int32_t entry = *(const int32_t *)context;
  PmExecutor *x = executor(s, rank);
  PM_TRY(pm_executor_run(x, entry, step_number(s, entry)));
  if (s->here == 1 || !x->comm) return NULL;
  // A rank that hangs behind its last collective would keep the others from returning without anybody noticing.
  PmCommCall end = {.coll = &s->all,
                    .src = x->device->arena,
                    .dst = x->device->arena,
                    .op = "the end of its last step",
                    .step = step_number(s, entry)};
  return x->comm->vtbl->run(x->comm, &end);
}

PmStatus *pm_session_run(PmSession *s, int32_t entry) {
  if (entry < 0 || entry >= PM_ENTRY_COUNT || !s->p->entries[entry].present) {
    return PM_STATUS(PM_ERR_USAGE, "the program has no entry %d", entry);
  }
  return on_ranks(s, run_entry, &entry);
}

// ---- initial values -------------------------------------------------------------------------------------------------
static PmStatus *init_rank(PmSession *s, int64_t rank, void *context) {
  (void)context;
  for (int32_t i = 0; i < s->p->n_vars; i++) {
    PM_TRY(pm_initial_fill(s->p, i, s->options.seed, rank, executor(s, rank)->device->arena));
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
  for (int64_t i = 0; i < s->here && s->device->runs; i++) {
    CopyRun c = {.local = s->ranks[i].device->arena + v->at.offset,
                 .source = global,
                 .size = pm_kdtype_bytes((PmKDtype)v->dtype)};
    PM_TRY(pm_slice_walk(s->p, v->dims, v->rank, s->first + i, scatter_run, &c));
  }
  return NULL;
}

// Every rank's part of a value, to every process.
static PmStatus *exchange_parts(const PmSession *s, const char *what, const PmRange *at) {
  Exchange *e = s->exchange;
  int64_t bytes;
  if (!pm_mul_i64(s->n_ranks, at->bytes, &bytes)) return PM_STATUS(PM_ERR_LIMIT, "`%s` is too large to collect", what);
  if (e->size < bytes) {
    char *more = realloc(e->bytes, (size_t)bytes);
    if (!more) return PM_STATUS(PM_ERR_LIMIT, "no memory for %lld bytes of `%s`", (long long)bytes, what);
    *e = (Exchange){more, bytes};
  }
  PmColl c = s->all;
  c.kind = PM_COLL_ALL_GATHER;
  c.dtype = PM_K_BOOL;
  c.count = at->bytes;
  PmCommCall call = {
      .coll = &c, .src = s->ranks[0].device->arena + at->offset, .dst = e->bytes, .op = what, .step = s->step + 1};
  return s->comms[0]->vtbl->run(s->comms[0], &call);
}

static PmStatus *gather(const PmSession *s, const char *what, const PmVarDim *dims, int32_t n, PmKDtype dtype,
                        const PmRange *at, void *out) {
  int64_t size = pm_kdtype_bytes(dtype);
  if (!s->device->runs) {
    memset(out, 0, (size_t)(pm_dims_elements(dims, n) * size));
    return NULL;
  }
  if (s->here < s->n_ranks) PM_TRY(exchange_parts(s, what, at));
  for (int64_t r = 0; r < s->n_ranks; r++) {
    char *local = s->here < s->n_ranks ? s->exchange->bytes + r * at->bytes : s->ranks[r].device->arena + at->offset;
    // The first rank of those with one slice comes before its replicas, so what it gave is there to compare with.
    CopyRun c = {.what = what,
                 .local = local,
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
  char *arena = executor(s, rank)->device->arena;
  for (int32_t i = 0; i < s->p->n_vars; i++) {
    const PmProgVar *v = &s->p->vars[i];
    if (v->role == PM_VAR_STEP) pm_element_store((PmKDtype)v->dtype, arena + v->at.offset, 0, (double)s->step);
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
  for (int64_t i = 0; i < s->here; i++) {
    int64_t touched = s->device->touched(s->ranks[i].device);
    if (touched > out->touched_bytes) out->touched_bytes = touched;
  }
}

void pm_session_counts(const PmSession *s, PmStepCounts *out) { *out = s->ranks[0].counts; }
