#include "frontend/parse.h"

#include <stdarg.h>

#include "base/assert.h"
#include "base/checked.h"

#include "frontend/scan.h"
#include "parser.h"

void pm_parse_error(PmParse *p, PmSpan span, PmDiagCode code, const char *fmt, ...) {
  p->failed = true;
  if (p->stopped) return;
  va_list ap;
  va_start(ap, fmt);
  PmBuf text;
  pm_buf_init(&text);
  pm_buf_vprintf(&text, fmt, ap);
  va_end(ap);
  pm_diag(p->diags, code, span, "%s", pm_buf_str(&text));
  pm_buf_deinit(&text);
}

static bool ends_statement(int token) {
  return token == IDENT || token == NUMBER || token == STRING || token == ')' || token == ']';
}

static int give(PmParse *p, int token, PmSpan span) {
  // Told here so late that the parser has seen the `;` that ended the damaged statement.
  if (p->last == SEMI && !p->bad_fresh) p->bad_text = false;
  p->bad_fresh = false;
  p->after_keyword = p->last >= KW_PMODEL && p->last <= KW_NOT;
  p->last = token;
  p->before_span = p->last_span;
  p->last_span = span;
  return token;
}

// The `;` that a line end stands for lies at the end of the line that it ends.
static int insert_semicolon(PmParse *p, PmSpan *span) {
  p->inserted = true;
  p->recovering = false;
  *span = (PmSpan){p->file, p->last_span.hi, p->last_span.hi};
  return give(p, SEMI, *span);
}

static void count_brackets(PmParse *p, int token, PmSpan span) {
  bool open = token == '(' || token == '[';
  bool close = token == ')' || token == ']';
  if (open) p->parens++;
  if (close && p->parens > 0) p->parens--;
  // A brace never stands inside parentheses: one of those was forgotten, and line ends must count again.
  if (token == '{' || token == '}') p->parens = 0;
  if ((open || token == '{') && p->depth <= PM_MAX_NESTING) p->opened[p->depth++] = span;
  if ((close || token == '}') && p->depth > 0) p->depth--;
  if (p->depth > PM_MAX_NESTING) {
    pm_parse_error(p, span, PM_E_NESTING, "brackets nest more than %d deep", PM_MAX_NESTING);
    p->stopped = true;
  }
}

int pm_scan_next(union PmSemantic *value, PmSpan *span, PmParse *p) {
  p->after_inserted = p->inserted;
  p->inserted = false;
  *span = (PmSpan){p->file, p->at, p->at};
  if (p->first) {
    int token = p->first;
    p->first = 0;
    return give(p, token, *span);
  }
  if (p->stopped) return END;
  if (p->pending) {
    p->pending = false;
    *span = p->pending_span;
    return give(p, p->pending_token, *span);
  }
  for (;;) {
    int token = pm_scan_token(value, span, p);
    if (token <= 0 && token != PM_NEWLINE) *span = (PmSpan){p->file, p->at, p->at};
    if (token == PM_NEWLINE) {
      if (p->recovering) p->parens = 0;
      if (p->parens == 0 && ends_statement(p->last)) return insert_semicolon(p, span);
      continue;
    }
    bool before_brace = token == '}' && p->last != SEMI && p->last != '{' && p->last != '}';
    bool before_end = token == END && ends_statement(p->last);
    if (p->parens == 0 && (before_brace || before_end)) {
      p->pending = true;
      p->pending_token = token;
      p->pending_span = *span;
      count_brackets(p, token, *span);
      return insert_semicolon(p, span);
    }
    count_brackets(p, token, *span);
    return give(p, p->stopped ? END : token, *span);
  }
}

static int first_token(PmTextForm form) {
  switch (form) {
    case PM_TEXT_FILE:
      return START_FILE;
    case PM_TEXT_PLAN:
      return START_PLAN;
    case PM_TEXT_DEFS:
      return START_DEFS;
    case PM_TEXT_SETTINGS:
      return START_SETTINGS;
    case PM_TEXT_RULE:
      return START_RULE;
  }
  PM_UNREACHABLE("form %d", (int)form);
}

bool pm_parse(PmArena *arena, PmInterner *names, const PmSources *sources, PmDiags *diags, int32_t file,
              PmTextForm form, PmText *out) {
  *out = (PmText){0};
  PmParse p = {.arena = arena, .names = names, .sources = sources, .diags = diags, .out = out, .file = file};
  p.first = first_token(form);
  p.last_span = (PmSpan){file, 0, 0};
  const PmSourceFile *text = &sources->files[file];
  if (!pm_scan_begin(&p, text)) pm_memory_exhausted((size_t)text->len, 0);
  int rc = pm_bison_parse(&p);
  pm_scan_end(&p);
  return rc == 0 && !p.failed;
}
