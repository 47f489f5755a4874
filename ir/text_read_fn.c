// The reader of the text form: types and functions. Everything is checked before it is kept: a value before its use, an
// operand's type by the op's rule, the result type that is written against the one that follows. Callees stand before
// their callers, so calls cannot turn in a circle.
#include <string.h>

#include "ir/infer.h"
#include "ir/optable.h"
#include "ir/text_read.h"
#include "ir/text_words.h"

bool pm_read_axis(PmReader *r, PmAxisId *out) {
  const char *name;
  if (!pm_lex_name(&r->x, &name)) return false;
  *out = pm_name_map_get(&r->axes, name);
  return *out != PM_NONE || pm_lex_fail(&r->x, "no axis `%s`", name);
}

bool pm_read_mesh(PmReader *r, uint8_t *out) {
  const char *name;
  if (!pm_lex_name(&r->x, &name)) return false;
  int32_t mesh = pm_module_find_mesh(r->m, name);
  if (mesh == PM_NONE) return pm_lex_fail(&r->x, "no mesh axis `%s`", name);
  *out = (uint8_t)mesh;
  return true;
}

static bool read_order(PmReader *r, bool *out_zigzag) {
  *out_zigzag = pm_lex_accept(&r->x, '~');
  if (!*out_zigzag) return !r->x.st;
  return pm_lex_accept_word(&r->x, "zigzag") || pm_lex_unexpected(&r->x, "`zigzag`");
}

bool pm_read_split(PmReader *r, PmSplit *out) {
  if (!pm_lex_accept(&r->x, '/')) return !r->x.st;
  do {
    uint8_t mesh;
    if (!pm_read_mesh(r, &mesh)) return false;
    if (!pm_split_push(out, mesh)) return pm_lex_fail(&r->x, "a split over more than %d mesh axes", PM_MAX_SPLIT);
    if (out->n == 1 && !read_order(r, &out->zigzag)) return false;
  } while (pm_lex_accept(&r->x, '+'));
  return !r->x.st;
}

bool pm_read_loc(PmReader *r, PmLoc *out) {
  int64_t line, col;
  if (!pm_lex_accept(&r->x, '@')) return !r->x.st;
  if (!pm_lex_string(&r->x, &out->path) || !pm_lex_expect(&r->x, ':') ||
      !pm_lex_i64(&r->x, INT32_MIN, INT32_MAX, &line) || !pm_lex_expect(&r->x, ':') ||
      !pm_lex_i64(&r->x, INT32_MIN, INT32_MAX, &col)) {
    return false;
  }
  out->line = (int32_t)line;
  out->col = (int32_t)col;
  return true;
}

static bool read_dtype(PmReader *r, PmType *out) {
  for (int32_t d = 0; d < PM_DTYPE_COUNT; d++) {
    if (!pm_lex_accept_word(&r->x, pm_dtype_text((PmDtype)d))) continue;
    *out = pm_type_scalar((PmDtype)d);
    return true;
  }
  return pm_lex_unexpected(&r->x, "a type");
}

static bool read_partials(PmReader *r, PmType *out) {
  if (!pm_lex_accept(&r->x, '{')) return !r->x.st;
  do {
    PmReduceKind kind = PM_SUM;
    uint8_t mesh;
    if (!pm_lex_accept(&r->x, '+')) {
      if (!pm_lex_accept_word(&r->x, pm_reduce_text(PM_MAX))) return pm_lex_unexpected(&r->x, "`+` or `max`");
      kind = PM_MAX;
    }
    if (!pm_read_mesh(r, &mesh)) return false;
    if (out->n_partial >= PM_MAX_PARTIAL) return pm_lex_fail(&r->x, "partial over too many mesh axes");
    out->partial[out->n_partial++] = (PmPartial){mesh, (uint8_t)kind};
  } while (pm_lex_accept(&r->x, ','));
  return pm_lex_expect(&r->x, '}');
}

bool pm_read_size(PmReader *r, int64_t *out_size, int64_t *out_pad) {
  int64_t logical;
  if (!pm_lex_i64(&r->x, 1, PM_MAX_AXIS_SIZE, &logical)) return false;
  *out_size = logical;
  if (pm_lex_accept(&r->x, '^') && !pm_lex_i64(&r->x, logical, PM_MAX_AXIS_SIZE, out_size)) return false;
  *out_pad = *out_size - logical;
  return true;
}

