// A run plan in its binary or text form: read (which validates), written, read again. The checksum of a binary input is
// repaired first, so that mutations reach what stands behind it.
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "runtime/program.h"
#include "target.h"

enum { HEADER = 32, LENGTH_AT = 16, SUM_AT = 24 };

static void repair(uint8_t *data, size_t size) {
  if (size <= HEADER || data[0] != 0x89) return;
  uint64_t length = size - HEADER, sum = pm_hash64(data + HEADER, size - HEADER, 0);
  memcpy(data + LENGTH_AT, &length, 8);
  memcpy(data + SUM_AT, &sum, 8);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  uint8_t *copy = malloc(size + 1);
  if (!copy) return 0;
  memcpy(copy, data, size);
  repair(copy, size);
  PmArena arena;
  pm_arena_init(&arena, 0);
  PmProgram *p = NULL, *again = NULL;
  PmStatus *st = pm_program_read(&arena, "fuzz.prun", copy, size, &p);
  if (!st) {
    PmBuf out;
    pm_buf_init(&out);
    pm_program_write(p, &out);
    st = pm_program_read(&arena, "fuzz.prun", out.data, out.len, &again);
    if (st) abort();
    pm_buf_deinit(&out);
  }
  pm_status_drop(st);
  pm_arena_deinit(&arena);
  free(copy);
  return 0;
}
