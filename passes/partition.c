// partition: turns the placed graph into one device's program (stage LOCAL).
//
// 0. Terms of long scalar sums that are partial alike are brought together (regroup.c).
// 1. exec_choose.c settles, per node, which mesh axes split each of its factors.
// 2. partial_cut.c decides which values stay partial sums and where they are reduced.
// 3. This file rebuilds every function, callees before the call that uses them: each operand is brought from what it
//    has to what the node wants (reshard.c), the node is copied with its local type, and its result is kept in whatever
//    placement it came out. A value may so exist in several versions; a version once made is used again.
// Function results and parameters have the placement that `place` gave them, plus the partial sums that the cut carries
// across the call, so a callee never depends on how its caller came by an operand.
#include <string.h>

#include "base/assert.h"
#include "ir/build.h"
#include "passes/exchange_views.h"
#include "passes/exec_choose.h"
#include "passes/partial_cut.h"
#include "passes/passes.h"
#include "passes/regroup.h"
#include "passes/reshard.h"
#include "passes/rewrite.h"
#include "passes/ring.h"

typedef struct Version {
  PmValueId id;  // in the new function
  int32_t next;  // index into versions, or PM_NONE
} Version;

typedef struct Partition {
  PmModule *m;
  PmArena scratch;
  PmRebuildRoom room;
  PmTree tree;
  PmExec *const *execs;
  PmPartials partials;
  const PmType **stored;  // per slot of a parameter: the type in which it arrives, where that is not its use
} Partition;

// One function while it is rebuilt.
typedef struct Rebuild {
  Partition *p;
  const PmTreeFn *tf;
  PmFn old;  // a copy: the module's table may move
  PmBuilder b;
  int32_t *first;  // per old value: newest version, or PM_NONE
  Version *versions;
  int32_t n_versions, cap_versions;
} Rebuild;

static PmFnId rebuild_fn(Partition *p, int32_t t, const PmType *param_types, const PmType *result_types);

// The placed type with the mesh axes of `mask` as partial sums instead of splits.
static PmType with_partials(const Partition *p, PmType t, uint32_t mask) {
  t.n_partial = 0;
  for (int32_t mesh = 0; mesh < p->m->n_mesh; mesh++) {
    if (!(mask >> mesh & 1)) continue;
    pm_type_cut_mesh(&t, mesh);
    pm_type_add_partial(&t, mesh, PM_SUM);
  }
  return t;
}

static uint32_t mask_of(const Rebuild *r, PmValueId v) { return r->p->partials.mask[pm_slot(r->tf, v)]; }

static void add_version(Rebuild *r, PmValueId old, PmValueId id) {
  r->versions = pm_grow(&r->p->scratch, r->versions, r->n_versions, &r->cap_versions, sizeof *r->versions);
  r->versions[r->n_versions] = (Version){.id = id, .next = r->first[old]};
  r->first[old] = r->n_versions++;
}

// The source line that computes the value, looked up inside calls.
static PmLoc loc_in(const Partition *p, const PmFn *f, PmValueId v, PmLoc otherwise) {
  int32_t def = f->values[v].def;
  if (def == PM_NONE) return otherwise;
  const PmNode *n = &f->nodes[def];
  if (!pm_is_call(n)) return n->loc.path ? n->loc : otherwise;
  const PmFn *g = pm_fn(p->m, n->attr.callee);
  return loc_in(p, g, g->results[v - n->out], n->loc);
}

static PmLoc loc_of(const Rebuild *r, PmValueId old) { return loc_in(r->p, &r->old, old, r->b.loc); }

// Zero is a partial sum of zero on every rank.
static PmValueId zero_as(Rebuild *r, const PmType *want) {
  PmValueId zero = pm_b_const(&r->b, (PmDtype)want->dtype, 0);
  PmAttr none = {0};
  return want->rank == 0 && want->n_partial == 0 ? zero : pm_b_node(&r->b, PM_OP_broadcast, &none, &zero, 1, want);
}

// May a version of this type be brought to `want`? Partials can be dropped, never made.
static bool can_become(const PmType *have, const PmType *want) {
  for (int32_t i = 0; i < want->n_partial; i++)
    if (pm_type_partial_on(have, want->partial[i].mesh) < 0) return false;
  return true;
}

