#include <string.h>

#include "base/assert.h"
#include "tools/import.h"

enum { MAX_NAME = 32 };

static const PmImportVar *var_at(const PmImportVars *vars, const char *name, size_t n) {
  char copy[MAX_NAME];
  if (n >= sizeof copy) return NULL;
  memcpy(copy, name, n);
  copy[n] = '\0';
  return pm_import_var(vars, copy);
}

// Conditions [at, end), separated by spaces: every name is set, and none behind a `!`.
static bool holds(const PmImportVars *vars, const char *at, const char *end) {
  while (at < end) {
    bool negated = *at == '!';
    at += negated;
    size_t n = strcspn(at, " |");
    if ((var_at(vars, at, n) != NULL) == negated) return false;
    at += n + 1;
  }
  return true;
}

static void put_var(const PmImportVars *vars, const char *name, size_t n, PmBuf *out) {
  static const char prefix[] = "key:";
  size_t skip = n > sizeof prefix - 1 && memcmp(name, prefix, sizeof prefix - 1) == 0 ? sizeof prefix - 1 : 0;
  const PmImportVar *v = var_at(vars, name + skip, n - skip);
  const char *text = !v ? NULL : skip ? v->key : v->text;
  PM_ASSERT(text, "the template names the variable `%.*s`, which is not set", (int)n, name);
  pm_buf_puts(out, text);
}

static void put_line(const PmImportVars *vars, const char *at, const char *end, PmBuf *out) {
  while (at < end) {
    if (*at == '@') {
      size_t n = strcspn(++at, "@");
      put_var(vars, at, n, out);
      at += n + 1;
    } else {
      pm_buf_putc(out, *at++);
    }
  }
  pm_buf_putc(out, '\n');
}

void pm_import_fill(const PmImportFamily *family, const PmImportVars *vars, PmBuf *out) {
  // The embedded bytes end with a NUL.
  const char *at = (const char *)family->template_text, *end = at + *family->template_len;
  while (at < end) {
    const char *line_end = memchr(at, '\n', (size_t)(end - at)), *text = at;
    if (!line_end) line_end = end;
    bool stands = true;
    if (*at == '%') {
      text = memchr(at, '|', (size_t)(line_end - at));
      stands = text && holds(vars, at + 1, text);
      text = text ? text + 1 : at;
    }
    if (stands) put_line(vars, text, line_end, out);
    at = line_end + 1;
  }
}
