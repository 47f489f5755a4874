#include "base/intern.h"

#include <stdarg.h>
#include <string.h>

#include "base/buf.h"
#include "base/hash.h"

void pm_interner_init(PmInterner *in, PmArena *arena) { *in = (PmInterner){.arena = arena}; }

// The slot that holds the text, or the free slot where it belongs. There is always a free one.
static int32_t find_slot(const PmInterner *in, const char *s, size_t n) {
  uint64_t mask = (uint64_t)in->n_slots - 1;
  uint64_t at = pm_hash64(s, n, 0) & mask;
  while (in->slots[at] && (strncmp(in->slots[at], s, n) != 0 || in->slots[at][n])) at = (at + 1) & mask;
  return (int32_t)at;
}

static void widen(PmInterner *in) {
  PmInterner old = *in;
  if (old.n_slots > INT32_MAX / 2) pm_memory_exhausted(SIZE_MAX, in->arena->limit);
  in->n_slots = old.n_slots ? old.n_slots * 2 : 64;
  in->slots = PM_NEW_N(in->arena, const char *, in->n_slots);
  for (int32_t i = 0; i < old.n_slots; i++) {
    const char *s = old.slots[i];
    if (s) in->slots[find_slot(in, s, strlen(s))] = s;
  }
}

const char *pm_intern(PmInterner *in, const char *s) { return pm_intern_n(in, s, strlen(s)); }

const char *pm_intern_n(PmInterner *in, const char *s, size_t n) {
  n = strnlen(s, n);
  if (in->n_used >= in->n_slots / 4 * 3) widen(in);
  int32_t at = find_slot(in, s, n);
  if (!in->slots[at]) {
    in->slots[at] = pm_arena_strndup(in->arena, s, n);
    in->n_used++;
  }
  return in->slots[at];
}

const char *pm_intern_printf(PmInterner *in, const char *fmt, ...) {
  PmBuf text;
  pm_buf_init(&text);
  va_list ap;
  va_start(ap, fmt);
  pm_buf_vprintf(&text, fmt, ap);
  va_end(ap);
  const char *s = pm_intern(in, pm_buf_str(&text));
  pm_buf_deinit(&text);
  return s;
}

const char *pm_intern_find(const PmInterner *in, const char *s) {
  return in->n_slots ? in->slots[find_slot(in, s, strlen(s))] : NULL;
}
