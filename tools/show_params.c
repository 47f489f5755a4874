// Parameters with their axes and sizes, as they are stored, and the working copies of those that are read in a narrower
// type. Reads a model, or a run plan.
#include <inttypes.h>

#include "tools/show.h"

#define MASTER_PASSES PM_STEP_PASSES ",masters"

typedef struct Row {
  const char *path;
  int32_t rank;
  const char *axis[PM_MAX_RANK];
  int64_t size[PM_MAX_RANK];
  const char *dtype;
  int64_t elements, bytes;
  const char *copy;  // dtype of the working copy, or NULL
  int64_t copy_bytes;
} Row;

typedef struct Rows {
  Row *items;
  int32_t n, cap;
} Rows;

static Row *push_row(PmArena *arena, Rows *rows) {
  rows->items = pm_grow(arena, rows->items, rows->n, &rows->cap, sizeof *rows->items);
  return &rows->items[rows->n++];
}

static void from_module(PmArena *arena, const PmModule *m, Rows *rows) {
  for (int32_t i = 0; i < m->n_vars; i++) {
    const PmVar *v = &m->vars[i];
    if (v->role != PM_ROLE_PARAM) continue;
    Row *r = push_row(arena, rows);
    r->path = v->path;
    r->rank = v->type.rank;
    const PmVarId master = pm_var_master(m, i);
    const PmDtype stored = (PmDtype)m->vars[master == PM_NONE ? i : master].type.dtype;
    r->dtype = pm_dtype_text(stored);
    for (int32_t d = 0; d < r->rank; d++) {
      r->axis[d] = m->axes[v->type.dims[d].axis].name;
      r->size[d] = pm_axis_size(m, v->type.dims[d].axis);
    }
    if (!pm_type_elements(m, &v->type, &r->elements)) r->elements = PM_MAX_ELEMENTS;
    r->bytes = r->elements * pm_dtype_bytes(stored);
    if (master == PM_NONE) continue;
    r->copy = pm_dtype_text((PmDtype)v->type.dtype);
    r->copy_bytes = r->elements * pm_dtype_bytes((PmDtype)v->type.dtype);
  }
}

static void from_program(PmArena *arena, const PmProgram *p, Rows *rows) {
  for (int32_t i = 0; i < p->n_vars; i++) {
    const PmProgVar *v = &p->vars[i];
    if (v->role != PM_VAR_PARAM) continue;
    Row *r = push_row(arena, rows);
    r->path = v->path;
    r->rank = v->rank;
    const PmKDtype stored = (PmKDtype)p->vars[v->twin < 0 ? i : v->twin].dtype;
    r->dtype = pm_kdtype_text(stored);
    r->elements = 1;
    for (int32_t d = 0; d < r->rank; d++) {
      r->axis[d] = v->dims[d].axis;
      r->size[d] = v->dims[d].size;
      r->elements *= v->dims[d].size;
    }
    r->bytes = r->elements * pm_kdtype_bytes(stored);
    if (v->twin < 0) continue;
    r->copy = pm_kdtype_text((PmKDtype)v->dtype);
    r->copy_bytes = r->elements * pm_kdtype_bytes((PmKDtype)v->dtype);
  }
}

static void print_json(const Rows *rows, int64_t elements, int64_t bytes, int64_t copies) {
  PmAnswer a;
  pm_answer_begin(&a);
  PmJson *j = &a.json;
  pm_json_key(j, "params");
  pm_json_array(j);
  for (int32_t i = 0; i < rows->n; i++) {
    const Row *r = &rows->items[i];
    pm_json_object(j);
    pm_json_put_str(j, "path", r->path);
    pm_json_put_str(j, "dtype", r->dtype);
    pm_json_key(j, "axes");
    pm_json_array(j);
    for (int32_t d = 0; d < r->rank; d++) {
      pm_json_object(j);
      pm_json_put_str(j, "name", r->axis[d]);
      pm_json_put_i64(j, "size", r->size[d]);
      pm_json_end_object(j);
    }
    pm_json_end_array(j);
    pm_json_put_i64(j, "elements", r->elements);
    pm_json_put_i64(j, "bytes", r->bytes);
    pm_json_put_str(j, "copy_dtype", r->copy);
    pm_json_put_i64(j, "copy_bytes", r->copy_bytes);
    pm_json_end_object(j);
  }
  pm_json_end_array(j);
  pm_json_put_i64(j, "elements", elements);
  pm_json_put_i64(j, "bytes", bytes);
  pm_json_put_i64(j, "copy_bytes", copies);
  pm_answer_end(&a);
}

static void print_text(PmArena *arena, const Rows *rows, int64_t elements, int64_t bytes, int64_t copies) {
  const int32_t n_columns = copies > 0 ? 6 : 4;
  PmTable table;
  pm_table_init(&table, arena, copies > 0 ? "llrrlr" : "llrr");
  const char *const head[] = {"parameter", "axes", "elements", "bytes", "working copy", "bytes"};
  for (int32_t i = 0; i < n_columns; i++) pm_table_cell(&table, head[i]);
  PmBuf axes;
  pm_buf_init(&axes);
  for (int32_t i = 0; i < rows->n; i++) {
    const Row *r = &rows->items[i];
    pm_buf_clear(&axes);
    pm_buf_printf(&axes, "%s[", r->dtype);
    for (int32_t d = 0; d < r->rank; d++) {
      pm_buf_printf(&axes, "%s%s:%" PRId64, d ? ", " : "", r->axis[d], r->size[d]);
    }
    pm_buf_putc(&axes, ']');
    pm_table_cell(&table, r->path);
    pm_table_cell(&table, pm_buf_str(&axes));
    pm_table_count(&table, r->elements);
    pm_table_count(&table, r->bytes);
    if (copies == 0) continue;
    pm_table_cell(&table, r->copy ? r->copy : "");
    if (r->copy)
      pm_table_count(&table, r->copy_bytes);
    else
      pm_table_cell(&table, "");
  }
  pm_table_cell(&table, "total");
  pm_table_cell(&table, "");
  pm_table_count(&table, elements);
  pm_table_count(&table, bytes);
  if (copies > 0) {
    pm_table_cell(&table, "");
    pm_table_count(&table, copies);
  }
  pm_table_print(&table, "", stdout);
  pm_buf_deinit(&axes);
}

PmStatus *pm_show_params(PmTool *t, const char *path) {
  bool is_program;
  PM_TRY(pm_tool_is_program(path, &is_program));
  Rows rows = {0};
  if (is_program) {
    PmProgram *p;
    PM_TRY(pm_tool_program(t, path, &p, NULL));
    from_program(&t->arena, p, &rows);
  } else {
    PmModule *m;
    PM_TRY(pm_tool_module(t, path, "", &m));
    if (m->schedule != PM_NONE) PM_TRY(pm_passes_run(&t->passes, m, MASTER_PASSES));
    from_module(&t->arena, m, &rows);
  }
  int64_t elements = 0, bytes = 0, copies = 0;
  for (int32_t i = 0; i < rows.n; i++) {
    if (!pm_add_i64(elements, rows.items[i].elements, &elements) || !pm_add_i64(bytes, rows.items[i].bytes, &bytes) ||
        !pm_add_i64(copies, rows.items[i].copy_bytes, &copies)) {
      return PM_STATUS(PM_ERR_LIMIT, "the parameters together have more than 2^63 bytes");
    }
  }
  if (t->opt.json) {
    print_json(&rows, elements, bytes, copies);
  } else {
    print_text(&t->arena, &rows, elements, bytes, copies);
  }
  return NULL;
}
