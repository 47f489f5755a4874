// Attention between a block of queries and a block of keys, and how what several blocks of keys give adds up.
//
// The forward is the softmax with a running maximum (Milakov and Gimelshein, arXiv 1805.02867), the backward makes the
// scores again from the logarithm of their sum (Dao et al., arXiv 2205.14135). Sums and scores are f32, whatever the
// operands are; products take these in their own dtype. `d`: the axis of one head, which scales by its size to the
// -1/2. Heads and batches are axes that queries have, and keys and values may have; `keys` is the axis of a block's
// keys. `visible`: a bool per query and key, or one bool for all of the block; PM_NONE: all is seen.
#ifndef PM_PASSES_ATTEND_BLOCK_H
#define PM_PASSES_ATTEND_BLOCK_H

#include "ir/build.h"

// Running softmax of queries: m is the maximum of their scores so far, l and o are sums over keys of exp(score - m) and
// of that times the value. Types: those of the queries without d; o with the values' axes.
typedef struct PmBlockSums {
  PmValueId o, m, l;
} PmBlockSums;

// Every query must see a key of the block.
PmBlockSums pm_block_attend(PmBuilder *b, PmAxisId d, PmValueId q, PmValueId k, PmValueId v, PmAxisId keys,
                            PmValueId visible);

// Adds to `s` what another block gives the same queries, where `visible`, a bool for all of it (PM_NONE: always).
void pm_block_merge(PmBuilder *b, PmBlockSums *s, const PmBlockSums *other, PmValueId visible);

// What the backward knows of queries: the cotangent of their output, lse = m + log(l) over all of their keys, and
// pm_block_delta.
typedef struct PmBlockQuery {
  PmValueId q, d_o, lse, delta;
} PmBlockQuery;

// What one block adds to the cotangents, f32; those of dk and dv are summed over the queries and their own axes.
typedef struct PmBlockGrads {
  PmValueId dq, dk, dv;
} PmBlockGrads;

PmBlockGrads pm_block_attend_back(PmBuilder *b, PmAxisId d, const PmBlockQuery *x, PmValueId k, PmValueId v,
                                  PmAxisId keys, PmValueId visible);

// sum over d of d_o times o.
PmValueId pm_block_delta(PmBuilder *b, PmAxisId d, PmValueId d_o, PmValueId o);

#endif
