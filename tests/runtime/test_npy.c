// Arrays as data: the header's reader, conversions, and rows on one rank and several.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fixture.h"
#include "harness.h"
#include "runtime/data.h"
#include "runtime/npy.h"

// A file as numpy 1.x and 2.x write it: version 1.0, the header filled with blanks to a multiple of 64.
static size_t array(char *out, size_t cap, const char *dtype, const char *order, const char *shape, const void *data,
                    size_t bytes) {
  memset(out, ' ', cap);
  memcpy(out, "\x93NUMPY\x01\x00\x76\x00", 10);
  int n = snprintf(out + 10, cap - 10, "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }", dtype, order, shape);
  out[10 + n] = ' ';
  out[127] = '\n';
  memcpy(out + 128, data, bytes);
  return 128 + bytes;
}

static PmStatus *header(const char *text, size_t len, PmNpy *out) {
  return pm_npy_header("a.npy", text, (int64_t)len, (int64_t)len, out);
}

static void headers(void **state) {
  (void)state;
  char text[512];
  const float data[6] = {0};
  PmNpy h;
  assert_null(header(text, array(text, sizeof text, "<f4", "False", "(2, 3)", data, 24), &h));
  assert_int_equal(h.kind, 'f');
  assert_int_equal(h.bytes, 4);
  assert_int_equal(h.rank, 2);
  assert_int_equal(h.dims[1], 3);
  assert_int_equal(h.start, 128);
  assert_null(header(text, array(text, sizeof text, "|u1", "False", "(24,)", data, 24), &h));
  assert_int_equal(h.rank, 1);
  assert_null(header(text, array(text, sizeof text, "<i8", "False", "()", data, 8), &h));
  assert_int_equal(h.elements, 1);
  // Version 2 has four bytes of length; keys may come in any order.
  static const char v2[] =
      "\x93NUMPY\x02\x00\x40\x00\x00\x00{\"shape\": (3,), \"fortran_order\": False, \"descr\": \"<f2\"}";
  memset(text, ' ', sizeof text);
  memcpy(text, v2, sizeof v2 - 1);
  assert_null(header(text, 12 + 64 + 6, &h));
  assert_int_equal(h.bytes, 2);
  assert_int_equal(h.dims[0], 3);
}

static void wrong_headers(void **state) {
  (void)state;
  static const struct {
    const char *dtype, *order, *shape, *says;
  } rows[] = {
      {">f4", "False", "(2, 3)", "big-endian"},
      {"<f4", "True", "(2, 3)", "Fortran order"},
      {"<c8", "False", "(2, 3)", "neither truth values"},
      {"<f4': '", "False", "(2, 3)", "no dictionary"},
      {"<f4", "Maybe", "(2, 3)", "neither False nor True"},
      {"<f4", "False", "(2 3)", "no list of sizes"},
      {"<f4", "False", "(2, -3)", "no list of sizes"},
      {"<f4", "False", "(2, 4)", "promises 32 bytes of elements, the file has 24"},
      {"<f4", "False", "(1, 4)", "promises 16 bytes of elements, the file has 24"},
      {"<f4", "False", "(281474976710656, 281474976710656)", "too large"},
      {"<f4", "False", "(99999999999999999999,)", "too large"},
      {"<f4", "False", "(1,1,1,1,1,1,1,1,1,1,1,1,6)", "more than 12 axes"},
      {"<f4", "False", "(6,), 'shape': (6,)", "no dictionary"},
      {"<f4", "False", "(6,)} {", "something stands behind"},
      {"<f4", "False, 'x': 1", "(6,)", "has not the keys"},
  };
  const float data[6] = {0};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char text[512];
    PmNpy h;
    size_t n = array(text, sizeof text, rows[i].dtype, rows[i].order, rows[i].shape, data, 24);
    PmStatus *st = header(text, n, &h);
    assert_int_equal(pm_status_code(st), PM_ERR_INPUT);
    if (!strstr(pm_status_message(st), rows[i].says)) fail_msg("row %zu: %s", i, pm_status_message(st));
    pm_status_drop(st);
  }
  char text[512];
  PmNpy h;
  size_t n = array(text, sizeof text, "<f4", "False", "(6,)", data, 24);
  for (size_t cut = 0; cut < n; cut++) {
    PmStatus *st = header(text, cut, &h);
    assert_int_equal(pm_status_code(st), PM_ERR_INPUT);
    pm_status_drop(st);
  }
  text[6] = 4;
  PmStatus *st = header(text, n, &h);
  assert_non_null(strstr(pm_status_message(st), "version 4.0"));
  pm_status_drop(st);
}

