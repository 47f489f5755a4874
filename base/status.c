#include "base/status.h"

#include <stdlib.h>

#include "base/arena.h"

struct PmStatus {
  PmCode code;
  PmBuf message;
  PmBuf frames;  // printed form, innermost first
};

PmStatus *pm_status_new(PmCode code, const char *file, int line, const char *fmt, ...) {
  PmStatus *st = calloc(1, sizeof *st);
  if (!st) pm_memory_exhausted(sizeof *st, 0);
  st->code = code;
  va_list ap;
  va_start(ap, fmt);
  pm_buf_vprintf(&st->message, fmt, ap);
  va_end(ap);
  pm_buf_printf(&st->frames, "  at %s:%d\n", file, line);
  return st;
}

PmStatus *pm_status_wrap(PmStatus *st, const char *file, int line, const char *fmt, ...) {
  if (!st) return NULL;
  pm_buf_printf(&st->frames, "  at %s:%d: ", file, line);
  va_list ap;
  va_start(ap, fmt);
  pm_buf_vprintf(&st->frames, fmt, ap);
  va_end(ap);
  pm_buf_putc(&st->frames, '\n');
  return st;
}

PmCode pm_status_code(const PmStatus *st) { return st ? st->code : PM_OK; }

const char *pm_status_message(const PmStatus *st) { return st ? pm_buf_str(&st->message) : ""; }

void pm_status_print(const PmStatus *st, FILE *to) {
  if (!st) return;
  fprintf(to, "pmodel: error: %s\n%s", pm_buf_str(&st->message), pm_buf_str(&st->frames));
}

void pm_status_drop(PmStatus *st) {
  if (!st) return;
  pm_buf_deinit(&st->message);
  pm_buf_deinit(&st->frames);
  free(st);
}
