// The checker and the lowering: one walk over the tree that checks each construct and builds its IR. Internal.
//
// A value (PmVal) is an exact number known now, or a node of the function under construction (the frame). Nodes made
// only of `pos`, numbers, `step` and `lr` are exact too: f64, free among themselves, cast where they meet data.
// PM_V_ERROR and PM_SYM_ERROR are the results of what was already reported: everything made of them stays silent.
#ifndef PM_FRONTEND_LOWER_H
#define PM_FRONTEND_LOWER_H

#include "frontend/ast.h"
#include "frontend/frontend.h"
#include "ir/build.h"
#include "ir/namemap.h"

typedef enum PmValKind { PM_V_ERROR, PM_V_NUM, PM_V_NODE, PM_V_STR, PM_V_TUPLE } PmValKind;

typedef struct PmVal {
  PmValKind kind;
  bool truth;    // NUM: a truth value
  bool exact;    // NODE
  PmValueId id;  // NODE
  double num;
  const char *str;
  struct PmVal *items;  // TUPLE
  int32_t n;
} PmVal;

typedef struct PmPlan PmPlan;
typedef struct PmUnit PmUnit;
typedef struct PmInst PmInst;

typedef enum PmSymKind {
  PM_SYM_ERROR,
  PM_SYM_AXIS,
  PM_SYM_VALUE,
  PM_SYM_SUB,
  PM_SYM_ITEM,  // fn, block, optimizer
} PmSymKind;

typedef struct PmSym {
  const char *name;
  PmSymKind kind;
  PmSpan span;  // of its declaration
  PmAxisId axis;
  PmVal val;
  bool fixed;    // input, parameter, state, constant: may not be bound anew
  bool carried;  // assignment keeps the type `type`
  PmType type;   // of a carried name or a state
  PmVarId var;  // the variable behind a parameter, input or state, or PM_NONE
  bool state;   // reads the value at the start of the step; assignment gives the value after it
  PmInst *sub;
  const PmItem *item;
  PmUnit *unit;  // where `item` stands
  bool walked, draws;  // `fn`: whether it draws random numbers, known once it was walked
} PmSym;

typedef enum PmScopeKind { PM_SCOPE_FILE, PM_SCOPE_BLOCK, PM_SCOPE_FN, PM_SCOPE_UPDATE } PmScopeKind;

typedef struct PmScope {
  struct PmScope *parent;
  PmScopeKind kind;
  PmUnit *unit;
  const char *path;  // BLOCK: "", "layer.attn"; FN: the function's name
  PmInst *inst;      // BLOCK: what its statements declare
  PmInst *caller;    // FN that is written out: the block whose draws its own are counted with
  bool naming;       // assignments name the nodes that they bind
  PmSym *syms;
  int32_t n, cap;
  int32_t *slots;  // hash table of indices + 1
  int32_t n_slots;
} PmScope;

// One file.
struct PmUnit {
  int32_t file;
  const char *path;
  PmText text;
  PmScope globals;    // axes, constants
  PmScope callables;  // fn, block, optimizer: its own and those of its imports
  bool loading;       // on the import stack
  bool is_std;
};

typedef struct PmInstVar {
  PmName name;
  PmVarId var;
} PmInstVar;

typedef struct PmInstSub {
  PmName name;
  PmInst *inst;
} PmInstSub;

typedef struct PmInstRepeat {
  const PmStmt *stmt;
  PmInst *inst;
} PmInstRepeat;

// What the statements of a model, a named block or a repeat declare: made before anything is built.
struct PmInst {
  const char *path;
  const PmItem *block;  // NULL for model and repeat
  PmUnit *unit;
  PmAxisId axes[PM_MAX_RANK];  // the block's axis arguments
  PmAxisId repeats[PM_MAX_RANK];
  int32_t n_repeats;
  PmInstVar *vars;
  int32_t n_vars, cap_vars;
  PmInstSub *subs;
  int32_t n_subs, cap_subs;
  PmInstRepeat *inner;
  int32_t n_inner, cap_inner;
  PmVarId var_lo, var_hi;  // variables declared inside, subtrees included
  bool is_turn;            // the body of a repeat
  int32_t n_draws;         // so far: they are told apart by their ordinal
  bool failed;
};

