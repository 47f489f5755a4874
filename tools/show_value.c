#include "tools/show_value.h"

#include <inttypes.h>
#include <string.h>

#include "tools/comm.h"
#include "tools/reach.h"

enum { MAX_COLUMNS = 8, MAX_ROWS = 16, MAX_JSON_RANKS = 64 };

typedef struct View {
  PmTool *t;
  const PmModule *m;  // logical
  PmComm comm;        // of the plan as it is
  int64_t sent;       // bytes that a rank sends in a step of it
  PmBuf text;
} View;

// What another placement of one value would come to.
typedef struct Other {
  PmType type;
  int64_t sent;
} Other;

// Bytes that a rank sends, by the ring or direct algorithm's volume.
static int64_t row_sent(const PmCommRow *r) {
  bool permutes = strcmp(r->op, pm_op_name(PM_OP_permute)) == 0;
  bool twice = strcmp(r->op, pm_op_name(PM_OP_all_reduce)) == 0;
  int64_t others = permutes ? r->bytes : r->bytes - r->bytes / r->group;
  return pm_saturating_mul(twice ? 2 * others : others, r->runs);
}

// Partitions a copy of the module, with one more pin where there is one, and adds up. False when the pin does not fit.
static bool price(const View *v, PmArena *arena, PmRule *pin, PmComm *out_comm, int64_t *out_sent) {
  PmModule *m = pm_module_clone(v->m, arena);
  if (pin) {
    PmRule *rules = PM_NEW_N(arena, PmRule, m->n_rules + 1);
    if (m->n_rules > 0) memcpy(rules, m->rules, (size_t)m->n_rules * sizeof *rules);
    rules[m->n_rules++] = *pin;
    m->rules = rules;
  }
  PmPassCtx ctx = {.diags = pm_diags_new(arena, &v->t->sources), .sources = &v->t->sources};
  PmStatus *st = pm_passes_run(&ctx, m, "place,partition,simplify");
  if (st) {
    pm_status_drop(st);
    return false;
  }
  *out_comm = pm_comm_of_module(arena, m);
  *out_sent = 0;
  for (int32_t i = 0; i < out_comm->n_rows; i++) *out_sent = pm_saturating_add(*out_sent, row_sent(&out_comm->rows[i]));
  return true;
}

// Keeps the placement if no other one tried so far sends less.
static void try_type(const View *v, const PmShownValue *value, const PmType *type, Other *best) {
  PmArena arena;
  pm_arena_init(&arena, 0);
  PmRule pin = {.roles = (UINT32_C(1) << PM_ROLE_COUNT) - 1, .pin = value->name, .text = "pin", .span = PM_NO_SPAN};
  pin.pin_dims = pm_arena_copy(&arena, type->dims, type->rank, sizeof *type->dims);
  pin.n_pin_dims = type->rank;
  PmComm comm;
  int64_t sent;
  if (price(v, &arena, &pin, &comm, &sent) && (best->sent < 0 || sent < best->sent)) *best = (Other){*type, sent};
  pm_arena_deinit(&arena);
}

static bool add_mesh(const PmModule *m, PmType *t, int32_t dim, int32_t mesh) {
  PmSplit *s = &t->dims[dim].split;
  return pm_split_push(s, mesh) && pm_axis_size(m, t->dims[dim].axis) % pm_split_parts(m, s) == 0;
}

// The best of the placements that differ in the place of one mesh axis; `sent` is -1 where there is none. A gradient
// lies as what it is the gradient of, and is not placed by itself.
static Other next_best(const View *v, const PmShownValue *value) {
  Other best = {.sent = -1};
  if (value->is_grad) return best;
  for (int32_t mesh = 0; mesh < v->m->n_mesh; mesh++) {
    if (v->m->mesh[mesh].size == 1) continue;
    PmType without = value->type;
    int32_t from = PM_NONE;
    for (int32_t d = 0; d < without.rank; d++)
      if (pm_split_has(&without.dims[d].split, mesh)) from = d;
    if (from >= 0 && without.dims[from].split.mesh[without.dims[from].split.n - 1] != mesh) continue;
    pm_type_cut_mesh(&without, mesh);
    if (from >= 0) try_type(v, value, &without, &best);
    for (int32_t d = 0; d < without.rank; d++) {
      PmType with = without;
      if (d != from && add_mesh(v->m, &with, d, mesh)) try_type(v, value, &with, &best);
    }
  }
  return best;
}

static int64_t parts_of(const PmModule *m, const PmType *t) {
  int64_t parts = 1;
  for (int32_t d = 0; d < t->rank; d++) parts *= pm_split_parts(m, &t->dims[d].split);
  return parts;
}

