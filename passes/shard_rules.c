#include "passes/shard_rules.h"

#include "base/assert.h"

// One growing list of factors for a node; each shard_* hook fills it.
typedef struct Rules {
  PmArena *arena;
  const PmFn *f;
  const PmNode *n;
  PmFactors out;
  int32_t cap;
} Rules;

static const PmType *in_type(const Rules *r, int32_t i) { return &r->f->values[r->n->in[i]].type; }
static const PmType *out_type(const Rules *r) { return &r->f->values[r->n->out].type; }

static PmFactor *add_factor(Rules *r, PmFactorKind kind, PmAxisId axis) {
  r->out.items = pm_grow(r->arena, r->out.items, r->out.n, &r->cap, sizeof *r->out.items);
  PmFactor *f = &r->out.items[r->out.n++];
  f->kind = kind;
  f->axis = axis;
  f->in_dim = PM_NEW_N(r->arena, int8_t, r->n->n_in + 1);
  f->out_dim = PM_NEW_N(r->arena, int8_t, r->n->n_out + 1);
  for (int32_t i = 0; i < r->n->n_in; i++) f->in_dim[i] = PM_NONE;
  for (int32_t i = 0; i < r->n->n_out; i++) f->out_dim[i] = PM_NONE;
  return f;
}

static PmFactor *find_factor(Rules *r, PmAxisId axis) {
  for (int32_t i = 0; i < r->out.n; i++)
    if (r->out.items[i].axis == axis) return &r->out.items[i];
  return NULL;
}

// Adds operand i's axes by name: they pass where the result has them, else they are summed.
static void operand_by_names(Rules *r, int32_t i) {
  const PmType *t = in_type(r, i);
  for (int32_t d = 0; d < t->rank; d++) {
    PmAxisId axis = t->dims[d].axis;
    PmFactor *f = find_factor(r, axis);
    if (!f) f = add_factor(r, pm_type_find(out_type(r), axis) >= 0 ? PM_FACTOR_PASS : PM_FACTOR_SUM, axis);
    f->in_dim[i] = (int8_t)d;
  }
}

static void results_by_names(Rules *r) {
  const PmType *t = out_type(r);
  for (int32_t d = 0; d < t->rank; d++) {
    PmFactor *f = find_factor(r, t->dims[d].axis);
    if (!f) f = add_factor(r, PM_FACTOR_PASS, t->dims[d].axis);
    f->out_dim[0] = (int8_t)d;
  }
}

static void shard_by_names(Rules *r) {
  for (int32_t i = 0; i < r->n->n_in; i++) operand_by_names(r, i);
  results_by_names(r);
}

static void shard_none(Rules *r) { (void)r; }

static void shard_rename(Rules *r) {
  const PmType *x = in_type(r, 0);
  for (int32_t d = 0; d < x->rank; d++) {
    PmFactor *f = add_factor(r, PM_FACTOR_PASS, x->dims[d].axis);
    f->in_dim[0] = (int8_t)d;
    f->out_dim[0] = (int8_t)d;
  }
}

// Links operand and result by name, but `whole` (on the side named) stays whole and `from` meets `to`.
static void link_names(Rules *r, PmAxisId from, PmAxisId to) {
  const PmType *x = in_type(r, 0), *y = out_type(r);
  for (int32_t d = 0; d < x->rank; d++) {
    PmAxisId axis = x->dims[d].axis, named = axis == from ? to : axis;
    int32_t e = pm_type_find(y, named);
    PmFactor *f = add_factor(r, e >= 0 ? PM_FACTOR_PASS : PM_FACTOR_WHOLE, axis);
    f->in_dim[0] = (int8_t)d;
    if (e >= 0) f->out_dim[0] = (int8_t)e;
  }
  for (int32_t e = 0; e < y->rank; e++) {
    bool linked = false;
    for (int32_t i = 0; i < r->out.n; i++) linked |= r->out.items[i].out_dim[0] == e;
    if (!linked) add_factor(r, PM_FACTOR_WHOLE, y->dims[e].axis)->out_dim[0] = (int8_t)e;
  }
}