// A `--set` of the command line.
typedef struct PmSetting {
  const char *kind;  // "axis", "const", "train", or NULL: either of the first two
  PmName name;
  const PmExpr *value;
  bool used;
} PmSetting;

typedef struct PmReport {
  const char *name;  // its path
  PmValueId value;
} PmReport;

// A function under construction.
typedef struct PmFrame {
  struct PmFrame *parent;
  PmBuilder b;
  PmValueId *var_vals;  // by variable, PM_NONE where the function does not see it
  PmValueId *new_vals;  // by variable: the value that a state is assigned, or PM_NONE
  PmVarId var_lo, var_hi;  // the states that this function may assign: those declared inside
  // What this function reports: numbers, and what the repeats in it report, turn by turn.
  PmReport *reports;
  int32_t n_reports, cap_reports;
  // In a program that draws random numbers: the repeats around, outermost first, and the number of the turn in each.
  PmAxisId turn_axes[PM_MAX_RANK];
  PmValueId turns[PM_MAX_RANK];
  int32_t n_turns;
  PmValueId micro;  // the number of the micro-batch; PM_NONE when the step is one or the function does not see it
} PmFrame;

// `axis slot = ragged`: as long as its first dispatch needs at most; with a bound, that times the mean of an element.
typedef struct PmRagged {
  PmAxisId axis;
  double bound;   // 0: none
  PmSpan span;    // of the declaration
  bool sized;
  PmSpan first;   // the use that gave it its size
} PmRagged;

typedef struct PmInstance {
  const PmItem *item;
  PmAxisId axes[PM_MAX_RANK];
  PmVal *args;    // NODE ids are meaningless here
  PmType *types;  // of NODE arguments
  int32_t n_args;
  PmDtype reduce;
  PmFnId fn;         // PM_NONE: its body has errors, or is written out
  bool written_out;  // it sums over all rows, which only the model's own functions may: each call writes its body out
} PmInstance;

typedef enum PmFormat { PM_FORMAT_PARAM, PM_FORMAT_COMPUTE, PM_FORMAT_REDUCE, PM_FORMAT_GRAD } PmFormat;

// One entry of `policy`.
typedef struct PmFormatRule {
  const PmItemEntry *entry;
  PmFormat format;
  PmDtype dtype;
  bool hit;  // it spoke of some path
} PmFormatRule;

// An axis of an expression may be the rows of one micro-batch, said as `batch.micro`: then it bears this bit. No type
// has it: whoever takes an axis of the text takes it off with pm_lw_rows, and says what the axis is for.
#define PM_AXIS_MICRO (1 << 30)

typedef enum PmRowsUse {
  PM_ROWS_ANY,  // nothing that depends on how many rows there are
  PM_ROWS_SUM,  // a sum, which goes on over the micro-batches unless it says `batch.micro`
  PM_ROWS_ALL,  // needs all rows at once: with micro-batches it must say `batch.micro`
} PmRowsUse;

// Node `node` of function `fn`, and those after it up to the next mark, were built for `span`.
typedef struct PmMark {
  PmFnId fn;
  int32_t node, order;
  PmSpan span;
} PmMark;

// The result of a sum that goes on over the micro-batches.
typedef struct PmWholeSum {
  PmFnId fn;
  PmValueId value;
} PmWholeSum;

