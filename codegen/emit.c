// Items -> abstract steps, and the way of one function from the IR to there.
#include <string.h>

#include "base/assert.h"
#include "codegen/region.h"

static const char *axes_text(const PmCg *cg, const char *op, const PmCgNode *n) {
  const char *text = op;
  for (int32_t i = 0; i < n->n_axes; i++)
    text = pm_arena_printf(cg->out_arena, "%s%s%s", text, i ? "," : "[", cg->m->axes[n->axes[i]].name);
  return n->n_axes ? pm_arena_printf(cg->out_arena, "%s]", text) : text;
}

const char *pm_cg_dot_text(const PmCg *cg, const PmCgNode *n) { return axes_text(cg, "dot", n); }

// The whole of v, contiguous in the order of its dims.
static PmCgRef whole(PmCg *cg, PmCgRegion *r, PmCgId v) {
  const PmCgValue *x = &r->values[v];
  const PmCgView *view = pm_cg_view(cg, r, v);
  PM_ASSERT(view->buf != PM_NONE && pm_cg_view_contiguous(x, view), "a value that has to lie contiguous does not");
  const int64_t size = pm_kdtype_bytes(x->dtype);
  return (PmCgRef){view->buf, view->offset * size, pm_cg_elements(x) * size};
}

static bool used_once(const PmCgRegion *r, PmCgId v) {
  int32_t uses = 0;
  for (int32_t i = 0; i < r->n_results; i++) uses += r->results[i] == v;
  for (int32_t i = 0; i < r->n_nodes; i++)
    for (int32_t k = 0; k < r->nodes[i].n_in; k++) uses += r->nodes[i].in[k] == v;
  return uses == 1;
}

// Nothing but node n reads the operand, so that its memory may take the result.
static bool gives_way(const PmCgRegion *r, const PmCgNode *n, PmCgId v, PmCgRef src) {
  const PmCgNode *def = pm_cg_def(r, v);
  if (!def || src.bytes != r->bufs[src.buf].bytes || src.buf < r->n_params || r->bufs[src.buf].table != PM_NONE)
    return false;
  if (n->op != PM_OP_all_reduce || r->info[v].home == PM_NONE || !used_once(r, v)) return false;
  // What a repeat carries may lie anywhere, also in what it stacks.
  if (def->op != PM_OP_repeat) return true;
  for (int32_t i = 0; i < def->n_carry; i++)
    if (pm_cg_produced_as_carried(def, i) == v - def->out) return false;
  return v - def->out >= def->n_carry;
}

// The ranges of operand and result i.
static PmCgRef emit_part(PmCg *cg, PmCgRegion *r, const PmCgNode *n, int32_t i, PmCgRef *out_dst) {
  const PmCgRef src = whole(cg, r, n->in[i]);
  if (gives_way(r, n, n->in[i], src)) {
    r->info[n->out + i].view = r->info[n->in[i]].view;
    r->info[n->out + i].view_known = true;
    if (!r->bufs[src.buf].name) r->bufs[src.buf].name = r->values[n->out + i].name;
  }
  *out_dst = whole(cg, r, n->out + i);
  return src;
}

