#include "runtime/program_io.h"

#include <stdarg.h>
#include <string.h>

#include "base/checked.h"
#include "base/utf8.h"

static const char *const entry_words[] = {"setup", "step", "eval"};
static const char *const axis_kind_words[] = {"grid", "seq"};
static const char *const vec_words[] = {"outer", "loop"};
static const char *const step_words[] = {"kernel", "dot", "coll", "slots"};
static const char *const coll_words[] = {
#define COLL(NAME, name, fn) [PM_COLL_##NAME] = #name,
#include "runtime/colls.def"
};
static const char *const reduce_words[] = {"sum", "max"};
static const char *const role_words[] = {"param", "state", "input", "step"};
static const char *const init_words[] = {"none", "const", "normal", "uniform"};
static const char *const dtype_words[] = {"bool", "i32", "f32", "f64", "bf16", "f16"};
static const char *const owner_words[] = {"param", "state", "grad", "act", "input", "table", "comm", "scratch"};
static const char *const instr_words[] = {
#define INSTR(name, text, n_in, what) text,
#include "runtime/instrs.def"
};
_Static_assert(sizeof entry_words / sizeof *entry_words == PM_ENTRY_COUNT, "a word an entry");
_Static_assert(sizeof step_words / sizeof *step_words == PM_STEP_KIND_COUNT, "a word a step kind");
_Static_assert(sizeof role_words / sizeof *role_words == PM_VAR_ROLE_COUNT, "a word a role");
_Static_assert(sizeof init_words / sizeof *init_words == PM_VAR_INIT_COUNT, "a word an init");
_Static_assert(sizeof dtype_words / sizeof *dtype_words == PM_K_DTYPE_COUNT, "a word a dtype");
_Static_assert(sizeof owner_words / sizeof *owner_words == PM_OWN_COUNT, "a word an owner");

void pm_io_fail(PmIo *io, PmCode code, const char *fmt, ...) {
  if (io->status) return;
  PmBuf text = {0};
  va_list ap;
  va_start(ap, fmt);
  pm_buf_vprintf(&text, fmt, ap);
  va_end(ap);
  io->status = PM_STATUS(code, "%s: %s", io->path, pm_buf_str(&text));
  pm_buf_deinit(&text);
}

void *pm_io_alloc(PmIo *io, int64_t count, size_t size) {
  int64_t bytes;
  if (io->status) return NULL;
  if (!pm_mul_i64(count, (int64_t)size, &bytes) || bytes > io->budget) {
    pm_io_fail(io, PM_ERR_LIMIT, "the program needs more memory than its size allows");
    return NULL;
  }
  io->budget -= bytes;
  return pm_arena_alloc(io->arena, (size_t)bytes);
}

int64_t pm_program_budget(size_t len) {
  int64_t budget;
  if (len > INT64_MAX / 512 || !pm_mad_i64((int64_t)len, 256, INT64_C(64) << 20, &budget)) return INT64_MAX;
  return budget;
}

bool pm_io_string_ok(const char *s) {
  while (*s) {
    int n = pm_utf8_len(s);
    if (n == 0 || (unsigned char)*s < ' ' || *s == 0x7f) return false;
    s += n;
  }
  return true;
}

// A growing array while reading; the same array while writing.
static void *grow(PmIo *io, void *data, int32_t i, int32_t *cap, size_t size) {
  if (!io->reading || i < *cap) return data;
  int32_t want = *cap ? *cap * 2 : 4;
  if (want > INT32_MAX / 4) {
    pm_io_fail(io, PM_ERR_LIMIT, "too many records");
    return data;
  }
  void *more = pm_io_alloc(io, want, size);
  if (!more) return data;
  if (i) memcpy(more, data, (size_t)i * size);
  *cap = want;
  return more;
}

static bool next(PmIo *io, const char *tag, int32_t i, int32_t n) {
  return !io->status && io->vtbl->next(io, tag, i, n) && !io->status;
}

static void put_i64(PmIo *io, const char *key, int64_t *v, int64_t init) { io->vtbl->integer(io, key, v, init); }

