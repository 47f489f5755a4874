// Private to differentiate: reverse mode over functions.
//
// A function f becomes a pair. f.fwd takes f's parameters and returns f's results, then residuals: values that the
// backward needs and that the caller does not have. f.bwd takes residuals and cotangents of results, and returns
// cotangents of parameters; PmGradPair.args and .grads say which is which. Everything lives in the scratch arena that
// the caller gives, and dies with it; the functions live in the module.
#ifndef PM_PASSES_GRAD_H
#define PM_PASSES_GRAD_H

#include "passes/rewrite.h"

typedef enum PmGradArgKind {
  PM_ARG_PARAM,   // the operand of f at `index`: a residual that the caller has
  PM_ARG_RESULT,  // result `index` of f.fwd (of f, or a residual)
  PM_ARG_COT,     // cotangent of f's result `index`
  PM_ARG_ACC,     // loops: the sum so far of the cotangents of invariant parameter `index`; carried
} PmGradArgKind;

typedef struct PmGradArg {
  PmGradArgKind kind;
  int32_t index;
} PmGradArg;

// How f is called. A loop is the body of a repeat: its f.bwd is the body of the reverse repeat, with the parameters
// (cotangents of carried results, sums of invariants | invariant residuals | stacked residuals and cotangents) and the
// results (cotangents of carried parameters, sums | cotangents of stacked parameters).
typedef struct PmGradUse {
  PmFnId fn;
  bool loop;
  PmAxisId axis;  // loops: the repeat axis
  int32_t n_carry, n_inv;
  const bool *active;  // by parameter: its cotangent is wanted
  const bool *seed;    // by result: its cotangent is given
  const uint8_t
      *held;  // by parameter: the PmDtype that its cotangent is held in, PM_BOOL: its own; NULL: all their own
} PmGradUse;

typedef struct PmGradPair {
  PmGradUse use;
  PmFnId fwd, bwd;
  PmGradArg *args;  // the parameters of bwd
  int32_t n_args;
  int32_t bwd_carry, bwd_inv;  // loops: the first bwd_carry arguments are carried, the next bwd_inv invariant
  int32_t *grads;              // by result of bwd: the parameter of f whose cotangent it is
  int32_t n_grads;
} PmGradPair;

// Which values matter. active: depends on an active parameter by differentiable ops. useful: active, and a seeded
// result depends on it; exactly these values get a cotangent.
typedef struct PmFlow {
  PmGradUse use;
  const bool *active, *active_out;  // by value, by result
  const bool *useful;               // by value; NULL until asked for
} PmFlow;

typedef struct PmDiff {
  PmModule *m;
  PmArena *arena;
  bool use_declared;
  int32_t n_declared;  // functions below this id may be declared pairs; the others were derived here
  PmGradPair **pairs;
  int32_t n_pairs, cap_pairs;
  PmFlow **flows;
  int32_t n_flows, cap_flows;
} PmDiff;

bool pm_grad_use_equal(const PmDiff *d, const PmGradUse *a, const PmGradUse *b);
// Fills active and active_out; use.seed is ignored.
const PmFlow *pm_flow_forward(PmDiff *d, PmFnId fn, const bool *active);
// Fills useful too.
const PmFlow *pm_flow(PmDiff *d, PmFnId fn, const bool *active, const bool *seed);
// The use that a call or repeat node makes of its callee, given what matters in the function around it. For a repeat
// the carried flags are closed: what one turn makes active or needs, the next has.
PmGradUse pm_flow_call(PmDiff *d, const PmNode *node, const bool *active, const bool *useful);

// derive.c: fills fwd, bwd, args and grads of a pair whose use is set.
PM_MUST_CHECK PmStatus *pm_grad_derive(PmDiff *d, PmGradPair *p);
PM_MUST_CHECK PmStatus *pm_grad_pair(PmDiff *d, const PmGradUse *use, const PmGradPair **out);
// f.fwd and f.bwd for a call of `fn` with the given active parameters and every float result seeded. use_declared: take
// declared pairs where the module has them, instead of deriving all. INPUT when a declared pair does not fit.
PM_MUST_CHECK PmStatus *pm_differentiate_fn(PmModule *m, PmArena *scratch, PmFnId fn, const bool *active,
                                            bool use_declared, const PmGradPair **out);

