// place: decides a split for every dim of every value, and writes it into the types.
//
// 1. Every call gets a callee of its own, so that one value has one placement (passes/tree.h).
// 2. The plan's rules fire on variables and on block-level results (place_rules.c). What they decide is final.
// 3. Propagation fills what they leave open, along factors and across calls (propagate.h).
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
#include "passes/propagate.h"
#include "passes/zero.h"

typedef struct Place {
  PmModule *m;
  PmArena scratch;
  PmTree tree;
  PmPlaced *slots;
  const PmRule *zero;  // the plan's zero rule, or NULL
  PmPlaced *vars;      // with zero, per variable: where it is stored
  PmPropagation *propagation;
} Place;

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
        for (int32_t d = skip; d < f->values[n->in[in]].type.rank; d++) {
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

// Gives axis `slot` of `table` the mesh axes that split the positions of `idx` in `rows` and are free in the table.
static bool follow_positions(Place *p, const PmTreeFn *t, PmValueId table_value, PmAxisId slot, PmValueId idx_value,
                             PmValueId rows) {
  const PmValue *values = pm_fn(p->m, t->fn)->values;
  const int32_t from = pm_slot(t, rows);
  const PmType *idx = &values[idx_value].type, *moved = &values[rows].type, *table = &values[table_value].type;
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
      if (place_node(p, t, f, &f->nodes[k], slots)) pm_propagate(p->propagation, false);
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

PmStatus *pm_pass_place(PmPassCtx *ctx, PmModule *m) {
  Place p = {.m = m};
  pm_pass_scratch(m, &p.scratch);
  pm_specialise(m);
  p.tree = pm_tree_build(&p.scratch, m);
  p.slots = PM_NEW_N(&p.scratch, PmPlaced, p.tree.n_slots + 1);
  p.zero = m->step != PM_NONE ? pm_zero_rule(m) : NULL;
  int32_t errors = pm_diags_errors(ctx->diags);
  pm_place_rules(m, &p.tree, p.slots, ctx->diags);
  PmStatus *st = NULL;
  if (pm_diags_errors(ctx->diags) > errors) {
    st = PM_STATUS(PM_ERR_INPUT, "the plan does not fit the model");
  } else {
    close_params(&p);
    pm_place_inputs(&p.scratch, m, &p.tree, p.slots);
    p.propagation = pm_propagation_new(&p.scratch, m, &p.tree, p.slots, p.zero != NULL);
    pm_propagate(p.propagation, false);
    pm_attend_place(m, &p.tree, p.slots, ctx->diags);
    place_slots(&p);
    if (p.zero) {  // the model is placed: now, from where things are stored, the optimizer's part
      p.vars = PM_NEW_N(&p.scratch, PmPlaced, m->n_vars + 1);
      pm_zero_store(m, &p.tree, p.slots, ctx->diags, p.vars);
      pm_propagate(p.propagation, true);
    }
    write_types(&p);
    pm_exchange_form(&p.scratch, m);
    pm_place_warn(m, &p.tree, p.slots, pm_propagation_updates(p.propagation), ctx->diags);
    m->stage = PM_STAGE_PLACED;
  }
  pm_arena_deinit(&p.scratch);
  return st;
}
