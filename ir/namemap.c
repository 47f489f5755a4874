#include "ir/namemap.h"

#include <stddef.h>

void pm_name_map_init(PmNameMap *map, PmArena *arena) {
  *map = (PmNameMap){.arena = arena, .n_slots = 64};
  map->slots = PM_NEW_N(arena, PmNameSlot, map->n_slots);
}

PmNameMap pm_name_map_copy(const PmNameMap *map, PmArena *arena) {
  PmNameMap copy = *map;
  copy.arena = arena;
  copy.slots = pm_arena_copy(arena, map->slots, map->n_slots, sizeof *map->slots);
  return copy;
}

// The slot that holds `name`, or the free one where it belongs.
static PmNameSlot *find(const PmNameMap *map, const char *name) {
  uint64_t h = (uint64_t)(uintptr_t)name * UINT64_C(0x9e3779b97f4a7c15);
  for (uint32_t i = (uint32_t)(h >> 32);; i++) {
    PmNameSlot *s = &map->slots[i & (uint32_t)(map->n_slots - 1)];
    if (!s->name || s->name == name) return s;
  }
}

static void widen(PmNameMap *map) {
  PmNameMap wider = {.arena = map->arena, .n_slots = map->n_slots * 2, .n_used = map->n_used};
  wider.slots = PM_NEW_N(map->arena, PmNameSlot, wider.n_slots);
  for (int32_t i = 0; i < map->n_slots; i++) {
    if (map->slots[i].name) *find(&wider, map->slots[i].name) = map->slots[i];
  }
  *map = wider;
}

bool pm_name_map_add(PmNameMap *map, const char *name, int32_t id) {
  if (map->n_used * 2 >= map->n_slots) widen(map);
  PmNameSlot *s = find(map, name);
  if (s->name) return false;
  *s = (PmNameSlot){name, id};
  map->n_used++;
  return true;
}

int32_t pm_name_map_get(const PmNameMap *map, const char *name) {
  const PmNameSlot *s = find(map, name);
  return s->name ? s->id : -1;
}
