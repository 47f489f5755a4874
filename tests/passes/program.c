#include "program.h"

#include <math.h>
#include <string.h>

#include "base/philox.h"
#include "ir/text.h"

static PmAxisId axis(Program *p, const char *name, int64_t size) {
  return pm_module_axis(p->m, name, size, (PmLoc){0});
}

void program_init(Program *p, uint64_t seed) {
  *p = (Program){.rng = seed};
  pm_arena_init(&p->arena, 0);
  pm_interner_init(&p->names, &p->arena);
  p->m = pm_module_new(&p->arena, &p->names);
  p->i = axis(p, "i", 2);
  p->j = axis(p, "j", 3);
  p->k = axis(p, "k", 4);
  p->k2 = axis(p, "k2", 4);
  p->kp = axis(p, "kp", 2);
  p->kq = axis(p, "kq", 2);
  p->v = axis(p, "v", 5);
  p->r = axis(p, "r", 3);
}

void program_deinit(Program *p) { pm_arena_deinit(&p->arena); }

void program_fn(Program *p, const char *name, PmFnKind kind) {
  p->b = (PmBuilder){p->m, pm_module_add_fn(p->m, name, kind), {0}};
}

static uint32_t bits(Program *p) { return pm_random_u32(7, 0, p->rng++); }
int32_t program_below(Program *p, int32_t n) { return (int32_t)(bits(p) % (uint32_t)n); }
double program_real(Program *p, double lo, double hi) { return lo + (hi - lo) * (double)bits(p) / 4294967296.0; }

PmType program_type(const Program *p, int32_t n, ...) {
  (void)p;
  PmType t = pm_type_scalar(PM_F32);
  va_list ap;
  va_start(ap, n);
  for (int32_t i = 0; i < n; i++) pm_type_add(&t, va_arg(ap, PmAxisId));
  va_end(ap);
  return t;
}

PmType program_index_type(const Program *p, PmAxisId of, PmAxisId over) {
  (void)p;
  PmType t = pm_type_scalar(PM_I32);
  t.index_of = of;
  pm_type_add(&t, over);
  return t;
}

// Random functions ------------------------------------------------------------------------------------------------

enum { MAX_POOL = 128 };

typedef struct Pool {
  Program *p;
  PmBuilder b;
  PmValueId floats[MAX_POOL];
  int32_t n;
  PmValueId index;  // i32<v>[j]
  bool rough;
} Pool;

static PmValueId push(Pool *q, PmValueId v) {
  if (q->n < MAX_POOL) q->floats[q->n++] = v;
  return v;
}

static PmValueId pick(Pool *q) { return q->floats[program_below(q->p, q->n)]; }
static PmType type_of(const Pool *q, PmValueId v) { return *pm_b_type(&q->b, v); }

// Divided by the number of elements that a sum ran over: slopes stay near 1, and differences can follow them.
static PmValueId mean(Pool *q, PmValueId v, const PmAxisId *axes, int32_t n) {
  double size = 1;
  for (int32_t i = 0; i < n; i++) size *= (double)pm_axis_size(q->p->m, axes[i]);
  PmType t = type_of(q, v);
  return pm_b_map2(&q->b, PM_S_mul, v, pm_b_splat(&q->b, 1 / size, &t));
}

// Averages away what `to` lacks, then broadcasts.
static PmValueId adapt(Pool *q, PmValueId v, PmType to) {
  PmType t = type_of(q, v);
  PmAxisId axes[PM_MAX_RANK];
  int32_t n = 0;
  for (int32_t i = 0; i < t.rank; i++) {
    if (pm_type_find(&to, t.dims[i].axis) == PM_NONE) axes[n++] = t.dims[i].axis;
  }
  if (n > 0) v = mean(q, pm_b_reduce(&q->b, PM_SUM, v, axes, n), axes, n);
  return pm_b_broadcast(&q->b, v, to);
}

static void make_map1(Pool *q) {
  static const PmScalar fns[] = {PM_S_tanh, PM_S_sin, PM_S_neg, PM_S_cos};
  PmScalar fn = fns[program_below(q->p, 4)];
  push(q, pm_b_map1(&q->b, fn, pick(q)));
}

static void make_map2(Pool *q) {
  static const PmScalar fns[] = {PM_S_add, PM_S_sub, PM_S_mul};
  PmValueId a = pick(q);
  PmValueId c = adapt(q, pick(q), type_of(q, a));
  push(q, pm_b_map1(&q->b, PM_S_tanh, pm_b_map2(&q->b, fns[program_below(q->p, 3)], a, c)));
}

