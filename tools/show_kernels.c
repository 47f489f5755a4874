// Kernels of a run plan: loops, arguments, and how often each runs.
#include <inttypes.h>

#include "tools/show.h"

typedef struct Count {
  int64_t in_entry[PM_ENTRY_COUNT];
} Count;

static const char *const entry_texts[PM_ENTRY_COUNT] = {
    [PM_ENTRY_SETUP] = "setup", [PM_ENTRY_STEP] = "step", [PM_ENTRY_EVAL] = "eval"};

static Count *count_calls(PmArena *arena, const PmProgram *p) {
  Count *counts = PM_NEW_N(arena, Count, p->n_kernels + 1);
  for (int32_t e = 0; e < PM_ENTRY_COUNT; e++) {
    for (int32_t i = 0; i < p->entries[e].n_steps; i++) {
      const PmStep *s = &p->entries[e].steps[i];
      if (s->kind == PM_STEP_KERNEL) counts[s->u.kernel->kernel].in_entry[e]++;
    }
  }
  return counts;
}

// "grid 512 x grid 64", then the loops of the body.
static void put_axes(const PmKernel *k, PmBuf *out) {
  for (int32_t i = 0; i < k->n_outer; i++) {
    pm_buf_printf(out, "%s%" PRId64 "%s", i ? " x " : "", k->outer[i],
                  k->outer_kind[i] == PM_KA_SEQ ? " in order" : "");
  }
  for (int32_t i = 0; i < k->n_instrs; i++) {
    if (k->instrs[i].op == PM_I_LOOP) pm_buf_printf(out, "%sloop %" PRId64, out->len ? ", " : "", k->instrs[i].extent);
  }
  if (out->len == 0) pm_buf_puts(out, "one turn");
}

static void put_args(const PmKernel *k, PmBuf *out) {
  for (int32_t i = 0; i < k->n_args; i++) {
    const PmKArg *a = &k->args[i];
    pm_buf_printf(out, "%s%s%s %s", i ? ", " : "", a->reads ? "r" : "", a->writes ? "w" : "",
                  pm_kdtype_text((PmKDtype)a->dtype));
  }
}

static const char *vec_text(const PmKernel *k) {
  if (k->host) return "host";
  return k->vec == PM_VEC_OUTER ? "outer" : "loop";
}

static void put_kernel(PmJson *j, const PmKernel *k, const Count *count) {
  pm_json_object(j);
  pm_json_put_str(j, "name", k->name);
  pm_json_put_bool(j, "host", k->host);
  pm_json_put_str(j, "vector", vec_text(k));
  pm_json_key(j, "outer");
  pm_json_array(j);
  for (int32_t i = 0; i < k->n_outer; i++) {
    pm_json_object(j);
    pm_json_put_i64(j, "extent", k->outer[i]);
    pm_json_put_str(j, "kind", k->outer_kind[i] == PM_KA_SEQ ? "seq" : "grid");
    pm_json_end_object(j);
  }
  pm_json_end_array(j);
  pm_json_key(j, "loops");
  pm_json_array(j);
  for (int32_t i = 0; i < k->n_instrs; i++) {
    if (k->instrs[i].op == PM_I_LOOP) pm_json_i64(j, k->instrs[i].extent);
  }
  pm_json_end_array(j);
  pm_json_key(j, "args");
  pm_json_array(j);
  for (int32_t i = 0; i < k->n_args; i++) {
    pm_json_object(j);
    pm_json_put_str(j, "dtype", pm_kdtype_text((PmKDtype)k->args[i].dtype));
    pm_json_put_bool(j, "reads", k->args[i].reads);
    pm_json_put_bool(j, "writes", k->args[i].writes);
    pm_json_put_i64(j, "bytes", k->args[i].bytes);
    pm_json_end_object(j);
  }
  pm_json_end_array(j);
  pm_json_put_i64(j, "instrs", k->n_instrs);
  pm_json_key(j, "calls");
  pm_json_object(j);
  for (int32_t e = 0; e < PM_ENTRY_COUNT; e++) pm_json_put_i64(j, entry_texts[e], count->in_entry[e]);
  pm_json_end_object(j);
  pm_json_end_object(j);
}

static void print_json(const PmProgram *p, const Count *counts) {
  PmAnswer a;
  pm_answer_begin(&a);
  pm_json_key(&a.json, "kernels");
  pm_json_array(&a.json);
  for (int32_t i = 0; i < p->n_kernels; i++) put_kernel(&a.json, &p->kernels[i], &counts[i]);
  pm_json_end_array(&a.json);
  pm_answer_end(&a);
}

static void print_text(PmArena *arena, const PmProgram *p, const Count *counts) {
  PmTable table;
  pm_table_init(&table, arena, "lllrrrrl");
  const char *const head[] = {"kernel", "turns", "vector", "instrs", "setup", "step", "eval", "arguments"};
  for (int32_t i = 0; i < 8; i++) pm_table_cell(&table, head[i]);
  PmBuf text;
  pm_buf_init(&text);
  for (int32_t i = 0; i < p->n_kernels; i++) {
    const PmKernel *k = &p->kernels[i];
    pm_table_cell(&table, k->name);
    pm_buf_clear(&text);
    put_axes(k, &text);
    pm_table_cell(&table, pm_buf_str(&text));
    pm_table_cell(&table, vec_text(k));
    pm_table_count(&table, k->n_instrs);
    for (int32_t e = 0; e < PM_ENTRY_COUNT; e++) pm_table_count(&table, counts[i].in_entry[e]);
    pm_buf_clear(&text);
    put_args(k, &text);
    pm_table_cell(&table, pm_buf_str(&text));
  }
  pm_buf_deinit(&text);
  pm_table_print(&table, "", stdout);
  int64_t n[PM_STEP_KIND_COUNT] = {0};
  const PmEntry *step = &p->entries[PM_ENTRY_STEP];
  for (int32_t i = 0; i < step->n_steps; i++) n[step->steps[i].kind]++;
  printf("\na step: %" PRId64 " kernel runs, %" PRId64 " matrix products, %" PRId64 " collectives\n", n[PM_STEP_KERNEL],
         n[PM_STEP_DOT], n[PM_STEP_COLL]);
}

PmStatus *pm_show_kernels(PmTool *t, const char *path) {
  PmProgram *p;
  PM_TRY(pm_tool_program(t, path, &p, NULL));
  const Count *counts = count_calls(&t->arena, p);
  if (t->opt.json) {
    print_json(p, counts);
  } else {
    print_text(&t->arena, p, counts);
  }
  return NULL;
}