static void emit_coll(PmCg *cg, PmCgRegion *r, const PmCgNode *n) {
  static const uint8_t kinds[PM_OP_COUNT] = {
      [PM_OP_all_reduce] = PM_COLL_ALL_REDUCE,
      [PM_OP_all_gather] = PM_COLL_ALL_GATHER,
      [PM_OP_reduce_scatter] = PM_COLL_REDUCE_SCATTER,
      [PM_OP_all_to_all] = PM_COLL_ALL_TO_ALL,
      [PM_OP_permute] = PM_COLL_PERMUTE,
      [PM_OP_gather_rows] = PM_COLL_GATHER_ROWS,
      [PM_OP_scatter_rows] = PM_COLL_SCATTER_ROWS,
      [PM_OP_shift] = PM_COLL_SHIFT,
  };
  const PmCgValue *x = &r->values[n->in[0]], *y = &r->values[n->out];
  PmCgRef dst;
  const PmCgRef src = emit_part(cg, r, n, 0, &dst);
  PmColl *c = PM_NEW(cg->out_arena, PmColl);
  c->kind = kinds[n->op];
  c->dtype = x->dtype;
  c->reduce = (uint8_t)n->kind;
  c->n_mesh = n->n_mesh;
  memcpy(c->mesh, n->mesh, (size_t)n->n_mesh);
  c->n_to = n->op == PM_OP_permute ? n->n_mesh : 0;
  memcpy(c->to, n->mesh_to, (size_t)c->n_to);
  const int64_t in = pm_cg_elements(x), out = pm_cg_elements(y);
  c->count = n->op == PM_OP_all_to_all ? in / pm_mesh_group(cg->m, n->mesh, n->n_mesh) : in < out ? in : out;
  PmCgRef idx = {0};
  if (n->rows) {
    c->rows = PM_NEW(cg->out_arena, PmRows);
    *c->rows = *n->rows;
    c->count = pm_cg_elements(&r->values[n->in[1]]);
    c->rows->width = (n->op == PM_OP_gather_rows ? out : in) / c->count;
    idx = whole(cg, r, n->in[1]);
  }
  c->n_more = n->n_out - 1;
  if (c->n_more) c->more = PM_NEW_N(cg->arena, PmCollPart, c->n_more);
  PmCgRef *refs = PM_NEW_N(cg->arena, PmCgRef, 2 * n->n_out);
  for (int32_t i = 1; i < n->n_out; i++) {
    refs[2 * i] = emit_part(cg, r, n, i, &refs[2 * i + 1]);
    c->more[i - 1].count = pm_cg_elements(&r->values[n->out + i]);
  }
  PmCgStep *s = pm_cg_step(cg, r, PM_CG_STEP_COLL, n->rows ? 3 : 2 * n->n_out);
  if (n->rows) s->refs[2] = idx;
  for (int32_t i = 2; i < 2 * n->n_out; i++) {
    s->refs[i] = refs[i];
    s->writes[i] = i % 2 == 1;
    s->bytes += (double)refs[i].bytes;
  }
  s->coll = c;
  s->loc = n->loc;
  s->op = pm_op_name(n->op);
  s->bytes += (double)(src.bytes + dst.bytes);
  s->refs[0] = src;
  s->refs[1] = dst;
  s->writes[1] = true;
}

static void emit_slots(PmCg *cg, PmCgRegion *r, const PmCgNode *n) {
  const int64_t experts = pm_axis_size(cg->m, n->axes[0]);
  const PmCgRef idx = whole(cg, r, n->in[0]), dst = whole(cg, r, n->out);
  const PmCgRef counts = n->n_in > 1 ? whole(cg, r, n->in[1]) : (PmCgRef){0};
  PmSlots *slots = PM_NEW(cg->out_arena, PmSlots);
  *slots = (PmSlots){.counting = n->n_to == 0, .bounded = n->index != 0, .n_mesh = n->n_mesh, .experts = experts};
  memcpy(slots->mesh, n->mesh, (size_t)n->n_mesh);
  slots->count = pm_cg_elements(&r->values[n->in[0]]);
  if (!slots->counting) slots->slots = pm_axis_size(cg->m, n->to[0]) / experts;
  const int32_t work = slots->counting ? PM_NONE : pm_cg_buf(cg, r, PM_K_I32, experts, PM_OWN_SCRATCH, "slot counters");
  PmCgStep *s = pm_cg_step(cg, r, PM_CG_STEP_SLOTS, slots->counting ? 2 : n->n_in + 2);
  s->slots = slots;
  s->loc = n->loc;
  s->op = axes_text(cg, slots->counting ? "count" : "slot_of", n);
  s->bytes = (double)(idx.bytes + dst.bytes);
  s->refs[0] = idx;
  s->refs[1] = dst;
  s->writes[1] = true;
  if (slots->counting) return;
  s->refs[2] = (PmCgRef){work, 0, r->bufs[work].bytes};
  s->writes[2] = true;
  if (n->n_in > 1) s->refs[3] = counts;
}

