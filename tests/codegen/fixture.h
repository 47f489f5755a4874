// A module in text form is compiled, validated, run on the interpreter device, and compared with the reference.
#ifndef PM_TESTS_CODEGEN_FIXTURE_H
#define PM_TESTS_CODEGEN_FIXTURE_H

#include "codegen/codegen.h"
#include "harness.h"
#include "ir/interp.h"
#include "ir/text.h"

typedef struct Fixture {
  PmArena arena;
  PmInterner names;
  PmModule *m;
  PmProgram *p;
} Fixture;

// Reads the module. Function `f` becomes the step when the module has none: its parameters become variables `v0`, `v1`,
// ..., its results reports `r0`, `r1`, ... Compiles and validates.
void fixture_compile(Fixture *fx, const char *text);
void fixture_deinit(Fixture *fx);
// Runs the step once from random variables, on the program and in the interpreter, and compares all reports and
// variables within `tolerance`, relative to the largest element (at least 1).
void fixture_compare(Fixture *fx, double tolerance);
// All of it.
void check(const char *text, double tolerance);
int32_t count_steps(const Fixture *fx, int32_t entry, PmStepKind kind);

#endif
