#include <inttypes.h>

#include "tools/fix.h"
#include "tools/show.h"

typedef struct Summary {
  int64_t elements;
  int32_t params, values;
} Summary;

static Summary summarise(const PmModule *m) {
  Summary s = {0};
  for (int32_t i = 0; i < m->n_vars; i++) {
    int64_t n;
    if (m->vars[i].role != PM_ROLE_PARAM || !pm_type_elements(m, &m->vars[i].type, &n)) continue;
    s.params++;
    s.elements += n;
  }
  for (int32_t f = 0; f < m->n_fns; f++) {
    const PmFn *fn = pm_fn(m, f);
    if (fn->dead || (fn->kind != PM_FN_MODEL && fn->kind != PM_FN_BODY)) continue;
    for (PmValueId v = fn->n_params; v < fn->n_values; v++) s.values += fn->values[v].bound;
  }
  return s;
}

static void print_json(const PmModule *m, const Summary *s) {
  PmAnswer a;
  pm_answer_begin(&a);
  PmJson *j = &a.json;
  pm_json_put_str(j, "model", m->name);
  pm_json_put_str(j, "plan", m->plan);
  pm_json_put_i64(j, "params", s->params);
  pm_json_put_i64(j, "elements", s->elements);
  pm_json_put_i64(j, "values", s->values);
  pm_json_put_i64(j, "rules", m->n_rules);
  pm_json_put_i64(j, "ranks", pm_mesh_ranks(m));
  pm_answer_end(&a);
}

PmStatus *pm_cmd_check(PmTool *t) {
  const char *path;
  PM_TRY(pm_tool_file(t, 0, &path));
  if (t->opt.fix) PM_TRY(pm_tool_fix(t, path));
  PmModule *m;
  PM_TRY(pm_tool_module(t, path, "", &m));
  Summary s = summarise(m);
  int32_t rules = m->n_rules;
  // Placement is checked on the whole training step; a model that trains nothing has none.
  if (m->schedule != PM_NONE) PM_TRY(pm_passes_run(&t->passes, m, PM_PLACE_PASSES));
  if (t->opt.json) {
    print_json(m, &s);
    return NULL;
  }
  printf("%s: model %s is well formed: %d parameter%s (%s elements), %d named value%s", path, m->name, s.params,
         pm_plural(s.params), pm_count_text(&t->arena, s.elements), s.values, pm_plural(s.values));
  if (m->plan) {
    printf("; plan %s: %d rule%s, %" PRId64 " rank%s", m->plan, rules, pm_plural(rules), pm_mesh_ranks(m),
           pm_plural(pm_mesh_ranks(m)));
  }
  if (m->schedule == PM_NONE) printf("; no `train` block");
  printf("\n");
  return NULL;
}
