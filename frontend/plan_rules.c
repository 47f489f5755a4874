// Rules and directives of a plan.
#include <string.h>

#include "base/assert.h"
#include "frontend/format.h"
#include "frontend/plan.h"

#define ALL_ROLES ((UINT32_C(1) << PM_ROLE_COUNT) - 1)

static void add_line(PmPlan *p, const char *text, PmSpan span) {
  p->lines = pm_grow(p->lw->arena, p->lines, p->n_lines, &p->cap_lines, sizeof *p->lines);
  p->lines[p->n_lines++] = (PmPlanEntry){text, span};
}

static void add_rule(PmPlan *p, PmRule rule) {
  rule.loc = pm_lw_loc(p->lw, rule.span);
  p->rules = pm_grow(p->lw->arena, p->rules, p->n_rules, &p->cap_rules, sizeof *p->rules);
  p->rules[p->n_rules++] = rule;
  add_line(p, rule.text, rule.span);
}

// The axis that a rule means: one of the program, else a local one that the model made.
static PmAxisId rule_axis(PmLower *lw, const char *name) {
  const PmSym *sym = pm_scope_find_here(&lw->main->globals, name);
  if (sym && sym->kind == PM_SYM_AXIS) return sym->axis;
  return pm_module_find_axis(lw->m, name);
}

static bool rule_roles(PmPlan *p, PmName role, uint32_t *out) {
  static const char *const names[] = {"param", "state", "act", "grad", "input"};
  static const PmRole roles[] = {PM_ROLE_PARAM, PM_ROLE_STATE, PM_ROLE_ACT, PM_ROLE_GRAD, PM_ROLE_INPUT};
  *out = ALL_ROLES;
  if (!role.text) return true;
  for (int32_t i = 0; i < 5; i++) {
    if (strcmp(names[i], role.text) != 0) continue;
    *out = UINT32_C(1) << roles[i];
    return true;
  }
  if (pm_lw_error(p->lw, PM_E_PLAN, role.span, "unknown role `%s`", role.text)) {
    pm_lw_suggest(p->lw, role.text, names, 5);
    pm_diag_note(p->lw->diags,
                 "roles are `param`, `state`, `act`, `grad` and `input`; several axes are separated by commas");
  }
  return false;
}

static bool rule_targets(PmPlan *p, const PmNames *targets, PmRule *rule) {
  PmLower *lw = p->lw;
  bool ok = true;
  for (int32_t i = 0; i < targets->n; i++) {
    PmName t = targets->items[i];
    int32_t mesh = pm_plan_mesh(p, t.text);
    if (mesh == PM_NONE && strcmp(t.text, "none") == 0 && targets->n == 1) {
      rule->none = true;
      return true;
    }
    if (mesh == PM_NONE) {
      pm_plan_no_mesh_axis(p, t);
      ok = false;
      continue;
    }
    for (int32_t k = 0; k < rule->n_mesh; k++) {
      if (rule->mesh[k] != mesh) continue;
      pm_lw_error(lw, PM_E_MESH, t.span, "mesh axis `%s` stands twice in one target", t.text);
      ok = false;
    }
    if (rule->n_mesh == PM_MAX_SPLIT) {
      pm_lw_error(lw, PM_E_LIMIT, t.span, "one axis divides over at most %d mesh axes", PM_MAX_SPLIT);
      return false;
    }
    rule->mesh[rule->n_mesh++] = (uint8_t)mesh;
  }
  return ok;
}

static const char *shard_text(PmPlan *p, const PmPlanItem *item) {
  PmBuf b;
  pm_buf_init(&b);
  pm_buf_puts(&b, "shard ");
  if (item->role.text) pm_buf_printf(&b, "%s ", item->role.text);
  for (int32_t i = 0; i < item->axes.n; i++) pm_buf_printf(&b, "%s%s", i ? ", " : "", item->axes.items[i].text);
  if (item->scope.text) pm_buf_printf(&b, " in \"%s\"", item->scope.text);
  for (int32_t i = 0; i < item->targets.n; i++)
    pm_buf_printf(&b, "%s%s", i ? " + " : " -> ", item->targets.items[i].text);
  const char *out = pm_intern(p->lw->names, pm_buf_str(&b));
  pm_buf_deinit(&b);
  return out;
}

