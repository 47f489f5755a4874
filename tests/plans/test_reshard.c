// Resharding, for all pairs of placements of a tensor with three axes: what it sends is the least that a search by
// other means finds, what it holds stays below the larger end wherever that is possible, and every rank ends with its
// part.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "passes/reshard.h"
#include "plans.h"

enum { RANK = 3, MAX_STATES = 1200 };

#define NO_PATH INT64_MAX

// One mesh and one tensor, all placements of it, and what one collective between two of them sends.
typedef struct World {
  Plan p;
  const char *mesh;
  int32_t n_states;
  PmType *states;
  uint32_t *used;  // per state, bit per mesh axis: split or partial
  int64_t *local;  // per state: bytes of a rank
  int64_t *edges;  // [from * n_states + to]
  int64_t *dist;   // scratch of the search
  bool *done;
} World;

// ---- placements ----------------------------------------------------------------------------------------------------
static bool divides(const World *w, const PmType *t) {
  for (int32_t d = 0; d < t->rank; d++) {
    int64_t parts = 1;
    for (int32_t i = 0; i < t->dims[d].split.n; i++) parts *= w->p.m->mesh[t->dims[d].split.mesh[i]].size;
    if (pm_axis_size(w->p.m, t->dims[d].axis) % parts != 0) return false;
  }
  return true;
}

static void add_state(World *w, const PmType *t) {
  for (int32_t i = 0; i < w->n_states; i++)
    if (pm_type_equal(&w->states[i], t)) return;
  assert_true(w->n_states < MAX_STATES);
  w->states[w->n_states++] = *t;
}

// All ways to place mesh axes: each next one free, partial, or at any place of any dim.
static void enumerate(World *w, const PmType *t, int32_t mesh, bool partials) {
  if (mesh == w->p.m->n_mesh) {
    if (divides(w, t)) add_state(w, t);
    return;
  }
  enumerate(w, t, mesh + 1, partials);
  if (partials) {
    PmType u = *t;
    pm_type_add_partial(&u, mesh, PM_SUM);
    enumerate(w, &u, mesh + 1, partials);
  }
  for (int32_t d = 0; d < t->rank; d++) {
    for (int32_t at = 0; at <= t->dims[d].split.n; at++) {
      PmType u = *t;
      PmSplit *s = &u.dims[d].split;
      memmove(&s->mesh[at + 1], &s->mesh[at], (size_t)(s->n - at));
      s->mesh[at] = (uint8_t)mesh;
      s->n++;
      enumerate(w, &u, mesh + 1, partials);
    }
  }
}

// ---- the least, by other means -------------------------------------------------------------------------------------
static int64_t ways(const World *w, uint32_t axes) {
  int64_t n = 1;
  for (int32_t i = 0; i < w->p.m->n_mesh; i++)
    if (axes >> i & 1) n *= w->p.m->mesh[i].size;
  return n;
}

static bool starts_with(const PmSplit *s, const PmSplit *prefix) {
  return prefix->n <= s->n && memcmp(s->mesh, prefix->mesh, prefix->n) == 0;
}

static uint32_t bits(const PmSplit *s, int32_t from) {
  uint32_t set = 0;
  for (int32_t i = from; i < s->n; i++) set |= UINT32_C(1) << s->mesh[i];
  return set;
}

static uint32_t partial_bits(const PmType *t) {
  uint32_t set = 0;
  for (int32_t i = 0; i < t->n_partial; i++) set |= UINT32_C(1) << t->partial[i].mesh;
  return set;
}

