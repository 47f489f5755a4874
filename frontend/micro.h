// Micro-batches: how the model is split into what runs before them, in each, and after them. Internal to micro*.c.
//
// micro.c tells how each value depends on the micro-batch, micro_need.c what must wait until after the last one,
// micro_split.c builds the functions.
#ifndef PM_FRONTEND_MICRO_H
#define PM_FRONTEND_MICRO_H

#include "frontend/lower.h"

typedef enum PmPart {
  PM_PART_SAME,   // the same in every micro-batch
  PM_PART_OWN,    // of one micro-batch
  PM_PART_SUM,    // a summand: the program means the sum of all micro-batches' values
  PM_PART_LATE,   // made of such sums not linearly: known after the last micro-batch
  PM_PART_NEVER,  // made of such sums and of rows: would take a second pass over the rows
} PmPart;

typedef struct PmMicroFn PmMicroFn;

// A value of the micro-batches that what runs after them needs: of this function (node PM_NONE), or front k of the
// repeat at `node`.
typedef struct PmFront {
  PmValueId v;
  int32_t node, k;
  PmValueId main;   // in the function of one micro-batch: the summand
  PmValueId after;  // in the function that runs after: the sum
} PmFront;

// The model, or the body of a repeat in it.
struct PmMicroFn {
  PmFnId id;
  PmFn f;  // a copy: the module's table may move
  PmMicroFn *outer;
  int32_t node;       // of `outer`
  PmMicroFn **inner;  // by node
  // By value.
  uint8_t *part;      // PmPart
  bool *whole;        // a sum over all rows
  bool *counted;      // made of inputs and constants alone, in no repeat's turns, and fit to be summed before
  bool *again;        // the same everywhere, and what runs after can compute it
  PmSpan *sum;        // SUM, LATE, NEVER: the sum over all rows that it comes from
  PmSpan *use;        // LATE, NEVER: where that is not used linearly
  bool *late;         // computed after
  bool *front;        // summed and handed to what runs after
  int32_t *early;     // its number among the values that are summed before, or PM_NONE
  PmValueId *before;  // in the function that runs before, or PM_NONE
  // By node: bit i: operand i is what was summed before, not this micro-batch's summand.
  uint64_t *early_in;
  bool *uses_early;  // by number: here or in an inner repeat
  PmFront *fronts;
  int32_t n_fronts;
};

typedef struct PmEarly {
  PmMicroFn *f;
  PmValueId v;
} PmEarly;

typedef struct PmMicro {
  PmLower *lw;
  PmMicroFn *model;
  PmEarly *early;
  int32_t n_early, cap_early;
  int32_t n_summed;  // the first results of the model, which the micro-batches sum: the loss, and reports
} PmMicro;

#define PM_MICRO_MAX_EARLY 256

// micro.c
// The place in the program that the node was built for, or PM_NO_SPAN.
PmSpan pm_micro_span(const PmMicro *mi, const PmMicroFn *f, int32_t node);
// The type has the axis that micro-batches divide.
bool pm_micro_rows(const PmMicro *mi, const PmType *t);
// The other operands of node `n` must be summands too where one is: those that are none are averaged.
bool pm_micro_joint(const PmNode *n, int32_t operand);
// The value that a parameter of a repeat's body stands for in the function around; false: it changes from turn to turn.
bool pm_micro_outside(const PmMicroFn *f, PmValueId v, PmValueId *out);

// micro_need.c: fills late, front, early, n_summed; false after an error.
bool pm_micro_need(PmMicro *mi);

// micro_split.c: the model becomes the function of one micro-batch; fills `before` and `after` of the module. Needs
// pm_micro_need.
void pm_micro_split(PmMicro *mi);

#endif
