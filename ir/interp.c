#include "ir/interp.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/philox.h"
#include "ir/interp_ops.h"

#define MAX_LIVE_BYTES (INT64_C(4) << 30)

static PmType tensor_type(const PmModule *m, const PmType *type) {
  PmType t = *type;
  if (m->stage != PM_STAGE_LOCAL) pm_type_clear_placement(&t);
  return t;
}

static int64_t stage_ranks(const PmModule *m) { return m->stage == PM_STAGE_LOCAL ? pm_mesh_ranks(m) : 1; }

PmTensor pm_tensor_new(PmArena *arena, const PmModule *m, const PmType *type) {
  PmTensor t = {.type = tensor_type(m, type), .ranks = stage_ranks(m)};
  t.n = pm_type_local_elements(m, &t.type);
  int64_t all;
  if (!pm_mul_i64(t.n, t.ranks, &all)) pm_memory_exhausted(SIZE_MAX, arena->limit);
  t.data = PM_NEW_N(arena, double, all);
  return t;
}

void pm_var_init(const PmModule *m, PmVarId id, uint64_t seed, double *out_global) {
  const PmVar *v = &m->vars[id];
  const PmVarId master = pm_var_master(m, id);
  uint64_t key = pm_random_key(seed, v->master ? m->vars[v->owner].path : v->path);
  int64_t n;
  bool ok = pm_type_elements(m, &v->type, &n);
  PM_ASSERT(ok, "variable %s has too many elements", v->path);
  for (int64_t i = 0; i < n; i++) {
    double x = 0;
    if (v->init == PM_INIT_CONST) x = v->init_value;
    if (v->init == PM_INIT_NORMAL) x = v->init_value * (double)pm_random_normal(key, 0, (uint64_t)i);
    if (v->init == PM_INIT_UNIFORM) x = v->init_value * (2 * pm_random_uniform(key, 0, (uint64_t)i) - 1);
    out_global[i] = x;
  }
  if (master != PM_NONE) pm_interp_round(PM_INTERP_EXACT, (PmDtype)m->vars[master].type.dtype, out_global, n);
  pm_interp_round(PM_INTERP_EXACT, (PmDtype)v->type.dtype, out_global, n);
}

PmStatus *pm_interp_alloc(PmInterp *ip, const PmType *type, PmTensor *out) {
  *out = (PmTensor){.type = tensor_type(ip->m, type), .ranks = ip->ranks};
  out->n = pm_type_local_elements(ip->m, &out->type);
  int64_t bytes;
  bool ok = pm_mul_i64(out->n, ip->ranks, &bytes) && pm_mul_i64(bytes, (int64_t)sizeof(double), &bytes) &&
            bytes <= MAX_LIVE_BYTES - ip->live_bytes;
  if (ok) out->data = calloc((size_t)bytes, 1);
  if (!out->data) return PM_STATUS(PM_ERR_LIMIT, "the reference interpreter needs more than 4 GiB");
  ip->live_bytes += bytes;
  return NULL;
}

void pm_interp_free(PmInterp *ip, PmTensor *t) {
  if (!t->data) return;
  ip->live_bytes -= t->n * t->ranks * (int64_t)sizeof(double);
  free(t->data);
  t->data = NULL;
}

// To nearest even with `bits` significant bits, subnormals below 2^min_exp; beyond `max` infinite.
static double round_bits(double v, int bits, int min_exp, double max) {
  int e;
  if (v == 0 || !isfinite(v)) return v;
  frexp(v, &e);
  if (e - 1 < min_exp) e = min_exp + 1;
  double unit = ldexp(1, e - bits);
  double r = nearbyint(v / unit) * unit;
  return fabs(r) > max ? copysign(HUGE_VAL, v) : r;
}

static double round_i32(double v) {
  if (v != v) return 0;
  return v >= INT32_MAX ? INT32_MAX : v <= INT32_MIN ? INT32_MIN : trunc(v);
}

void pm_interp_round(PmInterpMode mode, PmDtype dtype, double *data, int64_t n) {
  if (dtype == PM_F64 || (mode == PM_INTERP_F64 && pm_dtype_is_float(dtype))) return;
  for (int64_t i = 0; i < n; i++) {
    double v = data[i];
    if (dtype == PM_F32) {
      data[i] = (double)(float)v;
    } else if (dtype == PM_BF16) {
      data[i] = round_bits(v, 8, -126, 0x1.fep127);
    } else if (dtype == PM_F16) {
      data[i] = round_bits(v, 11, -14, 65504);
    } else if (dtype == PM_I32) {
      data[i] = round_i32(v);
    } else {
      data[i] = v != 0;
    }
  }
}

// The tensors of one call.
typedef struct Frame {
  const PmFn *f;
  PmArena scratch;
  PmTensor *vals;
  bool *owned;        // parameters are the caller's
  int32_t *last_use;  // by value: the last node that reads it, n_nodes for results
} Frame;

