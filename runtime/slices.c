#include "runtime/slices.h"

#include <string.h>

#include "base/names.h"

int64_t pm_dims_elements(const PmVarDim *dims, int32_t n) {
  int64_t elements = 1;
  for (int32_t i = 0; i < n; i++) elements *= dims[i].size;
  return elements;
}

int32_t pm_row_dims(const PmProgVar *v, PmVarDim *out) {
  int32_t n = 0;
  for (int32_t i = 0; i < v->rank; i++) {
    bool turns = i + 1 < v->rank && v->dims[i].axis && strcmp(v->dims[i].axis, PM_TURN_AXIS) == 0;
    out[n] = v->dims[turns ? i + 1 : i];
    if (turns) out[n].size *= v->dims[i++].size;
    n++;
  }
  return n;
}

bool pm_slice_first(const PmProgram *p, const PmVarDim *dims, int32_t n, int64_t rank) {
  uint32_t splits = 0;
  for (int32_t i = 0; i < n; i++) {
    for (int32_t m = 0; m < dims[i].n_mesh; m++) splits |= 1u << dims[i].mesh[m];
  }
  for (int32_t m = 0; m < p->n_mesh; m++) {
    if (!(splits & (1u << m)) && pm_program_coord(p, rank, m) != 0) return false;
  }
  return true;
}

// What a rank holds of one dimension: `size` elements, of which the first `have` are no padding.
typedef struct Side {
  int64_t size, have, local_stride, global_stride, at;
} Side;

PmStatus *pm_slice_walk(const PmProgram *p, const PmVarDim *dims, int32_t n, int64_t rank, PmRunFn *fn, void *context) {
  Side side[PM_PROGRAM_MAX_RANK + 1] = {0};
  int64_t whole = 1, part = 1, run;
  int32_t inner = n - 1;  // the dimension whose pieces are runs: those behind it are held whole
  for (int32_t i = n - 1; i >= 0; i--) {
    int64_t size = pm_var_dim_local(p, &dims[i]), have = size;
    // What is padded has no order but the plain one.
    if (dims[i].pad) have = dims[i].size - pm_var_dim_global(p, &dims[i], rank, 0, &run);
    if (have <= 0) return NULL;
    if (have > size) have = size;
    side[i] = (Side){.size = size, .have = have, .local_stride = part, .global_stride = whole};
    whole *= dims[i].size;
    part *= size;
    if (i == inner && i > 0 && size == dims[i].size) inner--;
  }
  if (n == 0) return fn(context, 0, 0, 1);
  const Side *last = &side[inner];
  for (;;) {
    int64_t global = 0, local = 0;
    for (int32_t i = 0; i < inner; i++) {
      local += side[i].at * side[i].local_stride;
      global += pm_var_dim_global(p, &dims[i], rank, side[i].at, &run) * side[i].global_stride;
    }
    for (int64_t k = 0; k < last->have; k += run) {
      int64_t place = pm_var_dim_global(p, &dims[inner], rank, k, &run);
      if (run > last->have - k) run = last->have - k;
      PM_TRY(
          fn(context, local + k * last->local_stride, global + place * last->global_stride, run * last->global_stride));
    }
    int32_t i = inner - 1;
    for (; i >= 0 && ++side[i].at == side[i].have; i--) side[i].at = 0;
    if (i < 0) return NULL;
  }
}
