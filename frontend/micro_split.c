// Builds the three functions of a model with micro-batches. The function of one micro-batch takes the place of the
// model; a repeat of which a part must wait runs twice, its second time over what the first has stacked.

#include "frontend/micro.h"

// One function while it is built.
typedef struct Split {
  PmMicro *mi;
  PmMicroFn *f;
  PmBuilder b;
  PmValueId *map;    // value of f -> value here
  PmValueId *early;  // by number: the sum that was made before
  PmValueId *mean;   // value of f -> its share of an average, once made
} Split;

static PmArena *arena(const Split *s) { return s->mi->lw->arena; }

static Split open_split(PmMicro *mi, PmMicroFn *f, PmFnId fn) {
  Split s = {.mi = mi, .f = f, .b = {mi->lw->m, fn, {0}}};
  s.map = PM_NEW_N(mi->lw->arena, PmValueId, f->f.n_values + 1);
  s.mean = PM_NEW_N(mi->lw->arena, PmValueId, f->f.n_values + 1);
  s.early = PM_NEW_N(mi->lw->arena, PmValueId, mi->n_early + 1);
  for (int32_t i = 0; i < f->f.n_values; i++) s.map[i] = s.mean[i] = PM_NONE;
  return s;
}

static PmValueId copy_param(Split *s, const PmValue *v) {
  PmValueId id = pm_b_param(&s->b, v->type, v->name);
  pm_fn(s->b.m, s->b.fn)->values[id].bound = v->bound;
  return id;
}

static const PmValue *value(const PmMicroFn *f, PmValueId v) { return &f->f.values[v]; }

static PmValueId early_param(Split *s, int32_t number) {
  const PmEarly *e = &s->mi->early[number];
  return pm_b_param(&s->b, value(e->f, e->v)->type, NULL);
}

// Parameters for the sums made before that f or a repeat in it uses.
static void add_early_params(Split *s) {
  for (int32_t e = 0; e < s->mi->n_early; e++) {
    if (s->f->uses_early[e]) s->early[e] = early_param(s, e);
  }
}

// Appends those that `g` uses to the operands of its repeat; returns how many operands there are then.
static int32_t push_early(const Split *s, const PmMicroFn *g, PmValueId *in, int32_t n) {
  for (int32_t e = 0; e < s->mi->n_early; e++) {
    if (g->uses_early[e]) in[n++] = s->early[e];
  }
  return n;
}

static void keep_name(Split *s, const PmValue *from, PmValueId to) {
  PmValue *v = &pm_fn(s->b.m, s->b.fn)->values[to];
  if (v->def == PM_NONE) return;
  v->name = from->name;
  v->bound = from->bound;
}

static void copy_node(Split *s, const PmNode *n, const PmValueId *in) {
  PmType given = value(s->f, n->out)->type;
  s->b.loc = n->loc;
  PmValueId out = pm_b_node(&s->b, n->op, &n->attr, in, n->n_in, &given);
  for (int32_t k = 0; k < n->n_out; k++) {
    s->map[n->out + k] = out + k;
    keep_name(s, value(s->f, n->out + k), out + k);
  }
}

// ---- one micro-batch -----------------------------------------------------------------------------------------------
// The value's share of its average over the micro-batches, to be added to summands.
static PmValueId mean_of(Split *s, PmValueId v) {
  if (s->mean[v] != PM_NONE) return s->mean[v];
  PmType type = *pm_b_type(&s->b, s->map[v]);
  double part = 1 / (double)s->mi->lw->micro;
  PmValueId wide = pm_b_broadcast(&s->b, pm_b_const(&s->b, (PmDtype)type.dtype, part), type);
  s->mean[v] = pm_b_map2(&s->b, PM_S_mul, s->map[v], wide);
  return s->mean[v];
}

static PmValueId summand(Split *s, PmValueId v) { return s->f->part[v] == PM_PART_SUM ? s->map[v] : mean_of(s, v); }

static PmFnId build_one(PmMicro *mi, PmMicroFn *f);

