// Private to split_backward: how a backward function falls into its input part and its weight part.
#ifndef PM_PASSES_SPLIT_H
#define PM_PASSES_SPLIT_H

#include "passes/rewrite.h"

// Values have the ids of the function; behind them stand, for each inner call that is split itself, the values that its
// input part hands to its weight part: results of the call of the input part, stacked where that is a repeat.
typedef struct PmHalves {
  PmFnId fn;
  bool loop;  // the body of a repeat
  PmAxisId axis;
  int32_t n_carry;  // of the repeat, else 0
  // by result
  bool *is_input;  // of the input part; the others are of the weight part
  // by node
  bool *in_input, *in_weight;  // where it runs; both: made again, or a call that is split
  struct PmHalves **inner;      // how a call is split, or NULL: it runs whole in one part
  int32_t *first_handed;       // of a split call: the first value that its input part hands on
  // by value
  int32_t n_values;
  PmType *types;
  bool *input_takes;   // parameters: of the input part
  bool *weight_takes;  // parameters: of the weight part
  bool *handed;        // a result of the input part for the weight part
  int32_t n_handed;
  PmFnId input, weight;  // once they are built
} PmHalves;

// Splits the callee of a call or repeat, when `wanted` (by result) are the results that its caller needs for the input
// part around it. NULL where one part would be empty: the call stays whole. LIMIT when what a loop hands on passes what
// a type may hold.
PM_MUST_CHECK PmStatus *pm_split_plan(PmModule *m, PmArena *arena, const PmNode *call, const bool *wanted,
                                      PmHalves **out);
// Adds both parts, and those of inner calls, to the module; the function itself stays.
//   input:  (parameters that input_takes) -> (results that is_input, handed values in order)
//   weight: (parameters that weight_takes, handed values) -> (the other results)
void pm_split_build(PmModule *m, PmArena *arena, PmHalves *p);

#endif
