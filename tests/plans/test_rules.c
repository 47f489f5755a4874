// The sharding rule of every op against its definition: whatever a factor says may be split is split, each rank runs
// the op on its part, and the parts, put together or summed, must be the whole. Likewise for the operands through which
// a partial sum may pass. A row of the op table without a sample fails.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/philox.h"
#include "harness.h"
#include "passes/shard_rules.h"
#include "plans.h"

enum { ROUNDS = 60 };

// Axes b, s, e, f of 6 elements, v of 12 that indices point into, w = b * s, and 2, 3, 4, 18 elements for routing.
typedef struct Gen {
  Plan p;
  PmAxisId b, s, e, f, v, w, two, three, c, slots;
  uint64_t seed, n;
  int32_t round;
} Gen;

static int32_t below(Gen *g, int32_t n) {
  return (int32_t)(pm_random_u32(pm_random_key(g->seed, "rules"), 0, g->n++) % (uint32_t)n);
}

// The listed axes in any order.
static PmType shuffled(Gen *g, PmDtype dtype, const PmAxisId *axes, int32_t n) {
  PmAxisId left[PM_MAX_RANK];
  memcpy(left, axes, (size_t)n * sizeof *left);
  PmType t = pm_type_scalar(dtype);
  for (; n > 0; n--) {
    int32_t i = below(g, n);
    pm_type_add(&t, left[i]);
    left[i] = left[n - 1];
  }
  return t;
}

static PmValueId param(Gen *g, PmType t) { return pm_b_param(&g->p.b, t, "x"); }

#define SHUFFLED(g, dtype, ...)                       \
  shuffled(g, dtype, (const PmAxisId[]){__VA_ARGS__}, \
           (int32_t)(sizeof((const PmAxisId[]){__VA_ARGS__}) / sizeof(PmAxisId)))

static PmValueId floats(Gen *g) { return param(g, SHUFFLED(g, PM_F32, g->b, g->s, g->e)); }

static PmValueId indices(Gen *g, PmAxisId of, PmType t) {
  t.index_of = of;
  return param(g, t);
}

// ---- samples: parameters and one node ------------------------------------------------------------------------------
static void sample_const(Gen *g) { pm_b_const(&g->p.b, PM_F32, 3); }
static void sample_pos(Gen *g) { pm_b_pos(&g->p.b, g->e); }

static void sample_random(Gen *g) {
  PmValueId step = param(g, pm_type_scalar(PM_F64));
  PmType t = SHUFFLED(g, PM_F32, g->b, g->s, g->e);
  pm_b_node(&g->p.b, PM_OP_random, &(PmAttr){.index = 5}, &step, 1, &t);
}

static void sample_broadcast(Gen *g) {
  PmValueId x = param(g, SHUFFLED(g, PM_F32, g->b, g->e));
  pm_b_broadcast(&g->p.b, x, SHUFFLED(g, PM_F32, g->b, g->s, g->e));
}

static void sample_cast(Gen *g) {
  PmType to = pm_type_scalar(g->round % 2 ? PM_F64 : PM_I32);
  PmValueId x = floats(g);
  pm_b_node(&g->p.b, PM_OP_cast, &(PmAttr){0}, &x, 1, &to);
}

// Every scalar function in turn.
static void sample_map(Gen *g) {
  PmScalar fn = (PmScalar)(g->round % PM_SCALAR_COUNT);
  PmValueId in[3];
  for (int32_t i = 0; i < pm_scalar_arity(fn); i++) {
    bool is_bool = pm_scalar_out(fn) == PM_OUT_LOGIC || (pm_scalar_linear(fn) == PM_LIN_BRANCH && i == 0);
    in[i] = param(g, SHUFFLED(g, is_bool ? PM_BOOL : PM_F32, g->b, g->s, g->e));
  }
  pm_b_map(&g->p.b, fn, in, pm_scalar_arity(fn));
}

static void sample_dot(Gen *g) {
  PmValueId x = param(g, SHUFFLED(g, PM_F32, g->b, g->s, g->e)), y = param(g, SHUFFLED(g, PM_F32, g->s, g->f, g->e));
  pm_b_dot(&g->p.b, x, y, g->round % 2 ? (PmAxisId[]){g->e, g->s} : (PmAxisId[]){g->e}, 1 + g->round % 2);
}

static void sample_reduce(Gen *g) {
  PmValueId x = floats(g);
  pm_b_reduce(&g->p.b, g->round % 3 ? PM_SUM : PM_MAX, x, (PmAxisId[]){g->s, g->e}, 1 + g->round % 2);
}

