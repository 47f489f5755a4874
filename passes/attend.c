#include "passes/attend.h"

#include <string.h>

#include "passes/exec_choose.h"

#define LIBRARY "std"  // the path that places in the standard library have

typedef struct Shape {
  const char *base;
  int32_t n_params, n_results;
  const char *params[6];
} Shape;

static const Shape shapes[] = {
    [PM_CORE_PLAIN] = {"causal_attention", 3, 1, {"q", "k", "v"}},
    [PM_CORE_FWD] = {"causal_attention_fwd", 3, 2, {"q", "k", "v"}},
    [PM_CORE_BWD] = {"causal_attention_bwd", 6, 3, {"q", "k", "v", "o", "lse", "d_o"}},
};
#define N_SHAPES ((int32_t)(sizeof shapes / sizeof *shapes))

static bool has_shape(const PmFn *f, const Shape *s) {
  if (f->dead || !f->base || strcmp(f->base, s->base) != 0) return false;
  if (f->n_params != s->n_params || f->n_results != s->n_results || f->n_nodes == 0) return false;
  for (int32_t i = 0; i < s->n_params; i++)
    if (!f->values[i].name || strcmp(f->values[i].name, s->params[i]) != 0) return false;
  for (int32_t i = 0; i < f->n_nodes; i++)
    if (!f->nodes[i].loc.path || strcmp(f->nodes[i].loc.path, LIBRARY) != 0) return false;
  return true;
}

// t and s from the renaming of k, d from the product of q with it.
static bool find_axes(const PmFn *f, PmCore *out) {
  bool renamed = false, multiplied = false;
  for (int32_t i = 0; i < f->n_nodes && !(renamed && multiplied); i++) {
    const PmNode *n = &f->nodes[i];
    if (n->op == PM_OP_rename && n->in[0] == 1 && n->attr.n_axes == 1 && !renamed) {
      out->t = n->attr.axes[0];
      out->s = n->attr.to[0];
      renamed = true;
    }
    if (n->op == PM_OP_dot && n->in[0] == 0 && n->attr.n_axes == 1 && !multiplied) {
      out->d = n->attr.axes[0];
      multiplied = true;
    }
  }
  for (int32_t i = 0; i < 3 && renamed && multiplied; i++)
    if (pm_type_find(&f->values[i].type, out->t) < 0 || pm_type_find(&f->values[i].type, out->d) < 0) return false;
  return renamed && multiplied;
}

// What attention sums over is masked where it is padded, in nodes that the library's text does not have.
static bool is_padded(const PmModule *m, const PmFn *f, const PmCore *core) {
  const PmType *q = &f->values[0].type, *k = &f->values[1].type;
  bool any = m->axes[core->t].pad || m->axes[core->s].pad || m->axes[core->d].pad;
  for (int32_t i = 0; i < q->rank; i++)
    any = any || (m->axes[q->dims[i].axis].pad && pm_type_find(k, q->dims[i].axis) < 0);
  return any;
}

bool pm_core_find(const PmModule *m, const PmFn *f, PmCore *out) {
  *out = (PmCore){.t = PM_NONE, .s = PM_NONE, .d = PM_NONE, .mesh = PM_NONE};
  int32_t k = 0;
  while (k < N_SHAPES && !has_shape(f, &shapes[k])) k++;
  if (k == N_SHAPES || !find_axes(f, out)) return false;
  if (is_padded(m, f, out)) return false;
  out->kind = (PmCoreKind)k;
  for (int32_t r = m->n_rules - 1; r >= 0; r--) {
    if (!m->rules[r].attend || m->rules[r].axes[0] != out->s) continue;
    out->rule = &m->rules[r];
    out->mesh = out->rule->mesh[0];
  }
  return true;
}

bool pm_core_applies(const PmModule *m, const PmFn *f, const PmCore *core, PmAttend how) {
  if (!core->rule || core->rule->attend != how || m->mesh[core->mesh].size == 1) return false;
  for (int32_t i = 0; i < 2; i++) {
    const PmType *t = &f->values[i].type;
    if (!pm_split_has(&t->dims[pm_type_find(t, core->t)].split, core->mesh)) return false;
  }
  return true;
}