static void frame_init(Frame *fr, const PmFn *f, const PmTensor *const *args) {
  *fr = (Frame){.f = f};
  pm_arena_init(&fr->scratch, 0);
  fr->vals = PM_NEW_N(&fr->scratch, PmTensor, f->n_values);
  fr->owned = PM_NEW_N(&fr->scratch, bool, f->n_values);
  fr->last_use = PM_NEW_N(&fr->scratch, int32_t, f->n_values);
  for (int32_t i = 0; i < f->n_params; i++) fr->vals[i] = *args[i];
  for (int32_t i = 0; i < f->n_nodes; i++) {
    const PmNode *node = &f->nodes[i];
    for (int32_t k = 0; k < node->n_out; k++) fr->last_use[node->out + k] = i;
    for (int32_t k = 0; k < node->n_in; k++) fr->last_use[node->in[k]] = i;
  }
  for (int32_t i = 0; i < f->n_results; i++) fr->last_use[f->results[i]] = f->n_nodes;
}

static void drop_value(PmInterp *ip, Frame *fr, PmValueId v) {
  if (fr->owned[v]) pm_interp_free(ip, &fr->vals[v]);
  fr->owned[v] = false;
}

static void frame_deinit(PmInterp *ip, Frame *fr) {
  for (int32_t i = 0; i < fr->f->n_values; i++) drop_value(ip, fr, i);
  pm_arena_deinit(&fr->scratch);
}

static PmStatus *run_node(PmInterp *ip, Frame *fr, int32_t at) {
  static PmStatus *(*const evals[])(PmEval *) = {
#define OP(name, n_in, n_out, flags) [PM_OP_##name] =
#define EVAL(fn) pm_eval_##fn,
#include "ir/ops.def"
  };
  const PmNode *node = &fr->f->nodes[at];
  const PmTensor **in = PM_NEW_N(&fr->scratch, const PmTensor *, node->n_in);
  PmTensor *out = &fr->vals[node->out];
  bool calls = pm_op_flags(node->op) & PM_F_CALL;
  for (int32_t i = 0; i < node->n_in; i++) in[i] = &fr->vals[node->in[i]];
  for (int32_t i = 0; i < node->n_out; i++) {
    const PmType *type = &fr->f->values[node->out + i].type;
    out[i].type = *type;
    if (!calls) PM_TRY(pm_interp_alloc(ip, type, &out[i]));
    fr->owned[node->out + i] = true;
  }
  PM_TRY(evals[node->op](&(PmEval){.ip = ip, .node = node, .in = in, .out = out}));
  for (int32_t i = 0; i < node->n_out && !calls; i++) {
    pm_interp_round(ip->mode, (PmDtype)out[i].type.dtype, out[i].data, out[i].n * out[i].ranks);
  }
  for (int32_t i = 0; i < node->n_in; i++) {
    if (fr->last_use[node->in[i]] == at) drop_value(ip, fr, node->in[i]);
  }
  for (int32_t i = 0; i < node->n_out; i++) {
    if (fr->last_use[node->out + i] == at) drop_value(ip, fr, node->out + i);
  }
  return NULL;
}

static PmStatus *copy_tensor(PmInterp *ip, const PmTensor *from, PmTensor *out) {
  PM_TRY(pm_interp_alloc(ip, &from->type, out));
  memcpy(out->data, from->data, (size_t)(from->n * from->ranks) * sizeof *from->data);
  return NULL;
}

// Results belong to the caller; after a failure there are none.
static PmStatus *run_fn(PmInterp *ip, PmFnId id, const PmTensor *const *args, PmTensor *out) {
  const PmFn *f = pm_fn(ip->m, id);
  PmStatus *st = NULL;
  Frame fr;
  if (ip->nesting >= PM_MAX_NESTING) return PM_STATUS(PM_ERR_LIMIT, "%s: calls nest too deep", f->name);
  ip->nesting++;
  frame_init(&fr, f, args);
  for (int32_t i = 0; i < f->n_results; i++) out[i].data = NULL;
  for (int32_t i = 0; i < f->n_nodes; i++) PM_TRY_CLEAN(st, run_node(ip, &fr, i), done);
  for (int32_t i = 0; i < f->n_results; i++) {
    PmValueId v = f->results[i];
    if (fr.owned[v]) {
      out[i] = fr.vals[v];
      fr.owned[v] = false;
    } else {
      PM_TRY_CLEAN(st, copy_tensor(ip, &fr.vals[v], &out[i]), done);
    }
  }
done:
  for (int32_t i = 0; st && i < f->n_results; i++) pm_interp_free(ip, &out[i]);
  frame_deinit(ip, &fr);
  ip->nesting--;
  return st;
}

PmStatus *pm_eval_call(PmEval *e) { return run_fn(e->ip, e->node->attr.callee, e->in, e->out); }

typedef struct Repeat {
  PmArena scratch;
  const PmTensor **args;
  PmTensor *slices;  // by operand: one turn's part of a stacked operand
  PmTensor *carry;   // by carried value, after the first turn
  PmTensor *res;     // of one turn
} Repeat;

