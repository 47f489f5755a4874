// The views of `pmodel show`: each prints one view of the file at `path`, as a table or (--json) as one object.
#ifndef PM_TOOLS_SHOW_H
#define PM_TOOLS_SHOW_H

#include "base/json.h"
#include "tools/pipeline.h"
#include "tools/table.h"

PM_MUST_CHECK PmStatus *pm_show_axes(PmTool *t, const char *path);
PM_MUST_CHECK PmStatus *pm_show_comm(PmTool *t, const char *path);
PM_MUST_CHECK PmStatus *pm_show_graph(PmTool *t, const char *path);
PM_MUST_CHECK PmStatus *pm_show_kernels(PmTool *t, const char *path);
PM_MUST_CHECK PmStatus *pm_show_memory(PmTool *t, const char *path);
PM_MUST_CHECK PmStatus *pm_show_params(PmTool *t, const char *path);
PM_MUST_CHECK PmStatus *pm_show_plan(PmTool *t, const char *path);
PM_MUST_CHECK PmStatus *pm_show_residuals(PmTool *t, const char *path);  // of `show graph --residuals`
PM_MUST_CHECK PmStatus *pm_show_sharding(PmTool *t, const char *path);

// A JSON answer: one object on stdout.
typedef struct PmAnswer {
  PmBuf text;
  PmJson json;
} PmAnswer;
void pm_answer_begin(PmAnswer *a);
void pm_answer_end(PmAnswer *a);

void pm_json_put_str(PmJson *j, const char *key, const char *v);  // null when v is NULL
void pm_json_put_i64(PmJson *j, const char *key, int64_t v);
void pm_json_put_f64(PmJson *j, const char *key, double v);
void pm_json_put_bool(PmJson *j, const char *key, bool v);

// "gpt.pmodel:12:3", or "-" without a place.
const char *pm_loc_text(PmArena *arena, const char *path, int32_t line, int32_t col);
// "data=2, tensor=4 (8 ranks)", or "one rank".
const char *pm_mesh_text(PmArena *arena, int32_t n, const char *const *names, const int64_t *sizes);
const char *pm_module_mesh_text(PmArena *arena, const PmModule *m);

#endif