// Bytes that one collective sends to bring `a` to `b`, or NO_PATH when none does it.
static int64_t one_collective(const World *w, int32_t a, int32_t b) {
  const PmType *x = &w->states[a], *y = &w->states[b];
  uint32_t px = partial_bits(x), py = partial_bits(y);
  int64_t n = w->local[a];
  if ((px & py) != py) return NO_PATH;
  int32_t less = PM_NONE, more = PM_NONE, n_other = 0;
  bool same_parts = true;
  for (int32_t d = 0; d < RANK; d++) {
    const PmSplit *s = &x->dims[d].split, *t = &y->dims[d].split;
    same_parts &= ways(w, bits(s, 0)) == ways(w, bits(t, 0));
    if (pm_split_equal(s, t)) continue;
    if (starts_with(s, t) && less == PM_NONE)
      less = d;
    else if (starts_with(t, s) && more == PM_NONE)
      more = d;
    else
      n_other++;
  }
  if (px == py && same_parts) return a == b ? 0 : n;
  if (n_other > 0) return NO_PATH;
  uint32_t left = less == PM_NONE ? 0 : bits(&x->dims[less].split, y->dims[less].split.n);
  uint32_t came = more == PM_NONE ? 0 : bits(&y->dims[more].split, x->dims[more].split.n);
  if (px != py) {
    if (left != 0) return NO_PATH;
    if (came == 0) return 2 * (n - n / ways(w, px & ~py));
    return came == (px & ~py) ? n - n / ways(w, came) : NO_PATH;
  }
  if (left == 0) return (came & w->used[a]) == 0 ? 0 : NO_PATH;
  if (came == 0) return w->local[b] - n;
  const PmSplit *s = &x->dims[less].split, *t = &y->dims[more].split;
  int32_t k = __builtin_popcount(left);
  bool moved = left == came && memcmp(&s->mesh[s->n - k], &t->mesh[t->n - k], (size_t)k) == 0;
  return moved ? n - n / ways(w, left) : NO_PATH;
}

// Least bytes from `from` to every state, through states that hold at most `cap` and use none of the mesh axes `idle`.
static void least_from(World *w, int32_t from, int64_t cap, uint32_t idle) {
  for (int32_t i = 0; i < w->n_states; i++) {
    w->dist[i] = NO_PATH;
    w->done[i] = (w->used[i] & idle) != 0 || w->local[i] > cap;
  }
  w->dist[from] = 0;
  for (;;) {
    int32_t at = PM_NONE;
    for (int32_t i = 0; i < w->n_states; i++)
      if (!w->done[i] && w->dist[i] != NO_PATH && (at == PM_NONE || w->dist[i] < w->dist[at])) at = i;
    if (at == PM_NONE) return;
    w->done[at] = true;
    for (int32_t i = 0; i < w->n_states; i++) {
      int64_t edge = w->edges[(int64_t)at * w->n_states + i];
      if (edge != NO_PATH && w->dist[at] + edge < w->dist[i]) w->dist[i] = w->dist[at] + edge;
    }
  }
}

static void world_init(World *w, const char *mesh, const int64_t *sizes, bool partials) {
  plan_init(&w->p, mesh);
  w->mesh = mesh;
  w->n_states = 0;
  static const char *const names[] = {"i", "j", "k"};
  PmType t = pm_type_scalar(PM_F32);
  for (int32_t d = 0; d < RANK; d++) pm_type_add(&t, plan_axis(&w->p, names[d], sizes[d]));
  w->states = PM_NEW_N(&w->p.arena, PmType, MAX_STATES);
  enumerate(w, &t, 0, partials);
  w->used = PM_NEW_N(&w->p.arena, uint32_t, w->n_states);
  w->local = PM_NEW_N(&w->p.arena, int64_t, w->n_states);
  w->edges = PM_NEW_N(&w->p.arena, int64_t, (int64_t)w->n_states * w->n_states);
  w->dist = PM_NEW_N(&w->p.arena, int64_t, w->n_states);
  w->done = PM_NEW_N(&w->p.arena, bool, w->n_states);
  int64_t whole = 4 * sizes[0] * sizes[1] * sizes[2];
  for (int32_t i = 0; i < w->n_states; i++) {
    uint32_t split = 0;
    for (int32_t d = 0; d < RANK; d++) split |= bits(&w->states[i].dims[d].split, 0);
    w->used[i] = split | partial_bits(&w->states[i]);
    w->local[i] = whole / ways(w, split);
  }
  for (int32_t a = 0; a < w->n_states; a++)
    for (int32_t b = 0; b < w->n_states; b++) w->edges[(int64_t)a * w->n_states + b] = one_collective(w, a, b);
}

