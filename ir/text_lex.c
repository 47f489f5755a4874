#include "ir/text_lex.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_digit(char ch) { return ch >= '0' && ch <= '9'; }
static bool is_letter(char ch) { return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || ch == '_'; }

void pm_lex_init(PmLexer *x, PmInterner *names, const char *path, const char *text, size_t len) {
  *x = (PmLexer){.names = names, .path = path, .at = text, .end = text + len, .line = 1, .next_line = 1};
  pm_lex_next(x);
  if (x->tok == PM_T_LINE) pm_lex_next(x);
}

bool pm_lex_fail(PmLexer *x, const char *fmt, ...) {
  if (x->st) return false;
  PmBuf text;
  va_list ap;
  pm_buf_init(&text);
  va_start(ap, fmt);
  pm_buf_vprintf(&text, fmt, ap);
  va_end(ap);
  x->st = PM_STATUS(PM_ERR_INPUT, "%s:%d: %s", x->path, x->line, pm_buf_str(&text));
  pm_buf_deinit(&text);
  x->tok = PM_T_BAD;
  return false;
}

bool pm_lex_unexpected(PmLexer *x, const char *wanted) {
  if (x->tok == PM_T_END) return pm_lex_fail(x, "expected %s before the end of the text", wanted);
  if (x->tok == PM_T_LINE) return pm_lex_fail(x, "expected %s before the end of the line", wanted);
  return pm_lex_fail(x, "expected %s, found `%.*s`", wanted, x->n < 40 ? (int)x->n : 40, x->lo);
}

static const char *skip_blank(PmLexer *x) {
  const char *p = x->at;
  while (p < x->end && (*p == ' ' || *p == '\t' || *p == '\r')) p++;
  if (x->end - p >= 2 && p[0] == '/' && p[1] == '/') {
    while (p < x->end && *p != '\n') p++;
  }
  return p;
}

static int hex_digit(char ch) {
  if (is_digit(ch)) return ch - '0';
  return ch >= 'a' && ch <= 'f' ? ch - 'a' + 10 : -1;
}

// `p` stands after the opening quote. The token's text is the string with its quotes.
static void lex_string(PmLexer *x, const char *p) {
  PmBuf text;
  pm_buf_init(&text);
  const char *problem = NULL;
  for (; !problem && p < x->end && *p != '"'; p++) {
    unsigned char ch = (unsigned char)*p;
    if (ch < 0x20 || ch == 0x7f) {
      problem = "a control character in a string";
    } else if (ch != '\\') {
      pm_buf_putc(&text, (char)ch);
    } else if (x->end - p >= 2 && (p[1] == '"' || p[1] == '\\')) {
      pm_buf_putc(&text, *++p);
    } else if (x->end - p >= 4 && p[1] == 'x' && hex_digit(p[2]) >= 0 && hex_digit(p[3]) >= 0) {
      int code = hex_digit(p[2]) * 16 + hex_digit(p[3]);
      if (!code) problem = "a NUL in a string";
      pm_buf_putc(&text, (char)code);
      p += 3;
    } else {
      problem = "a bad escape in a string";
    }
  }
  if (!problem && p == x->end) problem = "a string without an end";
  if (problem) {
    pm_lex_fail(x, "%s", problem);
    x->at = x->end;
  } else {
    x->tok = PM_T_STRING;
    x->word = pm_intern_n(x->names, pm_buf_str(&text), text.len);
    x->at = p + 1;
  }
  pm_buf_deinit(&text);
}

static const char *skip_digits(const char *p, const char *end) {
  while (p < end && is_digit(*p)) p++;
  return p;
}

static const char *number_end(const char *p, const char *end) {
  p = skip_digits(p, end);
  if (p < end && *p == '.') p = skip_digits(p + 1, end);
  if (p < end && *p == 'e') {
    const char *e = p + 1;
    if (e < end && (*e == '+' || *e == '-')) e++;
    if (e < end && is_digit(*e)) p = skip_digits(e, end);
  }
  return p;
}

void pm_lex_next(PmLexer *x) {
  if (x->st) return;
  const char *p = skip_blank(x);
  x->line = x->next_line;
  x->word = NULL;
  x->lo = p;
  if (p == x->end) {
    x->tok = PM_T_END;
  } else if (*p == '\n') {
    x->tok = PM_T_LINE;
    while (p < x->end && *p == '\n') {
      x->next_line++;
      x->at = p + 1;
      p = skip_blank(x);
    }
  } else if (is_letter(*p)) {
    x->tok = PM_T_WORD;
    while (p < x->end && (is_letter(*p) || is_digit(*p) || *p == '.')) p++;
    x->word = pm_intern_n(x->names, x->lo, (size_t)(p - x->lo));
  } else if (is_digit(*p) || (*p == '-' && x->end - p >= 2 && is_digit(p[1]))) {
    x->tok = PM_T_NUMBER;
    p = number_end(p + 1, x->end);
  } else if (*p == '-' && x->end - p >= 4 && memcmp(p, "-inf", 4) == 0) {
    x->tok = PM_T_NUMBER;
    p += 4;
  } else if (*p == '-' && x->end - p >= 2 && p[1] == '>') {
    x->tok = PM_T_ARROW;
    p += 2;
  } else if (*p == '"') {
    lex_string(x, p + 1);
    p = x->at;
  } else if (*p > 0x20 && *p < 0x7f) {
    x->tok = PM_T_CHAR;
    p++;
  } else {
    pm_lex_fail(x, "a byte 0x%02x outside strings", (unsigned)(unsigned char)*p);
  }
  x->at = p;
  x->n = (size_t)(p - x->lo);
}

