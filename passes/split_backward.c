// split_backward: each backward function becomes two. "X.bwd_input" makes the cotangents that the layer before waits
// for; "X.bwd_weight" makes the gradients of parameters, later, from what the first hands to it (split_plan.c). A
// `repeat ... reverse` becomes two repeats, of which the first stacks what the second needs.
//
// Every sum has the terms and the order that it had, and what the weight part makes again are the same bits.
#include <stdlib.h>
#include <string.h>

#include "passes/passes.h"
#include "passes/split.h"

typedef struct Halve {
  PmModule *m;
  PmArena *arena;
  PmFnId *done;  // functions that were split, callers before callees
  int32_t n_done, cap_done;
} Halve;

static bool must_rename(const PmHalves *p, PmValueId v) {
  return p->loop && pm_type_find(&p->types[v], p->axis) != PM_NONE;
}

static PmFnId add_part(Halve *s, const PmFn *f, const char *part) {
  PmFnId id = pm_module_add_fn(s->m, pm_intern_printf(s->m->names, "%s_%s", f->name, part), f->kind);
  if (f->base) pm_fn(s->m, id)->base = pm_intern_printf(s->m->names, "%s_%s", f->base, part);
  return id;
}

// The call of one part of a split callee. map: values of the function around it.
static void call_part(Halve *s, PmBuilder *b, const PmFn *old, const PmNode *n, const PmHalves *inner, int32_t handed,
                      bool weight, PmValueId *map) {
  const bool *takes = weight ? inner->weight_takes : inner->input_takes;
  PmValueId *in = PM_NEW_N(s->arena, PmValueId, n->n_in + inner->n_handed);
  int32_t n_in = 0, n_carry = 0, n_inv = 0;
  for (int32_t k = 0; k < n->n_in; k++) {
    if (!takes[k]) continue;
    in[n_in++] = map[n->in[k]];
    n_carry += k < n->attr.n_carry;
    n_inv += k >= n->attr.n_carry && k < n->attr.n_carry + n->attr.n_inv;
  }
  for (int32_t k = 0; weight && k < inner->n_handed; k++) in[n_in++] = map[handed + k];
  b->loc = n->loc;
  PmAttr attr = n->attr;
  attr.callee = weight ? inner->weight : inner->input;
  attr.n_carry = n_carry;
  attr.n_inv = n_inv;
  PmValueId out = pm_b_node(b, n->op, &attr, in, n_in, NULL);
  for (int32_t k = 0; k < n->n_out; k++) {
    if (inner->is_input[k] == weight) continue;
    const PmValue *v = &old->values[n->out + k];
    pm_b_name(b, out, v->name, v->bound);
    map[n->out + k] = out++;
  }
  for (int32_t k = 0; !weight && k < inner->n_handed; k++) map[handed + k] = out++;
}

static void build_input(Halve *s, PmHalves *p, const PmFn *f) {
  PmBuilder b = {s->m, p->input = add_part(s, f, "input"), {0}};
  PmValueId *map = PM_NEW_N(s->arena, PmValueId, p->n_values + 1);
  for (int32_t i = 0; i < f->n_params; i++)
    if (p->input_takes[i]) map[i] = pm_rebuild_param(&b, &f->values[i]);
  for (int32_t i = 0; i < f->n_nodes; i++) {
    if (!p->in_input[i]) continue;
    if (p->inner[i])
      call_part(s, &b, f, &f->nodes[i], p->inner[i], p->first_handed[i], false, map);
    else
      pm_rebuild_node(&b, f, &f->nodes[i], map);
  }
  PmValueId *results = PM_NEW_N(s->arena, PmValueId, f->n_results + p->n_handed + 1);
  int32_t n = 0;
  for (int32_t r = 0; r < f->n_results; r++)
    if (p->is_input[r]) results[n++] = map[f->results[r]];
  for (PmValueId v = 0; v < p->n_values; v++) {
    if (!p->handed[v]) continue;
    PmValueId id = map[v];
    if (must_rename(p, v)) {
      const PmAxisId other = pm_other_axis(s->m, p->axis, &p->types[v]);
      id = pm_b_rename(&b, id, &p->axis, &other, 1);
    }
    results[n++] = id;
  }
  pm_b_results(&b, results, n);
}

static const char *name_of(const PmFn *f, PmValueId v) { return v < f->n_values ? f->values[v].name : NULL; }

// The parameters that take what is handed, in the order of values, under the values' own axes.
static void add_handed(PmBuilder *b, const PmHalves *p, const PmFn *f, PmValueId *map) {
  PmValueId first = pm_fn(b->m, b->fn)->n_params;
  for (PmValueId v = 0; v < p->n_values; v++) {
    if (!p->handed[v]) continue;
    PmType t = p->types[v];
    if (must_rename(p, v)) t.dims[pm_type_find(&t, p->axis)].axis = pm_other_axis(b->m, p->axis, &t);
    map[v] = pm_b_param(b, t, name_of(f, v));
  }
  for (PmValueId v = 0; v < p->n_values; v++) {
    if (!p->handed[v]) continue;
    const PmValueId id = first++;
    if (!must_rename(p, v)) continue;
    const PmAxisId other = pm_other_axis(b->m, p->axis, &p->types[v]);
    map[v] = pm_b_rename(b, id, &other, &p->axis, 1);
  }
}

