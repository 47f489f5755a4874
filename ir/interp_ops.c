// Ops of one rank: pointwise, axes, indexing.
#include <math.h>
#include <string.h>

#include "base/philox.h"
#include "ir/interp_ops.h"

PmStatus *pm_eval_const(PmEval *e) {
  for (int64_t r = 0; r < e->out->ranks; r++) *pm_rank_data(e->out, r) = e->node->attr.number;
  return NULL;
}

PmStatus *pm_eval_pos(PmEval *e) {
  for (int64_t r = 0; r < e->out->ranks; r++) {
    double *out = pm_rank_data(e->out, r);
    for (int64_t i = 0; i < e->out->n; i++) out[i] = (double)pm_dim_global(e->ip->m, &e->out->type.dims[0], r, i);
  }
  return NULL;
}

// A step or turn as a counter. Programs count from zero; what a text may say besides is some number too.
static uint64_t counter(double v) { return fabs(v) < 0x1p62 ? (uint64_t)(int64_t)v : 0; }

// Adds the turns, as the leading digits of the element's number.
static uint64_t first_element(const PmEval *e, int64_t rank) {
  const PmModule *m = e->ip->m;
  uint64_t at = 0;
  for (int32_t i = 0; i < e->node->attr.n_axes; i++) {
    at = at * (uint64_t)pm_axis_logical(m, e->node->attr.axes[i]) + counter(*pm_rank_data(e->in[i + 1], rank));
  }
  for (int32_t i = 0; i < e->out->type.rank; i++) at *= (uint64_t)pm_axis_logical(m, e->out->type.dims[i].axis);
  return at;
}

PmStatus *pm_eval_random(PmEval *e) {
  const PmModule *m = e->ip->m;
  const PmType *t = &e->out->type;
  uint64_t key = pm_random_stream(m, e->node->attr.index);
  for (int64_t r = 0; r < e->out->ranks; r++) {
    double *out = pm_rank_data(e->out, r);
    uint64_t step = counter(*pm_rank_data(e->in[0], r)), first = first_element(e, r);
    for (int64_t i = 0; i < e->out->n; i++) {
      uint64_t at = 0, stride = 1;
      int64_t rest = i;
      for (int32_t d = t->rank - 1; d >= 0; d--) {
        int64_t size = pm_local_size(m, t, d);
        at += (uint64_t)pm_dim_global(m, &t->dims[d], r, rest % size) * stride;
        stride *= (uint64_t)pm_axis_logical(m, t->dims[d].axis);
        rest /= size;
      }
      out[i] = pm_random_uniform(key, step, first + at);
    }
  }
  return NULL;
}

// Fills the result, in its own order, from the points of operand `k` that the walk's array 0 names.
static void gather_points(PmEval *e, PmNd *nd, const PmTensor *from, int64_t base, int64_t out_base) {
  for (int64_t r = 0; r < e->out->ranks; r++) {
    const double *x = pm_rank_data(from, r) + base;
    double *out = pm_rank_data(e->out, r) + out_base;
    pm_nd_start(nd);
    do {
      for (int64_t i = 0; i < nd->inner; i++) *out++ = x[nd->at[0] + i * nd->step[0]];
    } while (pm_nd_next(nd));
  }
}

PmStatus *pm_eval_broadcast(PmEval *e) {
  const PmModule *m = e->ip->m;
  PmNd nd = {0};
  for (int32_t i = 0; i < e->out->type.rank; i++) {
    pm_nd_dim(&nd, pm_local_size(m, &e->out->type, i), pm_axis_stride(m, &e->in[0]->type, e->out->type.dims[i].axis), 0,
              0);
  }
  gather_points(e, &nd, e->in[0], 0, 0);
  return NULL;
}

static PmStatus *copy_all(PmEval *e) {
  memcpy(e->out->data, e->in[0]->data, (size_t)(e->out->ranks * e->out->n) * sizeof *e->out->data);
  return NULL;
}