bool pm_read_type(PmReader *r, PmType *out) {
  PmLexer *x = &r->x;
  if (!read_dtype(r, out)) return false;
  if (pm_lex_accept(x, '<') && (!pm_read_axis(r, &out->index_of) || !pm_lex_expect(x, '>'))) return false;
  if (!pm_lex_expect(x, '[')) return false;
  while (!pm_lex_is(x, ']')) {
    int64_t size, pad;
    if (out->rank && !pm_lex_expect(x, ',')) return false;
    if (out->rank >= PM_MAX_RANK) return pm_lex_fail(x, "a type of more than %d axes", PM_MAX_RANK);
    PmDim *d = &out->dims[out->rank++];
    if (!pm_read_axis(r, &d->axis) || !pm_lex_expect(x, ':') || !pm_read_size(r, &size, &pad) ||
        !pm_read_split(r, &d->split)) {
      return false;
    }
    const PmAxis *axis = &r->m->axes[d->axis];
    if (size != axis->size || pad != axis->pad) {
      return pm_lex_fail(x, "axis `%s` has size %lld, padded to %lld", axis->name, (long long)(axis->size - axis->pad),
                         (long long)axis->size);
    }
  }
  if (!pm_lex_expect(x, ']') || !read_partials(r, out)) return false;
  return pm_type_valid(r->m, out, true, &r->why) || pm_lex_fail(x, "%s", pm_buf_str(&r->why));
}

static bool read_value_id(PmReader *r, int32_t *out) {
  int64_t id;
  if (!pm_lex_expect(&r->x, '%') || !pm_lex_i64(&r->x, 0, INT32_MAX, &id)) return false;
  *out = (int32_t)id;
  return true;
}

// `TYPE "name"!`, appended to the function's values.
static bool read_value(PmReader *r, PmFn *f, int32_t def) {
  PmValue v = {.def = def};
  if (!pm_read_type(r, &v.type)) return false;
  if (r->x.tok == PM_T_STRING && !pm_lex_string(&r->x, &v.name)) return false;
  v.bound = pm_lex_accept(&r->x, '!');
  f->values = pm_grow(r->m->arena, f->values, f->n_values, &f->cap_values, sizeof *f->values);
  f->values[f->n_values++] = v;
  return !r->x.st;
}

static bool read_var_ref(PmReader *r, PmVarId *out) {
  const char *path;
  if (!pm_lex_string(&r->x, &path)) return false;
  *out = pm_name_map_get(&r->m->var_ids, path);
  return *out != PM_NONE || pm_lex_fail(&r->x, "no variable `%s`", path);
}

static bool check_binding(PmReader *r, const PmFn *f, const PmBinding *bind, PmValueId v) {
  if (bind->var == PM_NONE) return true;
  const PmType type = pm_bound_type(r->m, f, bind->var);
  if (pm_type_same_logical(&type, &f->values[v].type)) return true;
  return pm_lex_fail(&r->x, "variable `%s` has another type", r->m->vars[bind->var].path);
}

// Bindings in growing arrays of the scratch arena; kept only when some value is bound.
typedef struct Bindings {
  PmBinding *items;
  int32_t n, cap;
  bool any;
} Bindings;

static bool add_binding(PmReader *r, const PmFn *f, Bindings *all, PmBinding bind, PmValueId v) {
  if (!check_binding(r, f, &bind, v)) return false;
  all->items = pm_grow(&r->scratch, all->items, all->n, &all->cap, sizeof *all->items);
  all->items[all->n++] = bind;
  all->any = all->any || bind.var != PM_NONE || bind.report;
  return true;
}

static PmBinding *keep_bindings(PmReader *r, const Bindings *all) {
  if (!all->any) return NULL;
  PmBinding *kept = PM_NEW_N(r->m->arena, PmBinding, all->n);
  memcpy(kept, all->items, (size_t)all->n * sizeof *kept);
  return kept;
}

