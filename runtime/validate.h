// What the files of the validator share. Every check returns a status that says what is wrong; sums are checked.
#ifndef PM_RUNTIME_VALIDATE_H
#define PM_RUNTIME_VALIDATE_H

#include "base/checked.h"
#include "runtime/program.h"

#define PM_BAD(...) PM_STATUS(PM_ERR_CORRUPTION, __VA_ARGS__)

static inline bool pm_range_inside(const PmRange *r, int64_t limit) {
  int64_t end;
  return r->offset >= 0 && r->bytes >= 0 && pm_add_i64(r->offset, r->bytes, &end) && end <= limit;
}

// Of ranges inside the arena.
static inline bool pm_range_overlap(const PmRange *a, const PmRange *b) {
  return a->bytes && b->bytes && a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

// The buffers that live at one step, by offset; they do not overlap.
typedef struct PmLive {
  const PmProgram *p;
  int32_t *ids;
  int32_t n;
} PmLive;
// The range, inside the arena, lies in one of them.
bool pm_live_holds(const PmLive *live, const PmRange *r);

// The list names mesh axes, none twice, nor one of *used, which then has them too (bit by axis).
PM_MUST_CHECK PmStatus *pm_validate_mesh(const PmProgram *p, const uint8_t *mesh, int32_t n, uint32_t *used);
// Proves the step of a program whose mesh and kernels are proved, while `live` lives. Counts *work down as below.
PM_MUST_CHECK PmStatus *pm_validate_step(const PmLive *live, const PmStep *s, int64_t *work);

// Proves that the kernel is well formed and touches its declared bytes only, and that parallel turns never store to
// one place. What the proof takes is counted down in *work; LIMIT when that is used up.
PM_MUST_CHECK PmStatus *pm_validate_kernel(const PmKernel *k, int64_t *work);
// Proves that parallel turns stay apart although the memory of arguments x and y (at least one written) overlaps;
// `shift` is y's offset minus x's, in bytes.
PM_MUST_CHECK PmStatus *pm_validate_overlap(const PmKernel *k, int32_t x, int32_t y, int64_t shift, int64_t *work);

// A set of places: all sums of stride * i with 0 <= i < extent.
typedef struct PmSpan1 {
  int64_t stride, extent;
} PmSpan1;
// Sound: true only when different (i, j, ...) give different sums. Sorts `axes`; strides must not be negative.
bool pm_spans_apart(PmSpan1 *axes, int32_t n);

// How BLAS sees a matrix of rows x cols elements, row-major when not transposed: *out_trans and its leading dimension.
// False when it has no such form. dot's device and the validator agree through this.
bool pm_dot_form(int64_t rows, int64_t cols, int64_t row_stride, int64_t col_stride, bool *out_trans, int64_t *out_ld);

#endif
