// Messages of an editor, one a line: a session of the language server.
#include <stdlib.h>
#include <string.h>

#include "target.h"
#include "tools/lsp_server.h"

static void frame(PmBuf *b, const char *body, size_t len) {
  pm_buf_printf(b, "Content-Length: %zu\r\n\r\n", len);
  pm_buf_put(b, body, len);
}

static void serve(const PmTool *t, PmBuf *messages) {
  FILE *in = fmemopen(messages->data, messages->len, "rb"), *out = fopen("/dev/null", "wb");
  if (!in || !out) abort();
  pm_status_drop(pm_lsp_serve(t, in, out));
  fclose(in);
  fclose(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char name[] = "pmodel", command[] = "lsp", *argv[] = {name, command, NULL};
  PmTool t = {.reported = false};
  bool done;
  pm_arena_init(&t.arena, 0);
  PmStatus *st = pm_options_parse(&t.arena, 2, argv, &t.opt, &done);
  if (st) abort();
  PmBuf messages;
  pm_buf_init(&messages);
  for (const char *at = (const char *)data, *end = at + size; at < end;) {
    const char *line = memchr(at, '\n', (size_t)(end - at));
    size_t len = line ? (size_t)(line - at) : (size_t)(end - at);
    if (*at != '#') frame(&messages, at, len);
    at += len + (line ? 1 : 0);
  }
  if (messages.len > 0) serve(&t, &messages);
  pm_buf_clear(&messages);
  pm_buf_put(&messages, data, size);
  if (size > 0) serve(&t, &messages);
  pm_buf_deinit(&messages);
  pm_arena_deinit(&t.arena);
  return 0;
}
