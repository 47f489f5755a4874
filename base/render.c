// The text form of a diagnostic:
//
//   gpt2.pmodel:12:11: error[E0231]: message          path, line, column of the primary span
//    12 |   q = dot[embed](x, bq) + bq                each source line that is pointed at, once
//       |           ^^^^^  -  -- `bq`[heads, hdim]    ^ primary, - labels; the rightmost text stands on this row,
//       |                  |
//       |                  `x`[batch, seq, embed]     the others on rows of their own, right to left
//   note: ...
//   help: ...
//
// Columns here are display columns, from 0: a tab is TAB_WIDTH wide, every other character (and every byte that isn't
// UTF-8) is one. A long line is cut to a window around what is pointed at.
#include <stdlib.h>
#include <string.h>

#include "base/diag_items.h"
#include "base/utf8.h"

#define TAB_WIDTH 4
#define MAX_WIDTH 160
#define WINDOW_LEAD 40

typedef struct Mark {
  int32_t file, line;
  int32_t lo, hi;    // bytes of the file, clipped to the line
  int32_t from, to;  // printed columns, from < to
  int32_t index;     // order of reporting; 0: the primary span
  bool head;         // in the file of the primary span
  const char *text;  // may be NULL
} Mark;

typedef struct Window {
  int32_t from, to;  // display columns that are printed
  bool cut_left, cut_right;
} Window;

static int32_t display_col(const char *text, int32_t lo, int32_t at) {
  int32_t col = 0;
  for (int32_t i = lo; i < at;) {
    int n = pm_utf8_len(text + i);
    col += text[i] == '\t' ? TAB_WIDTH : 1;
    i += n ? n : 1;
  }
  return col;
}

static Mark mark_of(const PmDiags *d, PmSpan span, int32_t index, bool head, const char *text) {
  Mark m = {.file = span.file, .index = index, .head = head, .text = text};
  int32_t col, lo, hi;
  pm_sources_line_col(d->sources, span.file, span.lo, &m.line, &col);
  pm_sources_line_span(d->sources, span.file, m.line, &lo, &hi);
  m.lo = span.lo < lo ? lo : span.lo > hi ? hi : span.lo;
  m.hi = span.hi < m.lo ? m.lo : span.hi > hi ? hi : span.hi;
  return m;
}

// By file (the primary's first), line, and start.
static int compare_marks(const void *pa, const void *pb) {
  const Mark *a = pa, *b = pb;
  if (a->head != b->head) return a->head ? -1 : 1;
  if (a->file != b->file) return a->file < b->file ? -1 : 1;
  if (a->line != b->line) return a->line < b->line ? -1 : 1;
  if (a->lo != b->lo) return a->lo < b->lo ? -1 : 1;
  return a->index - b->index;
}

static void trim_right(PmBuf *out) {
  while (out->len && out->data[out->len - 1] == ' ') out->data[--out->len] = '\0';
}

static void end_row(PmBuf *out) {
  trim_right(out);
  pm_buf_putc(out, '\n');
}

static void put_gutter(PmBuf *out, int width) { pm_buf_printf(out, " %*s | ", width, ""); }

static void put_spaces(PmBuf *out, int32_t n) {
  for (int32_t i = 0; i < n; i++) pm_buf_putc(out, ' ');
}

static Window window_of(int32_t width, int32_t first) {
  if (width <= MAX_WIDTH) return (Window){.from = 0, .to = width};
  int32_t from = first > WINDOW_LEAD ? first - WINDOW_LEAD : 0;
  int32_t to = from + MAX_WIDTH < width ? from + MAX_WIDTH : width;
  return (Window){.from = from, .to = to, .cut_left = from > 0, .cut_right = to < width};
}

static int32_t printed_col(Window w, int32_t col) {
  int32_t clipped = col < w.from ? w.from : col > w.to ? w.to : col;
  return clipped - w.from + (w.cut_left ? 3 : 0);
}

static void put_source_line(PmBuf *out, const char *text, int32_t lo, int32_t hi, Window w) {
  if (w.cut_left) pm_buf_puts(out, "...");
  int32_t col = 0;
  for (int32_t i = lo; i < hi && col < w.to;) {
    int n = pm_utf8_len(text + i);
    int step = n ? n : 1;
    if (text[i] == '\t') {
      for (int k = 0; k < TAB_WIDTH; k++, col++) {
        if (col >= w.from && col < w.to) pm_buf_putc(out, ' ');
      }
    } else {
      if (col >= w.from) pm_buf_put(out, text + i, (size_t)step);
      col++;
    }
    i += step;
  }
  if (w.cut_right) pm_buf_puts(out, "...");
}

// The underlines of one line; the primary's wins where they overlap.
static void put_underlines(PmBuf *out, const Mark *marks, int32_t n) {
  size_t base = out->len;
  for (int32_t i = 0; i < n; i++) {
    int32_t have = (int32_t)(out->len - base);
    if (marks[i].to > have) put_spaces(out, marks[i].to - have);
  }
  for (int32_t i = 0; i < n; i++) {
    for (int32_t c = marks[i].from; c < marks[i].to; c++) {
      char *cell = &out->data[base + (size_t)c];
      if (*cell != '^') *cell = marks[i].index == 0 ? '^' : '-';
    }
  }
}

