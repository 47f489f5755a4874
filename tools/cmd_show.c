#include <inttypes.h>
#include <string.h>

#include "tools/show.h"

typedef struct View {
  const char *name;
  PmStatus *(*run)(PmTool *t, const char *path);
} View;

static const View views[] = {
    {"axes", pm_show_axes},     {"comm", pm_show_comm},     {"graph", pm_show_graph}, {"kernels", pm_show_kernels},
    {"memory", pm_show_memory}, {"params", pm_show_params}, {"plan", pm_show_plan},   {"sharding", pm_show_sharding},
};
enum { N_VIEWS = sizeof views / sizeof *views };

void pm_answer_begin(PmAnswer *a) {
  pm_buf_init(&a->text);
  pm_json_init(&a->json, &a->text, true);
  pm_json_object(&a->json);
}

void pm_answer_end(PmAnswer *a) {
  pm_json_end_object(&a->json);
  printf("%s\n", pm_buf_str(&a->text));
  pm_buf_deinit(&a->text);
}

void pm_json_put_str(PmJson *j, const char *key, const char *v) {
  pm_json_key(j, key);
  if (v) {
    pm_json_str(j, v);
  } else {
    pm_json_null(j);
  }
}

void pm_json_put_i64(PmJson *j, const char *key, int64_t v) {
  pm_json_key(j, key);
  pm_json_i64(j, v);
}

void pm_json_put_f64(PmJson *j, const char *key, double v) {
  pm_json_key(j, key);
  pm_json_f64(j, v);
}

void pm_json_put_bool(PmJson *j, const char *key, bool v) {
  pm_json_key(j, key);
  pm_json_bool(j, v);
}

const char *pm_loc_text(PmArena *arena, const char *path, int32_t line, int32_t col) {
  return path ? pm_arena_printf(arena, "%s:%d:%d", path, line, col) : "-";
}

const char *pm_mesh_text(PmArena *arena, int32_t n, const char *const *names, const int64_t *sizes) {
  if (n == 0) return "one rank";
  PmBuf text;
  pm_buf_init(&text);
  int64_t ranks = 1;
  for (int32_t i = 0; i < n; i++) {
    pm_buf_printf(&text, "%s%s=%" PRId64, i ? ", " : "", names[i], sizes[i]);
    ranks *= sizes[i];
  }
  pm_buf_printf(&text, " (%" PRId64 " rank%s)", ranks, pm_plural(ranks));
  const char *out = pm_arena_strdup(arena, pm_buf_str(&text));
  pm_buf_deinit(&text);
  return out;
}

const char *pm_module_mesh_text(PmArena *arena, const PmModule *m) {
  const char *names[PM_MAX_MESH];
  int64_t sizes[PM_MAX_MESH];
  for (int32_t i = 0; i < m->n_mesh; i++) {
    names[i] = m->mesh[i].name;
    sizes[i] = m->mesh[i].size;
  }
  return pm_mesh_text(arena, m->n_mesh, names, sizes);
}

static PmStatus *unknown_view(const char *name) {
  const char *names[N_VIEWS];
  PmBuf list;
  pm_buf_init(&list);
  for (int32_t i = 0; i < N_VIEWS; i++) {
    names[i] = views[i].name;
    pm_buf_printf(&list, "%s%s", i ? ", " : "", views[i].name);
  }
  const char *near = name ? pm_did_you_mean(name, names, N_VIEWS) : NULL;
  PmStatus *st = !name  ? PM_STATUS(PM_ERR_USAGE, "`pmodel show` needs a view: %s", pm_buf_str(&list))
                 : near ? PM_STATUS(PM_ERR_USAGE, "`pmodel show` has no view `%s`: did you mean `%s`?", name, near)
                        : PM_STATUS(PM_ERR_USAGE, "`pmodel show` has no view `%s`: %s", name, pm_buf_str(&list));
  pm_buf_deinit(&list);
  return st;
}

// An option of one view is nothing to another.
static PmStatus *check_options(const PmTool *t, const char *view) {
  const PmOptions *o = &t->opt;
  const char *graph = o->residuals ? "--residuals" : o->split_backward ? "--split-backward" : NULL;
  if (graph && strcmp(view, "graph") != 0) return PM_STATUS(PM_ERR_USAGE, "`%s` is for `pmodel show graph`", graph);
  if (o->value && strcmp(view, "sharding") != 0) {
    return PM_STATUS(PM_ERR_USAGE, "`--value` is for `pmodel show sharding`");
  }
  if (!o->residuals || !o->split_backward) return NULL;
  return PM_STATUS(PM_ERR_USAGE, "`--residuals` and `--split-backward` are two views: leave one out");
}

PmStatus *pm_cmd_show(PmTool *t) {
  const char *name = t->opt.n_args > 0 ? t->opt.args[0] : NULL;
  for (int32_t i = 0; name && i < N_VIEWS; i++) {
    if (strcmp(views[i].name, name) != 0) continue;
    const char *path;
    PM_TRY(check_options(t, name));
    PM_TRY(pm_tool_file(t, 1, &path));
    return views[i].run(t, path);
  }
  return unknown_view(name);
}
