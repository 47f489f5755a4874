// The placement rules of the plan, fired on every value that rules bind: variables and the results of block-level
// statements. The first rule for an axis wins; one value uses a mesh axis once.
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/glob.h"
#include "passes/attend.h"
#include "passes/pad.h"

// How one rule fared over the whole module.
typedef struct Fate {
  bool fired;
  int32_t bad_axis;        // axis of the first size that did not divide, or PM_NONE
  int32_t bad_mesh;        // over this mesh axis
  int32_t n_bad;           // values concerned
  const char *bad_path;    // the first of them
  int32_t stray_axis;      // named by a pin, but no axis of the pinned value
  const char *stray_path;  // that value, or NULL
} Fate;

typedef struct Firing {
  PmModule *m;
  const PmTree *tree;
  PmPlaced *slots;
  Fate *fates;
  int32_t *var_slots;     // by variable: its slot in the first entry function that has it as a parameter, or PM_NONE
  const int32_t *orders;  // per axis: the mesh axis that splits it in zigzag, or PM_NONE
  int64_t budget;         // of work: a rule looked at, a character compared; below 0: reported, nothing fires
  PmDiags *diags;
} Firing;

// Some seconds' worth: thousands of rules over tens of thousands of values.
#define MAX_WORK (INT64_C(1) << 30)
#define ALL_ROLES ((UINT32_C(1) << PM_ROLE_COUNT) - 1)

bool pm_placed_uses(const PmType *t, const PmPlaced *p, int32_t dim, int32_t mesh) {
  for (int32_t d = 0; d < t->rank; d++)
    if (d != dim && pm_split_has(&p->split[d], mesh)) return true;
  return false;
}

PmSplit pm_placed_allow(const PmModule *m, const PmType *t, const PmPlaced *p, int32_t dim, const PmSplit *want) {
  PmSplit out = {0};
  int64_t size = pm_axis_size(m, t->dims[dim].axis);
  for (int32_t i = 0; i < want->n; i++) {
    PmSplit more = out;
    if (m->mesh[want->mesh[i]].size == 1) continue;
    pm_split_push(&more, want->mesh[i]);
    more.zigzag = want->zigzag;
    if (pm_placed_uses(t, p, dim, want->mesh[i]) || !pm_split_divides(m, &more, size)) break;
    out = more;
  }
  return out;
}

// A split in the order that rings ask of its axis.
static PmSplit ordered(const Firing *f, PmAxisId axis, PmSplit split) {
  split.zigzag = split.n > 0 && f->orders[axis] == split.mesh[0];
  return split;
}

static void decide(PmPlaced *p, int32_t dim, PmSplit split, const char *why, int32_t rule) {
  p->decided = (uint16_t)(p->decided | 1u << dim);
  p->split[dim] = split;
  p->why[dim] = why;
  p->rule[dim] = (int16_t)rule;
}

static void note_indivisible(Fate *fate, PmAxisId axis, int32_t mesh, const char *path) {
  if (fate->bad_axis == PM_NONE) {
    fate->bad_axis = axis;
    fate->bad_mesh = mesh;
    fate->bad_path = path;
  }
  fate->n_bad++;
}

// The rule's target on one dim, greedily: mesh axes that are still free in this value. Notes sizes that do not divide.
static void fire_on_dim(Firing *f, int32_t r, const PmType *t, PmPlaced *p, int32_t dim, const char *path) {
  const PmRule *rule = &f->m->rules[r];
  if (p->decided >> dim & 1) return;
  f->fates[r].fired = true;
  if (rule->none) {
    decide(p, dim, (PmSplit){0}, rule->text, r);
    return;
  }
  PmSplit split = {0};
  int64_t size = pm_axis_size(f->m, t->dims[dim].axis), parts = 1;
  bool free_axis = false;
  for (int32_t i = 0; i < rule->n_mesh; i++) {
    int32_t mesh = rule->mesh[i];
    int64_t ways = f->m->mesh[mesh].size;
    if (pm_placed_uses(t, p, dim, mesh)) continue;
    free_axis = true;
    if (ways == 1) continue;
    if (size % (parts * ways) != 0) {
      note_indivisible(&f->fates[r], t->dims[dim].axis, mesh, path);
      continue;
    }
    parts *= ways;
    pm_split_push(&split, mesh);
  }
  if (free_axis) decide(p, dim, ordered(f, t->dims[dim].axis, split), rule->text, r);
}

