// Abstract steps -> the steps of an entry: every turn of every repeat, with virtual buffers bound to live ranges.
//
// Carried values move by binding: what a turn returns is what the next one takes. Produced values are written straight
// into their slice of the stacked result. Where a body produces a carried value as it came (a saved input), the turn
// before writes it into that slice, so that no copy is made.
#include <string.h>

#include "base/assert.h"
#include "codegen/region.h"

static const PmCgAt NOWHERE = {PM_NONE, 0};

int32_t pm_cg_inst(PmCg *cg, PmCgPlan *plan, int64_t bytes, PmOwner owner, const char *name, bool persistent) {
  plan->insts = pm_grow(cg->arena, plan->insts, plan->n_insts, &plan->cap_insts, sizeof *plan->insts);
  plan->insts[plan->n_insts] = (PmCgInst){
      .bytes = bytes, .owner = (uint8_t)owner, .first = -1, .last = -1, .persistent = persistent, .name = name};
  return plan->n_insts++;
}

static void add_line(PmCg *cg, PmCgPlan *plan, const PmCgStep *step, PmCgAt *at) {
  plan->lines = pm_grow(cg->arena, plan->lines, plan->n_lines, &plan->cap_lines, sizeof *plan->lines);
  plan->lines[plan->n_lines++] = (PmCgLine){step, at};
}

void pm_cg_copy_line(PmCg *cg, PmCgPlan *plan, PmKDtype dtype, int64_t bytes, PmCgAt src, PmCgAt dst, const char *op) {
  if (src.inst == dst.inst && src.offset == dst.offset) return;
  PmCgStep *s = PM_NEW(cg->arena, PmCgStep);
  *s = (PmCgStep){.kind = PM_CG_STEP_KERNEL, .loc = -1, .op = op, .bytes = 2 * (double)bytes, .n_refs = 2};
  s->refs = PM_NEW_N(cg->arena, PmCgRef, 2);
  s->writes = PM_NEW_N(cg->arena, bool, 2);
  s->scalars = PM_NEW_N(cg->arena, PmCoordTerm, PM_KERNEL_MAX_SCALARS);
  s->refs[0].bytes = s->refs[1].bytes = bytes;
  s->writes[1] = true;
  s->kernel = pm_cg_copy_kernel(cg, dtype, bytes / pm_kdtype_bytes(dtype));
  PmCgAt *at = PM_NEW_N(cg->arena, PmCgAt, 2);
  at[0] = src;
  at[1] = dst;
  add_line(cg, plan, s, at);
}

typedef struct Unroll {
  PmCg *cg;
  PmCgPlan *plan;
  const PmCgAt *table;
} Unroll;

static PmCgAt plus(PmCgAt at, int64_t offset) { return (PmCgAt){at.inst, at.offset + offset}; }

// The place of a virtual buffer, made on first use.
static PmCgAt at_buf(Unroll *u, const PmCgRegion *r, PmCgAt *map, int32_t buf) {
  const PmCgBuf *b = &r->bufs[buf];
  if (b->table != PM_NONE) return u->table[b->table];
  if (map[buf].inst == PM_NONE)
    map[buf] = (PmCgAt){pm_cg_inst(u->cg, u->plan, b->bytes, (PmOwner)b->owner, b->name, false), 0};
  return map[buf];
}

static PmCgAt at_ref(Unroll *u, const PmCgRegion *r, PmCgAt *map, PmCgRef ref) {
  return plus(at_buf(u, r, map, ref.buf), ref.offset);
}

// A buffer of the body itself that nothing is bound to yet: it may be placed wherever its value is wanted.
static bool placeable(const PmCgRegion *r, const PmCgAt *map, PmCgRef ref) {
  const PmCgBuf *b = &r->bufs[ref.buf];
  return ref.buf >= r->n_params && b->table == PM_NONE && ref.offset == 0 && ref.bytes == b->bytes &&
         map[ref.buf].inst == PM_NONE;
}

static PmCgAt *new_map(Unroll *u, const PmCgRegion *r) {
  PmCgAt *map = PM_NEW_N(u->cg->arena, PmCgAt, r->n_bufs + 1);
  for (int32_t i = 0; i < r->n_bufs; i++) map[i] = NOWHERE;
  return map;
}

static void run_steps(Unroll *u, const PmCgRegion *r, PmCgAt *map);

int32_t pm_cg_produced_as_carried(const PmCgNode *n, int32_t carry) {
  const PmCgRegion *body = n->body;
  for (int32_t j = n->n_carry; j < body->n_results; j++) {
    const PmCgRef ref = body->result_ref[j];
    if (ref.buf == carry && ref.offset == 0 && ref.bytes == body->bufs[carry].bytes) return j;
  }
  return PM_NONE;
}

typedef struct Turns {
  const PmCgNode *n;
  const PmCgRegion *body;
  PmCgAt *operands, *results;  // of the repeat
  PmCgAt *carried;
  int32_t *slot_of;  // by carried value: the produced result that it lives in, or PM_NONE
} Turns;

static PmCgAt slice(PmCgAt at, PmCgRef one, int64_t turn) { return plus(at, one.bytes * turn); }

