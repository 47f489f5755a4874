#include "passes/reshard_search.h"

#include <string.h>

#include "base/assert.h"

// Bytes that a rank sends in the step, as the table in reshard_search.c counts them.
static int64_t sent(const PmModule *m, PmOp op, const PmAttr *attr, const PmType *before, const PmType *after) {
  int64_t n = pm_type_local_bytes(m, before), others = n - n / pm_mesh_group(m, attr->mesh, attr->n_mesh);
  if (op == PM_OP_slice) return 0;
  if (op == PM_OP_permute) return n;
  if (op == PM_OP_all_gather) return pm_type_local_bytes(m, after) - n;
  return op == PM_OP_all_reduce ? 2 * others : others;
}

// Appends a step. Slices of one dim in a row are one.
static void push(const PmModule *m, PmReshard *r, PmOp op, const PmAttr *attr, const PmType *before,
                 const PmType *after) {
  PmReshardStep *last = r->n > 0 ? &r->steps[r->n - 1] : NULL;
  int64_t bytes = sent(m, op, attr, before, after), local = pm_type_local_bytes(m, after);
  if (local > r->peak) r->peak = local;
  r->bytes += bytes;
  bool slices = last && last->op == op && op == PM_OP_slice && !last->attr.zigzag;
  if (slices && last->attr.axes[0] == attr->axes[0]) {
    memcpy(&last->attr.mesh[last->attr.n_mesh], attr->mesh, attr->n_mesh);
    last->attr.n_mesh = (uint8_t)(last->attr.n_mesh + attr->n_mesh);
    last->result = *after;
    return;
  }
  PM_ASSERT(r->n < PM_RESHARD_MAX_STEPS, "resharding does not end");
  r->steps[r->n++] = (PmReshardStep){.op = op, .attr = *attr, .result = *after, .bytes = bytes};
  r->n_colls += op != PM_OP_slice;
}

// The mesh axes that `longer` has behind `shorter`.
static void behind(PmAttr *attr, const PmSplit *shorter, const PmSplit *longer) {
  for (int32_t i = shorter->n; i < longer->n; i++) attr->mesh[attr->n_mesh++] = longer->mesh[i];
}

static PmAttr attr_of(const PmModule *m, const PmReshardMove *n, const PmType *before) {
  PmAttr a = {.kind = PM_SUM};
  const PmType *after = &n->result;
  const PmSplit *was = &before->dims[n->dim].split, *is = &after->dims[n->dim].split;
  if (n->op == PM_OP_permute) {
    PmPermute p;
    bool ok = pm_permute_orders(m, before, after, &p);
    PM_ASSERT(ok, "a permute between parts of other shapes");
    a.n_mesh = (uint8_t)p.n;
    memcpy(a.mesh, p.from, (size_t)p.n);
    return a;
  }
  if (n->op == PM_OP_all_reduce) {
    for (int32_t i = 0; i < before->n_partial; i++) {
      if (pm_type_partial_on(after, before->partial[i].mesh) >= 0) continue;
      a.kind = (PmReduceKind)before->partial[i].kind;
      a.mesh[a.n_mesh++] = before->partial[i].mesh;
    }
    return a;
  }
  a.n_axes = 1;
  a.axes[0] = before->dims[n->dim].axis;
  if (n->op == PM_OP_all_to_all) {
    a.n_to = 1;
    a.to[0] = before->dims[n->to].axis;
  }
  bool leaves = n->op == PM_OP_all_to_all || n->op == PM_OP_all_gather;
  behind(&a, leaves ? is : was, leaves ? was : is);
  return a;
}

