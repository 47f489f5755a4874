// The text form in; see program_print.c. Keys come in one order, so reading is: is the next word this key?
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/program_io.h"

#define WORD_MAX 64

typedef struct Text {
  PmIo io;
  const char *at, *stop;  // NUL stands at stop
  int32_t line;
} Text;

static void skip(Text *t) {
  for (; t->at < t->stop; t->at++) {
    if (*t->at == '#') {
      while (t->at + 1 < t->stop && t->at[1] != '\n') t->at++;
    } else if (*t->at == '\n') {
      t->line++;
    } else if (*t->at != ' ') {
      return;
    }
  }
}

// Bytes of the word that stands at `at`: up to a space or line end.
static int word_len(const Text *t) {
  const char *s = t->at;
  while (s < t->stop && *s != ' ' && *s != '\n' && s - t->at < WORD_MAX) s++;
  return (int)(s - t->at);
}

static void fail(Text *t, const char *expected) {
  skip(t);
  bool plain = true;
  for (int i = 0; i < word_len(t); i++) plain = plain && t->at[i] > ' ' && t->at[i] < 0x7f;
  pm_io_fail(&t->io, PM_ERR_INPUT, "line %d: expected %s, found `%.*s`", t->line, expected, plain ? word_len(t) : 1,
             plain ? t->at : "?");
}

// Eats `text` when the next word begins with it (is it, when `whole`).
static bool eat(Text *t, const char *text, bool whole) {
  skip(t);
  size_t n = strlen(text);
  if ((size_t)(t->stop - t->at) < n || memcmp(t->at, text, n) != 0) return false;
  if (whole && word_len(t) != (int)n) return false;
  t->at += n;
  return true;
}

static bool eat_key(Text *t, const char *key) {
  char want[WORD_MAX];
  snprintf(want, sizeof want, "%s=", key);
  return eat(t, want, false);
}

static int64_t get_integer(Text *t) {
  char *end;
  bool starts = *t->at == '-' || (*t->at >= '0' && *t->at <= '9');
  errno = 0;
  long long v = strtoll(t->at, &end, 10);
  if (!starts || end == t->at || errno) {
    fail(t, "an integer of 64 bits");
    return 0;
  }
  t->at = end;
  return v;
}

static void integer(PmIo *io, const char *key, int64_t *v, int64_t init) {
  *v = !io->status && eat_key((Text *)io, key) ? get_integer((Text *)io) : init;
}

static void word(PmIo *io, const char *key, int64_t *v, int64_t init, const char *const *words, int32_t n) {
  Text *t = (Text *)io;
  *v = init;
  if (io->status || (key && !eat_key(t, key))) return;
  for (int32_t i = 0; i < n; i++) {
    if (eat(t, words[i], true)) {
      *v = i;
      return;
    }
  }
  fail(t, key ? key : "a known word");
}

static void number(PmIo *io, const char *key, double *v) {
  Text *t = (Text *)io;
  *v = 0;
  if (io->status || !eat_key(t, key)) return;
  char *end;
  int n = word_len(t);
  double value = n ? strtod(t->at, &end) : 0;
  if (n == 0 || end != t->at + n) {
    fail(t, "a number");
    return;
  }
  *v = value;
  t->at = end;
}

static void string(PmIo *io, const char *key, const char **v) {
  Text *t = (Text *)io;
  *v = NULL;
  if (io->status || !eat_key(t, key)) return;
  if (t->at == t->stop || *t->at != '"') {
    fail(t, "a text in quotes");
    return;
  }
  const char *from = ++t->at;
  while (t->at < t->stop && *t->at != '"' && *t->at != '\n') t->at += *t->at == '\\' && t->at + 1 < t->stop ? 2 : 1;
  if (t->at >= t->stop || *t->at != '"') {
    pm_io_fail(io, PM_ERR_INPUT, "line %d: a text has no end", t->line);
    return;
  }
  char *text = pm_io_alloc(io, t->at - from + 1, 1);
  if (!text) return;
  int64_t n = 0;
  for (const char *s = from; s < t->at; s++) {
    s += *s == '\\';
    text[n++] = *s;
  }
  t->at++;
  if ((int64_t)strlen(text) != n || !pm_io_string_ok(text)) {
    pm_io_fail(io, PM_ERR_INPUT, "line %d: a text holds control characters or is not UTF-8", t->line);
    return;
  }
  *v = text;
}

static void list(PmIo *io, const char *key, int64_t *v, int32_t *n, int32_t max, bool trim) {
  (void)trim;
  Text *t = (Text *)io;
  *n = 0;
  for (int32_t i = 0; i < max; i++) v[i] = 0;
  if (io->status || !eat_key(t, key)) return;
  char before = '[';
  do {
    if (*n == max || t->at == t->stop || *t->at != before) {
      fail(t, "a short list of integers");
      return;
    }
    t->at++;
    v[(*n)++] = get_integer(t);
    before = ',';
  } while (!io->status && (t->at == t->stop || *t->at != ']'));
  if (!io->status) t->at++;
}

static bool next(PmIo *io, const char *tag, int32_t i, int32_t n) {
  (void)n;
  char want[WORD_MAX];
  snprintf(want, sizeof want, "%s%d", tag, i);
  return eat((Text *)io, want, true);
}

static void open(PmIo *io, const char *tag, bool section) {
  (void)section;
  if (!io->status && !eat((Text *)io, tag, true)) fail((Text *)io, tag);
}

static void end(PmIo *io) { (void)io; }

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

PmStatus *pm_program_read_text(PmArena *arena, const char *path, const char *text, size_t len, PmProgram **out) {
  Text t = {
      .io = {.vtbl = &vtbl, .arena = arena, .reading = true, .budget = pm_program_budget(len), .path = path},
      .line = 1,
  };
  // A copy, so that a NUL ends every number.
  char *copy = pm_io_alloc(&t.io, (int64_t)len + 1, 1);
  if (!copy) return t.io.status;
  memcpy(copy, text, len);
  t.at = copy;
  t.stop = copy + len;
  PmProgram *p = PM_NEW(arena, PmProgram);
  p->arena = arena;
  char head[WORD_MAX];
  snprintf(head, sizeof head, "%d", PM_PROGRAM_VERSION);
  if (!eat(&t, PM_PRUN_TEXT, true) || !eat(&t, head, true)) fail(&t, "`" PM_PRUN_TEXT "` and a known version");
  pm_program_io(&t.io, p);
  skip(&t);
  if (!t.io.status && t.at != t.stop) fail(&t, "the end");
  *out = p;
  return t.io.status;
}
