// Framing of messages: "Content-Length: N\r\n\r\n" and N bytes.
#ifndef PM_TOOLS_LSP_FRAME_H
#define PM_TOOLS_LSP_FRAME_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/status.h"

// Reads one message into `body`. *out_end: the stream ended where a message may begin. *out_skipped: the message was
// longer than the limit and has been passed over. INPUT when the framing is broken.
PM_MUST_CHECK PmStatus *pm_lsp_read_frame(FILE *in, PmBuf *body, bool *out_end, bool *out_skipped);
PM_MUST_CHECK PmStatus *pm_lsp_write_frame(FILE *out, const PmBuf *body);

#endif
