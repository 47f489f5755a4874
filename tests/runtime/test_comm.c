// The conformance suite of communicators: every kind, dtype and group, odd sizes, and ranks that never come.
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/half.h"
#include "fixture.h"
#include "harness.h"
#include "runtime/comm.h"

enum { MAX_RANKS = 8, MAX_COUNT = 5000, MAX_GROUP = 8 };

typedef PmStatus *CreateFn(const PmProgram *p, const PmCommOptions *options, PmComm **out);
typedef struct Kind {
  CreateFn *create;
  void (*destroy)(PmComm **comms);
} Kind;

static const Kind kinds[] = {{pm_comm_local_create, pm_comm_local_destroy}};

typedef struct World {
  const Kind *kind;
  PmArena arena;
  PmProgram *p;
  PmComm *comms[MAX_RANKS];
  PmCommOptions options;
  void (*body)(struct World *w, int64_t rank);
  PmStatus *statuses[MAX_RANKS];
  char *src[MAX_RANKS], *dst[MAX_RANKS];
  int32_t *idx[MAX_RANKS];  // of collectives that have rows
  int64_t stalled;          // rank that never comes, -1: none
  _Atomic int32_t n_warnings, n_failures;
} World;

static PmColl *add_coll(PmProgram *p, PmCollKind kind, PmKDtype dtype, int reduce, int64_t count, uint32_t mesh) {
  PmColl *c = fixture_step(p, PM_ENTRY_STEP, PM_STEP_COLL, "a step")->u.coll;
  *c = (PmColl){.kind = (uint8_t)kind, .dtype = (uint8_t)dtype, .reduce = (uint8_t)reduce, .count = count};
  for (int32_t m = 0; m < p->n_mesh; m++) {
    if (mesh & (1u << m)) c->mesh[c->n_mesh++] = (uint8_t)m;
  }
  for (int32_t i = c->n_mesh; i > 0 && kind == PM_COLL_PERMUTE; i--) c->to[c->n_to++] = c->mesh[i - 1];
  return c;
}

static void world_init(World *w, const Kind *kind, int64_t m0, int64_t m1, int64_t m2) {
  *w = (World){.kind = kind, .stalled = -1};
  pm_arena_init(&w->arena, 0);
  w->p = fixture_empty(&w->arena, m0, m1, m2);
}

static void world_open(World *w) { assert_null(w->kind->create(w->p, &w->options, w->comms)); }

static void world_deinit(World *w) {
  w->kind->destroy(w->comms);
  pm_arena_deinit(&w->arena);
}

typedef struct Thread {
  World *w;
  int64_t rank;
} Thread;

static void *enter(void *arg) {
  const Thread *t = arg;
  t->w->body(t->w, t->rank);
  return NULL;
}

static void world_run(World *w, void (*body)(World *w, int64_t rank)) {
  w->body = body;
  int64_t n = pm_program_ranks(w->p);
  pthread_t threads[MAX_RANKS];
  Thread args[MAX_RANKS];
  for (int64_t r = 0; r < n; r++) {
    args[r] = (Thread){w, r};
    assert_int_equal(pthread_create(&threads[r], NULL, enter, &args[r]), 0);
  }
  for (int64_t r = 0; r < n; r++) pthread_join(threads[r], NULL);
}

static PmStatus *run_step(World *w, int64_t rank, int32_t step, char *src, char *dst) {
  const PmStep *s = &w->p->entries[PM_ENTRY_STEP].steps[step];
  PmCommCall call = {.coll = s->u.coll, .src = src, .dst = dst, .op = s->op, .loc = &w->p->locs[0], .step = 41};
  if (s->u.coll->rows) call.idx = w->idx[rank];
  return w->comms[rank]->vtbl->run(w->comms[rank], &call);
}

static void run_all_steps(World *w, int64_t rank) {
  for (int32_t i = 0; i < w->p->entries[PM_ENTRY_STEP].n_steps && !w->statuses[rank]; i++) {
    if (rank == w->stalled) return;
    w->statuses[rank] = run_step(w, rank, i, w->src[rank], w->dst[rank]);
  }
}

// ---- results -------------------------------------------------------------------------------------------------------
static double value_at(int64_t rank, int64_t i) { return (double)((rank * 7919 + i * 104729) % 1000) - 400.5; }

