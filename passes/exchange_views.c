#include "passes/exchange_views.h"

#include "passes/rewrite.h"

// The whole axis, its parts, and the value that has the parts.
typedef struct View {
  bool splits;
  PmAxisId whole, major, minor;
  PmSplit split;
} View;

static bool find_view(const PmModule *m, const PmFn *f, const PmNode *n, View *out) {
  const PmAttr *a = &n->attr;
  const bool splits = n->op == PM_OP_split && a->n_to == 2, merges = n->op == PM_OP_merge && a->n_axes == 2;
  if (!splits && !merges) return false;
  *out =
      splits ? (View){true, a->axes[0], a->to[0], a->to[1], {0}} : (View){false, a->to[0], a->axes[0], a->axes[1], {0}};
  const PmType *x = &f->values[n->in[0]].type, *y = &f->values[n->out].type;
  const PmType *whole = splits ? x : y, *parts = splits ? y : x;
  const PmSplit *s = &whole->dims[pm_type_find(whole, out->whole)].split;
  const PmSplit *major = &parts->dims[pm_type_find(parts, out->major)].split;
  const PmSplit *minor = &parts->dims[pm_type_find(parts, out->minor)].split;
  out->split = *s;
  return s->n == 1 && minor->n == 1 && major->n == 0 && s->mesh[0] == minor->mesh[0] && !s->zigzag && !minor->zigzag &&
         m->mesh[s->mesh[0]].size > 1 && m->axes[out->whole].pad == 0 && pm_dtype_is_float((PmDtype)x->dtype) &&
         x->dtype != PM_F64 && pm_axis_size(m, out->whole) <= INT32_MAX &&
         !pm_split_divides(m, s, pm_axis_size(m, out->major));
}

bool pm_view_exchanges(const PmModule *m, const PmFn *f, const PmNode *n) {
  View v;
  return find_view(m, f, n, &v);
}

static PmValueId placed(PmBuilder *b, PmValueId v, const PmType *type) {
  pm_b_value(b, v)->type = *type;
  return v;
}

// Positions of `axis`, as numbers of the type `all`, which has that axis.
static PmValueId places(PmBuilder *b, PmAxisId axis, const PmType *all) {
  PmType line = *all;
  line.rank = 1;
  line.dims[0] = all->dims[pm_type_find(all, axis)];
  const PmValueId pos = placed(b, pm_b_pos(b, axis), &line);
  return all->rank == 1 ? pos : placed(b, pm_b_broadcast(b, pos, *all), all);
}

// By position of the result: its row's place along the whole axis, or major * (elements of minor) + minor.
static PmValueId rows_of(PmBuilder *b, const View *v) {
  PmType t = pm_type_scalar(PM_F64);
  PmValueId at;
  if (v->splits) {
    t.rank = 2;
    t.dims[0] = (PmDim){.axis = v->major};
    t.dims[1] = (PmDim){v->minor, v->split};
    const PmValueId major = places(b, v->major, &t), minor = places(b, v->minor, &t);
    const PmValueId n = placed(b, pm_b_splat(b, (double)pm_axis_size(b->m, v->minor), &t), &t);
    const PmValueId row = placed(b, pm_b_map2(b, PM_S_mul, major, n), &t);
    at = placed(b, pm_b_map2(b, PM_S_add, row, minor), &t);
  } else {
    t.rank = 1;
    t.dims[0] = (PmDim){v->whole, v->split};
    at = places(b, v->whole, &t);
  }
  t.dtype = PM_I32;
  t.index_of = v->whole;
  return placed(b, pm_b_node(b, PM_OP_cast, &(PmAttr){0}, &at, 1, &t), &t);
}

static bool exchange(void *context, PmBuilder *b, const PmFn *old, const PmNode *n, PmValueId *map) {
  (void)context;
  View v;
  if (!find_view(b->m, old, n, &v)) return false;
  const PmValue *y = &old->values[n->out];
  b->loc = n->loc;
  const PmValueId in[2] = {map[n->in[0]], rows_of(b, &v)};
  const PmAttr a =
      v.splits ? (PmAttr){.n_axes = 1, .axes = {v.whole}} : (PmAttr){.n_axes = 2, .axes = {v.major, v.minor}};
  map[n->out] = placed(b, pm_b_node(b, PM_OP_gather_rows, &a, in, 2, &y->type), &y->type);
  pm_b_lend_name(b, map[n->out], y->name, y->bound);
  return true;
}

void pm_exchange_views(PmArena *scratch, PmModule *m) {
  for (PmFnId id = 0; id < m->n_fns; id++) {
    bool any = false;
    for (int32_t i = 0; !m->fns[id].dead && !any && i < m->fns[id].n_nodes; i++)
      any = pm_view_exchanges(m, &m->fns[id], &m->fns[id].nodes[i]);
    if (any) pm_rewrite_fn(m, scratch, id, exchange, NULL);
  }
}