static void make_dot(Pool *q) {
  PmValueId x = pick(q), y = pick(q);
  PmType tx = type_of(q, x), ty = type_of(q, y);
  PmAxisId axes[PM_MAX_RANK];
  int32_t n = 0, rank = tx.rank;
  for (int32_t i = 0; i < ty.rank; i++) rank += pm_type_find(&tx, ty.dims[i].axis) == PM_NONE;
  for (int32_t i = 0; i < tx.rank; i++) {
    if (pm_type_find(&ty, tx.dims[i].axis) != PM_NONE && program_below(q->p, 3) > 0) axes[n++] = tx.dims[i].axis;
  }
  if (rank - n > 4) return;
  push(q, pm_b_map1(&q->b, PM_S_tanh, mean(q, pm_b_dot(&q->b, x, y, axes, n), axes, n)));
}

static void make_reduce(Pool *q) {
  PmValueId x = pick(q);
  PmType t = type_of(q, x);
  PmAxisId axes[PM_MAX_RANK];
  int32_t n = 0;
  for (int32_t i = 0; i < t.rank; i++) {
    if (program_below(q->p, 2)) axes[n++] = t.dims[i].axis;
  }
  if (n == 0) return;
  PmReduceKind kind = q->rough && program_below(q->p, 2) ? PM_MAX : PM_SUM;
  PmValueId y = pm_b_reduce(&q->b, kind, x, axes, n);
  push(q, pm_b_map1(&q->b, PM_S_sin, kind == PM_SUM ? mean(q, y, axes, n) : y));
}

static void make_broadcast(Pool *q) {
  PmValueId x = pick(q);
  PmType t = type_of(q, x), to = pm_type_scalar(PM_F32);
  PmAxisId more = program_below(q->p, 2) ? q->p->i : q->p->j;
  if (pm_type_find(&t, more) == PM_NONE && t.rank < 4) pm_type_add(&to, more);
  // Backwards: a transpose, which names make legal.
  for (int32_t i = t.rank - 1; i >= 0; i--) pm_type_add(&to, t.dims[i].axis);
  push(q, pm_b_broadcast(&q->b, x, to));
}

static void make_view(Pool *q) {
  Program *p = q->p;
  PmValueId x = pick(q);
  PmType t = type_of(q, x);
  bool k = pm_type_find(&t, p->k) != PM_NONE, k2 = pm_type_find(&t, p->k2) != PM_NONE;
  bool kp = pm_type_find(&t, p->kp) != PM_NONE, kq = pm_type_find(&t, p->kq) != PM_NONE;
  if (k && !k2 && program_below(p, 2)) {
    push(q, pm_b_rename(&q->b, x, &p->k, &p->k2, 1));
  } else if (k && !kp && !kq) {
    push(q, pm_b_split(&q->b, x, p->k, (PmAxisId[]){p->kp, p->kq}, 2));
  } else if (k2 && !k) {
    push(q, pm_b_rename(&q->b, x, &p->k2, &p->k, 1));
  } else if (kp && kq && !k) {
    push(q, pm_b_merge(&q->b, x, (PmAxisId[]){p->kp, p->kq}, 2, p->k));
  }
}

static void make_select(Pool *q) {
  PmValueId x = pick(q);
  PmType t = type_of(q, x);
  if (t.rank == 0) return;
  PmAxisId axis = t.dims[program_below(q->p, t.rank)].axis;
  push(q, pm_b_select(&q->b, x, axis, program_below(q->p, (int32_t)pm_axis_size(q->p->m, axis))));
}

static void make_stack(Pool *q) {
  PmValueId x = pick(q);
  PmType t = type_of(q, x);
  if (pm_type_find(&t, q->p->i) != PM_NONE || t.rank > 3) return;
  PmValueId y = adapt(q, pick(q), t);
  push(q, pm_b_stack(&q->b, (PmValueId[]){x, y}, 2, q->p->i));
}

static void make_where(Pool *q) {
  PmValueId x = pick(q);
  PmType t = type_of(q, x);
  if (t.rank == 0) return;
  PmValueId pos = pm_b_pos(&q->b, t.dims[0].axis);
  PmType line = type_of(q, pos);
  PmValueId mask = pm_b_map2(&q->b, PM_S_ge, pos, pm_b_splat(&q->b, 1.0, &line));
  PmValueId other = adapt(q, pick(q), t);
  push(q, pm_b_map3(&q->b, PM_S_where, pm_b_broadcast(&q->b, mask, t), x, other));
}

