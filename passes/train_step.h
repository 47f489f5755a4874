// Private to differentiate: the training step while it is assembled.
#ifndef PM_PASSES_TRAIN_STEP_H
#define PM_PASSES_TRAIN_STEP_H

#include "passes/grad.h"
#include "passes/loss_scale.h"

typedef struct PmStep {
  PmModule *m;
  PmArena *scratch;
  PmBuilder b;
  PmValueId *vars;   // variable -> its value at the start of the step
  PmValueId *after;  // variable -> its value after the step, or PM_NONE
  PmValueId *grads;  // variable -> its gradient, or PM_NONE
  PmValueId *free;   // what the model's parameters that are bound to no variable take, in their order
  PmLossScale scale;
  PmOwned owned;     // of the states
} PmStep;

// What the model returned, or the sum of it over the micro-batches; and what ran after them.
typedef struct PmModelRun {
  PmValueId loss;
  PmValueId *reports;
  const char **names;  // of the reports
  int32_t n_reports;
} PmModelRun;

// Calls the forward and the backward; fills grads, scaled as the loss is. Returns the first result of the forward.
PmValueId pm_step_call_model(PmStep *s, const PmGradPair *p);

// accumulate.c: the same for every micro-batch, one after another, with `before` and `after` around them; also fills
// `after` for the model's states. INPUT when the module's functions do not fit together.
PM_MUST_CHECK PmStatus *pm_step_accumulate(PmStep *s, const PmGradPair *p, PmModelRun *out);

#endif
