// Compiles a program for a test and keeps what came out: module, diagnostics as text, plan.
#ifndef PM_TESTS_FRONTEND_COMPILE_H
#define PM_TESTS_FRONTEND_COMPILE_H

#include "frontend/frontend.h"

typedef struct Compiled {
  PmArena arena;
  PmInterner names;
  PmSources sources;
  PmDiags *diags;
  PmModule *module;  // NULL after an error
  PmPlanText plan;
  char *text;  // diagnostics as printed, to be freed with the rest
  PmCode code;
} Compiled;

// The text is written to `file` in the working folder first; text NULL: the file is there.
void compile(Compiled *c, const char *file, const char *text, const PmFrontendOptions *options);
void compile_plan(Compiled *c, const char *file, const char *text, const PmFrontendOptions *options);
void compiled_free(Compiled *c);

int64_t count_params(const PmModule *m);
PmFnId find_base(const PmModule *m, const char *base);  // the first function made of a library function

#endif