static void put_i32(PmIo *io, const char *key, int32_t *v, int32_t init) {
  int64_t wide = *v;
  io->vtbl->integer(io, key, &wide, init);
  if (wide < INT32_MIN || wide > INT32_MAX) {
    pm_io_fail(io, PM_ERR_CORRUPTION, "`%s` is %lld, beyond 32 bits", key, (long long)wide);
    wide = init;
  }
  *v = (int32_t)wide;
}

static void put_bool(PmIo *io, const char *key, bool *v) {
  int64_t wide = *v;
  io->vtbl->integer(io, key, &wide, 0);
  if (wide != 0 && wide != 1) pm_io_fail(io, PM_ERR_CORRUPTION, "`%s` is %lld, not 0 or 1", key, (long long)wide);
  *v = wide == 1;
}

static void put_word(PmIo *io, const char *key, uint8_t *v, const char *const *words, int32_t n) {
  int64_t wide = *v;
  io->vtbl->word(io, key, &wide, 0, words, n);
  if (wide < 0 || wide >= n) {
    pm_io_fail(io, PM_ERR_CORRUPTION, "`%s` is %lld, beyond the %d known", key, (long long)wide, n);
    wide = 0;
  }
  *v = (uint8_t)wide;
}

static void put_range(PmIo *io, const char *key, PmRange *r) {
  int64_t v[2] = {r->offset, r->bytes};
  int32_t n = 2;
  io->vtbl->list(io, key, v, &n, 2, false);
  *r = (PmRange){v[0], v[1]};
}

static void put_mesh_list(PmIo *io, const char *key, uint8_t *mesh, int32_t *n) {
  int64_t v[PM_PROGRAM_MAX_MESH] = {0};
  for (int32_t i = 0; i < *n; i++) v[i] = mesh[i];
  io->vtbl->list(io, key, v, n, PM_PROGRAM_MAX_MESH, false);
  for (int32_t i = 0; i < *n && io->reading; i++) {
    if (v[i] < 0 || v[i] >= PM_PROGRAM_MAX_MESH) {
      pm_io_fail(io, PM_ERR_CORRUPTION, "mesh axis %lld", (long long)v[i]);
      v[i] = 0;
    }
    mesh[i] = (uint8_t)v[i];
  }
}

static void put_term(PmIo *io, PmCoordTerm *t) {
  int32_t n = PM_PROGRAM_MAX_MESH;
  io->vtbl->integer(io, "is", &t->constant, 0);
  io->vtbl->list(io, "by", t->stride, &n, PM_PROGRAM_MAX_MESH, true);
}

static void put_dims(PmIo *io, PmVarDim *dims, int32_t *rank) {
  int32_t i = 0;
  for (; next(io, "dim", i, *rank); i++) {
    if (i >= PM_PROGRAM_MAX_RANK) {
      pm_io_fail(io, PM_ERR_CORRUPTION, "more than %d dimensions", PM_PROGRAM_MAX_RANK);
      break;
    }
    io->vtbl->string(io, "axis", &dims[i].axis);
    put_i64(io, "size", &dims[i].size, 0);
    put_i64(io, "pad", &dims[i].pad, 0);
    put_mesh_list(io, "mesh", dims[i].mesh, &dims[i].n_mesh);
    put_bool(io, "zigzag", &dims[i].zigzag);
    io->vtbl->end(io);
  }
  *rank = i;
}

static void put_instr(PmIo *io, PmInstr *in) {
  int32_t n = PM_KERNEL_MAX_AXES;
  int64_t arg = in->arg;
  put_word(io, NULL, &in->op, instr_words, PM_INSTR_COUNT);
  put_word(io, NULL, &in->dtype, dtype_words, PM_K_DTYPE_COUNT);
  put_i64(io, "arg", &arg, 0);
  if (arg < INT16_MIN || arg > INT16_MAX) {
    pm_io_fail(io, PM_ERR_CORRUPTION, "instruction argument %lld", (long long)arg);
    arg = 0;
  }
  in->arg = (int16_t)arg;
  put_i32(io, "a", &in->a, -1);
  put_i32(io, "b", &in->b, -1);
  put_i32(io, "c", &in->c, -1);
  io->vtbl->number(io, "number", &in->number);
  put_i64(io, "extent", &in->extent, 0);
  put_i64(io, "base", &in->base, 0);
  io->vtbl->list(io, "stride", in->stride, &n, PM_KERNEL_MAX_AXES, true);
  put_i32(io, "dyn", &in->dyn, -1);
  put_i64(io, "dyn_stride", &in->dyn_stride, 0);
  put_i64(io, "dyn_extent", &in->dyn_extent, 0);
}

