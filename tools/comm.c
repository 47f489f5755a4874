#include "tools/comm.h"

#include <string.h>

#include "tools/reach.h"
#include "tools/show.h"

static PmCommRow *push_row(PmComm *c) {
  c->rows = pm_grow(c->arena, c->rows, c->n_rows, &c->cap_rows, sizeof *c->rows);
  return &c->rows[c->n_rows++];
}

static void open_group(PmComm *c, const char *name, int64_t runs) {
  c->groups = pm_grow(c->arena, c->groups, c->n_groups, &c->cap_groups, sizeof *c->groups);
  c->groups[c->n_groups++] = (PmCommGroup){.name = name, .runs = runs, .first = c->n_rows};
}

static void close_group(PmComm *c) {
  PmCommGroup *g = &c->groups[c->n_groups - 1];
  g->n = c->n_rows - g->first;
  if (g->n == 0) c->n_groups--;
}

static const char *type_text(PmArena *arena, const PmModule *m, const PmType *type) {
  PmBuf text;
  pm_buf_init(&text);
  pm_type_print(m, type, &text);
  const char *out = pm_arena_strdup(arena, pm_buf_str(&text));
  pm_buf_deinit(&text);
  return out;
}

// The only value that the node reads, or PM_NONE.
static PmValueId only_operand(const PmNode *n) {
  for (int32_t i = 1; i < n->n_in; i++) {
    if (n->in[i] != n->in[0]) return PM_NONE;
  }
  return n->n_in > 0 ? n->in[0] : PM_NONE;
}

// The name that the reader knows: of result i, else of operand i, else of the one value that the operand is made of.
static const char *value_name(const PmFn *f, const PmNode *n, int32_t i) {
  if (f->values[n->out + i].name) return f->values[n->out + i].name;
  for (PmValueId v = n->in[i]; v != PM_NONE;) {
    if (f->values[v].name) return f->values[v].name;
    if (f->values[v].def == PM_NONE) return NULL;
    v = only_operand(&f->nodes[f->values[v].def]);
  }
  return NULL;
}

// The node's own place; what the step adds to the model has none, and then the parameter is to blame whose gradient it
// is.
static const PmLoc *cause(const PmModule *m, const PmNode *n, const char *name) {
  size_t len = name ? strlen(name) : 0;
  for (PmVarId v = 0; !n->loc.path && len > 3 && v < m->n_vars; v++) {
    const char *path = m->vars[v].path;
    if (strlen(path) == len - 3 && strncmp(name, "d(", 2) == 0 && strncmp(name + 2, path, len - 3) == 0) {
      return &m->vars[v].loc;
    }
  }
  return &n->loc;
}

static void add_node(PmComm *c, const PmModule *m, const PmFn *f, const PmNode *n, const char *within, int64_t runs) {
  PmCommRow *r = push_row(c);
  r->op = pm_op_name(n->op);
  r->reduce = n->op == PM_OP_all_reduce || n->op == PM_OP_reduce_scatter ? pm_reduce_text(n->attr.kind) : NULL;
  r->n_mesh = n->attr.n_mesh;
  r->group = pm_mesh_group(m, n->attr.mesh, n->attr.n_mesh);
  for (int32_t i = 0; i < r->n_mesh; i++) r->mesh[i] = m->mesh[n->attr.mesh[i]].name;
  const PmType *in = &f->values[n->in[0]].type, *out = &f->values[n->out].type;
  int64_t n_in = pm_type_local_elements(m, in), n_out = pm_type_local_elements(m, out);
  r->elements = n_in > n_out ? n_in : n_out;
  for (int32_t i = 1; i < n->n_out; i++) r->elements += pm_type_local_elements(m, &f->values[n->out + i].type);
  // Of an exchange the rows of all positions: no more than these can leave a rank.
  if (n->op == PM_OP_gather_rows) r->elements = n_out;
  if (n->op == PM_OP_scatter_rows) r->elements = pm_type_local_elements(m, &f->values[n->in[1]].type);
  r->bytes = r->elements * pm_dtype_bytes((PmDtype)out->dtype);
  r->runs = runs;
  r->type = type_text(c->arena, m, out);
  r->n_values = n->n_out;
  r->values = (const char **)pm_arena_alloc_n(c->arena, (size_t)n->n_out, sizeof *r->values);
  for (int32_t i = 0; i < n->n_out; i++) r->values[i] = value_name(f, n, i);
  r->value = r->values[0];
  r->within = within;
  const PmLoc *loc = cause(m, n, r->value);
  r->loc = pm_loc_text(c->arena, loc->path, loc->line, loc->col);
}

