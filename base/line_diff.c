#include "base/line_diff.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/hash.h"

#define CONTEXT 3       // equal lines printed before and after a change
#define MAX_EDITS 4096  // of one search from both ends; past that a stretch counts as replaced

typedef struct Line {
  const char *at;
  size_t len;
  uint64_t hash;
} Line;

typedef struct Text {
  Line *lines;
  int32_t n;
  bool *changed;  // by line: it is in this text only
} Text;

typedef struct Diff {
  Text a, b;
  int32_t *forward, *backward;  // furthest x on each diagonal, by diagonal + MAX_EDITS + 1
} Diff;

static Text text_of(PmArena *scratch, const char *s, size_t len) {
  Text t = {0};
  int64_t n = 0;
  for (size_t i = 0; i < len; i++) n += s[i] == '\n' || i + 1 == len;
  t.lines = PM_NEW_N(scratch, Line, n + 1);
  t.changed = PM_NEW_N(scratch, bool, n + 1);
  for (size_t i = 0; i < len;) {
    const char *end = memchr(s + i, '\n', len - i);
    const size_t line = end ? (size_t)(end - s) - i : len - i;
    t.lines[t.n++] = (Line){s + i, line, pm_hash64(s + i, line, 0)};
    i += line + 1;
  }
  return t;
}

static bool same(const Diff *d, int32_t x, int32_t y) {
  const Line *a = &d->a.lines[x], *b = &d->b.lines[y];
  return a->hash == b->hash && a->len == b->len && memcmp(a->at, b->at, a->len) == 0;
}

// A box of lines [x0, x1) of a and [y0, y1) of b, or a point of one.
typedef struct Box {
  int32_t x0, y0, x1, y1;
} Box;

// The furthest x on diagonal k = x - y that one edit more reaches from the diagonals beside it, within n by m lines;
// -1: none.
static int32_t reach(const int32_t *v, int32_t k, int32_t n, int32_t m) {
  const int32_t down = v[k + 1] < 0 || v[k + 1] - k > m ? -1 : v[k + 1];
  const int32_t right = v[k - 1] < 0 || v[k - 1] == n ? -1 : v[k - 1] + 1;
  return down > right ? down : right;
}

// A point on a shortest way from the box's first corner to its last, looked for from both ends by turns; false when the
// search is given up.
static bool middle(Diff *d, Box box, int32_t *out_x, int32_t *out_y) {
  const int32_t n = box.x1 - box.x0, m = box.y1 - box.y0, delta = n - m;
  const bool odd = delta % 2 != 0;
  int32_t *f = d->forward + MAX_EDITS + 1, *r = d->backward + MAX_EDITS + 1;
  f[1] = r[1] = 0;
  for (int32_t edits = 0; edits < MAX_EDITS; edits++) {
    f[-edits - 1] = r[-edits - 1] = -1;
    if (edits > 0) f[edits + 1] = r[edits + 1] = -1;
    for (int32_t k = -edits; k <= edits; k += 2) {
      int32_t x = f[k] = reach(f, k, n, m);
      if (x < 0) continue;
      while (x < n && x - k < m && same(d, box.x0 + x, box.y0 + x - k)) x++;
      f[k] = x;
      const int32_t back = delta - k;
      if (!odd || back <= -edits || back >= edits || r[back] < 0 || x + r[back] < n) continue;
      *out_x = box.x0 + x;
      *out_y = box.y0 + x - k;
      return true;
    }
    for (int32_t k = -edits; k <= edits; k += 2) {
      int32_t x = r[k] = reach(r, k, n, m);
      if (x < 0) continue;
      while (x < n && x - k < m && same(d, box.x1 - 1 - x, box.y1 - 1 - (x - k))) x++;
      r[k] = x;
      const int32_t ahead = delta - k;
      if (odd || ahead < -edits || ahead > edits || f[ahead] < 0 || x + f[ahead] < n) continue;
      *out_x = box.x1 - x;
      *out_y = box.y1 - (x - k);
      return true;
    }
  }
  return false;
}

static bool inside(Box box, int32_t x, int32_t y) {
  const bool in = x >= box.x0 && x <= box.x1 && y >= box.y0 && y <= box.y1;
  return in && !(x == box.x0 && y == box.y0) && !(x == box.x1 && y == box.y1);
}

