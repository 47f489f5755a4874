#include "base/buf.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/assert.h"

void pm_buf_init(PmBuf *b) { *b = (PmBuf){0}; }

void pm_buf_deinit(PmBuf *b) {
  free(b->data);
  *b = (PmBuf){0};
}

void pm_buf_clear(PmBuf *b) {
  b->len = 0;
  if (b->data) b->data[0] = '\0';
}

// Room for `n` more bytes and the NUL.
static void reserve(PmBuf *b, size_t n) {
  size_t need;
  if (__builtin_add_overflow(b->len, n, &need) || need > SIZE_MAX / 4) pm_memory_exhausted(n, 0);
  need++;
  if (need <= b->cap) return;
  size_t cap = b->cap ? b->cap : 64;
  while (cap < need) cap *= 2;
  char *data = realloc(b->data, cap);
  if (!data) pm_memory_exhausted(cap, 0);
  b->data = data;
  b->cap = cap;
}

void pm_buf_put(PmBuf *b, const void *data, size_t n) {
  reserve(b, n);
  if (n) memcpy(b->data + b->len, data, n);
  b->len += n;
  b->data[b->len] = '\0';
}

void pm_buf_puts(PmBuf *b, const char *s) { pm_buf_put(b, s, strlen(s)); }

void pm_buf_putc(PmBuf *b, char c) { pm_buf_put(b, &c, 1); }

void pm_buf_printf(PmBuf *b, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  pm_buf_vprintf(b, fmt, ap);
  va_end(ap);
}

void pm_buf_vprintf(PmBuf *b, const char *fmt, va_list ap) {
  va_list again;
  va_copy(again, ap);
  int n = vsnprintf(NULL, 0, fmt, ap);
  PM_ASSERT(n >= 0, "format `%s`", fmt);
  reserve(b, (size_t)n);
  vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again);
  va_end(again);
  b->len += (size_t)n;
}

void pm_buf_put_f64(PmBuf *b, double v) {
  if (isnan(v)) {
    pm_buf_puts(b, "nan");
    return;
  }
  if (isinf(v)) {
    pm_buf_puts(b, v < 0 ? "-inf" : "inf");
    return;
  }
  char text[32];
  for (int digits = 15; digits <= 17; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, v);
    if (strtod(text, NULL) == v) break;
  }
  pm_buf_puts(b, text);
}

const char *pm_buf_str(const PmBuf *b) { return b->data ? b->data : ""; }
