// Source text: a location is two byte offsets into one file; this owner computes lines, columns and carets.
#ifndef PM_BASE_SOURCE_H
#define PM_BASE_SOURCE_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/status.h"

typedef struct PmSpan {
  int32_t file;    // index into PmSources, -1: no place
  int32_t lo, hi;  // bytes [lo, hi)
} PmSpan;

#define PM_NO_SPAN ((PmSpan){-1, 0, 0})

typedef struct PmSourceFile {
  const char *path;  // as given by the user; "std" for the standard library
  const char *text;  // NUL-terminated
  int32_t len;
  const int32_t *line_starts;  // byte at which each line begins, the first behind a byte order mark
  int32_t n_lines;
  bool on_disk;  // read by pm_sources_load from `path`
} PmSourceFile;

typedef struct PmSources {
  PmArena *arena;
  PmSourceFile *files;
  int32_t n_files, cap_files;
} PmSources;

void pm_sources_init(PmSources *s, PmArena *arena);
// Copies nothing: `text` must live as long as the arena. Returns the file's index.
int32_t pm_sources_add(PmSources *s, const char *path, const char *text, size_t len);
// Reads a file of at most `limit` bytes; refuses NUL bytes and directories.
// Errors: ENVIRONMENT (cannot read), LIMIT, INPUT.
PM_MUST_CHECK PmStatus *pm_sources_load(PmSources *s, const char *path, size_t limit, int32_t *out_file);
// 1-based line and column (columns count UTF-8 characters) of byte `at`.
void pm_sources_line_col(const PmSources *s, int32_t file, int32_t at, int32_t *out_line, int32_t *out_col);
// The text of a line, without its end, as bytes [*out_lo, *out_hi).
void pm_sources_line_span(const PmSources *s, int32_t file, int32_t line, int32_t *out_lo, int32_t *out_hi);
// "path:line:col", or "-" without a place.
void pm_sources_put_loc(const PmSources *s, PmSpan span, PmBuf *out);

#endif
