// The binary form in; see program_write.c for the layout. Nothing in it is trusted, the checksum neither: it finds
// damage, not malice.
#include <string.h>

#include "base/hash.h"
#include "runtime/program_io.h"

typedef struct Reader {
  PmIo io;
  const unsigned char *at, *stop;
  const unsigned char *section_end;
  int32_t depth;
} Reader;

static uint64_t get_byte(Reader *r) {
  if (r->at == r->stop) {
    pm_io_fail(&r->io, PM_ERR_CORRUPTION, "the program ends too early");
    return 0;
  }
  return *r->at++;
}

static uint64_t get_varint(Reader *r) {
  uint64_t v = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    uint64_t byte = get_byte(r);
    if (shift == 63 && byte > 1) break;
    v |= (byte & 0x7f) << shift;
    if (!(byte & 0x80)) return v;
  }
  pm_io_fail(&r->io, PM_ERR_CORRUPTION, "an integer is longer than 64 bits");
  return 0;
}

static uint64_t fixed(const unsigned char *at, int bytes) {
  uint64_t v = 0;
  for (int i = 0; i < bytes; i++) v |= (uint64_t)at[i] << (8 * i);
  return v;
}

static uint64_t get_fixed(Reader *r, int bytes) {
  if (r->stop - r->at < bytes) {
    r->at = r->stop;
    get_byte(r);
    return 0;
  }
  uint64_t v = fixed(r->at, bytes);
  r->at += bytes;
  return v;
}

static void integer(PmIo *io, const char *key, int64_t *v, int64_t init) {
  (void)key;
  (void)init;
  uint64_t raw = get_varint((Reader *)io);
  *v = (int64_t)((raw >> 1) ^ (~(raw & 1) + 1));
}

static void word(PmIo *io, const char *key, int64_t *v, int64_t init, const char *const *words, int32_t n) {
  (void)words;
  (void)n;
  integer(io, key, v, init);
}

static void number(PmIo *io, const char *key, double *v) {
  (void)key;
  uint64_t bits = get_fixed((Reader *)io, 8);
  memcpy(v, &bits, sizeof bits);
}

static void string(PmIo *io, const char *key, const char **v) {
  Reader *r = (Reader *)io;
  uint64_t n = get_varint(r);
  *v = NULL;
  if (n == 0) return;
  n--;
  if (n > (uint64_t)(r->stop - r->at)) {
    pm_io_fail(io, PM_ERR_CORRUPTION, "a text of %llu bytes does not fit", (unsigned long long)n);
    return;
  }
  char *text = pm_io_alloc(io, (int64_t)n + 1, 1);
  if (!text) return;
  memcpy(text, r->at, n);
  r->at += n;
  if (strlen(text) != n || !pm_io_string_ok(text)) {
    pm_io_fail(io, PM_ERR_CORRUPTION, "`%s` holds control characters or is not UTF-8", key ? key : "text");
    return;
  }
  *v = text;
}

static void list(PmIo *io, const char *key, int64_t *v, int32_t *n, int32_t max, bool trim) {
  (void)trim;
  uint64_t used = get_varint((Reader *)io);
  if (used > (uint64_t)max) {
    pm_io_fail(io, PM_ERR_CORRUPTION, "`%s` has %llu items, at most %d", key, (unsigned long long)used, max);
    used = 0;
  }
  *n = (int32_t)used;
  for (int32_t i = 0; i < max; i++) v[i] = 0;
  for (int32_t i = 0; i < *n; i++) integer(io, key, &v[i], 0);
}

static bool next(PmIo *io, const char *tag, int32_t i, int32_t n) {
  (void)i;
  (void)n;
  Reader *r = (Reader *)io;
  uint64_t more = get_byte(r);
  if (more > 1) pm_io_fail(io, PM_ERR_CORRUPTION, "a list of `%s` is damaged", tag);
  if (more == 1) r->depth++;
  return more == 1;
}

static void open(PmIo *io, const char *tag, bool section) {
  Reader *r = (Reader *)io;
  r->depth++;
  if (!section) return;
  const char *name = NULL;
  string(io, "section", &name);
  uint64_t size = get_fixed(r, 8);
  if (!io->status && (!name || strcmp(name, tag) != 0)) {
    pm_io_fail(io, PM_ERR_CORRUPTION, "expected section `%s`, found `%s`", tag, name ? name : "");
  }
  if (size > (uint64_t)(r->stop - r->at)) {
    pm_io_fail(io, PM_ERR_CORRUPTION, "section `%s` does not fit", tag);
    size = 0;
  }
  r->section_end = r->at + size;
}

static void end(PmIo *io) {
  Reader *r = (Reader *)io;
  if (--r->depth == 0 && r->at != r->section_end) pm_io_fail(io, PM_ERR_CORRUPTION, "a section has the wrong length");
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

static PmStatus *read_binary(PmArena *arena, const char *path, const unsigned char *data, size_t len, PmProgram **out) {
  if (len < 32) return PM_STATUS(PM_ERR_CORRUPTION, "%s: a run plan of %zu bytes is cut off", path, len);
  uint64_t version = fixed(data + 8, 4), size = fixed(data + 16, 8);
  if (version != PM_PROGRAM_VERSION || fixed(data + 12, 4) != 0) {
    return PM_STATUS(PM_ERR_INPUT, "%s: run plan version %llu, this pmodel reads version %d", path,
                     (unsigned long long)version, PM_PROGRAM_VERSION);
  }
  if (size != len - 32) {
    return PM_STATUS(PM_ERR_CORRUPTION, "%s: the run plan has %zu bytes, its header says %llu", path, len,
                     (unsigned long long)size + 32);
  }
  if (pm_hash64(data + 32, len - 32, PM_PROGRAM_VERSION) != fixed(data + 24, 8)) {
    return PM_STATUS(PM_ERR_CORRUPTION, "%s: the run plan's checksum does not match: the file is damaged", path);
  }
  PmProgram *p = PM_NEW(arena, PmProgram);
  p->arena = arena;
  Reader r = {
      .io = {.vtbl = &vtbl, .arena = arena, .reading = true, .budget = pm_program_budget(len), .path = path},
      .at = data + 32,
      .stop = data + len,
  };
  pm_program_io(&r.io, p);
  if (!r.io.status && r.at != r.stop) pm_io_fail(&r.io, PM_ERR_CORRUPTION, "bytes follow the last section");
  *out = p;
  return r.io.status;
}

PmStatus *pm_program_read(PmArena *arena, const char *path, const void *data, size_t len, PmProgram **out) {
  size_t word = strlen(PM_PRUN_TEXT);
  PmProgram *p = NULL;
  *out = NULL;
  if (len >= 8 && memcmp(data, PM_PRUN_MAGIC, 8) == 0) {
    PM_TRY(read_binary(arena, path, data, len, &p));
  } else if (len > word && memcmp(data, PM_PRUN_TEXT, word) == 0) {
    PM_TRY(pm_program_read_text(arena, path, data, len, &p));
  } else {
    return PM_STATUS(PM_ERR_INPUT, "%s: not a run plan", path);
  }
  PmStatus *st = pm_program_validate(p);
  if (st) return pm_status_wrap(st, __FILE__, __LINE__, "%s", path);
  *out = p;
  return NULL;
}
