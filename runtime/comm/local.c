// Ranks as threads of one process. A collective is: publish pointers, meet, each member computes its own part of the
// results from everybody's sources in member order, meet again.
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "runtime/comm.h"
#include "runtime/comm/groups.h"
#include "runtime/comm/reduce.h"
#include "runtime/comm/say.h"
#include "runtime/futex.h"
#include "runtime/rows.h"

#define NAP 0.05  // a sleeping rank looks this often whether the run has failed

typedef struct World World;

typedef struct Slot {
  _Alignas(64) PmCommCall call;
  uint64_t form;  // of call.coll, which others don't read: after a failure it may be gone
  PmWord arrivals;
} Slot;

typedef struct Group {
  int32_t n;
  int64_t *ranks;
  Slot *slots;
  const char **sources;  // n lists of n, one for each member to fill with everybody's sources while it reduces
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
  atomic_bool waits;  // in a collective, for others
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
  char failure[PM_MESSAGE_BYTES];
};

// ---- failing -------------------------------------------------------------------------------------------------------
static void report(const World *w, PmCode failed, const char *text) {
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
  report(w, code, text);
}

static PmStatus *failure(World *w, int64_t rank) {
  pthread_mutex_lock(&w->mutex);
  PmStatus *st = PM_STATUS((PmCode)atomic_load(&w->failed), "%s", w->failure);
  pthread_mutex_unlock(&w->mutex);
  return pm_status_wrap(st, __FILE__, __LINE__, "seen by rank %lld", (long long)rank);
}

static void say_waiting(const World *w, PmMessage *m, const Group *g, int32_t me, double waited) {
  pm_say(m, "rank %lld has waited %.1f s for rank", (long long)g->ranks[me], waited);
  uint32_t mine = atomic_load(&g->slots[me].arrivals);
  const char *before = " ";
  for (int32_t i = 0; i < g->n; i++) {
    // Counts wrap, so they compare by their difference.
    if ((int32_t)(atomic_load(&g->slots[i].arrivals) - mine) >= 0) continue;
    pm_say(m, "%s%lld", before, (long long)g->ranks[i]);
    before = ", ";
  }
  pm_say_place(m, &g->slots[me].call);
  // Who waits for a rank that waits itself is told who keeps both of them.
  before = "; in no collective: rank ";
  for (int64_t r = 0; r < w->n_ranks; r++) {
    if (atomic_load(&w->comms[r].waits)) continue;
    pm_say(m, "%s%lld", before, (long long)r);
    before = ", ";
  }
}

// ---- meeting -------------------------------------------------------------------------------------------------------
// Waits for the group's other members, or for a failure.
static PmStatus *wait_round(World *w, Group *g, int32_t me, uint32_t round) {
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
    PmMessage m = {.len = 0};
    say_waiting(w, &m, g, me, waited);
    if (late) {
      fail_world(w, PM_ERR_DEADLINE, m.text);
      return failure(w, g->ranks[me]);
    }
    report(w, PM_OK, m.text);
    warned = true;
  }
  return NULL;
}

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
  atomic_bool *waits = &w->comms[g->ranks[me]].waits;
  atomic_store(waits, true);
  PmStatus *st = wait_round(w, g, me, round);
  atomic_store(waits, false);
  return st;
}

// ---- computing -----------------------------------------------------------------------------------------------------
// Everybody's source of one part, in the list of member `me`.
static const char **sources_of(const Group *g, int32_t me, int32_t part) {
  const char **sources = g->sources + me * g->n;
  for (int32_t i = 0; i < g->n; i++) sources[i] = pm_comm_src(&g->slots[i].call, part);
  return sources;
}

// Reduces bytes [from, from + bytes) of everybody's sources of one part; they go to byte `to` of the results of members
// [first, first + n_dst).
static void reduce_bytes(const Group *g, int32_t me, int32_t part, int64_t from, int64_t bytes, int32_t first,
                         int32_t n_dst, int64_t to) {
  _Alignas(64) char block[PM_REDUCE_BLOCK];
  const PmColl *c = g->slots[me].call.coll;
  const char **sources = sources_of(g, me, part);
  for (int64_t at = 0; at < bytes; at += PM_REDUCE_BLOCK) {
    int64_t n = bytes - at < PM_REDUCE_BLOCK ? bytes - at : PM_REDUCE_BLOCK;
    pm_reduce_block((PmKDtype)c->dtype, c->reduce, sources, g->n, from + at, n, block);
    for (int32_t i = first; i < first + n_dst; i++) {
      memcpy(pm_comm_dst(&g->slots[i].call, part) + to + at, block, (size_t)n);
    }
  }
}

