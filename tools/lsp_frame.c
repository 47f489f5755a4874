#include "tools/lsp_frame.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "tools/lsp_server.h"

// One header line without its end; false at the end of the stream or past the limit.
static bool read_line(FILE *in, char *line, size_t cap, size_t *budget, bool *out_started) {
  size_t n = 0;
  int c;
  while ((c = getc(in)) != EOF && *budget > 0) {
    (*budget)--;
    *out_started = true;
    if (c == '\n') {
      if (n > 0 && line[n - 1] == '\r') n--;
      line[n] = '\0';
      return true;
    }
    if (c == '\0' || n + 1 >= cap) return false;
    line[n++] = (char)c;
  }
  return false;
}

static bool read_length(const char *line, size_t *out) {
  static const char name[] = "Content-Length:";
  if (strncasecmp(line, name, sizeof name - 1) != 0) return false;
  line += sizeof name - 1;
  line += strspn(line, " \t");
  size_t n = strspn(line, "0123456789");
  if (n == 0 || n > 15 || line[n + strspn(line + n, " \t")] != '\0') return false;
  *out = (size_t)strtoull(line, NULL, 10);
  return true;
}

// Takes memory as bytes arrive: a length alone costs nothing.
static bool read_body(FILE *in, size_t len, PmBuf *body) {
  char block[1 << 14];
  bool keep = len <= PM_LSP_MAX_MESSAGE_BYTES;
  while (len > 0) {
    size_t want = len < sizeof block ? len : sizeof block;
    size_t got = fread(block, 1, want, in);
    if (keep) pm_buf_put(body, block, got);
    if (got < want) return false;
    len -= got;
  }
  return true;
}

PmStatus *pm_lsp_read_frame(FILE *in, PmBuf *body, bool *out_end, bool *out_skipped) {
  char line[256];
  size_t budget = PM_LSP_MAX_HEADER_BYTES, len = 0;
  bool started = false, has_length = false;
  pm_buf_clear(body);
  *out_end = *out_skipped = false;
  for (;;) {
    if (!read_line(in, line, sizeof line, &budget, &started)) {
      *out_end = !started;
      return started ? PM_STATUS(PM_ERR_INPUT, "a broken message header") : NULL;
    }
    if (line[0] == '\0') break;
    has_length = read_length(line, &len) || has_length;
  }
  if (!has_length) return PM_STATUS(PM_ERR_INPUT, "a message without a readable Content-Length");
  if (!read_body(in, len, body)) return PM_STATUS(PM_ERR_INPUT, "the stream ends inside a message");
  *out_skipped = len > PM_LSP_MAX_MESSAGE_BYTES;
  return NULL;
}

PmStatus *pm_lsp_write_frame(FILE *out, const PmBuf *body) {
  fprintf(out, "Content-Length: %zu\r\n\r\n", body->len);
  fwrite(pm_buf_str(body), 1, body->len, out);
  if (fflush(out) != 0 || ferror(out)) return PM_STATUS(PM_ERR_ENVIRONMENT, "cannot write an answer");
  return NULL;
}
