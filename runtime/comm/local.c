// Ranks as threads of one process. A collective is: publish pointers, meet, each member computes its own part of the
// results from everybody's sources in member order, meet again.
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/half.h"
#include "runtime/comm.h"
#include "runtime/futex.h"
#include "runtime/rows.h"

#define BLOCK 4096  // bytes that are reduced at a time, on the stack
#define NAP 0.05    // a sleeping rank looks this often whether the run has failed
#define FAILURE_TEXT 1024

typedef struct World World;

typedef struct Slot {
  _Alignas(64) PmCommCall call;
  PmWord arrivals;
} Slot;

typedef struct Group {
  int32_t n;
  int64_t *ranks;
  Slot *slots;
  _Alignas(64) PmWord waiting;
  PmWord round;
} Group;

typedef struct Family {  // the groups of one list of mesh axes
  int32_t n_mesh;
  uint8_t mesh[PM_PROGRAM_MAX_MESH];
  int64_t n_groups;
  Group *groups;
  int64_t *group_of;   // rank -> group
  int32_t *member_of;  // rank -> place in it
} Family;

typedef struct LocalComm {
  PmComm base;
  World *world;
} LocalComm;

struct World {
  PmArena arena;
  const PmProgram *p;
  PmCommOptions options;
  int64_t n_ranks;
  LocalComm *comms;
  int32_t n_families, cap_families;
  Family *families;
  pthread_mutex_t mutex;  // of the failure
  _Atomic int failed;     // a PmCode
  char failure[FAILURE_TEXT];
};

// ---- failing -------------------------------------------------------------------------------------------------------
static void report(const World *w, bool failed, const char *text) {
  if (w->options.report) {
    w->options.report(w->options.context, failed, text);
  } else if (!failed) {
    fprintf(stderr, "pmodel: warning: %s\n", text);
  }
}

// The first failure of the run is the one that everybody reports.
static void fail_world(World *w, PmCode code, const char *text) {
  pthread_mutex_lock(&w->mutex);
  bool first = !atomic_load(&w->failed);
  if (first) {
    snprintf(w->failure, sizeof w->failure, "%s", text);
    atomic_store(&w->failed, (int)code);
  }
  pthread_mutex_unlock(&w->mutex);
  if (!first) return;
  for (int32_t f = 0; f < w->n_families; f++) {
    for (int64_t g = 0; g < w->families[f].n_groups; g++) pm_word_wake_all(&w->families[f].groups[g].round);
  }
  report(w, true, text);
}

static PmStatus *failure(World *w, int64_t rank) {
  pthread_mutex_lock(&w->mutex);
  PmStatus *st = PM_STATUS((PmCode)atomic_load(&w->failed), "%s", w->failure);
  pthread_mutex_unlock(&w->mutex);
  return pm_status_wrap(st, __FILE__, __LINE__, "seen by rank %lld", (long long)rank);
}

typedef struct Message {
  char text[FAILURE_TEXT];
  size_t len;
} Message;

__attribute__((format(printf, 2, 3))) static void say(Message *m, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  int n = vsnprintf(m->text + m->len, sizeof m->text - m->len, fmt, ap);
  va_end(ap);
  size_t room = sizeof m->text - m->len - 1;
  if (n > 0) m->len += (size_t)n < room ? (size_t)n : room;
}

static void say_place(Message *m, const PmCommCall *call) {
  say(m, " at step %lld in %s", (long long)call->step, call->op ? call->op : "a collective");
  if (call->loc) say(m, " (%s:%d:%d)", call->loc->path, call->loc->line, call->loc->col);
}

static void say_waiting(Message *m, const Group *g, int32_t me, double waited) {
  say(m, "rank %lld has waited %.1f s for rank", (long long)g->ranks[me], waited);
  uint32_t mine = atomic_load(&g->slots[me].arrivals);
  const char *before = " ";
  for (int32_t i = 0; i < g->n; i++) {
    // Counts wrap, so they compare by their difference.
    if ((int32_t)(atomic_load(&g->slots[i].arrivals) - mine) >= 0) continue;
    say(m, "%s%lld", before, (long long)g->ranks[i]);
    before = ", ";
  }
  say_place(m, &g->slots[me].call);
}

