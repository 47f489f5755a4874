// Faults at every collective of a run: a rank that fails, one that is never heard of again, one that hangs in a kernel.
// Alone it runs over threads; as `mpirun -np 4 runtime_faults mpi` or `with_tcp.sh 4 runtime_faults tcp` over
// processes.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/child.h"
#include "fixture.h"
#include "runtime/comm/groups.h"
#include "runtime/executor.h"
#include "runtime/watchdog.h"
#include "world.h"

enum { STEPS = 3, COLLS = 2, POINTS = STEPS * COLLS };

// A communicator that goes wrong instead of making its call number `left`.
typedef struct Faulty {
  PmComm base;
  PmComm *inner;
  int32_t left;
  bool silent;
} Faulty;

static PmStatus *faulty_run(PmComm *comm, const PmCommCall *call) {
  Faulty *f = (Faulty *)comm;
  if (f->left-- != 0) return f->inner->vtbl->run(f->inner, call);
  return PM_STATUS(PM_ERR_ENVIRONMENT, "the disk burns");
}

static void faulty_abandon(PmComm *comm, const char *why) {
  Faulty *f = (Faulty *)comm;
  if (!f->silent) f->inner->vtbl->abandon(f->inner, why);
}

static const PmCommVtbl faulty_vtbl = {.name = "faulty", .run = faulty_run, .abandon = faulty_abandon};

typedef struct Fault {
  int64_t rank;
  int32_t point;
  bool silent;
  PmDevice *devices[MAX_RANKS];  // of ranks here, alive until all have returned
} Fault;

// Some steps of training, then a meeting of all: who would be done before anybody tells it is told there.
static PmStatus *train(PmExecutor *x) {
  PM_TRY(pm_executor_run(x, PM_ENTRY_SETUP, 0));
  for (int64_t step = 1; step <= STEPS; step++) PM_TRY(pm_executor_run(x, PM_ENTRY_STEP, step));
  PmColl all = pm_comm_among_all(x->p, PM_COLL_ALL_REDUCE, PM_K_F32, 0);
  PmCommCall end = {.coll = &all, .src = x->device->arena, .dst = x->device->arena, .op = "the end", .step = STEPS};
  return x->comm->vtbl->run(x->comm, &end);
}

static void train_rank(World *w, int64_t rank) {
  const Fault *fault = w->context;
  int32_t left = fault->rank == rank ? fault->point : POINTS + 1;
  Faulty faulty = {{&faulty_vtbl, rank}, w->comms[rank], left, fault->silent};
  PmExecutor x = {.p = w->p, .device = fault->devices[rank], .comm = &faulty.base};
  w->statuses[rank] = train(&x);
}

static void inject(World *w, PmTransport *t, int64_t rank, int32_t point, bool silent, double deadline_s) {
  Fault fault = {.rank = rank, .point = point, .silent = silent};
  const PmDeviceVtbl *device;
  world_init(w, t, 2, 2, 0);
  w->p = fixture_model(&w->arena, 2, 2);
  w->options.deadline_s = deadline_s;
  w->context = &fault;
  world_open(w);
  assert_null(pm_device_find("interp", &device));
  for (int64_t r = 0; r < 4; r++) {
    PmDeviceOptions options = {.threads = 1, .ranks_here = 1};
    if (world_has(w, r)) assert_null(device->create(w->p, r, &options, &fault.devices[r]));
  }
  world_run(w, train_rank);
  for (int64_t r = 0; r < 4; r++) {
    if (world_has(w, r)) device->destroy(fault.devices[r]);
  }
}

static void a_rank_that_fails_at_any_step(void **state) {
  World w;
  for (int32_t point = 0; point < POINTS; point++) {
    for (int64_t rank = 0; rank < 4; rank++) {
      inject(&w, *state, rank, point, false, 60);
      char text[64];
      snprintf(text, sizeof text, "rank %d stopped: the disk burns", (int)rank);
      for (int64_t r = 0; r < 4; r++) {
        if (!world_has(&w, r)) continue;
        assert_int_equal(pm_status_code(w.statuses[r]), r == rank ? PM_ERR_ENVIRONMENT : PM_ERR_PEER);
        expect_text(w.statuses[r], r == rank ? "the disk burns" : text);
      }
      world_deinit(&w);
    }
  }
}

static void a_rank_that_is_lost_at_any_step(void **state) {
  World w;
  for (int32_t point = 0; point < POINTS; point++) {
    int64_t rank = point % 4;
    inject(&w, *state, rank, point, true, 0.3);
    for (int64_t r = 0; r < 4; r++) {
      if (r == rank || !world_has(&w, r)) continue;
      assert_int_equal(pm_status_code(w.statuses[r]), PM_ERR_DEADLINE);
      expect_text(w.statuses[r], " s for rank ");
      expect_text(w.statuses[r], " at step ");
      if (!w.t) expect_lost(pm_status_message(w.statuses[r]), rank);
    }
    world_deinit(&w);
  }
}