static void sample_rename(Gen *g) {
  PmValueId x = floats(g);
  if (g->round % 2)
    pm_b_rename(&g->p.b, x, (PmAxisId[]){g->s}, (PmAxisId[]){g->f}, 1);
  else
    pm_b_rename(&g->p.b, x, (PmAxisId[]){g->s, g->e}, (PmAxisId[]){g->e, g->s}, 2);
}

static void sample_split(Gen *g) {
  PmValueId x = param(g, SHUFFLED(g, PM_F32, g->w, g->e));
  pm_b_split(&g->p.b, x, g->w, (PmAxisId[]){g->b, g->s}, 2);
}

static void sample_merge(Gen *g) {
  pm_b_merge(&g->p.b, floats(g), g->round % 2 ? (PmAxisId[]){g->b, g->s} : (PmAxisId[]){g->s, g->b}, 2, g->w);
}

static void sample_stack(Gen *g) {
  PmValueId in[3];
  for (int32_t i = 0; i < 3; i++) in[i] = floats(g);
  pm_b_stack(&g->p.b, in, 3, g->three);
}

static void sample_select(Gen *g) { pm_b_select(&g->p.b, floats(g), g->round % 2 ? g->s : g->b, below(g, 6)); }

// The indices may share an axis with the table, and even have the axis into which they point.
static void sample_index(Gen *g) {
  PmValueId table = param(g, SHUFFLED(g, PM_F32, g->v, g->e, g->b));
  PmType t = g->round % 3 == 0   ? SHUFFLED(g, PM_I32, g->s, g->b)
             : g->round % 3 == 1 ? SHUFFLED(g, PM_I32, g->s, g->v)
                                 : SHUFFLED(g, PM_I32, g->s);
  pm_b_index(&g->p.b, table, indices(g, g->v, t), g->v);
}

static void sample_scatter_add(Gen *g) {
  PmValueId idx = indices(g, g->v, SHUFFLED(g, PM_I32, g->s, g->b));
  PmValueId up =
      param(g, g->round % 3 == 1 ? SHUFFLED(g, PM_F32, g->s, g->b, g->e, g->v) : SHUFFLED(g, PM_F32, g->s, g->b, g->e));
  PmType to = g->round % 2 ? SHUFFLED(g, PM_F32, g->v, g->e, g->b) : SHUFFLED(g, PM_F32, g->v, g->e);
  pm_b_scatter_add(&g->p.b, idx, up, g->v, to);
}

static void sample_slot_of(Gen *g) {
  PmValueId idx = indices(g, g->e, SHUFFLED(g, PM_I32, g->s, g->b));
  PmAttr a = {.n_axes = 1, .axes = {g->e}, .n_to = 1, .to = {g->slots}};
  pm_b_node(&g->p.b, PM_OP_slot_of, &a, &idx, 1, NULL);
}

static void sample_topk(Gen *g) {
  PmValueId x = floats(g);
  PmAttr a = {.n_axes = 1, .axes = {g->s}, .n_to = 1, .to = {g->c}};
  pm_b_node(&g->p.b, PM_OP_topk, &a, &x, 1, NULL);
}

// Rows by two axes; no two indices name one.
static void sample_gather_rows(Gen *g) {
  PmValueId in[] = {param(g, SHUFFLED(g, PM_F32, g->b, g->e, g->s)), indices(g, g->w, SHUFFLED(g, PM_I32, g->f))};
  PmAttr a = {.n_axes = 2, .axes = {g->b, g->s}};
  PmType to = SHUFFLED(g, PM_F32, g->f, g->e);
  pm_b_node(&g->p.b, PM_OP_gather_rows, &a, in, 2, &to);
}

static void sample_scatter_rows(Gen *g) {
  PmValueId in[] = {indices(g, g->w, SHUFFLED(g, PM_I32, g->f)), param(g, SHUFFLED(g, PM_F32, g->f, g->e))};
  PmAttr a = {.n_axes = 2, .axes = {g->b, g->s}};
  PmType to = SHUFFLED(g, PM_F32, g->b, g->e, g->s);
  pm_b_node(&g->p.b, PM_OP_scatter_rows, &a, in, 2, &to);
}

