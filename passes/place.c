// place: decides a split for every dim of every value, and writes it into the types.
//
// 1. Every call gets a callee of its own, so that one value has one placement (passes/tree.h).
// 2. The plan's rules fire on variables and on block-level results (place_rules.c). What they decide is final.
// 3. Propagation fills what they leave open, along factors (shard_rules.h) and across calls: rule by rule in the plan's
//    order, so that of two splits that meet in an open value the earlier rule's wins; for each rule in three fixed
//    points: along pointwise ops and views in both directions, so that `dot(x, w) + b` is split as its named sum is;
//    then along all ops from operands to results; then in all directions. Forward before backward keeps the choice of a
//    producer over that of a consumer, so that a value that several others read is split as it comes. A value takes of
//    its neighbour's split the longest prefix that its own other dims leave free and that divides.
// 4. Slots of a dispatch or combine that are still open are split as its tokens are, by the mesh axes that the experts
//    leave, and that is propagated like a rule: else the ranks that share an expert would all compute all of its slots.
// 5. What is open then is whole. Partial sums are no matter of this pass: `partition` finds them.
// 6. Lookups and scatters whose rows and positions are split alike become exchanges of rows (exchange.c).

#include "passes/place.h"
#include "passes/attend.h"
#include "passes/exchange.h"
#include "passes/passes.h"
#include "passes/place_inputs.h"
#include "passes/place_warn.h"
#include "passes/shard_rules.h"
#include "passes/zero.h"

typedef struct Member {
  int32_t slot;
  int8_t dim;
  bool is_out;
} Member;

// Dims that carry the same split: one factor of a node, or one dim on both sides of a call.
typedef struct Group {
  int32_t first, n;  // members
  const char *what;  // for `why`
  bool near;         // of a pointwise op or a view
  bool update;       // of the optimizer's part of the step
} Group;

// Lists of ints by a key: those of key k stand at items[first[k]] to items[first[k + 1] - 1].
typedef struct Lists {
  int32_t *first, *items;
} Lists;

typedef struct Place {
  PmModule *m;
  PmArena scratch;
  PmTree tree;
  PmPlaced *slots;
  const PmType **types;  // per slot
  const PmRule *zero;    // the plan's zero rule, or NULL
  PmPlaced *vars;        // with zero, per variable: where it is stored
  bool *update_fn;       // per tree function: the optimizer's, whole
  bool in_update;        // groups that are opened now belong to the optimizer's part of the step
  Member *members;
  int32_t n_members, cap_members;
  Group *groups;
  int32_t n_groups, cap_groups;
  Lists groups_of;          // by slot: the groups that it is in
  uint64_t *forward, *any;  // bits: groups that a look forward, or in all directions, may still move
} Place;

static void open_group(Place *p, const char *what, bool near) {
  p->groups = pm_grow(&p->scratch, p->groups, p->n_groups, &p->cap_groups, sizeof *p->groups);
  p->groups[p->n_groups++] = (Group){.first = p->n_members, .n = 0, .what = what, .near = near, .update = p->in_update};
}

static void add_member(Place *p, int32_t slot, int32_t dim, bool is_out) {
  p->members = pm_grow(&p->scratch, p->members, p->n_members, &p->cap_members, sizeof *p->members);
  p->members[p->n_members++] = (Member){.slot = slot, .dim = (int8_t)dim, .is_out = is_out};
  p->groups[p->n_groups - 1].n++;
}

static void node_groups(Place *p, const PmTreeFn *t, const PmFn *f, const PmNode *n) {
  PmFactors factors = pm_shard_factors(&p->scratch, f, n);
  for (int32_t i = 0; i < factors.n; i++) {
    const PmFactor *fac = &factors.items[i];
    if (fac->kind == PM_FACTOR_WHOLE) continue;
    open_group(p, pm_op_name(n->op), pm_op_flags(n->op) & (PM_F_POINTWISE | PM_F_LINEAR));
    for (int32_t k = 0; k < n->n_in; k++)
      if (fac->in_dim[k] >= 0) add_member(p, pm_slot(t, n->in[k]), fac->in_dim[k], false);
    for (int32_t k = 0; k < n->n_out; k++)
      if (fac->out_dim[k] >= 0) add_member(p, pm_slot(t, n->out + k), fac->out_dim[k], true);
  }
}

