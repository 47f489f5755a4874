// The run plan (.prun): plain data, written by codegen and read by runtime and sim. It knows no IR.
//
// One program serves every rank (SPMD): what differs between ranks is computed from the rank's mesh coordinates
// (PmCoordTerm). A program is data interpreted by a closed set of instructions: steps run in order, there are no jumps.
// All offsets and sizes are bytes unless a field says elements. Strides are in elements.
// Ownership: everything lives in the arena that the program was built in or read into.
#ifndef PM_RUNTIME_PROGRAM_H
#define PM_RUNTIME_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/status.h"

#define PM_PROGRAM_VERSION 6
#define PM_KERNEL_MAX_AXES 12   // outer axes and loops of one kernel together
#define PM_KERNEL_MAX_ARGS 24
#define PM_KERNEL_MAX_SCALARS 8
#define PM_DOT_MAX_LOOPS 10
#define PM_PROGRAM_MAX_RANK 12
#define PM_PROGRAM_MAX_MESH 16
#define PM_ARENA_ALIGN 64       // every buffer starts at a multiple

typedef enum PmKDtype {
  PM_K_BOOL, PM_K_I32, PM_K_F32, PM_K_F64,  // 1, 4, 4, 8 bytes
  PM_K_BF16, PM_K_F16,                      // 2 bytes: in memory only. A load of one gives f32, a store rounds f32 to it
  PM_K_DTYPE_COUNT
} PmKDtype;

// ---- kernels -------------------------------------------------------------------------------------------------------
// A kernel is one loop nest. `n_outer` outer axes run outermost first; the body is straight-line code in SSA form (the
// value of instruction i is i) with LOOP ... END pairs inside. Every outer axis and every LOOP has an axis number: outer
// axes 0 .. n_outer - 1, loops follow in order of appearance. Addresses are affine in the axes' indices.
//
// Vectors: with vec == PM_VEC_OUTER the last outer axis is spread over lanes and every value of the body is a vector; with
// PM_VEC_LOOP the innermost loops are spread over lanes and what stands outside of them is scalar. The result never
// depends on the width: an ACC over a loop of n turns adds turn i to partial i % 32 in ascending order, then combines
// pairwise: p[j] += p[j + 16], then 8, 4, 2, 1. Max propagates NaN. No contraction: fma only where PM_I_FMA stands.
typedef enum PmKAxisKind {
  PM_KA_GRID,  // turns are independent: may run in any order and in parallel
  PM_KA_SEQ,   // turns run in order (scatter)
} PmKAxisKind;

typedef enum PmVec { PM_VEC_OUTER, PM_VEC_LOOP } PmVec;

typedef enum PmInstrOp {
#define INSTR(name, text, n_in, what) PM_I_##name,
#include "runtime/instrs.def"
  PM_INSTR_COUNT
} PmInstrOp;

typedef struct PmInstr {
  uint8_t op;     // PmInstrOp
  uint8_t dtype;  // PmKDtype of the value (CMP_*: of the operands, the value is bool; LOAD, STORE: of the argument)
  int16_t arg;    // LOAD, STORE*: argument; PARAM: scalar; LOOP, INDEX: axis
  int32_t a, b, c;  // operand values (instruction numbers), -1 if absent. STORE*: a is the value stored
  double number;    // CONST
  int64_t extent;   // LOOP: number of turns (>= 1)
  // LOAD, STORE*: element index = base + sum stride[axis] * index(axis) + (dyn >= 0 ? value(dyn) * dyn_stride : 0).
  // When dyn is outside [0, dyn_extent) a load gives 0 and a store does nothing.
  int64_t base;
  int64_t stride[PM_KERNEL_MAX_AXES];
  int32_t dyn;  // i32 value, or -1
  int64_t dyn_stride, dyn_extent;
} PmInstr;

typedef struct PmKArg {
  uint8_t dtype;   // PmKDtype
  bool reads, writes;
  int64_t bytes;   // the kernel touches bytes [0, bytes) of the argument
} PmKArg;

typedef struct PmKernel {
  const char *name;
  bool host;       // runs in the kernel interpreter in double with the C library's functions (PM_I_CALL_* allowed):
                   // tables and numbers derived from the step; never compiled
  uint8_t vec;     // PmVec
  int32_t n_outer;
  int64_t outer[PM_KERNEL_MAX_AXES];
  uint8_t outer_kind[PM_KERNEL_MAX_AXES];  // PmKAxisKind
  int32_t n_args, n_scalars;
  PmKArg args[PM_KERNEL_MAX_ARGS];
  int32_t n_instrs;
  PmInstr *instrs;
} PmKernel;

