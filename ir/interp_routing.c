// The routing ops, by their definition.
#include <stdlib.h>

#include "ir/interp_ops.h"

#define MAX_COUNTERS (INT64_C(1) << 27)  // 1 GiB

// Of the positions of the group's members before `rank`.
static void count_earlier(const PmEval *e, int64_t rank, int64_t n_experts, int64_t *taken) {
  const int64_t me = pm_group_index(e, rank);
  for (int64_t i = 0; i < n_experts; i++) taken[i] = 0;
  for (int64_t g = 0; g < me; g++) {
    const double *idx = pm_rank_data(e->in[0], pm_group_member(e, rank, g));
    for (int64_t i = 0; i < e->out->n; i++)
      if (idx[i] >= 0 && idx[i] < (double)n_experts) taken[(int64_t)idx[i]]++;
  }
}

PmStatus *pm_eval_slot_of(PmEval *e) {
  const PmModule *m = e->ip->m;
  bool full = false;
  int64_t n_experts = m->axes[e->node->attr.axes[0]].size;
  int64_t slots = m->axes[e->node->attr.to[0]].size / n_experts;
  int64_t *taken = n_experts <= MAX_COUNTERS ? calloc((size_t)n_experts, sizeof *taken) : NULL;
  if (!taken) return PM_STATUS(PM_ERR_LIMIT, "no memory to count the slots of %lld elements", (long long)n_experts);
  for (int64_t r = 0; r < e->out->ranks; r++) {
    const double *idx = pm_rank_data(e->in[0], r);
    double *out = pm_rank_data(e->out, r);
    count_earlier(e, r, n_experts, taken);
    for (int64_t i = 0; i < e->out->n; i++) {
      bool inside = idx[i] >= 0 && idx[i] < (double)n_experts;
      int64_t at = inside ? taken[(int64_t)idx[i]]++ : slots;
      out[i] = at < slots ? idx[i] * (double)slots + (double)at : -1;
      full = full || (inside && at >= slots);
    }
  }
  free(taken);
  if (!full || !e->node->attr.bounded) return NULL;
  const PmLoc *loc = &e->node->loc;
  return PM_STATUS(PM_ERR_LIMIT, "%s:%d:%d: an element is chosen more often than the bound has slots, %lld",
                   loc->path ? loc->path : "-", loc->line, loc->col, (long long)slots);
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

// The element at which the row that `index` names begins in the part of the table that `rank` holds, or -1.
static int64_t row_start(const PmEval *e, const PmType *table, int64_t rank, double index) {
  const PmModule *m = e->ip->m;
  const PmAttr *a = &e->node->attr;
  int64_t at = 0, rows = 1;
  for (int32_t i = 0; i < a->n_axes; i++) rows *= m->axes[a->axes[i]].size;
  if (!(index >= 0 && index < (double)rows)) return -1;
  int64_t rest = (int64_t)index;
  for (int32_t i = a->n_axes - 1; i >= 0; i--) {
    int32_t dim = pm_type_find(table, a->axes[i]);
    int64_t row = pm_dim_find(m, &table->dims[dim], rank, rest % m->axes[a->axes[i]].size);
    if (row < 0) return -1;
    at += row * pm_axis_stride(m, table, a->axes[i]);
    rest /= m->axes[a->axes[i]].size;
  }
  return at;
}

// Over the elements of all positions' rows: array 0 the rows, array 1 the indices, array 2 the table within a row.
static PmNd rows_walk(const PmEval *e, const PmType *moved, const PmType *idx, const PmType *table) {
  PmNd nd = {0};
  for (int32_t i = 0; i < moved->rank; i++) {
    PmAxisId axis = moved->dims[i].axis;
    pm_nd_dim(&nd, pm_local_size(e->ip->m, moved, i), pm_axis_stride(e->ip->m, moved, axis),
              pm_axis_stride(e->ip->m, idx, axis), pm_axis_stride(e->ip->m, table, axis));
  }
  return nd;
}

PmStatus *pm_eval_gather_rows(PmEval *e) {
  const PmType *table = &e->in[0]->type;
  PmNd nd = rows_walk(e, &e->out->type, &e->in[1]->type, table);
  for (int64_t r = 0; r < e->out->ranks; r++) {
    for (int64_t g = 0; g < pm_group_size(e); g++) {
      int64_t member = pm_group_member(e, r, g);
      pm_nd_start(&nd);
      do {
        for (int64_t i = 0; i < nd.inner; i++) {
          int64_t at = row_start(e, table, member, pm_rank_data(e->in[1], r)[nd.at[1] + i * nd.step[1]]);
          if (at < 0) continue;
          pm_rank_data(e->out, r)[nd.at[0] + i * nd.step[0]] =
              pm_rank_data(e->in[0], member)[at + nd.at[2] + i * nd.step[2]];
        }
      } while (pm_nd_next(&nd));
    }
  }
  return NULL;
}

PmStatus *pm_eval_scatter_rows(PmEval *e) {
  const PmType *table = &e->out->type;
  PmNd nd = rows_walk(e, &e->in[1]->type, &e->in[0]->type, table);
  for (int64_t r = 0; r < e->out->ranks; r++) {
    for (int64_t g = 0; g < pm_group_size(e); g++) {
      int64_t member = pm_group_member(e, r, g);
      pm_nd_start(&nd);
      do {
        for (int64_t i = 0; i < nd.inner; i++) {
          int64_t at = row_start(e, table, r, pm_rank_data(e->in[0], member)[nd.at[1] + i * nd.step[1]]);
          if (at < 0) continue;
          pm_rank_data(e->out, r)[at + nd.at[2] + i * nd.step[2]] =
              pm_rank_data(e->in[1], member)[nd.at[0] + i * nd.step[0]];
        }
      } while (pm_nd_next(&nd));
    }
  }
  return NULL;
}
