#include "passes/simplify.h"

#include <string.h>

#include "passes/passes.h"

enum { MAX_REWRITES = 32, MAX_ROUNDS = 8 };

const PmNode *pm_simp_def(const PmSimp *s, PmValueId v) {
  const PmFn *fn = pm_fn(s->m, s->b.fn);
  return fn->values[v].def == PM_NONE ? NULL : &fn->nodes[fn->values[v].def];
}

const PmType *pm_simp_type(const PmSimp *s, PmValueId v) { return &pm_b_value(&s->b, v)->type; }

bool pm_simp_is_splat(const PmSimp *s, PmValueId v, double *out) {
  const PmNode *def = pm_simp_def(s, v);
  while (def && def->op == PM_OP_broadcast) def = pm_simp_def(s, def->in[0]);
  if (!def || def->op != PM_OP_const) return false;
  *out = def->attr.number;
  return true;
}

PmValueId pm_simp_const(PmSimp *s, PmDtype dtype, double v) {
  PmAttr attr = {.number = v};
  PmType type = pm_type_scalar(dtype);
  PmValueId found = pm_cse_find(&s->cse, PM_OP_const, &attr, NULL, 0, &type, 1);
  if (found != PM_NONE) return found;
  PmValueId made = pm_b_const(&s->b, dtype, v);
  pm_cse_add(&s->cse, made);
  return made;
}

void pm_simp_set_operand(PmSimp *s, PmCand *c, PmValueId v) {
  c->in = PM_NEW(s->scratch, PmValueId);
  c->in[0] = v;
  c->n_in = 1;
}

void pm_simp_make_broadcast(PmSimp *s, PmCand *c, PmValueId v) {
  c->op = PM_OP_broadcast;
  c->attr = (PmAttr){0};
  pm_simp_set_operand(s, c, v);
}

static bool has_rows(const PmCand *c, const PmSimpRow *row) {
  return row->op == c->op && (row->fn == PM_SCALAR_COUNT || row->fn == c->attr.fn);
}

// The rewritten node must have the type of the one it replaces. Placements are inferred at stage `local` only.
static bool has_type(PmSimp *s, const PmCand *c) {
  PmType *in = PM_NEW_N(s->scratch, PmType, c->n_in);
  for (int32_t i = 0; i < c->n_in; i++) in[i] = *pm_simp_type(s, c->in[i]);
  PmType out;
  PmBuf why;
  pm_buf_init(&why);
  bool ok = pm_infer(s->m, c->op, &c->attr, in, c->n_in, pm_op_takes_type(c->op) ? &c->type : NULL, &out, 1, &why);
  pm_buf_deinit(&why);
  return ok && (s->m->stage == PM_STAGE_LOCAL ? pm_type_equal(&out, &c->type) : pm_type_same_logical(&out, &c->type));
}

// Two names that the user (or a declared pair) can refer to must stay two values while names still matter.
static bool may_stand_for(const PmSimp *s, PmValueId v, const PmValue *old) {
  const PmValue *value = pm_b_value(&s->b, v);
  if (!pm_type_equal(&value->type, &old->type)) return false;
  if (s->m->stage != PM_STAGE_LOGICAL || !old->name || !value->name || old->name == value->name) return true;
  bool by_name = s->old.kind == PM_FN_COMPOSITE && s->m->step == PM_NONE;
  return !by_name && !(old->bound && value->bound);
}

static bool apply_rows(PmSimp *s, PmCand *c, const PmValue *old, const PmSimpRow *rows, PmValueId *out) {
  for (const PmSimpRow *row = rows; row->op != PM_OP_COUNT; row++) {
    if (!has_rows(c, row)) continue;
    PmCand saved = *c;
    PmValueId v = PM_NONE;
    if (!row->rule(s, c, &v)) continue;
    if (v != PM_NONE ? may_stand_for(s, v, old) : has_type(s, c)) {
      *out = v;
      return true;
    }
    *c = saved;
  }
  return false;
}

