// Private to the communicator between processes: messages between the members of a group (remote.c), and what the
// collectives make of them (remote_colls.c).
#ifndef PM_RUNTIME_COMM_EXCHANGE_H
#define PM_RUNTIME_COMM_EXCHANGE_H

#include "runtime/comm.h"
#include "runtime/comm/say.h"
#include "runtime/comm/transport.h"
#include "runtime/rows.h"

// What a member says before its data: what it is about to do.
typedef struct PmRemoteHead {
  int64_t step;
  uint64_t form;      // pm_coll_form
  int32_t line, col;  // line 0: no place
  char op[48], path[104];
} PmRemoteHead;

typedef struct PmMove {  // what goes to a member, and what comes from it
  const char *out;
  char *in;
  int64_t out_bytes, in_bytes;
} PmMove;

typedef struct PmRemoteGroup {  // the group of one list of mesh axes that this rank is in
  int32_t n_mesh;
  uint8_t mesh[PM_PROGRAM_MAX_MESH];
  int32_t n, me;
  int64_t *ranks;
} PmRemoteGroup;

typedef struct PmRemote {
  PmComm base;
  PmArena arena;
  const PmProgram *p;
  PmTransport *t;
  PmCommOptions options;
  int32_t world;
  int32_t n_groups, cap_groups;
  PmRemoteGroup *groups;
  // Of the collective that runs. Slots, n of each: heads in, heads out, data in, data out.
  int64_t n_open;
  uint8_t *open, *done;
  PmRemoteHead head, *heads;
  PmMove *moves;
  const char **parts;
  char *staging;
  PmRowPart *row_parts;   // the members' parts of a table
  int32_t *row_from;      // the member that wrote a row last
  int64_t most_rows;      // of any table
  int64_t least_staging;  // for one row of each member
  PmCode failed;
  char failure[PM_MESSAGE_BYTES];
} PmRemote;

// Makes the moves of all members but this one; heads that are under way are waited for too. PEER or DEADLINE, and then
// nothing works any more.
PM_MUST_CHECK PmStatus *pm_remote_exchange(PmRemote *r, const PmRemoteGroup *f, const PmCommCall *call);

// Runs the collective, once heads are on their way. Errors of pm_remote_exchange.
PM_MUST_CHECK PmStatus *pm_remote_collective(PmRemote *r, const PmRemoteGroup *f, const PmCommCall *call);
// Bytes of staging for one member's part, whole cache lines.
int64_t pm_remote_staging_part(const PmRemote *r, const PmRemoteGroup *f);
// Bytes of staging for one position of each of n members.
int64_t pm_remote_position_bytes(const PmColl *c, int64_t n);

#endif
