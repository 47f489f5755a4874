#include "recorded.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"

#define FOLDER PM_SOURCE_DIR "/tests/recorded/"

static void read_file(const char *path, PmArena *arena, PmRecorded *out_recorded) {
  PmStatus *st = pm_recorded_read(path, arena, out_recorded);
  if (st) pm_status_print(st, stderr);
  assert_null(st);
}

static const PmRecordedTensor *find(const PmRecorded *r, PmArena *arena, int step, const char *kind, const char *name) {
  const PmRecordedTensor *t = pm_recorded_find(r, pm_arena_printf(arena, "%d/%s%s", step, kind, name));
  if (!t) fail_msg("%d/%s%s is not recorded", step, kind, name);
  return t;
}

// Each weight has its gradient and its moments at each step, of the same shape; n_states are the model's own.
static void steps_cover_weights(const char *model, int64_t n_parameters, int32_t n_states) {
  static const char *const kinds[] = {"grad/", "value/", "m/", "v/"};
  static const char *const scalars[] = {"loss", "grad_norm", "grad_max", "clip_scale"};
  PmArena arena;
  PmRecorded weights, steps;
  pm_arena_init(&arena, 0);
  read_file(pm_arena_printf(&arena, "%s%s.weights.txt", FOLDER, model), &arena, &weights);
  read_file(pm_arena_printf(&arena, "%s%s.steps.txt", FOLDER, model), &arena, &steps);
  assert_int_equal(steps.n_tensors, 3 * (4 + 4 * weights.n_tensors + n_states));
  int64_t total = 0;
  for (int32_t i = 0; i < weights.n_tensors; i++) {
    const PmRecordedTensor *w = &weights.tensors[i];
    assert_int_equal(w->stride, 1);
    total += w->n_elements;
    for (int64_t k = 0; k < w->n_values; k++) assert_true((double)(float)w->values[k] == w->values[k]);
    for (int step = 1; step <= 3; step++) {
      for (int k = 0; k < 4; k++) {
        const PmRecordedTensor *t = find(&steps, &arena, step, kinds[k], w->name);
        assert_int_equal(t->rank, w->rank);
        assert_memory_equal(t->dims, w->dims, sizeof w->dims);
      }
    }
    assert_int_equal(find(&steps, &arena, 1, "grad/", w->name)->stride, 1);
  }
  assert_int_equal(total, n_parameters);
  for (int step = 1; step <= 3; step++) {
    for (int k = 0; k < 4; k++) assert_int_equal(find(&steps, &arena, step, "", scalars[k])->rank, 0);
  }
  // The norm of the recorded gradients is the recorded norm.
  double squares = 0.0;
  for (int32_t i = 0; i < weights.n_tensors; i++) {
    const PmRecordedTensor *g = find(&steps, &arena, 1, "grad/", weights.tensors[i].name);
    for (int64_t k = 0; k < g->n_values; k++) squares += g->values[k] * g->values[k];
  }
  assert_true(fabs(sqrt(squares) / find(&steps, &arena, 1, "", "grad_norm")->values[0] - 1.0) < 1e-6);
  pm_arena_deinit(&arena);
}

static void gpt2(void **state) {
  (void)state;
  steps_cover_weights("gpt2_tiny", 7232, 0);
}

static void llama(void **state) {
  (void)state;
  steps_cover_weights("llama_tiny", 4944, 0);
}

static void mixtral(void **state) {
  (void)state;
  steps_cover_weights("mixtral_tiny", 7376, 0);
}

static void deepseek_moe(void **state) {
  (void)state;
  steps_cover_weights("deepseek_moe_tiny", 8144, 1);
}

static PmStatus *read_text(const char *text, PmArena *arena, PmRecorded *out_recorded) {
  char path[] = "recorded_XXXXXX";
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
  close(fd);
  PmStatus *st = pm_recorded_read(path, arena, out_recorded);
  unlink(path);
  return st;
}

