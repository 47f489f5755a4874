#include "tools/table.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "base/buf.h"

void pm_table_init(PmTable *t, PmArena *arena, const char *format) {
  *t = (PmTable){.arena = arena, .format = format, .n_cols = (int32_t)strlen(format)};
}

void pm_table_cell(PmTable *t, const char *text) {
  t->cells = (const char **)pm_grow(t->arena, (void *)t->cells, t->n_cells, &t->cap_cells, sizeof *t->cells);
  t->cells[t->n_cells++] = pm_arena_strdup(t->arena, text ? text : "");
}

void pm_table_printf(PmTable *t, const char *fmt, ...) {
  PmBuf text;
  pm_buf_init(&text);
  va_list ap;
  va_start(ap, fmt);
  pm_buf_vprintf(&text, fmt, ap);
  va_end(ap);
  pm_table_cell(t, pm_buf_str(&text));
  pm_buf_deinit(&text);
}

void pm_table_count(PmTable *t, int64_t v) { pm_table_cell(t, pm_count_text(t->arena, v)); }

// Columns of text on a terminal: UTF-8 continuation bytes take none.
static int32_t text_width(const char *s) {
  int32_t n = 0;
  for (; *s; s++) n += ((unsigned char)*s & 0xc0) != 0x80;
  return n;
}

static int32_t column_width(const PmTable *t, int32_t col) {
  int32_t width = 0;
  for (int32_t i = col; i < t->n_cells; i += t->n_cols) {
    int32_t w = text_width(t->cells[i]);
    if (w > width) width = w;
  }
  return width;
}

void pm_table_print(const PmTable *t, const char *indent, FILE *to) {
  PmBuf line;
  pm_buf_init(&line);
  int32_t *width = PM_NEW_N(t->arena, int32_t, t->n_cols);
  for (int32_t col = 0; col < t->n_cols; col++) width[col] = column_width(t, col);
  for (int32_t row = 0; row < t->n_cells; row += t->n_cols) {
    pm_buf_clear(&line);
    pm_buf_puts(&line, indent);
    for (int32_t col = 0; col < t->n_cols && row + col < t->n_cells; col++) {
      const char *cell = t->cells[row + col];
      int32_t pad = width[col] - text_width(cell);
      if (col > 0) pm_buf_puts(&line, "  ");
      if (t->format[col] == 'r') pm_buf_printf(&line, "%*s", pad, "");
      pm_buf_puts(&line, cell);
      if (t->format[col] == 'l') pm_buf_printf(&line, "%*s", pad, "");
    }
    size_t len = line.len;
    while (len > 0 && line.data[len - 1] == ' ') len--;
    fprintf(to, "%.*s\n", (int)len, line.len ? line.data : "");
  }
  pm_buf_deinit(&line);
}

const char *pm_count_text(PmArena *arena, int64_t v) {
  char digits[32], out[48];
  int n = snprintf(digits, sizeof digits, "%" PRId64, v);
  int at = 0, first = v < 0;
  for (int i = 0; i < n; i++) {
    if (i > first && (n - i) % 3 == 0) out[at++] = ',';
    out[at++] = digits[i];
  }
  return pm_arena_strndup(arena, out, (size_t)at);
}

const char *pm_bytes_text(PmArena *arena, int64_t bytes) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double v = (double)bytes;
  size_t unit = 0;
  while (v >= 1024 && unit + 1 < sizeof units / sizeof *units) {
    v /= 1024;
    unit++;
  }
  return unit == 0 ? pm_arena_printf(arena, "%" PRId64 " B", bytes) : pm_arena_printf(arena, "%.1f %s", v, units[unit]);
}

const char *pm_plural(int64_t n) { return n == 1 ? "" : "s"; }
