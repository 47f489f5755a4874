#include "tools/lsp_json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

typedef struct Reader {
  PmArena *arena;
  const char *at, *end;
  int32_t depth, values;
  const char *why;  // the first reason to refuse
} Reader;

static bool refuse(Reader *r, const char *why) {
  if (!r->why) r->why = why;
  return false;
}

static void skip_space(Reader *r) {
  while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r')) r->at++;
}

static bool eat(Reader *r, char c) {
  if (r->at == r->end || *r->at != c) return false;
  r->at++;
  return true;
}

static bool word(Reader *r, const char *text) {
  size_t n = strlen(text);
  if ((size_t)(r->end - r->at) < n || memcmp(r->at, text, n) != 0) return refuse(r, "expected a value");
  r->at += n;
  return true;
}

static bool hex4(Reader *r, unsigned *out) {
  *out = 0;
  for (int i = 0; i < 4; i++, r->at++) {
    if (r->at == r->end) return refuse(r, "a string without end");
    char c = *r->at;
    unsigned digit;
    if (c >= '0' && c <= '9') {
      digit = (unsigned)(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      digit = (unsigned)(c - 'a') + 10;
    } else if (c >= 'A' && c <= 'F') {
      digit = (unsigned)(c - 'A') + 10;
    } else {
      return refuse(r, "`\\u` needs four hexadecimal digits");
    }
    *out = *out << 4 | digit;
  }
  return true;
}

static char *put_utf8(char *to, unsigned c) {
  if (c < 0x80) {
    *to++ = (char)c;
    return to;
  }
  if (c < 0x800) {
    *to++ = (char)(0xc0 | c >> 6);
  } else if (c < 0x10000) {
    *to++ = (char)(0xe0 | c >> 12);
    *to++ = (char)(0x80 | (c >> 6 & 0x3f));
  } else {
    *to++ = (char)(0xf0 | c >> 18);
    *to++ = (char)(0x80 | (c >> 12 & 0x3f));
    *to++ = (char)(0x80 | (c >> 6 & 0x3f));
  }
  *to++ = (char)(0x80 | (c & 0x3f));
  return to;
}

static bool escape(Reader *r, char **to) {
  static const char from[] = "\"\\/bfnrt", chars[] = "\"\\/\b\f\n\r\t";
  if (r->at == r->end) return refuse(r, "a string without end");
  char c = *r->at++;
  const char *plain = c ? strchr(from, c) : NULL;
  if (plain) {
    *(*to)++ = chars[plain - from];
    return true;
  }
  unsigned code, low;
  if (c != 'u') return refuse(r, "an unknown escape");
  if (!hex4(r, &code)) return false;
  if (code >= 0xdc00 && code <= 0xdfff) return refuse(r, "half of a surrogate pair");
  if (code >= 0xd800 && code <= 0xdbff) {
    if (!eat(r, '\\') || !eat(r, 'u')) return refuse(r, "half of a surrogate pair");
    if (!hex4(r, &low)) return false;
    if (low < 0xdc00 || low > 0xdfff) return refuse(r, "half of a surrogate pair");
    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
  }
  *to = put_utf8(*to, code);
  return true;
}

// Bytes up to the closing quote; escapes are never shorter than what they stand for.
static size_t quoted_bytes(const Reader *r) {
  const char *p = r->at;
  while (p < r->end && *p != '"') p += *p == '\\' && p + 1 < r->end ? 2 : 1;
  return (size_t)(p - r->at);
}

static bool string(Reader *r, const char **out, size_t *out_len) {
  if (!eat(r, '"')) return refuse(r, "expected a string");
  char *text = pm_arena_alloc(r->arena, quoted_bytes(r) + 1), *to = text;
  for (;;) {
    if (r->at == r->end) return refuse(r, "a string without end");
    unsigned char c = (unsigned char)*r->at;
    if (c == '"') break;
    if (c < 0x20) return refuse(r, "a control character in a string");
    if (c == '\\') {
      r->at++;
      if (!escape(r, &to)) return false;
      continue;
    }
    int n = pm_utf8_len(r->at);
    if (n == 0 || n > r->end - r->at) return refuse(r, "a string that is not UTF-8");
    memcpy(to, r->at, (size_t)n);
    to += n;
    r->at += n;
  }
  r->at++;
  *to = '\0';
  *out = text;
  *out_len = (size_t)(to - text);
  return true;
}

static bool digits(Reader *r) {
  const char *from = r->at;
  while (r->at < r->end && *r->at >= '0' && *r->at <= '9') r->at++;
  return r->at > from || refuse(r, "a number without digits");
}

static bool number(Reader *r, double *out) {
  const char *from = r->at;
  eat(r, '-');
  if (!eat(r, '0') && !digits(r)) return false;
  if (eat(r, '.') && !digits(r)) return false;
  if (eat(r, 'e') || eat(r, 'E')) {
    if (!eat(r, '+')) eat(r, '-');
    if (!digits(r)) return false;
  }
  // The text ends with a NUL, and what follows the digits here is no part of a number.
  *out = strtod(from, NULL);
  return isfinite(*out) || refuse(r, "a number past the range of doubles");
}

static PmLspJson *value(Reader *r);

static bool member(Reader *r, bool named, PmLspJson **out) {
  const char *key = "";
  size_t key_len = 0;
  skip_space(r);
  if (named) {
    if (!string(r, &key, &key_len)) return false;
    skip_space(r);
    if (!eat(r, ':')) return refuse(r, "expected `:`");
  }
  *out = value(r);
  if (!*out) return false;
  (*out)->key = key;
  (*out)->key_len = key_len;
  skip_space(r);
  return true;
}

static bool members(Reader *r, PmLspJson *parent, char close, bool named) {
  PmLspJson **tail = &parent->first;
  if (++r->depth > PM_LSP_JSON_MAX_DEPTH) return refuse(r, "values nest too deep");
  skip_space(r);
  if (!eat(r, close)) {
    do {
      if (!member(r, named, tail)) return false;
      tail = &(*tail)->next;
    } while (eat(r, ','));
    if (!eat(r, close)) return refuse(r, "expected `,` or the end of a list");
  }
  r->depth--;
  return true;
}

static PmLspJson *value(Reader *r) {
  skip_space(r);
  if (r->at == r->end || r->values++ >= PM_LSP_JSON_MAX_VALUES) {
    refuse(r, r->at == r->end ? "expected a value" : "too many values");
    return NULL;
  }
  PmLspJson *v = PM_NEW(r->arena, PmLspJson);
  v->key = "";
  bool ok;
  switch (*r->at) {
    case '{':
      r->at++;
      v->kind = PM_LJ_OBJECT;
      ok = members(r, v, '}', true);
      break;
    case '[':
      r->at++;
      v->kind = PM_LJ_ARRAY;
      ok = members(r, v, ']', false);
      break;
    case '"':
      v->kind = PM_LJ_STR;
      ok = string(r, &v->str, &v->len);
      break;
    case 't':
    case 'f':
      v->kind = PM_LJ_BOOL;
      v->truth = *r->at == 't';
      ok = word(r, v->truth ? "true" : "false");
      break;
    case 'n':
      v->kind = PM_LJ_NULL;
      ok = word(r, "null");
      break;
    default:
      v->kind = PM_LJ_NUM;
      ok = (*r->at == '-' || (*r->at >= '0' && *r->at <= '9')) ? number(r, &v->num) : refuse(r, "expected a value");
  }
  return ok ? v : NULL;
}

const PmLspJson *pm_lsp_json_read(PmArena *arena, const char *text, size_t len, const char **out_why) {
  Reader r = {.arena = arena, .at = text, .end = text + len};
  const PmLspJson *v = value(&r);
  skip_space(&r);
  if (v && r.at != r.end) {
    refuse(&r, "text after the value");
    v = NULL;
  }
  *out_why = r.why;
  return v;
}

const PmLspJson *pm_lsp_json_get(const PmLspJson *v, const char *key) {
  if (!v || v->kind != PM_LJ_OBJECT) return NULL;
  size_t n = strlen(key);
  for (const PmLspJson *m = v->first; m; m = m->next) {
    if (m->key_len == n && memcmp(m->key, key, n) == 0) return m;
  }
  return NULL;
}

const char *pm_lsp_json_str(const PmLspJson *v) {
  return v && v->kind == PM_LJ_STR && strlen(v->str) == v->len ? v->str : NULL;
}

bool pm_lsp_json_int(const PmLspJson *v, int64_t lo, int64_t hi, int64_t *out) {
  if (!v || v->kind != PM_LJ_NUM || v->num != floor(v->num) || v->num < (double)lo || v->num > (double)hi) return false;
  *out = (int64_t)v->num;
  return true;
}
