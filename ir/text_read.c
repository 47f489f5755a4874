// The reader of the text form: statements of the module. Untrusted input: see text_read_fn.c for functions.
#include "ir/text_read.h"

#include <string.h>

#include "ir/text.h"
#include "ir/text_words.h"

#define MAX_TEXT_BYTES (64 << 20)

// Names that may be declared after their use.
typedef struct VarRefs {
  const char *owner, *update;
  int32_t line;
} VarRefs;

typedef struct ModuleRefs {
  VarRefs *vars;
  int32_t cap_vars;
  const char *x, *y, *model, *schedule, *step, *eval, *before, *after;
  const char **fed;  // by feed of the data
  int32_t cap_fed;
} ModuleRefs;

static bool read_module_line(PmReader *r) {
  PmLexer *x = &r->x;
  int32_t stage;
  if (!pm_lex_accept_word(x, "module")) return pm_lex_unexpected(x, "`module`");
  if (!pm_lex_one_of(x, pm_stage_words, PM_N_STAGES, "a stage", &stage)) return false;
  r->m->stage = (PmStage)stage;
  while (!pm_lex_line_done(x)) {
    if (pm_lex_key(x, "name")) {
      pm_lex_string(x, &r->m->name);
    } else if (pm_lex_key(x, "plan")) {
      pm_lex_string(x, &r->m->plan);
    } else {
      pm_lex_unexpected(x, "`name=` or `plan=`");
    }
  }
  return pm_lex_end_line(x);
}

static bool read_axis_line(PmReader *r) {
  PmModule *m = r->m;
  PmAxis a = {0};
  if (!pm_lex_name(&r->x, &a.name) || !pm_read_size(r, &a.size, &a.pad)) return false;
  if (m->n_axes >= PM_MAX_AXES) return pm_lex_fail(&r->x, "more than %d axes", PM_MAX_AXES);
  if (!pm_name_map_add(&r->axes, a.name, m->n_axes)) return pm_lex_fail(&r->x, "axis `%s` stands twice", a.name);
  if (!pm_read_loc(r, &a.loc)) return false;
  m->axes = pm_grow(m->arena, m->axes, m->n_axes, &m->cap_axes, sizeof *m->axes);
  m->axes[m->n_axes++] = a;
  return true;
}

static bool read_mesh_line(PmReader *r) {
  PmModule *m = r->m;
  PmMeshAxis a = {0};
  if (!pm_lex_name(&r->x, &a.name) || !pm_lex_i64(&r->x, 1, PM_MAX_RANKS, &a.size)) return false;
  if (m->n_mesh >= PM_MAX_MESH) return pm_lex_fail(&r->x, "more than %d mesh axes", PM_MAX_MESH);
  if (pm_module_find_mesh(m, a.name) != PM_NONE) return pm_lex_fail(&r->x, "mesh axis `%s` stands twice", a.name);
  if (pm_mesh_ranks(m) * a.size > PM_MAX_RANKS) return pm_lex_fail(&r->x, "a mesh of more than 2^20 ranks");
  if (!pm_read_loc(r, &a.loc)) return false;
  m->mesh[m->n_mesh++] = a;
  return true;
}

static bool read_float_dtype(PmLexer *x, uint8_t *out) {
  const char *text;
  if (!pm_lex_string(x, &text)) return false;
  for (int32_t d = 0; d < PM_DTYPE_COUNT; d++) {
    if (!pm_dtype_is_float((PmDtype)d) || strcmp(text, pm_dtype_text((PmDtype)d)) != 0) continue;
    *out = (uint8_t)d;
    return true;
  }
  return pm_lex_fail(x, "`%s` is no float type", text);
}

