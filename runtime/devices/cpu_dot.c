#include "runtime/devices/cpu_dot.h"

#include "base/assert.h"
#include "runtime/validate.h"

#define SMALL_FLOPS 1e6  // less work than this stays on one thread
#define CHUNK_FLOPS 4e6  // a product with less work is not cut
#define CHUNK_MIN 128    // rows or columns of a piece
#define CHUNKS_MAX 8
#define ENOUGH_TURNS 8  // with so many turns of the loops a product is not cut

typedef struct Form {
  bool trans;
  int64_t ld;
} Form;

typedef struct DotJob {
  const PmBlas *blas;
  const PmDot *d;
  char *a, *b, *c;
  Form fa, fb, fc;
  bool along_n;    // pieces are cut along n, else along m
  int64_t pieces;  // of one turn
  int64_t turns;   // of the loops that do not sum
} DotJob;

static Form form_of(int64_t rows, int64_t cols, int64_t row_stride, int64_t col_stride) {
  Form f;
  bool ok = pm_dot_form(rows, cols, row_stride, col_stride, &f.trans, &f.ld);
  PM_ASSERT(ok, "strides %lld and %lld", (long long)row_stride, (long long)col_stride);
  return f;
}

static CBLAS_TRANSPOSE flag(bool trans) { return trans ? CblasTrans : CblasNoTrans; }

// One library call on elements at a, b, c.
static void product(const DotJob *j, int64_t m, int64_t n, const char *a, const char *b, char *c, bool add) {
  Form fa = j->fa, fb = j->fb;
  // A transposed result is the row-major result of the transposed operands, swapped.
  if (j->fc.trans) {
    const char *p = a;
    a = b;
    b = p;
    int64_t i = m;
    m = n;
    n = i;
    fa = (Form){!j->fb.trans, j->fb.ld};
    fb = (Form){!j->fa.trans, j->fa.ld};
  }
  int im = (int)m, in = (int)n, ik = (int)j->d->k, la = (int)fa.ld, lb = (int)fb.ld, lc = (int)j->fc.ld;
  if (j->d->dtype == PM_K_F32) {
    j->blas->sgemm(CblasRowMajor, flag(fa.trans), flag(fb.trans), im, in, ik, 1.0f, (const float *)a, la,
                   (const float *)b, lb, add ? 1.0f : 0.0f, (float *)c, lc);
  } else {
    j->blas->dgemm(CblasRowMajor, flag(fa.trans), flag(fb.trans), im, in, ik, 1.0, (const double *)a, la,
                   (const double *)b, lb, add ? 1.0 : 0.0, (double *)c, lc);
  }
}

// All turns of the summing loops for one piece of one turn of the others.
static void run_job(void *context, int64_t index) {
  const DotJob *j = context;
  const PmDot *d = j->d;
  int64_t size = pm_kdtype_bytes((PmKDtype)d->dtype), turn = index / j->pieces, piece = index % j->pieces;
  int64_t a = 0, b = 0, c = 0, at[PM_DOT_MAX_LOOPS] = {0};
  for (int32_t l = d->n_loops - 1; l >= 0; l--) {
    const PmDotLoop *loop = &d->loops[l];
    if (loop->sum) continue;
    int64_t i = turn % loop->extent;
    turn /= loop->extent;
    a += i * loop->a;
    b += i * loop->b;
    c += i * loop->c;
  }
  int64_t whole = j->along_n ? d->n : d->m;
  int64_t begin = whole / j->pieces * piece, end = piece + 1 == j->pieces ? whole : begin + whole / j->pieces;
  int64_t m = j->along_n ? d->m : end - begin, n = j->along_n ? end - begin : d->n;
  a += j->along_n ? 0 : begin * d->a_m;
  b += j->along_n ? begin * d->b_n : 0;
  c += begin * (j->along_n ? d->c_n : d->c_m);
  for (bool add = false;; add = true) {
    product(j, m, n, j->a + a * size, j->b + b * size, j->c + c * size, add);
    int32_t l = d->n_loops - 1;
    for (; l >= 0; l--) {
      const PmDotLoop *loop = &d->loops[l];
      if (!loop->sum) continue;
      a += loop->a;
      b += loop->b;
      if (++at[l] < loop->extent) break;
      a -= loop->a * loop->extent;
      b -= loop->b * loop->extent;
      at[l] = 0;
    }
    if (l < 0) return;
  }
}

void pm_cpu_dot(const PmBlas *blas, PmPool *pool, const PmDot *d, char *arena) {
  DotJob j = {
      .blas = blas,
      .d = d,
      .a = arena + d->a.offset,
      .b = arena + d->b.offset,
      .c = arena + d->c.offset,
      .fa = form_of(d->m, d->k, d->a_m, d->a_k),
      .fb = form_of(d->k, d->n, d->b_k, d->b_n),
      .fc = form_of(d->m, d->n, d->c_m, d->c_n),
      .along_n = d->n > d->m,
      .pieces = 1,
      .turns = 1,
  };
  double flops = 2.0 * (double)d->m * (double)d->n * (double)d->k;
  double total = flops;
  for (int32_t l = 0; l < d->n_loops; l++) {
    total *= (double)d->loops[l].extent;
    if (!d->loops[l].sum) j.turns *= d->loops[l].extent;
  }
  if (j.turns < ENOUGH_TURNS && flops >= CHUNK_FLOPS) {
    j.pieces = (j.along_n ? d->n : d->m) / CHUNK_MIN;
    j.pieces = j.pieces < 1 ? 1 : j.pieces > CHUNKS_MAX ? CHUNKS_MAX : j.pieces;
  }
  int64_t jobs = j.turns * j.pieces;
  if (total >= SMALL_FLOPS) {
    pm_pool_run(pool, run_job, &j, jobs);
    return;
  }
  for (int64_t i = 0; i < jobs; i++) run_job(&j, i);
}
