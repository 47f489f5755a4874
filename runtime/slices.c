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

PmStatus *pm_slice_walk(const PmProgram *p, const PmVarDim *dims, int32_t n, int64_t rank, PmRunFn *fn, void *context) {
  int64_t size[PM_PROGRAM_MAX_RANK + 1], stride[PM_PROGRAM_MAX_RANK + 1], at[PM_PROGRAM_MAX_RANK + 1] = {0};
  int64_t run = 1, whole = 1, global = 0, local = 0;
  int32_t outer = n;  // dimensions before it are walked, those behind are one run
  bool contiguous = true;
  for (int32_t i = n - 1; i >= 0; i--) {
    size[i] = pm_var_dim_local(p, &dims[i]);
    stride[i] = whole;
    global += pm_var_dim_offset(p, &dims[i], rank) * whole;
    whole *= dims[i].size;
    if (contiguous) {
      run *= size[i];
      outer = i;
    }
    contiguous = contiguous && size[i] == dims[i].size;
  }
  for (;;) {
    PM_TRY(fn(context, local, global, run));
    local += run;
    int32_t i = outer - 1;
    for (; i >= 0; i--) {
      global += stride[i];
      if (++at[i] < size[i]) break;
      global -= stride[i] * size[i];
      at[i] = 0;
    }
    if (i < 0) return NULL;
  }
}