static PmSplit without_single_ranks(const PmModule *m, const PmSplit *s) {
  PmSplit out = {0};
  for (int32_t i = 0; i < s->n; i++)
    if (m->mesh[s->mesh[i]].size > 1) pm_split_push(&out, s->mesh[i]);
  return out;
}

static void fire_pin(Firing *f, int32_t r, const PmType *t, PmPlaced *p, const char *path) {
  const PmRule *rule = &f->m->rules[r];
  f->fates[r].fired = true;
  for (int32_t i = 0; i < rule->n_pin_dims; i++) {
    if (rule->pin_dims[i].axis != PM_NONE && pm_type_find(t, rule->pin_dims[i].axis) != PM_NONE) continue;
    f->fates[r].stray_axis = rule->pin_dims[i].axis;
    f->fates[r].stray_path = path;
  }
  for (int32_t d = 0; d < t->rank; d++) {
    PmSplit split = {0};
    for (int32_t i = 0; i < rule->n_pin_dims; i++)
      if (rule->pin_dims[i].axis == t->dims[d].axis) split = without_single_ranks(f->m, &rule->pin_dims[i].split);
    PmSplit got = pm_placed_allow(f->m, t, p, d, &split);
    if (got.n < split.n && !pm_placed_uses(t, p, d, split.mesh[got.n]))
      note_indivisible(&f->fates[r], t->dims[d].axis, split.mesh[got.n], path);
    decide(p, d, ordered(f, t->dims[d].axis, got), rule->text, 0);
  }
}

// False.
static bool out_of_work(Firing *f, int32_t r) {
  pm_diag(f->diags, PM_E_LIMIT, f->m->rules[r].span, "the plan has too many rules for so many values");
  return false;
}

static bool spend(Firing *f, int32_t r, int64_t work) {
  if (f->budget < 0) return false;
  f->budget -= work;
  return f->budget >= 0 || out_of_work(f, r);
}

static bool matches(Firing *f, int32_t r, const char *glob, const char *path) {
  if (!spend(f, r, 8)) return false;
  bool yes = pm_glob_match_within(glob, path, &f->budget);
  return f->budget < 0 ? out_of_work(f, r) : yes;
}

// The rule names an axis of the value that no rule before it has decided.
static bool concerns(const PmRule *rule, const PmType *t, const PmPlaced *p) {
  for (int32_t i = 0; i < rule->n_axes; i++) {
    int32_t dim = rule->axes[i] == PM_NONE ? PM_NONE : pm_type_find(t, rule->axes[i]);
    if (dim >= 0 && !(p->decided >> dim & 1)) return true;
  }
  return false;
}

// Fires every rule that concerns a value of this role and path. `named_only`: rules without a role do not count.
static void fire(Firing *f, int32_t slot, const PmType *t, PmRole role, const char *path, bool named_only) {
  PmPlaced *p = &f->slots[slot];
  for (int32_t r = 0; r < f->m->n_rules; r++)
    if (f->m->rules[r].pin && matches(f, r, f->m->rules[r].pin, path)) fire_pin(f, r, t, p, path);
  for (int32_t r = 0; r < f->m->n_rules && spend(f, r, 2 + f->m->rules[r].n_axes); r++) {
    const PmRule *rule = &f->m->rules[r];
    if (rule->pin || !(rule->roles >> role & 1) || (named_only && rule->roles == ALL_ROLES)) continue;
    if (!concerns(rule, t, p) || (rule->scope && !matches(f, r, rule->scope, path))) continue;
    for (int32_t i = 0; i < rule->n_axes; i++) {
      int32_t dim = rule->axes[i] == PM_NONE ? PM_NONE : pm_type_find(t, rule->axes[i]);
      if (dim >= 0) fire_on_dim(f, r, t, p, dim, path);
    }
  }
}

// Gradients and states take the parameter's placement where no rule names their role.
static void follow(Firing *f, int32_t slot, const PmType *t, int32_t leader_slot, const PmType *leader) {
  PmPlaced *p = &f->slots[slot];
  const PmPlaced *l = &f->slots[leader_slot];
  for (int32_t d = 0; d < t->rank; d++) {
    int32_t e = pm_type_find(leader, t->dims[d].axis);
    if (e < 0 || !(l->decided >> e & 1) || (p->decided >> d & 1)) continue;
    decide(p, d, pm_placed_allow(f->m, t, p, d, &l->split[e]), l->why[e], l->rule[e]);
  }
}

