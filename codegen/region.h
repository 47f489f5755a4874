// What code generation works on, between the IR and the run plan.
//
// A region is a straight line of nodes over local shapes: an entry function, or the body of a repeat, with all calls
// inlined. Its way: `lower` makes the nodes, `fuse` groups them into items (kernels, dots, collectives, repeats),
// `emit` turns items into abstract steps on virtual buffers, `unroll` binds virtual buffers to instances, turn by turn,
// and `assemble` gives instances their places in the arena. A body is lowered once, whatever the number of turns.
// Ownership: everything lives in the arena of PmCg and dies with it, but for what the program keeps (PmCg.out_arena).
#ifndef PM_CODEGEN_REGION_H
#define PM_CODEGEN_REGION_H

#include "codegen/kernel_build.h"
#include "ir/ir.h"
#include "runtime/program.h"

#define PM_CG_RANK 16  // dims of a value: PM_MAX_RANK, and those that collectives and splits add

typedef int32_t PmCgId;  // index into PmCgRegion.values

typedef struct PmCgDim {
  int32_t axis;  // PmAxisId, or one of the axes that code generation adds
  int64_t extent;
} PmCgDim;

typedef struct PmCgValue {
  uint8_t dtype;  // PmKDtype
  int32_t rank;
  PmCgDim dims[PM_CG_RANK];
  int32_t def;  // node, or PM_NONE for a parameter (then its id is its number)
  const char *name;
} PmCgValue;

typedef struct PmCgRegion PmCgRegion;

// The numbering of a `random` node's elements: turn_stride . turns + stride . (local index + offset).
typedef struct PmCgDraw {
  uint64_t key;
  double stride[PM_CG_RANK], turn_stride[PM_CG_RANK];
  PmCoordTerm offset[PM_CG_RANK];
  // Where chunk is not 0: a dim in zigzag order, whose index gets `early` more below `chunk` and `late` more from there.
  int64_t chunk[PM_CG_RANK];
  PmCoordTerm early[PM_CG_RANK], late[PM_CG_RANK];
} PmCgDraw;

// Attributes as PmAttr has them, with local extents; those of collectives are set apart:
//   pos, slice       offset is added to the local index; index, scatter_add: it is subtracted from the indices
//   all_gather, ...  the operand and the result are contiguous, exactly as PmColl has them
//   gather_rows, scatter_rows: operands (source, indices)
//   slot_of          operands (indices), and the counts of all where the ranks of a group count one after the other;
//                    index: bounded. Without `to`: the counts of this rank
typedef struct PmCgNode {
  PmOp op;
  int32_t n_in, n_out;
  PmCgId *in;
  PmCgId out;
  double number;
  PmScalar fn;
  PmReduceKind kind;
  int64_t index;
  int32_t n_axes, n_to;
  int32_t axes[PM_CG_RANK], to[PM_CG_RANK];
  PmCoordTerm offset;
  int32_t n_mesh;
  uint8_t mesh[PM_MAX_MESH], mesh_to[PM_MAX_MESH];  // mesh_to: of a permute only, as PmColl.to
  PmCgRegion *body;
  int32_t n_carry, n_inv;
  bool reverse;
  int32_t loc;           // of PmCg.locs, or -1
  const char *origin;    // composite that it comes from, or NULL
  const PmCgDraw *draw;  // random
  const PmRows *rows;    // of an exchange; its idx and width still open
} PmCgNode;

// Memory of a value: element index = offset + sum stride[i] * coordinate(dim i).
typedef struct PmCgView {
  int32_t buf;  // virtual buffer, or PM_NONE: not in memory
  int64_t offset;
  int64_t stride[PM_CG_RANK];
} PmCgView;

// A virtual buffer: what one value fills. Buffers of parameters come first.
typedef struct PmCgBuf {
  uint8_t dtype, owner;
  int64_t bytes;
  int32_t table;  // of PmCg.tables, or PM_NONE
  const char *name;
} PmCgBuf;

// Bytes [offset, offset + bytes) of a virtual buffer.
typedef struct PmCgRef {
  int32_t buf;
  int64_t offset, bytes;
} PmCgRef;

