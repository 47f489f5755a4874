// Collectives between processes, out of messages between every two members. Sums are made in member order.
#include <string.h>

#include "runtime/comm/exchange.h"
#include "runtime/comm/reduce.h"

#define SMALL_BYTES 4096  // an all-reduce of so many bytes sends everything to everybody, once
#define PACK_BYTES 65536  // parts of up to so many bytes are copied together, larger ones travel from where they are

int64_t pm_remote_staging_part(const PmRemote *r, const PmRemoteGroup *f) {
  int64_t part = r->options.staging_bytes / f->n / 64 * 64;
  return part > 64 ? part : 64;
}

// Everybody's part of `bytes` bytes: this member's at `mine`, the others' in the staging, where they have arrived.
static void reduce_parts(PmRemote *r, const PmRemoteGroup *f, const PmColl *c, const char *mine, int64_t bytes,
                         char *out) {
  for (int32_t i = 0; i < f->n; i++) r->parts[i] = i == f->me ? mine : r->staging + i * pm_remote_staging_part(r, f);
  pm_reduce((PmKDtype)c->dtype, c->reduce, r->parts, f->n, 0, bytes, out);
}

typedef PmStatus *CollFn(PmRemote *r, const PmRemoteGroup *f, const PmCommCall *call);

static PmStatus *all_gather(PmRemote *r, const PmRemoteGroup *f, const PmCommCall *call) {
  int64_t part = call->coll->count * pm_kdtype_bytes((PmKDtype)call->coll->dtype);
  for (int32_t i = 0; i < f->n; i++) r->moves[i] = (PmMove){call->src, call->dst + i * part, part, part};
  memcpy(call->dst + f->me * part, call->src, (size_t)part);
  return pm_remote_exchange(r, f, call);
}

static PmStatus *all_to_all(PmRemote *r, const PmRemoteGroup *f, const PmCommCall *call) {
  int64_t part = call->coll->count * pm_kdtype_bytes((PmKDtype)call->coll->dtype);
  for (int32_t i = 0; i < f->n; i++) {
    r->moves[i] = (PmMove){call->src + i * part, call->dst + i * part, part, part};
  }
  memcpy(call->dst + f->me * part, call->src + f->me * part, (size_t)part);
  return pm_remote_exchange(r, f, call);
}

static PmStatus *reduce_scatter(PmRemote *r, const PmRemoteGroup *f, const PmCommCall *call) {
  const PmColl *c = call->coll;
  int64_t part = c->count * pm_kdtype_bytes((PmKDtype)c->dtype), step = pm_remote_staging_part(r, f), at = 0;
  do {
    int64_t n = part - at < step ? part - at : step;
    for (int32_t i = 0; i < f->n; i++) {
      r->moves[i] = (PmMove){call->src + i * part + at, r->staging + i * step, n, n};
    }
    PM_TRY(pm_remote_exchange(r, f, call));
    reduce_parts(r, f, c, call->src + f->me * part + at, n, call->dst + at);
    at += n;
  } while (at < part);
  return NULL;
}

// Bytes [*out_begin, *out_begin + result) of `elements` elements are member i's.
static int64_t slice_of(const PmRemoteGroup *f, int32_t i, int64_t elements, int64_t size, int64_t *out_begin) {
  int64_t per = elements / f->n, rest = elements % f->n;
  *out_begin = (per * i + (i < rest ? i : rest)) * size;
  return (per + (i < rest)) * size;
}

// A run of elements: each member reduces its slice of it, then everybody gets everybody's slice. dst may be src.
static PmStatus *all_reduce_run(PmRemote *r, const PmRemoteGroup *f, const PmCommCall *call, const char *src, char *dst,
                                int64_t elements) {
  const PmColl *c = call->coll;
  int64_t size = pm_kdtype_bytes((PmKDtype)c->dtype), begin, my_begin;
  int64_t mine = slice_of(f, f->me, elements, size, &my_begin);
  for (int32_t i = 0; i < f->n; i++) {
    int64_t theirs = slice_of(f, i, elements, size, &begin);
    r->moves[i] = (PmMove){src + begin, r->staging + i * pm_remote_staging_part(r, f), theirs, mine};
  }
  PM_TRY(pm_remote_exchange(r, f, call));
  reduce_parts(r, f, c, src + my_begin, mine, dst + my_begin);
  for (int32_t i = 0; i < f->n; i++) {
    int64_t theirs = slice_of(f, i, elements, size, &begin);
    r->moves[i] = (PmMove){dst + my_begin, dst + begin, mine, theirs};
  }
  return pm_remote_exchange(r, f, call);
}

// Any number of elements; dst may be src.
static PmStatus *all_reduce_at(PmRemote *r, const PmRemoteGroup *f, const PmCommCall *call, const char *src, char *dst,
                               int64_t elements) {
  int64_t size = pm_kdtype_bytes((PmKDtype)call->coll->dtype), bytes = elements * size;
  if (bytes <= SMALL_BYTES && bytes <= pm_remote_staging_part(r, f)) {
    for (int32_t i = 0; i < f->n; i++) {
      r->moves[i] = (PmMove){src, r->staging + i * pm_remote_staging_part(r, f), bytes, bytes};
    }
    PM_TRY(pm_remote_exchange(r, f, call));
    reduce_parts(r, f, call->coll, src, bytes, dst);
    return NULL;
  }
  int64_t step = pm_remote_staging_part(r, f) / size * f->n;
  for (int64_t at = 0; at < elements; at += step) {
    int64_t n = elements - at < step ? elements - at : step;
    PM_TRY(all_reduce_run(r, f, call, src + at * size, dst + at * size, n));
  }
  return NULL;
}

