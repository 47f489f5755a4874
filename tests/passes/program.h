// Small programs for the tests of passes: a module with axes i, j, k, ..., random functions over them, runs of the
// reference interpreter, and gradients by central differences.
#ifndef PM_TESTS_PASSES_PROGRAM_H
#define PM_TESTS_PASSES_PROGRAM_H

#include "harness.h"
#include "ir/build.h"
#include "ir/interp.h"
#include "passes/grad.h"

typedef struct Program {
  PmArena arena;
  PmInterner names;
  PmModule *m;
  PmBuilder b;
  PmAxisId i, j, k;  // sizes 2, 3, 4
  PmAxisId k2;       // another axis of size 4
  PmAxisId kp, kq;   // k = kp * kq
  PmAxisId v;        // 5, indexed
  PmAxisId r;        // 3, repeated
  uint64_t rng;
} Program;

void program_init(Program *p, uint64_t seed);
void program_deinit(Program *p);
void program_fn(Program *p, const char *name, PmFnKind kind);  // starts a function in p->b
int32_t program_below(Program *p, int32_t n);                  // random, [0, n)
double program_real(Program *p, double lo, double hi);
// f32 over the listed axes (n of them).
PmType program_type(const Program *p, int32_t n, ...);
PmType program_index_type(const Program *p, PmAxisId of, PmAxisId over);

// A random function of smooth ops that calls and repeats others. `rough`: also ops that a difference cannot cross, and
// things to simplify.
PmFnId program_random_fn(Program *p, int32_t n_nodes, int32_t depth, bool rough);

// Random operands: floats in [lo, hi], indices anywhere in their axis.
PmTensor *program_inputs(Program *p, PmFnId fn, double lo, double hi);
PmTensor *program_run(Program *p, PmFnId fn, PmInterpMode mode, const PmTensor *in);
void program_verify(const Program *p);  // and the round trip through text

// The cotangents of the float parameters for random cotangents of the float results: by the pair, by central
// differences, and the two compared: max |a - b| <= tol * max(max |b|, 1e-3).
PmTensor *program_gradients(Program *p, const PmGradPair *pair, const PmTensor *in, const PmTensor *cot);
PmTensor *program_cotangents(Program *p, PmFnId fn);
void program_check_gradients(Program *p, PmFnId fn, bool use_declared, double lo, double hi, double tol);

#endif