static void (*const samples[PM_OP_COUNT])(Gen *g) = {
    [PM_OP_const] = sample_const,
    [PM_OP_pos] = sample_pos,
    [PM_OP_random] = sample_random,
    [PM_OP_broadcast] = sample_broadcast,
    [PM_OP_cast] = sample_cast,
    [PM_OP_map] = sample_map,
    [PM_OP_dot] = sample_dot,
    [PM_OP_reduce] = sample_reduce,
    [PM_OP_merge] = sample_merge,
    [PM_OP_rename] = sample_rename,
    [PM_OP_select] = sample_select,
    [PM_OP_split] = sample_split,
    [PM_OP_stack] = sample_stack,
    [PM_OP_index] = sample_index,
    [PM_OP_topk] = sample_topk,
    [PM_OP_scatter_add] = sample_scatter_add,
    [PM_OP_slot_of] = sample_slot_of,
    [PM_OP_gather_rows] = sample_gather_rows,
    [PM_OP_scatter_rows] = sample_scatter_rows,
};

// Ops that stand only in what `partition` has made have no factors.
static bool is_local_only(PmOp op) {
  return !samples[op] && ((pm_op_flags(op) & PM_F_COMM) || op == PM_OP_slice || op == PM_OP_local);
}

static void gen_init(Gen *g, PmOp op, int32_t round) {
  *g = (Gen){.seed = (uint64_t)op * 1000 + (uint64_t)round, .round = round};
  plan_init(&g->p, "m=2,n=3");
  g->b = plan_axis(&g->p, "b", 6);
  g->s = plan_axis(&g->p, "s", 6);
  g->e = plan_axis(&g->p, "e", 6);
  g->f = plan_axis(&g->p, "f", 6);
  g->v = plan_axis(&g->p, "v", 12);
  g->w = plan_axis(&g->p, "w", 36);
  g->two = plan_axis(&g->p, "two", 2);
  g->three = plan_axis(&g->p, "three", 3);
  g->c = plan_axis(&g->p, "c", 4);
  g->slots = plan_axis(&g->p, "slots", 18);
  samples[op](g);
}

// ---- running -------------------------------------------------------------------------------------------------------
// Small integers with ties, not 0, by which some divide; indices also outside of their axis.
static double made_up(const PmModule *m, const PmType *t, uint64_t seed, int64_t i) {
  uint32_t r = pm_random_u32(pm_random_key(seed, "operand"), 0, (uint64_t)i);
  if (t->index_of != PM_NONE && pm_axis_size(m, t->index_of) == 36) return (double)((7 * (uint64_t)i + seed) % 37) - 1;
  if (t->index_of != PM_NONE) return (double)(r % (uint32_t)(pm_axis_size(m, t->index_of) + 1)) - 1;
  return t->dtype == PM_BOOL ? (double)(r % 2) : (double)(r % 4) - (r % 4 < 2 ? 2 : 1);
}

static double *whole_operand(Gen *g, int32_t i) {
  const PmType *t = &pm_fn(g->p.m, g->p.m->model)->values[i].type;
  int64_t n;
  assert_true(pm_type_elements(g->p.m, t, &n));
  double *x = PM_NEW_N(&g->p.arena, double, n);
  for (int64_t k = 0; k < n; k++) x[k] = made_up(g->p.m, t, g->seed + (uint64_t)i, k);
  return x;
}

static void run(const Gen *g, const PmModule *m, PmFnId fn, const PmTensor *in, PmTensor *out) {
  PmStatus *st = pm_interp_run(m, fn, PM_INTERP_F64, (PmArena *)&g->p.arena, in, out);
  if (st) fail_msg("%s", pm_status_message(st));
}

static PmTensor run_whole(Gen *g) {
  PmFn *f = pm_fn(g->p.m, g->p.m->model);
  PmTensor in[4], out;
  for (int32_t i = 0; i < f->n_params; i++) {
    in[i] = pm_tensor_new(&g->p.arena, g->p.m, &f->values[i].type);
    pm_tensor_scatter(g->p.m, whole_operand(g, i), &in[i]);
  }
  run(g, g->p.m, g->p.m->model, in, &out);
  return out;
}

static bool same(double a, double b) {
  return a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= 1e-12 * fabs(b) + 1e-12;
}