// Links two values dim by dim; `skip` leading dims of the first have no partner (the repeat axis).
static void link_slots(Place *p, int32_t a, bool a_out, int32_t b, bool b_out, int32_t skip_a, int32_t skip_b) {
  for (int32_t d = skip_a; d < p->types[a]->rank; d++) {
    open_group(p, "call", false);
    add_member(p, a, d, a_out);
    add_member(p, b, d - skip_a + skip_b, b_out);
  }
}

static void call_groups(Place *p, const PmTreeFn *t, const PmNode *n) {
  const PmTreeFn *callee = pm_tree_callee(&p->tree, n);
  const PmFn *g = pm_fn(p->m, callee->fn);
  for (int32_t i = 0; i < n->n_in; i++) {
    int32_t skip = pm_cross_in(n, i) == PM_CROSS_STACK;
    link_slots(p, pm_slot(t, n->in[i]), false, pm_slot(callee, i), true, skip, 0);
  }
  for (int32_t i = 0; i < n->n_out; i++) {
    PmCross cross = pm_cross_out(n, i);
    int32_t result = pm_slot(callee, g->results[i]), out = pm_slot(t, n->out + i);
    link_slots(p, out, true, result, false, cross == PM_CROSS_STACK, 0);
    if (cross == PM_CROSS_CARRY) link_slots(p, result, false, pm_slot(callee, i), true, 0, 0);
  }
}

// The same variable as a parameter of step and of eval, and as a result of step, is one placement.
static void var_groups(Place *p) {
  int32_t *first = PM_NEW_N(&p->scratch, int32_t, p->m->n_vars + 1);
  for (int32_t v = 0; v < p->m->n_vars; v++) first[v] = PM_NONE;
  for (int32_t i = 0; i < p->tree.n_fns; i++) {
    const PmTreeFn *t = &p->tree.fns[i];
    const PmFn *f = pm_fn(p->m, t->fn);
    if (t->parent != PM_NONE) continue;
    for (int32_t k = 0; f->param_bind && k < f->n_params; k++) {
      PmVarId v = f->param_bind[k].var;
      if (v == PM_NONE) continue;
      if (first[v] == PM_NONE)
        first[v] = pm_slot(t, k);
      else
        link_slots(p, first[v], false, pm_slot(t, k), true, 0, 0);
    }
    for (int32_t k = 0; f->result_bind && k < f->n_results; k++) {
      PmVarId v = f->result_bind[k].var;
      if (p->zero) continue;  // a new value leaves the optimizer as it is stored
      if (v != PM_NONE && first[v] != PM_NONE) link_slots(p, first[v], false, pm_slot(t, f->results[k]), true, 0, 0);
    }
  }
}

// Nodes of the step beside its calls of the model's forward and backward, and all of the functions that they call.
static bool in_update(Place *p, int32_t t, const PmNode *n) {
  bool is_call = pm_is_call(n);
  PmFnKind callee = is_call ? pm_fn(p->m, n->attr.callee)->kind : PM_FN_COMPOSITE;
  bool in = p->update_fn[t] || (p->tree.fns[t].fn == p->m->step && callee != PM_FN_BODY);
  if (is_call) p->update_fn[p->tree.of_fn[n->attr.callee]] = in;
  return in;
}

static void collect_groups(Place *p) {
  for (int32_t i = 0; i < p->tree.n_fns; i++) {
    const PmTreeFn *t = &p->tree.fns[i];
    const PmFn *f = pm_fn(p->m, t->fn);
    for (int32_t k = 0; k < f->n_nodes; k++) {
      const PmNode *n = &f->nodes[k];
      p->in_update = in_update(p, i, n);
      if (pm_is_call(n))
        call_groups(p, t, n);
      else
        node_groups(p, t, f, n);
    }
  }
  p->in_update = false;
  var_groups(p);
}