typedef struct PmLower {
  PmArena *arena;
  PmInterner *names;
  PmSources *sources;
  PmDiags *diags;
  const PmFrontendOptions *options;
  PmModule *m;
  PmUnit **units;
  int32_t n_units, cap_units;
  PmUnit *main;
  PmFrame *frame;  // NULL: constants only
  PmScope *scope;
  const PmItem **active;  // functions and blocks under evaluation, for recursion
  PmSpan *active_calls;
  int32_t n_active, cap_active;
  PmInstance *instances;
  int32_t n_instances, cap_instances;
  bool returned;
  PmVal result;          // of the newest `return`
  PmExprs result_exprs;  // the expressions of the newest `return`
  PmFormatRule *formats;
  int32_t n_formats;
  PmDtype reduce;        // what sums of narrower floats run in, where the walk is now
  PmVal *schedule_step;  // while the schedule is lowered: what `step` and `steps` mean
  PmVal *schedule_steps;
  PmSpan user_call;      // place of the user's call while an inlined function of std is walked; file -1: none
  PmSpan last_loc_span;  // the newest place that was turned into a line and column
  PmLoc last_loc;
  const char **later;  // constructs already reported as not supported
  int32_t n_later, cap_later;
  PmSpan *reported;  // places of errors, so that a body that is walked twice reports once
  int32_t n_reported, cap_reported;
  bool trial;  // what does not build is given up without an error
  int32_t *var_repeats;  // by variable: how many of its first axes are repeat axes
  int32_t n_var_repeats, cap_var_repeats;
  PmRagged *ragged;
  int32_t n_ragged, cap_ragged;
  PmSetting *settings;
  int32_t n_settings;
  PmPlan *plan;  // the one that is used, or NULL
  // Micro-batches: the directive, or NULL; their number; with more than one, the axis that they divide and what the
  // walk leaves for pm_lw_micro_batches.
  const PmPlanItem *accumulate;
  int64_t micro;
  bool *says_micro;  // by axis of the main file, up to n_says: its size is one of `batch.micro`
  int32_t n_says, cap_says;
  PmMark *marks;
  int32_t n_marks, cap_marks;
  PmWholeSum *whole_sums;
  int32_t n_whole_sums, cap_whole_sums;
  int32_t depth;
  const char **paths;  // of variables and named values, listed once a directive asks for them
  int32_t n_paths;
  int64_t work, matching;
  PmNameMap fn_names;   // of the functions, as they were asked for -> where the next number is
  int32_t *fn_numbers;  // the newest number of the name
  int32_t n_fn_numbers, cap_fn_numbers;
  bool stopped;
  bool broken;  // a text has syntax errors
  PmStatus *missing;  // the plan's file, which the command line names, could not be read
  PmVarId step_var;  // in a program that draws random numbers, once the model is begun; else PM_NONE
  const PmStmt *minimize;
  bool misplaced_minimize;  // one was refused: that none is left is not said again
  PmVal loss;
  PmScope *reported_names;
} PmLower;

#define PM_ERROR_VAL ((PmVal){.kind = PM_V_ERROR, .id = PM_NONE})

