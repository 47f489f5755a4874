// Greedy text from the eval entry: the model's `logits` for one window of tokens.
#ifndef PM_TOOLS_SAMPLE_H
#define PM_TOOLS_SAMPLE_H

#include "tools/run.h"

// INPUT, with what is missing, when the program cannot be sampled from.
PM_MUST_CHECK PmStatus *pm_sample_check(const PmProgram *p);
// Prompt: the first half of the window that row 0 of step 0 reads. Appends both as readable text: bytes that do not
// print are escaped ("\x0c"), tokens above 255 are written as "<1234>".
PM_MUST_CHECK PmStatus *pm_sample(PmRun *r, int64_t n, PmBuf *out_prompt, PmBuf *out_text);

#endif