// What rules closed in an operand is closed in the function's parameter, as both are one value: a parameter that took a
// split from inside would be cut at the call and gathered again. Callers stand before callees.
static void close_params(Place *p) {
  for (int32_t i = 0; i < p->tree.n_fns; i++) {
    const PmTreeFn *t = &p->tree.fns[i];
    const PmFn *f = pm_fn(p->m, t->fn);
    for (int32_t k = 0; k < f->n_nodes; k++) {
      const PmNode *n = &f->nodes[k];
      for (int32_t in = 0; pm_is_call(n) && in < n->n_in; in++) {
        const PmPlaced *from = &p->slots[pm_slot(t, n->in[in])];
        PmPlaced *to = &p->slots[pm_slot(pm_tree_callee(&p->tree, n), in)];
        int32_t skip = pm_cross_in(n, in) == PM_CROSS_STACK;
        for (int32_t d = skip; d < p->types[pm_slot(t, n->in[in])]->rank; d++) {
          if (!(from->decided >> d & 1) || from->split[d].n > 0 || to->decided >> (d - skip) & 1) continue;
          to->decided = (uint16_t)(to->decided | 1u << (d - skip));
          to->why[d - skip] = from->why[d];
          to->rule[d - skip] = from->rule[d];
          to->by[d - skip] = "call";
        }
      }
    }
  }
}

static bool is_decided(const Place *p, const Member *mem) { return p->slots[mem->slot].decided >> mem->dim & 1; }

// The member whose split goes to the group: of the earliest rule up to `last_rule`, operands before results. Only
// splits travel: that a rule closed an axis of one value says nothing of its neighbours.
static const Member *source_of(const Place *p, const Group *g, bool forward_only, int32_t last_rule) {
  const Member *from = NULL;
  int32_t best = last_rule + 1;
  for (int32_t pass = 0; pass < (forward_only ? 1 : 2); pass++) {
    for (int32_t i = 0; i < g->n; i++) {
      const Member *mem = &p->members[g->first + i];
      const PmPlaced *s = &p->slots[mem->slot];
      if (mem->is_out != (pass == 1) || !is_decided(p, mem) || s->split[mem->dim].n == 0) continue;
      if (s->rule[mem->dim] >= best) continue;
      best = s->rule[mem->dim];
      from = mem;
    }
  }
  return from;
}

static int32_t n_words(const Place *p) { return p->n_groups / 64 + 1; }

// A group moves only when one of its members has got a split since it was looked at, or when the rule of a member has
// its turn now: the rest are left alone.
static void wake(Place *p, int32_t slot) {
  for (int32_t i = p->groups_of.first[slot]; i < p->groups_of.first[slot + 1]; i++) {
    int32_t group = p->groups_of.items[i];
    p->forward[group / 64] |= UINT64_C(1) << (group % 64);
    p->any[group / 64] |= UINT64_C(1) << (group % 64);
  }
}

// The first group of `part` from `from` on that is awake, or the last one down from there; PM_NONE when there is none.
static int32_t next_awake(const uint64_t *bits, const uint64_t *part, int32_t words, int32_t from) {
  uint64_t from_on = UINT64_MAX << (from % 64);
  for (int32_t w = from / 64; w < words; w++, from_on = UINT64_MAX) {
    uint64_t word = bits[w] & part[w] & from_on;
    if (word) return w * 64 + __builtin_ctzll(word);
  }
  return PM_NONE;
}

static int32_t last_awake(const uint64_t *bits, const uint64_t *part, int32_t from) {
  if (from < 0) return PM_NONE;
  uint64_t down_from = UINT64_MAX >> (63 - from % 64);
  for (int32_t w = from / 64; w >= 0; w--, down_from = UINT64_MAX) {
    uint64_t word = bits[w] & part[w] & down_from;
    if (word) return w * 64 + 63 - __builtin_clzll(word);
  }
  return PM_NONE;
}

