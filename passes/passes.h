// Passes: graph -> graph, one pass a file, one entry function `pm_pass_<name>`. The table is passes/passes.def.
#ifndef PM_PASSES_PASSES_H
#define PM_PASSES_PASSES_H

#include "ir/ir.h"

typedef struct PmPassCtx {
  PmDiags *diags;  // where errors in the user's plan go
  const PmSources *sources;
  bool verify;              // run the IR verifier after every pass
  const char *dump_to;      // folder for one numbered .pir a pass, or NULL
  const char *print_after;  // print to stderr after this pass, "all", or those that "changed" something; or NULL
  bool print_diff;          // print the lines that a pass has changed instead; without print_after: of all that have
  int32_t n_dumped;
  bool keep_grads;            // the step also reports every raw gradient, as "d(<param path>)"
  const char *const *probes;  // `probe`: the paths of the values that the step returns; NULL: all
  int32_t n_probes;
} PmPassCtx;

// A pass changes the module in place (or leaves it alone). Diagnostics go to ctx->diags and end the pipeline with
// INPUT.
typedef PmStatus *(*PmPassRun)(PmPassCtx *ctx, PmModule *m);

typedef struct PmPass {
  const char *name;
  PmPassRun run;
  PmStage stage_in, stage_out;
  const char *help;
} PmPass;

const PmPass *pm_pass_find(const char *name);
const PmPass *pm_pass_at(int32_t i);  // NULL past the end
// Runs the comma-separated passes in order; USAGE for an unknown name or an order that a BEFORE row forbids.
PM_MUST_CHECK PmStatus *pm_passes_run(PmPassCtx *ctx, PmModule *m, const char *names);
// From now on nothing is dumped or printed.
void pm_passes_hush(PmPassCtx *ctx);
// Writes or prints the module as --dump-to and --print-ir-after ask.
PM_MUST_CHECK PmStatus *pm_passes_dump(PmPassCtx *ctx, const PmModule *m, const char *pass);

// An arena for one pass's own work. Should its limit be reached, it names the pass as the module's arena does.
void pm_pass_scratch(const PmModule *m, PmArena *out);

// From the frontend's module to one with a training step; from there to one device's program.
#define PM_STEP_PASSES "simplify,differentiate,simplify"
#define PM_PLAN_PASSES "masters,pad,place,partition,simplify,bucket"
#define PM_DEFAULT_PASSES PM_STEP_PASSES "," PM_PLAN_PASSES

#define PASS(name, in, out, help) PmStatus *pm_pass_##name(PmPassCtx *ctx, PmModule *m);
#include "passes/passes.def"

#endif
