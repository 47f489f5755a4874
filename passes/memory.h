// Planning one arena: places for live ranges so that no two that live together overlap.
#ifndef PM_PASSES_MEMORY_H
#define PM_PASSES_MEMORY_H

#include <stdint.h>

#include "base/arena.h"

typedef struct PmLive {
  int64_t bytes;
  int32_t first, last;  // steps, both included
  int64_t offset;       // out: a multiple of the alignment
} PmLive;

// Places n ranges and returns the peak, aligned. Greedy: eight orders, each first fit, the best one kept (ties: the
// earlier order); what stops at the lower bound stops the search. Deterministic; O(n^2) an order.
int64_t pm_memory_plan(PmArena *scratch, PmLive *live, int32_t n, int64_t align);
// Largest sum of aligned bytes over the steps: no plan has a lower peak.
int64_t pm_memory_bound(PmArena *scratch, const PmLive *live, int32_t n, int64_t align);

#endif
