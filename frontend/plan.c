// Plans: which one is meant, its mesh, and its rules resolved in firing order.
#include <string.h>

#include "frontend/plan.h"

// Each plan is walked with its parents, whose names are looked up among all.
#define MAX_PLANS 1024
#define MAX_ITEMS 4096

static bool is_file(const char *plan) {
  size_t n = strlen(plan);
  return n > 6 && strcmp(plan + n - 6, ".pplan") == 0;
}

static const PmItem *find_plan(PmLower *lw, const char *name) {
  for (int32_t i = 0; i < lw->main->text.items.n; i++) {
    const PmItem *it = &lw->main->text.items.items[i];
    if (it->kind == PM_IT_PLAN && strcmp(it->name.text, name) == 0) return it;
  }
  return NULL;
}

static int32_t plan_names(PmLower *lw, const char ***out) {
  const char **names = PM_NEW_N(lw->arena, const char *, lw->main->text.items.n + 1);
  int32_t n = 0;
  for (int32_t i = 0; i < lw->main->text.items.n; i++) {
    const PmItem *it = &lw->main->text.items.items[i];
    if (it->kind == PM_IT_PLAN) names[n++] = it->name.text;
  }
  *out = names;
  return n;
}

static PmSpan option_span(PmLower *lw, const char *origin, const char *text) {
  int32_t file = pm_sources_add(lw->sources, origin, pm_arena_strdup(lw->arena, text), strlen(text));
  return (PmSpan){file, 0, (int32_t)strlen(text)};
}

static bool add_item(PmPlan *p, const PmPlanItem *item) {
  if (p->n == MAX_ITEMS) {
    pm_lw_error(p->lw, PM_E_LIMIT, item->span, "a plan has at most %d items", MAX_ITEMS);
    return false;
  }
  p->items = pm_grow(p->lw->arena, p->items, p->n, &p->cap, sizeof *p->items);
  p->items[p->n++] = item;
  return true;
}

static bool same_slot(const PmPlanItem *a, const PmPlanItem *b) {
  if (a->kind != b->kind || a->kind == PM_PI_SHARD) return false;
  return a->kind == PM_PI_MESH || pm_directive_same_slot(a, b);
}

// Adds a plan's own items after those of its children; what a child says replaces what a parent says.
static void add_items(PmPlan *p, const PmPlanItems *items) {
  int32_t own = p->n;
  for (int32_t i = 0; i < items->n; i++) {
    const PmPlanItem *item = &items->items[i];
    bool replaced = false;
    for (int32_t k = 0; k < p->n; k++) {
      if (!same_slot(p->items[k], item)) continue;
      replaced = true;
      const char *was = p->items[k]->kind == PM_PI_MESH ? "mesh" : p->items[k]->name.text;
      const char *name = item->kind == PM_PI_MESH ? "mesh" : item->name.text;
      const char *fmt = strcmp(was, name) == 0 ? "`%s` stands twice in one plan" : "`%s` and `%s` exclude each other";
      if (k >= own && pm_lw_error(p->lw, PM_E_PLAN, item->span, fmt, name, was)) {
        pm_diag_label(p->lw->diags, p->items[k]->span, "the first one");
      }
    }
    if (!replaced && !add_item(p, item)) return;
  }
}

// Plans chain[0 .. n - 1] extend one another in a circle. It is reported where its first plan in the text stands, so
// that it is one error from whichever plan the walk came to it.
static void report_circle(PmLower *lw, const PmItem *const *chain, int32_t n) {
  int32_t first = 0;
  for (int32_t i = 1; i < n; i++) {
    if (chain[i]->parent.span.lo < chain[first]->parent.span.lo) first = i;
  }
  PmSpan span = chain[first]->parent.span;
  if (!pm_lw_error(lw, PM_E_PLAN, span, "plan `%s` extends itself", chain[first]->name.text)) return;
  for (int32_t i = 1; i < n; i++) {
    const PmItem *other = chain[(first + i) % n];
    pm_diag_label(lw->diags, other->parent.span, "through `%s`", other->name.text);
  }
}