// The rounding that follows does the conversion.
PmStatus *pm_eval_cast(PmEval *e) { return copy_all(e); }
PmStatus *pm_eval_local(PmEval *e) { return copy_all(e); }
PmStatus *pm_eval_rename(PmEval *e) { return copy_all(e); }
// The parts stand in place of the axis, major first, and the major part takes its split: the same row-major order.
PmStatus *pm_eval_split(PmEval *e) { return copy_all(e); }

PmStatus *pm_eval_map(PmEval *e) {
  const PmModule *m = e->ip->m;
  const PmType *t = &e->out->type;
  int32_t n_in = e->node->n_in;
  PmScalar fn = e->node->attr.fn;
  PmNd nd = {0};
  for (int32_t i = 0; i < t->rank; i++) {
    int64_t stride[PM_ND_ARRAYS] = {0};
    for (int32_t k = 0; k < n_in; k++) stride[k] = pm_axis_stride(m, &e->in[k]->type, t->dims[i].axis);
    pm_nd_dim(&nd, pm_local_size(m, t, i), stride[0], stride[1], stride[2]);
  }
  for (int64_t r = 0; r < e->out->ranks; r++) {
    const double *a = pm_rank_data(e->in[0], r);
    const double *b = n_in > 1 ? pm_rank_data(e->in[1], r) : a;
    const double *c = n_in > 2 ? pm_rank_data(e->in[2], r) : a;
    double *out = pm_rank_data(e->out, r);
    pm_nd_start(&nd);
    do {
      for (int64_t i = 0; i < nd.inner; i++) {
        *out++ = pm_scalar_eval(fn, a[nd.at[0] + i * nd.step[0]], b[nd.at[1] + i * nd.step[1]],
                                c[nd.at[2] + i * nd.step[2]]);
      }
    } while (pm_nd_next(&nd));
  }
  return NULL;
}

PmStatus *pm_eval_reduce(PmEval *e) {
  const PmModule *m = e->ip->m;
  const PmType *t = &e->in[0]->type;
  bool max = e->node->attr.kind == PM_MAX;
  PmNd nd = {0};
  for (int32_t i = 0; i < t->rank; i++) {
    pm_nd_dim(&nd, pm_local_size(m, t, i), pm_axis_stride(m, &e->out->type, t->dims[i].axis), 0, 0);
  }
  for (int64_t r = 0; r < e->out->ranks; r++) {
    const double *x = pm_rank_data(e->in[0], r);
    double *out = pm_rank_data(e->out, r);
    for (int64_t i = 0; max && i < e->out->n; i++) out[i] = -HUGE_VAL;
    pm_nd_start(&nd);
    do {
      for (int64_t i = 0; i < nd.inner; i++, x++) {
        double *y = &out[nd.at[0] + i * nd.step[0]];
        *y = max ? pm_scalar_eval(PM_S_max, *y, *x, 0) : *y + *x;
      }
    } while (pm_nd_next(&nd));
  }
  return NULL;
}

PmStatus *pm_eval_merge(PmEval *e) {
  const PmModule *m = e->ip->m;
  const PmAttr *a = &e->node->attr;
  const PmType *t = &e->in[0]->type;
  PmNd nd = {0};
  int64_t strides[PM_MAX_RANK];
  pm_local_strides(m, t, strides);
  for (int32_t i = 0; i < e->out->type.rank; i++) {
    PmAxisId axis = e->out->type.dims[i].axis;
    bool merged = axis == a->to[0];
    for (int32_t k = 0; k < (merged ? a->n_axes : 1); k++) {
      int32_t dim = pm_type_find(t, merged ? a->axes[k] : axis);
      pm_nd_dim(&nd, pm_local_size(m, t, dim), strides[dim], 0, 0);
    }
  }
  gather_points(e, &nd, e->in[0], 0, 0);
  return NULL;
}