// ---- what the ranks end with ---------------------------------------------------------------------------------------
// Summands that differ from rank to rank; those over all partial mesh axes of an element sum to its number.
static void fill(const PmModule *m, const PmTensor *ids, PmTensor *x) {
  for (int64_t r = 0; r < x->ranks; r++) {
    int64_t q = 0, of = 1;
    for (int32_t i = 0; i < x->type.n_partial; i++) {
      q = q * m->mesh[x->type.partial[i].mesh].size + pm_mesh_coord(m, r, x->type.partial[i].mesh);
      of *= m->mesh[x->type.partial[i].mesh].size;
    }
    for (int64_t i = 0; i < x->n; i++) {
      double id = ids->data[r * x->n + i];
      x->data[r * x->n + i] = q > 0 ? id * (double)q + 1 : id - (double)(of * (of - 1) / 2) * id - (double)(of - 1);
    }
  }
}

static void check_data(const World *w, const PmType *from, const PmType *to, const PmReshard *plan) {
  PmArena arena;
  pm_arena_init(&arena, 0);
  PmModule *m = pm_module_clone(w->p.m, &arena);
  m->stage = PM_STAGE_LOCAL;
  PmBuilder b = {.m = m, .fn = pm_module_add_fn(m, "f", PM_FN_BODY)};
  PmValueId v = pm_reshard_emit(&b, pm_b_param(&b, *from, "x"), plan, b.loc);
  pm_b_results(&b, &v, 1);
  PmStatus *st = pm_module_verify(m);
  if (st) fail_msg("%s", pm_status_message(st));
  int64_t n;
  assert_true(pm_type_elements(m, from, &n));
  double *global = PM_NEW_N(&arena, double, n), *back = PM_NEW_N(&arena, double, n);
  for (int64_t i = 0; i < n; i++) global[i] = (double)(i + 1);
  PmType split = *from;
  split.n_partial = 0;
  PmTensor ids = pm_tensor_new(&arena, m, &split), x = pm_tensor_new(&arena, m, from), y;
  pm_tensor_scatter(m, global, &ids);
  fill(m, &ids, &x);
  st = pm_interp_run(m, b.fn, PM_INTERP_EXACT, &arena, &x, &y);
  if (st) fail_msg("%s", pm_status_message(st));
  if (to->n_partial == 0) {
    PmTensor want = pm_tensor_new(&arena, m, to);
    pm_tensor_scatter(m, global, &want);
    assert_memory_equal(want.data, y.data, (size_t)(want.n * want.ranks) * sizeof(double));
  } else {
    pm_tensor_gather(m, &y, back);
    assert_memory_equal(global, back, (size_t)n * sizeof(double));
  }
  pm_arena_deinit(&arena);
}

static void fail_pair(const World *w, const PmType *from, const PmType *to, const PmReshard *plan, int64_t least) {
  PmBuf text;
  pm_buf_init(&text);
  pm_type_print(w->p.m, from, &text);
  for (int32_t i = 0; i < plan->n; i++) {
    pm_buf_printf(&text, "\n  %s (%lld) ", pm_op_name(plan->steps[i].op), (long long)plan->steps[i].bytes);
    pm_type_print(w->p.m, &plan->steps[i].result, &text);
  }
  pm_buf_printf(&text, "\nwanted ");
  pm_type_print(w->p.m, to, &text);
  fail_msg("mesh %s: %lld bytes, peak %lld; the least is %lld\n%s", w->mesh, (long long)plan->bytes,
           (long long)plan->peak, (long long)least, pm_buf_str(&text));
}

