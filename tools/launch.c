#include "tools/launch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "runtime/comm/mpi_open.h"
#include "runtime/comm/remote.h"
#include "runtime/comm/tcp.h"
#include "runtime/futex.h"
#include "runtime/program.h"
#include "tools/tool.h"

// A rank that failed waits so long for the others to come to the same end.
#define GRACE_S 2.0
#define FOLLOW_S 2

typedef struct Launcher {
  const char *by, *rank, *size;  // variables of the environment that it sets
  const char *mpi;               // the variable by which MPI finds the other processes; NULL: it has none
} Launcher;

// The first that fits. srun sets what MPI needs only when it is told to.
static const Launcher launchers[] = {
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
    {"mpiexec", "PMI_RANK", "PMI_SIZE", "PMI_RANK"},
    {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "PMIX_RANK"},
    {"torchrun", "RANK", "WORLD_SIZE", NULL},
};

static int64_t variable(const char *name) {
  const char *text = getenv(name);
  char *end;
  if (!text) return -1;
  int64_t v = strtoll(text, &end, 10);
  return *text && !*end ? v : -1;
}

static const Launcher *find_launcher(PmLaunch *out) {
  for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
    const Launcher *l = &launchers[i];
    int64_t rank = variable(l->rank), size = variable(l->size);
    if (rank < 0 || size < 1 || rank >= size) continue;
    *out = (PmLaunch){.by = l->by, .rank = rank, .size = size};
    return l;
  }
  *out = (PmLaunch){.size = 1};
  return NULL;
}

static bool runs_ranks(const PmOptions *o) {
  bool runs = o->command == PM_CMD_train || (o->command == PM_CMD_verify && !o->static_only && o->random_plans == 0);
  return runs && strcmp(o->target, "null") != 0;
}

static double deadline(const PmTool *t) { return t->opt.deadline > 0 ? (double)t->opt.deadline : PM_COMM_DEADLINE_S; }

static PmStatus *join_mpi(PmTool *t, const Launcher *l) {
  PmLaunch *launch = &t->launch;
  PM_TRY(pm_mpi_open(t->opt.mpi_plugin, &launch->transport));
  if (launch->transport->size == launch->size) {
    launch->rank = launch->transport->rank;
    return NULL;
  }
  PmStatus *st = PM_STATUS(PM_ERR_ENVIRONMENT,
                           "%s started %" PRId64 " processes, but MPI (%s) sees %" PRId64
                           ": the plugin was built with another MPI than the launcher's",
                           l->by, launch->size, launch->transport->library, launch->transport->size);
  launch->transport = NULL;
  return st;
}

static PmStatus *nowhere(const PmTool *t, const Launcher *l, const char *what) {
  return PM_STATUS(PM_ERR_USAGE,
                   "%s started %" PRId64
                   " processes, which cannot find one another: %s. Without an address ranks in several processes are "
                   "started by `mpirun -np %" PRId64 "` or `srun --mpi=pmix -n %" PRId64
                   "`; started alone, one process runs all ranks of the plan",
                   l->by, t->launch.size, what, t->launch.size, t->launch.size);
}

// Where rank 0 listens. torchrun's own agent is at MASTER_PORT already.
static int64_t master_port(const PmTool *t) {
  if (t->opt.master_port > 0) return t->opt.master_port;
  int64_t port = variable("MASTER_PORT");
  return port > 0 && getenv("TORCHELASTIC_RUN_ID") ? port + 1 : port;
}

static PmStatus *join_tcp(PmTool *t, const Launcher *l) {
  char *host = getenv("MASTER_ADDR");
  if (!host || !*host) return nowhere(t, l, "`MASTER_ADDR` is not set to the address of rank 0");
  int64_t port = master_port(t);
  if (port < 1 || port > UINT16_MAX) {
    return nowhere(t, l, "neither `MASTER_PORT` nor `--master-port` is a port, 1 to 65535");
  }
  PmTcpOptions options = {
      .host = host, .port = (int32_t)port, .rank = t->launch.rank, .size = t->launch.size, .deadline_s = deadline(t)};
  PmStatus *st = pm_tcp_open(&options, &t->launch.transport);
  t->launch.alone = st != NULL;
  return st;
}

static PmStatus *join(PmTool *t, const Launcher *l) {
  return l->mpi && variable(l->mpi) >= 0 ? join_mpi(t, l) : join_tcp(t, l);
}

