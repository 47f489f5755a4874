// Tokens of the text form. Every function that returns bool returns false once anything has failed; the first failure
// is kept in `st`. Spaces separate tokens, line ends are tokens, and // begins a comment.
#ifndef PM_IR_TEXT_LEX_H
#define PM_IR_TEXT_LEX_H

#include <stdbool.h>

#include "base/intern.h"
#include "base/status.h"

typedef enum PmTok {
  PM_T_END,
  PM_T_LINE,    // one or more line ends
  PM_T_WORD,    // letter or _, then letters, digits, _ and .
  PM_T_STRING,  // "...": \" \\ \xHH
  PM_T_NUMBER,
  PM_T_ARROW,  // ->
  PM_T_CHAR,   // any other printable character
  PM_T_BAD,
} PmTok;

typedef struct PmLexer {
  PmInterner *names;
  const char *path;
  const char *at, *end;
  int32_t line;       // of the token
  int32_t next_line;  // of `at`
  PmTok tok;
  const char *lo;  // text of the token
  size_t n;
  const char *word;  // WORD, STRING: interned, unescaped
  PmStatus *st;
} PmLexer;

void pm_lex_init(PmLexer *x, PmInterner *names, const char *path, const char *text, size_t len);
void pm_lex_next(PmLexer *x);
// Keeps "path:line: text" unless something failed before. Always false.
bool pm_lex_fail(PmLexer *x, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
bool pm_lex_unexpected(PmLexer *x, const char *wanted);

bool pm_lex_is(const PmLexer *x, char ch);  // the token is this character
bool pm_lex_is_word(const PmLexer *x, const char *word);
bool pm_lex_accept(PmLexer *x, char ch);  // takes the character if it is there
bool pm_lex_accept_word(PmLexer *x, const char *word);
bool pm_lex_key(PmLexer *x, const char *key);  // takes `key=` if `key` is there
bool pm_lex_expect(PmLexer *x, char ch);
bool pm_lex_end_line(PmLexer *x);                // takes the line end, or stands at the end of the text
bool pm_lex_line_done(const PmLexer *x);         // at a line end, the end of the text, or after a failure
bool pm_lex_name(PmLexer *x, const char **out);  // a word or a string
bool pm_lex_string(PmLexer *x, const char **out);
bool pm_lex_i64(PmLexer *x, int64_t lo, int64_t hi, int64_t *out);
bool pm_lex_u64(PmLexer *x, uint64_t *out);
bool pm_lex_f64(PmLexer *x, double *out);
// One of `n` words; *out is its index.
bool pm_lex_one_of(PmLexer *x, const char *const *words, int32_t n, const char *what, int32_t *out);

#endif
