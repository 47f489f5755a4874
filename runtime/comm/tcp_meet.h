// How the processes of a run find one another over TCP: rank 0 listens at an address that all know, the others tell it
// where they listen, and when all have come it tells everybody everything. Then each rank connects to the lower ones
// and is connected to by the higher ones. Nobody waits for an answer while another waits for it: connections to a
// listening socket come about without the listener's help, and every socket listens before its address is told.
//
// Whatever else connects is refused: a greeting has one length, and has to say the right things within a few seconds.
#ifndef PM_RUNTIME_COMM_TCP_MEET_H
#define PM_RUNTIME_COMM_TCP_MEET_H

#include "runtime/comm/tcp.h"

#define PM_TCP_GREETING_MAGIC UINT64_C(0x31706c65646f6d70)

typedef struct PmTcpGreeting {
  uint64_t magic;
  uint32_t version;
  uint32_t port;  // where its sender listens
  int64_t rank, size;
  uint64_t key;    // of the run; 0 before rank 0 has told it
  uint64_t check;  // hash of what is before
} PmTcpGreeting;
_Static_assert(sizeof(PmTcpGreeting) == 48, "a greeting is the same on all ranks");

PmTcpGreeting pm_tcp_greeting(int64_t rank, int64_t size, uint32_t port, uint64_t key);

// out_fds[rank]: connected, non-blocking sockets to all ranks but this one, where it is -1. out_here: ranks on this
// machine. Statuses as of pm_tcp_open; nothing stays open after one.
PM_MUST_CHECK PmStatus *pm_tcp_meet(const PmTcpOptions *o, int *out_fds, int64_t *out_here);

#endif
