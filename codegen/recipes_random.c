// Philox4x32-10 (Salmon et al., SC 2011) in i32 arithmetic; base/philox.c is the definition.
#include "codegen/recipes.h"

#define ROUNDS 10

static int32_t word(PmKBuilder *kb, uint32_t v) { return rx_i32(kb, (int32_t)v); }

// The two 32-bit halves of a whole f64 number in [0, 2^53).
static void halves(PmKBuilder *kb, int32_t x, int32_t *out_low, int32_t *out_high) {
  const int32_t high = rx_1(kb, PM_I_FLOOR, rx_mul(kb, x, rx_f64(kb, 0x1p-32)));
  const int32_t low = rx_sub(kb, x, rx_mul(kb, high, rx_f64(kb, 0x1p32)));
  // i32 holds the upper half of [0, 2^32) as negative numbers.
  const int32_t wrapped = rx_select(kb, rx_lt(kb, low, rx_f64(kb, 0x1p31)), low, rx_sub(kb, low, rx_f64(kb, 0x1p32)));
  *out_low = pm_kb_cvt(kb, PM_K_I32, wrapped);
  *out_high = pm_kb_cvt(kb, PM_K_I32, high);
}

int32_t pm_recipe_uniform(PmKBuilder *kb, uint64_t key, int32_t step, int32_t index) {
  const int32_t block = rx_1(kb, PM_I_FLOOR, rx_mul(kb, index, rx_f64(kb, 0.25)));
  const int32_t lane = pm_kb_cvt(kb, PM_K_I32, rx_sub(kb, index, rx_mul(kb, block, rx_f64(kb, 4))));
  int32_t c[4];
  halves(kb, block, &c[0], &c[1]);
  halves(kb, step, &c[2], &c[3]);
  uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
  for (int32_t round = 0; round < ROUNDS; round++) {
    const int32_t m0 = word(kb, 0xD2511F53u), m1 = word(kb, 0xCD9E8D57u);
    const int32_t high0 = rx_2(kb, PM_I_MULHI, c[0], m0), high1 = rx_2(kb, PM_I_MULHI, c[2], m1);
    const int32_t low0 = rx_mul(kb, c[0], m0), low1 = rx_mul(kb, c[2], m1);
    c[0] = rx_2(kb, PM_I_XOR, rx_2(kb, PM_I_XOR, high1, c[1]), word(kb, k0));
    c[2] = rx_2(kb, PM_I_XOR, rx_2(kb, PM_I_XOR, high0, c[3]), word(kb, k1));
    c[1] = low1;
    c[3] = low0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  int32_t drawn = c[3];
  for (int32_t i = 2; i >= 0; i--) drawn = rx_select(kb, rx_eq(kb, lane, rx_i32(kb, i)), c[i], drawn);
  return rx_mul(kb, pm_kb_cvt(kb, PM_K_F32, rx_2(kb, PM_I_SHR, drawn, rx_i32(kb, 8))), rx_f32(kb, 0x1p-24));
}