// Each member's share is of all parts one after the other, so that many small ones are shared out too.
static void all_reduce(const PmProgram *p, const Group *g, int32_t me, const PmColl *c) {
  (void)p;
  int64_t all = pm_coll_elements(c), per = all / g->n, rest = all % g->n, size = pm_kdtype_bytes((PmKDtype)c->dtype);
  int64_t begin = per * me + (me < rest ? me : rest), end = begin + per + (me < rest), at = 0;
  for (int32_t i = 0; i <= c->n_more; i++) {
    int64_t count = pm_coll_part(c, i).count, lo = begin > at ? begin - at : 0,
            hi = end - at < count ? end - at : count;
    // Only this member touches these bytes of any source or result, so results may be the sources.
    if (lo < hi) reduce_bytes(g, me, i, lo * size, (hi - lo) * size, 0, g->n, lo * size);
    at += count;
  }
}

static void all_gather(const PmProgram *p, const Group *g, int32_t me, const PmColl *c) {
  (void)p;
  int64_t part = c->count * pm_kdtype_bytes((PmKDtype)c->dtype);
  for (int32_t i = 0; i < g->n; i++) memcpy(g->slots[me].call.dst + i * part, g->slots[i].call.src, (size_t)part);
}

static void reduce_scatter(const PmProgram *p, const Group *g, int32_t me, const PmColl *c) {
  (void)p;
  int64_t part = c->count * pm_kdtype_bytes((PmKDtype)c->dtype);
  reduce_bytes(g, me, 0, me * part, part, me, 1, 0);
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
static CollFn *const coll_fns[] = {
#define COLL(NAME, name, fn) [PM_COLL_##NAME] = fn,
#include "runtime/colls.def"
};

static bool same_call(const Slot *a, const Slot *b) { return a->call.step == b->call.step && a->form == b->form; }

static PmStatus *check_agreement(World *w, const Group *g, int32_t me) {
  for (int32_t i = 0; i < g->n; i++) {
    if (same_call(&g->slots[i], &g->slots[me])) continue;
    PmMessage m = {.len = 0};
    pm_say(&m, "rank %lld is", (long long)g->ranks[me]);
    pm_say_place(&m, &g->slots[me].call);
    pm_say(&m, ", but rank %lld is", (long long)g->ranks[i]);
    pm_say_place(&m, &g->slots[i].call);
    fail_world(w, PM_ERR_PEER, m.text);
    return failure(w, g->ranks[me]);
  }
  return NULL;
}

static Family *find_family(const World *w, const PmColl *c) {
  for (int32_t f = 0; f < w->n_families; f++) {
    Family *family = &w->families[f];
    if (pm_comm_same_group(c, family->n_mesh, family->mesh)) return family;
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
  g->slots[me].form = pm_coll_form(call->coll);
  PM_TRY(meet(w, g, me));
  PM_TRY(check_agreement(w, g, me));
  if (g->n > 1 || call->src != call->dst || call->coll->n_more > 0) coll_fns[call->coll->kind](w->p, g, me, call->coll);
  return meet(w, g, me);
}

static void abandon(PmComm *comm, const char *why) {
  PmMessage m = {.len = 0};
  pm_say(&m, "rank %lld stopped: %s", (long long)comm->rank, why);
  fail_world(((LocalComm *)comm)->world, PM_ERR_PEER, m.text);
}

// ---- creation ------------------------------------------------------------------------------------------------------
static const PmCommVtbl vtbl = {.name = "local", .run = run, .abandon = abandon};

static void add_family(void *context, const PmColl *c) {
  World *w = context;
  if (find_family(w, c)) return;
  w->families = pm_grow(&w->arena, w->families, w->n_families, &w->cap_families, sizeof *w->families);
  Family *f = &w->families[w->n_families++];
  f->n_mesh = c->n_mesh;
  memcpy(f->mesh, c->mesh, (size_t)c->n_mesh);
  int32_t size = (int32_t)pm_comm_group_size(w->p, c);
  f->n_groups = w->n_ranks / size;
  f->group_of = PM_NEW_N(&w->arena, int64_t, w->n_ranks);
  f->member_of = PM_NEW_N(&w->arena, int32_t, w->n_ranks);
  // Arenas align to 16 bytes; these want a line of their own.
  char *raw = pm_arena_alloc_n(&w->arena, (size_t)f->n_groups + 1, sizeof(Group));
  f->groups = (Group *)(((uintptr_t)raw + 63) & ~(uintptr_t)63);
  const int64_t pairs = (int64_t)size * size;
  for (int64_t g = 0; g < f->n_groups; g++) {
    f->groups[g].n = size;
    f->groups[g].ranks = PM_NEW_N(&w->arena, int64_t, size);
    f->groups[g].sources = PM_NEW_N(&w->arena, const char *, pairs);
    raw = pm_arena_alloc_n(&w->arena, (size_t)size + 1, sizeof(Slot));
    f->groups[g].slots = (Slot *)(((uintptr_t)raw + 63) & ~(uintptr_t)63);
  }
  for (int64_t rank = 0; rank < w->n_ranks; rank++) {
    int64_t member, group = pm_comm_group_of(w->p, c, rank, &member);
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
  pm_comm_each_coll(p, add_family, w);
  w->comms = PM_NEW_N(&w->arena, LocalComm, w->n_ranks);
  for (int64_t r = 0; r < w->n_ranks; r++) {
    w->comms[r].base = (PmComm){&vtbl, r};
    w->comms[r].world = w;
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
