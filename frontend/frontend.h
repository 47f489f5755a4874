// The frontend: .pmodel text -> syntax tree -> checked graph of functions over named axes (stage LOGICAL).
//
// What a module holds when it leaves here, and what later passes may rely on:
//   * vars: inputs, parameters and the model's states (role STATE, no owner) in the order of their declaration, then "step" (role STEP, f64[]), then the optimizer
//     states ("layer.attn.wq/m", role STATE, owner = the parameter), grouped by parameter in the optimizer's order.
//   * model fn: one parameter a var of role INPUT, PARAM or STATE, in that order and bound to it; result 0 is the minimised
//     scalar (report "loss"), then one result a `report`, then one
//     result a state that is assigned, bound to it. The value that the program calls `logits` is named "logits".
//   * `repeat`: a PM_FN_BODY named "<model>.<path>"; its stacked operands are the parameters declared inside, in the
//     order of the vars; the results are the carried values, then
//     the states that a turn assigns, stacked.
//   * blocks are inlined; a value's name is its path ("layer.attn.q"), bound for results of block-level statements.
//   * `fn` with axes or statements: one PM_FN_COMPOSITE for each different combination of argument types, axes and
//   constant
//     arguments; base = its name in the source. Pointwise one-expression `fn`s are inlined.
//   * optimizer: PM_FN_UPDATE (value, grad, lr: f64[], step: f64[], states...) -> (value, states...), shared by
//   parameters
//     of equal type and constants; schedule: PM_FN_SCHEDULE (step: f64[]) -> f64[]. Without a `train` block with an
//     optimizer, PmVar.update and PmModule.schedule are PM_NONE.
//   * exact numbers (literals, axis sizes, `pos`, `step`, `lr` and what is made only of them) are f64 in the IR, cast
//   where
//     they meet data. A permuted axis order is a `broadcast` to the wanted type.
//   * rules: --shard first, then `pin`s, then the plan's own (children before parents). Mesh axes of size 1 stay.
//
// Declared derivatives: when the library defines X_fwd and X_bwd beside X, each composite "X.n" comes with the
// composites "X.n.fwd" (base "X_fwd") and "X.n.bwd" (base "X_bwd"). Values are matched by PmValue.name:
//   * fwd takes X's parameters; its results are X's results, then residuals; each result carries its name in `return`.
//   * bwd's parameters are, by name: a parameter of X; a result of fwd; or "d_" + a result of X (its cotangent).
//   * bwd's results are the cotangents of X's float parameters, in X's order and with their types.
#ifndef PM_FRONTEND_FRONTEND_H
#define PM_FRONTEND_FRONTEND_H

#include "ir/ir.h"

typedef struct PmFrontendOptions {
  const char *plan;          // NAME of a plan of the file, or FILE.pplan; NULL
  const char *plan_text;     // not NULL: plan items, as the file `plan` would hold them
  const char *mesh;          // "data=2,tensor=4"; NULL
  const char *const *shard;  // rules without the word `shard`: "batch -> data"
  int32_t n_shard;
  const char *const *set;  // "NAME=VALUE", "axis.NAME=VALUE", "const.NAME=VALUE", "train.NAME=VALUE"
  int32_t n_set;
  int64_t seed;             // -1: the model's own
  int64_t steps;            // 0: the model's own
  const char *const *data;  // files in place of the model's own
  int32_t n_data;
  bool trains;  // what is compiled will read its data: that an input has none is an error, else a warning
} PmFrontendOptions;

// Compiles the file at `path`. INPUT when diagnostics were recorded in `diags`; ENVIRONMENT and LIMIT from reading
// files.
PM_MUST_CHECK PmStatus *pm_frontend_compile(PmArena *arena, PmInterner *names, PmSources *sources, PmDiags *diags,
                                            const char *path, const PmFrontendOptions *options, PmModule **out);

// The same for text in memory, as an editor has it; `path` says where its imports are looked up. Copies the text.
// INPUT besides when it holds a NUL byte, LIMIT when it is too long.
PM_MUST_CHECK PmStatus *pm_frontend_compile_text(PmArena *arena, PmInterner *names, PmSources *sources, PmDiags *diags,
                                                 const char *path, const char *text, size_t len,
                                                 const PmFrontendOptions *options, PmModule **out);

typedef struct PmPlanLine {
  const char *text;    // as a .pplan has it, without line end: "shard batch -> data"
  const char *origin;  // "gpt.pmodel:40:3", "--mesh:1:1"
} PmPlanLine;

typedef struct PmPlanText {
  const char *name;  // NULL: one rank, no plan
  PmPlanLine *lines;
  int32_t n_lines;
} PmPlanText;

// The effective plan: what `options` select, with the origin of each line.
PM_MUST_CHECK PmStatus *pm_frontend_plan(PmArena *arena, PmInterner *names, PmSources *sources, PmDiags *diags,
                                         const char *path, const PmFrontendOptions *options, PmPlanText *out);

// How a function of the language is called and what it gives; false when there is none of that name.
bool pm_builtin_doc(const char *name, const char **out_form, const char **out_doc);

#endif
