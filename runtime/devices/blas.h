// The BLAS behind the cpu device's products, opened at run time: OpenBLAS, told which kernels to use.
#ifndef PM_RUNTIME_DEVICES_BLAS_H
#define PM_RUNTIME_DEVICES_BLAS_H

#include <cblas.h>

#include "base/status.h"

typedef struct PmBlas {
  __typeof__(&cblas_sgemm) sgemm;
  __typeof__(&cblas_dgemm) dgemm;
  __typeof__(&openblas_set_num_threads) set_num_threads;
  void *(*buffer_alloc)(int position);  // NULL when the library has neither
  void (*buffer_free)(void *buffer);
} PmBlas;

// ENVIRONMENT naming what was tried when no library opens. The library is told to run on the calling thread alone. The
// first call in a process chooses the kernels by OPENBLAS_CORETYPE, unless the user has set it: releases older than the
// processor do not know its model and fall back to code of 2004, several times slower.
PM_MUST_CHECK PmStatus *pm_blas_open(PmBlas *out);

// Makes the library map now what it packs operands into while `callers` threads multiply at once (64 at most). Without
// it a buffer is mapped whenever more threads than ever before happen to be inside of the library.
void pm_blas_reserve(const PmBlas *blas, int64_t callers);

#endif
