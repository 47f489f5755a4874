// probe: the training step also returns the program's named values, each as the report "value:<path>", in the order in
// which they are computed. Values of a repeat come stacked over its turns. It is how a difference between two
// compilations is traced to the first value that has it.
#include <string.h>

#include "passes/passes.h"
#include "passes/rewrite.h"
#include "passes/tree.h"

// A value that a function returns beside its own results.
typedef struct Extra {
  PmValueId value;
  const char *name;
} Extra;

typedef struct Probe {
  PmModule *m;
  const PmPassCtx *ctx;
  PmArena scratch;
  PmTree tree;
  PmAxisId turns[PM_MAX_NESTING];  // axes of the repeats around
  int32_t n_turns;
  const char **taken;  // names that have been seen: a value that is computed again is the same
  int32_t n_taken, cap_taken;
} Probe;

typedef struct Extras {
  int32_t n, cap;
  Extra *items;
} Extras;

static bool is_wanted(const Probe *p, const char *name) {
  if (!p->ctx->probes) return true;
  for (int32_t i = 0; i < p->ctx->n_probes; i++)
    if (strcmp(p->ctx->probes[i], name) == 0) return true;
  return false;
}

static bool fits(const Probe *p, const PmType *t) {
  for (int32_t i = 0; i < p->n_turns; i++)
    if (pm_type_find(t, p->turns[i]) >= 0) return false;
  return t->rank + p->n_turns <= PM_MAX_RANK && t->dtype != PM_F64;
}

static bool take(Probe *p, const char *name) {
  for (int32_t i = 0; i < p->n_taken; i++)
    if (p->taken[i] == name) return false;
  p->taken = (const char **)pm_grow(&p->scratch, (void *)p->taken, p->n_taken, &p->cap_taken, sizeof *p->taken);
  p->taken[p->n_taken++] = name;
  return true;
}

static void add(Probe *p, Extras *e, PmValueId value, const char *name) {
  e->items = pm_grow(&p->scratch, e->items, e->n, &e->cap, sizeof *e->items);
  e->items[e->n++] = (Extra){value, name};
}

static Extras rebuild(Probe *p, int32_t t);

// The call again, with what its callee now returns besides.
static void rebuild_call(Probe *p, PmBuilder *b, const PmFn *old, const PmNode *n, PmValueId *map, Extras *out) {
  bool repeats = pm_is_loop(n);
  if (repeats) p->turns[p->n_turns++] = n->attr.axes[0];
  Extras inner = rebuild(p, p->tree.of_fn[n->attr.callee]);
  p->n_turns -= repeats;
  PmValueId *in = PM_NEW_N(&p->scratch, PmValueId, n->n_in + 1);
  for (int32_t i = 0; i < n->n_in; i++) in[i] = map[n->in[i]];
  b->loc = n->loc;
  PmValueId first = pm_b_node(b, n->op, &n->attr, in, n->n_in, NULL);
  for (int32_t i = 0; i < n->n_out; i++) {
    pm_b_lend_name(b, first + i, old->values[n->out + i].name, old->values[n->out + i].bound);
    map[n->out + i] = first + i;
  }
  for (int32_t i = 0; i < inner.n; i++) add(p, out, first + n->n_out + i, inner.items[i].name);
}

static Extras rebuild(Probe *p, int32_t t) {
  PmFnId id = p->tree.fns[t].fn;
  PmFn old = pm_rebuild_begin(p->m, id);
  PmBuilder b = {.m = p->m, .fn = id};
  PmValueId *map = PM_NEW_N(&p->scratch, PmValueId, old.n_values + 1);
  Extras extras = {0};
  for (int32_t i = 0; i < old.n_params; i++) map[i] = pm_rebuild_param(&b, &old.values[i]);
  for (int32_t i = 0; i < old.n_nodes; i++) {
    const PmNode *n = &old.nodes[i];
    if (pm_is_call(n))
      rebuild_call(p, &b, &old, n, map, &extras);
    else
      pm_rebuild_node(&b, &old, n, map);
    for (int32_t k = 0; k < n->n_out; k++) {
      const PmValue *v = &old.values[n->out + k];
      if (v->name && v->bound && is_wanted(p, v->name) && fits(p, &v->type) && take(p, v->name))
        add(p, &extras, map[n->out + k], v->name);
    }
  }
  PmValueId *results = PM_NEW_N(&p->scratch, PmValueId, old.n_results + extras.n + 1);
  for (int32_t i = 0; i < old.n_results; i++) results[i] = map[old.results[i]];
  for (int32_t i = 0; i < extras.n; i++) results[old.n_results + i] = extras.items[i].value;
  pm_b_results(&b, results, old.n_results + extras.n);
  if (!old.result_bind) return extras;
  PmBinding *bind = PM_NEW_N(p->m->arena, PmBinding, old.n_results + extras.n + 1);
  memcpy(bind, old.result_bind, (size_t)old.n_results * sizeof *bind);
  for (int32_t i = 0; i < extras.n; i++)
    bind[old.n_results + i] = (PmBinding){PM_NONE, pm_intern_printf(p->m->names, "value:%s", extras.items[i].name)};
  pm_fn(p->m, id)->result_bind = bind;
  return extras;
}

PmStatus *pm_pass_probe(PmPassCtx *ctx, PmModule *m) {
  if (m->step == PM_NONE) return PM_STATUS(PM_ERR_INPUT, "`probe` needs a training step: run `differentiate` first");
  Probe p = {.m = m, .ctx = ctx};
  pm_pass_scratch(m, &p.scratch);
  pm_specialise(m);
  p.tree = pm_tree_build(&p.scratch, m);
  rebuild(&p, p.tree.of_fn[m->step]);
  pm_arena_deinit(&p.scratch);
  return NULL;
}
