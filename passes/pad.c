// pad: sizes that no mesh axis divides, where the plan says `pad(AXIS)`.
//
// 1. Axes of one size by renaming, and an axis with its major part, are padded together: to the next size that the mesh
//    axes divide which any rule may put on one of them. From then on the size of such an axis is the padded one, so
//    that every later pass sees a plain axis.
// 2. What sums over such an axis, takes its maximum or counts along it is shown neutral elements in the padding, unless
//    they stand there already (pad_values.c). Nothing else can see padding: ops work position by position along axes
//    that they keep.
// 3. New values of variables are zero in the padding, as the runtime initialises them.
// The result of every op is thus what it is without padding, on any mesh.
#include "passes/pad.h"

#include <math.h>

#include "passes/passes.h"
#include "passes/rewrite.h"
#include "passes/shard_rules.h"

typedef struct Pad {
  PmModule *m;
  PmDiags *diags;
  PmArena scratch;
  PmAxisId *group;    // per axis: one that is padded with it, itself at the root
  const PmRule **by;  // per root: the directive that pads it, or NULL
  int64_t *parts;     // per root: product of the mesh axes that may divide it
  bool *bars;         // per root, for pm_pad_allows: an op lets no axis of it have padding
  PmTree tree;
  PmPadValue **values;
} Pad;

static PmAxisId root_of(const Pad *p, PmAxisId a) {
  while (p->group[a] != a) a = p->group[a];
  return a;
}

static void join(Pad *p, PmAxisId a, PmAxisId b) { p->group[root_of(p, a)] = root_of(p, b); }

// Calls `fn` for every node of every live function.
static void each_node(Pad *p, void (*fn)(Pad *p, const PmNode *n)) {
  for (PmFnId i = 0; i < p->m->n_fns; i++) {
    const PmFn *f = pm_fn(p->m, i);
    for (int32_t k = 0; !f->dead && k < f->n_nodes; k++) fn(p, &f->nodes[k]);
  }
}

// An axis that takes the place of another is padded with it; of several, the major one.
static void join_node(Pad *p, const PmNode *n) {
  if (!(pm_op_flags(n->op) & (PM_F_VIEW | PM_F_SLOTS))) return;
  for (int32_t i = 0; i < n->attr.n_axes && i < n->attr.n_to; i++) join(p, n->attr.axes[i], n->attr.to[i]);
}

static void mark_rules(Pad *p) {
  for (int32_t r = 0; r < p->m->n_rules; r++) {
    const PmRule *rule = &p->m->rules[r];
    for (int32_t i = 0; rule->pad && i < rule->n_axes; i++)
      if (rule->axes[i] != PM_NONE) p->by[root_of(p, rule->axes[i])] = rule;
  }
}

// The mesh axes that some rule or pin may put on an axis of each group.
static void count_parts(Pad *p) {
  uint32_t *mesh = PM_NEW_N(&p->scratch, uint32_t, p->m->n_axes + 1);
  for (int32_t r = 0; r < p->m->n_rules; r++) {
    const PmRule *rule = &p->m->rules[r];
    for (int32_t i = 0; i < rule->n_axes; i++)
      for (int32_t k = 0; rule->axes[i] != PM_NONE && k < rule->n_mesh; k++)
        mesh[root_of(p, rule->axes[i])] |= UINT32_C(1) << rule->mesh[k];
    for (int32_t i = 0; i < rule->n_pin_dims; i++)
      for (int32_t k = 0; rule->pin_dims[i].axis != PM_NONE && k < rule->pin_dims[i].split.n; k++)
        mesh[root_of(p, rule->pin_dims[i].axis)] |= UINT32_C(1) << rule->pin_dims[i].split.mesh[k];
  }
  for (PmAxisId a = 0; a < p->m->n_axes; a++) {
    p->parts[a] = 1;
    for (int32_t k = 0; k < p->m->n_mesh; k++)
      if (mesh[a] >> k & 1) p->parts[a] *= p->m->mesh[k].size;
  }
}

