// The .npy file: one array of numbers behind a header that says its dtype and shape. Read strictly: what numpy writes
// and no more, little-endian, row-major.
#ifndef PM_RUNTIME_NPY_H
#define PM_RUNTIME_NPY_H

#include "runtime/program.h"

#define PM_NPY_MAX_HEADER 4096  // bytes from the file's beginning to its first element

typedef struct PmNpy {
  char kind;      // 'b' truth values, 'i' and 'u' whole numbers, 'f' floats
  int32_t bytes;  // of an element: 1, 2, 4, 8
  int32_t rank;
  int64_t dims[PM_PROGRAM_MAX_RANK];
  int64_t elements;
  int64_t start;  // first byte of the elements
} PmNpy;

// Reads the header of a file of `file_bytes` bytes that begins with text[0, len), where len is file_bytes or at least
// PM_NPY_MAX_HEADER. INPUT names `path` and what is wrong; then *out is undefined.
PM_MUST_CHECK PmStatus *pm_npy_header(const char *path, const void *text, int64_t len, int64_t file_bytes, PmNpy *out);
// Indices take whole numbers only, floats any number.
bool pm_npy_feeds(const PmNpy *h, PmKDtype dtype);
// Converts n elements to `dtype`: whole numbers exactly, floats rounded to nearest. Returns how many: fewer than n when
// the next one is no value of it, which is an index outside of [-1, index_size) (index_size 0: outside of i32) or a
// finite number that is infinite as `dtype`. Needs pm_npy_feeds.
int64_t pm_npy_convert(const PmNpy *h, const void *from, int64_t n, PmKDtype dtype, int64_t index_size, void *to);
// Element i as text, in `out` of `size` bytes.
void pm_npy_print(const PmNpy *h, const void *from, int64_t i, char *out, size_t size);

#endif
