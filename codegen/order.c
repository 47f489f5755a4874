// Physical orders and views. A stored value has its dims in some physical order, contiguous; rename, split, select, a
// transpose, and a merge of neighbours are views of what their operand is stored in.
#include <string.h>

#include "codegen/region.h"

void pm_cg_canonical(const PmCgValue *v, const int8_t *order, int64_t *out_stride) {
  int64_t s = 1;
  for (int32_t i = v->rank - 1; i >= 0; i--) {
    out_stride[order[i]] = s;
    s *= v->dims[order[i]].extent;
  }
}

bool pm_cg_view_contiguous(const PmCgValue *v, const PmCgView *view) {
  int64_t s = 1;
  for (int32_t i = v->rank - 1; i >= 0; i--) {
    if (v->dims[i].extent > 1 && view->stride[i] != s) return false;
    s *= v->dims[i].extent;
  }
  return true;
}

static void identity(int8_t *order, int32_t rank) {
  for (int32_t i = 0; i < rank; i++) order[i] = (int8_t)i;
}

// Orders as lists of axes, outermost first.
static int32_t to_axes(const PmCgRegion *r, PmCgId v, int32_t *out) {
  const PmCgValue *x = &r->values[v];
  for (int32_t i = 0; i < x->rank; i++) out[i] = x->dims[r->info[v].order[i]].axis;
  return x->rank;
}

// False when `axes` isn't an order of v's dims.
static bool from_axes(const PmCgValue *v, const int32_t *axes, int32_t n, int8_t *out) {
  if (n != v->rank) return false;
  for (int32_t i = 0; i < n; i++) {
    const int32_t at = pm_cg_find_axis(v, axes[i]);
    if (at == PM_NONE) return false;
    out[i] = (int8_t)at;
  }
  return true;
}

static void drop(int32_t *axes, int32_t *n, int32_t at) {
  memmove(&axes[at], &axes[at + 1], (size_t)(*n - at - 1) * sizeof *axes);
  (*n)--;
}

static void insert(int32_t *axes, int32_t *n, int32_t at, int32_t axis) {
  memmove(&axes[at + 1], &axes[at], (size_t)(*n - at) * sizeof *axes);
  axes[at] = axis;
  (*n)++;
}

static int32_t find(const int32_t *axes, int32_t n, int32_t axis) {
  for (int32_t i = 0; i < n; i++)
    if (axes[i] == axis) return i;
  return PM_NONE;
}

static bool is_transpose(const PmCgRegion *r, const PmCgNode *n) {
  return n->op == PM_OP_broadcast && r->values[n->in[0]].rank == r->values[n->out].rank;
}

// The axis in front of which a stacked axis should lie: its minor neighbour in a merge of the result, or in a
// transpose.
static int32_t stack_neighbour(const PmCgRegion *r, const PmCgNode *stack) {
  for (int32_t i = r->values[stack->out].def + 1; i < r->n_nodes; i++) {
    const PmCgNode *n = &r->nodes[i];
    if (n->n_in == 0 || n->in[0] != stack->out) continue;
    for (int32_t k = 0; k + 1 < n->n_axes && n->op == PM_OP_merge; k++)
      if (n->axes[k] == stack->to[0]) return n->axes[k + 1];
    const PmCgValue *v = &r->values[n->out];
    for (int32_t k = 0; k + 1 < v->rank && is_transpose(r, n); k++)
      if (v->dims[k].axis == stack->to[0]) return v->dims[k + 1].axis;
  }
  return PM_NONE;
}

