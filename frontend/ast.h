// The syntax tree. Everything lives in one arena; names are interned; a place is a span of byte offsets.
#ifndef PM_FRONTEND_AST_H
#define PM_FRONTEND_AST_H

#include "base/diag.h"
#include "ir/ir.h"

typedef struct PmExpr PmExpr;
typedef struct PmStmt PmStmt;

typedef struct PmName {
  const char *text;  // NULL: absent
  PmSpan span;
} PmName;

typedef struct PmNames {
  PmName *items;
  int32_t n, cap;
} PmNames;

// `value`, `name = value`, or `name = value : end`.
typedef struct PmArg {
  PmName name;
  PmExpr *value, *end;
} PmArg;

typedef struct PmArgs {
  PmArg *items;
  int32_t n, cap;
} PmArgs;

typedef struct PmExprs {
  PmExpr **items;
  int32_t n, cap;
} PmExprs;

typedef enum PmExprKind {
  PM_X_NUM,
  PM_X_STR,
  PM_X_NAME,
  PM_X_LIST,     // [args]
  PM_X_UNARY,    // a
  PM_X_BINARY,   // a, b
  PM_X_BRACKET,  // a[args -> to]
  PM_X_CALL,     // a(args)
  PM_X_FIELD,    // a.name
} PmExprKind;

struct PmExpr {
  PmExprKind kind;
  PmScalar fn;  // UNARY, BINARY
  PmSpan span;
  int32_t depth;  // of the tree below, 1 for a leaf
  double num;
  const char *name;  // NAME, STR, FIELD: the text; UNARY, BINARY: the operator as written
  PmExpr *a, *b;
  PmArgs args, to;
};

// `name = value` of axis, const, mesh and function parameters; value NULL: no default.
typedef struct PmDef {
  PmName name;
  PmExpr *value;
} PmDef;

typedef struct PmDefs {
  PmDef *items;
  int32_t n, cap;
} PmDefs;

typedef struct PmDecl {
  PmName name;
  bool has_axes;
  PmNames axes;
} PmDecl;

typedef struct PmDecls {
  PmDecl *items;
  int32_t n, cap;
} PmDecls;

typedef struct PmStmts {
  PmStmt *items;
  int32_t n, cap;
} PmStmts;

typedef enum PmStmtKind {
  PM_ST_PARAM,     // decls ~ value
  PM_ST_STATE,     // decls ~ value
  PM_ST_INPUT,     // decls[0] in axis `of`, or : dtype `of`
  PM_ST_SUB,       // names = of[axes]
  PM_ST_REPEAT,    // of { body }
  PM_ST_RETURN,    // values
  PM_ST_MINIMIZE,  // value
  PM_ST_REPORT,    // names[0] = value
  PM_ST_ASSIGN,    // names = value; has_axes: names[0]: [axes] = value
  PM_ST_ADD,       // names[0] += value
} PmStmtKind;

struct PmStmt {
  PmStmtKind kind;
  PmSpan span;
  PmNames names, axes;
  bool has_axes;
  bool of_is_axis;
  PmName of;
  PmDecls decls;
  PmExpr *value;
  PmExprs values;
  PmStmts body;
};

// `"glob": key = value` of policy and train; glob.text NULL: for all.
typedef struct PmItemEntry {
  PmName glob, key;
  PmExpr *value;
} PmItemEntry;

typedef struct PmItemEntries {
  PmItemEntry *items;
  int32_t n, cap;
} PmItemEntries;

typedef enum PmPlanItemKind { PM_PI_MESH, PM_PI_SHARD, PM_PI_DIRECTIVE } PmPlanItemKind;

typedef struct PmPlanItem {
  PmPlanItemKind kind;
  PmSpan span;
  PmDefs mesh;
  PmName role, scope;  // SHARD
  PmNames axes, targets;
  PmName name;  // DIRECTIVE
  PmArgs args;
} PmPlanItem;

typedef struct PmPlanItems {
  PmPlanItem *items;
  int32_t n, cap;
} PmPlanItems;

typedef enum PmItemKind {
  PM_IT_VERSION,
  PM_IT_IMPORT,
  PM_IT_AXIS,
  PM_IT_CONST,
  PM_IT_FN,
  PM_IT_BLOCK,
  PM_IT_MODEL,
  PM_IT_OPTIMIZER,
  PM_IT_POLICY,
  PM_IT_TRAIN,
  PM_IT_PLAN,
} PmItemKind;

typedef struct PmItem {
  PmItemKind kind;
  PmSpan span;
  PmName name;    // FN ... PLAN; IMPORT: the string
  double number;  // VERSION
  PmNames axes;   // FN, BLOCK
  PmDefs defs;    // AXIS, CONST; FN, BLOCK, OPTIMIZER: the parameters
  PmStmts body;
  PmExpr *value;  // FN: `= value`, else NULL
  PmItemEntries entries;
  PmName parent;  // PLAN
  PmPlanItems plan;
} PmItem;

typedef struct PmItems {
  PmItem *items;
  int32_t n, cap;
} PmItems;

// What one text holds; which field is filled follows from the form that was asked for.
typedef struct PmText {
  PmItems items;     // a whole file
  PmPlanItems plan;  // a .pplan, or one --shard rule
  PmDefs defs;       // --mesh; --set, whose names are settings of `train` too
} PmText;

typedef enum PmTextForm { PM_TEXT_FILE, PM_TEXT_PLAN, PM_TEXT_DEFS, PM_TEXT_SETTINGS, PM_TEXT_RULE } PmTextForm;

// Parses the text of source `file`. Errors are recorded in `diags`; the tree holds what could be read. Returns whether
// the text was free of errors.
bool pm_parse(PmArena *arena, PmInterner *names, const PmSources *sources, PmDiags *diags, int32_t file,
              PmTextForm form, PmText *out);

#endif
