// Slots of a dispatch, counted on one thread: two passes over the positions' numbers, which are few beside their rows.
#include <stdio.h>
#include <string.h>

#include "runtime/devices/host.h"

static void count_positions(const PmSlots *s, const int32_t *idx, int32_t *counts) {
  memset(counts, 0, (size_t)s->experts * sizeof *counts);
  for (int64_t i = 0; i < s->count; i++)
    if (idx[i] >= 0 && idx[i] < s->experts) counts[idx[i]]++;
}

typedef struct Turn {
  int64_t layer, layers, micro, micros;
} Turn;

// What number the step is among those of its source place: the layer, for a dispatch in a repeat. All layers of one
// micro-batch come before those of the next.
static Turn find_turn(const PmProgram *p, const PmStep *s) {
  int64_t nth = 0, all = 0;
  for (int32_t e = 0; e < PM_ENTRY_COUNT; e++) {
    const PmEntry *entry = &p->entries[e];
    if (entry->n_steps == 0 || s < entry->steps || s >= entry->steps + entry->n_steps) continue;
    for (int32_t i = 0; i < entry->n_steps; i++) {
      const PmStep *other = &entry->steps[i];
      if (other->kind != PM_STEP_SLOTS || !other->u.slots->bounded || other->loc != s->loc) continue;
      all++;
      if (other < s) nth++;
    }
  }
  const int64_t parts = pm_program_micro_batches(p), micros = all % parts == 0 ? parts : 1, layers = all / micros;
  return (Turn){.layer = nth % layers + 1, .layers = layers, .micro = nth / layers + 1, .micros = micros};
}

static PmStatus *overflow(const PmProgram *p, const PmStep *step, int64_t expert, int64_t need, int64_t all) {
  const PmSlots *s = step->u.slots;
  const PmProgLoc none = {"?", 0, 0}, *loc = step->loc >= 0 ? &p->locs[step->loc] : &none;
  const Turn turn = find_turn(p, step);
  char micro[64] = "";
  if (turn.micros > 1) {
    snprintf(micro, sizeof micro, " of micro-batch %lld of %lld", (long long)turn.micro, (long long)turn.micros);
  }
  return PM_STATUS(
      PM_ERR_LIMIT,
      "%s:%d:%d: %s: in layer %lld of %lld%s element %lld is chosen %lld times, but the bound leaves it %lld "
      "slots; nothing was dropped. `ragged(bound=%.3g)` would hold them, `ragged` holds any number",
      loc->path, loc->line, loc->col, step->op, (long long)turn.layer, (long long)turn.layers, micro, (long long)expert,
      (long long)need, (long long)s->slots, 1.0005 * (double)need * (double)s->experts / (double)all + 0.005);
}

// Every rank sees the same counts, so all stop at this step or none does.
static PmStatus *check_bound(const PmHostDevice *d, const PmStep *step, const int32_t *counts, const int32_t *taken) {
  const PmSlots *s = step->u.slots;
  const int64_t group = pm_program_group(d->p, s->mesh, s->n_mesh);
  int64_t most = 0, expert = 0, all = 0;
  for (int64_t e = 0; e < s->experts; e++) {
    int64_t need = s->n_mesh ? 0 : taken[e];
    for (int64_t g = 0; s->n_mesh && g < group; g++) need += counts[g * s->experts + e];
    all += need;
    if (need <= most) continue;
    most = need;
    expert = e;
  }
  return most > s->slots ? overflow(d->p, step, expert, most, all) : NULL;
}

PmStatus *pm_host_slots(PmDevice *device, const PmStep *step) {
  const PmHostDevice *d = (const PmHostDevice *)device;
  const PmSlots *s = step->u.slots;
  const int32_t *idx = (const int32_t *)(const void *)(device->arena + s->idx.offset);
  const int32_t *counts = (const int32_t *)(const void *)(device->arena + s->counts.offset);
  int32_t *dst = (int32_t *)(void *)(device->arena + s->dst.offset);
  int32_t *taken = (int32_t *)(void *)(device->arena + s->work.offset);
  if (s->counting) {
    count_positions(s, idx, dst);
    return NULL;
  }
  // Places of earlier members saturate: past the last slot they are all alike.
  const int64_t me = pm_program_member(d->p, s->mesh, s->n_mesh, d->rank);
  for (int64_t e = 0; e < s->experts; e++) {
    int64_t before = 0;
    for (int64_t g = 0; g < me; g++) before += counts[g * s->experts + e];
    taken[e] = (int32_t)(before < s->slots ? before : s->slots);
  }
  for (int64_t i = 0; i < s->count; i++) {
    const int64_t e = idx[i];
    if (e < 0 || e >= s->experts) {
      dst[i] = -1;
      continue;
    }
    dst[i] = taken[e] < s->slots ? (int32_t)(e * s->slots + taken[e]) : -1;
    taken[e] += taken[e] < INT32_MAX;
  }
  return s->bounded ? check_bound(d, step, counts, taken) : NULL;
}
