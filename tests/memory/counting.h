// Counts what the whole process asks of the C library's allocator and of the kernel's memory map, in every thread.
//
// counting.c defines malloc and its family and mmap in the test's own executable, where the dynamic linker finds them
// before those of the C library, also for calls from LLVM and BLAS.
#ifndef PM_TESTS_MEMORY_COUNTING_H
#define PM_TESTS_MEMORY_COUNTING_H

#include <stddef.h>
#include <stdint.h>

typedef struct Counted {
  int64_t calls;
  const char *first;  // the function called first, NULL: none
  size_t first_bytes;
  void *first_caller;
} Counted;

void counting_start(void);
void counting_stop(Counted *out);

#endif
