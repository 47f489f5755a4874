// Collectives of the ranks that run in lockstep, and the way between whole tensors and the ranks' parts.
#include <string.h>

#include "base/assert.h"
#include "ir/interp_ops.h"

int64_t pm_group_size(const PmEval *e) {
  int64_t n = 1;
  for (int32_t i = 0; i < e->node->attr.n_mesh; i++) n *= e->ip->m->mesh[e->node->attr.mesh[i]].size;
  return n;
}

int64_t pm_group_index(const PmEval *e, int64_t rank) {
  int64_t at = 0;
  for (int32_t i = 0; i < e->node->attr.n_mesh; i++) {
    int32_t mesh = e->node->attr.mesh[i];
    at = at * e->ip->m->mesh[mesh].size + pm_mesh_coord(e->ip->m, rank, mesh);
  }
  return at;
}

int64_t pm_group_member(const PmEval *e, int64_t rank, int64_t at) {
  const PmModule *m = e->ip->m;
  for (int32_t i = e->node->attr.n_mesh - 1; i >= 0; i--) {
    int32_t mesh = e->node->attr.mesh[i];
    int64_t stride = 1;
    for (int32_t k = mesh + 1; k < m->n_mesh; k++) stride *= m->mesh[k].size;
    rank += (at % m->mesh[mesh].size - pm_mesh_coord(m, rank, mesh)) * stride;
    at /= m->mesh[mesh].size;
  }
  return rank;
}

static double combine(PmReduceKind kind, double a, double b) {
  return kind == PM_MAX ? pm_scalar_eval(PM_S_max, a, b, 0) : a + b;
}

PmStatus *pm_eval_all_reduce(PmEval *e) {
  int64_t n_members = pm_group_size(e);
  for (int64_t r = 0; r < e->out->ranks; r++) {
    double *out = pm_rank_data(e->out, r);
    memcpy(out, pm_rank_data(e->in[0], pm_group_member(e, r, 0)), (size_t)e->out->n * sizeof *out);
    for (int64_t g = 1; g < n_members; g++) {
      const double *x = pm_rank_data(e->in[0], pm_group_member(e, r, g));
      for (int64_t i = 0; i < e->out->n; i++) out[i] = combine(e->node->attr.kind, out[i], x[i]);
    }
  }
  return NULL;
}

// A walk over the smaller of two boxes at each dim: array 0 the result, array 1 the operand.
static PmNd common_box(const PmEval *e) {
  const PmModule *m = e->ip->m;
  const PmType *to = &e->out->type, *from = &e->in[0]->type;
  int64_t to_strides[PM_MAX_RANK], from_strides[PM_MAX_RANK];
  PmNd nd = {0};
  pm_local_strides(m, to, to_strides);
  pm_local_strides(m, from, from_strides);
  for (int32_t i = 0; i < to->rank; i++) {
    int64_t a = pm_local_size(m, to, i), b = pm_local_size(m, from, i);
    pm_nd_dim(&nd, a < b ? a : b, to_strides[i], from_strides[i], 0);
  }
  return nd;
}

// Elements that block `at` of dim `axis` lies after the start, in a tensor of type `t` whose blocks are `other`'s dims.
static int64_t block_start(const PmEval *e, const PmType *t, const PmType *other, PmAxisId axis, int64_t at) {
  const PmModule *m = e->ip->m;
  return at * pm_local_size(m, other, pm_type_find(other, axis)) * pm_axis_stride(m, t, axis);
}

static void copy_box(PmNd *nd, const double *from, double *to) {
  pm_nd_start(nd);
  do {
    for (int64_t i = 0; i < nd->inner; i++) to[nd->at[0] + i * nd->step[0]] = from[nd->at[1] + i * nd->step[1]];
  } while (pm_nd_next(nd));
}

static void combine_box(PmNd *nd, PmReduceKind kind, const double *from, double *to) {
  pm_nd_start(nd);
  do {
    for (int64_t i = 0; i < nd->inner; i++) {
      double *y = &to[nd->at[0] + i * nd->step[0]];
      *y = combine(kind, *y, from[nd->at[1] + i * nd->step[1]]);
    }
  } while (pm_nd_next(nd));
}

PmStatus *pm_eval_all_gather(PmEval *e) {
  const PmType *to = &e->out->type, *from = &e->in[0]->type;
  PmAxisId axis = e->node->attr.axes[0];
  PmNd nd = common_box(e);
  for (int64_t r = 0; r < e->out->ranks; r++) {
    for (int64_t g = 0; g < pm_group_size(e); g++) {
      copy_box(&nd, pm_rank_data(e->in[0], pm_group_member(e, r, g)),
               pm_rank_data(e->out, r) + block_start(e, to, from, axis, g));
    }
  }
  return NULL;
}

PmStatus *pm_eval_reduce_scatter(PmEval *e) {
  const PmType *to = &e->out->type, *from = &e->in[0]->type;
  PmNd nd = common_box(e);
  for (int64_t r = 0; r < e->out->ranks; r++) {
    int64_t start = block_start(e, from, to, e->node->attr.axes[0], pm_group_index(e, r));
    double *out = pm_rank_data(e->out, r);
    copy_box(&nd, pm_rank_data(e->in[0], pm_group_member(e, r, 0)) + start, out);
    for (int64_t g = 1; g < pm_group_size(e); g++) {
      combine_box(&nd, e->node->attr.kind, pm_rank_data(e->in[0], pm_group_member(e, r, g)) + start, out);
    }
  }
  return NULL;
}