// "d(layer.attn.q)" -> "layer.attn.q"; any other name is its own path.
static const char *primal_path(PmModule *m, const char *name) {
  size_t n = strlen(name);
  if (n < 4 || strncmp(name, "d(", 2) != 0 || name[n - 1] != ')') return name;
  return pm_intern_n(m->names, name + 2, n - 3);
}

static void list_vars(Firing *f) {
  f->var_slots = PM_NEW_N(f->m->arena, int32_t, f->m->n_vars + 1);
  for (PmVarId v = 0; v < f->m->n_vars; v++) f->var_slots[v] = PM_NONE;
  for (int32_t i = 0; i < f->tree->n_fns && f->tree->fns[i].parent == PM_NONE; i++) {
    const PmFn *fn = pm_fn(f->m, f->tree->fns[i].fn);
    for (int32_t k = 0; fn->param_bind && k < fn->n_params; k++) {
      PmVarId v = fn->param_bind[k].var;
      if (v != PM_NONE && f->var_slots[v] == PM_NONE) f->var_slots[v] = pm_slot(&f->tree->fns[i], k);
    }
  }
}

static void fire_vars(Firing *f) {
  for (int32_t i = 0; i < f->tree->n_fns; i++) {
    const PmTreeFn *t = &f->tree->fns[i];
    const PmFn *fn = pm_fn(f->m, t->fn);
    if (t->parent != PM_NONE || !fn->param_bind) continue;
    for (int32_t pass = 0; pass < 2; pass++) {  // owners before the states that follow them
      for (int32_t k = 0; k < fn->n_params; k++) {
        PmVarId id = fn->param_bind[k].var;
        if (id == PM_NONE || (f->m->vars[id].owner != PM_NONE) != (pass == 1)) continue;
        const PmVar *var = &f->m->vars[id];
        const PmType *type = &fn->values[k].type;
        fire(f, pm_slot(t, k), type, var->role, var->path, pass == 1);
        int32_t owner = pass == 1 ? f->var_slots[var->owner] : PM_NONE;
        if (owner != PM_NONE) follow(f, pm_slot(t, k), type, owner, &f->m->vars[var->owner].type);
      }
    }
  }
}

static void fire_values(Firing *f) {
  for (int32_t i = 0; i < f->tree->n_fns; i++) {
    const PmTreeFn *t = &f->tree->fns[i];
    const PmFn *fn = pm_fn(f->m, t->fn);
    for (PmValueId v = fn->n_params; v < fn->n_values; v++) {
      const PmValue *value = &fn->values[v];
      if (!value->bound || !value->name) continue;
      const char *path = primal_path(f->m, value->name);
      PmVarId var = path == value->name ? PM_NONE : pm_module_find_var(f->m, path);
      bool is_grad = var != PM_NONE && f->m->vars[var].role == PM_ROLE_PARAM;
      fire(f, pm_slot(t, v), &value->type, is_grad ? PM_ROLE_GRAD : PM_ROLE_ACT, path, is_grad);
      int32_t owner = is_grad ? f->var_slots[var] : PM_NONE;
      if (owner != PM_NONE) follow(f, pm_slot(t, v), &value->type, owner, &f->m->vars[var].type);
    }
  }
}

// The rows of a micro-batch are few because there are many of them.
static void report_micro(const PmModule *m, const PmMeshAxis *mesh, PmDiags *diags) {
  int64_t turns = pm_axis_size(m, m->micro), batch = pm_axis_size(m, m->rows) * turns;
  char works[256] = "";
  size_t at = 0;
  for (int64_t k = 1; k <= batch && k <= 4096 && at + 24 < sizeof works; k++)
    if (batch % (k * mesh->size) == 0)
      at += (size_t)snprintf(works + at, sizeof works - at, "%s%lld", at ? ", " : "", (long long)k);
  pm_diag_note(diags, "`batch` has %lld rows, in %lld micro-batches%s", (long long)batch, (long long)turns,
               at ? "" : ", and does not divide either");
  if (at) pm_diag_help(diags, "`accumulate(micro=N)` with N in {%s}", works);
}

