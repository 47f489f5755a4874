#include "ir/infer.h"
#include "ir/namemap.h"
#include "ir/optable.h"
#include "ir/text.h"
#include "ir/text_words.h"

typedef struct Verifier {
  const PmModule *m;
  PmArena scratch;
  PmBuf why;
  int32_t *depth;  // by function: calls below it + 1; 0: not seen; PM_NONE: on the way
} Verifier;

static PmStatus *broken_type(Verifier *v, const char *where, const char *name) {
  return PM_STATUS(PM_ERR_INTERNAL, "%s %s: %s", where, name, pm_buf_str(&v->why));
}

static PmStatus *verify_axes(Verifier *v) {
  const PmModule *m = v->m;
  PmNameMap names;
  pm_name_map_init(&names, &v->scratch);
  for (int32_t i = 0; i < m->n_axes; i++) {
    const PmAxis *a = &m->axes[i];
    if (!pm_name_map_add(&names, a->name, i)) return PM_STATUS(PM_ERR_INTERNAL, "axis %s stands twice", a->name);
    if (a->size < 1 || a->size > PM_MAX_AXIS_SIZE) {
      return PM_STATUS(PM_ERR_INTERNAL, "axis %s has size %lld", a->name, (long long)a->size);
    }
  }
  if (m->n_mesh > PM_MAX_MESH) return PM_STATUS(PM_ERR_INTERNAL, "a mesh of %d axes", m->n_mesh);
  int64_t ranks = 1;
  for (int32_t i = 0; i < m->n_mesh; i++) {
    if (pm_module_find_mesh(m, m->mesh[i].name) != i) {
      return PM_STATUS(PM_ERR_INTERNAL, "mesh axis %s stands twice", m->mesh[i].name);
    }
    if (m->mesh[i].size < 1 || !pm_mul_i64(ranks, m->mesh[i].size, &ranks) || ranks > PM_MAX_RANKS) {
      return PM_STATUS(PM_ERR_INTERNAL, "mesh axis %s: a mesh of no valid size", m->mesh[i].name);
    }
  }
  return NULL;
}

static bool fn_id_valid(const PmModule *m, PmFnId id) { return id >= PM_NONE && id < m->n_fns; }
static bool var_id_valid(const PmModule *m, PmVarId id) { return id >= PM_NONE && id < m->n_vars; }

static bool masters_owner(const PmModule *m, const PmVar *var) {
  if (var->role != PM_ROLE_STATE || var->owner == PM_NONE || m->vars[var->owner].role != PM_ROLE_PARAM) return false;
  PmType t = m->vars[var->owner].type;
  t.dtype = var->type.dtype;
  return pm_dtype_is_float((PmDtype)t.dtype) && pm_type_same_logical(&t, &var->type);
}

static bool axis_id_valid(const PmModule *m, PmAxisId id) { return id >= PM_NONE && id < m->n_axes; }

static PmStatus *verify_vars(Verifier *v) {
  const PmModule *m = v->m;
  PmNameMap names;
  pm_name_map_init(&names, &v->scratch);
  for (int32_t i = 0; i < m->n_vars; i++) {
    const PmVar *var = &m->vars[i];
    if (!pm_name_map_add(&names, var->path, i)) {
      return PM_STATUS(PM_ERR_INTERNAL, "variable %s stands twice", var->path);
    }
    if (!pm_type_valid(m, &var->type, true, &v->why)) return broken_type(v, "variable", var->path);
    if ((unsigned)var->role >= PM_ROLE_COUNT || (unsigned)var->init >= PM_N_INITS || !var_id_valid(m, var->owner) ||
        !fn_id_valid(m, var->update)) {
      return PM_STATUS(PM_ERR_INTERNAL, "variable %s: a bad role, init, owner or update", var->path);
    }
    if (var->master && !masters_owner(m, var)) {
      return PM_STATUS(PM_ERR_INTERNAL, "variable %s is no master of a parameter of its axes", var->path);
    }
  }
  bool ok = fn_id_valid(m, m->model) && fn_id_valid(m, m->schedule) && fn_id_valid(m, m->step) &&
            fn_id_valid(m, m->eval) && fn_id_valid(m, m->before) && fn_id_valid(m, m->after) &&
            var_id_valid(m, m->data.x) && var_id_valid(m, m->data.y) && axis_id_valid(m, m->micro) &&
            axis_id_valid(m, m->rows);
  for (int32_t i = 0; i < m->data.n_feeds; i++) {
    ok = ok && m->data.feeds[i].var != PM_NONE && var_id_valid(m, m->data.feeds[i].var);
  }
  return ok ? NULL : PM_STATUS(PM_ERR_INTERNAL, "train or data names what the module has not");
}

