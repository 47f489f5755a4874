#include "passes/ring.h"

#include "base/assert.h"
#include "passes/attend_block.h"
#include "passes/reshard.h"

#define MAX_STATE 12  // values that go from turn to turn

// The parts of a rank's block that have their own sums: the whole of it, or its earlier and its later chunk.
#define MAX_PARTS 2

typedef struct Ring {
  PmModule *m;
  const PmFn *old;
  const PmCore *core;
  int64_t ranks;
  int32_t n_parts;
  PmAxisId block_q, block_k;  // a rank's block of queries, of keys
  PmAxisId chunk_q, chunk_k;  // a part of it
  PmAxisId parts, pair, one;
  PmType q, k, v;  // canonical: the sequence split over the ring alone, one head whole
} Ring;

// ---- small things --------------------------------------------------------------------------------------------------
static PmValueId add(PmBuilder *b, PmValueId x, PmValueId y) { return pm_b_mapb(b, PM_S_add, (PmValueId[]){x, y}, 2); }
static PmValueId where(PmBuilder *b, PmValueId cond, PmValueId x, PmValueId y) {
  return pm_b_mapb(b, PM_S_where, (PmValueId[]){cond, x, y}, 3);
}
// What the rank holds of axis `from`, as all of axis `to`; and back, split as `given` says.
static PmValueId relabel(PmBuilder *b, PmValueId x, PmAxisId from, PmAxisId to, const PmSplit *split) {
  PmType given = *pm_b_type(b, x);
  PmDim *d = &given.dims[pm_type_find(&given, from)];
  *d = (PmDim){.axis = to};
  if (split) d->split = *split;
  PmAttr a = {.n_axes = 1, .n_to = 1};
  a.axes[0] = from;
  a.to[0] = to;
  return pm_b_node(b, PM_OP_local, &a, &x, 1, &given);
}

static PmValueId shift(const Ring *r, PmBuilder *b, PmValueId x) {
  PmAttr a = {.n_mesh = 1};
  a.mesh[0] = (uint8_t)r->core->mesh;
  return pm_b_node(b, PM_OP_shift, &a, &x, 1, NULL);
}

static PmValueId part_of(const Ring *r, PmBuilder *b, PmValueId x, PmAxisId block, PmAxisId chunk, int32_t part) {
  if (r->n_parts == 1) return x;
  PmValueId cut = pm_b_split(b, x, block, (PmAxisId[]){r->parts, chunk}, 2);
  return pm_b_select(b, cut, r->parts, part);
}

static PmValueId whole_of(const Ring *r, PmBuilder *b, const PmValueId *parts, PmAxisId block, PmAxisId chunk) {
  if (r->n_parts == 1) return parts[0];
  PmValueId all = pm_b_stack(b, parts, r->n_parts, r->parts);
  return pm_b_merge(b, all, (PmAxisId[]){r->parts, chunk}, 2, block);
}

// Two values of one type travel as one.
static bool same_form(PmBuilder *b, PmValueId x, PmValueId y) {
  PmType tx = *pm_b_type(b, x), ty = *pm_b_type(b, y);
  return pm_type_equal(&tx, &ty);
}

// ---- what goes from turn to turn -----------------------------------------------------------------------------------
typedef struct State {
  PmValueId at[MAX_STATE];
  int32_t n;
} State;

static void put(State *s, PmValueId v) {
  PM_ASSERT(s->n < MAX_STATE, "a ring carries too much");
  s->at[s->n++] = v;
}

static void put_pair(const Ring *r, PmBuilder *b, State *s, PmValueId x, PmValueId y) {
  if (same_form(b, x, y)) {
    put(s, pm_b_stack(b, (PmValueId[]){x, y}, 2, r->pair));
    return;
  }
  put(s, x);
  put(s, y);
}

typedef struct Reader {
  const State *s;
  int32_t at;
} Reader;

static PmValueId take(Reader *x) { return x->s->at[x->at++]; }

