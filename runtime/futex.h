// Waiting on a 32-bit word: a little spinning with sched_yield, then sleeping in the kernel, so that many more threads
// than cores still make progress.
#ifndef PM_RUNTIME_FUTEX_H
#define PM_RUNTIME_FUTEX_H

#include <stdatomic.h>
#include <stdint.h>

typedef _Atomic uint32_t PmWord;

// Returns when *word differs from `old`, or after about `seconds` (also earlier, at will): look again.
void pm_word_wait(PmWord *word, uint32_t old, double seconds);
void pm_word_wake_all(PmWord *word);
double pm_clock_seconds(void);  // monotonic

#endif
