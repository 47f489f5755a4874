// dot: operands are packed to [batch][m][k] and [batch][n][k], then plain loops with k innermost.
#include "ir/interp_ops.h"

enum { ROWS = 4 };  // rows of the left operand that share one pass over a row of the right one

typedef struct DotShape {
  int64_t batch, m, n, k;
  PmNd left, right;  // array 0: where a packed element comes from
  PmNd out;          // over [batch][m]; array 0: the first of n consecutive results
} DotShape;

static bool is_summed(const PmAttr *a, PmAxisId axis) {
  for (int32_t i = 0; i < a->n_axes; i++) {
    if (a->axes[i] == axis) return true;
  }
  return false;
}

// Adds the left operand's axes that are kept, and that the right one has (batch) or has not (m).
static int64_t add_kept(const PmEval *e, bool shared, DotShape *s) {
  const PmModule *m = e->ip->m;
  const PmType *x = &e->in[0]->type, *y = &e->in[1]->type;
  int64_t n = 1;
  for (int32_t i = 0; i < x->rank; i++) {
    PmAxisId axis = x->dims[i].axis;
    if (is_summed(&e->node->attr, axis) || (pm_type_find(y, axis) != PM_NONE) != shared) continue;
    int64_t size = pm_local_size(m, x, i);
    n *= size;
    pm_nd_dim(&s->left, size, pm_axis_stride(m, x, axis), 0, 0);
    pm_nd_dim(&s->out, size, pm_axis_stride(m, &e->out->type, axis), 0, 0);
    if (shared) pm_nd_dim(&s->right, size, pm_axis_stride(m, y, axis), 0, 0);
  }
  return n;
}

static DotShape dot_shape(const PmEval *e) {
  const PmModule *m = e->ip->m;
  const PmAttr *a = &e->node->attr;
  const PmType *x = &e->in[0]->type, *y = &e->in[1]->type;
  DotShape s = {.n = 1, .k = 1};
  s.batch = add_kept(e, true, &s);
  s.m = add_kept(e, false, &s);
  for (int32_t i = 0; i < y->rank; i++) {
    if (pm_type_find(x, y->dims[i].axis) != PM_NONE) continue;
    int64_t size = pm_local_size(m, y, i);
    s.n *= size;
    pm_nd_dim(&s.right, size, pm_axis_stride(m, y, y->dims[i].axis), 0, 0);
  }
  for (int32_t i = 0; i < a->n_axes; i++) {
    int64_t size = pm_local_size(m, x, pm_type_find(x, a->axes[i]));
    s.k *= size;
    pm_nd_dim(&s.left, size, pm_axis_stride(m, x, a->axes[i]), 0, 0);
    pm_nd_dim(&s.right, size, pm_axis_stride(m, y, a->axes[i]), 0, 0);
  }
  return s;
}

static void pack(PmNd *nd, const double *from, double *out) {
  pm_nd_start(nd);
  do {
    for (int64_t i = 0; i < nd->inner; i++) *out++ = from[nd->at[0] + i * nd->step[0]];
  } while (pm_nd_next(nd));
}

// Row i of `out` begins at row[i].
static void multiply(const DotShape *s, const double *x, const double *y, const int64_t *row, int64_t n_rows,
                     double *out) {
  for (int64_t j = 0; j < s->n; j++) {
    const double *yj = y + j * s->k;
    double sum[ROWS] = {0};
    if (n_rows == ROWS) {
      for (int64_t k = 0; k < s->k; k++) {
        for (int32_t i = 0; i < ROWS; i++) sum[i] += x[i * s->k + k] * yj[k];
      }
    } else {
      for (int64_t i = 0; i < n_rows; i++) {
        for (int64_t k = 0; k < s->k; k++) sum[i] += x[i * s->k + k] * yj[k];
      }
    }
    for (int64_t i = 0; i < n_rows; i++) out[row[i] + j] = sum[i];
  }
}

// Offsets of the results' rows in the order of the packed left operand.
static int64_t next_rows(PmNd *nd, bool *more, int64_t *column, int64_t wanted, int64_t out[ROWS]) {
  int64_t n = 0;
  while (n < wanted && *more) {
    out[n++] = nd->at[0] + *column * nd->step[0];
    if (++*column < nd->inner) continue;
    *column = 0;
    *more = pm_nd_next(nd);
  }
  return n;
}

PmStatus *pm_eval_dot(PmEval *e) {
  DotShape s = dot_shape(e);
  PmTensor x, y;
  PmStatus *st = pm_interp_alloc(e->ip, &e->in[0]->type, &x);
  if (st) return st;
  st = pm_interp_alloc(e->ip, &e->in[1]->type, &y);
  if (st) goto free_x;
  for (int64_t r = 0; r < e->out->ranks; r++) {
    double *xr = pm_rank_data(&x, r), *yr = pm_rank_data(&y, r);
    pack(&s.left, pm_rank_data(e->in[0], r), xr);
    pack(&s.right, pm_rank_data(e->in[1], r), yr);
    int64_t column = 0;
    bool more = true;
    pm_nd_start(&s.out);
    for (int64_t b = 0; b < s.batch; b++) {
      for (int64_t i = 0; i < s.m; i += ROWS) {
        int64_t row[ROWS];
        int64_t n = next_rows(&s.out, &more, &column, s.m - i < ROWS ? s.m - i : ROWS, row);
        multiply(&s, xr + (b * s.m + i) * s.k, yr + b * s.n * s.k, row, n, pm_rank_data(e->out, r));
      }
    }
  }
  pm_interp_free(e->ip, &y);
free_x:
  pm_interp_free(e->ip, &x);
  return st;
}