// Mesh axes of one size are alike: of the states that differ by their names only one is a source, the one in which they
// first appear in order.
static bool is_canonical(const World *w, const PmType *t) {
  int32_t seen[PM_MAX_MESH], n = 0;
  for (int32_t i = 0; i < t->n_partial; i++) seen[n++] = t->partial[i].mesh;
  for (int32_t d = 0; d < RANK; d++)
    for (int32_t i = 0; i < t->dims[d].split.n; i++) seen[n++] = t->dims[d].split.mesh[i];
  uint32_t before = 0;
  for (int32_t i = 0; i < n; i++) {
    for (int32_t other = 0; other < seen[i]; other++)
      if (w->p.m->mesh[other].size == w->p.m->mesh[seen[i]].size && !(before >> other & 1)) return false;
    before |= UINT32_C(1) << seen[i];
  }
  return true;
}

static bool may_become(const PmType *from, const PmType *to) {
  return (partial_bits(from) & partial_bits(to)) == partial_bits(to);
}

typedef struct Count {
  int64_t pairs, run, above;  // above: no path below the larger end
} Count;

static void check_pair(World *w, int32_t a, int32_t b, int64_t cap, uint32_t idle, bool run, Count *count) {
  const PmType *from = &w->states[a], *to = &w->states[b];
  PmReshard plan = pm_reshard_plan(w->p.m, from, to);
  bool below = w->dist[b] != NO_PATH;
  count->pairs++;
  count->above += !below;
  if (!below) least_from(w, a, INT64_MAX, idle);
  if (plan.bytes != w->dist[b] || (plan.peak > cap) == below) fail_pair(w, from, to, &plan, w->dist[b]);
  if (!below) least_from(w, a, cap, idle);
  int64_t bytes = 0, peak = cap;
  for (int32_t i = 0; i < plan.n; i++) {
    int64_t local = pm_type_local_bytes(w->p.m, &plan.steps[i].result);
    bytes += plan.steps[i].bytes;
    if (local > peak) peak = local;
  }
  assert_int_equal(bytes, plan.bytes);
  assert_int_equal(peak, plan.peak);
  if (!run) return;
  count->run++;
  check_data(w, from, to, &plan);
}

// Every `stride`th pair is run.
static Count check_mesh(const char *mesh, int64_t i, int64_t j, int64_t k, bool partials, int32_t stride) {
  World w;
  world_init(&w, mesh, (const int64_t[]){i, j, k}, partials);
  Count count = {0};
  for (int32_t a = 0; a < w.n_states; a++) {
    if (!is_canonical(&w, &w.states[a])) continue;
    uint32_t all = (UINT32_C(1) << w.p.m->n_mesh) - 1;
    for (int64_t above = w.local[a], cap = above; above > 0; above = cap) {  // ends by the larger of the two
      cap = 0;
      for (uint32_t idle = 0; idle <= all; idle++) {
        if (idle & w.used[a]) continue;
        bool searched = false;
        for (int32_t b = 0; b < w.n_states; b++) {
          int64_t larger = w.local[b] > w.local[a] ? w.local[b] : w.local[a];
          if (larger > above && (cap == 0 || larger < cap)) cap = larger;
          if (larger != above || !may_become(&w.states[a], &w.states[b])) continue;
          if ((all & ~(w.used[a] | w.used[b])) != idle) continue;
          if (!searched) least_from(&w, a, above, idle);
          searched = true;
          check_pair(&w, a, b, above, idle, count.pairs % stride == 0, &count);
        }
      }
    }
  }
  print_message("%s, [%lld, %lld, %lld]%s: %d placements, %lld pairs, %lld run, %lld above the larger end\n", mesh,
                (long long)i, (long long)j, (long long)k, partials ? ", partial sums" : "", w.n_states,
                (long long)count.pairs, (long long)count.run, (long long)count.above);
  assert_true(count.pairs > 0 && count.run > 0);
  plan_deinit(&w.p);
  return count;
}

