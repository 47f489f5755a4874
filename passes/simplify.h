// Private to the simplify pass: the candidate node, the rule engine, value numbering and dead code removal.
#ifndef PM_PASSES_SIMPLIFY_H
#define PM_PASSES_SIMPLIFY_H

#include "passes/rewrite.h"

// A node about to be appended. Its single result has type `type`, whatever the rules do to the rest.
typedef struct PmCand {
  PmOp op;
  PmAttr attr;
  int32_t n_in;
  PmValueId *in;
  PmType type;
} PmCand;

// Value numbering: nodes of one function by what they compute.
typedef struct PmCseEntry {
  uint64_t hash;
  const char *key;
  size_t len;
  PmValueId first;
} PmCseEntry;

typedef struct PmCse {
  PmArena *arena;
  PmBuf key;      // of the last pm_cse_find
  uint64_t hash;  // of the key
  PmCseEntry *slots;
  int32_t n_slots, n_used;
} PmCse;

void pm_cse_init(PmCse *c, PmArena *arena);
void pm_cse_deinit(PmCse *c);
// First result of an earlier node that computes the same, or PM_NONE. `types`: the n_out result types.
PmValueId pm_cse_find(PmCse *c, PmOp op, const PmAttr *attr, const PmValueId *in, int32_t n_in, const PmType *types,
                      int32_t n_out);
// Enters the node that the last pm_cse_find did not find.
void pm_cse_add(PmCse *c, PmValueId first);

typedef struct PmSimp {
  PmModule *m;
  PmArena *scratch;
  PmBuilder b;     // the function being built
  PmFn old;        // its old contents
  PmValueId *map;  // old value -> new value
  PmCse cse;
  bool changed;
} PmSimp;

// A rule either sets *out to an existing value of the candidate's type, or changes op, attr and operands of the
// candidate in place, or returns false and leaves it alone.
typedef bool (*PmSimpRule)(PmSimp *s, PmCand *c, PmValueId *out);

typedef struct PmSimpRow {
  PmOp op;
  PmScalar fn;  // for map; PM_SCALAR_COUNT: any
  PmSimpRule rule;
} PmSimpRow;

// The rule table, PM_OP_COUNT-terminated: one part a file.
extern const PmSimpRow pm_simp_scalar_rows[];
extern const PmSimpRow pm_simp_axis_rows[];

// For rules. The node that defines `v`, or NULL for a parameter.
const PmNode *pm_simp_def(const PmSimp *s, PmValueId v);
const PmType *pm_simp_type(const PmSimp *s, PmValueId v);
// `v` is one number everywhere: a constant or a broadcast of one.
bool pm_simp_is_splat(const PmSimp *s, PmValueId v, double *out);
// A (shared) scalar constant.
PmValueId pm_simp_const(PmSimp *s, PmDtype dtype, double v);
// Turns the candidate into a broadcast of `v`.
void pm_simp_make_broadcast(PmSimp *s, PmCand *c, PmValueId v);
void pm_simp_set_operand(PmSimp *s, PmCand *c, PmValueId v);

// Applies rules and value numbering to one function. False when it stays as it is, with its old contents; *out_changed
// becomes true when a rule or a shared node made a difference.
bool pm_simplify_fn(PmModule *m, PmArena *scratch, PmRebuildRoom *room, PmFnId fn, bool *out_changed);
// Drops nodes of one function that its results do not need; parameters and callees stay.
void pm_dce_fn(PmModule *m, PmArena *scratch, PmRebuildRoom *room, PmFnId fn);
// Drops functions, parameters, results and nodes that nothing needs. `order`: callees first. Functions that change are
// marked in `io_touched`, by function.
void pm_dce_module(PmModule *m, PmArena *scratch, PmRebuildRoom *room, const PmFnId *order, int32_t n_order,
                   bool *io_touched, bool *out_changed);

#endif
