#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/philox.h"
#include "fixture.h"
#include "harness.h"
#include "runtime/session.h"

enum { BATCH = 4, IN = 6, OUT = 8 };

static PmSession *session_new(const PmProgram *p, const char *device, int32_t threads) {
  PmSession *s = NULL;
  PmStatus *st = pm_program_validate(p);
  if (!st)
    st =
        pm_session_create(p, &(PmSessionOptions){.device = device, .threads = threads, .seed = 11, .poison = true}, &s);
  if (st) pm_status_print(st, stderr);
  assert_null(st);
  return s;
}

static void set_x(PmSession *s) {
  int32_t x[BATCH * IN];
  for (int i = 0; i < BATCH * IN; i++) x[i] = (i * 37) % 100;
  assert_null(pm_session_set_var(s, MODEL_X, x, sizeof x));
}

// The whole computation by definition, in double.
static double loss_of(const float *w, int64_t step, double *h) {
  double loss = 0;
  for (int b = 0; b < BATCH; b++) {
    for (int o = 0; o < OUT; o++) {
      h[b * OUT + o] = 0;
      for (int i = 0; i < IN; i++) {
        h[b * OUT + o] += ((b * IN + i) * 37 % 100 * cos((double)i) + (double)step) * (double)w[o * IN + i];
      }
      loss += h[b * OUT + o];
    }
  }
  return loss;
}

static void every_mesh_computes_the_same(void **state) {
  (void)state;
  static const int64_t meshes[][2] = {{1, 1}, {2, 1}, {4, 1}, {1, 2}, {1, 8}, {2, 2}, {4, 2}};
  float first[OUT * IN];
  for (size_t i = 0; i < sizeof meshes / sizeof *meshes; i++) {
    PmArena arena;
    pm_arena_init(&arena, 0);
    PmProgram *p = fixture_model(&arena, meshes[i][0], meshes[i][1]);
    PmSession *s = session_new(p, "interp", 1 + (int32_t)i % 2);
    assert_null(pm_session_init(s));
    set_x(s);
    float w[OUT * IN];
    assert_int_equal(pm_session_var_bytes(s, pm_session_find_var(s, "w")), sizeof w);
    assert_null(pm_session_get_var(s, MODEL_W, w));
    if (i == 0) memcpy(first, w, sizeof w);
    assert_memory_equal(first, w, sizeof w);
    assert_true(w[9] == 0.5f * pm_random_normal(pm_random_key(11, "w"), 0, 9));
    for (int64_t step = 0; step < 3; step++) {
      assert_null(pm_session_get_var(s, MODEL_W, w));
      assert_null(pm_session_load(s, NULL, step));
      assert_null(pm_session_run(s, PM_ENTRY_STEP));
      float loss, h[BATCH * OUT];
      double want_h[BATCH * OUT], want = loss_of(w, step, want_h);
      assert_null(pm_session_output(s, PM_ENTRY_STEP, "loss", &loss));
      assert_null(pm_session_output(s, PM_ENTRY_STEP, "h", h));
      assert_true(fabs((double)loss - want) < 1e-2);
      for (int j = 0; j < BATCH * OUT; j++) assert_true(fabs((double)h[j] - want_h[j]) < 1e-3);
      float after[OUT * IN];
      assert_null(pm_session_get_var(s, MODEL_W, after));
      for (int j = 0; j < OUT * IN; j++) assert_true(after[j] == w[j] * 0.75f);
    }
    PmSessionMemory memory;
    pm_session_memory(s, &memory);
    assert_int_equal(memory.arena_bytes, p->arena_bytes);
    assert_in_range(memory.touched_bytes, p->arena_bytes - 63, p->arena_bytes);
    PmStepCounts counts;
    pm_session_counts(s, &counts);
    assert_int_equal(counts.steps[PM_STEP_KERNEL], 1 + 3 * 4);
    assert_int_equal(counts.steps[PM_STEP_DOT], 3);
    assert_int_equal(counts.colls[PM_COLL_ALL_REDUCE], 6);
    pm_session_destroy(s);
    pm_arena_deinit(&arena);
  }
}

static void values_go_in_and_out(void **state) {
  (void)state;
  PmArena arena;
  pm_arena_init(&arena, 0);
  PmProgram *p = fixture_model(&arena, 2, 4);
  PmSession *s = session_new(p, "interp", 1);
  assert_null(pm_session_init(s));
  float w[OUT * IN], back[OUT * IN];
  for (int i = 0; i < OUT * IN; i++) w[i] = (float)i;
  assert_null(pm_session_set_var(s, MODEL_W, w, sizeof w));
  assert_null(pm_session_get_var(s, MODEL_W, back));
  assert_memory_equal(w, back, sizeof w);
  PmStatus *st = pm_session_set_var(s, MODEL_W, w, sizeof w - 4);
  assert_int_equal(pm_status_code(st), PM_ERR_USAGE);
  pm_status_drop(st);
  st = pm_session_output(s, PM_ENTRY_STEP, "accuracy", w);
  assert_int_equal(pm_status_code(st), PM_ERR_USAGE);
  pm_status_drop(st);
  st = pm_session_run(s, PM_ENTRY_EVAL);
  assert_int_equal(pm_status_code(st), PM_ERR_USAGE);
  pm_status_drop(st);
  assert_int_equal(pm_session_find_var(s, "nothing"), -1);
  pm_session_destroy(s);
  pm_arena_deinit(&arena);
}

