// An element of an array as it is stored, from and to a double.
#ifndef PM_RUNTIME_ELEMENT_H
#define PM_RUNTIME_ELEMENT_H

#include "runtime/program.h"

// Element i of the array at `at`. Floats round to nearest, ties to even; i32 is cut towards zero, and `v` must fit;
// bool is v != 0.
void pm_element_store(PmKDtype dtype, void *at, int64_t i, double v);
double pm_element_load(PmKDtype dtype, const void *at, int64_t i);

#endif