// The plan and its parents, children first.
static void add_chain(PmPlan *p, const PmItem *plan) {
  PmLower *lw = p->lw;
  const PmItem *chain[PM_MAX_IMPORT_DEPTH + 1];
  for (int32_t depth = 0; plan; depth++) {
    chain[depth] = plan;
    add_items(p, &plan->plan);
    if (!plan->parent.text) return;
    const PmItem *parent = find_plan(lw, plan->parent.text);
    if (!parent) {
      const char **names;
      int32_t n = plan_names(lw, &names);
      if (pm_lw_error(lw, PM_E_PLAN, plan->parent.span, "unknown plan `%s`", plan->parent.text)) {
        pm_lw_suggest(lw, plan->parent.text, names, n);
      }
      return;
    }
    for (int32_t i = 0; i <= depth; i++) {
      if (chain[i] != parent) continue;
      report_circle(lw, &chain[i], depth + 1 - i);
      return;
    }
    if (depth >= PM_MAX_IMPORT_DEPTH) {
      pm_lw_error(lw, PM_E_LIMIT, plan->parent.span, "plans extend one another more than %d deep", PM_MAX_IMPORT_DEPTH);
      return;
    }
    plan = parent;
  }
}

static bool choose_text(PmPlan *p, const char *name, int32_t file) {
  PmLower *lw = p->lw;
  PmText *text = PM_NEW(lw->arena, PmText);
  if (!pm_parse(lw->arena, lw->names, lw->sources, lw->diags, file, PM_TEXT_PLAN, text)) return false;
  p->name = pm_intern(lw->names, name);
  add_items(p, &text->plan);
  return true;
}

static bool choose_named(PmPlan *p, const char *name) {
  PmLower *lw = p->lw;
  if (is_file(name)) {
    int32_t file;
    PmStatus *st = pm_sources_load(lw->sources, name, PM_MAX_FILE_BYTES, &file);
    if (!st) return choose_text(p, name, file);
    lw->missing = st;
    return false;
  }
  const PmItem *plan = find_plan(lw, name);
  if (plan) {
    p->name = plan->name.text;
    add_chain(p, plan);
    return true;
  }
  const char **names;
  int32_t n = plan_names(lw, &names);
  if (pm_lw_error(lw, PM_E_PLAN, option_span(lw, "--plan", name), "%s has no plan `%s`", lw->main->path, name)) {
    pm_lw_suggest(lw, name, names, n);
    pm_diag_note(lw->diags, "a file of plan items has a name that ends in `.pplan`");
  }
  return false;
}

// Without --plan, --mesh and --shard mean the file's only plan.
static bool choose(PmPlan *p) {
  PmLower *lw = p->lw;
  const PmFrontendOptions *o = lw->options;
  if (o->plan_text) return choose_text(p, o->plan, option_span(lw, o->plan, o->plan_text).file);
  if (o->plan) return choose_named(p, o->plan);
  if (!o->mesh && !o->n_shard) return false;
  const char **names;
  int32_t n = plan_names(lw, &names);
  if (n == 1) return choose_named(p, names[0]);
  if (n == 0) {
    p->name = pm_intern(lw->names, "command line");
    return true;
  }
  const char *origin = o->mesh ? "--mesh" : "--shard";
  if (pm_lw_error(lw, PM_E_PLAN, option_span(lw, origin, o->mesh ? o->mesh : o->shard[0]),
                  "%s has several plans, and `--plan` chooses none", lw->main->path)) {
    for (int32_t i = 0; i < n; i++) pm_diag_note(lw->diags, "plan `%s`", names[i]);
  }
  return false;
}

void pm_lw_choose_plan(PmLower *lw) {
  PmPlan *p = PM_NEW(lw->arena, PmPlan);
  p->lw = lw;
  lw->micro = 1;
  if (!choose(p)) return;
  lw->plan = p;
  for (int32_t i = 0; i < p->n; i++) {
    const PmPlanItem *item = p->items[i];
    if (item->kind == PM_PI_DIRECTIVE && pm_plan_accumulates(item)) lw->accumulate = item;
  }
}

