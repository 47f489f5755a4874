#include "runtime/devices/blas.h"

#include <stdlib.h>

#include <stdbool.h>

#include "base/dl.h"

#if defined(__x86_64__)
static const char *core_type(void) {
  __builtin_cpu_init();
  bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
              __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  if (wide) return "SkylakeX";
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? "Haswell" : NULL;
}
#else
static const char *core_type(void) { return NULL; }
#endif

#define MAX_RESERVED 64

static const char *const sonames[] = {"libopenblas.so.0", "libopenblas.so", NULL};

// Not in the library's headers, and nothing that a product needs: a library without them is fine.
static void open_buffers(PmBlas *out) {
  void *found[2] = {0};
  const PmDlSymbol symbols[] = {{"blas_memory_alloc", &found[0]}, {"blas_memory_free", &found[1]}};
  pm_status_drop(pm_dl_open(sonames, symbols, 2));
  *(void **)&out->buffer_alloc = found[0];
  *(void **)&out->buffer_free = found[1];
}

PmStatus *pm_blas_open(PmBlas *out) {
  const char *core = core_type();
  if (core) setenv("OPENBLAS_CORETYPE", core, 0);
  void *found[3] = {0};
  const PmDlSymbol symbols[] = {
      {"cblas_sgemm", &found[0]}, {"cblas_dgemm", &found[1]}, {"openblas_set_num_threads", &found[2]}};
  PM_TRY(pm_dl_open(sonames, symbols, 3));
  // ISO C has no conversion from an object to a function pointer; POSIX promises that the bits agree.
  *(void **)&out->sgemm = found[0];
  *(void **)&out->dgemm = found[1];
  *(void **)&out->set_num_threads = found[2];
  out->set_num_threads(1);
  open_buffers(out);
  return NULL;
}

void pm_blas_reserve(const PmBlas *blas, int64_t callers) {
  void *held[MAX_RESERVED];
  int32_t n = 0;
  if (!blas->buffer_alloc || !blas->buffer_free) return;
  while (n < callers && n < MAX_RESERVED) held[n++] = blas->buffer_alloc(0);
  while (n > 0) blas->buffer_free(held[--n]);
}
