#include "runtime/data.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/philox.h"
#include "runtime/slices.h"

#define LLMC_MAGIC 20240520
#define LLMC_VERSION 1
#define LLMC_HEADER 1024
#define BLOCK 4096  // bytes read at a time
#define ROUNDS 6

typedef struct File {
  const char *path;
  int fd;
  int64_t start;  // first byte of the tokens
  int64_t tokens;
  int64_t first_window;  // number of its first window
} File;

struct PmData {
  PmArena arena;
  const PmProgram *p;
  uint64_t seed;
  bool wide;  // tokens of two bytes
  int64_t batch, seq, windows, tokens;
  File *files;
  int32_t n_files, cap_files;
};

// ---- order ---------------------------------------------------------------------------------------------------------
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

// ---- files ---------------------------------------------------------------------------------------------------------
// Reads exactly n bytes; false at the end of the file or on an error.
static bool read_at(int fd, void *to, int64_t n, int64_t offset) {
  char *at = to;
  while (n > 0) {
    ssize_t got = pread(fd, at, (size_t)n, (off_t)offset);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    n -= got;
    offset += got;
  }
  return true;
}

static PmStatus *measure_llmc(File *f, int64_t bytes) {
  int32_t header[3];
  if (bytes < LLMC_HEADER || !read_at(f->fd, header, sizeof header, 0)) {
    return PM_STATUS(PM_ERR_INPUT, "%s: %lld bytes are too few for an llmc file", f->path, (long long)bytes);
  }
  if (header[0] != LLMC_MAGIC || header[1] != LLMC_VERSION) {
    return PM_STATUS(PM_ERR_INPUT, "%s: not an llmc file: it begins with %d, %d, not %d, %d", f->path, header[0],
                     header[1], LLMC_MAGIC, LLMC_VERSION);
  }
  f->start = LLMC_HEADER;
  f->tokens = header[2];
  if (header[2] < 0 || f->tokens * 2 > bytes - LLMC_HEADER) {
    return PM_STATUS(PM_ERR_INPUT, "%s: its header promises %d tokens, the file has room for %lld", f->path, header[2],
                     (long long)(bytes - LLMC_HEADER) / 2);
  }
  return NULL;
}

