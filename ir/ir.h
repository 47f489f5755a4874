// The graph: a module of functions over named axes, in SSA form. Ownership: everything lives in the module's arena and
// dies with it; nothing is freed singly. Values are ids local to their function; nodes stand in execution order.
#ifndef PM_IR_IR_H
#define PM_IR_IR_H

#include "base/arena.h"
#include "base/diag.h"
#include "base/intern.h"
#include "base/status.h"
#include "ir/namemap.h"
#include "ir/types.h"

typedef enum PmOp {
#define OP(name, n_in, n_out, flags) PM_OP_##name,
#include "ir/ops.def"
  PM_OP_COUNT
} PmOp;

typedef enum PmOpFlags {
  PM_F_EXACT = 1,     // a compile-time number: const, pos
  PM_F_LINEAR = 2,    // linear in all operands jointly: a partial sum may pass through
  PM_F_BILINEAR = 4,  // linear in either operand alone
  PM_F_REDUCE = 8,    // linear when attr.kind is PM_SUM
  PM_F_LINEAR0 = 16,  // linear in operand 0
  PM_F_LINEAR1 = 32,  // linear in operand 1
  PM_F_VIEW = 64,     // moves no element
  PM_F_CALL = 128,    // has attr.callee
  PM_F_COMM = 256,    // talks to other ranks
  PM_F_DRAW = 512,    // random numbers: the same wherever and whenever they are made again
  PM_F_STEP = 1024,   // runs as a step of its own, on contiguous operands
  PM_F_TYPED = 2048,  // the result type is given, and only checked against the operands
  PM_F_POINTWISE = 4096,  // an element of the result is made of the operands' elements at its place
  PM_F_LOOP = 8192,       // calls once for each element of attr.axes[0]
  PM_F_LARGEST = 16384,   // looks for the largest elements along attr.axes[0]
  PM_F_SLOTS = 32768,     // gives indices a slot each, by counting: attr.to[0] is attr.axes[0] with minor slots
} PmOpFlags;

typedef enum PmScalar {
#define SCALAR(name, arity, out, linear) PM_S_##name,
#include "ir/scalars.def"
  PM_SCALAR_COUNT
} PmScalar;

typedef enum PmScalarOut { PM_OUT_SAME, PM_OUT_BOOL, PM_OUT_LOGIC } PmScalarOut;
// How a partial sum passes a scalar function: not at all; when every operand is partial over the same mesh axes;
// through operand 0; through one operand while the other is not partial; through operands 1 and 2 jointly.
typedef enum PmLinear { PM_LIN_NO, PM_LIN_JOINT, PM_LIN_FIRST, PM_LIN_EITHER, PM_LIN_BRANCH } PmLinear;

// A source place as text, so that IR reads back without its sources. path NULL: none.
typedef struct PmLoc {
  const char *path;  // interned
  int32_t line, col;
} PmLoc;

