#include "runtime/comm/reduce.h"

#include <math.h>
#include <string.h>

#include "base/half.h"

typedef void CombineFn(void *restrict into, const void *restrict from, int64_t n);

static bool larger(float a, float b) { return isnan(a) || a > b; }

// Over elements of type T: a op= b.
#define COMBINE(name, T, expr)                                                  \
  static void name(void *restrict into, const void *restrict from, int64_t n) { \
    T *restrict a = into;                                                       \
    const T *restrict b = from;                                                 \
    for (int64_t i = 0; i < n; i++) a[i] = (T)(expr);                           \
  }
COMBINE(sum_i32, uint32_t, a[i] + b[i])
COMBINE(sum_f32, float, a[i] + b[i])
COMBINE(sum_f64, double, a[i] + b[i])
COMBINE(max_i32, int32_t, a[i] > b[i] ? a[i] : b[i])
COMBINE(max_f32, float, larger(a[i], b[i]) ? a[i] : b[i])
COMBINE(max_f64, double, isnan(a[i]) || a[i] > b[i] ? a[i] : b[i])

COMBINE(max_bf16, uint16_t, larger(pm_bf16_to_f32(a[i]), pm_bf16_to_f32(b[i])) ? a[i] : b[i])
COMBINE(max_f16, uint16_t, larger(pm_f16_to_f32(a[i]), pm_f16_to_f32(b[i])) ? a[i] : b[i])

static CombineFn *const combine_fns[PM_K_DTYPE_COUNT][2] = {
    [PM_K_I32] = {sum_i32, max_i32}, [PM_K_F32] = {sum_f32, max_f32}, [PM_K_F64] = {sum_f64, max_f64},
    [PM_K_BF16] = {NULL, max_bf16},  [PM_K_F16] = {NULL, max_f16},
};

typedef float WidenFn(uint16_t bits);
typedef uint16_t NarrowFn(double v);

static void sum_halves(PmKDtype dtype, const char *const *sources, int32_t n_sources, int64_t from, int64_t n,
                       uint16_t *out) {
  WidenFn *widen = dtype == PM_K_BF16 ? pm_bf16_to_f32 : pm_f16_to_f32;
  NarrowFn *narrow = dtype == PM_K_BF16 ? pm_bf16_from : pm_f16_from;
  for (int64_t i = 0; i < n; i++) {
    float sum = widen(((const uint16_t *)(const void *)(sources[0] + from))[i]);
    for (int32_t k = 1; k < n_sources; k++) sum += widen(((const uint16_t *)(const void *)(sources[k] + from))[i]);
    out[i] = narrow((double)sum);
  }
}

void pm_reduce_block(PmKDtype dtype, uint8_t reduce, const char *const *sources, int32_t n_sources, int64_t from,
                     int64_t bytes, char *out) {
  CombineFn *combine = combine_fns[dtype][reduce];
  int64_t n = bytes / pm_kdtype_bytes(dtype);
  if (!combine) {
    sum_halves(dtype, sources, n_sources, from, n, (uint16_t *)(void *)out);
    return;
  }
  memcpy(out, sources[0] + from, (size_t)bytes);
  for (int32_t i = 1; i < n_sources; i++) combine(out, sources[i] + from, n);
}

void pm_reduce(PmKDtype dtype, uint8_t reduce, const char *const *sources, int32_t n_sources, int64_t from,
               int64_t bytes, char *out) {
  _Alignas(64) char block[PM_REDUCE_BLOCK];
  for (int64_t at = 0; at < bytes; at += PM_REDUCE_BLOCK) {
    int64_t n = bytes - at < PM_REDUCE_BLOCK ? bytes - at : PM_REDUCE_BLOCK;
    pm_reduce_block(dtype, reduce, sources, n_sources, from + at, n, block);
    memcpy(out + at, block, (size_t)n);
  }
}
