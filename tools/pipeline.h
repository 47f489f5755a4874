// From the command line to a module or a program: what the subcommands share.
#ifndef PM_TOOLS_PIPELINE_H
#define PM_TOOLS_PIPELINE_H

#include "frontend/frontend.h"
#include "runtime/program.h"
#include "tools/tool.h"

// Passes that `place` needs before it; with it they leave the module that `show sharding` prints.
#define PM_DERIVE_PASSES PM_STEP_PASSES ",masters,pad"
#define PM_PLACE_PASSES PM_DERIVE_PASSES ",place"

// The one file that a subcommand works on: argument `index`. USAGE when it is missing or arguments are left over.
PM_MUST_CHECK PmStatus *pm_tool_file(const PmTool *t, int32_t index, const char **out_path);
// The options of the frontend that the command line gives.
PmFrontendOptions pm_tool_frontend(const PmTool *t);
// Whether the file is a run plan, binary or text, by its first bytes. ENVIRONMENT when it cannot be read.
PM_MUST_CHECK PmStatus *pm_tool_is_program(const char *path, bool *out_is);

// With `--unroll` writes out the repeats of a module as the frontend has made it; else nothing.
PM_MUST_CHECK PmStatus *pm_tool_unroll(PmTool *t, PmModule *m);
// Compiles the model at `path` and runs `passes`. A module without a `train` block stops where it cannot go on: INPUT.
PM_MUST_CHECK PmStatus *pm_tool_module(PmTool *t, const char *path, const char *passes, PmModule **out);
// Code for a partitioned module, checked as a plan that is read from a file is.
PM_MUST_CHECK PmStatus *pm_tool_codegen(PmTool *t, const PmModule *m, PmProgram **out);
// Reads a run plan, or compiles a model with all passes. out_module may be NULL; it is NULL for a run plan.
PM_MUST_CHECK PmStatus *pm_tool_program(PmTool *t, const char *path, PmProgram **out, PmModule **out_module);
// USAGE when `--print-ir-after` names no pass.
PM_MUST_CHECK PmStatus *pm_tool_check_print_after(const PmTool *t);
// USAGE when `--ranks` was given and is not the mesh's product.
PM_MUST_CHECK PmStatus *pm_tool_check_ranks(const PmTool *t, const PmProgram *p);

// Reads a whole file into the tool's arena, NUL-terminated. ENVIRONMENT, or LIMIT past `limit` bytes.
PM_MUST_CHECK PmStatus *pm_tool_read(PmTool *t, const char *path, size_t limit, char **out_data, size_t *out_len);
// Writes a file in one step (a temporary file is renamed), or to stdout when `path` is "-".
PM_MUST_CHECK PmStatus *pm_tool_write(const char *path, const void *data, size_t len);

#endif
