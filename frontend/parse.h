// What scanner and parser share; internal to the reading of text.
#ifndef PM_FRONTEND_PARSE_H
#define PM_FRONTEND_PARSE_H

#include "base/checked.h"
#include "frontend/ast.h"

typedef struct PmParse {
  PmArena *arena;
  PmInterner *names;
  const PmSources *sources;
  PmDiags *diags;
  PmText *out;
  int32_t file;
  void *scanner;
  int32_t at;                     // byte offset of the scanner
  int first;                      // token that says which form is parsed; 0 once it was given out
  int last;                       // newest token
  PmSpan last_span, before_span;  // of the newest token, and of the one before it
  bool pending;                   // a token waits behind an inserted `;`
  int pending_token;
  PmSpan pending_span;
  bool inserted;    // the newest token is a `;` that the text does not have
  int32_t parens;   // open ( and [
  int32_t depth;    // open ( [ {
  bool recovering;  // after a syntax error: the next line end ends the statement, whatever is open
  bool stopped;     // a limit was hit: no more tokens, no more messages
  bool failed;
  bool after_inserted;                // so is the one before it
  bool after_keyword;                 // the token before the newest is a word of the language
  PmSpan opened[PM_MAX_NESTING + 1];  // the brackets that are open, by depth
  bool bad_fresh;                     // `bad_text` was set since the newest token
  bool bad_text;  // a character of this statement was refused: what the grammar says of the rest is noise
} PmParse;

// Tree builders: they compute spans and depths, and stop the parse where a tree gets too deep.
PmExpr *pm_ast_expr(PmParse *p, PmExprKind kind, PmSpan span);
PmExpr *pm_ast_unary(PmParse *p, PmScalar fn, const char *op, PmExpr *a, PmSpan span);
PmExpr *pm_ast_binary(PmParse *p, PmScalar fn, const char *op, PmExpr *a, PmExpr *b, PmSpan span);
PmExpr *pm_ast_postfix(PmParse *p, PmExprKind kind, PmExpr *a, PmArgs args, PmArgs to, PmSpan span);
void pm_ast_add_name(PmParse *p, PmNames *list, const char *text, PmSpan span);
void pm_ast_add_arg(PmParse *p, PmArgs *list, PmArg arg);
void pm_ast_add_expr(PmParse *p, PmExprs *list, PmExpr *e);
void pm_ast_add_def(PmParse *p, PmDefs *list, const char *text, PmSpan span, PmExpr *value);
void pm_ast_add_decl(PmParse *p, PmDecls *list, PmDecl decl);
void pm_ast_add_stmt(PmParse *p, PmStmts *list, PmStmt stmt);
void pm_ast_add_entry(PmParse *p, PmItemEntries *list, PmItemEntry entry);
void pm_ast_add_plan_item(PmParse *p, PmPlanItems *list, PmPlanItem item);
void pm_ast_add_item(PmParse *p, PmItems *list, PmItem item);

void pm_parse_error(PmParse *p, PmSpan span, PmDiagCode code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

#endif
