#include "base/glob.h"

#include <stddef.h>
#include <string.h>

// The classic two-pointer match with one backtrack point; linear in practice and never recursive. `end` bounds `s`.
static bool match_span(const char *g, const char *s, const char *end, int64_t *budget) {
  const char *star = NULL, *retry = NULL;
  while (s < end) {
    if (--*budget < 0) return false;
    if (*g == '*') {
      star = g++;
      retry = s;
    } else if (*g && (*g == '?' || *g == *s)) {
      g++;
      s++;
    } else if (star) {
      g = star + 1;
      s = ++retry;
    } else {
      return false;
    }
  }
  while (*g == '*') g++;
  return *g == 0;
}

static bool match_subtrees(const char *glob, const char *path, int64_t *budget) {
  for (const char *end = path + strlen(path);;) {
    if (match_span(glob, path, end, budget)) return true;
    do {
      if (end == path || --*budget < 0) return false;
      end--;
    } while (*end != '.');
  }
}

bool pm_glob_match_within(const char *glob, const char *path, int64_t *budget) {
  if (match_subtrees(glob, path, budget)) return true;
  return strncmp(glob, "*.", 2) == 0 && match_subtrees(glob + 2, path, budget);
}

bool pm_glob_match(const char *glob, const char *path) {
  int64_t budget = INT64_MAX;
  return pm_glob_match_within(glob, path, &budget);
}
