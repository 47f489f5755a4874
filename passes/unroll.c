// unroll: writes every repeat out as calls of its body, one a turn. A turn selects its part of what is stacked, takes
// what is carried from the turn before, and what the turns produce is stacked again. The meaning is the same, which is
// what it is for: a model that is unrolled here is differentiated, placed and compiled without any of the code that
// knows repeats.
#include <string.h>

#include "passes/passes.h"
#include "passes/rewrite.h"
#include "passes/tree.h"

#define MAX_TURNS 4096  // of all repeats together

typedef struct Unroll {
  PmModule *m;
  PmArena scratch;
  int64_t turns;  // written out so far
  PmStatus *status;
} Unroll;

static PmStatus *too_many(const Unroll *u, const PmNode *n) {
  return PM_STATUS(PM_ERR_LIMIT, "%s:%d:%d: `unroll` writes out at most %d turns in all, and `repeat %s` has %lld",
                   n->loc.path ? n->loc.path : "-", n->loc.line, n->loc.col, MAX_TURNS,
                   u->m->axes[n->attr.axes[0]].name, (long long)pm_axis_size(u->m, n->attr.axes[0]));
}

// The operands of one turn: what is carried and what does not change, then this turn's part of the rest.
static void operands(PmBuilder *b, const PmNode *n, const PmValueId *map, const PmValueId *carried, int64_t turn,
                     PmValueId *out) {
  for (int32_t i = 0; i < n->n_in; i++) {
    const PmCross cross = pm_cross_in(n, i);
    out[i] = cross == PM_CROSS_CARRY   ? carried[i]
             : cross == PM_CROSS_STACK ? pm_b_select(b, map[n->in[i]], n->attr.axes[0], turn)
                                       : map[n->in[i]];
  }
}

static bool write_out(void *context, PmBuilder *b, const PmFn *old, const PmNode *n, PmValueId *map) {
  if (!pm_is_loop(n)) return false;
  Unroll *u = context;
  const PmAxisId axis = n->attr.axes[0];
  const int64_t turns = pm_axis_size(u->m, axis);
  const int32_t n_carry = n->attr.n_carry;
  if (turns > MAX_TURNS - u->turns) {
    if (!u->status) u->status = too_many(u, n);
    return false;
  }
  u->turns += turns;
  PmValueId *in = PM_NEW_N(&u->scratch, PmValueId, n->n_in + 1),
            *carried = PM_NEW_N(&u->scratch, PmValueId, n_carry + 1);
  PmValueId *made = PM_NEW_N(&u->scratch, PmValueId, n->n_out * turns + 1);  // by result, then by turn
  for (int32_t i = 0; i < n_carry; i++) carried[i] = map[n->in[i]];
  for (int64_t k = 0; k < turns; k++) {
    const int64_t turn = n->attr.reverse ? turns - 1 - k : k;
    b->loc = n->loc;
    operands(b, n, map, carried, turn, in);
    const PmValueId first = pm_b_call(b, n->attr.callee, in, n->n_in);
    for (int32_t i = 0; i < n_carry; i++) carried[i] = first + i;
    for (int32_t i = n_carry; i < n->n_out; i++) made[i * turns + turn] = first + i;
  }
  for (int32_t i = 0; i < n->n_out; i++) {
    map[n->out + i] = i < n_carry ? carried[i] : pm_b_stack(b, &made[i * turns], (int32_t)turns, axis);
    pm_b_lend_name(b, map[n->out + i], old->values[n->out + i].name, old->values[n->out + i].bound);
  }
  return true;
}

static bool repeats(const PmFn *f) {
  for (int32_t i = 0; i < f->n_nodes; i++)
    if (pm_is_loop(&f->nodes[i])) return true;
  return false;
}

PmStatus *pm_pass_unroll(PmPassCtx *ctx, PmModule *m) {
  (void)ctx;
  Unroll u = {.m = m};
  pm_pass_scratch(m, &u.scratch);
  for (PmFnId id = 0; id < m->n_fns && !u.status; id++)
    if (!m->fns[id].dead && repeats(&m->fns[id])) pm_rewrite_fn(m, &u.scratch, id, write_out, &u);
  pm_arena_deinit(&u.scratch);
  return u.status;
}