bool pm_lex_is(const PmLexer *x, char ch) { return x->tok == PM_T_CHAR && *x->lo == ch; }

bool pm_lex_is_word(const PmLexer *x, const char *word) { return x->tok == PM_T_WORD && strcmp(x->word, word) == 0; }

bool pm_lex_accept(PmLexer *x, char ch) {
  if (!pm_lex_is(x, ch)) return false;
  pm_lex_next(x);
  return true;
}

bool pm_lex_accept_word(PmLexer *x, const char *word) {
  if (!pm_lex_is_word(x, word)) return false;
  pm_lex_next(x);
  return true;
}

bool pm_lex_key(PmLexer *x, const char *key) { return pm_lex_accept_word(x, key) && pm_lex_expect(x, '='); }

bool pm_lex_expect(PmLexer *x, char ch) {
  if (pm_lex_accept(x, ch)) return true;
  return pm_lex_unexpected(x, (char[]){'`', ch, '`', 0});
}

bool pm_lex_line_done(const PmLexer *x) { return x->st || x->tok == PM_T_LINE || x->tok == PM_T_END; }

bool pm_lex_end_line(PmLexer *x) {
  if (x->st) return false;
  if (x->tok == PM_T_END) return true;
  if (x->tok != PM_T_LINE) return pm_lex_unexpected(x, "the end of the line");
  pm_lex_next(x);
  return !x->st;
}

bool pm_lex_name(PmLexer *x, const char **out) {
  if (x->tok != PM_T_WORD && x->tok != PM_T_STRING) return pm_lex_unexpected(x, "a name");
  *out = x->word;
  pm_lex_next(x);
  return !x->st;
}

bool pm_lex_string(PmLexer *x, const char **out) {
  if (x->tok != PM_T_STRING) return pm_lex_unexpected(x, "a string");
  return pm_lex_name(x, out);
}

// Copies the token, a number, into `out` for the C library's readers, which need a NUL.
static bool number_text(PmLexer *x, const char *wanted, char *out, size_t size) {
  if (x->tok != PM_T_NUMBER) return pm_lex_unexpected(x, wanted);
  if (x->n >= size) return pm_lex_fail(x, "a number of more than %zu characters", size - 1);
  memcpy(out, x->lo, x->n);
  out[x->n] = 0;
  return true;
}

bool pm_lex_i64(PmLexer *x, int64_t lo, int64_t hi, int64_t *out) {
  char text[32], *end;
  if (!number_text(x, "a whole number", text, sizeof text)) return false;
  errno = 0;
  long long v = strtoll(text, &end, 10);
  if (*end || errno) return pm_lex_unexpected(x, "a whole number");
  if (v < lo || v > hi) {
    return pm_lex_fail(x, "%s is outside %lld .. %lld", text, (long long)lo, (long long)hi);
  }
  *out = v;
  pm_lex_next(x);
  return !x->st;
}

bool pm_lex_u64(PmLexer *x, uint64_t *out) {
  char text[32], *end;
  if (!number_text(x, "a whole number", text, sizeof text)) return false;
  errno = 0;
  unsigned long long v = strtoull(text, &end, 10);
  if (*end || errno || text[0] == '-') return pm_lex_unexpected(x, "a whole number of 64 bits");
  *out = v;
  pm_lex_next(x);
  return !x->st;
}

bool pm_lex_f64(PmLexer *x, double *out) {
  char text[64], *end;
  if (pm_lex_accept_word(x, "inf")) {
    *out = HUGE_VAL;
    return !x->st;
  }
  if (pm_lex_accept_word(x, "nan")) {
    *out = (double)NAN;
    return !x->st;
  }
  if (!number_text(x, "a number", text, sizeof text)) return false;
  *out = strtod(text, &end);
  if (*end) return pm_lex_unexpected(x, "a number");
  pm_lex_next(x);
  return !x->st;
}

bool pm_lex_one_of(PmLexer *x, const char *const *words, int32_t n, const char *what, int32_t *out) {
  for (int32_t i = 0; x->tok == PM_T_WORD && i < n; i++) {
    if (strcmp(x->word, words[i]) == 0) {
      *out = i;
      pm_lex_next(x);
      return !x->st;
    }
  }
  return pm_lex_unexpected(x, what);
}
