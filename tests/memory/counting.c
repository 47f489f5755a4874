#include "counting.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

// The C library's own functions under the names that it exports for interposers.
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

static atomic_bool counting;
static _Atomic int64_t calls;
static Counted seen;

static void count(const char *function, size_t bytes, void *caller) {
  if (!atomic_load_explicit(&counting, memory_order_relaxed)) return;
  if (atomic_fetch_add(&calls, 1) != 0) return;
  seen.first = function;
  seen.first_bytes = bytes;
  seen.first_caller = caller;
}

void counting_start(void) {
  seen = (Counted){0};
  atomic_store(&calls, 0);
  atomic_store(&counting, true);
}

void counting_stop(Counted *out) {
  atomic_store(&counting, false);
  seen.calls = atomic_load(&calls);
  *out = seen;
}

void *malloc(size_t size) {
  count("malloc", size, __builtin_return_address(0));
  return __libc_malloc(size);
}

void *calloc(size_t n, size_t size) {
  count("calloc", n * size, __builtin_return_address(0));
  return __libc_calloc(n, size);
}

void *realloc(void *p, size_t size) {
  count("realloc", size, __builtin_return_address(0));
  return __libc_realloc(p, size);
}

void *memalign(size_t alignment, size_t size) {
  count("memalign", size, __builtin_return_address(0));
  return __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
  count("aligned_alloc", size, __builtin_return_address(0));
  return __libc_memalign(alignment, size);
}

int posix_memalign(void **out, size_t alignment, size_t size) {
  count("posix_memalign", size, __builtin_return_address(0));
  *out = __libc_memalign(alignment, size);
  return *out ? 0 : ENOMEM;
}

void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset) {
  count("mmap", size, __builtin_return_address(0));
  long got = syscall(SYS_mmap, at, size, protection, flags, fd, offset);
  return got == -1 ? MAP_FAILED : (void *)got;
}

void *mremap(void *at, size_t old_size, size_t size, int flags, ...) {
  count("mremap", size, __builtin_return_address(0));
  long got = syscall(SYS_mremap, at, old_size, size, flags, NULL);
  return got == -1 ? MAP_FAILED : (void *)got;
}
