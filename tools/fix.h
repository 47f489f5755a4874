// `--fix`: the edits that diagnostics carry, made in the files.
#ifndef PM_TOOLS_FIX_H
#define PM_TOOLS_FIX_H

#include "tools/tool.h"

// Compiles the model at `path`, makes the edits that its diagnostics suggest, and goes on until none is left; each edit
// is a line on stdout. What is wrong beyond that is left to the next compile: `t` is as new. Errors: ENVIRONMENT.
PM_MUST_CHECK PmStatus *pm_tool_fix(PmTool *t, const char *path);

#endif