static bool read_param(PmReader *r, PmFn *f, Bindings *all) {
  PmBinding bind = {.var = PM_NONE};
  int32_t id;
  if (f->n_nodes) return pm_lex_fail(&r->x, "a parameter after nodes");
  if (!read_value_id(r, &id)) return false;
  if (id != f->n_values) return pm_lex_fail(&r->x, "the next value is %%%d", f->n_values);
  if (!pm_lex_expect(&r->x, ':') || !read_value(r, f, PM_NONE)) return false;
  f->n_params++;
  if (pm_lex_key(&r->x, "var") && !read_var_ref(r, &bind.var)) return false;
  return !r->x.st && add_binding(r, f, all, bind, id);
}

static bool read_results(PmReader *r, PmFn *f) {
  Bindings all = {0};
  int32_t cap = 0;
  while (!pm_lex_line_done(&r->x)) {
    PmBinding bind = {.var = PM_NONE};
    int32_t id;
    if (f->n_results && !pm_lex_expect(&r->x, ',')) return false;
    if (!read_value_id(r, &id)) return false;
    if (id >= f->n_values) return pm_lex_fail(&r->x, "no value %%%d", id);
    if (pm_lex_key(&r->x, "var") && !read_var_ref(r, &bind.var)) return false;
    if (pm_lex_key(&r->x, "report") && !pm_lex_string(&r->x, &bind.report)) return false;
    if (!add_binding(r, f, &all, bind, id)) return false;
    f->results = pm_grow(r->m->arena, f->results, f->n_results, &cap, sizeof *f->results);
    f->results[f->n_results++] = id;
  }
  f->result_bind = keep_bindings(r, &all);
  return pm_lex_end_line(&r->x);
}

static bool read_axes(PmReader *r, PmAxisId *axes, uint8_t *n) {
  while (!r->x.st && (r->x.tok == PM_T_WORD || r->x.tok == PM_T_STRING || pm_lex_is(&r->x, ','))) {
    if (*n && !pm_lex_expect(&r->x, ',')) return false;
    if (*n >= PM_MAX_RANK) return pm_lex_fail(&r->x, "more than %d axes", PM_MAX_RANK);
    if (!pm_read_axis(r, &axes[(*n)++])) return false;
  }
  return !r->x.st;
}

static bool read_mesh_list(PmReader *r, uint32_t fields, PmAttr *a) {
  if (!pm_lex_expect(&r->x, '/')) return false;
  do {
    if (a->n_mesh >= PM_MAX_MESH) return pm_lex_fail(&r->x, "more than %d mesh axes", PM_MAX_MESH);
    if (!pm_read_mesh(r, &a->mesh[a->n_mesh++])) return false;
    if (a->n_mesh == 1 && (fields & PM_A_ORDER) && !read_order(r, &a->zigzag)) return false;
  } while (pm_lex_accept(&r->x, '+'));
  return !r->x.st;
}

static bool read_bracket(PmReader *r, uint32_t fields, PmAttr *a) {
  PmLexer *x = &r->x;
  if (!pm_lex_expect(x, '[')) return false;
  if ((fields & PM_A_AXES) && !read_axes(r, a->axes, &a->n_axes)) return false;
  if (fields & PM_A_TO) {
    if (x->tok != PM_T_ARROW) return pm_lex_unexpected(x, "`->`");
    pm_lex_next(x);
    if (!read_axes(r, a->to, &a->n_to)) return false;
  }
  if ((fields & PM_A_INDEX) && (!pm_lex_expect(x, '=') || !pm_lex_i64(x, INT64_MIN, INT64_MAX, &a->index))) {
    return false;
  }
  bool group = (fields & PM_A_MESH) || ((fields & PM_A_GROUP) && pm_lex_is(x, '/'));
  if (group && !read_mesh_list(r, fields, a)) return false;
  return pm_lex_expect(x, ']');
}

static bool read_callee(PmReader *r, PmAttr *a) {
  const char *name;
  if (!pm_lex_expect(&r->x, '@') || !pm_lex_name(&r->x, &name)) return false;
  a->callee = pm_name_map_get(&r->fns, name);
  return a->callee != PM_NONE || pm_lex_fail(&r->x, "no function `%s` before this one", name);
}

