// What every subcommand of `pmodel` gets, and the list of subcommands (rows of base/options.def).
//
// A subcommand writes its answer to stdout and nothing else; diagnostics and statuses go to stderr, once, by main.c.
#ifndef PM_TOOLS_TOOL_H
#define PM_TOOLS_TOOL_H

#include "base/options.h"
#include "passes/passes.h"

typedef struct PmTool {
  PmOptions opt;
  PmArena arena;
  PmInterner names;
  PmSources sources;
  PmDiags *diags;
  PmPassCtx passes;
  bool reported;  // the diagnostics have been printed
} PmTool;

// Prints the diagnostics, the first time that it is called.
void pm_tool_report(PmTool *t);

#define COMMAND(name, args, help) PM_MUST_CHECK PmStatus *pm_cmd_##name(PmTool *t);
#include "base/options.def"

#endif
