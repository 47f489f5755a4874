// `pmodel import hf-config`: a table of model families (tools/import_families.c), each a set of keys and a template;
// the values of the keys fill the template. A configuration of which a part cannot be said in the template is refused.
#ifndef PM_TOOLS_IMPORT_H
#define PM_TOOLS_IMPORT_H

#include "base/json_read.h"
#include "base/source.h"

typedef enum PmImportKeyKind {
  PM_IMPORT_COUNT,   // an integer from 1 to the largest axis
  PM_IMPORT_COUNT0,  // the same from 0; 0 leaves the variable unset
  PM_IMPORT_REAL,    // a number > 0
  PM_IMPORT_REAL0,   // a number >= 0; 0 leaves the variable unset
  PM_IMPORT_FLAG,    // true sets the variable to "true"
  PM_IMPORT_ACT,     // the name of an activation; the variable is the function's name in pmodel
  PM_IMPORT_ROPE,    // how the angles of rope are scaled; the variable is the function that turns
  PM_IMPORT_EQUALS,  // must be absent, null, or the text in `fallback`; `why` says what else would need
  PM_IMPORT_ABSENT,  // must be absent, null, false or empty; `why` says what it would need
} PmImportKeyKind;

// A key of config.json. A value of null counts as absent.
typedef struct PmImportKey {
  const char *key;
  PmImportKeyKind kind;
  const char *var;       // variable of the template
  const char *fallback;  // without the key, as JSON text; NULL: the key is required; "": the variable stays unset
  const char *why;
} PmImportKey;

#define PM_IMPORT_MAX_SETS 4

typedef struct PmImportFamily {
  const char *model_type, *label;
  const PmImportKey *sets[PM_IMPORT_MAX_SETS];  // each ends with a row without a key; an earlier set goes first
  const char *given;                            // variables set to "true" for the family, separated by spaces
  const unsigned char *template_text;
  const unsigned *template_len;
} PmImportFamily;

// All families, and their number.
const PmImportFamily *pm_import_families(int32_t *out_n);

// Variables of a template: name -> text. Unset names have no entry.
typedef struct PmImportVar {
  const char *name, *text;
  const char *key;  // where it came from, or NULL
  int64_t count;    // of counts
} PmImportVar;

#define PM_IMPORT_MAX_VARS 64

typedef struct PmImportVars {
  PmImportVar items[PM_IMPORT_MAX_VARS];
  int32_t n;
} PmImportVars;

const PmImportVar *pm_import_var(const PmImportVars *vars, const char *name);  // NULL: unset
// Adds or replaces a variable.
void pm_import_set(PmImportVars *vars, PmImportVar var);

// Reads config.json (a file of `sources`) into variables. INPUT with one line a problem, each with its place.
PM_MUST_CHECK PmStatus *pm_import_read(PmArena *arena, const PmSources *sources, int32_t file,
                                       const PmImportFamily **out_family, PmImportVars *out_vars);
// Appends the family's template with the variables in it. A line `%a !b|text` stands where a is set and b is not;
// @a@ is the text of a, @key:a@ the key that it came from. The layout is not yet canonical.
void pm_import_fill(const PmImportFamily *family, const PmImportVars *vars, PmBuf *out);

extern const unsigned char pm_import_gpt2[], pm_import_decoder[];
extern const unsigned pm_import_gpt2_len, pm_import_decoder_len;

#endif
