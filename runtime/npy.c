#include "runtime/npy.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/half.h"

static const char magic[] = "\x93NUMPY";
#define MAGIC 6
#define KEYS 3

// The header's dictionary under the reader.
typedef struct Text {
  const char *path;
  const char *at, *stop;
  PmStatus *st;
} Text;

static bool fail(Text *t, const char *what) {
  if (!t->st) t->st = PM_STATUS(PM_ERR_INPUT, "%s: not an array that can be read: %s", t->path, what);
  return false;
}

static void blanks(Text *t) {
  while (t->at < t->stop && (*t->at == ' ' || *t->at == '\n')) t->at++;
}

static bool accept(Text *t, char c) {
  blanks(t);
  if (t->at == t->stop || *t->at != c) return false;
  t->at++;
  return true;
}

static bool expect(Text *t, char c, const char *what) { return accept(t, c) || fail(t, what); }

// A quoted word of at most cap - 1 characters, no escapes.
static bool word(Text *t, char *out, size_t cap) {
  blanks(t);
  char quote = t->at < t->stop ? *t->at : 0;
  if (quote != '\'' && quote != '"') return false;
  size_t n = 0;
  for (const char *c = t->at + 1; c < t->stop && n < cap; c++) {
    if (*c == quote) {
      out[n] = 0;
      t->at = c + 1;
      return true;
    }
    if (*c < ' ' || *c > '~' || *c == '\\') return false;
    out[n++] = *c;
  }
  return false;
}

static bool read_dtype(Text *t, PmNpy *h) {
  char text[8];
  if (!word(t, text, sizeof text)) return fail(t, "its elements are no plain numbers");
  if (text[0] == '>')
    return fail(t, "its numbers are big-endian; write them with `a.astype(a.dtype.newbyteorder('<'))`");
  static const char *const known[] = {"|b1", "|i1", "|u1", "<i2", "<u2", "<i4",
                                      "<u4", "<i8", "<u8", "<f2", "<f4", "<f8"};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    if (strcmp(known[i], text) != 0) continue;
    h->kind = text[1];
    h->bytes = text[2] - '0';
    return true;
  }
  return fail(t, "its elements are neither truth values, whole numbers nor floats of at most 8 bytes");
}

static bool read_order(Text *t) {
  static const char no[] = "False", yes[] = "True";
  blanks(t);
  if ((size_t)(t->stop - t->at) >= sizeof no - 1 && memcmp(t->at, no, sizeof no - 1) == 0) {
    t->at += sizeof no - 1;
    return true;
  }
  if ((size_t)(t->stop - t->at) >= sizeof yes - 1 && memcmp(t->at, yes, sizeof yes - 1) == 0) {
    return fail(t, "it is in Fortran order; write it with `numpy.ascontiguousarray(a)`");
  }
  return fail(t, "`fortran_order` is neither False nor True");
}

static bool read_size(Text *t, int64_t *out) {
  blanks(t);
  const char *first = t->at;
  *out = 0;
  while (t->at < t->stop && *t->at >= '0' && *t->at <= '9') {
    if (!pm_mad_i64(*out, 10, *t->at++ - '0', out) || *out > PM_MAX_ELEMENTS) return fail(t, "its shape is too large");
  }
  return t->at > first || fail(t, "its shape is no list of sizes");
}

static bool read_shape(Text *t, PmNpy *h) {
  if (!expect(t, '(', "its shape is no list of sizes")) return false;
  h->elements = 1;
  bool comma = true;
  while (!accept(t, ')')) {
    if (!comma) return fail(t, "its shape is no list of sizes");
    if (h->rank == PM_PROGRAM_MAX_RANK) return fail(t, "it has more than 12 axes");
    int64_t *size = &h->dims[h->rank++];
    if (!read_size(t, size)) return false;
    if (!pm_mul_i64(h->elements, *size, &h->elements) || h->elements > PM_MAX_ELEMENTS) {
      return fail(t, "its shape is too large");
    }
    comma = accept(t, ',');
  }
  return true;
}

static bool read_dict(Text *t, PmNpy *h) {
  static const char *const keys[KEYS] = {"descr", "fortran_order", "shape"};
  bool seen[KEYS] = {false};
  if (!expect(t, '{', "its header is no dictionary")) return false;
  for (int n = 0; n < KEYS; n++) {
    char key[16];
    int k = 0;
    if (!word(t, key, sizeof key)) return fail(t, "its header has not the keys `descr`, `fortran_order`, `shape`");
    while (k < KEYS && strcmp(keys[k], key) != 0) k++;
    if (k == KEYS || seen[k]) return fail(t, "its header has not the keys `descr`, `fortran_order`, `shape`");
    seen[k] = true;
    if (!expect(t, ':', "its header is no dictionary")) return false;
    if (!(k == 0 ? read_dtype(t, h) : k == 1 ? read_order(t) : read_shape(t, h))) return false;
    if (!accept(t, ',') && n < KEYS - 1) return fail(t, "its header is no dictionary");
  }
  if (!expect(t, '}', "its header is no dictionary")) return false;
  blanks(t);
  return t->at == t->stop || fail(t, "something stands behind its header");
}

