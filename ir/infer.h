// What the type rules of ir/infer*.c share.
//
// A rule reads operand types, attributes and the given type, all of them already checked for memory safety (axis and
// mesh ids in range, no duplicates), and writes c->out. It computes placements at every stage; only at stage LOCAL does
// a clash count, and pm_infer clears the placement of the results at the other stages.
#ifndef PM_IR_INFER_H
#define PM_IR_INFER_H

#include "ir/build.h"

typedef struct PmRuleCall {
  const PmModule *m;
  const PmAttr *attr;
  const PmType *in;
  int32_t n_in;
  const PmType *given;  // or NULL
  PmType *out;
  int32_t n_out;
  PmBuf *why;  // or NULL
  bool local;  // placements count
} PmRuleCall;

#define TYPE(fn) bool pm_rule_##fn(PmRuleCall *c);
#include "ir/ops.def"

// Always false, for `return pm_refuse(...)`.
bool pm_refuse(PmRuleCall *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
const char *pm_axis_text(const PmRuleCall *c, PmAxisId axis);
// The first operand has the axis.
bool pm_need_axis(PmRuleCall *c, const PmType *t, PmAxisId axis);
// Axes that both types have are split alike.
bool pm_need_same_split(PmRuleCall *c, const PmType *a, const PmType *b);
// Appends a dim to the result; refuses a duplicate or too many.
bool pm_out_dim(PmRuleCall *c, const PmType *from, int32_t dim);
bool pm_out_axis(PmRuleCall *c, PmAxisId axis);
bool pm_out_partial(PmRuleCall *c, int32_t mesh, PmReduceKind kind);
// The operand's partials pass to the result: all of them, or sums only (a max is then refused).
bool pm_pass_partials(PmRuleCall *c, const PmType *t);
bool pm_pass_sums(PmRuleCall *c, const PmType *t);
bool pm_need_no_partial(PmRuleCall *c, const PmType *t);
// A summed dim that is split leaves partials.
bool pm_leave_partials(PmRuleCall *c, const PmSplit *s, PmReduceKind kind);

// The type names axes and mesh axes of the module, each once, and keeps the limits. With `placed` also: each mesh axis
// once among splits and partials, and parts that divide. `why` may be NULL.
bool pm_type_valid(const PmModule *m, const PmType *t, bool placed, PmBuf *why);

#endif
