#include <string.h>

#include "tools/show.h"

static void print_json(const char *path, const PmProgram *p, size_t len) {
  PmAnswer a;
  pm_answer_begin(&a);
  PmJson *j = &a.json;
  pm_json_put_str(j, "file", path);
  pm_json_put_i64(j, "bytes", (int64_t)len);
  pm_json_put_i64(j, "ranks", pm_program_ranks(p));
  pm_json_put_i64(j, "kernels", p->n_kernels);
  pm_json_put_i64(j, "steps", p->entries[PM_ENTRY_STEP].n_steps);
  pm_json_put_i64(j, "arena_bytes", p->arena_bytes);
  pm_json_put_i64(j, "persistent_bytes", p->persistent_bytes);
  pm_answer_end(&a);
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
