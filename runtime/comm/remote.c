// Ranks as processes. A collective is messages between every two members of its group, so that each member has
// everybody's part of what it computes, and adds in member order: the same bits as in runtime/comm/local.c.
//
// Before its data each member sends a head that says what it is about to do. No collective begins by making a group and
// none waits for anything but its members' messages, so nothing can hang but a rank that does not come; every wait
// looks for notices of ranks that have given up, and at the clock.
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/assert.h"
#include "runtime/comm/exchange.h"
#include "runtime/comm/groups.h"
#include "runtime/comm/remote.h"
#include "runtime/comm/say.h"
#include "runtime/comm/tags.h"
#include "runtime/futex.h"

#define SPINS 200
#define BUSY_S 0.002  // a waiting rank sleeps after this
#define NAP_NS 100000
#define NOTICE_S 0.2  // for a notice to leave

typedef struct Notice {
  int32_t world, code;
  char text[PM_MESSAGE_BYTES];
} Notice;

enum { HEAD_IN, HEAD_OUT, DATA_IN, DATA_OUT, RANGES };

// ---- failing -------------------------------------------------------------------------------------------------------
static void report(const PmRemote *r, PmCode failed, const char *text) {
  if (r->options.report) {
    r->options.report(r->options.context, failed, text);
  } else if (!failed) {
    fprintf(stderr, "pmodel: warning: %s\n", text);
  }
}

static PmStatus *failure(const PmRemote *r) {
  PmStatus *st = PM_STATUS(r->failed, "%s", r->failure);
  return pm_status_wrap(st, __FILE__, __LINE__, "seen by rank %lld", (long long)r->base.rank);
}

static void drop_open(PmRemote *r, int32_t n) {
  int tags[RANGES] = {
      [HEAD_IN] = pm_tag(r->world, PM_TAG_HEAD),
      [HEAD_OUT] = -1,
      [DATA_IN] = pm_tag(r->world, PM_TAG_DATA),
      [DATA_OUT] = -1,
  };
  for (int32_t range = 0; range < RANGES; range++) r->t->vtbl->drop(r->t, (int64_t)range * n, n, tags[range]);
  memset(r->open, 0, (size_t)(RANGES * r->t->size));
  memset(r->done, 0, (size_t)(RANGES * r->t->size));
  r->n_open = 0;
}

// Whether all notices have left, after at most NOTICE_S.
static bool notices_left(PmRemote *r) {
  int64_t n = r->t->size, open = 0;
  for (double start = pm_clock_seconds(); pm_clock_seconds() - start < NOTICE_S; sched_yield()) {
    bool any;
    // A rank that cannot be told does not keep the others from hearing of it.
    (void)r->t->vtbl->test(r->t, pm_slot_notice(r->t, 0), n, r->done, &any);
    open = 0;
    for (int64_t i = 0; i < n; i++) open += r->open[i] && !r->done[i];
    if (open == 0) break;
  }
  r->t->vtbl->drop(r->t, pm_slot_notice(r->t, 0), n, -1);
  memset(r->done, 0, (size_t)n);
  memset(r->open, 0, (size_t)n);
  return open == 0;
}

static void notify(PmRemote *r) {
  Notice *notice = calloc(1, sizeof *notice);
  if (!notice) return;
  *notice = (Notice){.world = r->world, .code = (int32_t)r->failed};
  memcpy(notice->text, r->failure, sizeof notice->text);
  for (int64_t rank = 0; rank < pm_program_ranks(r->p); rank++) {
    if (rank == r->base.rank) continue;
    int err = r->t->vtbl->send(r->t, pm_slot_notice(r->t, rank), rank, PM_TAG_NOTICE, notice, sizeof *notice);
    r->open[rank] = err == 0;
  }
  // A rank that is stuck may never take its notice: then the memory stays with the library.
  if (notices_left(r)) free(notice);
}

static PmStatus *fail(PmRemote *r, const PmRemoteGroup *f, PmCode code, const char *text, bool first_hand) {
  r->failed = code;
  snprintf(r->failure, sizeof r->failure, "%s", text);
  drop_open(r, f ? f->n : 0);
  if (first_hand) notify(r);
  report(r, code, text);
  return failure(r);
}

// NULL and *out_err 0 when no rank of this communicator has given up.
static PmStatus *take_notice(PmRemote *r, const PmRemoteGroup *f, int *out_err) {
  for (;;) {
    Notice notice;
    int64_t n;
    *out_err = r->t->vtbl->take(r->t, PM_TAG_NOTICE, &notice, sizeof notice, &n);
    if (*out_err || n < 0) return NULL;
    if (n != sizeof notice || notice.world != r->world) continue;
    notice.text[sizeof notice.text - 1] = '\0';
    return fail(r, f, (PmCode)notice.code, notice.text, false);
  }
}

