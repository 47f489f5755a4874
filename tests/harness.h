// What every cmocka test needs, in the order that cmocka.h asks for.
#ifndef PM_TESTS_HARNESS_H
#define PM_TESTS_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