// Attributes; each op uses the fields named in its row below and leaves the others zero.
//   const          number (type: any dtype, scalar)
//   pos            axes[0]; type f64[axis] (the split, if any, is given by the result type)
//   random         operands (step: f64[], turn of each repeat around: i32[]); axes[n_axes]: the axes of these repeats,
//                  outermost first; index: the stream; f32 result type given explicitly. Uniform in [0, 1): element i
//                  of the row-major order over (turns, global indices) is pm_random_uniform(pm_random_stream, step, i)
//   broadcast      result type given explicitly (operand's axes are a subset); axes[] unused
//   cast           result dtype given explicitly; to i32 with the axis, if any, that the integers point into
//   map            fn
//   dot            axes[n_axes]: the summed axes, in the operands' first order; the result has the wider operand's
//                  dtype, or is f32 where the type given says so: the sum before it is rounded
//   reduce         kind, axes[n_axes]
//   rename         axes[i] -> to[i]
//   local          axes[0] -> to[0], in place: what each rank holds of axes[0] becomes its part of to[0], split as
//                  the given result type says; the local sizes are equal. Where the split vanishes the ranks hold
//                  different values that no type tells apart, so it stands only in functions that `partition` makes
//                  whole
//   split          axes[0] -> to[n_to], major first; in place
//   merge          axes[n_axes] (major first, any position; merged at the place of axes[0]) -> to[0]
//   stack          to[0]: the new axis (its size = number of operands), placed first
//   select         axes[0], index: element `index` of that axis; the axis goes
//   index          axes[0]: operand 0's axis that operand 1 (i32, index_of == that axis) points into
//   scatter_add    operands (indices, updates); axes[0]: the axis that indices point into; result type given
//                  explicitly. result[r] = sum of updates over the positions whose index equals r's coordinate on
//                  axes[0]
//   slot_of        axes[0]: the axis e that the indices point into; to[0]: an axis of S slots for each of its
//                  elements, e major. Positions in row-major order take the slots of their element in turn: result =
//                  index * S + (number of earlier positions with that index), into to[0]; -1 past S slots and where
//                  the index is outside of e. bounded: a position past S slots is a failure. Stage LOCAL:
//                  mesh[n_mesh] splits the first dim, and the positions of all of the group count
//   topk           axes[0] = e -> to[0] = c, in place: the positions on e of the c largest elements, largest first,
//                  equal ones in order of position. i32<e>
//   call           callee
//   repeat         callee, n_carry, n_inv, axes[0] (the repeat axis), reverse
//                  operands: n_carry carried, n_inv invariant, the rest stacked (repeat axis as first dim). The callee
//                  takes (carried, invariant, stacked without the repeat axis) and returns (carried, produced); the
//                  node's results are (carried after the last turn, produced with the repeat axis as first dim).
//                  reverse: the turns run from the last element of the repeat axis to the first
//   all_reduce     mesh[n_mesh], kind: result i is operand i without these partials. One to PM_MAX_PARTS operands,
//                  all of one dtype: a bucket, which is one exchange
//   all_gather     mesh[n_mesh] (minor end of the split of axes[0]), axes[0]
//   reduce_scatter mesh[n_mesh], kind, axes[0] (mesh axes are appended to its split)
//   all_to_all     mesh[n_mesh]: from the minor end of axes[0]'s split to the minor end of to[0]'s
//   shift          mesh[n_mesh]: each member of the group gets the value of the one before it, the first that of the
//                  last
//   permute        result type given explicitly: parts of the same shape, held by other ranks; mesh[n_mesh]: the mesh
//                  axes among which it happens, in the order of the source (pm_permute_orders)
//   gather_rows    operands (table, indices); axes[n_axes], one or two: the table's row axes. The indices point into an
//                  axis of their product, major first. Positions of the indices take the place of the row axes, result
//                  type given explicitly: each position gets the row that its index names, from the rank of the group
//                  mesh[n_mesh] (any number of axes) that holds it, or zeros where none does
//   scatter_rows   operands (indices, updates); its transpose: axes[n_axes] are those of the result, whose type is
//                  given explicitly. Each row is that of the position whose index names it, from any rank of the
//                  group, or zeros. No two positions name one row: indices made by slot_of don't
//   slice          mesh[n_mesh] appended to the split of axes[0] (no communication)
typedef struct PmAttr {
  double number;
  int64_t index;
  PmScalar fn;
  PmReduceKind kind;
  PmFnId callee;
  int32_t n_carry, n_inv;
  bool reverse, bounded;
  bool zigzag;  // slice, reduce_scatter, all_to_all: the split that they make, over one mesh axis, is in this order
  uint8_t n_axes, n_to, n_mesh;
  uint8_t mesh[PM_MAX_MESH];
  PmAxisId axes[PM_MAX_RANK];
  PmAxisId to[PM_MAX_RANK];
} PmAttr;

typedef struct PmNode {
  PmOp op;
  int32_t n_in, n_out;
  PmValueId *in;
  PmValueId out;  // results are out, out + 1, ..., out + n_out - 1
  PmAttr attr;
  PmLoc loc;
} PmNode;

typedef struct PmValue {
  PmType type;
  int32_t def;       // index of the defining node, or PM_NONE for a parameter
  const char *name;  // interned path of the program's value ("layer.attn.q"), or NULL; only named values bind rules
  bool bound;        // result of a block-level statement: placement rules may bind it
  const char *why;   // after `place`: what decided the placement, for people; not part of the text form
} PmValue;

// What a function is. Composites (`fn` of the library) stay calls until fusion.
typedef enum PmFnKind {
  PM_FN_MODEL,
  PM_FN_BODY,
  PM_FN_COMPOSITE,
  PM_FN_UPDATE,
  PM_FN_SCHEDULE,
  PM_FN_STEP,
  PM_FN_EVAL
} PmFnKind;

