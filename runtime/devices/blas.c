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

PmStatus *pm_blas_open(PmBlas *out) {
  static const char *const sonames[] = {"libopenblas.so.0", "libopenblas.so", NULL};
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
  return NULL;
}
