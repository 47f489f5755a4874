// The search runs over states: where each mesh axis along which the two placements differ stands. It may split a dim
// (at some place behind the part of the split that both ends have, which stays), be a partial sum, or be free.
//
//   slice       0            a free axis that the target splits by goes to the minor end of a dim
//   permute     n            any state whose parts have the same shape
//   all_to_all  n - n/g      the minor axes of one dim go to the minor end of another
//   all_gather  (g - 1) n    the minor axes of a dim become free
//   reduce      2 (n - n/g)  partial sums become free (all_reduce), or go to the minor end of a dim (reduce_scatter),
//                            which sends half
//
// n are the local bytes before the step, g the ranks of the group. A maximum is reduced when no sum is left to reduce:
// the two do not commute.
#include "passes/reshard_search.h"

#include <string.h>

#include "base/assert.h"

enum { FREE = 15, PARTIAL = 14 };  // places of an axis that splits no dim
_Static_assert(PM_MAX_RANK <= PARTIAL, "a dim is a place");

typedef uint64_t Key;  // per axis a byte: its dim (low half) and its position there

typedef struct State {
  uint8_t n[PM_MAX_RANK];
  uint8_t axis[PM_MAX_RANK][PM_RESHARD_MAX_AXES];  // major to minor, behind the common part
  uint32_t free, partial;                          // bit per axis
  int64_t parts;
} State;

typedef struct Cost {
  int64_t bytes;
  int32_t colls, steps;
} Cost;

typedef struct Node {
  Key key;
  Cost cost;
  int32_t prev;
  uint8_t op, dim, to;  // the step that leads here
  bool done;
} Node;

// A node to go on from: the costs with which it was found, and the bytes that a way through it sends at least.
typedef struct Entry {
  Cost least;
  int32_t node;
} Entry;

typedef struct Search {
  const PmModule *m;
  const PmType *from, *to;
  PmArena arena;
  PmType common;  // `to` with the parts of splits and the partials that both have
  int32_t n;      // axes
  uint8_t mesh[PM_RESHARD_MAX_AXES];
  int64_t size[PM_RESHARD_MAX_AXES];
  uint32_t wanted, sums;      // bit per axis: the target is split by it; its partial is a sum
  int64_t room[PM_MAX_RANK];  // local elements of the dim in `common`
  Key goal_key;
  State goal;
  int64_t whole, cap;  // bytes of `common`; most that a state may have
  int32_t n_nodes, cap_nodes, n_slots;
  Node *nodes;
  int32_t *slots;  // hash of key -> node + 1
  Entry *heap;
  int32_t n_heap, cap_heap;
  int32_t at;  // the node whose steps are tried
} Search;

// ---- states --------------------------------------------------------------------------------------------------------
static Key key_of(const Search *s, const State *x) {
  Key key = 0;
  for (int32_t i = 0; i < s->n; i++) {
    Key place = x->partial >> i & 1 ? PARTIAL : FREE;
    key |= place << (8 * i);
  }
  for (int32_t d = 0; d < s->common.rank; d++) {
    for (int32_t k = 0; k < x->n[d]; k++) {
      int32_t shift = 8 * x->axis[d][k];
      key = (key & ~((Key)0xff << shift)) | (Key)(uint32_t)(d | k << 4) << shift;
    }
  }
  return key;
}

static State state_of(const Search *s, Key key) {
  State x = {.parts = 1};
  for (int32_t i = 0; i < s->n; i++) {
    int32_t d = (int32_t)(key >> (8 * i) & 15), k = (int32_t)(key >> (8 * i + 4) & 15);
    if (d == FREE || d == PARTIAL) {
      uint32_t *set = d == FREE ? &x.free : &x.partial;
      *set |= UINT32_C(1) << i;
      continue;
    }
    x.axis[d][k] = (uint8_t)i;
    x.n[d]++;
    x.parts *= s->size[i];
  }
  return x;
}

static PmType type_of(const Search *s, Key key) {
  PmType t = s->common;
  State x = state_of(s, key);
  for (int32_t d = 0; d < t.rank; d++)
    for (int32_t k = 0; k < x.n[d]; k++) pm_split_push(&t.dims[d].split, s->mesh[x.axis[d][k]]);
  for (int32_t i = 0; i < s->n; i++)
    if (x.partial >> i & 1) pm_type_add_partial(&t, s->mesh[i], s->sums >> i & 1 ? PM_SUM : PM_MAX);
  return t;
}

