#include "base/glob.h"

#include <stddef.h>
#include <string.h>

// The classic two-pointer match with one backtrack point; linear in practice and never recursive. `end` bounds `s`.
static bool match_span(const char *g, const char *s, const char *end) {
  const char *star = NULL, *retry = NULL;
  while (s < end) {
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

static bool match_subtrees(const char *glob, const char *path) {
  for (const char *end = path + strlen(path);;) {
    if (match_span(glob, path, end)) return true;
    do {
      if (end == path) return false;
      end--;
    } while (*end != '.');
  }
}

bool pm_glob_match(const char *glob, const char *path) {
  if (match_subtrees(glob, path)) return true;
  return strncmp(glob, "*.", 2) == 0 && match_subtrees(glob + 2, path);
}