// All partial sums that `to` has not, in one step a kind.
static void reduce_all(const PmModule *m, PmReshard *r, PmType *cur, const PmType *to) {
  for (int32_t kind = 0; kind < PM_REDUCE_COUNT; kind++) {
    PmType after = *cur;
    PmAttr attr = {.kind = (PmReduceKind)kind};
    for (int32_t i = 0; i < cur->n_partial; i++) {
      if (cur->partial[i].kind != kind || pm_type_partial_on(to, cur->partial[i].mesh) >= 0) continue;
      attr.mesh[attr.n_mesh++] = cur->partial[i].mesh;
      pm_type_drop_partial(&after, cur->partial[i].mesh);
    }
    if (attr.n_mesh > 0) push(m, r, PM_OP_all_reduce, &attr, cur, &after);
    *cur = after;
  }
}

// Reduces, gathers and slices whatever differs.
static void by_gathers(const PmModule *m, const PmType *from, const PmType *to, PmReshard *r) {
  PmType cur = *from, common = pm_reshard_common(from, to);
  reduce_all(m, r, &cur, to);
  for (int32_t pass = 0; pass < 2; pass++) {
    for (int32_t d = 0; d < cur.rank; d++) {
      const PmSplit *same = &common.dims[d].split;
      PmType after = cur;
      PmAttr attr = {.n_axes = 1};
      attr.axes[0] = cur.dims[d].axis;
      after.dims[d].split = pass == 0 ? *same : to->dims[d].split;
      behind(&attr, same, pass == 0 ? &cur.dims[d].split : &after.dims[d].split);
      if (attr.n_mesh > 0) push(m, r, pass == 0 ? PM_OP_all_gather : PM_OP_slice, &attr, &cur, &after);
      cur = after;
    }
  }
}

static bool has_zigzag(const PmType *t) {
  for (int32_t d = 0; d < t->rank; d++)
    if (pm_split_is_zigzag(&t->dims[d].split)) return true;
  return false;
}

static bool is_prefix(const PmSplit *p, const PmSplit *of) {
  for (int32_t i = 0; i < p->n; i++)
    if (i >= of->n || p->mesh[i] != of->mesh[i]) return false;
  return p->n == 0 || p->zigzag == of->zigzag;
}

// The dim of `to` that takes mesh axis `mesh` next, given what `cur` already has, or PM_NONE.
static int32_t next_dim(const PmType *cur, const PmType *to, int32_t mesh) {
  for (int32_t d = 0; d < to->rank; d++) {
    const PmSplit *have = &cur->dims[d].split, *want = &to->dims[d].split;
    if (is_prefix(have, want) && have->n < want->n && want->mesh[have->n] == mesh) return d;
  }
  return PM_NONE;
}

// The next mesh axis of `want`, in its order.
static void extend(PmAttr *attr, PmSplit *s, const PmSplit *want) {
  bool first = s->n == 0;
  pm_split_push(s, want->mesh[s->n]);
  s->zigzag = want->zigzag;
  attr->zigzag = first && want->zigzag;
}

static PmAttr one_mesh(const PmType *t, int32_t mesh, int32_t dim) {
  PmAttr attr = {.kind = PM_SUM, .n_mesh = 1, .n_axes = 1};
  attr.mesh[0] = (uint8_t)mesh;
  attr.axes[0] = t->dims[dim].axis;
  return attr;
}

// One step from a partial sum to a split, if there is one.
static bool scatter_one(const PmModule *m, PmReshard *r, PmType *cur, const PmType *to) {
  for (int32_t i = 0; i < cur->n_partial; i++) {
    int32_t mesh = cur->partial[i].mesh;
    if (pm_type_partial_on(to, mesh) >= 0 || cur->partial[i].kind != PM_SUM) continue;
    int32_t dim = next_dim(cur, to, mesh);
    if (dim == PM_NONE) continue;
    PmAttr attr = one_mesh(cur, mesh, dim);
    PmType after = *cur;
    pm_type_drop_partial(&after, mesh);
    extend(&attr, &after.dims[dim].split, &to->dims[dim].split);
    push(m, r, PM_OP_reduce_scatter, &attr, cur, &after);
    *cur = after;
    return true;
  }
  return false;
}

