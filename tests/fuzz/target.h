// A fuzz target reads one input that may be anything and must come back: with a status, diagnostics or a result, never
// by a crash. libFuzzer calls it by its own name; replay.c calls it on the corpus and on mutations of it.
#ifndef PM_TESTS_FUZZ_TARGET_H
#define PM_TESTS_FUZZ_TARGET_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
