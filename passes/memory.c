#include "passes/memory.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/checked.h"

typedef struct Block {
  int64_t bytes;  // aligned
  int64_t offset;
  int32_t first, last, id;
  int64_t key[3];  // larger first
} Block;

static int by_key(const void *a, const void *b) {
  const Block *x = a, *y = b;
  for (int32_t i = 0; i < 3; i++)
    if (x->key[i] != y->key[i]) return x->key[i] > y->key[i] ? -1 : 1;
  return (x->id > y->id) - (x->id < y->id);
}

enum { ORDERS = 8 };

static void set_key(Block *b, int32_t order) {
  const int64_t length = (int64_t)b->last - b->first + 1;
  int64_t area;
  if (!pm_mul_i64(b->bytes, length, &area)) area = INT64_MAX;
  const int64_t keys[ORDERS][3] = {
      {b->bytes, length, -b->first}, {area, b->bytes, -b->first},   {length, b->bytes, -b->first},
      {-b->first, b->bytes, length}, {-b->last, b->bytes, length},  {b->bytes, -b->first, length},
      {b->last, b->bytes, length},   {-b->first, length, b->bytes},
  };
  memcpy(b->key, keys[order], sizeof b->key);
}

// The lowest gap that holds the block among those that live with it; `placed` is sorted by offset.
static int64_t first_fit(Block *const *placed, int32_t n, const Block *b) {
  int64_t at = 0;
  for (int32_t i = 0; i < n; i++) {
    const Block *x = placed[i];
    if (x->last < b->first || x->first > b->last) continue;
    if (x->offset - at >= b->bytes) return at;
    if (x->offset + x->bytes > at) at = x->offset + x->bytes;
  }
  return at;
}

static int64_t place(Block *blocks, Block **placed, int32_t n) {
  int64_t peak = 0;
  for (int32_t i = 0; i < n; i++) {
    Block *b = &blocks[i];
    b->offset = first_fit(placed, i, b);
    int64_t end;
    PM_ASSERT(pm_add_i64(b->offset, b->bytes, &end), "an arena of more than 2^63 bytes");
    if (end > peak) peak = end;
    int32_t lo = 0, hi = i;
    while (lo < hi) {
      const int32_t mid = lo + (hi - lo) / 2;
      if (placed[mid]->offset <= b->offset)
        lo = mid + 1;
      else
        hi = mid;
    }
    memmove(&placed[lo + 1], &placed[lo], (size_t)(i - lo) * sizeof(Block *));
    placed[lo] = b;
  }
  return peak;
}

static int64_t aligned(int64_t bytes, int64_t align) {
  int64_t v;
  PM_ASSERT(bytes >= 0 && pm_align_i64(bytes, align, &v), "a live range of %lld bytes", (long long)bytes);
  return v;
}

int64_t pm_memory_bound(PmArena *scratch, const PmLive *live, int32_t n, int64_t align) {
  int32_t end = 0;
  for (int32_t i = 0; i < n; i++)
    if (live[i].last >= end) end = live[i].last + 1;
  int64_t *change = PM_NEW_N(scratch, int64_t, (size_t)end + 1), sum = 0, most = 0;
  for (int32_t i = 0; i < n; i++) {
    PM_ASSERT(live[i].first >= 0 && live[i].first <= live[i].last, "live range %d is empty", i);
    change[live[i].first] += aligned(live[i].bytes, align);
    change[live[i].last + 1] -= aligned(live[i].bytes, align);
  }
  for (int32_t i = 0; i < end; i++) {
    sum += change[i];
    if (sum > most) most = sum;
  }
  return most;
}

int64_t pm_memory_plan(PmArena *scratch, PmLive *live, int32_t n, int64_t align) {
  const int64_t bound = pm_memory_bound(scratch, live, n, align);
  Block *blocks = PM_NEW_N(scratch, Block, (size_t)n + 1);
  Block **placed = PM_NEW_N(scratch, Block *, (size_t)n + 1);
  int64_t best = INT64_MAX;
  for (int32_t order = 0; order < ORDERS && best > bound; order++) {
    for (int32_t i = 0; i < n; i++) {
      blocks[i] =
          (Block){.bytes = aligned(live[i].bytes, align), .first = live[i].first, .last = live[i].last, .id = i};
      set_key(&blocks[i], order);
    }
    qsort(blocks, (size_t)n, sizeof *blocks, by_key);
    const int64_t peak = place(blocks, placed, n);
    if (peak >= best) continue;
    best = peak;
    for (int32_t i = 0; i < n; i++) live[blocks[i].id].offset = blocks[i].offset;
  }
  return n ? best : 0;
}
