// Proves a program safe to run from its own data. Order matters: each check relies on those before it.
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "runtime/validate.h"

#define MAX_WORK INT64_C(1000000000)  // of the independence proofs of one program: some seconds

typedef struct Live {  // buffers that live at one step, by offset
  int32_t *ids;
  int32_t n;
} Live;

typedef struct Event {
  int32_t step, id;
} Event;

typedef struct Context {
  const PmProgram *p;
  int64_t work;
  Live live;
  Event *begins, *ends;  // buffers of the entry by first and by last step
  int32_t entry;
} Context;

static int64_t aligned(int64_t v) { return (v + PM_ARENA_ALIGN - 1) / PM_ARENA_ALIGN * PM_ARENA_ALIGN; }

static bool inside(const PmRange *r, int64_t limit) {
  int64_t end;
  return r->offset >= 0 && r->bytes >= 0 && pm_add_i64(r->offset, r->bytes, &end) && end <= limit;
}

static bool overlap(const PmRange *a, const PmRange *b) {
  return a->bytes && b->bytes && a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

// ---- mesh, variables, outputs --------------------------------------------------------------------------------------
static PmStatus *check_head(const PmProgram *p) {
  if (p->n_mesh < 0 || p->n_mesh > PM_PROGRAM_MAX_MESH) return PM_BAD("%d mesh axes", p->n_mesh);
  int64_t ranks = 1;
  for (int32_t m = 0; m < p->n_mesh; m++) {
    if (!p->mesh_name[m] || p->mesh_size[m] < 1 || !pm_mul_i64(ranks, p->mesh_size[m], &ranks) ||
        ranks > PM_MAX_RANKS) {
      return PM_BAD("mesh axis %d has size %lld", m, (long long)p->mesh_size[m]);
    }
  }
  if (p->n_vars < 0 || p->n_kernels < 0 || p->n_buffers < 0 || p->n_locs < 0) return PM_BAD("negative counts");
  if (p->persistent_bytes < 0 || p->arena_bytes < p->persistent_bytes || p->live_bytes < 0 ||
      p->live_bytes > p->arena_bytes || p->arena_bytes > PM_MAX_ELEMENTS || p->steps < 0) {
    return PM_BAD("arena of %lld bytes, %lld persistent, %lld live", (long long)p->arena_bytes,
                  (long long)p->persistent_bytes, (long long)p->live_bytes);
  }
  for (int32_t i = 0; i < p->n_locs; i++) {
    if (!p->locs[i].path) return PM_BAD("location %d has no path", i);
  }
  return NULL;
}

static PmStatus *check_mesh_list(const PmProgram *p, const uint8_t *mesh, int32_t n, uint32_t *used) {
  if (n < 0 || n > PM_PROGRAM_MAX_MESH) return PM_BAD("a list of %d mesh axes", n);
  for (int32_t i = 0; i < n; i++) {
    if (mesh[i] >= p->n_mesh || (*used & (1u << mesh[i]))) return PM_BAD("mesh axis %d is unknown or twice", mesh[i]);
    *used |= 1u << mesh[i];
  }
  return NULL;
}

// Also proves that `at` has room for what a rank has of the value.
static PmStatus *check_dims(const PmProgram *p, const char *name, const PmVarDim *dims, int32_t rank, uint8_t dtype,
                            const PmRange *at) {
  if (!name || rank < 0 || rank > PM_PROGRAM_MAX_RANK || dtype >= PM_K_DTYPE_COUNT) {
    return PM_BAD("`%s` has %d dimensions", name ? name : "", rank);
  }
  uint32_t used = 0;
  int64_t bytes = pm_kdtype_bytes((PmKDtype)dtype), global = 1;
  for (int32_t i = 0; i < rank; i++) {
    PM_TRY(check_mesh_list(p, dims[i].mesh, dims[i].n_mesh, &used));
    int64_t shards = 1;
    for (int32_t m = 0; m < dims[i].n_mesh; m++) shards *= p->mesh_size[dims[i].mesh[m]];
    int64_t padded;
    if (!dims[i].axis || dims[i].size < 1 || dims[i].pad < 0 || !pm_add_i64(dims[i].size, dims[i].pad, &padded) ||
        padded % shards != 0) {
      return PM_BAD("`%s`: dimension %d of size %lld + %lld does not divide by %lld", name, i, (long long)dims[i].size,
                    (long long)dims[i].pad, (long long)shards);
    }
    if (dims[i].zigzag &&
        (dims[i].n_mesh == 0 || dims[i].pad != 0 || padded % (2 * p->mesh_size[dims[i].mesh[0]]) != 0)) {
      return PM_BAD("`%s`: dimension %d of size %lld has no two chunks a rank", name, i, (long long)dims[i].size);
    }
    if (!pm_mul_i64(global, padded, &global) || global > PM_MAX_ELEMENTS) return PM_BAD("`%s` is too large", name);
    bytes *= padded / shards;
  }
  if (!inside(at, p->arena_bytes) || at->bytes < bytes || at->offset % pm_kdtype_bytes((PmKDtype)dtype) != 0) {
    return PM_BAD("`%s`: %lld bytes at %lld, %lld expected", name, (long long)at->bytes, (long long)at->offset,
                  (long long)bytes);
  }
  return NULL;
}

static PmStatus *check_fed(const PmProgram *p, int32_t var) {
  if (var < 0 || var >= p->n_vars) return PM_BAD("data feed variable %d", var);
  if (p->vars[var].role != PM_VAR_INPUT) return PM_BAD("data feed `%s`", p->vars[var].path);
  return NULL;
}

static PmStatus *check_data(const PmProgram *p) {
  const PmProgData *d = &p->data;
  if (d->n_files < 0 || d->n_feeds < 0) return PM_BAD("negative counts");
  for (int32_t i = 0; i < d->n_files; i++) {
    if (!d->files[i]) return PM_BAD("a data file has no name");
  }
  const int32_t fed[2] = {d->x, d->y};
  for (int i = 0; i < 2 && d->format; i++) {
    if (fed[i] != -1) PM_TRY(check_fed(p, fed[i]));
  }
  for (int32_t i = 0; i < d->n_feeds; i++) {
    const PmProgFeed *f = &d->feeds[i];
    PM_TRY(check_fed(p, f->var));
    if (f->first < 0 || f->n_files < 1 || f->first > d->n_files - f->n_files) return PM_BAD("data files %d", f->first);
  }
  return NULL;
}

static PmStatus *check_twin(const PmProgram *p, int32_t i) {
  const PmProgVar *v = &p->vars[i];
  if (v->twin < -1 || v->twin >= p->n_vars) return PM_BAD("`%s` is malformed", v->path);
  if (v->twin < 0) return NULL;
  const PmProgVar *t = &p->vars[v->twin];
  bool ok = t->twin == i && v->rank == t->rank && v->init == t->init && v->init_value == t->init_value;
  ok = ok && (v->role == PM_VAR_PARAM ? t->role == PM_VAR_STATE : v->role == PM_VAR_STATE && t->role == PM_VAR_PARAM);
  for (int32_t d = 0; ok && d < v->rank; d++) ok = v->dims[d].size == t->dims[d].size;
  return ok ? NULL : PM_BAD("`%s` and `%s` are no master and working copy", v->path, t->path);
}

static PmStatus *check_vars(const PmProgram *p) {
  for (int32_t i = 0; i < p->n_vars; i++) {
    const PmProgVar *v = &p->vars[i];
    PM_TRY(check_dims(p, v->path, v->dims, v->rank, v->dtype, &v->at));
    if (v->role >= PM_VAR_ROLE_COUNT || v->init >= PM_VAR_INIT_COUNT || v->index_size < 0) {
      return PM_BAD("`%s` is malformed", v->path);
    }
    bool real = v->dtype != PM_K_BOOL && v->dtype != PM_K_I32;
    if (v->init > PM_VAR_INIT_CONST && !real)
      return PM_BAD("`%s`: random values of a dtype without fractions", v->path);
    if (v->role == PM_VAR_STEP && v->rank != 0) return PM_BAD("`%s`: the step counter is no scalar", v->path);
    PM_TRY(check_twin(p, i));
  }
  return check_data(p);
}

// ---- buffers -------------------------------------------------------------------------------------------------------
static PmStatus *check_buffers(const PmProgram *p) {
  int64_t persistent = 0, highest = p->persistent_bytes;
  for (int32_t i = 0; i < p->n_buffers; i++) {
    const PmBuffer *b = &p->buffers[i];
    if (!b->name || b->owner >= PM_OWN_COUNT || !inside(&b->at, p->arena_bytes) || b->at.offset % PM_ARENA_ALIGN != 0 ||
        b->at.bytes < 1) {
      return PM_BAD("buffer %d `%s` of %lld bytes at %lld does not fit", i, b->name ? b->name : "",
                    (long long)b->at.bytes, (long long)b->at.offset);
    }
    int64_t end = aligned(b->at.offset + b->at.bytes);
    if (b->entry == -1) {
      if (end > persistent) persistent = end;
      continue;
    }
    if (b->entry < 0 || b->entry >= PM_ENTRY_COUNT || b->first < 0 || b->last < b->first ||
        b->last >= p->entries[b->entry].n_steps) {
      return PM_BAD("buffer `%s` lives over steps %d .. %d of entry %d", b->name, b->first, b->last, b->entry);
    }
    if (b->at.offset < p->persistent_bytes) return PM_BAD("buffer `%s` lies in the persistent part", b->name);
    if (end > highest) highest = end;
  }
  if (persistent != p->persistent_bytes || highest != p->arena_bytes) {
    return PM_BAD("the plan says %lld bytes of arena, %lld persistent; its buffers need %lld and %lld",
                  (long long)p->arena_bytes, (long long)p->persistent_bytes, (long long)highest, (long long)persistent);
  }
  return NULL;
}

// First place in `live` whose buffer begins behind `offset`.
static int32_t live_above(const Context *c, int64_t offset) {
  int32_t lo = 0, hi = c->live.n;
  while (lo < hi) {
    int32_t mid = lo + (hi - lo) / 2;
    if (c->p->buffers[c->live.ids[mid]].at.offset > offset) {
      hi = mid;
    } else {
      lo = mid + 1;
    }
  }
  return lo;
}

static PmStatus *live_insert(Context *c, int32_t id) {
  const PmBuffer *b = &c->p->buffers[id];
  int32_t at = live_above(c, b->at.offset);
  for (int32_t near = at - 1; near <= at; near++) {
    if (near < 0 || near >= c->live.n) continue;
    const PmBuffer *other = &c->p->buffers[c->live.ids[near]];
    if (overlap(&b->at, &other->at))
      return PM_BAD("buffers `%s` and `%s` live together and overlap", b->name, other->name);
  }
  memmove(&c->live.ids[at + 1], &c->live.ids[at], (size_t)(c->live.n - at) * sizeof *c->live.ids);
  c->live.ids[at] = id;
  c->live.n++;
  return NULL;
}

static void live_remove(Context *c, int32_t id) {
  int32_t at = live_above(c, c->p->buffers[id].at.offset) - 1;
  c->live.n--;
  memmove(&c->live.ids[at], &c->live.ids[at + 1], (size_t)(c->live.n - at) * sizeof *c->live.ids);
}

static bool is_live(const Context *c, const PmRange *r) {
  if (r->bytes == 0) return true;
  int32_t at = live_above(c, r->offset) - 1;
  if (at < 0) return false;
  const PmRange *b = &c->p->buffers[c->live.ids[at]].at;
  return r->offset + r->bytes <= b->offset + b->bytes;
}

// ---- steps ---------------------------------------------------------------------------------------------------------
static PmStatus *check_range(const Context *c, const char *what, const PmRange *r, int64_t need, uint8_t dtype) {
  if (!inside(r, c->p->arena_bytes) || r->bytes < need) {
    return PM_BAD("%s has %lld bytes at %lld, needs %lld inside the arena", what, (long long)r->bytes,
                  (long long)r->offset, (long long)need);
  }
  if (r->offset % pm_kdtype_bytes((PmKDtype)dtype) != 0) return PM_BAD("%s is not aligned to its elements", what);
  if (!is_live(c, r)) return PM_BAD("%s lies outside of every live buffer", what);
  return NULL;
}

// Lowest and highest value of a term over all ranks; false on overflow.
static bool term_range(const PmProgram *p, const PmCoordTerm *t, int64_t *out_lo, int64_t *out_hi) {
  int64_t reach;
  *out_lo = *out_hi = t->constant;
  for (int32_t m = 0; m < p->n_mesh; m++) {
    bool ok = pm_mul_i64(t->stride[m], p->mesh_size[m] - 1, &reach) &&
              (reach < 0 ? pm_add_i64(*out_lo, reach, out_lo) : pm_add_i64(*out_hi, reach, out_hi));
    if (!ok) return false;
  }
  return true;
}

static PmStatus *check_term(const PmProgram *p, const PmCoordTerm *t) {
  int64_t lo, hi;
  if (!term_range(p, t, &lo, &hi)) return PM_BAD("a scalar overflows");
  for (int32_t m = p->n_mesh; m < PM_PROGRAM_MAX_MESH; m++) {
    if (t->stride[m]) return PM_BAD("a scalar depends on mesh axis %d of %d", m, p->n_mesh);
  }
  if (lo < INT32_MIN || hi > INT32_MAX) return PM_BAD("a scalar leaves 32 bits");
  return NULL;
}

static PmStatus *check_call(Context *c, const PmKernelCall *call) {
  const PmProgram *p = c->p;
  if (call->kernel < 0 || call->kernel >= p->n_kernels) return PM_BAD("no kernel %d", call->kernel);
  const PmKernel *k = &p->kernels[call->kernel];
  for (int32_t i = 0; i < k->n_args; i++) {
    PM_TRY(check_range(c, k->name, &call->args[i], k->args[i].bytes, k->args[i].dtype));
  }
  for (int32_t i = 0; i < k->n_scalars; i++) PM_TRY(check_term(p, &call->scalars[i]));
  for (int32_t x = 0; x < k->n_args; x++) {
    for (int32_t y = x + 1; y < k->n_args; y++) {
      if (!k->args[x].writes && !k->args[y].writes) continue;
      PmRange a = {call->args[x].offset, k->args[x].bytes}, b = {call->args[y].offset, k->args[y].bytes};
      if (overlap(&a, &b)) PM_TRY(pm_validate_overlap(k, x, y, b.offset - a.offset, &c->work));
    }
  }
  return NULL;
}

// Bytes that `n` movements reach; false on overflow or a place below 0.
static bool reach_of(const int64_t *stride, const int64_t *extent, int32_t n, int64_t size, int64_t *out_bytes) {
  int64_t lo = 0, hi = 0, reach;
  for (int32_t i = 0; i < n; i++) {
    if (!pm_mul_i64(stride[i], extent[i] - 1, &reach)) return false;
    if (!(reach < 0 ? pm_add_i64(lo, reach, &lo) : pm_add_i64(hi, reach, &hi))) return false;
  }
  return lo == 0 && pm_add_i64(hi, 1, &hi) && pm_mul_i64(hi, size, out_bytes);
}

static PmStatus *check_dot(Context *c, const PmDot *d) {
  if ((d->dtype != PM_K_F32 && d->dtype != PM_K_F64) || d->n_loops < 0 || d->n_loops > PM_DOT_MAX_LOOPS) {
    return PM_BAD("dot is malformed");
  }
  enum { MOVES = PM_DOT_MAX_LOOPS + 2 };
  int64_t extent[3][MOVES] = {{d->m, d->k}, {d->k, d->n}, {d->m, d->n}};
  int64_t stride[3][MOVES] = {{d->a_m, d->a_k}, {d->b_k, d->b_n}, {d->c_m, d->c_n}};
  for (int i = 0; i < 3; i++) {
    for (int j = 0; j < 2; j++) {
      if (extent[i][j] < 1 || extent[i][j] > INT32_MAX) return PM_BAD("dot of %lld elements", (long long)extent[i][j]);
    }
    bool trans;
    int64_t ld;
    if (!pm_dot_form(extent[i][0], extent[i][1], stride[i][0], stride[i][1], &trans, &ld)) {
      return PM_BAD("dot: operand %c has strides %lld and %lld", "abc"[i], (long long)stride[i][0],
                    (long long)stride[i][1]);
    }
  }
  PmSpan1 places[MOVES] = {{d->c_m, d->m}, {d->c_n, d->n}};
  int32_t n_places = 2;
  for (int32_t l = 0; l < d->n_loops; l++) {
    const PmDotLoop *loop = &d->loops[l];
    if (loop->extent < 1 || loop->extent > INT32_MAX)
      return PM_BAD("dot: a loop of %lld turns", (long long)loop->extent);
    if (loop->sum && loop->c != 0) return PM_BAD("dot: a summing loop moves the result");
    for (int i = 0; i < 3; i++) extent[i][l + 2] = loop->extent;
    stride[0][l + 2] = loop->a;
    stride[1][l + 2] = loop->b;
    stride[2][l + 2] = loop->c;
    if (loop->sum || loop->extent == 1) continue;
    if (loop->c < 0) return PM_BAD("dot: a loop moves the result backwards");
    places[n_places++] = (PmSpan1){loop->c, loop->extent};
  }
  const PmRange *ranges[3] = {&d->a, &d->b, &d->c};
  for (int i = 0; i < 3; i++) {
    int64_t bytes;
    if (!reach_of(stride[i], extent[i], d->n_loops + 2, pm_kdtype_bytes((PmKDtype)d->dtype), &bytes)) {
      return PM_BAD("dot: operand %c leaves memory", "abc"[i]);
    }
    PM_TRY(check_range(c, "dot", ranges[i], bytes, d->dtype));
  }
  if (!pm_spans_apart(places, n_places)) return PM_BAD("dot: places of the result meet");
  if (overlap(&d->c, &d->a) || overlap(&d->c, &d->b)) return PM_BAD("dot: the result overlaps an operand");
  return NULL;
}

static bool has_rows(const PmColl *l) { return l->kind == PM_COLL_GATHER_ROWS || l->kind == PM_COLL_SCATTER_ROWS; }

// The table and the rows of all positions lie in their ranges whatever the indices are, which are looked at where they
// are used.
static PmStatus *check_rows(const Context *c, const PmColl *l) {
  const PmRows *r = l->rows;
  int64_t size = 1, local = 1, row, table, moved, indices, lo, hi;
  if (r->n_dims < 1 || r->n_dims > PM_ROW_DIMS || r->width < 1) return PM_BAD("rows of %d axes", r->n_dims);
  for (int32_t i = 0; i < r->n_dims; i++) {
    const PmRowDim *d = &r->dims[i];
    PM_TRY(check_term(c->p, &d->first));
    if (d->size < 1 || d->local < 1 || d->local > d->size || !pm_mul_i64(size, d->size, &size) || size > INT32_MAX ||
        !term_range(c->p, &d->first, &lo, &hi) || lo < 0 || hi > d->size - d->local) {
      return PM_BAD("axis %d of the rows: %lld of %lld on a rank", i, (long long)d->local, (long long)d->size);
    }
    local *= d->local;
  }
  if (!pm_mul_i64(r->width, pm_kdtype_bytes((PmKDtype)l->dtype), &row) || !pm_mul_i64(local, row, &table) ||
      !pm_mul_i64(l->count, row, &moved) || !pm_mul_i64(l->count, 4, &indices)) {
    return PM_BAD("%lld rows of %lld elements", (long long)l->count, (long long)r->width);
  }
  bool gathers = l->kind == PM_COLL_GATHER_ROWS;
  PM_TRY(check_range(c, "source of a collective", &l->src, gathers ? table : moved, l->dtype));
  PM_TRY(check_range(c, "result of a collective", &l->dst, gathers ? moved : table, l->dtype));
  PM_TRY(check_range(c, "indices of a collective", &r->idx, indices, PM_K_I32));
  if (overlap(&l->src, &l->dst) || overlap(&r->idx, &l->dst))
    return PM_BAD("source and result of a collective overlap");
  return NULL;
}

static PmStatus *check_slots(Context *c, const PmSlots *s) {
  uint32_t used = 0;
  int64_t all, counts, group = 1;
  PM_TRY(check_mesh_list(c->p, s->mesh, s->n_mesh, &used));
  for (int32_t i = 0; i < s->n_mesh; i++) group *= c->p->mesh_size[s->mesh[i]];
  if (s->count < 1 || s->count > INT32_MAX || s->experts < 1 || s->slots < (s->counting ? 0 : 1) ||
      !pm_mul_i64(s->experts, s->slots, &all) || all > INT32_MAX || s->experts > INT32_MAX ||
      !pm_mul_i64(s->experts, group * 4, &counts) || (s->counting && (s->bounded || s->n_mesh))) {
    return PM_BAD("%lld positions of %lld elements with %lld slots", (long long)s->count, (long long)s->experts,
                  (long long)s->slots);
  }
  PM_TRY(check_range(c, "indices", &s->idx, s->count * 4, PM_K_I32));
  PM_TRY(check_range(c, "slots", &s->dst, (s->counting ? s->experts : s->count) * 4, PM_K_I32));
  if (!s->counting) PM_TRY(check_range(c, "counters", &s->work, s->experts * 4, PM_K_I32));
  if (s->n_mesh) PM_TRY(check_range(c, "counts", &s->counts, counts, PM_K_I32));
  const PmRange *r[4] = {&s->dst, &s->work, &s->idx, &s->counts};
  for (int i = 0; i < 2; i++)
    for (int k = i + 1; k < 4; k++)
      if (overlap(r[i], r[k])) return PM_BAD("what slots are counted in overlaps");
  return NULL;
}

typedef struct Touched {
  PmRange at;
  bool written;
} Touched;

static int by_place(const void *a, const void *b) {
  const PmRange *x = &((const Touched *)a)->at, *y = &((const Touched *)b)->at;
  return x->offset < y->offset ? -1 : x->offset > y->offset;
}

// Each part lies in its ranges, and writes to no place that another part reads or writes, nor its own source elsewhere.
static PmStatus *check_parts(const Context *c, const PmColl *l) {
  Touched all[2 * PM_MAX_PARTS];
  int32_t n = 0;
  int64_t total = 0, bytes, reads = 0, writes = 0;
  for (int32_t i = 0; i <= l->n_more; i++) {
    const PmCollPart part = pm_coll_part(l, i);
    if (part.count < 1 || !pm_mul_i64(part.count, pm_kdtype_bytes((PmKDtype)l->dtype), &bytes) ||
        !pm_add_i64(total, bytes, &total)) {
      return PM_BAD("a collective of %lld elements", (long long)part.count);
    }
    PM_TRY(check_range(c, "source of a collective", &part.src, bytes, l->dtype));
    PM_TRY(check_range(c, "result of a collective", &part.dst, bytes, l->dtype));
    all[n++] = (Touched){{part.dst.offset, bytes}, true};
    if (part.src.offset != part.dst.offset) all[n++] = (Touched){{part.src.offset, bytes}, false};
  }
  qsort(all, (size_t)n, sizeof *all, by_place);
  for (int32_t i = 0; i < n; i++) {  // reads, writes: how far those before reach
    const PmRange *at = &all[i].at;
    if (at->offset < writes || (all[i].written && at->offset < reads)) {
      return PM_BAD("source and result of a collective overlap");
    }
    int64_t *reach = all[i].written ? &writes : &reads, end = at->offset + at->bytes;
    if (end > *reach) *reach = end;
  }
  return NULL;
}

static PmStatus *check_coll(Context *c, const PmColl *l) {
  const PmProgram *p = c->p;
  uint32_t used = 0;
  if (l->kind >= PM_COLL_COUNT || l->dtype >= PM_K_DTYPE_COUNT || l->reduce > 1 || l->count < 1 ||
      has_rows(l) != (l->rows != NULL) || l->n_more < 0 || l->n_more >= PM_MAX_PARTS ||
      (l->n_more > 0 && l->kind != PM_COLL_ALL_REDUCE)) {
    return PM_BAD("a collective is malformed");
  }
  PM_TRY(check_mesh_list(p, l->mesh, l->n_mesh, &used));
  uint32_t used_to = 0;
  PM_TRY(check_mesh_list(p, l->to, l->n_to, &used_to));
  if (used_to != (l->kind == PM_COLL_PERMUTE ? used : 0))
    return PM_BAD("a permute among other mesh axes than its group's");
  bool reduces = l->kind == PM_COLL_ALL_REDUCE || l->kind == PM_COLL_REDUCE_SCATTER;
  if (reduces && l->dtype == PM_K_BOOL) return PM_BAD("a reduction of bools");
  if (l->rows) return check_rows(c, l);
  if (l->kind == PM_COLL_ALL_REDUCE) return check_parts(c, l);
  int64_t group = 1, part, whole;
  for (int32_t i = 0; i < l->n_mesh; i++) group *= p->mesh_size[l->mesh[i]];
  if (!pm_mul_i64(l->count, pm_kdtype_bytes((PmKDtype)l->dtype), &part) || !pm_mul_i64(part, group, &whole)) {
    return PM_BAD("a collective of %lld elements", (long long)l->count);
  }
  bool wide_src = l->kind == PM_COLL_REDUCE_SCATTER || l->kind == PM_COLL_ALL_TO_ALL;
  bool wide_dst = l->kind == PM_COLL_ALL_GATHER || l->kind == PM_COLL_ALL_TO_ALL;
  PM_TRY(check_range(c, "source of a collective", &l->src, wide_src ? whole : part, l->dtype));
  PM_TRY(check_range(c, "result of a collective", &l->dst, wide_dst ? whole : part, l->dtype));
  if (overlap(&l->src, &l->dst)) return PM_BAD("source and result of a collective overlap");
  return NULL;
}

static PmStatus *check_step(Context *c, const PmStep *s) {
  if (s->kind >= PM_STEP_KIND_COUNT || !s->op || !s->u.kernel || s->loc < -1 || s->loc >= c->p->n_locs) {
    return PM_BAD("the step is malformed");
  }
  if (s->kind == PM_STEP_KERNEL) return check_call(c, s->u.kernel);
  if (s->kind == PM_STEP_DOT) return check_dot(c, s->u.dot);
  if (s->kind == PM_STEP_SLOTS) return check_slots(c, s->u.slots);
  return check_coll(c, s->u.coll);
}

static int by_step(const void *a, const void *b) {
  const Event *x = a, *y = b;
  return x->step != y->step ? (x->step < y->step ? -1 : 1) : x->id < y->id ? -1 : x->id > y->id;
}

// Walks the entry's steps with the set of live buffers, which at the end holds those that outlive the last step.
static PmStatus *check_entry(Context *c) {
  const PmProgram *p = c->p;
  const PmEntry *e = &p->entries[c->entry];
  if (e->n_steps < 0 || e->n_outputs < 0) return PM_BAD("negative counts");
  if (!e->present && (e->n_steps || e->n_outputs)) return PM_BAD("an absent entry has steps");
  int32_t n = 0, begun = 0, ended = 0;
  c->live.n = 0;
  for (int32_t i = 0; i < p->n_buffers; i++) {
    const PmBuffer *b = &p->buffers[i];
    if (b->entry == -1) PM_TRY(live_insert(c, i));
    if (b->entry != c->entry) continue;
    c->begins[n] = (Event){b->first, i};
    c->ends[n++] = (Event){b->last, i};
  }
  qsort(c->begins, (size_t)n, sizeof *c->begins, by_step);
  qsort(c->ends, (size_t)n, sizeof *c->ends, by_step);
  for (int32_t i = 0; i < p->n_vars && c->entry == 0; i++) {
    if (p->vars[i].role != PM_VAR_INPUT && !is_live(c, &p->vars[i].at)) {
      return PM_BAD("variable `%s` has no persistent buffer", p->vars[i].path);
    }
  }
  for (int32_t s = 0; s < e->n_steps; s++) {
    for (; ended < n && c->ends[ended].step < s; ended++) live_remove(c, c->ends[ended].id);
    PmStatus *st = NULL;
    for (; begun < n && c->begins[begun].step == s && !st; begun++) st = live_insert(c, c->begins[begun].id);
    if (!st) st = check_step(c, &e->steps[s]);
    if (st) return pm_status_wrap(st, __FILE__, __LINE__, "step %d of entry %d", s, c->entry);
  }
  for (int32_t o = 0; o < e->n_outputs; o++) {
    const PmOutput *out = &e->outputs[o];
    PM_TRY(check_dims(p, out->name, out->dims, out->rank, out->dtype, &out->at));
    if (!is_live(c, &out->at)) return PM_BAD("output `%s` does not outlive its entry", out->name);
  }
  return NULL;
}

static int by_offset(const void *a, const void *b) {
  int64_t x = ((const PmRange *)a)->offset, y = ((const PmRange *)b)->offset;
  return x < y ? -1 : x > y;
}

static PmStatus *check_vars_apart(const PmProgram *p, PmRange *scratch) {
  int32_t n = 0;
  for (int32_t i = 0; i < p->n_vars; i++) {
    if (p->vars[i].role != PM_VAR_INPUT) scratch[n++] = p->vars[i].at;
  }
  qsort(scratch, (size_t)n, sizeof *scratch, by_offset);
  for (int32_t i = 1; i < n; i++) {
    if (overlap(&scratch[i - 1], &scratch[i])) {
      return PM_BAD("two variables share the byte at %lld", (long long)scratch[i].offset);
    }
  }
  return NULL;
}

static PmStatus *check_all(Context *c, PmRange *scratch) {
  const PmProgram *p = c->p;
  PM_TRY(check_head(p));
  PM_TRY(check_vars(p));
  PM_TRY(check_vars_apart(p, scratch));
  for (int32_t i = 0; i < p->n_kernels; i++) PM_TRY(pm_validate_kernel(&p->kernels[i], &c->work));
  PM_TRY(check_buffers(p));
  for (c->entry = 0; c->entry < PM_ENTRY_COUNT; c->entry++) PM_TRY(check_entry(c));
  return NULL;
}

PmStatus *pm_program_validate(const PmProgram *p) {
  if (p->n_vars < 0 || p->n_buffers < 0) return PM_BAD("negative counts");
  Context c = {.p = p, .work = MAX_WORK};
  PmArena scratch;
  pm_arena_init(&scratch, 0);
  c.live.ids = PM_NEW_N(&scratch, int32_t, (size_t)p->n_buffers + 1);
  c.begins = PM_NEW_N(&scratch, Event, (size_t)p->n_buffers + 1);
  c.ends = PM_NEW_N(&scratch, Event, (size_t)p->n_buffers + 1);
  PmStatus *st = check_all(&c, PM_NEW_N(&scratch, PmRange, (size_t)p->n_vars + 1));
  pm_arena_deinit(&scratch);
  return st;
}
