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
#include "runtime/comm/groups.h"
#include "runtime/comm/reduce.h"
#include "runtime/comm/remote.h"
#include "runtime/comm/say.h"
#include "runtime/comm/tags.h"
#include "runtime/futex.h"
#include "runtime/rows.h"

#define SMALL_BYTES 4096  // an all-reduce of so many bytes sends everything to everybody, once
#define PACK_BYTES 65536  // parts of up to so many bytes are copied together, larger ones travel from where they are
#define SPINS 200
#define BUSY_S 0.002  // a waiting rank sleeps after this
#define NAP_NS 100000
#define NOTICE_S 0.2  // for a notice to leave

typedef struct Head {
  int64_t step;
  uint64_t form;      // pm_coll_form
  int32_t line, col;  // line 0: no place
  char op[48], path[104];
} Head;

typedef struct Notice {
  int32_t world, code;
  char text[PM_MESSAGE_BYTES];
} Notice;

typedef struct Move {  // what goes to a member, and what comes from it
  const char *out;
  char *in;
  int64_t out_bytes, in_bytes;
} Move;

typedef struct Family {  // the group of one list of mesh axes that this rank is in
  int32_t n_mesh;
  uint8_t mesh[PM_PROGRAM_MAX_MESH];
  int32_t n, me;
  int64_t *ranks;
} Family;

typedef struct Remote {
  PmComm base;
  PmArena arena;
  const PmProgram *p;
  PmTransport *t;
  PmCommOptions options;
  int32_t world;
  int32_t n_families, cap_families;
  Family *families;
  // Of the collective that runs. Slots, n of each: heads in, heads out, data in, data out.
  int64_t n_open;
  uint8_t *open, *done;
  Head head, *heads;
  Move *moves;
  const char **parts;
  char *staging;
  PmRowPart *row_parts;   // the members' parts of a table
  int32_t *row_from;      // the member that wrote a row last
  int64_t most_rows;      // of any table
  int64_t least_staging;  // for one row of each member
  PmCode failed;
  char failure[PM_MESSAGE_BYTES];
} Remote;

enum { HEAD_IN, HEAD_OUT, DATA_IN, DATA_OUT, RANGES };

// ---- failing -------------------------------------------------------------------------------------------------------
static void report(const Remote *r, PmCode failed, const char *text) {
  if (r->options.report) {
    r->options.report(r->options.context, failed, text);
  } else if (!failed) {
    fprintf(stderr, "pmodel: warning: %s\n", text);
  }
}

static PmStatus *failure(const Remote *r) {
  PmStatus *st = PM_STATUS(r->failed, "%s", r->failure);
  return pm_status_wrap(st, __FILE__, __LINE__, "seen by rank %lld", (long long)r->base.rank);
}