bool pm_core_moved(const PmModule *m, const PmFn *f, const PmCore *core) {
  if (!core->rule || core->rule->attend != PM_ATTEND_ULYSSES || m->mesh[core->mesh].size == 1) return false;
  const PmType *q = &f->values[0].type;
  return pm_type_uses_mesh(q, core->mesh) && !pm_split_has(&q->dims[pm_type_find(q, core->t)].split, core->mesh);
}

static void report_order(const PmModule *m, const PmCore *core, PmDiags *diags) {
  const PmAxis *axis = &m->axes[core->t];
  const PmMeshAxis *mesh = &m->mesh[core->mesh];
  pm_diag(diags, PM_E_DIVIDE, core->rule->span, "`%s` (%lld) does not divide into two chunks for each of `%s` (%lld)",
          axis->name, (long long)axis->size, mesh->name, (long long)mesh->size);
  pm_diag_help(diags,
               "leave `order` out: the parts then follow one another, and later ranks of the ring have more to do");
}

const int32_t *pm_attend_orders(const PmModule *m, const PmTree *tree, PmDiags *diags) {
  int32_t *orders = PM_NEW_N(m->arena, int32_t, m->n_axes + 1);
  bool reported = false;
  for (int32_t a = 0; a < m->n_axes; a++) orders[a] = PM_NONE;
  for (int32_t i = 0; i < tree->n_fns; i++) {
    PmCore core;
    if (!pm_core_find(m, pm_fn(m, tree->fns[i].fn), &core) || !core.rule) continue;
    int64_t ranks = m->mesh[core.mesh].size;
    if (core.rule->attend != PM_ATTEND_RING || core.rule->order == PM_ORDER_PLAIN || ranks == 1) continue;
    if (pm_axis_size(m, core.t) % (2 * ranks) == 0) {
      orders[core.t] = orders[core.s] = core.mesh;
    } else if (core.rule->order == PM_ORDER_ZIGZAG && !reported) {
      report_order(m, &core, diags);
      reported = true;
    }
  }
  return orders;
}

// ---- placement -----------------------------------------------------------------------------------------------------
typedef struct Move {
  PmModule *m;
  const PmTree *tree;
  PmPlaced *slots;
  PmDiags *diags;
  PmCore core;
  PmAxisId heads;
} Move;

static const PmType *type_of(const Move *mv, const PmTreeFn *t, PmValueId v) {
  return &pm_fn(mv->m, t->fn)->values[v].type;
}

static bool placed_on(const Move *mv, const PmTreeFn *t, PmValueId v, PmAxisId axis) {
  int32_t d = pm_type_find(type_of(mv, t, v), axis);
  return d >= 0 && pm_split_has(&mv->slots[pm_slot(t, v)].split[d], mv->core.mesh);
}

static bool input_has(const PmModule *m, PmAxisId axis) {
  for (PmVarId v = 0; v < m->n_vars; v++)
    if (m->vars[v].role == PM_ROLE_INPUT && pm_type_find(&m->vars[v].type, axis) >= 0) return true;
  return false;
}

// What the directive names, else the first axis that queries, keys and values share and no input has.
static PmAxisId find_heads(const Move *mv, const PmTreeFn *t) {
  if (mv->core.rule && mv->core.rule->n_axes > 1) return mv->core.rule->axes[1];
  const PmType *k = type_of(mv, t, 1);
  for (int32_t i = 0; i < k->rank; i++) {
    PmAxisId axis = k->dims[i].axis;
    if (axis == mv->core.t || axis == mv->core.d || input_has(mv->m, axis)) continue;
    if (pm_type_find(type_of(mv, t, 0), axis) >= 0 && pm_type_find(type_of(mv, t, 2), axis) >= 0) return axis;
  }
  return PM_NONE;
}

