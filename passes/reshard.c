#include "passes/reshard.h"

#include "base/assert.h"

static bool is_prefix(const PmSplit *p, const PmSplit *of) {
  for (int32_t i = 0; i < p->n; i++)
    if (i >= of->n || p->mesh[i] != of->mesh[i]) return false;
  return true;
}

// Bytes that one of `group` ranks sends of a whole of `bytes`, the group's own share left out.
static int64_t others_share(const PmModule *m, const PmAttr *attr, int64_t bytes) {
  int64_t group = 1;
  for (int32_t i = 0; i < attr->n_mesh; i++) group *= m->mesh[attr->mesh[i]].size;
  return bytes - bytes / group;
}

static void push(PmReshard *r, PmOp op, const PmAttr *attr, PmType *cur, PmType after, int64_t bytes) {
  PM_ASSERT(r->n < PM_RESHARD_MAX_STEPS, "resharding does not end");
  r->steps[r->n++] = (PmReshardStep){.op = op, .attr = *attr, .result = after, .bytes = bytes};
  r->bytes += bytes;
  *cur = after;
}

// The dim of `to` that takes mesh axis `mesh` next, given what `cur` already has, or PM_NONE.
static int32_t next_dim(const PmType *cur, const PmType *to, int32_t mesh) {
  for (int32_t d = 0; d < to->rank; d++) {
    const PmSplit *have = &cur->dims[d].split, *want = &to->dims[d].split;
    if (is_prefix(have, want) && have->n < want->n && want->mesh[have->n] == mesh) return d;
  }
  return PM_NONE;
}

static void drop_partials(const PmModule *m, PmReshard *r, PmType *cur, const PmType *to) {
  for (int32_t i = 0; i < cur->n_partial;) {  // reduce-scatters first: they leave less to reduce
    int32_t mesh = cur->partial[i].mesh;
    int32_t dim =
        pm_type_partial_on(to, mesh) >= 0 || cur->partial[i].kind != PM_SUM ? PM_NONE : next_dim(cur, to, mesh);
    if (dim == PM_NONE) {
      i++;
      continue;
    }
    PmAttr attr = {.kind = PM_SUM, .n_mesh = 1, .n_axes = 1};
    attr.mesh[0] = (uint8_t)mesh;
    attr.axes[0] = cur->dims[dim].axis;
    PmType after = *cur;
    pm_type_drop_partial(&after, mesh);
    pm_split_push(&after.dims[dim].split, mesh);
    push(r, PM_OP_reduce_scatter, &attr, cur, after, others_share(m, &attr, pm_type_local_bytes(m, cur)));
    i = 0;
  }
  for (int32_t kind = 0; kind < PM_REDUCE_COUNT; kind++) {
    PmAttr attr = {.kind = (PmReduceKind)kind};
    PmType after = *cur;
    for (int32_t i = 0; i < cur->n_partial; i++) {
      int32_t mesh = cur->partial[i].mesh;
      if (cur->partial[i].kind != kind || pm_type_partial_on(to, mesh) >= 0) continue;
      attr.mesh[attr.n_mesh++] = (uint8_t)mesh;
      pm_type_drop_partial(&after, mesh);
    }
    if (attr.n_mesh == 0) continue;
    push(r, PM_OP_all_reduce, &attr, cur, after, 2 * others_share(m, &attr, pm_type_local_bytes(m, cur)));
  }
}

static PmAttr one_mesh(PmType *t, int32_t mesh, int32_t dim) {
  PmAttr attr = {.n_mesh = 1, .n_axes = 1};
  attr.mesh[0] = (uint8_t)mesh;
  attr.axes[0] = t->dims[dim].axis;
  return attr;
}

static bool try_slice(PmReshard *r, PmType *cur, const PmType *to) {
  for (int32_t d = 0; d < to->rank; d++) {
    const PmSplit *have = &cur->dims[d].split, *want = &to->dims[d].split;
    if (!is_prefix(have, want) || have->n == want->n || pm_type_uses_mesh(cur, want->mesh[have->n])) continue;
    PmType after = *cur;
    int32_t mesh = want->mesh[have->n];
    pm_split_push(&after.dims[d].split, mesh);
    PmAttr attr = one_mesh(cur, mesh, d);
    push(r, PM_OP_slice, &attr, cur, after, 0);
    return true;
  }
  return false;
}

static bool try_all_to_all(const PmModule *m, PmReshard *r, PmType *cur, const PmType *to) {
  for (int32_t d = 0; d < to->rank; d++) {
    PmSplit *have = &cur->dims[d].split;
    if (is_prefix(have, &to->dims[d].split)) continue;
    int32_t mesh = have->mesh[have->n - 1];
    int32_t e = next_dim(cur, to, mesh);
    if (e == PM_NONE || e == d) continue;
    PmType after = *cur;
    after.dims[d].split.n--;
    pm_split_push(&after.dims[e].split, mesh);
    PmAttr attr = one_mesh(cur, mesh, d);
    attr.n_to = 1;
    attr.to[0] = cur->dims[e].axis;
    push(r, PM_OP_all_to_all, &attr, cur, after, others_share(m, &attr, pm_type_local_bytes(m, cur)));
    return true;
  }
  return false;
}

static bool try_gather(const PmModule *m, PmReshard *r, PmType *cur, const PmType *to) {
  for (int32_t d = 0; d < to->rank; d++) {
    PmSplit *have = &cur->dims[d].split;
    if (is_prefix(have, &to->dims[d].split)) continue;
    PmType after = *cur;
    PmAttr attr = one_mesh(cur, have->mesh[have->n - 1], d);
    after.dims[d].split.n--;
    push(r, PM_OP_all_gather, &attr, cur, after, others_share(m, &attr, pm_type_local_bytes(m, &after)));
    return true;
  }
  return false;
}

PmReshard pm_reshard_plan(const PmModule *m, const PmType *from, const PmType *to) {
  PmReshard r = {.n = 0, .bytes = 0};
  PmType cur = *from;
  drop_partials(m, &r, &cur, to);
  while (try_slice(&r, &cur, to) || try_all_to_all(m, &r, &cur, to) || try_gather(m, &r, &cur, to)) continue;
  PM_ASSERT(pm_type_equal(&cur, to), "resharding stopped short");
  return r;
}

PmValueId pm_reshard_emit(PmBuilder *b, PmValueId v, const PmReshard *plan, PmLoc cause) {
  PmLoc own = b->loc;
  for (int32_t i = 0; i < plan->n; i++) {
    const PmReshardStep *s = &plan->steps[i];
    bool reduces = s->op == PM_OP_all_reduce || s->op == PM_OP_reduce_scatter;
    b->loc = reduces ? cause : own;
    v = pm_b_node(b, s->op, &s->attr, &v, 1, NULL);
  }
  b->loc = own;
  return v;
}