static bool read_turns(PmReader *r, PmAttr *a) {
  int64_t carry, inv;
  if (!pm_lex_key(&r->x, "carry")) return pm_lex_unexpected(&r->x, "`carry=`");
  if (!pm_lex_i64(&r->x, 0, INT32_MAX, &carry)) return false;
  if (!pm_lex_key(&r->x, "inv")) return pm_lex_unexpected(&r->x, "`inv=`");
  if (!pm_lex_i64(&r->x, 0, INT32_MAX, &inv)) return false;
  a->n_carry = (int32_t)carry;
  a->n_inv = (int32_t)inv;
  a->reverse = pm_lex_accept_word(&r->x, "reverse");
  return !r->x.st;
}

// The op's name and, after a dot, its scalar function or reduction.
static bool read_op(PmReader *r, PmOp *op, PmAttr *a) {
  char name[64];
  if (r->x.tok != PM_T_WORD) return pm_lex_unexpected(&r->x, "an op");
  if (r->x.n >= sizeof name) return pm_lex_unexpected(&r->x, "an op");
  memcpy(name, r->x.word, r->x.n + 1);
  char *suffix = strchr(name, '.');
  if (suffix) *suffix++ = 0;
  *op = pm_op_find(name);
  if (*op == PM_OP_COUNT) return pm_lex_fail(&r->x, "no op `%s`", name);
  uint32_t fields = pm_op_fields(*op);
  if (!suffix != !(fields & (PM_A_FN | PM_A_KIND))) return pm_lex_unexpected(&r->x, "an op");
  if (fields & PM_A_FN) {
    a->fn = pm_scalar_find(suffix);
    if (a->fn == PM_SCALAR_COUNT) return pm_lex_fail(&r->x, "no scalar function `%s`", suffix);
  }
  if (fields & PM_A_KIND) {
    int32_t kind = 0;
    while (kind < PM_REDUCE_COUNT && strcmp(pm_reduce_text((PmReduceKind)kind), suffix) != 0) kind++;
    if (kind == PM_REDUCE_COUNT) return pm_lex_fail(&r->x, "no reduction `%s`", suffix);
    a->kind = (PmReduceKind)kind;
  }
  pm_lex_next(&r->x);
  return !r->x.st;
}

static bool read_attr(PmReader *r, uint32_t fields, PmAttr *a) {
  if ((fields & (PM_A_AXES | PM_A_TO | PM_A_MESH)) && !read_bracket(r, fields, a)) return false;
  if (fields & PM_A_BOUNDED) a->bounded = pm_lex_accept_word(&r->x, "bounded");
  if ((fields & PM_A_CALLEE) && !read_callee(r, a)) return false;
  if ((fields & PM_A_TURNS) && !read_turns(r, a)) return false;
  return !(fields & PM_A_NUMBER) || pm_lex_f64(&r->x, &a->number);
}

static bool read_operands(PmReader *r, const PmFn *f, PmNode *node) {
  int32_t cap = 0;
  PmValueId *in = NULL;
  if (pm_op_n_in(node->op) == 0) return true;
  if (!pm_lex_expect(&r->x, '(')) return false;
  while (!r->x.st && !pm_lex_is(&r->x, ')')) {
    if (node->n_in && !pm_lex_expect(&r->x, ',')) return false;
    in = pm_grow(&r->node, in, node->n_in, &cap, sizeof *in);
    if (!read_value_id(r, &in[node->n_in])) return false;
    if (in[node->n_in] >= f->n_values) return pm_lex_fail(&r->x, "no value %%%d before this node", in[node->n_in]);
    node->n_in++;
  }
  node->in = PM_NEW_N(r->m->arena, PmValueId, node->n_in);
  if (node->n_in) memcpy(node->in, in, (size_t)node->n_in * sizeof *in);
  return pm_lex_expect(&r->x, ')');
}

// The types that were written follow from the op's rule.
static bool check_node(PmReader *r, const PmFn *f, const PmNode *node) {
  PmType *in = PM_NEW_N(&r->node, PmType, node->n_in);
  PmType *out = PM_NEW_N(&r->node, PmType, node->n_out);
  for (int32_t i = 0; i < node->n_in; i++) in[i] = f->values[node->in[i]].type;
  const PmType *given = node->n_out == 1 ? &f->values[node->out].type : NULL;
  if (!pm_infer(r->m, node->op, &node->attr, in, node->n_in, given, out, node->n_out, &r->why)) {
    return pm_lex_fail(&r->x, "`%s`: %s", pm_op_name(node->op), pm_buf_str(&r->why));
  }
  bool local = r->m->stage == PM_STAGE_LOCAL;
  for (int32_t i = 0; i < node->n_out; i++) {
    const PmType *t = &f->values[node->out + i].type;
    if (local ? pm_type_equal(t, &out[i]) : pm_type_same_logical(t, &out[i])) continue;
    pm_buf_clear(&r->why);
    pm_type_print(r->m, &out[i], &r->why);
    return pm_lex_fail(&r->x, "`%s`: the result is %s", pm_op_name(node->op), pm_buf_str(&r->why));
  }
  return true;
}