// Heads that a rank holds before the mesh axis moves there; 0 where there is no such axis.
static int64_t heads_held(const Move *mv, const PmTreeFn *t) {
  int32_t d = mv->heads == PM_NONE ? PM_NONE : pm_type_find(type_of(mv, t, 0), mv->heads);
  if (d == PM_NONE || mv->heads == mv->core.t || mv->heads == mv->core.d) return 0;
  return pm_axis_size(mv->m, mv->heads) / pm_split_parts(mv->m, &mv->slots[pm_slot(t, 0)].split[d]);
}

static bool heads_divide(const Move *mv, const PmTreeFn *t) {
  const PmRule *rule = mv->core.rule;
  const int64_t held = heads_held(mv, t);
  if (held == 0) {
    pm_diag(mv->diags, PM_E_DIRECTIVE, rule->span, "attention has no axis of heads that `%s` could use", rule->text);
    pm_diag_help(mv->diags, "name an axis of its queries that is neither the sequence nor one head: `heads=AXIS`");
    return false;
  }
  const PmMeshAxis *mesh = &mv->m->mesh[mv->core.mesh];
  int64_t size = pm_axis_size(mv->m, mv->heads);
  if (held % mesh->size == 0) return true;
  pm_diag(mv->diags, PM_E_DIVIDE, rule->span, "`%s`: a rank has %lld of %lld, which do not divide over `%s` (%lld)",
          mv->m->axes[mv->heads].name, (long long)held, (long long)size, mesh->name, (long long)mesh->size);
  pm_diag_help(
      mv->diags,
      "write `ring(%s, over=%s)`, take a smaller `%s`, or name another axis of the queries with `heads=`: keys and "
      "values that do not have it are then held by all of `%s`",
      mv->m->axes[mv->core.s].name, mesh->name, mesh->name, mesh->name);
  return false;
}

static void take_out(PmSplit *s, int32_t mesh) {
  uint8_t n = 0;
  if (s->n && s->mesh[0] == mesh) s->zigzag = false;  // the order is one over the first
  for (uint8_t i = 0; i < s->n; i++)
    if (s->mesh[i] != mesh) s->mesh[n++] = s->mesh[i];
  s->n = n;
}

// From the sequence to the heads, in one value.
static void move_value(const Move *mv, const PmTreeFn *t, PmValueId v) {
  const PmType *type = type_of(mv, t, v);
  PmPlaced *p = &mv->slots[pm_slot(t, v)];
  int32_t heads = pm_type_find(type, mv->heads);
  for (int32_t d = 0; d < type->rank; d++)
    if (type->dims[d].axis == mv->core.t || type->dims[d].axis == mv->core.s) take_out(&p->split[d], mv->core.mesh);
  if (heads < 0 || pm_split_has(&p->split[heads], mv->core.mesh)) return;
  if (!pm_split_push(&p->split[heads], mv->core.mesh)) return;
  p->decided = (uint16_t)(p->decided | 1u << heads);
  p->why[heads] = mv->core.rule->text;
  p->by[heads] = NULL;
}

// What a call gives is moved in the functions that it comes through, down to the one that made it.
static void move_given(const Move *mv, const PmTreeFn *t, PmValueId v) {
  for (;;) {
    int32_t def = pm_fn(mv->m, t->fn)->values[v].def;
    const PmNode *n = def == PM_NONE ? NULL : &pm_fn(mv->m, t->fn)->nodes[def];
    if (!n || !pm_is_call(n) || pm_fn(mv->m, n->attr.callee)->kind == PM_FN_COMPOSITE) return;
    move_value(mv, t, v);
    t = pm_tree_callee(mv->tree, n);
    v = pm_fn(mv->m, t->fn)->results[v - n->out];
  }
}

// What the backward is given was in this form in the forward already: it is saved so, from there on.
static void move_saved(const Move *mv, const PmTreeFn *t, PmValueId v) {
  const PmTreeFn *chain[PM_MAX_NESTING];
  PmValueId values[PM_MAX_NESTING];
  int32_t n = 0;
  while (v < pm_fn(mv->m, t->fn)->n_params) {
    if (t->parent == PM_NONE || n == PM_MAX_NESTING) return;  // a variable has one placement everywhere
    chain[n] = t;
    values[n++] = v;
    const PmTreeFn *caller = &mv->tree->fns[t->parent];
    const PmNode *call = &pm_fn(mv->m, caller->fn)->nodes[t->node];
    if (pm_cross_in(call, v) == PM_CROSS_CARRY) return;
    v = call->in[v];
    t = caller;
  }
  if (n == 0 || pm_type_find(type_of(mv, t, v), mv->heads) < 0) return;
  for (int32_t i = 0; i < n; i++) move_value(mv, chain[i], values[i]);
  move_given(mv, t, v);
}

