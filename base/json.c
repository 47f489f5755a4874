#include "base/json.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/utf8.h"

void pm_json_init(PmJson *j, PmBuf *out, bool pretty) { *j = (PmJson){.out = out, .pretty = pretty}; }

static void new_line(PmJson *j) {
  pm_buf_putc(j->out, '\n');
  for (int32_t i = 0; i < j->depth; i++) pm_buf_puts(j->out, "  ");
}

// What must stand between the text so far and the next key or value.
static void separate(PmJson *j) {
  if (j->after_key) {
    j->after_key = false;
    return;
  }
  uint64_t bit = UINT64_C(1) << j->depth;
  if (j->has_item & bit) pm_buf_putc(j->out, ',');
  j->has_item |= bit;
  if (j->pretty && j->depth) new_line(j);
}

static void begin(PmJson *j, char open) {
  separate(j);
  PM_ASSERT(j->depth < 63, "JSON nests too deep");
  pm_buf_putc(j->out, open);
  j->depth++;
  j->has_item &= ~(UINT64_C(1) << j->depth);
}

static void end(PmJson *j, char close) {
  PM_ASSERT(j->depth > 0 && !j->after_key, "unbalanced JSON");
  bool any = (j->has_item >> j->depth) & 1;
  j->depth--;
  if (j->pretty && any) new_line(j);
  pm_buf_putc(j->out, close);
}

void pm_json_object(PmJson *j) { begin(j, '{'); }
void pm_json_end_object(PmJson *j) { end(j, '}'); }
void pm_json_array(PmJson *j) { begin(j, '['); }
void pm_json_end_array(PmJson *j) { end(j, ']'); }

static void put_escape(PmBuf *out, unsigned char c) {
  static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
  const char *at = c ? strchr(from, c) : NULL;
  if (at) {
    pm_buf_printf(out, "\\%c", to[at - from]);
  } else {
    pm_buf_printf(out, "\\u%04x", c);
  }
}

// Bytes that aren't UTF-8 become U+FFFD, so that the text stays JSON whatever the user's file holds.
static void put_quoted(PmBuf *out, const char *s) {
  pm_buf_putc(out, '"');
  while (*s) {
    unsigned char c = (unsigned char)*s;
    int n = pm_utf8_len(s);
    if (c < 0x20 || c == '"' || c == '\\' || c == 0x7f) {
      put_escape(out, c);
    } else if (n) {
      pm_buf_put(out, s, (size_t)n);
    } else {
      pm_buf_puts(out, "\\ufffd");
    }
    s += n ? n : 1;
  }
  pm_buf_putc(out, '"');
}

void pm_json_key(PmJson *j, const char *key) {
  PM_ASSERT(!j->after_key, "key `%s` after a key", key);
  separate(j);
  put_quoted(j->out, key);
  pm_buf_puts(j->out, j->pretty ? ": " : ":");
  j->after_key = true;
}

void pm_json_str(PmJson *j, const char *s) {
  separate(j);
  put_quoted(j->out, s);
}

void pm_json_i64(PmJson *j, int64_t v) {
  separate(j);
  pm_buf_printf(j->out, "%" PRId64, v);
}

void pm_json_f64(PmJson *j, double v) {
  separate(j);
  if (isfinite(v)) {
    pm_buf_put_f64(j->out, v);
  } else {
    pm_buf_puts(j->out, "null");
  }
}

void pm_json_bool(PmJson *j, bool v) {
  separate(j);
  pm_buf_puts(j->out, v ? "true" : "false");
}

void pm_json_null(PmJson *j) {
  separate(j);
  pm_buf_puts(j->out, "null");
}