// Gives out the natural order: as the operand lies.
static void natural(const PmCgRegion *r, const PmCgNode *n, int32_t *axes, int32_t *n_axes) {
  const PmCgValue *v = &r->values[n->out];
  const PmCgId x = n->in[0];
  *n_axes = to_axes(r, x, axes);
  int32_t at;
  switch (n->op) {
    case PM_OP_rename:
      for (int32_t i = 0; i < *n_axes; i++) {
        const int32_t k = find(n->axes, n->n_axes, axes[i]);
        if (k != PM_NONE) axes[i] = n->to[k];
      }
      break;
    case PM_OP_reduce:
      for (int32_t i = 0; i < n->n_axes; i++) drop(axes, n_axes, find(axes, *n_axes, n->axes[i]));
      break;
    case PM_OP_select:
      drop(axes, n_axes, find(axes, *n_axes, n->axes[0]));
      break;
    case PM_OP_split:
      at = find(axes, *n_axes, n->axes[0]);
      drop(axes, n_axes, at);
      for (int32_t i = n->n_to - 1; i >= 0; i--) insert(axes, n_axes, at, n->to[i]);
      break;
    case PM_OP_merge:
      for (int32_t i = 0; i + 1 < n->n_axes; i++) drop(axes, n_axes, find(axes, *n_axes, n->axes[i]));
      axes[find(axes, *n_axes, n->axes[n->n_axes - 1])] = n->to[0];
      break;
    case PM_OP_stack:
      at = find(axes, *n_axes, stack_neighbour(r, n));
      insert(axes, n_axes, at == PM_NONE ? 0 : at, n->to[0]);
      break;
    case PM_OP_map:
      for (int32_t i = 0; i < n->n_in; i++) {  // the operand that is data, not a number spread out
        const PmCgNode *d = pm_cg_def(r, n->in[i]);
        if (r->info[n->in[i]].exact || r->info[n->in[i]].is_const) continue;
        if (d && d->op == PM_OP_broadcast && r->values[d->in[0]].rank < v->rank) continue;
        *n_axes = to_axes(r, n->in[i], axes);
        break;
      }
      break;
    default:
      break;
  }
}

static void set_orders(PmCgRegion *r) {
  for (int32_t i = 0; i < r->n_values; i++)
    if (!r->info[i].fixed) identity(r->info[i].order, r->values[i].rank);
  for (int32_t i = 0; i < r->n_nodes; i++) {
    const PmCgNode *n = &r->nodes[i];
    PmCgInfo *info = &r->info[n->out];
    const bool follows = n->op == PM_OP_map || n->op == PM_OP_cast || n->op == PM_OP_broadcast ||
                         n->op == PM_OP_rename || n->op == PM_OP_select || n->op == PM_OP_split ||
                         n->op == PM_OP_merge || n->op == PM_OP_stack || n->op == PM_OP_reduce || n->op == PM_OP_slice;
    int32_t axes[2 * PM_CG_RANK], n_axes;
    int8_t order[PM_CG_RANK];
    if (info->fixed || !follows) continue;
    natural(r, n, axes, &n_axes);
    if (from_axes(&r->values[n->out], axes, n_axes, order)) memcpy(info->order, order, sizeof order);
  }
}

// Element strides of a merge's parts allow one stride for all.
static bool neighbours(const PmCgRegion *r, const PmCgNode *n, const int64_t *stride) {
  const PmCgValue *x = &r->values[n->in[0]];
  int64_t expect = 0;
  for (int32_t i = n->n_axes - 1; i >= 0; i--) {
    const int32_t at = pm_cg_find_axis(x, n->axes[i]);
    if (i < n->n_axes - 1 && x->dims[at].extent > 1 && stride[at] != expect) return false;
    expect = i == n->n_axes - 1 ? stride[at] * x->dims[at].extent : expect * x->dims[at].extent;
  }
  return true;
}

// Where dim i of v, made by view n, goes in strides `in` of the operand.
static int64_t view_stride(const PmCgRegion *r, const PmCgNode *n, int32_t i, const int64_t *in) {
  const PmCgValue *x = &r->values[n->out];
  int32_t axis = x->dims[i].axis;
  int64_t scale = 1;
  if (n->op == PM_OP_rename) return in[i];
  if (n->op == PM_OP_merge && axis == n->to[0]) axis = n->axes[n->n_axes - 1];
  if (n->op == PM_OP_split) {
    const int32_t k = find(n->to, n->n_to, axis);
    for (int32_t j = k + 1; k != PM_NONE && j < n->n_to; j++) scale *= x->dims[pm_cg_find_axis(x, n->to[j])].extent;
    if (k != PM_NONE) axis = n->axes[0];
  }
  return in[pm_cg_find_axis(&r->values[n->in[0]], axis)] * scale;
}

