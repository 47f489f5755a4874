// The binary form: 32 bytes of header (magic, version, zero, payload length, XXH64 of the payload seeded by the
// version), then the payload in sections: name, length as 8 bytes, fields. Integers are zigzag LEB128, numbers 8 bytes,
// all little endian; strings carry their length plus one (0: NULL); records are preceded by a 1 and a list ends in a 0.
#include <string.h>

#include "base/assert.h"
#include "base/hash.h"
#include "runtime/program_io.h"

typedef struct Writer {
  PmIo io;
  PmBuf *out;
  int32_t depth;
  size_t section;  // where the length of the open section stands
} Writer;

static void put_varint(PmBuf *out, uint64_t v) {
  for (; v >= 0x80; v >>= 7) pm_buf_putc(out, (char)(v | 0x80));
  pm_buf_putc(out, (char)v);
}

static void fixed(char *at, uint64_t v, int bytes) {
  for (int i = 0; i < bytes; i++) at[i] = (char)(v >> (8 * i));
}

static void put_fixed(PmBuf *out, uint64_t v, int bytes) {
  char raw[8];
  fixed(raw, v, bytes);
  pm_buf_put(out, raw, (size_t)bytes);
}

static void integer(PmIo *io, const char *key, int64_t *v, int64_t init) {
  (void)key;
  (void)init;
  put_varint(((Writer *)io)->out, ((uint64_t)*v << 1) ^ (uint64_t)(*v >> 63));
}

static void word(PmIo *io, const char *key, int64_t *v, int64_t init, const char *const *words, int32_t n) {
  (void)words;
  PM_ASSERT(*v >= 0 && *v < n, "`%s` is %lld of %d", key ? key : "", (long long)*v, n);
  integer(io, key, v, init);
}

static void number(PmIo *io, const char *key, double *v) {
  (void)key;
  uint64_t bits;
  memcpy(&bits, v, sizeof bits);
  put_fixed(((Writer *)io)->out, bits, 8);
}

static void put_text(PmBuf *out, const char *s) {
  size_t n = s ? strlen(s) : 0;
  put_varint(out, s ? n + 1 : 0);
  if (s) pm_buf_put(out, s, n);
}

static void string(PmIo *io, const char *key, const char **v) {
  (void)key;
  put_text(((Writer *)io)->out, *v);
}

static void list(PmIo *io, const char *key, int64_t *v, int32_t *n, int32_t max, bool trim) {
  int32_t used = *n < max ? *n : max;
  while (trim && used && !v[used - 1]) used--;
  put_varint(((Writer *)io)->out, (uint64_t)used);
  for (int32_t i = 0; i < used; i++) integer(io, key, &v[i], 0);
}

static bool next(PmIo *io, const char *tag, int32_t i, int32_t n) {
  (void)tag;
  Writer *w = (Writer *)io;
  pm_buf_putc(w->out, (char)(i < n));
  if (i < n) w->depth++;
  return i < n;
}

static void open(PmIo *io, const char *tag, bool section) {
  Writer *w = (Writer *)io;
  w->depth++;
  if (!section) return;
  put_text(w->out, tag);
  w->section = w->out->len;
  put_fixed(w->out, 0, 8);
}

static void end(PmIo *io) {
  Writer *w = (Writer *)io;
  if (--w->depth == 0) fixed(w->out->data + w->section, w->out->len - w->section - 8, 8);
}

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

void pm_program_write(const PmProgram *p, PmBuf *out) {
  size_t start = out->len;
  pm_buf_put(out, PM_PRUN_MAGIC, 8);
  put_fixed(out, PM_PROGRAM_VERSION, 4);
  put_fixed(out, 0, 4);
  put_fixed(out, 0, 8);
  put_fixed(out, 0, 8);
  size_t payload = out->len;
  Writer w = {.io = {.vtbl = &vtbl, .path = "program"}, .out = out};
  // The walk only reads from a program that is being written.
  pm_program_io(&w.io, (PmProgram *)(uintptr_t)p);
  PM_ASSERT(!w.io.status, "%s", pm_status_message(w.io.status));
  fixed(out->data + start + 16, out->len - payload, 8);
  fixed(out->data + start + 24, pm_hash64(out->data + payload, out->len - payload, PM_PROGRAM_VERSION), 8);
}