// ---- meeting -------------------------------------------------------------------------------------------------------
// Waits for the group's other members, or for a failure.
static PmStatus *meet(World *w, Group *g, int32_t me) {
  if (atomic_load(&w->failed)) return failure(w, g->ranks[me]);
  uint32_t round = atomic_load(&g->round);
  atomic_fetch_add(&g->slots[me].arrivals, 1);
  if (atomic_fetch_add(&g->waiting, 1) + 1 == (uint32_t)g->n) {
    atomic_store(&g->waiting, 0);
    atomic_fetch_add(&g->round, 1);
    pm_word_wake_all(&g->round);
    return NULL;
  }
  double start = 0, waited = 0;
  bool warned = false;
  while (atomic_load(&g->round) == round) {
    if (atomic_load(&w->failed)) return failure(w, g->ranks[me]);
    double left = w->options.deadline_s - waited;
    pm_word_wait(&g->round, round, left < NAP ? left : NAP);
    if (start == 0) start = pm_clock_seconds();
    waited = pm_clock_seconds() - start;
    bool late = waited >= w->options.deadline_s;
    if (atomic_load(&g->round) != round || !(late || (waited >= w->options.warn_s && !warned))) continue;
    Message m = {.len = 0};
    say_waiting(&m, g, me, waited);
    if (late) {
      fail_world(w, PM_ERR_DEADLINE, m.text);
      return failure(w, g->ranks[me]);
    }
    report(w, false, m.text);
    warned = true;
  }
  return NULL;
}

// ---- computing -----------------------------------------------------------------------------------------------------
typedef void CombineFn(void *into, const void *from, int64_t n);

static bool larger(float a, float b) { return isnan(a) || a > b; }

// Over elements of type T: a op= b.
#define COMBINE(name, T, expr)                                \
  static void name(void *into, const void *from, int64_t n) { \
    T *a = into;                                              \
    const T *b = from;                                        \
    for (int64_t i = 0; i < n; i++) a[i] = (T)(expr);         \
  }
COMBINE(sum_i32, uint32_t, a[i] + b[i])
COMBINE(sum_f32, float, a[i] + b[i])
COMBINE(sum_f64, double, a[i] + b[i])
COMBINE(max_i32, int32_t, a[i] > b[i] ? a[i] : b[i])
COMBINE(max_f32, float, larger(a[i], b[i]) ? a[i] : b[i])
COMBINE(max_f64, double, isnan(a[i]) || a[i] > b[i] ? a[i] : b[i])

COMBINE(max_bf16, uint16_t, larger(pm_bf16_to_f32(a[i]), pm_bf16_to_f32(b[i])) ? a[i] : b[i])
COMBINE(max_f16, uint16_t, larger(pm_f16_to_f32(a[i]), pm_f16_to_f32(b[i])) ? a[i] : b[i])

static CombineFn *const combine_fns[PM_K_DTYPE_COUNT][2] = {
    [PM_K_I32] = {sum_i32, max_i32}, [PM_K_F32] = {sum_f32, max_f32}, [PM_K_F64] = {sum_f64, max_f64},
    [PM_K_BF16] = {NULL, max_bf16},  [PM_K_F16] = {NULL, max_f16},
};

typedef float WidenFn(uint16_t bits);
typedef uint16_t NarrowFn(double v);

// A sum of half floats is taken in f32, in member order, and rounded once.
static void sum_halves(const Group *g, PmKDtype dtype, int64_t from, int64_t n, uint16_t *out) {
  WidenFn *widen = dtype == PM_K_BF16 ? pm_bf16_to_f32 : pm_f16_to_f32;
  NarrowFn *narrow = dtype == PM_K_BF16 ? pm_bf16_from : pm_f16_from;
  for (int64_t i = 0; i < n; i++) {
    float sum = widen(((const uint16_t *)(const void *)(g->slots[0].call.src + from))[i]);
    for (int32_t k = 1; k < g->n; k++) sum += widen(((const uint16_t *)(const void *)(g->slots[k].call.src + from))[i]);
    out[i] = narrow((double)sum);
  }
}

// Reduces bytes [from, from + bytes) of all sources into the results of members [first, first + n_dst) at `to`.
static void reduce_bytes(const Group *g, const PmColl *c, int64_t from, int64_t bytes, int32_t first, int32_t n_dst,
                         int64_t to) {
  _Alignas(64) char block[BLOCK];
  CombineFn *combine = combine_fns[c->dtype][c->reduce];
  int64_t size = pm_kdtype_bytes((PmKDtype)c->dtype);
  for (int64_t at = 0; at < bytes; at += BLOCK) {
    int64_t n = bytes - at < BLOCK ? bytes - at : BLOCK;
    if (combine) {
      memcpy(block, g->slots[0].call.src + from + at, (size_t)n);
      for (int32_t i = 1; i < g->n; i++) combine(block, g->slots[i].call.src + from + at, n / size);
    } else {
      sum_halves(g, (PmKDtype)c->dtype, from + at, n / size, (uint16_t *)(void *)block);
    }
    for (int32_t i = first; i < first + n_dst; i++) memcpy(g->slots[i].call.dst + to + at, block, (size_t)n);
  }
}

