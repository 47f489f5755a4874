#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fixture.h"
#include "harness.h"
#include "runtime/data.h"

typedef struct Path {
  char text[96];
} Path;

typedef struct Files {
  Path dir, glob, path[3];
  int n;
} Files;

// The directory's part `i`; -1: all parts.
static Path join(const Path *dir, int i) {
  Path p;
  snprintf(p.text, sizeof p.text, i < 0 ? "%.64s/part*" : "%.64s/part%d", dir->text, i);
  return p;
}

static void add_file(Files *f, const void *bytes, size_t n) {
  f->path[f->n] = join(&f->dir, f->n);
  FILE *out = fopen(f->path[f->n++].text, "wb");
  if (!out) {
    fail_msg("cannot write a file");
    return;
  }
  assert_int_equal(fwrite(bytes, 1, n, out), n);
  fclose(out);
}

static void files_init(Files *f) {
  *f = (Files){.dir = {"pm_data_XXXXXX"}};
  assert_non_null(mkdtemp(f->dir.text));
  f->glob = join(&f->dir, -1);
}

static void files_deinit(Files *f) {
  for (int i = 0; i < f->n; i++) unlink(f->path[i].text);
  rmdir(f->dir.text);
}

// The model's inputs have 4 rows of 6.
static PmProgram *fed(PmArena *arena, const Files *f, const char *format, int64_t data, int64_t tensor, bool shuffle) {
  PmProgram *p = fixture_model(arena, data, tensor);
  const char **names = PM_NEW_N(arena, const char *, 1);
  names[0] = f->glob.text;
  p->data =
      (PmProgData){.format = format, .n_files = 1, .files = names, .x = MODEL_X, .y = MODEL_Y, .shuffle = shuffle};
  return p;
}

static void ramp_file(Files *f, int n, int first) {
  unsigned char bytes[256];
  for (int i = 0; i < n; i++) bytes[i] = (unsigned char)(first + i);
  add_file(f, bytes, (size_t)n);
}

static void windows_in_order(void **state) {
  (void)state;
  Files f;
  files_init(&f);
  ramp_file(&f, 20, 0);    // windows 0 .. 2
  ramp_file(&f, 5, 90);    // none
  ramp_file(&f, 13, 100);  // windows 3, 4
  PmArena arena;
  pm_arena_init(&arena, 0);
  PmProgram *p = fed(&arena, &f, "bytes", 1, 1, false);
  PmData *d = NULL;
  assert_null(pm_data_open(p, 1, &d));
  assert_int_equal(pm_data_windows(d), 5);
  assert_int_equal(pm_data_tokens(d), 38);
  static const int first[] = {0, 6, 12, 100, 106};
  for (int64_t step = 0; step < 12; step++) {
    int32_t x[24], y[24];
    assert_null(pm_data_fill(d, MODEL_X, 0, step, x));
    assert_null(pm_data_fill(d, MODEL_Y, 0, step, y));
    for (int64_t b = 0; b < 4; b++) {
      for (int i = 0; i < 6; i++) {
        assert_int_equal(x[b * 6 + i], first[(step * 4 + b) % 5] + i);
        assert_int_equal(y[b * 6 + i], x[b * 6 + i] + 1);
      }
    }
  }
  pm_data_close(d);
  files_deinit(&f);
  pm_arena_deinit(&arena);
}

// Ranks hold what one rank would, whatever the layout; also when the sequence is split.
static void slices_agree(void **state) {
  (void)state;
  Files f;
  files_init(&f);
  ramp_file(&f, 250, 0);
  PmArena arena;
  pm_arena_init(&arena, 0);
  PmProgram *one = fed(&arena, &f, "bytes", 1, 1, true);
  PmData *whole = NULL;
  assert_null(pm_data_open(one, 3, &whole));
  for (int split_seq = 0; split_seq < 2; split_seq++) {
    PmProgram *p = fed(&arena, &f, "bytes", 2, 2, true);
    if (split_seq) {
      p->vars[MODEL_X].dims[1].n_mesh = 1;
      p->vars[MODEL_X].dims[1].mesh[0] = 1;
    }
    PmData *d = NULL;
    assert_null(pm_data_open(p, 3, &d));
    for (int64_t step = 0; step < 30; step++) {
      int32_t want[24], part[24];
      assert_null(pm_data_fill(whole, MODEL_X, 0, step, want));
      for (int64_t r = 0; r < 4; r++) {
        assert_null(pm_data_fill(d, MODEL_X, r, step, part));
        int cols = split_seq ? 3 : 6;
        for (int b = 0; b < 2; b++) {
          for (int i = 0; i < cols; i++) {
            int row = (int)(r / 2) * 2 + b, col = (split_seq ? (int)(r % 2) * 3 : 0) + i;
            assert_int_equal(part[b * cols + i], want[row * 6 + col]);
          }
        }
      }
    }
    pm_data_close(d);
  }
  pm_data_close(whole);
  files_deinit(&f);
  pm_arena_deinit(&arena);
}

