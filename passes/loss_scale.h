// Dynamic loss scaling, a part of the training step. The loss is multiplied by a power of two before its gradients are
// taken and they are divided by it after; where one of them is not finite the step is skipped: parameters and states
// stay, the scale is halved, and the step number, which schedule and optimizer read, does not advance. After a window
// of steps without overflow the scale doubles.
//
// The decision reads the norm of all gradients, whose sum is over every rank: it is one number, the same on each.
// State: "step/loss_scale", "step/streak" (steps since the scale changed), "step/taken" (steps that were not skipped).
#ifndef PM_PASSES_LOSS_SCALE_H
#define PM_PASSES_LOSS_SCALE_H

#include "ir/build.h"

typedef struct PmLossScale {
  bool on;  // else every function below is the identity
  PmVarId var_scale, var_streak, var_taken;
  PmValueId scale, streak, taken;  // at the start of the step
  PmValueId finite;                // bool[]
  PmValueId skipped;               // f32[]: 1 or 0
} PmLossScale;

// Adds the variables when the module asks for scaling. INPUT when one of their names is taken.
PM_MUST_CHECK PmStatus *pm_loss_scale_vars(PmModule *m, PmLossScale *out);
void pm_loss_scale_read(PmLossScale *s, const PmValueId *vars);
// The cotangent of the loss.
PmValueId pm_loss_scale_seed(const PmLossScale *s, PmBuilder *b, PmDtype dtype);
// From the norm of the scaled gradients: the norm of the gradients; decides whether the step counts.
PmValueId pm_loss_scale_judge(PmLossScale *s, PmBuilder *b, PmValueId norm);
// v / scale in f32 (or v's own dtype where that is wider).
PmValueId pm_loss_scale_divide(const PmLossScale *s, PmBuilder *b, PmValueId v);
// The number of this step as schedule and optimizer count.
PmValueId pm_loss_scale_step(const PmLossScale *s, PmBuilder *b, PmValueId step);
// Sets what the three variables are after the step.
void pm_loss_scale_update(const PmLossScale *s, PmBuilder *b, int64_t window, PmValueId *after);
// What `var` is after the step.
PmValueId pm_loss_scale_choose(const PmLossScale *s, PmBuilder *b, PmVarId var, PmValueId after, PmValueId before);

#endif
