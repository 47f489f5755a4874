// usage: replay FILE... : runs the fuzz target on each file and on mutations of it. PM_FUZZ_ROUNDS mutations a file
// (default 60), chosen by a counter, so that a failure comes again: the last input is left in fuzz.input.
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/philox.h"
#include "target.h"

typedef struct Rng {
  uint64_t key, at;
} Rng;

static size_t below(Rng *r, size_t n) { return n == 0 ? 0 : pm_random_u32(r->key, 0, r->at++) % n; }

// One change: flips, cuts, repeats or swaps bytes, or puts an extreme number where digits stand.
static void mutate(Rng *r, PmBuf *b) {
  static const char *const words[] = {"0",     "-1", "1", "2", "4294967296", "9223372036854775807",
                                      "1e308", "(",  "[", "}", "\n"};
  size_t at = below(r, b->len), n = 1 + below(r, 24);
  if (at + n > b->len) n = b->len - at;
  switch (below(r, 5)) {
    case 0:
      b->data[at] = (char)(b->data[at] ^ (1 << below(r, 8)));
      break;
    case 1:
      memmove(b->data + at, b->data + at + n, b->len - at - n);
      b->len -= n;
      break;
    case 2: {
      PmBuf copy;
      pm_buf_init(&copy);
      pm_buf_put(&copy, b->data + at, b->len - at);
      b->len = at + n;
      pm_buf_put(b, copy.data, copy.len);
      pm_buf_deinit(&copy);
      break;
    }
    case 3: {
      size_t other = below(r, b->len - n + 1);
      memmove(b->data + at, b->data + other, n);
      break;
    }
    default: {
      const char *word = words[below(r, sizeof words / sizeof words[0])];
      for (size_t i = 0; word[i] && at + i < b->len; i++) b->data[at + i] = word[i];
      break;
    }
  }
}

static void run(const PmBuf *b) {
  FILE *f = fopen("fuzz.input", "wb");
  if (f) {
    fwrite(b->data, 1, b->len, f);
    fclose(f);
  }
  LLVMFuzzerTestOneInput((const uint8_t *)b->data, b->len);
}

static bool load(const char *path, PmBuf *out) {
  FILE *f = fopen(path, "rb");
  if (!f) return false;
  char chunk[4096];
  for (size_t n; (n = fread(chunk, 1, sizeof chunk, f)) > 0;) pm_buf_put(out, chunk, n);
  fclose(f);
  return out->len > 0;
}

int main(int argc, char **argv) {
  const char *text = getenv("PM_FUZZ_ROUNDS");
  int rounds = text ? atoi(text) : 60;
  for (int i = 1; i < argc; i++) {
    PmBuf seed;
    pm_buf_init(&seed);
    if (!load(argv[i], &seed)) {
      fprintf(stderr, "cannot read %s\n", argv[i]);
      return 1;
    }
    run(&seed);
    Rng rng = {pm_random_key(1, argv[i]), 0};
    for (int k = 0; k < rounds; k++) {
      PmBuf b;
      pm_buf_init(&b);
      pm_buf_put(&b, seed.data, seed.len);
      for (size_t c = 1 + below(&rng, 4); c > 0 && b.len > 0; c--) mutate(&rng, &b);
      if (b.len > 0) run(&b);
      pm_buf_deinit(&b);
    }
    pm_buf_deinit(&seed);
    printf("%s: %d inputs\n", argv[i], rounds + 1);
  }
  return 0;
}
