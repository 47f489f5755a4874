#include "tools/reach.h"

int64_t pm_node_turns(const PmModule *m, const PmNode *n) {
  return pm_is_loop(n) ? pm_axis_size(m, n->attr.axes[0]) : 1;
}

// Post-order with the later calls first: read backwards it has callers before callees and earlier calls first.
static void visit(const PmModule *m, PmFnId fn, bool *seen, PmReach *r) {
  if (seen[fn]) return;
  seen[fn] = true;
  const PmFn *f = pm_fn(m, fn);
  for (int32_t i = f->n_nodes - 1; i >= 0; i--) {
    if (pm_is_call(&f->nodes[i])) visit(m, f->nodes[i].attr.callee, seen, r);
  }
  r->fns[r->n++] = fn;
}

PmReach pm_reach(PmArena *arena, const PmModule *m, PmFnId entry) {
  PmReach r = {.fns = PM_NEW_N(arena, PmFnId, m->n_fns), .runs = PM_NEW_N(arena, int64_t, m->n_fns)};
  if (entry == PM_NONE) return r;
  visit(m, entry, PM_NEW_N(arena, bool, m->n_fns), &r);
  for (int32_t i = 0; i < r.n / 2; i++) {
    PmFnId swap = r.fns[i];
    r.fns[i] = r.fns[r.n - 1 - i];
    r.fns[r.n - 1 - i] = swap;
  }
  int64_t *runs = PM_NEW_N(arena, int64_t, m->n_fns);
  runs[entry] = 1;
  for (int32_t i = 0; i < r.n; i++) {
    const PmFn *f = pm_fn(m, r.fns[i]);
    r.runs[i] = runs[r.fns[i]];
    for (int32_t k = 0; k < f->n_nodes; k++) {
      const PmNode *n = &f->nodes[k];
      if (!pm_is_call(n)) continue;
      PmFnId callee = n->attr.callee;
      runs[callee] = pm_saturating_add(runs[callee], pm_saturating_mul(r.runs[i], pm_node_turns(m, n)));
    }
  }
  return r;
}
