%define api.pure full
%define api.prefix {pm_bison_}
%define api.location.type {PmSpan}
%define api.value.union.name PmSemantic
%define parse.error custom
%define parse.lac full
%locations
%expect 0
%parse-param {PmParse *p}
%lex-param {PmParse *p}

%code requires {
#include "frontend/parse.h"
}

%code {
#include <string.h>

#include "frontend/scan.h"

#define YYLLOC_DEFAULT(Cur, Rhs, N)                                                                   \
  ((Cur) = (N) ? (PmSpan){YYRHSLOC(Rhs, 1).file, YYRHSLOC(Rhs, 1).lo, YYRHSLOC(Rhs, N).hi}            \
               : (PmSpan){YYRHSLOC(Rhs, 0).file, YYRHSLOC(Rhs, 0).hi, YYRHSLOC(Rhs, 0).hi})
#define pm_bison_lex pm_scan_next

static void pm_bison_error(PmSpan *loc, PmParse *p, const char *text);
}

%union {
  const char *text;
  double num;
  PmName name;
  PmNames names;
  PmExpr *expr;
  PmExprs exprs;
  PmArg arg;
  PmArgs args;
  PmDefs defs;
  PmDecl decl;
  PmDecls decls;
  PmStmt stmt;
  PmStmts stmts;
  PmItemEntry entry;
  PmItemEntries entries;
  PmPlanItem plan_item;
  PmPlanItems plan_items;
  PmItem item;
}

%token END 0 "end of file"
%token START_FILE START_PLAN START_DEFS START_SETTINGS START_RULE
%token <text> IDENT "a name" STRING "a string"
%token <num> NUMBER "a number"
%token SEMI "end of line"
%token KW_PMODEL "`pmodel`" KW_IMPORT "`import`" KW_AXIS "`axis`" KW_CONST "`const`" KW_FN "`fn`" KW_BLOCK "`block`"
%token KW_MODEL "`model`" KW_OPTIMIZER "`optimizer`" KW_POLICY "`policy`" KW_TRAIN "`train`" KW_PLAN "`plan`"
%token KW_EXTENDS "`extends`" KW_PARAM "`param`" KW_STATE "`state`" KW_INPUT "`input`" KW_IN "`in`" KW_SUB "`sub`"
%token KW_REPEAT "`repeat`" KW_RETURN "`return`" KW_MINIMIZE "`minimize`" KW_REPORT "`report`" KW_MESH "`mesh`"
%token KW_SHARD "`shard`" KW_OR "`or`" KW_AND "`and`" KW_NOT "`not`"
%token ARROW "`->`" PLUS_EQ "`+=`" POW "`**`" EQ "`==`" NE "`!=`" LE "`<=`" GE "`>=`"

%left KW_OR
%left KW_AND
%precedence KW_NOT
%nonassoc EQ NE '<' '>' LE GE
%left '+' '-'
%left '*' '/' '%'
%precedence UMINUS
%right POW

%type <names> names opt_taxes targets
%type <defs> defs settings fparams opt_fparams
%type <decl> tdecl
%type <decls> tdecls
%type <expr> expr postfix primary opt_init
%type <exprs> exprs
%type <arg> arg
%type <args> args opt_args opt_to
%type <stmt> stmt
%type <stmts> stmts
%type <entry> entry
%type <entries> entries
%type <name> key opt_extends role opt_scope
%type <plan_item> planitem shard
%type <plan_items> planitems
%type <item> item

%%
text:
    START_FILE items
  | START_PLAN planitems       { p->out->plan = $2; }
  | START_DEFS defs SEMI       { p->out->defs = $2; }
  | START_SETTINGS settings SEMI { p->out->defs = $2; }
  | START_RULE shard SEMI      { pm_ast_add_plan_item(p, &p->out->plan, $2); }
  ;

items:
    %empty
  | items item                 { pm_ast_add_item(p, &p->out->items, $2); }
  | items error SEMI
  | items error '}'
  ;