static bool spread(Place *p, const Group *g, bool forward_only, int32_t last_rule) {
  const Member *from = source_of(p, g, forward_only, last_rule);
  if (!from) return false;
  bool changed = false;
  const PmPlaced *source = &p->slots[from->slot];
  PmSplit want = source->split[from->dim];
  for (int32_t i = 0; i < g->n; i++) {
    const Member *mem = &p->members[g->first + i];
    if (is_decided(p, mem) || (forward_only && !mem->is_out)) continue;
    PmPlaced *to = &p->slots[mem->slot];
    PmSplit got = pm_placed_allow(p->m, p->types[mem->slot], to, mem->dim, &want);
    for (uint8_t k = 0; k < got.n; k++)
      if (to->barred >> got.mesh[k] & 1) got.n = k;
    if (got.n == 0) continue;
    to->decided = (uint16_t)(to->decided | 1u << mem->dim);
    to->split[mem->dim] = got;
    to->why[mem->dim] = source->why[from->dim];
    to->rule[mem->dim] = source->rule[from->dim];
    to->by[mem->dim] = g->what;
    wake(p, mem->slot);
    changed = true;
  }
  return changed;
}

static bool look(Place *p, uint64_t *bits, int32_t group, bool forward_only, int32_t last_rule) {
  bits[group / 64] &= ~(UINT64_C(1) << (group % 64));
  return spread(p, &p->groups[group], forward_only, last_rule);
}

// One round over the groups of `part`: forward in order, then, if nothing moved, in all directions from the end.
static bool round_of(Place *p, const uint64_t *part, bool forward_only, int32_t last_rule) {
  bool changed = false;
  for (int32_t i = 0; (i = next_awake(p->forward, part, n_words(p), i)) != PM_NONE; i++)
    changed |= look(p, p->forward, i, true, last_rule);
  for (int32_t i = p->n_groups; !forward_only && !changed && (i = last_awake(p->any, part, i - 1)) != PM_NONE;)
    changed |= look(p, p->any, i, false, last_rule);
  return changed;
}

// With zero the model is placed first, then, from where things are stored, the optimizer's part.
static uint64_t *taking_part(Place *p, bool near_only) {
  uint64_t *part = PM_NEW_N(&p->scratch, uint64_t, n_words(p));
  for (int32_t i = 0; i < p->n_groups; i++) {
    const Group *g = &p->groups[i];
    if ((g->near || !near_only) && (!p->zero || g->update == p->in_update)) part[i / 64] |= UINT64_C(1) << (i % 64);
  }
  return part;
}

static void list_groups(Place *p) {
  Lists *l = &p->groups_of;
  l->first = PM_NEW_N(&p->scratch, int32_t, p->tree.n_slots + 2);
  l->items = PM_NEW_N(&p->scratch, int32_t, p->n_members + 1);
  for (int32_t i = 0; i < p->n_members; i++) l->first[p->members[i].slot + 2]++;
  for (int32_t s = 2; s < p->tree.n_slots + 2; s++) l->first[s] += l->first[s - 1];
  for (int32_t g = 0; g < p->n_groups; g++) {
    for (int32_t i = 0; i < p->groups[g].n; i++) l->items[l->first[p->members[p->groups[g].first + i].slot + 1]++] = g;
  }
  p->forward = PM_NEW_N(&p->scratch, uint64_t, n_words(p));
  p->any = PM_NEW_N(&p->scratch, uint64_t, n_words(p));
}

// By rule: the slots that it splits already.
static Lists slots_by_rule(Place *p) {
  Lists l = {.first = PM_NEW_N(&p->scratch, int32_t, p->m->n_rules + 2)};
  for (int32_t pass = 0; pass < 2; pass++) {
    for (int32_t s = 0; s < p->tree.n_slots; s++) {
      const PmPlaced *slot = &p->slots[s];
      for (int32_t d = 0; slot->decided >> d != 0; d++) {
        if (!(slot->decided >> d & 1) || slot->split[d].n == 0) continue;
        if (pass == 0) l.first[slot->rule[d] + 2]++;
        if (pass == 1) l.items[l.first[slot->rule[d] + 1]++] = s;
      }
    }
    for (int32_t r = 2; pass == 0 && r < p->m->n_rules + 2; r++) l.first[r] += l.first[r - 1];
    if (pass == 0) l.items = PM_NEW_N(&p->scratch, int32_t, l.first[p->m->n_rules + 1] + 1);
  }
  return l;
}