static Key key_of_type(const Search *s, const PmType *t) {
  State x = {.free = 0};
  for (int32_t i = 0; i < s->n; i++) x.partial |= (uint32_t)(pm_type_partial_on(t, s->mesh[i]) >= 0) << i;
  for (int32_t d = 0; d < t->rank; d++)
    for (int32_t k = s->common.dims[d].split.n; k < t->dims[d].split.n; k++)
      for (uint8_t i = 0; i < s->n; i++)
        if (s->mesh[i] == t->dims[d].split.mesh[k]) x.axis[d][x.n[d]++] = i;
  return key_of(s, &x);
}

static int64_t bytes_of(const Search *s, const State *x) { return s->whole / x->parts; }

// Appends the axis to the dim's split; false where it has no room.
static bool add_axis(const Search *s, State *x, int32_t d, int32_t i) {
  int64_t parts = s->size[i];
  for (int32_t k = 0; k < x->n[d]; k++) parts *= s->size[x->axis[d][k]];
  if (s->room[d] % parts != 0 || s->common.dims[d].split.n + x->n[d] >= PM_MAX_SPLIT) return false;
  x->axis[d][x->n[d]++] = (uint8_t)i;
  x->parts *= s->size[i];
  x->free &= ~(UINT32_C(1) << i);
  x->partial &= ~(UINT32_C(1) << i);
  return true;
}

// Takes the minor axis off the dim's split.
static int32_t pop_axis(const Search *s, State *x, int32_t d) {
  int32_t i = x->axis[d][--x->n[d]];
  x->parts /= s->size[i];
  x->free |= UINT32_C(1) << i;
  return i;
}

// ---- the search ----------------------------------------------------------------------------------------------------
static bool cheaper(Cost a, Cost b) {
  if (a.bytes != b.bytes) return a.bytes < b.bytes;
  return a.colls != b.colls ? a.colls < b.colls : a.steps < b.steps;
}

static bool before(Entry a, Entry b) {
  return cheaper(a.least, b.least) || (a.node < b.node && !cheaper(b.least, a.least));
}

static void heap_push(Search *s, Entry e) {
  s->heap = pm_grow(&s->arena, s->heap, s->n_heap, &s->cap_heap, sizeof *s->heap);
  int32_t at = s->n_heap++;
  for (; at > 0 && before(e, s->heap[(at - 1) / 2]); at = (at - 1) / 2) s->heap[at] = s->heap[(at - 1) / 2];
  s->heap[at] = e;
}

static int32_t heap_pop(Search *s) {
  Entry top = s->heap[0], last = s->heap[--s->n_heap];
  int32_t at = 0;
  for (;;) {
    int32_t child = 2 * at + 1;
    if (child >= s->n_heap) break;
    if (child + 1 < s->n_heap && before(s->heap[child + 1], s->heap[child])) child++;
    if (!before(s->heap[child], last)) break;
    s->heap[at] = s->heap[child];
    at = child;
  }
  s->heap[at] = last;
  return top.node;
}

// The key's slot in the table: its node's, or where it would go.
static int32_t *find_slot(Search *s, Key key) {
  uint64_t h = key * UINT64_C(0x9e3779b97f4a7c15) >> 32;
  for (;; h++) {
    int32_t *slot = &s->slots[h & (uint64_t)(s->n_slots - 1)];
    if (*slot == 0 || s->nodes[*slot - 1].key == key) return slot;
  }
}

static int32_t node_of(Search *s, Key key, bool *out_new) {
  if (2 * s->n_nodes >= s->n_slots) {
    s->n_slots = s->n_slots ? 2 * s->n_slots : 64;
    s->slots = PM_NEW_N(&s->arena, int32_t, s->n_slots);
    for (int32_t i = 0; i < s->n_nodes; i++) *find_slot(s, s->nodes[i].key) = i + 1;
  }
  int32_t *slot = find_slot(s, key);
  *out_new = *slot == 0;
  if (*out_new) {
    s->nodes = pm_grow(&s->arena, s->nodes, s->n_nodes, &s->cap_nodes, sizeof *s->nodes);
    s->nodes[s->n_nodes++] = (Node){.key = key, .prev = PM_NONE};
    *slot = s->n_nodes;
  }
  return *slot - 1;
}

// From the node at hand there is a step to `x` that sends `bytes`.
static void relax(Search *s, const State *x, PmOp op, int32_t dim, int32_t to, int64_t bytes) {
  if (bytes_of(s, x) > s->cap) return;
  bool is_new;
  int32_t i = node_of(s, key_of(s, x), &is_new);
  Cost cost = s->nodes[s->at].cost;
  cost.bytes += bytes;
  cost.colls += op != PM_OP_slice;
  cost.steps++;
  Node *n = &s->nodes[i];
  if (n->done || !(is_new || cheaper(cost, n->cost))) return;
  n->cost = cost;
  n->prev = s->at;
  n->op = (uint8_t)op;
  n->dim = (uint8_t)dim;
  n->to = (uint8_t)to;
  int64_t missing = s->whole / s->goal.parts - bytes_of(s, x);  // what a rank has still to be sent
  if (missing > 0) cost.bytes += missing;
  heap_push(s, (Entry){cost, i});
}