// Compiled form. Runs outer axis 0 over [begin, end) and the other axes whole; an axis-0 SEQ kernel is always called
// with the full range. A kernel without outer axes has range [0, 1).
typedef void (*PmKernelFn)(char *const *args, const int32_t *scalars, int64_t begin, int64_t end);

// ---- steps ---------------------------------------------------------------------------------------------------------
// value = constant + sum over mesh axes of stride[m] * coordinate(m)
typedef struct PmCoordTerm {
  int64_t constant;
  int64_t stride[PM_PROGRAM_MAX_MESH];
} PmCoordTerm;

typedef struct PmRange {
  int64_t offset, bytes;  // in the arena
} PmRange;

// C[m, n] (+)= sum over k of A[m, k] * B[k, n], once for each turn of the loops (outermost first). Strides in elements;
// in each of A, B, C at least one of its two strides is 1 (or its extent is 1). A loop with `sum` adds into C: its first
// turn stores (when no earlier sum loop has a turn behind it), later turns accumulate.
typedef struct PmDotLoop {
  int64_t extent, a, b, c;  // element strides
  bool sum;
} PmDotLoop;

typedef struct PmDot {
  uint8_t dtype;  // PM_K_F32 or PM_K_F64
  PmRange a, b, c;
  int64_t m, n, k;
  int64_t a_m, a_k, b_k, b_n, c_m, c_n;  // strides
  int32_t n_loops;
  PmDotLoop loops[PM_DOT_MAX_LOOPS];
} PmDot;

typedef enum PmCollKind {
#define COLL(NAME, name, fn) PM_COLL_##NAME,
#include "runtime/colls.def"
  PM_COLL_COUNT
} PmCollKind;

// One axis of the rows of a table, of which a rank holds [first, first + local).
typedef struct PmRowDim {
  int64_t size, local;
  PmCoordTerm first;
} PmRowDim;

// Where the rows are that gather_rows and scatter_rows move. Indices are i32: row-major places on `dims`, by their whole
// sizes. A rank's part of the table is row-major over the local sizes. Any other index (hostile ones too) names no row.
#define PM_ROW_DIMS 2
typedef struct PmRows {
  PmRange idx;    // of this rank's positions
  int64_t width;  // elements of a row
  int32_t n_dims;
  PmRowDim dims[PM_ROW_DIMS];
} PmRows;

// A further tensor of an all_reduce, which is one exchange for all of them: of the same dtype, reduced from its src to
// its dst. Each dst may equal its own src, and overlaps no other range.
typedef struct PmCollPart {
  int64_t count;
  PmRange src, dst;
} PmCollPart;

// On contiguous elements, among the ranks that differ only in the coordinates of `mesh` (ordered row-major, as listed).
//   all_reduce:     src[count] -> dst[count]
//   all_gather:     src[count] -> dst[count * group], member order
//   reduce_scatter: src[count * group] -> dst[count]
//   all_to_all:     src[count * group] -> dst[count * group]: block j goes to member j
//   permute:        src[count] -> dst[count]: the member at place i of the order over `mesh` sends to the one at place
//                   i of the row-major order over `to`, the same mesh axes in another order (pm_coll_source)
//   shift:          src[count] -> dst[count]: to the next member, from the last to the first
//   gather_rows:    src[rows of this rank * width], idx[count] -> dst[count * width]: for each position the row that its
//                   index names, from the member that holds it; zeros when none of the group does
//   scatter_rows:   src[count * width], idx[count] -> dst[rows of this rank * width]: each position's row goes to the
//                   member that holds the row that its index names, if one does; other rows are zero. Members in order,
//                   positions in order: of several for one row the last counts
// dst may equal src for all_reduce only; otherwise the ranges do not overlap. Reductions run in member order.
typedef struct PmColl {
  uint8_t kind, dtype, reduce;  // reduce: 0 sum, 1 max
  int32_t n_mesh;
  uint8_t mesh[PM_PROGRAM_MAX_MESH];
  int32_t n_to;  // of a permute: n_mesh, else 0
  uint8_t to[PM_PROGRAM_MAX_MESH];
  int64_t count;
  PmRange src, dst;
  PmRows *rows;  // of gather_rows and scatter_rows, else NULL
  int32_t n_more;    // below PM_MAX_PARTS
  PmCollPart *more;  // of an all_reduce: the parts behind count, src, dst, which are the first
} PmColl;

