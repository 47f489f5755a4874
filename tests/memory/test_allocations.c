// After one turn of each entry a run asks nobody for memory: not the executor, not the kernels, not BLAS.
#include "counting.h"
#include "harness.h"
#include "models.h"

#define LAST_STEP 4

static void run_and_count(const Example *e, int32_t threads) {
  Compiled c;
  PmRun r;
  Counted counted;
  double loss = 0;
  example_compile(e, &c);
  c.t.opt.threads = threads;
  must(pm_run_open(&c.t, c.p, false, &r));
  must(pm_run_open_data(&r));
  must(pm_run_step(&r, 0));
  must(pm_session_run(r.session, PM_ENTRY_EVAL));
  counting_start();
  for (int64_t step = 1; step < LAST_STEP; step++) {
    must(pm_session_load(r.session, r.data, step));
    must(pm_session_run(r.session, PM_ENTRY_STEP));
  }
  must(pm_session_run(r.session, PM_ENTRY_EVAL));
  must(pm_session_output(r.session, PM_ENTRY_STEP, "loss", &loss));
  counting_stop(&counted);
  if (counted.calls > 0) {
    fail_msg("%s, %d threads a rank: %lld allocations after step 1, first %s of %zu bytes from %p", example_text(e),
             threads, (long long)counted.calls, counted.first, counted.first_bytes, counted.first_caller);
  }
  pm_run_close(&r);
  example_free(&c);
}

static void one_thread_a_rank(void **state) {
  (void)state;
  for (int i = 0; i < N_EXAMPLES; i++) run_and_count(&examples[i], 1);
}

static void several_threads_a_rank(void **state) {
  (void)state;
  for (int i = 0; i < N_EXAMPLES; i++) run_and_count(&examples[i], 3);
}

// The counter sees what libraries and other threads do.
static void counter_counts(void **state) {
  (void)state;
  Counted counted;
  Compiled c;
  counting_start();
  example_compile(&examples[0], &c);
  counting_stop(&counted);
  assert_true(counted.calls > 0);
  PmRun r;
  counting_start();
  must(pm_run_open(&c.t, c.p, false, &r));
  counting_stop(&counted);
  assert_true(counted.calls > 1000);  // LLVM's
  pm_run_close(&r);
  example_free(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(counter_counts), cmocka_unit_test(one_thread_a_rank),
                                     cmocka_unit_test(several_threads_a_rank)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