static void put_kernel(PmIo *io, PmKernel *k) {
  io->vtbl->string(io, "name", &k->name);
  put_bool(io, "host", &k->host);
  put_word(io, "vec", &k->vec, vec_words, 2);
  put_i32(io, "scalars", &k->n_scalars, 0);
  int32_t i = 0, cap = k->n_instrs;
  for (; next(io, "axis", i, k->n_outer); i++) {
    if (i >= PM_KERNEL_MAX_AXES) {
      pm_io_fail(io, PM_ERR_CORRUPTION, "a kernel has more than %d axes", PM_KERNEL_MAX_AXES);
      break;
    }
    put_i64(io, "extent", &k->outer[i], 0);
    put_word(io, "kind", &k->outer_kind[i], axis_kind_words, 2);
    io->vtbl->end(io);
  }
  k->n_outer = i;
  for (i = 0; next(io, "arg", i, k->n_args); i++) {
    if (i >= PM_KERNEL_MAX_ARGS) {
      pm_io_fail(io, PM_ERR_CORRUPTION, "a kernel has more than %d arguments", PM_KERNEL_MAX_ARGS);
      break;
    }
    put_word(io, NULL, &k->args[i].dtype, dtype_words, PM_K_DTYPE_COUNT);
    put_bool(io, "reads", &k->args[i].reads);
    put_bool(io, "writes", &k->args[i].writes);
    put_i64(io, "bytes", &k->args[i].bytes, 0);
    io->vtbl->end(io);
  }
  k->n_args = i;
  for (i = 0; next(io, "%", i, k->n_instrs); i++) {
    k->instrs = grow(io, k->instrs, i, &cap, sizeof *k->instrs);
    if (i >= cap) break;
    put_instr(io, &k->instrs[i]);
    io->vtbl->end(io);
  }
  k->n_instrs = i;
}

static void put_call(PmIo *io, const PmProgram *p, PmKernelCall *c) {
  put_i32(io, "kernel", &c->kernel, 0);
  if (c->kernel < 0 || c->kernel >= p->n_kernels) {
    pm_io_fail(io, PM_ERR_CORRUPTION, "a step calls kernel %d of %d", c->kernel, p->n_kernels);
    return;
  }
  const PmKernel *k = &p->kernels[c->kernel];
  for (int32_t i = 0; next(io, "at", i, k->n_args); i++) {
    if (i >= k->n_args) {
      pm_io_fail(io, PM_ERR_CORRUPTION, "kernel `%s` takes %d arguments", k->name ? k->name : "", k->n_args);
      return;
    }
    put_range(io, "range", &c->args[i]);
    io->vtbl->end(io);
  }
  for (int32_t i = 0; next(io, "scalar", i, k->n_scalars); i++) {
    if (i >= k->n_scalars || i >= PM_KERNEL_MAX_SCALARS) {
      pm_io_fail(io, PM_ERR_CORRUPTION, "kernel `%s` takes %d scalars", k->name ? k->name : "", k->n_scalars);
      return;
    }
    put_term(io, &c->scalars[i]);
    io->vtbl->end(io);
  }
}