item:
    KW_PMODEL NUMBER SEMI      { $$ = (PmItem){.kind = PM_IT_VERSION, .span = @2, .number = $2}; }
  | KW_IMPORT STRING SEMI      { $$ = (PmItem){.kind = PM_IT_IMPORT, .span = @2, .name = {$2, @2}}; }
  | KW_AXIS defs SEMI          { $$ = (PmItem){.kind = PM_IT_AXIS, .span = @$, .defs = $2}; }
  | KW_CONST defs SEMI         { $$ = (PmItem){.kind = PM_IT_CONST, .span = @$, .defs = $2}; }
  | KW_FN IDENT opt_taxes '(' opt_fparams ')' '=' expr SEMI {
      $$ = (PmItem){.kind = PM_IT_FN, .span = @2, .name = {$2, @2}, .axes = $3, .defs = $5, .value = $8};
    }
  | KW_FN IDENT opt_taxes '(' opt_fparams ')' '{' stmts '}' {
      $$ = (PmItem){.kind = PM_IT_FN, .span = @2, .name = {$2, @2}, .axes = $3, .defs = $5, .body = $8};
    }
  | KW_BLOCK IDENT opt_taxes '(' opt_fparams ')' '{' stmts '}' {
      $$ = (PmItem){.kind = PM_IT_BLOCK, .span = @2, .name = {$2, @2}, .axes = $3, .defs = $5, .body = $8};
    }
  | KW_MODEL IDENT '{' stmts '}' {
      $$ = (PmItem){.kind = PM_IT_MODEL, .span = @2, .name = {$2, @2}, .body = $4};
    }
  | KW_OPTIMIZER IDENT '(' opt_fparams ')' '{' stmts '}' {
      $$ = (PmItem){.kind = PM_IT_OPTIMIZER, .span = @2, .name = {$2, @2}, .defs = $4, .body = $7};
    }
  | KW_POLICY '{' entries '}'  { $$ = (PmItem){.kind = PM_IT_POLICY, .span = @1, .entries = $3}; }
  | KW_TRAIN '{' entries '}'   { $$ = (PmItem){.kind = PM_IT_TRAIN, .span = @1, .entries = $3}; }
  | KW_PLAN IDENT opt_extends '{' planitems '}' {
      $$ = (PmItem){.kind = PM_IT_PLAN, .span = @2, .name = {$2, @2}, .parent = $3, .plan = $5};
    }
  ;

opt_extends:
    %empty                     { $$ = (PmName){0}; }
  | KW_EXTENDS IDENT           { $$ = (PmName){$2, @2}; }
  ;

opt_taxes:
    %empty                     { $$ = (PmNames){0}; }
  | '[' names ']'              { $$ = $2; }
  ;

names:
    IDENT                      { $$ = (PmNames){0}; pm_ast_add_name(p, &$$, $1, @1); }
  | names ',' IDENT            { $$ = $1; pm_ast_add_name(p, &$$, $3, @3); }
  ;

defs:
    IDENT '=' expr             { $$ = (PmDefs){0}; pm_ast_add_def(p, &$$, $1, @1, $3); }
  | defs ',' IDENT '=' expr    { $$ = $1; pm_ast_add_def(p, &$$, $3, @3, $5); }
  ;

settings:
    key '=' expr               { $$ = (PmDefs){0}; pm_ast_add_def(p, &$$, $1.text, $1.span, $3); }
  | settings ',' key '=' expr  { $$ = $1; pm_ast_add_def(p, &$$, $3.text, $3.span, $5); }
  ;

opt_fparams:
    %empty                     { $$ = (PmDefs){0}; }
  | fparams
  ;

fparams:
    IDENT                      { $$ = (PmDefs){0}; pm_ast_add_def(p, &$$, $1, @1, NULL); }
  | IDENT '=' expr             { $$ = (PmDefs){0}; pm_ast_add_def(p, &$$, $1, @1, $3); }
  | fparams ',' IDENT          { $$ = $1; pm_ast_add_def(p, &$$, $3, @3, NULL); }
  | fparams ',' IDENT '=' expr { $$ = $1; pm_ast_add_def(p, &$$, $3, @3, $5); }
  ;

