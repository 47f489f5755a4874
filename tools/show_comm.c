// Every collective of one step: what it moves, how often, and the source place that caused it.
#include <inttypes.h>
#include <string.h>

#include "tools/comm.h"
#include "tools/reach.h"
#include "tools/show.h"

// Sums by kind of collective, in the order of appearance.
typedef struct Total {
  const char *op;
  int64_t n, bytes;
} Total;

typedef struct Totals {
  Total items[8];
  int32_t n;
} Totals;

static void add_total(Totals *t, const char *op, int64_t n, int64_t bytes) {
  int32_t i = 0;
  while (i < t->n && strcmp(t->items[i].op, op) != 0) i++;
  if (i == t->n) t->items[t->n++] = (Total){.op = op};
  t->items[i].n = pm_saturating_add(t->items[i].n, n);
  t->items[i].bytes = pm_saturating_add(t->items[i].bytes, bytes);
}

static Totals group_totals(const PmComm *c, const PmCommGroup *g) {
  Totals t = {0};
  for (int32_t i = g->first; i < g->first + g->n; i++) {
    const PmCommRow *r = &c->rows[i];
    int64_t n = g->runs > 0 ? r->runs / g->runs : 0;
    add_total(&t, r->op, n, pm_saturating_mul(n, r->bytes));
  }
  return t;
}

static Totals step_totals(const PmComm *c) {
  Totals t = {0};
  for (int32_t i = 0; i < c->n_rows; i++) {
    const PmCommRow *r = &c->rows[i];
    add_total(&t, r->op, r->runs, pm_saturating_mul(r->runs, r->bytes));
  }
  return t;
}

static void put_totals(PmJson *j, const char *key, const Totals *t) {
  pm_json_key(j, key);
  pm_json_object(j);
  for (int32_t i = 0; i < t->n; i++) {
    pm_json_key(j, t->items[i].op);
    pm_json_object(j);
    pm_json_put_i64(j, "count", t->items[i].n);
    pm_json_put_i64(j, "bytes", t->items[i].bytes);
    pm_json_end_object(j);
  }
  pm_json_end_object(j);
}

static void put_row(PmJson *j, const PmCommRow *r) {
  pm_json_object(j);
  pm_json_put_str(j, "op", r->op);
  pm_json_put_str(j, "reduce", r->reduce);
  pm_json_key(j, "mesh");
  pm_json_array(j);
  for (int32_t i = 0; i < r->n_mesh; i++) pm_json_str(j, r->mesh[i]);
  pm_json_end_array(j);
  pm_json_put_i64(j, "group", r->group);
  pm_json_put_i64(j, "elements", r->elements);
  pm_json_put_i64(j, "bytes", r->bytes);
  pm_json_put_i64(j, "runs", r->runs);
  pm_json_put_str(j, "type", r->type);
  pm_json_put_str(j, "value", r->value);
  pm_json_key(j, "values");
  pm_json_array(j);
  for (int32_t i = 0; i < r->n_values; i++) {
    if (r->values[i])
      pm_json_str(j, r->values[i]);
    else
      pm_json_null(j);
  }
  pm_json_end_array(j);
  pm_json_put_str(j, "within", r->within);
  pm_json_put_str(j, "place", r->loc);
  pm_json_end_object(j);
}

static void print_json(const PmComm *c) {
  PmAnswer a;
  pm_answer_begin(&a);
  PmJson *j = &a.json;
  pm_json_key(j, "functions");
  pm_json_array(j);
  for (int32_t i = 0; i < c->n_groups; i++) {
    const PmCommGroup *g = &c->groups[i];
    Totals totals = group_totals(c, g);
    pm_json_object(j);
    pm_json_put_str(j, "name", g->name);
    pm_json_put_i64(j, "runs", g->runs);
    put_totals(j, "a_run", &totals);
    pm_json_key(j, "collectives");
    pm_json_array(j);
    for (int32_t k = g->first; k < g->first + g->n; k++) put_row(j, &c->rows[k]);
    pm_json_end_array(j);
    pm_json_end_object(j);
  }
  pm_json_end_array(j);
  Totals totals = step_totals(c);
  put_totals(j, "step", &totals);
  pm_answer_end(&a);
}