static PmStatus *verify_rules(Verifier *v) {
  const PmModule *m = v->m;
  for (int32_t i = 0; i < m->n_rules; i++) {
    const PmRule *r = &m->rules[i];
    bool ok = r->n_mesh >= 0 && r->n_mesh <= PM_MAX_SPLIT;
    for (int32_t k = 0; ok && k < r->n_axes; k++) ok = r->axes[k] >= PM_NONE && r->axes[k] < m->n_axes;
    for (int32_t k = 0; ok && k < r->n_mesh; k++) ok = r->mesh[k] < m->n_mesh;
    for (int32_t k = 0; ok && k < r->n_pin_dims; k++) {
      const PmDim *d = &r->pin_dims[k];
      ok = d->axis >= PM_NONE && d->axis < m->n_axes && d->split.n <= PM_MAX_SPLIT;
      for (int32_t j = 0; ok && j < d->split.n; j++) ok = d->split.mesh[j] < m->n_mesh;
    }
    if (!ok) return PM_STATUS(PM_ERR_INTERNAL, "rule %d names what the module has not", i);
  }
  return NULL;
}

// The value is a parameter or a result of a node before `before`.
static bool defined_before(const PmFn *f, PmValueId id, int32_t before) {
  if (id < 0 || id >= f->n_values) return false;
  if (id < f->n_params) return true;
  int32_t def = f->values[id].def;
  if (def < 0 || def >= before) return false;
  const PmNode *node = &f->nodes[def];
  return id >= node->out && id - node->out < node->n_out;
}

static PmStatus *verify_node(Verifier *v, const PmFn *f, int32_t at) {
  const PmNode *node = &f->nodes[at];
  if ((unsigned)node->op >= PM_OP_COUNT) return PM_STATUS(PM_ERR_INTERNAL, "%s: node %d has no op", f->name, at);
  const char *op = pm_op_name(node->op);
  for (int32_t i = 0; i < node->n_in; i++) {
    if (!defined_before(f, node->in[i], at)) {
      return PM_STATUS(PM_ERR_INTERNAL, "%s: node %d (%s): operand %d is not defined before", f->name, at, op, i);
    }
  }
  if (node->n_out < 0 || node->out < (node->n_out ? f->n_params : 0) || node->out > f->n_values - node->n_out) {
    return PM_STATUS(PM_ERR_INTERNAL, "%s: node %d (%s): results are no values", f->name, at, op);
  }
  if (node->n_out != pm_infer_n_out(v->m, node->op, &node->attr, node->n_in)) {
    return PM_STATUS(PM_ERR_INTERNAL, "%s: node %d (%s): %d results", f->name, at, op, node->n_out);
  }
  PmArena scratch;
  pm_arena_init(&scratch, 0);
  PmType *in = PM_NEW_N(&scratch, PmType, node->n_in);
  PmType *out = PM_NEW_N(&scratch, PmType, node->n_out);
  for (int32_t i = 0; i < node->n_in; i++) in[i] = f->values[node->in[i]].type;
  const PmType *given = node->n_out == 1 ? &f->values[node->out].type : NULL;
  PmStatus *st = NULL;
  if (!pm_infer(v->m, node->op, &node->attr, in, node->n_in, given, out, node->n_out, &v->why)) {
    st = PM_STATUS(PM_ERR_INTERNAL, "%s: node %d (%s): %s", f->name, at, op, pm_buf_str(&v->why));
  }
  bool local = v->m->stage == PM_STAGE_LOCAL;
  for (int32_t i = 0; !st && i < node->n_out; i++) {
    const PmValue *value = &f->values[node->out + i];
    if (value->def != at) {
      st = PM_STATUS(PM_ERR_INTERNAL, "%s: node %d (%s): result %d is defined elsewhere", f->name, at, op, i);
    } else if (local ? !pm_type_equal(&out[i], &value->type) : !pm_type_same_logical(&out[i], &value->type)) {
      PmBuf text;
      pm_buf_init(&text);
      pm_type_print(v->m, &value->type, &text);
      pm_buf_puts(&text, ", by the rule ");
      pm_type_print(v->m, &out[i], &text);
      st = PM_STATUS(PM_ERR_INTERNAL, "%s: node %d (%s): result %d is %s", f->name, at, op, i, pm_buf_str(&text));
      pm_buf_deinit(&text);
    } else if (!pm_type_valid(v->m, &value->type, true, &v->why)) {
      st = PM_STATUS(PM_ERR_INTERNAL, "%s: node %d (%s): %s", f->name, at, op, pm_buf_str(&v->why));
    }
  }
  pm_arena_deinit(&scratch);
  return st;
}

