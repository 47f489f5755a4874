// Propagation of splits along groups of dims.
//
// A group moves only when one of its members has got a split since it was looked at, or when the rule of a member has
// its turn now: the rest are left alone. So a run costs what it changes, not the size of the program times its rounds.
#include "passes/propagate.h"

#include "passes/shard_rules.h"

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

struct PmPropagation {
  const PmModule *m;
  PmArena *scratch;
  const PmTree *tree;
  PmPlaced *slots;
  const PmType **types;  // per slot
  bool apart;            // the optimizer's part of the step is placed on its own
  bool *update_fn;       // per tree function: the optimizer's, whole
  bool in_update;        // the groups that are opened, or looked at, are of the optimizer's part of the step
  Member *members;
  int32_t n_members, cap_members;
  Group *groups;
  int32_t n_groups, cap_groups;
  Lists groups_of;          // by slot: the groups that it is in
  uint64_t *forward, *any;  // bits: groups that a look forward, or in all directions, may still move
};

// ---- groups ---------------------------------------------------------------------------------------------------------
static void open_group(PmPropagation *p, const char *what, bool near) {
  p->groups = pm_grow(p->scratch, p->groups, p->n_groups, &p->cap_groups, sizeof *p->groups);
  p->groups[p->n_groups++] = (Group){.first = p->n_members, .n = 0, .what = what, .near = near, .update = p->in_update};
}

static void add_member(PmPropagation *p, int32_t slot, int32_t dim, bool is_out) {
  p->members = pm_grow(p->scratch, p->members, p->n_members, &p->cap_members, sizeof *p->members);
  p->members[p->n_members++] = (Member){.slot = slot, .dim = (int8_t)dim, .is_out = is_out};
  p->groups[p->n_groups - 1].n++;
}

