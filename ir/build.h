// Building functions: each pm_b_* appends one node, infers the result type by the op's rule, and returns the result.
// A call that breaks a rule is our own bug (assert): the frontend checks the user's text before it builds.
#ifndef PM_IR_BUILD_H
#define PM_IR_BUILD_H

#include "ir/ir.h"

typedef struct PmBuilder {
  PmModule *m;
  PmFnId fn;   // the function being built; looked up at each call, since PmModule.fns may move
  PmLoc loc;   // given to new nodes
} PmBuilder;

PmValueId pm_b_param(PmBuilder *b, PmType type, const char *name);  // before any node
PmValueId pm_b_const(PmBuilder *b, PmDtype dtype, double v);
PmValueId pm_b_pos(PmBuilder *b, PmAxisId axis);  // f64[axis], values 0 .. size - 1
PmValueId pm_b_broadcast(PmBuilder *b, PmValueId x, PmType to);  // dtype and index_of come from x; x itself when equal
PmValueId pm_b_cast(PmBuilder *b, PmValueId x, PmDtype to);      // x itself when equal
PmValueId pm_b_map(PmBuilder *b, PmScalar fn, const PmValueId *in, int32_t n);
PmValueId pm_b_map1(PmBuilder *b, PmScalar fn, PmValueId a);
PmValueId pm_b_map2(PmBuilder *b, PmScalar fn, PmValueId a, PmValueId c);
PmValueId pm_b_map3(PmBuilder *b, PmScalar fn, PmValueId a, PmValueId c, PmValueId d);
// Broadcasts the narrower operand(s) to the widest one's axes, then maps. Operands' axes must contain each other.
PmValueId pm_b_mapb(PmBuilder *b, PmScalar fn, const PmValueId *in, int32_t n);
PmValueId pm_b_dot(PmBuilder *b, PmValueId x, PmValueId y, const PmAxisId *axes, int32_t n);
// The same with a result in f32, where the operands are narrower: the sum as it is, not rounded to their dtype.
PmValueId pm_b_dot_f32(PmBuilder *b, PmValueId x, PmValueId y, const PmAxisId *axes, int32_t n);
PmValueId pm_b_reduce(PmBuilder *b, PmReduceKind kind, PmValueId x, const PmAxisId *axes, int32_t n);
PmValueId pm_b_rename(PmBuilder *b, PmValueId x, const PmAxisId *from, const PmAxisId *to, int32_t n);
PmValueId pm_b_split(PmBuilder *b, PmValueId x, PmAxisId from, const PmAxisId *to, int32_t n);
PmValueId pm_b_merge(PmBuilder *b, PmValueId x, const PmAxisId *from, int32_t n, PmAxisId to);
PmValueId pm_b_stack(PmBuilder *b, const PmValueId *in, int32_t n, PmAxisId axis);
PmValueId pm_b_select(PmBuilder *b, PmValueId x, PmAxisId axis, int64_t index);
PmValueId pm_b_index(PmBuilder *b, PmValueId table, PmValueId idx, PmAxisId axis);
PmValueId pm_b_scatter_add(PmBuilder *b, PmValueId idx, PmValueId updates, PmAxisId axis, PmType to);
// Return the first result; the others follow.
PmValueId pm_b_call(PmBuilder *b, PmFnId callee, const PmValueId *in, int32_t n);
PmValueId pm_b_repeat(PmBuilder *b, PmFnId callee, PmAxisId axis, int32_t n_carry, int32_t n_inv, bool reverse,
                      const PmValueId *in, int32_t n);
// Any op with given attributes and, where the op's row says so, an explicit result type (else NULL).
PmValueId pm_b_node(PmBuilder *b, PmOp op, const PmAttr *attr, const PmValueId *in, int32_t n, const PmType *given);
void pm_b_results(PmBuilder *b, const PmValueId *results, int32_t n);
void pm_b_name(PmBuilder *b, PmValueId v, const char *name, bool bound);
const PmType *pm_b_type(const PmBuilder *b, PmValueId v);  // valid until the next pm_b_*

// The type rule. `in` are operand types; for ops whose row says so `given` is the wanted result type. Fills
// out_types[n_out]; false with the reason in `why` when the rule is broken. At stage LOCAL placements take part:
//   map, cast, broadcast, reduce, dot: a shared axis must be split alike in all operands that have it; a summed split
//     axis leaves {+m} ({max m} for max); an operand's partial passes where the op is linear (PmOpFlags, PmLinear), else
//     it is refused; one mesh axis may not serve two axes of one node, nor be split and partial at once in the result;
//   pos, broadcast, scatter_add: new axes take the split of the given type; partials that broadcast's given type has are
//     the caller's word that the ranks' values sum to what is meant (true of zero);
//   index: the table's split of the indexed axis becomes {+m}; out-of-range positions read 0;
//   scatter_add: updates' summed axes that are split leave {+m}; the result may be split on axes[0] (rows of other ranks
//     are dropped);
//   split: the split goes to the major part and must divide it; merge: only the major part may be split;
//   select: the axis must be whole; stack: the new axis is whole;
//   repeat: the repeat axis must be whole in stacked operands; call, repeat: operand types equal the callee's.
// At stages LOGICAL and PLACED splits and partials are ignored, and results are whole.
bool pm_infer(const PmModule *m, PmOp op, const PmAttr *attr, const PmType *in, int32_t n_in, const PmType *given,
              PmType *out_types, int32_t n_out, PmBuf *why);
// Number of results that the node will have.
int32_t pm_infer_n_out(const PmModule *m, PmOp op, const PmAttr *attr, int32_t n_in);

#endif