PmStatus *pm_eval_select(PmEval *e) {
  const PmModule *m = e->ip->m;
  const PmAttr *a = &e->node->attr;
  const PmType *t = &e->in[0]->type;
  PmNd nd = {0};
  int64_t strides[PM_MAX_RANK];
  pm_local_strides(m, t, strides);
  for (int32_t i = 0; i < t->rank; i++) {
    if (t->dims[i].axis != a->axes[0]) pm_nd_dim(&nd, pm_local_size(m, t, i), strides[i], 0, 0);
  }
  gather_points(e, &nd, e->in[0], a->index * pm_axis_stride(m, t, a->axes[0]), 0);
  return NULL;
}

PmStatus *pm_eval_stack(PmEval *e) {
  const PmModule *m = e->ip->m;
  for (int32_t k = 0; k < e->node->n_in; k++) {
    PmNd nd = {0};
    for (int32_t i = 1; i < e->out->type.rank; i++) {
      pm_nd_dim(&nd, pm_local_size(m, &e->out->type, i), pm_axis_stride(m, &e->in[k]->type, e->out->type.dims[i].axis),
                0, 0);
    }
    gather_points(e, &nd, e->in[k], 0, k * e->in[k]->n);
  }
  return NULL;
}

// Walks the points of `t`, whose order is row-major in it: array 0 is `other`, without its indexed axis, array 1 the
// indices. An axis of `t` that bears the indexed axis's name is a position of the indices, never a row of `other`.
static PmNd index_walk(const PmEval *e, const PmType *t, const PmType *other, const PmType *idx) {
  const PmModule *m = e->ip->m;
  PmNd nd = {0};
  for (int32_t i = 0; i < t->rank; i++) {
    PmAxisId axis = t->dims[i].axis;
    int64_t stride = axis == e->node->attr.axes[0] ? 0 : pm_axis_stride(m, other, axis);
    pm_nd_dim(&nd, pm_local_size(m, t, i), stride, pm_axis_stride(m, idx, axis), 0);
  }
  return nd;
}

PmStatus *pm_eval_index(PmEval *e) {
  const PmModule *m = e->ip->m;
  const PmType *t = &e->in[0]->type;
  int32_t dim = pm_type_find(t, e->node->attr.axes[0]);
  int64_t stride = pm_axis_stride(m, t, e->node->attr.axes[0]);
  PmNd nd = index_walk(e, &e->out->type, t, &e->in[1]->type);
  for (int64_t r = 0; r < e->out->ranks; r++) {
    const double *table = pm_rank_data(e->in[0], r);
    const double *idx = pm_rank_data(e->in[1], r);
    double *out = pm_rank_data(e->out, r);
    pm_nd_start(&nd);
    do {
      for (int64_t i = 0; i < nd.inner; i++, out++) {
        int64_t row = pm_dim_find(m, &t->dims[dim], r, (int64_t)idx[nd.at[1] + i * nd.step[1]]);
        if (row >= 0) *out = table[nd.at[0] + i * nd.step[0] + row * stride];
      }
    } while (pm_nd_next(&nd));
  }
  return NULL;
}

PmStatus *pm_eval_scatter_add(PmEval *e) {
  const PmModule *m = e->ip->m;
  const PmType *t = &e->out->type;
  int32_t dim = pm_type_find(t, e->node->attr.axes[0]);
  int64_t stride = pm_axis_stride(m, t, e->node->attr.axes[0]);
  PmNd nd = index_walk(e, &e->in[1]->type, t, &e->in[0]->type);
  for (int64_t r = 0; r < e->out->ranks; r++) {
    const double *idx = pm_rank_data(e->in[0], r);
    const double *update = pm_rank_data(e->in[1], r);
    double *out = pm_rank_data(e->out, r);
    pm_nd_start(&nd);
    do {
      for (int64_t i = 0; i < nd.inner; i++, update++) {
        int64_t row = pm_dim_find(m, &t->dims[dim], r, (int64_t)idx[nd.at[1] + i * nd.step[1]]);
        if (row >= 0) out[nd.at[0] + i * nd.step[0] + row * stride] += *update;
      }
    } while (pm_nd_next(&nd));
  }
  return NULL;
}