static void add_mesh_axis(PmPlan *p, const PmDef *d) {
  PmLower *lw = p->lw;
  int64_t size;
  if (!pm_lw_eval_whole(lw, d->value, "the size of a mesh axis", 1, PM_MAX_RANKS, &size)) size = 1;
  for (int32_t i = 0; i < p->n_mesh; i++) {
    if (p->mesh[i].name != d->name.text) continue;
    pm_lw_error(lw, PM_E_REDEFINED, d->name.span, "mesh axis `%s` stands twice", d->name.text);
    return;
  }
  if (p->n_mesh == PM_MAX_MESH) {
    pm_lw_error(lw, PM_E_LIMIT, d->name.span, "a mesh has at most %d axes", PM_MAX_MESH);
    return;
  }
  if (strcmp(d->name.text, "none") == 0) {
    pm_lw_error(lw, PM_E_REDEFINED, d->name.span,
                "`none` is the target of a rule that closes an axis, not a mesh axis");
    return;
  }
  p->mesh[p->n_mesh++] = (PmMeshAxis){.name = d->name.text, .size = size, .loc = pm_lw_loc(lw, d->name.span)};
}

int32_t pm_plan_mesh(const PmPlan *p, const char *name) {
  for (int32_t i = 0; i < p->n_mesh; i++) {
    if (p->mesh[i].name == name) return i;
  }
  return PM_NONE;
}

static void no_mesh_axis(PmPlan *p, PmName name) {
  PmLower *lw = p->lw;
  const char *names[PM_MAX_MESH + 1];
  for (int32_t i = 0; i < p->n_mesh; i++) names[i] = p->mesh[i].name;
  names[p->n_mesh] = "none";
  if (p->n_mesh == 0) {
    pm_lw_error(lw, PM_E_MESH, name.span, "plan `%s` has no `mesh`", p->name);
  } else if (pm_lw_error(lw, PM_E_MESH, name.span, "the mesh has no axis `%s`", name.text)) {
    pm_lw_suggest(lw, name.text, names, p->n_mesh + 1);
  }
}

void pm_plan_no_mesh_axis(PmPlan *p, PmName name) { no_mesh_axis(p, name); }

// --mesh replaces sizes; what it does not name becomes 1. Without a mesh in the plan it is the mesh.
static void override_mesh(PmPlan *p) {
  PmLower *lw = p->lw;
  PmText text;
  if (!lw->options->mesh || !pm_lw_parse_option(lw, "--mesh", lw->options->mesh, PM_TEXT_DEFS, &text)) return;
  bool own = p->n_mesh > 0;
  for (int32_t i = 0; i < p->n_mesh; i++) p->mesh[i].size = 1;
  for (int32_t i = 0; i < text.defs.n; i++) {
    const PmDef *d = &text.defs.items[i];
    p->mesh_span = d->name.span;
    int32_t at = pm_plan_mesh(p, d->name.text), before = 0;
    while (before < i && text.defs.items[before].name.text != d->name.text) before++;
    if (own && before < i) {
      pm_lw_error(lw, PM_E_REDEFINED, d->name.span, "mesh axis `%s` stands twice", d->name.text);
    } else if (!own) {
      add_mesh_axis(p, d);
    } else if (at == PM_NONE) {
      no_mesh_axis(p, d->name);
    } else {
      int64_t size;
      if (pm_lw_eval_whole(lw, d->value, "the size of a mesh axis", 1, PM_MAX_RANKS, &size)) p->mesh[at].size = size;
      p->mesh[at].loc = pm_lw_loc(lw, d->name.span);
    }
  }
}

static void make_mesh(PmPlan *p, bool chosen) {
  p->mesh_span = PM_NO_SPAN;
  for (int32_t i = 0; i < p->n; i++) {
    if (p->items[i]->kind != PM_PI_MESH) continue;
    p->mesh_span = p->items[i]->span;
    for (int32_t k = 0; k < p->items[i]->mesh.n; k++) add_mesh_axis(p, &p->items[i]->mesh.items[k]);
  }
  if (chosen) override_mesh(p);
  int64_t ranks = 1;
  for (int32_t i = 0; i < p->n_mesh; i++) {
    if (pm_mul_i64(ranks, p->mesh[i].size, &ranks) && ranks <= PM_MAX_RANKS) continue;
    pm_lw_error(p->lw, PM_E_LIMIT, p->mesh_span, "the mesh has more than 2^20 ranks");
    return;
  }
}

