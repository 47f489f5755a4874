#include "base/assert.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"

_Noreturn void pm_assert_fail(const char *file, int line, const char *cond, const char *fmt, ...) {
  va_list ap;
  fprintf(stderr, "%s:%d: internal error: assertion `%s` failed: ", file, line, cond);
  va_start(ap, fmt);
  vfprintf(stderr, fmt, ap);
  va_end(ap);
  fputc('\n', stderr);
  fflush(stderr);
  // No exit handlers: they may need the state that has just been found broken.
  _Exit(PM_ERR_INTERNAL);
}