// By the bytes that are sent, then by the collectives that send them, as within one plan.
static bool is_cheaper(const PmReshard *a, const PmReshard *b) {
  return a->bytes != b->bytes ? a->bytes < b->bytes : a->n_colls < b->n_colls;
}

// The old value in the wanted placement: an existing version, or the one that is cheapest to bring there; of equally
// cheap ones the oldest.
static PmValueId version(Rebuild *r, PmValueId old, const PmType *want) {
  int32_t best = PM_NONE;
  PmReshard plan = {0};
  for (int32_t i = r->first[old]; i != PM_NONE; i = r->versions[i].next) {
    const PmType *have = pm_b_type(&r->b, r->versions[i].id);
    if (pm_type_equal(have, want)) return r->versions[i].id;
    if (!can_become(have, want)) continue;
    PmReshard way = pm_reshard_plan(r->p->m, have, want);
    if (best != PM_NONE && is_cheaper(&plan, &way)) continue;
    best = i;
    plan = way;
  }
  PmValueId id;
  if (best == PM_NONE) {
    PM_ASSERT(pm_is_zero(&r->old, old), "no version of %%%d of %s can become what its user wants", old, r->old.name);
    id = zero_as(r, want);
  } else {
    id = pm_reshard_emit(&r->b, r->versions[best].id, &plan, loc_of(r, old));
  }
  add_version(r, old, id);
  return id;
}

static void define(Rebuild *r, PmValueId old, PmValueId id) {
  const PmValue *v = &r->old.values[old];
  if (v->name) pm_b_name(&r->b, id, v->name, v->bound);
  add_version(r, old, id);
}

// Operand i as the node wants it: split along its factors, partial where the node carries a partial through it.
static PmType operand_type(const Rebuild *r, const PmNode *n, const PmExec *e, int32_t i, uint32_t carried) {
  PmType t = r->old.values[n->in[i]].type;
  t.n_partial = 0;
  for (int32_t d = 0; d < t.rank; d++) t.dims[d].split = (PmSplit){0};
  for (int32_t k = 0; k < e->factors.n; k++)
    if (e->factors.items[k].in_dim[i] >= 0) t.dims[e->factors.items[k].in_dim[i]].split = e->split[k];
  for (int32_t mesh = 0; mesh < r->p->m->n_mesh; mesh++)
    if (carried >> mesh & 1) pm_type_cut_mesh(&t, mesh);
  return t;
}

// Bit per operand that stays a partial sum over `mesh`: the same question that the cut asked.
static uint64_t carriers(const Rebuild *r, const PmNode *n, int32_t mesh) {
  uint64_t may = 0, zero = 0;
  for (int32_t i = 0; i < n->n_in; i++) {
    if (mask_of(r, n->in[i]) >> mesh & 1)
      may |= UINT64_C(1) << i;
    else if (pm_is_zero(&r->old, n->in[i]))
      zero |= UINT64_C(1) << i;
  }
  uint64_t set = pm_shard_linear(n, may, zero);
  PM_ASSERT(set != 0, "%s carries a partial sum that no operand has", pm_op_name(n->op));
  return set;
}

// A parameter that is stored split and read in a narrower type is cast where it is stored: what is gathered is narrow.
static bool cast_stored(Rebuild *r, const PmNode *n) {
  const PmType *stored = n->op == PM_OP_cast ? r->p->stored[pm_slot(r->tf, n->in[0])] : NULL;
  PmDtype to = (PmDtype)r->old.values[n->out].type.dtype;
  if (!stored || r->old.values[n->in[0]].def != PM_NONE) return false;
  if (pm_dtype_bytes(to) >= pm_dtype_bytes((PmDtype)stored->dtype)) return false;
  PmType given = *stored;
  given.dtype = (uint8_t)to;
  PmValueId in = version(r, n->in[0], stored);
  define(r, n->out, pm_b_node(&r->b, n->op, &n->attr, &in, 1, &given));
  return true;
}

