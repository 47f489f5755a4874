// masters: a parameter that is stored in one type and read in a narrower one becomes two variables.
//
//   "wq"         role param, the type that it is read in: the working copy, which forward and backward use
//   "wq/master"  role state, the type that it is stored in: what the optimizer changes; it belongs to "wq"
//
// The step casts the new master to the new copy, so that what a plan gathers is the copy, and what zero splits first is
// the master. A parameter is split so when it is updated and every use of it in the model is a cast to one narrower
// type. One that is also read as it is stored, or in two types, stays one variable, and so does one that is read in a
// wider type: its copy would be larger than what it copies.
#include "passes/passes.h"
#include "passes/rewrite.h"

// How a parameter of a function is used: nowhere, in ways that need it as it is, or by casts to one dtype.
enum { UNUSED = PM_DTYPE_COUNT, AS_IT_IS };

typedef struct Masters {
  PmModule *m;
  PmArena scratch;
  PmFnId *order;  // callees before callers
  int32_t n_order;
  int32_t *callers;  // by function: call nodes of functions that step and eval reach
  uint8_t **reads;   // by function, by parameter: UNUSED, AS_IT_IS or the dtype that it is cast to
  uint8_t **takes;   // by function, by parameter: the dtype of the copy that it becomes, UNUSED: it stays
  uint8_t *copy;     // by variable: dtype of its copy, UNUSED: none
  PmVarId *master;   // by variable: its master, where it has a copy
  PmVarId n_vars;    // before masters were added
} Masters;

static bool is_body_call(const PmModule *m, const PmNode *n) {
  return pm_is_call(n) && pm_fn(m, n->attr.callee)->kind == PM_FN_BODY;
}

static void count_callers(Masters *s) {
  PmModule *m = s->m;
  bool *reached = PM_NEW_N(&s->scratch, bool, m->n_fns);
  s->callers = PM_NEW_N(&s->scratch, int32_t, m->n_fns);
  reached[m->step] = true;
  if (m->eval != PM_NONE) reached[m->eval] = true;
  for (int32_t i = s->n_order - 1; i >= 0; i--) {
    const PmFn *f = pm_fn(m, s->order[i]);
    for (int32_t k = 0; reached[s->order[i]] && k < f->n_nodes; k++) {
      if (!pm_is_call(&f->nodes[k])) continue;
      reached[f->nodes[k].attr.callee] = true;
      s->callers[f->nodes[k].attr.callee]++;
    }
  }
}

static uint8_t joined(uint8_t a, uint8_t b) {
  if (a == UNUSED || a == b) return b;
  return b == UNUSED ? a : AS_IT_IS;
}

// What operand k of a node is read as there.
static uint8_t read_by(const Masters *s, const PmFn *f, const PmNode *n, int32_t k) {
  if (n->op == PM_OP_cast) return f->values[n->out].type.dtype;
  if (!is_body_call(s->m, n) || s->callers[n->attr.callee] != 1 || k < n->attr.n_carry) return AS_IT_IS;
  return s->reads[n->attr.callee][k];
}

// In the step only the model's functions count: whatever else reads a parameter there can read the master.
static void find_reads(Masters *s, PmFnId fn) {
  const PmFn *f = pm_fn(s->m, fn);
  uint8_t *reads = s->reads[fn] = PM_NEW_N(&s->scratch, uint8_t, f->n_params + 1);
  uint8_t *takes = s->takes[fn] = PM_NEW_N(&s->scratch, uint8_t, f->n_params + 1);
  for (int32_t i = 0; i < f->n_params; i++) reads[i] = takes[i] = UNUSED;
  for (int32_t i = 0; i < f->n_nodes; i++) {
    const PmNode *n = &f->nodes[i];
    if (fn == s->m->step && !is_body_call(s->m, n)) continue;
    for (int32_t k = 0; k < n->n_in; k++)
      if (n->in[k] < f->n_params) reads[n->in[k]] = joined(reads[n->in[k]], read_by(s, f, n, k));
  }
  for (int32_t i = 0; fn != s->m->step && i < f->n_results; i++)
    if (f->results[i] < f->n_params) reads[f->results[i]] = AS_IT_IS;
}

