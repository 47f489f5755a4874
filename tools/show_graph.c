#include "ir/text.h"
#include "tools/show.h"

PmStatus *pm_show_graph(PmTool *t, const char *path) {
  if (t->opt.residuals || t->opt.split_backward) return pm_show_residuals(t, path);
  PmModule *m;
  PM_TRY(pm_tool_module(t, path, "simplify", &m));
  PmBuf text;
  pm_buf_init(&text);
  pm_module_print(m, &text);
  if (t->opt.json) {
    PmAnswer a;
    pm_answer_begin(&a);
    pm_json_put_str(&a.json, "pir", pm_buf_str(&text));
    pm_answer_end(&a);
  } else {
    fwrite(pm_buf_str(&text), 1, text.len, stdout);
  }
  pm_buf_deinit(&text);
  return NULL;
}
