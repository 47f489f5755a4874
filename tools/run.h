// A program that runs in this process: compiler, session and data, opened and closed together.
#ifndef PM_TOOLS_RUN_H
#define PM_TOOLS_RUN_H

#include "runtime/session.h"
#include "runtime/watchdog.h"
#include "tools/tool.h"

typedef struct PmRun {
  const PmProgram *p;
  PmKernelCompiler *compiler;  // NULL when the device needs none
  PmSession *session;
  PmData *data;  // NULL: inputs are set by the caller
  PmWatchdog watchdog;
  bool watched;      // the watchdog exists
  int32_t step_var;  // -1 when the program does not count steps
} PmRun;

// Opens a session on the device of `--target`, with initial values. poison: for pm_session_memory.
// On failure nothing is left open. `out` stays where it is while it is open.
PM_MUST_CHECK PmStatus *pm_run_open(PmTool *t, const PmProgram *p, bool poison, PmRun *out);
// Opens the program's data. INPUT when it names none.
PM_MUST_CHECK PmStatus *pm_run_open_data(PmRun *r);
void pm_run_close(PmRun *r);
// Tells ranks in other processes what this one ends with, unless they see it for themselves. NULL: nothing.
void pm_run_abandon(PmRun *r, const PmStatus *why);
// Runs the training step number `step`, counted from 0.
PM_MUST_CHECK PmStatus *pm_run_step(PmRun *r, int64_t step);

// Whole values as doubles; `out` has pm_dims_elements elements.
PM_MUST_CHECK PmStatus *pm_run_output(const PmRun *r, int32_t entry, const PmOutput *o, double *out);
PM_MUST_CHECK PmStatus *pm_run_get_var(const PmRun *r, int32_t var, double *out);
// Of a parameter that has a master and a working copy both, each rounded to its type.
PM_MUST_CHECK PmStatus *pm_run_set_var(const PmRun *r, int32_t var, const double *values);

#endif