PmStatus *pm_launch_begin(PmTool *t) {
  const Launcher *l = find_launcher(&t->launch);
  if (!l || t->launch.size == 1) return NULL;
  if (runs_ranks(&t->opt)) PM_TRY(join(t, l));
  if (t->launch.rank == 0) return NULL;
  if (!t->launch.transport) t->launch.idle = true;
  // What all ranks would write alike is written once.
  pm_passes_hush(&t->passes);
  if (!freopen("/dev/null", "w", stdout)) return PM_STATUS(PM_ERR_ENVIRONMENT, "cannot open `/dev/null`");
  return NULL;
}

// ---- votes ---------------------------------------------------------------------------------------------------------
typedef struct Votes {
  PmVote *of;
  uint8_t *heard;
  bool all;
} Votes;

static Votes vote(PmTool *t, int64_t code, uint64_t what, double seconds) {
  Votes v = {.of = PM_NEW_N(&t->arena, PmVote, t->launch.size), .heard = PM_NEW_N(&t->arena, uint8_t, t->launch.size)};
  v.all = pm_transport_vote(t->launch.transport, (PmVote){code, what}, seconds, v.of, v.heard);
  return v;
}

static PmStatus *not_heard(const PmTool *t, const Votes *v, double waited) {
  PmBuf ranks;
  pm_buf_init(&ranks);
  for (int64_t r = 0; r < t->launch.size; r++) {
    if (!v->heard[r]) pm_buf_printf(&ranks, "%s%" PRId64, ranks.len ? ", " : "", r);
  }
  bool late = waited >= deadline(t);
  PmStatus *st = PM_STATUS(late ? PM_ERR_DEADLINE : PM_ERR_PEER,
                           "rank %" PRId64 " has waited %.1f s for rank %s before the first step%s", t->launch.rank,
                           waited, pm_buf_str(&ranks), late ? "" : ": one of them is lost");
  pm_buf_deinit(&ranks);
  return st;
}

static uint64_t program_hash(const PmProgram *p) {
  PmBuf bytes;
  pm_buf_init(&bytes);
  pm_program_write(p, &bytes);
  uint64_t hash = pm_hash64(bytes.data, bytes.len, p->seed);
  pm_buf_deinit(&bytes);
  return hash;
}

PmStatus *pm_launch_agree(PmTool *t, const PmProgram *p) {
  if (!t->launch.transport) return NULL;
  double start = pm_clock_seconds();
  Votes v = vote(t, PM_OK, program_hash(p), deadline(t));
  if (!v.all) return not_heard(t, &v, pm_clock_seconds() - start);
  for (int64_t r = 0; r < t->launch.size; r++) {
    if (v.of[r].code) {
      t->launch.over = true;
      return PM_STATUS((PmCode)v.of[r].code, "rank %" PRId64 " stopped before the first step, with exit code %" PRId64,
                       r, v.of[r].code);
    }
  }
  for (int64_t r = 1; r < t->launch.size; r++) {
    if (v.of[r].what == v.of[0].what) continue;
    t->launch.over = true;
    return PM_STATUS(PM_ERR_INPUT,
                     "rank %" PRId64
                     " has another run plan than rank 0: all ranks need the same files, options and version of pmodel",
                     r);
  }
  return NULL;
}

int pm_launch_settle(PmTool *t, int code, bool *out_says) {
  PmLaunch *launch = &t->launch;
  *out_says = launch->rank == 0 || t->log || launch->alone;
  if (!launch->transport || launch->over) return code;
  Votes v = vote(t, code, 0, code ? GRACE_S : deadline(t));
  launch->over = v.all;
  int64_t lowest = 0;
  while (!v.heard[lowest]) lowest++;
  launch->follows = launch->rank > lowest;
  if (launch->rank == lowest || v.of[lowest].code != code) *out_says = true;
  if (code == PM_OK && !v.all) return PM_ERR_DEADLINE;
  // A rank that stopped because of another ends like that one, which says why.
  for (int64_t r = 0; r < launch->size && (code == PM_OK || code == PM_ERR_PEER); r++) {
    if (!v.heard[r] || v.of[r].code == PM_OK || v.of[r].code == PM_ERR_PEER) continue;
    code = (int)v.of[r].code;
    *out_says = t->log;
  }
  return code;
}

void pm_launch_close(PmTool *t, int code) {
  PmTransport *transport = t->launch.transport;
  if (!transport) return;
  if (t->launch.over) {
    transport->vtbl->close(transport);
  } else {
    // Ending the others is left to the rank that says why, as long as it is there.
    if (t->launch.follows) sleep(FOLLOW_S);
    transport->vtbl->end(transport, code);
  }
}
