// Interned strings: equal text has one address, so names compare with ==. Addresses never decide an order.
// The arena owns the text; the interner may be used by one thread at a time.
#ifndef PM_BASE_INTERN_H
#define PM_BASE_INTERN_H

#include "base/arena.h"

typedef struct PmInterner {
  PmArena *arena;
  const char **slots;
  int32_t n_slots, n_used;
} PmInterner;

void pm_interner_init(PmInterner *in, PmArena *arena);
const char *pm_intern(PmInterner *in, const char *s);
const char *pm_intern_n(PmInterner *in, const char *s, size_t n);
const char *pm_intern_printf(PmInterner *in, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
// The interned text equal to `s`, or NULL when it was never interned.
const char *pm_intern_find(const PmInterner *in, const char *s);

#endif
