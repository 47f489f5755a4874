#include "compile.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "codegen/codegen.h"
#include "passes/passes.h"

static PmStatus *compile(PmArena *arena, const char *path, FuzzFrontend *frontend) {
  PmInterner names;
  PmSources sources;
  pm_interner_init(&names, arena);
  pm_sources_init(&sources, arena);
  PmDiags *diags = pm_diags_new(arena, &sources);
  PmModule *m = NULL;
  PM_TRY(frontend(arena, &names, &sources, diags, path, &m));
  PmPassCtx ctx = {.diags = diags, .sources = &sources, .verify = true};
  if (m->schedule == PM_NONE) return NULL;
  PM_TRY(pm_passes_run(&ctx, m, PM_DEFAULT_PASSES));
  PmProgram *program = NULL;
  PM_TRY(pm_codegen(arena, m, &program));
  return pm_program_validate(program);
}

void fuzz_compile(const uint8_t *data, size_t size, const char *suffix, FuzzFrontend *frontend) {
  char path[64];
  snprintf(path, sizeof path, "fuzz.%d.%s", (int)getpid(), suffix);
  FILE *f = fopen(path, "wb");
  if (!f) return;
  fwrite(data, 1, size, f);
  fclose(f);
  PmArena arena;
  pm_arena_init(&arena, 0);
  PmStatus *st = compile(&arena, path, frontend);
  if (pm_status_code(st) == PM_ERR_INTERNAL) {
    pm_status_print(st, stderr);
    abort();
  }
  pm_status_drop(st);
  pm_arena_deinit(&arena);
  unlink(path);
}