// Strides of v, were what it is a view of stored.
static void strides(const PmCgRegion *r, PmCgId v, int64_t *out) {
  const PmCgNode *n = pm_cg_def(r, v);
  const PmCgValue *x = &r->values[v];
  const bool moves = n && (n->op == PM_OP_rename || n->op == PM_OP_split || n->op == PM_OP_select ||
                           n->op == PM_OP_merge || is_transpose(r, n));
  int64_t in[PM_CG_RANK];
  if (moves && !r->info[v].stored) strides(r, n->in[0], in);
  if (!moves || r->info[v].stored || (n->op == PM_OP_merge && !neighbours(r, n, in))) {
    pm_cg_canonical(x, r->info[v].order, out);
    return;
  }
  for (int32_t i = 0; i < x->rank; i++) out[i] = view_stride(r, n, i, in);
}

bool pm_cg_is_view(const PmCgRegion *r, const PmCgNode *n) {
  if (n->op == PM_OP_rename || n->op == PM_OP_split || n->op == PM_OP_select || is_transpose(r, n)) return true;
  int64_t in[PM_CG_RANK];
  if (n->op != PM_OP_merge) return false;
  strides(r, n->in[0], in);
  return neighbours(r, n, in);
}

bool pm_cg_has_step(const PmCgRegion *r, PmCgId v) {
  const PmCgNode *n = pm_cg_def(r, v);
  return !n || n->op == PM_OP_dot || (pm_op_flags(n->op) & (PM_F_COMM | PM_F_CALL | PM_F_STEP)) ||
         (n->op == PM_OP_scatter_add && !pm_cg_is_onehot(r, n));
}

// Asks that v lie contiguous in the order of `axes`; true when it will, without a copy of v.
static bool want(PmCgRegion *r, PmCgId v, const int32_t *wanted, int32_t n_wanted) {
  const PmCgNode *n = pm_cg_def(r, v);
  const PmCgValue *x = &r->values[v];
  PmCgInfo *info = &r->info[v];
  int32_t axes[2 * PM_CG_RANK], k = n_wanted;
  int8_t order[PM_CG_RANK];
  memcpy(axes, wanted, (size_t)k * sizeof *axes);
  if (!from_axes(x, axes, k, order)) return false;
  if (info->stored || info->fixed || !n || !pm_cg_is_view(r, n)) {
    const bool free = n && !info->fixed && (n->op == PM_OP_dot || !pm_cg_has_step(r, v));
    if (free) {
      memcpy(info->order, order, sizeof order);
      info->fixed = true;
      info->stored = info->stored || !pm_cg_has_step(r, v);
      return true;
    }
    return memcmp(info->order, order, (size_t)x->rank) == 0;
  }
  int32_t at;
  switch (n->op) {
    case PM_OP_broadcast:
      break;
    case PM_OP_rename:
      for (int32_t i = 0; i < k; i++) {
        const int32_t j = find(n->to, n->n_to, axes[i]);
        if (j != PM_NONE) axes[i] = n->axes[j];
      }
      break;
    case PM_OP_split:
      at = find(axes, k, n->to[0]);
      for (int32_t i = 0; i < n->n_to; i++)
        if (at + i >= k || axes[at + i] != n->to[i]) return false;
      for (int32_t i = 1; i < n->n_to; i++) drop(axes, &k, at + 1);
      axes[at] = n->axes[0];
      break;
    case PM_OP_merge:
      at = find(axes, k, n->to[0]);
      drop(axes, &k, at);
      for (int32_t i = n->n_axes - 1; i >= 0; i--) insert(axes, &k, at, n->axes[i]);
      break;
    case PM_OP_select:
      insert(axes, &k, 0, n->axes[0]);
      break;
    default:
      return false;
  }
  return want(r, n->in[0], axes, k);
}