static void conversions(void **state) {
  (void)state;
  const PmNpy i8 = {.kind = 'i', .bytes = 8}, u8 = {.kind = 'u', .bytes = 8}, i1 = {.kind = 'i', .bytes = 1};
  const PmNpy f8 = {.kind = 'f', .bytes = 8}, f4 = {.kind = 'f', .bytes = 4}, f2 = {.kind = 'f', .bytes = 2};
  const PmNpy b1 = {.kind = 'b', .bytes = 1};
  const int64_t wide[4] = {-1, 9, 10, -2};
  int32_t index[4];
  assert_int_equal(pm_npy_convert(&i8, wide, 4, PM_K_I32, 10, index), 2);
  assert_int_equal(index[0], -1);
  assert_int_equal(pm_npy_convert(&i8, wide + 3, 1, PM_K_I32, 10, index), 0);
  assert_int_equal(pm_npy_convert(&i8, wide, 4, PM_K_I32, 0, index), 4);
  assert_int_equal(pm_npy_convert(&u8, wide, 1, PM_K_I32, 0, index), 0);  // 2^64 - 1
  const int64_t past = INT64_C(1) << 32 | 3;
  assert_int_equal(pm_npy_convert(&i8, &past, 1, PM_K_I32, 10, index), 0);
  const int8_t small[2] = {-7, 100};
  float f32[4];
  assert_int_equal(pm_npy_convert(&i1, small, 2, PM_K_F32, 0, f32), 2);
  assert_true(f32[0] == -7 && f32[1] == 100);
  const double reals[4] = {0.1, INFINITY, 1e300, 0};
  assert_int_equal(pm_npy_convert(&f8, reals, 4, PM_K_F32, 0, f32), 2);
  assert_true(f32[0] == 0.1f && isinf(f32[1]));
  double f64[2];
  assert_int_equal(pm_npy_convert(&f8, reals + 2, 1, PM_K_F64, 0, f64), 1);
  assert_true(f64[0] == 1e300);
  const float singles[2] = {1.5f, 70000.0f};
  uint16_t halves[2];
  assert_int_equal(pm_npy_convert(&f4, singles, 2, PM_K_F16, 0, halves), 1);
  assert_int_equal(halves[0], 0x3e00);
  assert_int_equal(pm_npy_convert(&f2, halves, 1, PM_K_F32, 0, f32), 1);
  assert_true(f32[0] == 1.5f);
  assert_int_equal(pm_npy_convert(&b1, "\0\1", 2, PM_K_F32, 0, f32), 2);
  assert_true(f32[0] == 0 && f32[1] == 1);
  assert_false(pm_npy_feeds(&f4, PM_K_I32));
  assert_false(pm_npy_feeds(&b1, PM_K_I32));
  assert_false(pm_npy_feeds(&i8, PM_K_BOOL));
}

// ---- rows ----------------------------------------------------------------------------------------------------------
typedef struct Dir {
  char dir[64], glob[96], path[3][96];
  int n;
} Dir;

static void add(Dir *d, const char *dtype, const char *shape, const void *data, size_t bytes) {
  char text[1024];
  size_t n = array(text, sizeof text, dtype, "False", shape, data, bytes);
  char *path = d->path[d->n];
  strcpy(path, d->dir);
  snprintf(path + strlen(path), 16, "/part%d.npy", d->n++);
  FILE *out = fopen(path, "wb");
  assert_non_null(out);
  assert_int_equal(fwrite(text, 1, n, out), n);
  fclose(out);
}

static void init(Dir *d) {
  *d = (Dir){.dir = "pm_npy_XXXXXX"};
  assert_non_null(mkdtemp(d->dir));
  snprintf(d->glob, sizeof d->glob, "%.40s/part[01].npy", d->dir);
}

static void deinit(Dir *d) {
  for (int i = 0; i < d->n; i++) unlink(d->path[i]);
  rmdir(d->dir);
}

// x of the model, made float, reads parts 0 and 1; y reads part 2.
static PmProgram *fed(PmArena *arena, const Dir *d, int64_t data, int64_t tensor, bool shuffle) {
  PmProgram *p = fixture_model(arena, data, tensor);
  p->vars[MODEL_X].dtype = PM_K_F32;
  p->vars[MODEL_X].index_size = 0;
  p->vars[MODEL_Y].index_size = 50;
  const char **names = PM_NEW_N(arena, const char *, 2);
  names[0] = d->glob;
  names[1] = d->path[2];
  PmProgFeed *feeds = PM_NEW_N(arena, PmProgFeed, 2);
  feeds[0] = (PmProgFeed){MODEL_X, 0, 1};
  feeds[1] = (PmProgFeed){MODEL_Y, 1, 1};
  p->data = (PmProgData){.format = "npy",
                         .n_files = 2,
                         .files = names,
                         .x = -1,
                         .y = -1,
                         .shuffle = shuffle,
                         .n_feeds = 2,
                         .feeds = feeds};
  return p;
}

// Row r of x is 6 numbers 10 r + i, of y six times r.
static void ramps(Dir *d) {
  float x[5 * 6];
  uint8_t y[5 * 6];
  for (int i = 0; i < 30; i++) {
    x[i] = (float)(i / 6 * 10 + i % 6);
    y[i] = (uint8_t)(i / 6);
  }
  add(d, "<f4", "(2, 6)", x, 12 * sizeof *x);
  add(d, "<f4", "(3, 6)", x + 12, 18 * sizeof *x);
  add(d, "|u1", "(5, 6)", y, 30);
}

