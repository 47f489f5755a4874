// Libraries opened at run time: a table of names is filled with addresses, all or nothing.
#ifndef PM_BASE_DL_H
#define PM_BASE_DL_H

#include "base/status.h"

typedef struct PmDlSymbol {
  const char *name;
  void **slot;
} PmDlSymbol;

// Tries each name of the NULL-terminated `sonames` in order. ENVIRONMENT with every name tried when none opens or a
// symbol is missing. The library stays open for the life of the process.
PM_MUST_CHECK PmStatus *pm_dl_open(const char *const *sonames, const PmDlSymbol *symbols, int32_t n_symbols);

#endif
