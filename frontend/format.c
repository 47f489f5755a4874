#include "frontend/format.h"

#include <string.h>

#include "base/utf8.h"

#include "frontend/parse.h"
#include "frontend/scan.h"
#include "parser.h"

#define INDENT 2
#define CONTINUED 4
#define COMMENT_GAP 2
#define MAX_COLUMN 120
#define COMMENT (-3)  // beside the scanner's token numbers

typedef struct Lexeme {
  int kind;
  int32_t lo, hi;
  int32_t breaks;  // line ends before it in the source
  bool wide;       // `{` and `}`: their block takes several lines
} Lexeme;

typedef struct Line {
  int32_t lo, hi;                  // bytes of Format.code
  int32_t comment_lo, comment_hi;  // bytes of the source; a comment behind code
  int32_t indent;
  bool blank;  // an empty line stands before it
} Line;

typedef struct Format {
  PmArena *arena;
  const char *text;
  Lexeme *items;
  int32_t n, cap;
  PmBuf code;
  Line *lines;
  int32_t n_lines, cap_lines;
  // where the walk stands
  int32_t open[PM_MAX_NESTING + 1];  // the lexemes of the brackets that are open
  int32_t depth;
  int32_t last;  // the newest token written, or -1
  bool unary;    // it is a sign
  bool in_mesh;  // `mesh a=2, b=4`
  bool in_pin;   // `pin("w", [a/x+y, b])`
} Format;

static void add_lexeme(Format *f, Lexeme x) {
  f->items = pm_grow(f->arena, f->items, f->n, &f->cap, sizeof *f->items);
  f->items[f->n++] = x;
}

// What stands between two tokens: white space, line ends and comments.
static int32_t add_gap(Format *f, int32_t lo, int32_t hi) {
  int32_t breaks = 0;
  for (int32_t i = lo; i < hi; i++) {
    if (f->text[i] == '\n') breaks++;
    if (f->text[i] != '#') continue;
    int32_t end = i;
    while (end < hi && f->text[end] != '\n') end++;
    int32_t trimmed = end;
    while (strchr(" \t\r", f->text[trimmed - 1])) trimmed--;
    add_lexeme(f, (Lexeme){.kind = COMMENT, .lo = i, .hi = trimmed, .breaks = breaks});
    breaks = 0;
    i = end - 1;
  }
  return breaks;
}

static void read_lexemes(Format *f, PmInterner *names, const PmSources *sources, PmDiags *diags, int32_t file) {
  PmText none;
  PmParse p = {.arena = f->arena, .names = names, .sources = sources, .diags = diags, .out = &none, .file = file};
  const PmSourceFile *source = &sources->files[file];
  if (!pm_scan_begin(&p, source)) pm_memory_exhausted((size_t)source->len, 0);
  int32_t at = 0;
  for (;;) {
    union PmSemantic value;
    PmSpan span;
    int token = pm_scan_token(&value, &span, &p);
    if (token == PM_NEWLINE) continue;
    if (token <= 0) break;
    int32_t breaks = add_gap(f, at, span.lo);
    add_lexeme(f, (Lexeme){.kind = token, .lo = span.lo, .hi = span.hi, .breaks = breaks});
    at = span.hi;
  }
  add_gap(f, at, source->len);
  pm_scan_end(&p);
}

// Marks the braces of blocks that take several lines.
static void mark_wide(Format *f) {
  int32_t depth = 0;
  for (int32_t i = 0; i < f->n; i++) {
    Lexeme *x = &f->items[i];
    if (x->kind == '{') f->open[depth++] = i;
    if (x->kind != '}') continue;
    Lexeme *first = &f->items[f->open[--depth]];
    first->wide = x->wide = memchr(f->text + first->lo, '\n', (size_t)(x->lo - first->lo)) != NULL;
  }
}

static bool ends_operand(int kind) {
  return kind == IDENT || kind == NUMBER || kind == STRING || kind == ')' || kind == ']';
}

