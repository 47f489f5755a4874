#include "runtime/validate.h"

bool pm_dot_form(int64_t rows, int64_t cols, int64_t row_stride, int64_t col_stride, bool *out_trans, int64_t *out_ld) {
  if (col_stride == 1 || cols == 1) {
    int64_t ld = rows == 1 ? cols : row_stride;
    if (ld >= cols && ld <= INT32_MAX) {
      *out_trans = false;
      *out_ld = ld;
      return true;
    }
  }
  if (row_stride == 1 || rows == 1) {
    int64_t ld = cols == 1 ? rows : col_stride;
    if (ld >= rows && ld <= INT32_MAX) {
      *out_trans = true;
      *out_ld = ld;
      return true;
    }
  }
  return false;
}