// Runs the node on operands of the given types and compares what its ranks hold, put together, with `want`. Operands in
// `spread` (bits) are partial sums whose terms differ from rank to rank.
static void run_local(Gen *g, const PmAttr *attr, const PmType *operands, const PmType *given, uint64_t spread,
                      const PmTensor *want) {
  PmModule *m = pm_module_clone(g->p.m, &g->p.arena);
  m->stage = PM_STAGE_LOCAL;
  const PmFn *old = pm_fn(g->p.m, g->p.m->model);
  const PmNode *n = &old->nodes[old->n_nodes - 1];
  PmBuilder b = {.m = m, .fn = pm_module_add_fn(m, "local", PM_FN_BODY)};
  PmTensor in[4], out;
  for (int32_t i = 0; i < old->n_params; i++) {
    pm_b_param(&b, operands[i], "x");
    in[i] = pm_tensor_new(&g->p.arena, m, &operands[i]);
    pm_tensor_scatter(m, whole_operand(g, i), &in[i]);
    for (int64_t k = 0; spread >> i & 1 && k < in[i].n; k++) {  // rank 1 takes from rank 0
      double part = (double)(k % 5) - 7;
      for (int64_t r = 0; r < in[i].ranks; r++) {
        int64_t at = pm_mesh_coord(m, r, operands[i].partial[0].mesh);
        in[i].data[r * in[i].n + k] += at == 0 ? -part : at == 1 ? part : 0;
      }
    }
  }
  PmValueId v = pm_b_node(&b, n->op, attr, n->in, n->n_in, given);
  PmType got = *pm_b_type(&b, v);
  for (int32_t d = 0; d < got.rank; d++) assert_true(pm_split_equal(&got.dims[d].split, &given->dims[d].split));
  pm_b_results(&b, &v, 1);
  run(g, m, b.fn, in, &out);
  double *back = PM_NEW_N(&g->p.arena, double, want->n + 1);
  pm_tensor_gather(m, &out, back);
  for (int64_t i = 0; i < want->n; i++) {
    if (same(back[i], want->data[i])) continue;
    PmBuf text;
    pm_buf_init(&text);
    pm_module_print(m, &text);
    fail_msg("%s, round %d: element %d is %g, not %g, in\n%s", pm_op_name(n->op), g->round, (int)i, back[i],
             want->data[i], pm_buf_str(&text));
  }
}

static bool divides(const Gen *g, const PmType *t, int32_t dim, int32_t mesh) {
  PmSplit s = t->dims[dim].split;
  return pm_split_push(&s, mesh) && pm_axis_size(g->p.m, t->dims[dim].axis) % pm_split_parts(g->p.m, &s) == 0;
}

// Splits the factor over one more mesh axis; false where a dim does not divide.
static bool split_factor(const Gen *g, const PmNode *n, const PmFactor *f, int32_t mesh, PmType *operands,
                         PmType *out) {
  for (int32_t i = 0; i < n->n_in; i++)
    if (f->in_dim[i] >= 0 && !divides(g, &operands[i], f->in_dim[i], mesh)) return false;
  if (f->out_dim[0] >= 0 && !divides(g, out, f->out_dim[0], mesh)) return false;
  for (int32_t i = 0; i < n->n_in; i++)
    if (f->in_dim[i] >= 0) pm_split_push(&operands[i].dims[f->in_dim[i]].split, mesh);
  if (f->out_dim[0] >= 0) pm_split_push(&out->dims[f->out_dim[0]].split, mesh);
  return true;
}

// Each dim of each operand and of the result stands in exactly one factor.
static void check_cover(const Gen *g, const PmFn *f, const PmNode *n, const PmFactors *factors) {
  for (int32_t i = 0; i <= n->n_in; i++) {
    const PmType *t = &f->values[i < n->n_in ? n->in[i] : n->out].type;
    for (int32_t d = 0; d < t->rank; d++) {
      int32_t times = 0;
      for (int32_t k = 0; k < factors->n; k++)
        times += (i < n->n_in ? factors->items[k].in_dim[i] : factors->items[k].out_dim[0]) == d;
      if (times != 1)
        fail_msg("%s: dim %d of %s %d stands in %d factors", pm_op_name(n->op), d, i < n->n_in ? "operand" : "result",
                 i < n->n_in ? i : 0, times);
    }
  }
  (void)g;
}

typedef struct Tally {
  int32_t splits, sums, partials, exchanges;
} Tally;

static void check_factors(Gen *g, const PmNode *n, const PmFactors *factors, const PmTensor *want, Tally *tally) {
  const PmFn *f = pm_fn(g->p.m, g->p.m->model);
  for (int32_t a = 0; a < factors->n; a++) {
    for (int32_t b = 0; b <= factors->n; b++) {  // the second mesh axis on another factor, on the same, or on none
      PmType operands[4], out = f->values[n->out].type;
      for (int32_t i = 0; i < n->n_in; i++) operands[i] = f->values[n->in[i]].type;
      bool whole_a = factors->items[a].kind == PM_FACTOR_WHOLE;
      bool whole_b = b < factors->n && factors->items[b].kind == PM_FACTOR_WHOLE;
      if (whole_a || whole_b || !split_factor(g, n, &factors->items[a], 0, operands, &out)) continue;
      if (b < factors->n && !split_factor(g, n, &factors->items[b], 1, operands, &out)) continue;
      PmAttr attr = n->attr;  // of what counts along an axis also the mesh axes that split it
      if (factors->items[a].counted) attr.mesh[attr.n_mesh++] = 0;
      if (b < factors->n && factors->items[b].counted) attr.mesh[attr.n_mesh++] = 1;
      run_local(g, &attr, operands, &out, 0, want);
      tally->splits++;
      tally->sums += factors->items[a].kind == PM_FACTOR_SUM;
    }
  }
}