static void make_index(Pool *q) {
  Program *p = q->p;
  if (q->index == PM_NONE) return;
  PmValueId x = pick(q);
  PmType t = type_of(q, x);
  if (t.rank > 2 || pm_type_find(&t, p->v) != PM_NONE) return;
  PmType wide = t;
  pm_type_add(&wide, p->v);
  PmValueId table = pm_b_broadcast(&q->b, x, wide);
  PmValueId where = pm_b_broadcast(&q->b, pm_b_cast(&q->b, pm_b_pos(&q->b, p->v), PM_F32), wide);
  table = pm_b_map1(&q->b, PM_S_sin, pm_b_map2(&q->b, PM_S_mul, table, where));
  push(q, pm_b_index(&q->b, table, q->index, p->v));
}

static void make_cast(Pool *q) {
  PmValueId wide = pm_b_cast(&q->b, pick(q), PM_F64);
  push(q, pm_b_cast(&q->b, pm_b_map1(&q->b, PM_S_sin, wide), PM_F32));
}

// What a simplifier should find.
static void make_waste(Pool *q) {
  PmValueId x = pick(q);
  PmType t = type_of(q, x);
  PmValueId y = x;
  switch (program_below(q->p, 9)) {
    case 0:
      y = pm_b_map2(&q->b, PM_S_mul, x, pm_b_splat(&q->b, 1.0, &t));
      break;
    case 1:
      y = pm_b_map2(&q->b, PM_S_add, x, pm_b_splat(&q->b, 0.0, &t));
      break;
    case 2:
      y = pm_b_map2(&q->b, PM_S_sub, x, pm_b_splat(&q->b, 0.0, &t));
      break;
    case 3:
      y = pm_b_map1(&q->b, PM_S_neg, pm_b_map1(&q->b, PM_S_neg, x));
      break;
    case 4:
      y = pm_b_cast(&q->b, pm_b_cast(&q->b, x, PM_F64), PM_F32);
      break;
    case 5:
      y = pm_b_map2(&q->b, PM_S_add, x, pm_b_map1(&q->b, PM_S_neg, adapt(q, pick(q), t)));
      break;
    case 6:
      y = pm_b_map2(&q->b, PM_S_max, x, adapt(q, pick(q), t));
      break;
    case 7:
      y = pm_b_map2(&q->b, PM_S_mul, x, pm_b_splat(&q->b, program_real(q->p, -2, 2), &t));
      break;
    default: {
      PmType two = t;
      two.dtype = PM_F64;
      PmValueId one = pm_b_splat(&q->b, 1.0, &two), three = pm_b_splat(&q->b, 3.0, &two);
      PmValueId c = pm_b_map2(&q->b, PM_S_div, one, three);
      y = pm_b_map2(&q->b, PM_S_mul, x, pm_b_cast(&q->b, c, PM_F32));
    }
  }
  push(q, y);
}

static PmValueId one_to_one(Pool *q, PmOp op, PmAxisId from, PmAxisId to, PmValueId x) {
  PmAttr a = {.n_axes = 1, .n_to = 1, .axes = {from}, .to = {to}};
  return pm_b_node(&q->b, op, &a, &x, 1, NULL);
}

// Scores on one of x's axes choose two experts each; rows go to their slots, of which there are few, and back.
static void make_routing(Pool *q) {
  Program *p = q->p;
  PmValueId x = pick(q);
  PmType t = type_of(q, x);
  PmAxisId choice = pm_module_axis(p->m, pm_intern(&p->names, "choice"), 2, (PmLoc){0});
  if (t.rank == 0 || t.rank > 3 || pm_type_find(&t, choice) != PM_NONE) return;
  PmAxisId expert = t.dims[program_below(p, t.rank)].axis;
  int64_t n = pm_axis_size(p->m, expert);
  PmAxisId slots = pm_module_local_axis(p->m, pm_intern(&p->names, "slots"), n * (1 + program_below(p, 3)));
  PmType row = pm_type_scalar(PM_F32);
  for (int32_t i = 0; i < t.rank; i++) {
    if (t.dims[i].axis != expert) pm_type_add(&row, t.dims[i].axis);
  }
  const PmAxisId all[] = {p->i, p->j, p->k};
  PmAxisId rest = all[program_below(p, 3)];
  bool has_rest = pm_type_find(&t, rest) == PM_NONE;
  if (has_rest) pm_type_add(&row, rest);
  PmValueId who = one_to_one(q, PM_OP_topk, expert, choice, x);
  PmValueId slot = one_to_one(q, PM_OP_slot_of, expert, slots, who);
  PmType rows = row, h = pm_type_scalar(PM_F32);
  pm_type_add(&rows, choice);
  pm_type_add(&h, slots);
  if (has_rest) pm_type_add(&h, rest);
  PmValueId sent = pm_b_broadcast(&q->b, adapt(q, pick(q), row), rows);
  PmValueId done = pm_b_map1(&q->b, PM_S_sin, pm_b_scatter_add(&q->b, slot, sent, slots, h));
  PmValueId weight = pm_b_broadcast(&q->b, pm_b_index(&q->b, x, who, expert), rows);
  PmValueId back = pm_b_broadcast(&q->b, pm_b_index(&q->b, done, slot, slots), rows);
  push(q, adapt(q, pm_b_map1(&q->b, PM_S_tanh, pm_b_map2(&q->b, PM_S_mul, back, weight)), row));
}

