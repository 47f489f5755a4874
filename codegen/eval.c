#include "codegen/eval.h"

#include <string.h>

#include "base/assert.h"
#include "codegen/recipes.h"

static int32_t fake(PmCgEval *e) { return e->n_fake++; }

static int32_t k_const(PmCgEval *e, PmKDtype d, double v) {
  return e->dry ? fake(e) : pm_kb_const(&e->kb, pm_kdtype_value(d), v);
}

// To the dtype of a value of the region: half types are computed in f32 and rounded node by node, as the reference does.
static int32_t k_cvt(PmCgEval *e, PmKDtype to, int32_t a) { return e->dry ? fake(e) : pm_kb_as(&e->kb, to, a); }

static int32_t k_op(PmCgEval *e, PmInstrOp op, PmKDtype d, int32_t a, int32_t b, int32_t c) {
  return e->dry ? fake(e) : pm_kb_op(&e->kb, op, d, a, b, c);
}

static int32_t k_param(PmCgEval *e, const PmCoordTerm *t) {
  int32_t at = 0;
  while (at < e->n_scalars && memcmp(&e->scalars[at], t, sizeof *t) != 0) at++;
  if (at == PM_KERNEL_MAX_SCALARS) {
    e->overflow = true;
    return fake(e);
  }
  if (at == e->n_scalars) {
    e->scalars[e->n_scalars++] = *t;
    if (!e->dry) pm_kb_scalar(&e->kb);
  }
  return e->dry ? fake(e) : pm_kb_param(&e->kb, at);
}

static int32_t k_index(PmCgEval *e, int32_t p) {
  e->indexed[p] = true;
  if (e->dry) return fake(e);
  const PmCgGroup *g = &e->groups[e->group_of[p]];
  PM_ASSERT(g->axis != PM_NONE && !g->cols, "an index of an axis that is not open");
  return pm_kb_index(&e->kb, g->axis);
}

static int32_t k_coord(PmCgEval *e, const PmCgCoord *at) {
  int32_t sum = -1;
  for (int32_t p = 0; p < e->n_space; p++) {
    if (!at->k[p] || e->space[p].extent == 1) continue;
    int32_t term = k_index(e, p);
    if (at->k[p] != 1) term = k_op(e, PM_I_MUL, PM_K_I32, term, k_const(e, PM_K_I32, (double)at->k[p]), -1);
    sum = sum < 0 ? term : k_op(e, PM_I_ADD, PM_K_I32, sum, term, -1);
  }
  if (sum < 0) return k_const(e, PM_K_I32, (double)at->c);
  return at->c ? k_op(e, PM_I_ADD, PM_K_I32, sum, k_const(e, PM_K_I32, (double)at->c), -1) : sum;
}

int32_t pm_cg_subtract_offset(PmCgEval *e, int32_t index, const PmCoordTerm *offset) {
  if (pm_cg_coord_zero(offset)) return index;
  return k_op(e, PM_I_SUB, PM_K_I32, index, k_param(e, offset), -1);
}

static int32_t find_arg(PmCgEval *e, int32_t buf, bool reads, bool writes) {
  int32_t at = 0;
  while (at < e->n_args && e->arg_buf[at] != buf) at++;
  if (at == PM_KERNEL_MAX_ARGS) {
    e->overflow = true;
    return 0;
  }
  if (at == e->n_args) {
    e->n_args++;
    e->arg_buf[at] = buf;
    e->arg_reads[at] = e->arg_writes[at] = false;
    if (!e->dry) pm_kb_arg(&e->kb, (PmKDtype)e->r->bufs[buf].dtype, 0, false, false);
  }
  e->arg_reads[at] = e->arg_reads[at] || reads;
  e->arg_writes[at] = e->arg_writes[at] || writes;
  return at;
}

// base and strides over the space of the element at the coordinates.
static void address(const PmCgEval *e, const PmCgValue *v, const int64_t *stride, int64_t base, const PmCgCoord *at,
                    int64_t *out_base, int64_t *out_stride) {
  memset(out_stride, 0, PM_CG_RANK * sizeof *out_stride);
  for (int32_t i = 0; i < v->rank; i++) {
    base += stride[i] * at[i].c;
    for (int32_t p = 0; p < e->n_space; p++) out_stride[p] += stride[i] * at[i].k[p];
  }
  *out_base = base;
}

static void note(PmCgEval *e, const PmCgAccess *a) {
  e->accesses = pm_grow(e->cg->arena, e->accesses, e->n_accesses, &e->cap_accesses, sizeof *e->accesses);
  e->accesses[e->n_accesses++] = *a;
}