static void refuse(Pad *p, PmAxisId a, PmLoc loc, const char *why) {
  PmAxisId root = root_of(p, a);
  const PmRule *rule = p->by[root];
  pm_diag(p->diags, PM_E_PAD, rule->span, "`%s` cannot be padded: %s", p->m->axes[a].name, why);
  if (loc.path) pm_diag_note(p->diags, "at %s:%d:%d", loc.path, loc.line, loc.col);
  p->by[root] = NULL;
}

static bool is_padded(const Pad *p, PmAxisId a) {
  PmAxisId root = root_of(p, a);
  return p->by[root] && p->m->axes[a].size > 0 && p->parts[root] > 1;
}

// Padding may stand at the end of an axis only, and its positions are not told apart from others where an op counts:
// axes that cannot have it, from number `first` on of those that the op names, or makes (`to`).
static const struct {
  PmOp op;
  bool to;
  int32_t first;
  const char *why;
} bars[] = {
    {PM_OP_merge, false, 1, "it is merged as a minor part"},
    {PM_OP_repeat, false, 0, "it is repeated over"},
    {PM_OP_split, true, 1, "it is a minor part of an axis that is split"},
    {PM_OP_stack, true, 0, "it is made by stacking values"},
    {PM_OP_topk, true, 0, "its elements are choices"},
};

// Calls `fn` for every axis that `n` bars.
static void each_barred(Pad *p, const PmNode *n, void (*fn)(Pad *p, PmAxisId a, PmLoc loc, const char *why)) {
  for (size_t b = 0; b < sizeof bars / sizeof *bars; b++) {
    if (n->op != bars[b].op) continue;
    const PmAxisId *axes = bars[b].to ? n->attr.to : n->attr.axes;
    for (int32_t i = bars[b].first; i < (bars[b].to ? n->attr.n_to : n->attr.n_axes); i++)
      fn(p, axes[i], n->loc, bars[b].why);
  }
}

static void refuse_padded(Pad *p, PmAxisId a, PmLoc loc, const char *why) {
  if (is_padded(p, a)) refuse(p, a, loc, why);
}

static void check_node(Pad *p, const PmNode *n) { each_barred(p, n, refuse_padded); }

static void bar(Pad *p, PmAxisId a, PmLoc loc, const char *why) {
  (void)loc;
  (void)why;
  p->bars[root_of(p, a)] = true;
}

static void bar_node(Pad *p, const PmNode *n) { each_barred(p, n, bar); }

static int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// Whether no tensor is too large with the padded sizes. Says which axis to leave out of `pad` otherwise.
static bool check_elements(Pad *p) {
  for (PmFnId i = 0; i < p->m->n_fns; i++) {
    const PmFn *f = pm_fn(p->m, i);
    for (PmValueId v = 0; !f->dead && v < f->n_values; v++) {
      const PmType *t = &f->values[v].type;
      int64_t elements;
      if (pm_type_elements(p->m, t, &elements)) continue;
      for (int32_t d = 0; d < t->rank; d++) {
        const PmAxis *axis = &p->m->axes[t->dims[d].axis];
        if (axis->pad == 0) continue;
        int32_t def = f->values[v].def;
        PmLoc loc = def == PM_NONE ? axis->loc : f->nodes[def].loc;
        refuse(p, t->dims[d].axis, loc, "a tensor would grow past 2^48 elements");
        return false;
      }
    }
  }
  return true;
}