static void emit_repeat(PmCg *cg, PmCgRegion *r, const PmCgNode *n) {
  PmCgRef *refs = PM_NEW_N(cg->arena, PmCgRef, n->n_in + n->n_out);
  for (int32_t i = 0; i < n->n_in; i++) refs[i] = whole(cg, r, n->in[i]);
  for (int32_t i = 0; i < n->n_out; i++) refs[n->n_in + i] = whole(cg, r, n->out + i);
  PmCgStep *s = pm_cg_step(cg, r, PM_CG_STEP_REPEAT, n->n_in + n->n_out);
  memcpy(s->refs, refs, (size_t)(n->n_in + n->n_out) * sizeof *refs);
  for (int32_t i = 0; i < n->n_out; i++) s->writes[n->n_in + i] = true;
  s->repeat = n;
  s->loc = n->loc;
  s->op = "repeat";
}

typedef struct Readers {
  PmCgRegion *r;
  int32_t item;
} Readers;

static void note_reader(void *ctx, PmCgId v) {
  Readers *x = ctx;
  if (v < x->r->n_params) x->r->last_reader[v] = x->item;
}

static void find_readers(PmCg *cg, PmCgRegion *r) {
  r->last_reader = PM_NEW_N(cg->arena, int32_t, r->n_params + 1);
  for (int32_t i = 0; i < r->n_params; i++) r->last_reader[i] = PM_NONE;
  int32_t *seen = PM_NEW_N(cg->arena, int32_t, r->n_values + 1);
  for (int32_t i = 0; i < r->n_items; i++) pm_cg_item_reads(r, i, seen, note_reader, &(Readers){r, i});
  for (int32_t i = 0; i < r->n_results; i++) {
    PmCgId v = r->results[i];
    while (r->values[v].def >= 0 && pm_cg_is_view(r, pm_cg_def(r, v)) && !r->info[v].stored) v = pm_cg_def(r, v)->in[0];
    if (v < r->n_params) r->last_reader[v] = INT32_MAX;
  }
}

typedef struct Again {
  PmCg *cg;
  const PmCgRegion *r;
  int32_t item;
  int32_t *seen;  // by value
  PmCgId *v;      // not at home in this kernel, yet computed by it; operands first
  int32_t n, cap;
} Again;

static void find_again(Again *a, PmCgId v) {
  const PmCgRegion *r = a->r;
  const bool at_home = r->info[v].home == a->item;
  if (a->seen[v] || r->info[v].is_const || pm_cg_is_table(r, v) || (!at_home && pm_cg_loads(r, a->item, v))) return;
  a->seen[v] = 1;
  const PmCgNode *n = pm_cg_def(r, v);
  for (int32_t i = 0; i < n->n_in; i++) find_again(a, n->in[i]);
  if (at_home || (r->info[v].home == PM_NONE && (n->op != PM_OP_map || r->info[v].exact))) return;
  a->v = pm_grow(a->cg->arena, a->v, a->n, &a->cap, sizeof *a->v);
  a->v[a->n++] = v;
}

// Asks for less of a kernel that passes a limit: it is cut in two; of a single node, the middle one of the values that
// it computes on the way is stored from now on. False when neither is possible.
static bool relieve(PmCg *cg, PmCgRegion *r, int32_t item) {
  const PmCgItem *k = &r->items[item];
  for (int32_t i = k->n_nodes / 2; k->kind == PM_CG_KERNEL && i > 0; i--) {
    if (r->cut[k->nodes[i]]) continue;
    r->cut[k->nodes[i]] = true;
    return true;
  }
  Again a = {.cg = cg, .r = r, .item = item, .seen = PM_NEW_N(cg->arena, int32_t, r->n_values + 1)};
  for (int32_t i = 0; i < k->n_nodes; i++) find_again(&a, r->nodes[k->nodes[i]].out);
  if (a.n) r->keep[a.v[a.n / 2]] = true;
  return a.n > 0;
}

