#include "base/assert.h"
#include "ir/interp_ops.h"

void pm_nd_dim(PmNd *nd, int64_t size, int64_t stride0, int64_t stride1, int64_t stride2) {
  PM_ASSERT(nd->rank < PM_ND_MAX, "a walk over more than %d dims", PM_ND_MAX);
  nd->size[nd->rank] = size;
  nd->stride[nd->rank][0] = stride0;
  nd->stride[nd->rank][1] = stride1;
  nd->stride[nd->rank][2] = stride2;
  nd->rank++;
}

void pm_nd_start(PmNd *nd) {
  if (!nd->rank) pm_nd_dim(nd, 1, 0, 0, 0);
  int32_t last = nd->rank - 1;
  nd->inner = nd->size[last];
  for (int32_t k = 0; k < PM_ND_ARRAYS; k++) {
    nd->step[k] = nd->stride[last][k];
    nd->at[k] = 0;
  }
  for (int32_t i = 0; i < nd->rank; i++) nd->index[i] = 0;
}

bool pm_nd_next(PmNd *nd) {
  for (int32_t i = nd->rank - 2; i >= 0; i--) {
    bool carry = ++nd->index[i] == nd->size[i];
    int64_t moved = carry ? 1 - nd->size[i] : 1;
    for (int32_t k = 0; k < PM_ND_ARRAYS; k++) nd->at[k] += moved * nd->stride[i][k];
    if (!carry) return true;
    nd->index[i] = 0;
  }
  return false;
}

int64_t pm_local_size(const PmModule *m, const PmType *t, int32_t dim) { return pm_dim_local(m, &t->dims[dim]); }

void pm_local_strides(const PmModule *m, const PmType *t, int64_t out[PM_MAX_RANK]) {
  int64_t stride = 1;
  for (int32_t i = t->rank - 1; i >= 0; i--) {
    out[i] = stride;
    stride *= pm_local_size(m, t, i);
  }
}

int64_t pm_axis_stride(const PmModule *m, const PmType *t, PmAxisId axis) {
  int64_t strides[PM_MAX_RANK];
  int32_t at = pm_type_find(t, axis);
  if (at == PM_NONE) return 0;
  pm_local_strides(m, t, strides);
  return strides[at];
}
