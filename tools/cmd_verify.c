#include "tools/show.h"
#include "tools/verify.h"

typedef struct Counts {
  int64_t steps, colls, accesses;
} Counts;

static Counts count(const PmProgram *p) {
  Counts c = {0};
  for (int32_t e = 0; e < PM_ENTRY_COUNT; e++) {
    for (int32_t i = 0; i < p->entries[e].n_steps; i++) {
      const PmStep *s = &p->entries[e].steps[i];
      c.steps++;
      c.colls += s->kind == PM_STEP_COLL;
    }
  }
  for (int32_t k = 0; k < p->n_kernels; k++) {
    for (int32_t i = 0; i < p->kernels[k].n_instrs; i++) {
      uint8_t op = p->kernels[k].instrs[i].op;
      c.accesses += op == PM_I_LOAD || op == PM_I_STORE || op == PM_I_STORE_ADD;
    }
  }
  return c;
}

PmStatus *pm_verify_static(PmTool *t, const char *path) {
  PmProgram *p;
  PM_TRY(pm_tool_program(t, path, &p, NULL));
  PM_TRY(pm_tool_check_ranks(t, p));
  PmStatus *st = pm_program_validate(p);
  if (st) {
    PmStatus *failed = PM_STATUS(PM_ERR_VERIFY, "%s: %s", path, pm_status_message(st));
    pm_status_drop(st);
    return failed;
  }
  Counts c = count(p);
  if (t->opt.json) {
    PmAnswer a;
    pm_answer_begin(&a);
    pm_json_put_str(&a.json, "file", path);
    pm_json_put_bool(&a.json, "ok", true);
    pm_json_put_i64(&a.json, "ranks", pm_program_ranks(p));
    pm_json_put_i64(&a.json, "steps", c.steps);
    pm_json_put_i64(&a.json, "collectives", c.colls);
    pm_json_put_i64(&a.json, "kernels", p->n_kernels);
    pm_json_put_i64(&a.json, "accesses", c.accesses);
    pm_json_put_i64(&a.json, "arena_bytes", p->arena_bytes);
    pm_answer_end(&a);
    return NULL;
  }
  PmArena *a = &t->arena;
  printf("%s: safe on %s\n", path, pm_mesh_text(a, p->n_mesh, p->mesh_name, p->mesh_size));
  printf("  %s accesses of %s kernels stay inside the ranges of their %s steps, and parallel turns apart\n",
         pm_count_text(a, c.accesses), pm_count_text(a, p->n_kernels), pm_count_text(a, c.steps));
  printf("  %s collectives, the same on every rank, in one order\n", pm_count_text(a, c.colls));
  printf("  %s buffers: none overlaps another that is live, and the arena of %s bytes is their peak\n",
         pm_count_text(a, p->n_buffers), pm_count_text(a, p->arena_bytes));
  return NULL;
}

PmStatus *pm_cmd_verify(PmTool *t) {
  const char *path, *against = t->opt.against;
  PM_TRY(pm_tool_file(t, 0, &path));
  if (t->opt.static_only && against) return PM_STATUS(PM_ERR_USAGE, "`--static` runs nothing: leave out `--against`");
  bool is_program;
  PM_TRY(pm_tool_is_program(path, &is_program));
  if (is_program && against) {
    return PM_STATUS(PM_ERR_USAGE, "`--against=%s` needs the model; a run plan can be verified with `--static`",
                     against);
  }
  if (t->opt.random_plans != 0) {
    if (is_program || t->opt.static_only)
      return PM_STATUS(PM_ERR_USAGE, "`--random-plans` needs a model, and runs its plans");
    return pm_verify_random(t, path);
  }
  return is_program || t->opt.static_only ? pm_verify_static(t, path) : pm_verify_reference(t, path);
}
