// Runs the steps of an entry on one rank.
#ifndef PM_RUNTIME_EXECUTOR_H
#define PM_RUNTIME_EXECUTOR_H

#include "runtime/comm.h"
#include "runtime/device.h"
#include "runtime/session.h"

// Owns nothing: program, device and communicator belong to the session. One thread uses it at a time.
typedef struct PmExecutor {
  const PmProgram *p;
  PmDevice *device;
  PmComm *comm;  // NULL when the device does not run
  PmStepCounts counts;
} PmExecutor;

// Stops at the first step that fails, and tells the other ranks. `step` is that of the training run, for messages.
PM_MUST_CHECK PmStatus *pm_executor_run(PmExecutor *x, int32_t entry, int64_t step);

#endif