// Nothing stands where the target does not want it.
static bool only_slices_left(const Search *s, const State *x) {
  for (int32_t d = 0; d < s->common.rank; d++)
    if (x->n[d] > s->goal.n[d] || memcmp(x->axis[d], s->goal.axis[d], x->n[d]) != 0) return false;
  return x->partial == 0;
}

static void slice_next(Search *s, const State *x) {
  int32_t d = 0;
  while (x->n[d] == s->goal.n[d]) d++;
  State y = *x;
  bool ok = add_axis(s, &y, d, s->goal.axis[d][x->n[d]]);
  PM_ASSERT(ok, "the target has no room for its own axes");
  relax(s, &y, PM_OP_slice, d, 0, 0);
}

static void try_slices(Search *s, const State *x) {
  for (int32_t i = 0; i < s->n; i++) {
    for (int32_t d = 0; (x->free & s->wanted) >> i & 1 && d < s->common.rank; d++) {
      State y = *x;
      if (add_axis(s, &y, d, i)) relax(s, &y, PM_OP_slice, d, 0, 0);
    }
  }
}

static void try_minor_axes(Search *s, const State *x, int32_t d) {
  State gathered = *x;
  for (int32_t k = 1; k <= x->n[d]; k++) {
    pop_axis(s, &gathered, d);
    for (int32_t e = 0; e < s->common.rank; e++) {
      State y = gathered;
      bool fits = e != d;
      for (int32_t i = x->n[d] - k; fits && i < x->n[d]; i++) fits = add_axis(s, &y, e, x->axis[d][i]);
      int64_t group = x->parts / gathered.parts;
      if (fits) relax(s, &y, PM_OP_all_to_all, d, e, bytes_of(s, x) - bytes_of(s, x) / group);
    }
    relax(s, &gathered, PM_OP_all_gather, d, 0, bytes_of(s, &gathered) - bytes_of(s, x));
  }
}

// Reduces one more sum into the minor end of dim d.
static void try_scatters(Search *s, const State *x, int32_t d, int64_t sent) {
  for (int32_t i = 0; i < s->n; i++) {
    State y = *x;
    if (!((x->partial & s->sums) >> i & 1) || !add_axis(s, &y, d, i)) continue;
    int64_t bytes = sent + bytes_of(s, x) - bytes_of(s, &y);
    relax(s, &y, PM_OP_reduce_scatter, d, 0, bytes);
    try_scatters(s, &y, d, bytes);
  }
}

static void try_reductions(Search *s, const State *x) {
  uint32_t set = x->partial & s->sums ? x->partial & s->sums : x->partial;
  for (uint32_t some = set; some != 0; some = (some - 1) & set) {
    State y = *x;
    int64_t group = 1;
    for (int32_t i = 0; i < s->n; i++)
      if (some >> i & 1) group *= s->size[i];
    y.partial &= ~some;
    y.free |= some;
    relax(s, &y, PM_OP_all_reduce, 0, 0, 2 * (bytes_of(s, x) - bytes_of(s, x) / group));
  }
  for (int32_t d = 0; d < s->common.rank; d++) try_scatters(s, x, d, 0);
}

// Fills dims d and later of `y`, which so far has `parts` parts in dim d, with as many parts as they have in `x`.
static void try_permutes(Search *s, const State *x, State *y, int32_t d, int64_t parts) {
  if (d == s->common.rank) {
    relax(s, y, PM_OP_permute, 0, 0, bytes_of(s, x));
    return;
  }
  int64_t want = 1;
  for (int32_t k = 0; k < x->n[d]; k++) want *= s->size[x->axis[d][k]];
  if (parts == want) try_permutes(s, x, y, d + 1, 1);
  for (int32_t i = 0; i < s->n; i++) {
    if (!(y->free >> i & 1) || s->size[i] == 1 || want % (parts * s->size[i]) != 0 || !add_axis(s, y, d, i)) continue;
    try_permutes(s, x, y, d, parts * s->size[i]);
    pop_axis(s, y, d);
  }
}

// Two permutes in a row are one, so none is tried behind another.
static void try_steps(Search *s, const State *x, bool permutes) {
  if (only_slices_left(s, x)) {
    slice_next(s, x);
    return;
  }
  if (x->partial) try_reductions(s, x);
  try_slices(s, x);
  for (int32_t d = 0; d < s->common.rank; d++) try_minor_axes(s, x, d);
  State y = {.partial = x->partial, .parts = 1};
  y.free = ((UINT32_C(1) << s->n) - 1) & ~x->partial;
  if (permutes) try_permutes(s, x, &y, 0, 1);
}

