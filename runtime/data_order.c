#include "base/philox.h"
#include "runtime/data.h"

#define ROUNDS 6

int64_t pm_data_permute(int64_t n, uint64_t seed, int64_t epoch, int64_t i) {
  // A Feistel network on the smallest even number of bits that holds n, walked until it lands inside [0, n).
  int half = 1;
  while (half < 31 && (INT64_C(1) << (2 * half)) < n) half++;
  uint32_t mask = (uint32_t)((UINT64_C(1) << half) - 1);
  const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
  uint64_t at = (uint64_t)i;
  do {
    uint32_t left = (uint32_t)(at >> half), right = (uint32_t)at & mask;
    for (uint32_t round = 0; round < ROUNDS; round++) {
      const uint32_t counter[4] = {right, round, (uint32_t)epoch, (uint32_t)((uint64_t)epoch >> 32)};
      uint32_t words[4];
      pm_philox4x32(counter, key, words);
      uint32_t mixed = left ^ (words[0] & mask);
      left = right;
      right = mixed;
    }
    at = (uint64_t)left << half | right;
  } while (at >= (uint64_t)n);
  return (int64_t)at;
}