// In the backward o and d_o give one number a row, on the side of the sequence: o need not change places for it, nor be
// saved in a second form beside the one that the gradient of what follows attention reads.
static bool *rows_of_output(const Move *mv, const PmFn *f) {
  bool *stay = PM_NEW_N(mv->m->arena, bool, f->n_values + 1), *neutral = PM_NEW_N(mv->m->arena, bool, f->n_values + 1);
  if (mv->core.kind != PM_CORE_BWD) return stay;
  stay[3] = stay[5] = true;
  for (int32_t i = 0; i < f->n_nodes; i++) {
    const PmNode *n = &f->nodes[i];
    bool all = true, any = false;
    for (int32_t k = 0; k < n->n_in; k++) {
      all = all && (stay[n->in[k]] || neutral[n->in[k]]);
      any = any || stay[n->in[k]];
    }
    neutral[n->out] = all && !any;
    stay[n->out] = all && any && pm_type_find(&f->values[n->out].type, mv->core.s) < 0;
  }
  return stay;
}

static void move_core(Move *mv, const PmTreeFn *t) {
  const PmFn *f = pm_fn(mv->m, t->fn);
  mv->heads = find_heads(mv, t);
  if (!heads_divide(mv, t)) return;
  const bool *stay = rows_of_output(mv, f);
  for (PmValueId v = 0; v < f->n_values; v++)
    if (!stay[v]) move_value(mv, t, v);
  const PmTreeFn *caller = &mv->tree->fns[t->parent];
  const PmNode *call = &pm_fn(mv->m, caller->fn)->nodes[t->node];
  for (int32_t i = 0; i < call->n_in && mv->core.kind == PM_CORE_BWD; i++)
    if (!stay[i] && pm_type_find(type_of(mv, t, i), mv->heads) >= 0) move_saved(mv, caller, call->in[i]);
}

static bool pads(const PmModule *m) {
  for (int32_t a = 0; a < m->n_axes; a++)
    if (m->axes[a].pad) return true;
  return false;
}

// Bytes that a rank holds of a value, as it is placed.
static double held_bytes(const Move *mv, const PmTreeFn *t, PmValueId v) {
  const PmType *type = type_of(mv, t, v);
  double bytes = (double)pm_dtype_bytes((PmDtype)type->dtype);
  for (int32_t d = 0; d < type->rank; d++)
    bytes *= (double)pm_axis_size(mv->m, type->dims[d].axis) /
             (double)pm_split_parts(mv->m, &mv->slots[pm_slot(t, v)].split[d]);
  return bytes;
}

// Without a directive the cheaper of a gather, which is what comes of itself, and Ulysses, by what a rank sends forward
// and backward. A ring sends what a gather does, in more messages: it is for who lacks memory, and says so.
static bool ulysses_is_cheaper(Move *mv, const PmTreeFn *t) {
  const PmModule *m = mv->m;
  const PmSplit *split = &mv->slots[pm_slot(t, 0)].split[pm_type_find(type_of(mv, t, 0), mv->core.t)];
  for (int32_t i = 0; i < split->n && mv->core.mesh == PM_NONE; i++)
    if (m->mesh[split->mesh[i]].size > 1) mv->core.mesh = split->mesh[i];
  if (mv->core.mesh == PM_NONE || !placed_on(mv, t, 1, mv->core.t)) return false;
  double c = (double)m->mesh[mv->core.mesh].size;
  mv->heads = find_heads(mv, t);
  if (heads_held(mv, t) == 0 || heads_held(mv, t) % m->mesh[mv->core.mesh].size != 0) return false;
  double q = held_bytes(mv, t, 0), kv = held_bytes(mv, t, 1) + held_bytes(mv, t, 2);
  double gather = 3 * kv * (c - 1) + 6 * PM_COLLECTIVE_CHARGE;
  return 2 * (2 * q + kv) * (c - 1) / c + 9 * PM_COLLECTIVE_CHARGE < gather;
}

