// What the directives of a plan may say, one row each. Every one is checked here, in every plan, whether it is chosen
// or not and whether this version does what it asks: names of arguments, their kinds and bounds, and the axes and mesh
// axes that they name. The row's handler (plan_rules.c) then makes of it what the plan holds.
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "frontend/plan.h"

typedef enum Kind {
  NUMBER,    // a whole number of lo .. hi
  NUMBERS,   // a list of them, ascending
  BYTES,     // "25MiB"
  BYTES_0,   // the same, or 0
  AXIS,      // an axis of the program
  AXIS_ROW,  // one or more of them, each an argument
  AXES,      // a list of them
  MESH,      // a mesh axis
  MESHES,    // mesh axes joined by `+`
  PATH,      // a path or glob in quotes
  PIN,       // the same; that no value has it is seen when it fires
  PATHS,     // a list of paths
  DIMS,      // [axis/mesh, axis]
  SCHEDULE,  // of pipelines, in quotes
  SCOPE,     // the axis of a repeat
  ORDER,     // of the parts of a ring: zigzag or plain
  WORD,      // the word `name` itself, by position
} Kind;

// CHOICE: just one of a directive's choices is given. BESIDE: only beside a SCOPE.
typedef enum Need { REQUIRED, OPTIONAL, CHOICE, BESIDE } Need;

typedef struct Arg {
  const char *name;  // NULL: by position, in the order of the rows
  Kind kind;
  Need need;
  int64_t lo, hi;
} Arg;

// Of what a plan has just one: of the directive; for each first argument of it; for each first argument of any
// directive that says CROSSING, which is how attention crosses a split axis.
typedef enum Slot { ONCE, EACH, CROSSING } Slot;

#define MAX_ARGS 6

typedef struct Directive {
  const char *name;
  const char *form;  // how it is written
  Slot slot;
  PmDirectiveFn *add;
  Arg args[MAX_ARGS];
} Directive;

#define MAX_MICRO 65536
#define MAX_CHUNKS 1024

static const Directive directives[] = {
    {"accumulate", "`accumulate(micro=N)`", ONCE, pm_plan_add_accumulate, {{"micro", NUMBER, REQUIRED, 1, MAX_MICRO}}},
    {"bucket", "`bucket(\"25MiB\")` or `bucket(0)`", ONCE, pm_plan_add_bucket, {{NULL, BYTES_0, REQUIRED, 0, 0}}},
    {"gather",
     "`gather(AXIS, over=MESH)`",
     CROSSING,
     pm_plan_add_gather,
     {{NULL, AXIS, REQUIRED, 0, 0}, {"over", MESH, REQUIRED, 0, 0}}},
    {"layout",
     "`layout(\"PATH\", [AXES])`",
     EACH,
     pm_plan_add_later,
     {{NULL, PATH, REQUIRED, 0, 0}, {NULL, AXES, REQUIRED, 0, 0}}},
    {"overlap",
     "`overlap(off)` or `overlap(chunks=K)`",
     ONCE,
     pm_plan_add_overlap,
     {{"off", WORD, CHOICE, 0, 0}, {"chunks", NUMBER, CHOICE, 1, MAX_CHUNKS}}},
    {"pad", "`pad(AXIS)`", EACH, pm_plan_add_pad, {{NULL, AXIS_ROW, REQUIRED, 0, 0}}},
    {"pin",
     "`pin(\"PATH\", [axis/mesh, axis])`",
     EACH,
     pm_plan_add_pin,
     {{NULL, PIN, REQUIRED, 0, 0}, {NULL, DIMS, REQUIRED, 0, 0}}},
    {"pipeline",
     "`pipeline(schedule=\"1f1b\", micro=N, virtual=V, cuts=[LAYERS])`",
     ONCE,
     pm_plan_add_later,
     {{"schedule", SCHEDULE, REQUIRED, 0, 0},
      {"micro", NUMBER, REQUIRED, 1, MAX_MICRO},
      {"virtual", NUMBER, OPTIONAL, 1, MAX_CHUNKS},
      {"cuts", NUMBERS, OPTIONAL, 1, MAX_MICRO}}},
    {"remat",
     "`remat(SCOPE, save=[\"PATH\"])`, `remat(selective)`, `remat(full)`, `remat(auto=\"4GiB\")` or `remat(none)`",
     ONCE,
     pm_plan_add_remat,
     {{"selective", WORD, CHOICE, 0, 0},
      {"full", WORD, CHOICE, 0, 0},
      {"none", WORD, CHOICE, 0, 0},
      {NULL, SCOPE, CHOICE, 0, 0},
      {"auto", BYTES, CHOICE, 0, 0},
      {"save", PATHS, BESIDE, 0, 0}}},
    {"ring",
     "`ring(AXIS, over=MESH)`, with `order=zigzag` or `order=plain`",
     CROSSING,
     pm_plan_add_ring,
     {{NULL, AXIS, REQUIRED, 0, 0}, {"over", MESH, REQUIRED, 0, 0}, {"order", ORDER, OPTIONAL, 0, 0}}},
    {"ulysses",
     "`ulysses(AXIS, over=MESH, heads=AXIS)`",
     CROSSING,
     pm_plan_add_ulysses,
     {{NULL, AXIS, REQUIRED, 0, 0}, {"over", MESH, REQUIRED, 0, 0}, {"heads", AXIS, OPTIONAL, 0, 0}}},
    {"zero",
     "`zero(stage=N, over=MESH)` with a stage of 0, 1, 2 or 3",
     ONCE,
     pm_plan_add_zero,
     {{"stage", NUMBER, REQUIRED, 0, 3}, {"over", MESHES, OPTIONAL, 0, 0}}},
};
#define N_DIRECTIVES ((int32_t)(sizeof directives / sizeof *directives))