static void choose_copies(Masters *s) {
  const PmModule *m = s->m;
  const PmFnId entries[] = {m->step, m->eval};
  s->copy = PM_NEW_N(&s->scratch, uint8_t, m->n_vars + 1);
  for (PmVarId v = 0; v < m->n_vars; v++) s->copy[v] = UNUSED;
  for (int32_t e = 0; e < 2; e++) {
    const PmFn *f = entries[e] == PM_NONE ? NULL : pm_fn(m, entries[e]);
    for (int32_t i = 0; f && f->param_bind && i < f->n_params; i++) {
      const PmVarId v = f->param_bind[i].var;
      if (v != PM_NONE) s->copy[v] = joined(s->copy[v], s->reads[entries[e]][i]);
    }
  }
  for (PmVarId v = 0; v < m->n_vars; v++) {
    const PmVar *var = &m->vars[v];
    const bool splits = var->role == PM_ROLE_PARAM && var->update != PM_NONE && s->copy[v] < PM_DTYPE_COUNT &&
                        pm_dtype_is_float((PmDtype)s->copy[v]) &&
                        pm_dtype_bytes((PmDtype)s->copy[v]) < pm_dtype_bytes((PmDtype)var->type.dtype);
    if (!splits) s->copy[v] = UNUSED;
  }
}

static PmStatus *add_master(Masters *s, PmVarId v) {
  PmModule *m = s->m;
  PmVar master = m->vars[v];
  master.path = pm_intern_printf(m->names, "%s/master", m->vars[v].path);
  if (pm_module_find_var(m, master.path) != PM_NONE)
    return PM_STATUS(PM_ERR_INPUT, "variable `%s` stands in the module already", master.path);
  master.role = PM_ROLE_STATE;
  master.owner = v;
  master.update = PM_NONE;
  master.grad = PM_BOOL;
  master.master = true;
  s->master[v] = pm_module_add_var(m, master);
  PmVar *var = &m->vars[v];
  if (var->grad == PM_BOOL) var->grad = var->type.dtype;
  var->type.dtype = s->copy[v];
  return NULL;
}

static bool is_entry(const PmModule *m, PmFnId fn) { return fn == m->step || fn == m->eval; }

// Callers come before callees.
static void hand_down(Masters *s, PmFnId fn) {
  const PmFn *f = pm_fn(s->m, fn);
  uint8_t *takes = s->takes[fn];
  for (int32_t i = 0; is_entry(s->m, fn) && f->param_bind && i < f->n_params; i++)
    if (f->param_bind[i].var != PM_NONE) takes[i] = s->copy[f->param_bind[i].var];
  for (int32_t i = 0; i < f->n_nodes; i++) {
    const PmNode *n = &f->nodes[i];
    for (int32_t k = 0; is_body_call(s->m, n) && k < n->n_in; k++)
      if (n->in[k] < f->n_params) s->takes[n->attr.callee][k] = takes[n->in[k]];
  }
}

static bool is_copy(const Masters *s, PmFnId fn, const PmFn *old, PmValueId v) {
  return v < old->n_params && s->takes[fn][v] != UNUSED;
}

static PmValueId *add_params(Masters *s, PmBuilder *b, const PmFn *old) {
  PmValueId *map = PM_NEW_N(&s->scratch, PmValueId, old->n_values + 1);
  for (int32_t i = 0; i < old->n_params; i++) {
    PmValue v = old->values[i];
    if (is_copy(s, b->fn, old, i)) v.type.dtype = s->takes[b->fn][i];
    map[i] = pm_rebuild_param(b, &v);
  }
  return map;
}

// A copy stands where the cast of the parameter stood.
static void rebuild_reader(Masters *s, PmFnId fn) {
  PmFn old = pm_rebuild_begin(s->m, fn);
  PmBuilder b = {s->m, fn, {0}};
  PmValueId *map = add_params(s, &b, &old);
  for (int32_t i = 0; i < old.n_nodes; i++) {
    const PmNode *n = &old.nodes[i];
    if (n->op == PM_OP_cast && is_copy(s, fn, &old, n->in[0]))
      map[n->out] = map[n->in[0]];
    else
      pm_rebuild_node(&b, &old, n, map);
  }
  PmValueId *results = PM_NEW_N(&s->scratch, PmValueId, old.n_results + 1);
  for (int32_t i = 0; i < old.n_results; i++) results[i] = map[old.results[i]];
  pm_b_results(&b, results, old.n_results);
}

