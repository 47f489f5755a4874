#include "frontend/ast.h"

#include "frontend/parse.h"

static int32_t max_depth(int32_t depth, const PmExpr *e) { return e && e->depth > depth ? e->depth : depth; }

static int32_t max_depth_args(int32_t depth, const PmArgs *args) {
  for (int32_t i = 0; i < args->n; i++) {
    depth = max_depth(depth, args->items[i].value);
    depth = max_depth(depth, args->items[i].end);
  }
  return depth;
}

// Later walkers recurse over trees, so their depth has the same cap as brackets.
static void set_depth(PmParse *p, PmExpr *e) {
  int32_t depth = max_depth(max_depth(0, e->a), e->b);
  depth = max_depth_args(depth, &e->args);
  e->depth = max_depth_args(depth, &e->to) + 1;
  if (e->depth > PM_MAX_NESTING && !p->stopped) {
    pm_parse_error(p, e->span, PM_E_NESTING, "this expression is more than %d operators deep", PM_MAX_NESTING);
    pm_diag_help(p->diags, "give parts of it a name on lines of their own");
    p->stopped = true;
  }
}

PmExpr *pm_ast_expr(PmParse *p, PmExprKind kind, PmSpan span) {
  PmExpr *e = PM_NEW(p->arena, PmExpr);
  e->kind = kind;
  e->span = span;
  e->depth = 1;
  return e;
}

PmExpr *pm_ast_unary(PmParse *p, PmScalar fn, const char *op, PmExpr *a, PmSpan span) {
  PmExpr *e = pm_ast_expr(p, PM_X_UNARY, span);
  e->fn = fn;
  e->name = op;
  e->a = a;
  set_depth(p, e);
  return e;
}

PmExpr *pm_ast_binary(PmParse *p, PmScalar fn, const char *op, PmExpr *a, PmExpr *b, PmSpan span) {
  PmExpr *e = pm_ast_expr(p, PM_X_BINARY, span);
  e->fn = fn;
  e->name = op;
  e->a = a;
  e->b = b;
  set_depth(p, e);
  return e;
}

PmExpr *pm_ast_postfix(PmParse *p, PmExprKind kind, PmExpr *a, PmArgs args, PmArgs to, PmSpan span) {
  PmExpr *e = pm_ast_expr(p, kind, span);
  e->a = a;
  e->args = args;
  e->to = to;
  set_depth(p, e);
  return e;
}

#define ADD(arena, list, item)                                                                      \
  ((list)->items = pm_grow((arena), (list)->items, (list)->n, &(list)->cap, sizeof *(list)->items), \
   (list)->items[(list)->n++] = (item))

void pm_ast_add_name(PmParse *p, PmNames *list, const char *text, PmSpan span) {
  ADD(p->arena, list, ((PmName){text, span}));
}

void pm_ast_add_arg(PmParse *p, PmArgs *list, PmArg arg) { ADD(p->arena, list, arg); }
void pm_ast_add_expr(PmParse *p, PmExprs *list, PmExpr *e) { ADD(p->arena, list, e); }

void pm_ast_add_def(PmParse *p, PmDefs *list, const char *text, PmSpan span, PmExpr *value) {
  ADD(p->arena, list, ((PmDef){.name = {text, span}, .value = value}));
}

void pm_ast_add_decl(PmParse *p, PmDecls *list, PmDecl decl) { ADD(p->arena, list, decl); }
void pm_ast_add_stmt(PmParse *p, PmStmts *list, PmStmt stmt) { ADD(p->arena, list, stmt); }
void pm_ast_add_entry(PmParse *p, PmItemEntries *list, PmItemEntry entry) { ADD(p->arena, list, entry); }
void pm_ast_add_plan_item(PmParse *p, PmPlanItems *list, PmPlanItem item) { ADD(p->arena, list, item); }
void pm_ast_add_item(PmParse *p, PmItems *list, PmItem item) { ADD(p->arena, list, item); }
