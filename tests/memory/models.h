// The programs of the memory tests: examples on one rank and on four.
#ifndef PM_TESTS_MEMORY_MODELS_H
#define PM_TESTS_MEMORY_MODELS_H

#include "runtime/program.h"
#include "tools/run.h"
#include "tools/tool.h"

typedef struct Example {
  const char *name;  // of the file in examples/
  const char *plan;  // NULL: one rank
  int64_t ranks;
} Example;

enum { N_EXAMPLES = 6 };
extern const Example examples[N_EXAMPLES];

typedef struct Compiled {
  PmTool t;
  PmProgram *p;
} Compiled;

// Fails the test when the compiler refuses.
void example_compile(const Example *e, Compiled *out);
void example_free(Compiled *c);
// Prints a status and fails the test; NULL is fine.
void must(PmStatus *st);
const char *example_text(const Example *e);  // "gpt_tiny on one rank"; valid until the next call

#endif
