#include "runtime/comm/say.h"

#include <stdarg.h>
#include <stdio.h>

void pm_say(PmMessage *m, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  int n = vsnprintf(m->text + m->len, sizeof m->text - m->len, fmt, ap);
  va_end(ap);
  size_t room = sizeof m->text - m->len - 1;
  if (n > 0) m->len += (size_t)n < room ? (size_t)n : room;
}

void pm_say_place(PmMessage *m, const PmCommCall *call) {
  pm_say(m, " at step %lld in %s", (long long)call->step, call->op ? call->op : "a collective");
  if (call->loc) pm_say(m, " (%s:%d:%d)", call->loc->path, call->loc->line, call->loc->col);
}