// Goes on past a kernel that fails, to relieve all that do: an attempt costs as much as the whole function.
bool pm_cg_emit(PmCg *cg, PmCgRegion *r) {
  bool ok = true;
  for (int32_t i = 0; i < r->n_params; i++) {
    const PmCgValue *v = &r->values[i];
    pm_cg_buf(cg, r, (PmKDtype)v->dtype, pm_cg_elements(v), PM_OWN_ACT, v->name);
  }
  if (r->result_var) find_readers(cg, r);
  for (int32_t i = 0; i < r->n_items; i++) {
    const PmCgItem *k = &r->items[i];
    bool fits = true;
    switch (k->kind) {
      case PM_CG_KERNEL:
        fits = pm_cg_emit_kernel(cg, r, i);
        break;
      case PM_CG_SCATTER:
        fits = pm_cg_emit_scatter(cg, r, i);
        break;
      case PM_CG_DOT:
        pm_cg_emit_dot(cg, r, i);
        break;
      case PM_CG_COLL:
        emit_coll(cg, r, &r->nodes[k->node]);
        break;
      case PM_CG_SLOTS:
        emit_slots(cg, r, &r->nodes[k->node]);
        break;
      case PM_CG_REPEAT:
        emit_repeat(cg, r, &r->nodes[k->node]);
        break;
    }
    if (fits) continue;
    ok = false;
    if (!relieve(cg, r, i)) r->stuck = &r->nodes[k->kind == PM_CG_KERNEL ? k->nodes[0] : k->node];
  }
  if (!ok) return false;
  r->result_ref = PM_NEW_N(cg->arena, PmCgRef, r->n_results + 1);
  for (int32_t i = 0; i < r->n_results; i++) r->result_ref[i] = whole(cg, r, r->results[i]);
  return true;
}

static void reset(PmCg *cg, PmCgRegion *r) {
  r->info = PM_NEW_N(cg->arena, PmCgInfo, r->n_values + 1);
  for (int32_t i = 0; i < r->n_values; i++) r->info[i].stored = r->keep[i];
  for (int32_t i = 0; i < 3; i++) r->by_value[i] = PM_NEW_N(cg->arena, int32_t, r->n_values + 1);
  r->items = NULL;
  r->bufs = NULL;
  r->steps = NULL;
  r->n_items = r->cap_items = r->n_bufs = r->cap_bufs = r->n_steps = r->cap_steps = 0;
}

static void entry_vars(PmCg *cg, const PmFn *fn, PmCgRegion *r) {
  PmVarId *params = PM_NEW_N(cg->arena, PmVarId, fn->n_params + 1);
  PmVarId *results = PM_NEW_N(cg->arena, PmVarId, fn->n_results + 1);
  for (int32_t i = 0; i < fn->n_params; i++) params[i] = fn->param_bind[i].var;
  for (int32_t i = 0; i < fn->n_results; i++) results[i] = fn->result_bind ? fn->result_bind[i].var : PM_NONE;
  r->param_var = params;
  r->result_var = results;
}

static PmStatus *too_large(const PmCg *cg, const PmCgNode *n) {
  static const PmProgLoc nowhere = {.path = "-"};
  const PmProgLoc *loc = n->loc < 0 ? &nowhere : &cg->locs[n->loc];
  return PM_STATUS(PM_ERR_LIMIT, "%s:%d:%d: `%s` alone passes the limits of a kernel (%d tensors, %d axes)", loc->path,
                   loc->line, loc->col, pm_op_name(n->op), PM_KERNEL_MAX_ARGS, PM_KERNEL_MAX_AXES);
}

PmStatus *pm_cg_build(PmCg *cg, PmFnId id, PmCgRegion **out) {
  const PmFn *fn = pm_fn(cg->m, id);
  PmCgRegion *r = pm_cg_lower(cg, id);
  if (cg->status) return cg->status;
  if (fn->param_bind) entry_vars(cg, fn, r);
  r->cut = PM_NEW_N(cg->arena, bool, r->n_nodes + 1);
  r->keep = PM_NEW_N(cg->arena, bool, r->n_values + 1);
  // Of an attempt that fails what it has found to `cut` and to `keep` stays, and nothing else.
  const PmCg cg_before = *cg;
  const PmCgRegion r_before = *r;
  const PmArenaMark mark = pm_arena_mark(cg->arena), out_mark = pm_arena_mark(cg->out_arena);
  for (;;) {
    reset(cg, r);
    pm_cg_exact(cg, r);
    pm_cg_orders(r);
    pm_cg_fuse(cg, r);
    if (pm_cg_emit(cg, r)) break;
    if (r->stuck) return too_large(cg, r->stuck);
    *cg = cg_before;
    *r = r_before;
    pm_arena_rewind(cg->arena, mark);
    pm_arena_rewind(cg->out_arena, out_mark);
  }
  *out = r;
  return NULL;
}
