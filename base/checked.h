// Checked arithmetic for every size that comes from outside. Each returns false on overflow (or a zero divisor).
#ifndef PM_BASE_CHECKED_H
#define PM_BASE_CHECKED_H

#include <stdbool.h>
#include <stdint.h>

static inline bool pm_add_i64(int64_t a, int64_t b, int64_t *out) { return !__builtin_add_overflow(a, b, out); }
static inline bool pm_sub_i64(int64_t a, int64_t b, int64_t *out) { return !__builtin_sub_overflow(a, b, out); }
static inline bool pm_mul_i64(int64_t a, int64_t b, int64_t *out) { return !__builtin_mul_overflow(a, b, out); }
// a * b + c
bool pm_mad_i64(int64_t a, int64_t b, int64_t c, int64_t *out);
// Rounds up to a multiple of `align` (a power of two).
bool pm_align_i64(int64_t v, int64_t align, int64_t *out);

// Limits of DESIGN "Errors, limits, safety".
#define PM_MAX_FILE_BYTES (4 << 20)
#define PM_MAX_NESTING 256
#define PM_MAX_NAME 256     // characters
#define PM_MAX_STRING 4096  // characters
#define PM_MAX_IMPORT_DEPTH 16
#define PM_MAX_AXES 65536
#define PM_MAX_RANK 12
#define PM_MAX_AXIS_SIZE (INT64_C(1) << 40)
#define PM_MAX_ELEMENTS (INT64_C(1) << 48)
#define PM_MAX_RANKS (INT64_C(1) << 20)
#define PM_MAX_PARTS 256  // tensors that one collective takes together
// Memory of a compilation: what is kept of it, and of one pass. Together with the libraries less than 1 GiB.
#define PM_MAX_COMPILE_BYTES ((size_t)512 << 20)
#define PM_MAX_SCRATCH_BYTES ((size_t)320 << 20)

#endif