// A rank that has said why it goes is not one that is lost.
static PmStatus *broken(PmRemote *r, const PmRemoteGroup *f, const PmCommCall *call, int err) {
  char text[256];
  int ignored;
  r->t->vtbl->describe(r->t, err, text, sizeof text);
  PM_TRY(take_notice(r, f, &ignored));
  PmMessage m = {.len = 0};
  pm_say(&m, "rank %lld lost its connection", (long long)r->base.rank);
  pm_say_place(&m, call);
  pm_say(&m, ": %s: %s", r->t->name, text);
  return fail(r, f, PM_ERR_PEER, m.text, true);
}

static PmStatus *read_notices(PmRemote *r, const PmRemoteGroup *f, const PmCommCall *call) {
  int err;
  PM_TRY(take_notice(r, f, &err));
  return err ? broken(r, f, call, err) : NULL;
}

// ---- heads ---------------------------------------------------------------------------------------------------------
static void copy_text(char *to, size_t room, const char *from) {
  size_t len = strnlen(from, room - 1);
  memcpy(to, from, len);
  memset(to + len, 0, room - len);
}

static void fill_head(PmRemoteHead *h, const PmCommCall *call) {
  h->step = call->step;
  h->form = pm_coll_form(call->coll);
  h->line = call->loc ? call->loc->line : 0;
  h->col = call->loc ? call->loc->col : 0;
  copy_text(h->op, sizeof h->op, call->op ? call->op : "a collective");
  copy_text(h->path, sizeof h->path, call->loc ? call->loc->path : "");
}

static bool same_head(const PmRemoteHead *a, const PmRemoteHead *b) { return a->step == b->step && a->form == b->form; }

static void say_head(PmMessage *m, PmRemoteHead *h) {
  h->op[sizeof h->op - 1] = h->path[sizeof h->path - 1] = '\0';
  PmProgLoc loc = {.path = h->path, .line = h->line, .col = h->col};
  pm_say_place(m, &(PmCommCall){.op = h->op, .loc = h->line > 0 ? &loc : NULL, .step = h->step});
}

// Of the heads that have arrived.
static PmStatus *check_head(PmRemote *r, const PmRemoteGroup *f, int32_t i) {
  if (same_head(&r->heads[i], &r->head)) return NULL;
  PmMessage m = {.len = 0};
  pm_say(&m, "rank %lld is", (long long)r->base.rank);
  say_head(&m, &r->head);
  pm_say(&m, ", but rank %lld is", (long long)f->ranks[i]);
  say_head(&m, &r->heads[i]);
  return fail(r, f, PM_ERR_PEER, m.text, true);
}

// ---- waiting -------------------------------------------------------------------------------------------------------
static void say_waiting(PmMessage *m, const PmRemote *r, const PmRemoteGroup *f, const PmCommCall *call,
                        double waited) {
  pm_say(m, "rank %lld has waited %.1f s for rank", (long long)r->base.rank, waited);
  const char *before = " ";
  for (int32_t i = 0; i < f->n; i++) {
    bool misses = false;
    for (int32_t range = 0; range < RANGES; range++) misses = misses || r->open[range * f->n + i];
    if (!misses) continue;
    pm_say(m, "%s%lld", before, (long long)f->ranks[i]);
    before = ", ";
  }
  pm_say_place(m, call);
}

// Books what has finished. Heads are looked at before an error is: members that do different things send each other
// messages of other lengths, which is the smaller news.
static PmStatus *settle(PmRemote *r, const PmRemoteGroup *f, const PmCommCall *call, int err) {
  PmStatus *st = NULL;
  for (int32_t i = 0; i < RANGES * f->n && !st; i++) {
    if (!r->done[i] || !r->open[i]) continue;
    bool arrived = r->done[i] == PM_SLOT_DONE;
    r->done[i] = r->open[i] = 0;
    r->n_open--;
    if (i < f->n && arrived) st = check_head(r, f, i);
  }
  return st || !err ? st : broken(r, f, call, err);
}

static PmStatus *be_patient(PmRemote *r, const PmRemoteGroup *f, const PmCommCall *call, double waited, bool *warned) {
  PM_TRY(read_notices(r, f, call));
  bool late = waited >= r->options.deadline_s;
  if (!late && (waited < r->options.warn_s || *warned)) return NULL;
  PmMessage m = {.len = 0};
  say_waiting(&m, r, f, call, waited);
  if (late) return fail(r, f, PM_ERR_DEADLINE, m.text, true);
  report(r, PM_OK, m.text);
  *warned = true;
  return NULL;
}