static void put_dot(PmIo *io, PmDot *d) {
  put_word(io, NULL, &d->dtype, dtype_words, PM_K_DTYPE_COUNT);
  put_range(io, "a", &d->a);
  put_range(io, "b", &d->b);
  put_range(io, "c", &d->c);
  put_i64(io, "m", &d->m, 0);
  put_i64(io, "n", &d->n, 0);
  put_i64(io, "k", &d->k, 0);
  put_i64(io, "a_m", &d->a_m, 0);
  put_i64(io, "a_k", &d->a_k, 0);
  put_i64(io, "b_k", &d->b_k, 0);
  put_i64(io, "b_n", &d->b_n, 0);
  put_i64(io, "c_m", &d->c_m, 0);
  put_i64(io, "c_n", &d->c_n, 0);
  int32_t i = 0;
  for (; next(io, "loop", i, d->n_loops); i++) {
    if (i >= PM_DOT_MAX_LOOPS) {
      pm_io_fail(io, PM_ERR_CORRUPTION, "a dot has more than %d loops", PM_DOT_MAX_LOOPS);
      break;
    }
    put_i64(io, "extent", &d->loops[i].extent, 0);
    put_i64(io, "a", &d->loops[i].a, 0);
    put_i64(io, "b", &d->loops[i].b, 0);
    put_i64(io, "c", &d->loops[i].c, 0);
    put_bool(io, "sum", &d->loops[i].sum);
    io->vtbl->end(io);
  }
  d->n_loops = i;
}

static void put_rows(PmIo *io, PmRows *r) {
  put_range(io, "idx", &r->idx);
  put_i64(io, "width", &r->width, 0);
  int32_t i = 0;
  for (; next(io, "rows", i, r->n_dims); i++) {
    if (i >= PM_ROW_DIMS) {
      pm_io_fail(io, PM_ERR_CORRUPTION, "rows of more than %d axes", PM_ROW_DIMS);
      break;
    }
    put_i64(io, "size", &r->dims[i].size, 0);
    put_i64(io, "local", &r->dims[i].local, 0);
    put_term(io, &r->dims[i].first);
    io->vtbl->end(io);
  }
  r->n_dims = i;
}

static void put_more(PmIo *io, PmColl *c) {
  int32_t i = 0, cap = c->n_more;
  for (; next(io, "part", i, c->n_more); i++) {
    if (i >= PM_MAX_PARTS - 1) {
      pm_io_fail(io, PM_ERR_CORRUPTION, "a collective has more than %d parts", PM_MAX_PARTS);
      break;
    }
    c->more = grow(io, c->more, i, &cap, sizeof *c->more);
    if (i >= cap) break;
    put_i64(io, "count", &c->more[i].count, 0);
    put_range(io, "src", &c->more[i].src);
    put_range(io, "dst", &c->more[i].dst);
    io->vtbl->end(io);
  }
  c->n_more = i;
}

static void put_coll(PmIo *io, PmColl *c) {
  put_word(io, NULL, &c->kind, coll_words, PM_COLL_COUNT);
  put_word(io, NULL, &c->dtype, dtype_words, PM_K_DTYPE_COUNT);
  put_word(io, "reduce", &c->reduce, reduce_words, 2);
  put_mesh_list(io, "mesh", c->mesh, &c->n_mesh);
  if (c->kind == PM_COLL_PERMUTE) put_mesh_list(io, "to", c->to, &c->n_to);
  put_i64(io, "count", &c->count, 0);
  put_range(io, "src", &c->src);
  put_range(io, "dst", &c->dst);
  if (c->kind == PM_COLL_ALL_REDUCE) put_more(io, c);
  if (c->kind != PM_COLL_GATHER_ROWS && c->kind != PM_COLL_SCATTER_ROWS) return;
  if (io->reading) c->rows = pm_io_alloc(io, 1, sizeof *c->rows);
  if (c->rows) put_rows(io, c->rows);
}

static void put_slots(PmIo *io, PmSlots *s) {
  put_bool(io, "counting", &s->counting);
  put_bool(io, "bounded", &s->bounded);
  put_mesh_list(io, "mesh", s->mesh, &s->n_mesh);
  put_i64(io, "count", &s->count, 0);
  put_i64(io, "experts", &s->experts, 0);
  put_i64(io, "slots", &s->slots, 0);
  put_range(io, "idx", &s->idx);
  put_range(io, "counts", &s->counts);
  put_range(io, "work", &s->work);
  put_range(io, "dst", &s->dst);
}

