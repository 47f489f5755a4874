#include "base/utf8.h"

int pm_utf8_len(const char *s) {
  const unsigned char *u = (const unsigned char *)s;
  if (u[0] < 0x80) return 1;
  if (u[0] < 0xc2 || u[0] > 0xf4) return 0;
  int n = u[0] < 0xe0 ? 2 : u[0] < 0xf0 ? 3 : 4;
  // The second byte's range excludes overlong forms, surrogates and values above U+10FFFF.
  unsigned lo = u[0] == 0xe0 ? 0xa0 : u[0] == 0xf0 ? 0x90 : 0x80;
  unsigned hi = u[0] == 0xed ? 0x9f : u[0] == 0xf4 ? 0x8f : 0xbf;
  if (u[1] < lo || u[1] > hi) return 0;
  for (int i = 2; i < n; i++) {
    if ((u[i] & 0xc0) != 0x80) return 0;
  }
  return n;
}