static void shard_split(Rules *r) { link_names(r, r->n->attr.axes[0], r->n->attr.to[0]); }
static void shard_merge(Rules *r) { link_names(r, r->n->attr.axes[0], r->n->attr.to[0]); }
static void shard_select(Rules *r) { link_names(r, PM_NONE, PM_NONE); }

static void shard_stack(Rules *r) {
  shard_by_names(r);
  PmFactor *f = find_factor(r, r->n->attr.to[0]);
  if (f) f->kind = PM_FACTOR_WHOLE;
}

static void shard_index(Rules *r) {
  PmAxisId rows = r->n->attr.axes[0];
  const PmType *table = in_type(r, 0);
  for (int32_t d = 0; d < table->rank; d++) {
    bool is_rows = table->dims[d].axis == rows;
    PmFactor *f = add_factor(r, is_rows ? PM_FACTOR_SUM : PM_FACTOR_PASS, table->dims[d].axis);
    f->in_dim[0] = (int8_t)d;
    f->rows = is_rows;
  }
  const PmType *idx = in_type(r, 1);
  for (int32_t d = 0; d < idx->rank; d++) {
    PmFactor *f = idx->dims[d].axis == rows ? NULL : find_factor(r, idx->dims[d].axis);
    if (!f) f = add_factor(r, PM_FACTOR_PASS, idx->dims[d].axis);
    f->in_dim[1] = (int8_t)d;
  }
  const PmType *y = out_type(r);
  for (int32_t d = 0; d < y->rank; d++)
    for (int32_t i = 0; i < r->out.n; i++)
      if (r->out.items[i].kind == PM_FACTOR_PASS && r->out.items[i].axis == y->dims[d].axis)
        r->out.items[i].out_dim[0] = (int8_t)d;
}

// The rows of the result stand in no operand: each rank keeps those that fall into its part.
static void shard_scatter_add(Rules *r) {
  PmAxisId rows = r->n->attr.axes[0];
  for (int32_t i = 0; i < 2; i++) {
    const PmType *t = in_type(r, i);
    for (int32_t d = 0; d < t->rank; d++) {
      PmAxisId axis = t->dims[d].axis;
      PmFactor *f = find_factor(r, axis);
      bool passes = axis != rows && pm_type_find(out_type(r), axis) >= 0;
      if (!f) f = add_factor(r, passes ? PM_FACTOR_PASS : PM_FACTOR_SUM, axis);
      f->in_dim[i] = (int8_t)d;
    }
  }
  const PmType *y = out_type(r);
  for (int32_t d = 0; d < y->rank; d++) {
    bool is_rows = y->dims[d].axis == rows;
    PmFactor *f = is_rows ? NULL : find_factor(r, y->dims[d].axis);
    if (!f) f = add_factor(r, PM_FACTOR_PASS, y->dims[d].axis);
    f->out_dim[0] = (int8_t)d;
    f->rows = is_rows;
  }
}

// An exchange: rows of a table on one side, on the other the positions of the indices, and what a row has on both.
static void add_rows(Rules *r, const PmType *idx, const PmType *table, const PmType *moved, bool gathers) {
  for (int32_t d = 0; d < table->rank; d++) {
    PmAxisId axis = table->dims[d].axis;
    int32_t rest = pm_type_find(moved, axis);
    bool sum = rest == PM_NONE && gathers;
    PmFactor *f = add_factor(r, sum ? PM_FACTOR_SUM : PM_FACTOR_PASS, axis);
    f->rows = rest == PM_NONE;
    if (gathers)
      f->in_dim[0] = (int8_t)d;
    else
      f->out_dim[0] = (int8_t)d;
    if (rest == PM_NONE) continue;
    if (gathers)
      f->out_dim[0] = (int8_t)rest;
    else
      f->in_dim[1] = (int8_t)rest;
  }
  for (int32_t d = 0; d < idx->rank; d++) {
    PmFactor *f = add_factor(r, gathers ? PM_FACTOR_PASS : PM_FACTOR_SUM, idx->dims[d].axis);
    f->positions = true;
    f->in_dim[gathers ? 1 : 0] = (int8_t)d;
    if (gathers)
      f->out_dim[0] = (int8_t)pm_type_find(moved, idx->dims[d].axis);
    else
      f->in_dim[1] = (int8_t)pm_type_find(moved, idx->dims[d].axis);
  }
}

