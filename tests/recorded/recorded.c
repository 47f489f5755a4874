#include "recorded.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/source.h"

typedef struct Reader {
  const char *path;
  const char *at, *end;
  int32_t line;  // 1-based line of `at`
  PmArena *arena;
} Reader;

typedef struct Word {
  const char *text;  // not terminated, but followed by a space, a line end or the end of the file
  size_t len;
} Word;

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

static void skip_space(Reader *r) {
  for (; r->at < r->end && is_space(*r->at); r->at++) {
    if (*r->at == '\n') r->line++;
  }
}

// Length 0 at the end of the file.
static Word next_word(Reader *r) {
  skip_space(r);
  const char *from = r->at;
  while (r->at < r->end && !is_space(*r->at)) r->at++;
  return (Word){from, (size_t)(r->at - from)};
}

static bool word_is(Word w, const char *text) { return w.len == strlen(text) && memcmp(w.text, text, w.len) == 0; }

static PmStatus *bad_word(const Reader *r, Word w, const char *what) {
  if (w.len == 0) return PM_STATUS(PM_ERR_INPUT, "%s:%d: the file ends where %s belongs", r->path, r->line, what);
  int shown = w.len < 40 ? (int)w.len : 40;
  return PM_STATUS(PM_ERR_INPUT, "%s:%d: `%.*s` is not %s", r->path, r->line, shown, w.text, what);
}

static PmStatus *read_int(Reader *r, const char *what, int64_t least, int64_t most, int64_t *out_value) {
  Word w = next_word(r);
  char *stop = NULL;
  errno = 0;
  long long v = w.len ? strtoll(w.text, &stop, 10) : 0;
  if (w.len == 0 || stop != w.text + w.len || errno != 0 || v < least || v > most) return bad_word(r, w, what);
  *out_value = v;
  return NULL;
}

static PmStatus *read_number(Reader *r, const char *what, double *out_value) {
  Word w = next_word(r);
  char *stop = NULL;
  double v = w.len ? strtod(w.text, &stop) : 0.0;
  if (w.len == 0 || stop != w.text + w.len || !isfinite(v)) return bad_word(r, w, what);
  *out_value = v;
  return NULL;
}

static PmStatus *read_name(Reader *r, const char **out_name) {
  Word w = next_word(r);
  if (w.len == 0) return bad_word(r, w, "a name");
  *out_name = pm_arena_strndup(r->arena, w.text, w.len);
  return NULL;
}

static PmStatus *read_scalar(Reader *r, PmRecordedTensor *t) {
  double *value = PM_NEW(r->arena, double);
  PM_TRY(read_name(r, &t->name));
  PM_TRY(read_number(r, "a value", value));
  t->n_elements = t->n_values = t->stride = 1;
  t->values = value;
  t->largest = fabs(*value);
  return NULL;
}

static PmStatus *read_tensor(Reader *r, PmRecordedTensor *t) {
  int64_t rank, unit;
  PM_TRY(read_name(r, &t->name));
  PM_TRY(read_int(r, "a rank", 1, PM_MAX_RANK, &rank));
  t->rank = (int32_t)rank;
  t->n_elements = 1;
  for (int32_t i = 0; i < t->rank; i++) {
    PM_TRY(read_int(r, "an axis size", 1, PM_MAX_AXIS_SIZE - 1, &t->dims[i]));
    if (!pm_mul_i64(t->n_elements, t->dims[i], &t->n_elements) || t->n_elements >= PM_MAX_ELEMENTS)
      return PM_STATUS(PM_ERR_INPUT, "%s:%d: %s has too many elements", r->path, r->line, t->name);
  }
  PM_TRY(read_int(r, "a stride", 1, PM_MAX_ELEMENTS, &t->stride));
  PM_TRY(read_int(r, "an exponent", -1000, 1000, &unit));
  PM_TRY(read_number(r, "a largest value", &t->largest));
  t->n_values = (t->n_elements - 1) / t->stride + 1;
  // A value takes at least two bytes with its space: a false size can't ask for more memory than the file has bytes.
  if (t->n_values > r->end - r->at)
    return PM_STATUS(PM_ERR_INPUT, "%s:%d: the file ends within %s", r->path, r->line, t->name);
  double *values = PM_NEW_N(r->arena, double, t->n_values);
  for (int64_t i = 0; i < t->n_values; i++) {
    PM_TRY(read_number(r, "a value", &values[i]));
    values[i] = ldexp(values[i], (int)unit);
  }
  t->values = values;
  return NULL;
}

PmStatus *pm_recorded_read(const char *path, PmArena *arena, PmRecorded *out_recorded) {
  PmSources sources;
  int32_t file;
  pm_sources_init(&sources, arena);
  PM_TRY(pm_sources_load(&sources, path, PM_MAX_FILE_BYTES, &file));
  const PmSourceFile *source = &sources.files[file];
  Reader r = {path, source->text, source->text + source->len, 1, arena};
  *out_recorded = (PmRecorded){0};
  for (;;) {
    Word kind = next_word(&r);
    if (kind.len == 0) return NULL;
    PmRecordedTensor t = {0};
    if (word_is(kind, "scalar")) {
      PM_TRY(read_scalar(&r, &t));
    } else if (word_is(kind, "tensor")) {
      PM_TRY(read_tensor(&r, &t));
    } else {
      return bad_word(&r, kind, "`tensor` or `scalar`");
    }
    if (pm_recorded_find(out_recorded, t.name))
      return PM_STATUS(PM_ERR_INPUT, "%s:%d: `%s` is recorded twice", path, r.line, t.name);
    out_recorded->tensors = pm_grow(arena, out_recorded->tensors, out_recorded->n_tensors, &out_recorded->cap_tensors,
                                    sizeof *out_recorded->tensors);
    out_recorded->tensors[out_recorded->n_tensors++] = t;
  }
}

const PmRecordedTensor *pm_recorded_find(const PmRecorded *r, const char *name) {
  for (int32_t i = 0; i < r->n_tensors; i++) {
    if (strcmp(r->tensors[i].name, name) == 0) return &r->tensors[i];
  }
  return NULL;
}

double pm_recorded_error(const PmRecordedTensor *t, const double *actual, double floor) {
  double worst = 0.0;
  for (int64_t i = 0; i < t->n_values; i++) {
    double apart = fabs(actual[i * t->stride] - t->values[i]);
    if (!isfinite(apart)) return INFINITY;
    worst = fmax(worst, apart);
  }
  return worst == 0.0 ? 0.0 : worst / fmax(t->largest, floor);
}
