#include <string.h>

#include "base/assert.h"
#include "base/hash.h"
#include "ir/ir.h"

PmModule *pm_module_new(PmArena *arena, PmInterner *names) {
  PmModule *m = PM_NEW(arena, PmModule);
  m->arena = arena;
  m->names = names;
  pm_name_map_init(&m->var_ids, arena);
  m->model = m->schedule = m->step = m->eval = m->before = m->after = m->micro = m->rows = PM_NONE;
  m->data.x = m->data.y = PM_NONE;
  m->bucket = PM_BUCKET_BYTES;
  return m;
}

// Text that may live in the arena of the module that is copied.
static const char *keep(PmModule *m, const char *s) { return s ? pm_intern(m->names, s) : NULL; }

static void keep_reports(PmModule *m, PmBinding *bind, int32_t n) {
  if (!bind) return;
  for (int32_t i = 0; i < n; i++) bind[i].report = keep(m, bind[i].report);
}

static void clone_fn(PmModule *m, PmFn *f) {
  f->base = keep(m, f->base);
  f->values = pm_arena_copy(m->arena, f->values, f->n_values, sizeof *f->values);
  f->cap_values = f->n_values;
  f->nodes = pm_arena_copy(m->arena, f->nodes, f->n_nodes, sizeof *f->nodes);
  f->cap_nodes = f->n_nodes;
  for (int32_t i = 0; i < f->n_nodes; i++) {
    f->nodes[i].in = pm_arena_copy(m->arena, f->nodes[i].in, f->nodes[i].n_in, sizeof *f->nodes[i].in);
  }
  f->results = pm_arena_copy(m->arena, f->results, f->n_results, sizeof *f->results);
  f->param_bind = pm_arena_copy(m->arena, f->param_bind, f->n_params, sizeof *f->param_bind);
  f->result_bind = pm_arena_copy(m->arena, f->result_bind, f->n_results, sizeof *f->result_bind);
  keep_reports(m, f->param_bind, f->n_params);
  keep_reports(m, f->result_bind, f->n_results);
}

static void clone_rule(PmModule *m, PmRule *r) {
  r->axes = pm_arena_copy(m->arena, r->axes, r->n_axes, sizeof *r->axes);
  if (r->names) r->names = pm_arena_copy(m->arena, r->names, r->n_axes, sizeof *r->names);
  r->pin_dims = pm_arena_copy(m->arena, r->pin_dims, r->n_pin_dims, sizeof *r->pin_dims);
  r->scope = keep(m, r->scope);
  r->text = keep(m, r->text);
  r->pin = keep(m, r->pin);
}

PmModule *pm_module_clone(const PmModule *from, PmArena *arena) {
  PmModule *m = PM_NEW(arena, PmModule);
  *m = *from;
  m->arena = arena;
  m->name = keep(m, m->name);
  m->plan = keep(m, m->plan);
  m->axes = pm_arena_copy(arena, m->axes, m->n_axes, sizeof *m->axes);
  m->cap_axes = m->n_axes;
  m->mesh = pm_arena_copy(arena, m->mesh, m->n_mesh, sizeof *m->mesh);
  m->vars = pm_arena_copy(arena, m->vars, m->n_vars, sizeof *m->vars);
  m->cap_vars = m->n_vars;
  m->var_ids = pm_name_map_copy(&m->var_ids, arena);
  m->fns = pm_arena_copy(arena, m->fns, m->n_fns, sizeof *m->fns);
  m->cap_fns = m->n_fns;
  for (int32_t i = 0; i < m->n_fns; i++) clone_fn(m, &m->fns[i]);
  m->rules = pm_arena_copy(arena, m->rules, m->n_rules, sizeof *m->rules);
  for (int32_t i = 0; i < m->n_rules; i++) clone_rule(m, &m->rules[i]);
  m->data.format = keep(m, m->data.format);
  m->data.files = pm_arena_copy(arena, m->data.files, m->data.n_files, sizeof *m->data.files);
  for (int32_t i = 0; i < m->data.n_files; i++) m->data.files[i] = keep(m, m->data.files[i]);
  m->data.feeds = pm_arena_copy(arena, m->data.feeds, m->data.n_feeds, sizeof *m->data.feeds);
  return m;
}

PmAxisId pm_module_find_axis(const PmModule *m, const char *name) {
  const char *key = pm_intern_find(m->names, name);
  for (int32_t i = 0; key && i < m->n_axes; i++) {
    if (m->axes[i].name == key) return i;
  }
  return PM_NONE;
}