static int last_kind(const Format *f) { return f->last < 0 ? '{' : f->items[f->last].kind; }
static int innermost(const Format *f) { return f->depth > 0 ? f->items[f->open[f->depth - 1]].kind : '{'; }
static bool in_parens(const Format *f) { return innermost(f) != '{'; }

// Whether what is written so far is a whole number of statements.
static bool between_statements(const Format *f) {
  int last = last_kind(f);
  return !in_parens(f) && (ends_operand(last) || last == '{' || last == '}' || last == SEMI);
}

static bool spaced(const Format *f, const Lexeme *x) {
  int last = last_kind(f), kind = x->kind;
  if (kind == ',' || kind == SEMI || kind == ')' || kind == ']' || kind == ':' || kind == '.') return false;
  if (last == '(' || last == '[' || last == '.' || f->unary) return false;
  if (kind == '=' || last == '=') return innermost(f) != '(' && !(f->in_mesh && !in_parens(f));
  if (last == ':') return !in_parens(f);
  if (f->in_pin && (kind == '/' || kind == '+' || last == '/' || last == '+')) return false;
  if (kind == '(' || kind == '[') return !ends_operand(last);
  return true;
}

static bool followed_by_break(const Format *f, int32_t i) {
  return i + 1 == f->n || f->items[i + 1].breaks > 0 || f->items[i + 1].kind == COMMENT;
}

// A `;` that a line end or a `}` stands for as well.
static bool is_idle(const Format *f, int32_t i) {
  return f->items[i].kind == SEMI && (followed_by_break(f, i) || f->items[i + 1].kind == '}');
}

static bool breaks_before(const Format *f, int32_t i) {
  const Lexeme *x = &f->items[i];
  if (x->breaks > 0 || i == 0 || f->items[i - 1].kind == COMMENT) return true;
  if (x->kind == COMMENT) return false;
  const Lexeme *before = &f->items[i - 1];
  if (x->kind == '}' && x->wide) return true;
  if (before->kind == '{') return before->wide;
  return before->kind == '}' && (f->depth == 0 || f->items[f->open[f->depth - 1]].wide);
}

static int32_t braces_open(const Format *f) {
  int32_t n = 0;
  for (int32_t i = 0; i < f->depth; i++) n += f->items[f->open[i]].kind == '{';
  return n;
}

static void begin_line(Format *f, const Lexeme *x, bool blank) {
  int32_t indent = braces_open(f) * INDENT;
  if (x->kind == '}') indent -= INDENT;
  bool closes = (x->kind == ')' || x->kind == ']') && f->depth > 0 &&
                (f->depth == 1 || f->items[f->open[f->depth - 2]].kind == '{');
  if (!between_statements(f) && !closes) indent += CONTINUED;
  f->lines = pm_grow(f->arena, f->lines, f->n_lines, &f->cap_lines, sizeof *f->lines);
  int32_t lo = (int32_t)f->code.len;
  for (int32_t i = 0; i < indent; i++) pm_buf_putc(&f->code, ' ');
  f->lines[f->n_lines++] = (Line){.lo = lo, .hi = (int32_t)f->code.len, .indent = indent, .blank = blank};
}

static bool calls(const Format *f, int32_t i) { return i + 1 < f->n && f->items[i + 1].kind == '('; }

static void track(Format *f, int32_t i, bool first_of_statement) {
  int kind = f->items[i].kind, last = last_kind(f);
  if (first_of_statement) {
    const Lexeme *x = &f->items[i];
    f->in_mesh = kind == KW_MESH;
    // Elsewhere a statement that begins with a call would be an error.
    f->in_pin = kind == IDENT && x->hi - x->lo == 3 && memcmp(f->text + x->lo, "pin", 3) == 0 && calls(f, i);
  }
  f->unary = kind == '-' && (f->last < 0 || !ends_operand(last));
  if (kind == '(' || kind == '[' || kind == '{') f->open[f->depth++] = i;
  if (kind == ')' || kind == ']' || kind == '}') f->depth--;
  f->last = i;
}

