// Text tables for people: cells are appended row by row, and columns are padded when the table prints.
#ifndef PM_TOOLS_TABLE_H
#define PM_TOOLS_TABLE_H

#include <stdio.h>

#include "base/arena.h"

typedef struct PmTable {
  PmArena *arena;
  const char *format;  // one letter a column: 'l' left, 'r' right aligned
  int32_t n_cols;
  const char **cells;
  int32_t n_cells, cap_cells;
} PmTable;

void pm_table_init(PmTable *t, PmArena *arena, const char *format);
void pm_table_cell(PmTable *t, const char *text);  // copies the text; NULL prints as nothing
void pm_table_printf(PmTable *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void pm_table_count(PmTable *t, int64_t v);  // with thousands separators
// Every row begins with `indent`; columns are two spaces apart.
void pm_table_print(const PmTable *t, const char *indent, FILE *to);

// "8,030,261,248"
const char *pm_count_text(PmArena *arena, int64_t v);
// "3.2 MiB"; exact below one KiB.
const char *pm_bytes_text(PmArena *arena, int64_t bytes);
const char *pm_plural(int64_t n);  // "" or "s"

#endif
