// The communicator between processes, over a transport; and what the processes of a run settle before and after it.
#ifndef PM_RUNTIME_COMM_REMOTE_H
#define PM_RUNTIME_COMM_REMOTE_H

#include "runtime/comm.h"
#include "runtime/comm/transport.h"

// This process is rank `t->rank` of the program; the transport has at least as many ranks. Every rank makes its
// communicators over a transport in one order: by their number messages are told from those of others. Program and
// transport must outlive it. One thread, that of the transport, calls it.
PM_MUST_CHECK PmStatus *pm_comm_remote_create(const PmProgram *p, PmTransport *t, const PmCommOptions *options,
                                              PmComm **out);
void pm_comm_remote_destroy(PmComm *comm);

typedef struct PmVote {
  int64_t code;   // an exit code
  uint64_t what;  // what it is about, for ranks that must mean the same
} PmVote;

// Every rank tells its vote and learns those of all: out_votes[rank], where out_heard[rank] is 1. False when some have
// not been heard of for `seconds`, or when the transport fails. Both arrays have a place a rank.
bool pm_transport_vote(PmTransport *t, PmVote mine, double seconds, PmVote *out_votes, uint8_t *out_heard);

#endif
