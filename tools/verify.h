// The ways of `pmodel verify`.
#ifndef PM_TOOLS_VERIFY_H
#define PM_TOOLS_VERIFY_H

#include "tools/tool.h"

typedef struct PmVerdict {
  bool ok;
  int64_t ranks;
  double worst;  // the largest error of all kinds
} PmVerdict;

// Runs the plan next to the reference interpreter and prints where they differ most, and the first value that does.
// VERIFY when they differ by more than the bound, or when the memory that was touched is not what was predicted.
PM_MUST_CHECK PmStatus *pm_verify_reference(PmTool *t, const char *path);
// The same for a module as the frontend leaves it, which is used up. quiet: prints nothing unless the plan fails.
PM_MUST_CHECK PmStatus *pm_verify_module(PmTool *t, PmModule *m, int64_t steps, bool quiet, PmVerdict *out);
// The number of steps to compare. USAGE when the command line asks for something else.
PM_MUST_CHECK PmStatus *pm_verify_steps(const PmTool *t, int64_t *out_steps);
// The same for `--random-plans` plans made for `--ranks` ranks; stops at the first that fails, and prints it.
PM_MUST_CHECK PmStatus *pm_verify_random(PmTool *t, const char *path);
// Proves from the run plan alone that it is safe. `path` may be a model, which is compiled first.
PM_MUST_CHECK PmStatus *pm_verify_static(PmTool *t, const char *path);

#endif