// Passes the pair on by one rank first when `moves`; out_raw gets what is carried on.
static void take_pair(const Ring *r, PmBuilder *b, Reader *x, bool moves, State *out_raw, PmValueId out[2]) {
  PmValueId first = moves ? shift(r, b, take(x)) : take(x);
  put(out_raw, first);
  if (pm_type_find(pm_b_type(b, first), r->pair) >= 0) {
    for (int32_t i = 0; i < 2; i++) out[i] = pm_b_select(b, first, r->pair, i);
    return;
  }
  out[0] = first;
  out[1] = moves ? shift(r, b, take(x)) : take(x);
  put(out_raw, out[1]);
}

static PmBlockSums take_sums(Reader *x) {
  PmBlockSums s = {.o = take(x)};
  s.m = take(x);
  s.l = take(x);
  return s;
}

static void put_sums(State *s, const PmBlockSums *x) {
  put(s, x->o);
  put(s, x->m);
  put(s, x->l);
}

// ---- setting up ----------------------------------------------------------------------------------------------------
static PmType canonical(const Ring *r, PmType t, const PmType *like) {
  t.n_partial = 0;
  for (int32_t i = 0; i < t.rank; i++) {
    PmDim *d = &t.dims[i];
    int32_t other = like ? pm_type_find(like, d->axis) : PM_NONE;
    if (other != PM_NONE) d->split = like->dims[other].split;
    if (d->axis == r->core->d) d->split = (PmSplit){0};
    if (d->axis == r->core->t) {
      d->split = (PmSplit){0};
      pm_split_push(&d->split, r->core->mesh);
      d->split.zigzag = r->n_parts > 1;
      continue;
    }
    pm_split_cut(&d->split, r->core->mesh);
    // An axis of the keys alone may not use what an axis of the queries does.
    for (int32_t k = 0; like && other == PM_NONE && k < d->split.n; k++)
      if (pm_type_uses_mesh(like, d->split.mesh[k])) d->split.n = (uint8_t)k;
  }
  return t;
}

static PmValueId bring(const Ring *r, PmBuilder *b, PmValueId v, PmType want) {
  PmReshard plan = pm_reshard_plan(r->m, pm_b_type(b, v), &want);
  return pm_reshard_emit(b, v, &plan, b->loc);
}

// With `zigzag` a rank's block is an earlier and a later chunk of the sequence (PmSplit). The later chunk of the
// queries sees all of the earlier chunk of any keys, and never the other way round. Of a block of earlier rank the
// earlier chunk is also seen by the earlier one, of a later rank's the later by the later: so each turn has two
// products of chunks, none masked, which of the second being a matter of operands.
static void set_up(Ring *r, bool zigzag) {
  const PmCore *core = r->core;
  const char *t = r->m->axes[core->t].name, *s = r->m->axes[core->s].name;
  int64_t block = pm_axis_size(r->m, core->t) / r->ranks;
  r->n_parts = zigzag ? 2 : 1;
  r->block_q = pm_module_local_axis(r->m, pm_intern_printf(r->m->names, "%s.block", t), block);
  r->block_k = pm_module_local_axis(r->m, pm_intern_printf(r->m->names, "%s.block", s), block);
  r->chunk_q = r->block_q;
  r->chunk_k = r->block_k;
  if (zigzag) {
    r->chunk_q = pm_module_local_axis(r->m, pm_intern_printf(r->m->names, "%s.chunk", t), block / 2);
    r->chunk_k = pm_module_local_axis(r->m, pm_intern_printf(r->m->names, "%s.chunk", s), block / 2);
    r->parts = pm_module_local_axis(r->m, "ring.part", 2);
  }
  r->pair = pm_module_local_axis(r->m, "ring.pair", 2);
  r->one = pm_module_local_axis(r->m, "ring.one", 1);
  r->q = canonical(r, r->old->values[0].type, NULL);
  r->k = canonical(r, r->old->values[1].type, &r->q);
  r->v = canonical(r, r->old->values[2].type, &r->q);
}

