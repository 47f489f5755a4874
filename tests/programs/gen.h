// Random programs over the grammar: texts that the checker accepts, made from a seed. Whoever adds a construct to the
// language adds a maker here.
#ifndef PM_TESTS_PROGRAMS_GEN_H
#define PM_TESTS_PROGRAMS_GEN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

// A set of axes. FA and FB are the formal axes of a function, BD that of a block; they have no size of their own.
typedef uint32_t Axes;
enum { BATCH, SEQ, KV, EMBED, HEADS, HDIM, FF, VOCAB, EXPERT, CHOICE, SLOT, LAYER, DEPTH, FA, FB, BD, N_AXES };
#define A(axis) ((Axes)1 << (axis))

enum { MAX_VALS = 96, MAX_SUBS = 16, MAX_CALLEES = 8, MAX_ARGS = 3 };

typedef struct Callee {
  char name[16];
  Axes args[MAX_ARGS], results[2];
  int n_args, n_results, n_formals;
  bool has_state;  // a block's: an instance is called once a step
  bool is_norm;    // layernorm or rmsnorm of the library: one argument that has the formal axis, kept
} Callee;

typedef struct Val {
  char name[16];
  Axes axes;
  int index_of;  // axis that it points into; -1: floats
  bool fixed;    // may not be assigned
  bool carried;  // keeps its axes
} Val;

typedef struct Sub {
  char name[16];
  const Callee *block;
  int formal;  // axis that stands for BD
  bool spent;  // has a state and was called, or may not be called here
} Sub;

// What an expression may use.
typedef struct Scope {
  Val vals[MAX_VALS];
  int n_vals;
  Sub subs[MAX_SUBS];
  int n_subs;
  bool in_fn;     // no dropout, no blocks
  bool in_model;  // reports
  int n_repeats;
} Scope;

typedef struct Gen {
  uint64_t key, at;
  PmBuf *out;
  int64_t size[N_AXES];
  Callee blocks[MAX_CALLEES], fns[MAX_CALLEES];
  int n_blocks, n_fns, n_pointwise, n_consts;
  int n_names;
  bool mixed;   // values have several dtypes
  bool ragged;  // the axis `slot` has the size that its one dispatch gives it
  bool routed;
  bool fed;         // tokens feed all inputs
  bool planned;     // sizes divide over a mesh of two by two
  char pinned[16];  // a parameter of the model that has `heads`; may be empty
} Gen;

// gen.c
uint32_t gen_below(Gen *g, uint32_t n);
bool gen_chance(Gen *g, uint32_t percent);
void gen_put(Gen *g, const char *format, ...) __attribute__((format(printf, 2, 3)));
void gen_names(Gen *g, Axes axes);  // "seq, batch" in any order
const char *gen_axis(int axis);
int gen_one_of(Gen *g, Axes axes);  // an axis of a set that is not empty
Axes gen_some_of(Gen *g, Axes axes, int most);
int gen_count(Axes axes);
// Appends a program; the same seed gives the same text. *out_plan: it has a plan named `p0`.
void gen_program(uint64_t seed, PmBuf *out, bool *out_plan);

// gen_expr.c
void gen_number(Gen *g);
void gen_expr(Gen *g, Scope *s, Axes want, int depth);  // floats over exactly `want`, which the scope covers
Axes gen_cover(const Scope *s);                         // the axes of the scope's floats

// gen_block.c
void gen_pointwise(Gen *g);
void gen_fn(Gen *g);
void gen_block(Gen *g);
void gen_model(Gen *g);

// scramble.c: the same tokens under other spaces, line ends, semicolons and comments.
void gen_scramble(uint64_t seed, const char *text, PmBuf *out);

#endif