static void put(PmKDtype dtype, char *at, int64_t i, double v) {
  if (dtype == PM_K_F32) ((float *)at)[i] = (float)v * 0.1f;
  if (dtype == PM_K_F64) ((double *)at)[i] = v * 0.1;
  if (dtype == PM_K_I32) ((int32_t *)at)[i] = (int32_t)v * 3000000;
  if (dtype == PM_K_BF16) ((uint16_t *)at)[i] = pm_bf16_from(v * 0.1);
  if (dtype == PM_K_F16) ((uint16_t *)at)[i] = pm_f16_from(v * 0.1);
  if (dtype == PM_K_BOOL) at[i] = (int32_t)v & 1;
}

// Half floats: summed in f32 and rounded once; the largest is one of them.
static void expect_half(const PmColl *c, const int64_t *members, int32_t n, int64_t from, char *at, int64_t to) {
  float sum = 0, most = 0;
  for (int32_t m = 0; m < n; m++) {
    uint16_t bits[1];
    put((PmKDtype)c->dtype, (char *)bits, 0, value_at(members[m], from));
    float v = c->dtype == PM_K_BF16 ? pm_bf16_to_f32(*bits) : pm_f16_to_f32(*bits);
    sum = m ? sum + v : v;
    most = m ? fmaxf(most, v) : v;
  }
  double result = (double)(c->reduce ? most : sum);
  ((uint16_t *)at)[to] = c->dtype == PM_K_BF16 ? pm_bf16_from(result) : pm_f16_from(result);
}

// Who sends to `me` in a permute: counts through the places of the order over `to`, the last mesh axis fastest.
static int32_t sender_to(const PmProgram *p, const PmColl *c, int64_t me) {
  int64_t coord[PM_PROGRAM_MAX_MESH] = {0};
  for (int32_t place = 0;; place++) {
    bool here = true;
    for (int32_t i = 0; i < c->n_to; i++) here = here && coord[c->to[i]] == pm_program_coord(p, me, c->to[i]);
    if (here) return place;
    for (int32_t i = c->n_to - 1; i >= 0 && ++coord[c->to[i]] == p->mesh_size[c->to[i]]; i--) coord[c->to[i]] = 0;
  }
}

// One element of the result by definition: members' elements combined in member order.
static void expect(const PmProgram *p, const PmColl *c, const int64_t *members, int32_t n, int32_t me, int64_t i,
                   char *at, int64_t to) {
  int64_t block = i / c->count, in_block = i % c->count;
  if (c->kind == PM_COLL_ALL_GATHER) {
    put((PmKDtype)c->dtype, at, to, value_at(members[block], in_block));
  } else if (c->kind == PM_COLL_PERMUTE) {
    put((PmKDtype)c->dtype, at, to, value_at(members[sender_to(p, c, members[me])], i));
  } else if (c->kind == PM_COLL_ALL_TO_ALL) {
    put((PmKDtype)c->dtype, at, to, value_at(members[block], me * c->count + in_block));
  } else {
    int64_t from = c->kind == PM_COLL_REDUCE_SCATTER ? me * c->count + i : i;
    if (pm_kdtype_is_half((PmKDtype)c->dtype)) {
      expect_half(c, members, n, from, at, to);
      return;
    }
    char first[8] = {0}, other[8];
    put((PmKDtype)c->dtype, first, 0, value_at(members[0], from));
    for (int32_t m = 1; m < n; m++) {
      put((PmKDtype)c->dtype, other, 0, value_at(members[m], from));
      float *f = (float *)first, *g = (float *)other;
      double *d = (double *)first, *e = (double *)other;
      uint32_t *u = (uint32_t *)first, *v = (uint32_t *)other;
      if (c->dtype == PM_K_F32) *f = c->reduce ? fmaxf(*f, *g) : *f + *g;
      if (c->dtype == PM_K_F64) *d = c->reduce ? fmax(*d, *e) : *d + *e;
      if (c->dtype == PM_K_I32) *u = c->reduce ? ((int32_t)*u > (int32_t)*v ? *u : *v) : *u + *v;
    }
    int64_t size = pm_kdtype_bytes((PmKDtype)c->dtype);
    memcpy(at + to * size, first, (size_t)size);
  }
}

static int32_t members_of(const PmProgram *p, const PmColl *c, int64_t rank, int64_t *members, int32_t *me) {
  int32_t n = 0;
  for (int64_t r = 0; r < pm_program_ranks(p); r++) {
    bool same = true;
    for (int32_t m = 0; m < p->n_mesh; m++) {
      bool in = memchr(c->mesh, m, (size_t)c->n_mesh) != NULL;
      same = same && (in || pm_program_coord(p, r, m) == pm_program_coord(p, rank, m));
    }
    if (r == rank) *me = n;
    if (same) members[n++] = r;
  }
  return n;
}

