#include "runtime/watchdog.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

void pm_watchdog_init(PmWatchdog *d) {
  *d = (PmWatchdog){.code = PM_OK};
  pthread_condattr_t attr;
  pthread_condattr_init(&attr);
  pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  pthread_cond_init(&d->over, &attr);
  pthread_condattr_destroy(&attr);
  pthread_mutex_init(&d->mutex, NULL);
}

static void *watch(void *arg) {
  PmWatchdog *d = arg;
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  int64_t nanoseconds = until.tv_nsec + (int64_t)(d->seconds * 1e9);
  until.tv_sec += nanoseconds / 1000000000;
  until.tv_nsec = nanoseconds % 1000000000;
  pthread_mutex_lock(&d->mutex);
  int err = 0;
  while (!d->stopped && err != ETIMEDOUT) err = pthread_cond_timedwait(&d->over, &d->mutex, &until);
  bool hangs = !d->stopped;
  pthread_mutex_unlock(&d->mutex);
  if (!hangs) return NULL;
  // Whoever hangs may hold the lock of a stream, so nothing is printed through one.
  dprintf(STDERR_FILENO, "pmodel: error: %s\npmodel: a rank of this process does not come back: the process ends\n",
          d->text);
  _exit((int)d->code);
}

void pm_watchdog_start(PmWatchdog *d, double seconds, PmCode code, const char *text) {
  pthread_mutex_lock(&d->mutex);
  if (!d->started && !d->stopped) {
    d->seconds = seconds;
    d->code = code;
    snprintf(d->text, sizeof d->text, "%s", text);
    d->started = pthread_create(&d->thread, NULL, watch, d) == 0;
  }
  pthread_mutex_unlock(&d->mutex);
}

void pm_watchdog_stop(PmWatchdog *d) {
  pthread_mutex_lock(&d->mutex);
  d->stopped = true;
  bool started = d->started;
  pthread_cond_signal(&d->over);
  pthread_mutex_unlock(&d->mutex);
  if (started) pthread_join(d->thread, NULL);
  pthread_cond_destroy(&d->over);
  pthread_mutex_destroy(&d->mutex);
}
