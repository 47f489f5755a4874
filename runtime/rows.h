// The rows that gather_rows and scatter_rows move, one rank's part of the table at a time.
#ifndef PM_RUNTIME_ROWS_H
#define PM_RUNTIME_ROWS_H

#include "runtime/program.h"

typedef struct PmRowPart {
  int64_t size[2], local[2], first[2];  // major, minor
  int64_t row_bytes, bytes;             // of one row, of the whole part
} PmRowPart;

// What `rank` holds of the table of a collective that has rows.
PmRowPart pm_row_part(const PmProgram *p, const PmColl *c, int64_t rank);
// Byte offset of the row that the index names in the part, -1 when it is not there. Indices may be anything.
int64_t pm_row_at(const PmRowPart *part, int64_t index);
// dst[i] = the row of `part` that idx[i] names, for each of n positions; others are left as they are.
void pm_rows_take(const PmRowPart *part, int64_t n, const int32_t *idx, const char *table, char *dst);
// The row of `part` that idx[i] names = src[i], for each of n positions in order; nothing else is written.
void pm_rows_put(const PmRowPart *part, int64_t n, const int32_t *idx, const char *src, char *table);

#endif
