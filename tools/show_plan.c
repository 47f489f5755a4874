// The effective plan, as a .pplan file whose comments say where each line comes from.
#include "tools/show.h"

static void print_json(const PmPlanText *plan) {
  PmAnswer a;
  pm_answer_begin(&a);
  pm_json_put_str(&a.json, "plan", plan->name);
  pm_json_key(&a.json, "lines");
  pm_json_array(&a.json);
  for (int32_t i = 0; i < plan->n_lines; i++) {
    pm_json_object(&a.json);
    pm_json_put_str(&a.json, "text", plan->lines[i].text);
    pm_json_put_str(&a.json, "origin", plan->lines[i].origin);
    pm_json_end_object(&a.json);
  }
  pm_json_end_array(&a.json);
  pm_answer_end(&a);
}

PmStatus *pm_show_plan(PmTool *t, const char *path) {
  bool is_program;
  PM_TRY(pm_tool_is_program(path, &is_program));
  if (is_program)
    return PM_STATUS(PM_ERR_USAGE, "`%s` is a run plan; this needs the model that it was compiled from", path);
  PmFrontendOptions options = pm_tool_frontend(t);
  PmPlanText plan = {0};
  PM_TRY(pm_frontend_plan(&t->arena, &t->names, &t->sources, t->diags, path, &options, &plan));
  if (t->opt.json) {
    print_json(&plan);
    return NULL;
  }
  if (!plan.name) {
    printf("# no plan: one rank\n");
    return NULL;
  }
  printf("# plan %s\n", plan.name);
  PmTable table;
  pm_table_init(&table, &t->arena, "ll");
  for (int32_t i = 0; i < plan.n_lines; i++) {
    pm_table_cell(&table, plan.lines[i].text);
    pm_table_printf(&table, "# %s", plan.lines[i].origin ? plan.lines[i].origin : "-");
  }
  pm_table_print(&table, "", stdout);
  return NULL;
}