// ---- hanging -------------------------------------------------------------------------------------------------------
static void hang_on_rank_3(char *const *args, const int32_t *scalars, int64_t begin, int64_t end) {
  (void)args, (void)begin, (void)end;
  while (scalars[0] == 3) pause();
}

static PmStatus *compile_hanging(PmKernelCompiler *self, const PmProgram *p, PmKernelFn *out_fns) {
  (void)self;
  for (int32_t i = 0; i < p->n_kernels; i++) out_fns[i] = p->kernels[i].host ? NULL : hang_on_rank_3;
  return NULL;
}

// A program of one kernel that knows its rank, in a run of `eval`.
static PmProgram *hanging_program(PmArena *arena, bool meets) {
  PmProgram *p = fixture_empty(arena, 2, 2, 0);
  fixture_buffer(p, "v", 0, 64, -1, 0, 0);
  fixture_finish(p);
  PmKernel *k = &p->kernels[p->n_kernels++];
  Kb b = kb_new(arena, k, "hang");
  k->n_scalars = 1;
  kb_arg(&b, PM_K_F32, 16, false, true);
  kb_store(&b, 0, kb_const(&b, PM_K_F32, 0), 0, 0, 0, 0);
  PmKernelCall *call = fixture_step(p, PM_ENTRY_EVAL, PM_STEP_KERNEL, "hang")->u.kernel;
  call->args[0] = p->buffers[0].at;
  call->scalars[0].stride[0] = 2;
  call->scalars[0].stride[1] = 1;
  if (!meets) return p;
  PmColl *c = fixture_step(p, PM_ENTRY_EVAL, PM_STEP_COLL, "all_reduce")->u.coll;
  *c = pm_comm_among_all(p, PM_COLL_ALL_REDUCE, PM_K_F32, 1);
  c->src = c->dst = p->buffers[0].at;
  return p;
}

static void watch(void *context, PmCode failed, const char *text) {
  if (failed) pm_watchdog_start(context, 0.1, failed, text);
}

static void run_hanging(bool meets) {
  PmArena arena;
  pm_arena_init(&arena, 0);
  PmKernelCompiler compiler = {.name = "hanging", .compile = compile_hanging};
  PmWatchdog watchdog;
  pm_watchdog_init(&watchdog);
  PmSessionOptions options = {
      .device = "cpu", .threads = 1, .compiler = &compiler, .deadline_s = 0.3, .report = watch, .context = &watchdog};
  PmSession *s;
  PmStatus *st = pm_session_create(hanging_program(&arena, meets), &options, &s);
  if (!st) st = pm_session_run(s, PM_ENTRY_EVAL);
  pm_status_print(st, stderr);
}

static void hang_before_a_collective(void) { run_hanging(true); }
static void hang_behind_the_last(void) { run_hanging(false); }

static void a_rank_that_hangs_ends_the_process(void **state) {
  if (*state) skip();  // there other processes end it: tests/tools/mpi.sh, tcp.sh
  char text[1024];
  assert_int_equal(child_exit_code(hang_before_a_collective, text, sizeof text), PM_ERR_DEADLINE);
  assert_non_null(strstr(text, " at step 1 in all_reduce (fixture.pmodel:3:5)"));
  expect_lost(text, 3);
  assert_int_equal(child_exit_code(hang_behind_the_last, text, sizeof text), PM_ERR_DEADLINE);
  assert_non_null(strstr(text, " at step 1 in the end of its last step"));
  expect_lost(text, 3);
}

// ---- the watchdog --------------------------------------------------------------------------------------------------
static void stopped_in_time(void) {
  PmWatchdog d;
  pm_watchdog_init(&d);
  pm_watchdog_start(&d, 60, PM_ERR_DEADLINE, "late");
  pm_watchdog_stop(&d);
}

static void a_watchdog_that_is_stopped_does_nothing(void **state) {
  (void)state;
  char text[64];
  assert_int_equal(child_exit_code(stopped_in_time, text, sizeof text), 0);
  assert_string_equal(text, "");
}

int main(int argc, char **argv) {
  PmTransport *t = world_transport(argc, argv);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_prestate(a_rank_that_fails_at_any_step, t),
      cmocka_unit_test_prestate(a_rank_that_is_lost_at_any_step, t),
      cmocka_unit_test_prestate(a_rank_that_hangs_ends_the_process, t),
      cmocka_unit_test_prestate(a_watchdog_that_is_stopped_does_nothing, t),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  world_transport_close(t);
  return failed;
}