// The step's parameters with the masters behind them. masters: by old parameter.
static PmValueId *add_step_params(Masters *s, PmBuilder *b, const PmFn *old, PmValueId *masters) {
  const PmModule *m = s->m;
  PmValueId *map = add_params(s, b, old);
  PmBinding *bind = PM_NEW_N(m->arena, PmBinding, old->n_params + m->n_vars - s->n_vars);
  int32_t n = old->n_params;
  for (int32_t i = 0; i < old->n_params; i++) {
    bind[i] = old->param_bind[i];
    if (!is_copy(s, b->fn, old, i)) continue;
    const PmVarId master = s->master[bind[i].var];
    masters[i] = pm_b_param(b, m->vars[master].type, m->vars[master].path);
    bind[n++].var = master;
  }
  pm_fn(m, b->fn)->param_bind = bind;
  return map;
}

// The model's functions read the copies, all else the masters; a new copy is the cast of the new master.
static void rebuild_step(Masters *s) {
  PmModule *m = s->m;
  PmFn old = pm_rebuild_begin(m, m->step);
  PmBuilder b = {m, m->step, {0}};
  PmValueId *masters = PM_NEW_N(&s->scratch, PmValueId, old.n_params + 1);
  PmValueId *map = add_step_params(s, &b, &old, masters);
  PmValueId *copies = PM_NEW_N(&s->scratch, PmValueId, old.n_params + 1);
  for (int32_t i = 0; i < old.n_params; i++) copies[i] = map[i];
  for (int32_t i = 0; i < old.n_nodes; i++) {
    const PmNode *n = &old.nodes[i];
    for (int32_t k = 0; k < n->n_in; k++)
      if (is_copy(s, m->step, &old, n->in[k])) map[n->in[k]] = (is_body_call(m, n) ? copies : masters)[n->in[k]];
    pm_rebuild_node(&b, &old, n, map);
  }
  for (int32_t i = 0; i < old.n_params; i++)
    if (is_copy(s, m->step, &old, i)) map[i] = masters[i];
  const int32_t most = old.n_results + m->n_vars - s->n_vars;
  PmValueId *results = PM_NEW_N(&s->scratch, PmValueId, most);
  PmBinding *bind = PM_NEW_N(m->arena, PmBinding, most);
  int32_t n = 0;
  for (int32_t i = 0; i < old.n_results; i++) {
    const PmVarId var = old.result_bind[i].var;
    PmValueId v = map[old.results[i]];
    if (var != PM_NONE && s->copy[var] != UNUSED) {
      results[n] = v;
      bind[n++].var = s->master[var];
      b.loc = m->vars[var].loc;
      v = pm_b_cast(&b, v, (PmDtype)s->copy[var]);
    }
    results[n] = v;
    bind[n++] = old.result_bind[i];
  }
  pm_b_results(&b, results, n);
  pm_fn(m, m->step)->result_bind = bind;
}

static bool takes_copies(const Masters *s, PmFnId fn) {
  for (int32_t i = 0; i < pm_fn(s->m, fn)->n_params; i++)
    if (s->takes[fn][i] != UNUSED) return true;
  return false;
}

static PmStatus *split_parameters(Masters *s) {
  PmModule *m = s->m;
  PM_TRY(pm_fn_order(m, &s->scratch, &s->order, &s->n_order));
  count_callers(s);
  s->reads = (uint8_t **)pm_arena_alloc_n(&s->scratch, (size_t)m->n_fns, sizeof *s->reads);
  s->takes = (uint8_t **)pm_arena_alloc_n(&s->scratch, (size_t)m->n_fns, sizeof *s->takes);
  for (int32_t i = 0; i < s->n_order; i++) find_reads(s, s->order[i]);
  choose_copies(s);
  s->master = PM_NEW_N(&s->scratch, PmVarId, m->n_vars + 1);
  for (PmVarId v = 0; v < s->n_vars; v++)
    if (s->copy[v] != UNUSED) PM_TRY(add_master(s, v));
  for (int32_t i = s->n_order - 1; i >= 0; i--) hand_down(s, s->order[i]);
  for (int32_t i = 0; i < s->n_order; i++) {
    if (!takes_copies(s, s->order[i])) continue;
    if (s->order[i] == m->step)
      rebuild_step(s);
    else
      rebuild_reader(s, s->order[i]);
  }
  return NULL;
}

PmStatus *pm_pass_masters(PmPassCtx *ctx, PmModule *m) {
  (void)ctx;
  if (m->step == PM_NONE || !pm_fn(m, m->step)->param_bind || !pm_fn(m, m->step)->result_bind) return NULL;
  Masters s = {.m = m, .n_vars = m->n_vars};
  pm_pass_scratch(m, &s.scratch);
  PmStatus *st = split_parameters(&s);
  pm_arena_deinit(&s.scratch);
  return st;
}
