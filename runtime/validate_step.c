// Steps: every range that one reads or writes lies in a buffer that lives, and is as large as what it is used for.
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "runtime/validate.h"

static PmStatus *check_range(const PmLive *live, const char *what, const PmRange *r, int64_t need, uint8_t dtype) {
  if (!pm_range_inside(r, live->p->arena_bytes) || r->bytes < need) {
    return PM_BAD("%s has %lld bytes at %lld, needs %lld inside the arena", what, (long long)r->bytes,
                  (long long)r->offset, (long long)need);
  }
  if (r->offset % pm_kdtype_bytes((PmKDtype)dtype) != 0) return PM_BAD("%s is not aligned to its elements", what);
  if (!pm_live_holds(live, r)) return PM_BAD("%s lies outside of every live buffer", what);
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

static PmStatus *check_call(const PmLive *live, const PmKernelCall *call, int64_t *work) {
  const PmProgram *p = live->p;
  if (call->kernel < 0 || call->kernel >= p->n_kernels) return PM_BAD("no kernel %d", call->kernel);
  const PmKernel *k = &p->kernels[call->kernel];
  for (int32_t i = 0; i < k->n_args; i++) {
    PM_TRY(check_range(live, k->name, &call->args[i], k->args[i].bytes, k->args[i].dtype));
  }
  for (int32_t i = 0; i < k->n_scalars; i++) PM_TRY(check_term(p, &call->scalars[i]));
  for (int32_t x = 0; x < k->n_args; x++) {
    for (int32_t y = x + 1; y < k->n_args; y++) {
      if (!k->args[x].writes && !k->args[y].writes) continue;
      PmRange a = {call->args[x].offset, k->args[x].bytes}, b = {call->args[y].offset, k->args[y].bytes};
      if (pm_range_overlap(&a, &b)) PM_TRY(pm_validate_overlap(k, x, y, b.offset - a.offset, work));
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

static PmStatus *check_dot(const PmLive *live, const PmDot *d) {
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
    PM_TRY(check_range(live, "dot", ranges[i], bytes, d->dtype));
  }
  if (!pm_spans_apart(places, n_places)) return PM_BAD("dot: places of the result meet");
  if (pm_range_overlap(&d->c, &d->a) || pm_range_overlap(&d->c, &d->b))
    return PM_BAD("dot: the result overlaps an operand");
  return NULL;
}

static bool has_rows(const PmColl *l) { return l->kind == PM_COLL_GATHER_ROWS || l->kind == PM_COLL_SCATTER_ROWS; }

// The table and the rows of all positions lie in their ranges whatever the indices are, which are looked at where they
// are used.
static PmStatus *check_rows(const PmLive *live, const PmColl *l) {
  const PmRows *r = l->rows;
  int64_t size = 1, local = 1, row, table, moved, indices, lo, hi;
  if (r->n_dims < 1 || r->n_dims > PM_ROW_DIMS || r->width < 1) return PM_BAD("rows of %d axes", r->n_dims);
  for (int32_t i = 0; i < r->n_dims; i++) {
    const PmRowDim *d = &r->dims[i];
    PM_TRY(check_term(live->p, &d->first));
    if (d->size < 1 || d->local < 1 || d->local > d->size || !pm_mul_i64(size, d->size, &size) || size > INT32_MAX ||
        !term_range(live->p, &d->first, &lo, &hi) || lo < 0 || hi > d->size - d->local) {
      return PM_BAD("axis %d of the rows: %lld of %lld on a rank", i, (long long)d->local, (long long)d->size);
    }
    local *= d->local;
  }
  if (!pm_mul_i64(r->width, pm_kdtype_bytes((PmKDtype)l->dtype), &row) || !pm_mul_i64(local, row, &table) ||
      !pm_mul_i64(l->count, row, &moved) || !pm_mul_i64(l->count, 4, &indices)) {
    return PM_BAD("%lld rows of %lld elements", (long long)l->count, (long long)r->width);
  }
  bool gathers = l->kind == PM_COLL_GATHER_ROWS;
  PM_TRY(check_range(live, "source of a collective", &l->src, gathers ? table : moved, l->dtype));
  PM_TRY(check_range(live, "result of a collective", &l->dst, gathers ? moved : table, l->dtype));
  PM_TRY(check_range(live, "indices of a collective", &r->idx, indices, PM_K_I32));
  if (pm_range_overlap(&l->src, &l->dst) || pm_range_overlap(&r->idx, &l->dst))
    return PM_BAD("source and result of a collective overlap");
  return NULL;
}

static PmStatus *check_slots(const PmLive *live, const PmSlots *s) {
  uint32_t used = 0;
  int64_t all, counts, group = 1;
  PM_TRY(pm_validate_mesh(live->p, s->mesh, s->n_mesh, &used));
  for (int32_t i = 0; i < s->n_mesh; i++) group *= live->p->mesh_size[s->mesh[i]];
  if (s->count < 1 || s->count > INT32_MAX || s->experts < 1 || s->slots < (s->counting ? 0 : 1) ||
      !pm_mul_i64(s->experts, s->slots, &all) || all > INT32_MAX || s->experts > INT32_MAX ||
      !pm_mul_i64(s->experts, group * 4, &counts) || (s->counting && (s->bounded || s->n_mesh))) {
    return PM_BAD("%lld positions of %lld elements with %lld slots", (long long)s->count, (long long)s->experts,
                  (long long)s->slots);
  }
  PM_TRY(check_range(live, "indices", &s->idx, s->count * 4, PM_K_I32));
  PM_TRY(check_range(live, "slots", &s->dst, (s->counting ? s->experts : s->count) * 4, PM_K_I32));
  if (!s->counting) PM_TRY(check_range(live, "counters", &s->work, s->experts * 4, PM_K_I32));
  if (s->n_mesh) PM_TRY(check_range(live, "counts", &s->counts, counts, PM_K_I32));
  const PmRange *r[4] = {&s->dst, &s->work, &s->idx, &s->counts};
  for (int i = 0; i < 2; i++)
    for (int k = i + 1; k < 4; k++)
      if (pm_range_overlap(r[i], r[k])) return PM_BAD("what slots are counted in overlaps");
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
static PmStatus *check_parts(const PmLive *live, const PmColl *l) {
  Touched all[2 * PM_MAX_PARTS];
  int32_t n = 0;
  int64_t total = 0, bytes, reads = 0, writes = 0;
  for (int32_t i = 0; i <= l->n_more; i++) {
    const PmCollPart part = pm_coll_part(l, i);
    if (part.count < 1 || !pm_mul_i64(part.count, pm_kdtype_bytes((PmKDtype)l->dtype), &bytes) ||
        !pm_add_i64(total, bytes, &total)) {
      return PM_BAD("a collective of %lld elements", (long long)part.count);
    }
    PM_TRY(check_range(live, "source of a collective", &part.src, bytes, l->dtype));
    PM_TRY(check_range(live, "result of a collective", &part.dst, bytes, l->dtype));
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

static PmStatus *check_coll(const PmLive *live, const PmColl *l) {
  const PmProgram *p = live->p;
  uint32_t used = 0;
  if (l->kind >= PM_COLL_COUNT || l->dtype >= PM_K_DTYPE_COUNT || l->reduce > 1 || l->count < 1 ||
      has_rows(l) != (l->rows != NULL) || l->n_more < 0 || l->n_more >= PM_MAX_PARTS ||
      (l->n_more > 0 && l->kind != PM_COLL_ALL_REDUCE)) {
    return PM_BAD("a collective is malformed");
  }
  PM_TRY(pm_validate_mesh(p, l->mesh, l->n_mesh, &used));
  uint32_t used_to = 0;
  PM_TRY(pm_validate_mesh(p, l->to, l->n_to, &used_to));
  if (used_to != (l->kind == PM_COLL_PERMUTE ? used : 0))
    return PM_BAD("a permute among other mesh axes than its group's");
  bool reduces = l->kind == PM_COLL_ALL_REDUCE || l->kind == PM_COLL_REDUCE_SCATTER;
  if (reduces && l->dtype == PM_K_BOOL) return PM_BAD("a reduction of bools");
  if (l->rows) return check_rows(live, l);
  if (l->kind == PM_COLL_ALL_REDUCE) return check_parts(live, l);
  int64_t group = 1, part, whole;
  for (int32_t i = 0; i < l->n_mesh; i++) group *= p->mesh_size[l->mesh[i]];
  if (!pm_mul_i64(l->count, pm_kdtype_bytes((PmKDtype)l->dtype), &part) || !pm_mul_i64(part, group, &whole)) {
    return PM_BAD("a collective of %lld elements", (long long)l->count);
  }
  bool wide_src = l->kind == PM_COLL_REDUCE_SCATTER || l->kind == PM_COLL_ALL_TO_ALL;
  bool wide_dst = l->kind == PM_COLL_ALL_GATHER || l->kind == PM_COLL_ALL_TO_ALL;
  PM_TRY(check_range(live, "source of a collective", &l->src, wide_src ? whole : part, l->dtype));
  PM_TRY(check_range(live, "result of a collective", &l->dst, wide_dst ? whole : part, l->dtype));
  if (pm_range_overlap(&l->src, &l->dst)) return PM_BAD("source and result of a collective overlap");
  return NULL;
}

PmStatus *pm_validate_step(const PmLive *live, const PmStep *s, int64_t *work) {
  if (s->kind >= PM_STEP_KIND_COUNT || !s->op || !s->u.kernel || s->loc < -1 || s->loc >= live->p->n_locs) {
    return PM_BAD("the step is malformed");
  }
  if (s->kind == PM_STEP_KERNEL) return check_call(live, s->u.kernel, work);
  if (s->kind == PM_STEP_DOT) return check_dot(live, s->u.dot);
  if (s->kind == PM_STEP_SLOTS) return check_slots(live, s->u.slots);
  return check_coll(live, s->u.coll);
}