static void rows_in_order(void **state) {
  (void)state;
  Dir f;
  init(&f);
  ramps(&f);
  PmArena arena;
  pm_arena_init(&arena, 0);
  for (int shuffle = 0; shuffle < 2; shuffle++) {
    PmProgram *p = fed(&arena, &f, 1, 1, shuffle != 0);
    PmData *d = NULL;
    assert_null(pm_data_open(p, 7, &d));
    assert_int_equal(pm_data_windows(d), 5);
    assert_true(pm_data_feeds(d, MODEL_X) && pm_data_feeds(d, MODEL_Y) && !pm_data_feeds(d, MODEL_W));
    int seen[5] = {0}, moved = 0;
    for (int64_t step = 0; step < 5; step++) {
      float x[24];
      int32_t y[24];
      assert_null(pm_data_fill(d, MODEL_X, 0, step, x));
      assert_null(pm_data_fill(d, MODEL_Y, 0, step, y));
      for (int b = 0; b < 4; b++) {
        int want = (int)(step * 4 + b) % 5;
        moved += y[b * 6] != want;
        assert_in_range(y[b * 6], 0, 4);
        seen[y[b * 6]]++;
        for (int i = 0; i < 6; i++) {
          if (!shuffle) assert_int_equal(y[b * 6 + i], want);
          assert_true(x[b * 6 + i] == (float)(y[b * 6 + i] * 10 + i));
        }
      }
    }
    for (int i = 0; i < 5; i++) assert_int_equal(seen[i], 4);  // four epochs
    assert_true(shuffle ? moved > 0 : moved == 0);
    pm_data_close(d);
  }
  deinit(&f);
  pm_arena_deinit(&arena);
}

static void ranks_agree(void **state) {
  (void)state;
  Dir f;
  init(&f);
  ramps(&f);
  PmArena arena;
  pm_arena_init(&arena, 0);
  PmData *whole = NULL, *d = NULL;
  assert_null(pm_data_open(fed(&arena, &f, 1, 1, true), 3, &whole));
  PmProgram *p = fed(&arena, &f, 2, 2, true);
  p->vars[MODEL_X].dims[1].n_mesh = 1;  // its columns over `tensor`
  p->vars[MODEL_X].dims[1].mesh[0] = 1;
  assert_null(pm_data_open(p, 3, &d));
  for (int64_t step = 0; step < 10; step++) {
    float want[24], part[24];
    assert_null(pm_data_fill(whole, MODEL_X, 0, step, want));
    for (int64_t r = 0; r < 4; r++) {
      assert_null(pm_data_fill(d, MODEL_X, r, step, part));
      for (int i = 0; i < 6; i++) {
        int row = (int)(r / 2) * 2 + i / 3, col = (int)(r % 2) * 3 + i % 3;
        assert_true(part[i] == want[row * 6 + col]);
      }
    }
  }
  pm_data_close(d);
  pm_data_close(whole);
  deinit(&f);
  pm_arena_deinit(&arena);
}

static void says(PmStatus *st, const char *what) {
  assert_int_equal(pm_status_code(st), PM_ERR_INPUT);
  if (!strstr(pm_status_message(st), what)) fail_msg("%s", pm_status_message(st));
  pm_status_drop(st);
}

static void refusals(void **state) {
  (void)state;
  PmArena arena;
  pm_arena_init(&arena, 0);
  Dir f;
  PmData *d = NULL;
  const uint8_t y[30] = {[20] = 50};
  const float x[30] = {0};
  init(&f);
  add(&f, "<f4", "(2, 6)", x, 48);
  add(&f, "<f4", "(2, 5)", x, 40);
  add(&f, "|u1", "(5, 6)", y, 30);
  says(pm_data_open(fed(&arena, &f, 1, 1, false), 1, &d),
       "part1.npy: `x` takes rows of shape [N, in=6], the array has [2, 5]");
  deinit(&f);
  init(&f);
  add(&f, "<f4", "(2, 6)", x, 48);
  add(&f, "<f4", "(2, 6)", x, 48);
  add(&f, "|u1", "(5, 6)", y, 30);
  says(pm_data_open(fed(&arena, &f, 1, 1, false), 1, &d), "the arrays for `x` have 4 rows, those for `y` 5");
  deinit(&f);
  init(&f);
  add(&f, "<f4", "(2, 6)", x, 48);
  add(&f, "<f4", "(3, 6)", x, 72);
  add(&f, "|u1", "(5, 6)", y, 30);
  assert_null(pm_data_open(fed(&arena, &f, 1, 1, false), 1, &d));
  int32_t to[24];
  says(pm_data_fill(d, MODEL_Y, 0, 0, to), "part2.npy: row 3 holds 50, but `y` indexes an axis of 50");
  pm_data_close(d);
  PmProgram *p = fed(&arena, &f, 1, 1, false);
  p->vars[MODEL_X].dtype = PM_K_I32;
  says(pm_data_open(p, 1, &d), "`x` takes indices, which are whole numbers");
  deinit(&f);
  pm_arena_deinit(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(headers),       cmocka_unit_test(wrong_headers), cmocka_unit_test(conversions),
      cmocka_unit_test(rows_in_order), cmocka_unit_test(ranks_agree),   cmocka_unit_test(refusals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
