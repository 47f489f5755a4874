#include "runtime/slices.h"

int64_t pm_dims_elements(const PmVarDim *dims, int32_t n) {
  int64_t elements = 1;
  for (int32_t i = 0; i < n; i++) elements *= dims[i].size;
  return elements;
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

// What a rank holds of one dimension: the slice, of which the padding at the end of the whole is no part.
typedef struct Side {
  int64_t have, local_stride, global_stride, at;
} Side;

PmStatus *pm_slice_walk(const PmProgram *p, const PmVarDim *dims, int32_t n, int64_t rank, PmRunFn *fn, void *context) {
  Side side[PM_PROGRAM_MAX_RANK + 1] = {0};
  int64_t run = 1, whole = 1, part = 1, global = 0, local = 0;
  int32_t outer = n;  // dimensions before it are walked, those behind are one run
  bool contiguous = true;
  for (int32_t i = n - 1; i >= 0; i--) {
    int64_t size = pm_var_dim_local(p, &dims[i]), offset = pm_var_dim_offset(p, &dims[i], rank);
    int64_t have = dims[i].size - offset < size ? dims[i].size - offset : size;
    if (have <= 0) return NULL;
    side[i] = (Side){.have = have, .local_stride = part, .global_stride = whole};
    global += offset * whole;
    whole *= dims[i].size;
    part *= size;
    if (contiguous) {
      run *= have;
      outer = i;
    }
    contiguous = contiguous && have == dims[i].size && have == size;
  }
  for (;;) {
    PM_TRY(fn(context, local, global, run));
    int32_t i = outer - 1;
    for (; i >= 0; i--) {
      Side *d = &side[i];
      local += d->local_stride;
      global += d->global_stride;
      if (++d->at < d->have) break;
      local -= d->local_stride * d->have;
      global -= d->global_stride * d->have;
      d->at = 0;
    }
    if (i < 0) return NULL;
  }
}