typedef enum PmCgItemKind {
  PM_CG_KERNEL,
  PM_CG_DOT,
  PM_CG_COLL,
  PM_CG_REPEAT,
  PM_CG_SCATTER,
  PM_CG_SLOTS
} PmCgItemKind;

// One unit of the schedule. A kernel works on the space of its axes: outer (O) and looped (R).
typedef struct PmCgItem {
  PmCgItemKind kind;
  int32_t node;  // but for kernels
  // kernels
  bool host;    // in double, by the interpreter
  bool column;  // the looped axes lead and the lanes are outer
  int32_t n_space;
  PmCgDim space[PM_CG_RANK];
  bool looped[PM_CG_RANK];
  int32_t n_nodes, cap_nodes, work;
  int32_t *nodes;
  int32_t n_ext, cap_ext;
  PmCgId *ext;  // values from elsewhere that it may read
} PmCgItem;

typedef enum PmCgStepKind {
  PM_CG_STEP_KERNEL,
  PM_CG_STEP_DOT,
  PM_CG_STEP_COLL,
  PM_CG_STEP_SLOTS,
  PM_CG_STEP_REPEAT
} PmCgStepKind;

typedef struct PmCgStep {
  PmCgStepKind kind;
  int32_t loc;
  const char *op;
  double flops, bytes;
  // kernel: its arguments; dot: a, b, c; collective: src, dst, and idx if it has rows, or src, dst of each further
  // part; slots: idx, dst, and unless it is counting work, and counts if ranks have counted; repeat: its operands, then
  // its results
  int32_t n_refs;
  PmCgRef *refs;
  bool *writes;    // of each ref
  int32_t kernel;  // of PmCg.kernels
  PmCoordTerm *scalars;
  PmDot *dot;  // ranges still open
  PmColl *coll;
  PmSlots *slots;
  const PmCgNode *repeat;
} PmCgStep;

// What fusion knows of a value.
typedef struct PmCgInfo {
  bool exact;  // made of constants and positions only
  bool has_pos;
  bool is_const;  // folded: every element is `number`
  double number;
  bool is_int;  // exact, whole, within [lo, hi], which i32 and f32 hold
  double lo, hi;
  bool stored;               // written to memory by its home or its item
  bool spread;               // broadcast along new axes, and dearer than a load: computed once, not for every element
  bool fixed;                // its order may not change any more
  int8_t order[PM_CG_RANK];  // dims, physically outermost first
  int32_t home;              // item that computes it, or PM_NONE
  int32_t ready;             // item after which it can be had, computed again if need be
  int32_t depth;             // of the expression down to what is stored, weighted
  int32_t cost;              // of computing one element again from what is stored
  bool view_known;
  PmCgView view;
} PmCgInfo;

struct PmCgRegion {
  PmCgValue *values;
  PmCgNode *nodes;
  PmCgInfo *info;
  int32_t n_values, cap_values, n_nodes, cap_nodes, n_params;
  int32_t n_results;
  PmCgId *results;
  int32_t *cse;  // open hash table of nodes + 1
  int32_t n_cse;
  // entries: variable of each parameter and result, PM_NONE elsewhere; NULL for bodies
  const PmVarId *param_var, *result_var;
  // fusion
  PmCgItem *items;
  int32_t n_items, cap_items;
  bool *cut;              // by node: begins a kernel of its own
  bool *keep;             // by value: stored, or kernels would pass a limit
  const PmCgNode *stuck;  // its kernel passes a limit and cannot be relieved
  // emission
  PmCgBuf *bufs;
  int32_t n_bufs, cap_bufs;
  PmCgStep *steps;
  int32_t n_steps, cap_steps;
  PmCgRef *result_ref;
  int32_t *by_value[3];  // scratch of n_values numbers each, for one kernel at a time
  int32_t *last_reader;  // by virtual buffer: last item that reads it, before emission
};

// Numbers of pos and constants alone, computed once by a host kernel of entry `setup`.
typedef struct PmCgTable {
  const char *key;  // canonical text of the expression
  uint8_t dtype;
  int64_t bytes;
  PmCgStep step;  // refs[0]: the table itself
} PmCgTable;

