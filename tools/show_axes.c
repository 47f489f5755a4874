#include "tools/show.h"

PmStatus *pm_show_axes(PmTool *t, const char *path) {
  PmModule *m;
  PM_TRY(pm_tool_module(t, path, "", &m));
  if (t->opt.json) {
    PmAnswer a;
    pm_answer_begin(&a);
    pm_json_key(&a.json, "axes");
    pm_json_array(&a.json);
    for (int32_t i = 0; i < m->n_axes; i++) {
      const PmAxis *axis = &m->axes[i];
      pm_json_object(&a.json);
      pm_json_put_str(&a.json, "name", axis->name);
      pm_json_put_i64(&a.json, "size", axis->size);
      pm_json_put_str(&a.json, "place", pm_loc_text(&t->arena, axis->loc.path, axis->loc.line, axis->loc.col));
      pm_json_end_object(&a.json);
    }
    pm_json_end_array(&a.json);
    pm_answer_end(&a);
    return NULL;
  }
  PmTable table;
  pm_table_init(&table, &t->arena, "lrl");
  const char *const head[] = {"axis", "size", "declared at"};
  for (int32_t i = 0; i < 3; i++) pm_table_cell(&table, head[i]);
  for (int32_t i = 0; i < m->n_axes; i++) {
    const PmAxis *axis = &m->axes[i];
    pm_table_cell(&table, axis->name);
    pm_table_count(&table, axis->size);
    pm_table_cell(&table, pm_loc_text(&t->arena, axis->loc.path, axis->loc.line, axis->loc.col));
  }
  pm_table_print(&table, "", stdout);
  return NULL;
}