// Elements of the dim from the rank's `local` on that follow each other in the whole.
static int64_t run_of(const PmModule *m, const PmDim *d, int64_t rank, int64_t local, int64_t *out_first) {
  int64_t n = 1, held = pm_dim_local(m, d);
  *out_first = pm_dim_global(m, d, rank, local);
  if (!pm_split_is_zigzag(&d->split)) return held - local;
  while (local + n < held && pm_dim_global(m, d, rank, local + n) == *out_first + n) n++;
  return n;
}

// "heads 0-1, batch 4-7, seq 0-3+12-15": the ranges of the dims that are split.
static const char *slice_text(View *v, const PmType *t, int64_t rank) {
  pm_buf_clear(&v->text);
  for (int32_t d = 0; d < t->rank; d++) {
    if (t->dims[d].split.n == 0) continue;
    pm_buf_printf(&v->text, "%s%s ", v->text.len ? ", " : "", v->m->axes[t->dims[d].axis].name);
    for (int64_t k = 0, n, first; k < pm_dim_local(v->m, &t->dims[d]); k += n) {
      n = run_of(v->m, &t->dims[d], rank, k, &first);
      pm_buf_printf(&v->text, "%s%" PRId64, k ? "+" : "", first);
      if (n > 1) pm_buf_printf(&v->text, "-%" PRId64, first + n - 1);
    }
  }
  return pm_buf_str(&v->text);
}

// Rows: all mesh axes but the last, columns: the last.
static void print_grid(View *v, const PmType *t) {
  const PmModule *m = v->m;
  int64_t ranks = pm_mesh_ranks(m), columns = m->mesh[m->n_mesh - 1].size, rows = ranks / columns;
  int64_t n_columns = columns < MAX_COLUMNS ? columns : MAX_COLUMNS, n_rows = rows < MAX_ROWS ? rows : MAX_ROWS;
  PmTable table;
  pm_table_init(&table, &v->t->arena, &"lllllllll"[MAX_COLUMNS - n_columns]);
  pm_table_cell(&table, "");
  for (int64_t c = 0; c < n_columns; c++) pm_table_printf(&table, "%s=%" PRId64, m->mesh[m->n_mesh - 1].name, c);
  for (int64_t r = 0; r < n_rows; r++) {
    pm_buf_clear(&v->text);
    for (int32_t i = 0; i + 1 < m->n_mesh; i++)
      pm_buf_printf(&v->text, "%s%s=%" PRId64, i ? " " : "", m->mesh[i].name, pm_mesh_coord(m, r * columns, i));
    pm_table_cell(&table, pm_buf_str(&v->text));
    for (int64_t c = 0; c < n_columns; c++) {
      int64_t rank = r * columns + c;
      pm_table_printf(&table, "%" PRId64 ": %s", rank, slice_text(v, t, rank));
    }
  }
  pm_table_print(&table, "    ", stdout);
  if (n_rows * n_columns < ranks) printf("    and so on, for %s ranks\n", pm_count_text(&v->t->arena, ranks));
}

// "[batch/data, seq, embed]"
static const char *placement_text(View *v, const PmType *t) {
  pm_buf_clear(&v->text);
  for (int32_t d = 0; d < t->rank; d++) {
    pm_buf_printf(&v->text, "%s%s", d ? ", " : "[", v->m->axes[t->dims[d].axis].name);
    for (int32_t i = 0; i < t->dims[d].split.n; i++)
      pm_buf_printf(&v->text, "%s%s", i ? "+" : "/", v->m->mesh[t->dims[d].split.mesh[i]].name);
  }
  pm_buf_printf(&v->text, "%s", t->rank ? "]" : "[]");
  return pm_buf_str(&v->text);
}

static const char *type_text(View *v, const PmType *t) {
  pm_buf_clear(&v->text);
  pm_type_print(v->m, t, &v->text);
  return pm_buf_str(&v->text);
}

static bool is_sent_for(const PmCommRow *r, const PmShownValue *value) {
  return r->value && strcmp(r->value, value->name) == 0;
}

static void print_sent(View *v, const PmShownValue *value) {
  bool any = false;
  for (int32_t i = 0; i < v->comm.n_rows; i++) {
    const PmCommRow *r = &v->comm.rows[i];
    if (!is_sent_for(r, value)) continue;
    any = true;
    printf("  sent for it: %s over", r->op);
    for (int32_t k = 0; k < r->n_mesh; k++) printf("%s%s", k ? "+" : " ", r->mesh[k]);
    printf(", %s bytes, %s a step, due to %s\n", pm_count_text(&v->t->arena, r->bytes),
           pm_count_text(&v->t->arena, r->runs), r->loc);
  }
  if (!any) printf("  nothing is sent for it\n");
}