static PmStatus *wait_all(PmRemote *r, const PmRemoteGroup *f, const PmCommCall *call) {
  double start = 0;
  bool warned = false;
  for (int32_t idle = 0; r->n_open > 0;) {
    bool any;
    int err = r->t->vtbl->test(r->t, 0, (int64_t)RANGES * f->n, r->done, &any);
    if (any || err) PM_TRY(settle(r, f, call, err));
    if (any) {
      idle = 0;
      start = 0;
      continue;
    }
    sched_yield();
    if (++idle < SPINS) continue;
    if (start == 0) start = pm_clock_seconds();
    double waited = pm_clock_seconds() - start;
    PM_TRY(be_patient(r, f, call, waited, &warned));
    if (waited > BUSY_S) nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
  }
  return NULL;
}

// ---- exchanging ----------------------------------------------------------------------------------------------------
static int post(PmRemote *r, const PmRemoteGroup *f, int32_t range, int32_t i, int kind, void *bytes, int64_t n) {
  int64_t slot = (int64_t)range * f->n + i;
  int tag = pm_tag(r->world, kind);
  bool in = range == HEAD_IN || range == DATA_IN;
  int err = in ? r->t->vtbl->receive(r->t, slot, f->ranks[i], tag, bytes, n)
               : r->t->vtbl->send(r->t, slot, f->ranks[i], tag, bytes, n);
  if (err) return err;
  r->open[slot] = 1;
  r->n_open++;
  return 0;
}

static PmStatus *send_heads(PmRemote *r, const PmRemoteGroup *f, const PmCommCall *call) {
  int err = 0;
  fill_head(&r->head, call);
  for (int32_t k = 1; k < f->n && !err; k++) {
    int32_t to = (f->me + k) % f->n, from = (f->me + f->n - k) % f->n;
    err = post(r, f, HEAD_IN, from, PM_TAG_HEAD, &r->heads[from], sizeof r->head);
    if (!err) err = post(r, f, HEAD_OUT, to, PM_TAG_HEAD, &r->head, sizeof r->head);
  }
  return err ? broken(r, f, call, err) : NULL;
}

static int64_t piece(const PmRemote *r, int64_t bytes, int64_t at) {
  int64_t n = bytes - at;
  return n < 0 ? 0 : n > r->t->max_bytes ? r->t->max_bytes : n;
}

PmStatus *pm_remote_exchange(PmRemote *r, const PmRemoteGroup *f, const PmCommCall *call) {
  int64_t longest = 0;
  for (int32_t i = 0; i < f->n; i++) {
    if (r->moves[i].in_bytes > longest) longest = r->moves[i].in_bytes;
    if (r->moves[i].out_bytes > longest) longest = r->moves[i].out_bytes;
  }
  int64_t at = 0;
  do {
    int err = 0;
    for (int32_t k = 1; k < f->n && !err; k++) {
      int32_t to = (f->me + k) % f->n, from = (f->me + f->n - k) % f->n;
      const PmMove *in = &r->moves[from], *out = &r->moves[to];
      int64_t n_in = piece(r, in->in_bytes, at), n_out = piece(r, out->out_bytes, at);
      if (n_in > 0) err = post(r, f, DATA_IN, from, PM_TAG_DATA, in->in + at, n_in);
      if (n_out > 0 && !err) err = post(r, f, DATA_OUT, to, PM_TAG_DATA, (void *)(uintptr_t)(out->out + at), n_out);
    }
    if (err) return broken(r, f, call, err);
    PM_TRY(wait_all(r, f, call));
    at += r->t->max_bytes;
  } while (at < longest);
  return NULL;
}

static PmRemoteGroup *find_group(const PmRemote *r, const PmColl *c) {
  for (int32_t f = 0; f < r->n_groups; f++) {
    if (pm_comm_same_group(c, r->groups[f].n_mesh, r->groups[f].mesh)) return &r->groups[f];
  }
  return NULL;
}