PmStatus *pm_eval_all_to_all(PmEval *e) {
  const PmType *to = &e->out->type, *from = &e->in[0]->type;
  const PmAttr *a = &e->node->attr;
  PmNd nd = common_box(e);
  for (int64_t r = 0; r < e->out->ranks; r++) {
    int64_t start = block_start(e, from, to, a->to[0], pm_group_index(e, r));
    for (int64_t g = 0; g < pm_group_size(e); g++) {
      copy_box(&nd, pm_rank_data(e->in[0], pm_group_member(e, r, g)) + start,
               pm_rank_data(e->out, r) + block_start(e, to, from, a->axes[0], g));
    }
  }
  return NULL;
}

PmStatus *pm_eval_permute(PmEval *e) {
  const PmModule *m = e->ip->m;
  PmPermute p;
  bool ok = pm_permute_orders(m, &e->in[0]->type, &e->out->type, &p);
  PM_ASSERT(ok, "a permute between parts of other shapes");
  for (int64_t r = 0; r < e->out->ranks; r++) {
    int64_t at = 0;
    for (int32_t i = 0; i < p.n; i++) at = at * m->mesh[p.to[i]].size + pm_mesh_coord(m, r, p.to[i]);
    memcpy(pm_rank_data(e->out, r), pm_rank_data(e->in[0], pm_group_member(e, r, at)), (size_t)e->out->n * sizeof(double));
  }
  return NULL;
}

PmStatus *pm_eval_slice(PmEval *e) {
  const PmType *to = &e->out->type, *from = &e->in[0]->type;
  PmNd nd = common_box(e);
  for (int64_t r = 0; r < e->out->ranks; r++) {
    int64_t start = block_start(e, from, to, e->node->attr.axes[0], pm_group_index(e, r));
    copy_box(&nd, pm_rank_data(e->in[0], r) + start, pm_rank_data(e->out, r));
  }
  return NULL;
}

// A walk over the part of `rank`, padding left out: array 0 the part, array 1 the whole tensor from element *out_start
// on. False when the rank holds padding alone.
static bool part_walk(const PmModule *m, const PmType *t, int64_t rank, PmNd *out_nd, int64_t *out_start) {
  int64_t local[PM_MAX_RANK], whole = 1, have[PM_MAX_RANK], stride[PM_MAX_RANK];
  *out_nd = (PmNd){0};
  *out_start = 0;
  pm_local_strides(m, t, local);
  for (int32_t i = t->rank - 1; i >= 0; i--) {
    bool splits = m->stage == PM_STAGE_LOCAL;
    int64_t logical = pm_axis_logical(m, t->dims[i].axis), size = pm_local_size(m, t, i);
    int64_t offset = splits ? pm_dim_offset(m, &t->dims[i], rank) : 0;
    have[i] = logical - offset < size ? logical - offset : size;
    if (have[i] <= 0) return false;
    stride[i] = whole;
    *out_start += offset * whole;
    whole *= logical;
  }
  for (int32_t i = 0; i < t->rank; i++) pm_nd_dim(out_nd, have[i], local[i], stride[i], 0);
  return true;
}

// The rank has coordinate 0 on every mesh axis over which the type is partial.
static bool first_of_partials(const PmModule *m, const PmType *t, int64_t rank, bool sums_only) {
  for (int32_t i = 0; i < t->n_partial; i++) {
    if (sums_only && t->partial[i].kind != PM_SUM) continue;
    if (pm_mesh_coord(m, rank, t->partial[i].mesh) != 0) return false;
  }
  return true;
}

// The rank has coordinate 0 on every mesh axis over which the type is whole.
static bool first_replica(const PmModule *m, const PmType *t, int64_t rank) {
  for (int32_t i = 0; i < m->n_mesh; i++) {
    bool whole = !pm_type_uses_mesh(t, i) && pm_type_partial_on(t, i) == PM_NONE;
    if (whole && pm_mesh_coord(m, rank, i) != 0) return false;
  }
  return true;
}

void pm_tensor_scatter(const PmModule *m, const double *global, PmTensor *out) {
  for (int64_t r = 0; r < out->ranks; r++) {
    int64_t start;
    PmNd nd;
    memset(pm_rank_data(out, r), 0, (size_t)out->n * sizeof *global);
    if (!part_walk(m, &out->type, r, &nd, &start)) continue;
    if (first_of_partials(m, &out->type, r, true)) copy_box(&nd, global + start, pm_rank_data(out, r));
  }
}

void pm_tensor_gather(const PmModule *m, const PmTensor *t, double *out_global) {
  PmReduceKind kind = t->type.n_partial ? (PmReduceKind)t->type.partial[0].kind : PM_SUM;
  for (int64_t r = 0; r < t->ranks; r++) {
    int64_t start;
    PmNd nd;
    if (!first_replica(m, &t->type, r) || !part_walk(m, &t->type, r, &nd, &start)) continue;
    bool first = first_of_partials(m, &t->type, r, false);
    double *to = out_global + start;
    const double *from = pm_rank_data(t, r);
    pm_nd_start(&nd);
    do {
      for (int64_t i = 0; i < nd.inner; i++) {
        double *y = &to[nd.at[1] + i * nd.step[1]];
        double v = from[nd.at[0] + i * nd.step[0]];
        *y = first ? v : combine(kind, *y, v);
      }
    } while (pm_nd_next(&nd));
  }
}
