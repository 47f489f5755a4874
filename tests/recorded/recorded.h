// Reader of the files that record.py writes; README.md in this folder describes the format.
//
// Ownership: everything lives in the arena that was given to pm_recorded_read.
#ifndef PM_TESTS_RECORDED_RECORDED_H
#define PM_TESTS_RECORDED_RECORDED_H

#include "base/arena.h"
#include "base/checked.h"
#include "base/status.h"

typedef struct PmRecordedTensor {
  const char *name;  // "layer.attn.wq" (weights); "1/loss", "2/grad/wte", "3/m/wte" (steps)
  int32_t rank;      // 0: a scalar
  int64_t dims[PM_MAX_RANK];
  int64_t n_elements;  // product of dims
  int64_t stride;      // values[i] is row-major element i * stride
  int64_t n_values;    // ceil(n_elements / stride)
  const double *values;
  double largest;  // max |element| of the whole tensor, also of elements that stride leaves out
} PmRecordedTensor;

typedef struct PmRecorded {
  PmRecordedTensor *tensors;  // in the order of the file
  int32_t n_tensors, cap_tensors;
} PmRecorded;

// Errors: ENVIRONMENT (cannot read), LIMIT (longer than PM_MAX_FILE_BYTES), INPUT (damaged; names the line).
PM_MUST_CHECK PmStatus *pm_recorded_read(const char *path, PmArena *arena, PmRecorded *out_recorded);

// NULL when the file has no such name.
const PmRecordedTensor *pm_recorded_find(const PmRecorded *r, const char *name);

// max |actual - recorded| / max(largest, floor) over the recorded elements, the measure of DESIGN "How equality is
// measured"; `actual` has all n_elements, row-major. Infinity when a compared element isn't finite.
double pm_recorded_error(const PmRecordedTensor *t, const double *actual, double floor);

#endif