// The node's attributes with the ranks among which it works: those that count one after the other, or exchange rows.
static PmAttr group_of(const PmModule *m, const PmNode *n, const PmExec *e, uint32_t carried) {
  PmAttr a = n->attr;
  for (int32_t i = 0; i < e->factors.n; i++)
    for (int32_t k = 0; e->factors.items[i].counted && k < e->split[i].n; k++) a.mesh[a.n_mesh++] = e->split[i].mesh[k];
  for (int32_t mesh = 0; mesh < m->n_mesh; mesh++)
    if ((e->crosses & ~carried) >> mesh & 1) a.mesh[a.n_mesh++] = (uint8_t)mesh;
  return a;
}

static void rebuild_node(Rebuild *r, const PmNode *n, const PmExec *e) {
  if (cast_stored(r, n)) return;
  uint32_t carried = mask_of(r, n->out) & ~e->sums;
  PmValueId *in = PM_NEW_N(&r->p->scratch, PmValueId, n->n_in + 1);
  uint64_t *partial_in = PM_NEW_N(&r->p->scratch, uint64_t, r->p->m->n_mesh + 1);
  for (int32_t mesh = 0; mesh < r->p->m->n_mesh; mesh++)
    if (carried >> mesh & 1) partial_in[mesh] = carriers(r, n, mesh);
  for (int32_t i = 0; i < n->n_in; i++) {
    PmType want = operand_type(r, n, e, i, carried);
    for (int32_t mesh = 0; mesh < r->p->m->n_mesh; mesh++)
      if (partial_in[mesh] >> i & 1) pm_type_add_partial(&want, mesh, PM_SUM);
    in[i] = version(r, n->in[i], &want);
  }
  PmType given = r->old.values[n->out].type;
  given.n_partial = 0;
  for (int32_t d = 0; d < given.rank; d++) given.dims[d].split = (PmSplit){0};
  for (int32_t k = 0; k < e->factors.n; k++)
    if (e->factors.items[k].out_dim[0] >= 0) given.dims[e->factors.items[k].out_dim[0]].split = e->split[k];
  for (int32_t mesh = 0; mesh < r->p->m->n_mesh; mesh++)
    if (carried >> mesh & 1) pm_type_cut_mesh(&given, mesh);
  PmAttr attr = group_of(r->p->m, n, e, carried);
  define(r, n->out, pm_b_node(&r->b, n->op, &attr, in, n->n_in, &given));
}

// The type in which a value crosses a call on the callee's side.
static PmType crossing(const Partition *p, const PmTreeFn *callee, PmValueId v) {
  if (p->stored[pm_slot(callee, v)]) return *p->stored[pm_slot(callee, v)];
  return with_partials(p, pm_fn(p->m, callee->fn)->values[v].type, p->partials.mask[pm_slot(callee, v)]);
}

static PmType stacked(PmType slice, const PmType *whole) {
  PmType t = slice;
  t.rank = (uint8_t)(slice.rank + 1);
  memmove(&t.dims[1], &slice.dims[0], slice.rank * sizeof t.dims[0]);
  t.dims[0] = (PmDim){.axis = whole->dims[0].axis};
  return t;
}

static PmType unstacked(const PmType *whole) {
  PmType t = *whole;
  t.rank = (uint8_t)(whole->rank - 1);
  memmove(&t.dims[0], &whole->dims[1], t.rank * sizeof t.dims[0]);
  return t;
}

