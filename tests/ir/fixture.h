// Modules of tests are written in the text form.
#ifndef PM_TESTS_IR_FIXTURE_H
#define PM_TESTS_IR_FIXTURE_H

#include "harness.h"
#include "ir/build.h"
#include "ir/interp.h"
#include "ir/text.h"

typedef struct Fixture {
  PmArena arena;
  PmInterner names;
  PmModule *m;
} Fixture;

void fixture_init(Fixture *fx);
void fixture_deinit(Fixture *fx);
// Reads and verifies a module that must be right, and checks that it prints and reads back to itself.
void fixture_read(Fixture *fx, const char *text);
// The text must be refused with a message that contains `why`.
void fixture_refuse(const char *text, const char *why);

// Runs function `fn` on whole values, one array a parameter, and compares each result, gathered, with `want` within
// `tolerance`.
void fixture_run(Fixture *fx, const char *fn, PmInterpMode mode, const double *const *in, const double *const *want,
                 double tolerance);

#endif
