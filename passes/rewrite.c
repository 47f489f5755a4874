#include "passes/rewrite.h"

#include <string.h>

#include "base/assert.h"

bool pm_op_takes_type(PmOp op) { return (pm_op_flags(op) & PM_F_TYPED) != 0; }

static PmFn move_out(PmModule *m, PmFnId id, PmValue *values, int32_t cap_values, PmNode *nodes, int32_t cap_nodes) {
  PmFn *fn = pm_fn(m, id);
  PmFn old = *fn;
  fn->values = values;
  fn->cap_values = cap_values;
  fn->nodes = nodes;
  fn->cap_nodes = cap_nodes;
  fn->n_values = fn->n_nodes = 0;
  fn->n_params = 0;
  fn->results = NULL;
  fn->n_results = 0;
  return old;
}

PmFn pm_rebuild_begin(PmModule *m, PmFnId id) {
  // Room for as much again: most rebuilds end a little smaller.
  int32_t n_values = pm_fn(m, id)->n_values + 1, n_nodes = pm_fn(m, id)->n_nodes + 1;
  return move_out(m, id, PM_NEW_N(m->arena, PmValue, n_values), n_values, PM_NEW_N(m->arena, PmNode, n_nodes), n_nodes);
}

// Rules may add a few to those that there were.
static int32_t roomy(int32_t n) { return n > INT32_MAX / 2 ? n : n + n / 4 + 16; }

PmFn pm_rebuild_begin_in(PmRebuildRoom *room, PmModule *m, PmFnId id) {
  int32_t n_values = roomy(pm_fn(m, id)->n_values), n_nodes = roomy(pm_fn(m, id)->n_nodes);
  if (room->cap_values < n_values) {
    room->cap_values = roomy(n_values);
    room->values = PM_NEW_N(room->arena, PmValue, room->cap_values);
  }
  if (room->cap_nodes < n_nodes) {
    room->cap_nodes = roomy(n_nodes);
    room->nodes = PM_NEW_N(room->arena, PmNode, room->cap_nodes);
  }
  return move_out(m, id, room->values, room->cap_values, room->nodes, room->cap_nodes);
}

void pm_rebuild_end(const PmRebuildRoom *room, PmModule *m, PmFnId id, const PmFn *old) {
  PmFn *fn = pm_fn(m, id);
  // What has outgrown the room lies in the module's arena already.
  if (fn->values == room->values) {
    bool fits = fn->n_values <= old->cap_values;
    fn->values = fits ? old->values : PM_NEW_N(m->arena, PmValue, fn->n_values);
    fn->cap_values = fits ? old->cap_values : fn->n_values;
    if (fn->n_values) memcpy(fn->values, room->values, (size_t)fn->n_values * sizeof *fn->values);
  }
  if (fn->nodes == room->nodes) {
    bool fits = fn->n_nodes <= old->cap_nodes;
    fn->nodes = fits ? old->nodes : PM_NEW_N(m->arena, PmNode, fn->n_nodes);
    fn->cap_nodes = fits ? old->cap_nodes : fn->n_nodes;
    if (fn->n_nodes) memcpy(fn->nodes, room->nodes, (size_t)fn->n_nodes * sizeof *fn->nodes);
  }
}

PmValue *pm_b_value(const PmBuilder *b, PmValueId v) { return &pm_fn(b->m, b->fn)->values[v]; }

PmValueId pm_rebuild_param(PmBuilder *b, const PmValue *v) {
  PmValueId p = pm_b_param(b, v->type, v->name);
  pm_b_value(b, p)->bound = v->bound;
  return p;
}

PmValueId pm_rebuild_node(PmBuilder *b, const PmFn *old, const PmNode *node, PmValueId *map) {
  PmValueId few[8], *in = few;
  if (node->n_in > (int32_t)(sizeof few / sizeof *few)) in = PM_NEW_N(b->m->arena, PmValueId, node->n_in);
  for (int32_t i = 0; i < node->n_in; i++) in[i] = map[node->in[i]];
  b->loc = node->loc;
  PmType given = node->n_out > 0 ? old->values[node->out].type : pm_type_scalar(PM_F32);
  PmValueId first = pm_b_node(b, node->op, &node->attr, in, node->n_in, pm_op_takes_type(node->op) ? &given : NULL);
  for (int32_t i = 0; i < node->n_out; i++) {
    const PmValue *v = &old->values[node->out + i];
    PmValue *to = pm_b_value(b, first + i);
    // Inference drops placements at stage `placed`.
    to->type = v->type;
    to->name = v->name;
    to->bound = v->bound;
    map[node->out + i] = first + i;
  }
  return first;
}