static void drop_open(Remote *r, int32_t n) {
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
static bool notices_left(Remote *r) {
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

static void notify(Remote *r) {
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

static PmStatus *fail(Remote *r, const Family *f, PmCode code, const char *text, bool first_hand) {
  r->failed = code;
  snprintf(r->failure, sizeof r->failure, "%s", text);
  drop_open(r, f ? f->n : 0);
  if (first_hand) notify(r);
  report(r, code, text);
  return failure(r);
}

// NULL and *out_err 0 when no rank of this communicator has given up.
static PmStatus *take_notice(Remote *r, const Family *f, int *out_err) {
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
static PmStatus *broken(Remote *r, const Family *f, const PmCommCall *call, int err) {
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

static PmStatus *read_notices(Remote *r, const Family *f, const PmCommCall *call) {
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

static void fill_head(Head *h, const PmCommCall *call) {
  h->step = call->step;
  h->form = pm_coll_form(call->coll);
  h->line = call->loc ? call->loc->line : 0;
  h->col = call->loc ? call->loc->col : 0;
  copy_text(h->op, sizeof h->op, call->op ? call->op : "a collective");
  copy_text(h->path, sizeof h->path, call->loc ? call->loc->path : "");
}

static bool same_head(const Head *a, const Head *b) { return a->step == b->step && a->form == b->form; }

static void say_head(PmMessage *m, Head *h) {
  h->op[sizeof h->op - 1] = h->path[sizeof h->path - 1] = '\0';
  PmProgLoc loc = {.path = h->path, .line = h->line, .col = h->col};
  pm_say_place(m, &(PmCommCall){.op = h->op, .loc = h->line > 0 ? &loc : NULL, .step = h->step});
}

// Of the heads that have arrived.
static PmStatus *check_head(Remote *r, const Family *f, int32_t i) {
  if (same_head(&r->heads[i], &r->head)) return NULL;
  PmMessage m = {.len = 0};
  pm_say(&m, "rank %lld is", (long long)r->base.rank);
  say_head(&m, &r->head);
  pm_say(&m, ", but rank %lld is", (long long)f->ranks[i]);
  say_head(&m, &r->heads[i]);
  return fail(r, f, PM_ERR_PEER, m.text, true);
}

// ---- waiting -------------------------------------------------------------------------------------------------------
static void say_waiting(PmMessage *m, const Remote *r, const Family *f, const PmCommCall *call, double waited) {
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
static PmStatus *settle(Remote *r, const Family *f, const PmCommCall *call, int err) {
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

static PmStatus *be_patient(Remote *r, const Family *f, const PmCommCall *call, double waited, bool *warned) {
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

static PmStatus *wait_all(Remote *r, const Family *f, const PmCommCall *call) {
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
static int post(Remote *r, const Family *f, int32_t range, int32_t i, int kind, void *bytes, int64_t n) {
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

static PmStatus *send_heads(Remote *r, const Family *f, const PmCommCall *call) {
  int err = 0;
  fill_head(&r->head, call);
  for (int32_t k = 1; k < f->n && !err; k++) {
    int32_t to = (f->me + k) % f->n, from = (f->me + f->n - k) % f->n;
    err = post(r, f, HEAD_IN, from, PM_TAG_HEAD, &r->heads[from], sizeof r->head);
    if (!err) err = post(r, f, HEAD_OUT, to, PM_TAG_HEAD, &r->head, sizeof r->head);
  }
  return err ? broken(r, f, call, err) : NULL;
}

static int64_t piece(const Remote *r, int64_t bytes, int64_t at) {
  int64_t n = bytes - at;
  return n < 0 ? 0 : n > r->t->max_bytes ? r->t->max_bytes : n;
}

// Makes the moves of all members but this one; heads that are under way are waited for too.
static PmStatus *exchange(Remote *r, const Family *f, const PmCommCall *call) {
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
      const Move *in = &r->moves[from], *out = &r->moves[to];
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

// Bytes of staging for one member's part, whole cache lines.
static int64_t staging_part(const Remote *r, const Family *f) {
  int64_t part = r->options.staging_bytes / f->n / 64 * 64;
  return part > 64 ? part : 64;
}

// Everybody's part of `bytes` bytes: this member's at `mine`, the others' in the staging, where they have arrived.
static void reduce_parts(Remote *r, const Family *f, const PmColl *c, const char *mine, int64_t bytes, char *out) {
  for (int32_t i = 0; i < f->n; i++) r->parts[i] = i == f->me ? mine : r->staging + i * staging_part(r, f);
  pm_reduce((PmKDtype)c->dtype, c->reduce, r->parts, f->n, 0, bytes, out);
}

typedef PmStatus *CollFn(Remote *r, const Family *f, const PmCommCall *call);

static PmStatus *all_gather(Remote *r, const Family *f, const PmCommCall *call) {
  int64_t part = call->coll->count * pm_kdtype_bytes((PmKDtype)call->coll->dtype);
  for (int32_t i = 0; i < f->n; i++) r->moves[i] = (Move){call->src, call->dst + i * part, part, part};
  memcpy(call->dst + f->me * part, call->src, (size_t)part);
  return exchange(r, f, call);
}

static PmStatus *all_to_all(Remote *r, const Family *f, const PmCommCall *call) {
  int64_t part = call->coll->count * pm_kdtype_bytes((PmKDtype)call->coll->dtype);
  for (int32_t i = 0; i < f->n; i++) {
    r->moves[i] = (Move){call->src + i * part, call->dst + i * part, part, part};
  }
  memcpy(call->dst + f->me * part, call->src + f->me * part, (size_t)part);
  return exchange(r, f, call);
}

static PmStatus *reduce_scatter(Remote *r, const Family *f, const PmCommCall *call) {
  const PmColl *c = call->coll;
  int64_t part = c->count * pm_kdtype_bytes((PmKDtype)c->dtype), step = staging_part(r, f), at = 0;
  do {
    int64_t n = part - at < step ? part - at : step;
    for (int32_t i = 0; i < f->n; i++) {
      r->moves[i] = (Move){call->src + i * part + at, r->staging + i * step, n, n};
    }
    PM_TRY(exchange(r, f, call));
    reduce_parts(r, f, c, call->src + f->me * part + at, n, call->dst + at);
    at += n;
  } while (at < part);
  return NULL;
}

// Bytes [*out_begin, *out_begin + result) of `elements` elements are member i's.
static int64_t slice_of(const Family *f, int32_t i, int64_t elements, int64_t size, int64_t *out_begin) {
  int64_t per = elements / f->n, rest = elements % f->n;
  *out_begin = (per * i + (i < rest ? i : rest)) * size;
  return (per + (i < rest)) * size;
}

// A run of elements: each member reduces its slice of it, then everybody gets everybody's slice. dst may be src.
static PmStatus *all_reduce_run(Remote *r, const Family *f, const PmCommCall *call, const char *src, char *dst,
                                int64_t elements) {
  const PmColl *c = call->coll;
  int64_t size = pm_kdtype_bytes((PmKDtype)c->dtype), begin, my_begin;
  int64_t mine = slice_of(f, f->me, elements, size, &my_begin);
  for (int32_t i = 0; i < f->n; i++) {
    int64_t theirs = slice_of(f, i, elements, size, &begin);
    r->moves[i] = (Move){src + begin, r->staging + i * staging_part(r, f), theirs, mine};
  }
  PM_TRY(exchange(r, f, call));
  reduce_parts(r, f, c, src + my_begin, mine, dst + my_begin);
  for (int32_t i = 0; i < f->n; i++) {
    int64_t theirs = slice_of(f, i, elements, size, &begin);
    r->moves[i] = (Move){dst + my_begin, dst + begin, mine, theirs};
  }
  return exchange(r, f, call);
}

// Any number of elements; dst may be src.
static PmStatus *all_reduce_at(Remote *r, const Family *f, const PmCommCall *call, const char *src, char *dst,
                               int64_t elements) {
  int64_t size = pm_kdtype_bytes((PmKDtype)call->coll->dtype), bytes = elements * size;
  if (bytes <= SMALL_BYTES && bytes <= staging_part(r, f)) {
    for (int32_t i = 0; i < f->n; i++) {
      r->moves[i] = (Move){src, r->staging + i * staging_part(r, f), bytes, bytes};
    }
    PM_TRY(exchange(r, f, call));
    reduce_parts(r, f, call->coll, src, bytes, dst);
    return NULL;
  }
  int64_t step = staging_part(r, f) / size * f->n;
  for (int64_t at = 0; at < elements; at += step) {
    int64_t n = elements - at < step ? elements - at : step;
    PM_TRY(all_reduce_run(r, f, call, src + at * size, dst + at * size, n));
  }
  return NULL;
}

static bool is_packed(const Remote *r, const Family *f, int64_t bytes) {
  return bytes <= PACK_BYTES && bytes <= staging_part(r, f);
}

// Copies the sources of the packed ones of the parts [first, last) to `pack`, one behind the other, or, `back`, their
// results from there. Returns their elements.
static int64_t copy_pack(const Remote *r, const Family *f, const PmCommCall *call, int32_t first, int32_t last,
                         bool back, char *pack) {
  int64_t size = pm_kdtype_bytes((PmKDtype)call->coll->dtype), at = 0;
  for (int32_t i = first; i < last; i++) {
    int64_t bytes = pm_coll_part(call->coll, i).count * size;
    if (!is_packed(r, f, bytes)) continue;
    if (back)
      memcpy(pm_comm_dst(call, i), pack + at, (size_t)bytes);
    else
      memcpy(pack + at, pm_comm_src(call, i), (size_t)bytes);
    at += bytes;
  }
  return at / size;
}

// Reduces the packed ones of the parts [first, last), which together fit the part of the staging where nothing arrives.
static PmStatus *reduce_pack(Remote *r, const Family *f, const PmCommCall *call, int32_t first, int32_t last) {
  char *pack = r->staging + f->me * staging_part(r, f);
  int64_t elements = copy_pack(r, f, call, first, last, false, pack);
  PM_TRY(all_reduce_at(r, f, call, pack, pack, elements));
  copy_pack(r, f, call, first, last, true, pack);
  return NULL;
}

static PmStatus *all_reduce(Remote *r, const Family *f, const PmCommCall *call) {
  const PmColl *c = call->coll;
  if (c->n_more == 0) return all_reduce_at(r, f, call, call->src, call->dst, c->count);
  int64_t size = pm_kdtype_bytes((PmKDtype)c->dtype), packed = 0;
  int32_t first = 0;
  for (int32_t i = 0; i <= c->n_more; i++) {
    int64_t bytes = pm_coll_part(c, i).count * size;
    if (!is_packed(r, f, bytes)) continue;
    if (packed + bytes > staging_part(r, f)) {
      PM_TRY(reduce_pack(r, f, call, first, i));
      first = i;
      packed = 0;
    }
    packed += bytes;
  }
  // Of nothing too: heads are waited for.
  PM_TRY(reduce_pack(r, f, call, first, c->n_more + 1));
  for (int32_t i = 0; i <= c->n_more; i++) {
    int64_t count = pm_coll_part(c, i).count;
    if (is_packed(r, f, count * size)) continue;
    PM_TRY(all_reduce_at(r, f, call, pm_comm_src(call, i), pm_comm_dst(call, i), count));
  }
  return NULL;
}

static PmStatus *permute(Remote *r, const Family *f, const PmCommCall *call) {
  const PmColl *c = call->coll;
  int64_t bytes = c->count * pm_kdtype_bytes((PmKDtype)c->dtype), source = pm_coll_source(r->p, c, f->me);
  memset(r->moves, 0, (size_t)f->n * sizeof *r->moves);
  for (int32_t i = 0; i < f->n; i++) {
    if (pm_coll_source(r->p, c, i) != f->me) continue;
    r->moves[i].out = call->src;
    r->moves[i].out_bytes = bytes;
  }
  r->moves[source].in = call->dst;
  r->moves[source].in_bytes = bytes;
  if (source == f->me) memcpy(call->dst, call->src, (size_t)bytes);
  return exchange(r, f, call);
}

// ---- rows ----------------------------------------------------------------------------------------------------------
// Rows travel packed, in the order of their positions. Who sends how many to whom follows from the indices, which all
// members tell each other first. The staging holds, for so many positions of each member as fit it: everybody's
// indices, what goes to everybody, what comes from everybody.
typedef struct Exchange {
  const PmCommCall *call;
  int64_t row_bytes;
  int64_t at, n, room;  // positions [at, at + n) of each member; room for so many
  char *out, *in;       // a member's part has room * row_bytes
} Exchange;

// Bytes of staging for one position of each of n members.
static int64_t position_bytes(const PmColl *c, int64_t n) {
  return n * ((int64_t)sizeof(int32_t) + 2 * c->rows->width * pm_kdtype_bytes((PmKDtype)c->dtype));
}

static Exchange begin_rows(Remote *r, const Family *f, const PmCommCall *call) {
  const PmColl *c = call->coll;
  for (int32_t i = 0; i < f->n; i++) r->row_parts[i] = pm_row_part(r->p, c, f->ranks[i]);
  int64_t room = r->options.staging_bytes / position_bytes(c, f->n);
  Exchange x = {.call = call, .row_bytes = r->row_parts[f->me].row_bytes, .room = room > 0 ? room : 1};
  x.out = r->staging + f->n * x.room * (int64_t)sizeof(int32_t);
  x.in = x.out + f->n * x.room * x.row_bytes;
  return x;
}

static int32_t *indices_of(const Remote *r, const Exchange *x, int32_t i) {
  return (int32_t *)(void *)r->staging + i * x->room;
}

static PmStatus *tell_indices(Remote *r, const Family *f, Exchange *x) {
  int64_t left = x->call->coll->count - x->at;
  x->n = left < x->room ? left : x->room;
  int64_t bytes = x->n * (int64_t)sizeof(int32_t);
  const char *mine = (const char *)(x->call->idx + x->at);
  for (int32_t i = 0; i < f->n; i++) r->moves[i] = (Move){mine, (char *)indices_of(r, x, i), bytes, bytes};
  if (bytes > 0) memcpy(indices_of(r, x, f->me), mine, (size_t)bytes);
  return exchange(r, f, x->call);
}

// Packs those rows of `from` that these indices name in the part; `packed`: `from` has a row for each position instead
// of the part's. Returns the bytes.
static int64_t pack_rows(const Exchange *x, const PmRowPart *part, const int32_t *idx, const char *from, bool packed,
                         char *to) {
  int64_t bytes = 0;
  for (int64_t k = 0; k < x->n; k++) {
    int64_t at = pm_row_at(part, idx[k]);
    if (at < 0) continue;
    if (to) memcpy(to + bytes, from + (packed ? k * x->row_bytes : at), (size_t)x->row_bytes);
    bytes += x->row_bytes;
  }
  return bytes;
}

static PmStatus *gather_rows(Remote *r, const Family *f, const PmCommCall *call) {
  Exchange x = begin_rows(r, f, call);
  memset(call->dst, 0, (size_t)(call->coll->count * x.row_bytes));
  do {
    PM_TRY(tell_indices(r, f, &x));
    const int32_t *mine = indices_of(r, &x, f->me);
    for (int32_t i = 0; i < f->n; i++) {
      char *out = x.out + i * x.room * x.row_bytes, *in = x.in + i * x.room * x.row_bytes;
      int64_t n_out =
          pack_rows(&x, &r->row_parts[f->me], indices_of(r, &x, i), call->src, false, i == f->me ? in : out);
      r->moves[i] = (Move){out, in, n_out, pack_rows(&x, &r->row_parts[i], mine, NULL, false, NULL)};
    }
    PM_TRY(exchange(r, f, call));
    for (int32_t i = 0; i < f->n; i++) {
      const char *in = x.in + i * x.room * x.row_bytes;
      for (int64_t k = 0; k < x.n; k++) {
        if (pm_row_at(&r->row_parts[i], mine[k]) < 0) continue;
        memcpy(call->dst + (x.at + k) * x.row_bytes, in, (size_t)x.row_bytes);
        in += x.row_bytes;
      }
    }
    x.at += x.n;
  } while (x.at < call->coll->count);
  return NULL;
}

static PmStatus *scatter_rows(Remote *r, const Family *f, const PmCommCall *call) {
  Exchange x = begin_rows(r, f, call);
  const PmRowPart *own = &r->row_parts[f->me];
  memset(call->dst, 0, (size_t)own->bytes);
  memset(r->row_from, 0, (size_t)(own->local[0] * own->local[1]) * sizeof *r->row_from);
  do {
    PM_TRY(tell_indices(r, f, &x));
    const int32_t *mine = indices_of(r, &x, f->me);
    const char *src = call->src + x.at * x.row_bytes;
    for (int32_t i = 0; i < f->n; i++) {
      char *out = x.out + i * x.room * x.row_bytes, *in = x.in + i * x.room * x.row_bytes;
      int64_t n_out = pack_rows(&x, &r->row_parts[i], mine, src, true, i == f->me ? in : out);
      r->moves[i] = (Move){out, in, n_out, pack_rows(&x, own, indices_of(r, &x, i), NULL, true, NULL)};
    }
    PM_TRY(exchange(r, f, call));
    for (int32_t i = 0; i < f->n; i++) {
      const char *in = x.in + i * x.room * x.row_bytes;
      for (int64_t k = 0; k < x.n; k++) {
        int64_t at = pm_row_at(own, indices_of(r, &x, i)[k]);
        if (at < 0) continue;
        // Of several the last member's counts, though another's later positions come after it.
        int32_t *from = &r->row_from[at / x.row_bytes];
        if (*from <= i) {
          memcpy(call->dst + at, in, (size_t)x.row_bytes);
          *from = i;
        }
        in += x.row_bytes;
      }
    }
    x.at += x.n;
  } while (x.at < call->coll->count);
  return NULL;
}

static CollFn *const coll_fns[] = {
#define COLL(NAME, name, fn) [PM_COLL_##NAME] = fn,
#include "runtime/colls.def"
};

static Family *find_family(const Remote *r, const PmColl *c) {
  for (int32_t f = 0; f < r->n_families; f++) {
    if (pm_comm_same_group(c, r->families[f].n_mesh, r->families[f].mesh)) return &r->families[f];
  }
  return NULL;
}

static PmStatus *run(PmComm *comm, const PmCommCall *call) {
  Remote *r = (Remote *)comm;
  const PmColl *c = call->coll;
  const Family *f = find_family(r, c);
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
  return coll_fns[c->kind](r, f, call);
}

static void abandon(PmComm *comm, const char *why) {
  Remote *r = (Remote *)comm;
  if (r->failed) return;
  PmMessage m = {.len = 0};
  pm_say(&m, "rank %lld stopped: %s", (long long)comm->rank, why);
  pm_status_drop(fail(r, NULL, PM_ERR_PEER, m.text, true));
}

// ---- creation ------------------------------------------------------------------------------------------------------
static const PmCommVtbl vtbl = {.name = "remote", .run = run, .abandon = abandon};

static void add_family(void *context, const PmColl *c) {
  Remote *r = context;
  if (c->rows) {
    PmRowPart part = pm_row_part(r->p, c, r->base.rank);
    int64_t rows = part.local[0] * part.local[1], need = position_bytes(c, pm_comm_group_size(r->p, c));
    if (rows > r->most_rows) r->most_rows = rows;
    if (need > r->least_staging) r->least_staging = need;
  }
  if (find_family(r, c)) return;
  r->families = pm_grow(&r->arena, r->families, r->n_families, &r->cap_families, sizeof *r->families);
  Family *f = &r->families[r->n_families++];
  *f = (Family){.n_mesh = c->n_mesh, .n = (int32_t)pm_comm_group_size(r->p, c)};
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
  Remote *r = PM_NEW(&arena, Remote);
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
  r->heads = PM_NEW_N(&r->arena, Head, t->size);
  r->moves = PM_NEW_N(&r->arena, Move, t->size);
  r->parts = PM_NEW_N(&r->arena, const char *, t->size);
  if (r->options.staging_bytes <= 0) r->options.staging_bytes = PM_COMM_STAGING_BYTES;
  pm_comm_each_coll(p, add_family, r);
  int64_t staging = r->options.staging_bytes > r->least_staging ? r->options.staging_bytes : r->least_staging;
  for (int32_t f = 0; f < r->n_families; f++) {
    int64_t need = staging_part(r, &r->families[f]) * r->families[f].n;
    if (need > staging) staging = need;
  }
  r->row_parts = PM_NEW_N(&r->arena, PmRowPart, t->size);
  r->row_from = PM_NEW_N(&r->arena, int32_t, r->most_rows);
  r->staging = pm_arena_alloc(&r->arena, (size_t)staging);
  *out = &r->base;
  return NULL;
}

void pm_comm_remote_destroy(PmComm *comm) {
  PmArena arena = ((Remote *)comm)->arena;
  pm_arena_deinit(&arena);
}
