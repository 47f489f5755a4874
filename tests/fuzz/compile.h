// What the targets that compile share.
#ifndef PM_TESTS_FUZZ_COMPILE_H
#define PM_TESTS_FUZZ_COMPILE_H

#include "frontend/frontend.h"
#include "target.h"

// A compilation that may read the input as the file `path`, and make the module of something.
typedef PmStatus *FuzzFrontend(PmArena *arena, PmInterner *names, PmSources *sources, PmDiags *diags, const char *path,
                               PmModule **out);

// The input as a file whose name ends so, through the frontend and, with a training step, every pass, codegen and the
// validator. An internal error ends the process.
void fuzz_compile(const uint8_t *data, size_t size, const char *suffix, FuzzFrontend *frontend);

#endif