// A step whose scalar differs between the replicas of w writes it into w: they part, and reading says so.
static void replicas_that_differ_are_found(void **state) {
  (void)state;
  PmArena arena;
  pm_arena_init(&arena, 0);
  PmProgram *p = fixture_model(&arena, 2, 2);
  PmKernel *k = &p->kernels[p->n_kernels++];
  Kb b = kb_new(&arena, k, "part");
  k->n_scalars = 1;
  kb_arg(&b, PM_K_F32, 24, false, true);
  int32_t coord = kb_op(&b, PM_I_PARAM, PM_K_I32, -1, -1, -1);
  kb_store(&b, 0, kb_op(&b, PM_I_CVT, PM_K_F32, coord, -1, -1), 7, 0, 0, 0);
  PmKernelCall *c = fixture_step(p, PM_ENTRY_EVAL, PM_STEP_KERNEL, "part")->u.kernel;
  c->kernel = p->n_kernels - 1;
  c->args[0] = p->vars[MODEL_W].at;
  c->scalars[0].stride[1] = 1;
  PmSession *s = session_new(p, "interp", 1);
  assert_null(pm_session_init(s));
  assert_null(pm_session_run(s, PM_ENTRY_EVAL));
  float w[OUT * IN];
  assert_null(pm_session_get_var(s, MODEL_W, w));
  assert_true(w[7] == 0.0f && w[24 + 7] == 1.0f);
  c->scalars[0].stride[0] = 5;
  assert_null(pm_session_run(s, PM_ENTRY_EVAL));
  PmStatus *st = pm_session_get_var(s, MODEL_W, w);
  assert_int_equal(pm_status_code(st), PM_ERR_CORRUPTION);
  assert_string_equal(pm_status_message(st), "`w`: rank 2 holds other bits than its replica, first in element 7");
  pm_status_drop(st);
  pm_session_destroy(s);
  pm_arena_deinit(&arena);
}

static void null_counts(void **state) {
  (void)state;
  PmArena arena;
  pm_arena_init(&arena, 0);
  PmProgram *p = fixture_model(&arena, 4, 8);
  PmSession *s = session_new(p, "null", 0);
  assert_null(pm_session_init(s));
  assert_null(pm_session_load(s, NULL, 0));
  assert_null(pm_session_run(s, PM_ENTRY_STEP));
  PmStepCounts counts;
  pm_session_counts(s, &counts);
  assert_int_equal(counts.steps[PM_STEP_KERNEL], 5);
  assert_int_equal(counts.steps[PM_STEP_COLL], 2);
  assert_int_equal(counts.coll_bytes[PM_COLL_ALL_REDUCE], 4 + 4);
  assert_true(counts.flops == 80.0);
  float loss = 1;
  assert_null(pm_session_output(s, PM_ENTRY_STEP, "loss", &loss));
  assert_true(loss == 0.0f);
  pm_session_destroy(s);
  pm_arena_deinit(&arena);
}

static void data_feed_the_inputs(void **state) {
  (void)state;
  char path[] = "pm_session_XXXXXX";
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  char text[100];
  for (int i = 0; i < 100; i++) text[i] = (char)i;
  assert_int_equal(write(fd, text, sizeof text), sizeof text);
  close(fd);
  PmArena arena;
  pm_arena_init(&arena, 0);
  PmProgram *p = fixture_model(&arena, 2, 2);
  p->data = (PmProgData){.format = "bytes", .n_files = 1, .files = (const char *[]){path}, .x = MODEL_X, .y = MODEL_Y};
  PmData *data = NULL;
  assert_null(pm_data_open(p, 1, &data));
  PmSession *s = session_new(p, "interp", 1);
  assert_null(pm_session_init(s));
  assert_null(pm_session_load(s, data, 2));
  int32_t x[BATCH * IN], y[BATCH * IN], t;
  assert_null(pm_session_get_var(s, MODEL_X, x));
  assert_null(pm_session_get_var(s, MODEL_Y, y));
  assert_null(pm_session_get_var(s, MODEL_T, &t));
  assert_int_equal(t, 2);
  for (int i = 0; i < BATCH * IN; i++) {
    assert_int_equal(x[i], 2 * BATCH * IN + i);
    assert_int_equal(y[i], x[i] + 1);
  }
  pm_session_destroy(s);
  pm_data_close(data);
  unlink(path);
  pm_arena_deinit(&arena);
}

static void steps_do_not_allocate(void **state) {
  (void)state;
  PmArena arena;
  pm_arena_init(&arena, 0);
  PmSession *s = session_new(fixture_model(&arena, 2, 2), "interp", 2);
  assert_null(pm_session_init(s));
  set_x(s);
  assert_null(pm_session_load(s, NULL, 0));
  assert_null(pm_session_run(s, PM_ENTRY_STEP));
  struct mallinfo2 before = mallinfo2();
  for (int64_t step = 1; step < 50; step++) {
    assert_null(pm_session_load(s, NULL, step));
    assert_null(pm_session_run(s, PM_ENTRY_STEP));
  }
  struct mallinfo2 after = mallinfo2();
  assert_int_equal(before.uordblks, after.uordblks);
  assert_int_equal(before.hblks, after.hblks);
  pm_session_destroy(s);
  pm_arena_deinit(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_mesh_computes_the_same),   cmocka_unit_test(values_go_in_and_out),
      cmocka_unit_test(replicas_that_differ_are_found), cmocka_unit_test(null_counts),
      cmocka_unit_test(data_feed_the_inputs),           cmocka_unit_test(steps_do_not_allocate),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