static PmValueId block_of(const Ring *r, PmBuilder *b, PmValueId v, PmType want, PmAxisId block) {
  return relabel(b, bring(r, b, v, want), r->core->t, block, NULL);
}

// A value of blocks, as the caller's type has it.
static PmValueId unblock(const Ring *r, PmBuilder *b, PmValueId v, PmAxisId block, const PmType *like,
                         const PmType *to) {
  PmSplit split = like->dims[pm_type_find(like, r->core->t)].split;
  PmValueId x = relabel(b, pm_b_cast(b, v, (PmDtype)to->dtype), block, r->core->t, &split);
  PmType order = *to, have = *pm_b_type(b, x);
  for (int32_t i = 0; i < order.rank; i++)
    order.dims[i].split = have.dims[pm_type_find(&have, order.dims[i].axis)].split;
  order.n_partial = 0;
  return bring(r, b, pm_b_broadcast(b, x, order), *to);
}

// The rank's number on the ring, as a number.
static PmValueId own_number(const Ring *r, PmBuilder *b) {
  PmAxisId axis = pm_module_local_axis(r->m, "ring.rank", r->ranks);
  PmType given = pm_type_scalar(PM_F64);
  pm_type_add(&given, axis);
  pm_split_push(&given.dims[0].split, r->core->mesh);
  PmAttr a = {.n_axes = 1};
  a.axes[0] = axis;
  PmValueId pos = pm_b_node(b, PM_OP_pos, &a, NULL, 0, &given);
  return pm_b_select(b, relabel(b, pos, axis, r->one, NULL), r->one, 0);
}

static PmValueId triangle(const Ring *r, PmBuilder *b) {
  PmValueId q = pm_b_pos(b, r->block_q), k = pm_b_pos(b, r->block_k);
  PmType both = *pm_b_type(b, q);
  both.dtype = PM_F64;
  pm_type_add(&both, r->block_k);
  k = pm_b_broadcast(b, k, both);
  q = pm_b_broadcast(b, q, both);
  return pm_b_map2(b, PM_S_ge, q, k);
}

typedef void TurnFn(const Ring *r, PmBuilder *b, Reader *carried, Reader *fixed, PmValueId visible, State *out);

// c - 1 turns: `carried` goes from one to the next, `fixed` stays. In turn i the block is that of the rank i before
// this one, around the ring; it is of an earlier part of the sequence where that rank exists.
static State run_turns(const Ring *r, PmBuilder *b, const State *carried, const State *fixed, TurnFn *turn) {
  PmAxisId axis = pm_module_local_axis(r->m, "ring.turn", r->ranks - 1);
  State in = *carried;
  for (int32_t i = 0; i < fixed->n; i++) put(&in, fixed->at[i]);
  PmValueId one = pm_b_const(b, PM_F64, 1);
  PmValueId turns = add(b, pm_b_pos(b, axis), one), me = own_number(r, b);
  put(&in, me);
  put(&in, turns);
  const char *name = pm_intern_printf(r->m->names, "%s.turn", r->old->name);
  PmBuilder body = {.m = r->m, .fn = pm_module_add_fn(r->m, name, PM_FN_BODY), .loc = b->loc};
  State params = {.n = 0};
  for (int32_t i = 0; i < in.n; i++) {
    PmType t = *pm_b_type(b, in.at[i]);
    put(&params, pm_b_param(&body, i + 1 < in.n ? t : pm_type_scalar(PM_F64), NULL));
  }
  PmValueId visible = pm_b_map2(&body, PM_S_ge, params.at[in.n - 2], params.at[in.n - 1]);
  Reader carry = {&params, 0}, fix = {&params, carried->n};
  State out = {.n = 0};
  turn(r, &body, &carry, &fix, visible, &out);
  PM_ASSERT(out.n == carried->n, "a turn of the ring gives back %d values of %d", out.n, carried->n);
  pm_b_results(&body, out.at, out.n);
  PmValueId first = pm_b_repeat(b, body.fn, axis, carried->n, fixed->n + 1, false, in.at, in.n);
  State after = {.n = 0};
  for (int32_t i = 0; i < carried->n; i++) put(&after, first + i);
  return after;
}

