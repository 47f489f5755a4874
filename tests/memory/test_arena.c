// The arena is filled with poison before a run: the highest byte that is none afterwards is the last one predicted.
#include "harness.h"
#include "models.h"

static void run_poisoned(const Example *e, int32_t threads) {
  Compiled c;
  PmRun r;
  PmSessionMemory memory;
  example_compile(e, &c);
  c.t.opt.threads = threads;
  must(pm_run_open(&c.t, c.p, true, &r));
  must(pm_run_open_data(&r));
  for (int64_t step = 0; step < 2; step++) must(pm_run_step(&r, step));
  must(pm_session_run(r.session, PM_ENTRY_EVAL));
  pm_session_memory(r.session, &memory);
  assert_int_equal(memory.arena_bytes, c.p->arena_bytes);
  if (memory.touched_bytes > memory.arena_bytes || memory.touched_bytes <= memory.arena_bytes - PM_ARENA_ALIGN) {
    fail_msg("%s: predicted %lld bytes, touched %lld", example_text(e), (long long)memory.arena_bytes,
             (long long)memory.touched_bytes);
  }
  pm_run_close(&r);
  example_free(&c);
}

static void touched_is_predicted(void **state) {
  (void)state;
  for (int i = 0; i < N_EXAMPLES; i++) run_poisoned(&examples[i], 1);
}

static void touched_by_several_threads(void **state) {
  (void)state;
  for (int i = 0; i < N_EXAMPLES; i++) run_poisoned(&examples[i], 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(touched_is_predicted),
                                     cmocka_unit_test(touched_by_several_threads)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