static PmValueId simplify_node(PmSimp *s, const PmNode *node, PmValueId *in) {
  const PmValue *old = &s->old.values[node->out];
  PmCand c = {node->op, node->attr, node->n_in, in, old->type};
  PmValueId v = PM_NONE;
  for (int32_t i = 0; i < MAX_REWRITES && v == PM_NONE; i++) {
    if (!apply_rows(s, &c, old, pm_simp_scalar_rows, &v) && !apply_rows(s, &c, old, pm_simp_axis_rows, &v)) break;
    s->changed = true;
  }
  if (v == PM_NONE) {
    v = pm_cse_find(&s->cse, c.op, &c.attr, c.in, c.n_in, &c.type, 1);
    if (v != PM_NONE && may_stand_for(s, v, old)) {
      s->changed = true;
    } else {
      bool seen = v != PM_NONE;
      v = pm_b_node(&s->b, c.op, &c.attr, c.in, c.n_in, pm_op_takes_type(c.op) ? &c.type : NULL);
      pm_b_value(&s->b, v)->type = c.type;
      if (!seen) pm_cse_add(&s->cse, v);
    }
  }
  pm_b_lend_name(&s->b, v, old->name, old->bound);
  return v;
}

// Result k of the callee is one of its parameters, or the same value as an earlier result: the caller has it already.
static void forward_results(PmSimp *s, const PmNode *node, const PmValueId *in) {
  const PmFn *callee = pm_fn(s->m, node->attr.callee);
  bool loop = pm_is_loop(node);
  int32_t n_fixed = loop ? node->attr.n_carry : 0;
  for (int32_t k = n_fixed; k < node->n_out; k++) {
    PmValueId to = PM_NONE;
    PmValueId r = callee->results[k];
    // An invariant parameter is not yet stacked; a carried one changes from turn to turn.
    if (r < callee->n_params && (!loop || r >= n_fixed + node->attr.n_inv)) to = in[r];
    for (int32_t j = n_fixed; to == PM_NONE && j < k; j++) {
      if (callee->results[j] == r) to = s->map[node->out + j];
    }
    const PmValue *old = &s->old.values[node->out + k];
    if (to == PM_NONE || !may_stand_for(s, to, old)) continue;
    s->map[node->out + k] = to;
    pm_b_lend_name(&s->b, to, old->name, old->bound);
  }
}

// A call, or another node of several results.
static void simplify_many(PmSimp *s, const PmNode *node, PmValueId *in) {
  PmType *types = PM_NEW_N(s->scratch, PmType, node->n_out);
  for (int32_t k = 0; k < node->n_out; k++) types[k] = s->old.values[node->out + k].type;
  PmValueId first = pm_cse_find(&s->cse, node->op, &node->attr, in, node->n_in, types, node->n_out);
  bool same = first != PM_NONE;
  for (int32_t k = 0; same && k < node->n_out; k++) {
    same = may_stand_for(s, first + k, &s->old.values[node->out + k]);
  }
  if (same) {
    s->changed = true;
    for (int32_t k = 0; k < node->n_out; k++) {
      const PmValue *old = &s->old.values[node->out + k];
      s->map[node->out + k] = first + k;
      pm_b_lend_name(&s->b, first + k, old->name, old->bound);
    }
  } else {
    bool seen = first != PM_NONE;
    first = pm_rebuild_node(&s->b, &s->old, node, s->map);
    if (!seen && node->n_out > 0) pm_cse_add(&s->cse, first);
  }
  if (pm_is_call(node)) forward_results(s, node, in);
}

// The function is what it was before, where no rule has changed it.
static bool is_same(const PmFn *a, const PmFn *b) {
  if (a->n_nodes != b->n_nodes || a->n_values != b->n_values) return false;
  for (int32_t i = 0; i < a->n_nodes; i++) {
    const PmNode *n = &a->nodes[i], *other = &b->nodes[i];
    if (n->op != other->op || n->n_in != other->n_in) return false;
    if (n->n_in && memcmp(n->in, other->in, (size_t)n->n_in * sizeof *n->in) != 0) return false;
  }
  for (int32_t i = 0; i < a->n_values; i++) {
    if (a->values[i].name != b->values[i].name || a->values[i].bound != b->values[i].bound) return false;
  }
  return memcmp(a->results, b->results, (size_t)a->n_results * sizeof *a->results) == 0;
}