static PmKAddr kernel_address(const PmCgEval *e, int64_t base, const int64_t *stride) {
  PmKAddr k = pm_kaddr();
  k.base = base;
  for (int32_t g = 0; g < e->n_groups; g++) {
    const PmCgGroup *x = &e->groups[g];
    if (!stride[x->minor]) continue;
    PM_ASSERT(x->axis != PM_NONE, "an access outside of its loop");
    k.stride[x->axis] = stride[x->minor];
    if (x->cols) k.stride[x->rows] = stride[x->minor] * x->cols;
  }
  return k;
}

static int32_t load(PmCgEval *e, PmCgId v, const PmCgView *view, const PmCgCoord *at, int32_t dyn, int64_t dyn_stride,
                    int64_t dyn_extent) {
  PmCgAccess a = {.buf = view->buf, .value = v, .dyn = dyn >= 0};
  address(e, &e->r->values[v], view->stride, view->offset, at, &a.base, a.stride);
  const int32_t arg = find_arg(e, view->buf, true, false);
  if (e->dry) {
    note(e, &a);
    return fake(e);
  }
  PmKAddr k = kernel_address(e, a.base, a.stride);
  k.dyn = dyn;
  k.dyn_stride = dyn_stride;
  k.dyn_extent = dyn_extent;
  return pm_kb_load(&e->kb, arg, &k);
}

void pm_cg_store(PmCgEval *e, PmCgId v, const PmCgCoord *at, int64_t offset, int32_t value, bool add, int32_t dyn,
                 int64_t dyn_stride, int64_t dyn_extent) {
  const PmCgValue *x = &e->r->values[v];
  PmCgAccess a = {.buf = PM_NONE, .value = v, .dyn = dyn >= 0, .store = true};
  if (e->dry) {
    int64_t stride[PM_CG_RANK];
    pm_cg_canonical(x, e->r->info[v].order, stride);
    address(e, x, stride, offset, at, &a.base, a.stride);
    note(e, &a);
    return;
  }
  const PmCgView *view = pm_cg_view(e->cg, e->r, v);
  address(e, x, view->stride, view->offset + offset, at, &a.base, a.stride);
  const int32_t arg = find_arg(e, view->buf, add, true);
  PmKAddr k = kernel_address(e, a.base, a.stride);
  k.dyn = dyn;
  k.dyn_stride = dyn_stride;
  k.dyn_extent = dyn_extent;
  pm_kb_store(&e->kb, arg, &k, value, add);
}

void pm_cg_identity(const PmCgEval *e, PmCgId v, PmCgCoord *out) {
  const PmCgValue *x = &e->r->values[v];
  memset(out, 0, (size_t)x->rank * sizeof *out);
  for (int32_t i = 0; i < x->rank; i++)
    for (int32_t p = 0; p < e->n_space; p++)
      if (e->space[p].axis == x->dims[i].axis) out[i].k[p] = 1;
}

void pm_cg_word(PmCgEval *e, const char *word) {
  const int32_t room = (int32_t)(sizeof e->words / sizeof *e->words);
  for (int32_t i = 0; i < e->n_words; i++)
    if (strcmp(e->words[i], word) == 0) return;
  if (e->n_words < room) e->words[e->n_words++] = word;
}

// ---- expressions ----------------------------------------------------------------------------------------------------
bool pm_cg_operand_at(const PmCgEval *e, PmCgId v, int32_t i, const PmCgCoord *at, PmCgCoord *out) {
  const PmCgRegion *r = e->r;
  const PmCgNode *n = pm_cg_def(r, v);
  const PmCgValue *x = &r->values[v], *y = &r->values[n->in[i]];
  const bool by_name = n->op == PM_OP_broadcast || n->op == PM_OP_cast || n->op == PM_OP_map || n->op == PM_OP_split ||
                       n->op == PM_OP_select || n->op == PM_OP_scatter_add || n->op == PM_OP_random ||
                       (n->op == PM_OP_index && i == 1);
  if (n->op == PM_OP_rename) {
    memcpy(out, at, (size_t)x->rank * sizeof *out);
    return true;
  }
  if (!by_name) return false;
  for (int32_t d = 0; d < y->rank; d++) {
    const int32_t axis = y->dims[d].axis;
    const bool special = (n->op == PM_OP_split || n->op == PM_OP_select) && axis == n->axes[0];
    if (!special) {
      out[d] = at[pm_cg_find_axis(x, axis)];
      continue;
    }
    out[d] = (PmCgCoord){0};
    if (n->op == PM_OP_select) {
      out[d].c = n->index;
      continue;
    }
    for (int32_t k = 0; k < n->n_to; k++) {
      const int32_t part = pm_cg_find_axis(x, n->to[k]);
      const int64_t scale = x->dims[part].extent;
      out[d].c = out[d].c * scale + at[part].c;
      for (int32_t p = 0; p < e->n_space; p++) out[d].k[p] = out[d].k[p] * scale + at[part].k[p];
    }
  }
  return true;
}