static PmFnId random_fn(Program *p, const char *name, PmFnKind kind, const PmType *params, int32_t n_params,
                        int32_t n_fixed, int32_t n_nodes, int32_t depth, bool rough);

static PmType random_type(Program *p) {
  PmType t = pm_type_scalar(PM_F32);
  const PmAxisId all[] = {p->i, p->j, p->k};
  int32_t first = program_below(p, 3);
  for (int32_t n = 0; n < 3; n++) {
    if (program_below(p, 3) > 0) pm_type_add(&t, all[(first + n) % 3]);
  }
  return t;
}

static void make_call(Pool *q, int32_t depth, int32_t n_nodes) {
  PmType types[2];
  PmValueId in[2];
  for (int32_t i = 0; i < 2; i++) types[i] = random_type(q->p);
  PmFnId fn = random_fn(q->p, "callee", PM_FN_COMPOSITE, types, 2, 0, n_nodes, depth, q->rough);
  for (int32_t i = 0; i < 2; i++) in[i] = adapt(q, pick(q), types[i]);
  for (int32_t twice = 0; twice < 2; twice++) {
    PmValueId out = pm_b_call(&q->b, fn, in, 2);
    for (int32_t i = 0; i < pm_fn(q->p->m, fn)->n_results; i++) push(q, out + i);
    in[0] = adapt(q, pick(q), types[0]);
  }
}

// (two carried, one invariant, one stacked) -> (two carried, the rest produced)
static void make_repeat(Pool *q, int32_t depth, int32_t n_nodes) {
  Program *p = q->p;
  PmType types[4];
  for (int32_t i = 0; i < 4; i++) types[i] = random_type(p);
  PmFnId fn = random_fn(p, "body", PM_FN_BODY, types, 4, 2, n_nodes, depth, q->rough);
  PmValueId in[4];
  for (int32_t i = 0; i < 3; i++) in[i] = adapt(q, pick(q), types[i]);
  PmType stacked = pm_type_scalar(PM_F32);
  pm_type_add(&stacked, p->r);
  for (int32_t i = 0; i < types[3].rank; i++) pm_type_add(&stacked, types[3].dims[i].axis);
  PmValueId where = pm_b_broadcast(&q->b, pm_b_cast(&q->b, pm_b_pos(&q->b, p->r), PM_F32), stacked);
  in[3] = pm_b_map1(&q->b, PM_S_sin, pm_b_map2(&q->b, PM_S_add, adapt(q, pick(q), stacked), where));
  PmValueId out = pm_b_repeat(&q->b, fn, p->r, 2, 1, program_below(p, 2) > 0, in, 4);
  int32_t n_results = pm_fn(p->m, fn)->n_results;
  for (int32_t i = 0; i < n_results; i++) {
    PmType t = type_of(q, out + i);
    push(q, t.rank <= 4 ? out + i : adapt(q, out + i, random_type(p)));
  }
}

static void make_node(Pool *q, int32_t depth, int32_t n_nodes) {
  static void (*const makers[])(Pool *) = {make_map1, make_map2,   make_dot,   make_reduce, make_broadcast,
                                           make_view, make_select, make_stack, make_where,  make_index,
                                           make_cast, make_map2,   make_map2,  make_view};
  int32_t n = sizeof makers / sizeof makers[0];
  int32_t at = program_below(q->p, n + (depth > 0 ? 3 : 0) + (q->rough ? 8 : 0));
  if (at < n) {
    makers[at](q);
  } else if (depth > 0 && at == n) {
    make_call(q, depth - 1, n_nodes / 2);
  } else if (depth > 0 && at <= n + 2) {
    make_repeat(q, depth - 1, n_nodes / 2);
  } else if (program_below(q->p, 4) == 0) {
    make_routing(q);
  } else {
    make_waste(q);
  }
}

