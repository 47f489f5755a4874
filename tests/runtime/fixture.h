// Small programs made by hand, and short ways to make kernels. Everything lives in the arena that is passed.
#ifndef PM_TESTS_RUNTIME_FIXTURE_H
#define PM_TESTS_RUNTIME_FIXTURE_H

#include "runtime/program.h"

// ---- kernels: instructions are appended in order; each returns its number
typedef struct Kb {
  PmArena *arena;
  PmKernel *k;
  int32_t cap, axes;
} Kb;

Kb kb_new(PmArena *arena, PmKernel *k, const char *name);
int32_t kb_outer(Kb *b, int64_t extent, PmKAxisKind kind);
int32_t kb_arg(Kb *b, PmKDtype dtype, int64_t elements, bool reads, bool writes);
int32_t kb_op(Kb *b, PmInstrOp op, PmKDtype dtype, int32_t x, int32_t y, int32_t z);
int32_t kb_const(Kb *b, PmKDtype dtype, double v);
int32_t kb_index(Kb *b, int32_t axis);
// Strides of the first axes, the others 0.
int32_t kb_load(Kb *b, int32_t arg, int64_t base, int64_t s0, int64_t s1, int64_t s2);
int32_t kb_store(Kb *b, int32_t arg, int32_t value, int64_t base, int64_t s0, int64_t s1, int64_t s2);
int32_t kb_loop(Kb *b, int64_t extent);  // returns the axis
void kb_end(Kb *b);
PmInstr *kb_last(Kb *b);

// ---- programs
// A program without steps over a mesh of up to three axes (0: no such axis).
PmProgram *fixture_empty(PmArena *arena, int64_t m0, int64_t m1, int64_t m2);
PmStep *fixture_step(PmProgram *p, int32_t entry, PmStepKind kind, const char *op);
PmBuffer *fixture_buffer(PmProgram *p, const char *name, int64_t offset, int64_t bytes, int32_t entry, int32_t first,
                         int32_t last);
// Sets the sizes of the arena from the buffers.
void fixture_finish(PmProgram *p);

// mesh data, tensor. Variables w[out:8/tensor, in:6], x and y[batch:4/data, in:6], t (step). Set-up makes a table of
// cosines. A step makes h[batch, out] = dot of (x * table + t) and w, loss = sum of h, and w = w * 0.75 in place.
PmProgram *fixture_model(PmArena *arena, int64_t data, int64_t tensor);
enum { MODEL_W, MODEL_X, MODEL_Y, MODEL_T };

// mesh data. Each rank has 8 positions and two of the elements, of two slots each; rows of 3. Steps: counts, counts of
// all, slots, scatter_rows, gather_rows. Everything is persistent: idx, x, counts, all, slots, work, h, y.
PmProgram *fixture_routing(PmArena *arena, int64_t data);

// mesh data. One step, an all_reduce of three parts of f32: a[10] in place, b[3] to c[3], d[1] in place. Everything is
// persistent.
PmProgram *fixture_bucket(PmArena *arena, int64_t data);

#endif
