// What differs between two texts, line by line.
#ifndef PM_BASE_LINE_DIFF_H
#define PM_BASE_LINE_DIFF_H

#include <stddef.h>

#include "base/arena.h"
#include "base/buf.h"

// Appends to `out` the lines that turn `a` into `b`, in the unified format: hunks with three lines around them, under
// `@@ -FIRST,COUNT +FIRST,COUNT @@`; nothing when the texts are equal. The edits are the fewest (Myers, "An O(ND)
// difference algorithm and its variations", 1986, in linear space) unless the texts have so little in common that the
// search is given up, and then right all the same. Time: lines times edits. Works in `scratch`.
void pm_line_diff(PmArena *scratch, const char *a, size_t a_len, const char *b, size_t b_len, PmBuf *out);

#endif
