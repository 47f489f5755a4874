// The two ways of `pmodel verify`.
#ifndef PM_TOOLS_VERIFY_H
#define PM_TOOLS_VERIFY_H

#include "tools/tool.h"

// Runs the plan next to the reference interpreter and prints where they differ most. VERIFY when they differ by more
// than the bound, or when the memory that was touched is not what was predicted.
PM_MUST_CHECK PmStatus *pm_verify_reference(PmTool *t, const char *path);
// Proves from the run plan alone that it is safe. `path` may be a model, which is compiled first.
PM_MUST_CHECK PmStatus *pm_verify_static(PmTool *t, const char *path);

#endif