static void propagate(Place *p) {
  Lists slots = slots_by_rule(p);
  const uint64_t *near = taking_part(p, true), *all = taking_part(p, false);
  for (int32_t rule = 0; rule < p->m->n_rules; rule++) {
    if (slots.first[rule] == slots.first[rule + 1]) continue;
    for (int32_t i = slots.first[rule]; i < slots.first[rule + 1]; i++) wake(p, slots.items[i]);
    while (round_of(p, near, false, rule)) continue;
    while (round_of(p, all, true, rule)) continue;
    while (round_of(p, all, false, rule)) continue;
  }
}

// Gives axis `slot` of `table` the mesh axes that split the positions of `idx` in `rows` and are free in the table.
static bool follow_positions(Place *p, const PmTreeFn *t, PmValueId table_value, PmAxisId slot, PmValueId idx_value,
                             PmValueId rows) {
  const int32_t from = pm_slot(t, rows);
  const PmType *idx = p->types[pm_slot(t, idx_value)], *moved = p->types[from];
  const PmType *table = p->types[pm_slot(t, table_value)];
  const int32_t dim = pm_type_find(table, slot);
  PmPlaced *to = &p->slots[pm_slot(t, table_value)];
  PmSplit want = {0};
  int32_t source = PM_NONE;
  if (dim == PM_NONE || (to->decided >> dim & 1)) return false;
  for (int32_t i = 0; i < idx->rank; i++) {
    const int32_t at = pm_type_find(moved, idx->dims[i].axis);
    const PmSplit *split = &p->slots[from].split[at];
    for (int32_t k = 0; k < split->n && want.n < PM_MAX_SPLIT; k++) {
      if (pm_placed_uses(table, to, PM_NONE, split->mesh[k])) continue;
      pm_split_push(&want, split->mesh[k]);
      source = source == PM_NONE ? at : source;
    }
  }
  const PmSplit got = pm_placed_allow(p->m, table, to, dim, &want);
  if (got.n == 0) return false;
  to->decided = (uint16_t)(to->decided | 1u << dim);
  to->split[dim] = got;
  to->why[dim] = p->slots[from].why[source];
  to->rule[dim] = p->slots[from].rule[source];
  to->by[dim] = "the tokens of its slots";
  return true;
}

// A dispatch: a scatter_add by slots that `n` splits; a combine: an index by slots of what a merge makes.
static bool place_node(Place *p, const PmTreeFn *t, const PmFn *f, const PmNode *n, const bool *slots) {
  const int32_t def = n->op == PM_OP_split || n->op == PM_OP_index ? f->values[n->in[0]].def : PM_NONE;
  if (def == PM_NONE || !slots[n->attr.axes[0]]) return false;
  const PmNode *d = &f->nodes[def];
  if (n->op == PM_OP_split && d->op == PM_OP_scatter_add)
    return follow_positions(p, t, n->out, n->attr.to[n->attr.n_to - 1], d->in[0], d->in[1]);
  if (n->op == PM_OP_index && d->op == PM_OP_merge)
    return follow_positions(p, t, d->in[0], d->attr.axes[d->attr.n_axes - 1], n->in[1], n->out);
  return false;
}

static void place_slots(Place *p) {
  const bool *slots = pm_slot_axes(&p->scratch, p->m);
  for (int32_t i = 0; i < p->tree.n_fns; i++) {
    const PmTreeFn *t = &p->tree.fns[i];
    const PmFn *f = pm_fn(p->m, t->fn);
    for (int32_t k = 0; k < f->n_nodes; k++)
      if (place_node(p, t, f, &f->nodes[k], slots)) propagate(p);
  }
}