static void put_step(PmIo *io, const PmProgram *p, PmStep *s) {
  put_word(io, NULL, &s->kind, step_words, PM_STEP_KIND_COUNT);
  io->vtbl->string(io, "op", &s->op);
  put_i32(io, "loc", &s->loc, -1);
  io->vtbl->number(io, "flops", &s->flops);
  io->vtbl->number(io, "bytes", &s->bytes);
  static const size_t sizes[] = {sizeof(PmKernelCall), sizeof(PmDot), sizeof(PmColl), sizeof(PmSlots)};
  if (io->reading) {
    void *body = pm_io_alloc(io, 1, sizes[s->kind]);
    if (!body) return;
    s->u.kernel = body;
  }
  if (s->kind == PM_STEP_KERNEL) put_call(io, p, s->u.kernel);
  if (s->kind == PM_STEP_DOT) put_dot(io, s->u.dot);
  if (s->kind == PM_STEP_COLL) put_coll(io, s->u.coll);
  if (s->kind == PM_STEP_SLOTS) put_slots(io, s->u.slots);
}

static void put_entry(PmIo *io, const PmProgram *p, PmEntry *e) {
  put_bool(io, "present", &e->present);
  int32_t i = 0, cap = e->n_steps;
  for (; next(io, "do", i, e->n_steps); i++) {
    e->steps = grow(io, e->steps, i, &cap, sizeof *e->steps);
    if (i >= cap) break;
    put_step(io, p, &e->steps[i]);
    io->vtbl->end(io);
  }
  e->n_steps = i;
  cap = e->n_outputs;
  for (i = 0; next(io, "output", i, e->n_outputs); i++) {
    e->outputs = grow(io, e->outputs, i, &cap, sizeof *e->outputs);
    if (i >= cap) break;
    PmOutput *o = &e->outputs[i];
    io->vtbl->string(io, "name", &o->name);
    put_word(io, NULL, &o->dtype, dtype_words, PM_K_DTYPE_COUNT);
    put_range(io, "at", &o->at);
    put_dims(io, o->dims, &o->rank);
    io->vtbl->end(io);
  }
  e->n_outputs = i;
}

static void put_head(PmIo *io, PmProgram *p) {
  int64_t seed;
  memcpy(&seed, &p->seed, sizeof seed);
  io->vtbl->open(io, "program", true);
  io->vtbl->string(io, "model", &p->model);
  io->vtbl->string(io, "plan", &p->plan);
  put_i64(io, "arena", &p->arena_bytes, 0);
  put_i64(io, "persistent", &p->persistent_bytes, 0);
  put_i64(io, "live", &p->live_bytes, 0);
  put_i64(io, "steps", &p->steps, 0);
  put_i64(io, "seed", &seed, 0);
  memcpy(&p->seed, &seed, sizeof seed);
  int32_t i = 0;
  for (; next(io, "mesh", i, p->n_mesh); i++) {
    if (i >= PM_PROGRAM_MAX_MESH) {
      pm_io_fail(io, PM_ERR_CORRUPTION, "more than %d mesh axes", PM_PROGRAM_MAX_MESH);
      break;
    }
    io->vtbl->string(io, "name", &p->mesh_name[i]);
    put_i64(io, "size", &p->mesh_size[i], 0);
    io->vtbl->end(io);
  }
  p->n_mesh = i;
  io->vtbl->end(io);
}

static void put_data(PmIo *io, PmProgData *d) {
  io->vtbl->open(io, "data", true);
  io->vtbl->string(io, "format", &d->format);
  put_i32(io, "x", &d->x, -1);
  put_i32(io, "y", &d->y, -1);
  put_bool(io, "shuffle", &d->shuffle);
  int32_t i = 0, cap = d->n_files;
  for (; next(io, "file", i, d->n_files); i++) {
    d->files = (const char **)grow(io, (void *)d->files, i, &cap, sizeof *d->files);
    if (i >= cap) break;
    io->vtbl->string(io, "path", &d->files[i]);
    io->vtbl->end(io);
  }
  d->n_files = i;
  for (i = 0, cap = d->n_feeds; next(io, "feed", i, d->n_feeds); i++) {
    d->feeds = grow(io, d->feeds, i, &cap, sizeof *d->feeds);
    if (i >= cap) break;
    put_i32(io, "var", &d->feeds[i].var, -1);
    put_i32(io, "first", &d->feeds[i].first, 0);
    put_i32(io, "files", &d->feeds[i].n_files, 0);
    io->vtbl->end(io);
  }
  d->n_feeds = i;
  io->vtbl->end(io);
}

