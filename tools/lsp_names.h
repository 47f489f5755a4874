// What the names of a syntax tree stand for, found without a check: it works on text that has errors.
#ifndef PM_TOOLS_LSP_NAMES_H
#define PM_TOOLS_LSP_NAMES_H

#include "tools/lsp_doc.h"

typedef enum PmLspDeclKind {
  PM_LD_AXIS,
  PM_LD_CONST,
  PM_LD_ITEM,      // fn, block, model, optimizer, plan
  PM_LD_FORMAL,    // a parameter in round brackets
  PM_LD_AXIS_ARG,  // an axis parameter in square brackets
  PM_LD_VARIABLE,  // param, state, input
  PM_LD_SUB,
  PM_LD_VALUE,  // bound by an assignment
  PM_LD_MESH,
} PmLspDeclKind;

typedef struct PmLspDecl {
  PmLspDeclKind kind;
  const char *name;
  PmSpan span;  // of the name, where it is declared
  PmSpan end;   // of a VALUE: what it is bound to
} PmLspDecl;

// Reads the trees of all sources of `s`, whether their text has errors or not.
void pm_lsp_parse(PmLspState *s);

// What `name` at byte `at` of the document means. *out_first: where it is declared; *out_near: the newest binding
// before `at`, for names that are bound more than once. Names of imported files are found too.
bool pm_lsp_find(const PmLspState *s, const char *name, int32_t at, PmLspDecl *out_first, PmLspDecl *out_near);

// The names of the axes that the document declares, or of the axis parameters of the item around byte `at`.
int32_t pm_lsp_axes(PmArena *arena, const PmLspState *s, const char ***out);
int32_t pm_lsp_axis_args(PmArena *arena, const PmLspState *s, int32_t at, const char ***out);

#endif
