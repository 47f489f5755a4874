// Sharding rules of ops: because axes have names, an op's factors are its axis names.
//
// A factor is one axis of a node's iteration space, with the dims of operands and results where it stands. `place`
// propagates splits along factors; `partition` runs a node with each factor split as it likes.
#ifndef PM_PASSES_SHARD_RULES_H
#define PM_PASSES_SHARD_RULES_H

#include "ir/ir.h"

typedef enum PmFactorKind {
  PM_FACTOR_PASS,   // stands in the result: a split goes through
  PM_FACTOR_SUM,    // reduced away (or indexed): a split leaves a partial result
  PM_FACTOR_WHOLE,  // may not be split
} PmFactorKind;

typedef struct PmFactor {
  PmFactorKind kind;
  PmAxisId axis;    // one of its names, for messages
  bool rows;        // the axis of a table that indices point into
  bool positions;   // an axis of the indices of an exchange: it and `rows` may be split over one mesh axis
  bool counted;     // the axis of slot_of along which ranks count one after the other
  int8_t *in_dim;   // per operand: its dim, or PM_NONE
  int8_t *out_dim;  // per result
} PmFactor;

typedef struct PmFactors {
  int32_t n;
  PmFactor *items;
} PmFactors;

// Factors of a node that is no call, repeat or collective. Allocated in `arena`.
PmFactors pm_shard_factors(PmArena *arena, const PmFn *f, const PmNode *n);

// Which operands must all be partial sums over a mesh axis so that the node can yield one (a bit set), or 0 when the op
// is not linear. For ops that are linear in either of two operands alone the set names one: the first in `may`.
// `may`: operands that can be partial; `zero`: operands that are constant zero (as good as partial: they may be in the
// set).
uint64_t pm_shard_linear(const PmNode *n, uint64_t may, uint64_t zero);

#endif
