// Collectives of the ranks that run in lockstep, and the way between whole tensors and the ranks' parts.
#include <string.h>

#include "base/assert.h"
#include "ir/interp_ops.h"

int64_t pm_group_size(const PmEval *e) { return pm_mesh_group(e->ip->m, e->node->attr.mesh, e->node->attr.n_mesh); }

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

static void reduce_all(const PmEval *e, const PmTensor *in, PmTensor *to) {
  int64_t n_members = pm_group_size(e);
  for (int64_t r = 0; r < to->ranks; r++) {
    double *out = pm_rank_data(to, r);
    memcpy(out, pm_rank_data(in, pm_group_member(e, r, 0)), (size_t)to->n * sizeof *out);
    for (int64_t g = 1; g < n_members; g++) {
      const double *x = pm_rank_data(in, pm_group_member(e, r, g));
      for (int64_t i = 0; i < to->n; i++) out[i] = combine(e->node->attr.kind, out[i], x[i]);
    }
  }
}

PmStatus *pm_eval_all_reduce(PmEval *e) {
  for (int32_t i = 0; i < e->node->n_in; i++) reduce_all(e, e->in[i], &e->out[i]);
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

// The parts of a zigzag split stand one after the other along `axis`, which is whole: brings every rank's elements from
// there to their places, or back (`apart`). Reads `from`, writes `to`.
static void reorder(const PmEval *e, const PmTensor *from, PmTensor *to, PmAxisId axis, bool apart) {
  const PmModule *m = e->ip->m;
  int64_t size = pm_axis_size(m, axis), stride = pm_axis_stride(m, &to->type, axis), c = pm_group_size(e);
  for (int64_t r = 0; r < to->ranks; r++) {
    const double *x = pm_rank_data(from, r);
    double *y = pm_rank_data(to, r);
    for (int64_t i = 0; i < to->n; i++) {
      int64_t at = i / stride % size;
      int64_t source = apart ? pm_zigzag_global(size, c, at) : pm_zigzag_place(size, c, at);
      y[i] = x[i + (source - at) * stride];
    }
  }
}

// A copy of the operand with axis `axis` in the order of the parts, or the operand where that is its order.
static PmStatus *set_apart(PmEval *e, PmAxisId axis, PmTensor *copy, const PmTensor **out) {
  *out = e->in[0];
  if (!e->node->attr.zigzag) return NULL;
  PM_TRY(pm_interp_alloc(e->ip, &e->in[0]->type, copy));
  reorder(e, e->in[0], copy, axis, true);
  *out = copy;
  return NULL;
}

// The axis was split in zigzag and is whole now.
static PmStatus *put_together(PmEval *e, PmAxisId axis) {
  const PmType *from = &e->in[0]->type, *to = &e->out->type;
  const PmSplit *had = &from->dims[pm_type_find(from, axis)].split;
  if (!pm_split_is_zigzag(had) || to->dims[pm_type_find(to, axis)].split.n > 0) return NULL;
  PmTensor copy = {.data = NULL};
  PM_TRY(pm_interp_alloc(e->ip, to, &copy));
  memcpy(copy.data, e->out->data, (size_t)(copy.n * copy.ranks) * sizeof *copy.data);
  reorder(e, &copy, e->out, axis, false);
  pm_interp_free(e->ip, &copy);
  return NULL;
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
  return put_together(e, axis);
}

PmStatus *pm_eval_reduce_scatter(PmEval *e) {
  const PmType *to = &e->out->type, *from = &e->in[0]->type;
  PmNd nd = common_box(e);
  PmTensor copy = {.data = NULL};
  const PmTensor *x;
  PM_TRY(set_apart(e, e->node->attr.axes[0], &copy, &x));
  for (int64_t r = 0; r < e->out->ranks; r++) {
    int64_t start = block_start(e, from, to, e->node->attr.axes[0], pm_group_index(e, r));
    double *out = pm_rank_data(e->out, r);
    copy_box(&nd, pm_rank_data(x, pm_group_member(e, r, 0)) + start, out);
    for (int64_t g = 1; g < pm_group_size(e); g++) {
      combine_box(&nd, e->node->attr.kind, pm_rank_data(x, pm_group_member(e, r, g)) + start, out);
    }
  }
  pm_interp_free(e->ip, &copy);
  return NULL;
}

PmStatus *pm_eval_all_to_all(PmEval *e) {
  const PmType *to = &e->out->type, *from = &e->in[0]->type;
  const PmAttr *a = &e->node->attr;
  PmNd nd = common_box(e);
  PmTensor copy = {.data = NULL};
  const PmTensor *x;
  PM_TRY(set_apart(e, a->to[0], &copy, &x));
  for (int64_t r = 0; r < e->out->ranks; r++) {
    int64_t start = block_start(e, from, to, a->to[0], pm_group_index(e, r));
    for (int64_t g = 0; g < pm_group_size(e); g++) {
      copy_box(&nd, pm_rank_data(x, pm_group_member(e, r, g)) + start,
               pm_rank_data(e->out, r) + block_start(e, to, from, a->axes[0], g));
    }
  }
  pm_interp_free(e->ip, &copy);
  return put_together(e, a->axes[0]);
}

PmStatus *pm_eval_shift(PmEval *e) {
  int64_t n_members = pm_group_size(e);
  for (int64_t r = 0; r < e->out->ranks; r++) {
    int64_t from = (pm_group_index(e, r) + n_members - 1) % n_members;
    memcpy(pm_rank_data(e->out, r), pm_rank_data(e->in[0], pm_group_member(e, r, from)),
           (size_t)e->out->n * sizeof(double));
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
    memcpy(pm_rank_data(e->out, r), pm_rank_data(e->in[0], pm_group_member(e, r, at)),
           (size_t)e->out->n * sizeof(double));
  }
  return NULL;
}

PmStatus *pm_eval_slice(PmEval *e) {
  const PmType *to = &e->out->type, *from = &e->in[0]->type;
  PmNd nd = common_box(e);
  PmTensor copy = {.data = NULL};
  const PmTensor *x;
  PM_TRY(set_apart(e, e->node->attr.axes[0], &copy, &x));
  for (int64_t r = 0; r < e->out->ranks; r++) {
    int64_t start = block_start(e, from, to, e->node->attr.axes[0], pm_group_index(e, r));
    copy_box(&nd, pm_rank_data(x, r) + start, pm_rank_data(e->out, r));
  }
  pm_interp_free(e->ip, &copy);
  return NULL;
}

// The element of the whole tensor that is element `at` of what `rank` holds, or PM_NONE for padding.
static int64_t whole_element(const PmModule *m, const PmType *t, int64_t rank, int64_t at) {
  int64_t element = 0, stride = 1;
  for (int32_t i = t->rank - 1; i >= 0; i--) {
    int64_t size = pm_local_size(m, t, i), logical = pm_axis_logical(m, t->dims[i].axis), index = at % size;
    if (m->stage == PM_STAGE_LOCAL) index = pm_dim_global(m, &t->dims[i], rank, index);
    if (index >= logical) return PM_NONE;
    element += index * stride;
    stride *= logical;
    at /= size;
  }
  return element;
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
    double *part = pm_rank_data(out, r);
    bool holds = first_of_partials(m, &out->type, r, true);
    for (int64_t i = 0; i < out->n; i++) {
      int64_t element = holds ? whole_element(m, &out->type, r, i) : PM_NONE;
      part[i] = element == PM_NONE ? 0 : global[element];
    }
  }
}

void pm_tensor_gather(const PmModule *m, const PmTensor *t, double *out_global) {
  PmReduceKind kind = t->type.n_partial ? (PmReduceKind)t->type.partial[0].kind : PM_SUM;
  for (int64_t r = 0; r < t->ranks; r++) {
    if (!first_replica(m, &t->type, r)) continue;
    bool first = first_of_partials(m, &t->type, r, false);
    const double *from = pm_rank_data(t, r);
    for (int64_t i = 0; i < t->n; i++) {
      int64_t element = whole_element(m, &t->type, r, i);
      if (element == PM_NONE) continue;
      out_global[element] = first ? from[i] : combine(kind, out_global[element], from[i]);
    }
  }
}
