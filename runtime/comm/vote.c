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
#define LOST_S 2.0  // for the others, once a rank is lost

static int64_t count(const uint8_t *done, int64_t n, uint8_t state) {
  int64_t found = 0;
  for (int64_t i = 0; i < n; i++) found += done[i] == state;
  return found;
}

// A rank that cannot be reached is not waited for; the others are.
static void exchange(PmTransport *t, const PmVote *mine, double seconds, PmVote *votes, uint8_t *done) {
  int64_t n = t->size;
  for (int64_t k = 1; k < n; k++) {
    int64_t peer = (t->rank + k) % n;
    int err = t->vtbl->receive(t, pm_slot_vote_in(t, peer), peer, PM_TAG_VOTE, &votes[peer], sizeof *votes);
    if (err) done[peer] = PM_SLOT_FAILED;
  }
  for (int64_t k = 1; k < n; k++) {
    int64_t peer = (t->rank + k) % n;
    int err = t->vtbl->send(t, pm_slot_vote_out(t, peer), peer, PM_TAG_VOTE, mine, sizeof *mine);
    if (err) done[n + peer] = PM_SLOT_FAILED;
  }
  double until = pm_clock_seconds() + seconds;
  bool lost = false;
  for (int64_t turn = 0; count(done, 2 * n, 0) > 0; turn++) {
    bool any;
    int err = t->vtbl->test(t, pm_slot_vote_in(t, 0), 2 * n, done, &any);
    double now = pm_clock_seconds();
    if (!lost && count(done, 2 * n, PM_SLOT_FAILED) > 0) {
      lost = true;
      if (until > now + LOST_S) until = now + LOST_S;
    }
    if (any) continue;
    if (err || now > until) return;
    if (turn < SPINS) {
      sched_yield();
    } else {
      nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
    }
  }
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
  done[t->rank] = done[n + t->rank] = PM_SLOT_DONE;
  exchange(t, &shared->mine, seconds, shared->votes, done);
  bool all = count(done, 2 * n, PM_SLOT_DONE) == 2 * n;
  for (int64_t rank = 0; rank < n; rank++) out_heard[rank] = done[rank] == PM_SLOT_DONE;
  memcpy(out_votes, shared->votes, (size_t)n * sizeof *out_votes);
  free(done);
  if (all) free(shared);
  return all;
}
