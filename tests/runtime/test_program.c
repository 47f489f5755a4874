#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "fixture.h"
#include "harness.h"
#include "runtime/slices.h"

static PmProgram *read_back(PmArena *arena, const PmBuf *b) {
  PmProgram *p = NULL;
  PmStatus *st = pm_program_read(arena, "test", b->data, b->len, &p);
  if (st) pm_status_print(st, stderr);
  assert_null(st);
  return p;
}

static void both_forms_round_trip(void **state) {
  (void)state;
  // 0: the program that routes, -1: the one with a bucket
  const int64_t meshes[][2] = {{1, 1}, {2, 1}, {1, 4}, {2, 2}, {4, 0}, {4, -1}};
  for (size_t i = 0; i < sizeof meshes / sizeof *meshes; i++) {
    PmArena arena;
    pm_arena_init(&arena, 0);
    const int64_t data = meshes[i][0], tensor = meshes[i][1];
    const bool bare = tensor <= 0;
    PmProgram *p = tensor == 0  ? fixture_routing(&arena, data)
                   : tensor < 0 ? fixture_bucket(&arena, data)
                                : fixture_model(&arena, data, tensor);
    p->plan = i ? "a \"quoted\" \\ plan \xc3\xa9" : NULL;
    const char *files[] = {"a*.txt"};
    if (!bare) p->data = (PmProgData){.format = "bytes", .n_files = 1, .files = files, .x = 1, .y = 2};
    if (!bare && i % 2 == 1) {
      PmProgFeed *feeds = PM_NEW_N(&arena, PmProgFeed, 2);
      feeds[0] = (PmProgFeed){1, 0, 1};
      feeds[1] = (PmProgFeed){2, 0, 1};
      p->data.format = "npy";
      p->data.x = p->data.y = -1;
      p->data.n_feeds = 2;
      p->data.feeds = feeds;
    }
    p->seed = UINT64_MAX;
    if (!bare) p->kernels[4].instrs[1].number = -0.0;
    PmBuf binary = {0}, text = {0}, binary2 = {0}, text2 = {0}, binary3 = {0};
    pm_program_write(p, &binary);
    pm_program_print(p, &text);
    PmProgram *from_binary = read_back(&arena, &binary), *from_text = read_back(&arena, &text);
    pm_program_write(from_text, &binary2);
    pm_program_print(from_binary, &text2);
    pm_program_write(from_binary, &binary3);
    assert_int_equal(binary.len, binary2.len);
    assert_memory_equal(binary.data, binary2.data, binary.len);
    assert_memory_equal(binary.data, binary3.data, binary.len);
    assert_string_equal(text.data, text2.data);
    PmBuf *all[] = {&binary, &text, &binary2, &text2, &binary3};
    for (size_t b = 0; b < 5; b++) pm_buf_deinit(all[b]);
    pm_arena_deinit(&arena);
  }
}

static void text_is_readable(void **state) {
  (void)state;
  PmArena arena;
  pm_arena_init(&arena, 0);
  PmBuf text = {0};
  pm_program_print(fixture_model(&arena, 2, 2), &text);
  static const char *const lines[] = {
      "pmodel.prun 6\n\nprogram model=\"fixture\" arena=896 persistent=576 live=896 steps=10 seed=7\n",
      "\n  mesh1 name=\"tensor\" size=2\n",
      "\n    %5 fma f32 a=1 b=4 c=3\n",
      "\n    %0 loop f32 arg=1 extent=4\n",
      "\n  do3 coll op=\"all_reduce\" loc=0 flops=10 bytes=40 all_reduce f32 mesh=[1] count=2 src=[576,8]",
      "\n  buffer7 name=\"part\" at=[576,8] owner=act entry=1 first=2 last=4\n",
  };
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
    if (!strstr(text.data, lines[i])) printf("missing:%s\nin:\n%s\n", lines[i], text.data);
    assert_non_null(strstr(text.data, lines[i]));
  }
  pm_buf_deinit(&text);
  pm_arena_deinit(&arena);
}

