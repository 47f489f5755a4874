// Where every variable and every named value lives on the mesh, and the rule that decided it.
#include <inttypes.h>
#include <string.h>

#include "base/glob.h"
#include "ir/namemap.h"
#include "tools/reach.h"
#include "tools/show_value.h"

// A named value, where it is made.
typedef struct Row {
  PmFnId fn;
  PmValueId value;
  int32_t next;  // another row of this name, or -1
} Row;

typedef struct View {
  PmTool *t;
  const PmModule *m;
  PmReach reach;
  PmBuf text;  // scratch for types
  Row *rows;   // in the order of the functions
  int32_t n_rows, cap_rows;
  PmNameMap by_name;  // name -> its first row + 1; 0 for a variable
} View;

static const char *const role_texts[] = {[PM_ROLE_PARAM] = "param", [PM_ROLE_STATE] = "state", [PM_ROLE_ACT] = "act",
                                         [PM_ROLE_GRAD] = "grad",   [PM_ROLE_INPUT] = "input", [PM_ROLE_STEP] = "step"};

static const char *type_text(View *v, const PmType *type) {
  pm_buf_clear(&v->text);
  pm_type_print(v->m, type, &v->text);
  return pm_buf_str(&v->text);
}

// Variables are placed as parameters of the step.
static const char *var_why(const View *v, PmVarId var) {
  if (v->m->step == PM_NONE) return NULL;
  const PmFn *f = pm_fn(v->m, v->m->step);
  for (int32_t i = 0; f->param_bind && i < f->n_params; i++) {
    if (f->param_bind[i].var == var) return f->values[i].why;
  }
  return NULL;
}

// The library's composites are placed by propagation alone, and their inner names mean nothing to the reader.
static bool is_shown(const PmFn *f) { return f->kind != PM_FN_COMPOSITE && f->kind != PM_FN_UPDATE; }

// *out_row: the first row, -1 for a variable's own path.
static bool find_name(const View *v, const char *name, int32_t *out_row) {
  int32_t id = pm_name_map_get(&v->by_name, name);
  *out_row = id - 1;
  return id >= 0;
}

// What a function takes has been listed where it is made, unless nothing named it there; a value that is handed on
// under its name is one value.
static bool is_listed(const View *v, const PmFn *f, PmValueId value) {
  const PmValue *x = &f->values[value];
  if (!x->name) return false;
  int32_t row;
  if (!find_name(v, x->name, &row)) return true;
  if (x->def == PM_NONE || row < 0) return false;
  for (; row >= 0; row = v->rows[row].next) {
    if (pm_type_equal(&pm_fn(v->m, v->rows[row].fn)->values[v->rows[row].value].type, &x->type)) return false;
  }
  return true;
}

static void add_row(View *v, PmFnId fn, PmValueId value) {
  const char *name = pm_fn(v->m, fn)->values[value].name;
  int32_t last;
  v->rows = pm_grow(&v->t->arena, v->rows, v->n_rows, &v->cap_rows, sizeof *v->rows);
  v->rows[v->n_rows] = (Row){fn, value, -1};
  if (!find_name(v, name, &last)) {
    pm_name_map_add(&v->by_name, name, v->n_rows + 1);
  } else if (last >= 0) {
    while (v->rows[last].next >= 0) last = v->rows[last].next;
    v->rows[last].next = v->n_rows;
  }
  v->n_rows++;
}

static void collect_rows(View *v) {
  pm_name_map_init(&v->by_name, &v->t->arena);
  for (PmVarId i = 0; i < v->m->n_vars; i++) pm_name_map_add(&v->by_name, v->m->vars[i].path, 0);
  for (int32_t i = 0; i < v->reach.n; i++) {
    const PmFn *f = pm_fn(v->m, v->reach.fns[i]);
    for (PmValueId k = 0; is_shown(f) && k < f->n_values; k++) {
      if (is_listed(v, f, k)) add_row(v, v->reach.fns[i], k);
    }
  }
}

static void put_value(View *v, PmJson *j, const PmValue *value) {
  pm_json_object(j);
  pm_json_put_str(j, "name", value->name);
  pm_json_put_str(j, "type", type_text(v, &value->type));
  pm_json_put_str(j, "why", value->why);
  pm_json_end_object(j);
}

