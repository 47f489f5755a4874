// Comparing tensors by the measure of DESIGN "How equality is measured": max |a - b| / max(max |b|, floor).
#ifndef PM_TOOLS_COMPARE_H
#define PM_TOOLS_COMPARE_H

#include "base/json.h"
#include "ir/ir.h"

typedef enum PmCompareKind {
  PM_CMP_INITIAL,
  PM_CMP_LOSS,
  PM_CMP_GRAD_NORM,
  PM_CMP_REPORT,
  PM_CMP_GRADIENT,
  PM_CMP_PARAM,
  PM_CMP_COPY,   // working copy against the cast of its master
  PM_CMP_STATE,  // of the optimizer, from the plan's own gradient
  PM_CMP_MODEL_STATE,
  PM_CMP_LOGITS,
  PM_CMP_COUNT
} PmCompareKind;

typedef struct PmWorst {
  int64_t tensors;  // compared
  double error;     // the largest
  int64_t step;     // where it is, from 1; 0: before the first
  const char *path;
  int64_t at;  // global element
  PmType type;
  double plan, reference;
} PmWorst;

typedef struct PmCompare {
  const PmModule *m;  // of the types
  int64_t step;
  double bound;
  double unit;  // the coarsest rounding of what is computed, where that is a 16-bit format's; else 0
  PmWorst worst[PM_CMP_COUNT];
} PmCompare;

// a: the plan's numbers, b: the reference's. Numbers that are not finite on either side are infinitely wrong.
void pm_compare(PmCompare *c, PmCompareKind kind, const char *path, const PmType *type, const double *a,
                const double *b, int64_t n, double floor);
double pm_compare_bound(const PmCompare *c, PmCompareKind kind);  // initial values and working copies must be equal
bool pm_compare_ok(const PmCompare *c);
void pm_compare_print(const PmCompare *c, PmArena *arena, FILE *to);
// Element `at` of a whole value, row-major: "[layer=0, embed=3]"; nothing for a scalar.
void pm_put_element(const PmModule *m, const PmType *type, int64_t at, PmBuf *out);
void pm_compare_json(const PmCompare *c, PmJson *j);  // an array

#endif
