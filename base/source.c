#include "base/source.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"

void pm_sources_init(PmSources *s, PmArena *arena) { *s = (PmSources){.arena = arena}; }

// Some editors begin a file in UTF-8 with this; it is no part of the text.
static const char byte_order_mark[] = "\xef\xbb\xbf";

static int32_t mark_len(const char *text, size_t len) {
  size_t n = sizeof byte_order_mark - 1;
  return len >= n && memcmp(text, byte_order_mark, n) == 0 ? (int32_t)n : 0;
}

static void index_lines(PmArena *arena, PmSourceFile *file) {
  int32_t n = 1;
  for (int32_t i = 0; i < file->len; i++) n += file->text[i] == '\n';
  int32_t *starts = PM_NEW_N(arena, int32_t, n);
  int32_t line = 1;
  starts[0] = mark_len(file->text, (size_t)file->len);
  for (int32_t i = 0; i < file->len; i++) {
    if (file->text[i] == '\n') starts[line++] = i + 1;
  }
  file->line_starts = starts;
  file->n_lines = n;
}

int32_t pm_sources_add(PmSources *s, const char *path, const char *text, size_t len) {
  PM_ASSERT(len < INT32_MAX, "%zu bytes of %s", len, path);
  s->files = pm_grow(s->arena, s->files, s->n_files, &s->cap_files, sizeof *s->files);
  PmSourceFile *file = &s->files[s->n_files];
  *file = (PmSourceFile){.path = path, .text = text, .len = (int32_t)len};
  index_lines(s->arena, file);
  return s->n_files++;
}

// Reads at most `limit` + 1 bytes, so that the caller sees a file that is too large.
static PmStatus *read_all(int fd, const char *path, size_t limit, PmBuf *out) {
  char chunk[65536];
  while (out->len <= limit) {
    size_t room = limit + 1 - out->len;
    ssize_t n = read(fd, chunk, room < sizeof chunk ? room : sizeof chunk);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return PM_STATUS(PM_ERR_ENVIRONMENT, "cannot read %s: %s", path, strerror(errno));
    if (n == 0) break;
    pm_buf_put(out, chunk, (size_t)n);
  }
  return NULL;
}

PmStatus *pm_sources_load(PmSources *s, const char *path, size_t limit, int32_t *out_file) {
  if (limit > INT32_MAX - 2) limit = INT32_MAX - 2;
  PmStatus *st = NULL;
  PmBuf text;
  pm_buf_init(&text);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    st = PM_STATUS(PM_ERR_ENVIRONMENT, "cannot open %s: %s", path, strerror(errno));
    goto done;
  }
  struct stat info;
  if (fstat(fd, &info) != 0) {
    st = PM_STATUS(PM_ERR_ENVIRONMENT, "cannot read %s: %s", path, strerror(errno));
    goto done;
  }
  if (S_ISDIR(info.st_mode)) {
    st = PM_STATUS(PM_ERR_INPUT, "%s is a directory", path);
    goto done;
  }
  PM_TRY_CLEAN(st, read_all(fd, path, limit, &text), done);
  if (text.len > limit) {
    st = PM_STATUS(PM_ERR_LIMIT, "%s is larger than the limit of %zu bytes", path, limit);
    goto done;
  }
  const char *nul = text.len ? memchr(text.data, 0, text.len) : NULL;
  if (nul) {
    st = PM_STATUS(PM_ERR_INPUT, "%s is not text: byte %td is NUL", path, nul - text.data);
    goto done;
  }
  const char *owned = pm_arena_strndup(s->arena, pm_buf_str(&text), text.len);
  *out_file = pm_sources_add(s, pm_arena_strdup(s->arena, path), owned, text.len);
  s->files[*out_file].on_disk = true;
done:
  if (fd >= 0) close(fd);
  pm_buf_deinit(&text);
  return st;
}

void pm_sources_line_col(const PmSources *s, int32_t file, int32_t at, int32_t *out_line, int32_t *out_col) {
  PM_ASSERT(file >= 0 && file < s->n_files, "file %d", file);
  const PmSourceFile *f = &s->files[file];
  if (at < 0) at = 0;
  if (at > f->len) at = f->len;
  int32_t lo = 0, hi = f->n_lines;
  while (hi - lo > 1) {
    int32_t mid = lo + (hi - lo) / 2;
    if (f->line_starts[mid] <= at) {
      lo = mid;
    } else {
      hi = mid;
    }
  }
  int32_t col = 1;
  for (int32_t i = f->line_starts[lo]; i < at; i++) col += ((unsigned char)f->text[i] & 0xc0) != 0x80;
  *out_line = lo + 1;
  *out_col = col;
}

void pm_sources_line_span(const PmSources *s, int32_t file, int32_t line, int32_t *out_lo, int32_t *out_hi) {
  PM_ASSERT(file >= 0 && file < s->n_files, "file %d", file);
  const PmSourceFile *f = &s->files[file];
  PM_ASSERT(line >= 1 && line <= f->n_lines, "line %d of %s", line, f->path);
  int32_t lo = f->line_starts[line - 1];
  int32_t hi = line < f->n_lines ? f->line_starts[line] - 1 : f->len;
  if (hi > lo && f->text[hi - 1] == '\r') hi--;
  *out_lo = lo;
  *out_hi = hi;
}

void pm_sources_put_loc(const PmSources *s, PmSpan span, PmBuf *out) {
  if (span.file < 0 || span.file >= s->n_files) {
    pm_buf_putc(out, '-');
    return;
  }
  int32_t line, col;
  pm_sources_line_col(s, span.file, span.lo, &line, &col);
  pm_buf_printf(out, "%s:%d:%d", s->files[span.file].path, line, col);
}
