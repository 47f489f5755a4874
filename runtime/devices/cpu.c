// The cpu device: kernels that a compiler made for this machine, dot through CBLAS.
#include "runtime/devices/cpu_dot.h"
#include "runtime/devices/devices.h"
#include "runtime/devices/host.h"

static PmStatus *create(const PmProgram *p, int64_t rank, const PmDeviceOptions *options, PmDevice **out) {
  *out = NULL;
  for (int32_t i = 0; i < p->n_kernels; i++) {
    if (p->kernels[i].host || (options->fns && options->fns[i])) continue;
    return PM_STATUS(PM_ERR_ENVIRONMENT, "the cpu device needs a kernel compiler: kernel `%s` is not compiled",
                     p->kernels[i].name);
  }
  PmBlas blas;
  PM_TRY(pm_blas_open(&blas));
  pm_blas_reserve(&blas, options->ranks_here * options->threads);
  PM_TRY(pm_host_create(&pm_device_cpu, p, rank, options, out));
  ((PmHostDevice *)*out)->blas = blas;
  return NULL;
}

static PmStatus *dot(PmDevice *d, const PmStep *s) {
  PmHostDevice *host = (PmHostDevice *)d;
  pm_cpu_dot(&host->blas, host->pool, s->u.dot, d->arena);
  return NULL;
}

const PmDeviceVtbl pm_device_cpu = {
    .name = "cpu",
    .compiles = true,
    .runs = true,
    .create = create,
    .destroy = pm_host_destroy,
    .kernel = pm_host_kernel,
    .dot = dot,
    .slots = pm_host_slots,
    .touched = pm_host_touched,
};
