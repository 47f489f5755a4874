// Communicators: collectives among the ranks of a program. One PmComm is one rank's end of it.
//
// Every implementation passes tests/runtime/test_comm.c. Reductions run in member order, so results are the same bits
// on every rank and in every run. A rank that waits longer than the deadline, or whose peer failed, gets a status that
// names the rank, the step, the collective and its source line; from then on every call on every rank fails at once.
#ifndef PM_RUNTIME_COMM_H
#define PM_RUNTIME_COMM_H

#include "runtime/program.h"

typedef struct PmComm PmComm;

typedef struct PmCommCall {
  const PmColl *coll;
  char *src, *dst;
  char *base;          // where the ranges of coll->more count from
  const int32_t *idx;  // of coll->rows, else NULL
  // For messages:
  const char *op;        // the step's
  const PmProgLoc *loc;  // NULL: none
  int64_t step;          // of the training run
} PmCommCall;

// Where this rank has source and result of part i of 0 .. n_more.
static inline char *pm_comm_src(const PmCommCall *c, int32_t part) {
  return part == 0 ? c->src : c->base + c->coll->more[part - 1].src.offset;
}
static inline char *pm_comm_dst(const PmCommCall *c, int32_t part) {
  return part == 0 ? c->dst : c->base + c->coll->more[part - 1].dst.offset;
}

typedef struct PmCommVtbl {
  const char *name;
  PmStatus *(*run)(PmComm *comm, const PmCommCall *call);
  // Tells the other ranks that this one cannot go on.
  void (*abandon)(PmComm *comm, const char *why);
} PmCommVtbl;

struct PmComm {
  const PmCommVtbl *vtbl;
  int64_t rank;
};

typedef struct PmCommOptions {
  double warn_s,
      deadline_s;  // waiting longer than warn_s is reported once a call, deadline_s ends the run; 0: defaults
  // Between processes: what a rank sets aside for the others' parts of one exchange. 0: the default.
  int64_t staging_bytes;
  // Called from a rank's thread with a warning (PM_OK), or once when the run fails. NULL: warnings go to stderr.
  void (*report)(void *context, PmCode failed, const char *text);
  void *context;
} PmCommOptions;

#define PM_COMM_WARN_S 30.0
#define PM_COMM_DEADLINE_S 300.0
#define PM_COMM_STAGING_BYTES (16 << 20)

// One thread a rank in this process: `out_comms[rank]` for every rank of the program. Every group that the program's
// collectives need is made here. The program must outlive the comms. Others may read and write the memory of a call that
// failed until every rank has returned.
PM_MUST_CHECK PmStatus *pm_comm_local_create(const PmProgram *p, const PmCommOptions *options, PmComm **out_comms);
void pm_comm_local_destroy(PmComm **comms);  // all of them, by the array's first element

#endif