static bool is_packed(const PmRemote *r, const PmRemoteGroup *f, int64_t bytes) {
  return bytes <= PACK_BYTES && bytes <= pm_remote_staging_part(r, f);
}

// Copies the sources of the packed ones of the parts [first, last) to `pack`, one behind the other, or, `back`, their
// results from there. Returns their elements.
static int64_t copy_pack(const PmRemote *r, const PmRemoteGroup *f, const PmCommCall *call, int32_t first, int32_t last,
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
static PmStatus *reduce_pack(PmRemote *r, const PmRemoteGroup *f, const PmCommCall *call, int32_t first, int32_t last) {
  char *pack = r->staging + f->me * pm_remote_staging_part(r, f);
  int64_t elements = copy_pack(r, f, call, first, last, false, pack);
  PM_TRY(all_reduce_at(r, f, call, pack, pack, elements));
  copy_pack(r, f, call, first, last, true, pack);
  return NULL;
}

static PmStatus *all_reduce(PmRemote *r, const PmRemoteGroup *f, const PmCommCall *call) {
  const PmColl *c = call->coll;
  if (c->n_more == 0) return all_reduce_at(r, f, call, call->src, call->dst, c->count);
  int64_t size = pm_kdtype_bytes((PmKDtype)c->dtype), packed = 0;
  int32_t first = 0;
  for (int32_t i = 0; i <= c->n_more; i++) {
    int64_t bytes = pm_coll_part(c, i).count * size;
    if (!is_packed(r, f, bytes)) continue;
    if (packed + bytes > pm_remote_staging_part(r, f)) {
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

static PmStatus *permute(PmRemote *r, const PmRemoteGroup *f, const PmCommCall *call) {
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
  return pm_remote_exchange(r, f, call);
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

int64_t pm_remote_position_bytes(const PmColl *c, int64_t n) {
  return n * ((int64_t)sizeof(int32_t) + 2 * c->rows->width * pm_kdtype_bytes((PmKDtype)c->dtype));
}

static Exchange begin_rows(PmRemote *r, const PmRemoteGroup *f, const PmCommCall *call) {
  const PmColl *c = call->coll;
  for (int32_t i = 0; i < f->n; i++) r->row_parts[i] = pm_row_part(r->p, c, f->ranks[i]);
  int64_t room = r->options.staging_bytes / pm_remote_position_bytes(c, f->n);
  Exchange x = {.call = call, .row_bytes = r->row_parts[f->me].row_bytes, .room = room > 0 ? room : 1};
  x.out = r->staging + f->n * x.room * (int64_t)sizeof(int32_t);
  x.in = x.out + f->n * x.room * x.row_bytes;
  return x;
}

static int32_t *indices_of(const PmRemote *r, const Exchange *x, int32_t i) {
  return (int32_t *)(void *)r->staging + i * x->room;
}

static PmStatus *tell_indices(PmRemote *r, const PmRemoteGroup *f, Exchange *x) {
  int64_t left = x->call->coll->count - x->at;
  x->n = left < x->room ? left : x->room;
  int64_t bytes = x->n * (int64_t)sizeof(int32_t);
  const char *mine = (const char *)(x->call->idx + x->at);
  for (int32_t i = 0; i < f->n; i++) r->moves[i] = (PmMove){mine, (char *)indices_of(r, x, i), bytes, bytes};
  if (bytes > 0) memcpy(indices_of(r, x, f->me), mine, (size_t)bytes);
  return pm_remote_exchange(r, f, x->call);
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

static PmStatus *gather_rows(PmRemote *r, const PmRemoteGroup *f, const PmCommCall *call) {
  Exchange x = begin_rows(r, f, call);
  memset(call->dst, 0, (size_t)(call->coll->count * x.row_bytes));
  do {
    PM_TRY(tell_indices(r, f, &x));
    const int32_t *mine = indices_of(r, &x, f->me);
    for (int32_t i = 0; i < f->n; i++) {
      char *out = x.out + i * x.room * x.row_bytes, *in = x.in + i * x.room * x.row_bytes;
      int64_t n_out =
          pack_rows(&x, &r->row_parts[f->me], indices_of(r, &x, i), call->src, false, i == f->me ? in : out);
      r->moves[i] = (PmMove){out, in, n_out, pack_rows(&x, &r->row_parts[i], mine, NULL, false, NULL)};
    }
    PM_TRY(pm_remote_exchange(r, f, call));
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

static PmStatus *scatter_rows(PmRemote *r, const PmRemoteGroup *f, const PmCommCall *call) {
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
      r->moves[i] = (PmMove){out, in, n_out, pack_rows(&x, own, indices_of(r, &x, i), NULL, true, NULL)};
    }
    PM_TRY(pm_remote_exchange(r, f, call));
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

PmStatus *pm_remote_collective(PmRemote *r, const PmRemoteGroup *f, const PmCommCall *call) {
  return coll_fns[call->coll->kind](r, f, call);
}
