// Attention whose sequence is split: which calls are the library's attention, and what a plan's directive makes of
// them.
#ifndef PM_PASSES_ATTEND_H
#define PM_PASSES_ATTEND_H

#include "passes/place.h"

typedef enum PmCoreKind { PM_CORE_PLAIN, PM_CORE_FWD, PM_CORE_BWD } PmCoreKind;

// A function that is causal_attention[t, s, d] of the library, its forward or its backward, as std.pmodel has them:
// (q, k, v) -> o;  (q, k, v) -> (o, lse);  (q, k, v, o, lse, d_o) -> (dq, dk, dv).
typedef struct PmCore {
  PmCoreKind kind;
  PmAxisId t, s, d;    // of the queries, of the keys once they are renamed, of one head
  const PmRule *rule;  // the first directive that names s, or NULL: then keys and values are gathered
  int32_t mesh;        // its mesh axis
} PmCore;

// False: the function is something else. A user's own function of that name is something else.
bool pm_core_find(const PmModule *m, const PmFn *f, PmCore *out);

// The function's queries and keys are split over the directive's mesh axis of more than one rank, as placed.
bool pm_core_applies(const PmModule *m, const PmFn *f, const PmCore *core, PmAttend how);

// The mesh axis of `ulysses` stands on the function's heads, as pm_attend_place has it: results leave as they lie.
bool pm_core_moved(const PmModule *m, const PmFn *f, const PmCore *core);

// Per axis of the module: the mesh axis over which a ring wants it split in zigzag, or PM_NONE. That is what balances
// causal attention; where the axis does not divide into two chunks a rank, or the directive says so, its parts follow
// one another. Reports a directive that asks for zigzag where it cannot be.
const int32_t *pm_attend_orders(const PmModule *m, const PmTree *tree, PmDiags *diags);

// Placement: after the model's values are placed, moves the mesh axis of `ulysses` from the sequence to the heads
// within attention and in what its backward is given, and reports directives that apply to nothing or do not divide.
void pm_attend_place(PmModule *m, const PmTree *tree, PmPlaced *slots, PmDiags *diags);

#endif
