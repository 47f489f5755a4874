// Plain kernels: copies between layouts, and fills.
#include <string.h>

#include "base/assert.h"
#include "codegen/region.h"

enum { COLS = 4096 };

// Rows and columns of n elements, so that rows run in parallel; one axis when n has no fit divisor.
static int32_t flat_axes(PmKBuilder *kb, int64_t n, PmKAddr *at) {
  for (int64_t c = COLS; n > 2 * COLS && c >= 64; c -= 8) {
    if (n % c) continue;
    at->stride[pm_kb_outer(kb, n / c, PM_KA_GRID)] = c;
    at->stride[pm_kb_outer(kb, c, PM_KA_GRID)] = 1;
    return 2;
  }
  at->stride[pm_kb_outer(kb, n, PM_KA_GRID)] = 1;
  return 1;
}

int32_t pm_cg_copy_kernel(PmCg *cg, PmKDtype dtype, int64_t n) {
  PmKBuilder kb;
  PmKAddr at = pm_kaddr();
  pm_kb_init(&kb, cg->out_arena, "copy", dtype == PM_K_F64, PM_VEC_OUTER);
  flat_axes(&kb, n, &at);
  const int32_t src = pm_kb_arg(&kb, dtype, 0, true, false), dst = pm_kb_arg(&kb, dtype, 0, false, true);
  pm_kb_store(&kb, dst, &at, pm_kb_load(&kb, src, &at), false);
  return pm_cg_add_kernel(cg, pm_kb_finish(&kb));
}

void pm_cg_emit_fill(PmCg *cg, PmCgRegion *r, int32_t buf, int32_t loc) {
  PmKBuilder kb;
  PmKAddr at = pm_kaddr();
  const PmKDtype d = (PmKDtype)r->bufs[buf].dtype;
  pm_kb_init(&kb, cg->out_arena, "zero", d == PM_K_F64, PM_VEC_OUTER);
  flat_axes(&kb, r->bufs[buf].bytes / pm_kdtype_bytes(d), &at);
  const int32_t dst = pm_kb_arg(&kb, d, 0, false, true);
  pm_kb_store(&kb, dst, &at, pm_kb_const(&kb, pm_kdtype_value(d), 0), false);
  PmCgStep *s = pm_cg_step(cg, r, PM_CG_STEP_KERNEL, 1);
  s->kernel = pm_cg_add_kernel(cg, pm_kb_finish(&kb));
  s->op = "zero";
  s->loc = loc;
  s->refs[0] = (PmCgRef){buf, 0, r->bufs[buf].bytes};
  s->writes[0] = true;
  s->bytes = (double)r->bufs[buf].bytes;
}

void pm_cg_emit_copy(PmCg *cg, PmCgRegion *r, PmKDtype dtype, const int64_t *extent, int32_t rank, PmCgRef src,
                     const int64_t *src_stride, PmCgRef dst, const int64_t *dst_stride, const char *op, int32_t loc) {
  PmKBuilder kb;
  PmKAddr from = pm_kaddr(), to = pm_kaddr();
  pm_kb_init(&kb, cg->out_arena, op, dtype == PM_K_F64, PM_VEC_OUTER);
  for (int32_t i = 0; i < rank; i++) {
    if (extent[i] == 1) continue;
    const int32_t axis = pm_kb_outer(&kb, extent[i], PM_KA_GRID);
    from.stride[axis] = src_stride[i];
    to.stride[axis] = dst_stride[i];
  }
  const int32_t a = pm_kb_arg(&kb, dtype, 0, true, false), b = pm_kb_arg(&kb, dtype, 0, false, true);
  from.base = src.offset / pm_kdtype_bytes(dtype);
  to.base = dst.offset / pm_kdtype_bytes(dtype);
  pm_kb_store(&kb, b, &to, pm_kb_load(&kb, a, &from), false);
  PmKernel *k = pm_kb_finish(&kb);
  PmCgStep *s = pm_cg_step(cg, r, PM_CG_STEP_KERNEL, 2);
  s->op = op;
  s->loc = loc;
  s->refs[0] = (PmCgRef){src.buf, 0, k->args[0].bytes};
  s->refs[1] = (PmCgRef){dst.buf, 0, k->args[1].bytes};
  s->writes[1] = true;
  s->kernel = pm_cg_add_kernel(cg, k);
  s->bytes = (double)(k->args[0].bytes + k->args[1].bytes);
}
