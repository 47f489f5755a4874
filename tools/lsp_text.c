#include "tools/lsp_text.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/utf8.h"

// Bytes and UTF-16 units of the character at `at`; a byte that is not UTF-8 counts as one unit.
static int32_t step(const PmSourceFile *f, int32_t at, int32_t *out_units) {
  int n = pm_utf8_len(f->text + at);
  *out_units = n == 4 ? 2 : 1;
  return n && n <= f->len - at ? n : 1;
}

static int32_t line_end(const PmSourceFile *f, int32_t line) {
  int32_t end = line + 1 < f->n_lines ? f->line_starts[line + 1] : f->len;
  while (end > f->line_starts[line] && (f->text[end - 1] == '\n' || f->text[end - 1] == '\r')) end--;
  return end;
}

PmLspPos pm_lsp_pos(const PmSourceFile *f, int32_t at) {
  int32_t lo = 0, hi = f->n_lines - 1;
  while (lo < hi) {
    int32_t mid = lo + (hi - lo + 1) / 2;
    if (f->line_starts[mid] <= at) {
      lo = mid;
    } else {
      hi = mid - 1;
    }
  }
  PmLspPos pos = {lo, 0};
  int32_t end = line_end(f, lo), units;
  for (int32_t i = f->line_starts[lo]; i < at && i < end; pos.character += units) i += step(f, i, &units);
  return pos;
}

int32_t pm_lsp_offset(const PmSourceFile *f, PmLspPos pos) {
  if (pos.line >= f->n_lines) return f->len;
  int32_t at = f->line_starts[pos.line], end = line_end(f, pos.line), units;
  for (int32_t left = pos.character; left > 0 && at < end; left -= units) at += step(f, at, &units);
  return at;
}

typedef struct Opens {
  char stack[PM_MAX_NESTING];
  int32_t n;
} Opens;

static void open_bracket(Opens *o, char c) {
  if (o->n < PM_MAX_NESTING) o->stack[o->n++] = c;
}

// A brace ends what is still open inside it: half-written lines above must not hide the rest of the file.
static void close_bracket(Opens *o, char open) {
  for (int32_t i = o->n - 1; i >= 0; i--) {
    if (o->stack[i] == open) {
      o->n = i;
      return;
    }
    if (o->stack[i] == '{') return;
  }
}

bool pm_lsp_in_code(const PmSourceFile *f, int32_t at, char *out_open) {
  Opens o = {.n = 0};
  char inside = 0;  // '"' or '#'
  for (int32_t i = 0; i < at; i++) {
    char c = f->text[i];
    if (c == '\n') {
      inside = 0;
    } else if (inside) {
      if (inside == '"' && c == '"') inside = 0;
    } else if (c == '"' || c == '#') {
      inside = c;
    } else if (c == '(' || c == '[' || c == '{') {
      open_bracket(&o, c);
    } else if (c == ')' || c == ']' || c == '}') {
      close_bracket(&o, c == ')' ? '(' : c == ']' ? '[' : '{');
    }
  }
  *out_open = '\0';
  if (o.n > 0) *out_open = o.stack[o.n - 1];
  return inside == 0;
}

static bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool pm_lsp_word(const PmSourceFile *f, int32_t at, int32_t *out_lo, int32_t *out_hi) {
  int32_t lo = at, hi = at;
  while (lo > 0 && is_word(f->text[lo - 1])) lo--;
  while (hi < f->len && is_word(f->text[hi])) hi++;
  *out_lo = lo;
  *out_hi = hi;
  return lo < hi && !(f->text[lo] >= '0' && f->text[lo] <= '9');
}

static int hex(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

const char *pm_lsp_path_of_uri(PmArena *arena, const char *uri) {
  if (strncmp(uri, "file://", 7) != 0) return pm_arena_strdup(arena, uri);
  const char *from = strchr(uri + 7, '/');
  if (!from) return pm_arena_strdup(arena, uri);
  char *path = pm_arena_strdup(arena, from), *to = path;
  while (*from) {
    int high = *from == '%' ? hex(from[1]) : -1;
    int low = high >= 0 ? hex(from[2]) : -1;
    if (low < 0) {
      *to++ = *from++;
      continue;
    }
    if (high == 0 && low == 0) return NULL;
    *to++ = (char)(high * 16 + low);
    from += 3;
  }
  *to = '\0';
  return path;
}

const char *pm_lsp_uri_of_path(PmArena *arena, const char *path) {
  char *real = realpath(path, NULL);
  PmBuf b;
  pm_buf_init(&b);
  pm_buf_puts(&b, "file://");
  for (const char *c = real ? real : path; *c; c++) {
    if (is_word(*c) || strchr("/-.~", *c)) {
      pm_buf_putc(&b, *c);
    } else {
      pm_buf_printf(&b, "%%%02X", (unsigned)(unsigned char)*c);
    }
  }
  const char *uri = pm_arena_strdup(arena, pm_buf_str(&b));
  pm_buf_deinit(&b);
  free(real);
  return uri;
}
