// bucket: all-reduces of gradients that sum over the same ranks become one node of several operands, one exchange.
//
// Which: those whose result is needed for a variable's new value and for nothing that takes long. `Use` says so of each
// value, from its readers backwards, callers before callees. What a forward or a backward waits for stays where it is.
//
// How: a candidate's level is the number of candidates on the longest way to it. What depends on another has a higher
// level, so that candidates of one level can be one node, and nodes of several levels cannot wait for each other. In
// their order each goes to the first bucket of its level, mesh axes, kind and dtype that has room. A bucket stands
// where its last member stood: the readers of the others move behind it, and everything else keeps its order.
#include "base/assert.h"
#include "base/checked.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

#define MAX_OPEN 64  // an all-reduce looks for room in so many of the last buckets

// ORDER: of several readers' the largest counts.
typedef enum Use {
  USE_REPORT,  // for people, or for nothing
  USE_UPDATE,  // for a variable's new value, by pointwise work, sums and collectives alone
  USE_AWAITED,
} Use;

typedef struct Bucket {
  int32_t *members;  // nodes, ascending
  int32_t n, cap, level;
  int64_t bytes;
} Bucket;

typedef struct Pass {
  PmModule *m;
  PmArena scratch;
  uint8_t **result_use;  // by function, by result: Use
} Pass;

// One function.
typedef struct Work {
  Pass *p;
  const PmFn *f;
  uint8_t *use;  // by value: Use
  Bucket *buckets;
  int32_t n_buckets, cap_buckets;
  int32_t *of_node;  // by node: its bucket, or PM_NONE
} Work;

static void raise_use(uint8_t *use, Use to) {
  if (*use < to) *use = (uint8_t)to;
}

// ---- which ---------------------------------------------------------------------------------------------------------
static bool is_quick(const PmNode *n) { return pm_is_cheap(n) || (pm_op_flags(n->op) & (PM_F_REDUCE | PM_F_COMM)); }

// What node `n`, whose own results are used as `own` says, makes of operand `i`.
static Use use_of(const PmModule *m, const PmNode *n, Use own) {
  if (!pm_is_call(n)) return is_quick(n) ? own : USE_AWAITED;
  PmFnKind kind = pm_fn(m, n->attr.callee)->kind;
  if (pm_is_loop(n) || (kind != PM_FN_UPDATE && kind != PM_FN_COMPOSITE)) return USE_AWAITED;
  return kind == PM_FN_UPDATE && own < USE_UPDATE ? USE_UPDATE : own;
}

static void find_uses(Work *w) {
  const PmFn *f = w->f;
  const uint8_t *results = w->p->result_use[f - w->p->m->fns];
  for (int32_t i = 0; i < f->n_results; i++) {
    bool kept = f->result_bind && f->result_bind[i].var != PM_NONE;
    raise_use(&w->use[f->results[i]], kept ? USE_UPDATE : (Use)results[i]);
  }
  for (int32_t i = f->n_nodes - 1; i >= 0; i--) {
    const PmNode *n = &f->nodes[i];
    Use own = USE_REPORT;
    for (int32_t k = 0; k < n->n_out; k++) {
      Use one = (Use)w->use[n->out + k];
      if (one > own) own = one;
      // The next turn waits for what it is handed.
      if (pm_is_call(n)) raise_use(&w->p->result_use[n->attr.callee][k], k < n->attr.n_carry ? USE_AWAITED : one);
    }
    for (int32_t k = 0; k < n->n_in; k++) raise_use(&w->use[n->in[k]], use_of(w->p->m, n, own));
  }
}

// ---- how -----------------------------------------------------------------------------------------------------------
static int64_t bytes_of(const Work *w, const PmNode *n) {
  return pm_type_local_bytes(w->p->m, &w->f->values[n->in[0]].type);
}

static bool same_exchange(const Work *w, const PmNode *a, const PmNode *b) {
  if (a->attr.kind != b->attr.kind || a->attr.n_mesh != b->attr.n_mesh) return false;
  for (int32_t i = 0; i < a->attr.n_mesh; i++)
    if (a->attr.mesh[i] != b->attr.mesh[i]) return false;
  return w->f->values[a->out].type.dtype == w->f->values[b->out].type.dtype;
}

static bool takes(const Work *w, const Bucket *b, const PmNode *n, int32_t level) {
  int64_t bytes;
  return b->level == level && b->n < PM_MAX_PARTS && pm_add_i64(b->bytes, bytes_of(w, n), &bytes) &&
         bytes <= w->p->m->bucket && same_exchange(w, &w->f->nodes[b->members[0]], n);
}

static void add_member(Work *w, int32_t at, int32_t level) {
  const PmNode *n = &w->f->nodes[at];
  int32_t b = w->n_buckets > MAX_OPEN ? w->n_buckets - MAX_OPEN : 0;
  while (b < w->n_buckets && !takes(w, &w->buckets[b], n, level)) b++;
  if (b == w->n_buckets) {
    w->buckets = pm_grow(&w->p->scratch, w->buckets, w->n_buckets, &w->cap_buckets, sizeof *w->buckets);
    w->buckets[w->n_buckets++] = (Bucket){.level = level};
  }
  Bucket *to = &w->buckets[b];
  to->members = pm_grow(&w->p->scratch, to->members, to->n, &to->cap, sizeof *to->members);
  to->members[to->n++] = at;
  to->bytes += bytes_of(w, n);
  w->of_node[at] = b;
}

static bool is_candidate(const Work *w, const PmNode *n) {
  return n->op == PM_OP_all_reduce && n->n_in == 1 && w->use[n->out] == USE_UPDATE;
}

