// What the files of the reference interpreter share.
//
// A hook pm_eval_<fn> computes the results of one node for every rank. Its results are allocated and zeroed before it
// runs, and rounded to their dtype after it; only the hooks of ops with PM_F_CALL allocate their own. An intermediate
// tensor is malloc'd, belongs to the call that made it, and is freed after its last use.
#ifndef PM_IR_INTERP_OPS_H
#define PM_IR_INTERP_OPS_H

#include "ir/interp.h"

typedef struct PmInterp {
  const PmModule *m;
  PmInterpMode mode;
  int64_t ranks;
  int64_t live_bytes;  // of intermediate tensors
  int32_t nesting;     // calls on the way
} PmInterp;

typedef struct PmEval {
  PmInterp *ip;
  const PmNode *node;
  const PmTensor *const *in;
  PmTensor *out;
} PmEval;

#define EVAL(fn) PmStatus *pm_eval_##fn(PmEval *e);
#include "ir/ops.def"

// The group of a collective: the ranks that agree on every mesh axis but those of its attribute, row-major over those.
int64_t pm_group_size(const PmEval *e);
int64_t pm_group_index(const PmEval *e, int64_t rank);
int64_t pm_group_member(const PmEval *e, int64_t rank, int64_t at);  // member `at` of the group of `rank`

// Zeroed; LIMIT when the live tensors pass 4 GiB. out->type is that of a tensor: without placement before stage LOCAL.
PM_MUST_CHECK PmStatus *pm_interp_alloc(PmInterp *ip, const PmType *type, PmTensor *out);
void pm_interp_free(PmInterp *ip, PmTensor *t);
// Rounds to the dtype as the mode says: bools to 0 or 1, i32 towards zero with saturation, floats to nearest even.
void pm_interp_round(PmInterpMode mode, PmDtype dtype, double *data, int64_t n);

static inline double *pm_rank_data(const PmTensor *t, int64_t rank) { return t->data + rank * t->n; }

// A walk over the points of a box, row by row: the last dim is left to the caller's inner loop.
//   do { for (i < nd.inner) use(a + nd.at[0] + i * nd.step[0]); } while (pm_nd_next(&nd));
#define PM_ND_MAX (2 * PM_MAX_RANK)
#define PM_ND_ARRAYS 3

typedef struct PmNd {
  int32_t rank;
  int64_t size[PM_ND_MAX];
  int64_t stride[PM_ND_MAX][PM_ND_ARRAYS];
  int64_t index[PM_ND_MAX];
  int64_t at[PM_ND_ARRAYS];    // offsets of the row's first point
  int64_t inner;               // points of a row
  int64_t step[PM_ND_ARRAYS];  // strides within a row
} PmNd;

// Appends a dim, outermost first, with its stride in elements in each of the arrays that are walked together.
void pm_nd_dim(PmNd *nd, int64_t size, int64_t stride0, int64_t stride1, int64_t stride2);
void pm_nd_start(PmNd *nd);  // after the last pm_nd_dim
bool pm_nd_next(PmNd *nd);

// Row-major strides of a rank's part, one a dim; the size of dim i of that part.
void pm_local_strides(const PmModule *m, const PmType *t, int64_t out[PM_MAX_RANK]);
int64_t pm_local_size(const PmModule *m, const PmType *t, int32_t dim);
// Stride of `axis` in a tensor of type `t`, or 0 when it has no such axis.
int64_t pm_axis_stride(const PmModule *m, const PmType *t, PmAxisId axis);

#endif