typedef struct PmCg {
  PmArena *arena;      // scratch
  PmArena *out_arena;  // the program's
  const PmModule *m;
  int32_t next_axis;
  int32_t *members;  // those of its axes that are over the members of a group
  int32_t n_members, cap_members;
  PmKernel **kernels;
  uint64_t *kernel_hash;
  int32_t n_kernels, cap_kernels, cap_kernel_hash;
  PmProgLoc *locs;
  int32_t n_locs, cap_locs;
  PmCgTable *tables;
  int32_t n_tables, cap_tables;
  PmStatus *status;  // first failure of a hook
} PmCg;

// ---- region.c: building and asking ----------------------------------------------------------------------------------
PmCgRegion *pm_cg_region_new(PmCg *cg);
PmCgId pm_cg_value(PmCg *cg, PmCgRegion *r, const PmCgValue *v);
// Appends the node with one result of the given form (its dtype and dims); an equal earlier node serves instead.
PmCgId pm_cg_node(PmCg *cg, PmCgRegion *r, const PmCgNode *node, const PmCgId *in, int32_t n_in,
                  const PmCgValue *result);
int32_t pm_cg_find_axis(const PmCgValue *v, int32_t axis);  // position among the dims, or PM_NONE
int64_t pm_cg_elements(const PmCgValue *v);                 // product of the extents
static inline const PmCgNode *pm_cg_def(const PmCgRegion *r, PmCgId v) {
  return r->values[v].def < 0 ? NULL : &r->nodes[r->values[v].def];
}
bool pm_cg_is_op(const PmCgRegion *r, PmCgId v, PmOp op);
bool pm_cg_coord_zero(const PmCoordTerm *t);  // the same 0 on every rank
int32_t pm_cg_loc(PmCg *cg, PmLoc loc);       // its number among the program's places, -1 for none
// A kernel of the program; an equal earlier one (names aside) serves instead.
int32_t pm_cg_add_kernel(PmCg *cg, PmKernel *k);
double pm_cg_kernel_flops(const PmKernel *k);  // of one run, arithmetic in floats: a multiply-add is two
// A new virtual buffer of the region, and a new step at its end with `n_refs` refs to fill in.
int32_t pm_cg_buf(PmCg *cg, PmCgRegion *r, PmKDtype dtype, int64_t elements, PmOwner owner, const char *name);
PmCgStep *pm_cg_step(PmCg *cg, PmCgRegion *r, PmCgStepKind kind, int32_t n_refs);

// ---- lower*.c: IR -> nodes ------------------------------------------------------------------------------------------
// The region of an entry function or of a repeat's body.
PmCgRegion *pm_cg_lower(PmCg *cg, PmFnId fn);
// The local shape of a type.
PmCgValue pm_cg_local(PmCg *cg, const PmType *t);

// ---- exact.c --------------------------------------------------------------------------------------------------------
// Constants, exact numbers and their ranges, depths: fills those fields of r->info.
void pm_cg_exact(PmCg *cg, PmCgRegion *r);
// A value that a table holds: the edge between exact doubles and the rest, when it costs more than a few instructions.
bool pm_cg_is_table(const PmCgRegion *r, PmCgId v);

// ---- order.c: physical orders and views -----------------------------------------------------------------------------
// Chooses r->info[].order, and what must be in memory because something other than a kernel's expression reads it.
void pm_cg_orders(PmCgRegion *r);
// True when the op moves no element of a stored operand (given the operand's order).
bool pm_cg_is_view(const PmCgRegion *r, const PmCgNode *n);
// True for what has a step of its own (or is a parameter), and so is in memory whatever fusion decides.
bool pm_cg_has_step(const PmCgRegion *r, PmCgId v);
// Where v lies, PM_NONE for buf when it is computed where it is used.
const PmCgView *pm_cg_view(PmCg *cg, PmCgRegion *r, PmCgId v);
// Strides, in elements and by dim, of v when it is contiguous with its dims in `order`, outermost first.
void pm_cg_canonical(const PmCgValue *v, const int8_t *order, int64_t *out_stride);
// The view is contiguous with v's dims as they stand.
bool pm_cg_view_contiguous(const PmCgValue *v, const PmCgView *view);