// Gives slots to positions, in their order: position i is the next one of element idx[i]. In O(count + experts).
//   counting: dst[experts]: how many positions each element has
//   else:     dst[count]: idx * slots + place, where place counts the earlier positions of the element, from those of the
//             members before this rank on; -1 where place >= slots or idx is outside of [0, experts)
// All numbers are i32. With n_mesh > 0 `counts` holds what `counting` gave on each member of the group, in order, and
// this rank has the positions of its own; else it has all positions, and `counts` is empty. `work`: experts numbers.
// With `bounded` a position without a slot ends the run: LIMIT, on every rank alike.
typedef struct PmSlots {
  bool counting, bounded;
  int32_t n_mesh;
  uint8_t mesh[PM_PROGRAM_MAX_MESH];
  int64_t count, experts, slots;
  PmRange idx, counts, work, dst;
} PmSlots;

typedef struct PmKernelCall {
  int32_t kernel;
  PmRange args[PM_KERNEL_MAX_ARGS];
  PmCoordTerm scalars[PM_KERNEL_MAX_SCALARS];
} PmKernelCall;

typedef enum PmStepKind { PM_STEP_KERNEL, PM_STEP_DOT, PM_STEP_COLL, PM_STEP_SLOTS, PM_STEP_KIND_COUNT } PmStepKind;

typedef struct PmStep {
  uint8_t kind;
  int32_t loc;            // index into PmProgram.locs, -1: none
  const char *op;         // what it does, for people: "softmax", "dot[embed]", "all_reduce"
  double flops, bytes;    // predicted work of one rank
  union {
    PmKernelCall *kernel;
    PmDot *dot;
    PmColl *coll;
    PmSlots *slots;
  } u;
} PmStep;

// ---- the program ---------------------------------------------------------------------------------------------------
typedef enum PmOwner {  // who pays for a byte
  PM_OWN_PARAM, PM_OWN_STATE, PM_OWN_GRAD, PM_OWN_ACT, PM_OWN_INPUT, PM_OWN_TABLE, PM_OWN_COMM, PM_OWN_SCRATCH, PM_OWN_COUNT
} PmOwner;
const char *pm_owner_text(PmOwner o);

typedef struct PmBuffer {  // one live range: for memory reports and the checker
  PmRange at;
  uint8_t owner;
  int32_t entry;        // PM_ENTRY_* it belongs to, -1: persistent (lives for the whole run)
  int32_t first, last;  // steps of the entry: written first, read last
  const char *name;     // value path or op
} PmBuffer;

typedef struct PmVarDim {
  const char *axis;
  int64_t size;   // global, without padding
  int64_t pad;    // positions behind it that stand for nothing, so that the mesh axes divide size + pad
  int32_t n_mesh; // divides by these mesh axes, major to minor
  uint8_t mesh[PM_PROGRAM_MAX_MESH];
  bool zigzag;    // over the first of them, of c: rank r has chunks r and 2 c - 1 - r of 2 c, of which the others take parts
} PmVarDim;

typedef enum PmVarRole { PM_VAR_PARAM, PM_VAR_STATE, PM_VAR_INPUT, PM_VAR_STEP, PM_VAR_ROLE_COUNT } PmVarRole;
typedef enum PmVarInit { PM_VAR_INIT_NONE, PM_VAR_INIT_CONST, PM_VAR_INIT_NORMAL, PM_VAR_INIT_UNIFORM, PM_VAR_INIT_COUNT } PmVarInit;

typedef struct PmProgVar {
  const char *path;
  uint8_t role, dtype, init;
  double init_value;
  int32_t twin;         // of a parameter that is a working copy: its master, a state; of a master: its copy; -1: neither.
                        // Both draw their first values by the path of the copy, which is the cast of its master
  int64_t index_size;   // i32 inputs: legal values are -1 .. index_size - 1; 0: any
  int32_t rank;
  PmVarDim dims[PM_PROGRAM_MAX_RANK];
  PmRange at;           // local part, row-major
} PmProgVar;

typedef struct PmOutput {
  const char *name;     // "loss", "grad_norm", "lr", "logits", "d(wte)"
  uint8_t dtype;
  int32_t rank;
  PmVarDim dims[PM_PROGRAM_MAX_RANK];
  PmRange at;           // valid after the entry ran
} PmOutput;

enum { PM_ENTRY_SETUP, PM_ENTRY_STEP, PM_ENTRY_EVAL, PM_ENTRY_COUNT };  // setup: tables, once

typedef struct PmEntry {
  bool present;
  int32_t n_steps;
  PmStep *steps;
  int32_t n_outputs;
  PmOutput *outputs;
} PmEntry;

typedef struct PmProgLoc {
  const char *path;
  int32_t line, col;
} PmProgLoc;

typedef struct PmProgFeed {
  int32_t var;
  int32_t first, n_files;  // its rows stand in these files, one behind the other
} PmProgFeed;