typedef struct Check {
  PmPlan *p;
  PmLower *lw;
  const PmPlanItem *item;
  bool chosen;  // the item is of the plan that is used
  const Directive *d;
  const PmArg *given[MAX_ARGS];  // by row
} Check;

static const Directive *find(const char *name) {
  for (int32_t i = 0; i < N_DIRECTIVES; i++) {
    if (strcmp(directives[i].name, name) == 0) return &directives[i];
  }
  return NULL;
}

static int32_t n_args(const Directive *d) {
  int32_t n = 0;
  while (n < MAX_ARGS && (d->args[n].name || d->args[n].kind || d->args[n].lo)) n++;
  return n;
}

// ---- slots ---------------------------------------------------------------------------------------------------------
// What the first argument names.
static const char *subject(const PmPlanItem *item) {
  const PmArg *a = item->args.n > 0 ? &item->args.items[0] : NULL;
  bool named = a && !a->name.text && (a->value->kind == PM_X_NAME || a->value->kind == PM_X_STR);
  return named ? a->value->name : NULL;
}

bool pm_directive_same_slot(const PmPlanItem *a, const PmPlanItem *b) {
  const Directive *d = find(a->name.text), *e = find(b->name.text);
  bool kin = a->name.text == b->name.text || (d && e && d->slot == CROSSING && e->slot == CROSSING);
  if (!kin || !d) return kin;
  return d->slot == ONCE || (subject(a) && subject(a) == subject(b));
}

// ---- values --------------------------------------------------------------------------------------------------------
static bool refuse(const Check *c, PmSpan span, const char *what) {
  if (pm_lw_error(c->lw, PM_E_DIRECTIVE, span, "%s", what)) pm_diag_help(c->lw->diags, "write %s", c->d->form);
  return false;
}

static bool need_axis(const Check *c, const PmExpr *e) {
  PmLower *lw = c->lw;
  if (e->kind != PM_X_NAME) return refuse(c, e->span, "the name of an axis is needed here");
  const PmSym *sym = pm_scope_find_here(&lw->main->globals, e->name);
  if (sym ? sym->kind == PM_SYM_AXIS : pm_module_find_axis(lw->m, e->name) != PM_NONE) return true;
  const char **names;
  int32_t n = pm_scope_names(lw, &lw->main->globals, PM_SYM_AXIS, &names);
  if (pm_lw_error(lw, PM_E_UNKNOWN_AXIS, e->span, "unknown axis `%s`", e->name)) pm_lw_suggest(lw, e->name, names, n);
  return false;
}

static bool need_mesh(const Check *c, const PmExpr *e, bool several) {
  if (several && e->kind == PM_X_BINARY && e->fn == PM_S_add) {
    return need_mesh(c, e->a, true) && need_mesh(c, e->b, true);
  }
  if (e->kind != PM_X_NAME) {
    return refuse(c, e->span, several ? "mesh axes are needed here, joined by `+`" : "a mesh axis is needed here");
  }
  if (pm_plan_mesh(c->p, e->name) != PM_NONE) return true;
  pm_plan_no_mesh_axis(c->p, (PmName){e->name, e->span});
  return false;
}