PmAxisId pm_module_axis(PmModule *m, const char *name, int64_t size, PmLoc loc) {
  PmAxisId found = pm_module_find_axis(m, name);
  if (found != PM_NONE) {
    PM_ASSERT(m->axes[found].size == size, "axis %s has size %lld, not %lld", name, (long long)m->axes[found].size,
              (long long)size);
    return found;
  }
  m->axes = pm_grow(m->arena, m->axes, m->n_axes, &m->cap_axes, sizeof *m->axes);
  m->axes[m->n_axes] = (PmAxis){.name = pm_intern(m->names, name), .size = size, .loc = loc};
  return m->n_axes++;
}

PmAxisId pm_module_local_axis(PmModule *m, const char *name, int64_t size) {
  const char *base = pm_intern(m->names, name);
  const char *tried = base;
  for (int32_t k = 2;; k++) {
    PmAxisId found = pm_module_find_axis(m, tried);
    if (found == PM_NONE || m->axes[found].size == size) return pm_module_axis(m, tried, size, (PmLoc){0});
    tried = pm_intern_printf(m->names, "%s.%d", base, k);
  }
}

PmVarId pm_module_add_var(PmModule *m, PmVar var) {
  var.path = pm_intern(m->names, var.path);
  bool is_new = pm_name_map_add(&m->var_ids, var.path, m->n_vars);
  PM_ASSERT(is_new, "variable %s stands twice", var.path);
  m->vars = pm_grow(m->arena, m->vars, m->n_vars, &m->cap_vars, sizeof *m->vars);
  m->vars[m->n_vars] = var;
  return m->n_vars++;
}

PmVarId pm_var_master(const PmModule *m, PmVarId var) {
  for (PmVarId v = 0; v < m->n_vars; v++)
    if (m->vars[v].master && m->vars[v].owner == var) return v;
  return PM_NONE;
}

PmType pm_bound_type(const PmModule *m, const PmFn *f, PmVarId var) {
  PmType type = m->vars[var].type;
  if (f->kind != PM_FN_STEP && f->kind != PM_FN_EVAL) pm_type_drop_axis(&type, m->micro);
  return type;
}

PmOwned pm_vars_owned(const PmModule *m, PmArena *arena) {
  PmOwned o = {PM_NEW_N(arena, PmVarId, m->n_vars + 1), PM_NEW_N(arena, PmVarId, m->n_vars + 1)};
  for (PmVarId v = 0; v < m->n_vars; v++) o.first[v] = PM_NONE;
  for (PmVarId v = m->n_vars - 1; v >= 0; v--) {
    PmVarId owner = m->vars[v].owner;
    o.next[v] = owner == PM_NONE ? PM_NONE : o.first[owner];
    if (owner != PM_NONE) o.first[owner] = v;
  }
  return o;
}

PmVarId pm_module_find_var(const PmModule *m, const char *path) {
  const char *key = pm_intern_find(m->names, path);
  return key ? pm_name_map_get(&m->var_ids, key) : PM_NONE;
}

PmFnId pm_module_add_fn(PmModule *m, const char *name, PmFnKind kind) {
  int32_t number = 1;
  return pm_module_add_fn_from(m, name, kind, &number);
}

PmFnId pm_module_add_fn_from(PmModule *m, const char *name, PmFnKind kind, int32_t *number) {
  const char *base = pm_intern(m->names, name);
  const char *unique = base;
  if (*number > 1) unique = pm_intern_printf(m->names, "%s.%d", base, *number);
  while (pm_module_find_fn(m, unique) != PM_NONE) unique = pm_intern_printf(m->names, "%s.%d", base, ++*number);
  m->fns = pm_grow(m->arena, m->fns, m->n_fns, &m->cap_fns, sizeof *m->fns);
  m->fns[m->n_fns] = (PmFn){.name = unique, .kind = kind};
  return m->n_fns++;
}

void pm_fn_reserve(PmModule *m, PmFnId id, int32_t n_values, int32_t n_nodes) {
  PmFn *f = pm_fn(m, id);
  PM_ASSERT(f->n_values == 0 && f->n_nodes == 0, "%s is not empty", f->name);
  f->values = PM_NEW_N(m->arena, PmValue, n_values);
  f->nodes = PM_NEW_N(m->arena, PmNode, n_nodes);
  f->cap_values = n_values;
  f->cap_nodes = n_nodes;
}

