// The text form: one record a line, its word first (numbered inside lists), then `key=value` fields in the order of
// program_io.c. Fields that have their default are left out. `#` begins a comment.
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "runtime/program_io.h"

typedef struct Printer {
  PmIo io;
  PmBuf *out;
  int32_t depth;
} Printer;

static void begin(Printer *pr) {
  pm_buf_putc(pr->out, '\n');
  for (int32_t i = 0; i < pr->depth; i++) pm_buf_puts(pr->out, "  ");
  pr->depth++;
}

static void put_key(Printer *pr, const char *key) {
  pm_buf_putc(pr->out, ' ');
  if (key) pm_buf_printf(pr->out, "%s=", key);
}

static void integer(PmIo *io, const char *key, int64_t *v, int64_t init) {
  if (*v == init) return;
  put_key((Printer *)io, key);
  pm_buf_printf(((Printer *)io)->out, "%lld", (long long)*v);
}

static void word(PmIo *io, const char *key, int64_t *v, int64_t init, const char *const *words, int32_t n) {
  PM_ASSERT(*v >= 0 && *v < n, "`%s` is %lld of %d", key ? key : "", (long long)*v, n);
  if (key && *v == init) return;
  put_key((Printer *)io, key);
  pm_buf_puts(((Printer *)io)->out, words[*v]);
}

static void number(PmIo *io, const char *key, double *v) {
  if (*v == 0 && !signbit(*v)) return;
  put_key((Printer *)io, key);
  pm_buf_put_f64(((Printer *)io)->out, *v);
}

static void string(PmIo *io, const char *key, const char **v) {
  Printer *pr = (Printer *)io;
  if (!*v) return;
  put_key(pr, key);
  pm_buf_putc(pr->out, '"');
  for (const char *s = *v; *s; s++) {
    if (*s == '"' || *s == '\\') pm_buf_putc(pr->out, '\\');
    pm_buf_putc(pr->out, *s);
  }
  pm_buf_putc(pr->out, '"');
}

static void list(PmIo *io, const char *key, int64_t *v, int32_t *n, int32_t max, bool trim) {
  Printer *pr = (Printer *)io;
  int32_t used = *n < max ? *n : max;
  while (trim && used && !v[used - 1]) used--;
  if (!used) return;
  put_key(pr, key);
  for (int32_t i = 0; i < used; i++) pm_buf_printf(pr->out, "%c%lld", i ? ',' : '[', (long long)v[i]);
  pm_buf_putc(pr->out, ']');
}

static bool next(PmIo *io, const char *tag, int32_t i, int32_t n) {
  if (i >= n) return false;
  begin((Printer *)io);
  pm_buf_printf(((Printer *)io)->out, "%s%d", tag, i);
  return true;
}

static void open(PmIo *io, const char *tag, bool section) {
  Printer *pr = (Printer *)io;
  if (section) pm_buf_putc(pr->out, '\n');
  begin(pr);
  pm_buf_puts(pr->out, tag);
}

static void end(PmIo *io) { ((Printer *)io)->depth--; }

static const PmIoVtbl vtbl = {
    .next = next,
    .end = end,
    .open = open,
    .integer = integer,
    .word = word,
    .number = number,
    .string = string,
    .list = list,
};

void pm_program_print(const PmProgram *p, PmBuf *out) {
  pm_buf_printf(out, "%s %d", PM_PRUN_TEXT, PM_PROGRAM_VERSION);
  Printer pr = {.io = {.vtbl = &vtbl, .path = "program"}, .out = out};
  // The walk only reads from a program that is being printed.
  pm_program_io(&pr.io, (PmProgram *)(uintptr_t)p);
  PM_ASSERT(!pr.io.status, "%s", pm_status_message(pr.io.status));
  pm_buf_putc(out, '\n');
}