// lower_diag.c
// False when this place was reported before (then attach no labels or help).
bool pm_lw_error(PmLower *lw, PmDiagCode code, PmSpan span, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
void pm_lw_later(PmLower *lw, PmSpan span, const char *construct);
// Adds "did you mean" to the newest diagnostic when a candidate is near.
void pm_lw_suggest(PmLower *lw, const char *name, const char *const *candidates, int32_t n);
// The same for a short list: where none is near, a note lists them all behind `what` ("the arguments are").
void pm_lw_suggest_from(PmLower *lw, const char *name, const char *const *candidates, int32_t n, const char *what);
const char *pm_lw_bare_text(PmLower *lw, PmSpan span);  // pm_lw_text without the quotes
const char *pm_lw_text(PmLower *lw, PmSpan span);      // the source text, or "this value" when it is long
const char *pm_lw_axes(PmLower *lw, const PmType *t);  // "[batch, seq]"
const char *pm_lw_val_axes(PmLower *lw, const PmVal *v);
PmLoc pm_lw_loc(PmLower *lw, PmSpan span);
// Counts one unit of work; false when the program is too large to expand.
bool pm_lw_work(PmLower *lw, PmSpan span);
// A new function of the module, due to what stands at `span`; ends the walk when there are too many.
PmFnId pm_lw_add_fn(PmLower *lw, const char *name, PmFnKind kind, PmSpan span);
// pm_glob_match, counted: ends the walk when patterns and paths are too many or too long.
bool pm_lw_matches(PmLower *lw, PmName glob, const char *path);

// scope.c
PmScope *pm_scope_new(PmLower *lw, PmScope *parent, PmScopeKind kind, PmUnit *unit, const char *path);
PmSym *pm_scope_find_here(PmScope *s, const char *name);
PmSym *pm_scope_find(PmScope *s, const char *name);
// Adds a symbol; E_REDEFINED (and NULL) when the name is taken in this scope or an outer one.
PmSym *pm_scope_add(PmLower *lw, PmScope *s, PmSym sym);
// Adds without a check.
PmSym *pm_scope_put(PmLower *lw, PmScope *s, PmSym sym);
int32_t pm_scope_names(PmLower *lw, PmScope *s, int kind, const char ***out);  // kind -1: all; s and its parents
PmSym *pm_lw_callable(PmLower *lw, const char *name);
PmSym pm_sym_value(const char *name, PmVal val, PmSpan span);
PmSym pm_sym_axis(const char *name, PmAxisId axis, PmSpan span);

// axes.c
// The axis that an expression of a bracket names; PM_NONE after an error.
PmAxisId pm_lw_axis(PmLower *lw, const PmExpr *e);
PmAxisId pm_lw_axis_name(PmLower *lw, PmName name);
// Gives the ragged axis that `e` names the slots that `n` positions over `experts` elements need, unless it has a size;
// another size is an error. Nothing when `e` names no ragged axis.
void pm_lw_resolve_ragged(PmLower *lw, const PmExpr *e, int64_t n, int64_t experts);
// The axis is ragged with a bound.
bool pm_lw_bounded(const PmLower *lw, PmAxisId axis);
// The size of the axis is known; else the use at `span` is reported.
bool pm_lw_sized(PmLower *lw, PmAxisId axis, PmSpan span);
// `batch.micro`: the rows of a micro-batch, which are all of them where a step is one. PM_NONE after an error.
PmAxisId pm_lw_micro(PmLower *lw, const PmExpr *e);
// Asks of a field that is none whether `batch.micro` was meant; false when it is not near.
bool pm_lw_suggest_micro(PmLower *lw, const PmExpr *e);
// The axes of a list, with PM_AXIS_MICRO where that is said.
bool pm_lw_axis_list(PmLower *lw, const PmArgs *args, PmAxisId *out, int32_t *out_n);
// The declared axis of that name, or a new local one of `size` (0: must be declared).
PmAxisId pm_lw_target_axis(PmLower *lw, const PmExpr *e, int64_t size);
// After an error in what makes the axes behind an arrow: those that are new stay known by name, so that uses stay
// silent.
void pm_lw_fail_targets(PmLower *lw, const PmArgs *to);
// Appends an axis of the main file, whose names are known to be unique.
PmAxisId pm_lw_add_axis(PmLower *lw, const char *name, int64_t size, PmLoc loc);
bool pm_lw_type_axes(PmLower *lw, const PmNames *names, PmType *t);

// micro_axes.c
// The axis itself, without PM_AXIS_MICRO. What needs all rows of a `batch` that is not said to be `batch.micro` is
// reported when there are micro-batches; `what` is the text that asks ("`max`"). *out_whole (may be NULL) becomes true
// for a sum that goes on over the micro-batches.
PmAxisId pm_lw_rows(PmLower *lw, PmAxisId axis, PmRowsUse use, const char *what, PmSpan span, bool *out_whole);
// The size that the axis has as a number of the program: of `batch` that of all micro-batches.
double pm_lw_axis_value(const PmLower *lw, PmAxisId axis);
// Of the axis `batch` of the main file: from its size to that of one micro-batch. Nothing for another name.
void pm_lw_divide_batch(PmLower *lw, PmName name, int64_t *size);
// Remembers of the axis that is added next whether its size says `batch.micro`.
void pm_lw_note_micro_size(PmLower *lw, const PmExpr *size);
// Slots for `n` positions of one micro-batch: where they are fewer, what is dropped depends on the number of
// micro-batches, and the axis must say so.
void pm_lw_check_capacity(PmLower *lw, PmAxisId slot, int64_t n, PmSpan span);
// Refuses micro-batches of a program without `batch`, else adds the axis of their numbers.
void pm_lw_add_micro_axis(PmLower *lw);

// value.c
PmVal pm_val_num(double v);
PmVal pm_val_truth(bool v);
PmVal pm_val_node(PmValueId id, bool exact);
PmVal pm_lw_as_float(PmLower *lw, PmVal v, PmDtype dtype);  // float data (of tuples too) in that dtype; else v itself
const PmType *pm_val_type(const PmLower *lw, const PmVal *v);  // NODE; valid until the next node is built
bool pm_val_is_data(const PmVal *v);
void pm_lw_at(PmLower *lw, PmSpan span);  // place of the nodes built next
// The value as a node of `dtype`.
PmValueId pm_lw_node(PmLower *lw, PmVal v, PmDtype dtype);
// The value as a node of the same dtype and axis order as `want`; its axes must be the same set (checked by the
// caller).
PmValueId pm_lw_coerce(PmLower *lw, PmVal v, const PmType *want);
bool pm_lw_same_axes(const PmType *a, const PmType *b);
// The value as data: numbers and exact nodes become f32.
PmVal pm_lw_data(PmLower *lw, PmVal v);
// Elementwise `fn`; operand i stands at spans[i]; `what` is how the user wrote it ("+", "where").
PmVal pm_lw_map(PmLower *lw, PmScalar fn, const char *what, const PmVal *v, const PmSpan *spans, int32_t n,
                PmSpan span);
PmVal pm_lw_pow(PmLower *lw, PmVal a, PmVal b, const PmSpan *spans, PmSpan span);

// expr.c
PmVal pm_lw_eval(PmLower *lw, const PmExpr *e);
// An exact number known now; false after an error that says what must be constant.
bool pm_lw_eval_num(PmLower *lw, const PmExpr *e, const char *what, double *out);
bool pm_lw_eval_whole(PmLower *lw, const PmExpr *e, const char *what, int64_t lo, int64_t hi, int64_t *out);

// builtins.c
typedef struct PmCall {
  const PmExpr *expr;  // the CALL
  const char *name;
  PmSpan name_span;
  const PmArgs *brackets;  // NULL: none
  const PmArgs *to;
  const PmArgs *args;
} PmCall;
bool pm_lw_is_builtin(const char *name);
bool pm_lw_builtin(PmLower *lw, const PmCall *call, PmVal *out);  // false: no such builtin
int32_t pm_lw_builtin_names(PmLower *lw, const char ***out);

// builtins_axes.c: handlers of the ops that make, break or rename axes, and indexing.
PmVal pm_lw_rename(PmLower *lw, const PmCall *call);
PmVal pm_lw_split(PmLower *lw, const PmCall *call);
PmVal pm_lw_merge(PmLower *lw, const PmCall *call);
PmVal pm_lw_stack(PmLower *lw, const PmCall *call);
PmVal pm_lw_index(PmLower *lw, const PmExpr *e);

// positions.c
// Positions that are known now, from an exact node, as indices into `axis`; PM_ERROR_VAL when they are not known before
// the program runs, too many to look through, or none of the axis. `span`: where they stand.
PmVal pm_lw_positions(PmLower *lw, PmVal at, PmAxisId axis, PmSpan span);
// x[axis = lo : hi -> to]: the elements lo .. hi - 1 as axis `to`, in place.
PmVal pm_lw_slice(PmLower *lw, PmVal x, PmAxisId axis, int64_t lo, int64_t hi, PmAxisId to);

// builtins_routing.c
PmVal pm_lw_topk(PmLower *lw, const PmCall *call);
PmVal pm_lw_dispatch(PmLower *lw, const PmCall *call);
PmVal pm_lw_combine(PmLower *lw, const PmCall *call);

// call.c
void pm_lw_add_step(PmLower *lw);  // the variable `step`, once
// random.c
bool pm_lw_draws(const PmLower *lw);  // some function, block or model of the program calls `dropout`
bool pm_lw_fn_draws(PmSym *fn);       // the function does, or one that it calls
PmVal pm_lw_dropout(PmLower *lw, const PmCall *c);

// Adds the help for `f(x = 0)` where `x` is no argument of `f` but a name in scope.
void pm_lw_suggest_compare(PmLower *lw, const char *name);
PmVal pm_lw_call(PmLower *lw, const PmExpr *e);
bool pm_lw_enter(PmLower *lw, const PmItem *item, PmSpan call);  // E_RECURSION, E_NESTING
void pm_lw_leave(PmLower *lw);
// Binds call arguments to parameters by position and name, with defaults; out[i] for defs->items[i].
bool pm_lw_bind(PmLower *lw, const PmItem *item, PmUnit *unit, const PmArgs *args, PmSpan span, PmVal *out);

// composite.c
// *out_written_out: nothing is built, and the caller writes the body out.
PmVal pm_lw_call_composite(PmLower *lw, const PmSym *fn, const PmAxisId *axes, const PmVal *args, PmSpan span,
                           bool *out_written_out);
PmScope *pm_lw_fn_scope(PmLower *lw, const PmItem *item, PmUnit *unit, const PmAxisId *axes, const PmVal *args);
PmVal pm_lw_fn_body(PmLower *lw, const PmItem *item, PmScope *scope);
PmFrame *pm_lw_frame(PmLower *lw, PmFnId fn, PmSpan span);  // becomes the current one; its parent is the old one

// inst.c
PmInst *pm_inst_model(PmLower *lw, const PmItem *model);
// Appends a variable; PM_NONE when its path is taken. Takes constant time, where pm_module_add_var looks through all.
PmVarId pm_lw_add_var(PmLower *lw, PmVar v);
bool pm_lw_init(PmLower *lw, const PmExpr *e, PmVar *v);  // the initial value after `~`

// block.c
void pm_lw_add_report(PmLower *lw, PmReport report);  // to the current frame
void pm_lw_stmts(PmLower *lw, const PmStmts *stmts);
PmVal pm_lw_call_sub(PmLower *lw, PmInst *sub, const PmArgs *args, PmSpan span);
// Binds `name` in the current scope, or rebinds it, and names the node by its path.
void pm_lw_assign(PmLower *lw, PmName name, PmVal v);
// The variable as the current frame reads it: a parameter in the policy's `compute` type.
PmValueId pm_lw_read_var(PmLower *lw, PmVarId var);
// Puts the parameters, inputs and blocks that `inst` declares into `scope`, as the current frame sees them.
void pm_lw_put_declared(PmLower *lw, PmScope *scope, const PmInst *inst);
const char *pm_lw_path(PmLower *lw, const char *path, const char *name);  // "layer.attn" + "q"

// repeat.c
void pm_lw_repeat(PmLower *lw, const PmStmt *s);

// model.c
void pm_lw_model(PmLower *lw, const PmItem *model);

// policy.c
void pm_lw_policy(PmLower *lw, const PmItem *policy);
// The dtype that the policy gives to what stands at `path`.
PmDtype pm_lw_format(PmLower *lw, PmFormat format, const char *path);
// "f32", "bf16", "f16".
bool pm_lw_float_dtype(const char *name, PmDtype *out);
bool pm_lw_uses_f16(const PmLower *lw);  // in arithmetic or gradients
void pm_lw_check_policy(PmLower *lw);    // warns of entries that spoke of nothing

// data.c
void pm_lw_data_setting(PmLower *lw, const PmExpr *e);  // `data` of `train` (NULL: not set) and `--data`

// train.c
void pm_lw_train(PmLower *lw, const PmItem *train);
bool pm_lw_is_train_key(const char *key);          // `train` has a setting of that name
void pm_lw_no_train_key(PmLower *lw, PmName key);  // reports that it has none

// optimizer.c
// Makes the update function of every parameter from `adamw(b2=0.95)`; `overrides` are the per-path entries of train.
void pm_lw_optimizer(PmLower *lw, const PmExpr *e, const PmItemEntries *overrides);

// micro.c: with micro-batches, splits the model into what runs before them, in each of them and after them.
void pm_lw_micro_batches(PmLower *lw);
// Remembers a sum over all rows that was just built.
void pm_lw_whole_sum(PmLower *lw, PmValueId v);
bool pm_lw_sums_whole(const PmLower *lw, PmFnId fn);

// plan.c
// Chooses the plan by the options, before axes get their sizes.
void pm_lw_choose_plan(PmLower *lw);
void pm_lw_plans(PmLower *lw, PmPlanText *out_text);

// unit.c
// Reads the main file and what it imports; resolves axes, constants, functions and blocks.
PM_MUST_CHECK PmStatus *pm_lw_load_main(PmLower *lw, const char *path);
// The same for a text in memory, which is copied.
PM_MUST_CHECK PmStatus *pm_lw_load_text(PmLower *lw, const char *path, const char *text, size_t len);
// A text of the command line becomes a source named `origin`.
bool pm_lw_parse_option(PmLower *lw, const char *origin, const char *text, PmTextForm form, PmText *out);
// The value that --set gives to `kind`.NAME, or `own`.
void pm_lw_read_settings(PmLower *lw);
const PmExpr *pm_lw_setting(PmLower *lw, const char *kind, const char *name, const PmExpr *own);
void pm_lw_check_settings(PmLower *lw);

#endif