// Reads what is no program in a memory of its own size, so that a sanitizer sees a read behind it.
static PmCode read_code(const char *data, size_t len) {
  char *copy = malloc(len ? len : 1);
  memcpy(copy, data, len);
  PmArena arena;
  pm_arena_init(&arena, 0);
  PmProgram *p = NULL;
  PmStatus *st = pm_program_read(&arena, "hostile", copy, len, &p);
  PmCode code = pm_status_code(st);
  assert_true(code == PM_OK ? p != NULL : p == NULL);
  pm_status_drop(st);
  pm_arena_deinit(&arena);
  free(copy);
  return code;
}

static bool refused(PmCode code) { return code == PM_ERR_CORRUPTION || code == PM_ERR_INPUT || code == PM_ERR_LIMIT; }

static void truncation_is_refused(void **state) {
  (void)state;
  PmArena arena;
  pm_arena_init(&arena, 0);
  PmProgram *p = fixture_model(&arena, 2, 2);
  PmBuf binary = {0}, text = {0};
  pm_program_write(p, &binary);
  pm_program_print(p, &text);
  for (size_t n = 0; n < binary.len; n++) assert_true(refused(read_code(binary.data, n)));
  // The text form may lose the white space at its end.
  for (size_t n = 0; n + 1 < text.len; n++) {
    PmCode code = read_code(text.data, n);
    assert_true(refused(code) || code == PM_OK);
  }
  pm_buf_deinit(&binary);
  pm_buf_deinit(&text);
  pm_arena_deinit(&arena);
}

// As an attacker does: damage, then a checksum that fits.
static void flip_all(const PmProgram *p) {
  PmBuf binary = {0}, text = {0};
  pm_program_write(p, &binary);
  pm_program_print(p, &text);
  for (size_t at = 0; at < binary.len; at++) {
    for (int bit = 0; bit < 8; bit++) {
      char kept[8], old = binary.data[at];
      memcpy(kept, binary.data + 24, 8);
      binary.data[at] = (char)(old ^ (1 << bit));
      assert_true(refused(read_code(binary.data, binary.len)));
      if (at >= 32) {
        uint64_t hash = pm_hash64(binary.data + 32, binary.len - 32, PM_PROGRAM_VERSION);
        memcpy(binary.data + 24, &hash, 8);
        PmCode code = read_code(binary.data, binary.len);
        assert_true(refused(code) || code == PM_OK);
      }
      binary.data[at] = old;
      memcpy(binary.data + 24, kept, 8);
    }
  }
  for (size_t at = 0; at < text.len; at++) {
    static const char hostile[] = {'\0', '9', '-', '"', '\\', '\n', '[', '\x80', ' '};
    for (size_t i = 0; i < sizeof hostile; i++) {
      char old = text.data[at];
      text.data[at] = hostile[i];
      PmCode code = read_code(text.data, text.len);
      assert_true(refused(code) || code == PM_OK);
      text.data[at] = old;
    }
  }
  pm_buf_deinit(&binary);
  pm_buf_deinit(&text);
}

static void flips_never_crash(void **state) {
  (void)state;
  PmArena arena;
  pm_arena_init(&arena, 0);
  flip_all(fixture_model(&arena, 2, 2));
  flip_all(fixture_routing(&arena, 2));
  flip_all(fixture_bucket(&arena, 2));
  pm_arena_deinit(&arena);
}

static void other_files_are_refused(void **state) {
  (void)state;
  assert_int_equal(read_code("", 0), PM_ERR_INPUT);
  assert_int_equal(read_code("hello", 5), PM_ERR_INPUT);
  assert_int_equal(read_code("pmodel.prun 6\n", 14), PM_ERR_INPUT);
  char zeros[4096] = "\x89PMPRUN\n";
  assert_true(refused(read_code(zeros, sizeof zeros)));
  memset(zeros, 'a', sizeof zeros);
  assert_int_equal(read_code(zeros, sizeof zeros), PM_ERR_INPUT);
}