static PmStatus *open_file(PmData *d, const char *path) {
  d->files = pm_grow(&d->arena, d->files, d->n_files, &d->cap_files, sizeof *d->files);
  File *f = &d->files[d->n_files];
  f->path = pm_arena_strdup(&d->arena, path);
  f->fd = open(path, O_RDONLY | O_CLOEXEC);
  if (f->fd < 0) return PM_STATUS(PM_ERR_ENVIRONMENT, "cannot open %s: %s", path, strerror(errno));
  d->n_files++;
  struct stat info;
  if (fstat(f->fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    return PM_STATUS(PM_ERR_ENVIRONMENT, "%s is not a file", path);
  }
  f->tokens = info.st_size;
  if (d->wide) PM_TRY(measure_llmc(f, info.st_size));
  f->first_window = d->windows;
  d->tokens += f->tokens;
  if (f->tokens > d->seq) d->windows += (f->tokens - 1) / d->seq;
  return NULL;
}

static PmStatus *open_pattern(PmData *d, const char *pattern) {
  glob_t found;
  int err = glob(pattern, 0, NULL, &found);
  if (err) {
    globfree(&found);
    return PM_STATUS(PM_ERR_ENVIRONMENT, err == GLOB_NOMATCH ? "no data file `%s`" : "cannot list data files `%s`",
                     pattern);
  }
  PmStatus *st = NULL;
  for (size_t i = 0; i < found.gl_pathc && !st; i++) st = open_file(d, found.gl_pathv[i]);
  globfree(&found);
  return st;
}

static PmStatus *check_fed(PmData *d, int32_t var) {
  if (var < 0) return NULL;
  const PmProgVar *v = &d->p->vars[var];
  bool shaped = v->rank == 1 || v->rank == 2;
  int64_t seq = shaped ? v->dims[v->rank - 1].size : 0, batch = v->rank == 2 ? v->dims[0].size : 1;
  if (v->dtype != PM_K_I32 || !shaped) {
    return PM_STATUS(PM_ERR_INPUT, "data feed `%s`, which is no [batch, seq] input of indices", v->path);
  }
  if (d->seq && (seq != d->seq || batch != d->batch)) {
    return PM_STATUS(PM_ERR_INPUT, "data feed `%s` and `%s`, whose shapes differ", d->p->vars[d->p->data.x].path,
                     v->path);
  }
  d->seq = seq;
  d->batch = batch;
  return NULL;
}

static PmStatus *open_all(PmData *d) {
  const PmProgData *from = &d->p->data;
  if (!from->format) return PM_STATUS(PM_ERR_INPUT, "the program names no data");
  d->wide = strcmp(from->format, "llmc") == 0;
  if (!d->wide && strcmp(from->format, "bytes") != 0) {
    return PM_STATUS(PM_ERR_INPUT, "unknown data format `%s`; there are bytes, llmc", from->format);
  }
  PM_TRY(check_fed(d, from->x));
  PM_TRY(check_fed(d, from->y));
  if (!d->seq) return PM_STATUS(PM_ERR_INPUT, "data feed no input");
  for (int32_t i = 0; i < from->n_files; i++) PM_TRY(open_pattern(d, from->files[i]));
  if (d->windows == 0) {
    return PM_STATUS(PM_ERR_INPUT, "the data have %lld tokens in %d files; one window takes %lld", (long long)d->tokens,
                     d->n_files, (long long)d->seq + 1);
  }
  return NULL;
}

PmStatus *pm_data_open(const PmProgram *p, uint64_t seed, PmData **out) {
  *out = NULL;
  PmArena arena;
  pm_arena_init(&arena, 0);
  PmData *d = PM_NEW(&arena, PmData);
  d->arena = arena;
  d->p = p;
  d->seed = seed;
  PmStatus *st = open_all(d);
  if (st) {
    pm_data_close(d);
    return st;
  }
  *out = d;
  return NULL;
}

void pm_data_close(PmData *d) {
  if (!d) return;
  for (int32_t i = 0; i < d->n_files; i++) close(d->files[i].fd);
  PmArena arena = d->arena;
  pm_arena_deinit(&arena);
}

int64_t pm_data_windows(const PmData *d) { return d->windows; }
int64_t pm_data_tokens(const PmData *d) { return d->tokens; }

// ---- filling -------------------------------------------------------------------------------------------------------
typedef struct Fill {
  const PmData *d;
  const PmProgVar *v;
  int64_t step;
  int32_t shift;  // 0 for x, 1 for y
  int32_t *dst;
} Fill;

static const File *file_of(const PmData *d, int64_t window) {
  int32_t lo = 0, hi = d->n_files - 1;
  while (lo < hi) {
    int32_t mid = lo + (hi - lo + 1) / 2;
    if (d->files[mid].first_window <= window) {
      lo = mid;
    } else {
      hi = mid - 1;
    }
  }
  return &d->files[lo];
}

static PmStatus *fill_tokens(const Fill *f, const File *file, int64_t token, int64_t n, int32_t *dst) {
  _Alignas(8) unsigned char raw[BLOCK] = {0};
  int64_t size = f->d->wide ? 2 : 1, limit = f->v->index_size;
  while (n > 0) {
    int64_t part = n < BLOCK / size ? n : BLOCK / size;
    if (!read_at(file->fd, raw, part * size, file->start + token * size)) {
      return PM_STATUS(PM_ERR_INPUT, "%s: cannot read token %lld: the file changed or is damaged", file->path,
                       (long long)token);
    }
    for (int64_t i = 0; i < part; i++) {
      dst[i] = f->d->wide ? raw[2 * i] | raw[2 * i + 1] << 8 : raw[i];
      if (limit && dst[i] >= limit) {
        return PM_STATUS(PM_ERR_INPUT, "%s: token %lld is %d, but `%s` indexes an axis of %lld", file->path,
                         (long long)(token + i), dst[i], f->v->path, (long long)limit);
      }
    }
    dst += part;
    token += part;
    n -= part;
  }
  return NULL;
}

// A run may span rows: elements [global, global + n) of [batch, seq].
static PmStatus *fill_run(void *context, int64_t local, int64_t global, int64_t n) {
  const Fill *f = context;
  const PmData *d = f->d;
  while (n > 0) {
    int64_t row = global / d->seq, col = global % d->seq, part = d->seq - col < n ? d->seq - col : n;
    int64_t number;
    if (!pm_mad_i64(f->step, d->batch, row, &number)) {
      return PM_STATUS(PM_ERR_LIMIT, "step %lld counts too many windows", (long long)f->step);
    }
    int64_t epoch = number / d->windows;
    number %= d->windows;
    if (d->p->data.shuffle) number = pm_data_permute(d->windows, d->seed, epoch, number);
    const File *file = file_of(d, number);
    int64_t token = (number - file->first_window) * d->seq + col + f->shift;
    PM_TRY(fill_tokens(f, file, token, part, f->dst + local));
    local += part;
    global += part;
    n -= part;
  }
  return NULL;
}

PmStatus *pm_data_fill(const PmData *d, int32_t var, int64_t rank, int64_t step, int32_t *dst) {
  if (var < 0 || (var != d->p->data.x && var != d->p->data.y) || step < 0) {
    return PM_STATUS(PM_ERR_INTERNAL, "data do not feed variable %d at step %lld", var, (long long)step);
  }
  const PmProgVar *v = &d->p->vars[var];
  Fill f = {.d = d, .v = v, .step = step, .shift = var == d->p->data.y, .dst = dst};
  return pm_slice_walk(d->p, v->dims, v->rank, rank, fill_run, &f);
}
