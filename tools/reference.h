// The reference side of `verify`: the model without any plan, in the reference interpreter.
//
// Values are whole tensors of doubles, by variable. The arena that creates a reference owns it; what a step computes
// lives until the next step.
#ifndef PM_TOOLS_REFERENCE_H
#define PM_TOOLS_REFERENCE_H

#include "ir/interp.h"
#include "passes/passes.h"

typedef struct PmReference {
  PmModule *declared;  // as the frontend leaves it: its update functions have all of their parameters
  PmModule *m;         // with the training step, which reports every gradient as "d(PATH)"
  PmArena scratch;     // what the newest step computed
  int64_t *elements;   // by variable
  double **vars;       // by variable: before the step
  PmTensor *results;   // of the newest step, by result of m->step
  int32_t *degree;     // by variable: a state's degree in the gradient (1: a first moment, 2: a second), 0: neither
} PmReference;

// `m` is a module as the frontend leaves it; it is not changed. Variables get the initial values of the seed.
PM_MUST_CHECK PmStatus *pm_reference_create(PmArena *arena, const PmPassCtx *ctx, const PmModule *m, uint64_t seed,
                                            PmReference *out);
void pm_reference_deinit(PmReference *r);

PM_MUST_CHECK PmStatus *pm_reference_step(PmReference *r);
// A report of the newest step, or NULL.
const PmTensor *pm_reference_report(const PmReference *r, const char *name);
// What the newest step made of a variable, or NULL; whether it skipped the update (loss scaling).
const PmTensor *pm_reference_result(const PmReference *r, PmVarId var);
bool pm_reference_skipped(const PmReference *r);
// Takes over the variables that the newest step computed.
void pm_reference_advance(PmReference *r);
// The eval entry on the current variables; *out_logits is of the scratch arena. NULL tensor data without an eval.
PM_MUST_CHECK PmStatus *pm_reference_eval(PmReference *r, PmTensor *out_logits);

// The update of parameter `var` alone, from the current variables, the given raw gradient and its norm.
// out[0]: the parameter, then its states in the order of the variables.
PM_MUST_CHECK PmStatus *pm_reference_update(PmReference *r, PmVarId var, const double *grad, double norm, double lr,
                                            PmTensor **out);
// `v` as a number of the dtype.
double pm_reference_round(PmDtype dtype, double v);

#endif
