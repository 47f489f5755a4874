// Types of the IR: a dtype and named axes, with the placement of each axis on the mesh, and partial sums still owed.
//
// Text: f32[batch:480/data, seq:1024/context+tensor, embed:768]{+tensor, max data}
//   size after the colon; `/` the mesh axes that divide it, major to minor; {+m} a sum over mesh axis m still owed.
//   heads:12^16/tensor: 12 positions, padded to 16.
//   i32<vocab>[batch:8, seq:64]: an integer that points into axis vocab. A scalar prints as f32[].
// A value is one of three things along each mesh axis: split (the mesh axis stands in one dim), whole, or partial.
#ifndef PM_IR_TYPES_H
#define PM_IR_TYPES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/checked.h"

typedef int32_t PmAxisId;  // index into PmModule.axes
typedef int32_t PmValueId;  // index into PmFn.values
typedef int32_t PmFnId;     // index into PmModule.fns
typedef int32_t PmVarId;    // index into PmModule.vars

#define PM_NONE (-1)
#define PM_MAX_MESH 16   // mesh axes of one mesh
#define PM_MAX_SPLIT 6   // mesh axes that divide one dim
#define PM_MAX_PARTIAL 6

typedef enum PmDtype {
#define DTYPE(name, text, bytes, is_float) PM_##name,
#include "ir/dtypes.def"
  PM_DTYPE_COUNT
} PmDtype;

typedef enum PmReduceKind { PM_SUM, PM_MAX, PM_REDUCE_COUNT } PmReduceKind;

// zigzag: the order of the parts over the first mesh axis, of c ranks. The axis is 2 c chunks, of which rank r has r and
// 2 c - 1 - r, in this order, so that causal work is the same on every rank; further mesh axes divide what a rank has.
// Text: seq:64/context~zigzag+tensor. Means nothing when n is 0.
typedef struct PmSplit {
  uint8_t n;
  bool zigzag;
  uint8_t mesh[PM_MAX_SPLIT];  // major to minor
} PmSplit;

typedef struct PmDim {
  PmAxisId axis;
  PmSplit split;
} PmDim;

typedef struct PmPartial {
  uint8_t mesh;
  uint8_t kind;  // PmReduceKind
} PmPartial;

typedef struct PmType {
  uint8_t dtype;      // PmDtype
  uint8_t rank;       // number of dims
  uint8_t n_partial;  // ascending mesh axis
  PmAxisId index_of;  // for PM_I32: the axis that the value points into, or PM_NONE
  PmDim dims[PM_MAX_RANK];
  PmPartial partial[PM_MAX_PARTIAL];
} PmType;

const char *pm_dtype_text(PmDtype d);
int64_t pm_dtype_bytes(PmDtype d);
bool pm_dtype_is_float(PmDtype d);
const char *pm_reduce_text(PmReduceKind k);

PmType pm_type_scalar(PmDtype d);
// Appends an unsplit dim; asserts that the axis is new and that the rank allows it.
void pm_type_add(PmType *t, PmAxisId axis);
// Position of `axis` among the dims, or PM_NONE.
int32_t pm_type_find(const PmType *t, PmAxisId axis);
void pm_type_drop_axis(PmType *t, PmAxisId axis);  // nothing where the type has no such axis
// Same dtype, axes in the same order, index_of; placement ignored.
bool pm_type_same_logical(const PmType *a, const PmType *b);
// All of it: logical, splits, partials.
bool pm_type_equal(const PmType *a, const PmType *b);
bool pm_type_is_whole(const PmType *t);  // no split and no partial
void pm_type_clear_placement(PmType *t);

bool pm_split_equal(const PmSplit *a, const PmSplit *b);
bool pm_split_has(const PmSplit *s, int32_t mesh);
bool pm_split_is_zigzag(const PmSplit *s);     // some mesh axis splits it, the first in zigzag order
bool pm_split_push(PmSplit *s, int32_t mesh);  // false when full
void pm_split_cut(PmSplit *s, int32_t mesh);   // drops the mesh axis and all that are minor to it
// The mesh axis stands in some dim's split.
bool pm_type_uses_mesh(const PmType *t, int32_t mesh);
void pm_type_cut_mesh(PmType *t, int32_t mesh);  // pm_split_cut of every dim
// Index into t->partial, or PM_NONE.
int32_t pm_type_partial_on(const PmType *t, int32_t mesh);
void pm_type_add_partial(PmType *t, int32_t mesh, PmReduceKind kind);  // kept in ascending order; no duplicate
void pm_type_drop_partial(PmType *t, int32_t mesh);

#endif