static PmStatus *verify_binding(Verifier *v, const PmFn *f, const PmBinding *bind, PmValueId value) {
  if (!var_id_valid(v->m, bind->var)) return PM_STATUS(PM_ERR_INTERNAL, "%s: bound to no variable", f->name);
  if (bind->var == PM_NONE) return NULL;
  const PmVar *var = &v->m->vars[bind->var];
  const PmType type = pm_bound_type(v->m, f, bind->var);
  if (pm_type_same_logical(&type, &f->values[value].type)) return NULL;
  return PM_STATUS(PM_ERR_INTERNAL, "%s: bound to variable %s of another type", f->name, var->path);
}

static PmStatus *verify_fn(Verifier *v, const PmFn *f) {
  if ((unsigned)f->kind >= PM_N_FN_KINDS || f->n_params < 0 || f->n_params > f->n_values) {
    return PM_STATUS(PM_ERR_INTERNAL, "%s: a bad kind or number of parameters", f->name);
  }
  for (int32_t i = 0; i < f->n_params; i++) {
    if (f->values[i].def != PM_NONE) return PM_STATUS(PM_ERR_INTERNAL, "%s: parameter %d is defined", f->name, i);
    if (!pm_type_valid(v->m, &f->values[i].type, true, &v->why)) return broken_type(v, "a parameter of", f->name);
    if (f->param_bind) PM_TRY(verify_binding(v, f, &f->param_bind[i], i));
  }
  for (int32_t i = 0; i < f->n_nodes; i++) PM_TRY(verify_node(v, f, i));
  for (int32_t i = 0; i < f->n_results; i++) {
    if (!defined_before(f, f->results[i], f->n_nodes)) {
      return PM_STATUS(PM_ERR_INTERNAL, "%s: result %d is no value", f->name, i);
    }
    if (f->result_bind) PM_TRY(verify_binding(v, f, &f->result_bind[i], f->results[i]));
  }
  return NULL;
}

static PmStatus *verify_calls(Verifier *v, PmFnId id, int32_t nesting) {
  const PmFn *f = &v->m->fns[id];
  if (v->depth[id] > 0) return NULL;
  if (v->depth[id] == PM_NONE) return PM_STATUS(PM_ERR_INTERNAL, "%s calls itself", f->name);
  if (nesting > PM_MAX_NESTING) return PM_STATUS(PM_ERR_INTERNAL, "%s: calls nest too deep", f->name);
  v->depth[id] = PM_NONE;
  int32_t depth = 1;
  for (int32_t i = 0; i < f->n_nodes; i++) {
    if ((unsigned)f->nodes[i].op >= PM_OP_COUNT || !(pm_op_flags(f->nodes[i].op) & PM_F_CALL)) continue;
    PmFnId callee = f->nodes[i].attr.callee;
    if (callee < 0 || callee >= v->m->n_fns || v->m->fns[callee].dead) {
      return PM_STATUS(PM_ERR_INTERNAL, "%s: node %d calls no function", f->name, i);
    }
    PM_TRY(verify_calls(v, callee, nesting + 1));
    if (v->depth[callee] >= depth) depth = v->depth[callee] + 1;
  }
  if (depth > PM_MAX_NESTING) return PM_STATUS(PM_ERR_INTERNAL, "%s: calls nest too deep", f->name);
  v->depth[id] = depth;
  return NULL;
}

static PmStatus *verify(Verifier *v) {
  const PmModule *m = v->m;
  if ((unsigned)m->stage >= PM_N_STAGES) return PM_STATUS(PM_ERR_INTERNAL, "a module at no stage");
  PM_TRY(verify_axes(v));
  PM_TRY(verify_vars(v));
  PM_TRY(verify_rules(v));
  PmNameMap names;
  pm_name_map_init(&names, &v->scratch);
  v->depth = PM_NEW_N(&v->scratch, int32_t, m->n_fns);
  for (int32_t i = 0; i < m->n_fns; i++) {
    if (m->fns[i].dead) continue;
    if (!pm_name_map_add(&names, m->fns[i].name, i)) {
      return PM_STATUS(PM_ERR_INTERNAL, "function %s stands twice", m->fns[i].name);
    }
    PM_TRY(verify_calls(v, i, 1));
  }
  for (int32_t i = 0; i < m->n_fns; i++) {
    if (!m->fns[i].dead) PM_TRY(verify_fn(v, &m->fns[i]));
  }
  return NULL;
}

PmStatus *pm_module_verify(const PmModule *m) {
  Verifier v = {.m = m};
  pm_arena_init(&v.scratch, 0);
  pm_buf_init(&v.why);
  PmStatus *st = verify(&v);
  pm_buf_deinit(&v.why);
  pm_arena_deinit(&v.scratch);
  return st;
}
