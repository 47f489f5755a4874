#include "codegen/cpu/object_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"

#define MAX_OBJECT_BYTES (64 << 20)

// Behind the object. Written and read on one machine, so the layout is the compiler's.
typedef struct Footer {
  char magic[8];
  uint64_t len, hash;
  PmObjectKey key;
} Footer;

static const char MAGIC[8] = {'p', 'm', 'o', 'b', 'j', '0', '0', '1'};

static void entry_path(const char *dir, PmObjectKey key, PmBuf *out) {
  pm_buf_printf(out, "%s/%016" PRIx64 "%016" PRIx64 ".o", dir, key.hi, key.lo);
}

static bool read_all(int fd, void *data, size_t len) {
  for (char *at = data; len > 0;) {
    const ssize_t n = read(fd, at, len);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    len -= (size_t)n;
  }
  return true;
}

static bool write_all(int fd, const void *data, size_t len) {
  for (const char *at = data; len > 0;) {
    const ssize_t n = write(fd, at, len);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    len -= (size_t)n;
  }
  return true;
}

static bool footer_fits(const Footer *f, PmObjectKey key, const char *object, size_t len) {
  return memcmp(f->magic, MAGIC, sizeof MAGIC) == 0 && f->len == len && f->key.lo == key.lo && f->key.hi == key.hi &&
         f->hash == pm_hash64(object, len, 0);
}

bool pm_object_cache_read(const char *dir, PmObjectKey key, PmBuf *out) {
  PmBuf path, all;
  pm_buf_init(&path);
  pm_buf_init(&all);
  entry_path(dir, key, &path);
  const int fd = open(pm_buf_str(&path), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  pm_buf_deinit(&path);
  struct stat st;
  Footer footer;
  // The entry will be executed: only files that nobody else could have written are taken.
  bool ok = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & 022) &&
            st.st_size >= (off_t)sizeof footer && st.st_size <= MAX_OBJECT_BYTES;
  char chunk[16384];
  for (off_t left = ok ? st.st_size : 0; ok && left > 0;) {
    const size_t n = left < (off_t)sizeof chunk ? (size_t)left : sizeof chunk;
    ok = read_all(fd, chunk, n);
    if (ok) pm_buf_put(&all, chunk, n);
    left -= (off_t)n;
  }
  if (fd >= 0) close(fd);
  if (ok) {
    const size_t len = all.len - sizeof footer;
    memcpy(&footer, all.data + len, sizeof footer);
    ok = footer_fits(&footer, key, all.data, len);
    if (ok) pm_buf_put(out, all.data, len);
  }
  pm_buf_deinit(&all);
  return ok;
}

void pm_object_cache_write(const char *dir, PmObjectKey key, const void *data, size_t len) {
  if (mkdir(dir, 0755) != 0 && errno != EEXIST) return;
  Footer footer = {.len = len, .hash = pm_hash64(data, len, 0), .key = key};
  memcpy(footer.magic, MAGIC, sizeof MAGIC);
  PmBuf temp, path;
  pm_buf_init(&temp);
  pm_buf_init(&path);
  pm_buf_printf(&temp, "%s/tmp-XXXXXX", dir);
  entry_path(dir, key, &path);
  const int fd = mkstemp(temp.data);
  if (fd >= 0) {
    // No fsync, which takes longer than the code generator: what a crash leaves torn, the footer turns into a miss.
    bool ok = write_all(fd, data, len) && write_all(fd, &footer, sizeof footer);
    ok = close(fd) == 0 && ok;
    if (!ok || rename(temp.data, path.data) != 0) unlink(temp.data);
  }
  pm_buf_deinit(&temp);
  pm_buf_deinit(&path);
}
