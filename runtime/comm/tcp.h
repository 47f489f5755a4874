// The transport over TCP: in the program itself, for launchers that give ranks nothing but numbers and an address.
#ifndef PM_RUNTIME_COMM_TCP_H
#define PM_RUNTIME_COMM_TCP_H

#include "base/status.h"
#include "runtime/comm/transport.h"

#define PM_TCP_MAX_RANKS 4096  // every two ranks have a connection

typedef struct PmTcpOptions {
  const char *host;  // of rank 0, as all ranks know it: a name or an address
  int32_t port;      // where rank 0 listens
  int64_t rank, size;
  double deadline_s;  // for all ranks to have come
} PmTcpOptions;

// Joins the other processes of the run; returns when all have come. USAGE for numbers that make no run, or that differ
// from rank 0's; ENVIRONMENT when an address does not resolve, the port is taken or is another program's; DEADLINE,
// with who is missing; PEER when a rank leaves before the others have come.
PM_MUST_CHECK PmStatus *pm_tcp_open(const PmTcpOptions *o, PmTransport **out);

#endif
