// Communicators of one kind for tests: the ranks of a program as threads of this process, or as processes that mpirun
// or with_tcp.sh started. A test is written once, for all.
#ifndef PM_TESTS_RUNTIME_WORLD_H
#define PM_TESTS_RUNTIME_WORLD_H

#include <stdatomic.h>

#include "runtime/comm.h"
#include "runtime/comm/transport.h"

enum { MAX_RANKS = 8 };

typedef struct World {
  PmTransport *t;  // NULL: ranks are threads
  PmArena arena;
  PmProgram *p;
  PmComm *comms[MAX_RANKS];  // of ranks here
  PmCommOptions options;
  void (*body)(struct World *w, int64_t rank);
  PmStatus *statuses[MAX_RANKS];
  char *src[MAX_RANKS], *dst[MAX_RANKS];
  char *base[MAX_RANKS];          // of the ranges of further parts
  const int32_t *idx[MAX_RANKS];  // of collectives that have rows
  void *context;
  _Atomic int32_t n_warnings, n_failures;
} World;

// Processes when the argument is `mpi` or `tcp`, else threads. Exits with 77, which ctest reports as skipped, and says
// why, when there is no MPI.
PmTransport *world_transport(int argc, char **argv);
void world_transport_close(PmTransport *t);

// A program without steps over a mesh of up to three axes; add collectives, then open.
void world_init(World *w, PmTransport *t, int64_t m0, int64_t m1, int64_t m2);
void world_open(World *w);
// Drops statuses too. All processes leave together.
void world_deinit(World *w);

bool world_has(const World *w, int64_t rank);  // the rank is here
// Calls the body for every rank here, on a thread of its own.
void world_run(World *w, void (*body)(World *w, int64_t rank));

PmColl *world_add_coll(World *w, PmCollKind kind, PmKDtype dtype, int reduce, int64_t count, uint32_t mesh);
PmStatus *world_run_step(World *w, int64_t rank, int32_t step, char *src, char *dst);
void expect_text(const PmStatus *st, const char *text);
// The message has the rank among those that are in no collective; a busy machine may keep others from theirs too.
void expect_lost(const char *message, int64_t rank);

#endif