bool pm_simplify_fn(PmModule *m, PmArena *scratch, PmRebuildRoom *room, PmFnId fn, bool *out_changed) {
  PmSimp s = {.m = m, .scratch = scratch, .b = {m, fn, {0}}};
  s.old = pm_rebuild_begin_in(room, m, fn);
  s.map = PM_NEW_N(scratch, PmValueId, s.old.n_values);
  pm_cse_init(&s.cse, scratch);
  for (int32_t i = 0; i < s.old.n_params; i++) s.map[i] = pm_rebuild_param(&s.b, &s.old.values[i]);
  for (int32_t i = 0; i < s.old.n_nodes; i++) {
    const PmNode *node = &s.old.nodes[i];
    PmValueId *in = PM_NEW_N(scratch, PmValueId, node->n_in);
    for (int32_t k = 0; k < node->n_in; k++) in[k] = s.map[node->in[k]];
    s.b.loc = node->loc;
    if (pm_is_call(node) || node->n_out != 1) {
      simplify_many(&s, node, in);
    } else {
      s.map[node->out] = simplify_node(&s, node, in);
    }
  }
  PmValueId *results = PM_NEW_N(scratch, PmValueId, s.old.n_results);
  for (int32_t i = 0; i < s.old.n_results; i++) results[i] = s.map[s.old.results[i]];
  pm_b_results(&s.b, results, s.old.n_results);
  pm_cse_deinit(&s.cse);
  *out_changed = *out_changed || s.changed;
  if (!s.changed && is_same(&s.old, pm_fn(m, fn))) {
    *pm_fn(m, fn) = s.old;
    return false;
  }
  pm_rebuild_end(room, m, fn, &s.old);
  return true;
}

// By function, whether it changed: in the round before this one, which DCE ends, and in this one so far.
typedef struct Changes {
  bool *before, *now;
} Changes;

// It has changed, or one that it calls, since it was last simplified. Another comes out as it went in.
static bool is_due(const PmModule *m, const Changes *c, PmFnId id) {
  const PmFn *f = pm_fn(m, id);
  if (c->before[id]) return true;
  for (int32_t i = 0; i < f->n_nodes; i++) {
    PmFnId callee = f->nodes[i].attr.callee;
    if (pm_is_call(&f->nodes[i]) && (c->before[callee] || c->now[callee])) return true;
  }
  return false;
}

PmStatus *pm_pass_simplify(PmPassCtx *ctx, PmModule *m) {
  (void)ctx;
  PmArena scratch, kept;
  pm_pass_scratch(m, &scratch);
  pm_pass_scratch(m, &kept);
  PmStatus *st = NULL;
  PmRebuildRoom room = {.arena = &kept};
  Changes c = {PM_NEW_N(&kept, bool, m->n_fns + 1), PM_NEW_N(&kept, bool, m->n_fns + 1)};
  bool changed = true;
  for (PmFnId f = 0; f < m->n_fns; f++) c.before[f] = true;
  for (int32_t round = 0; changed && round < MAX_ROUNDS; round++) {
    changed = false;
    PmFnId *order;
    int32_t n;
    PM_TRY_CLEAN(st, pm_fn_order(m, &scratch, &order, &n), done);
    memset(c.now, 0, (size_t)m->n_fns * sizeof *c.now);
    for (int32_t i = 0; i < n; i++) {
      c.now[order[i]] = is_due(m, &c, order[i]) && pm_simplify_fn(m, &scratch, &room, order[i], &changed);
    }
    pm_dce_module(m, &scratch, &room, order, n, c.now, &changed);
    c = (Changes){c.now, c.before};
    pm_arena_reset(&scratch);
  }
done:
  pm_arena_deinit(&kept);
  pm_arena_deinit(&scratch);
  return st;
}
