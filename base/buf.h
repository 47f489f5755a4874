// A growable byte buffer for text and containers. The caller owns it: init, append, deinit. Always NUL-terminated.
#ifndef PM_BASE_BUF_H
#define PM_BASE_BUF_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct PmBuf {
  char *data;  // NUL-terminated once anything was appended; "" semantics through pm_buf_str
  size_t len, cap;
} PmBuf;

void pm_buf_init(PmBuf *b);
void pm_buf_deinit(PmBuf *b);
void pm_buf_clear(PmBuf *b);
void pm_buf_put(PmBuf *b, const void *data, size_t n);
void pm_buf_puts(PmBuf *b, const char *s);
void pm_buf_putc(PmBuf *b, char c);
void pm_buf_printf(PmBuf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void pm_buf_vprintf(PmBuf *b, const char *fmt, va_list ap);
// Shortest decimal text that reads back to the same double ("1e-05", "0.5", "inf", "-inf", "nan").
void pm_buf_put_f64(PmBuf *b, double v);
const char *pm_buf_str(const PmBuf *b);

#endif