static void want_canonical(PmCgRegion *r, PmCgId v) {
  const PmCgValue *x = &r->values[v];
  int32_t axes[PM_CG_RANK];
  for (int32_t i = 0; i < x->rank; i++) axes[i] = x->dims[i].axis;
  if (want(r, v, axes, x->rank)) return;
  r->info[v].stored = r->info[v].fixed = true;
  identity(r->info[v].order, x->rank);
}

static void need_view(PmCgRegion *r, PmCgId v) {
  const PmCgNode *n = pm_cg_def(r, v);
  if (pm_cg_has_step(r, v) || r->info[v].stored) return;
  if (pm_cg_is_view(r, n))
    need_view(r, n->in[0]);
  else
    r->info[v].stored = true;  // a table too: it may not vary along all dims
}

// Orders, and what must be in memory because something other than a kernel's expression reads it.
void pm_cg_orders(PmCgRegion *r) {
  set_orders(r);
  for (int32_t i = 0; i < r->n_results; i++) want_canonical(r, r->results[i]);
  for (int32_t i = r->n_nodes - 1; i >= 0; i--) {
    const PmCgNode *n = &r->nodes[i];
    const bool contiguous = (pm_op_flags(n->op) & (PM_F_COMM | PM_F_CALL | PM_F_STEP)) != 0;
    for (int32_t k = 0; k < n->n_in && contiguous; k++) want_canonical(r, n->in[k]);
  }
  set_orders(r);
  for (int32_t i = r->n_nodes - 1; i >= 0; i--) {
    const PmCgNode *n = &r->nodes[i];
    if (n->op == PM_OP_dot) need_view(r, n->in[1]);
    if (n->op == PM_OP_dot || n->op == PM_OP_index || n->op == PM_OP_slice) need_view(r, n->in[0]);
    if (n->op == PM_OP_stack) r->info[n->out].stored = true;
    if (n->op != PM_OP_merge || r->info[n->out].stored) continue;
    if (pm_cg_is_view(r, n))
      need_view(r, n->in[0]);
    else
      r->info[n->out].stored = true;
  }
}

// Gradients by their name; what has an axis over the members of a group is staging for a collective.
static PmOwner owner(const PmCg *cg, const PmCgValue *v) {
  for (int32_t i = 0; i < v->rank; i++)
    for (int32_t k = 0; k < cg->n_members; k++)
      if (v->dims[i].axis == cg->members[k]) return PM_OWN_COMM;
  return v->name && strncmp(v->name, "d(", 2) == 0 ? PM_OWN_GRAD : PM_OWN_ACT;
}

static void compute_view(PmCg *cg, PmCgRegion *r, PmCgId v, PmCgView *out) {
  const PmCgNode *n = pm_cg_def(r, v);
  const PmCgValue *x = &r->values[v];
  PmCgInfo *info = &r->info[v];
  *out = (PmCgView){.buf = PM_NONE};
  if (pm_cg_has_step(r, v) || info->stored) {
    pm_cg_canonical(x, info->order, out->stride);
    out->buf = n ? pm_cg_buf(cg, r, (PmKDtype)x->dtype, pm_cg_elements(x), owner(cg, x), x->name) : v;
  } else if (pm_cg_is_view(r, n)) {
    const PmCgView *in = pm_cg_view(cg, r, n->in[0]);
    if (in->buf == PM_NONE) return;
    strides(r, v, out->stride);
    out->buf = in->buf;
    out->offset = in->offset;
    if (n->op == PM_OP_select) out->offset += n->index * in->stride[pm_cg_find_axis(&r->values[n->in[0]], n->axes[0])];
  }
}

const PmCgView *pm_cg_view(PmCg *cg, PmCgRegion *r, PmCgId v) {
  PmCgInfo *info = &r->info[v];
  if (!info->view_known) {
    compute_view(cg, r, v, &info->view);
    info->view_known = true;
  }
  return &info->view;
}