typedef struct PmProgData {
  const char *format;  // "bytes", "llmc", "npy", or NULL
  int32_t n_files;
  const char **files;
  int32_t x, y;        // bytes, llmc: indices into vars, -1 if absent
  bool shuffle;
  int32_t n_feeds;     // npy
  PmProgFeed *feeds;
} PmProgData;

typedef struct PmProgram {
  PmArena *arena;
  const char *model, *plan;  // names; plan may be NULL
  int32_t n_mesh;
  const char *mesh_name[PM_PROGRAM_MAX_MESH];
  int64_t mesh_size[PM_PROGRAM_MAX_MESH];
  int64_t arena_bytes;       // exactly what each rank allocates
  int64_t persistent_bytes;  // its bottom part
  int64_t live_bytes;        // largest sum of live aligned bytes over the steps: lower bound of arena_bytes
  int32_t n_vars, n_kernels, n_buffers, n_locs;
  PmProgVar *vars;
  PmKernel *kernels;
  PmBuffer *buffers;
  PmProgLoc *locs;
  PmEntry entries[PM_ENTRY_COUNT];
  PmProgData data;
  int64_t steps;             // of the training run
  uint64_t seed;
} PmProgram;

int64_t pm_program_ranks(const PmProgram *p);
int64_t pm_program_micro_batches(const PmProgram *p);  // of a step: 1 without `accumulate`
int64_t pm_program_coord(const PmProgram *p, int64_t rank, int32_t mesh);
int64_t pm_coord_term(const PmProgram *p, const PmCoordTerm *t, int64_t rank);
// Ranks in a group over the listed mesh axes, and the place of a rank in its own.
int64_t pm_program_group(const PmProgram *p, const uint8_t *mesh, int32_t n);
int64_t pm_program_member(const PmProgram *p, const uint8_t *mesh, int32_t n, int64_t rank);
// What a collective moves, at most: bytes of the larger of source and result of each part, or of the rows of all
// positions.
int64_t pm_coll_bytes(const PmColl *c);
int64_t pm_coll_elements(const PmColl *c);  // the counts of all parts together
// What all members have to agree on, in one number: everything but where the ranges lie.
uint64_t pm_coll_form(const PmColl *c);
// Part i of 0 .. n_more.
static inline PmCollPart pm_coll_part(const PmColl *c, int32_t i) {
  return i == 0 ? (PmCollPart){c->count, c->src, c->dst} : c->more[i - 1];
}
int64_t pm_var_dim_local(const PmProgram *p, const PmVarDim *d);
// The member (by its place in the order over `mesh`) whose elements `member` receives in a permute or a shift.
int64_t pm_coll_source(const PmProgram *p, const PmColl *c, int64_t member);
// Global index of element `local` of what the rank holds; out_run: elements from there on that follow it in both.
int64_t pm_var_dim_global(const PmProgram *p, const PmVarDim *d, int64_t rank, int64_t local, int64_t *out_run);
int64_t pm_kdtype_bytes(PmKDtype d);
static inline bool pm_kdtype_is_half(PmKDtype d) { return d == PM_K_BF16 || d == PM_K_F16; }
// The dtype of a value that memory holds as d.
static inline PmKDtype pm_kdtype_value(PmKDtype d) { return pm_kdtype_is_half(d) ? PM_K_F32 : d; }
const char *pm_kdtype_text(PmKDtype d);
const char *pm_instr_text(PmInstrOp op);
int32_t pm_instr_n_in(PmInstrOp op);

// The container: magic, version, sections, XXH64 checksum. Reading validates (pm_program_validate) before it returns.
void pm_program_write(const PmProgram *p, PmBuf *out);
PM_MUST_CHECK PmStatus *pm_program_read(PmArena *arena, const char *path, const void *data, size_t len, PmProgram **out);
// Text form; pm_program_read also accepts it (by its first line), and both forms read back to the same program.
void pm_program_print(const PmProgram *p, PmBuf *out);
// Proves from the program alone that every access of every step stays inside its declared ranges and the arena, every
// kernel is well formed, collectives agree with the mesh, parallel turns of a kernel never store to one place, memory
// ranges of buffers that live together do not overlap, and arena_bytes is the recomputed peak. CORRUPTION or INPUT.
PM_MUST_CHECK PmStatus *pm_program_validate(const PmProgram *p);

// ---- the kernel compiler that tools hand to the runtime ---------------------------------------------------------------
typedef struct PmKernelCompiler PmKernelCompiler;
struct PmKernelCompiler {
  const char *name;  // "llvm"
  // Compiles every kernel that is not `host`; out_fns[i] is NULL for host kernels. The code lives until destroy.
  PmStatus *(*compile)(PmKernelCompiler *self, const PmProgram *p, PmKernelFn *out_fns);
  void (*destroy)(PmKernelCompiler *self);
};

#endif
