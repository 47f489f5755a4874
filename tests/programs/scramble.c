// A program under another layout. Its lines end statements, so that only there a `;` may stand instead; inside round
// and square brackets, and behind operators, any white space is as good as another.
#include <ctype.h>
#include <string.h>

#include "base/philox.h"
#include "gen.h"

typedef struct Scramble {
  uint64_t key, at;
  PmBuf *out;
  int depth;  // of round and square brackets
  char last;  // of the token before
  bool was_word;
} Scramble;

static uint32_t below(Scramble *s, uint32_t n) { return pm_random_u32(s->key, 0, s->at++) % n; }

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_' || c == '.' || c == '"'; }

static void space(Scramble *s, bool needed) {
  static const char *const texts[] = {"", " ", "  ", "\t", "   "};
  pm_buf_puts(s->out, texts[needed ? 1 + below(s, 4) : below(s, 5)]);
}

static void new_line(Scramble *s) {
  static const char *const comments[] = {"", "", "# a remark", "#", "  # \"quoted\" { ( [ ;", "\t# caf\xc3\xa9"};
  space(s, true);
  pm_buf_puts(s->out, comments[below(s, 6)]);
  for (uint32_t n = 1 + below(s, 3); n > 0; n--) pm_buf_putc(s->out, '\n');
}

static size_t token_length(const char *at) {
  size_t n = 1;
  if (*at == '"') {
    while (at[n] != '"') n++;
    return n + 1;
  }
  if (isalpha((unsigned char)*at) || *at == '_') {
    while (isalnum((unsigned char)at[n]) || at[n] == '_') n++;
    return n;
  }
  if (isdigit((unsigned char)*at) || (*at == '.' && isdigit((unsigned char)at[1]))) {
    while (isalnum((unsigned char)at[n]) || at[n] == '.' || (strchr("+-", at[n]) && at[n - 1] == 'e')) n++;
    return n;
  }
  static const char *const twos[] = {"->", "+=", "**", "==", "!=", "<=", ">="};
  for (int i = 0; i < 7; i++) {
    if (strncmp(at, twos[i], 2) == 0) return 2;
  }
  return 1;
}

static bool ends_statement(const Scramble *s) {
  return s->depth == 0 && (s->was_word || s->last == ')' || s->last == ']');
}

static void end_line(Scramble *s) {
  if (!ends_statement(s)) {
    // Behind a brace: the line may go on.
    if (below(s, 2)) new_line(s);
    return;
  }
  switch (below(s, 4)) {
    case 0:
      space(s, false);
      pm_buf_putc(s->out, ';');
      space(s, false);
      break;
    case 1:
      pm_buf_puts(s->out, " ;");
      new_line(s);
      break;
    default:
      new_line(s);
  }
}

void gen_scramble(uint64_t seed, const char *text, PmBuf *out) {
  Scramble s = {.key = pm_random_key(seed, "layout"), .out = out};
  for (const char *at = text; *at;) {
    if (*at == '#') {
      size_t n = strcspn(at, "\n");
      pm_buf_put(out, at, n + 1);
      at += n + 1;
    } else if (*at == '\n') {
      end_line(&s);
      s.was_word = false;
      s.last = '\n';
      at++;
    } else if (*at == ' ') {
      at++;
    } else {
      size_t n = token_length(at);
      bool word = is_word(*at) && !(n == 1 && *at == '.');
      bool may_break = s.depth > 0 || (s.last && strchr("+*/%<>=~,:-{", s.last) && !s.was_word);
      if (may_break && below(&s, 12) == 0) {
        new_line(&s);
      } else {
        space(&s, word && s.was_word);
      }
      pm_buf_put(out, at, n);
      if (*at == '(' || *at == '[') s.depth++;
      if (*at == ')' || *at == ']') s.depth--;
      s.was_word = word;
      s.last = at[n - 1];
      at += n;
    }
  }
}