stmts:
    %empty                     { $$ = (PmStmts){0}; }
  | stmts stmt                 { $$ = $1; pm_ast_add_stmt(p, &$$, $2); }
  | stmts error SEMI           { $$ = $1; }
  ;

stmt:
    KW_PARAM tdecls opt_init SEMI {
      $$ = (PmStmt){.kind = PM_ST_PARAM, .span = @$, .decls = $2, .value = $3};
    }
  | KW_STATE tdecls opt_init SEMI {
      $$ = (PmStmt){.kind = PM_ST_STATE, .span = @$, .decls = $2, .value = $3};
    }
  | KW_INPUT tdecl KW_IN IDENT SEMI {
      $$ = (PmStmt){.kind = PM_ST_INPUT, .span = @2, .of = {$4, @4}, .of_is_axis = true};
      pm_ast_add_decl(p, &$$.decls, $2);
    }
  | KW_INPUT tdecl ':' IDENT SEMI {
      $$ = (PmStmt){.kind = PM_ST_INPUT, .span = @2, .of = {$4, @4}};
      pm_ast_add_decl(p, &$$.decls, $2);
    }
  | KW_SUB names '=' IDENT opt_taxes SEMI {
      $$ = (PmStmt){.kind = PM_ST_SUB, .span = @$, .names = $2, .of = {$4, @4}, .axes = $5};
    }
  | KW_REPEAT IDENT '{' stmts '}' {
      $$ = (PmStmt){.kind = PM_ST_REPEAT, .span = {@1.file, @1.lo, @2.hi}, .of = {$2, @2}, .body = $4};
    }
  | KW_RETURN exprs SEMI       { $$ = (PmStmt){.kind = PM_ST_RETURN, .span = @2, .values = $2}; }
  | KW_MINIMIZE expr SEMI      { $$ = (PmStmt){.kind = PM_ST_MINIMIZE, .span = @2, .value = $2}; }
  | KW_REPORT IDENT '=' expr SEMI {
      $$ = (PmStmt){.kind = PM_ST_REPORT, .span = @2, .value = $4};
      pm_ast_add_name(p, &$$.names, $2, @2);
    }
  | names '=' expr SEMI        { $$ = (PmStmt){.kind = PM_ST_ASSIGN, .span = @3, .names = $1, .value = $3}; }
  | IDENT ':' '[' names ']' '=' expr SEMI {
      $$ = (PmStmt){.kind = PM_ST_ASSIGN, .span = @7, .axes = $4, .has_axes = true, .value = $7};
      pm_ast_add_name(p, &$$.names, $1, @1);
    }
  | IDENT PLUS_EQ expr SEMI {
      $$ = (PmStmt){.kind = PM_ST_ADD, .span = {@1.file, @1.lo, @3.hi}, .value = $3};
      pm_ast_add_name(p, &$$.names, $1, @1);
    }
  ;

opt_init:
    %empty                     { $$ = NULL; }
  | '~' expr                   { $$ = $2; }
  ;

tdecl:
    IDENT                      { $$ = (PmDecl){.name = {$1, @1}}; }
  | IDENT '[' names ']'        { $$ = (PmDecl){.name = {$1, @1}, .has_axes = true, .axes = $3}; }
  ;

tdecls:
    tdecl                      { $$ = (PmDecls){0}; pm_ast_add_decl(p, &$$, $1); }
  | tdecls ',' tdecl           { $$ = $1; pm_ast_add_decl(p, &$$, $3); }
  ;

entries:
    %empty                     { $$ = (PmItemEntries){0}; }
  | entries entry              { $$ = $1; pm_ast_add_entry(p, &$$, $2); }
  | entries error SEMI         { $$ = $1; }
  ;

entry:
    key '=' expr SEMI          { $$ = (PmItemEntry){.key = $1, .value = $3}; }
  | STRING ':' key '=' expr SEMI { $$ = (PmItemEntry){.glob = {$1, @1}, .key = $3, .value = $5}; }
  ;