// Marks the lines of the box that the other text lacks. The boxes that are left stand on a stack, and each point cuts
// its box in two that are smaller.
static void mark(PmArena *scratch, Diff *d) {
  Box *stack = NULL;
  int32_t depth = 0, cap = 0;
  stack = pm_grow(scratch, stack, depth, &cap, sizeof *stack);
  stack[depth++] = (Box){0, 0, d->a.n, d->b.n};
  while (depth > 0) {
    Box box = stack[--depth];
    while (box.x0 < box.x1 && box.y0 < box.y1 && same(d, box.x0, box.y0)) box.x0++, box.y0++;
    while (box.x0 < box.x1 && box.y0 < box.y1 && same(d, box.x1 - 1, box.y1 - 1)) box.x1--, box.y1--;
    int32_t x, y;
    const bool cut = box.x0 < box.x1 && box.y0 < box.y1 && middle(d, box, &x, &y) && inside(box, x, y);
    if (!cut) {
      for (int32_t i = box.x0; i < box.x1; i++) d->a.changed[i] = true;
      for (int32_t i = box.y0; i < box.y1; i++) d->b.changed[i] = true;
      continue;
    }
    stack = pm_grow(scratch, stack, depth + 1, &cap, sizeof *stack);
    stack[depth++] = (Box){box.x0, box.y0, x, y};
    stack[depth++] = (Box){x, y, box.x1, box.y1};
  }
}

static void put(PmBuf *out, char sign, const Line *l) {
  pm_buf_putc(out, sign);
  pm_buf_put(out, l->at, l->len);
  pm_buf_putc(out, '\n');
}

// One hunk from the lines (x, y) on: it ends where more than two contexts of equal lines follow. Returns where.
static Box hunk(const Diff *d, int32_t x, int32_t y) {
  Box h = {x, y, x, y};
  int32_t equal = 0;
  while (h.x1 < d->a.n || h.y1 < d->b.n) {
    if (h.x1 < d->a.n && d->a.changed[h.x1]) {
      h.x1++, equal = 0;
    } else if (h.y1 < d->b.n && d->b.changed[h.y1]) {
      h.y1++, equal = 0;
    } else {
      if (equal == 2 * CONTEXT) break;
      h.x1++, h.y1++, equal++;
    }
  }
  const int32_t extra = equal > CONTEXT ? equal - CONTEXT : 0;
  return (Box){h.x0, h.y0, h.x1 - extra, h.y1 - extra};
}

static void print_hunk(const Diff *d, Box h, PmBuf *out) {
  pm_buf_printf(out, "@@ -%d,%d +%d,%d @@\n", h.x1 > h.x0 ? h.x0 + 1 : h.x0, h.x1 - h.x0, h.y1 > h.y0 ? h.y0 + 1 : h.y0,
                h.y1 - h.y0);
  for (int32_t x = h.x0, y = h.y0; x < h.x1 || y < h.y1;) {
    if (x < h.x1 && d->a.changed[x]) {
      put(out, '-', &d->a.lines[x++]);
    } else if (y < h.y1 && d->b.changed[y]) {
      put(out, '+', &d->b.lines[y++]);
    } else {
      put(out, ' ', &d->a.lines[x++]);
      y++;
    }
  }
}

void pm_line_diff(PmArena *scratch, const char *a, size_t a_len, const char *b, size_t b_len, PmBuf *out) {
  Diff d = {.a = text_of(scratch, a, a_len), .b = text_of(scratch, b, b_len)};
  d.forward = PM_NEW_N(scratch, int32_t, 2 * MAX_EDITS + 3);
  d.backward = PM_NEW_N(scratch, int32_t, 2 * MAX_EDITS + 3);
  mark(scratch, &d);
  for (int32_t x = 0, y = 0; x < d.a.n || y < d.b.n;) {
    const bool differs = (x < d.a.n && d.a.changed[x]) || (y < d.b.n && d.b.changed[y]);
    if (!differs) {
      x++, y++;
      continue;
    }
    // The equal lines before: no hunk has them, as the last one would have gone on to here.
    int32_t before = 0;
    while (before < CONTEXT && x - before > 0 && y - before > 0 && !d.a.changed[x - before - 1] &&
           !d.b.changed[y - before - 1])
      before++;
    const Box h = hunk(&d, x - before, y - before);
    print_hunk(&d, h, out);
    x = h.x1;
    y = h.y1;
  }
}