// Sets the padded sizes; true when some axis has padding now and none was refused.
static bool set_sizes(Pad *p) {
  int64_t *base = PM_NEW_N(&p->scratch, int64_t, p->m->n_axes + 1);
  bool some = false;
  for (PmAxisId a = 0; a < p->m->n_axes; a++) {
    int64_t *b = &base[root_of(p, a)];
    if (*b == 0 || p->m->axes[a].size < *b) *b = p->m->axes[a].size;
  }
  for (PmAxisId a = 0; a < p->m->n_axes; a++) {
    PmAxisId root = root_of(p, a);
    PmAxis *axis = &p->m->axes[a];
    if (!is_padded(p, a)) continue;
    if (axis->size % base[root] != 0) {
      refuse(p, a, axis->loc, "it is put together from different major parts");
      return false;
    }
    if (base[root] % p->parts[root] == 0) continue;
    axis->pad = (round_up(base[root], p->parts[root]) - base[root]) * (axis->size / base[root]);
    axis->size += axis->pad;
    some = true;
    if (axis->size > PM_MAX_AXIS_SIZE) {
      refuse(p, a, axis->loc, "it would grow past 2^40 elements");
      return false;
    }
  }
  return some && check_elements(p);
}

// ---- rebuilding ----------------------------------------------------------------------------------------------------
typedef struct Rebuild {
  Pad *p;
  const PmTreeFn *t;
  PmFn old;
  PmBuilder b;
  PmValueId *map;
} Rebuild;

// `v` with `neutral` in the padding of dim `dim`.
static PmValueId mask(Rebuild *r, PmValueId v, int32_t dim, double neutral) {
  PmBuilder *b = &r->b;
  PmType type = *pm_b_type(b, v);
  PmAxisId axis = type.dims[dim].axis;
  PmType truth = type;
  truth.dtype = PM_BOOL;
  truth.index_of = PM_NONE;
  PmValueId pos = pm_b_pos(b, axis);
  PmType line = *pm_b_type(b, pos);
  PmValueId end = pm_b_splat(b, (double)pm_axis_logical(r->p->m, axis), &line);
  PmValueId real = pm_b_broadcast(b, pm_b_map2(b, PM_S_lt, pos, end), truth);
  PmAttr attr = {.fn = PM_S_where};
  const PmValueId in[] = {real, v, pm_b_splat(b, neutral, &type)};
  return pm_b_node(b, PM_OP_map, &attr, in, 3, NULL);
}

// What operand k of the node must hold in the padding of a factor that it sums, looks through or counts along, or NAN:
// anything.
static double neutral_of(const PmNode *n, int32_t k) {
  uint32_t flags = pm_op_flags(n->op);
  if (flags & PM_F_LARGEST) return -INFINITY;
  if (flags & PM_F_SLOTS) return -1;  // points nowhere
  if (flags & PM_F_REDUCE) return n->attr.kind == PM_MAX ? -INFINITY : 0;
  if (flags & PM_F_BILINEAR) return 0;
  return (flags & PM_F_LINEAR1) && k == 1 ? 0 : NAN;
}

static PmValueId operand(Rebuild *r, const PmNode *n, const PmFactors *factors, int32_t k) {
  PmValueId v = r->map[n->in[k]];
  for (int32_t i = 0; i < factors->n; i++) {
    const PmFactor *fac = &factors->items[i];
    double neutral = neutral_of(n, k);
    int32_t d = fac->in_dim[k];
    // What is counted along an axis takes room, also where it comes last.
    if ((fac->kind == PM_FACTOR_PASS && !fac->counted) || d < 0 || isnan(neutral)) continue;
    if (r->p->m->axes[r->old.values[n->in[k]].type.dims[d].axis].pad == 0) continue;
    if (!pm_pad_is(&r->p->values[pm_slot(r->t, n->in[k])][d], neutral)) v = mask(r, v, d, neutral);
  }
  return v;
}

// As pm_rebuild_node, with masked operands.
static void rebuild_node(Rebuild *r, const PmNode *n) {
  r->b.loc = n->loc;
  if (pm_is_call(n)) {
    pm_rebuild_node(&r->b, &r->old, n, r->map);
    return;
  }
  PmFactors factors = pm_shard_factors(&r->p->scratch, &r->old, n);
  PmValueId *kept = PM_NEW_N(&r->p->scratch, PmValueId, n->n_in + 1);
  for (int32_t k = 0; k < n->n_in; k++) kept[k] = r->map[n->in[k]];
  PmValueId *masked = PM_NEW_N(&r->p->scratch, PmValueId, n->n_in + 1);
  for (int32_t k = 0; k < n->n_in; k++) masked[k] = operand(r, n, &factors, k);
  for (int32_t k = 0; k < n->n_in; k++) r->map[n->in[k]] = masked[k];
  pm_rebuild_node(&r->b, &r->old, n, r->map);
  for (int32_t k = n->n_in - 1; k >= 0; k--) r->map[n->in[k]] = kept[k];
}

