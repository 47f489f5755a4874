// Names that the compiler gives and the runtime knows.
#ifndef PM_BASE_NAMES_H
#define PM_BASE_NAMES_H

// The axis of an input that numbers the micro-batches, right before their rows: the two stand for the rows of a step.
#define PM_TURN_AXIS "batch.turn"

#endif
