// Rebuilding functions: what simplify, dead code removal and differentiate share. Private to passes/.
//
// A function is never edited node by node: its old contents are moved out, and it is built again under the same id.
#ifndef PM_PASSES_REWRITE_H
#define PM_PASSES_REWRITE_H

#include "ir/build.h"

// Moves the contents out of function `id` and leaves it empty; name, kind, base and bindings stay.
PmFn pm_rebuild_begin(PmModule *m, PmFnId id);

// Where functions are rebuilt one after another, so that each needs no more of the module's arena than before. All but
// `arena` starts as zero.
typedef struct PmRebuildRoom {
  PmArena *arena;  // lives until the last of them
  PmValue *values;
  PmNode *nodes;
  int32_t cap_values, cap_nodes;
} PmRebuildRoom;

// The same as pm_rebuild_begin, but what is built stands in `room` until pm_rebuild_end. One function at a time.
PmFn pm_rebuild_begin_in(PmRebuildRoom *room, PmModule *m, PmFnId id);
// Moves what was built to where the contents `old` of the function stood, which are lost then; to new memory of the
// module's arena if it is larger.
void pm_rebuild_end(const PmRebuildRoom *room, PmModule *m, PmFnId id, const PmFn *old);
// A new parameter with the type, name and bound flag of `v`.
PmValueId pm_rebuild_param(PmBuilder *b, const PmValue *v);
// Appends `node` of function `old` with its operands replaced through `map`; result types (placement included), names
// and place stay. Returns the first result and fills map for all of them.
PmValueId pm_rebuild_node(PmBuilder *b, const PmFn *old, const PmNode *node, PmValueId *map);
// Builds function `id` again, node by node: `write` appends what stands for node `n` and fills map for its results, or
// returns false for a node that stays as it is.
typedef bool PmRewriteNode(void *context, PmBuilder *b, const PmFn *old, const PmNode *n, PmValueId *map);
void pm_rewrite_fn(PmModule *m, PmArena *scratch, PmFnId id, PmRewriteNode *write, void *context);
// The op's row says that the result type is given explicitly.
bool pm_op_takes_type(PmOp op);
// values[v] of the function being built. Valid until the next pm_b_*.
PmValue *pm_b_value(const PmBuilder *b, PmValueId v);
// Gives `v` the name unless it has one; a bound name replaces one that is not.
void pm_b_lend_name(PmBuilder *b, PmValueId v, const char *name, bool bound);
// A constant broadcast to `type` (which also gives the dtype and what an index points into).
PmValueId pm_b_splat(PmBuilder *b, double v, const PmType *type);
// The number that a value is everywhere: a constant, through broadcasts and casts, which may round it.
bool pm_is_splat(const PmFn *f, PmValueId v, double *out_number);
bool pm_is_zero(const PmFn *f, PmValueId v);  // a splat of zero, which is as good as a partial sum

// Pointwise work and views: made again in another place for no memory traffic of its own, and with the same bits.
bool pm_is_cheap(const PmNode *node);

// An axis of `axis`' size that `t` does not have, under which a value with `axis` can be stacked along `axis`.
PmAxisId pm_other_axis(PmModule *m, PmAxisId axis, const PmType *t);

// By value: the operands and results of the function that it is.
int32_t *pm_fn_uses(PmArena *arena, const PmFn *f);

// Bytes of all elements, placement ignored; more than 2^48 elements count as so many.
int64_t pm_type_whole_bytes(const PmModule *m, const PmType *t);

// All functions that are not dead, callees before callers. LIMIT when calls nest deeper than PM_MAX_NESTING.
PM_MUST_CHECK PmStatus *pm_fn_order(const PmModule *m, PmArena *arena, PmFnId **out_order, int32_t *out_n);

// A new function that computes value `v` of `fn` alone: only the nodes and parameters that it needs, with their
// bindings.
PmFnId pm_fn_cut(PmModule *m, PmArena *scratch, PmFnId fn, PmValueId v, const char *name, PmFnKind kind);

// The declared pair "<fn>.fwd" and "<fn>.bwd" of a composite; false when the module has none.
bool pm_declared_pair(PmModule *m, PmFnId fn, PmFnId *out_fwd, PmFnId *out_bwd);

#endif