static void coordinates(void **state) {
  (void)state;
  PmArena arena;
  pm_arena_init(&arena, 0);
  PmProgram *p = fixture_empty(&arena, 2, 3, 4);
  assert_int_equal(pm_program_ranks(p), 24);
  assert_int_equal(pm_program_coord(p, 23, 0), 1);
  assert_int_equal(pm_program_coord(p, 17, 1), 1);
  assert_int_equal(pm_program_coord(p, 17, 2), 1);
  PmCoordTerm t = {.constant = 5, .stride = {100, 10, 1}};
  assert_int_equal(pm_coord_term(p, &t, 17), 5 + 100 + 10 + 1);
  PmVarDim d = {.size = 48, .n_mesh = 2, .mesh = {2, 0}};
  assert_int_equal(pm_var_dim_local(p, &d), 6);
  int64_t run;
  assert_int_equal(pm_var_dim_global(p, &d, 17, 0, &run), (1 * 2 + 1) * 6);
  assert_int_equal(run, 6);
  pm_arena_deinit(&arena);
}

typedef struct Places {
  int32_t *holders;  // by element of the whole
  int64_t next;      // element of the part
  int64_t first[8], n[8];
  int32_t n_runs;
} Places;

static PmStatus *note_run(void *context, int64_t local, int64_t global, int64_t n) {
  Places *x = context;
  assert_int_equal(local, x->next);
  x->next += n;
  if (x->n_runs < 8) {
    x->first[x->n_runs] = global;
    x->n[x->n_runs++] = n;
  }
  for (int64_t i = 0; i < n; i++) x->holders[global + i]++;
  return NULL;
}

// Tokens that were laid out in one order can't be taken for the other: rank r of c has chunks r and 2 c - 1 - r.
static void zigzag_slices(void **state) {
  (void)state;
  PmArena arena;
  pm_arena_init(&arena, 0);
  PmProgram *p = fixture_empty(&arena, 2, 3, 4);
  const PmVarDim row[] = {{.axis = "seq", .size = 48, .n_mesh = 1, .mesh = {2}, .zigzag = true}};
  int32_t holders[2 * 48 * 5] = {0};
  for (int64_t rank = 0; rank < 4; rank++) {
    Places x = {.holders = holders};
    assert_null(pm_slice_walk(p, row, 1, rank, note_run, &x));
    assert_int_equal(x.n_runs, 2);
    assert_int_equal(x.first[0], rank * 6);
    assert_int_equal(x.first[1], (7 - rank) * 6);
    assert_int_equal(x.n[0], 6);
    assert_int_equal(x.n[1], 6);
  }
  for (int64_t i = 0; i < 48; i++) assert_int_equal(holders[i], 1);
  // Other mesh axes take parts of what a rank has, which a boundary of chunks may cross; axes around it stay whole.
  const PmVarDim cube[] = {{.axis = "batch", .size = 2},
                           {.axis = "seq", .size = 48, .n_mesh = 2, .mesh = {2, 1}, .zigzag = true},
                           {.axis = "embed", .size = 5}};
  memset(holders, 0, sizeof holders);
  for (int64_t rank = 0; rank < 12; rank++) {
    Places x = {.holders = holders};
    assert_null(pm_slice_walk(p, cube, 3, rank, note_run, &x));
    assert_int_equal(x.next, 2 * 48 * 5 / 12);
    // Rank 5 has chunks 1 and 6 over the first axis, and over the second the third in the middle.
    if (rank != 5) continue;
    assert_int_equal(x.n_runs, 4);
    assert_int_equal(x.first[0], (1 * 6 + 4) * 5);
    assert_int_equal(x.n[0], 2 * 5);
    assert_int_equal(x.first[1], 6 * 6 * 5);
    assert_int_equal(x.first[2], (48 + 1 * 6 + 4) * 5);
  }
  for (int64_t i = 0; i < 2 * 48 * 5; i++) assert_int_equal(holders[i], 1);
  pm_arena_deinit(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(both_forms_round_trip),   cmocka_unit_test(text_is_readable),
      cmocka_unit_test(truncation_is_refused),   cmocka_unit_test(flips_never_crash),
      cmocka_unit_test(other_files_are_refused), cmocka_unit_test(coordinates),
      cmocka_unit_test(zigzag_slices),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