static void node_groups(PmPropagation *p, const PmTreeFn *t, const PmFn *f, const PmNode *n) {
  PmFactors factors = pm_shard_factors(p->scratch, f, n);
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
static void link_slots(PmPropagation *p, int32_t a, bool a_out, int32_t b, bool b_out, int32_t skip_a, int32_t skip_b) {
  for (int32_t d = skip_a; d < p->types[a]->rank; d++) {
    open_group(p, "call", false);
    add_member(p, a, d, a_out);
    add_member(p, b, d - skip_a + skip_b, b_out);
  }
}

static void call_groups(PmPropagation *p, const PmTreeFn *t, const PmNode *n) {
  const PmTreeFn *callee = pm_tree_callee(p->tree, n);
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
static void var_groups(PmPropagation *p) {
  int32_t *first = PM_NEW_N(p->scratch, int32_t, p->m->n_vars + 1);
  for (int32_t v = 0; v < p->m->n_vars; v++) first[v] = PM_NONE;
  for (int32_t i = 0; i < p->tree->n_fns; i++) {
    const PmTreeFn *t = &p->tree->fns[i];
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
      if (p->apart) continue;  // a new value leaves the optimizer as it is stored
      if (v != PM_NONE && first[v] != PM_NONE) link_slots(p, first[v], false, pm_slot(t, f->results[k]), true, 0, 0);
    }
  }
}

// Nodes of the step beside its calls of the model's forward and backward, and all of the functions that they call.
static bool is_update(PmPropagation *p, int32_t t, const PmNode *n) {
  bool is_call = pm_is_call(n);
  PmFnKind callee = is_call ? pm_fn(p->m, n->attr.callee)->kind : PM_FN_COMPOSITE;
  bool in = p->update_fn[t] || (p->tree->fns[t].fn == p->m->step && callee != PM_FN_BODY);
  if (is_call) p->update_fn[p->tree->of_fn[n->attr.callee]] = in;
  return in;
}

static void collect_groups(PmPropagation *p) {
  for (int32_t i = 0; i < p->tree->n_fns; i++) {
    const PmTreeFn *t = &p->tree->fns[i];
    const PmFn *f = pm_fn(p->m, t->fn);
    for (int32_t k = 0; k < f->n_nodes; k++) {
      const PmNode *n = &f->nodes[k];
      p->in_update = is_update(p, i, n);
      if (pm_is_call(n))
        call_groups(p, t, n);
      else
        node_groups(p, t, f, n);
    }
  }
  p->in_update = false;
  var_groups(p);
}

// ---- rounds ---------------------------------------------------------------------------------------------------------
static bool is_decided(const PmPropagation *p, const Member *mem) {
  return p->slots[mem->slot].decided >> mem->dim & 1;
}

// The member whose split goes to the group: of the earliest rule up to `last_rule`, operands before results. Only
// splits travel: that a rule closed an axis of one value says nothing of its neighbours.
static const Member *source_of(const PmPropagation *p, const Group *g, bool forward_only, int32_t last_rule) {
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

static int32_t n_words(const PmPropagation *p) { return p->n_groups / 64 + 1; }

static void wake(PmPropagation *p, int32_t slot) {
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

static bool spread(PmPropagation *p, const Group *g, bool forward_only, int32_t last_rule) {
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

static bool look(PmPropagation *p, uint64_t *bits, int32_t group, bool forward_only, int32_t last_rule) {
  bits[group / 64] &= ~(UINT64_C(1) << (group % 64));
  return spread(p, &p->groups[group], forward_only, last_rule);
}

// One round over the groups of `part`: forward in order, then, if nothing moved, in all directions from the end.
static bool round_of(PmPropagation *p, const uint64_t *part, bool forward_only, int32_t last_rule) {
  bool changed = false;
  for (int32_t i = 0; (i = next_awake(p->forward, part, n_words(p), i)) != PM_NONE; i++)
    changed |= look(p, p->forward, i, true, last_rule);
  for (int32_t i = p->n_groups; !forward_only && !changed && (i = last_awake(p->any, part, i - 1)) != PM_NONE;)
    changed |= look(p, p->any, i, false, last_rule);
  return changed;
}

static uint64_t *taking_part(PmPropagation *p, bool near_only) {
  uint64_t *part = PM_NEW_N(p->scratch, uint64_t, n_words(p));
  for (int32_t i = 0; i < p->n_groups; i++) {
    const Group *g = &p->groups[i];
    if ((g->near || !near_only) && (!p->apart || g->update == p->in_update)) part[i / 64] |= UINT64_C(1) << (i % 64);
  }
  return part;
}

static void list_groups(PmPropagation *p) {
  Lists *l = &p->groups_of;
  l->first = PM_NEW_N(p->scratch, int32_t, p->tree->n_slots + 2);
  l->items = PM_NEW_N(p->scratch, int32_t, p->n_members + 1);
  for (int32_t i = 0; i < p->n_members; i++) l->first[p->members[i].slot + 2]++;
  for (int32_t s = 2; s < p->tree->n_slots + 2; s++) l->first[s] += l->first[s - 1];
  for (int32_t g = 0; g < p->n_groups; g++) {
    for (int32_t i = 0; i < p->groups[g].n; i++) l->items[l->first[p->members[p->groups[g].first + i].slot + 1]++] = g;
  }
  p->forward = PM_NEW_N(p->scratch, uint64_t, n_words(p));
  p->any = PM_NEW_N(p->scratch, uint64_t, n_words(p));
}

// By rule: the slots that it splits already.
static Lists slots_by_rule(PmPropagation *p) {
  Lists l = {.first = PM_NEW_N(p->scratch, int32_t, p->m->n_rules + 2)};
  for (int32_t pass = 0; pass < 2; pass++) {
    for (int32_t s = 0; s < p->tree->n_slots; s++) {
      const PmPlaced *slot = &p->slots[s];
      for (int32_t d = 0; slot->decided >> d != 0; d++) {
        if (!(slot->decided >> d & 1) || slot->split[d].n == 0) continue;
        if (pass == 0) l.first[slot->rule[d] + 2]++;
        if (pass == 1) l.items[l.first[slot->rule[d] + 1]++] = s;
      }
    }
    for (int32_t r = 2; pass == 0 && r < p->m->n_rules + 2; r++) l.first[r] += l.first[r - 1];
    if (pass == 0) l.items = PM_NEW_N(p->scratch, int32_t, l.first[p->m->n_rules + 1] + 1);
  }
  return l;
}

void pm_propagate(PmPropagation *p, bool update) {
  p->in_update = update;
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

const bool *pm_propagation_updates(const PmPropagation *p) { return p->update_fn; }

PmPropagation *pm_propagation_new(PmArena *scratch, const PmModule *m, const PmTree *tree, PmPlaced *slots,
                                  bool apart) {
  PmPropagation *p = PM_NEW(scratch, PmPropagation);
  *p = (PmPropagation){.m = m, .scratch = scratch, .tree = tree, .slots = slots, .apart = apart};
  p->types = PM_NEW_N(scratch, const PmType *, tree->n_slots + 1);
  p->update_fn = PM_NEW_N(scratch, bool, tree->n_fns + 1);
  for (int32_t i = 0; i < tree->n_fns; i++) {
    const PmTreeFn *t = &tree->fns[i];
    const PmFn *f = pm_fn(m, t->fn);
    for (PmValueId v = 0; v < f->n_values; v++) p->types[pm_slot(t, v)] = &f->values[v].type;
  }
  collect_groups(p);
  list_groups(p);
  return p;
}