static void all_reduce(const PmProgram *p, const Group *g, int32_t me, const PmColl *c) {
  (void)p;
  int64_t size = pm_kdtype_bytes((PmKDtype)c->dtype), per = c->count / g->n, rest = c->count % g->n;
  int64_t begin = (per * me + (me < rest ? me : rest)) * size, bytes = (per + (me < rest)) * size;
  // Only this member touches these bytes of any source or result, so results may be the sources.
  reduce_bytes(g, c, begin, bytes, 0, g->n, begin);
}

static void all_gather(const PmProgram *p, const Group *g, int32_t me, const PmColl *c) {
  (void)p;
  int64_t part = c->count * pm_kdtype_bytes((PmKDtype)c->dtype);
  for (int32_t i = 0; i < g->n; i++) memcpy(g->slots[me].call.dst + i * part, g->slots[i].call.src, (size_t)part);
}

static void reduce_scatter(const PmProgram *p, const Group *g, int32_t me, const PmColl *c) {
  (void)p;
  int64_t part = c->count * pm_kdtype_bytes((PmKDtype)c->dtype);
  reduce_bytes(g, c, me * part, part, me, 1, 0);
}

static void all_to_all(const PmProgram *p, const Group *g, int32_t me, const PmColl *c) {
  (void)p;
  int64_t part = c->count * pm_kdtype_bytes((PmKDtype)c->dtype);
  for (int32_t i = 0; i < g->n; i++) {
    memcpy(g->slots[me].call.dst + i * part, g->slots[i].call.src + me * part, (size_t)part);
  }
}

static void permute(const PmProgram *p, const Group *g, int32_t me, const PmColl *c) {
  int64_t bytes = c->count * pm_kdtype_bytes((PmKDtype)c->dtype);
  memcpy(g->slots[me].call.dst, g->slots[pm_coll_source(p, c, me)].call.src, (size_t)bytes);
}

static void gather_rows(const PmProgram *p, const Group *g, int32_t me, const PmColl *c) {
  const PmCommCall *own = &g->slots[me].call;
  memset(own->dst, 0, (size_t)pm_coll_bytes(c));
  for (int32_t i = 0; i < g->n; i++) {
    const PmRowPart part = pm_row_part(p, c, g->ranks[i]);
    pm_rows_take(&part, c->count, own->idx, g->slots[i].call.src, own->dst);
  }
}

static void scatter_rows(const PmProgram *p, const Group *g, int32_t me, const PmColl *c) {
  const PmRowPart part = pm_row_part(p, c, g->ranks[me]);
  char *dst = g->slots[me].call.dst;
  memset(dst, 0, (size_t)part.bytes);
  for (int32_t i = 0; i < g->n; i++) pm_rows_put(&part, c->count, g->slots[i].call.idx, g->slots[i].call.src, dst);
}

typedef void CollFn(const PmProgram *p, const Group *g, int32_t me, const PmColl *c);
static CollFn *const coll_fns[PM_COLL_COUNT] = {
    [PM_COLL_ALL_REDUCE] = all_reduce,     [PM_COLL_ALL_GATHER] = all_gather, [PM_COLL_REDUCE_SCATTER] = reduce_scatter,
    [PM_COLL_ALL_TO_ALL] = all_to_all,     [PM_COLL_PERMUTE] = permute,       [PM_COLL_GATHER_ROWS] = gather_rows,
    [PM_COLL_SCATTER_ROWS] = scatter_rows,
};

static bool same_call(const PmCommCall *a, const PmCommCall *b) {
  const PmColl *x = a->coll, *y = b->coll;
  return a->step == b->step && x->kind == y->kind && x->dtype == y->dtype && x->reduce == y->reduce &&
         x->count == y->count;
}

static PmStatus *check_agreement(World *w, const Group *g, int32_t me) {
  for (int32_t i = 0; i < g->n; i++) {
    if (same_call(&g->slots[i].call, &g->slots[me].call)) continue;
    Message m = {.len = 0};
    say(&m, "rank %lld is", (long long)g->ranks[me]);
    say_place(&m, &g->slots[me].call);
    say(&m, ", but rank %lld is", (long long)g->ranks[i]);
    say_place(&m, &g->slots[i].call);
    fail_world(w, PM_ERR_PEER, m.text);
    return failure(w, g->ranks[me]);
  }
  return NULL;
}

static Family *find_family(const World *w, const PmColl *c) {
  for (int32_t f = 0; f < w->n_families; f++) {
    Family *family = &w->families[f];
    if (family->n_mesh == c->n_mesh && memcmp(family->mesh, c->mesh, (size_t)c->n_mesh) == 0) return family;
  }
  return NULL;
}