void pm_plan_add_shard(PmPlan *p, const PmPlanItem *item) {
  PmLower *lw = p->lw;
  PmRule rule = {.scope = item->scope.text, .span = item->span, .n_axes = item->axes.n};
  rule.axes = PM_NEW_N(lw->arena, PmAxisId, item->axes.n);
  rule.names = PM_NEW_N(lw->arena, PmRuleName, item->axes.n);
  for (int32_t i = 0; i < item->axes.n; i++) {
    rule.axes[i] = rule_axis(lw, item->axes.items[i].text);
    rule.names[i] = (PmRuleName){item->axes.items[i].text, item->axes.items[i].span};
  }
  bool roles = rule_roles(p, item->role, &rule.roles);
  if (!rule_targets(p, &item->targets, &rule) || !roles) return;
  rule.text = shard_text(p, item);
  add_rule(p, rule);
}

// The item in its canonical layout, on one line: what it may be written to a .pplan as.
static const char *item_text(PmPlan *p, const PmPlanItem *item) {
  PmLower *lw = p->lw;
  const char *text = lw->sources->files[item->span.file].text;
  PmBuf line, out;
  pm_buf_init(&line);
  pm_buf_init(&out);
  bool in_string = false;
  for (int32_t i = item->span.lo; i < item->span.hi; i++) {
    if (text[i] == '"') in_string = !in_string;
    while (!in_string && text[i] == '#' && i < item->span.hi) i += (int32_t)strcspn(text + i, "\n");
    if (i < item->span.hi) pm_buf_putc(&line, strchr("\n\r\t", text[i]) ? ' ' : text[i]);
  }
  PmSources one;
  pm_sources_init(&one, lw->arena);
  int32_t file = pm_sources_add(&one, "", pm_buf_str(&line), line.len);
  bool ok = pm_format(lw->arena, lw->names, &one, lw->diags, file, true, &out);
  PM_ASSERT(ok, "an item of a plan does not parse again: %s", pm_buf_str(&line));
  const char *name = pm_intern_n(lw->names, pm_buf_str(&out), out.len - 1);
  pm_buf_deinit(&line);
  pm_buf_deinit(&out);
  return name;
}

// `mesh` axes written as a + b.
static bool pin_mesh(PmPlan *p, const PmExpr *e, PmSplit *out) {
  if (e->kind == PM_X_BINARY && e->fn == PM_S_add) return pin_mesh(p, e->a, out) && pin_mesh(p, e->b, out);
  if (e->kind != PM_X_NAME) {
    pm_lw_error(p->lw, PM_E_DIRECTIVE, e->span, "a placement is `axis` or `axis/mesh`, with mesh axes joined by `+`");
    return false;
  }
  int32_t mesh = pm_plan_mesh(p, e->name);
  if (mesh == PM_NONE) {
    pm_plan_no_mesh_axis(p, (PmName){e->name, e->span});
    return false;
  }
  if (!pm_split_has(out, mesh) && pm_split_push(out, mesh)) return true;
  pm_lw_error(p->lw, PM_E_MESH, e->span, "mesh axis `%s` stands twice, or too many of them", e->name);
  return false;
}

// One dim of a pin: axis, axis/mesh, or axis/mesh+mesh, which parses as (axis/mesh)+mesh.
static bool pin_dim(PmPlan *p, const PmExpr *e, PmDim *out) {
  if (e->kind == PM_X_BINARY && e->fn == PM_S_add) return pin_dim(p, e->a, out) && pin_mesh(p, e->b, &out->split);
  if (e->kind == PM_X_BINARY && e->fn == PM_S_div) return pin_dim(p, e->a, out) && pin_mesh(p, e->b, &out->split);
  PmLower *lw = p->lw;
  if (e->kind != PM_X_NAME) {
    pm_lw_error(lw, PM_E_DIRECTIVE, e->span, "a placement is `axis` or `axis/mesh`, with mesh axes joined by `+`");
    return false;
  }
  out->axis = rule_axis(lw, e->name);
  if (out->axis != PM_NONE) return true;
  const char **names;
  int32_t n = pm_scope_names(lw, &lw->main->globals, PM_SYM_AXIS, &names);
  if (pm_lw_error(lw, PM_E_UNKNOWN_AXIS, e->span, "unknown axis `%s`", e->name)) pm_lw_suggest(lw, e->name, names, n);
  return false;
}

