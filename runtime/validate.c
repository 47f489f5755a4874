// Proves a program safe to run from its own data. Order matters: each check relies on those before it.
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "runtime/validate.h"

#define MAX_WORK INT64_C(1000000000)  // of the independence proofs of one program: some seconds

typedef struct Event {
  int32_t step, id;
} Event;

typedef struct Context {
  const PmProgram *p;
  int64_t work;
  PmLive live;           // at the step that is looked at
  Event *begins, *ends;  // buffers of the entry by first and by last step
  int32_t entry;
} Context;

static int64_t aligned(int64_t v) { return (v + PM_ARENA_ALIGN - 1) / PM_ARENA_ALIGN * PM_ARENA_ALIGN; }

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

PmStatus *pm_validate_mesh(const PmProgram *p, const uint8_t *mesh, int32_t n, uint32_t *used) {
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
    PM_TRY(pm_validate_mesh(p, dims[i].mesh, dims[i].n_mesh, &used));
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
  if (!pm_range_inside(at, p->arena_bytes) || at->bytes < bytes || at->offset % pm_kdtype_bytes((PmKDtype)dtype) != 0) {
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
    if (!b->name || b->owner >= PM_OWN_COUNT || !pm_range_inside(&b->at, p->arena_bytes) ||
        b->at.offset % PM_ARENA_ALIGN != 0 || b->at.bytes < 1) {
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
static int32_t live_above(const PmLive *live, int64_t offset) {
  int32_t lo = 0, hi = live->n;
  while (lo < hi) {
    int32_t mid = lo + (hi - lo) / 2;
    if (live->p->buffers[live->ids[mid]].at.offset > offset) {
      hi = mid;
    } else {
      lo = mid + 1;
    }
  }
  return lo;
}

static PmStatus *live_insert(Context *c, int32_t id) {
  const PmBuffer *b = &c->p->buffers[id];
  int32_t at = live_above(&c->live, b->at.offset);
  for (int32_t near = at - 1; near <= at; near++) {
    if (near < 0 || near >= c->live.n) continue;
    const PmBuffer *other = &c->p->buffers[c->live.ids[near]];
    if (pm_range_overlap(&b->at, &other->at))
      return PM_BAD("buffers `%s` and `%s` live together and overlap", b->name, other->name);
  }
  memmove(&c->live.ids[at + 1], &c->live.ids[at], (size_t)(c->live.n - at) * sizeof *c->live.ids);
  c->live.ids[at] = id;
  c->live.n++;
  return NULL;
}

static void live_remove(Context *c, int32_t id) {
  int32_t at = live_above(&c->live, c->p->buffers[id].at.offset) - 1;
  c->live.n--;
  memmove(&c->live.ids[at], &c->live.ids[at + 1], (size_t)(c->live.n - at) * sizeof *c->live.ids);
}

bool pm_live_holds(const PmLive *live, const PmRange *r) {
  if (r->bytes == 0) return true;
  int32_t at = live_above(live, r->offset) - 1;
  if (at < 0) return false;
  const PmRange *b = &live->p->buffers[live->ids[at]].at;
  return r->offset + r->bytes <= b->offset + b->bytes;
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
    if (p->vars[i].role != PM_VAR_INPUT && !pm_live_holds(&c->live, &p->vars[i].at)) {
      return PM_BAD("variable `%s` has no persistent buffer", p->vars[i].path);
    }
  }
  for (int32_t s = 0; s < e->n_steps; s++) {
    for (; ended < n && c->ends[ended].step < s; ended++) live_remove(c, c->ends[ended].id);
    PmStatus *st = NULL;
    for (; begun < n && c->begins[begun].step == s && !st; begun++) st = live_insert(c, c->begins[begun].id);
    if (!st) st = pm_validate_step(&c->live, &e->steps[s], &c->work);
    if (st) return pm_status_wrap(st, __FILE__, __LINE__, "step %d of entry %d", s, c->entry);
  }
  for (int32_t o = 0; o < e->n_outputs; o++) {
    const PmOutput *out = &e->outputs[o];
    PM_TRY(check_dims(p, out->name, out->dims, out->rank, out->dtype, &out->at));
    if (!pm_live_holds(&c->live, &out->at)) return PM_BAD("output `%s` does not outlive its entry", out->name);
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
    if (pm_range_overlap(&scratch[i - 1], &scratch[i])) {
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
  Context c = {.p = p, .work = MAX_WORK, .live.p = p};
  PmArena scratch;
  pm_arena_init(&scratch, 0);
  c.live.ids = PM_NEW_N(&scratch, int32_t, (size_t)p->n_buffers + 1);
  c.begins = PM_NEW_N(&scratch, Event, (size_t)p->n_buffers + 1);
  c.ends = PM_NEW_N(&scratch, Event, (size_t)p->n_buffers + 1);
  PmStatus *st = check_all(&c, PM_NEW_N(&scratch, PmRange, (size_t)p->n_vars + 1));
  pm_arena_deinit(&scratch);
  return st;
}