static void check_coll(World *w, const PmColl *c, bool in_place) {
  int64_t size = pm_kdtype_bytes((PmKDtype)c->dtype);
  for (int64_t r = 0; r < pm_program_ranks(w->p); r++) {
    for (int64_t i = 0; i < MAX_COUNT * MAX_GROUP; i++) put((PmKDtype)c->dtype, w->src[r], i, value_at(r, i));
    memset(w->dst[r], 0xff, MAX_COUNT * MAX_GROUP * 8 + 1);
    if (in_place) {
      free(w->dst[r]);
      w->dst[r] = w->src[r];
    }
  }
  world_run(w, run_all_steps);
  char *want = malloc(MAX_COUNT * MAX_GROUP * 8);
  for (int64_t r = 0; r < pm_program_ranks(w->p); r++) {
    assert_null(w->statuses[r]);
    int64_t members[MAX_RANKS] = {0};
    int32_t me = 0, n = members_of(w->p, c, r, members, &me);
    bool wide = c->kind == PM_COLL_ALL_GATHER || c->kind == PM_COLL_ALL_TO_ALL;
    int64_t elements = wide ? c->count * n : c->count;
    for (int64_t i = 0; i < elements; i++) expect(w->p, c, members, n, me, i, want, i);
    assert_memory_equal(w->dst[r], want, (size_t)(elements * size));
    if (in_place) {
      w->dst[r] = malloc(MAX_COUNT * MAX_GROUP * 8 + 1);
    } else {
      assert_int_equal((unsigned char)w->dst[r][elements * size], 0xff);
    }
  }
  free(want);
}

static void give_memory(World *w, char *const *src, char *const *dst) {
  for (int r = 0; r < MAX_RANKS; r++) {
    w->src[r] = src[r];
    w->dst[r] = dst[r];
  }
}

enum { N_PLAIN = PM_COLL_GATHER_ROWS };  // the kinds before those that have rows

static void every_kind_dtype_and_group(void **state) {
  (void)state;
  static const int64_t counts[] = {1, 3, 64, 1023, MAX_COUNT};
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
    char *src[MAX_RANKS], *dst[MAX_RANKS];
    for (int r = 0; r < MAX_RANKS; r++) {
      src[r] = malloc(MAX_COUNT * MAX_GROUP * 8);
      dst[r] = malloc(MAX_COUNT * MAX_GROUP * 8 + 1);
    }
    for (uint32_t i = 0; i < N_PLAIN * (uint32_t)PM_K_DTYPE_COUNT * 2 * 8 * 5; i++) {
      PmCollKind kind = (PmCollKind)(i % N_PLAIN);
      PmKDtype dtype = (PmKDtype)(i / N_PLAIN % PM_K_DTYPE_COUNT);
      uint32_t rest = i / N_PLAIN / PM_K_DTYPE_COUNT;
      int reduce = (int)(rest % 2);
      uint32_t mesh = rest / 2 % 8;
      int64_t count = counts[rest / 16];
      bool reduces = kind == PM_COLL_ALL_REDUCE || kind == PM_COLL_REDUCE_SCATTER;
      // Large ones once a dtype; the rest is covered by small ones.
      if ((reduces && dtype == PM_K_BOOL) || (!reduces && reduce) || (count > 100 && mesh != 7 && mesh != 2)) continue;
      World w;
      world_init(&w, &kinds[k], 2, 2, 2);
      give_memory(&w, src, dst);
      const PmColl *c = add_coll(w.p, kind, dtype, reduce, count, mesh);
      world_open(&w);
      check_coll(&w, c, false);
      if (kind == PM_COLL_ALL_REDUCE) check_coll(&w, c, true);
      for (int r = 0; r < MAX_RANKS; r++) dst[r] = w.dst[r];
      world_deinit(&w);
    }
    for (int r = 0; r < MAX_RANKS; r++) {
      free(src[r]);
      free(dst[r]);
    }
  }
}