static void report_indivisible(PmModule *m, const PmRule *rule, const Fate *fate, PmDiags *diags) {
  const PmAxis *axis = &m->axes[fate->bad_axis];
  const PmMeshAxis *mesh = &m->mesh[fate->bad_mesh];
  bool rows = fate->bad_axis == m->rows;
  pm_diag(diags, PM_E_DIVIDE, rule->span, "`%s%s` (%lld) does not divide over `%s` (%lld)", axis->name,
          rows ? ".micro" : "", (long long)axis->size, mesh->name, (long long)mesh->size);
  pm_diag_label(diags, rule->span, "affects %d value%s (`%s`%s)", fate->n_bad, fate->n_bad == 1 ? "" : "s",
                fate->bad_path, fate->n_bad == 1 ? "" : ", ...");
  if (axis->loc.path && mesh->loc.path)
    pm_diag_note(diags, "`%s` is set at %s:%d:%d, `%s` at %s:%d:%d", axis->name, axis->loc.path, axis->loc.line,
                 axis->loc.col, mesh->name, mesh->loc.path, mesh->loc.line, mesh->loc.col);
  if (rows) report_micro(m, mesh, diags);
  char works[256];
  size_t at = 0;
  for (int64_t k = 1; k <= axis->size && k <= 4096 && at + 24 < sizeof works; k++)
    if (axis->size % k == 0)
      at += (size_t)snprintf(works + at, sizeof works - at, "%s%lld", at ? ", " : "", (long long)k);
  if (rule->pin)
    pm_diag_help(diags, "%s in {%s}, or leave `%s` whole in the pin", mesh->name, works, axis->name);
  else if (pm_pad_allows(m, fate->bad_axis))
    pm_diag_help(diags, "%s in {%s}, `pad(%s)`, or `shard %s -> none` above this line", mesh->name, works, axis->name,
                 axis->name);
  else
    pm_diag_help(diags, "%s in {%s}, or `shard %s -> none` above this line", mesh->name, works, axis->name);
}

static void report_no_axis(const PmModule *m, const PmRule *rule, const PmRuleName *name, PmDiags *diags) {
  pm_diag(diags, PM_W_RULE_IDLE, name->span, "`%s` never fires for `%s`: there is no such axis", rule->text,
          name->text);
  const char **axes = PM_NEW_N(m->arena, const char *, m->n_axes + 1);
  for (int32_t i = 0; i < m->n_axes; i++) axes[i] = m->axes[i].name;
  const char *near = pm_did_you_mean(name->text, axes, m->n_axes);
  if (near) pm_diag_suggest(diags, name->text, near);
}

static void report_idle(const PmModule *m, const PmRule *rule, PmDiags *diags) {
  if (rule->pin) {
    pm_diag(diags, PM_W_RULE_IDLE, rule->span, "rule `%s` never fires", rule->text);
    pm_diag_note(diags, "no value has the path `%s`", rule->pin);
    return;
  }
  int32_t known = 0;
  for (int32_t i = 0; i < rule->n_axes; i++) known += rule->axes[i] != PM_NONE;
  if (known == 0 && rule->names) return;
  pm_diag(diags, PM_W_RULE_IDLE, rule->span, "rule `%s` never fires", rule->text);
  for (int32_t i = 0; i < rule->n_axes; i++)
    if (rule->axes[i] != PM_NONE)
      pm_diag_note(diags, "no value that it binds has `%s` undecided by an earlier rule", m->axes[rule->axes[i]].name);
}

void pm_place_rules(PmModule *m, const PmTree *tree, PmPlaced *slots, PmDiags *diags) {
  Firing f = {.m = m, .tree = tree, .slots = slots, .budget = MAX_WORK, .diags = diags};
  f.fates = PM_NEW_N(m->arena, Fate, m->n_rules + 1);
  f.orders = pm_attend_orders(m, tree, diags);
  for (int32_t r = 0; r < m->n_rules; r++) f.fates[r].bad_axis = PM_NONE;
  list_vars(&f);
  fire_vars(&f);
  fire_values(&f);
  if (f.budget < 0) return;
  for (int32_t r = 0; r < m->n_rules; r++) {
    const PmRule *rule = &m->rules[r];
    if (rule->pad) continue;
    for (int32_t i = 0; rule->names && i < rule->n_axes; i++)
      if (rule->axes[i] == PM_NONE) report_no_axis(m, rule, &rule->names[i], diags);
    if (f.fates[r].stray_path)
      pm_diag(diags, PM_E_NO_AXIS, rule->span, "`%s` has no axis `%s` to pin", f.fates[r].stray_path,
              m->axes[f.fates[r].stray_axis].name);
    else if (f.fates[r].bad_axis != PM_NONE)
      report_indivisible(m, rule, &f.fates[r], diags);
    else if (!f.fates[r].fired && !rule->zero && !rule->attend)
      report_idle(m, rule, diags);
  }
}
