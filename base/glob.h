// Globs over dotted paths ("layer.attn.wq"): `*` matches any run of characters, dots included, `?` one character. A glob
// matches a path when it matches the whole of it or one of its leading subtrees; a leading `*.` also matches the root.
#ifndef PM_BASE_GLOB_H
#define PM_BASE_GLOB_H

#include <stdbool.h>
#include <stdint.h>

bool pm_glob_match(const char *glob, const char *path);
// The same, with a bound on the work: each character looked at takes one from *budget. False, and a negative budget,
// when it does not suffice.
bool pm_glob_match_within(const char *glob, const char *path, int64_t *budget);

#endif