static void make_rules(PmPlan *p, bool chosen) {
  PmLower *lw = p->lw;
  for (int32_t i = 0; chosen && i < lw->options->n_shard; i++) {
    PmText *text = PM_NEW(lw->arena, PmText);
    if (!pm_lw_parse_option(lw, "--shard", lw->options->shard[i], PM_TEXT_RULE, text)) continue;
    pm_plan_add_shard(p, &text->plan.items[0]);
  }
  for (int32_t i = 0; i < p->n; i++) {
    if (p->items[i]->kind == PM_PI_DIRECTIVE) pm_plan_add_directive(p, p->items[i], chosen);
  }
  for (int32_t i = 0; i < p->n; i++) {
    if (p->items[i]->kind == PM_PI_SHARD) pm_plan_add_shard(p, p->items[i]);
  }
}

static void resolve(PmPlan *p, bool chosen) {
  make_mesh(p, chosen);
  make_rules(p, chosen);
}

static void store(PmPlan *p) {
  PmModule *m = p->lw->m;
  m->plan = p->name;
  m->n_mesh = p->n_mesh;
  m->mesh = PM_NEW_N(m->arena, PmMeshAxis, p->n_mesh + 1);
  for (int32_t i = 0; i < p->n_mesh; i++) m->mesh[i] = p->mesh[i];
  m->rules = p->rules;
  m->n_rules = p->n_rules;
}

static void write_text(PmPlan *p, PmPlanText *out) {
  PmLower *lw = p->lw;
  int32_t cap = 0;
  *out = (PmPlanText){.name = p->name};
  PmBuf text;
  pm_buf_init(&text);
  for (int32_t i = -1; i < p->n_lines; i++) {
    PmSpan span = i < 0 ? p->mesh_span : p->lines[i].span;
    if (i < 0 && p->n_mesh == 0) continue;
    PmPlanLine line = {.text = i < 0 ? NULL : p->lines[i].text};
    if (i < 0) {
      pm_buf_clear(&text);
      for (int32_t k = 0; k < p->n_mesh; k++) {
        pm_buf_printf(&text, "%s%s=%lld", k ? ", " : "mesh ", p->mesh[k].name, (long long)p->mesh[k].size);
      }
      line.text = pm_arena_strdup(lw->arena, pm_buf_str(&text));
    }
    pm_buf_clear(&text);
    pm_sources_put_loc(lw->sources, span, &text);
    line.origin = pm_arena_strdup(lw->arena, pm_buf_str(&text));
    out->lines = pm_grow(lw->arena, out->lines, out->n_lines, &cap, sizeof *out->lines);
    out->lines[out->n_lines++] = line;
  }
  pm_buf_deinit(&text);
}

void pm_lw_plans(PmLower *lw, PmPlanText *out_text) {
  lw->scope = &lw->main->globals;
  if (out_text) *out_text = (PmPlanText){0};
  int32_t n_plans = 0;
  // Plans that are not chosen are checked too: their names and rules, not what they ask for.
  for (int32_t i = 0; i < lw->main->text.items.n; i++) {
    const PmItem *it = &lw->main->text.items.items[i];
    if (it->kind != PM_IT_PLAN) continue;
    if (n_plans++ == MAX_PLANS) {
      pm_lw_error(lw, PM_E_LIMIT, it->name.span, "more than %d plans", MAX_PLANS);
      return;
    }
    PmPlan *p = PM_NEW(lw->arena, PmPlan);
    p->lw = lw;
    p->name = it->name.text;
    if (find_plan(lw, it->name.text) != it) {
      pm_lw_error(lw, PM_E_REDEFINED, it->name.span, "plan `%s` stands twice", it->name.text);
      continue;
    }
    add_chain(p, it);
    resolve(p, false);
  }
  if (!lw->plan) return;
  resolve(lw->plan, true);
  store(lw->plan);
  if (out_text) write_text(lw->plan, out_text);
}
