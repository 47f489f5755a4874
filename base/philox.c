#include "base/philox.h"

#include <math.h>
#include <string.h>

#include "base/hash.h"

#define ROUNDS 10

void pm_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
  uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
  uint32_t k0 = key[0], k1 = key[1];
  for (int round = 0; round < ROUNDS; round++) {
    uint64_t p0 = (uint64_t)c0 * 0xD2511F53u, p1 = (uint64_t)c2 * 0xCD9E8D57u;
    c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
    c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
    c1 = (uint32_t)p1;
    c3 = (uint32_t)p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  out[0] = c0;
  out[1] = c1;
  out[2] = c2;
  out[3] = c3;
}

uint64_t pm_random_key(uint64_t seed, const char *path) { return pm_hash64(path, strlen(path), seed); }

static void block_of(uint64_t key, uint64_t step, uint64_t index, uint32_t out[4]) {
  uint64_t block = index / 4;
  const uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)step, (uint32_t)(step >> 32)};
  const uint32_t words[2] = {(uint32_t)key, (uint32_t)(key >> 32)};
  pm_philox4x32(counter, words, out);
}

uint32_t pm_random_u32(uint64_t key, uint64_t step, uint64_t index) {
  uint32_t words[4];
  block_of(key, step, index, words);
  return words[index % 4];
}

double pm_random_uniform(uint64_t key, uint64_t step, uint64_t index) {
  return (double)(pm_random_u32(key, step, index) >> 8) * 0x1p-24;
}

float pm_random_normal(uint64_t key, uint64_t step, uint64_t index) {
  const double two_pi = 6.283185307179586476925286766559;
  uint32_t words[4];
  block_of(key, step, index, words);
  // (0, 1]: the logarithm stays finite.
  double u = ((double)words[index % 4 & ~UINT64_C(1)] + 1.0) * 0x1p-32;
  double angle = two_pi * (double)words[index % 4 | 1] * 0x1p-32;
  double radius = sqrt(-2.0 * log(u));
  return (float)(radius * (index & 1 ? sin(angle) : cos(angle)));
}
