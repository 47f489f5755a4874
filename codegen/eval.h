// Evaluating expressions of a region inside one kernel.
//
// A kernel is written twice by the same code: a dry run notes every access and every use of an index; then the axes are
// laid out (extent 1 dropped, neighbours merged where every access allows it), and the second run writes instructions.
#ifndef PM_CODEGEN_EVAL_H
#define PM_CODEGEN_EVAL_H

#include "codegen/region.h"

// A coordinate: c + sum k[p] * index(axis p of the kernel's space).
typedef struct PmCgCoord {
  int64_t c;
  int64_t k[PM_CG_RANK];
} PmCgCoord;

typedef struct PmCgAccess {
  int32_t buf;  // PM_NONE: the store of `value`
  PmCgId value;
  int64_t base;
  int64_t stride[PM_CG_RANK];
  bool dyn, store;
} PmCgAccess;

typedef struct PmCgEntry {  // a value already computed in this scope
  PmCgId v;
  bool whole;
  PmCgCoord *at;
  int32_t value;
} PmCgEntry;

typedef enum PmCgAxisKind { PM_CG_GRID, PM_CG_SEQ, PM_CG_LOOP } PmCgAxisKind;

// A merged axis of the kernel: its innermost member's strides hold for all.
typedef struct PmCgGroup {
  PmCgAxisKind kind;
  int32_t minor;  // axis of the space
  int64_t extent;
  int64_t cols;  // cut in rows of so many; 0: not
  int32_t axis;  // kernel axis now standing for it (of the columns when cut), or PM_NONE
  int32_t rows;
} PmCgGroup;

typedef struct PmCgEval {
  PmCg *cg;
  PmCgRegion *r;
  int32_t item;  // PM_NONE for tables
  bool host, dry;
  bool exact_only;  // a table's own kernel: nothing is read from tables
  // the space, outermost first
  int32_t n_space;
  PmCgDim space[PM_CG_RANK];
  PmCgAxisKind kind[PM_CG_RANK];
  bool indexed[PM_CG_RANK];
  int32_t group_of[PM_CG_RANK];
  int32_t n_groups;
  PmCgGroup groups[PM_CG_RANK];
  PmKBuilder kb;
  int32_t n_fake;
  int32_t n_axes;  // the kernel will have
  PmCgEntry *entries;
  int32_t n_entries, cap_entries;
  PmCgEntry *hoisted;  // what hoisting has met since the last loop
  int32_t n_hoisted, cap_hoisted;
  PmCgAccess *accesses;
  int32_t n_accesses, cap_accesses;
  int32_t *acc;  // by value: result of a reduction at home here, + 1
  // arguments and scalars
  int32_t n_args;
  int32_t arg_buf[PM_KERNEL_MAX_ARGS];
  bool arg_reads[PM_KERNEL_MAX_ARGS], arg_writes[PM_KERNEL_MAX_ARGS];
  int32_t n_scalars;
  PmCoordTerm scalars[PM_KERNEL_MAX_SCALARS];
  bool overflow;  // a limit of program.h is passed
  // what it does, for people
  const char *words[4];
  int32_t n_words;
} PmCgEval;

// Coordinates of v's dims that name axes of the space; 0 elsewhere.
void pm_cg_identity(const PmCgEval *e, PmCgId v, PmCgCoord *out);
// The value of v at the coordinates; `whole`: an exact whole number, as i32.
int32_t pm_cg_eval(PmCgEval *e, PmCgId v, const PmCgCoord *at, bool whole);
// Coordinates that operand i of v's node has when v has `at`. False where they aren't affine: the operand is read
// through a view of v, or by a loaded index.
bool pm_cg_operand_at(const PmCgEval *e, PmCgId v, int32_t i, const PmCgCoord *at, PmCgCoord *out);
// Computes what v needs that does not vary along looped axes.
void pm_cg_hoist(PmCgEval *e, PmCgId v, const PmCgCoord *at);
// Stores at v's own memory, offset elements further on; at: coordinates of v's dims. dyn: value that is added with its
// stride and extent, or -1.
void pm_cg_store(PmCgEval *e, PmCgId v, const PmCgCoord *at, int64_t offset, int32_t value, bool add, int32_t dyn,
                 int64_t dyn_stride, int64_t dyn_extent);
int32_t pm_cg_subtract_offset(PmCgEval *e, int32_t index, const PmCoordTerm *offset);
void pm_cg_word(PmCgEval *e, const char *word);
// Lays out the axes after a dry run; false past the limits.
bool pm_cg_layout(PmCgEval *e, int32_t n_loops);
// Begins the second run; vec as the layout asks for.
void pm_cg_begin(PmCgEval *e, const char *name, bool column);
// "layernorm+gelu", from the words.
const char *pm_cg_words(const PmCgEval *e);
// Ends the kernel: fills a step of the region (or `into`) with it.
void pm_cg_end(PmCgEval *e, PmCgStep *into, int32_t loc);

#endif