// A repeat: the body takes what is known in a micro-batch, and gives what it gave, then its fronts.
static void one_repeat(Split *s, int32_t at) {
  const PmNode *n = &s->f->f.nodes[at];
  PmMicroFn *g = s->f->inner[at];
  PmNode call = *n;
  PmValueId *in = PM_NEW_N(arena(s), PmValueId, n->n_in + s->mi->n_early + 1);
  s->b.loc = n->loc;
  call.n_in = 0;
  call.attr.n_inv = 0;
  for (int32_t i = 0; i < n->n_in; i++) {
    if (i == n->attr.n_carry + n->attr.n_inv) call.n_in = push_early(s, g, in, call.n_in);
    if (g->part[i] > PM_PART_SUM) continue;
    bool carried = i < n->attr.n_carry;
    in[call.n_in++] = carried && g->part[i] == PM_PART_SUM ? summand(s, n->in[i]) : s->map[n->in[i]];
  }
  if (n->n_in == n->attr.n_carry + n->attr.n_inv) call.n_in = push_early(s, g, in, call.n_in);
  for (int32_t i = n->attr.n_carry; i < n->attr.n_carry + n->attr.n_inv; i++) {
    call.attr.n_inv += g->part[i] <= PM_PART_SUM;
  }
  for (int32_t e = 0; e < s->mi->n_early; e++) call.attr.n_inv += g->uses_early[e];
  call.attr.callee = build_one(s->mi, g);
  PmValueId out = pm_b_node(&s->b, PM_OP_repeat, &call.attr, in, call.n_in, NULL);
  for (int32_t k = 0; k < n->n_out; k++) {
    if (s->f->part[n->out + k] > PM_PART_SUM) continue;
    s->map[n->out + k] = out;
    keep_name(s, value(s->f, n->out + k), out++);
  }
  for (int32_t k = 0; k < s->f->n_fronts; k++) {
    if (s->f->fronts[k].node == at) s->f->fronts[k].main = out++;
  }
}

static void one_node(Split *s, int32_t at) {
  const PmNode *n = &s->f->f.nodes[at];
  if (n->n_out == 0 || (!s->f->inner[at] && s->f->part[n->out] > PM_PART_SUM)) return;
  if (s->f->inner[at]) {
    one_repeat(s, at);
    return;
  }
  s->b.loc = n->loc;
  bool sums = s->f->part[n->out] == PM_PART_SUM && !s->f->whole[n->out];
  PmValueId *in = PM_NEW_N(arena(s), PmValueId, n->n_in + 1);
  for (int32_t i = 0; i < n->n_in; i++) {
    bool early = i < 64 && (s->f->early_in[at] >> i & 1);
    in[i] = early ? s->early[s->f->early[n->in[i]]] : s->map[n->in[i]];
    if (sums && !early && pm_micro_joint(n, i)) in[i] = summand(s, n->in[i]);
  }
  copy_node(s, n, in);
}

static void one_fronts(Split *s) {
  for (int32_t k = 0; k < s->f->n_fronts; k++) {
    PmFront *front = &s->f->fronts[k];
    if (front->node == PM_NONE) front->main = summand(s, front->v);
  }
}

static int32_t push_fronts(const Split *s, PmValueId *results, int32_t n) {
  for (int32_t k = 0; k < s->f->n_fronts; k++) results[n++] = s->f->fronts[k].main;
  return n;
}

