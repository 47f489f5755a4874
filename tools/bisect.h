// Where a plan first leaves the reference: the program's values, in the order in which they are computed, side by side.
#ifndef PM_TOOLS_BISECT_H
#define PM_TOOLS_BISECT_H

#include "base/json.h"
#include "tools/tool.h"

typedef struct PmSuspect {
  const char *name;  // path of the value; NULL: none differs
  const char *type;  // with its placement, as text
  const char *why;   // what decided the placement, or NULL
  PmLoc loc;
  double error;            // max |plan - reference| / max |reference|
  const char *at;          // "[batch=0, embed=3]": the element that differs most
  double plan, reference;  // its two values
  int64_t agree;           // values before it that agree
  const char *last_good;   // the last of them, or NULL
  bool alone;              // found only when values were returned one at a time
} PmSuspect;

// Compiles `plan` with all named values returned, does the same without a plan for `reference`, runs step `step` from
// the variables `vars` (by variable, whole) on both sides, and takes the first value whose error is above `bound`. When
// none is, because returning values changes what is fused, values are returned one at a time, halving. Both modules are
// as the frontend leaves them, for `verify` the same one, and are not changed.
PM_MUST_CHECK PmStatus *pm_bisect(PmTool *t, const PmModule *plan, const PmModule *reference, double *const *vars,
                                  int64_t step, double bound, PmSuspect *out);
void pm_suspect_print(const PmSuspect *s, FILE *to);
void pm_suspect_json(const PmSuspect *s, PmJson *j);  // an object, or null

#endif
