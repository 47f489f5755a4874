#include "passes/place_warn.h"

#include "passes/exchange_views.h"
#include "passes/exec_choose.h"
#include "passes/passes.h"

#define LARGE_BYTES (INT64_C(16) << 20)  // on each rank, once gathered

typedef struct Warn {
  const PmModule *m;
  const PmTree *tree;
  const PmPlaced *slots;
  const bool *update_fn;
  PmDiags *diags;
  PmArena scratch;
  const PmNode **gathers;  // that have been reported
  int32_t n_gathers, cap_gathers;
} Warn;

// Values of one axis that are not split as the inputs are.
typedef struct Lost {
  int32_t n;
  const PmFn *f;  // the first one's
  PmValueId value;
  int32_t slot;
  bool named;
} Lost;

// Forward and backward functions of the step, or all of a module that is not trained.
static bool is_of_model(const Warn *w, int32_t t) {
  int32_t root = t;
  while (w->tree->fns[root].parent != PM_NONE) root = w->tree->fns[root].parent;
  if (w->m->step == PM_NONE) return true;
  return w->tree->fns[root].fn == w->m->step && t != root && !w->update_fn[t];
}

// The mesh axes by which the rule splits the axis of an input: a bit set.
static uint32_t input_split(const Warn *w, int32_t rule, PmAxisId axis) {
  uint32_t set = 0;
  for (int32_t i = 0; i < w->tree->n_fns && w->tree->fns[i].parent == PM_NONE; i++) {
    const PmFn *f = pm_fn(w->m, w->tree->fns[i].fn);
    for (int32_t k = 0; f->param_bind && k < f->n_params; k++) {
      PmVarId var = f->param_bind[k].var;
      int32_t d = pm_type_find(&f->values[k].type, axis);
      const PmPlaced *p = &w->slots[pm_slot(&w->tree->fns[i], k)];
      if (var == PM_NONE || w->m->vars[var].role != PM_ROLE_INPUT || d < 0 || p->rule[d] != rule) continue;
      for (int32_t s = 0; s < p->split[d].n; s++) set |= UINT32_C(1) << p->split[d].mesh[s];
    }
  }
  return set;
}

// A pin or a rule `-> none` left this dim whole.
static bool is_meant_whole(const Warn *w, const PmPlaced *p, int32_t dim) {
  for (int32_t r = 0; r < w->m->n_rules && p->decided >> dim & 1; r++)
    if ((w->m->rules[r].pin || w->m->rules[r].none) && p->why[dim] == w->m->rules[r].text) return true;
  return false;
}

static bool is_split_by(const PmSplit *s, uint32_t mesh) {
  for (int32_t i = 0; i < s->n; i++)
    if (mesh >> s->mesh[i] & 1) return true;
  return false;
}

static Lost find_lost(const Warn *w, PmAxisId axis, uint32_t mesh) {
  Lost lost = {.value = PM_NONE};
  for (int32_t t = 0; t < w->tree->n_fns; t++) {
    const PmFn *f = pm_fn(w->m, w->tree->fns[t].fn);
    for (PmValueId v = f->n_params; is_of_model(w, t) && v < f->n_values; v++) {
      int32_t d = pm_type_find(&f->values[v].type, axis);
      int32_t slot = pm_slot(&w->tree->fns[t], v);
      if (d < 0 || is_split_by(&f->values[v].type.dims[d].split, mesh)) continue;
      if (is_meant_whole(w, &w->slots[slot], d)) continue;
      lost.n++;
      if (lost.value != PM_NONE && (lost.named || !f->values[v].bound)) continue;
      lost = (Lost){.n = lost.n, .f = f, .value = v, .slot = slot, .named = f->values[v].bound};
    }
  }
  return lost;
}

static PmLoc loc_of(const PmFn *f, PmValueId v) {
  return f->values[v].def == PM_NONE ? (PmLoc){0} : f->nodes[f->values[v].def].loc;
}

static const char *place_text(Warn *w, PmLoc loc) {
  return loc.path ? pm_arena_printf(&w->scratch, " at %s:%d:%d", loc.path, loc.line, loc.col) : "";
}

static void report_lost(Warn *w, const PmRule *rule, PmAxisId axis, uint32_t mesh, const Lost *lost) {
  const PmValue *v = &lost->f->values[lost->value];
  const PmPlaced *p = &w->slots[lost->slot];
  const char *name = w->m->axes[axis].name;
  pm_diag(w->diags, PM_W_SPLIT_LOST, rule->span, "%d value%s with `%s` lo%s the split that `%s` gives to inputs",
          lost->n, lost->n == 1 ? "" : "s", name, lost->n == 1 ? "ses" : "se", rule->text);
  PmBuf type;
  pm_buf_init(&type);
  pm_type_print(w->m, &v->type, &type);
  pm_diag_label(w->diags, rule->span, "%s%s%s%s is %s", v->name ? "`" : "the value", v->name ? v->name : "",
                v->name ? "`" : "", place_text(w, loc_of(lost->f, lost->value)), pm_buf_str(&type));
  pm_buf_deinit(&type);
  for (int32_t d = 0; d < v->type.rank; d++)
    if (v->type.dims[d].axis != axis && is_split_by(&v->type.dims[d].split, mesh) && p->why[d])
      pm_diag_note(w->diags, "there `%s` took the mesh axis: `%s`", w->m->axes[v->type.dims[d].axis].name, p->why[d]);
}

