// The language server: JSON-RPC 2.0 messages with a Content-Length, one after another.
#ifndef PM_TOOLS_LSP_SERVER_H
#define PM_TOOLS_LSP_SERVER_H

#include "tools/tool.h"

#define PM_LSP_MAX_MESSAGE_BYTES ((size_t)16 << 20)
#define PM_LSP_MAX_HEADER_BYTES 4096
#define PM_LSP_MAX_DOCS 64

// Serves until `exit`. Whatever a message holds, it is answered or ignored; only a stream whose framing is broken, or
// that ends early, ends with INPUT.
PM_MUST_CHECK PmStatus *pm_lsp_serve(const PmTool *t, FILE *in, FILE *out);

#endif
