// Shared by the plan tests: small modules built by hand, placed and partitioned, run on all ranks in lockstep by the
// reference interpreter and compared with the logical module on one.
#ifndef PM_TESTS_PLANS_H
#define PM_TESTS_PLANS_H

#include "ir/build.h"
#include "ir/interp.h"
#include "ir/text.h"
#include "passes/passes.h"

typedef struct Plan {
  PmArena arena;
  PmInterner names;
  PmSources sources;
  PmDiags *diags;
  PmModule *m;
  PmBuilder b;  // of the model function
} Plan;

// mesh: "data=2,tensor=4".
void plan_init(Plan *p, const char *mesh);
void plan_deinit(Plan *p);
PmAxisId plan_axis(Plan *p, const char *name, int64_t size);
// A parameter of the model bound to a variable. axes: NONE-terminated.
PmValueId plan_var(Plan *p, PmRole role, PmDtype dtype, const char *path, PmAxisId index_of, const PmAxisId *axes);
// "heads, ff -> tensor", all roles unless `roles` is given.
void plan_rule(Plan *p, uint32_t roles, const char *axes, const char *mesh);
// Sets the model's results, then place and partition; compares every result with the logical run (relative to its
// largest element) and fails the test past 1e-12.
void plan_check(Plan *p, const PmValueId *results, int32_t n);
// Collectives of one kind in the partitioned module, each counted as often as it runs.
int64_t plan_count(const PmModule *m, PmOp op);
// Places and partitions, and compares all results of `entry` on the inputs given by `seed`, in double.
double plan_worst_error(PmArena *arena, const PmModule *logical, PmFnId logical_fn, const PmModule *local,
                        PmFnId local_fn, uint64_t seed);

#endif
