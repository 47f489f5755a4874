#include <string.h>

#include "base/json.h"
#include "tools/pipeline.h"

static void print_json(const char *path, const PmProgram *p, size_t len) {
  PmBuf text;
  PmJson j;
  pm_buf_init(&text);
  pm_json_init(&j, &text, true);
  pm_json_object(&j);
  pm_json_key(&j, "file"), pm_json_str(&j, path);
  pm_json_key(&j, "bytes"), pm_json_i64(&j, (int64_t)len);
  pm_json_key(&j, "ranks"), pm_json_i64(&j, pm_program_ranks(p));
  pm_json_key(&j, "kernels"), pm_json_i64(&j, p->n_kernels);
  pm_json_key(&j, "steps"), pm_json_i64(&j, p->entries[PM_ENTRY_STEP].n_steps);
  pm_json_key(&j, "arena_bytes"), pm_json_i64(&j, p->arena_bytes);
  pm_json_key(&j, "persistent_bytes"), pm_json_i64(&j, p->persistent_bytes);
  pm_json_end_object(&j);
  printf("%s\n", pm_buf_str(&text));
  pm_buf_deinit(&text);
}

PmStatus *pm_cmd_compile(PmTool *t) {
  const char *path, *out = t->opt.out;
  PM_TRY(pm_tool_file(t, 0, &path));
  if (!out) return PM_STATUS(PM_ERR_USAGE, "`pmodel compile` needs `-o FILE` (`-o -` writes to standard output)");
  if (t->opt.json && strcmp(out, "-") == 0) {
    return PM_STATUS(PM_ERR_USAGE, "`--json` and `-o -` both want standard output");
  }
  PmProgram *p;
  PM_TRY(pm_tool_program(t, path, &p, NULL));
  PmBuf text;
  pm_buf_init(&text);
  if (t->opt.text) {
    pm_program_print(p, &text);
  } else {
    pm_program_write(p, &text);
  }
  size_t len = text.len;
  PmStatus *st = pm_tool_write(out, pm_buf_str(&text), len);
  pm_buf_deinit(&text);
  if (!st && t->opt.json) print_json(out, p, len);
  return st;
}