static void odd_meshes(void **state) {
  (void)state;
  char *src[MAX_RANKS], *dst[MAX_RANKS];
  for (int r = 0; r < MAX_RANKS; r++) {
    src[r] = malloc(MAX_COUNT * MAX_GROUP * 8);
    dst[r] = malloc(MAX_COUNT * MAX_GROUP * 8 + 1);
  }
  for (uint32_t i = 0; i < 8; i++) {
    World w;
    world_init(&w, &kinds[0], 3, 2, 0);
    give_memory(&w, src, dst);
    const PmColl *c = add_coll(w.p, i < 4 ? PM_COLL_ALL_REDUCE : PM_COLL_PERMUTE, PM_K_F32, 0, 1001, i % 4);
    world_open(&w);
    check_coll(&w, c, false);
    world_deinit(&w);
  }
  for (int r = 0; r < MAX_RANKS; r++) {
    free(src[r]);
    free(dst[r]);
  }
}

static void gather_ranks(World *w, int64_t rank) {
  int32_t me = (int32_t)rank;
  for (int32_t i = 0; i < w->p->entries[PM_ENTRY_STEP].n_steps && !w->statuses[rank]; i++) {
    w->statuses[rank] = run_step(w, rank, i, (char *)&me, w->dst[rank] + i * MAX_RANKS * 4);
  }
}

// Whatever mesh axes a collective names: every rank is in one group, its members agree on who they are, and there are
// as many as the product of these axes.
static void groups_partition_the_mesh(void **state) {
  (void)state;
  int32_t members[MAX_RANKS][8 * MAX_RANKS];
  World w;
  world_init(&w, &kinds[0], 2, 2, 2);
  for (uint32_t mesh = 0; mesh < 8; mesh++) add_coll(w.p, PM_COLL_ALL_GATHER, PM_K_I32, 0, 1, mesh);
  memset(members, 0xff, sizeof members);
  for (int r = 0; r < MAX_RANKS; r++) w.dst[r] = (char *)members[r];
  world_open(&w);
  world_run(&w, gather_ranks);
  for (uint32_t mesh = 0; mesh < 8; mesh++) {
    for (int32_t r = 0; r < MAX_RANKS; r++) {
      assert_null(w.statuses[r]);
      const int32_t *mine = &members[r][mesh * MAX_RANKS];
      int32_t n = 0, here = 0;
      for (; n < MAX_RANKS && mine[n] >= 0; n++) {
        here += mine[n] == r;
        assert_memory_equal(mine, &members[mine[n]][mesh * MAX_RANKS], sizeof *mine * MAX_RANKS);
      }
      assert_int_equal(n, 1 << __builtin_popcount(mesh));
      assert_int_equal(here, 1);
    }
  }
  world_deinit(&w);
}

// Groups of one family run side by side and at other speeds; many rounds on more threads than cores.
static void many_rounds(World *w, int64_t rank) {
  for (int i = 0; i < 300 && !w->statuses[rank]; i++) {
    float a = (float)(rank + i), b = 0, c = (float)rank;
    w->statuses[rank] = run_step(w, rank, 0, (char *)&a, (char *)&b);
    if (rank % 3 == 0 && i % 50 == 0) usleep(200);
    if (!w->statuses[rank]) w->statuses[rank] = run_step(w, rank, 1, (char *)&c, (char *)&c);
    float first = (float)(rank % 2), want = 4.0f * (float)i + first * 4 + 0 + 2 + 4 + 6;
    if (b != want || c != (float)(rank | 1)) abort();
  }
}

static void concurrent_groups(void **state) {
  (void)state;
  World w;
  world_init(&w, &kinds[0], 4, 2, 0);
  add_coll(w.p, PM_COLL_ALL_REDUCE, PM_K_F32, 0, 1, 1);
  add_coll(w.p, PM_COLL_ALL_REDUCE, PM_K_F32, 1, 1, 2);
  world_open(&w);
  world_run(&w, many_rounds);
  for (int r = 0; r < 8; r++) assert_null(w.statuses[r]);
  world_deinit(&w);
}

// ---- faults --------------------------------------------------------------------------------------------------------
static void on_report(void *context, bool failed, const char *text) {
  (void)text;
  World *w = context;
  atomic_fetch_add(failed ? &w->n_failures : &w->n_warnings, 1);
}

static void faulty_world(World *w) {
  world_init(w, &kinds[0], 2, 2, 0);
  add_coll(w->p, PM_COLL_ALL_REDUCE, PM_K_F32, 0, 1, 1);
  add_coll(w->p, PM_COLL_ALL_REDUCE, PM_K_F32, 0, 1, 2);
  w->options = (PmCommOptions){.warn_s = 0.05, .deadline_s = 0.3, .report = on_report, .context = w};
  for (int r = 0; r < 4; r++) w->src[r] = w->dst[r] = test_calloc(1, 8);
  world_open(w);
}

