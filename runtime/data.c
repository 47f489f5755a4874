#include "runtime/data.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "runtime/npy.h"
#include "runtime/slices.h"

#define LLMC_MAGIC 20240520
#define LLMC_VERSION 1
#define LLMC_HEADER 1024
#define BLOCK 4096  // bytes read at a time

typedef struct File {
  const char *path;
  int fd;
  int64_t start;  // first byte of the tokens
  int64_t tokens;
  int64_t first_window;  // number of its first window, of those of its feed
  PmNpy npy;
} File;

// What one variable reads.
typedef struct Feed {
  int32_t var;
  int32_t shift;       // in tokens
  int32_t first, n;    // files
  int64_t batch, row;  // windows a step, and elements of one
  int64_t windows;
} Feed;

struct PmData {
  PmArena arena;
  const PmProgram *p;
  uint64_t seed;
  bool npy, wide;  // wide: tokens of two bytes
  int64_t tokens;
  File *files;
  int32_t n_files, cap_files;
  Feed *feeds;  // at least one once it is open
  int32_t n_feeds;
};

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

// Checks the array against the input that it feeds: rows of the input's axes behind the first.
static PmStatus *measure_npy(const PmData *d, const Feed *feed, File *f, int64_t bytes) {
  const PmProgVar *v = &d->p->vars[feed->var];
  char header[PM_NPY_MAX_HEADER];
  int64_t len = bytes < PM_NPY_MAX_HEADER ? bytes : PM_NPY_MAX_HEADER;
  if (!read_at(f->fd, header, len, 0)) return PM_STATUS(PM_ERR_INPUT, "%s: cannot be read", f->path);
  PM_TRY(pm_npy_header(f->path, header, len, bytes, &f->npy));
  if (!pm_npy_feeds(&f->npy, (PmKDtype)v->dtype)) {
    return PM_STATUS(PM_ERR_INPUT, "%s: `%s` takes %s", f->path, v->path,
                     v->dtype == PM_K_I32 ? "indices, which are whole numbers, and the array holds others"
                                          : "truth values, which no array feeds");
  }
  PmVarDim dims[PM_PROGRAM_MAX_RANK];
  int32_t rank = pm_row_dims(v, dims);
  bool same = f->npy.rank == rank;
  for (int32_t i = 1; same && i < rank; i++) same = f->npy.dims[i] == dims[i].size;
  if (same) {
    f->start = f->npy.start;
    f->tokens = f->npy.dims[0];
    return NULL;
  }
  PmBuf text = {0};
  pm_buf_printf(&text, "%s: `%s` takes rows of shape [N", f->path, v->path);
  for (int32_t i = 1; i < rank; i++) pm_buf_printf(&text, ", %s=%lld", dims[i].axis, (long long)dims[i].size);
  pm_buf_puts(&text, "], the array has [");
  for (int32_t i = 0; i < f->npy.rank; i++) pm_buf_printf(&text, "%s%lld", i ? ", " : "", (long long)f->npy.dims[i]);
  PmStatus *st = PM_STATUS(PM_ERR_INPUT, "%s]", pm_buf_str(&text));
  pm_buf_deinit(&text);
  return st;
}

