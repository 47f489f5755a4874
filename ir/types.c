#include "ir/types.h"

#include <stddef.h>
#include <string.h>

#include "base/assert.h"

static const struct {
  const char *text;
  int64_t bytes;
  bool is_float;
} dtypes[] = {
#define DTYPE(name, text, bytes, is_float) {text, bytes, is_float},
#include "ir/dtypes.def"
};

const char *pm_dtype_text(PmDtype d) {
  PM_ASSERT((unsigned)d < PM_DTYPE_COUNT, "dtype %d", (int)d);
  return dtypes[d].text;
}

int64_t pm_dtype_bytes(PmDtype d) {
  PM_ASSERT((unsigned)d < PM_DTYPE_COUNT, "dtype %d", (int)d);
  return dtypes[d].bytes;
}

bool pm_dtype_is_float(PmDtype d) {
  PM_ASSERT((unsigned)d < PM_DTYPE_COUNT, "dtype %d", (int)d);
  return dtypes[d].is_float;
}

const char *pm_reduce_text(PmReduceKind k) {
  static const char *const names[] = {[PM_SUM] = "sum", [PM_MAX] = "max"};
  PM_ASSERT((unsigned)k < PM_REDUCE_COUNT, "reduction %d", (int)k);
  return names[k];
}

PmType pm_type_scalar(PmDtype d) {
  PmType t;
  memset(&t, 0, sizeof t);
  t.dtype = (uint8_t)d;
  t.index_of = PM_NONE;
  return t;
}

void pm_type_add(PmType *t, PmAxisId axis) {
  PM_ASSERT(t->rank < PM_MAX_RANK, "a type of more than %d axes", PM_MAX_RANK);
  PM_ASSERT(pm_type_find(t, axis) == PM_NONE, "axis %d stands twice", axis);
  t->dims[t->rank++] = (PmDim){.axis = axis};
}

int32_t pm_type_find(const PmType *t, PmAxisId axis) {
  for (int32_t i = 0; i < t->rank; i++) {
    if (t->dims[i].axis == axis) return i;
  }
  return PM_NONE;
}

void pm_type_drop_axis(PmType *t, PmAxisId axis) {
  int32_t at = pm_type_find(t, axis);
  if (at == PM_NONE) return;
  for (int32_t i = at; i + 1 < t->rank; i++) t->dims[i] = t->dims[i + 1];
  t->dims[--t->rank] = (PmDim){0};
}

bool pm_type_same_logical(const PmType *a, const PmType *b) {
  if (a->dtype != b->dtype || a->rank != b->rank || a->index_of != b->index_of) return false;
  for (int32_t i = 0; i < a->rank; i++) {
    if (a->dims[i].axis != b->dims[i].axis) return false;
  }
  return true;
}

bool pm_type_equal(const PmType *a, const PmType *b) {
  if (!pm_type_same_logical(a, b) || a->n_partial != b->n_partial) return false;
  for (int32_t i = 0; i < a->rank; i++) {
    if (!pm_split_equal(&a->dims[i].split, &b->dims[i].split)) return false;
  }
  for (int32_t i = 0; i < a->n_partial; i++) {
    if (a->partial[i].mesh != b->partial[i].mesh || a->partial[i].kind != b->partial[i].kind) return false;
  }
  return true;
}

bool pm_type_is_whole(const PmType *t) {
  for (int32_t i = 0; i < t->rank; i++) {
    if (t->dims[i].split.n) return false;
  }
  return t->n_partial == 0;
}

void pm_type_clear_placement(PmType *t) {
  for (int32_t i = 0; i < t->rank; i++) memset(&t->dims[i].split, 0, sizeof t->dims[i].split);
  memset(t->partial, 0, sizeof t->partial);
  t->n_partial = 0;
}

bool pm_split_equal(const PmSplit *a, const PmSplit *b) {
  return a->n == b->n && memcmp(a->mesh, b->mesh, a->n) == 0 && (a->n == 0 || a->zigzag == b->zigzag);
}

bool pm_split_has(const PmSplit *s, int32_t mesh) {
  for (int32_t i = 0; i < s->n; i++) {
    if (s->mesh[i] == mesh) return true;
  }
  return false;
}

bool pm_split_is_zigzag(const PmSplit *s) { return s->n > 0 && s->zigzag; }

bool pm_split_push(PmSplit *s, int32_t mesh) {
  if (s->n >= PM_MAX_SPLIT) return false;
  if (s->n == 0) s->zigzag = false;
  s->mesh[s->n++] = (uint8_t)mesh;
  return true;
}

bool pm_type_uses_mesh(const PmType *t, int32_t mesh) {
  for (int32_t i = 0; i < t->rank; i++) {
    if (pm_split_has(&t->dims[i].split, mesh)) return true;
  }
  return false;
}

int32_t pm_type_partial_on(const PmType *t, int32_t mesh) {
  for (int32_t i = 0; i < t->n_partial; i++) {
    if (t->partial[i].mesh == mesh) return i;
  }
  return PM_NONE;
}

void pm_type_add_partial(PmType *t, int32_t mesh, PmReduceKind kind) {
  PM_ASSERT(t->n_partial < PM_MAX_PARTIAL, "partial over more than %d mesh axes", PM_MAX_PARTIAL);
  PM_ASSERT(pm_type_partial_on(t, mesh) == PM_NONE, "mesh axis %d is partial twice", mesh);
  int32_t at = t->n_partial++;
  for (; at > 0 && t->partial[at - 1].mesh > mesh; at--) t->partial[at] = t->partial[at - 1];
  t->partial[at] = (PmPartial){(uint8_t)mesh, (uint8_t)kind};
}

void pm_type_drop_partial(PmType *t, int32_t mesh) {
  int32_t at = pm_type_partial_on(t, mesh);
  if (at == PM_NONE) return;
  for (int32_t i = at; i + 1 < t->n_partial; i++) t->partial[i] = t->partial[i + 1];
  t->partial[--t->n_partial] = (PmPartial){0};
}

void pm_split_cut(PmSplit *s, int32_t mesh) {
  for (uint8_t i = 0; i < s->n; i++)
    if (s->mesh[i] == mesh) s->n = i;
  if (s->n == 0) s->zigzag = false;
}

void pm_type_cut_mesh(PmType *t, int32_t mesh) {
  for (int32_t d = 0; d < t->rank; d++) pm_split_cut(&t->dims[d].split, mesh);
}
