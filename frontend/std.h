// The text of frontend/std.pmodel, put into the library by the build.
#ifndef PM_FRONTEND_STD_H
#define PM_FRONTEND_STD_H

extern const unsigned char pm_std_text[];  // NUL-terminated
extern const unsigned pm_std_text_len;

#endif
