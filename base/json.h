// A streaming JSON writer: begin/end pairs, commas and escapes are its own business. Non-finite numbers print as null.
#ifndef PM_BASE_JSON_H
#define PM_BASE_JSON_H

#include <stdbool.h>

#include "base/buf.h"

typedef struct PmJson {
  PmBuf *out;
  uint64_t has_item;  // one bit a nesting level
  int32_t depth;      // at most 63
  bool after_key;
  bool pretty;  // two-space indentation
} PmJson;

void pm_json_init(PmJson *j, PmBuf *out, bool pretty);
void pm_json_object(PmJson *j);
void pm_json_end_object(PmJson *j);
void pm_json_array(PmJson *j);
void pm_json_end_array(PmJson *j);
void pm_json_key(PmJson *j, const char *key);
void pm_json_str(PmJson *j, const char *s);
void pm_json_i64(PmJson *j, int64_t v);
void pm_json_f64(PmJson *j, double v);
void pm_json_bool(PmJson *j, bool v);
void pm_json_null(PmJson *j);

#endif