static void warn_of_rule(Warn *w, int32_t r) {
  const PmRule *rule = &w->m->rules[r];
  uint32_t both = UINT32_C(1) << PM_ROLE_ACT | UINT32_C(1) << PM_ROLE_INPUT;
  if (rule->pin || rule->none || rule->zero || rule->scope || (rule->roles & both) != both) return;
  for (int32_t i = 0; i < rule->n_axes; i++) {
    uint32_t mesh = rule->axes[i] == PM_NONE ? 0 : input_split(w, r, rule->axes[i]);
    if (mesh == 0) continue;
    Lost lost = find_lost(w, rule->axes[i], mesh);
    if (lost.n > 0) report_lost(w, rule, rule->axes[i], mesh, &lost);
  }
}

// Some dim of the factor does not divide by the split, so that the op runs whole along it.
static bool cannot_divide(const PmModule *m, const PmFn *f, const PmNode *n, const PmFactor *fac, const PmSplit *s) {
  for (int32_t i = 0; i < n->n_in + n->n_out; i++) {
    int32_t dim = i < n->n_in ? fac->in_dim[i] : fac->out_dim[i - n->n_in];
    const PmType *t = &f->values[i < n->n_in ? n->in[i] : n->out + i - n->n_in].type;
    if (dim >= 0 && pm_axis_size(m, t->dims[dim].axis) % pm_split_parts(m, s) != 0) return true;
  }
  return false;
}

static bool runs_split_by(const PmExec *e, int32_t operand, int32_t mesh) {
  for (int32_t k = 0; k < e->factors.n; k++)
    if (e->factors.items[k].in_dim[operand] >= 0 && pm_split_has(&e->split[k], mesh)) return true;
  return false;
}

// The operand as the node takes it. *out_axis: one that comes split and is gathered since the node cannot run so.
static PmType gathered(Warn *w, const PmFn *f, const PmNode *n, int32_t operand, PmAxisId *out_axis) {
  PmType t = f->values[n->in[operand]].type;
  PmExec e = pm_exec_choose(&w->scratch, w->m, f, n);
  for (int32_t k = 0; k < e.factors.n; k++) {
    const PmFactor *fac = &e.factors.items[k];
    int32_t d = fac->in_dim[operand];
    if (d < 0 || t.dims[d].split.n == 0) continue;
    if (fac->kind != PM_FACTOR_WHOLE && !cannot_divide(w->m, f, n, fac, &t.dims[d].split)) continue;
    for (int32_t i = 0; i < t.dims[d].split.n; i++)
      if (!runs_split_by(&e, operand, t.dims[d].split.mesh[i])) *out_axis = t.dims[d].axis;
  }
  for (int32_t k = 0; k < e.factors.n; k++)
    if (e.factors.items[k].in_dim[operand] >= 0) t.dims[e.factors.items[k].in_dim[operand]].split = e.split[k];
  return t;
}

// The backward runs many ops of the forward again: one warning a place is enough.
static bool is_reported(Warn *w, const PmNode *n) {
  for (int32_t i = 0; i < w->n_gathers; i++) {
    const PmNode *other = w->gathers[i];
    if (other->op == n->op && other->loc.path == n->loc.path && other->loc.line == n->loc.line &&
        other->loc.col == n->loc.col)
      return true;
  }
  w->gathers = pm_grow(&w->scratch, w->gathers, w->n_gathers, &w->cap_gathers, sizeof *w->gathers);
  w->gathers[w->n_gathers++] = n;
  return false;
}

static void warn_of_node(Warn *w, const PmFn *f, const PmNode *n) {
  if (pm_view_exchanges(w->m, f, n)) return;
  for (int32_t i = 0; i < n->n_in; i++) {
    const PmType *have = &f->values[n->in[i]].type;
    PmAxisId axis = PM_NONE;
    PmType want = gathered(w, f, n, i, &axis);
    int64_t bytes = pm_type_local_bytes(w->m, &want);
    if (axis == PM_NONE || bytes < LARGE_BYTES || is_reported(w, n)) continue;
    const char *name = f->values[n->in[i]].name;
    pm_diag(w->diags, PM_W_GATHER, PM_NO_SPAN, "`%s`%s gathers `%s`: %lld bytes on every rank", pm_op_name(n->op),
            place_text(w, n->loc), w->m->axes[axis].name, (long long)bytes);
    PmBuf type;
    pm_buf_init(&type);
    pm_type_print(w->m, have, &type);
    pm_diag_note(w->diags, "%s%s%s is %s, and `%s` needs the axis whole", name ? "`" : "its operand", name ? name : "",
                 name ? "`" : "", pm_buf_str(&type), pm_op_name(n->op));
    pm_diag_help(w->diags, "`shard %s -> none` keeps it whole; another axis of it may be split instead",
                 w->m->axes[axis].name);
    pm_buf_deinit(&type);
  }
}

void pm_place_warn(const PmModule *m, const PmTree *tree, const PmPlaced *slots, const bool *update_fn,
                   PmDiags *diags) {
  Warn w = {.m = m, .tree = tree, .slots = slots, .update_fn = update_fn, .diags = diags};
  pm_pass_scratch(m, &w.scratch);
  for (int32_t r = 0; r < m->n_rules; r++) warn_of_rule(&w, r);
  for (int32_t t = 0; t < tree->n_fns; t++) {
    const PmFn *f = pm_fn(m, tree->fns[t].fn);
    for (int32_t i = 0; is_of_model(&w, t) && i < f->n_nodes; i++)
      if (!pm_is_call(&f->nodes[i])) warn_of_node(&w, f, &f->nodes[i]);
  }
  pm_arena_deinit(&w.scratch);
}