static bool repeats(const PmModule *m, PmAxisId axis) {
  for (int32_t f = 0; f < m->n_fns; f++) {
    for (int32_t i = 0; !m->fns[f].dead && i < m->fns[f].n_nodes; i++) {
      const PmNode *n = &m->fns[f].nodes[i];
      if (pm_is_loop(n) && n->attr.axes[0] == axis) return true;
    }
  }
  return false;
}

static bool need_scope(const Check *c, const PmExpr *e) {
  PmLower *lw = c->lw;
  if (e->kind != PM_X_NAME) return refuse(c, e->span, "the axis of a `repeat` is needed here, or a word");
  const PmSym *sym = pm_scope_find_here(&lw->main->globals, e->name);
  // Where the model has errors its repeats are not known.
  if (sym && sym->kind == PM_SYM_AXIS && (pm_diags_errors(lw->diags) > 0 || repeats(lw->m, sym->axis))) return true;
  bool axis = sym && sym->kind == PM_SYM_AXIS;
  if (!pm_lw_error(lw, PM_E_DIRECTIVE, e->span, axis ? "nothing is repeated over `%s`" : "unknown scope `%s`",
                   e->name)) {
    return false;
  }
  const char **names;
  int32_t n = pm_scope_names(lw, &lw->main->globals, PM_SYM_AXIS, &names);
  const char **all = PM_NEW_N(lw->arena, const char *, n + MAX_ARGS);
  if (n > 0) memcpy(all, names, (size_t)n * sizeof *all);
  for (int32_t i = 0; i < n_args(c->d); i++) {
    if (c->d->args[i].kind == WORD) all[n++] = c->d->args[i].name;
  }
  if (!axis) pm_lw_suggest(lw, e->name, all, n);
  pm_diag_help(lw->diags, "write %s", c->d->form);
  return false;
}

int64_t pm_plan_bytes(const PmExpr *e) {
  static const char *const units[] = {"", "B", "KiB", "MiB", "GiB", "TiB"};
  char *end;
  bool digits = e->kind == PM_X_STR && e->name[0] >= '1' && e->name[0] <= '9';
  unsigned long long v = digits ? strtoull(e->name, &end, 10) : 0;
  for (size_t i = 0; digits && v <= INT32_MAX && i < sizeof units / sizeof *units; i++) {
    int64_t bytes, scale = INT64_C(1) << (i < 2 ? 0 : 10 * (i - 1));
    if (strcmp(units[i], end) == 0) return pm_mul_i64((int64_t)v, scale, &bytes) ? bytes : INT64_MAX;
  }
  return 0;
}

static bool need_bytes(const Check *c, const PmExpr *e) {
  if (e->kind != PM_X_STR) return refuse(c, e->span, "a size in quotes is needed here, such as \"4GiB\"");
  return pm_plan_bytes(e) > 0 || refuse(c, e->span, "a size is a whole number with B, KiB, MiB, GiB or TiB behind it");
}

// All that rules may name: paths of variables and of values, listed once.
static void list_paths(PmLower *lw) {
  const PmModule *m = lw->m;
  int32_t n = m->n_vars;
  for (int32_t f = 0; f < m->n_fns; f++) n += m->fns[f].n_values;
  lw->paths = PM_NEW_N(lw->arena, const char *, n + 1);
  for (PmVarId v = 0; v < m->n_vars; v++) lw->paths[lw->n_paths++] = m->vars[v].path;
  for (int32_t f = 0; f < m->n_fns; f++) {
    for (PmValueId v = 0; !m->fns[f].dead && v < m->fns[f].n_values; v++) {
      const PmValue *value = &m->fns[f].values[v];
      if (value->bound && value->name) lw->paths[lw->n_paths++] = value->name;
    }
  }
}

// Warns of a path that nothing of the model has. Where the model has errors its values are not known; the plans of the
// file have been checked when one of them is chosen.
static void find_path(const Check *c, const PmExpr *e) {
  enum { SUGGESTIONS = 4 };  // each looks at every path
  PmLower *lw = c->lw;
  if (pm_diags_errors(lw->diags) > 0 || (c->chosen && e->span.file == lw->main->file)) return;
  if (!lw->paths) list_paths(lw);
  for (int32_t i = 0; i < lw->n_paths && !lw->stopped; i++)
    if (pm_lw_matches(lw, (PmName){e->name, e->span}, lw->paths[i])) return;
  if (lw->stopped) return;
  pm_diag(lw->diags, PM_W_RULE_IDLE, e->span, "`%s` finds nothing: no value has the path `%s`", c->d->name, e->name);
  if (pm_diags_warnings(lw->diags) <= SUGGESTIONS) pm_lw_suggest(lw, e->name, lw->paths, lw->n_paths);
}

