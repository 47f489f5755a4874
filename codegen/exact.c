// Exact numbers: values of constants and positions alone. They are doubles in the IR and cost nothing at run time:
//   - what is the same everywhere is folded;
//   - whole numbers that i32 and f32 hold are computed where they are used, in i32;
//   - all else ends at an edge (a cast, a comparison), which a table holds, computed in double at setup.
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/half.h"
#include "codegen/fuse.h"

#define WHOLE_MAX 16777216.0  // 2^24

static double round_to(PmKDtype d, double v) {
  switch (d) {
    case PM_K_BOOL:
      return v != 0;
    case PM_K_I32:
      return v != v ? 0 : trunc(fmin(fmax(v, INT32_MIN), INT32_MAX));
    case PM_K_F32:
      return (double)(float)v;
    case PM_K_BF16:
      return (double)pm_bf16_round(v);
    case PM_K_F16:
      return (double)pm_f16_round(v);
    default:
      return v;
  }
}

static bool moves_only(PmOp op) {
  return op == PM_OP_broadcast || op == PM_OP_rename || op == PM_OP_split || op == PM_OP_select;
}

static void fold(const PmCgRegion *r, const PmCgNode *n, PmCgInfo *out) {
  const PmKDtype d = (PmKDtype)r->values[n->out].dtype;
  double a[3] = {0};
  if (n->op == PM_OP_const) {
    out->is_const = true;
    out->number = round_to(d, n->number);
    return;
  }
  if (n->op != PM_OP_map && n->op != PM_OP_cast && !moves_only(n->op) && n->op != PM_OP_merge && n->op != PM_OP_slice)
    return;
  for (int32_t i = 0; i < n->n_in; i++) {
    if (!r->info[n->in[i]].is_const) return;
    a[i] = r->info[n->in[i]].number;
  }
  out->is_const = true;
  out->number = round_to(d, n->op == PM_OP_map ? pm_scalar_eval(n->fn, a[0], a[1], a[2]) : a[0]);
}

static void set_range(PmCgInfo *out, double lo, double hi) {
  out->lo = lo;
  out->hi = hi;
  out->is_int = lo > -WHOLE_MAX && hi < WHOLE_MAX;
}

static void range_of_map(const PmCgRegion *r, const PmCgNode *n, PmCgInfo *out) {
  const PmCgInfo *a = &r->info[n->in[0]], *b = n->n_in > 1 ? &r->info[n->in[1]] : a;
  if (!a->is_int || !b->is_int) return;
  const double p[] = {a->lo * b->lo, a->lo * b->hi, a->hi * b->lo, a->hi * b->hi};
  switch (n->fn) {
    case PM_S_add:
      set_range(out, a->lo + b->lo, a->hi + b->hi);
      break;
    case PM_S_sub:
      set_range(out, a->lo - b->hi, a->hi - b->lo);
      break;
    case PM_S_neg:
      set_range(out, -a->hi, -a->lo);
      break;
    case PM_S_mul:
      set_range(out, fmin(fmin(p[0], p[1]), fmin(p[2], p[3])), fmax(fmax(p[0], p[1]), fmax(p[2], p[3])));
      break;
    case PM_S_min:
      set_range(out, fmin(a->lo, b->lo), fmin(a->hi, b->hi));
      break;
    case PM_S_max:
      set_range(out, fmax(a->lo, b->lo), fmax(a->hi, b->hi));
      break;
    default:
      break;
  }
}

// Long expressions are cut by storing a value: walks over them stay shallow, and kernels short.
static void find_depth(PmCgRegion *r, const PmCgNode *n, PmCgInfo *out) {
  enum { MAX_DEPTH = 96 };
  if (out->is_const || pm_cg_has_step(r, n->out)) return;
  for (int32_t i = 0; i < n->n_in; i++)
    if (r->info[n->in[i]].depth > out->depth) out->depth = r->info[n->in[i]].depth;
  out->depth += 1 + pm_cg_node_cost(n) / 4;
  if (out->depth <= MAX_DEPTH) return;
  out->depth = 0;
  out->stored = true;
}

static void examine(const PmCg *cg, PmCgRegion *r, const PmCgNode *n) {
  PmCgInfo *out = &r->info[n->out];
  const PmCgValue *v = &r->values[n->out];
  fold(r, n, out);
  find_depth(r, n, out);
  if (v->dtype != PM_K_F64 && v->dtype != PM_K_BOOL) return;
  if (n->op != PM_OP_const && n->op != PM_OP_pos && n->op != PM_OP_map && !moves_only(n->op)) return;
  out->exact = !out->stored;
  out->has_pos = n->op == PM_OP_pos;
  for (int32_t i = 0; i < n->n_in; i++) {
    out->exact = out->exact && r->info[n->in[i]].exact;
    out->has_pos = out->has_pos || r->info[n->in[i]].has_pos;
  }
  if (!out->exact || v->dtype != PM_K_F64) return;
  if (n->op == PM_OP_pos)
    set_range(out, 0, (double)pm_axis_size(cg->m, n->axes[0]) - 1);
  else if (out->is_const && floor(out->number) == out->number)
    set_range(out, out->number, out->number);
  else if (n->op == PM_OP_map)
    range_of_map(r, n, out);
  else if (n->n_in == 1 && r->info[n->in[0]].is_int)
    set_range(out, r->info[n->in[0]].lo, r->info[n->in[0]].hi);
}

void pm_cg_exact(PmCg *cg, PmCgRegion *r) {
  for (int32_t i = 0; i < r->n_nodes; i++) examine(cg, r, &r->nodes[i]);
}

bool pm_cg_is_table(const PmCgRegion *r, PmCgId v) {
  const PmCgNode *n = pm_cg_def(r, v);
  const PmCgInfo *info = &r->info[v];
  if (!n || info->is_const || r->values[v].dtype == PM_K_F64) return false;
  if (n->op != PM_OP_cast && !(n->op == PM_OP_map && info->exact)) return false;
  bool pos = false, whole = true, f64 = false;
  for (int32_t i = 0; i < n->n_in; i++) {
    const PmCgInfo *a = &r->info[n->in[i]];
    if (!a->exact) return false;
    f64 = f64 || r->values[n->in[i]].dtype == PM_K_F64;
    pos = pos || a->has_pos;
    whole = whole && (a->is_int || r->values[n->in[i]].dtype == PM_K_BOOL);
  }
  return f64 && pos && !whole;
}