// Of a value that one `where` alone reads, directly or through pointwise ops: where it is not taken.
typedef struct PmUntaken {
  PmValueId cond;  // in the draft; PM_NONE: it is read elsewhere too
  bool when;       // not taken where `cond` is this
} PmUntaken;

// One backward function being drafted; what the hooks of grad_ops.c and grad_scalars.c work on.
typedef struct PmGrad {
  PmDiff *d;
  PmBuilder b;
  PmFn f;                    // the primal function
  PmValueId *primal;         // value of f -> draft
  PmValueId *cot;            // value of f -> draft, or PM_NONE so far
  const bool *useful;        // value of f
  uint8_t *held;             // value of f: PmDtype of its cotangent
  int32_t *readers;          // value of f: nodes and results that read it
  PmUntaken *untaken;        // value of f
  const PmGradPair **pairs;  // node of f -> the pair that its call became, or NULL
  PmValueId **call_results;  // node of f -> all results of its forward call, in the draft
} PmGrad;

// A pair under construction: f.fwd is built but for its residual results; f.bwd is a draft whose parameters are all the
// values of f.fwd that could be residuals, then cotangents.
typedef struct PmGradDraft {
  PmDiff *d;
  PmGradPair *p;
  PmFn f;                    // the primal function
  PmBuilder b;               // of f.fwd
  PmValueId *of_primal;      // value of f -> value of f.fwd
  const PmGradPair **pairs;  // node of f -> pair, or NULL
  PmValueId *first;          // node of f -> first result of its node in f.fwd
  int32_t n_fwd;             // values of f.fwd
  PmValueId *of_fwd;         // value of f.fwd -> draft
  PmValueId *seeds;          // result of f -> the draft's parameter that is its cotangent, or PM_NONE
} PmGradDraft;

// residuals.c: gives f.fwd its results and f.bwd its final parameters; fills the pair's args.
void pm_grad_close(PmGradDraft *w);

bool pm_grad_wants(const PmGrad *g, PmValueId v);
// Adds `d`, cast to the dtype that the cotangent of `v` is held in; nothing when v wants none. The order of calls is
// the order of the sum.
void pm_grad_add(PmGrad *g, PmValueId v, PmValueId d);
// A permuted broadcast where the axes of `v` stand in another order than those of `type`, which it has all.
PmValueId pm_grad_conform(PmGrad *g, PmValueId v, const PmType *type);
const char *pm_grad_name(PmModule *m, const char *name);  // "d(<name>)"; NULL for NULL
// The type that the cotangent of parameter `param` of f has.
PmType pm_grad_held_type(const PmFn *f, const PmGradUse *use, int32_t param);
PmValueId pm_grad_splat(PmGrad *g, double v, PmValueId like);

// Some hook passes a cotangent through this op or scalar function.
bool pm_grad_flows(const PmNode *node);
// Adds the cotangents of the node's operands. Some result of the node has a cotangent.
void pm_grad_node(PmGrad *g, const PmNode *node);
bool pm_deriv_flows(PmScalar fn);
// Cotangent of operand k of a map whose result has cotangent `c`; PM_NONE when it has none.
PmValueId pm_deriv(PmGrad *g, const PmNode *node, int32_t k, PmValueId c);

// eval_mode.c: in `fn` and what it calls, 1 takes the place of every random number: what no draw gives, by which a
// program tells evaluation from training. Functions that others call too are copied.
void pm_eval_mode(PmModule *m, PmArena *scratch, PmFnId fn);

// train_step.c: the step and eval functions around the model's pair.
PM_MUST_CHECK PmStatus *pm_train_step_build(PmModule *m, PmArena *scratch, const PmGradPair *model, bool keep_grads);

#endif