static PmStatus *run(PmComm *comm, const PmCommCall *call) {
  PmRemote *r = (PmRemote *)comm;
  const PmColl *c = call->coll;
  const PmRemoteGroup *f = find_group(r, c);
  PM_ASSERT(f, "a collective that the program does not have");
  if (r->failed) return failure(r);
  if (f->n == 1 && !c->rows) {
    for (int32_t i = 0; i <= c->n_more; i++) {
      int64_t bytes = pm_coll_part(c, i).count * pm_kdtype_bytes((PmKDtype)c->dtype);
      if (pm_comm_src(call, i) != pm_comm_dst(call, i))
        memcpy(pm_comm_dst(call, i), pm_comm_src(call, i), (size_t)bytes);
    }
    return NULL;
  }
  PM_TRY(send_heads(r, f, call));
  return pm_remote_collective(r, f, call);
}

static void abandon(PmComm *comm, const char *why) {
  PmRemote *r = (PmRemote *)comm;
  if (r->failed) return;
  PmMessage m = {.len = 0};
  pm_say(&m, "rank %lld stopped: %s", (long long)comm->rank, why);
  pm_status_drop(fail(r, NULL, PM_ERR_PEER, m.text, true));
}

// ---- creation ------------------------------------------------------------------------------------------------------
static const PmCommVtbl vtbl = {.name = "remote", .run = run, .abandon = abandon};

static void add_group(void *context, const PmColl *c) {
  PmRemote *r = context;
  if (c->rows) {
    PmRowPart part = pm_row_part(r->p, c, r->base.rank);
    int64_t rows = part.local[0] * part.local[1], need = pm_remote_position_bytes(c, pm_comm_group_size(r->p, c));
    if (rows > r->most_rows) r->most_rows = rows;
    if (need > r->least_staging) r->least_staging = need;
  }
  if (find_group(r, c)) return;
  r->groups = pm_grow(&r->arena, r->groups, r->n_groups, &r->cap_groups, sizeof *r->groups);
  PmRemoteGroup *f = &r->groups[r->n_groups++];
  *f = (PmRemoteGroup){.n_mesh = c->n_mesh, .n = (int32_t)pm_comm_group_size(r->p, c)};
  memcpy(f->mesh, c->mesh, (size_t)c->n_mesh);
  f->ranks = PM_NEW_N(&r->arena, int64_t, f->n);
  int64_t member, mine = pm_comm_group_of(r->p, c, r->base.rank, &member);
  f->me = (int32_t)member;
  for (int64_t rank = 0; rank < pm_program_ranks(r->p); rank++) {
    if (pm_comm_group_of(r->p, c, rank, &member) == mine) f->ranks[member] = rank;
  }
}

PmStatus *pm_comm_remote_create(const PmProgram *p, PmTransport *t, const PmCommOptions *options, PmComm **out) {
  PM_ASSERT(t->rank < pm_program_ranks(p), "rank %lld", (long long)t->rank);
  PmArena arena;
  pm_arena_init(&arena, 0);
  PmRemote *r = PM_NEW(&arena, PmRemote);
  r->arena = arena;
  r->base = (PmComm){&vtbl, t->rank};
  r->p = p;
  r->t = t;
  r->world = t->worlds++ % PM_MAX_WORLDS;
  r->options = *options;
  if (r->options.warn_s <= 0) r->options.warn_s = PM_COMM_WARN_S;
  if (r->options.deadline_s <= 0) r->options.deadline_s = PM_COMM_DEADLINE_S;
  r->open = PM_NEW_N(&r->arena, uint8_t, RANGES * t->size);
  r->done = PM_NEW_N(&r->arena, uint8_t, RANGES * t->size);
  r->heads = PM_NEW_N(&r->arena, PmRemoteHead, t->size);
  r->moves = PM_NEW_N(&r->arena, PmMove, t->size);
  r->parts = PM_NEW_N(&r->arena, const char *, t->size);
  if (r->options.staging_bytes <= 0) r->options.staging_bytes = PM_COMM_STAGING_BYTES;
  pm_comm_each_coll(p, add_group, r);
  int64_t staging = r->options.staging_bytes > r->least_staging ? r->options.staging_bytes : r->least_staging;
  for (int32_t f = 0; f < r->n_groups; f++) {
    int64_t need = pm_remote_staging_part(r, &r->groups[f]) * r->groups[f].n;
    if (need > staging) staging = need;
  }
  r->row_parts = PM_NEW_N(&r->arena, PmRowPart, t->size);
  r->row_from = PM_NEW_N(&r->arena, int32_t, r->most_rows);
  r->staging = pm_arena_alloc(&r->arena, (size_t)staging);
  *out = &r->base;
  return NULL;
}

void pm_comm_remote_destroy(PmComm *comm) {
  PmArena arena = ((PmRemote *)comm)->arena;
  pm_arena_deinit(&arena);
}