// One row below the underlines: bars for `marks[0..n)` that carry text, then the text (if any) at `col`.
static void put_text_row(PmBuf *out, int width, const Mark *marks, int32_t n, int32_t col, const char *text) {
  put_gutter(out, width);
  int32_t at = 0;
  for (int32_t i = 0; i < n; i++) {
    if (!marks[i].text || marks[i].from < at || (text && marks[i].from >= col)) continue;
    put_spaces(out, marks[i].from - at);
    pm_buf_putc(out, '|');
    at = marks[i].from + 1;
  }
  if (text) {
    put_spaces(out, col - at);
    pm_buf_puts(out, text);
  }
  end_row(out);
}

// The rows under one source line. `marks` are sorted by start.
static void put_marks(PmBuf *out, int width, const Mark *marks, int32_t n) {
  put_gutter(out, width);
  put_underlines(out, marks, n);
  int32_t end = 0;
  for (int32_t i = 0; i < n; i++) end = marks[i].to > end ? marks[i].to : end;
  int32_t last = n - 1;
  while (last >= 0 && !marks[last].text) last--;
  if (last >= 0 && marks[last].to == end) {
    pm_buf_printf(out, " %s", marks[last].text);
    last--;
  }
  end_row(out);
  bool bars = false;
  for (; last >= 0; last--) {
    if (!marks[last].text) continue;
    if (!bars) put_text_row(out, width, marks, last + 1, 0, NULL);
    bars = true;
    put_text_row(out, width, marks, last, marks[last].from, marks[last].text);
  }
}

static void put_line_block(const PmDiags *d, PmBuf *out, int width, Mark *marks, int32_t n) {
  const char *text = d->sources->files[marks[0].file].text;
  int32_t lo, hi;
  pm_sources_line_span(d->sources, marks[0].file, marks[0].line, &lo, &hi);
  int32_t anchor = 0;
  for (int32_t i = 0; i < n; i++) anchor = marks[i].index == 0 ? i : anchor;
  Window w = window_of(display_col(text, lo, hi), display_col(text, lo, marks[anchor].lo));
  for (int32_t i = 0; i < n; i++) {
    marks[i].from = printed_col(w, display_col(text, lo, marks[i].lo));
    marks[i].to = printed_col(w, display_col(text, lo, marks[i].hi));
    if (marks[i].to <= marks[i].from) marks[i].to = marks[i].from + 1;
  }
  pm_buf_printf(out, " %*d | ", width, marks[0].line);
  put_source_line(out, text, lo, hi, w);
  end_row(out);
  put_marks(out, width, marks, n);
}

// All places of one diagnostic, grouped by file and line.
static void put_places(const PmDiags *d, const PmDiagItem *item, PmBuf *out) {
  Mark *marks = PM_NEW_N(d->arena, Mark, item->n_labels + 1);
  int32_t n = 0, own = pm_diag_primary_label(d, item);
  bool placed = pm_span_placed(d, item->span);
  if (placed) {
    marks[n++] = mark_of(d, item->span, 0, true, own < 0 ? NULL : item->labels[own].text);
  }
  for (int32_t i = 0; i < item->n_labels; i++) {
    PmSpan s = item->labels[i].span;
    if (i == own || !pm_span_placed(d, s)) continue;
    marks[n++] = mark_of(d, s, i + 1, placed && s.file == item->span.file, item->labels[i].text);
  }
  qsort(marks, (size_t)n, sizeof *marks, compare_marks);
  int32_t last_line = 0;
  for (int32_t i = 0; i < n; i++) last_line = marks[i].line > last_line ? marks[i].line : last_line;
  int width = 1;
  for (int32_t v = last_line; v >= 10; v /= 10) width++;
  int32_t file = placed ? item->span.file : -1, line = 0;
  for (int32_t i = 0, next; i < n; i = next) {
    for (next = i + 1; next < n && marks[next].file == marks[i].file && marks[next].line == marks[i].line;) next++;
    if (marks[i].file != file) {
      pm_buf_printf(out, " %*s--> ", width, "");
      pm_sources_put_loc(d->sources, (PmSpan){marks[i].file, marks[i].lo, marks[i].hi}, out);
      pm_buf_putc(out, '\n');
    } else if (line && marks[i].line > line + 1) {
      pm_buf_puts(out, "...\n");
    }
    file = marks[i].file;
    line = marks[i].line;
    put_line_block(d, out, width, marks + i, next - i);
  }
}

// Control characters and bytes that aren't UTF-8 must not reach a terminal.
static void put_clean(PmBuf *out, const char *s) {
  while (*s) {
    int n = pm_utf8_len(s);
    unsigned char c = (unsigned char)*s;
    if (n == 0 || (c < 0x20 && c != '\n') || c == 0x7f) {
      pm_buf_puts(out, "\xef\xbf\xbd");
    } else {
      pm_buf_put(out, s, (size_t)n);
    }
    s += n ? n : 1;
  }
}

void pm_diag_render(const PmDiags *d, const PmDiagItem *item, PmBuf *out) {
  PmBuf raw;
  pm_buf_init(&raw);
  if (pm_span_placed(d, item->span)) {
    pm_sources_put_loc(d->sources, item->span, &raw);
    pm_buf_puts(&raw, ": ");
  }
  pm_buf_printf(&raw, "%s[%s]: %s\n", pm_diag_level(d, item->code), pm_diag_code_text(item->code), item->message);
  put_places(d, item, &raw);
  for (int32_t i = 0; i < item->n_labels; i++) {
    if (!pm_span_placed(d, item->labels[i].span)) pm_buf_printf(&raw, "note: %s\n", item->labels[i].text);
  }
  for (int32_t i = 0; i < item->n_children; i++) {
    pm_buf_printf(&raw, "%s: %s\n", item->children[i].level, item->children[i].text);
  }
  put_clean(out, pm_buf_str(&raw));
  pm_buf_deinit(&raw);
}