// ---- forward -------------------------------------------------------------------------------------------------------
static void forward_turn(const Ring *r, PmBuilder *b, Reader *carried, Reader *fixed, PmValueId visible, State *out) {
  PmValueId kv[2], q = take(fixed);
  take_pair(r, b, carried, true, out, kv);
  PmBlockSums s[MAX_PARTS];
  for (int32_t i = 0; i < r->n_parts; i++) s[i] = take_sums(carried);
  if (r->n_parts == 1) {
    PmBlockSums other = pm_block_attend(b, r->core->d, q, kv[0], kv[1], r->block_k, PM_NONE);
    pm_block_merge(b, &s[0], &other, visible);
  } else {
    PmValueId qs[2], ks[2], vs[2];
    for (int32_t i = 0; i < 2; i++) {
      qs[i] = part_of(r, b, q, r->block_q, r->chunk_q, i);
      ks[i] = part_of(r, b, kv[0], r->block_k, r->chunk_k, i);
      vs[i] = part_of(r, b, kv[1], r->block_k, r->chunk_k, i);
    }
    PmBlockSums always = pm_block_attend(b, r->core->d, qs[1], ks[0], vs[0], r->chunk_k, PM_NONE);
    PmValueId v = where(b, visible, vs[0], vs[1]), k = where(b, visible, ks[0], ks[1]);
    PmBlockSums either = pm_block_attend(b, r->core->d, where(b, visible, qs[0], qs[1]), k, v, r->chunk_k, PM_NONE);
    pm_block_merge(b, &s[1], &always, PM_NONE);
    pm_block_merge(b, &s[0], &either, visible);
    pm_block_merge(b, &s[1], &either, pm_b_map1(b, PM_S_not, visible));
  }
  for (int32_t i = 0; i < r->n_parts; i++) put_sums(out, &s[i]);
}

static void build_forward(const Ring *r, PmBuilder *b, const PmType *results) {
  PmValueId q = block_of(r, b, 0, r->q, r->block_q);
  PmValueId k = block_of(r, b, 1, r->k, r->block_k), v = block_of(r, b, 2, r->v, r->block_k);
  PmBlockSums own = pm_block_attend(b, r->core->d, q, k, v, r->block_k, triangle(r, b));
  State carried = {.n = 0}, fixed = {.n = 0};
  put_pair(r, b, &carried, k, v);
  int32_t n_pair = carried.n;
  for (int32_t i = 0; i < r->n_parts; i++) {
    PmBlockSums part = {.o = part_of(r, b, own.o, r->block_q, r->chunk_q, i)};
    part.m = part_of(r, b, own.m, r->block_q, r->chunk_q, i);
    part.l = part_of(r, b, own.l, r->block_q, r->chunk_q, i);
    put_sums(&carried, &part);
  }
  put(&fixed, q);
  State after = run_turns(r, b, &carried, &fixed, forward_turn);
  Reader x = {&after, n_pair};
  PmValueId o[MAX_PARTS], lse[MAX_PARTS], out[2];
  for (int32_t i = 0; i < r->n_parts; i++) {
    PmBlockSums s = take_sums(&x);
    o[i] = pm_b_mapb(b, PM_S_div, (PmValueId[]){s.o, s.l}, 2);
    lse[i] = add(b, s.m, pm_b_map1(b, PM_S_log, s.l));
  }
  out[0] = unblock(r, b, whole_of(r, b, o, r->block_q, r->chunk_q), r->block_q, &r->q, &results[0]);
  bool saves = r->core->kind == PM_CORE_FWD;
  if (saves) out[1] = unblock(r, b, whole_of(r, b, lse, r->block_q, r->chunk_q), r->block_q, &r->q, &results[1]);
  pm_b_results(b, out, saves ? 2 : 1);
}