static void shard_gather_rows(Rules *r) { add_rows(r, in_type(r, 1), in_type(r, 0), out_type(r), true); }
static void shard_scatter_rows(Rules *r) { add_rows(r, in_type(r, 0), out_type(r), in_type(r, 1), false); }

// Slots are given out in global order: along the first axis ranks learn what those before them have counted; what lies
// split along another one is brought together.
static void shard_slot_of(Rules *r) {
  const PmType *idx = in_type(r, 0);
  for (int32_t d = 0; d < idx->rank; d++) {
    PmFactor *f = add_factor(r, d == 0 ? PM_FACTOR_PASS : PM_FACTOR_WHOLE, idx->dims[d].axis);
    f->in_dim[0] = f->out_dim[0] = (int8_t)d;
    f->counted = d == 0;
  }
}

static void shard_topk(Rules *r) { link_names(r, PM_NONE, PM_NONE); }

// Calls are edges between functions, which `place` and `partition` follow themselves.
static void shard_call(Rules *r) { (void)r; }
static void shard_repeat(Rules *r) { (void)r; }

typedef void (*ShardRule)(Rules *r);
static const ShardRule rule_of[PM_OP_COUNT] = {
#define OP(name, n_in, n_out, flags) [PM_OP_##name] =
#define SHARD(fn) shard_##fn,
#include "ir/ops.def"
};

PmFactors pm_shard_factors(PmArena *arena, const PmFn *f, const PmNode *n) {
  PM_ASSERT(!(pm_op_flags(n->op) & PM_F_CALL) && rule_of[n->op] != shard_none, "%s has no factors", pm_op_name(n->op));
  Rules r = {.arena = arena, .f = f, .n = n};
  rule_of[n->op](&r);
  return r.out;
}

static uint64_t lowest(uint64_t set) { return set & (~set + 1); }

// All of `set`, if some of it can be partial and the rest is zero.
static uint64_t joint_set(uint64_t set, uint64_t may, uint64_t zero) {
  return may != 0 && ((may | zero) & set) == set ? set : 0;
}

static uint64_t linear_map(const PmNode *n, uint64_t may, uint64_t zero) {
  uint64_t all = (UINT64_C(1) << n->n_in) - 1;
  uint64_t branches = all & ~UINT64_C(1);
  // One value in both places of a product is a square, not a linear use.
  bool square = n->n_in == 2 && n->in[0] == n->in[1];
  PmLinear kind = pm_scalar_linear(n->attr.fn);
  if (kind == PM_LIN_JOINT) return joint_set(all, may, zero);
  if (kind == PM_LIN_BRANCH) return joint_set(branches, may & branches, zero);
  if (square) return 0;
  if (kind == PM_LIN_FIRST) return may & 1;
  return kind == PM_LIN_EITHER ? lowest(may) : 0;
}

uint64_t pm_shard_linear(const PmNode *n, uint64_t may, uint64_t zero) {
  uint32_t flags = pm_op_flags(n->op);
  if (n->op == PM_OP_map) return linear_map(n, may, zero);
  uint64_t all = (UINT64_C(1) << n->n_in) - 1;
  if (flags & PM_F_LINEAR) return joint_set(all, may, zero);
  if (flags & PM_F_BILINEAR) return n->in[0] == n->in[1] ? 0 : lowest(may);
  if (flags & PM_F_REDUCE) return n->attr.kind == PM_SUM ? may : 0;
  if (flags & PM_F_LINEAR0) return may & 1;
  if (flags & PM_F_LINEAR1) return may & 2;
  return 0;
}
