#include "base/json_read.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/checked.h"
#include "base/utf8.h"

// `text` ends with a NUL, so that one byte of lookahead is always there.
typedef struct Reader {
  PmArena *arena;
  const char *text;
  int32_t at, len;
  int32_t depth, n_values;
  bool nul;
  PmJsonError error;
} Reader;

static bool fail(Reader *r, int32_t at, const char *message) {
  r->error = (PmJsonError){at, message};
  return false;
}

static void skip_space(Reader *r) {
  while (r->at < r->len && strchr(" \t\n\r", r->text[r->at]) && r->text[r->at]) r->at++;
}

static bool take(Reader *r, char c) {
  skip_space(r);
  if (r->at >= r->len || r->text[r->at] != c) return false;
  r->at++;
  return true;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static void skip_digits(Reader *r) {
  while (is_digit(r->text[r->at])) r->at++;
}

static bool read_number(Reader *r, PmJsonValue *v) {
  int32_t lo = r->at;
  bool whole = true;
  if (r->text[r->at] == '-') r->at++;
  if (!is_digit(r->text[r->at])) return fail(r, r->at, "a digit is missing");
  if (r->text[r->at] == '0' && is_digit(r->text[r->at + 1])) return fail(r, r->at, "a number begins with a 0");
  skip_digits(r);
  if (r->text[r->at] == '.') {
    whole = false;
    r->at++;
    if (!is_digit(r->text[r->at])) return fail(r, r->at, "a digit is missing behind the point");
    skip_digits(r);
  }
  if (r->text[r->at] == 'e' || r->text[r->at] == 'E') {
    whole = false;
    r->at++;
    if (r->text[r->at] == '-' || r->text[r->at] == '+') r->at++;
    if (!is_digit(r->text[r->at])) return fail(r, r->at, "a digit is missing in the exponent");
    skip_digits(r);
  }
  v->real = strtod(r->text + lo, NULL);
  if (!isfinite(v->real)) return fail(r, lo, "a number is out of range");
  errno = 0;
  v->integer = whole ? strtoll(r->text + lo, NULL, 10) : 0;
  v->kind = whole && errno == 0 ? PM_JSON_INT : PM_JSON_REAL;
  return true;
}

static bool read_hex4(Reader *r, uint32_t *out) {
  *out = 0;
  for (int i = 0; i < 4; i++) {
    static const char digits[] = "0123456789abcdef";
    char c = r->text[r->at];
    if (c >= 'A' && c <= 'F') c = (char)(c - 'A' + 'a');
    const char *at = c ? strchr(digits, c) : NULL;
    if (!at) return fail(r, r->at, "`\\u` needs four hexadecimal digits");
    *out = *out << 4 | (uint32_t)(at - digits);
    r->at++;
  }
  return true;
}

static void put_utf8(PmBuf *out, uint32_t c) {
  if (c < 0x80) {
    pm_buf_putc(out, (char)c);
    return;
  }
  int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  static const uint32_t lead[] = {0, 0xc0, 0xe0, 0xf0};
  pm_buf_putc(out, (char)(lead[more] | c >> (6 * more)));
  while (more-- > 0) pm_buf_putc(out, (char)(0x80 | (c >> (6 * more) & 0x3f)));
}

// Behind the backslash.
static bool read_escape(Reader *r, PmBuf *out, bool nul) {
  static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
  int32_t lo = r->at - 1;
  char c = r->text[r->at];
  const char *at = c ? strchr(from, c) : NULL;
  if (at) {
    r->at++;
    pm_buf_putc(out, to[at - from]);
    return true;
  }
  if (c != 'u') return fail(r, lo, "an unknown escape");
  r->at++;
  uint32_t code, low;
  if (!read_hex4(r, &code)) return false;
  if (code == 0 && !nul) return fail(r, lo, "a NUL inside a string");
  if (code >= 0xd800 && code < 0xdc00) {
    if (r->text[r->at] != '\\' || r->text[r->at + 1] != 'u') return fail(r, lo, "half of a surrogate pair");
    r->at += 2;
    if (!read_hex4(r, &low)) return false;
    if (low < 0xdc00 || low > 0xdfff) return fail(r, lo, "half of a surrogate pair");
    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
  } else if (code >= 0xdc00 && code < 0xe000) {
    return fail(r, lo, "half of a surrogate pair");
  }
  put_utf8(out, code);
  return true;
}

static bool read_string_into(Reader *r, PmBuf *out, bool nul) {
  int32_t lo = r->at++;
  while (r->at < r->len && r->text[r->at] != '"') {
    unsigned char c = (unsigned char)r->text[r->at];
    int n = pm_utf8_len(r->text + r->at);
    if (c < 0x20) return fail(r, r->at, "a control character inside a string");
    if (n == 0) return fail(r, r->at, "bytes that are no UTF-8");
    if (c == '\\') {
      r->at++;
      if (!read_escape(r, out, nul)) return false;
    } else {
      pm_buf_put(out, r->text + r->at, (size_t)n);
      r->at += n;
    }
  }
  if (r->at >= r->len) return fail(r, lo, "a string does not end");
  r->at++;
  return true;
}

static bool read_string(Reader *r, const char **out, size_t *out_len, bool nul) {
  PmBuf text;
  pm_buf_init(&text);
  bool ok = read_string_into(r, &text, nul);
  if (ok) {
    char *copy = pm_arena_alloc(r->arena, text.len + 1);
    memcpy(copy, pm_buf_str(&text), text.len);
    *out = copy;
    *out_len = text.len;
  }
  pm_buf_deinit(&text);
  return ok;
}

static bool read_word(Reader *r, PmJsonValue *v) {
  static const struct {
    const char *text;
    PmJsonKind kind;
    bool flag;
  } words[] = {{"null", PM_JSON_NULL, false}, {"true", PM_JSON_BOOL, true}, {"false", PM_JSON_BOOL, false}};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    size_t n = strlen(words[i].text);
    if (strncmp(r->text + r->at, words[i].text, n) != 0) continue;
    r->at += (int32_t)n;
    v->kind = words[i].kind;
    v->flag = words[i].flag;
    return true;
  }
  return fail(r, r->at, r->at < r->len ? "a value should stand here" : "the text ends too early");
}

