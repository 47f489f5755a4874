#include "base/checked.h"

#include "base/assert.h"

bool pm_mad_i64(int64_t a, int64_t b, int64_t c, int64_t *out) {
  int64_t product;
  return pm_mul_i64(a, b, &product) && pm_add_i64(product, c, out);
}

bool pm_align_i64(int64_t v, int64_t align, int64_t *out) {
  PM_ASSERT(align > 0 && (align & (align - 1)) == 0, "alignment %lld", (long long)align);
  int64_t raised;
  if (!pm_add_i64(v, align - 1, &raised)) return false;
  *out = raised & ~(align - 1);
  return true;
}