static PmStatus *run(PmComm *comm, const PmCommCall *call) {
  World *w = ((LocalComm *)comm)->world;
  const Family *family = find_family(w, call->coll);
  PM_ASSERT(family, "a collective that the program does not have");
  // Slots are written only while nobody reads them, which after a failure is no longer sure.
  if (atomic_load(&w->failed)) return failure(w, comm->rank);
  Group *g = &family->groups[family->group_of[comm->rank]];
  int32_t me = family->member_of[comm->rank];
  g->slots[me].call = *call;
  PM_TRY(meet(w, g, me));
  PM_TRY(check_agreement(w, g, me));
  if (g->n > 1 || call->src != call->dst) coll_fns[call->coll->kind](w->p, g, me, call->coll);
  return meet(w, g, me);
}

static void abandon(PmComm *comm, const char *why) {
  Message m = {.len = 0};
  say(&m, "rank %lld stopped: %s", (long long)comm->rank, why);
  fail_world(((LocalComm *)comm)->world, PM_ERR_PEER, m.text);
}

// ---- creation ------------------------------------------------------------------------------------------------------
static const PmCommVtbl vtbl = {.name = "local", .run = run, .abandon = abandon};

static void add_family(World *w, const PmColl *c) {
  if (find_family(w, c)) return;
  w->families = pm_grow(&w->arena, w->families, w->n_families, &w->cap_families, sizeof *w->families);
  Family *f = &w->families[w->n_families++];
  f->n_mesh = c->n_mesh;
  memcpy(f->mesh, c->mesh, (size_t)c->n_mesh);
  int32_t size = 1;
  for (int32_t i = 0; i < f->n_mesh; i++) size *= (int32_t)w->p->mesh_size[f->mesh[i]];
  f->n_groups = w->n_ranks / size;
  f->group_of = PM_NEW_N(&w->arena, int64_t, w->n_ranks);
  f->member_of = PM_NEW_N(&w->arena, int32_t, w->n_ranks);
  // Arenas align to 16 bytes; these want a line of their own.
  char *raw = pm_arena_alloc_n(&w->arena, (size_t)f->n_groups + 1, sizeof(Group));
  f->groups = (Group *)(((uintptr_t)raw + 63) & ~(uintptr_t)63);
  for (int64_t g = 0; g < f->n_groups; g++) {
    f->groups[g].n = size;
    f->groups[g].ranks = PM_NEW_N(&w->arena, int64_t, size);
    raw = pm_arena_alloc_n(&w->arena, (size_t)size + 1, sizeof(Slot));
    f->groups[g].slots = (Slot *)(((uintptr_t)raw + 63) & ~(uintptr_t)63);
  }
  for (int64_t rank = 0; rank < w->n_ranks; rank++) {
    int64_t member = 0, group = 0;
    for (int32_t i = 0; i < f->n_mesh; i++) {
      member = member * w->p->mesh_size[f->mesh[i]] + pm_program_coord(w->p, rank, f->mesh[i]);
    }
    for (int32_t m = 0; m < w->p->n_mesh; m++) {
      if (!memchr(f->mesh, m, (size_t)f->n_mesh)) group = group * w->p->mesh_size[m] + pm_program_coord(w->p, rank, m);
    }
    f->group_of[rank] = group;
    f->member_of[rank] = (int32_t)member;
    f->groups[group].ranks[member] = rank;
  }
}

PmStatus *pm_comm_local_create(const PmProgram *p, const PmCommOptions *options, PmComm **out_comms) {
  PmArena arena;
  pm_arena_init(&arena, 0);
  World *w = PM_NEW(&arena, World);
  w->arena = arena;
  w->p = p;
  w->options = *options;
  if (w->options.warn_s <= 0) w->options.warn_s = PM_COMM_WARN_S;
  if (w->options.deadline_s <= 0) w->options.deadline_s = PM_COMM_DEADLINE_S;
  w->n_ranks = pm_program_ranks(p);
  int err = pthread_mutex_init(&w->mutex, NULL);
  if (err) {
    arena = w->arena;
    pm_arena_deinit(&arena);
    return PM_STATUS(PM_ERR_ENVIRONMENT, "cannot make a mutex: %s", strerror(err));
  }
  for (int32_t e = 0; e < PM_ENTRY_COUNT; e++) {
    for (int32_t s = 0; s < p->entries[e].n_steps; s++) {
      if (p->entries[e].steps[s].kind == PM_STEP_COLL) add_family(w, p->entries[e].steps[s].u.coll);
    }
  }
  w->comms = PM_NEW_N(&w->arena, LocalComm, w->n_ranks);
  for (int64_t r = 0; r < w->n_ranks; r++) {
    w->comms[r] = (LocalComm){{&vtbl, r}, w};
    out_comms[r] = &w->comms[r].base;
  }
  return NULL;
}

void pm_comm_local_destroy(PmComm **comms) {
  World *w = ((LocalComm *)comms[0])->world;
  pthread_mutex_destroy(&w->mutex);
  PmArena arena = w->arena;
  pm_arena_deinit(&arena);
}