key:
    IDENT                      { $$ = (PmName){$1, @1}; }
  | KW_PARAM                   { $$ = (PmName){pm_intern(p->names, "param"), @1}; }
  | KW_OPTIMIZER               { $$ = (PmName){pm_intern(p->names, "optimizer"), @1}; }
  ;

planitems:
    %empty                     { $$ = (PmPlanItems){0}; }
  | planitems planitem SEMI    { $$ = $1; pm_ast_add_plan_item(p, &$$, $2); }
  | planitems error SEMI       { $$ = $1; }
  ;

planitem:
    KW_MESH defs               { $$ = (PmPlanItem){.kind = PM_PI_MESH, .span = @$, .mesh = $2}; }
  | KW_SHARD shard             { $$ = $2; $$.span = @$; }
  | IDENT '(' opt_args ')'     { $$ = (PmPlanItem){.kind = PM_PI_DIRECTIVE, .span = @$, .name = {$1, @1}, .args = $3}; }
  ;

shard:
    names opt_scope ARROW targets {
      $$ = (PmPlanItem){.kind = PM_PI_SHARD, .span = @$, .axes = $1, .scope = $2, .targets = $4};
    }
  | role names opt_scope ARROW targets {
      $$ = (PmPlanItem){.kind = PM_PI_SHARD, .span = @$, .role = $1, .axes = $2, .scope = $3, .targets = $5};
    }
  ;

role:
    IDENT                      { $$ = (PmName){$1, @1}; }
  | KW_PARAM                   { $$ = (PmName){pm_intern(p->names, "param"), @1}; }
  | KW_STATE                   { $$ = (PmName){pm_intern(p->names, "state"), @1}; }
  | KW_INPUT                   { $$ = (PmName){pm_intern(p->names, "input"), @1}; }
  ;

opt_scope:
    %empty                     { $$ = (PmName){0}; }
  | KW_IN STRING               { $$ = (PmName){$2, @2}; }
  ;

targets:
    IDENT                      { $$ = (PmNames){0}; pm_ast_add_name(p, &$$, $1, @1); }
  | targets '+' IDENT          { $$ = $1; pm_ast_add_name(p, &$$, $3, @3); }
  ;

exprs:
    expr                       { $$ = (PmExprs){0}; pm_ast_add_expr(p, &$$, $1); }
  | exprs ',' expr             { $$ = $1; pm_ast_add_expr(p, &$$, $3); }
  ;

expr:
    expr KW_OR expr            { $$ = pm_ast_binary(p, PM_S_or, "or", $1, $3, @$); }
  | expr KW_AND expr           { $$ = pm_ast_binary(p, PM_S_and, "and", $1, $3, @$); }
  | KW_NOT expr                { $$ = pm_ast_unary(p, PM_S_not, "not", $2, @$); }
  | expr EQ expr               { $$ = pm_ast_binary(p, PM_S_eq, "==", $1, $3, @$); }
  | expr NE expr               { $$ = pm_ast_binary(p, PM_S_ne, "!=", $1, $3, @$); }
  | expr '<' expr              { $$ = pm_ast_binary(p, PM_S_lt, "<", $1, $3, @$); }
  | expr '>' expr              { $$ = pm_ast_binary(p, PM_S_gt, ">", $1, $3, @$); }
  | expr LE expr               { $$ = pm_ast_binary(p, PM_S_le, "<=", $1, $3, @$); }
  | expr GE expr               { $$ = pm_ast_binary(p, PM_S_ge, ">=", $1, $3, @$); }
  | expr '+' expr              { $$ = pm_ast_binary(p, PM_S_add, "+", $1, $3, @$); }
  | expr '-' expr              { $$ = pm_ast_binary(p, PM_S_sub, "-", $1, $3, @$); }
  | expr '*' expr              { $$ = pm_ast_binary(p, PM_S_mul, "*", $1, $3, @$); }
  | expr '/' expr              { $$ = pm_ast_binary(p, PM_S_div, "/", $1, $3, @$); }
  | expr '%' expr              { $$ = pm_ast_binary(p, PM_S_mod, "%", $1, $3, @$); }
  | '-' expr %prec UMINUS      { $$ = pm_ast_unary(p, PM_S_neg, "-", $2, @$); }
  | expr POW expr              { $$ = pm_ast_binary(p, PM_S_pow, "**", $1, $3, @$); }
  | postfix
  ;

