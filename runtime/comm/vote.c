#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "runtime/comm/remote.h"
#include "runtime/comm/tags.h"
#include "runtime/futex.h"

#define SPINS 100
#define NAP_NS 200000

static int64_t left(const uint8_t *done, int64_t n) {
  int64_t open = 0;
  for (int64_t i = 0; i < n; i++) open += !done[i];
  return open;
}

static bool exchange(PmTransport *t, const PmVote *mine, double seconds, PmVote *votes, uint8_t *done) {
  int64_t n = t->size;
  for (int64_t k = 1; k < n; k++) {
    int64_t peer = (t->rank + k) % n;
    if (t->vtbl->receive(t, pm_slot_vote_in(t, peer), peer, PM_TAG_VOTE, &votes[peer], sizeof *votes)) return false;
  }
  for (int64_t k = 1; k < n; k++) {
    int64_t peer = (t->rank + k) % n;
    if (t->vtbl->send(t, pm_slot_vote_out(t, peer), peer, PM_TAG_VOTE, mine, sizeof *mine)) return false;
  }
  double start = pm_clock_seconds();
  for (int64_t turn = 0; left(done, 2 * n) > 0; turn++) {
    bool any;
    if (t->vtbl->test(t, pm_slot_vote_in(t, 0), 2 * n, done, &any)) return false;
    if (any) continue;
    if (pm_clock_seconds() - start > seconds) return false;
    if (turn < SPINS) {
      sched_yield();
    } else {
      nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
    }
  }
  return true;
}

bool pm_transport_vote(PmTransport *t, PmVote mine, double seconds, PmVote *out_votes, uint8_t *out_heard) {
  int64_t n = t->size;
  // What is sent and received lives on when this gives up: the library may still touch it.
  struct {
    PmVote mine;
    PmVote votes[];
  } *shared = calloc(1, sizeof *shared + (size_t)n * sizeof *shared->votes);
  uint8_t *done = calloc(2, (size_t)n);
  if (!shared || !done) pm_memory_exhausted((size_t)n * sizeof *shared->votes, 0);
  shared->mine = mine;
  shared->votes[t->rank] = mine;
  done[t->rank] = done[n + t->rank] = 1;
  bool all = exchange(t, &shared->mine, seconds, shared->votes, done);
  memcpy(out_votes, shared->votes, (size_t)n * sizeof *out_votes);
  memcpy(out_heard, done, (size_t)n);
  free(done);
  if (all) free(shared);
  return all;
}
