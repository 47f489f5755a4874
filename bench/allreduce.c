// Times an all-reduce of f32 among 8 ranks: `allreduce local MIB REPEATS` with a thread a rank, or with a process a
// rank `allreduce remote MIB REPEATS PLUGIN` under mpirun and `allreduce tcp MIB REPEATS` with the variables of
// torchrun. Prints the mean in milliseconds.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/comm/groups.h"
#include "runtime/comm/mpi_open.h"
#include "runtime/comm/remote.h"
#include "runtime/comm/tcp.h"
#include "runtime/futex.h"

enum { RANKS = 8, WARM = 2 };

typedef struct Bench {
  PmProgram p;
  PmColl coll;
  PmComm *comms[RANKS];
  int32_t repeats;
  double seconds;  // of one
} Bench;

typedef struct Rank {
  Bench *b;
  int64_t rank;
} Rank;

static void must(PmStatus *st) {
  if (!st) return;
  pm_status_print(st, stderr);
  exit(1);
}

static void *run(void *arg) {
  const Rank *r = arg;
  Bench *b = r->b;
  PmComm *comm = b->comms[r->rank];
  size_t bytes = (size_t)b->coll.count * sizeof(float);
  float *src = malloc(bytes), *dst = malloc(bytes);
  for (int64_t i = 0; i < b->coll.count; i++) src[i] = (float)(r->rank + i % 7);
  memset(dst, 0, bytes);
  PmCommCall call = {.coll = &b->coll, .src = (char *)src, .dst = (char *)dst};
  for (int32_t i = 0; i < WARM; i++) must(comm->vtbl->run(comm, &call));
  double start = pm_clock_seconds();
  for (int32_t i = 0; i < b->repeats; i++) must(comm->vtbl->run(comm, &call));
  if (r->rank == 0) b->seconds = (pm_clock_seconds() - start) / b->repeats;
  for (int64_t i = 0; i < b->coll.count; i++) {
    if (dst[i] != (float)(RANKS * (RANKS - 1) / 2 + RANKS * (i % 7))) abort();
  }
  free(src);
  free(dst);
  return NULL;
}

static void run_local(Bench *b) {
  pthread_t threads[RANKS];
  Rank ranks[RANKS];
  must(pm_comm_local_create(&b->p, &(PmCommOptions){0}, b->comms));
  for (int64_t r = 0; r < RANKS; r++) {
    ranks[r] = (Rank){b, r};
    if (pthread_create(&threads[r], NULL, run, &ranks[r])) abort();
  }
  for (int64_t r = 0; r < RANKS; r++) pthread_join(threads[r], NULL);
}

static PmTransport *open_tcp(void) {
  const char *host = getenv("MASTER_ADDR"), *port = getenv("MASTER_PORT"), *rank = getenv("RANK");
  if (!host || !port || !rank) exit(2);
  PmTcpOptions options = {.host = host, .port = atoi(port), .rank = atoi(rank), .size = RANKS, .deadline_s = 60};
  PmTransport *t;
  must(pm_tcp_open(&options, &t));
  return t;
}

static PmTransport *open_mpi(const char *plugin) {
  PmTransport *t;
  must(pm_mpi_open(plugin, &t));
  return t;
}

static void run_remote(Bench *b, PmTransport *t) {
  if (t->size != RANKS) exit(2);
  must(pm_comm_remote_create(&b->p, t, &(PmCommOptions){0}, &b->comms[t->rank]));
  run(&(Rank){b, t->rank});
  int64_t rank = t->rank;
  t->vtbl->close(t);
  if (rank > 0) exit(0);
}

int main(int argc, char **argv) {
  if (argc < 4) return 2;
  static Bench b;
  PmStep step = {.kind = PM_STEP_COLL, .u.coll = &b.coll};
  double mib = strtod(argv[2], NULL);
  b.repeats = (int32_t)strtol(argv[3], NULL, 10);
  b.p.n_mesh = 1;
  b.p.mesh_name[0] = "data";
  b.p.mesh_size[0] = RANKS;
  b.p.entries[PM_ENTRY_STEP].n_steps = 1;
  b.p.entries[PM_ENTRY_STEP].steps = &step;
  int64_t count = (int64_t)(mib * 262144);
  b.coll = pm_comm_among_all(&b.p, PM_COLL_ALL_REDUCE, PM_K_F32, count > 0 ? count : 1);
  if (strcmp(argv[1], "local") == 0) {
    run_local(&b);
  } else if (strcmp(argv[1], "tcp") == 0) {
    run_remote(&b, open_tcp());
  } else if (argc > 4) {
    run_remote(&b, open_mpi(argv[4]));
  }
  printf("%.4f\n", 1e3 * b.seconds);
  return 0;
}