static void add_ulysses(PmModule *m, const PmCore *core) {
  PmRule rule = {.attend = PM_ATTEND_ULYSSES, .n_axes = 1, .n_mesh = 1, .span = PM_NO_SPAN};
  rule.axes = PM_NEW_N(m->arena, PmAxisId, 1);
  rule.axes[0] = core->s;
  rule.mesh[0] = (uint8_t)core->mesh;
  rule.text = pm_intern_printf(m->names, "ulysses(%s, over=%s)", m->axes[core->s].name, m->mesh[core->mesh].name);
  PmRule *rules = PM_NEW_N(m->arena, PmRule, m->n_rules + 1);
  if (m->n_rules) memcpy(rules, m->rules, (size_t)m->n_rules * sizeof *rules);
  rules[m->n_rules++] = rule;
  m->rules = rules;
}

static void choose_cheapest(PmModule *m, const PmTree *tree, PmPlaced *slots, PmDiags *diags) {
  for (int32_t i = 0; i < tree->n_fns; i++) {
    const PmTreeFn *t = &tree->fns[i];
    Move mv = {.m = m, .tree = tree, .slots = slots, .diags = diags, .heads = PM_NONE};
    if (t->parent == PM_NONE || !pm_core_find(m, pm_fn(m, t->fn), &mv.core) || mv.core.rule) continue;
    if (ulysses_is_cheaper(&mv, t)) add_ulysses(m, &mv.core);
  }
}

static void report_idle(const PmModule *m, const PmRule *rule, bool meant, PmDiags *diags) {
  const char *axis = m->axes[rule->axes[0]].name, *mesh = m->mesh[rule->mesh[0]].name;
  pm_diag(diags, PM_W_ATTEND_IDLE, rule->span, "`%s` applies to nothing", rule->text);
  if (meant)
    pm_diag_note(diags, "the sequence of the attention over `%s` is not split over `%s`: `shard seq -> %s`", axis, mesh,
                 mesh);
  else
    pm_diag_note(diags, "no `causal_attention` of the library%s has its keys on `%s`; other attention gathers them",
                 pads(m) ? ", on axes that are not padded," : "", axis);
}

void pm_attend_place(PmModule *m, const PmTree *tree, PmPlaced *slots, PmDiags *diags) {
  choose_cheapest(m, tree, slots, diags);
  bool *meant = PM_NEW_N(m->arena, bool, m->n_rules + 1), *fired = PM_NEW_N(m->arena, bool, m->n_rules + 1);
  int32_t errors = pm_diags_errors(diags);
  for (int32_t i = 0; i < tree->n_fns; i++) {
    const PmTreeFn *t = &tree->fns[i];
    Move mv = {.m = m, .tree = tree, .slots = slots, .diags = diags, .heads = PM_NONE};
    if (t->parent == PM_NONE || !pm_core_find(m, pm_fn(m, t->fn), &mv.core) || !mv.core.rule) continue;
    const int64_t rule = mv.core.rule - m->rules;
    meant[rule] = true;
    if (!placed_on(&mv, t, 0, mv.core.t) || !placed_on(&mv, t, 1, mv.core.t)) continue;
    fired[rule] = true;
    if (mv.core.rule->attend == PM_ATTEND_ULYSSES && m->mesh[mv.core.mesh].size > 1) move_core(&mv, t);
    if (pm_diags_errors(diags) > errors) return;
  }
  for (int32_t r = 0; r < m->n_rules; r++) {
    const PmRule *rule = &m->rules[r];
    if (rule->attend && rule->axes[0] != PM_NONE && !fired[r] && m->mesh[rule->mesh[0]].size > 1)
      report_idle(m, rule, meant[r], diags);
  }
}
