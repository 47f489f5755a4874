// A document that an editor has open, and what compiling its newest text gave.
#ifndef PM_TOOLS_LSP_DOC_H
#define PM_TOOLS_LSP_DOC_H

#include "base/source.h"
#include "tools/tool.h"

// The trees are lsp_names.c's business.
struct PmText;

// What one text gave. Lives in its own arena.
typedef struct PmLspState {
  PmArena arena;
  PmInterner names;
  PmSources sources;
  PmDiags *diags;
  bool is_plan;          // a .pplan: it is parsed and not compiled
  int32_t file;          // the document's own source
  struct PmText *trees;  // by source that was there after compiling: what could be read of it
  int32_t n_trees;
  bool parsed;          // the document's own text has no syntax error
  PmModule *module;     // NULL: the text has errors
  PmModule *placed;     // on the mesh of the plan; NULL: no plan, or it has errors
  const char *failure;  // of a failure that is no diagnostic, or NULL
} PmLspState;

// Compiles a text as `pmodel check` does. Text that can be no source (NULs, too long) gives an empty source and a
// failure.
PmLspState *pm_lsp_state_new(const PmTool *t, const char *path, const char *text, size_t len);
void pm_lsp_state_free(PmLspState *s);  // NULL is allowed

static inline const PmSourceFile *pm_lsp_source(const PmLspState *s) { return &s->sources.files[s->file]; }

typedef struct PmLspDoc {
  PmArena arena;    // of uri and path
  const char *uri;  // NULL: the slot is free
  const char *path;
  bool has_version;
  int64_t version;
  PmLspState *now;   // of the newest text
  PmLspState *good;  // of the newest text without syntax errors; may be `now`; NULL: there was none
} PmLspDoc;

void pm_lsp_doc_open(PmLspDoc *d, const char *uri, const char *path);
void pm_lsp_doc_update(PmLspDoc *d, const PmTool *t, const char *text, size_t len);
void pm_lsp_doc_close(PmLspDoc *d);

#endif