static void test_all_pairs(void **state) {
  (void)state;
  check_mesh("a=2", 4, 2, 6, false, 1);
  check_mesh("a=4", 4, 8, 12, false, 1);
  check_mesh("a=16", 16, 32, 48, false, 1);
  check_mesh("a=2,b=2", 4, 4, 4, false, 1);
  check_mesh("a=4,b=2", 8, 8, 8, false, 1);
  check_mesh("a=2,b=4", 8, 16, 4, false, 1);
  check_mesh("a=3,b=2", 6, 6, 12, false, 1);
  check_mesh("a=8,b=2", 16, 16, 16, false, 1);
  check_mesh("a=4,b=4", 16, 16, 16, false, 1);
  check_mesh("a=2,b=2,c=2", 8, 8, 8, false, 1);
  check_mesh("a=4,b=2,c=2", 16, 16, 16, false, 5);
  check_mesh("a=2,b=2,c=2,d=2", 16, 16, 16, false, 31);
}

// Axes that do not divide by all mesh axes leave fewer ways.
static void test_tight_sizes(void **state) {
  (void)state;
  check_mesh("a=4,b=2", 4, 2, 8, false, 1);
  check_mesh("a=3,b=2", 3, 2, 6, false, 1);
  check_mesh("a=2,b=2,c=2", 2, 4, 8, false, 1);
  check_mesh("a=2,b=2,c=2,d=2", 2, 4, 8, false, 5);
  check_mesh("a=2,b=2,c=2,d=2", 4, 4, 4, false, 11);
  assert_int_equal(check_mesh("a=2,b=2", 4, 4, 4, false, 1).above, 0);
  assert_true(check_mesh("a=2,b=4", 4, 4, 1, false, 1).above > 0);  // nowhere to go but through a gather
}

static void test_partial_sums(void **state) {
  (void)state;
  check_mesh("a=2", 4, 2, 6, true, 1);
  check_mesh("a=2,b=2", 4, 4, 4, true, 1);
  check_mesh("a=4,b=2", 8, 8, 8, true, 1);
  check_mesh("a=3,b=2", 6, 6, 12, true, 1);
  check_mesh("a=2,b=2,c=2", 8, 8, 8, true, 3);
}

// A placement by text: a dim a letter, its mesh axes behind it ("i:ab k:c").
static PmType placed(Plan *p, const char *text) {
  PmType t = pm_type_scalar(PM_F32);
  for (PmAxisId a = 0; a < p->m->n_axes; a++) pm_type_add(&t, a);
  int32_t d = 0;
  for (; *text; text++) {
    char name[2] = {*text, 0};
    if (text[1] == ':')
      d = pm_type_find(&t, pm_module_find_axis(p->m, pm_intern(&p->names, name)));
    else if (*text != ':' && *text != ' ')
      pm_split_push(&t.dims[d].split, pm_module_find_mesh(p->m, name));
  }
  return t;
}

static void ijk(Plan *p, const char *mesh, int64_t size) {
  plan_init(p, mesh);
  plan_axis(p, "i", size);
  plan_axis(p, "j", size);
  plan_axis(p, "k", size);
}

static PmReshard from_to(Plan *p, const char *from, const char *to) {
  PmType a = placed(p, from), b = placed(p, to);
  return pm_reshard_plan(p->m, &a, &b);
}

static int32_t count(const PmReshard *plan, PmOp op) {
  int32_t n = 0;
  for (int32_t i = 0; i < plan->n; i++) n += plan->steps[i].op == op;
  return n;
}

// Partitioners have been seen to replicate this one fully, as what moves from k stands in front of what moves from i.
static void test_two_axes_meet_on_a_third_without_a_gather(void **state) {
  (void)state;
  Plan p;
  ijk(&p, "x=4,y=2", 8);
  PmReshard plan = from_to(&p, "i:y k:x", "j:xy");
  assert_int_equal(plan.n, 2);
  assert_int_equal(count(&plan, PM_OP_all_to_all), 2);
  assert_int_equal(plan.peak, 4 * 8 * 8 * 8 / 8);
  plan_deinit(&p);
}

