#include "base/half.h"

#include <string.h>

static uint32_t bits_of(float f) {
  uint32_t u;
  memcpy(&u, &f, sizeof u);
  return u;
}

static float float_of(uint32_t u) {
  float f;
  memcpy(&f, &u, sizeof f);
  return f;
}

// v as f32, rounded to odd: what is lost leaves a 1 in the last place, so that rounding again to a format with fewer
// bits is as rounding once.
static uint32_t to_odd(double v) {
  float f = (float)v;
  double back = (double)f, size = v < 0 ? -v : v;
  uint32_t u = bits_of(f);
  if (v != v || back == v) return u;
  if ((back < 0 ? -back : back) > size) u--;
  return u | 1;
}

uint16_t pm_bf16_from(double v) {
  uint32_t u = to_odd(v);
  if (v != v) return (uint16_t)(u >> 16 | 0x7fc0);
  return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

uint16_t pm_f16_from(double v) {
  uint32_t u = to_odd(v), sign = u >> 16 & 0x8000;
  u &= 0x7fffffff;
  if (u > 0x7f800000) return (uint16_t)(sign | 0x7e00);
  if (u >= 0x47800000) return (uint16_t)(sign | 0x7c00);
  // Below 2^-14: the last place of 0.5 in f32 is 2^-24, the unit of the subnormals.
  if (u < 0x38800000) return (uint16_t)(sign | (bits_of(float_of(u) + 0.5f) - 0x3f000000));
  // The carry of rounding may reach the exponent, and past 65504 it makes infinity.
  return (uint16_t)(sign | ((u + 0xfff + (u >> 13 & 1) - 0x38000000) >> 13));
}

float pm_bf16_to_f32(uint16_t bits) { return float_of((uint32_t)bits << 16); }

float pm_f16_to_f32(uint16_t bits) {
  uint32_t sign = (uint32_t)(bits & 0x8000) << 16, size = (uint32_t)(bits & 0x7fff) << 13;
  if (size >= 0x0f800000) return float_of(sign | 0x70000000 | size);
  if (size >= 0x00800000) return float_of(sign | (size + 0x38000000));
  return float_of(sign | bits_of(float_of(size + 0x38800000) - 0x1p-14f));
}