// "heads: shard heads -> tensor; batch: shard batch -> data, through map"
static const char *describe(const Place *p, const PmType *t, const PmPlaced *s) {
  PmBuf text;
  pm_buf_init(&text);
  for (int32_t d = 0; d < t->rank; d++) {
    if (!(s->decided >> d & 1) || !s->why[d]) continue;
    pm_buf_printf(&text, "%s%s: %s", text.len ? "; " : "", p->m->axes[t->dims[d].axis].name, s->why[d]);
    if (s->by[d]) pm_buf_printf(&text, ", through %s", s->by[d]);
  }
  const char *out = text.len ? pm_intern(p->m->names, pm_buf_str(&text)) : NULL;
  pm_buf_deinit(&text);
  return out;
}

static void write_types(Place *p) {
  for (int32_t i = 0; i < p->tree.n_fns; i++) {
    const PmTreeFn *t = &p->tree.fns[i];
    PmFn *f = pm_fn(p->m, t->fn);
    for (PmValueId v = 0; v < f->n_values; v++) {
      const PmPlaced *s = &p->slots[pm_slot(t, v)];
      PmType *type = &f->values[v].type;
      for (int32_t d = 0; d < type->rank; d++) type->dims[d].split = s->split[d];
      f->values[v].why = describe(p, type, s);
    }
  }
  for (int32_t i = 0; i < p->tree.n_fns; i++) {
    const PmFn *f = pm_fn(p->m, p->tree.fns[i].fn);
    if (p->tree.fns[i].parent != PM_NONE || !f->param_bind) continue;
    for (int32_t k = 0; k < f->n_params; k++)
      if (f->param_bind[k].var != PM_NONE) p->m->vars[f->param_bind[k].var].type = f->values[k].type;
  }
  for (PmVarId v = 0; p->zero && v < p->m->n_vars; v++) {
    PmType *t = &p->m->vars[v].type;
    for (int32_t d = 0; d < t->rank; d++) t->dims[d].split = p->vars[v].split[d];
  }
}

static void init_slots(Place *p) {
  p->slots = PM_NEW_N(&p->scratch, PmPlaced, p->tree.n_slots + 1);
  p->types = PM_NEW_N(&p->scratch, const PmType *, p->tree.n_slots + 1);
  p->update_fn = PM_NEW_N(&p->scratch, bool, p->tree.n_fns + 1);
  p->zero = p->m->step != PM_NONE ? pm_zero_rule(p->m) : NULL;
  for (int32_t i = 0; i < p->tree.n_fns; i++) {
    const PmTreeFn *t = &p->tree.fns[i];
    const PmFn *f = pm_fn(p->m, t->fn);
    for (PmValueId v = 0; v < f->n_values; v++) p->types[pm_slot(t, v)] = &f->values[v].type;
  }
}

PmStatus *pm_pass_place(PmPassCtx *ctx, PmModule *m) {
  Place p = {.m = m};
  pm_pass_scratch(m, &p.scratch);
  pm_specialise(m);
  p.tree = pm_tree_build(&p.scratch, m);
  init_slots(&p);
  int32_t errors = pm_diags_errors(ctx->diags);
  pm_place_rules(m, &p.tree, p.slots, ctx->diags);
  PmStatus *st = NULL;
  if (pm_diags_errors(ctx->diags) > errors) {
    st = PM_STATUS(PM_ERR_INPUT, "the plan does not fit the model");
  } else {
    close_params(&p);
    pm_place_inputs(&p.scratch, m, &p.tree, p.slots);
    collect_groups(&p);
    list_groups(&p);
    propagate(&p);
    pm_attend_place(m, &p.tree, p.slots, ctx->diags);
    place_slots(&p);
    if (p.zero) {
      p.vars = PM_NEW_N(&p.scratch, PmPlaced, m->n_vars + 1);
      pm_zero_store(m, &p.tree, p.slots, ctx->diags, p.vars);
      p.in_update = true;
      propagate(&p);
    }
    write_types(&p);
    pm_exchange_form(&p.scratch, m);
    pm_place_warn(m, &p.tree, p.slots, p.update_fn, ctx->diags);
    m->stage = PM_STAGE_PLACED;
  }
  pm_arena_deinit(&p.scratch);
  return st;
}