// ---- backward ------------------------------------------------------------------------------------------------------
static PmBlockQuery take_query(Reader *x) {
  PmBlockQuery q = {.q = take(x)};
  q.d_o = take(x);
  q.lse = take(x);
  q.delta = take(x);
  return q;
}

static PmBlockQuery query_part(const Ring *r, PmBuilder *b, const PmBlockQuery *x, int32_t part) {
  PmBlockQuery q = {.q = part_of(r, b, x->q, r->block_q, r->chunk_q, part)};
  q.d_o = part_of(r, b, x->d_o, r->block_q, r->chunk_q, part);
  q.lse = part_of(r, b, x->lse, r->block_q, r->chunk_q, part);
  q.delta = part_of(r, b, x->delta, r->block_q, r->chunk_q, part);
  return q;
}

static PmBlockQuery query_where(PmBuilder *b, PmValueId cond, const PmBlockQuery *x, const PmBlockQuery *y) {
  PmBlockQuery q = {.q = where(b, cond, x->q, y->q)};
  q.d_o = where(b, cond, x->d_o, y->d_o);
  q.lse = where(b, cond, x->lse, y->lse);
  q.delta = where(b, cond, x->delta, y->delta);
  return q;
}

// Adds to the earlier part where `early`, else to the later one. A product passes partial sums, a choice would not.
static void add_to_either(PmBuilder *b, PmValueId parts[2], PmValueId x, PmValueId early) {
  PmDtype dtype = (PmDtype)pm_b_type(b, x)->dtype;
  PmValueId one = pm_b_const(b, dtype, 1), zero = pm_b_const(b, dtype, 0);
  PmType whole = *pm_b_type(b, x);
  whole.n_partial = 0;
  for (int32_t i = 0; i < 2; i++) {
    PmValueId share = i == 0 ? where(b, early, one, zero) : where(b, early, zero, one);
    parts[i] = add(b, parts[i], pm_b_map2(b, PM_S_mul, x, pm_b_broadcast(b, share, whole)));
  }
}

static void zigzag_back(const Ring *r, PmBuilder *b, const PmBlockQuery *query, const PmValueId kv[2],
                        PmValueId visible, PmValueId dq[2], PmValueId dkv[2]) {
  PmBlockQuery qs[2];
  PmValueId ks[2], vs[2], dks[2], dvs[2];
  for (int32_t i = 0; i < 2; i++) {
    qs[i] = query_part(r, b, query, i);
    ks[i] = part_of(r, b, kv[0], r->block_k, r->chunk_k, i);
    vs[i] = part_of(r, b, kv[1], r->block_k, r->chunk_k, i);
    dks[i] = part_of(r, b, dkv[0], r->block_k, r->chunk_k, i);
    dvs[i] = part_of(r, b, dkv[1], r->block_k, r->chunk_k, i);
  }
  PmBlockGrads always = pm_block_attend_back(b, r->core->d, &qs[1], ks[0], vs[0], r->chunk_k, PM_NONE);
  PmBlockQuery chosen = query_where(b, visible, &qs[0], &qs[1]);
  PmValueId v = where(b, visible, vs[0], vs[1]), k = where(b, visible, ks[0], ks[1]);
  PmBlockGrads either = pm_block_attend_back(b, r->core->d, &chosen, k, v, r->chunk_k, PM_NONE);
  dq[1] = add(b, dq[1], always.dq);
  dks[0] = add(b, dks[0], always.dk);
  dvs[0] = add(b, dvs[0], always.dv);
  add_to_either(b, dq, either.dq, visible);
  add_to_either(b, dks, either.dk, visible);
  add_to_either(b, dvs, either.dv, visible);
  PmType dk = *pm_b_type(b, dkv[0]), dv = *pm_b_type(b, dkv[1]);
  dkv[0] = pm_b_broadcast(b, whole_of(r, b, dks, r->block_k, r->chunk_k), dk);
  dkv[1] = pm_b_broadcast(b, whole_of(r, b, dvs, r->block_k, r->chunk_k), dv);
}

