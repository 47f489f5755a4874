#include "runtime/element.h"

#include "base/half.h"

void pm_element_store(PmKDtype dtype, void *at, int64_t i, double v) {
  if (dtype == PM_K_F32) ((float *)at)[i] = (float)v;
  if (dtype == PM_K_F64) ((double *)at)[i] = v;
  if (dtype == PM_K_BF16) ((uint16_t *)at)[i] = pm_bf16_from(v);
  if (dtype == PM_K_F16) ((uint16_t *)at)[i] = pm_f16_from(v);
  if (dtype == PM_K_I32) ((int32_t *)at)[i] = (int32_t)v;
  if (dtype == PM_K_BOOL) ((uint8_t *)at)[i] = v != 0;
}

double pm_element_load(PmKDtype dtype, const void *at, int64_t i) {
  if (dtype == PM_K_F32) return (double)((const float *)at)[i];
  if (dtype == PM_K_F64) return ((const double *)at)[i];
  if (dtype == PM_K_BF16) return (double)pm_bf16_to_f32(((const uint16_t *)at)[i]);
  if (dtype == PM_K_F16) return (double)pm_f16_to_f32(((const uint16_t *)at)[i]);
  if (dtype == PM_K_I32) return ((const int32_t *)at)[i];
  return ((const uint8_t *)at)[i] != 0;
}