void pm_plan_add_pin(PmPlan *p, const PmPlanItem *item, bool chosen) {
  (void)chosen;
  PmLower *lw = p->lw;
  const PmArgs *a = &item->args;
  const PmArgs *dims = &a->items[1].value->args;
  PmRule rule = {.roles = ALL_ROLES, .span = item->span, .pin = a->items[0].value->name, .n_pin_dims = dims->n};
  rule.pin_dims = PM_NEW_N(lw->arena, PmDim, dims->n + 1);
  PmSplit taken = {0};
  for (int32_t i = 0; i < dims->n; i++) {
    if (!pin_dim(p, dims->items[i].value, &rule.pin_dims[i])) return;
    const PmSplit *own = &rule.pin_dims[i].split;
    for (int32_t k = 0; k < own->n; k++) {
      if (!pm_split_has(&taken, own->mesh[k]) && pm_split_push(&taken, own->mesh[k])) continue;
      pm_lw_error(lw, PM_E_MESH, dims->items[i].value->span, "one value uses a mesh axis once: `%s` stands twice",
                  p->mesh[own->mesh[k]].name);
      return;
    }
  }
  rule.text = item_text(p, item);
  add_rule(p, rule);
}

// pad(AXIS, ...): axes whose size a mesh axis need not divide.
void pm_plan_add_pad(PmPlan *p, const PmPlanItem *item, bool chosen) {
  PmLower *lw = p->lw;
  const PmArgs *a = &item->args;
  PmRule rule = {.pad = true, .span = item->span, .n_axes = a->n, .text = item_text(p, item)};
  rule.axes = PM_NEW_N(lw->arena, PmAxisId, a->n + 1);
  rule.names = PM_NEW_N(lw->arena, PmRuleName, a->n + 1);
  for (int32_t i = 0; i < a->n; i++) {
    const PmArg *arg = &a->items[i];
    PmDim dim = {.axis = PM_NONE};
    if (!pin_dim(p, arg->value, &dim)) return;
    rule.axes[i] = dim.axis;
    rule.names[i] = (PmRuleName){arg->value->name, arg->value->span};
  }
  if (chosen)
    add_rule(p, rule);
  else
    add_line(p, rule.text, item->span);
}

// zero(stage=N, over=AXES) becomes a rule of its own unless the stage is 0.
void pm_plan_add_zero(PmPlan *p, const PmPlanItem *item, bool chosen) {
  PmLower *lw = p->lw;
  PmRule rule = {.span = item->span, .text = item_text(p, item)};
  const PmExpr *over = NULL;
  int64_t stage = 0;
  for (int32_t i = 0; i < item->args.n; i++) {
    const PmArg *a = &item->args.items[i];
    if (strcmp(a->name.text, "over") == 0) {
      over = a->value;
    } else if (!pm_lw_eval_whole(lw, a->value, "the stage", 0, 3, &stage)) {
      return;
    }
  }
  if (stage > 0 && !over) {
    pm_lw_error(lw, PM_E_DIRECTIVE, item->span, "`zero` needs `over=`: the mesh axes whose ranks share the states");
    return;
  }
  PmSplit mesh = {0};
  if (over && !pin_mesh(p, over, &mesh)) return;
  rule.zero = (uint8_t)stage;
  rule.n_mesh = mesh.n;
  memcpy(rule.mesh, mesh.mesh, mesh.n);
  if (chosen && stage > 0)
    add_rule(p, rule);
  else
    add_line(p, rule.text, item->span);
}

bool pm_plan_accumulates(const PmPlanItem *item) {
  const PmArg *a = item->args.n == 1 ? &item->args.items[0] : NULL;
  return strcmp(item->name.text, "accumulate") == 0 && a && a->name.text && strcmp(a->name.text, "micro") == 0 &&
         !a->end;
}