static bool read_var_line(PmReader *r, ModuleRefs *refs) {
  PmLexer *x = &r->x;
  PmModule *m = r->m;
  PmVar v = {.owner = PM_NONE, .update = PM_NONE};
  VarRefs ref = {.line = x->line};
  int32_t role, init;
  if (!pm_lex_string(x, &v.path) || !pm_lex_one_of(x, pm_role_words, PM_ROLE_COUNT, "a role", &role) ||
      !pm_read_type(r, &v.type) || !pm_lex_one_of(x, pm_init_words, PM_N_INITS, "an initial value", &init)) {
    return false;
  }
  v.role = (PmRole)role;
  v.init = (PmInitKind)init;
  if (v.init != PM_INIT_NONE) {
    if (!pm_lex_expect(x, '(') || !pm_lex_f64(x, &v.init_value) || !pm_lex_expect(x, ')')) return false;
  }
  if (pm_lex_key(x, "owner") && !pm_lex_string(x, &ref.owner)) return false;
  v.master = pm_lex_accept_word(x, "master");
  if (pm_lex_key(x, "grad") && !read_float_dtype(x, &v.grad)) return false;
  if (pm_lex_key(x, "update") && !pm_lex_string(x, &ref.update)) return false;
  if (!pm_read_loc(r, &v.loc)) return false;
  if (m->n_vars >= PM_MAX_AXES) return pm_lex_fail(x, "more than %d variables", PM_MAX_AXES);
  if (pm_module_find_var(m, v.path) != PM_NONE) return pm_lex_fail(x, "variable `%s` stands twice", v.path);
  refs->vars = pm_grow(&r->scratch, refs->vars, m->n_vars, &refs->cap_vars, sizeof *refs->vars);
  refs->vars[m->n_vars] = ref;
  pm_module_add_var(m, v);
  return true;
}

// feed="x"[first file, files]
static bool read_feeds(PmReader *r, ModuleRefs *refs) {
  PmLexer *x = &r->x;
  PmData *d = &r->m->data;
  int32_t cap = 0;
  while (pm_lex_key(x, "feed")) {
    int64_t first, n;
    refs->fed = (const char **)pm_grow(&r->scratch, (void *)refs->fed, d->n_feeds, &refs->cap_fed, sizeof *refs->fed);
    if (!pm_lex_string(x, &refs->fed[d->n_feeds])) return false;
    if (!pm_lex_expect(x, '[') || !pm_lex_i64(x, 0, d->n_files, &first) || !pm_lex_expect(x, ',')) return false;
    if (!pm_lex_i64(x, 1, d->n_files - first, &n) || !pm_lex_expect(x, ']')) return false;
    d->feeds = pm_grow(r->m->arena, d->feeds, d->n_feeds, &cap, sizeof *d->feeds);
    d->feeds[d->n_feeds++] = (PmFeed){PM_NONE, (int32_t)first, (int32_t)n};
  }
  return !x->st;
}

static bool read_data_line(PmReader *r, ModuleRefs *refs) {
  PmLexer *x = &r->x;
  PmData *d = &r->m->data;
  int32_t cap = 0;
  if (d->format) return pm_lex_fail(x, "`data` stands twice");
  if (!pm_lex_string(x, &d->format)) return false;
  if (!pm_lex_accept_word(x, "files")) return pm_lex_unexpected(x, "`files`");
  if (!pm_lex_expect(x, '(')) return false;
  while (!x->st && !pm_lex_is(x, ')')) {
    if (d->n_files && !pm_lex_expect(x, ',')) return false;
    d->files = pm_grow(r->m->arena, d->files, d->n_files, &cap, sizeof *d->files);
    if (!pm_lex_string(x, &d->files[d->n_files++])) return false;
  }
  if (!pm_lex_expect(x, ')')) return false;
  if (pm_lex_key(x, "x") && !pm_lex_string(x, &refs->x)) return false;
  if (pm_lex_key(x, "y") && !pm_lex_string(x, &refs->y)) return false;
  if (!read_feeds(r, refs)) return false;
  d->shuffle = pm_lex_accept_word(x, "shuffle");
  return !x->st;
}

// A list `word(...)` of a rule: opens it, and steps from item to item.
static bool list_open(PmReader *r, const char *word) {
  if (!pm_lex_accept_word(&r->x, word)) {
    pm_lex_unexpected(&r->x, word);
    return false;
  }
  return pm_lex_expect(&r->x, '(');
}

static bool list_next(PmReader *r, int32_t n) {
  if (r->x.st || pm_lex_is(&r->x, ')')) return false;
  return n == 0 || pm_lex_expect(&r->x, ',');
}

static bool read_rule_axis(PmReader *r, PmAxisId *out) {
  if (!pm_lex_accept(&r->x, '?')) return pm_read_axis(r, out);
  *out = PM_NONE;
  return true;
}

static bool read_pin_dims(PmReader *r, PmRule *rule) {
  int32_t cap = 0;
  if (!list_open(r, "dims")) return false;
  while (list_next(r, rule->n_pin_dims)) {
    rule->pin_dims = pm_grow(r->m->arena, rule->pin_dims, rule->n_pin_dims, &cap, sizeof *rule->pin_dims);
    PmDim *d = &rule->pin_dims[rule->n_pin_dims++];
    if (!read_rule_axis(r, &d->axis) || !pm_read_split(r, &d->split)) return false;
  }
  return pm_lex_expect(&r->x, ')');
}