static int32_t *find_entry(const PmCgEval *e, PmCgEntry *entries, int32_t n, PmCgId v, const PmCgCoord *at,
                           bool whole) {
  const size_t bytes = (size_t)e->r->values[v].rank * sizeof *at;
  for (int32_t i = n - 1; i >= 0; i--) {
    PmCgEntry *x = &entries[i];
    if (x->v == v && x->whole == whole && memcmp(x->at, at, bytes) == 0) return &x->value;
  }
  return NULL;
}

static PmCgEntry make_entry(const PmCgEval *e, PmCgId v, const PmCgCoord *at, bool whole, int32_t value) {
  const int32_t rank = e->r->values[v].rank;
  PmCgEntry x = {.v = v, .whole = whole, .value = value, .at = PM_NEW_N(e->cg->arena, PmCgCoord, rank + 1)};
  if (rank) memcpy(x.at, at, (size_t)rank * sizeof *at);
  return x;
}

static int32_t operand(PmCgEval *e, PmCgId v, int32_t i, const PmCgCoord *at, bool whole) {
  PmCgCoord in[PM_CG_RANK];
  const bool ok = pm_cg_operand_at(e, v, i, at, in);
  PM_ASSERT(ok, "operand %d of %s has no affine place", i, pm_op_name(pm_cg_def(e->r, v)->op));
  return pm_cg_eval(e, pm_cg_def(e->r, v)->in[i], in, whole);
}

static int32_t eval_pos(PmCgEval *e, const PmCgNode *n, const PmCgCoord *at) {
  const int32_t i = k_coord(e, &at[0]);
  return pm_cg_coord_zero(&n->offset) ? i : k_op(e, PM_I_ADD, PM_K_I32, i, k_param(e, &n->offset), -1);
}

// The element's number is a whole double: exact up to 2^53, past what a tensor may have.
static int32_t eval_random(PmCgEval *e, PmCgId v, const PmCgCoord *at) {
  const PmCgNode *n = pm_cg_def(e->r, v);
  const PmCgDraw *draw = n->draw;
  int32_t number = k_const(e, PM_K_F64, 0);
  for (int32_t i = 0; i < e->r->values[v].rank + n->n_in - 1; i++) {
    const int32_t dim = i - (n->n_in - 1);
    int32_t digit = dim < 0 ? operand(e, v, i + 1, at, false) : k_coord(e, &at[dim]);
    if (dim >= 0 && !pm_cg_coord_zero(&draw->offset[dim]))
      digit = k_op(e, PM_I_ADD, PM_K_I32, digit, k_param(e, &draw->offset[dim]), -1);
    if (dim >= 0 && draw->chunk[dim]) {
      const int32_t chunk = k_const(e, PM_K_I32, (double)draw->chunk[dim]);
      const int32_t is_early = k_op(e, PM_I_CMP_LT, PM_K_I32, digit, chunk, -1);
      const int32_t late = k_param(e, &draw->late[dim]), early = k_param(e, &draw->early[dim]);
      const int32_t more = k_op(e, PM_I_SELECT, PM_K_I32, is_early, early, late);
      digit = k_op(e, PM_I_ADD, PM_K_I32, digit, more, -1);
    }
    const int32_t stride = k_const(e, PM_K_F64, dim < 0 ? draw->turn_stride[i] : draw->stride[dim]);
    const int32_t term = k_op(e, PM_I_MUL, PM_K_F64, k_cvt(e, PM_K_F64, digit), stride, -1);
    number = k_op(e, PM_I_ADD, PM_K_F64, number, term, -1);
  }
  const int32_t step = operand(e, v, 0, at, false);
  pm_cg_word(e, "random");
  return e->dry ? fake(e) : pm_recipe_uniform(&e->kb, draw->key, step, number);
}

// Functions whose results are operands, their negatives, or small whole numbers: nothing is left to round.
static bool keeps_format(PmScalar fn) {
  return fn == PM_S_abs || fn == PM_S_max || fn == PM_S_min || fn == PM_S_neg || fn == PM_S_sign || fn == PM_S_where;
}