// A parameter or result of an entry function is bound to a variable of the module, or is a named report.
typedef struct PmBinding {
  PmVarId var;         // PM_NONE: not a variable
  const char *report;  // results only: "loss", "grad_norm", "logits", ...; NULL
} PmBinding;

typedef struct PmFn {
  const char *name;  // interned, unique in the module: "gpt", "gpt.layer", "softmax.3", "gpt.layer.bwd"
  const char *base;  // composites: the library name ("softmax"), for tables that know it; else NULL
  PmFnKind kind;
  bool dead;        // dropped from the module: no pass, printer or reader sees it
  PmValue *values;  // the first n_params values are the parameters
  int32_t n_values, cap_values;
  PmNode *nodes;
  int32_t n_nodes, cap_nodes;
  int32_t n_params;
  PmBinding *param_bind;  // n_params entries, or NULL
  PmValueId *results;
  int32_t n_results;
  PmBinding *result_bind;  // n_results entries, or NULL
} PmFn;

typedef enum PmRole {
  PM_ROLE_PARAM,
  PM_ROLE_STATE,
  PM_ROLE_ACT,
  PM_ROLE_GRAD,
  PM_ROLE_INPUT,
  PM_ROLE_STEP,
  PM_ROLE_COUNT
} PmRole;
typedef enum PmInitKind { PM_INIT_NONE, PM_INIT_CONST, PM_INIT_NORMAL, PM_INIT_UNIFORM } PmInitKind;

// A variable lives from step to step: a parameter, an optimizer state, an input of each step, or the step number.
typedef struct PmVar {
  const char *path;  // "layer.attn.wq"; optimizer states "layer.attn.wq/m"; inputs "tokens"; the step number "step"
  PmRole role;
  PmType type;  // logical until `place`, then with its use placement
  PmInitKind init;
  double init_value;  // PM_INIT_CONST: the value; NORMAL: standard deviation; UNIFORM: half width
  PmVarId owner;      // optimizer state or master: the parameter it belongs to; else PM_NONE
  bool master;        // state: its owner is the cast of it, and drew its first values with it
  uint8_t grad;       // parameter: PmDtype that its gradient is summed in over ranks; PM_BOOL: that of the variable
  PmFnId update;      // parameter: (value, grad, lr, step, states...) -> (value, states...); else PM_NONE
  PmLoc loc;
} PmVar;

typedef struct PmAxis {
  const char *name;  // interned, unique in the module
  int64_t size;      // padding included
  int64_t pad;       // of these, positions at the end that stand for nothing, so that a mesh axis divides the size
  PmLoc loc;
} PmAxis;

typedef struct PmMeshAxis {
  const char *name;
  int64_t size;
  PmLoc loc;
} PmMeshAxis;

// An axis as a rule has it in the text.
typedef struct PmRuleName {
  const char *text;
  PmSpan span;
} PmRuleName;

// How attention crosses a sequence that is split: its keys and values are gathered, go round, or change places with
// heads.
typedef enum PmAttend { PM_ATTEND_NONE, PM_ATTEND_GATHER, PM_ATTEND_RING, PM_ATTEND_ULYSSES, PM_ATTEND_COUNT } PmAttend;

typedef enum PmOrder { PM_ORDER_ANY, PM_ORDER_PLAIN, PM_ORDER_ZIGZAG, PM_ORDER_COUNT } PmOrder;

// A placement rule of the effective plan, resolved to ids, in firing order.
typedef struct PmRule {
  uint32_t roles;  // bit set of 1 << PmRole
  int32_t n_axes;
  PmAxisId *axes;     // PM_NONE for a name that no axis has (reported as a rule that never fires)
  PmRuleName *names;  // n_axes entries; NULL for a pin
  const char *scope;  // glob over paths, or NULL
  bool none;          // closes the axis
  uint8_t zero;       // not 0: zero(stage, over = mesh): what the mesh axes also split; no axes, no roles
  bool pad;           // pad(AXIS): axes[] may be padded; no roles
  uint8_t attend;     // PmAttend; not NONE: axes[0] is that of the keys, axes[1] (ulysses, may be absent) that of the
                      // heads, mesh[0] what splits the sequence; no roles
  uint8_t order;      // PmOrder, of a ring: ANY is zigzag where the sequence divides so
  int32_t n_mesh;
  uint8_t mesh[PM_MAX_SPLIT];
  const char *text;  // as the user wrote it: "shard heads, ff -> tensor"
  const char *pin;   // not NULL: pin(PATH, [...]): exact placement of this one value
  PmDim *pin_dims;
  int32_t n_pin_dims;
  PmSpan span;
  PmLoc loc;
} PmRule;