// The first n_fixed results have the types of the first parameters; two or three others follow.
static PmFnId random_fn(Program *p, const char *name, PmFnKind kind, const PmType *params, int32_t n_params,
                        int32_t n_fixed, int32_t n_nodes, int32_t depth, bool rough) {
  Pool q = {.p = p, .b = {p->m, pm_module_add_fn(p->m, name, kind), {0}}, .index = PM_NONE, .rough = rough};
  for (int32_t i = 0; i < n_params; i++) {
    PmValueId v = pm_b_param(&q.b, params[i], pm_intern_printf(&p->names, "p%d", i));
    if (pm_dtype_is_float((PmDtype)params[i].dtype)) {
      push(&q, v);
    } else {
      q.index = v;
    }
  }
  for (int32_t i = 0; i < n_nodes; i++) make_node(&q, depth, n_nodes);
  PmValueId results[8];
  int32_t n = 0;
  for (; n < n_fixed; n++) results[n] = program_below(p, 5) ? adapt(&q, pick(&q), params[n]) : n;
  int32_t more = 2 + program_below(p, 2);
  for (int32_t i = 0; i < more; i++) {
    PmValueId v = q.floats[q.n - 1 - program_below(p, q.n < 6 ? q.n : 6)];
    PmType t = type_of(&q, v);
    results[n++] = pm_type_find(&t, p->r) == PM_NONE && t.rank <= 3 ? v : adapt(&q, v, random_type(p));
  }
  pm_b_results(&q.b, results, n);
  return q.b.fn;
}

PmFnId program_random_fn(Program *p, int32_t n_nodes, int32_t depth, bool rough) {
  const PmType params[] = {program_type(p, 2, p->i, p->j), program_type(p, 2, p->j, p->k), program_type(p, 1, p->k),
                           program_index_type(p, p->v, p->j), program_type(p, 0)};
  return random_fn(p, "main", PM_FN_BODY, params, 5, 0, n_nodes, depth, rough);
}

// Runs --------------------------------------------------------------------------------------------------------------

PmTensor *program_inputs(Program *p, PmFnId fn, double lo, double hi) {
  const PmFn *f = pm_fn(p->m, fn);
  PmTensor *in = PM_NEW_N(&p->arena, PmTensor, f->n_params);
  for (int32_t i = 0; i < f->n_params; i++) {
    const PmType *t = &f->values[i].type;
    in[i] = pm_tensor_new(&p->arena, p->m, t);
    for (int64_t e = 0; e < in[i].n; e++) {
      in[i].data[e] = t->index_of != PM_NONE ? program_below(p, (int32_t)pm_axis_size(p->m, t->index_of))
                      : t->dtype == PM_BOOL  ? program_below(p, 2)
                                             : (double)(float)program_real(p, lo, hi);
    }
  }
  return in;
}

PmTensor *program_run(Program *p, PmFnId fn, PmInterpMode mode, const PmTensor *in) {
  PmTensor *out = PM_NEW_N(&p->arena, PmTensor, pm_fn(p->m, fn)->n_results + 1);
  PmStatus *st = pm_interp_run(p->m, fn, mode, &p->arena, in, out);
  if (st) pm_status_print(st, stderr);
  assert_null(st);
  return out;
}

void program_verify(const Program *p) {
  PmStatus *st = pm_module_verify(p->m);
  if (st) pm_status_print(st, stderr);
  assert_null(st);
  PmArena arena;
  PmInterner names;
  PmBuf first, second;
  pm_arena_init(&arena, 0);
  pm_interner_init(&names, &arena);
  pm_buf_init(&first);
  pm_buf_init(&second);
  pm_module_print(p->m, &first);
  PmModule *again;
  st = pm_module_read(&arena, &names, "test.pir", pm_buf_str(&first), first.len, &again);
  if (st) pm_status_print(st, stderr);
  assert_null(st);
  pm_module_print(again, &second);
  assert_string_equal(pm_buf_str(&first), pm_buf_str(&second));
  pm_buf_deinit(&first);
  pm_buf_deinit(&second);
  pm_arena_deinit(&arena);
}