static void rebuild_call(Rebuild *r, const PmNode *n) {
  Partition *p = r->p;
  int32_t t = p->tree.of_fn[n->attr.callee];
  const PmTreeFn *callee = &p->tree.fns[t];
  PmType *params = PM_NEW_N(&p->scratch, PmType, n->n_in + 1), *results = PM_NEW_N(&p->scratch, PmType, n->n_out + 1);
  for (int32_t i = 0; i < n->n_in; i++) params[i] = crossing(p, callee, i);
  PmCore core;
  const PmFn *g = pm_fn(p->m, callee->fn);
  const bool moved = pm_core_find(p->m, g, &core) && pm_core_moved(p->m, g, &core);
  for (int32_t i = 0; i < n->n_out; i++) {
    PmType out = r->old.values[n->out + i].type;
    const PmValue *own = &g->values[g->results[i]];
    PmCross cross = pm_cross_out(n, i);
    if (cross == PM_CROSS_CARRY)
      results[i] = params[i];
    else
      results[i] = with_partials(p,
                                 moved && pm_type_uses_mesh(&own->type, core.mesh) ? own->type
                                 : cross == PM_CROSS_STACK                         ? unstacked(&out)
                                                                                   : out,
                                 mask_of(r, n->out + i));
  }
  PmValueId *in = PM_NEW_N(&p->scratch, PmValueId, n->n_in + 1);
  for (int32_t i = 0; i < n->n_in; i++) {
    PmType want = params[i];
    if (pm_cross_in(n, i) == PM_CROSS_STACK) want = stacked(want, &r->old.values[n->in[i]].type);
    in[i] = version(r, n->in[i], &want);
  }
  PmAttr attr = n->attr;
  attr.callee = rebuild_fn(p, t, params, results);
  PmValueId out = pm_b_node(&r->b, n->op, &attr, in, n->n_in, NULL);
  for (int32_t i = 0; i < n->n_out; i++) define(r, n->out + i, out + i);
}

static void rebuild_body(Rebuild *r, const PmType *result_types) {
  const PmExec *execs = r->p->execs[r->tf - r->p->tree.fns];
  for (int32_t i = 0; i < r->old.n_nodes; i++) {
    const PmNode *n = &r->old.nodes[i];
    r->b.loc = n->loc;
    if (pm_is_call(n))
      rebuild_call(r, n);
    else
      rebuild_node(r, n, &execs[i]);
  }
  PmValueId *results = PM_NEW_N(&r->p->scratch, PmValueId, r->old.n_results + 1);
  for (int32_t i = 0; i < r->old.n_results; i++) {
    r->b.loc = loc_of(r, r->old.results[i]);
    results[i] = version(r, r->old.results[i], &result_types[i]);
  }
  pm_b_results(&r->b, results, r->old.n_results);
}

static bool calls_nothing(const PmFn *f) {
  for (int32_t i = 0; i < f->n_nodes; i++)
    if (pm_is_call(&f->nodes[i])) return false;
  return true;
}

// Builds the local function. While its callees are rebuilt, those of the caller are looked at: one that has callees is
// built beside the placed one, and takes its place and name then.
static PmFnId rebuild_fn(Partition *p, int32_t t, const PmType *param_types, const PmType *result_types) {
  const PmTreeFn *tf = &p->tree.fns[t];
  const bool leaf = !tf->opaque && calls_nothing(pm_fn(p->m, tf->fn));
  Rebuild r = {.p = p, .tf = tf, .b = {.m = p->m, .fn = tf->fn}};
  if (leaf) {
    r.old = pm_rebuild_begin_in(&p->room, p->m, tf->fn);
  } else {
    r.old = *pm_fn(p->m, tf->fn);
    r.b.fn = pm_module_add_fn(p->m, r.old.name, r.old.kind);
    pm_fn_reserve(p->m, r.b.fn, r.old.n_values, r.old.n_nodes);
  }
  r.first = PM_NEW_N(&p->scratch, int32_t, r.old.n_values + 1);
  for (int32_t v = 0; v < r.old.n_values; v++) r.first[v] = PM_NONE;
  for (int32_t i = 0; i < r.old.n_params; i++) {
    PmValueId id = pm_b_param(&r.b, param_types[i], r.old.values[i].name);
    if (r.old.values[i].name) pm_b_name(&r.b, id, r.old.values[i].name, r.old.values[i].bound);
    add_version(&r, i, id);
  }
  PmCore core;
  if (tf->opaque && pm_core_find(p->m, &r.old, &core))
    pm_ring_build(&r.b, &r.old, &core, result_types);
  else
    rebuild_body(&r, result_types);
  if (leaf)
    pm_rebuild_end(&p->room, p->m, tf->fn, &r.old);
  else
    pm_module_replace_fn(p->m, tf->fn, r.b.fn);
  return tf->fn;
}

