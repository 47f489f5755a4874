// A strict JSON reader (RFC 8259) for text from outside: no comments, no trailing commas, no doubled keys, no lone
// surrogates, no NUL inside a string unless the caller takes one, numbers in the range of a double, at most 16,384
// values, nested at most 64 deep.
//
// Ownership: values live in the arena; nothing points into the text.
#ifndef PM_BASE_JSON_READ_H
#define PM_BASE_JSON_READ_H

#include <stdbool.h>

#include "base/arena.h"

#define PM_JSON_MAX_DEPTH 64
#define PM_JSON_MAX_VALUES 16384

typedef enum PmJsonKind {
  PM_JSON_NULL,
  PM_JSON_BOOL,
  PM_JSON_INT,   // written without fraction and exponent, and within int64
  PM_JSON_REAL,  // any other number
  PM_JSON_STR,
  PM_JSON_ARRAY,
  PM_JSON_OBJECT,
} PmJsonKind;

typedef struct PmJsonValue PmJsonValue;
struct PmJsonValue {
  PmJsonKind kind;
  int32_t lo, hi;   // bytes [lo, hi) of the text
  const char *key;  // of a member of an object, otherwise NULL
  int32_t key_lo, key_hi;
  bool flag;
  int64_t integer;
  double real;  // of both kinds of number
  const char *str;
  size_t str_len;                   // of `str`; more than strlen says where there is a NUL inside
  const PmJsonValue *first, *next;  // items or members in the order of the text
};

typedef struct PmJsonError {
  int32_t at;  // byte of the text
  const char *message;
} PmJsonError;

// Reads one value and nothing behind it. `text` holds `len` bytes (fewer than 2^31) and a NUL behind them.
// `nul`: strings that are values may hold a NUL, as "\u0000". False: *out_error says what and where.
bool pm_json_read(PmArena *arena, const char *text, size_t len, bool nul, const PmJsonValue **out,
                  PmJsonError *out_error);
// The member of an object, or NULL. In the next three `v` may be NULL or of another kind.
const PmJsonValue *pm_json_get(const PmJsonValue *v, const char *key);
// The text of a string without NUL, else NULL.
const char *pm_json_text(const PmJsonValue *v);
// A whole number within [lo, hi], however it is written.
bool pm_json_whole(const PmJsonValue *v, int64_t lo, int64_t hi, int64_t *out);
const char *pm_json_kind_name(PmJsonKind kind);  // "an integer", "a string", ...

#endif
