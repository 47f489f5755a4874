// The 16-bit float formats, by integer arithmetic: every machine and every path gives the same bits.
//
// Rounding is to nearest even, once, from the double; past the largest number it gives infinity, below the least normal
// number a subnormal. A NaN gives the quiet NaN of its sign.
#ifndef PM_BASE_HALF_H
#define PM_BASE_HALF_H

#include <stdint.h>

uint16_t pm_bf16_from(double v);
uint16_t pm_f16_from(double v);
float pm_bf16_to_f32(uint16_t bits);
float pm_f16_to_f32(uint16_t bits);

static inline float pm_bf16_round(double v) { return pm_bf16_to_f32(pm_bf16_from(v)); }
static inline float pm_f16_round(double v) { return pm_f16_to_f32(pm_f16_from(v)); }

#endif
