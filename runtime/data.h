// Training data: files cut into windows, in an order that only (seed, step) decides.
//
// A file of n tokens has (n - 1) / seq windows; window w holds tokens w * seq .. w * seq + seq, so neighbours share
// one: x takes the first seq of them, y the last seq. Windows number through the files in the order given. Row b of
// step t reads window t * batch + b, wrapping; with shuffle each pass over all windows ("epoch") goes through a
// permutation keyed by (seed, epoch) that is computed, not stored. Formats: `bytes` (a token a byte), `llmc` (256
// int32 of header: 20240520, 1, count; then uint16 tokens), and `npy` (arrays: a window is a row of the first axis, and
// each variable has files of its own, with as many rows as the others').
//
// A PmData belongs to its creator. Filling allocates nothing and may be done by several threads.
#ifndef PM_RUNTIME_DATA_H
#define PM_RUNTIME_DATA_H

#include "runtime/program.h"

typedef struct PmData PmData;

// Opens the files of p->data (globs, in sorted order). For tokens p->data.x (and y, if any) must be i32 inputs of the
// shape [batch, seq] or [seq]; an array must have its variable's shape but for the number of rows. With micro-batches
// their numbers and their rows are one axis. ENVIRONMENT: a file is missing; INPUT: it is malformed, too short, or of
// another shape.
PM_MUST_CHECK PmStatus *pm_data_open(const PmProgram *p, uint64_t seed, PmData **out);
void pm_data_close(PmData *data);  // NULL is nothing
bool pm_data_feeds(const PmData *data, int32_t var);
// The rank's slice of variable `var`, which is fed, at `step`, in the variable's dtype. INPUT when a token or element
// is no legal value of the variable.
PM_MUST_CHECK PmStatus *pm_data_fill(const PmData *data, int32_t var, int64_t rank, int64_t step, void *dst);
int64_t pm_data_windows(const PmData *data);
int64_t pm_data_tokens(const PmData *data);  // npy: rows of all files
// data_order.c: where a permutation of [0, n), n > 0, takes i in one epoch. A pure function of its arguments.
int64_t pm_data_permute(int64_t n, uint64_t seed, int64_t epoch, int64_t i);

#endif
