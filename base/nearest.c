#include <string.h>

#include "base/diag.h"

#define MAX_NAME 64

static int min_int(int a, int b) { return a < b ? a : b; }

// Edits (insert, delete, replace, swap of neighbours) from `a` to `b`, each at most MAX_NAME long.
// Time and space: O(na * nb).
static int edit_distance(const char *a, int na, const char *b, int nb) {
  int d[MAX_NAME + 1][MAX_NAME + 1];
  for (int i = 0; i <= na; i++) d[i][0] = i;
  for (int j = 0; j <= nb; j++) d[0][j] = j;
  for (int i = 1; i <= na; i++) {
    for (int j = 1; j <= nb; j++) {
      int best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
      best = min_int(best, min_int(d[i - 1][j], d[i][j - 1]) + 1);
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) best = min_int(best, d[i - 2][j - 2] + 1);
      d[i][j] = best;
    }
  }
  return d[na][nb];
}

const char *pm_did_you_mean(const char *name, const char *const *candidates, int32_t n) {
  size_t len = strnlen(name, MAX_NAME + 1);
  if (len == 0 || len > MAX_NAME) return NULL;
  int allowed = (int)len / 3 > 1 ? (int)len / 3 : 1;
  const char *best = NULL;
  int best_edits = allowed + 1;
  for (int32_t i = 0; i < n; i++) {
    size_t other = strnlen(candidates[i], MAX_NAME + 1);
    if (other > MAX_NAME) continue;
    int edits = edit_distance(name, (int)len, candidates[i], (int)other);
    if (edits < best_edits) {
      best = candidates[i];
      best_edits = edits;
    }
  }
  return best;
}
