#include "passes/grad.h"

typedef struct EvalMode {
  PmModule *m;
  PmArena *scratch;
  PmFnId *copies;  // by function of the start: its copy, itself when it draws nothing, PM_NONE so far
} EvalMode;

static bool draws(const PmModule *m, PmFnId fn) {
  const PmFn *f = pm_fn(m, fn);
  for (int32_t i = 0; i < f->n_nodes; i++) {
    uint32_t flags = pm_op_flags(f->nodes[i].op);
    if ((flags & PM_F_DRAW) || ((flags & PM_F_CALL) && draws(m, f->nodes[i].attr.callee))) return true;
  }
  return false;
}

static PmFnId copy_of(EvalMode *e, PmFnId fn);

static void rebuild(EvalMode *e, const PmFn *old, PmFnId to) {
  PmBuilder b = {e->m, to, {0}};
  PmValueId *map = PM_NEW_N(e->scratch, PmValueId, old->n_values + 1);
  for (int32_t i = 0; i < old->n_params; i++) map[i] = pm_rebuild_param(&b, &old->values[i]);
  for (int32_t i = 0; i < old->n_nodes; i++) {
    PmNode node = old->nodes[i];
    b.loc = node.loc;
    if (pm_op_flags(node.op) & PM_F_DRAW) {
      map[node.out] = pm_b_splat(&b, 1, &old->values[node.out].type);
      continue;
    }
    if (pm_op_flags(node.op) & PM_F_CALL) node.attr.callee = copy_of(e, node.attr.callee);
    pm_rebuild_node(&b, old, &node, map);
  }
  PmValueId *results = PM_NEW_N(e->scratch, PmValueId, old->n_results + 1);
  for (int32_t i = 0; i < old->n_results; i++) results[i] = map[old->results[i]];
  pm_b_results(&b, results, old->n_results);
}

static PmFnId copy_of(EvalMode *e, PmFnId fn) {
  if (e->copies[fn] != PM_NONE) return e->copies[fn];
  e->copies[fn] = fn;
  if (!draws(e->m, fn)) return fn;
  PmFn old = *pm_fn(e->m, fn);
  PmFnId to = pm_module_add_fn(e->m, pm_intern_printf(e->m->names, "%s.eval", old.name), old.kind);
  pm_fn(e->m, to)->base = old.base;
  e->copies[fn] = to;
  rebuild(e, &old, to);
  return to;
}

void pm_eval_mode(PmModule *m, PmArena *scratch, PmFnId fn) {
  if (!draws(m, fn)) return;
  EvalMode e = {m, scratch, PM_NEW_N(scratch, PmFnId, m->n_fns)};
  for (int32_t i = 0; i < m->n_fns; i++) e.copies[i] = PM_NONE;
  PmFn old = pm_rebuild_begin(m, fn);
  rebuild(&e, &old, fn);
}
