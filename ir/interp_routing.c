// The routing ops, by their definition.
#include <stdlib.h>

#include "ir/interp_ops.h"

#define MAX_COUNTERS (INT64_C(1) << 27)  // 1 GiB

PmStatus *pm_eval_slot_of(PmEval *e) {
  const PmModule *m = e->ip->m;
  int64_t n_experts = m->axes[e->node->attr.axes[0]].size;
  int64_t slots = m->axes[e->node->attr.to[0]].size / n_experts;
  int64_t *taken = n_experts <= MAX_COUNTERS ? calloc((size_t)n_experts, sizeof *taken) : NULL;
  if (!taken) return PM_STATUS(PM_ERR_LIMIT, "no memory to count the slots of %lld elements", (long long)n_experts);
  for (int64_t r = 0; r < e->out->ranks; r++) {
    const double *idx = pm_rank_data(e->in[0], r);
    double *out = pm_rank_data(e->out, r);
    for (int64_t i = 0; i < n_experts; i++) taken[i] = 0;
    for (int64_t i = 0; i < e->out->n; i++) {
      bool inside = idx[i] >= 0 && idx[i] < (double)n_experts;
      int64_t at = inside ? taken[(int64_t)idx[i]]++ : slots;
      out[i] = at < slots ? idx[i] * (double)slots + (double)at : -1;
    }
  }
  free(taken);
  return NULL;
}

// Row of n elements, `stride` apart. An element's place is the number of those that stand before it.
static void rank_row(const double *x, int64_t n, int64_t stride, int64_t n_chosen, double *out, int64_t out_stride) {
  for (int64_t i = 0; i < n; i++) {
    double own = x[i * stride];
    int64_t place = 0;
    for (int64_t k = 0; k < n; k++) place += x[k * stride] > own || (x[k * stride] == own && k < i);
    if (place < n_chosen) out[place * out_stride] += (double)i;
  }
}

PmStatus *pm_eval_topk(PmEval *e) {
  const PmModule *m = e->ip->m;
  const PmType *t = &e->in[0]->type;
  PmAxisId from = e->node->attr.axes[0], to = e->node->attr.to[0];
  PmNd nd = {0};
  for (int32_t i = 0; i < t->rank; i++) {
    PmAxisId axis = t->dims[i].axis;
    if (axis == from) continue;
    pm_nd_dim(&nd, pm_local_size(m, t, i), pm_axis_stride(m, t, axis), pm_axis_stride(m, &e->out->type, axis), 0);
  }
  for (int64_t r = 0; r < e->out->ranks; r++) {
    pm_nd_start(&nd);
    do {
      for (int64_t i = 0; i < nd.inner; i++) {
        rank_row(pm_rank_data(e->in[0], r) + nd.at[0] + i * nd.step[0], m->axes[from].size, pm_axis_stride(m, t, from),
                 m->axes[to].size, pm_rank_data(e->out, r) + nd.at[1] + i * nd.step[1],
                 pm_axis_stride(m, &e->out->type, to));
      }
    } while (pm_nd_next(&nd));
  }
  return NULL;
}