void pm_module_replace_fn(PmModule *m, PmFnId id, PmFnId made) {
  PmFn *place = pm_fn(m, id), fresh = *pm_fn(m, made);
  fresh.name = place->name;
  fresh.base = place->base;
  fresh.param_bind = place->param_bind;
  fresh.result_bind = place->result_bind;
  pm_fn(m, made)->dead = true;
  *place = fresh;
}

PmFnId pm_module_find_fn(const PmModule *m, const char *name) {
  const char *key = pm_intern_find(m->names, name);
  for (int32_t i = 0; key && i < m->n_fns; i++) {
    if (!m->fns[i].dead && m->fns[i].name == key) return i;
  }
  return PM_NONE;
}

int32_t pm_module_find_mesh(const PmModule *m, const char *name) {
  for (int32_t i = 0; i < m->n_mesh; i++) {
    if (strcmp(m->mesh[i].name, name) == 0) return i;
  }
  return PM_NONE;
}

int64_t pm_axis_logical(const PmModule *m, PmAxisId a) { return pm_axis_size(m, a) - m->axes[a].pad; }

int64_t pm_axis_size(const PmModule *m, PmAxisId a) {
  PM_ASSERT(a >= 0 && a < m->n_axes, "axis %d of %d", a, m->n_axes);
  return m->axes[a].size;
}

int64_t pm_split_parts(const PmModule *m, const PmSplit *s) {
  int64_t parts = 1;
  for (int32_t i = 0; i < s->n; i++) {
    PM_ASSERT(s->mesh[i] < m->n_mesh, "mesh axis %d of %d", s->mesh[i], m->n_mesh);
    bool ok = pm_mul_i64(parts, m->mesh[s->mesh[i]].size, &parts);
    PM_ASSERT(ok, "a split of too many parts");
  }
  return parts;
}

int64_t pm_dim_local(const PmModule *m, const PmDim *d) {
  int64_t size = pm_axis_size(m, d->axis);
  int64_t parts = pm_split_parts(m, &d->split);
  PM_ASSERT(size % parts == 0, "axis %s of size %lld in %lld parts", m->axes[d->axis].name, (long long)size,
            (long long)parts);
  return size / parts;
}

bool pm_type_elements(const PmModule *m, const PmType *t, int64_t *out) {
  int64_t n = 1;
  for (int32_t i = 0; i < t->rank; i++) {
    if (!pm_mul_i64(n, pm_axis_size(m, t->dims[i].axis), &n) || n > PM_MAX_ELEMENTS) return false;
  }
  *out = n;
  return true;
}

int64_t pm_type_local_elements(const PmModule *m, const PmType *t) {
  int64_t n = 1;
  for (int32_t i = 0; i < t->rank; i++) {
    bool ok = pm_mul_i64(n, pm_dim_local(m, &t->dims[i]), &n);
    PM_ASSERT(ok, "a type of too many elements");
  }
  return n;
}

int64_t pm_type_local_bytes(const PmModule *m, const PmType *t) {
  int64_t n;
  bool ok = pm_mul_i64(pm_type_local_elements(m, t), pm_dtype_bytes((PmDtype)t->dtype), &n);
  PM_ASSERT(ok, "a type of too many bytes");
  return n;
}

int64_t pm_mesh_ranks(const PmModule *m) {
  int64_t n = 1;
  for (int32_t i = 0; i < m->n_mesh; i++) {
    bool ok = pm_mul_i64(n, m->mesh[i].size, &n);
    PM_ASSERT(ok, "a mesh of too many ranks");
  }
  return n;
}

uint64_t pm_random_stream(const PmModule *m, int64_t index) { return pm_hash64(&index, sizeof index, m->seed); }

int64_t pm_mesh_group(const PmModule *m, const uint8_t *mesh, int32_t n) {
  int64_t ranks = 1;
  for (int32_t i = 0; i < n; i++) ranks *= m->mesh[mesh[i]].size;
  return ranks;
}

int64_t pm_mesh_coord(const PmModule *m, int64_t rank, int32_t mesh) {
  for (int32_t i = m->n_mesh - 1; i > mesh; i--) rank /= m->mesh[i].size;
  return rank % m->mesh[mesh].size;
}