// An input whose rows stand in files of its own.
typedef struct PmFeed {
  PmVarId var;
  int32_t first, n_files;  // of PmData.files
} PmFeed;

typedef struct PmData {
  const char *format;  // "bytes", "llmc", "npy"; NULL: no data
  const char **files;
  int32_t n_files;
  PmVarId x, y;  // bytes, llmc: inputs that it feeds (y: x shifted by one), PM_NONE if absent
  bool shuffle;
  PmFeed *feeds;  // npy
  int32_t n_feeds;
} PmData;

// ANY is used by the pass table only: the pass keeps the stage that it finds.
typedef enum PmStage { PM_STAGE_LOGICAL, PM_STAGE_PLACED, PM_STAGE_LOCAL, PM_STAGE_ANY } PmStage;

typedef struct PmModule {
  PmArena *arena;
  PmInterner *names;
  PmStage stage;
  const char *name;  // the model's
  PmAxis *axes;
  int32_t n_axes, cap_axes;
  PmMeshAxis *mesh;  // outermost first: rank = row-major index of the coordinates
  int32_t n_mesh;
  PmVar *vars;
  int32_t n_vars, cap_vars;
  PmNameMap var_ids;  // by path
  PmFn *fns;
  int32_t n_fns, cap_fns;
  PmRule *rules;
  int32_t n_rules;
  const char *plan;  // its name, or NULL
  // training
  PmFnId model;     // (vars...) -> (minimised value, reports...)
  PmFnId schedule;  // (step: f64) -> learning rate: f64
  // Micro-batches. `micro`: the axis of their numbers, PM_NONE when the step is one; `rows`: the axis that they divide,
  // whose size is that of one micro-batch. An input with `rows` has `micro` right before it, and the model takes it
  // without. The model's parameters that are bound to no variable are the number of the micro-batch (i32[]), then what
  // `before` returns; its results are summed over the micro-batches.
  PmAxisId micro, rows;
  // (inputs...) -> values that are summed over the micro-batches before the first; PM_NONE: none, or used by `step`
  PmFnId before;
  // (variables..., results of `before`, unbound results of the model, both summed) -> (states..., reports...), run once
  // after the last micro-batch; PM_NONE: nothing, or used by `step`
  PmFnId after;
  PmFnId step;        // the whole step; made by `differentiate`
  PmFnId eval;        // forward only -> logits; made by `differentiate`, PM_NONE when the model names no `logits`
  double clip;        // 0: none
  double loss_scale;  // where the loss scale starts, a power of two; 0: the loss is not scaled
  int64_t loss_scale_window;  // steps without overflow after which it doubles
  int64_t steps;
  uint64_t seed;
  int64_t bucket;  // bytes of gradients that one all-reduce takes together; 0: each has its own
  PmData data;
} PmModule;

#define PM_BUCKET_BYTES (INT64_C(25) << 20)  // of a module that doesn't say

PmModule *pm_module_new(PmArena *arena, PmInterner *names);
// Deep copy into `arena` (names stay interned in the same interner): for running one plan after another.
PmModule *pm_module_clone(const PmModule *m, PmArena *arena);
PmAxisId pm_module_axis(PmModule *m, const char *name, int64_t size, PmLoc loc);  // finds or adds; asserts equal size
PmAxisId pm_module_find_axis(const PmModule *m, const char *name);                // PM_NONE
// A fresh axis named `name`, or `name.2`, `name.3`, ... when the name stands for another size.
PmAxisId pm_module_local_axis(PmModule *m, const char *name, int64_t size);
PmVarId pm_module_add_var(PmModule *m, PmVar var);
PmVarId pm_module_find_var(const PmModule *m, const char *path);
PmFnId pm_module_add_fn(PmModule *m, const char *name, PmFnKind kind);  // makes the name unique (".2", ".3", ...)
// The same for many of one name: tries `name` (1) or `name.N` from *number on, and leaves there the number taken.
PmFnId pm_module_add_fn_from(PmModule *m, const char *name, PmFnKind kind, int32_t *number);
// Room for that many values and nodes in a function that has none yet.
void pm_fn_reserve(PmModule *m, PmFnId id, int32_t n_values, int32_t n_nodes);
// `id` gets what was built as `made`, which is dead then; its name, base and bindings stay.
void pm_module_replace_fn(PmModule *m, PmFnId id, PmFnId made);
PmFnId pm_module_find_fn(const PmModule *m, const char *name);
static inline PmFn *pm_fn(const PmModule *m, PmFnId id) { return &m->fns[id]; }
// What each variable owns, in ascending order: first[v], then next[] of that, until PM_NONE.
typedef struct PmOwned {
  PmVarId *first, *next;
} PmOwned;
PmOwned pm_vars_owned(const PmModule *m, PmArena *arena);
PmVarId pm_var_master(const PmModule *m, PmVarId var);  // PM_NONE: the parameter is no working copy
int32_t pm_module_find_mesh(const PmModule *m, const char *name);

