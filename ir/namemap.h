// A map from interned names to ids. Lookup only: its order, which depends on addresses, is never walked.
#ifndef PM_IR_NAMEMAP_H
#define PM_IR_NAMEMAP_H

#include <stdbool.h>

#include "base/arena.h"

typedef struct PmNameSlot {
  const char *name;  // NULL: free
  int32_t id;
} PmNameSlot;

typedef struct PmNameMap {
  PmArena *arena;
  PmNameSlot *slots;
  int32_t n_slots, n_used;  // n_slots is a power of two
} PmNameMap;

void pm_name_map_init(PmNameMap *map, PmArena *arena);
PmNameMap pm_name_map_copy(const PmNameMap *map, PmArena *arena);
bool pm_name_map_add(PmNameMap *map, const char *name, int32_t id);  // false when the name is there already
int32_t pm_name_map_get(const PmNameMap *map, const char *name);     // -1 when it is not

#endif
