// What `pad` (pad.c) asks of pad_values.c: what stands in the padding of every value; and what it could pad.
#ifndef PM_PASSES_PAD_H
#define PM_PASSES_PAD_H

#include "passes/tree.h"

// What all positions of one dim's padding hold.
typedef enum PmPadKind {
  PM_PAD_OPEN,   // nothing has been found yet
  PM_PAD_KNOWN,  // one number
  PM_PAD_ANY,    // anything, not-a-number included
} PmPadKind;

typedef struct PmPadValue {
  uint8_t kind;  // PmPadKind
  double value;  // of PM_PAD_KNOWN
} PmPadValue;

// Per slot of the tree: rank entries, one a dim; entries of dims that are not padded mean nothing. Variables hold zeros
// in their padding: the runtime writes them so, and `pad` keeps them so. Allocated in `arena`.
PmPadValue **pm_pad_values(PmArena *arena, const PmModule *m, const PmTree *tree);

static inline bool pm_pad_is(const PmPadValue *v, double number) {
  return v->kind == PM_PAD_KNOWN && v->value == number;
}

// Whether `pad(AXIS)` in a plan would not be refused for what the program does with the axis (E0413).
bool pm_pad_allows(PmModule *m, PmAxisId axis);

#endif
