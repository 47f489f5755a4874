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

static void put_i64(PmBuf *b, int64_t v) { pm_buf_put(b, &v, sizeof v); }

static void put_type(PmBuf *b, const PmType *t) {
  put_i64(b, t->dtype);
  put_i64(b, t->index_of);
  put_i64(b, t->rank);
  for (int32_t i = 0; i < t->rank; i++) {
    const PmDim *d = &t->dims[i];
    put_i64(b, d->axis);
    put_i64(b, d->split.n);
    put_i64(b, pm_split_is_zigzag(&d->split));
    pm_buf_put(b, d->split.mesh, d->split.n);
  }
  put_i64(b, t->n_partial);
  for (int32_t i = 0; i < t->n_partial; i++) {
    put_i64(b, t->partial[i].mesh);
    put_i64(b, t->partial[i].kind);
  }
}

// Field by field: padding bytes of a struct are not part of its value. The number by its bits, so that -0 is not 0.
static void put_attr(PmBuf *b, const PmAttr *a) {
  pm_buf_put(b, &a->number, sizeof a->number);
  put_i64(b, a->index);
  put_i64(b, a->fn);
  put_i64(b, a->kind);
  put_i64(b, a->callee);
  put_i64(b, a->n_carry);
  put_i64(b, a->n_inv);
  put_i64(b, a->reverse);
  put_i64(b, a->bounded);
  put_i64(b, a->zigzag);
  put_i64(b, a->n_mesh);
  pm_buf_put(b, a->mesh, a->n_mesh);
  put_i64(b, a->n_axes);
  for (int32_t i = 0; i < a->n_axes; i++) put_i64(b, a->axes[i]);
  put_i64(b, a->n_to);
  for (int32_t i = 0; i < a->n_to; i++) put_i64(b, a->to[i]);
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
  put_i64(&c->key, op);
  put_attr(&c->key, attr);
  put_i64(&c->key, n_in);
  for (int32_t i = 0; i < n_in; i++) put_i64(&c->key, in[i]);
  for (int32_t i = 0; i < n_out; i++) put_type(&c->key, &types[i]);
  uint64_t hash = pm_hash64(c->key.data, c->key.len, 0);
  const PmCseEntry *e = find_slot(c, hash, c->key.data, c->key.len);
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
  uint64_t hash = pm_hash64(c->key.data, c->key.len, 0);
  PmCseEntry *e = find_slot(c, hash, c->key.data, c->key.len);
  char *key = pm_arena_alloc(c->arena, c->key.len);
  memcpy(key, c->key.data, c->key.len);
  *e = (PmCseEntry){hash, key, c->key.len, first};
  c->n_used++;
}
