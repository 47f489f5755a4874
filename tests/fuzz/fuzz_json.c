// The configuration of a published model: read as JSON and imported. A text that comes out of it follows the grammar.
#include <stdlib.h>
#include <string.h>

#include "frontend/ast.h"
#include "target.h"
#include "tools/import.h"

static void check_text(PmArena *arena, PmSources *sources, const PmBuf *text) {
  PmInterner names;
  pm_interner_init(&names, arena);
  PmDiags *diags = pm_diags_new(arena, sources);
  int32_t file = pm_sources_add(sources, "imported.pmodel", pm_buf_str(text), text->len);
  PmText ast;
  if (!pm_parse(arena, &names, sources, diags, file, PM_TEXT_FILE, &ast) || pm_diags_errors(diags) > 0) {
    pm_diags_print(diags, false, stderr);
    abort();
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  PmArena arena;
  PmSources sources;
  pm_arena_init(&arena, 0);
  pm_sources_init(&sources, &arena);
  char *text = pm_arena_alloc(&arena, size + 1);
  if (size > 0) memcpy(text, data, size);
  int32_t file = pm_sources_add(&sources, "fuzz.json", text, size);
  const PmImportFamily *family;
  PmImportVars vars;
  PmStatus *st = pm_import_read(&arena, &sources, file, &family, &vars);
  if (!st) {
    pm_import_set(&vars, (PmImportVar){.name = "file", .text = "fuzz.json"});
    PmBuf model;
    pm_buf_init(&model);
    pm_import_fill(family, &vars, &model);
    check_text(&arena, &sources, &model);
    pm_buf_deinit(&model);
  }
  pm_status_drop(st);
  pm_arena_deinit(&arena);
  return 0;
}