// One mesh axis splits rows and positions; another one any factor.
static void check_exchanges(Gen *g, const PmNode *n, const PmFactors *factors, const PmTensor *want, Tally *tally) {
  const PmFn *f = pm_fn(g->p.m, g->p.m->model);
  for (int32_t i = 0; i < factors->n * factors->n * (factors->n + 1); i++) {
    const PmFactor *rows = &factors->items[i % factors->n], *at = &factors->items[i / factors->n % factors->n];
    const int32_t other = i / factors->n / factors->n;
    PmType operands[4], out = f->values[n->out].type;
    for (int32_t k = 0; k < n->n_in; k++) operands[k] = f->values[n->in[k]].type;
    if (!rows->rows || !at->positions || !split_factor(g, n, rows, 0, operands, &out) ||
        !split_factor(g, n, at, 0, operands, &out))
      continue;
    if (other < factors->n && !split_factor(g, n, &factors->items[other], 1, operands, &out)) continue;
    PmAttr attr = n->attr;
    attr.mesh[attr.n_mesh++] = 0;
    run_local(g, &attr, operands, &out, 0, want);
    tally->exchanges++;
  }
}

// Operands through which the rule lets a partial sum pass.
static void check_linear(Gen *g, const PmNode *n, const PmTensor *want, Tally *tally) {
  const PmFn *f = pm_fn(g->p.m, g->p.m->model);
  for (uint64_t may = 1; may < UINT64_C(1) << n->n_in; may++) {
    uint64_t set = pm_shard_linear(n, may, 0);
    assert_true((set & ~may) == 0);
    if (set == 0) continue;
    PmType operands[4], out = f->values[n->out].type;
    bool floats_only = pm_dtype_is_float((PmDtype)out.dtype);
    for (int32_t i = 0; i < n->n_in; i++) {
      operands[i] = f->values[n->in[i]].type;
      if (set >> i & 1) pm_type_add_partial(&operands[i], 1, PM_SUM);
      floats_only &= !(set >> i & 1) || pm_dtype_is_float((PmDtype)operands[i].dtype);
    }
    if (!floats_only) continue;
    run_local(g, &n->attr, operands, &out, set, want);
    tally->partials++;
  }
}

static void check_op(PmOp op) {
  Tally tally = {0};
  bool splittable = false, linear = false;
  for (int32_t round = 0; round < ROUNDS; round++) {
    Gen g;
    gen_init(&g, op, round);
    PmFn *f = pm_fn(g.p.m, g.p.m->model);
    const PmNode *n = &f->nodes[f->n_nodes - 1];
    assert_int_equal(n->op, op);
    pm_b_results(&g.p.b, &(PmValueId){n->out}, 1);
    PmStatus *st = pm_module_verify(g.p.m);
    if (st) fail_msg("%s", pm_status_message(st));
    PmFactors factors = pm_shard_factors(&g.p.arena, f, n);
    check_cover(&g, f, n, &factors);
    for (int32_t i = 0; i < factors.n; i++) splittable |= factors.items[i].kind != PM_FACTOR_WHOLE;
    linear |= n->n_in > 0 && pm_shard_linear(n, (UINT64_C(1) << n->n_in) - 1, 0) != 0;
    PmTensor want = run_whole(&g);
    check_factors(&g, n, &factors, &want, &tally);
    check_exchanges(&g, n, &factors, &want, &tally);
    check_linear(&g, n, &want, &tally);
    plan_deinit(&g.p);
  }
  print_message("%-12s %5d splits, %5d of summed axes, %4d partial operands\n", pm_op_name(op), tally.splits,
                tally.sums, tally.partials);
  assert_true(!splittable || tally.splits > 0);
  assert_true(!linear || tally.partials > 0);
  assert_true(!(pm_op_flags(op) & PM_F_COMM) || tally.exchanges > 0);
}

static void test_every_rule(void **state) {
  (void)state;
  int32_t n = 0;
  for (PmOp op = 0; op < PM_OP_COUNT; op++) {
    if (pm_is_call(&(PmNode){.op = op}) || is_local_only(op)) continue;
    if (!samples[op]) fail_msg("`%s` has no sample: its sharding rule is not tested", pm_op_name(op));
    check_op(op);
    n++;
  }
  assert_true(n > 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_rule)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
