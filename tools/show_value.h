// Who holds what: the parts of single values, what is sent for them, and what another placement would send.
#ifndef PM_TOOLS_SHOW_VALUE_H
#define PM_TOOLS_SHOW_VALUE_H

#include "tools/show.h"

typedef struct PmShownValue {
  const char *name, *role, *why;  // why NULL: no rule splits it
  PmType type;                    // with its placement
  bool is_grad;
} PmShownValue;

// `logical` is the module before `place`, which other placements start from.
PmStatus *pm_show_values(PmTool *t, const PmModule *logical, const PmShownValue *values, int32_t n);

#endif