static PmFnId build_one(PmMicro *mi, PmMicroFn *f) {
  const PmNode *call = &f->outer->f.nodes[f->node];
  Split s = open_split(mi, f, pm_module_add_fn(mi->lw->m, f->f.name, f->f.kind));
  for (int32_t i = 0; i <= f->f.n_params; i++) {
    if (i == call->attr.n_carry + call->attr.n_inv) add_early_params(&s);
    if (i < f->f.n_params && f->part[i] <= PM_PART_SUM) s.map[i] = copy_param(&s, value(f, i));
  }
  for (int32_t i = 0; i < f->f.n_nodes; i++) one_node(&s, i);
  one_fronts(&s);
  PmValueId *results = PM_NEW_N(arena(&s), PmValueId, f->f.n_results + f->n_fronts + 1);
  int32_t n = 0;
  for (int32_t k = 0; k < f->f.n_results; k++) {
    PmValueId r = f->f.results[k];
    PmPart out = (PmPart)f->outer->part[call->out + k];
    if (out > PM_PART_SUM) continue;
    results[n++] = out == PM_PART_SUM ? summand(&s, r) : s.map[r];
  }
  pm_b_results(&s.b, results, push_fronts(&s, results, n));
  pm_module_replace_fn(mi->lw->m, f->id, s.b.fn);
  return f->id;
}

static void build_model(PmMicro *mi) {
  PmMicroFn *f = mi->model;
  PmLower *lw = mi->lw;
  Split s = open_split(mi, f, pm_module_add_fn(lw->m, f->f.name, f->f.kind));
  PmBinding *bind = PM_NEW_N(lw->arena, PmBinding, f->f.n_params + mi->n_early + 1);
  for (int32_t i = 0; i < f->f.n_params; i++) {
    s.map[i] = copy_param(&s, value(f, i));
    bind[i] = f->f.param_bind[i];
  }
  for (int32_t e = 0; e < mi->n_early; e++) {
    s.early[e] = early_param(&s, e);
    bind[f->f.n_params + e] = (PmBinding){.var = PM_NONE};
  }
  for (int32_t i = 0; i < f->f.n_nodes; i++) one_node(&s, i);
  one_fronts(&s);
  PmValueId *results = PM_NEW_N(lw->arena, PmValueId, f->f.n_results + f->n_fronts + 1);
  PmBinding *named = PM_NEW_N(lw->arena, PmBinding, f->f.n_results + f->n_fronts + 1);
  int32_t n = mi->n_summed;
  for (int32_t k = 0; k < n; k++) {
    results[k] = summand(&s, f->f.results[k]);
    named[k] = f->f.result_bind[k];
  }
  for (int32_t k = 0; k < f->n_fronts; k++) named[n + k] = (PmBinding){.var = PM_NONE};
  pm_b_results(&s.b, results, push_fronts(&s, results, n));
  pm_module_replace_fn(mi->lw->m, f->id, s.b.fn);
  pm_fn(lw->m, f->id)->param_bind = bind;
  pm_fn(lw->m, f->id)->result_bind = named;
}

// ---- before --------------------------------------------------------------------------------------------------------
// Marks what the sums of inputs are made of, from the last value to the first; a body marks values outside of it.
static void mark_before(PmMicroFn *f) {
  for (int32_t i = f->f.n_nodes - 1; i >= 0; i--) {
    const PmNode *n = &f->f.nodes[i];
    if (f->inner[i]) {
      mark_before(f->inner[i]);
      const PmMicroFn *g = f->inner[i];
      for (int32_t k = 0; k < n->n_in; k++) {
        if (g->before[k] != PM_NONE) f->before[n->in[k]] = 0;
      }
      continue;
    }
    bool used = false;
    for (int32_t k = 0; k < n->n_out; k++) used = used || f->before[n->out + k] != PM_NONE;
    for (int32_t k = 0; used && k < n->n_in; k++) f->before[n->in[k]] = 0;
  }
}

static void copy_before(PmMicro *mi, PmBuilder *b, PmMicroFn *f) {
  for (int32_t i = 0; f->outer && i < f->f.n_params; i++) {
    if (f->before[i] != PM_NONE) f->before[i] = f->outer->before[f->outer->f.nodes[f->node].in[i]];
  }
  for (int32_t i = 0; i < f->f.n_nodes; i++) {
    const PmNode *n = &f->f.nodes[i];
    if (f->inner[i]) {
      copy_before(mi, b, f->inner[i]);
      continue;
    }
    bool used = false;
    for (int32_t k = 0; k < n->n_out; k++) used = used || f->before[n->out + k] != PM_NONE;
    if (!used) continue;
    PmValueId *in = PM_NEW_N(mi->lw->arena, PmValueId, n->n_in + 1);
    for (int32_t k = 0; k < n->n_in; k++) in[k] = f->before[n->in[k]];
    PmType given = value(f, n->out)->type;
    b->loc = n->loc;
    PmValueId out = pm_b_node(b, n->op, &n->attr, in, n->n_in, &given);
    for (int32_t k = 0; k < n->n_out; k++) f->before[n->out + k] = out + k;
  }
}

