// Asserts: our own bug. They are on in every build, print the place and the text, and abort with exit code 70.
// They never guard outside data: that is a diagnostic or a status.
#ifndef PM_BASE_ASSERT_H
#define PM_BASE_ASSERT_H

_Noreturn void pm_assert_fail(const char *file, int line, const char *cond, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

#define PM_ASSERT(cond, ...) ((cond) ? (void)0 : pm_assert_fail(__FILE__, __LINE__, #cond, __VA_ARGS__))
#define PM_UNREACHABLE(...) pm_assert_fail(__FILE__, __LINE__, "unreachable", __VA_ARGS__)

#endif