static bool slice_one(const PmModule *m, PmReshard *r, PmType *cur, const PmType *to) {
  for (int32_t d = 0; d < to->rank; d++) {
    const PmSplit *have = &cur->dims[d].split, *want = &to->dims[d].split;
    if (!is_prefix(have, want) || have->n == want->n || pm_type_uses_mesh(cur, want->mesh[have->n])) continue;
    PmType after = *cur;
    PmAttr attr = one_mesh(cur, want->mesh[have->n], d);
    extend(&attr, &after.dims[d].split, want);
    push(m, r, PM_OP_slice, &attr, cur, &after);
    *cur = after;
    return true;
  }
  return false;
}

// A mesh axis leaves the minor end of a dim: to another that takes it next, or, with `gather`, to be whole.
static bool leave_one(const PmModule *m, PmReshard *r, PmType *cur, const PmType *to, bool gather) {
  for (int32_t d = 0; d < to->rank; d++) {
    const PmSplit *have = &cur->dims[d].split;
    if (is_prefix(have, &to->dims[d].split)) continue;
    int32_t mesh = have->mesh[have->n - 1], e = next_dim(cur, to, mesh);
    if (!gather && (e == PM_NONE || e == d)) continue;
    PmType after = *cur;
    PmAttr attr = one_mesh(cur, mesh, d);
    after.dims[d].split.n--;
    if (!gather) {
      extend(&attr, &after.dims[e].split, &to->dims[e].split);
      attr.n_to = 1;
      attr.to[0] = cur->dims[e].axis;
    }
    push(m, r, gather ? PM_OP_all_gather : PM_OP_all_to_all, &attr, cur, &after);
    *cur = after;
    return true;
  }
  return false;
}

// Where a split is in an order that the search does not know: partial sums first, then slices, all-to-alls, gathers,
// one mesh axis at a time, so that what is whole or moves is in its own order.
static void step_by_step(const PmModule *m, const PmType *from, const PmType *to, PmReshard *r) {
  PmType cur = *from;
  while (scatter_one(m, r, &cur, to)) continue;
  reduce_all(m, r, &cur, to);
  while (slice_one(m, r, &cur, to) || leave_one(m, r, &cur, to, false) || leave_one(m, r, &cur, to, true)) continue;
}

PmReshard pm_reshard_plan(const PmModule *m, const PmType *from, const PmType *to) {
  PmReshard r = {.n = 0};
  int64_t a = pm_type_local_bytes(m, from), b = pm_type_local_bytes(m, to);
  r.peak = a > b ? a : b;
  if (has_zigzag(from) || has_zigzag(to)) {
    step_by_step(m, from, to, &r);
    PM_ASSERT(pm_type_equal(r.n ? &r.steps[r.n - 1].result : from, to), "resharding stopped short");
    return r;
  }
  PmReshardMove moves[PM_RESHARD_MAX_STEPS];
  int32_t n = pm_reshard_search(m, from, to, moves);
  if (n == PM_NONE) by_gathers(m, from, to, &r);
  for (int32_t i = 0; i < n; i++) {
    const PmType *before = i == 0 ? from : &moves[i - 1].result;
    PmAttr attr = attr_of(m, &moves[i], before);
    push(m, &r, moves[i].op, &attr, before, &moves[i].result);
  }
  PM_ASSERT(pm_type_equal(r.n ? &r.steps[r.n - 1].result : from, to), "resharding stopped short");
  return r;
}

PmValueId pm_reshard_emit(PmBuilder *b, PmValueId v, const PmReshard *plan, PmLoc cause) {
  PmLoc own = b->loc;
  for (int32_t i = 0; i < plan->n; i++) {
    const PmReshardStep *s = &plan->steps[i];
    bool reduces = s->op == PM_OP_all_reduce || s->op == PM_OP_reduce_scatter;
    b->loc = reduces ? cause : own;
    v = pm_b_node(b, s->op, &s->attr, &v, 1, &s->result);
  }
  b->loc = own;
  return v;
}