static void print_value(View *v, const PmShownValue *value) {
  const PmType *t = &value->type;
  PmArena *a = &v->t->arena;
  int64_t parts = parts_of(v->m, t), ranks = pm_mesh_ranks(v->m);
  printf("\n%s  %s  %s\n", value->name, value->role, type_text(v, t));
  printf("  %s\n", value->why ? value->why : "whole: no rule splits it");
  printf("  %s bytes a rank; ", pm_count_text(a, pm_type_local_bytes(v->m, t)));
  if (parts == 1) {
    printf("every rank holds all of it\n");
  } else {
    printf("%s parts, each on %s rank%s\n", pm_count_text(a, parts), pm_count_text(a, ranks / parts),
           pm_plural(ranks / parts));
    print_grid(v, t);
  }
  print_sent(v, value);
  Other other = next_best(v, value);
  if (other.sent < 0) return;
  printf("  a step sends %s bytes a rank; with %s, the best of the others, ", pm_count_text(a, v->sent),
         placement_text(v, &other.type));
  printf("%s\n", pm_count_text(a, other.sent));
}

static void put_ranks(View *v, PmJson *j, const PmType *t) {
  pm_json_key(j, "ranks");
  pm_json_array(j);
  for (int64_t rank = 0; rank < pm_mesh_ranks(v->m) && rank < MAX_JSON_RANKS; rank++) {
    pm_json_object(j);
    pm_json_put_i64(j, "rank", rank);
    pm_json_key(j, "slice");
    pm_json_array(j);
    for (int32_t d = 0; d < t->rank; d++) {
      for (int64_t k = 0, n, first; k < pm_dim_local(v->m, &t->dims[d]); k += n) {
        n = run_of(v->m, &t->dims[d], rank, k, &first);
        pm_json_object(j);
        pm_json_put_str(j, "axis", v->m->axes[t->dims[d].axis].name);
        pm_json_put_i64(j, "first", first);
        pm_json_put_i64(j, "size", n);
        pm_json_end_object(j);
      }
    }
    pm_json_end_array(j);
    pm_json_end_object(j);
  }
  pm_json_end_array(j);
}

static void put_sent(const View *v, PmJson *j, const PmShownValue *value) {
  pm_json_key(j, "collectives");
  pm_json_array(j);
  for (int32_t i = 0; i < v->comm.n_rows; i++) {
    const PmCommRow *r = &v->comm.rows[i];
    if (!is_sent_for(r, value)) continue;
    pm_json_object(j);
    pm_json_put_str(j, "op", r->op);
    pm_json_key(j, "mesh");
    pm_json_array(j);
    for (int32_t k = 0; k < r->n_mesh; k++) pm_json_str(j, r->mesh[k]);
    pm_json_end_array(j);
    pm_json_put_i64(j, "bytes", r->bytes);
    pm_json_put_i64(j, "runs", r->runs);
    pm_json_put_str(j, "place", r->loc);
    pm_json_end_object(j);
  }
  pm_json_end_array(j);
}

static void put_value(View *v, PmJson *j, const PmShownValue *value) {
  pm_json_object(j);
  pm_json_put_str(j, "name", value->name);
  pm_json_put_str(j, "role", value->role);
  pm_json_put_str(j, "type", type_text(v, &value->type));
  pm_json_put_str(j, "why", value->why);
  pm_json_put_i64(j, "local_bytes", pm_type_local_bytes(v->m, &value->type));
  pm_json_put_i64(j, "parts", parts_of(v->m, &value->type));
  put_ranks(v, j, &value->type);
  put_sent(v, j, value);
  Other other = next_best(v, value);
  pm_json_key(j, "next_best");
  if (other.sent < 0) {
    pm_json_null(j);
  } else {
    pm_json_object(j);
    pm_json_put_str(j, "placement", placement_text(v, &other.type));
    pm_json_put_i64(j, "sent", other.sent);
    pm_json_end_object(j);
  }
  pm_json_end_object(j);
}

PmStatus *pm_show_values(PmTool *t, const PmModule *logical, const PmShownValue *values, int32_t n) {
  View v = {.t = t, .m = logical};
  if (!price(&v, &t->arena, NULL, &v.comm, &v.sent)) return PM_STATUS(PM_ERR_INPUT, "the plan does not fit the model");
  pm_buf_init(&v.text);
  if (t->opt.json) {
    PmAnswer a;
    pm_answer_begin(&a);
    pm_json_put_str(&a.json, "plan", logical->plan);
    pm_json_put_i64(&a.json, "sent", v.sent);
    pm_json_key(&a.json, "values");
    pm_json_array(&a.json);
    for (int32_t i = 0; i < n; i++) put_value(&v, &a.json, &values[i]);
    pm_json_end_array(&a.json);
    pm_answer_end(&a);
  } else {
    printf("%s, plan %s: %s\n", logical->name, logical->plan ? logical->plan : "(none)",
           pm_module_mesh_text(&t->arena, logical));
    for (int32_t i = 0; i < n; i++) print_value(&v, &values[i]);
  }
  pm_buf_deinit(&v.text);
  return NULL;
}