PmStatus *pm_npy_header(const char *path, const void *text, int64_t len, int64_t file_bytes, PmNpy *out) {
  const unsigned char *raw = text;
  *out = (PmNpy){0};
  if (len < MAGIC + 4 || memcmp(raw, magic, MAGIC) != 0) {
    return PM_STATUS(PM_ERR_INPUT, "%s: not a .npy file: it does not begin with \\x93NUMPY", path);
  }
  int version = raw[6];
  if (version < 1 || version > 3 || raw[7] != 0) {
    return PM_STATUS(PM_ERR_INPUT, "%s: .npy version %d.%d; there are 1.0, 2.0, 3.0", path, version, raw[7]);
  }
  int64_t begin = version == 1 ? MAGIC + 4 : MAGIC + 6, size = 0;
  for (int64_t i = begin - 1; i >= MAGIC + 2 && begin <= len; i--) size = size << 8 | raw[i];
  out->start = begin + size;
  if (begin > len || out->start > len || out->start > PM_NPY_MAX_HEADER) {
    return PM_STATUS(PM_ERR_INPUT, "%s: its header of %lld bytes is cut off, or longer than %d", path, (long long)size,
                     PM_NPY_MAX_HEADER);
  }
  Text t = {.path = path, .at = (const char *)raw + begin, .stop = (const char *)raw + out->start};
  if (!read_dict(&t, out)) return t.st;
  int64_t bytes = out->elements * out->bytes;  // at most 2^51
  if (bytes == file_bytes - out->start) return NULL;
  return PM_STATUS(PM_ERR_INPUT, "%s: its header promises %lld bytes of elements, the file has %lld", path,
                   (long long)bytes, (long long)(file_bytes - out->start));
}

bool pm_npy_feeds(const PmNpy *h, PmKDtype dtype) {
  if (dtype == PM_K_I32) return h->kind == 'i' || h->kind == 'u';
  return dtype != PM_K_BOOL;
}

// ---- elements ------------------------------------------------------------------------------------------------------
static uint64_t bits_of(const PmNpy *h, const void *from, int64_t i) {
  uint64_t bits = 0;
  memcpy(&bits, (const char *)from + i * h->bytes, (size_t)h->bytes);
  return bits;
}

static int64_t sign_extended(const PmNpy *h, uint64_t bits) {
  int unused = 64 - 8 * h->bytes;
  return (int64_t)(bits << unused) >> unused;
}

static double as_double(const PmNpy *h, uint64_t bits) {
  if (h->kind == 'b') return bits != 0;
  if (h->kind == 'i') return (double)sign_extended(h, bits);
  if (h->kind == 'u') return (double)bits;
  if (h->bytes == 2) return (double)pm_f16_to_f32((uint16_t)bits);
  float narrow;
  double wide;
  uint32_t low = (uint32_t)bits;
  memcpy(&narrow, &low, sizeof narrow);
  memcpy(&wide, &bits, sizeof wide);
  return h->bytes == 4 ? (double)narrow : wide;
}

static bool put_index(const PmNpy *h, uint64_t bits, int64_t size, int32_t *to) {
  if (h->kind == 'u' && bits > INT32_MAX) return false;
  int64_t v = h->kind == 'i' ? sign_extended(h, bits) : (int64_t)bits;
  *to = (int32_t)v;
  return size ? v >= -1 && v < size : v == *to;
}

static bool put_float(double v, PmKDtype dtype, int64_t i, void *to) {
  float f32 = (float)v;
  uint16_t half = dtype == PM_K_BF16 ? pm_bf16_from(v) : pm_f16_from(v);
  bool fits = true;
  if (dtype == PM_K_F64) ((double *)to)[i] = v;
  if (dtype == PM_K_F32) {
    ((float *)to)[i] = f32;
    fits = !isinf(f32);
  }
  if (pm_kdtype_is_half(dtype)) {
    ((uint16_t *)to)[i] = half;
    fits = !isinf(dtype == PM_K_BF16 ? pm_bf16_to_f32(half) : pm_f16_to_f32(half));
  }
  return fits || isinf(v);
}

int64_t pm_npy_convert(const PmNpy *h, const void *from, int64_t n, PmKDtype dtype, int64_t index_size, void *to) {
  for (int64_t i = 0; i < n; i++) {
    uint64_t bits = bits_of(h, from, i);
    bool ok = dtype == PM_K_I32 ? put_index(h, bits, index_size, (int32_t *)to + i)
                                : put_float(as_double(h, bits), dtype, i, to);
    if (!ok) return i;
  }
  return n;
}

void pm_npy_print(const PmNpy *h, const void *from, int64_t i, char *out, size_t size) {
  uint64_t bits = bits_of(h, from, i);
  if (h->kind == 'u') {
    snprintf(out, size, "%llu", (unsigned long long)bits);
  } else if (h->kind == 'i') {
    snprintf(out, size, "%lld", (long long)sign_extended(h, bits));
  } else {
    snprintf(out, size, "%g", as_double(h, bits));
  }
}