static bool need_path(const Check *c, const PmExpr *e) {
  if (e->kind != PM_X_STR)
    return refuse(c, e->span, "a path in quotes is needed here, such as \"layer.attn.wq\" or \"*.wq\"");
  return true;
}

static bool need_known_path(const Check *c, const PmExpr *e) {
  if (!need_path(c, e)) return false;
  find_path(c, e);
  return true;
}

static bool need_schedule(const Check *c, const PmExpr *e) {
  static const char *const names[] = {"1f1b",        "dualpipe", "dualpipev", "gpipe",
                                      "interleaved", "zb_h1",    "zb_h2",     "zb_v"};
  const int32_t n = (int32_t)(sizeof names / sizeof *names);
  if (e->kind != PM_X_STR) return refuse(c, e->span, "a schedule in quotes is needed here, such as \"1f1b\"");
  for (int32_t i = 0; i < n; i++) {
    if (strcmp(names[i], e->name) == 0) return true;
  }
  if (pm_lw_error(c->lw, PM_E_DIRECTIVE, e->span, "unknown schedule `%s`", e->name)) {
    pm_lw_suggest_from(c->lw, e->name, names, n, "schedules are");
  }
  return false;
}

static bool need_order(const Check *c, const PmExpr *e) {
  bool known = e->kind == PM_X_NAME && (strcmp(e->name, "zigzag") == 0 || strcmp(e->name, "plain") == 0);
  return known || refuse(c, e->span, "an order is `zigzag` or `plain`");
}

typedef bool ItemFn(const Check *c, const PmExpr *e);

static bool need_list(const Check *c, const PmExpr *e, ItemFn *item) {
  if (e->kind != PM_X_LIST || e->args.n == 0) return refuse(c, e->span, "a list in square brackets is needed here");
  for (int32_t i = 0; i < e->args.n; i++) {
    const PmArg *a = &e->args.items[i];
    if (a->name.text || a->end) return refuse(c, a->value->span, "the items of a list have no names");
    if (!item(c, a->value)) return false;
  }
  return true;
}

static bool need_numbers(const Check *c, const PmExpr *e, const Arg *row) {
  if (e->kind != PM_X_LIST || e->args.n == 0) return refuse(c, e->span, "a list in square brackets is needed here");
  int64_t last = row->lo - 1, v;
  for (int32_t i = 0; i < e->args.n; i++) {
    const PmExpr *one = e->args.items[i].value;
    if (!pm_lw_eval_whole(c->lw, one, row->name, row->lo, row->hi, &v)) return false;
    if (v <= last) return refuse(c, one->span, "these numbers must ascend");
    last = v;
  }
  return true;
}

static bool value_fits(const Check *c, const Arg *row, const PmExpr *e) {
  int64_t v;
  switch (row->kind) {
    case NUMBER:
      return pm_lw_eval_whole(c->lw, e, pm_arena_printf(c->lw->arena, "`%s`", row->name), row->lo, row->hi, &v);
    case NUMBERS:
      return need_numbers(c, e, row);
    case BYTES:
      return need_bytes(c, e);
    case BYTES_0:
      return (e->kind == PM_X_NUM && e->num == 0) || need_bytes(c, e);
    case AXIS:
    case AXIS_ROW:
      return need_axis(c, e);
    case AXES:
      return need_list(c, e, need_axis);
    case MESH:
    case MESHES:
      return need_mesh(c, e, row->kind == MESHES);
    case PATH:
      return need_known_path(c, e);
    case PIN:
      return need_path(c, e);
    case PATHS:
      return need_list(c, e, need_known_path);
    case DIMS:
      // What stands in it is read where the pin becomes a rule.
      return e->kind == PM_X_LIST || refuse(c, e->span, "a list in square brackets is needed here");
    case SCHEDULE:
      return need_schedule(c, e);
    case ORDER:
      return need_order(c, e);
    case SCOPE:
      return need_scope(c, e);
    case WORD:
      break;
  }
  return true;
}

