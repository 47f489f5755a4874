// The conformance suite of communicators: every kind, dtype and group, odd sizes, and ranks that never come. Alone it
// runs over threads; as `mpirun -np 8 runtime_comm mpi` or `with_tcp.sh 8 runtime_comm tcp` over processes.
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/half.h"
#include "fixture.h"
#include "harness.h"
#include "world.h"

enum { MAX_COUNT = 5000, MAX_GROUP = 8 };
enum { N_PLAIN = PM_COLL_GATHER_ROWS };  // the kinds before those that have rows

static void run_all_steps(World *w, int64_t rank) {
  const int64_t *stalled = w->context;  // the rank that never comes; NULL: none
  for (int32_t i = 0; i < w->p->entries[PM_ENTRY_STEP].n_steps && !w->statuses[rank]; i++) {
    if (stalled && rank == *stalled) return;
    w->statuses[rank] = world_run_step(w, rank, i, w->src[rank], w->dst[rank]);
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
  } else if (c->kind == PM_COLL_SHIFT) {
    put((PmKDtype)c->dtype, at, to, value_at(members[(me + n - 1) % n], i));
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

static void check_result(const World *w, const PmColl *c, int64_t r, char *want) {
  int64_t members[MAX_RANKS] = {0}, size = pm_kdtype_bytes((PmKDtype)c->dtype);
  int32_t me = 0, n = members_of(w->p, c, r, members, &me);
  bool wide = c->kind == PM_COLL_ALL_GATHER || c->kind == PM_COLL_ALL_TO_ALL;
  int64_t elements = wide ? c->count * n : c->count;
  for (int64_t i = 0; i < elements; i++) expect(w->p, c, members, n, me, i, want, i);
  assert_memory_equal(w->dst[r], want, (size_t)(elements * size));
  if (w->dst[r] != w->src[r]) assert_int_equal((unsigned char)w->dst[r][elements * size], 0xff);
}

static void check_coll(World *w, const PmColl *c, bool in_place) {
  char *want = malloc(MAX_COUNT * MAX_GROUP * 8), *dst[MAX_RANKS];
  memcpy(dst, w->dst, sizeof dst);
  for (int64_t r = 0; r < MAX_RANKS; r++) {
    if (!world_has(w, r)) continue;
    for (int64_t i = 0; i < MAX_COUNT * MAX_GROUP; i++) put((PmKDtype)c->dtype, w->src[r], i, value_at(r, i));
    memset(w->dst[r], 0xff, MAX_COUNT * MAX_GROUP * 8 + 1);
    if (in_place) w->dst[r] = w->src[r];
  }
  world_run(w, run_all_steps);
  for (int64_t r = 0; r < MAX_RANKS; r++) {
    if (!world_has(w, r)) continue;
    if (w->statuses[r]) fail_msg("rank %d: %s", (int)r, pm_status_message(w->statuses[r]));
    check_result(w, c, r, want);
  }
  memcpy(w->dst, dst, sizeof dst);
  free(want);
}

typedef struct Memory {
  char *src[MAX_RANKS], *dst[MAX_RANKS];
} Memory;

static void memory_new(Memory *m) {
  for (int r = 0; r < MAX_RANKS; r++) {
    m->src[r] = malloc(MAX_COUNT * MAX_GROUP * 8);
    m->dst[r] = malloc(MAX_COUNT * MAX_GROUP * 8 + 1);
  }
}

static void memory_free(Memory *m) {
  for (int r = 0; r < MAX_RANKS; r++) {
    free(m->src[r]);
    free(m->dst[r]);
  }
}

// One collective on a fresh communicator, from source to result and, where that is allowed, in place.
static void check_one(World *w, PmTransport *t, const int64_t *mesh_sizes, PmCollKind coll, PmKDtype dtype, int reduce,
                      int64_t count, uint32_t mesh, const Memory *memory) {
  world_init(w, t, mesh_sizes[0], mesh_sizes[1], mesh_sizes[2]);
  memcpy(w->src, memory->src, sizeof w->src);
  memcpy(w->dst, memory->dst, sizeof w->dst);
  const PmColl *c = world_add_coll(w, coll, dtype, reduce, count, mesh);
  world_open(w);
  check_coll(w, c, false);
  if (coll == PM_COLL_ALL_REDUCE) check_coll(w, c, true);
  world_deinit(w);
}

static void every_kind_dtype_and_group(void **state) {
  static const int64_t counts[] = {1, 3, 64, 1023, MAX_COUNT}, sizes[] = {2, 2, 2};
  World w;
  Memory memory;
  memory_new(&memory);
  for (uint32_t i = 0; i < (uint32_t)N_PLAIN * (uint32_t)PM_K_DTYPE_COUNT * 2 * 8 * 5; i++) {
    PmCollKind kind = (PmCollKind)(i % N_PLAIN);
    PmKDtype dtype = (PmKDtype)(i / N_PLAIN % PM_K_DTYPE_COUNT);
    uint32_t rest = i / N_PLAIN / PM_K_DTYPE_COUNT;
    int reduce = (int)(rest % 2);
    uint32_t mesh = rest / 2 % 8;
    int64_t count = counts[rest / 16];
    bool reduces = kind == PM_COLL_ALL_REDUCE || kind == PM_COLL_REDUCE_SCATTER;
    // Large ones once a dtype; the rest is covered by small ones.
    if ((reduces && dtype == PM_K_BOOL) || (!reduces && reduce) || (count > 100 && mesh != 7 && mesh != 2)) continue;
    check_one(&w, *state, sizes, kind, dtype, reduce, count, mesh, &memory);
  }
  memory_free(&memory);
}

static void odd_meshes(void **state) {
  static const int64_t sizes[] = {3, 2, 0};
  World w;
  Memory memory;
  memory_new(&memory);
  for (uint32_t mesh = 0; mesh < 4; mesh++) {
    for (int kind = 0; kind < N_PLAIN; kind++) {
      check_one(&w, *state, sizes, (PmCollKind)kind, PM_K_F32, 0, 1001, mesh, &memory);
    }
  }
  memory_free(&memory);
}

// Sizes that take several rounds of staging and several messages, as gigabytes do by default.
static void many_pieces(void **state) {
  PmTransport *t = *state;
  Memory memory;
  memory_new(&memory);
  World w;
  int64_t whole = t ? t->max_bytes : 0;
  for (int kind = 0; kind < N_PLAIN; kind++) {
    for (int64_t piece = 1000; piece <= 4096; piece += 3096) {
      world_init(&w, *state, 4, 2, 0);
      w.options.staging_bytes = 1024;
      if (t) t->max_bytes = piece;
      memcpy(w.src, memory.src, sizeof w.src);
      memcpy(w.dst, memory.dst, sizeof w.dst);
      const PmColl *c = world_add_coll(&w, (PmCollKind)kind, PM_K_F32, 0, MAX_COUNT - 7, 3);
      world_open(&w);
      check_coll(&w, c, false);
      if (kind == PM_COLL_ALL_REDUCE) check_coll(&w, c, true);
      world_deinit(&w);
    }
  }
  if (t) t->max_bytes = whole;
  memory_free(&memory);
}

// ---- buckets -------------------------------------------------------------------------------------------------------
enum { GUARD = 8 };  // bytes behind every source and every result

typedef struct Parts {
  int32_t n;
  int64_t count[PM_MAX_PARTS];
} Parts;

static int64_t bytes_of(const PmColl *c, int32_t part) {
  return pm_coll_part(c, part).count * pm_kdtype_bytes((PmKDtype)c->dtype);
}

// Source and result of each part one behind the other, with guards; or both in one place. Returns the bytes of all.
static int64_t lay_out(World *w, PmColl *c, const Parts *parts, bool in_place) {
  int64_t at = 0;
  c->n_more = parts->n - 1;
  c->more = PM_NEW_N(&w->arena, PmCollPart, parts->n);
  for (int32_t i = 0; i < parts->n; i++) {
    int64_t bytes = parts->count[i] * pm_kdtype_bytes((PmKDtype)c->dtype), room = (bytes + GUARD + 7) / 8 * 8;
    PmCollPart part = {parts->count[i], {at, bytes}, {in_place ? at : at + room, bytes}};
    at += in_place ? room : 2 * room;
    if (i > 0) c->more[i - 1] = part;
    if (i > 0) continue;
    c->count = part.count;
    c->src = part.src;
    c->dst = part.dst;
  }
  return at;
}

static void check_parts(const World *w, const PmColl *c, int64_t rank) {
  int64_t members[MAX_RANKS] = {0};
  int32_t me = 0, n = members_of(w->p, c, rank, members, &me);
  PmColl one = *c;
  one.count = 1;
  for (int32_t k = 0; k <= c->n_more; k++) {
    PmCollPart part = pm_coll_part(c, k);
    int64_t bytes = bytes_of(c, k);
    char *want = test_calloc((size_t)bytes + 8, 1);
    for (int64_t i = 0; i < part.count; i++) expect(w->p, &one, members, n, me, 1000 * k + i, want, i);
    assert_memory_equal(w->base[rank] + part.dst.offset, want, (size_t)bytes);
    for (int64_t i = 0; i < GUARD; i++) {
      assert_int_equal((unsigned char)w->base[rank][part.dst.offset + bytes + i], 0xff);
      assert_int_equal((unsigned char)w->base[rank][part.src.offset + bytes + i], 0xff);
    }
    test_free(want);
  }
}

// Every part is what it would be by itself, to the bit, and nothing else is written.
static void check_bucket(World *w, const Parts *parts, PmKDtype dtype, int reduce, uint32_t mesh, bool in_place) {
  PmColl *c = world_add_coll(w, PM_COLL_ALL_REDUCE, dtype, reduce, 0, mesh);
  int64_t all = lay_out(w, c, parts, in_place);
  world_open(w);
  for (int64_t r = 0; r < MAX_RANKS; r++) {
    if (!world_has(w, r)) continue;
    w->base[r] = test_malloc((size_t)all);
    memset(w->base[r], 0xff, (size_t)all);
    w->src[r] = w->base[r] + c->src.offset;
    w->dst[r] = w->base[r] + c->dst.offset;
    for (int32_t k = 0; k < parts->n; k++) {
      char *src = w->base[r] + pm_coll_part(c, k).src.offset;
      for (int64_t i = 0; i < parts->count[k]; i++) put(dtype, src, i, value_at(r, 1000 * k + i));
    }
  }
  world_run(w, run_all_steps);
  for (int64_t r = 0; r < MAX_RANKS; r++) {
    if (!world_has(w, r)) continue;
    if (w->statuses[r]) fail_msg("rank %d: %s", (int)r, pm_status_message(w->statuses[r]));
    check_parts(w, c, r);
    test_free(w->base[r]);
  }
  world_deinit(w);
}

static void buckets(void **state) {
  static const Parts few[] = {
      {1, {5}}, {2, {1, 1}}, {3, {0, 7, 0}}, {2, {0, 0}}, {4, {1000, 1, 3000, 17}}, {3, {17, MAX_COUNT, MAX_COUNT}}};
  World w;
  for (uint32_t i = 0; i < 6 * (uint32_t)PM_K_DTYPE_COUNT * 2 * 8; i++) {
    const Parts *parts = &few[i % 6];
    PmKDtype dtype = (PmKDtype)(i / 6 % PM_K_DTYPE_COUNT);
    uint32_t mesh = i / 6 / PM_K_DTYPE_COUNT / 2;
    if (dtype == PM_K_BOOL || (i % 6 > 3 && mesh != 7 && mesh != 2)) continue;
    for (int in_place = 0; in_place < 2; in_place++) {
      world_init(&w, *state, 2, 2, 2);
      check_bucket(&w, parts, dtype, (int)(i / 6 / PM_K_DTYPE_COUNT % 2), mesh, in_place);
    }
  }
}

// As many parts as there may be, of no size that ranks divide; with room for all of them in the staging, for some at a
// time, and for less than one.
static void many_parts(void **state) {
  static const int64_t stagings[] = {1 << 18, 6000, 1};
  World w;
  Parts parts = {.n = PM_MAX_PARTS};
  for (int32_t i = 0; i < parts.n; i++) parts.count[i] = i % 17 == 3 ? 0 : i % 61 == 0 ? 701 : 1 + i % 7;
  for (int i = 0; i < 3; i++) {
    for (int in_place = 0; in_place < 2; in_place++) {
      world_init(&w, *state, 3, 2, 0);
      w.options.staging_bytes = stagings[i];
      check_bucket(&w, &parts, in_place ? PM_K_F16 : PM_K_F32, 0, 3, in_place);
    }
  }
}

// ---- rows ----------------------------------------------------------------------------------------------------------
enum { ROW_COUNT = 37, ROW_WIDTH = 3, ROW_MAJOR = 8, ROW_MINOR = 6 };

static int32_t row_index(int64_t rank, int64_t k) {
  return (int32_t)((rank * 7919 + k * 104729 + k * k) % (ROW_MAJOR * ROW_MINOR + 6)) - 3;
}

// The place of a row in the rank's part of the table, by the definition; -1 when it is not there.
static int64_t row_place(const World *w, const PmColl *c, int64_t rank, int32_t index) {
  if (index < 0 || index >= ROW_MAJOR * ROW_MINOR) return -1;
  int64_t at[2] = {index / ROW_MINOR, index % ROW_MINOR}, place = 0;
  for (int i = 0; i < 2; i++) {
    const PmRowDim *d = &c->rows->dims[i];
    int64_t here = at[i] - (d->local < d->size ? pm_program_coord(w->p, rank, i) * d->local : 0);
    if (here < 0 || here >= d->local) return -1;
    place = place * d->local + here;
  }
  return place;
}

static void put_row(char *to, int64_t place, int64_t rank, int64_t from) {
  for (int64_t e = 0; e < ROW_WIDTH; e++) {
    put(PM_K_F32, to, place * ROW_WIDTH + e, value_at(rank, from * ROW_WIDTH + e));
  }
}

// Returns the elements of the result.
static int64_t expect_rows(const World *w, const PmColl *c, int64_t rank, char *want) {
  int64_t members[MAX_RANKS] = {0};
  int32_t me = 0, n = members_of(w->p, c, rank, members, &me);
  bool gathers = c->kind == PM_COLL_GATHER_ROWS;
  memset(want, 0, MAX_COUNT);
  for (int32_t m = 0; m < n; m++) {
    for (int64_t k = 0; k < ROW_COUNT; k++) {
      int64_t holder = gathers ? members[m] : rank, asker = gathers ? rank : members[m];
      int64_t place = row_place(w, c, holder, row_index(asker, k));
      if (place < 0) continue;
      if (gathers) put_row(want, k, holder, place);
      if (!gathers) put_row(want, place, asker, k);
    }
  }
  return (gathers ? ROW_COUNT : c->rows->dims[0].local * c->rows->dims[1].local) * ROW_WIDTH;
}

static void check_rows(PmTransport *t, PmCollKind kind, uint32_t mesh, int64_t staging, const Memory *memory) {
  World w;
  int32_t idx[MAX_RANKS][ROW_COUNT];
  char *want = malloc(MAX_COUNT);
  world_init(&w, t, 4, 2, 0);
  w.options.staging_bytes = staging;
  memcpy(w.src, memory->src, sizeof w.src);
  memcpy(w.dst, memory->dst, sizeof w.dst);
  PmColl *c = world_add_coll(&w, kind, PM_K_F32, 0, ROW_COUNT, mesh);
  c->rows = PM_NEW(&w.arena, PmRows);
  *c->rows = (PmRows){.width = ROW_WIDTH, .n_dims = 2};
  c->rows->dims[0] = (PmRowDim){.size = ROW_MAJOR, .local = ROW_MAJOR};
  c->rows->dims[1] = (PmRowDim){.size = ROW_MINOR, .local = ROW_MINOR};
  for (int i = 0; i < 2; i++) {
    PmRowDim *d = &c->rows->dims[i];
    if (!(mesh >> i & 1)) continue;
    d->local = d->size / w.p->mesh_size[i];
    d->first.stride[i] = d->local;
  }
  for (int64_t r = 0; r < MAX_RANKS; r++) {
    for (int64_t k = 0; k < ROW_COUNT; k++) idx[r][k] = row_index(r, k);
    for (int64_t i = 0; i < 1000; i++) put(PM_K_F32, w.src[r], i, value_at(r, i));
    memset(w.dst[r], 0xff, MAX_COUNT);
    w.idx[r] = idx[r];
  }
  world_open(&w);
  world_run(&w, run_all_steps);
  for (int64_t r = 0; r < MAX_RANKS; r++) {
    if (!world_has(&w, r)) continue;
    if (w.statuses[r]) fail_msg("rank %d: %s", (int)r, pm_status_message(w.statuses[r]));
    int64_t n = expect_rows(&w, c, r, want);
    assert_memory_equal(w.dst[r], want, (size_t)n * sizeof(float));
    assert_int_equal((unsigned char)w.dst[r][(size_t)n * sizeof(float)], 0xff);
  }
  world_deinit(&w);
  free(want);
}

// Indices that several positions share, and some that name no row; all positions at once, some at a time, and less room
// than one takes.
static void rows_of_tables(void **state) {
  static const int64_t stagings[] = {1 << 18, 1000, 1};
  Memory memory;
  memory_new(&memory);
  for (uint32_t mesh = 0; mesh < 4; mesh++) {
    for (int i = 0; i < 3; i++) {
      check_rows(*state, PM_COLL_GATHER_ROWS, mesh, stagings[i], &memory);
      check_rows(*state, PM_COLL_SCATTER_ROWS, mesh, stagings[i], &memory);
    }
  }
  memory_free(&memory);
}

// Of nothing: a collective is a meeting.
static void no_elements(void **state) {
  static const int64_t sizes[] = {4, 2, 0};
  World w;
  Memory memory;
  memory_new(&memory);
  for (int kind = 0; kind < N_PLAIN; kind++) {
    check_one(&w, *state, sizes, (PmCollKind)kind, PM_K_F32, 0, 0, 3, &memory);
  }
  memory_free(&memory);
}

static void gather_ranks(World *w, int64_t rank) {
  int32_t me = (int32_t)rank;
  for (int32_t i = 0; i < w->p->entries[PM_ENTRY_STEP].n_steps && !w->statuses[rank]; i++) {
    w->statuses[rank] = world_run_step(w, rank, i, (char *)&me, w->dst[rank] + i * MAX_RANKS * 4);
  }
}

// Whatever mesh axes a collective names: every rank is in one group, its members agree on who they are, and there are
// as many as the product of these axes.
static void groups_partition_the_mesh(void **state) {
  int32_t members[MAX_RANKS][8 * MAX_RANKS];
  World w;
  world_init(&w, *state, 2, 2, 2);
  for (uint32_t mesh = 0; mesh < 8; mesh++) world_add_coll(&w, PM_COLL_ALL_GATHER, PM_K_I32, 0, 1, mesh);
  memset(members, 0xff, sizeof members);
  for (int r = 0; r < MAX_RANKS; r++) w.dst[r] = (char *)members[r];
  world_open(&w);
  world_run(&w, gather_ranks);
  for (uint32_t mesh = 0; mesh < 8; mesh++) {
    for (int32_t r = 0; r < MAX_RANKS; r++) {
      if (!world_has(&w, r)) continue;
      assert_null(w.statuses[r]);
      const int32_t *mine = &members[r][mesh * MAX_RANKS];
      int32_t n = 0, here = 0;
      for (; n < MAX_RANKS && mine[n] >= 0; n++) {
        here += mine[n] == r;
        if (w.t) continue;
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
    w->statuses[rank] = world_run_step(w, rank, 0, (char *)&a, (char *)&b);
    if (rank % 3 == 0 && i % 50 == 0) usleep(200);
    if (!w->statuses[rank]) w->statuses[rank] = world_run_step(w, rank, 1, (char *)&c, (char *)&c);
    float first = (float)(rank % 2), want = 4.0f * (float)i + first * 4 + 0 + 2 + 4 + 6;
    if (b != want || c != (float)(rank | 1)) abort();
  }
}

static void concurrent_groups(void **state) {
  World w;
  world_init(&w, *state, 4, 2, 0);
  world_add_coll(&w, PM_COLL_ALL_REDUCE, PM_K_F32, 0, 1, 1);
  world_add_coll(&w, PM_COLL_ALL_REDUCE, PM_K_F32, 1, 1, 2);
  world_open(&w);
  world_run(&w, many_rounds);
  for (int r = 0; r < 8; r++) assert_null(w.statuses[r]);
  world_deinit(&w);
}

// ---- faults --------------------------------------------------------------------------------------------------------
static void on_report(void *context, PmCode failed, const char *text) {
  (void)text;
  World *w = context;
  atomic_fetch_add(failed ? &w->n_failures : &w->n_warnings, 1);
}

static void faulty_world(World *w, PmTransport *t, double deadline_s) {
  world_init(w, t, 2, 2, 0);
  world_add_coll(w, PM_COLL_ALL_REDUCE, PM_K_F32, 0, 1, 1);
  world_add_coll(w, PM_COLL_ALL_REDUCE, PM_K_F32, 0, 1, 2);
  w->options = (PmCommOptions){.warn_s = 0.05, .deadline_s = deadline_s, .report = on_report, .context = w};
  for (int r = 0; r < 4; r++) w->src[r] = w->dst[r] = test_calloc(1, 8);
  world_open(w);
}

static void drop_faulty_world(World *w) {
  char *src[4];
  memcpy(src, w->src, sizeof src);
  world_deinit(w);
  for (int r = 0; r < 4; r++) test_free(src[r]);
}

static void a_rank_that_never_comes(void **state) {
  World w;
  for (int64_t stalled = 0; stalled < 4; stalled++) {
    faulty_world(&w, *state, 0.3);
    w.context = &stalled;
    world_run(&w, run_all_steps);
    for (int r = 0; r < 4; r++) {
      if (r == stalled || !world_has(&w, r)) continue;
      assert_int_equal(pm_status_code(w.statuses[r]), PM_ERR_DEADLINE);
      // Who waits in the second group waits for the neighbour that waits for the stalled rank.
      expect_text(w.statuses[r], "s for rank ");
      expect_text(w.statuses[r], "at step 41 in a step (fixture.pmodel:3:5)");
      assert_int_equal(w.n_failures, 1);
      if (w.t) continue;
      expect_lost(pm_status_message(w.statuses[r]), stalled);
    }
    drop_faulty_world(&w);
  }
}

static void come_once_warned(World *w, int64_t rank) {
  while (rank == 3 && atomic_load(&w->n_warnings) == 0) usleep(1000);
  run_all_steps(w, rank);
}

// Those who wait say so, and go on when it comes. In one process, where the late rank can see the warning.
static void a_rank_that_comes_late(void **state) {
  World w;
  if (*state) return;
  faulty_world(&w, *state, 60);
  world_run(&w, come_once_warned);
  for (int r = 0; r < 4; r++) assert_null(w.statuses[r]);
  assert_true(w.n_warnings >= 1);
  assert_int_equal(w.n_failures, 0);
  drop_faulty_world(&w);
}

static void fail_instead(World *w, int64_t rank) {
  if (rank == 2) {
    w->comms[rank]->vtbl->abandon(w->comms[rank], "the disk burns");
    w->statuses[rank] = world_run_step(w, rank, 0, w->src[rank], w->dst[rank]);
  } else {
    run_all_steps(w, rank);
  }
}

static void a_rank_that_fails(void **state) {
  World w;
  faulty_world(&w, *state, 60);
  world_run(&w, fail_instead);
  for (int r = 0; r < 4; r++) {
    if (!world_has(&w, r)) continue;
    // Ranks 1 and 3 meet in the second step only; they may be done before anybody tells them.
    assert_int_equal(pm_status_code(w.statuses[r]), PM_ERR_PEER);
    expect_text(w.statuses[r], "rank 2 stopped: the disk burns");
  }
  drop_faulty_world(&w);
}

static void disagree(World *w, int64_t rank) {
  PmColl other = *w->p->entries[PM_ENTRY_STEP].steps[0].u.coll;
  PmCollPart more = {1, {0, 4}, {0, 4}};
  const bool *parts = w->context;
  if (*parts) {
    other.n_more = 1;
    other.more = &more;
  } else {
    other.count = 2;
  }
  char *at = w->src[rank];
  PmCommCall call = {.coll = &other, .src = at, .dst = w->dst[rank], .base = at, .op = "another", .step = 41};
  if (rank == 2) {
    w->statuses[rank] = w->comms[rank]->vtbl->run(w->comms[rank], &call);
  } else {
    w->statuses[rank] = world_run_step(w, rank, 0, w->src[rank], w->dst[rank]);
  }
}

static void ranks_that_disagree(void **state) {
  World w;
  for (int parts = 0; parts < 2; parts++) {
    bool of_parts = parts;
    faulty_world(&w, *state, 60);
    w.context = &of_parts;
    world_run(&w, disagree);
    for (int r = 0; r < 4; r += 2) {
      if (!world_has(&w, r)) continue;
      assert_int_equal(pm_status_code(w.statuses[r]), PM_ERR_PEER);
      expect_text(w.statuses[r], "in another");
      expect_text(w.statuses[r], "in a step");
    }
    drop_faulty_world(&w);
  }
}

// What ranks compare tells any two collectives apart that do not go together.
static void forms(void **state) {
  (void)state;
  PmRows rows = {.width = 2, .n_dims = 2, .dims = {{.size = 4, .local = 2}, {.size = 3, .local = 3}}}, wide = rows;
  PmRows small = rows;
  PmCollPart more[] = {{3, {0, 12}, {0, 12}}, {4, {64, 16}, {64, 16}}}, moved = {3, {128, 12}, {256, 12}};
  PmColl c[12];
  for (int i = 0; i < 12; i++) c[i] = (PmColl){.kind = PM_COLL_ALL_REDUCE, .dtype = PM_K_F32, .n_mesh = 1, .count = 7};
  wide.width = 3;
  small.dims[1].local = 1;
  c[1].kind = PM_COLL_SHIFT;
  c[2].dtype = PM_K_I32;
  c[3].reduce = 1;
  c[4].mesh[0] = 1;
  c[5].n_mesh = 0;
  c[6].count = 8;
  c[7].rows = &rows;
  c[8].rows = &wide;
  c[9].rows = &small;
  c[10].more = c[11].more = more;
  c[10].n_more = 1;
  c[11].n_more = 2;
  for (int i = 0; i < 12; i++) {
    for (int k = 0; k < i; k++) assert_int_not_equal(pm_coll_form(&c[i]), pm_coll_form(&c[k]));
  }
  PmColl elsewhere = c[10];
  elsewhere.more = &moved;
  elsewhere.src.offset = 64;
  assert_int_equal(pm_coll_form(&elsewhere), pm_coll_form(&c[10]));
}

int main(int argc, char **argv) {
  PmTransport *t = world_transport(argc, argv);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_prestate(every_kind_dtype_and_group, t),
      cmocka_unit_test_prestate(odd_meshes, t),
      cmocka_unit_test_prestate(groups_partition_the_mesh, t),
      cmocka_unit_test_prestate(many_pieces, t),
      cmocka_unit_test_prestate(no_elements, t),
      cmocka_unit_test_prestate(buckets, t),
      cmocka_unit_test_prestate(many_parts, t),
      cmocka_unit_test(forms),
      cmocka_unit_test_prestate(rows_of_tables, t),
      cmocka_unit_test_prestate(concurrent_groups, t),
      cmocka_unit_test_prestate(a_rank_that_never_comes, t),
      cmocka_unit_test_prestate(a_rank_that_comes_late, t),
      cmocka_unit_test_prestate(a_rank_that_fails, t),
      cmocka_unit_test_prestate(ranks_that_disagree, t),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  world_transport_close(t);
  return failed;
}