static bool read_node(PmReader *r, PmFn *f) {
  PmLexer *x = &r->x;
  PmNode node = {.out = f->n_values};
  while (pm_lex_is(x, '%') || (node.n_out && pm_lex_accept(x, ','))) {
    int32_t id;
    if (!read_value_id(r, &id)) return false;
    if (id != f->n_values + node.n_out) return pm_lex_fail(x, "the next value is %%%d", f->n_values + node.n_out);
    node.n_out++;
  }
  if (node.n_out && !pm_lex_expect(x, '=')) return false;
  if (!read_op(r, &node.op, &node.attr) || !read_attr(r, pm_op_fields(node.op), &node.attr)) return false;
  if (!read_operands(r, f, &node)) return false;
  if (node.n_out != pm_infer_n_out(r->m, node.op, &node.attr, node.n_in)) {
    return pm_lex_fail(x, "`%s` has another number of results", pm_op_name(node.op));
  }
  for (int32_t i = 0; i < node.n_out; i++) {
    if (!pm_lex_expect(x, i ? ',' : ':') || !read_value(r, f, f->n_nodes)) return false;
  }
  if (!check_node(r, f, &node) || !pm_read_loc(r, &node.loc)) return false;
  f->nodes = pm_grow(r->m->arena, f->nodes, f->n_nodes, &f->cap_nodes, sizeof *f->nodes);
  f->nodes[f->n_nodes++] = node;
  pm_arena_reset(&r->node);
  return pm_lex_end_line(x);
}

static bool add_fn(PmReader *r, const PmFn *f) {
  PmModule *m = r->m;
  int32_t depth = 1;
  for (int32_t i = 0; i < f->n_nodes; i++) {
    if (!(pm_op_flags(f->nodes[i].op) & PM_F_CALL)) continue;
    int32_t below = r->depth[f->nodes[i].attr.callee];
    if (below >= depth) depth = below + 1;
  }
  if (depth > PM_MAX_NESTING) return pm_lex_fail(&r->x, "calls nest more than %d deep", PM_MAX_NESTING);
  r->depth = pm_grow(&r->scratch, r->depth, m->n_fns, &r->cap_depth, sizeof *r->depth);
  r->depth[m->n_fns] = depth;
  m->fns = pm_grow(m->arena, m->fns, m->n_fns, &m->cap_fns, sizeof *m->fns);
  m->fns[m->n_fns++] = *f;
  return true;
}

bool pm_read_fn(PmReader *r) {
  PmLexer *x = &r->x;
  PmFn f = {0};
  Bindings params = {0};
  int32_t kind;
  if (!pm_lex_name(x, &f.name)) return false;
  if (pm_name_map_get(&r->fns, f.name) != PM_NONE) return pm_lex_fail(x, "function `%s` stands twice", f.name);
  if (!pm_lex_one_of(x, pm_fn_kind_words, PM_N_FN_KINDS, "a kind of function", &kind)) return false;
  f.kind = (PmFnKind)kind;
  if (pm_lex_key(x, "base") && !pm_lex_string(x, &f.base)) return false;
  if (!pm_lex_expect(x, '{') || !pm_lex_end_line(x)) return false;
  while (pm_lex_accept_word(x, "param")) {
    if (!read_param(r, &f, &params) || !pm_lex_end_line(x)) return false;
  }
  while (!x->st && !pm_lex_is_word(x, "return")) {
    if (!read_node(r, &f)) return false;
  }
  pm_lex_accept_word(x, "return");
  if (x->st || !read_results(r, &f) || !pm_lex_expect(x, '}')) return false;
  f.param_bind = keep_bindings(r, &params);
  pm_name_map_add(&r->fns, f.name, r->m->n_fns);
  return add_fn(r, &f);
}