static void build_weight(Halve *s, PmHalves *p, const PmFn *f) {
  PmBuilder b = {s->m, p->weight = add_part(s, f, "weight"), {0}};
  PmValueId *map = PM_NEW_N(s->arena, PmValueId, p->n_values + 1);
  for (int32_t i = 0; i < f->n_params; i++)
    if (p->weight_takes[i]) map[i] = pm_rebuild_param(&b, &f->values[i]);
  add_handed(&b, p, f, map);
  for (int32_t i = 0; i < f->n_nodes; i++) {
    if (!p->in_weight[i]) continue;
    if (p->inner[i])
      call_part(s, &b, f, &f->nodes[i], p->inner[i], p->first_handed[i], true, map);
    else
      pm_rebuild_node(&b, f, &f->nodes[i], map);
  }
  PmValueId *results = PM_NEW_N(s->arena, PmValueId, f->n_results + 1);
  int32_t n = 0;
  for (int32_t r = 0; r < f->n_results; r++)
    if (!p->is_input[r]) results[n++] = map[f->results[r]];
  pm_b_results(&b, results, n);
}

// Callees come before their callers.
static void build(Halve *s, PmHalves *p) {
  const PmFn f = *pm_fn(s->m, p->fn);
  s->done = pm_grow(s->arena, s->done, s->n_done, &s->cap_done, sizeof *s->done);
  s->done[s->n_done++] = p->fn;
  for (int32_t i = 0; i < f.n_nodes; i++)
    if (p->inner[i]) build(s, p->inner[i]);
  build_input(s, p, &f);
  build_weight(s, p, &f);
}

void pm_split_build(PmModule *m, PmArena *arena, PmHalves *p) {
  Halve s = {.m = m, .arena = arena};
  build(&s, p);
}

// ---- the pass ------------------------------------------------------------------------------------------------------
// "gpt.bwd", "gpt.bwd.2".
static bool is_backward(const PmFn *f) {
  const char *at = strstr(f->name, ".bwd"), *end = at;
  if (f->kind != PM_FN_BODY) return false;
  for (; at; at = strstr(at + 1, ".bwd")) end = at + 4;
  return end && (*end == 0 || (*end == '.' && strtol(end + 1, NULL, 10) > 1 && !strpbrk(end + 1, "._")));
}

static bool is_root(const PmModule *m, const PmFn *f, const PmNode *n) {
  return n->op == PM_OP_call && is_backward(pm_fn(m, n->attr.callee)) && !is_backward(f);
}

// A function outside of the backward pass, with the calls of backward functions as two calls each.
static PmStatus *split_calls(Halve *s, PmFnId fn) {
  PmModule *m = s->m;
  PmFn old = *pm_fn(m, fn);
  PmHalves **plans = (PmHalves **)pm_arena_alloc_n(s->arena, (size_t)old.n_nodes + 1, sizeof *plans);
  bool any = false;
  for (int32_t i = 0; i < old.n_nodes; i++) {
    if (!is_root(m, &old, &old.nodes[i])) continue;
    bool *wanted = PM_NEW_N(s->arena, bool, old.nodes[i].n_out + 1);
    PM_TRY(pm_split_plan(m, s->arena, &old.nodes[i], wanted, &plans[i]));
    if (!plans[i]) continue;
    build(s, plans[i]);
    any = true;
  }
  if (!any) return NULL;
  old = pm_rebuild_begin(m, fn);
  PmBuilder b = {m, fn, {0}};
  int32_t n_values = old.n_values;
  for (int32_t i = 0; i < old.n_nodes; i++)
    if (plans[i]) n_values += plans[i]->n_handed;
  PmValueId *map = PM_NEW_N(s->arena, PmValueId, n_values + 1);
  int32_t handed = old.n_values;
  for (int32_t i = 0; i < old.n_params; i++) map[i] = pm_rebuild_param(&b, &old.values[i]);
  for (int32_t i = 0; i < old.n_nodes; i++) {
    if (plans[i]) {
      call_part(s, &b, &old, &old.nodes[i], plans[i], handed, false, map);
      call_part(s, &b, &old, &old.nodes[i], plans[i], handed, true, map);
      handed += plans[i]->n_handed;
    } else {
      pm_rebuild_node(&b, &old, &old.nodes[i], map);
    }
  }
  PmValueId *results = PM_NEW_N(s->arena, PmValueId, old.n_results + 1);
  for (int32_t i = 0; i < old.n_results; i++) results[i] = map[old.results[i]];
  pm_b_results(&b, results, old.n_results);
  return NULL;
}

// A split function goes when nothing calls it any more.
static void drop_unused(Halve *s) {
  PmModule *m = s->m;
  for (int32_t d = 0; d < s->n_done; d++) {
    bool called = false;
    for (PmFnId fn = 0; fn < m->n_fns; fn++) {
      const PmFn *f = pm_fn(m, fn);
      for (int32_t i = 0; !f->dead && i < f->n_nodes; i++)
        called = called || (pm_is_call(&f->nodes[i]) && f->nodes[i].attr.callee == s->done[d]);
    }
    if (!called) pm_fn(m, s->done[d])->dead = true;
  }
}

static PmStatus *split_all(Halve *s) {
  PmFnId *order;
  int32_t n;
  PM_TRY(pm_fn_order(s->m, s->arena, &order, &n));
  for (int32_t i = 0; i < n; i++) PM_TRY(split_calls(s, order[i]));
  drop_unused(s);
  return NULL;
}

PmStatus *pm_pass_split_backward(PmPassCtx *ctx, PmModule *m) {
  (void)ctx;
  PmArena scratch;
  pm_pass_scratch(m, &scratch);
  Halve s = {.m = m, .arena = &scratch};
  PmStatus *st = split_all(&s);
  pm_arena_deinit(&scratch);
  return st;
}
