// What every subcommand of `pmodel` gets, and the list of subcommands (rows of base/options.def).
//
// A subcommand writes its answer to stdout and nothing else; diagnostics and statuses go to stderr, once, by main.c.
#ifndef PM_TOOLS_TOOL_H
#define PM_TOOLS_TOOL_H

#include "base/options.h"
#include "passes/passes.h"
#include "tools/launch.h"

struct PmTool {
  PmOptions opt;
  PmArena arena;
  PmInterner names;
  PmSources sources;
  PmDiags *diags;
  PmPassCtx passes;
  bool reported;  // the diagnostics have been printed
  PmLaunch launch;
  bool log;  // stdout and stderr go to a file of this rank's own
};

// Prints the diagnostics, the first time that it is called; not on a rank whose stderr is also another's, as these are
// the same everywhere: there main.c prints what differs.
void pm_tool_report(PmTool *t);
// The same on whatever rank.
void pm_tool_print_diags(PmTool *t);

#define COMMAND(name, args, help) PM_MUST_CHECK PmStatus *pm_cmd_##name(PmTool *t);
#include "base/options.def"

#endif