void pm_rewrite_fn(PmModule *m, PmArena *scratch, PmFnId id, PmRewriteNode *write, void *context) {
  PmFn old = pm_rebuild_begin(m, id);
  PmBuilder b = {.m = m, .fn = id};
  PmValueId *map = PM_NEW_N(scratch, PmValueId, old.n_values + 1);
  for (int32_t i = 0; i < old.n_params; i++) map[i] = pm_rebuild_param(&b, &old.values[i]);
  for (int32_t i = 0; i < old.n_nodes; i++)
    if (!write(context, &b, &old, &old.nodes[i], map)) pm_rebuild_node(&b, &old, &old.nodes[i], map);
  PmValueId *results = PM_NEW_N(scratch, PmValueId, old.n_results + 1);
  for (int32_t i = 0; i < old.n_results; i++) results[i] = map[old.results[i]];
  pm_b_results(&b, results, old.n_results);
}

void pm_b_lend_name(PmBuilder *b, PmValueId v, const char *name, bool bound) {
  PmValue *to = pm_b_value(b, v);
  if (!name || (to->name && (to->bound || !bound))) return;
  to->name = name;
  to->bound = bound;
}

PmValueId pm_b_splat(PmBuilder *b, double v, const PmType *type) {
  PmType to = *type, number = pm_type_scalar((PmDtype)type->dtype);
  number.index_of = type->index_of;
  return pm_b_broadcast(b, pm_b_node(b, PM_OP_const, &(PmAttr){.number = v}, NULL, 0, &number), to);
}

bool pm_is_splat(const PmFn *f, PmValueId v, double *out_number) {
  while (f->values[v].def != PM_NONE) {
    const PmNode *n = &f->nodes[f->values[v].def];
    if (n->op == PM_OP_const) {
      *out_number = n->attr.number;
      return true;
    }
    if (n->op != PM_OP_broadcast && n->op != PM_OP_cast) return false;
    v = n->in[0];
  }
  return false;
}

bool pm_is_zero(const PmFn *f, PmValueId v) {
  double number;
  return pm_is_splat(f, v, &number) && number == 0;
}

bool pm_is_cheap(const PmNode *node) {
  uint32_t flags = pm_op_flags(node->op);
  if (flags & (PM_F_CALL | PM_F_COMM)) return false;
  return flags & (PM_F_POINTWISE | PM_F_LINEAR | PM_F_EXACT | PM_F_DRAW);
}

int32_t *pm_fn_uses(PmArena *arena, const PmFn *f) {
  int32_t *uses = PM_NEW_N(arena, int32_t, f->n_values + 1);
  for (int32_t i = 0; i < f->n_nodes; i++)
    for (int32_t k = 0; k < f->nodes[i].n_in; k++) uses[f->nodes[i].in[k]]++;
  for (int32_t i = 0; i < f->n_results; i++) uses[f->results[i]]++;
  return uses;
}

int64_t pm_type_whole_bytes(const PmModule *m, const PmType *t) {
  int64_t n;
  bool ok = pm_type_elements(m, t, &n);
  return (ok ? n : PM_MAX_ELEMENTS) * pm_dtype_bytes((PmDtype)t->dtype);
}

PmAxisId pm_other_axis(PmModule *m, PmAxisId axis, const PmType *t) {
  for (int32_t k = 1;; k++) {
    const char *name = pm_intern_printf(m->names, "%s.saved%d", m->axes[axis].name, k);
    PmAxisId other = pm_module_axis(m, name, m->axes[axis].size, m->axes[axis].loc);
    if (pm_type_find(t, other) == PM_NONE) return other;
  }
}

typedef struct Frame {
  PmFnId fn;
  int32_t node;
} Frame;