// The type in which `f` takes and gives the variable that it is bound to: one of one micro-batch has no numbers of
// them.
PmType pm_bound_type(const PmModule *m, const PmFn *f, PmVarId var);

// The key of a `random` op's stream: by the module's seed and the op's `index`.
uint64_t pm_random_stream(const PmModule *m, int64_t index);

int64_t pm_axis_size(const PmModule *m, PmAxisId a);
int64_t pm_axis_logical(const PmModule *m, PmAxisId a);  // without padding
// Product of the mesh axes of a split; local size = size / parts (asserts that it divides).
int64_t pm_split_parts(const PmModule *m, const PmSplit *s);
// The axis divides so: into equal parts, and with zigzag into twice as many chunks over the first mesh axis.
bool pm_split_divides(const PmModule *m, const PmSplit *s, int64_t size);
int64_t pm_dim_local(const PmModule *m, const PmDim *d);
bool pm_type_elements(const PmModule *m, const PmType *t, int64_t *out);  // global; false past PM_MAX_ELEMENTS
int64_t pm_type_local_elements(const PmModule *m, const PmType *t);
int64_t pm_type_local_bytes(const PmModule *m, const PmType *t);
int64_t pm_mesh_ranks(const PmModule *m);
int64_t pm_mesh_coord(const PmModule *m, int64_t rank, int32_t mesh);
int64_t pm_mesh_group(const PmModule *m, const uint8_t *mesh, int32_t n);  // ranks in a group over these n mesh axes
// The ranks among which a permute moves parts: those that differ in these mesh axes only. The part of the rank at place
// i of their row-major order over `from` goes to the one at place i of that over `to`.
typedef struct PmPermute {
  int32_t n;
  uint8_t from[PM_MAX_MESH], to[PM_MAX_MESH];
} PmPermute;
// The orders that bring a value from one placement to another. False when a dim has another number of parts in it, or
// partial sums differ.
bool pm_permute_orders(const PmModule *m, const PmType *from, const PmType *to, PmPermute *out);
// Global index of element `local` of what `rank` holds of the dim, and back: PM_NONE for one that it does not hold.
int64_t pm_dim_global(const PmModule *m, const PmDim *d, int64_t rank, int64_t local);
int64_t pm_dim_find(const PmModule *m, const PmDim *d, int64_t rank, int64_t global);
// Where element `at` of c ranks' zigzag parts, one after the other, stands in an axis of `size`, and back.
int64_t pm_zigzag_global(int64_t size, int64_t c, int64_t at);
int64_t pm_zigzag_place(int64_t size, int64_t c, int64_t global);
void pm_type_print(const PmModule *m, const PmType *t, PmBuf *out);

// Op and scalar tables.
const char *pm_op_name(PmOp op);
uint32_t pm_op_flags(PmOp op);
static inline bool pm_is_call(const PmNode *n) { return (pm_op_flags(n->op) & PM_F_CALL) != 0; }
static inline bool pm_is_loop(const PmNode *n) { return (pm_op_flags(n->op) & PM_F_LOOP) != 0; }
PmOp pm_op_find(const char *name);  // PM_OP_COUNT
const char *pm_scalar_name(PmScalar fn);
int32_t pm_scalar_arity(PmScalar fn);
PmScalarOut pm_scalar_out(PmScalar fn);
PmLinear pm_scalar_linear(PmScalar fn);
PmScalar pm_scalar_find(const char *name);  // PM_SCALAR_COUNT
double pm_scalar_eval(PmScalar fn, double a, double b, double c);

#endif
