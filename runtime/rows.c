#include "runtime/rows.h"

#include <string.h>

PmRowPart pm_row_part(const PmProgram *p, const PmColl *c, int64_t rank) {
  const PmRows *r = c->rows;
  PmRowPart part = {.size = {1, 1}, .local = {1, 1}, .row_bytes = r->width * pm_kdtype_bytes((PmKDtype)c->dtype)};
  for (int32_t i = 0; i < r->n_dims; i++) {
    const int32_t at = i + PM_ROW_DIMS - r->n_dims;
    part.size[at] = r->dims[i].size;
    part.local[at] = r->dims[i].local;
    part.first[at] = pm_coord_term(p, &r->dims[i].first, rank);
  }
  part.bytes = part.local[0] * part.local[1] * part.row_bytes;
  return part;
}

int64_t pm_row_at(const PmRowPart *part, int64_t index) {
  if (index < 0 || index >= part->size[0] * part->size[1]) return -1;
  const int64_t major = index / part->size[1] - part->first[0], minor = index % part->size[1] - part->first[1];
  if (major < 0 || major >= part->local[0] || minor < 0 || minor >= part->local[1]) return -1;
  return (major * part->local[1] + minor) * part->row_bytes;
}

void pm_rows_take(const PmRowPart *part, int64_t n, const int32_t *idx, const char *table, char *dst) {
  for (int64_t i = 0; i < n; i++) {
    const int64_t at = pm_row_at(part, idx[i]);
    if (at >= 0) memcpy(dst + i * part->row_bytes, table + at, (size_t)part->row_bytes);
  }
}

void pm_rows_put(const PmRowPart *part, int64_t n, const int32_t *idx, const char *src, char *table) {
  for (int64_t i = 0; i < n; i++) {
    const int64_t at = pm_row_at(part, idx[i]);
    if (at >= 0) memcpy(table + at, src + i * part->row_bytes, (size_t)part->row_bytes);
  }
}