// Variables that are stored split travel so into the functions that use them, down to the turns of a repeat, and are
// gathered there at their first use.
static void flow_stored(Partition *p) {
  p->stored = PM_NEW_N(&p->scratch, const PmType *, p->tree.n_slots + 1);
  for (int32_t t = 0; t < p->tree.n_fns; t++) {
    const PmTreeFn *tf = &p->tree.fns[t];
    const PmFn *f = pm_fn(p->m, tf->fn);
    for (int32_t i = 0; tf->parent == PM_NONE && f->param_bind && i < f->n_params; i++) {
      PmVarId var = f->param_bind[i].var;
      if (var != PM_NONE && !pm_type_equal(&p->m->vars[var].type, &f->values[i].type))
        p->stored[pm_slot(tf, i)] = &p->m->vars[var].type;
    }
    for (int32_t k = 0; k < f->n_nodes; k++) {
      const PmNode *n = &f->nodes[k];
      if (!pm_is_call(n) || pm_fn(p->m, n->attr.callee)->kind == PM_FN_UPDATE) continue;
      const PmTreeFn *callee = pm_tree_callee(&p->tree, n);
      for (int32_t i = 0; i < n->n_in; i++) {
        const PmType *s = p->stored[pm_slot(tf, n->in[i])];
        if (!s || callee->opaque || pm_cross_in(n, i) == PM_CROSS_CARRY) continue;
        PmType *own = PM_NEW(&p->scratch, PmType);
        *own = pm_cross_in(n, i) == PM_CROSS_STACK ? unstacked(s) : *s;
        p->stored[pm_slot(callee, i)] = own;
      }
    }
  }
}

static void find_rings(Partition *p) {
  for (int32_t t = 0; t < p->tree.n_fns; t++) {
    const PmFn *f = pm_fn(p->m, p->tree.fns[t].fn);
    const int32_t parent = p->tree.fns[t].parent;
    const bool within = parent != PM_NONE && p->tree.fns[parent].opaque;  // what the old body called
    PmCore core;
    p->tree.fns[t].opaque = within || (pm_core_find(p->m, f, &core) && pm_core_applies(p->m, f, &core, PM_ATTEND_RING));
    if (within) pm_fn(p->m, p->tree.fns[t].fn)->dead = true;
  }
}

static void rebuild_entry(Partition *p, int32_t t) {
  const PmFn *f = pm_fn(p->m, p->tree.fns[t].fn);
  PmType *params = PM_NEW_N(&p->scratch, PmType, f->n_params + 1);
  PmType *results = PM_NEW_N(&p->scratch, PmType, f->n_results + 1);
  for (int32_t i = 0; i < f->n_params; i++) {
    PmVarId var = f->param_bind ? f->param_bind[i].var : PM_NONE;
    params[i] = var == PM_NONE ? f->values[i].type : p->m->vars[var].type;
  }
  for (int32_t i = 0; i < f->n_results; i++) {
    PmVarId var = f->result_bind ? f->result_bind[i].var : PM_NONE;
    results[i] = var == PM_NONE ? f->values[f->results[i]].type : p->m->vars[var].type;
  }
  rebuild_fn(p, t, params, results);
}

PmStatus *pm_pass_partition(PmPassCtx *ctx, PmModule *m) {
  (void)ctx;
  Partition p = {.m = m};
  pm_pass_scratch(m, &p.scratch);
  p.room.arena = &p.scratch;
  pm_exchange_views(&p.scratch, m);
  p.tree = pm_tree_build(&p.scratch, m);
  find_rings(&p);
  pm_regroup_sums(&p.scratch, m, &p.tree);
  flow_stored(&p);
  p.execs = pm_exec_table(&p.scratch, m, &p.tree);
  p.partials = pm_partial_cut(&p.scratch, m, &p.tree, p.execs);
  for (int32_t i = 0; i < m->n_fns; i++)
    if (p.tree.of_fn[i] == PM_NONE) m->fns[i].dead = true;  // the model itself: its clones in step and eval are kept
  m->stage = PM_STAGE_LOCAL;
  for (int32_t t = 0; t < p.tree.n_fns; t++)
    if (p.tree.fns[t].parent == PM_NONE) rebuild_entry(&p, t);
  pm_arena_deinit(&p.scratch);
  return NULL;
}
