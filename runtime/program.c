#include "runtime/program.h"

#include <string.h>

#include "base/assert.h"
#include "base/hash.h"
#include "base/names.h"

const char *pm_owner_text(PmOwner o) {
  static const char *const text[] = {
      [PM_OWN_PARAM] = "param", [PM_OWN_STATE] = "state", [PM_OWN_GRAD] = "grad", [PM_OWN_ACT] = "act",
      [PM_OWN_INPUT] = "input", [PM_OWN_TABLE] = "table", [PM_OWN_COMM] = "comm", [PM_OWN_SCRATCH] = "scratch",
  };
  PM_ASSERT((unsigned)o < PM_OWN_COUNT, "owner %d", (int)o);
  return text[o];
}

int64_t pm_program_ranks(const PmProgram *p) {
  int64_t ranks = 1;
  for (int32_t m = 0; m < p->n_mesh; m++) ranks *= p->mesh_size[m];
  return ranks;
}

int64_t pm_program_micro_batches(const PmProgram *p) {
  for (int32_t v = 0; v < p->n_vars; v++) {
    for (int32_t i = 0; p->vars[v].role == PM_VAR_INPUT && i < p->vars[v].rank; i++) {
      const PmVarDim *d = &p->vars[v].dims[i];
      if (d->axis && strcmp(d->axis, PM_TURN_AXIS) == 0 && d->size > 0) return d->size;
    }
  }
  return 1;
}

int64_t pm_program_coord(const PmProgram *p, int64_t rank, int32_t mesh) {
  int64_t inner = 1;
  for (int32_t m = mesh + 1; m < p->n_mesh; m++) inner *= p->mesh_size[m];
  return rank / inner % p->mesh_size[mesh];
}

int64_t pm_coord_term(const PmProgram *p, const PmCoordTerm *t, int64_t rank) {
  int64_t value = t->constant;
  for (int32_t m = 0; m < p->n_mesh; m++) {
    if (t->stride[m]) value += t->stride[m] * pm_program_coord(p, rank, m);
  }
  return value;
}

int64_t pm_program_group(const PmProgram *p, const uint8_t *mesh, int32_t n) {
  int64_t group = 1;
  for (int32_t i = 0; i < n; i++) group *= p->mesh_size[mesh[i]];
  return group;
}

int64_t pm_program_member(const PmProgram *p, const uint8_t *mesh, int32_t n, int64_t rank) {
  int64_t at = 0;
  for (int32_t i = 0; i < n; i++) at = at * p->mesh_size[mesh[i]] + pm_program_coord(p, rank, mesh[i]);
  return at;
}

int64_t pm_coll_bytes(const PmColl *c) {
  if (c->rows) return c->count * c->rows->width * pm_kdtype_bytes((PmKDtype)c->dtype);
  int64_t bytes = 0;
  for (int32_t i = 0; i <= c->n_more; i++) {
    PmCollPart part = pm_coll_part(c, i);
    bytes += part.src.bytes > part.dst.bytes ? part.src.bytes : part.dst.bytes;
  }
  return bytes;
}

int64_t pm_coll_elements(const PmColl *c) {
  int64_t n = 0;
  for (int32_t i = 0; i <= c->n_more; i++) n += pm_coll_part(c, i).count;
  return n;
}

uint64_t pm_coll_form(const PmColl *c) {
  const int64_t head[] = {c->kind, c->dtype, c->reduce, c->n_mesh, c->n_to, c->n_more, c->rows != NULL};
  uint64_t h = pm_hash64(head, sizeof head, 0);
  h = pm_hash64(c->mesh, (size_t)c->n_mesh, h);
  h = pm_hash64(c->to, (size_t)c->n_to, h);
  for (int32_t i = 0; i <= c->n_more; i++) {
    int64_t count = pm_coll_part(c, i).count;
    h = pm_hash64(&count, sizeof count, h);
  }
  if (!c->rows) return h;
  h = pm_hash64(&c->rows->width, sizeof c->rows->width, h);
  for (int32_t i = 0; i < c->rows->n_dims; i++) {
    const int64_t dim[] = {c->rows->dims[i].size, c->rows->dims[i].local};
    h = pm_hash64(dim, sizeof dim, h);
  }
  return h;
}

