// A strict reader of JSON (RFC 8259) for the messages of an editor. Untrusted input: whatever the bytes are, the answer
// is a tree or a reason.
#ifndef PM_TOOLS_LSP_JSON_H
#define PM_TOOLS_LSP_JSON_H

#include <stdbool.h>

#include "base/arena.h"

#define PM_LSP_JSON_MAX_DEPTH 64
#define PM_LSP_JSON_MAX_VALUES 200000

typedef enum PmLspJsonKind { PM_LJ_NULL, PM_LJ_BOOL, PM_LJ_NUM, PM_LJ_STR, PM_LJ_ARRAY, PM_LJ_OBJECT } PmLspJsonKind;

typedef struct PmLspJson {
  PmLspJsonKind kind;
  bool truth;
  double num;
  const char *str;  // UTF-8, NUL-terminated; may hold NULs before its end
  size_t len;
  const char *key;  // of a member of an object; "" with key_len 0 elsewhere
  size_t key_len;
  struct PmLspJson *first, *next;  // children, in order
} PmLspJson;

// Reads one value that fills the text, which is NUL-terminated at `len`. NULL, with the reason, when it is not JSON or
// passes a limit. Refuses text that is not UTF-8, lone surrogates and numbers past the range of doubles.
const PmLspJson *pm_lsp_json_read(PmArena *arena, const char *text, size_t len, const char **out_why);

// The first member named `key`; NULL when there is none, or `v` is NULL or not an object.
const PmLspJson *pm_lsp_json_get(const PmLspJson *v, const char *key);
// The text of a string without NULs, else NULL. `v` may be NULL.
const char *pm_lsp_json_str(const PmLspJson *v);
// A whole number within [lo, hi].
bool pm_lsp_json_int(const PmLspJson *v, int64_t lo, int64_t hi, int64_t *out);

#endif
