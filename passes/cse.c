// Common subexpressions by value numbering: two nodes with the same op, attributes, operands and result types are one.
// Every op is a pure function of these (collectives included: all ranks run the same program), calls too.
#include <string.h>

#include "base/hash.h"
#include "passes/simplify.h"

void pm_cse_init(PmCse *c, PmArena *arena) {
  *c = (PmCse){.arena = arena, .n_slots = 64};
  c->slots = PM_NEW_N(arena, PmCseEntry, c->n_slots);
  pm_buf_init(&c->key);
}

void pm_cse_deinit(PmCse *c) { pm_buf_deinit(&c->key); }

// Keys are put together from words, one call a group of them.
static void put_type(PmBuf *b, const PmType *t) {
  int64_t w[4 + PM_MAX_RANK * (3 + PM_MAX_SPLIT) + 2 * PM_MAX_PARTIAL];
  size_t n = 0;
  w[n++] = t->dtype;
  w[n++] = t->index_of;
  w[n++] = t->rank;
  for (int32_t i = 0; i < t->rank; i++) {
    const PmDim *d = &t->dims[i];
    w[n++] = d->axis;
    w[n++] = d->split.n;
    w[n++] = pm_split_is_zigzag(&d->split);
    for (int32_t k = 0; k < d->split.n; k++) w[n++] = d->split.mesh[k];
  }
  w[n++] = t->n_partial;
  for (int32_t i = 0; i < t->n_partial; i++) {
    w[n++] = t->partial[i].mesh;
    w[n++] = t->partial[i].kind;
  }
  pm_buf_put(b, w, n * sizeof *w);
}

// Field by field: padding bytes of a struct are not part of its value. The number by its bits, so that -0 is not 0.
static void put_attr(PmBuf *b, const PmAttr *a) {
  const int64_t w[] = {a->index,   a->fn,      a->kind,   a->callee, a->n_carry, a->n_inv,
                       a->reverse, a->bounded, a->zigzag, a->n_mesh, a->n_axes,  a->n_to};
  pm_buf_put(b, w, sizeof w);
  pm_buf_put(b, &a->number, sizeof a->number);
  pm_buf_put(b, a->mesh, a->n_mesh * sizeof *a->mesh);
  pm_buf_put(b, a->axes, a->n_axes * sizeof *a->axes);
  pm_buf_put(b, a->to, a->n_to * sizeof *a->to);
}

static PmCseEntry *find_slot(const PmCse *c, uint64_t hash, const char *key, size_t len) {
  for (uint64_t at = hash;; at++) {
    PmCseEntry *e = &c->slots[at & (uint64_t)(c->n_slots - 1)];
    if (!e->key || (e->hash == hash && e->len == len && memcmp(e->key, key, len) == 0)) return e;
  }
}

PmValueId pm_cse_find(PmCse *c, PmOp op, const PmAttr *attr, const PmValueId *in, int32_t n_in, const PmType *types,
                      int32_t n_out) {
  pm_buf_clear(&c->key);
  const int64_t head[] = {op, n_in};
  pm_buf_put(&c->key, head, sizeof head);
  put_attr(&c->key, attr);
  if (n_in > 0) pm_buf_put(&c->key, in, (size_t)n_in * sizeof *in);
  for (int32_t i = 0; i < n_out; i++) put_type(&c->key, &types[i]);
  c->hash = pm_hash64(c->key.data, c->key.len, 0);
  const PmCseEntry *e = find_slot(c, c->hash, c->key.data, c->key.len);
  return e->key ? e->first : PM_NONE;
}

void pm_cse_add(PmCse *c, PmValueId first) {
  if (2 * (c->n_used + 1) > c->n_slots) {
    PmCseEntry *old = c->slots;
    int32_t n_old = c->n_slots;
    c->n_slots *= 2;
    c->slots = PM_NEW_N(c->arena, PmCseEntry, c->n_slots);
    for (int32_t i = 0; i < n_old; i++) {
      if (old[i].key) *find_slot(c, old[i].hash, old[i].key, old[i].len) = old[i];
    }
  }
  PmCseEntry *e = find_slot(c, c->hash, c->key.data, c->key.len);
  char *key = pm_arena_alloc(c->arena, c->key.len);
  memcpy(key, c->key.data, c->key.len);
  *e = (PmCseEntry){c->hash, key, c->key.len, first};
  c->n_used++;
}
