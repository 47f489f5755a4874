// Processes that a launcher started together: mpirun or srun, which MPI brings together, or torchrun and whatever else
// sets its variables, which TCP does. `train` and `verify` run as one rank in each; everything else is done by the
// first of them, and the others have nothing to do.
//
// All ranks do the same and come to the same end, so one of them says it: stdout is that of rank 0, diagnostics and the
// final status come from the lowest rank that is heard of, and from those that end otherwise.
#ifndef PM_TOOLS_LAUNCH_H
#define PM_TOOLS_LAUNCH_H

#include "base/status.h"
#include "runtime/comm/transport.h"

typedef struct PmTool PmTool;
struct PmProgram;

typedef struct PmLaunch {
  const char *by;          // the launcher; NULL: this process was started alone
  int64_t rank, size;      // of the processes that it started
  PmTransport *transport;  // NULL: this process runs all ranks, or none
  bool idle;               // another process does the work
  bool over;               // every rank knows that the run ends here
  bool alone;              // this process has not met the others
  bool follows;            // a lower rank has been heard of at the end
} PmLaunch;

// Looks who started this process, and joins the others when the command runs ranks. USAGE when they cannot find one
// another, ENVIRONMENT without MPI; over TCP also as pm_tcp_open.
PM_MUST_CHECK PmStatus *pm_launch_begin(PmTool *t);
// Before anything runs: every rank has the same program, and none has failed. A rank that comes too late, failed, or
// has another program is named.
PM_MUST_CHECK PmStatus *pm_launch_agree(PmTool *t, const struct PmProgram *p);
// At the end, with what this rank would exit with: what it exits with, and whether it says why.
int pm_launch_settle(PmTool *t, int code, bool *out_says);
// Leaves the others; ends them when they did not come to pm_launch_settle.
void pm_launch_close(PmTool *t, int code);

#endif
