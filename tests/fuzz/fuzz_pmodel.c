// Text of a model: through the frontend, every pass, codegen and the validator.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "codegen/codegen.h"
#include "frontend/frontend.h"
#include "passes/passes.h"
#include "target.h"

static PmStatus *compile(PmArena *arena, const char *path) {
  PmInterner names;
  PmSources sources;
  pm_interner_init(&names, arena);
  pm_sources_init(&sources, arena);
  PmDiags *diags = pm_diags_new(arena, &sources);
  PmFrontendOptions options = {.seed = -1};
  PmModule *m = NULL;
  PM_TRY(pm_frontend_compile(arena, &names, &sources, diags, path, &options, &m));
  PmPassCtx ctx = {.diags = diags, .sources = &sources, .verify = true};
  if (m->schedule == PM_NONE) return NULL;
  PM_TRY(pm_passes_run(&ctx, m, PM_DEFAULT_PASSES));
  PmProgram *program = NULL;
  PM_TRY(pm_codegen(arena, m, &program));
  return pm_program_validate(program);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char path[64];
  snprintf(path, sizeof path, "fuzz.%d.pmodel", (int)getpid());
  FILE *f = fopen(path, "wb");
  if (!f) return 0;
  fwrite(data, 1, size, f);
  fclose(f);
  PmArena arena;
  pm_arena_init(&arena, 0);
  PmStatus *st = compile(&arena, path);
  if (pm_status_code(st) == PM_ERR_INTERNAL) {
    pm_status_print(st, stderr);
    abort();
  }
  pm_status_drop(st);
  pm_arena_deinit(&arena);
  unlink(path);
  return 0;
}
