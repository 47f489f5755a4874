#include <string.h>

#include "base/checked.h"
#include "frontend/format.h"
#include "tools/import.h"
#include "tools/show.h"

static const char *file_name(PmArena *arena, const char *path) {
  const char *slash = strrchr(path, '/');
  char *name = pm_arena_strdup(arena, slash ? slash + 1 : path);
  for (char *c = name; *c; c++) {
    if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = '?';
  }
  return name;
}

static void print_json(const char *path, const PmImportFamily *family, const char *text) {
  PmAnswer a;
  pm_answer_begin(&a);
  PmJson *j = &a.json;
  pm_json_put_str(j, "file", path);
  pm_json_put_str(j, "model_type", family->model_type);
  pm_json_put_str(j, "text", text);
  pm_answer_end(&a);
}

// The filled template in the canonical layout.
static PmStatus *write_text(PmTool *t, const PmImportFamily *family, const PmImportVars *vars, PmBuf *out) {
  PmBuf raw;
  pm_buf_init(&raw);
  pm_import_fill(family, vars, &raw);
  const char *owned = pm_arena_strdup(&t->arena, pm_buf_str(&raw));
  int32_t file = pm_sources_add(&t->sources, "imported.pmodel", owned, raw.len);
  pm_buf_deinit(&raw);
  if (pm_format(&t->arena, &t->names, &t->sources, t->diags, file, false, out)) return NULL;
  return PM_STATUS(PM_ERR_INTERNAL, "the template of `%s` gave no program", family->model_type);
}

static PmStatus *import_config(PmTool *t, const char *path) {
  const char *out = t->opt.out;
  if (t->opt.json && out && strcmp(out, "-") == 0) {
    return PM_STATUS(PM_ERR_USAGE, "`--json` and `-o -` both want standard output");
  }
  int32_t file;
  PM_TRY(pm_sources_load(&t->sources, path, PM_MAX_FILE_BYTES, &file));
  const PmImportFamily *family;
  PmImportVars vars;
  PM_TRY(pm_import_read(&t->arena, &t->sources, file, &family, &vars));
  pm_import_set(&vars, (PmImportVar){.name = "file", .text = file_name(&t->arena, path)});
  PmBuf text;
  pm_buf_init(&text);
  PmStatus *st = NULL;
  PM_TRY_CLEAN(st, write_text(t, family, &vars, &text), done);
  if (out || !t->opt.json) st = pm_tool_write(out ? out : "-", pm_buf_str(&text), text.len);
  if (!st && t->opt.json) print_json(out, family, pm_buf_str(&text));
done:
  pm_buf_deinit(&text);
  return st;
}

PmStatus *pm_cmd_import(PmTool *t) {
  static const char form[] = "hf-config";
  const char *what = t->opt.n_args > 0 ? t->opt.args[0] : NULL, *path;
  if (!what || strcmp(what, form) != 0) {
    return PM_STATUS(PM_ERR_USAGE, "`pmodel import` needs a form and a file: `pmodel import hf-config CONFIG.json`");
  }
  PM_TRY(pm_tool_file(t, 1, &path));
  return import_config(t, path);
}
