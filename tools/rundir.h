// The run directory of `pmodel train --out DIR`: meta.json, model.pmodel, run.prun, metrics.jsonl.
#ifndef PM_TOOLS_RUNDIR_H
#define PM_TOOLS_RUNDIR_H

#include <stdio.h>

#include "runtime/program.h"
#include "tools/tool.h"

typedef struct PmRunDir {
  FILE *metrics;  // NULL: no run directory
  const char *path;
} PmRunDir;

// Makes the folder and writes all but the metrics. USAGE when the folder holds a run already. `dir` may be NULL.
// model: the file that was compiled or read.
PM_MUST_CHECK PmStatus *pm_run_dir_open(PmTool *t, const char *dir, const char *model, const PmProgram *p,
                                        PmRunDir *out);
// Appends one line.
PM_MUST_CHECK PmStatus *pm_run_dir_metrics(const PmRunDir *d, const char *line);
PM_MUST_CHECK PmStatus *pm_run_dir_close(PmRunDir *d);

#endif