static void values_and_error(void **state) {
  (void)state;
  PmArena arena;
  PmRecorded r;
  pm_arena_init(&arena, 0);
  PmStatus *st = read_text("scalar 1/loss -2.5\ntensor a.b 2 2 3 2 -1 7\n1 -4\n3\n", &arena, &r);
  assert_null(st);
  assert_int_equal(r.n_tensors, 2);
  assert_true(pm_recorded_find(&r, "1/loss")->values[0] == -2.5);
  const PmRecordedTensor *t = pm_recorded_find(&r, "a.b");
  assert_int_equal(t->n_elements, 6);
  assert_int_equal(t->n_values, 3);
  assert_true(t->values[0] == 0.5 && t->values[1] == -2.0 && t->values[2] == 1.5 && t->largest == 7.0);
  double actual[] = {0.5, 9.0, -2.0, 9.0, 1.5, 9.0};
  assert_true(pm_recorded_error(t, actual, 0.0) == 0.0);
  actual[2] = -1.0;
  assert_true(pm_recorded_error(t, actual, 0.0) == 1.0 / 7.0);
  assert_true(pm_recorded_error(t, actual, 10.0) == 1.0 / 10.0);
  actual[4] = (double)NAN;
  assert_true(isinf(pm_recorded_error(t, actual, 0.0)));
  assert_null(pm_recorded_find(&r, "a"));
  pm_arena_deinit(&arena);
}

static void damaged_files(void **state) {
  (void)state;
  static const struct {
    const char *text, *message;  // `message` is what follows "PATH:"
  } rows[] = {
      {"vector a 1 1 1 0 1\n1\n", "1: `vector` is not `tensor` or `scalar`"},
      {"scalar\n", "2: the file ends where a name belongs"},
      {"scalar a x1\n", "1: `x1` is not a value"},
      {"scalar a inf\n", "1: `inf` is not a value"},
      {"scalar a 1\nscalar a 2\n", "2: `a` is recorded twice"},
      {"tensor a 0 1 0 1\n1\n", "1: `0` is not a rank"},
      {"tensor a 13 1\n", "1: `13` is not a rank"},
      {"tensor a 1 -1 1 0 1\n", "1: `-1` is not an axis size"},
      {"tensor a 2 1099511627775 1099511627775 1 0 1\n", "1: a has too many elements"},
      {"tensor a 1 4 0 0 1\n", "1: `0` is not a stride"},
      {"tensor a 1 4 1 9999 1\n", "1: `9999` is not an exponent"},
      {"tensor a 1 1000000 1 0 1\n1\n", "1: the file ends within a"},
      {"tensor a 1 3 1 0 1\n1 2\n", "3: the file ends where a value belongs"},
      {"tensor a 1 3 1 0 1\n1 2 tensor\n", "2: `tensor` is not a value"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    PmArena arena;
    PmRecorded r;
    pm_arena_init(&arena, 0);
    PmStatus *st = read_text(rows[i].text, &arena, &r);
    assert_int_equal(pm_status_code(st), PM_ERR_INPUT);
    const char *colon = strchr(pm_status_message(st), ':');
    assert_non_null(colon);
    assert_string_equal(colon + 1, rows[i].message);
    pm_status_drop(st);
    pm_arena_deinit(&arena);
  }
}

static void missing_file(void **state) {
  (void)state;
  PmArena arena;
  PmRecorded r;
  pm_arena_init(&arena, 0);
  PmStatus *st = pm_recorded_read("no_such_file", &arena, &r);
  assert_int_equal(pm_status_code(st), PM_ERR_ENVIRONMENT);
  pm_status_drop(st);
  pm_arena_deinit(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gpt2),
      cmocka_unit_test(llama),
      cmocka_unit_test(mixtral),
      cmocka_unit_test(deepseek_moe),
      cmocka_unit_test(values_and_error),
      cmocka_unit_test(damaged_files),
      cmocka_unit_test(missing_file),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
