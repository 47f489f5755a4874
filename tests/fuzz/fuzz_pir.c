// Text of a graph: read, verified, printed, read again.
#include <stdlib.h>
#include <string.h>

#include "ir/text.h"
#include "target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  PmArena arena;
  PmInterner names;
  pm_arena_init(&arena, 0);
  pm_interner_init(&names, &arena);
  PmModule *m = NULL, *again = NULL;
  PmStatus *st = pm_module_read(&arena, &names, "fuzz.pir", (const char *)data, size, &m);
  if (!st) {
    PmBuf once, twice;
    pm_buf_init(&once);
    pm_buf_init(&twice);
    pm_module_print(m, &once);
    st = pm_module_read(&arena, &names, "fuzz.pir", pm_buf_str(&once), once.len, &again);
    if (st) abort();
    pm_module_print(again, &twice);
    if (strcmp(pm_buf_str(&once), pm_buf_str(&twice)) != 0) abort();
    st = pm_module_verify(again);
    pm_buf_deinit(&once);
    pm_buf_deinit(&twice);
  }
  pm_status_drop(st);
  pm_arena_deinit(&arena);
  return 0;
}