static void print_totals(PmArena *arena, const Totals *t) {
  for (int32_t i = 0; i < t->n; i++) {
    printf("%s%s %s (%s bytes)", i ? ", " : "", pm_count_text(arena, t->items[i].n), t->items[i].op,
           pm_count_text(arena, t->items[i].bytes));
  }
  if (t->n == 0) printf("nothing is sent");
  printf("\n");
}

static void put_cells(PmTable *table, const PmCommRow *r, PmBuf *text) {
  pm_table_printf(table, "%s%s%s", r->op, r->reduce ? " " : "", r->reduce ? r->reduce : "");
  pm_buf_clear(text);
  for (int32_t i = 0; i < r->n_mesh; i++) pm_buf_printf(text, "%s%s", i ? "+" : "", r->mesh[i]);
  pm_table_cell(table, pm_buf_str(text));
  pm_table_count(table, r->group);
  pm_table_count(table, r->elements);
  pm_table_count(table, r->bytes);
  pm_table_count(table, r->runs);
  const int32_t more = r->n_values - 1;
  pm_table_printf(table, "%s%s", r->type ? r->type : "", more > 0 ? " ..." : "");
  pm_buf_clear(text);
  if (r->value) pm_buf_puts(text, r->value);
  if (more > 0) pm_buf_printf(text, "%s%d more", r->value ? " and " : "", more);
  if (r->within) pm_buf_printf(text, "%sin %s", text->len ? " " : "", r->within);
  pm_table_cell(table, pm_buf_str(text));
  pm_table_cell(table, r->loc);
}

static void print_group(PmArena *arena, const PmComm *c, const PmCommGroup *g, PmBuf *text) {
  printf("\n%s", g->name);
  if (g->runs != 1) printf(", %s runs a step, each", pm_count_text(arena, g->runs));
  printf(": ");
  Totals totals = group_totals(c, g);
  print_totals(arena, &totals);
  PmTable table;
  pm_table_init(&table, arena, "llrrrrlll");
  const char *const head[] = {"op", "over", "ranks", "elements", "bytes", "a step", "result", "value", "caused by"};
  for (int32_t i = 0; i < 9; i++) pm_table_cell(&table, head[i]);
  for (int32_t i = g->first; i < g->first + g->n; i++) put_cells(&table, &c->rows[i], text);
  pm_table_print(&table, "  ", stdout);
}

static void print_text(PmArena *arena, const PmComm *c) {
  PmBuf text;
  pm_buf_init(&text);
  for (int32_t i = 0; i < c->n_groups; i++) print_group(arena, c, &c->groups[i], &text);
  printf("\na step: ");
  Totals totals = step_totals(c);
  print_totals(arena, &totals);
  pm_buf_deinit(&text);
}

PmStatus *pm_show_comm(PmTool *t, const char *path) {
  bool is_program;
  PM_TRY(pm_tool_is_program(path, &is_program));
  PmComm c;
  const char *name, *plan, *mesh;
  if (is_program) {
    PmProgram *p;
    PM_TRY(pm_tool_program(t, path, &p, NULL));
    c = pm_comm_of_program(&t->arena, p);
    name = p->model;
    plan = p->plan;
    mesh = pm_mesh_text(&t->arena, p->n_mesh, p->mesh_name, p->mesh_size);
  } else {
    PmModule *m;
    PM_TRY(pm_tool_module(t, path, PM_DEFAULT_PASSES, &m));
    c = pm_comm_of_module(&t->arena, m);
    name = m->name;
    plan = m->plan;
    mesh = pm_module_mesh_text(&t->arena, m);
  }
  if (t->opt.json) {
    print_json(&c);
    return NULL;
  }
  printf("%s, plan %s: %s; elements and bytes are those of one rank\n", name, plan ? plan : "(none)", mesh);
  print_text(&t->arena, &c);
  return NULL;
}