static int32_t eval_map(PmCgEval *e, PmCgId v, const PmCgCoord *at, bool whole) {
  const PmCgRegion *r = e->r;
  const PmCgNode *n = pm_cg_def(r, v);
  const bool inner = whole || (!e->host && r->values[v].dtype == PM_K_BOOL && r->values[n->in[0]].dtype == PM_K_F64);
  int32_t in[3] = {-1, -1, -1};
  PM_ASSERT(n->n_in <= 3, "a map of %d operands", n->n_in);
  for (int32_t i = 0; i < n->n_in; i++) in[i] = operand(e, v, i, at, inner);
  const PmKDtype d = inner ? PM_K_I32 : (PmKDtype)r->values[n->in[n->fn == PM_S_where]].dtype;
  pm_cg_word(e, n->origin ? n->origin : pm_scalar_name(n->fn));
  if (e->dry) return fake(e);
  const int32_t value = pm_kb_scalar_fn(&e->kb, n->fn, pm_kdtype_value(d), in[0], in[1], in[2]);
  return pm_kdtype_is_half(d) && !keeps_format(n->fn) && r->values[v].dtype != PM_K_BOOL ? k_cvt(e, d, value) : value;
}

static int32_t eval_index(PmCgEval *e, PmCgId v, const PmCgCoord *at) {
  const PmCgRegion *r = e->r;
  const PmCgNode *n = pm_cg_def(r, v);
  const PmCgValue *x = &r->values[v], *table = &r->values[n->in[0]];
  const PmCgView view = *pm_cg_view(e->cg, e->r, n->in[0]);
  PM_ASSERT(view.buf != PM_NONE, "an indexed table that is not in memory");
  const int32_t idx = pm_cg_subtract_offset(e, operand(e, v, 1, at, false), &n->offset);
  const int32_t axis = pm_cg_find_axis(table, n->axes[0]);
  PmCgCoord in[PM_CG_RANK] = {0};
  for (int32_t d = 0; d < table->rank; d++)
    if (d != axis) in[d] = at[pm_cg_find_axis(x, table->dims[d].axis)];
  pm_cg_word(e, n->origin ? n->origin : "index");
  return load(e, n->in[0], &view, in, idx, view.stride[axis], table->dims[axis].extent);
}

// Every position adds to a place of its own: `updates` where the index is the coordinate, else 0.
static int32_t eval_onehot(PmCgEval *e, PmCgId v, const PmCgCoord *at) {
  const PmCgRegion *r = e->r;
  const PmCgNode *n = pm_cg_def(r, v);
  const PmKDtype d = (PmKDtype)r->values[v].dtype;
  const int32_t idx = pm_cg_subtract_offset(e, operand(e, v, 0, at, false), &n->offset);
  const int32_t pos = k_coord(e, &at[pm_cg_find_axis(&r->values[v], n->axes[0])]);
  const int32_t hit = k_op(e, PM_I_CMP_EQ, PM_K_I32, idx, pos, -1);
  pm_cg_word(e, n->origin ? n->origin : "scatter_add");
  const int32_t update = operand(e, v, 1, at, false);
  return k_op(e, PM_I_SELECT, pm_kdtype_value(d), hit, update, k_const(e, d, 0));
}

static int32_t eval_slice(PmCgEval *e, PmCgId v, const PmCgCoord *at) {
  const PmCgRegion *r = e->r;
  const PmCgNode *n = pm_cg_def(r, v);
  const PmCgValue *x = &r->values[v], *y = &r->values[n->in[0]];
  const PmCgView view = *pm_cg_view(e->cg, e->r, n->in[0]);
  PM_ASSERT(view.buf != PM_NONE, "a sliced value that is not in memory");
  const int32_t axis = pm_cg_find_axis(x, n->axes[0]);
  pm_cg_word(e, "slice");
  return load(e, n->in[0], &view, at, k_param(e, &n->offset), view.stride[axis],
              y->dims[axis].extent - x->dims[axis].extent + 1);
}