// Where the turn after `k` finds carried value i, or NOWHERE when anywhere will do.
static PmCgAt carry_target(const Turns *t, int32_t i, int64_t k) {
  const int64_t next = t->n->reverse ? t->n->index - 2 - k : k + 1;
  if (t->slot_of[i] == PM_NONE || k + 1 == t->n->index) return NOWHERE;
  return slice(t->results[t->slot_of[i]], t->body->result_ref[t->slot_of[i]], next);
}

static PmKDtype result_dtype(const PmCgRegion *r, int32_t i) { return (PmKDtype)r->values[r->results[i]].dtype; }

static void run_turn(Unroll *u, Turns *t, int64_t k) {
  const PmCgNode *n = t->n;
  const PmCgRegion *body = t->body;
  const int64_t turn = n->reverse ? n->index - 1 - k : k;
  PmCgAt *map = new_map(u, body), *wanted = PM_NEW_N(u->cg->arena, PmCgAt, body->n_results + 1);
  for (int32_t i = 0; i < body->n_params; i++) {
    if (i < n->n_carry)
      map[i] = t->carried[i];
    else if (i < n->n_carry + n->n_inv)
      map[i] = t->operands[i];
    else
      map[i] = plus(t->operands[i], body->bufs[i].bytes * turn);
  }
  for (int32_t i = 0; i < body->n_results; i++) {
    const PmCgRef ref = body->result_ref[i];
    wanted[i] = i < n->n_carry ? carry_target(t, i, k) : slice(t->results[i], ref, turn);
    for (int32_t c = 0; c < n->n_carry; c++)
      if (t->slot_of[c] == i) wanted[i] = NOWHERE;  // it is there already
    if (wanted[i].inst == PM_NONE || !placeable(body, map, ref)) continue;
    map[ref.buf] = wanted[i];
    wanted[i] = NOWHERE;
  }
  run_steps(u, body, map);
  for (int32_t i = 0; i < body->n_results; i++) {
    const PmCgRef ref = body->result_ref[i];
    const PmCgAt at = at_ref(u, body, map, ref);
    if (wanted[i].inst != PM_NONE)
      pm_cg_copy_line(u->cg, u->plan, result_dtype(body, i), ref.bytes, at, wanted[i], "save");
    if (i < n->n_carry) t->carried[i] = wanted[i].inst != PM_NONE ? wanted[i] : at;
  }
}

static void run_repeat(Unroll *u, const PmCgRegion *r, PmCgAt *map, const PmCgStep *s) {
  const PmCgNode *n = s->repeat;
  Turns t = {.n = n, .body = n->body};
  t.operands = PM_NEW_N(u->cg->arena, PmCgAt, n->n_in + 1);
  t.results = PM_NEW_N(u->cg->arena, PmCgAt, n->n_out + 1);
  t.carried = PM_NEW_N(u->cg->arena, PmCgAt, n->n_carry + 1);
  t.slot_of = PM_NEW_N(u->cg->arena, int32_t, n->n_carry + 1);
  for (int32_t i = 0; i < n->n_in; i++) t.operands[i] = at_ref(u, r, map, s->refs[i]);
  for (int32_t i = n->n_carry; i < n->n_out; i++) t.results[i] = at_ref(u, r, map, s->refs[n->n_in + i]);
  for (int32_t i = 0; i < n->n_carry; i++) {
    t.carried[i] = t.operands[i];
    t.slot_of[i] = pm_cg_produced_as_carried(n, i);
    if (t.slot_of[i] == PM_NONE) continue;
    const PmCgRef ref = t.body->result_ref[t.slot_of[i]];
    const PmCgAt first = slice(t.results[t.slot_of[i]], ref, n->reverse ? n->index - 1 : 0);
    pm_cg_copy_line(u->cg, u->plan, result_dtype(t.body, t.slot_of[i]), ref.bytes, t.carried[i], first, "save");
    t.carried[i] = first;
  }
  for (int64_t k = 0; k < n->index; k++) run_turn(u, &t, k);
  for (int32_t i = 0; i < n->n_carry; i++) {
    const PmCgRef ref = s->refs[n->n_in + i];
    if (map[ref.buf].inst == PM_NONE)
      map[ref.buf] = t.carried[i];
    else
      pm_cg_copy_line(u->cg, u->plan, result_dtype(t.body, i), ref.bytes, t.carried[i], at_ref(u, r, map, ref),
                      "carry");
  }
}

static void run_steps(Unroll *u, const PmCgRegion *r, PmCgAt *map) {
  for (int32_t i = 0; i < r->n_steps; i++) {
    const PmCgStep *s = &r->steps[i];
    if (s->kind == PM_CG_STEP_REPEAT) {
      run_repeat(u, r, map, s);
      continue;
    }
    PmCgAt *at = PM_NEW_N(u->cg->arena, PmCgAt, s->n_refs + 1);
    for (int32_t k = 0; k < s->n_refs; k++) at[k] = at_ref(u, r, map, s->refs[k]);
    add_line(u->cg, u->plan, s, at);
  }
}

void pm_cg_unroll(PmCg *cg, PmCgPlan *plan, const PmCgRegion *r, const PmCgAt *param, const PmCgAt *table,
                  PmCgAt *out_result) {
  Unroll u = {cg, plan, table};
  PmCgAt *map = new_map(&u, r);
  for (int32_t i = 0; i < r->n_params; i++) map[i] = param[i];
  run_steps(&u, r, map);
  for (int32_t i = 0; i < r->n_results; i++) out_result[i] = at_ref(&u, r, map, r->result_ref[i]);
}
