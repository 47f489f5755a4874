#include "ir/text.h"
#include "tools/pipeline.h"

#define MAX_PIR_BYTES ((size_t)64 << 20)

PmStatus *pm_cmd_opt(PmTool *t) {
  const char *path;
  PM_TRY(pm_tool_file(t, 0, &path));
  PM_TRY(pm_tool_check_print_after(t));
  char *data;
  size_t len;
  PM_TRY(pm_tool_read(t, path, MAX_PIR_BYTES, &data, &len));
  PmModule *m;
  PM_TRY(pm_module_read(&t->arena, &t->names, path, data, len, &m));
  PM_TRY(pm_passes_run(&t->passes, m, t->opt.passes ? t->opt.passes : ""));
  PmBuf text;
  pm_buf_init(&text);
  pm_module_print(m, &text);
  PmStatus *st = pm_tool_write(t->opt.out ? t->opt.out : "-", pm_buf_str(&text), text.len);
  pm_buf_deinit(&text);
  return st;
}