static bool read_rule_lists(PmReader *r, PmRule *rule) {
  int32_t cap = 0, role;
  if (!list_open(r, "roles")) return false;
  for (int32_t n = 0; list_next(r, n); n++) {
    if (!pm_lex_one_of(&r->x, pm_role_words, PM_ROLE_COUNT, "a role", &role)) return false;
    rule->roles |= UINT32_C(1) << role;
  }
  if (!pm_lex_expect(&r->x, ')') || !list_open(r, "axes")) return false;
  while (list_next(r, rule->n_axes)) {
    rule->axes = pm_grow(r->m->arena, rule->axes, rule->n_axes, &cap, sizeof *rule->axes);
    if (!read_rule_axis(r, &rule->axes[rule->n_axes++])) return false;
  }
  if (!pm_lex_expect(&r->x, ')') || !list_open(r, "mesh")) return false;
  while (list_next(r, rule->n_mesh)) {
    if (rule->n_mesh >= PM_MAX_SPLIT) return pm_lex_fail(&r->x, "a rule of more than %d mesh axes", PM_MAX_SPLIT);
    if (!pm_read_mesh(r, &rule->mesh[rule->n_mesh++])) return false;
  }
  return pm_lex_expect(&r->x, ')');
}

static bool read_rule_line(PmReader *r, int32_t *cap) {
  PmLexer *x = &r->x;
  PmModule *m = r->m;
  PmRule rule = {.span = PM_NO_SPAN};
  if (!read_rule_lists(r, &rule)) return false;
  rule.none = pm_lex_accept_word(x, "none");
  int64_t zero = 0;
  if (pm_lex_key(x, "zero") && !pm_lex_i64(x, 1, 3, &zero)) return false;
  rule.zero = (uint8_t)zero;
  rule.pad = pm_lex_accept_word(x, "pad");
  int64_t attend = 0;
  if (pm_lex_key(x, "attend") && !pm_lex_i64(x, 1, PM_ATTEND_COUNT - 1, &attend)) return false;
  rule.attend = (uint8_t)attend;
  int64_t order = 0;
  if (pm_lex_key(x, "order") && !pm_lex_i64(x, 1, PM_ORDER_COUNT - 1, &order)) return false;
  rule.order = (uint8_t)order;
  if (attend && (rule.n_axes < 1 || rule.n_mesh != 1)) return pm_lex_fail(x, "`attend` takes an axis and a mesh axis");
  if (pm_lex_key(x, "scope") && !pm_lex_string(x, &rule.scope)) return false;
  if (pm_lex_key(x, "pin") && (!pm_lex_string(x, &rule.pin) || !read_pin_dims(r, &rule))) return false;
  if (pm_lex_key(x, "text") && !pm_lex_string(x, &rule.text)) return false;
  if (!pm_read_loc(r, &rule.loc)) return false;
  m->rules = pm_grow(m->arena, m->rules, m->n_rules, cap, sizeof *m->rules);
  m->rules[m->n_rules++] = rule;
  return true;
}

// An axis that was declared above; functions below are read with it.
static bool read_axis_ref(PmReader *r, PmAxisId *out) {
  const char *name;
  if (!pm_lex_string(&r->x, &name)) return false;
  *out = pm_name_map_get(&r->axes, name);
  return *out != PM_NONE || pm_lex_fail(&r->x, "no axis `%s`", name);
}

static bool read_train_line(PmReader *r, ModuleRefs *refs) {
  PmLexer *x = &r->x;
  PmModule *m = r->m;
  while (!pm_lex_line_done(x)) {
    if (pm_lex_key(x, "model")) {
      pm_lex_string(x, &refs->model);
    } else if (pm_lex_key(x, "schedule")) {
      pm_lex_string(x, &refs->schedule);
    } else if (pm_lex_key(x, "step")) {
      pm_lex_string(x, &refs->step);
    } else if (pm_lex_key(x, "eval")) {
      pm_lex_string(x, &refs->eval);
    } else if (pm_lex_key(x, "before")) {
      pm_lex_string(x, &refs->before);
    } else if (pm_lex_key(x, "after")) {
      pm_lex_string(x, &refs->after);
    } else if (pm_lex_key(x, "micro")) {
      if (!read_axis_ref(r, &m->micro)) return false;
    } else if (pm_lex_key(x, "rows")) {
      if (!read_axis_ref(r, &m->rows)) return false;
    } else if (pm_lex_key(x, "clip")) {
      pm_lex_f64(x, &m->clip);
    } else if (pm_lex_key(x, "loss_scale")) {
      pm_lex_f64(x, &m->loss_scale);
    } else if (pm_lex_key(x, "loss_scale_window")) {
      pm_lex_i64(x, 1, INT64_MAX, &m->loss_scale_window);
    } else if (pm_lex_key(x, "bucket")) {
      pm_lex_i64(x, 0, INT64_MAX, &m->bucket);
    } else if (pm_lex_key(x, "steps")) {
      pm_lex_i64(x, INT64_MIN, INT64_MAX, &m->steps);
    } else if (pm_lex_key(x, "seed")) {
      pm_lex_u64(x, &m->seed);
    } else {
      pm_lex_unexpected(x, "a field of `train`");
    }
  }
  return !x->st;
}

