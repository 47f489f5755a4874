// Runs a function that is expected to end the process.
#ifndef PM_TESTS_BASE_CHILD_H
#define PM_TESTS_BASE_CHILD_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

// Forks, runs `fn` and returns the child's exit code; -1 when a signal ended it. `out` (may be NULL) takes what it
// printed on stderr.
static inline int child_exit_code(void (*fn)(void), char *out, size_t size) {
  int fds[2];
  assert_int_equal(pipe(fds), 0);
  fflush(NULL);
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    dup2(fds[1], STDERR_FILENO);
    fn();
    _Exit(0);
  }
  close(fds[1]);
  size_t len = 0;
  for (;;) {
    char chunk[512];
    ssize_t n = read(fds[0], chunk, sizeof chunk);
    if (n <= 0) break;
    for (ssize_t i = 0; out && i < n && len + 1 < size; i++) out[len++] = chunk[i];
  }
  if (out) out[len] = '\0';
  close(fds[0]);
  int status;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

#endif
