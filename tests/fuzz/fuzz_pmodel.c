// Text of a model: through the frontend, every pass, codegen and the validator.
#include "compile.h"

static PmStatus *model(PmArena *arena, PmInterner *names, PmSources *sources, PmDiags *diags, const char *path,
                       PmModule **out) {
  PmFrontendOptions options = {.seed = -1};
  return pm_frontend_compile(arena, names, sources, diags, path, &options, out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_compile(data, size, "pmodel", model);
  return 0;
}