// ---- fuse.c ---------------------------------------------------------------------------------------------------------
// Groups nodes into items, with r->cut as it stands.
void pm_cg_fuse(PmCg *cg, PmCgRegion *r);
// Space of the kernel that computes a node.
int32_t pm_cg_space(const PmCgRegion *r, const PmCgNode *n, PmCgDim *out);
// True when the kernel `item` reads v from memory (else it computes it).
bool pm_cg_loads(const PmCgRegion *r, int32_t item, PmCgId v);
// The values that an item reads from memory. `seen`: by value, zeroed before the first item.
typedef void PmCgVisit(void *ctx, PmCgId v);
void pm_cg_item_reads(const PmCgRegion *r, int32_t item, int32_t *seen, PmCgVisit *visit, void *ctx);
// A scatter_add that sums nothing: the result has all axes of the updates, so that a kernel computes it by comparison.
bool pm_cg_is_onehot(const PmCgRegion *r, const PmCgNode *n);

// ---- emit.c, kernel.c, dot.c, scatter.c -----------------------------------------------------------------------------
// Items -> steps. False when the kernel of an item passes a limit of program.h: r->cut and r->keep then ask for less,
// unless r->stuck.
bool pm_cg_emit(PmCg *cg, PmCgRegion *r);
bool pm_cg_emit_kernel(PmCg *cg, PmCgRegion *r, int32_t item);
bool pm_cg_emit_scatter(PmCg *cg, PmCgRegion *r, int32_t item);
void pm_cg_emit_dot(PmCg *cg, PmCgRegion *r, int32_t item);
const char *pm_cg_dot_text(const PmCg *cg, const PmCgNode *n);  // "dot[embed]"
// Zeros for a whole virtual buffer.
void pm_cg_emit_fill(PmCg *cg, PmCgRegion *r, int32_t buf, int32_t loc);
// dst[...] = src[...] over `extent`; strides in elements.
void pm_cg_emit_copy(PmCg *cg, PmCgRegion *r, PmKDtype dtype, const int64_t *extent, int32_t rank, PmCgRef src,
                     const int64_t *src_stride, PmCgRef dst, const int64_t *dst_stride, const char *op, int32_t loc);
// A kernel that copies n contiguous elements.
int32_t pm_cg_copy_kernel(PmCg *cg, PmKDtype dtype, int64_t n);
// The table of v, which pm_cg_is_table names and which is not stored; stride 0 where the table does not vary.
const PmCgView *pm_cg_table(PmCg *cg, PmCgRegion *r, PmCgId v);

// Lowers, fuses and emits one function. LIMIT when one op alone passes the limits of a kernel.
PmStatus *pm_cg_build(PmCg *cg, PmFnId fn, PmCgRegion **out);

// ---- unroll.c and assemble.c ----------------------------------------------------------------------------------------
typedef struct PmCgInst {  // one live range of memory
  int64_t bytes, offset;   // offset: in the arena, once known
  uint8_t owner;
  int32_t first, last;  // steps; first < 0: not used
  bool persistent;
  const char *name;
} PmCgInst;

typedef struct PmCgAt {
  int32_t inst;  // or PM_NONE
  int64_t offset;
} PmCgAt;

typedef struct PmCgLine {  // one step of the program, its ranges still relative to instances
  const PmCgStep *step;
  PmCgAt *at;  // of each ref
} PmCgLine;

typedef struct PmCgPlan {
  PmCgInst *insts;
  int32_t n_insts, cap_insts;
  PmCgLine *lines;
  int32_t n_lines, cap_lines;
} PmCgPlan;

// A new live range, which nothing uses yet.
int32_t pm_cg_inst(PmCg *cg, PmCgPlan *plan, int64_t bytes, PmOwner owner, const char *name, bool persistent);
// The produced result of a repeat that is carried value `carry` as it came, or PM_NONE.
int32_t pm_cg_produced_as_carried(const PmCgNode *repeat, int32_t carry);
// Appends the steps of an entry region. `param` gives the place of each parameter, `table` that of each table;
// out_result tells where results are.
void pm_cg_unroll(PmCg *cg, PmCgPlan *plan, const PmCgRegion *r, const PmCgAt *param, const PmCgAt *table,
                  PmCgAt *out_result);
void pm_cg_copy_line(PmCg *cg, PmCgPlan *plan, PmKDtype dtype, int64_t bytes, PmCgAt src, PmCgAt dst, const char *op);

#endif
