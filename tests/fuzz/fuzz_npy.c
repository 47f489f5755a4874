// The header of an array, and the elements behind it as every dtype that they may feed.
#include <stdlib.h>

#include "runtime/npy.h"
#include "target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  PmNpy h;
  PmStatus *st = pm_npy_header("fuzz.npy", data, (int64_t)size, (int64_t)size, &h);
  for (int32_t d = 0; !st && d < PM_K_DTYPE_COUNT; d++) {
    if (!pm_npy_feeds(&h, (PmKDtype)d)) continue;
    double to[16];
    char text[32];
    int64_t n = h.elements < 16 ? h.elements : 16;
    int64_t done = pm_npy_convert(&h, data + h.start, n, (PmKDtype)d, 7, to);
    if (done < 0 || done > n) abort();
    if (done < n) pm_npy_print(&h, data + h.start, done, text, sizeof text);
  }
  pm_status_drop(st);
  return 0;
}