postfix:
    primary
  | postfix '[' args opt_to ']' { $$ = pm_ast_postfix(p, PM_X_BRACKET, $1, $3, $4, @$); }
  | postfix '(' opt_args ')'   { $$ = pm_ast_postfix(p, PM_X_CALL, $1, $3, (PmArgs){0}, @$); }
  | postfix '.' IDENT          { $$ = pm_ast_postfix(p, PM_X_FIELD, $1, (PmArgs){0}, (PmArgs){0}, @$); $$->name = $3; }
  ;

opt_to:
    %empty                     { $$ = (PmArgs){0}; }
  | ARROW args                 { $$ = $2; }
  ;

opt_args:
    %empty                     { $$ = (PmArgs){0}; }
  | args
  ;

args:
    arg                        { $$ = (PmArgs){0}; pm_ast_add_arg(p, &$$, $1); }
  | args ',' arg               { $$ = $1; pm_ast_add_arg(p, &$$, $3); }
  ;

arg:
    expr                       { $$ = (PmArg){.value = $1}; }
  | IDENT '=' expr             { $$ = (PmArg){.name = {$1, @1}, .value = $3}; }
  | IDENT '=' expr ':' expr    { $$ = (PmArg){.name = {$1, @1}, .value = $3, .end = $5}; }
  ;

primary:
    IDENT                      { $$ = pm_ast_expr(p, PM_X_NAME, @1); $$->name = $1; }
  | NUMBER                     { $$ = pm_ast_expr(p, PM_X_NUM, @1); $$->num = $1; }
  | STRING                     { $$ = pm_ast_expr(p, PM_X_STR, @1); $$->name = $1; }
  | '(' expr ')'               { $$ = $2; }
  | '[' opt_args ']' {
      $$ = pm_ast_postfix(p, PM_X_LIST, NULL, $2, (PmArgs){0}, @$);
    }
  ;

%%

// Bison calls this only when its stack is full: operators that nest to the right, thousands deep.
static void pm_bison_error(PmSpan *loc, PmParse *p, const char *text) {
  (void)text;
  pm_parse_error(p, *loc, PM_E_NESTING, "operators nest too deeply");
  p->stopped = true;
}

// Tokens that begin an expression, and those that continue one, are named as a group: lists of twenty help nobody.
static const char *const expression_starts[] = {"a name", "a number", "a string", "`not`", "'('", "'['", "'-'"};
static const char *const operators[] = {"`or`", "`and`", "`==`", "`!=`", "'<'", "'>'", "`<=`", "`>=`", "'+'",
                                        "'-'",  "'*'",   "'/'",  "'%'",  "`**`", "'('", "'['", "'.'"};

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

static bool is_one_of(const char *name, const char *const *list, int n) {
  for (int i = 0; i < n; i++) {
    if (strcmp(name, list[i]) == 0) return true;
  }
  return false;
}

static void put_symbol(PmBuf *out, const char *name) {
  if (name[0] == '\'') {
    pm_buf_printf(out, "`%c`", name[1]);
  } else {
    pm_buf_puts(out, name);
  }
}

static void put_found(PmBuf *out, const PmParse *p, PmSpan span, yysymbol_kind_t kind) {
  const PmSourceFile *file = &p->sources->files[p->file];
  int len = span.hi - span.lo;
  if (kind == YYSYMBOL_SEMI && p->inserted) {
    pm_buf_puts(out, "end of line");
  } else if (kind == YYSYMBOL_YYEOF || kind == YYSYMBOL_YYEMPTY || len <= 0 || len > 40) {
    pm_buf_puts(out, kind == YYSYMBOL_YYEMPTY ? "text" : yysymbol_name(kind));
  } else {
    pm_buf_printf(out, "`%.*s`", len, file->text + span.lo);
  }
}