// The mesh axes of the splits beyond what both types have of each dim, then those of `others` that are not among them.
static int32_t moved_axes(const PmType *t, const PmType *other, uint32_t others, uint8_t *out) {
  int32_t n = 0;
  for (int32_t d = 0; d < t->rank; d++) {
    const PmSplit *a = &t->dims[d].split, *b = &other->dims[d].split;
    int32_t same = 0;
    while (same < a->n && same < b->n && a->mesh[same] == b->mesh[same]) same++;
    for (int32_t i = same; i < a->n; i++) {
      out[n++] = a->mesh[i];
      others &= ~(UINT32_C(1) << a->mesh[i]);
    }
  }
  for (uint8_t mesh = 0; mesh < PM_MAX_MESH; mesh++)
    if (others >> mesh & 1) out[n++] = mesh;
  return n;
}

bool pm_permute_orders(const PmModule *m, const PmType *from, const PmType *to, PmPermute *out) {
  if (from->rank != to->rank || from->n_partial != to->n_partial) return false;
  for (int32_t i = 0; i < from->n_partial; i++)
    if (from->partial[i].mesh != to->partial[i].mesh || from->partial[i].kind != to->partial[i].kind) return false;
  for (int32_t d = 0; d < from->rank; d++) {
    const PmSplit *a = &from->dims[d].split, *b = &to->dims[d].split;
    if (pm_split_parts(m, a) != pm_split_parts(m, b)) return false;
    if ((pm_split_is_zigzag(a) || pm_split_is_zigzag(b)) && !pm_split_equal(a, b)) return false;
  }
  uint32_t all = 0;
  uint8_t axes[PM_MAX_MESH];
  for (int32_t i = moved_axes(from, to, 0, axes); i > 0; i--) all |= UINT32_C(1) << axes[i - 1];
  for (int32_t i = moved_axes(to, from, 0, axes); i > 0; i--) all |= UINT32_C(1) << axes[i - 1];
  out->n = moved_axes(from, to, all, out->from);
  moved_axes(to, from, all, out->to);
  return true;
}

int64_t pm_zigzag_global(int64_t size, int64_t c, int64_t at) {
  int64_t chunk = size / (2 * c), part = at / (2 * chunk), within = at % (2 * chunk);
  return within < chunk ? part * chunk + within : (2 * c - 2 - part) * chunk + within;
}

int64_t pm_zigzag_place(int64_t size, int64_t c, int64_t global) {
  int64_t chunk = size / (2 * c), number = global / chunk, within = global % chunk;
  return number < c ? 2 * number * chunk + within : (2 * (2 * c - 1 - number) + 1) * chunk + within;
}

// First element of the rank in the order of the ranks' parts.
static int64_t first_place(const PmModule *m, const PmDim *d, int64_t rank) {
  int64_t part = 0;
  for (int32_t i = 0; i < d->split.n; i++) {
    part = part * m->mesh[d->split.mesh[i]].size + pm_mesh_coord(m, rank, d->split.mesh[i]);
  }
  return part * pm_dim_local(m, d);
}

int64_t pm_dim_global(const PmModule *m, const PmDim *d, int64_t rank, int64_t local) {
  int64_t at = first_place(m, d, rank) + local;
  if (!pm_split_is_zigzag(&d->split)) return at;
  return pm_zigzag_global(pm_axis_size(m, d->axis), m->mesh[d->split.mesh[0]].size, at);
}

int64_t pm_dim_find(const PmModule *m, const PmDim *d, int64_t rank, int64_t global) {
  int64_t size = pm_axis_size(m, d->axis), at = global;
  if (global < 0 || global >= size) return PM_NONE;
  if (pm_split_is_zigzag(&d->split)) at = pm_zigzag_place(size, m->mesh[d->split.mesh[0]].size, global);
  at -= first_place(m, d, rank);
  return at >= 0 && at < pm_dim_local(m, d) ? at : PM_NONE;
}

bool pm_split_divides(const PmModule *m, const PmSplit *s, int64_t size) {
  int64_t parts = 1, chunks;
  for (int32_t i = 0; i < s->n; i++)
    if (!pm_mul_i64(parts, m->mesh[s->mesh[i]].size, &parts)) return false;
  if (parts < 1 || size % parts != 0) return false;
  return !pm_split_is_zigzag(s) || (pm_mul_i64(m->mesh[s->mesh[0]].size, 2, &chunks) && size % chunks == 0);
}