PmTensor *program_cotangents(Program *p, PmFnId fn) {
  const PmFn *f = pm_fn(p->m, fn);
  PmTensor *cot = PM_NEW_N(&p->arena, PmTensor, f->n_results);
  for (int32_t i = 0; i < f->n_results; i++) {
    cot[i] = pm_tensor_new(&p->arena, p->m, &f->values[f->results[i]].type);
    for (int64_t e = 0; e < cot[i].n; e++) cot[i].data[e] = program_real(p, -1, 1);
  }
  return cot;
}

PmTensor *program_gradients(Program *p, const PmGradPair *pair, const PmTensor *in, const PmTensor *cot) {
  const PmFn *f = pm_fn(p->m, pair->use.fn);
  PmTensor *fwd = program_run(p, pair->fwd, PM_INTERP_F64, in);
  PmTensor *args = PM_NEW_N(&p->arena, PmTensor, pair->n_args + 1);
  for (int32_t i = 0; i < pair->n_args; i++) {
    const PmGradArg *a = &pair->args[i];
    args[i] = a->kind == PM_ARG_PARAM ? in[a->index] : a->kind == PM_ARG_RESULT ? fwd[a->index] : cot[a->index];
  }
  PmTensor *got = program_run(p, pair->bwd, PM_INTERP_F64, args);
  PmTensor *grads = PM_NEW_N(&p->arena, PmTensor, f->n_params);
  for (int32_t i = 0; i < f->n_params; i++) grads[i] = pm_tensor_new(&p->arena, p->m, &f->values[i].type);
  for (int32_t i = 0; i < pair->n_grads; i++) {
    assert_true(pm_type_equal(&got[i].type, &grads[pair->grads[i]].type));
    grads[pair->grads[i]] = got[i];
  }
  return grads;
}

static double loss(Program *p, PmFnId fn, const PmTensor *in, const PmTensor *cot) {
  PmArena arena = p->arena, scratch;
  pm_arena_init(&scratch, 0);
  p->arena = scratch;
  const PmTensor *out = program_run(p, fn, PM_INTERP_F64, in);
  double sum = 0;
  for (int32_t i = 0; i < pm_fn(p->m, fn)->n_results; i++) {
    if (!pm_dtype_is_float((PmDtype)out[i].type.dtype)) continue;
    for (int64_t e = 0; e < out[i].n; e++) sum += out[i].data[e] * cot[i].data[e];
  }
  pm_arena_deinit(&p->arena);
  p->arena = arena;
  return sum;
}

// Fourth order: the error is h^4 of the fifth derivative, and rounding / h.
static double difference(Program *p, PmFnId fn, const PmTensor *in, const PmTensor *cot, double *x) {
  const double h = 2e-4, at = *x;
  double f[4];
  for (int32_t i = 0; i < 4; i++) {
    *x = at + h * (double[]){-2, -1, 1, 2}[i];
    f[i] = loss(p, fn, in, cot);
  }
  *x = at;
  return (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * h);
}

void program_check_gradients(Program *p, PmFnId fn, bool use_declared, double lo, double hi, double tol) {
  const PmFn *f = pm_fn(p->m, fn);
  int32_t n_params = f->n_params;
  bool *active = PM_NEW_N(&p->arena, bool, n_params);
  for (int32_t i = 0; i < n_params; i++) active[i] = pm_dtype_is_float((PmDtype)f->values[i].type.dtype);
  const PmGradPair *pair;
  PmStatus *st = pm_differentiate_fn(p->m, &p->arena, fn, active, use_declared, &pair);
  if (st) pm_status_print(st, stderr);
  assert_null(st);
  program_verify(p);
  PmTensor *in = program_inputs(p, fn, lo, hi);
  PmTensor *cot = program_cotangents(p, fn);
  const PmTensor *grads = program_gradients(p, pair, in, cot);
  for (int32_t i = 0; i < n_params; i++) {
    if (!active[i]) continue;
    double error = 0, largest = 1e-3;
    for (int64_t e = 0; e < in[i].n; e++) {
      double want = difference(p, fn, in, cot, &in[i].data[e]);
      error = fmax(error, fabs(want - grads[i].data[e]));
      largest = fmax(largest, fabs(want));
      if (isnan(want) || isnan(grads[i].data[e])) fail_msg("parameter %d: not a number", i);
    }
    if (!(error <= tol * largest)) fail_msg("parameter %d: error %g of %g", i, error, largest);
  }
}