static void print_json(View *v) {
  PmAnswer a;
  pm_answer_begin(&a);
  PmJson *j = &a.json;
  pm_json_put_str(j, "plan", v->m->plan);
  pm_json_key(j, "vars");
  pm_json_array(j);
  for (PmVarId i = 0; i < v->m->n_vars; i++) {
    const PmVar *var = &v->m->vars[i];
    pm_json_object(j);
    pm_json_put_str(j, "path", var->path);
    pm_json_put_str(j, "role", role_texts[var->role]);
    pm_json_put_str(j, "type", type_text(v, &var->type));
    pm_json_put_str(j, "why", var_why(v, i));
    pm_json_end_object(j);
  }
  pm_json_end_array(j);
  pm_json_key(j, "functions");
  pm_json_array(j);
  for (int32_t i = 0; i < v->reach.n; i++) {
    const PmFn *f = pm_fn(v->m, v->reach.fns[i]);
    if (!is_shown(f)) continue;
    pm_json_object(j);
    pm_json_put_str(j, "name", f->name);
    pm_json_put_i64(j, "runs", v->reach.runs[i]);
    pm_json_key(j, "values");
    pm_json_array(j);
    for (int32_t k = 0; k < v->n_rows; k++) {
      if (v->rows[k].fn == v->reach.fns[i]) put_value(v, j, &f->values[v->rows[k].value]);
    }
    pm_json_end_array(j);
    pm_json_end_object(j);
  }
  pm_json_end_array(j);
  pm_answer_end(&a);
}

static void print_vars(View *v) {
  PmTable table;
  pm_table_init(&table, &v->t->arena, "llll");
  for (PmVarId i = 0; i < v->m->n_vars; i++) {
    const PmVar *var = &v->m->vars[i];
    const char *why = var_why(v, i);
    pm_table_cell(&table, var->path);
    pm_table_cell(&table, role_texts[var->role]);
    pm_table_cell(&table, type_text(v, &var->type));
    pm_table_cell(&table, why ? why : "whole");
  }
  printf("variables\n");
  pm_table_print(&table, "  ", stdout);
}

static void print_function(View *v, int32_t i) {
  const PmFn *f = pm_fn(v->m, v->reach.fns[i]);
  PmTable table;
  pm_table_init(&table, &v->t->arena, "lll");
  for (int32_t k = 0; k < v->n_rows; k++) {
    if (v->rows[k].fn != v->reach.fns[i]) continue;
    const PmValue *value = &f->values[v->rows[k].value];
    pm_table_cell(&table, value->name);
    pm_table_cell(&table, type_text(v, &value->type));
    pm_table_cell(&table, value->why ? value->why : "whole");
  }
  if (table.n_cells == 0) return;
  printf("\n%s", f->name);
  if (v->reach.runs[i] != 1) printf(", %" PRId64 " runs a step", v->reach.runs[i]);
  printf("\n");
  pm_table_print(&table, "  ", stdout);
}

static void push_value(View *v, PmShownValue **values, int32_t *n, int32_t *cap, PmShownValue value) {
  if (!pm_glob_match(v->t->opt.value, value.name)) return;
  *values = pm_grow(&v->t->arena, *values, *n, cap, sizeof **values);
  (*values)[(*n)++] = value;
}

// The variables and named values whose paths match `--value`.
static PmStatus *show_chosen(View *v, const PmModule *logical) {
  PmShownValue *values = NULL;
  int32_t n = 0, cap = 0;
  for (PmVarId i = 0; i < v->m->n_vars; i++) {
    const PmVar *var = &v->m->vars[i];
    push_value(v, &values, &n, &cap, (PmShownValue){var->path, role_texts[var->role], var_why(v, i), var->type, false});
  }
  for (int32_t i = 0; i < v->n_rows; i++) {
    const PmValue *x = &pm_fn(v->m, v->rows[i].fn)->values[v->rows[i].value];
    bool is_grad = strncmp(x->name, "d(", 2) == 0;
    const char *role = role_texts[is_grad ? PM_ROLE_GRAD : PM_ROLE_ACT];
    push_value(v, &values, &n, &cap, (PmShownValue){x->name, role, x->why, x->type, is_grad});
  }
  if (n == 0) return PM_STATUS(PM_ERR_USAGE, "`--value %s` matches no variable and no named value", v->t->opt.value);
  return pm_show_values(v->t, logical, values, n);
}

PmStatus *pm_show_sharding(PmTool *t, const char *path) {
  View v = {.t = t};
  PmModule *m;
  PM_TRY(pm_tool_module(t, path, PM_DERIVE_PASSES, &m));
  const PmModule *logical = t->opt.value ? pm_module_clone(m, &t->arena) : NULL;
  PM_TRY(pm_passes_run(&t->passes, m, "place"));
  v.m = m;
  v.reach = pm_reach(&t->arena, m, m->step);
  pm_buf_init(&v.text);
  collect_rows(&v);
  PmStatus *st = NULL;
  if (t->opt.value) {
    st = show_chosen(&v, logical);
  } else if (t->opt.json) {
    print_json(&v);
  } else {
    printf("%s, plan %s: %s\n\n", m->name, m->plan ? m->plan : "(none)", pm_module_mesh_text(&t->arena, m));
    print_vars(&v);
    for (int32_t i = 0; i < v.reach.n; i++) {
      if (is_shown(pm_fn(m, v.reach.fns[i]))) print_function(&v, i);
    }
  }
  pm_buf_deinit(&v.text);
  return st;
}