static void build_before(PmMicro *mi) {
  PmLower *lw = mi->lw;
  PmMicroFn *f = mi->model;
  if (mi->n_early == 0) return;
  for (int32_t e = 0; e < mi->n_early; e++) mi->early[e].f->before[mi->early[e].v] = 0;
  mark_before(f);
  const char *name = pm_intern_printf(lw->names, "%s.before", f->f.name);
  PmBuilder b = {lw->m, pm_module_add_fn(lw->m, name, PM_FN_BODY), {0}};
  PmBinding *bind = PM_NEW_N(lw->arena, PmBinding, f->f.n_params + 1);
  int32_t n = 0;
  for (int32_t i = 0; i < f->f.n_params; i++) {
    if (f->before[i] == PM_NONE) continue;
    f->before[i] = pm_b_param(&b, value(f, i)->type, value(f, i)->name);
    bind[n++] = f->f.param_bind[i];
  }
  copy_before(mi, &b, f);
  PmValueId *results = PM_NEW_N(lw->arena, PmValueId, mi->n_early);
  for (int32_t e = 0; e < mi->n_early; e++) results[e] = mi->early[e].f->before[mi->early[e].v];
  pm_b_results(&b, results, mi->n_early);
  pm_fn(lw->m, b.fn)->param_bind = bind;
  lw->m->before = b.fn;
}

// ---- after ---------------------------------------------------------------------------------------------------------
static PmFnId build_after(PmMicro *mi, PmMicroFn *f, bool *takes);

// The rest of a repeat. Carried names took part in the micro-batches, so that nothing is carried here.
static void after_repeat(Split *s, int32_t at) {
  const PmNode *n = &s->f->f.nodes[at];
  PmMicroFn *g = s->f->inner[at];
  PmValueId *in = PM_NEW_N(arena(s), PmValueId, n->n_in + s->mi->n_early + g->n_fronts + 1);
  PmAttr attr = n->attr;
  int32_t n_in = 0, n_fixed = n->attr.n_carry + n->attr.n_inv;
  s->b.loc = n->loc;
  for (int32_t i = n->attr.n_carry; i < n_fixed; i++) {
    if (g->late[i]) in[n_in++] = s->map[n->in[i]];
  }
  n_in = push_early(s, g, in, n_in);
  attr.n_carry = 0;
  attr.n_inv = n_in;
  for (int32_t i = n_fixed; i < n->n_in; i++) {
    if (g->late[i]) in[n_in++] = s->map[n->in[i]];
  }
  for (int32_t k = 0; k < s->f->n_fronts; k++) {
    if (s->f->fronts[k].node == at) in[n_in++] = s->f->fronts[k].after;
  }
  bool *takes = PM_NEW_N(arena(s), bool, n->n_out + 1);
  for (int32_t k = 0; k < n->n_out; k++) takes[k] = s->f->late[n->out + k];
  attr.callee = build_after(s->mi, g, takes);
  PmValueId out = pm_b_node(&s->b, PM_OP_repeat, &attr, in, n_in, NULL);
  for (int32_t k = 0; k < n->n_out; k++) {
    if (!takes[k]) continue;
    s->map[n->out + k] = out;
    keep_name(s, value(s->f, n->out + k), out++);
  }
}