static void test_another_order_is_one_permute(void **state) {
  (void)state;
  Plan p;
  ijk(&p, "x=4,y=2", 8);
  PmReshard plan = from_to(&p, "i:xy", "i:yx");
  assert_int_equal(plan.n, 1);
  assert_int_equal(plan.steps[0].op, PM_OP_permute);
  plan = from_to(&p, "i:x j:y", "j:yx");  // already in order: the minor end moves
  assert_int_equal(plan.n, 1);
  assert_int_equal(plan.steps[0].op, PM_OP_all_to_all);
  plan_deinit(&p);
}

static void test_two_mesh_axes_move_in_one_all_to_all(void **state) {
  (void)state;
  Plan p;
  ijk(&p, "x=4,y=2", 8);
  PmReshard plan = from_to(&p, "i:xy", "k:xy");
  assert_int_equal(plan.n, 1);
  assert_int_equal(plan.steps[0].op, PM_OP_all_to_all);
  assert_int_equal(plan.steps[0].attr.n_mesh, 2);
  plan_deinit(&p);
}

// What the target is split by anyway need not be reduced whole.
static void test_slice_before_reducing(void **state) {
  (void)state;
  Plan p;
  ijk(&p, "x=2,y=2", 8);
  PmType from = placed(&p, ""), to = placed(&p, "i:y");
  pm_type_add_partial(&from, 0, PM_SUM);
  PmReshard plan = pm_reshard_plan(p.m, &from, &to);
  assert_int_equal(plan.n, 2);
  assert_int_equal(plan.steps[0].op, PM_OP_slice);
  assert_int_equal(plan.steps[1].op, PM_OP_all_reduce);
  plan_deinit(&p);
}

// Sums come before maxima, whatever the order of the mesh axes.
static void test_sums_are_reduced_before_maxima(void **state) {
  (void)state;
  Plan p;
  ijk(&p, "x=2,y=2", 8);
  PmType from = placed(&p, ""), to = placed(&p, "");
  pm_type_add_partial(&from, 0, PM_MAX);
  pm_type_add_partial(&from, 1, PM_SUM);
  PmReshard plan = pm_reshard_plan(p.m, &from, &to);
  assert_true(plan.n >= 2);
  assert_int_equal(plan.steps[plan.n - 1].op == PM_OP_all_reduce ? plan.steps[plan.n - 1].attr.kind : PM_MAX, PM_MAX);
  assert_int_equal(plan.steps[0].attr.kind, PM_SUM);
  plan_deinit(&p);
}

static void test_five_mesh_axes(void **state) {
  (void)state;
  Plan p;
  ijk(&p, "a=2,b=2,c=2,d=2,e=2", 32);
  PmReshard plan = from_to(&p, "i:ab j:cd k:e", "i:ec j:a k:bd");
  assert_int_equal(count(&plan, PM_OP_all_gather), 0);
  assert_int_equal(plan.peak, 4 * 32 * 32 * 32 / 32);
  plan_deinit(&p);
}

// Past the search's limit what differs is gathered; what both have in common is not.
static void test_more_mesh_axes_than_are_searched(void **state) {
  (void)state;
  Plan p;
  ijk(&p, "a=2,b=2,c=2,d=2,e=2,f=2,g=2", 64);
  PmReshard plan = from_to(&p, "i:gabc j:def", "i:gcba j:fed");
  assert_int_equal(count(&plan, PM_OP_all_gather), 2);
  assert_int_equal(count(&plan, PM_OP_slice), 2);
  assert_int_equal(plan.peak, 4 * 64 * 64 * 64 / 2);
  plan_deinit(&p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_all_pairs),
      cmocka_unit_test(test_tight_sizes),
      cmocka_unit_test(test_partial_sums),
      cmocka_unit_test(test_two_axes_meet_on_a_third_without_a_gather),
      cmocka_unit_test(test_another_order_is_one_permute),
      cmocka_unit_test(test_two_mesh_axes_move_in_one_all_to_all),
      cmocka_unit_test(test_slice_before_reducing),
      cmocka_unit_test(test_sums_are_reduced_before_maxima),
      cmocka_unit_test(test_five_mesh_axes),
      cmocka_unit_test(test_more_mesh_axes_than_are_searched),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
