#include "world.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fixture.h"
#include "harness.h"
#include "runtime/comm/mpi_open.h"
#include "runtime/comm/remote.h"
#include "runtime/comm/tcp.h"

#define MEET_S 120.0
#define SKIPPED 77
#define STAGING_BYTES (1 << 18)

static int64_t variable(const char *name) {
  const char *text = getenv(name);
  return text ? strtoll(text, NULL, 10) : -1;
}

static PmTransport *tcp_transport(void) {
  PmTcpOptions o = {.host = getenv("MASTER_ADDR"),
                    .port = (int32_t)variable("MASTER_PORT"),
                    .rank = variable("RANK"),
                    .size = variable("WORLD_SIZE"),
                    .deadline_s = MEET_S};
  PmTransport *t;
  PmStatus *st = pm_tcp_open(&o, &t);
  if (!st) return t;
  pm_status_print(st, stderr);
  exit(1);
}

PmTransport *world_transport(int argc, char **argv) {
  PmTransport *t = NULL;
  if (argc > 1 && strcmp(argv[1], "tcp") == 0) return tcp_transport();
  if (argc < 2 || strcmp(argv[1], "mpi") != 0) return NULL;
  PmStatus *st = pm_mpi_open(NULL, &t);
  if (!st) return t;
  printf("skipped: %s\n", pm_status_message(st));
  pm_status_drop(st);
  exit(SKIPPED);
}

void world_transport_close(PmTransport *t) {
  if (t) t->vtbl->close(t);
}

void world_init(World *w, PmTransport *t, int64_t m0, int64_t m1, int64_t m2) {
  static const World nothing;
  *w = nothing;
  w->t = t;
  w->options.staging_bytes = STAGING_BYTES;
  pm_arena_init(&w->arena, 0);
  w->p = fixture_empty(&w->arena, m0, m1, m2);
}

bool world_has(const World *w, int64_t rank) { return rank < pm_program_ranks(w->p) && (!w->t || w->t->rank == rank); }

void world_open(World *w) {
  if (!w->t) {
    assert_null(pm_comm_local_create(w->p, &w->options, w->comms));
  } else if (world_has(w, w->t->rank)) {
    assert_null(pm_comm_remote_create(w->p, w->t, &w->options, &w->comms[w->t->rank]));
  } else {
    w->t->worlds++;
  }
}

void world_deinit(World *w) {
  for (int r = 0; r < MAX_RANKS; r++) pm_status_drop(w->statuses[r]);
  if (w->t) {
    PmVote votes[MAX_RANKS];
    uint8_t heard[MAX_RANKS];
    assert_true(pm_transport_vote(w->t, (PmVote){0, 0}, MEET_S, votes, heard));
    if (w->comms[w->t->rank]) pm_comm_remote_destroy(w->comms[w->t->rank]);
  } else {
    pm_comm_local_destroy(w->comms);
  }
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

void world_run(World *w, void (*body)(World *w, int64_t rank)) {
  w->body = body;
  int64_t n = pm_program_ranks(w->p);
  pthread_t threads[MAX_RANKS];
  Thread args[MAX_RANKS];
  if (w->t) {
    if (world_has(w, w->t->rank)) body(w, w->t->rank);
    return;
  }
  for (int64_t r = 0; r < n; r++) {
    args[r] = (Thread){w, r};
    assert_int_equal(pthread_create(&threads[r], NULL, enter, &args[r]), 0);
  }
  for (int64_t r = 0; r < n; r++) pthread_join(threads[r], NULL);
}

PmColl *world_add_coll(World *w, PmCollKind kind, PmKDtype dtype, int reduce, int64_t count, uint32_t mesh) {
  PmColl *c = fixture_step(w->p, PM_ENTRY_STEP, PM_STEP_COLL, "a step")->u.coll;
  *c = (PmColl){.kind = (uint8_t)kind, .dtype = (uint8_t)dtype, .reduce = (uint8_t)reduce, .count = count};
  for (int32_t m = 0; m < w->p->n_mesh; m++) {
    if (mesh & (1u << m)) c->mesh[c->n_mesh++] = (uint8_t)m;
  }
  for (int32_t i = c->n_mesh; i > 0 && kind == PM_COLL_PERMUTE; i--) c->to[c->n_to++] = c->mesh[i - 1];
  return c;
}

PmStatus *world_run_step(World *w, int64_t rank, int32_t step, char *src, char *dst) {
  const PmStep *s = &w->p->entries[PM_ENTRY_STEP].steps[step];
  PmCommCall call = {.coll = s->u.coll, .src = src, .dst = dst, .base = w->base[rank], .op = s->op, .step = 41};
  call.loc = &w->p->locs[0];
  if (s->u.coll->rows) call.idx = w->idx[rank];
  return w->comms[rank]->vtbl->run(w->comms[rank], &call);
}

void expect_text(const PmStatus *st, const char *text) {
  if (!strstr(pm_status_message(st), text)) fail_msg("`%s` lacks `%s`", pm_status_message(st), text);
}

void expect_lost(const char *message, int64_t rank) {
  static const char before[] = "; in no collective: rank ";
  const char *at = strstr(message, before);
  for (char *end = NULL; at; at = *end == ',' ? end + 2 : NULL) {
    if (!end) at += sizeof before - 1;
    if (strtoll(at, &end, 10) == rank) return;
  }
  fail_msg("`%s` does not say that rank %d is in no collective", message, (int)rank);
}
