#include "runtime/futex.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// Long enough for a step's short kernels, short enough that waiting ranks leave the cores to the one that computes.
#define SPINS 64

void pm_word_wait(PmWord *word, uint32_t old, double seconds) {
  for (int i = 0; i < SPINS; i++) {
    if (atomic_load(word) != old) return;
    sched_yield();
  }
  struct timespec ts = {.tv_sec = (time_t)seconds};
  ts.tv_nsec = (long)((seconds - (double)ts.tv_sec) * 1e9);
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, old, &ts, NULL, 0);
}

void pm_word_wake_all(PmWord *word) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0); }

double pm_clock_seconds(void) {
  struct timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}