int64_t pm_var_dim_local(const PmProgram *p, const PmVarDim *d) {
  int64_t size = d->size + d->pad;
  for (int32_t i = 0; i < d->n_mesh; i++) size /= p->mesh_size[d->mesh[i]];
  return size;
}

int64_t pm_var_dim_global(const PmProgram *p, const PmVarDim *d, int64_t rank, int64_t local, int64_t *out_run) {
  int64_t shard = 0, size = pm_var_dim_local(p, d);
  for (int32_t i = 0; i < d->n_mesh; i++) {
    shard = shard * p->mesh_size[d->mesh[i]] + pm_program_coord(p, rank, d->mesh[i]);
  }
  int64_t at = shard * size + local;
  *out_run = size - local;
  if (d->n_mesh == 0 || !d->zigzag) return at;
  int64_t c = p->mesh_size[d->mesh[0]], chunk = d->size / (2 * c), part = at / (2 * chunk), within = at % (2 * chunk);
  int64_t left = within < chunk ? chunk - within : 2 * chunk - within;
  if (left < *out_run) *out_run = left;
  return within < chunk ? part * chunk + within : (2 * c - 2 - part) * chunk + within;
}

int64_t pm_coll_source(const PmProgram *p, const PmColl *c, int64_t member) {
  if (c->kind == PM_COLL_SHIFT) {
    int64_t n = pm_program_group(p, c->mesh, c->n_mesh);
    return (member + n - 1) % n;
  }
  int64_t coord[PM_PROGRAM_MAX_MESH] = {0}, at = 0;
  for (int32_t i = c->n_mesh - 1; i >= 0; i--) {
    coord[c->mesh[i]] = member % p->mesh_size[c->mesh[i]];
    member /= p->mesh_size[c->mesh[i]];
  }
  for (int32_t i = 0; i < c->n_to; i++) at = at * p->mesh_size[c->to[i]] + coord[c->to[i]];
  return at;
}

int64_t pm_kdtype_bytes(PmKDtype d) {
  static const int8_t bytes[] = {
      [PM_K_BOOL] = 1, [PM_K_I32] = 4, [PM_K_F32] = 4, [PM_K_F64] = 8, [PM_K_BF16] = 2, [PM_K_F16] = 2};
  PM_ASSERT((unsigned)d < PM_K_DTYPE_COUNT, "dtype %d", (int)d);
  return bytes[d];
}

const char *pm_kdtype_text(PmKDtype d) {
  static const char *const text[] = {[PM_K_BOOL] = "bool", [PM_K_I32] = "i32",   [PM_K_F32] = "f32",
                                     [PM_K_F64] = "f64",   [PM_K_BF16] = "bf16", [PM_K_F16] = "f16"};
  PM_ASSERT((unsigned)d < PM_K_DTYPE_COUNT, "dtype %d", (int)d);
  return text[d];
}

const char *pm_instr_text(PmInstrOp op) {
  static const char *const text[] = {
#define INSTR(name, txt, n_in, what) [PM_I_##name] = txt,
#include "runtime/instrs.def"
  };
  PM_ASSERT((unsigned)op < PM_INSTR_COUNT, "instruction %d", (int)op);
  return text[op];
}

int32_t pm_instr_n_in(PmInstrOp op) {
  static const int8_t n[] = {
#define INSTR(name, txt, n_in, what) [PM_I_##name] = n_in,
#include "runtime/instrs.def"
  };
  PM_ASSERT((unsigned)op < PM_INSTR_COUNT, "instruction %d", (int)op);
  return n[op];
}
