// What communicators say when a rank waits, fails or disagrees. Messages are made without allocating.
#ifndef PM_RUNTIME_COMM_SAY_H
#define PM_RUNTIME_COMM_SAY_H

#include "runtime/comm.h"

#define PM_MESSAGE_BYTES 1024

typedef struct PmMessage {
  char text[PM_MESSAGE_BYTES];
  size_t len;
} PmMessage;

// Appends what fits.
void pm_say(PmMessage *m, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
// " at step 3 in all_reduce (gpt.pmodel:12:7)"
void pm_say_place(PmMessage *m, const PmCommCall *call);

#endif