// The counts that ranks exchange to give out slots.
static void add_counts(PmComm *c, const PmModule *m, const PmFn *f, const PmNode *n, const char *within, int64_t runs) {
  PmNode counts = *n;
  counts.op = PM_OP_all_gather;
  add_node(c, m, f, &counts, within, runs);
  PmCommRow *r = &c->rows[c->n_rows - 1];
  const int64_t experts = pm_axis_size(m, n->attr.axes[0]);
  r->elements = r->group * experts;
  r->bytes = r->elements * pm_dtype_bytes(PM_I32);
  r->type = pm_arena_printf(c->arena, "i32[%lld, %s:%lld]", (long long)r->group, m->axes[n->attr.axes[0]].name,
                            (long long)experts);
}

static void add_nodes(PmComm *c, const PmModule *m, PmFnId fn, const char *within, int64_t runs) {
  const PmFn *f = pm_fn(m, fn);
  for (int32_t i = 0; i < f->n_nodes; i++) {
    const PmNode *n = &f->nodes[i];
    if (pm_op_flags(n->op) & PM_F_COMM) {
      add_node(c, m, f, n, within, runs);
    } else if (n->op == PM_OP_slot_of && n->attr.n_mesh) {
      add_counts(c, m, f, n, within, runs);
    } else if (pm_op_flags(n->op) & PM_F_CALL) {
      const PmFn *callee = pm_fn(m, n->attr.callee);
      if (callee->kind != PM_FN_COMPOSITE) continue;
      const char *name = callee->base ? callee->base : callee->name;
      add_nodes(c, m, n->attr.callee, name, pm_saturating_mul(runs, pm_node_turns(m, n)));
    }
  }
}

PmComm pm_comm_of_module(PmArena *arena, const PmModule *m) {
  PmComm c = {.arena = arena};
  PmReach reach = pm_reach(arena, m, m->step);
  for (int32_t i = 0; i < reach.n; i++) {
    const PmFn *f = pm_fn(m, reach.fns[i]);
    if (f->kind == PM_FN_COMPOSITE) continue;
    open_group(&c, f->name, reach.runs[i]);
    add_nodes(&c, m, reach.fns[i], NULL, reach.runs[i]);
    close_group(&c);
  }
  return c;
}

static bool same_row(const PmCommRow *a, const PmCommRow *b) {
  if (a->op != b->op || a->reduce != b->reduce || a->n_mesh != b->n_mesh || a->bytes != b->bytes) return false;
  for (int32_t i = 0; i < a->n_mesh; i++) {
    if (a->mesh[i] != b->mesh[i]) return false;
  }
  return strcmp(a->loc, b->loc) == 0;
}

static void add_coll(PmComm *c, const PmProgram *p, const PmStep *step) {
  static const char *const ops[] = {
#define COLL(NAME, name, fn) [PM_COLL_##NAME] = #name,
#include "runtime/colls.def"
  };
  const PmColl *coll = step->u.coll;
  bool reduces = coll->kind == PM_COLL_ALL_REDUCE || coll->kind == PM_COLL_REDUCE_SCATTER;
  PmCommRow r = {.op = ops[coll->kind],
                 .reduce = reduces ? pm_reduce_text(coll->reduce ? PM_MAX : PM_SUM) : NULL,
                 .n_mesh = coll->n_mesh,
                 .group = 1,
                 .runs = 1,
                 .loc = "-"};
  for (int32_t i = 0; i < r.n_mesh; i++) {
    r.mesh[i] = p->mesh_name[coll->mesh[i]];
    r.group *= p->mesh_size[coll->mesh[i]];
  }
  r.elements =
      coll->kind == PM_COLL_ALL_REDUCE || coll->kind == PM_COLL_SHIFT ? pm_coll_elements(coll) : coll->count * r.group;
  if (coll->rows) r.elements = coll->count * coll->rows->width;
  r.bytes = r.elements * pm_kdtype_bytes((PmKDtype)coll->dtype);
  if (step->loc >= 0) {
    const PmProgLoc *loc = &p->locs[step->loc];
    r.loc = pm_loc_text(c->arena, loc->path, loc->line, loc->col);
  }
  for (int32_t i = 0; i < c->n_rows; i++) {
    if (!same_row(&c->rows[i], &r)) continue;
    c->rows[i].runs++;
    return;
  }
  *push_row(c) = r;
}

PmComm pm_comm_of_program(PmArena *arena, const PmProgram *p) {
  PmComm c = {.arena = arena};
  const PmEntry *e = &p->entries[PM_ENTRY_STEP];
  open_group(&c, "step", 1);
  for (int32_t i = 0; i < e->n_steps; i++) {
    if (e->steps[i].kind == PM_STEP_COLL) add_coll(&c, p, &e->steps[i]);
  }
  close_group(&c);
  return c;
}