// Buckets of more than one; true when there is any.
static bool fill_buckets(Work *w) {
  const PmFn *f = w->f;
  int32_t n = 0;
  for (int32_t i = 0; i < f->n_nodes; i++) n += is_candidate(w, &f->nodes[i]);
  if (n < 2) return false;
  w->of_node = PM_NEW_N(&w->p->scratch, int32_t, f->n_nodes);
  int32_t *level = PM_NEW_N(&w->p->scratch, int32_t, f->n_nodes);
  for (int32_t i = 0; i < f->n_nodes; i++) {
    const PmNode *node = &f->nodes[i];
    for (int32_t k = 0; k < node->n_in; k++) {
      const int32_t def = f->values[node->in[k]].def;
      if (def != PM_NONE && level[def] > level[i]) level[i] = level[def];
    }
    w->of_node[i] = PM_NONE;
    if (is_candidate(w, node)) add_member(w, i, ++level[i]);
  }
  bool any = false;
  for (int32_t b = 0; b < w->n_buckets; b++) any = any || w->buckets[b].n > 1;
  return any;
}

// ---- building ------------------------------------------------------------------------------------------------------
// NULL for a node that stays as it is.
static const Bucket *bucket_of(const Work *w, int32_t at) {
  const Bucket *b = w->of_node[at] == PM_NONE ? NULL : &w->buckets[w->of_node[at]];
  return b && b->n > 1 ? b : NULL;
}

static bool operands_made(const PmNode *n, const PmValueId *map) {
  for (int32_t k = 0; k < n->n_in; k++)
    if (map[n->in[k]] == PM_NONE) return false;
  return true;
}

// A bucket's last member stands for it.
static bool is_ready(const Work *w, int32_t at, const PmValueId *map) {
  const Bucket *b = bucket_of(w, at);
  if (!b) return operands_made(&w->f->nodes[at], map);
  for (int32_t i = 0; i < b->n; i++)
    if (!operands_made(&w->f->nodes[b->members[i]], map)) return false;
  return b->members[b->n - 1] == at;
}

static void build_bucket(Work *w, PmBuilder *b, const Bucket *bucket, PmValueId *map) {
  const PmFn *f = w->f;
  const PmNode *first = &f->nodes[bucket->members[0]];
  PmValueId *in = PM_NEW_N(&w->p->scratch, PmValueId, bucket->n);
  for (int32_t i = 0; i < bucket->n; i++) in[i] = map[f->nodes[bucket->members[i]].in[0]];
  b->loc = first->loc;
  PmValueId out = pm_b_node(b, PM_OP_all_reduce, &first->attr, in, bucket->n, NULL);
  for (int32_t i = 0; i < bucket->n; i++) {
    PmValueId old = f->nodes[bucket->members[i]].out;
    map[old] = out + i;
    pm_b_lend_name(b, out + i, f->values[old].name, f->values[old].bound);
  }
}

// Appends, again and again, the first node by the old order that does not stand yet and whose operands do.
static void rebuild(Work *w, PmFnId id) {
  PmModule *m = w->p->m;
  PmFn old = pm_rebuild_begin(m, id);
  w->f = &old;
  PmBuilder b = {m, id, {0}};
  PmValueId *map = PM_NEW_N(&w->p->scratch, PmValueId, old.n_values + 1);
  bool *done = PM_NEW_N(&w->p->scratch, bool, old.n_nodes + 1);
  for (PmValueId v = 0; v < old.n_values; v++) map[v] = PM_NONE;
  for (int32_t i = 0; i < old.n_params; i++) map[i] = pm_rebuild_param(&b, &old.values[i]);
  for (int32_t i = 0; i < old.n_nodes; i++) {
    if (done[i] || !is_ready(w, i, map)) continue;
    const Bucket *bucket = bucket_of(w, i);
    done[i] = true;
    if (!bucket) {
      pm_rebuild_node(&b, &old, &old.nodes[i], map);
      continue;
    }
    build_bucket(w, &b, bucket, map);
    for (int32_t k = 0; k < bucket->n; k++) done[bucket->members[k]] = true;
    i = bucket->members[0];  // from there on stands what waited for it
  }
  PmValueId *results = PM_NEW_N(&w->p->scratch, PmValueId, old.n_results + 1);
  for (int32_t i = 0; i < old.n_results; i++) {
    results[i] = map[old.results[i]];
    PM_ASSERT(results[i] != PM_NONE, "%s: buckets wait for each other", old.name);
  }
  pm_b_results(&b, results, old.n_results);
}

PmStatus *pm_pass_bucket(PmPassCtx *ctx, PmModule *m) {
  (void)ctx;
  if (m->bucket == 0) return NULL;
  Pass p = {.m = m};
  pm_pass_scratch(m, &p.scratch);
  PmFnId *order;
  int32_t n;
  PmStatus *st = pm_fn_order(m, &p.scratch, &order, &n);
  p.result_use = PM_NEW_N(&p.scratch, uint8_t *, m->n_fns + 1);
  for (int32_t i = 0; !st && i < n; i++)
    p.result_use[order[i]] = PM_NEW_N(&p.scratch, uint8_t, pm_fn(m, order[i])->n_results + 1);
  for (int32_t i = n - 1; !st && i >= 0; i--) {
    Work w = {.p = &p, .f = pm_fn(m, order[i])};
    w.use = PM_NEW_N(&p.scratch, uint8_t, w.f->n_values + 1);
    find_uses(&w);
    if (fill_buckets(&w)) rebuild(&w, order[i]);
  }
  pm_arena_deinit(&p.scratch);
  return st;
}