// Copies element `at` of the repeat axis, the first dim of `whole`.
static void copy_turn(const PmTensor *whole, PmTensor *part, int64_t at, bool into_part) {
  size_t bytes = (size_t)part->n * sizeof *part->data;
  for (int64_t r = 0; r < part->ranks; r++) {
    double *w = pm_rank_data(whole, r) + at * part->n;
    memcpy(into_part ? pm_rank_data(part, r) : w, into_part ? w : pm_rank_data(part, r), bytes);
  }
}

static PmStatus *run_turn(PmEval *e, Repeat *rp, int64_t at) {
  const PmAttr *a = &e->node->attr;
  for (int32_t i = a->n_carry + a->n_inv; i < e->node->n_in; i++) copy_turn(e->in[i], &rp->slices[i], at, true);
  PM_TRY(run_fn(e->ip, a->callee, rp->args, rp->res));
  for (int32_t i = 0; i < e->node->n_out; i++) {
    if (i < a->n_carry) {
      pm_interp_free(e->ip, &rp->carry[i]);
      rp->carry[i] = rp->res[i];
      rp->args[i] = &rp->carry[i];
    } else {
      copy_turn(&e->out[i], &rp->res[i], at, false);
      pm_interp_free(e->ip, &rp->res[i]);
    }
  }
  return NULL;
}

PmStatus *pm_eval_repeat(PmEval *e) {
  const PmAttr *a = &e->node->attr;
  const PmFn *callee = pm_fn(e->ip->m, a->callee);
  int64_t turns = pm_axis_size(e->ip->m, a->axes[0]);
  PmStatus *st = NULL;
  Repeat rp = {0};
  pm_arena_init(&rp.scratch, 0);
  rp.args = PM_NEW_N(&rp.scratch, const PmTensor *, e->node->n_in);
  rp.slices = PM_NEW_N(&rp.scratch, PmTensor, e->node->n_in);
  rp.carry = PM_NEW_N(&rp.scratch, PmTensor, a->n_carry);
  rp.res = PM_NEW_N(&rp.scratch, PmTensor, e->node->n_out);
  for (int32_t i = 0; i < e->node->n_in; i++) {
    rp.args[i] = e->in[i];
    if (i < a->n_carry + a->n_inv) continue;
    PM_TRY_CLEAN(st, pm_interp_alloc(e->ip, &callee->values[i].type, &rp.slices[i]), done);
    rp.args[i] = &rp.slices[i];
  }
  for (int32_t i = a->n_carry; i < e->node->n_out; i++) {
    PmType type = e->out[i].type;
    PM_TRY_CLEAN(st, pm_interp_alloc(e->ip, &type, &e->out[i]), done);
  }
  for (int64_t t = 0; t < turns; t++) PM_TRY_CLEAN(st, run_turn(e, &rp, a->reverse ? turns - 1 - t : t), done);
  for (int32_t i = 0; i < a->n_carry; i++) {
    e->out[i] = rp.carry[i];
    rp.carry[i].data = NULL;
  }
done:
  for (int32_t i = 0; i < e->node->n_in; i++) pm_interp_free(e->ip, &rp.slices[i]);
  for (int32_t i = 0; i < a->n_carry; i++) pm_interp_free(e->ip, &rp.carry[i]);
  pm_arena_deinit(&rp.scratch);
  return st;
}

PmStatus *pm_interp_run(const PmModule *m, PmFnId fn, PmInterpMode mode, PmArena *arena, const PmTensor *in,
                        PmTensor *out) {
  const PmFn *f = pm_fn(m, fn);
  PmInterp ip = {.m = m, .mode = mode, .ranks = stage_ranks(m)};
  PmArena scratch;
  pm_arena_init(&scratch, 0);
  const PmTensor **args = PM_NEW_N(&scratch, const PmTensor *, f->n_params);
  PmTensor *results = PM_NEW_N(&scratch, PmTensor, f->n_results);
  PmStatus *st = NULL;
  for (int32_t i = 0; !st && i < f->n_params; i++) {
    PmType want = tensor_type(m, &f->values[i].type);
    args[i] = &in[i];
    if (in[i].ranks != ip.ranks || in[i].n != pm_type_local_elements(m, &want)) {
      st = PM_STATUS(PM_ERR_INTERNAL, "%s: argument %d has another number of elements than the parameter", f->name, i);
    }
  }
  if (!st) st = run_fn(&ip, fn, args, results);
  for (int32_t i = 0; !st && i < f->n_results; i++) {
    out[i] = pm_tensor_new(arena, m, &f->values[f->results[i]].type);
    memcpy(out[i].data, results[i].data, (size_t)(out[i].n * out[i].ranks) * sizeof *out[i].data);
    pm_interp_free(&ip, &results[i]);
  }
  pm_arena_deinit(&scratch);
  return st;
}