static void put_lexeme(Format *f, int32_t i) {
  const Lexeme *x = &f->items[i];
  bool starts = breaks_before(f, i);
  if (starts) {
    bool after_open = f->n_lines == 0 || (i > 0 && f->items[i - 1].kind == '{');
    begin_line(f, x, x->breaks > 1 && !after_open && x->kind != '}' && !in_parens(f));
  }
  Line *line = &f->lines[f->n_lines - 1];
  if (x->kind == COMMENT && !starts) {
    line->comment_lo = x->lo;
    line->comment_hi = x->hi;
    return;
  }
  int last = last_kind(f);
  if (!starts && spaced(f, x)) pm_buf_putc(&f->code, ' ');
  pm_buf_put(&f->code, f->text + x->lo, (size_t)(x->hi - x->lo));
  line->hi = (int32_t)f->code.len;
  if (x->kind == COMMENT) return;
  track(f, i, last == SEMI || last == '{' || last == '}' || (starts && between_statements(f)));
}

static int32_t columns(const char *text, int32_t lo, int32_t hi) {
  int32_t n = 0;
  for (int32_t i = lo; i < hi; n++) {
    int len = pm_utf8_len(text + i);
    i += len ? len : 1;
  }
  return n;
}

// The column of the comments of lines [first, end), or -1 where a shared one would push a comment past the margin.
static int32_t comment_column(const Format *f, int32_t first, int32_t end) {
  int32_t column = 0, widest = 0;
  for (int32_t i = first; i < end; i++) {
    const Line *line = &f->lines[i];
    int32_t code = columns(f->code.data, line->lo, line->hi) + COMMENT_GAP;
    int32_t comment = columns(f->text, line->comment_lo, line->comment_hi);
    if (code > column) column = code;
    if (comment > widest) widest = comment;
  }
  return column + widest <= MAX_COLUMN ? column : -1;
}

static void put_line(const Format *f, const Line *line, int32_t column, PmBuf *out) {
  if (line->blank) pm_buf_putc(out, '\n');
  pm_buf_put(out, f->code.data + line->lo, (size_t)(line->hi - line->lo));
  if (line->comment_hi > 0) {
    int32_t at = columns(f->code.data, line->lo, line->hi);
    int32_t gap = column < 0 ? COMMENT_GAP : column - at;
    for (int32_t i = 0; i < gap; i++) pm_buf_putc(out, ' ');
    pm_buf_put(out, f->text + line->comment_lo, (size_t)(line->comment_hi - line->comment_lo));
  }
  pm_buf_putc(out, '\n');
}

// Whether the comment of line `i` shares the column of those from line `first` on.
static bool is_neighbour(const Format *f, int32_t first, int32_t i) {
  const Line *line = &f->lines[i];
  return line->comment_hi > 0 && (i == first || (!line->blank && line->indent == f->lines[first].indent));
}

static void put_lines(const Format *f, PmBuf *out) {
  for (int32_t i = 0; i < f->n_lines;) {
    int32_t end = i;
    while (end < f->n_lines && is_neighbour(f, i, end)) end++;
    int32_t column = comment_column(f, i, end);
    if (end == i) end++;
    for (; i < end; i++) put_line(f, &f->lines[i], column, out);
  }
}

bool pm_format(PmArena *arena, PmInterner *names, const PmSources *sources, PmDiags *diags, int32_t file, bool is_plan,
               PmBuf *out) {
  PmText tree;
  if (!pm_parse(arena, names, sources, diags, file, is_plan ? PM_TEXT_PLAN : PM_TEXT_FILE, &tree)) return false;
  Format f = {.arena = arena, .text = sources->files[file].text, .last = -1};
  pm_buf_init(&f.code);
  read_lexemes(&f, names, sources, diags, file);
  mark_wide(&f);
  for (int32_t i = 0; i < f.n; i++) {
    if (!is_idle(&f, i)) put_lexeme(&f, i);
  }
  put_lines(&f, out);
  pm_buf_deinit(&f.code);
  return true;
}