static void after_nodes(Split *s) {
  for (int32_t at = 0; at < s->f->f.n_nodes; at++) {
    const PmNode *n = &s->f->f.nodes[at];
    bool any = false;
    for (int32_t k = 0; k < n->n_out; k++) any = any || s->f->late[n->out + k];
    if (!any) continue;
    if (s->f->inner[at]) {
      after_repeat(s, at);
      continue;
    }
    PmValueId *in = PM_NEW_N(arena(s), PmValueId, n->n_in + 1);
    for (int32_t i = 0; i < n->n_in; i++) {
      bool early = i < 64 && (s->f->early_in[at] >> i & 1);
      in[i] = early ? s->early[s->f->early[n->in[i]]] : s->map[n->in[i]];
    }
    copy_node(s, n, in);
  }
}

// Parameters for the sums of the micro-batches.
static void add_fronts(Split *s) {
  for (int32_t k = 0; k < s->f->n_fronts; k++) {
    PmFront *front = &s->f->fronts[k];
    front->after = pm_b_param(&s->b, pm_fn(s->b.m, s->f->id)->values[front->main].type, NULL);
    if (front->node == PM_NONE) s->map[front->v] = front->after;
  }
}

static PmFnId build_after(PmMicro *mi, PmMicroFn *f, bool *takes) {
  const PmNode *call = &f->outer->f.nodes[f->node];
  const char *name = pm_intern_printf(mi->lw->names, "%s.after", f->f.name);
  Split s = open_split(mi, f, pm_module_add_fn(mi->lw->m, name, PM_FN_BODY));
  for (int32_t i = call->attr.n_carry; i <= f->f.n_params; i++) {
    if (i == call->attr.n_carry + call->attr.n_inv) add_early_params(&s);
    if (i < f->f.n_params && f->late[i]) s.map[i] = copy_param(&s, value(f, i));
  }
  add_fronts(&s);
  after_nodes(&s);
  PmValueId *results = PM_NEW_N(arena(&s), PmValueId, f->f.n_results + 1);
  int32_t n = 0;
  for (int32_t k = 0; k < f->f.n_results; k++) {
    if (takes[k]) results[n++] = s.map[f->f.results[k]];
  }
  pm_b_results(&s.b, results, n);
  return s.b.fn;
}

static void build_last(PmMicro *mi) {
  PmMicroFn *f = mi->model;
  PmLower *lw = mi->lw;
  int32_t n_late = f->f.n_results - mi->n_summed;
  if (n_late == 0) return;
  const char *name = pm_intern_printf(lw->names, "%s.after", f->f.name);
  Split s = open_split(mi, f, pm_module_add_fn(lw->m, name, PM_FN_BODY));
  PmBinding *bind = PM_NEW_N(lw->arena, PmBinding, f->f.n_params + mi->n_early + f->n_fronts + 1);
  int32_t n = 0;
  for (int32_t i = 0; i < f->f.n_params; i++) {
    if (!f->late[i]) continue;
    s.map[i] = copy_param(&s, value(f, i));
    bind[n++] = f->f.param_bind[i];
  }
  for (int32_t e = 0; e < mi->n_early; e++) s.early[e] = early_param(&s, e);
  add_fronts(&s);
  for (; n < pm_fn(lw->m, s.b.fn)->n_params; n++) bind[n] = (PmBinding){.var = PM_NONE};
  after_nodes(&s);
  PmValueId *results = PM_NEW_N(lw->arena, PmValueId, n_late);
  PmBinding *named = PM_NEW_N(lw->arena, PmBinding, n_late);
  for (int32_t k = 0; k < n_late; k++) {
    results[k] = s.map[f->f.results[mi->n_summed + k]];
    named[k] = f->f.result_bind[mi->n_summed + k];
  }
  pm_b_results(&s.b, results, n_late);
  pm_fn(lw->m, s.b.fn)->param_bind = bind;
  pm_fn(lw->m, s.b.fn)->result_bind = named;
  lw->m->after = s.b.fn;
}

void pm_micro_split(PmMicro *mi) {
  build_before(mi);
  build_model(mi);
  build_last(mi);
}
