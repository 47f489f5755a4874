// The reference interpreter: the definition of every op, by plain loops. Everything faster is compared with it.
//
// It runs any stage. At stage LOCAL all ranks of the mesh run in lockstep: a value is one local tensor a rank, and
// collectives combine them in rank order; at other stages there is one rank and placements are ignored.
#ifndef PM_IR_INTERP_H
#define PM_IR_INTERP_H

#include "ir/ir.h"

typedef enum PmInterpMode {
  PM_INTERP_F64,    // every float is a double, float casts are the identity: for finite differences
  PM_INTERP_EXACT,  // each node's result is rounded to its dtype; sums accumulate in double
} PmInterpMode;

typedef struct PmTensor {
  PmType type;
  int64_t n;      // elements of one rank
  int64_t ranks;  // data holds ranks * n doubles, rank-major
  double *data;   // row-major in the order of type.dims (bools 0/1, integers exact)
} PmTensor;

PmTensor pm_tensor_new(PmArena *arena, const PmModule *m, const PmType *type);  // zeroed; ranks by the module's stage
// Global (row-major, whole, without padding) data <-> the ranks' local parts. Gathering sums partials and takes the first
// replica; scattering leaves zeros in the padding.
void pm_tensor_scatter(const PmModule *m, const double *global, PmTensor *out);
void pm_tensor_gather(const PmModule *m, const PmTensor *t, double *out_global);
// Initial value of a variable from (seed, path), global.
void pm_var_init(const PmModule *m, PmVarId var, uint64_t seed, double *out_global);

// in: one tensor a parameter; out: one a result, allocated in `arena`. LIMIT when a value passes `max_bytes`.
PM_MUST_CHECK PmStatus *pm_interp_run(const PmModule *m, PmFnId fn, PmInterpMode mode, PmArena *arena,
                                      const PmTensor *in, PmTensor *out);

#endif