static void drop_faulty_world(World *w) {
  for (int r = 0; r < 4; r++) {
    pm_status_drop(w->statuses[r]);
    test_free(w->src[r]);
  }
  world_deinit(w);
}

static void expect_text(const PmStatus *st, const char *text) {
  if (!strstr(pm_status_message(st), text)) fail_msg("`%s` lacks `%s`", pm_status_message(st), text);
}

static void a_rank_that_never_comes(void **state) {
  (void)state;
  for (int64_t stalled = 0; stalled < 4; stalled++) {
    World w;
    faulty_world(&w);
    w.stalled = stalled;
    world_run(&w, run_all_steps);
    char name[32];
    for (int r = 0; r < 4; r++) {
      if (r == stalled) continue;
      assert_int_equal(pm_status_code(w.statuses[r]), PM_ERR_DEADLINE);
      // Who waits in the second group waits for the neighbour that waits for the stalled rank.
      snprintf(name, sizeof name, "s for rank ");
      expect_text(w.statuses[r], name);
      expect_text(w.statuses[r], "at step 41 in a step (fixture.pmodel:3:5)");
    }
    assert_true(w.n_warnings >= 1);
    assert_int_equal(w.n_failures, 1);
    drop_faulty_world(&w);
  }
}

static void fail_instead(World *w, int64_t rank) {
  if (rank == 2) {
    w->comms[rank]->vtbl->abandon(w->comms[rank], "the disk burns");
    w->statuses[rank] = run_step(w, rank, 0, w->src[rank], w->dst[rank]);
  } else {
    run_all_steps(w, rank);
  }
}

static void a_rank_that_fails(void **state) {
  (void)state;
  World w;
  faulty_world(&w);
  w.options.deadline_s = 60;
  world_run(&w, fail_instead);
  for (int r = 0; r < 4; r++) {
    // Ranks 1 and 3 meet in the second step only; they may be done before anybody tells them.
    assert_int_equal(pm_status_code(w.statuses[r]), PM_ERR_PEER);
    expect_text(w.statuses[r], "rank 2 stopped: the disk burns");
  }
  drop_faulty_world(&w);
}

static void disagree(World *w, int64_t rank) {
  PmColl other = *w->p->entries[PM_ENTRY_STEP].steps[0].u.coll;
  other.count = 2;
  PmCommCall call = {.coll = &other, .src = w->src[rank], .dst = w->dst[rank], .op = "another", .step = 41};
  if (rank == 2) {
    w->statuses[rank] = w->comms[rank]->vtbl->run(w->comms[rank], &call);
  } else {
    w->statuses[rank] = run_step(w, rank, 0, w->src[rank], w->dst[rank]);
  }
}

static void ranks_that_disagree(void **state) {
  (void)state;
  World w;
  faulty_world(&w);
  world_run(&w, disagree);
  assert_int_equal(pm_status_code(w.statuses[0]), PM_ERR_PEER);
  assert_int_equal(pm_status_code(w.statuses[2]), PM_ERR_PEER);
  expect_text(w.statuses[0], "in another");
  expect_text(w.statuses[0], "in a step");
  drop_faulty_world(&w);
}

// ---- rows ----------------------------------------------------------------------------------------------------------
enum { ROWS_COUNT = 23, ROWS_WIDTH = 5, ROWS_MAJOR = 2, ROWS_MINOR = 3 };

// Rows split over the mesh axes of `mesh`: the first on the major axis, others on the minor one.
static PmColl *add_rows(PmProgram *p, PmCollKind kind, PmKDtype dtype, uint32_t mesh) {
  PmColl *c = add_coll(p, kind, dtype, 0, ROWS_COUNT, mesh);
  c->rows = PM_NEW(p->arena, PmRows);
  *c->rows = (PmRows){.width = ROWS_WIDTH, .n_dims = 2};
  PmRowDim *d = c->rows->dims;
  d[0] = (PmRowDim){.size = ROWS_MAJOR, .local = ROWS_MAJOR};
  d[1] = (PmRowDim){.size = ROWS_MINOR, .local = ROWS_MINOR};
  for (int32_t i = c->n_mesh - 1; i >= 0; i--) {
    PmRowDim *at = &d[i > 0];
    at->first.stride[c->mesh[i]] = at->size;
    at->size *= p->mesh_size[c->mesh[i]];
  }
  return c;
}