static int32_t eval_reduce(PmCgEval *e, PmCgId v, const PmCgCoord *at) {
  const PmCgRegion *r = e->r;
  const PmCgNode *n = pm_cg_def(r, v);
  const PmCgValue *x = &r->values[v], *y = &r->values[n->in[0]];
  if (e->acc && e->acc[v]) return k_cvt(e, (PmKDtype)x->dtype, e->acc[v] - 1);
  PmCgCoord in[PM_CG_RANK] = {0};
  for (int32_t d = 0; d < y->rank; d++) {  // over single elements only
    const int32_t kept = pm_cg_find_axis(x, y->dims[d].axis);
    PM_ASSERT(kept != PM_NONE || y->dims[d].extent == 1, "a reduction before its loop");
    if (kept != PM_NONE) in[d] = at[kept];
  }
  return k_cvt(e, (PmKDtype)x->dtype, pm_cg_eval(e, n->in[0], in, false));
}

static int32_t eval_node(PmCgEval *e, PmCgId v, const PmCgCoord *at, bool whole) {
  const PmCgRegion *r = e->r;
  const PmCgNode *n = pm_cg_def(r, v);
  const PmKDtype d = (PmKDtype)r->values[v].dtype;
  switch (n->op) {
    case PM_OP_pos:
      return whole ? eval_pos(e, n, at) : k_cvt(e, PM_K_F64, eval_pos(e, n, at));
    case PM_OP_cast: {
      const PmCgId x = n->in[0];
      const bool inner = !e->host && r->values[x].dtype == PM_K_F64 && r->info[x].is_int;
      return k_cvt(e, d, operand(e, v, 0, at, inner));
    }
    case PM_OP_map:
      return eval_map(e, v, at, whole);
    case PM_OP_random:
      return eval_random(e, v, at);
    case PM_OP_reduce:
      return eval_reduce(e, v, at);
    case PM_OP_index:
      return eval_index(e, v, at);
    case PM_OP_scatter_add:
      return eval_onehot(e, v, at);
    case PM_OP_slice:
      return eval_slice(e, v, at);
    case PM_OP_merge: {
      const PmCgView view = *pm_cg_view(e->cg, e->r, v);
      PM_ASSERT(view.buf != PM_NONE, "a merge that is not in memory");
      return load(e, v, &view, at, -1, 0, 0);
    }
    default:
      return operand(e, v, 0, at, whole);
  }
}

int32_t pm_cg_eval(PmCgEval *e, PmCgId v, const PmCgCoord *at, bool whole) {
  const PmCgInfo *info = &e->r->info[v];
  if (info->is_const) return k_const(e, whole ? PM_K_I32 : (PmKDtype)e->r->values[v].dtype, info->number);
  const int32_t *known = find_entry(e, e->entries, e->n_entries, v, at, whole);
  if (known) return *known;
  int32_t value;
  if (!whole && e->item != PM_NONE && pm_cg_loads(e->r, e->item, v)) {
    const PmCgView view = *pm_cg_view(e->cg, e->r, v);
    value = load(e, v, &view, at, -1, 0, 0);
  } else if (!e->exact_only && pm_cg_is_table(e->r, v)) {
    const PmCgView view = *pm_cg_table(e->cg, e->r, v);
    value = load(e, v, &view, at, -1, 0, 0);
  } else {
    value = eval_node(e, v, at, whole);
  }
  e->entries = pm_grow(e->cg->arena, e->entries, e->n_entries, &e->cap_entries, sizeof *e->entries);
  e->entries[e->n_entries++] = make_entry(e, v, at, whole, value);
  return value;
}

void pm_cg_hoist(PmCgEval *e, PmCgId v, const PmCgCoord *at) {
  const PmCgRegion *r = e->r;
  const PmCgInfo *info = &r->info[v];
  if (info->is_const || (info->exact && !e->host)) return;
  bool varies = false;
  for (int32_t d = 0; d < r->values[v].rank; d++)
    for (int32_t p = 0; p < e->n_space; p++) varies = varies || (at[d].k[p] && e->kind[p] == PM_CG_LOOP);
  if (!varies) {
    pm_cg_eval(e, v, at, false);
    return;
  }
  if (pm_cg_loads(r, e->item, v) || pm_cg_is_table(r, v)) return;
  if (find_entry(e, e->hoisted, e->n_hoisted, v, at, false)) return;
  e->hoisted = pm_grow(e->cg->arena, e->hoisted, e->n_hoisted, &e->cap_hoisted, sizeof *e->hoisted);
  e->hoisted[e->n_hoisted++] = make_entry(e, v, at, false, 0);
  const PmCgNode *n = pm_cg_def(r, v);
  for (int32_t i = 0; i < n->n_in; i++) {
    PmCgCoord in[PM_CG_RANK];
    if (pm_cg_operand_at(e, v, i, at, in)) pm_cg_hoist(e, n->in[i], in);
  }
}