static PmStatus *open_file(PmData *d, Feed *feed, const char *path) {
  d->files = pm_grow(&d->arena, d->files, d->n_files, &d->cap_files, sizeof *d->files);
  File *f = &d->files[d->n_files];
  // Without waiting for the other end of a pipe, which is refused below.
  *f = (File){.path = pm_arena_strdup(&d->arena, path), .fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (f->fd < 0) return PM_STATUS(PM_ERR_ENVIRONMENT, "cannot open %s: %s", path, strerror(errno));
  d->n_files++;
  feed->n++;
  struct stat info;
  if (fstat(f->fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    return PM_STATUS(PM_ERR_ENVIRONMENT, "%s is not a file", path);
  }
  f->tokens = info.st_size;
  if (d->wide) PM_TRY(measure_llmc(f, info.st_size));
  if (d->npy) PM_TRY(measure_npy(d, feed, f, info.st_size));
  f->first_window = feed->windows;
  d->tokens += f->tokens;
  if (d->npy) feed->windows += f->tokens;
  if (!d->npy && f->tokens > feed->row) feed->windows += (f->tokens - 1) / feed->row;
  return NULL;
}

static PmStatus *open_pattern(PmData *d, Feed *feed, const char *pattern) {
  glob_t found;
  int err = glob(pattern, 0, NULL, &found);
  if (err) {
    globfree(&found);
    return PM_STATUS(PM_ERR_ENVIRONMENT, err == GLOB_NOMATCH ? "no data file `%s`" : "cannot list data files `%s`",
                     pattern);
  }
  PmStatus *st = NULL;
  for (size_t i = 0; i < found.gl_pathc && !st; i++) st = open_file(d, feed, found.gl_pathv[i]);
  globfree(&found);
  return st;
}

// A feed for tokens: a [batch, seq] or [seq] input of indices.
static PmStatus *add_tokens(PmData *d, int32_t var, int32_t shift) {
  if (var < 0) return NULL;
  const PmProgVar *v = &d->p->vars[var];
  PmVarDim dims[PM_PROGRAM_MAX_RANK];
  int32_t rank = pm_row_dims(v, dims);
  if (v->dtype != PM_K_I32 || rank < 1 || rank > 2) {
    return PM_STATUS(PM_ERR_INPUT, "data feed `%s`, which is no [batch, seq] input of indices", v->path);
  }
  Feed feed = {.var = var, .shift = shift, .batch = rank == 2 ? dims[0].size : 1, .row = dims[rank - 1].size};
  if (d->n_feeds && (feed.row != d->feeds[0].row || feed.batch != d->feeds[0].batch)) {
    return PM_STATUS(PM_ERR_INPUT, "data feed `%s` and `%s`, whose shapes differ", d->p->vars[d->feeds[0].var].path,
                     v->path);
  }
  d->feeds[d->n_feeds++] = feed;
  return NULL;
}

static PmStatus *open_tokens(PmData *d) {
  const PmProgData *from = &d->p->data;
  d->feeds = PM_NEW_N(&d->arena, Feed, 2);
  PM_TRY(add_tokens(d, from->x, 0));
  PM_TRY(add_tokens(d, from->y, 1));
  if (!d->n_feeds) return PM_STATUS(PM_ERR_INPUT, "data feed no input");
  Feed *x = &d->feeds[0];
  for (int32_t i = 0; i < from->n_files; i++) PM_TRY(open_pattern(d, x, from->files[i]));
  if (x->windows == 0) {
    return PM_STATUS(PM_ERR_INPUT, "the data have %lld tokens in %d files; one window takes %lld", (long long)d->tokens,
                     d->n_files, (long long)x->row + 1);
  }
  for (int32_t i = 1; i < d->n_feeds; i++) {
    d->feeds[i].n = x->n;
    d->feeds[i].windows = x->windows;
  }
  return NULL;
}

static PmStatus *open_npy(PmData *d) {
  const PmProgData *from = &d->p->data;
  d->feeds = PM_NEW_N(&d->arena, Feed, from->n_feeds + 1);
  for (int32_t k = 0; k < from->n_feeds; k++) {
    const PmProgVar *v = &d->p->vars[from->feeds[k].var];
    if (v->rank == 0) return PM_STATUS(PM_ERR_INPUT, "data feed `%s`, which has no rows", v->path);
    Feed *feed = &d->feeds[d->n_feeds++];
    PmVarDim dims[PM_PROGRAM_MAX_RANK];
    int32_t rank = pm_row_dims(v, dims);
    *feed = (Feed){.var = from->feeds[k].var, .first = d->n_files, .batch = dims[0].size};
    feed->row = pm_dims_elements(dims + 1, rank - 1);
    for (int32_t i = 0; i < from->feeds[k].n_files; i++) {
      PM_TRY(open_pattern(d, feed, from->files[from->feeds[k].first + i]));
    }
    const Feed *one = &d->feeds[0];
    if (feed->windows == one->windows && feed->batch == one->batch) continue;
    return PM_STATUS(PM_ERR_INPUT, "the arrays for `%s` have %lld rows, those for `%s` %lld", d->p->vars[one->var].path,
                     (long long)one->windows, v->path, (long long)feed->windows);
  }
  if (!d->n_feeds) return PM_STATUS(PM_ERR_INPUT, "data feed no input");
  return d->feeds[0].windows ? NULL : PM_STATUS(PM_ERR_INPUT, "the arrays have no row");
}

static PmStatus *open_all(PmData *d) {
  const PmProgData *from = &d->p->data;
  if (!from->format) return PM_STATUS(PM_ERR_INPUT, "the program names no data");
  d->npy = strcmp(from->format, "npy") == 0;
  d->wide = strcmp(from->format, "llmc") == 0;
  if (d->npy) return open_npy(d);
  if (d->wide || strcmp(from->format, "bytes") == 0) return open_tokens(d);
  return PM_STATUS(PM_ERR_INPUT, "unknown data format `%s`; there are bytes, llmc, npy", from->format);
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

int64_t pm_data_windows(const PmData *d) { return d->feeds[0].windows; }
int64_t pm_data_tokens(const PmData *d) { return d->tokens; }

static const Feed *find_feed(const PmData *d, int32_t var) {
  for (int32_t i = 0; i < d->n_feeds; i++) {
    if (d->feeds[i].var == var) return &d->feeds[i];
  }
  return NULL;
}

bool pm_data_feeds(const PmData *d, int32_t var) { return find_feed(d, var) != NULL; }

// ---- filling -------------------------------------------------------------------------------------------------------
typedef struct Fill {
  const PmData *d;
  const Feed *feed;
  const PmProgVar *v;
  int64_t step;
  char *dst;
} Fill;

static const File *file_of(const Fill *f, int64_t window) {
  const File *files = f->d->files + f->feed->first;
  int32_t lo = 0, hi = f->feed->n - 1;
  while (lo < hi) {
    int32_t mid = lo + (hi - lo + 1) / 2;
    if (files[mid].first_window <= window) {
      lo = mid;
    } else {
      hi = mid - 1;
    }
  }
  return &files[lo];
}

static PmStatus *damaged(const File *file, const char *what, int64_t at) {
  return PM_STATUS(PM_ERR_INPUT, "%s: cannot read %s %lld: the file changed or is damaged", file->path, what,
                   (long long)at);
}

static PmStatus *fill_tokens(const Fill *f, const File *file, int64_t token, int64_t n, int32_t *dst) {
  _Alignas(8) unsigned char raw[BLOCK] = {0};
  int64_t size = f->d->wide ? 2 : 1, limit = f->v->index_size;
  while (n > 0) {
    int64_t part = n < BLOCK / size ? n : BLOCK / size;
    if (!read_at(file->fd, raw, part * size, file->start + token * size)) return damaged(file, "token", token);
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

static PmStatus *refuse(const Fill *f, const File *file, const void *raw, int64_t i, int64_t element) {
  char value[32];
  pm_npy_print(&file->npy, raw, i, value, sizeof value);
  long long row = (long long)(element / f->feed->row);
  if (f->v->dtype != PM_K_I32) {
    return PM_STATUS(PM_ERR_INPUT, "%s: row %lld holds %s, which is infinite as the %s of `%s`", file->path, row, value,
                     pm_kdtype_text((PmKDtype)f->v->dtype), f->v->path);
  }
  return PM_STATUS(PM_ERR_INPUT, "%s: row %lld holds %s, but `%s` indexes an axis of %lld", file->path, row, value,
                   f->v->path, (long long)f->v->index_size);
}

static PmStatus *fill_array(const Fill *f, const File *file, int64_t element, int64_t n, char *dst) {
  _Alignas(8) unsigned char raw[BLOCK] = {0};
  PmKDtype dtype = (PmKDtype)f->v->dtype;
  int64_t size = file->npy.bytes;
  while (n > 0) {
    int64_t part = n < BLOCK / size ? n : BLOCK / size;
    if (!read_at(file->fd, raw, part * size, file->start + element * size)) {
      return damaged(file, "row", element / f->feed->row);
    }
    int64_t done = pm_npy_convert(&file->npy, raw, part, dtype, f->v->index_size, dst);
    if (done < part) return refuse(f, file, raw, done, element + done);
    dst += part * pm_kdtype_bytes(dtype);
    element += part;
    n -= part;
  }
  return NULL;
}

// A run may span rows: elements [global, global + n) of [batch, row].
static PmStatus *fill_run(void *context, int64_t local, int64_t global, int64_t n) {
  const Fill *f = context;
  const PmData *d = f->d;
  const Feed *feed = f->feed;
  while (n > 0) {
    int64_t row = global / feed->row, col = global % feed->row, part = feed->row - col < n ? feed->row - col : n;
    int64_t number;
    if (!pm_mad_i64(f->step, feed->batch, row, &number)) {
      return PM_STATUS(PM_ERR_LIMIT, "step %lld counts too many windows", (long long)f->step);
    }
    int64_t epoch = number / feed->windows;
    number %= feed->windows;
    if (d->p->data.shuffle) number = pm_data_permute(feed->windows, d->seed, epoch, number);
    const File *file = file_of(f, number);
    int64_t element = (number - file->first_window) * feed->row + col + feed->shift;
    char *dst = f->dst + local * pm_kdtype_bytes((PmKDtype)f->v->dtype);
    PM_TRY(d->npy ? fill_array(f, file, element, part, dst)
                  : fill_tokens(f, file, element, part, (int32_t *)(void *)dst));
    local += part;
    global += part;
    n -= part;
  }
  return NULL;
}

PmStatus *pm_data_fill(const PmData *d, int32_t var, int64_t rank, int64_t step, void *dst) {
  const Feed *feed = find_feed(d, var);
  if (!feed || step < 0) {
    return PM_STATUS(PM_ERR_INTERNAL, "data do not feed variable %d at step %lld", var, (long long)step);
  }
  const PmProgVar *v = &d->p->vars[var];
  Fill f = {.d = d, .feed = feed, .v = v, .step = step, .dst = dst};
  return pm_slice_walk(d->p, v->dims, v->rank, rank, fill_run, &f);
}