// The value of a keyword argument, or NULL.
static const PmExpr *named_arg(const PmPlanItem *item, const char *key) {
  for (int32_t i = 0; i < item->args.n; i++) {
    const PmArg *a = &item->args.items[i];
    if (a->name.text && strcmp(a->name.text, key) == 0) return a->value;
  }
  return NULL;
}

static PmOrder order_of(const PmExpr *e) {
  if (!e || e->kind != PM_X_NAME) return PM_ORDER_ANY;
  if (strcmp(e->name, "plain") == 0) return PM_ORDER_PLAIN;
  return strcmp(e->name, "zigzag") == 0 ? PM_ORDER_ZIGZAG : PM_ORDER_ANY;
}

// ring(KEYS, over=M, order=zigzag), gather(KEYS, over=M), ulysses(KEYS, over=M, heads=AXIS), whose arguments are
// checked: a rule.
static void add_attend(PmPlan *p, const PmPlanItem *item, PmAttend attend) {
  PmLower *lw = p->lw;
  PmRule rule = {.span = item->span, .text = item_text(p, item), .n_axes = 1, .attend = (uint8_t)attend};
  const PmExpr *over = named_arg(item, "over"), *heads = named_arg(item, "heads"), *keys = item->args.items[0].value;
  for (int32_t i = 0; i < item->args.n; i++)
    if (!item->args.items[i].name.text) keys = item->args.items[i].value;
  rule.order = (uint8_t)order_of(named_arg(item, "order"));
  PmSplit mesh = {0};
  if (!pin_mesh(p, over, &mesh)) return;
  rule.n_mesh = 1;
  rule.mesh[0] = mesh.mesh[0];
  rule.axes = PM_NEW_N(lw->arena, PmAxisId, 2);
  rule.names = PM_NEW_N(lw->arena, PmRuleName, 2);
  const PmExpr *axes[] = {keys, heads};
  rule.n_axes = heads ? 2 : 1;
  for (int32_t i = 0; i < rule.n_axes; i++) {
    rule.axes[i] = rule_axis(lw, axes[i]->name);
    rule.names[i] = (PmRuleName){axes[i]->name, axes[i]->span};
  }
  add_rule(p, rule);
}

void pm_plan_add_gather(PmPlan *p, const PmPlanItem *item, bool chosen) {
  (void)chosen;
  add_attend(p, item, PM_ATTEND_GATHER);
}

void pm_plan_add_ring(PmPlan *p, const PmPlanItem *item, bool chosen) {
  (void)chosen;
  add_attend(p, item, PM_ATTEND_RING);
}

void pm_plan_add_ulysses(PmPlan *p, const PmPlanItem *item, bool chosen) {
  (void)chosen;
  add_attend(p, item, PM_ATTEND_ULYSSES);
}

void pm_plan_add_accumulate(PmPlan *p, const PmPlanItem *item, bool chosen) {
  (void)chosen;  // the model was made in micro-batches before
  add_line(p, item_text(p, item), item->span);
}

void pm_plan_add_bucket(PmPlan *p, const PmPlanItem *item, bool chosen) {
  add_line(p, item_text(p, item), item->span);
  if (chosen) p->lw->m->bucket = pm_plan_bytes(item->args.items[0].value);
}

void pm_plan_add_later(PmPlan *p, const PmPlanItem *item, bool chosen) {
  const char *text = item_text(p, item);
  add_line(p, text, item->span);
  if (chosen) pm_lw_later(p->lw, item->span, pm_arena_printf(p->lw->arena, "the directive `%s`", text));
}

// The directive is NAME(word).
static bool says_only(const PmPlanItem *item, const char *word) {
  const PmArg *a = &item->args.items[0];
  return item->args.n == 1 && !a->name.text && a->value->kind == PM_X_NAME && strcmp(a->value->name, word) == 0;
}

// `overlap(off)` and `remat(none)` ask for what is done anyway.
void pm_plan_add_overlap(PmPlan *p, const PmPlanItem *item, bool chosen) {
  pm_plan_add_later(p, item, chosen && !says_only(item, "off"));
}

void pm_plan_add_remat(PmPlan *p, const PmPlanItem *item, bool chosen) {
  pm_plan_add_later(p, item, chosen && !says_only(item, "none"));
}