static void shuffling_permutes(void **state) {
  (void)state;
  int moved = 0, differ = 0;
  for (int64_t n = 1; n <= 300; n += n < 20 ? 1 : 37) {
    char seen[300] = {0};
    for (int64_t i = 0; i < n; i++) {
      int64_t at = pm_data_permute(n, 9, 2, i);
      assert_in_range(at, 0, n - 1);
      assert_int_equal(seen[at]++, 0);
      moved += at != i;
      differ += at != pm_data_permute(n, 9, 3, i);
      assert_int_equal(at, pm_data_permute(n, 9, 2, i));
    }
  }
  assert_true(moved > 500 && differ > 500);
  int64_t large = INT64_C(1) << 40;
  assert_in_range(pm_data_permute(large - 3, 1, 0, 12345), 0, large);
}

static void llmc_files(void **state) {
  (void)state;
  Files f;
  files_init(&f);
  struct {
    int32_t header[256];
    uint16_t tokens[40];
  } file = {.header = {20240520, 1, 40}};
  for (int i = 0; i < 40; i++) file.tokens[i] = (uint16_t)(200 + i);
  add_file(&f, &file, sizeof file);
  PmArena arena;
  pm_arena_init(&arena, 0);
  PmProgram *p = fed(&arena, &f, "llmc", 1, 1, false);
  PmData *d = NULL;
  assert_null(pm_data_open(p, 1, &d));
  assert_int_equal(pm_data_windows(d), 6);
  int32_t x[24];
  assert_null(pm_data_fill(d, MODEL_X, 0, 0, x));
  assert_int_equal(x[23], 223);
  // Tokens 256 and up are no values of an axis of 256.
  PmStatus *st = NULL;
  for (int64_t step = 0; step < 3 && !st; step++) st = pm_data_fill(d, MODEL_Y, 0, step, x);
  assert_null(st);
  p->vars[MODEL_X].index_size = 220;
  st = pm_data_fill(d, MODEL_X, 0, 0, x);
  assert_int_equal(pm_status_code(st), PM_ERR_INPUT);
  assert_non_null(strstr(pm_status_message(st), "token 20 is 220, but `x` indexes an axis of 220"));
  pm_status_drop(st);
  pm_data_close(d);

  for (int i = 0; i < 3; i++) {
    files_deinit(&f);
    files_init(&f);
    int32_t kept = file.header[i];
    file.header[i] = i == 2 ? 41 : 7;
    add_file(&f, &file, sizeof file);
    file.header[i] = kept;
    st = pm_data_open(fed(&arena, &f, "llmc", 1, 1, false), 1, &d);
    assert_int_equal(pm_status_code(st), PM_ERR_INPUT);
    assert_null(d);
    pm_status_drop(st);
  }
  files_deinit(&f);
  pm_arena_deinit(&arena);
}

// A token that is no index of the input's axis: the file, the place in it and the value are named, on the rank that
// reads it. A file has no -1, so that nothing below 0 can come.
static void index_outside(void **state) {
  (void)state;
  Files f;
  files_init(&f);
  ramp_file(&f, 20, 0);
  PmArena arena;
  pm_arena_init(&arena, 0);
  for (int64_t size = 17; size < 21; size++) {
    PmProgram *p = fed(&arena, &f, "bytes", 1, 1, false);
    p->vars[MODEL_X].index_size = size;
    PmData *d = NULL;
    assert_null(pm_data_open(p, 1, &d));
    int32_t x[24];
    PmStatus *st = pm_data_fill(d, MODEL_X, 0, 0, x);
    if (size == 17) {
      assert_int_equal(pm_status_code(st), PM_ERR_INPUT);
      char want[256];
      snprintf(want, sizeof want, "%.90s: token 17 is 17, but `%s` indexes an axis of 17", f.path[0].text,
               p->vars[MODEL_X].path);
      assert_non_null(strstr(pm_status_message(st), want));
      pm_status_drop(st);
    } else {
      // Windows end before token 18.
      assert_null(st);
    }
    pm_data_close(d);
  }
  files_deinit(&f);
  pm_arena_deinit(&arena);
}

static void refusals(void **state) {
  (void)state;
  Files f;
  files_init(&f);
  PmArena arena;
  pm_arena_init(&arena, 0);
  PmData *d = NULL;
  PmStatus *st = pm_data_open(fed(&arena, &f, "bytes", 1, 1, false), 1, &d);
  assert_int_equal(pm_status_code(st), PM_ERR_ENVIRONMENT);
  pm_status_drop(st);
  ramp_file(&f, 6, 0);
  st = pm_data_open(fed(&arena, &f, "bytes", 1, 1, false), 1, &d);
  assert_int_equal(pm_status_code(st), PM_ERR_INPUT);
  assert_non_null(strstr(pm_status_message(st), "one window takes 7"));
  pm_status_drop(st);
  st = pm_data_open(fed(&arena, &f, "csv", 1, 1, false), 1, &d);
  assert_int_equal(pm_status_code(st), PM_ERR_INPUT);
  pm_status_drop(st);
  PmProgram *p = fed(&arena, &f, "bytes", 1, 1, false);
  p->vars[MODEL_Y].dims[1].size = 5;
  st = pm_data_open(p, 1, &d);
  assert_non_null(strstr(pm_status_message(st), "shapes differ"));
  pm_status_drop(st);
  files_deinit(&f);
  pm_arena_deinit(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(windows_in_order), cmocka_unit_test(slices_agree), cmocka_unit_test(shuffling_permutes),
      cmocka_unit_test(llmc_files),       cmocka_unit_test(refusals),     cmocka_unit_test(index_outside),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