PmStatus *pm_fn_order(const PmModule *m, PmArena *arena, PmFnId **out_order, int32_t *out_n) {
  enum { NEW, OPEN, DONE };
  uint8_t *state = PM_NEW_N(arena, uint8_t, m->n_fns);
  int32_t *height = PM_NEW_N(arena, int32_t, m->n_fns);
  PmFnId *order = PM_NEW_N(arena, PmFnId, m->n_fns);
  Frame stack[PM_MAX_NESTING];
  int32_t n = 0;
  for (PmFnId root = 0; root < m->n_fns; root++) {
    if (pm_fn(m, root)->dead || state[root] != NEW) continue;
    int32_t depth = 0;
    stack[depth++] = (Frame){root, 0};
    state[root] = OPEN;
    while (depth > 0) {
      Frame *top = &stack[depth - 1];
      const PmFn *fn = pm_fn(m, top->fn);
      while (top->node < fn->n_nodes && !(pm_op_flags(fn->nodes[top->node].op) & PM_F_CALL)) top->node++;
      if (top->node == fn->n_nodes) {
        state[top->fn] = DONE;
        order[n++] = top->fn;
        depth--;
        continue;
      }
      PmFnId callee = fn->nodes[top->node].attr.callee;
      PM_ASSERT(state[callee] != OPEN, "function `%s` calls itself", pm_fn(m, callee)->name);
      if (state[callee] == DONE) {
        top->node++;
        if (height[top->fn] < height[callee] + 1) height[top->fn] = height[callee] + 1;
        if (height[top->fn] < PM_MAX_NESTING) continue;
      }
      if (state[callee] == DONE || depth == PM_MAX_NESTING) {
        return PM_STATUS(PM_ERR_LIMIT, "calls nest deeper than %d functions at `%s`", PM_MAX_NESTING,
                         pm_fn(m, callee)->name);
      }
      state[callee] = OPEN;
      stack[depth++] = (Frame){callee, 0};
    }
  }
  *out_order = order;
  *out_n = n;
  return NULL;
}

PmFnId pm_fn_cut(PmModule *m, PmArena *scratch, PmFnId fn, PmValueId v, const char *name, PmFnKind kind) {
  PmFn old = *pm_fn(m, fn);
  bool *live = PM_NEW_N(scratch, bool, old.n_values);
  live[v] = true;
  for (int32_t i = old.n_nodes - 1; i >= 0; i--) {
    const PmNode *node = &old.nodes[i];
    bool used = false;
    for (int32_t k = 0; k < node->n_out; k++) used = used || live[node->out + k];
    for (int32_t k = 0; used && k < node->n_in; k++) live[node->in[k]] = true;
  }
  PmBuilder b = {m, pm_module_add_fn(m, name, kind), {0}};
  PmValueId *map = PM_NEW_N(scratch, PmValueId, old.n_values);
  PmBinding *bind = PM_NEW_N(m->arena, PmBinding, old.n_params);
  int32_t n_params = 0;
  for (int32_t i = 0; i < old.n_params; i++) {
    if (!live[i]) continue;
    map[i] = pm_rebuild_param(&b, &old.values[i]);
    if (old.param_bind) bind[n_params] = old.param_bind[i];
    n_params++;
  }
  for (int32_t i = 0; i < old.n_nodes; i++) {
    const PmNode *node = &old.nodes[i];
    bool used = false;
    for (int32_t k = 0; k < node->n_out; k++) used = used || live[node->out + k];
    if (used) pm_rebuild_node(&b, &old, node, map);
  }
  pm_b_results(&b, &map[v], 1);
  if (old.param_bind) pm_fn(m, b.fn)->param_bind = bind;
  return b.fn;
}

static PmFnId find_suffixed(PmModule *m, const char *name, const char *suffix) {
  const char *full = pm_intern_printf(m->names, "%s%s", name, suffix);
  PmFnId id = pm_module_find_fn(m, full);
  return id != PM_NONE && pm_fn(m, id)->dead ? PM_NONE : id;
}

bool pm_declared_pair(PmModule *m, PmFnId fn, PmFnId *out_fwd, PmFnId *out_bwd) {
  if (pm_fn(m, fn)->kind != PM_FN_COMPOSITE) return false;
  *out_fwd = find_suffixed(m, pm_fn(m, fn)->name, ".fwd");
  *out_bwd = find_suffixed(m, pm_fn(m, fn)->name, ".bwd");
  return *out_fwd != PM_NONE && *out_bwd != PM_NONE;
}