static bool is_keyword(yysymbol_kind_t kind) { return kind >= YYSYMBOL_KW_PMODEL && kind <= YYSYMBOL_KW_NOT; }

static bool is_one_expected(const yysymbol_kind_t *expected, int n, yysymbol_kind_t kind) {
  for (int i = 0; i < n; i++) {
    if (expected[i] == kind) return true;
  }
  return false;
}

static void put_keyword_help(PmParse *p, PmSpan span) {
  const char *text = p->sources->files[p->file].text;
  pm_diag_help(p->diags, "`%.*s` is a word of the language and cannot be a name", (int)(span.hi - span.lo),
               text + span.lo);
}

// What most often leads to this error: an open bracket, a word of the language as a name, a line that ended too early.
static void explain_syntax(PmParse *p, const yypcontext_t *ctx, const yysymbol_kind_t *expected, int n) {
  yysymbol_kind_t found = yypcontext_token(ctx);
  PmSpan at = *yypcontext_location(ctx);
  bool wants_name = is_one_expected(expected, n, YYSYMBOL_IDENT);
  bool opens = p->depth > 0 && found != YYSYMBOL_SEMI;
  if (opens && (found == YYSYMBOL_YYEOF || (p->parens > 0 && is_keyword(found)))) {
    PmSpan open = p->opened[p->depth - 1];
    pm_diag_label(p->diags, open, "this `%c` is not closed", p->sources->files[p->file].text[open.lo]);
  } else if (found == YYSYMBOL_YYEOF || found == YYSYMBOL_SEMI) {
    return;
  } else if (is_keyword(found) && wants_name) {
    put_keyword_help(p, at);
  } else if (p->after_keyword && wants_name && p->sources->files[p->file].text[at.lo] == '=') {
    put_keyword_help(p, p->before_span);
  } else if (p->after_inserted && is_one_of(yysymbol_name(found), operators, COUNT(operators))) {
    pm_diag_help(p->diags, "the line above ended its statement: end it with the operator, or open a bracket before it");
  }
}

static int yyreport_syntax_error(const yypcontext_t *ctx, PmParse *p) {
  p->recovering = true;
  if (p->bad_text) return 0;
  yysymbol_kind_t expected[YYNTOKENS];
  int n = yypcontext_expected_tokens(ctx, expected, YYNTOKENS);
  if (n < 0) return n;
  PmBuf text;
  pm_buf_init(&text);
  pm_buf_puts(&text, "unexpected ");
  put_found(&text, p, *yypcontext_location(ctx), yypcontext_token(ctx));
  bool starts = false, continues = false;
  for (int i = 0; i < n; i++) {
    starts |= expected[i] == YYSYMBOL_NUMBER;
    continues |= expected[i] == YYSYMBOL_POW;
  }
  const char *choices[8];
  int n_choices = 0;
  if (starts) choices[n_choices++] = "an expression";
  if (continues) choices[n_choices++] = "an operator";
  bool more = false;
  for (int i = 0; i < n; i++) {
    const char *name = yysymbol_name(expected[i]);
    if (starts && is_one_of(name, expression_starts, COUNT(expression_starts))) continue;
    if (continues && is_one_of(name, operators, COUNT(operators))) continue;
    if (n_choices == COUNT(choices)) {
      more = true;
      break;
    }
    choices[n_choices++] = name;
  }
  for (int i = 0; i < n_choices && !more; i++) {
    pm_buf_puts(&text, i == 0 ? ", expected " : i == n_choices - 1 ? " or " : ", ");
    put_symbol(&text, choices[i]);
  }
  pm_parse_error(p, *yypcontext_location(ctx), PM_E_SYNTAX, "%s", pm_buf_str(&text));
  pm_buf_deinit(&text);
  if (!p->stopped) explain_syntax(p, ctx, expected, n);
  return 0;
}
