// UTF-8 at the borders where user text is printed.
#ifndef PM_BASE_UTF8_H
#define PM_BASE_UTF8_H

// Bytes of the well-formed character that begins at `s` (NUL-terminated text), or 0 when none does. 1 for a NUL.
int pm_utf8_len(const char *s);

#endif
