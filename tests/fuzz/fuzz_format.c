// Text of a model or of a plan: laid out, and laid out again, which must change nothing.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/format.h"
#include "target.h"

static bool format(const char *text, size_t len, bool is_plan, PmBuf *out) {
  PmArena arena;
  PmInterner names;
  PmSources sources;
  pm_arena_init(&arena, 0);
  pm_interner_init(&names, &arena);
  pm_sources_init(&sources, &arena);
  PmDiags *diags = pm_diags_new(&arena, &sources);
  int32_t file = pm_sources_add(&sources, "fuzz.pmodel", text, len);
  bool ok = pm_format(&arena, &names, &sources, diags, file, is_plan, out);
  pm_arena_deinit(&arena);
  return ok;
}

static void check(const char *text, size_t len, bool is_plan) {
  PmBuf once, twice;
  pm_buf_init(&once);
  pm_buf_init(&twice);
  if (format(text, len, is_plan, &once)) {
    bool same = format(pm_buf_str(&once), once.len, is_plan, &twice) && once.len == twice.len;
    if (!same || memcmp(pm_buf_str(&once), pm_buf_str(&twice), once.len) != 0) {
      fprintf(stderr, "once:\n%s\ntwice:\n%s\n", pm_buf_str(&once), pm_buf_str(&twice));
      abort();
    }
  }
  pm_buf_deinit(&once);
  pm_buf_deinit(&twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  // The readers of files refuse a text with a NUL byte before the formatter sees it.
  if (memchr(data, 0, size)) return 0;
  check((const char *)data, size, false);
  check((const char *)data, size, true);
  return 0;
}