// The node of the target, or PM_NONE when no path keeps below the cap.
static int32_t search(Search *s, int64_t cap) {
  s->cap = cap;
  s->n_nodes = s->n_heap = 0;
  if (s->slots) memset(s->slots, 0, (size_t)s->n_slots * sizeof *s->slots);
  bool is_new;
  heap_push(s, (Entry){.node = node_of(s, key_of_type(s, s->from), &is_new)});
  while (s->n_heap > 0) {
    s->at = heap_pop(s);
    Node *n = &s->nodes[s->at];
    if (n->key == s->goal_key) return s->at;
    if (n->done) continue;
    n->done = true;
    State x = state_of(s, n->key);
    try_steps(s, &x, n->op != PM_OP_permute || n->prev == PM_NONE);
  }
  return PM_NONE;
}

// ---- the ends ------------------------------------------------------------------------------------------------------
PmType pm_reshard_common(const PmType *from, const PmType *to) {
  PmType common = *to;
  for (int32_t d = 0; d < to->rank; d++) {
    const PmSplit *a = &from->dims[d].split, *b = &to->dims[d].split;
    PmSplit *same = &common.dims[d].split;
    *same = (PmSplit){0};
    while (same->n < a->n && same->n < b->n && a->mesh[same->n] == b->mesh[same->n])
      pm_split_push(same, a->mesh[same->n]);
  }
  return common;
}

static bool add_mesh(Search *s, int32_t mesh) {
  for (int32_t i = 0; i < s->n; i++)
    if (s->mesh[i] == mesh) return true;
  if (s->n == PM_RESHARD_MAX_AXES) return false;
  s->mesh[s->n] = (uint8_t)mesh;
  s->size[s->n++] = s->m->mesh[mesh].size;
  return true;
}

// What the two ends have in common, and the mesh axes that remain; false when these are too many.
static bool compare_ends(Search *s) {
  s->common = pm_reshard_common(s->from, s->to);
  bool fits = true;
  for (int32_t d = 0; d < s->to->rank; d++) {
    const PmSplit *a = &s->from->dims[d].split, *b = &s->to->dims[d].split;
    int32_t same = s->common.dims[d].split.n;
    for (int32_t i = same; i < b->n; i++) fits &= add_mesh(s, b->mesh[i]);
    for (int32_t i = same; i < a->n; i++) fits &= add_mesh(s, a->mesh[i]);
    s->room[d] = pm_dim_local(s->m, &s->common.dims[d]);
  }
  for (int32_t i = 0; i < s->from->n_partial; i++)
    if (pm_type_partial_on(s->to, s->from->partial[i].mesh) < 0) fits &= add_mesh(s, s->from->partial[i].mesh);
  for (int32_t i = 0; i < s->n; i++) {
    int32_t at = pm_type_partial_on(s->from, s->mesh[i]);
    s->sums |= (uint32_t)(at >= 0 && s->from->partial[at].kind == PM_SUM) << i;
    s->wanted |= (uint32_t)pm_type_uses_mesh(s->to, s->mesh[i]) << i;
  }
  s->whole = pm_type_local_bytes(s->m, &s->common);
  if (fits) s->goal_key = key_of_type(s, s->to);
  if (fits) s->goal = state_of(s, s->goal_key);
  return fits;
}

static int32_t unwind(const Search *s, int32_t node, PmReshardMove *out_moves) {
  const Node *n = &s->nodes[node];
  if (n->prev == PM_NONE) return 0;
  int32_t at = unwind(s, n->prev, out_moves);
  PM_ASSERT(at < PM_RESHARD_MAX_STEPS, "resharding does not end");
  out_moves[at] = (PmReshardMove){.op = (PmOp)n->op, .dim = n->dim, .to = n->to, .result = type_of(s, n->key)};
  return at + 1;
}

int32_t pm_reshard_search(const PmModule *m, const PmType *from, const PmType *to, PmReshardMove *out_moves) {
  int64_t a = pm_type_local_bytes(m, from), b = pm_type_local_bytes(m, to);
  Search s = {.m = m, .from = from, .to = to};
  pm_arena_init(&s.arena, 0);
  int32_t n = PM_NONE;
  if (compare_ends(&s)) {
    int32_t goal = search(&s, a > b ? a : b);
    if (goal == PM_NONE) goal = search(&s, INT64_MAX);
    PM_ASSERT(goal != PM_NONE, "resharding stopped short");
    n = unwind(&s, goal, out_moves);
  }
  pm_arena_deinit(&s.arena);
  return n;
}