// The row of a rank's part that an index names, by the definition; -1: none.
static int64_t named_row(const PmProgram *p, const PmColl *c, int64_t rank, int64_t index) {
  const PmRowDim *d = c->rows->dims;
  for (int64_t major = 0; major < d[0].local; major++) {
    for (int64_t minor = 0; minor < d[1].local; minor++) {
      const int64_t global =
          (pm_coord_term(p, &d[0].first, rank) + major) * d[1].size + pm_coord_term(p, &d[1].first, rank) + minor;
      if (global == index) return major * d[1].local + minor;
    }
  }
  return -1;
}

static void want_rows(World *w, const PmColl *c, int64_t rank, char *want) {
  const int64_t size = pm_kdtype_bytes((PmKDtype)c->dtype) * ROWS_WIDTH;
  int64_t members[MAX_RANKS] = {0};
  int32_t me = 0, n = members_of(w->p, c, rank, members, &me);
  for (int32_t m = 0; m < n; m++) {
    for (int64_t i = 0; i < ROWS_COUNT; i++) {
      if (c->kind == PM_COLL_GATHER_ROWS) {
        const int64_t row = named_row(w->p, c, members[m], w->idx[rank][i]);
        if (row >= 0) memcpy(want + i * size, w->src[members[m]] + row * size, (size_t)size);
      } else {
        const int64_t row = named_row(w->p, c, rank, w->idx[members[m]][i]);
        if (row >= 0) memcpy(want + row * size, w->src[members[m]] + i * size, (size_t)size);
      }
    }
  }
}

// Indices are of any kind: rows of every member, several for one row, and numbers that name none, far outside.
static void rows_go_where_positions_point(void **state) {
  (void)state;
  static const PmCollKind row_kinds[] = {PM_COLL_GATHER_ROWS, PM_COLL_SCATTER_ROWS};
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
    for (uint32_t i = 0; i < 2 * PM_K_DTYPE_COUNT * 8; i++) {
      World w;
      world_init(&w, &kinds[k], 2, 2, 2);
      const PmColl *c = add_rows(w.p, row_kinds[i % 2], (PmKDtype)(i / 2 % PM_K_DTYPE_COUNT), i / 2 / PM_K_DTYPE_COUNT);
      const int64_t size = pm_kdtype_bytes((PmKDtype)c->dtype);
      const int64_t rows = c->rows->dims[0].size * c->rows->dims[1].size, room = (ROWS_COUNT + 1) * ROWS_WIDTH * 8;
      const int64_t held =
          c->kind == PM_COLL_GATHER_ROWS ? ROWS_COUNT : c->rows->dims[0].local * c->rows->dims[1].local;
      for (int64_t r = 0; r < MAX_RANKS; r++) {
        w.src[r] = malloc((size_t)room);
        w.dst[r] = malloc((size_t)room);
        w.idx[r] = malloc(ROWS_COUNT * sizeof(int32_t));
        memset(w.dst[r], 0xff, (size_t)room);
        for (int64_t e = 0; e < room / 8; e++) put((PmKDtype)c->dtype, w.src[r], e, value_at(r, e));
        for (int64_t e = 0; e < ROWS_COUNT; e++) w.idx[r][e] = (int32_t)((r * 5 + e * 7) % (rows + 1)) - 1;
        w.idx[r][1] = INT32_MAX;
        w.idx[r][2] = INT32_MIN;
        w.idx[r][3] = (int32_t)rows;
      }
      world_open(&w);
      world_run(&w, run_all_steps);
      for (int64_t r = 0; r < MAX_RANKS; r++) {
        assert_null(w.statuses[r]);
        char *want = calloc(1, (size_t)room);
        want_rows(&w, c, r, want);
        assert_memory_equal(w.dst[r], want, (size_t)(held * ROWS_WIDTH * size));
        assert_int_equal((unsigned char)w.dst[r][held * ROWS_WIDTH * size], 0xff);
        free(want);
      }
      for (int64_t r = 0; r < MAX_RANKS; r++) {
        free(w.src[r]);
        free(w.dst[r]);
        free(w.idx[r]);
      }
      world_deinit(&w);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_kind_dtype_and_group), cmocka_unit_test(odd_meshes),
      cmocka_unit_test(groups_partition_the_mesh),  cmocka_unit_test(concurrent_groups),
      cmocka_unit_test(a_rank_that_never_comes),    cmocka_unit_test(a_rank_that_fails),
      cmocka_unit_test(ranks_that_disagree),        cmocka_unit_test(rows_go_where_positions_point),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