// ---- arguments -----------------------------------------------------------------------------------------------------
static int32_t row_named(const Check *c, const PmArg *a) {
  const char *names[MAX_ARGS];
  int32_t n = 0;
  for (int32_t i = 0; i < n_args(c->d); i++) {
    if (!c->d->args[i].name || c->d->args[i].kind == WORD) continue;
    if (strcmp(c->d->args[i].name, a->name.text) == 0) return i;
    names[n++] = c->d->args[i].name;
  }
  if (pm_lw_error(c->lw, PM_E_DIRECTIVE, a->name.span, "`%s` has no argument `%s`", c->d->name, a->name.text)) {
    if (n > 0) pm_lw_suggest_from(c->lw, a->name.text, names, n, "its arguments are");
    if (n == 0) pm_diag_help(c->lw->diags, "write %s", c->d->form);
  }
  return PM_NONE;
}

// The row of the `at`-th argument without a name: a word that it is, else the at-th row by position.
static int32_t row_placed(const Check *c, const PmArg *a, int32_t at) {
  const char *word = a->value->kind == PM_X_NAME ? a->value->name : "";
  for (int32_t i = 0; i < n_args(c->d); i++) {
    if (c->d->args[i].kind == WORD && strcmp(c->d->args[i].name, word) == 0) return i;
  }
  for (int32_t i = 0; i < n_args(c->d); i++) {
    if (!c->d->args[i].name && (c->d->args[i].kind == AXIS_ROW || at-- == 0)) return i;
  }
  refuse(c, a->value->span, "this argument has no place here");
  return PM_NONE;
}

static bool match(Check *c) {
  int32_t placed = 0;
  for (int32_t i = 0; i < c->item->args.n; i++) {
    const PmArg *a = &c->item->args.items[i];
    PmSpan span = a->name.text ? a->name.span : a->value->span;
    if (a->end) return refuse(c, span, "an argument is not a range");
    int32_t row = a->name.text ? row_named(c, a) : row_placed(c, a, placed++);
    if (row == PM_NONE) return false;
    if (c->d->args[row].kind == AXIS_ROW && !need_axis(c, a->value)) return false;
    if (c->d->args[row].kind != AXIS_ROW && c->given[row]) return refuse(c, span, "this argument is given twice");
    c->given[row] = a;
  }
  return true;
}

static bool complete(const Check *c) {
  int32_t choices = 0, chosen = 0;
  bool scope = false;
  for (int32_t i = 0; i < n_args(c->d); i++) {
    const Arg *row = &c->d->args[i];
    choices += row->need == CHOICE;
    chosen += row->need == CHOICE && c->given[i];
    scope = scope || (row->kind == SCOPE && c->given[i]);
    if (row->need != REQUIRED || c->given[i]) continue;
    const char *what = row->name ? pm_arena_printf(c->lw->arena, "`%s` needs `%s=`", c->d->name, row->name)
                                 : pm_arena_printf(c->lw->arena, "`%s` lacks an argument", c->d->name);
    return refuse(c, c->item->span, what);
  }
  if (choices > 0 && chosen != 1) {
    return refuse(c, c->item->span, pm_arena_printf(c->lw->arena, "`%s` takes one of these", c->d->name));
  }
  for (int32_t i = 0; i < n_args(c->d); i++) {
    if (c->d->args[i].need != BESIDE || !c->given[i] || scope) continue;
    return refuse(c, c->given[i]->name.span, "this argument stands beside a scope only");
  }
  return true;
}

void pm_plan_add_directive(PmPlan *p, const PmPlanItem *item, bool chosen) {
  PmLower *lw = p->lw;
  Check c = {.p = p, .lw = lw, .item = item, .chosen = chosen, .d = find(item->name.text)};
  if (!c.d) {
    const char *names[N_DIRECTIVES];
    for (int32_t i = 0; i < N_DIRECTIVES; i++) names[i] = directives[i].name;
    if (pm_lw_error(lw, PM_E_DIRECTIVE, item->name.span, "unknown directive `%s`", item->name.text)) {
      pm_lw_suggest_from(lw, item->name.text, names, N_DIRECTIVES, "directives are");
    }
    return;
  }
  bool ok = match(&c) && complete(&c);
  for (int32_t i = 0; ok && i < n_args(c.d); i++) {
    if (c.given[i]) ok = value_fits(&c, &c.d->args[i], c.given[i]->value);
  }
  if (ok) c.d->add(p, item, chosen);
}