// New values of variables keep zeros in the padding.
static PmValueId result(Rebuild *r, int32_t i) {
  PmValueId v = r->old.results[i], out = r->map[v];
  if (!r->old.result_bind || r->old.result_bind[i].var == PM_NONE) return out;
  const PmType *t = &r->old.values[v].type;
  for (int32_t d = 0; d < t->rank; d++)
    if (r->p->m->axes[t->dims[d].axis].pad > 0 && !pm_pad_is(&r->p->values[pm_slot(r->t, v)][d], 0))
      out = mask(r, out, d, 0);
  return out;
}

static void rebuild_fn(Pad *p, const PmTreeFn *t) {
  Rebuild r = {.p = p, .t = t, .old = pm_rebuild_begin(p->m, t->fn)};
  r.b = (PmBuilder){.m = p->m, .fn = t->fn};
  r.map = PM_NEW_N(&p->scratch, PmValueId, r.old.n_values + 1);
  for (int32_t i = 0; i < r.old.n_params; i++) r.map[i] = pm_rebuild_param(&r.b, &r.old.values[i]);
  for (int32_t i = 0; i < r.old.n_nodes; i++) rebuild_node(&r, &r.old.nodes[i]);
  PmValueId *results = PM_NEW_N(&p->scratch, PmValueId, r.old.n_results + 1);
  for (int32_t i = 0; i < r.old.n_results; i++) results[i] = result(&r, i);
  pm_b_results(&r.b, results, r.old.n_results);
}

static void group_axes(Pad *p) {
  p->group = PM_NEW_N(&p->scratch, PmAxisId, p->m->n_axes + 1);
  for (PmAxisId a = 0; a < p->m->n_axes; a++) p->group[a] = a;
  each_node(p, join_node);
}

bool pm_pad_allows(PmModule *m, PmAxisId axis) {
  Pad p = {.m = m};
  pm_pass_scratch(m, &p.scratch);
  group_axes(&p);
  p.bars = PM_NEW_N(&p.scratch, bool, m->n_axes + 1);
  each_node(&p, bar_node);
  bool allows = !p.bars[root_of(&p, axis)];
  pm_arena_deinit(&p.scratch);
  return allows;
}

static void run(Pad *p) {
  PmModule *m = p->m;
  p->by = (const PmRule **)PM_NEW_N(&p->scratch, const PmRule *, m->n_axes + 1);
  p->parts = PM_NEW_N(&p->scratch, int64_t, m->n_axes + 1);
  group_axes(p);
  mark_rules(p);
  count_parts(p);
  each_node(p, check_node);
  if (!set_sizes(p)) return;
  pm_specialise(m);
  p->tree = pm_tree_build(&p->scratch, m);
  p->values = pm_pad_values(&p->scratch, m, &p->tree);
  // Callees first: a call takes the types of the rebuilt callee.
  for (int32_t i = p->tree.n_fns - 1; i >= 0; i--) rebuild_fn(p, &p->tree.fns[i]);
}

static bool asks(const PmModule *m) {
  for (int32_t r = 0; r < m->n_rules; r++)
    if (m->rules[r].pad) return true;
  return false;
}

PmStatus *pm_pass_pad(PmPassCtx *ctx, PmModule *m) {
  if (!asks(m)) return NULL;
  Pad p = {.m = m, .diags = ctx->diags};
  pm_pass_scratch(m, &p.scratch);
  run(&p);
  pm_arena_deinit(&p.scratch);
  return NULL;
}
