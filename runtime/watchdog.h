// Ends a process in which a run has failed and a rank hangs for ever: no thread can be made to return.
#ifndef PM_RUNTIME_WATCHDOG_H
#define PM_RUNTIME_WATCHDOG_H

#include <pthread.h>
#include <stdbool.h>

#include "base/status.h"

typedef struct PmWatchdog {
  pthread_mutex_t mutex;
  pthread_cond_t over;
  pthread_t thread;
  bool started, stopped;
  double seconds;
  PmCode code;
  char text[1024];
} PmWatchdog;

void pm_watchdog_init(PmWatchdog *d);
// Unless pm_watchdog_stop is called within `seconds`, prints "pmodel: error: TEXT" and exits with `code`, without
// waiting for any thread. For any thread; only the first call counts.
void pm_watchdog_start(PmWatchdog *d, double seconds, PmCode code, const char *text);
// Also releases what init made.
void pm_watchdog_stop(PmWatchdog *d);

#endif
