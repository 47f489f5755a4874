// What one step sends: every collective, grouped by the function of the program that it stands in.
#ifndef PM_TOOLS_COMM_H
#define PM_TOOLS_COMM_H

#include "ir/ir.h"
#include "runtime/program.h"

typedef struct PmCommRow {
  const char *op;      // "all_reduce"
  const char *reduce;  // "sum", "max"; NULL where nothing is reduced
  int32_t n_mesh;
  const char *mesh[PM_MAX_MESH];
  int64_t group;     // ranks that take part
  int64_t elements;  // of the larger side, on one rank
  int64_t bytes;
  int64_t runs;        // in one step
  const char *type;    // of the result, of a bucket's first, with its placement; NULL: unknown
  const char *value;   // the named value that it makes or that it carries, of a bucket that of the first; or NULL
  int32_t n_values;    // parts; 0: read from a run plan, which knows no values
  const char **values;  // by part, the first is `value`; NULL where there is no name
  const char *within;  // composite that it stands in ("xent"), or NULL
  const char *loc;     // source place that caused it
} PmCommRow;

typedef struct PmCommGroup {
  const char *name;  // of the function
  int64_t runs;      // in one step
  int32_t first, n;  // rows
} PmCommGroup;

typedef struct PmComm {
  PmArena *arena;
  PmCommRow *rows;
  int32_t n_rows, cap_rows;
  PmCommGroup *groups;  // those with at least one row
  int32_t n_groups, cap_groups;
} PmComm;

// `m` is at stage LOCAL. A composite's collectives belong to the function of the program that calls it.
PmComm pm_comm_of_module(PmArena *arena, const PmModule *m);
// One group; equal collectives of one source place are one row.
PmComm pm_comm_of_program(PmArena *arena, const PmProgram *p);

#endif