static void put_vars(PmIo *io, PmProgram *p) {
  int32_t i = 0, cap = p->n_vars;
  io->vtbl->open(io, "vars", true);
  for (; next(io, "var", i, p->n_vars); i++) {
    p->vars = grow(io, p->vars, i, &cap, sizeof *p->vars);
    if (i >= cap) break;
    PmProgVar *v = &p->vars[i];
    io->vtbl->string(io, "path", &v->path);
    put_word(io, NULL, &v->dtype, dtype_words, PM_K_DTYPE_COUNT);
    put_word(io, "role", &v->role, role_words, PM_VAR_ROLE_COUNT);
    put_word(io, "init", &v->init, init_words, PM_VAR_INIT_COUNT);
    io->vtbl->number(io, "value", &v->init_value);
    put_i32(io, "twin", &v->twin, -1);
    put_i64(io, "index", &v->index_size, 0);
    put_range(io, "at", &v->at);
    put_dims(io, v->dims, &v->rank);
    io->vtbl->end(io);
  }
  p->n_vars = i;
  io->vtbl->end(io);
}

static void put_locs(PmIo *io, PmProgram *p) {
  int32_t i = 0, cap = p->n_locs;
  io->vtbl->open(io, "locs", true);
  for (; next(io, "loc", i, p->n_locs); i++) {
    p->locs = grow(io, p->locs, i, &cap, sizeof *p->locs);
    if (i >= cap) break;
    io->vtbl->string(io, "path", &p->locs[i].path);
    put_i32(io, "line", &p->locs[i].line, 0);
    put_i32(io, "col", &p->locs[i].col, 0);
    io->vtbl->end(io);
  }
  p->n_locs = i;
  io->vtbl->end(io);
}

static void put_kernels(PmIo *io, PmProgram *p) {
  int32_t i = 0, cap = p->n_kernels;
  io->vtbl->open(io, "kernels", true);
  for (; next(io, "kernel", i, p->n_kernels); i++) {
    p->kernels = grow(io, p->kernels, i, &cap, sizeof *p->kernels);
    if (i >= cap) break;
    put_kernel(io, &p->kernels[i]);
    io->vtbl->end(io);
  }
  p->n_kernels = i;
  io->vtbl->end(io);
}

static void put_buffers(PmIo *io, PmProgram *p) {
  int32_t i = 0, cap = p->n_buffers;
  io->vtbl->open(io, "buffers", true);
  for (; next(io, "buffer", i, p->n_buffers); i++) {
    p->buffers = grow(io, p->buffers, i, &cap, sizeof *p->buffers);
    if (i >= cap) break;
    PmBuffer *b = &p->buffers[i];
    io->vtbl->string(io, "name", &b->name);
    put_range(io, "at", &b->at);
    put_word(io, "owner", &b->owner, owner_words, PM_OWN_COUNT);
    put_i32(io, "entry", &b->entry, -1);
    put_i32(io, "first", &b->first, 0);
    put_i32(io, "last", &b->last, 0);
    io->vtbl->end(io);
  }
  p->n_buffers = i;
  io->vtbl->end(io);
}

void pm_program_io(PmIo *io, PmProgram *p) {
  put_head(io, p);
  put_data(io, &p->data);
  put_locs(io, p);
  put_vars(io, p);
  put_kernels(io, p);
  for (int32_t e = 0; e < PM_ENTRY_COUNT; e++) {
    io->vtbl->open(io, entry_words[e], true);
    put_entry(io, p, &p->entries[e]);
    io->vtbl->end(io);
  }
  put_buffers(io, p);
}