static bool find(PmReader *r, const PmNameMap *map, const char *what, const char *name, int32_t *out) {
  if (!name) return true;
  *out = pm_name_map_get(map, name);
  return *out != PM_NONE || pm_lex_fail(&r->x, "no %s `%s`", what, name);
}

static bool resolve(PmReader *r, const ModuleRefs *refs) {
  PmModule *m = r->m;
  bool ok = find(r, &r->fns, "function", refs->model, &m->model) &&
            find(r, &r->fns, "function", refs->schedule, &m->schedule) &&
            find(r, &r->fns, "function", refs->step, &m->step) && find(r, &r->fns, "function", refs->eval, &m->eval) &&
            find(r, &r->fns, "function", refs->before, &m->before) &&
            find(r, &r->fns, "function", refs->after, &m->after) &&
            find(r, &m->var_ids, "variable", refs->x, &m->data.x) && find(r, &m->var_ids, "variable", refs->y, &m->data.y);
  for (int32_t i = 0; ok && i < m->data.n_feeds; i++) {
    ok = find(r, &m->var_ids, "variable", refs->fed[i], &m->data.feeds[i].var);
  }
  for (int32_t i = 0; ok && i < m->n_vars; i++) {
    r->x.line = refs->vars[i].line;
    ok = find(r, &m->var_ids, "variable", refs->vars[i].owner, &m->vars[i].owner) &&
         find(r, &r->fns, "function", refs->vars[i].update, &m->vars[i].update);
  }
  return ok;
}

static bool read_statements(PmReader *r) {
  PmLexer *x = &r->x;
  ModuleRefs refs = {0};
  int32_t cap_rules = 0;
  if (!read_module_line(r)) return false;
  while (!x->st && x->tok != PM_T_END) {
    bool ok;
    if (pm_lex_accept_word(x, "axis")) {
      ok = read_axis_line(r);
    } else if (pm_lex_accept_word(x, "mesh")) {
      ok = read_mesh_line(r);
    } else if (pm_lex_accept_word(x, "var")) {
      ok = read_var_line(r, &refs);
    } else if (pm_lex_accept_word(x, "data")) {
      ok = read_data_line(r, &refs);
    } else if (pm_lex_accept_word(x, "rule")) {
      ok = read_rule_line(r, &cap_rules);
    } else if (pm_lex_accept_word(x, "train")) {
      ok = read_train_line(r, &refs);
    } else if (pm_lex_accept_word(x, "fn")) {
      ok = pm_read_fn(r);
    } else {
      ok = pm_lex_unexpected(x, "a statement");
    }
    if (!ok || !pm_lex_end_line(x)) return false;
  }
  return !x->st && resolve(r, &refs);
}

PmStatus *pm_module_read(PmArena *arena, PmInterner *names, const char *path, const char *text, size_t len,
                         PmModule **out) {
  *out = NULL;
  if (len > MAX_TEXT_BYTES) return PM_STATUS(PM_ERR_INPUT, "%s:1: a module of more than 64 MiB", path);
  PmReader r = {.m = pm_module_new(arena, names)};
  r.m->mesh = PM_NEW_N(arena, PmMeshAxis, PM_MAX_MESH);
  pm_arena_init(&r.scratch, 0);
  pm_arena_init(&r.node, 0);
  pm_buf_init(&r.why);
  pm_name_map_init(&r.axes, &r.scratch);
  pm_name_map_init(&r.fns, &r.scratch);
  pm_lex_init(&r.x, names, path, text, len);
  if (read_statements(&r)) *out = r.m;
  pm_buf_deinit(&r.why);
  pm_arena_deinit(&r.node);
  pm_arena_deinit(&r.scratch);
  return r.x.st;
}