static void backward_turn(const Ring *r, PmBuilder *b, Reader *carried, Reader *fixed, PmValueId visible, State *out) {
  PmValueId kv[2], dkv[2], dq[MAX_PARTS];
  State moved = {.n = 0};
  take_pair(r, b, carried, true, out, kv);
  take_pair(r, b, carried, true, &moved, dkv);
  for (int32_t i = 0; i < r->n_parts; i++) dq[i] = take(carried);
  PmBlockQuery query = take_query(fixed);
  if (r->n_parts == 1) {
    PmBlockGrads g = pm_block_attend_back(b, r->core->d, &query, kv[0], kv[1], r->block_k, visible);
    dq[0] = add(b, dq[0], g.dq);
    dkv[0] = add(b, dkv[0], g.dk);
    dkv[1] = add(b, dkv[1], g.dv);
  } else {
    zigzag_back(r, b, &query, kv, visible, dq, dkv);
  }
  put_pair(r, b, out, dkv[0], dkv[1]);
  for (int32_t i = 0; i < r->n_parts; i++) put(out, dq[i]);
}

static void build_backward(const Ring *r, PmBuilder *b, const PmType *results) {
  PmType stats = canonical(r, r->old->values[4].type, &r->q);
  PmValueId k = block_of(r, b, 1, r->k, r->block_k), v = block_of(r, b, 2, r->v, r->block_k);
  PmBlockQuery query = {.q = block_of(r, b, 0, r->q, r->block_q)};
  query.d_o = block_of(r, b, 5, canonical(r, r->old->values[5].type, &r->q), r->block_q);
  query.lse = block_of(r, b, 4, stats, r->block_q);
  PmValueId o = block_of(r, b, 3, canonical(r, r->old->values[3].type, &r->q), r->block_q);
  query.delta = pm_block_delta(b, r->core->d, query.d_o, o);
  PmBlockGrads own = pm_block_attend_back(b, r->core->d, &query, k, v, r->block_k, triangle(r, b));
  State carried = {.n = 0}, fixed = {.n = 0};
  put_pair(r, b, &carried, k, v);
  int32_t n_kv = carried.n;
  put_pair(r, b, &carried, own.dk, own.dv);
  for (int32_t i = 0; i < r->n_parts; i++) put(&carried, part_of(r, b, own.dq, r->block_q, r->chunk_q, i));
  put(&fixed, query.q);
  put(&fixed, query.d_o);
  put(&fixed, query.lse);
  put(&fixed, query.delta);
  State after = run_turns(r, b, &carried, &fixed, backward_turn), home = {.n = 0};
  Reader x = {&after, n_kv};
  PmValueId dkv[2], dq[MAX_PARTS];
  take_pair(r, b, &x, true, &home, dkv);
  for (int32_t i = 0; i < r->n_parts; i++) dq[i] = take(&x);
  PmValueId out[3];
  out[0] = unblock(r, b, whole_of(r, b, dq, r->block_q, r->chunk_q), r->block_q, &r->q, &results[0]);
  out[1] = unblock(r, b, dkv[0], r->block_k, &r->k, &results[1]);
  out[2] = unblock(r, b, dkv[1], r->block_k, &r->v, &results[2]);
  pm_b_results(b, out, 3);
}

void pm_ring_build(PmBuilder *b, const PmFn *old, const PmCore *core, const PmType *results) {
  Ring r = {.m = b->m, .old = old, .core = core, .ranks = b->m->mesh[core->mesh].size};
  const PmSplit *split = &old->values[0].type.dims[pm_type_find(&old->values[0].type, core->t)].split;
  set_up(&r, split->zigzag && split->mesh[0] == core->mesh);
  b->loc = old->nodes[0].loc;
  if (core->kind == PM_CORE_BWD)
    build_backward(&r, b, results);
  else
    build_forward(&r, b, results);
}