static bool read_value(Reader *r, PmJsonValue *v);

// Behind the opening bracket.
static bool read_items(Reader *r, PmJsonValue *v, char close) {
  const PmJsonValue **link = &v->first;
  if (take(r, close)) return true;
  do {
    PmJsonValue *item = PM_NEW(r->arena, PmJsonValue);
    skip_space(r);
    if (v->kind == PM_JSON_OBJECT) {
      item->key_lo = r->at;
      if (r->text[r->at] != '"') return fail(r, r->at, "a key in quotes should stand here");
      size_t len;
      if (!read_string(r, &item->key, &len, false)) return false;
      item->key_hi = r->at;
      if (pm_json_get(v, item->key)) return fail(r, item->key_lo, "the key stands here a second time");
      if (!take(r, ':')) return fail(r, r->at, "a `:` is missing behind the key");
    }
    if (!read_value(r, item)) return false;
    *link = item;
    link = &item->next;
  } while (take(r, ','));
  if (take(r, close)) return true;
  return fail(r, r->at, close == '}' ? "`,` or `}` should stand here" : "`,` or `]` should stand here");
}

static bool read_value(Reader *r, PmJsonValue *v) {
  skip_space(r);
  if (++r->n_values > PM_JSON_MAX_VALUES) return fail(r, r->at, "more than 16384 values");
  v->lo = r->at;
  char c = r->text[r->at];
  bool ok;
  if (c == '{' || c == '[') {
    if (++r->depth > PM_JSON_MAX_DEPTH) return fail(r, r->at, "values nest more than 64 deep");
    r->at++;
    v->kind = c == '{' ? PM_JSON_OBJECT : PM_JSON_ARRAY;
    ok = read_items(r, v, c == '{' ? '}' : ']');
    r->depth--;
  } else if (c == '"') {
    v->kind = PM_JSON_STR;
    ok = read_string(r, &v->str, &v->str_len, r->nul);
  } else if (c == '-' || is_digit(c)) {
    ok = read_number(r, v);
  } else {
    ok = read_word(r, v);
  }
  v->hi = r->at;
  return ok;
}

bool pm_json_read(PmArena *arena, const char *text, size_t len, bool nul, const PmJsonValue **out,
                  PmJsonError *out_error) {
  *out_error = (PmJsonError){0, "the text is too long"};
  if (len > INT32_MAX) return false;
  Reader r = {.arena = arena, .text = text, .len = (int32_t)len, .nul = nul};
  PmJsonValue *v = PM_NEW(arena, PmJsonValue);
  bool ok = read_value(&r, v);
  skip_space(&r);
  if (ok && r.at < r.len) ok = fail(&r, r.at, "something stands behind the value");
  *out = v;
  *out_error = r.error;
  return ok;
}

const PmJsonValue *pm_json_get(const PmJsonValue *v, const char *key) {
  for (const PmJsonValue *m = v ? v->first : NULL; m; m = m->next) {
    if (m->key && strcmp(m->key, key) == 0) return m;
  }
  return NULL;
}

const char *pm_json_text(const PmJsonValue *v) {
  return v && v->kind == PM_JSON_STR && strlen(v->str) == v->str_len ? v->str : NULL;
}

bool pm_json_whole(const PmJsonValue *v, int64_t lo, int64_t hi, int64_t *out) {
  if (!v || (v->kind != PM_JSON_INT && v->kind != PM_JSON_REAL)) return false;
  if (v->kind == PM_JSON_REAL && (v->real != floor(v->real) || fabs(v->real) >= 0x1p63)) return false;
  int64_t whole = v->kind == PM_JSON_INT ? v->integer : (int64_t)v->real;
  if (whole < lo || whole > hi) return false;
  *out = whole;
  return true;
}

const char *pm_json_kind_name(PmJsonKind kind) {
  static const char *const names[] = {
      [PM_JSON_NULL] = "null",        [PM_JSON_BOOL] = "true or false", [PM_JSON_INT] = "an integer",
      [PM_JSON_REAL] = "a number",    [PM_JSON_STR] = "a string",       [PM_JSON_ARRAY] = "an array",
      [PM_JSON_OBJECT] = "an object",
  };
  return names[kind];
}
