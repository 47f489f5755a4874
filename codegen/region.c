#include "codegen/region.h"

#include <string.h>

#include "base/assert.h"
#include "base/hash.h"

PmCgRegion *pm_cg_region_new(PmCg *cg) { return PM_NEW(cg->arena, PmCgRegion); }

PmCgId pm_cg_value(PmCg *cg, PmCgRegion *r, const PmCgValue *v) {
  r->values = pm_grow(cg->arena, r->values, r->n_values, &r->cap_values, sizeof *r->values);
  r->values[r->n_values] = *v;
  return r->n_values++;
}

static uint64_t mix(uint64_t h, const void *data, size_t len) { return pm_hash64(data, len, h); }

static uint64_t node_hash(const PmCgNode *n, const PmCgValue *v) {
  const int32_t head[] = {(int32_t)n->op, n->n_in,   (int32_t)n->fn, (int32_t)n->kind, n->n_axes,
                          n->n_to,        n->n_mesh, v->dtype,       v->rank};
  uint64_t h = mix(0, head, sizeof head);
  h = mix(h, &n->number, sizeof n->number);
  h = mix(h, &n->index, sizeof n->index);
  h = mix(h, n->in, (size_t)n->n_in * sizeof *n->in);
  h = mix(h, n->axes, (size_t)n->n_axes * sizeof *n->axes);
  for (int32_t i = 0; i < v->rank; i++) h = mix(h, &v->dims[i].axis, sizeof v->dims[i].axis);
  return h;
}

static bool same_value(const PmCgValue *a, const PmCgValue *b) {
  if (a->dtype != b->dtype || a->rank != b->rank) return false;
  for (int32_t i = 0; i < a->rank; i++)
    if (a->dims[i].axis != b->dims[i].axis || a->dims[i].extent != b->dims[i].extent) return false;
  return true;
}

static bool same_node(const PmCgNode *a, const PmCgNode *b) {
  return a->op == b->op && a->n_in == b->n_in && memcmp(&a->number, &b->number, sizeof a->number) == 0 &&
         a->fn == b->fn && a->kind == b->kind && a->index == b->index && a->n_axes == b->n_axes && a->n_to == b->n_to &&
         a->n_mesh == b->n_mesh && memcmp(a->in, b->in, (size_t)a->n_in * sizeof *a->in) == 0 &&
         memcmp(a->axes, b->axes, (size_t)a->n_axes * sizeof *a->axes) == 0 &&
         memcmp(a->to, b->to, (size_t)a->n_to * sizeof *a->to) == 0 &&
         memcmp(a->mesh, b->mesh, (size_t)a->n_mesh) == 0 && memcmp(a->mesh_to, b->mesh_to, (size_t)a->n_mesh) == 0 &&
         memcmp(&a->offset, &b->offset, sizeof a->offset) == 0 && !a->rows == !b->rows &&
         (!a->rows || memcmp(a->rows, b->rows, sizeof *a->rows) == 0) && !a->draw == !b->draw &&
         (!a->draw || memcmp(a->draw, b->draw, sizeof *a->draw) == 0);
}

static void cse_insert(PmCgRegion *r, int32_t node, uint64_t h) {
  uint64_t at = h & (uint64_t)(r->n_cse - 1);
  while (r->cse[at]) at = (at + 1) & (uint64_t)(r->n_cse - 1);
  r->cse[at] = node + 1;
}

static void cse_grow(PmCg *cg, PmCgRegion *r) {
  if (2 * r->n_nodes < r->n_cse) return;
  r->n_cse = r->n_cse ? 2 * r->n_cse : 256;
  r->cse = PM_NEW_N(cg->arena, int32_t, r->n_cse);
  for (int32_t i = 0; i < r->n_nodes; i++) cse_insert(r, i, node_hash(&r->nodes[i], &r->values[r->nodes[i].out]));
}

static PmCgId cse_find(const PmCgRegion *r, const PmCgNode *n, const PmCgValue *v, uint64_t h) {
  for (uint64_t at = h & (uint64_t)(r->n_cse - 1); r->cse[at]; at = (at + 1) & (uint64_t)(r->n_cse - 1)) {
    const PmCgNode *e = &r->nodes[r->cse[at] - 1];
    if (same_node(e, n) && same_value(&r->values[e->out], v)) return e->out;
  }
  return PM_NONE;
}

PmCgId pm_cg_node(PmCg *cg, PmCgRegion *r, const PmCgNode *node, const PmCgId *in, int32_t n_in,
                  const PmCgValue *result) {
  PmCgNode n = *node;
  n.n_in = n_in;
  n.n_out = 1;
  n.in = PM_NEW_N(cg->arena, PmCgId, n_in + 1);
  if (n_in) memcpy(n.in, in, (size_t)n_in * sizeof *in);
  cse_grow(cg, r);
  const uint64_t h = node_hash(&n, result);
  const PmCgId known = n.body ? PM_NONE : cse_find(r, &n, result, h);
  if (known != PM_NONE) return known;
  PmCgValue v = *result;
  v.def = r->n_nodes;
  v.name = NULL;
  n.out = pm_cg_value(cg, r, &v);
  r->nodes = pm_grow(cg->arena, r->nodes, r->n_nodes, &r->cap_nodes, sizeof *r->nodes);
  r->nodes[r->n_nodes] = n;
  cse_insert(r, r->n_nodes++, h);
  return n.out;
}

int32_t pm_cg_find_axis(const PmCgValue *v, int32_t axis) {
  for (int32_t i = 0; i < v->rank; i++)
    if (v->dims[i].axis == axis) return i;
  return PM_NONE;
}

int64_t pm_cg_elements(const PmCgValue *v) {
  int64_t n = 1;
  for (int32_t i = 0; i < v->rank; i++)
    PM_ASSERT(pm_mul_i64(n, v->dims[i].extent, &n), "a value of more than 2^63 elements");
  return n;
}

bool pm_cg_is_op(const PmCgRegion *r, PmCgId v, PmOp op) { return r->values[v].def >= 0 && pm_cg_def(r, v)->op == op; }

bool pm_cg_coord_zero(const PmCoordTerm *t) {
  for (int32_t i = 0; i < PM_PROGRAM_MAX_MESH; i++)
    if (t->stride[i]) return false;
  return t->constant == 0;
}

int32_t pm_cg_loc(PmCg *cg, PmLoc loc) {
  if (!loc.path) return -1;
  for (int32_t i = cg->n_locs - 1; i >= 0; i--)
    if (cg->locs[i].line == loc.line && cg->locs[i].col == loc.col && strcmp(cg->locs[i].path, loc.path) == 0) return i;
  cg->locs = pm_grow(cg->out_arena, cg->locs, cg->n_locs, &cg->cap_locs, sizeof *cg->locs);
  cg->locs[cg->n_locs] = (PmProgLoc){pm_arena_strdup(cg->out_arena, loc.path), loc.line, loc.col};
  return cg->n_locs++;
}

// ---- kernels --------------------------------------------------------------------------------------------------------
static uint64_t kernel_hash(const PmKernel *k) {
  const int64_t head[] = {k->host, k->vec, k->n_outer, k->n_args, k->n_scalars, k->n_instrs};
  uint64_t h = mix(0, head, sizeof head);
  h = mix(h, k->outer, (size_t)k->n_outer * sizeof *k->outer);
  for (int32_t i = 0; i < k->n_instrs; i++) {
    const PmInstr *in = &k->instrs[i];
    const int64_t part[] = {in->op, in->dtype,  in->arg,  in->a,   in->b,
                            in->c,  in->extent, in->base, in->dyn, in->dyn_extent};
    h = mix(mix(h, part, sizeof part), &in->number, sizeof in->number);
  }
  return h;
}

static bool same_instr(const PmInstr *a, const PmInstr *b) {
  return a->op == b->op && a->dtype == b->dtype && a->arg == b->arg && a->a == b->a && a->b == b->b && a->c == b->c &&
         memcmp(&a->number, &b->number, sizeof a->number) == 0 && a->extent == b->extent && a->base == b->base &&
         memcmp(a->stride, b->stride, sizeof a->stride) == 0 && a->dyn == b->dyn && a->dyn_stride == b->dyn_stride &&
         a->dyn_extent == b->dyn_extent;
}

static bool same_kernel(const PmKernel *a, const PmKernel *b) {
  if (a->host != b->host || a->vec != b->vec || a->n_outer != b->n_outer || a->n_args != b->n_args ||
      a->n_scalars != b->n_scalars || a->n_instrs != b->n_instrs)
    return false;
  for (int32_t i = 0; i < a->n_outer; i++)
    if (a->outer[i] != b->outer[i] || a->outer_kind[i] != b->outer_kind[i]) return false;
  for (int32_t i = 0; i < a->n_args; i++)
    if (a->args[i].dtype != b->args[i].dtype || a->args[i].reads != b->args[i].reads ||
        a->args[i].writes != b->args[i].writes || a->args[i].bytes != b->args[i].bytes)
      return false;
  for (int32_t i = 0; i < a->n_instrs; i++)
    if (!same_instr(&a->instrs[i], &b->instrs[i])) return false;
  return true;
}

int32_t pm_cg_add_kernel(PmCg *cg, PmKernel *k) {
  const uint64_t h = kernel_hash(k);
  for (int32_t i = 0; i < cg->n_kernels; i++)
    if (cg->kernel_hash[i] == h && same_kernel(cg->kernels[i], k)) return i;
  cg->kernels = pm_grow(cg->arena, cg->kernels, cg->n_kernels, &cg->cap_kernels, sizeof(PmKernel *));
  cg->kernel_hash = pm_grow(cg->arena, cg->kernel_hash, cg->n_kernels, &cg->cap_kernel_hash, sizeof(uint64_t));
  cg->kernels[cg->n_kernels] = k;
  cg->kernel_hash[cg->n_kernels] = h;
  return cg->n_kernels++;
}

double pm_cg_kernel_flops(const PmKernel *k) {
  double turns = 1, flops = 0, open[PM_KERNEL_MAX_AXES + 1];
  int32_t depth = 0;
  for (int32_t i = 0; i < k->n_outer; i++) turns *= (double)k->outer[i];
  for (int32_t i = 0; i < k->n_instrs; i++) {
    const PmInstr *in = &k->instrs[i];
    if (in->op == PM_I_LOOP) {
      open[depth++] = turns;
      turns *= (double)in->extent;
    } else if (in->op == PM_I_END) {
      turns = open[--depth];
    } else if (in->dtype == PM_K_F32 || in->dtype == PM_K_F64) {
      const bool moves = in->op == PM_I_CONST || in->op == PM_I_LOAD || in->op == PM_I_STORE || in->op == PM_I_CVT ||
                         in->op == PM_I_SELECT || in->op == PM_I_BITCAST;
      flops += moves ? 0 : in->op == PM_I_FMA ? 2 * turns : turns;
    }
  }
  return flops;
}

// ---- virtual buffers and steps --------------------------------------------------------------------------------------
int32_t pm_cg_buf(PmCg *cg, PmCgRegion *r, PmKDtype dtype, int64_t elements, PmOwner owner, const char *name) {
  r->bufs = pm_grow(cg->arena, r->bufs, r->n_bufs, &r->cap_bufs, sizeof *r->bufs);
  int64_t bytes;
  PM_ASSERT(pm_mul_i64(elements, pm_kdtype_bytes(dtype), &bytes), "a buffer of more than 2^63 bytes");
  r->bufs[r->n_bufs] =
      (PmCgBuf){.dtype = (uint8_t)dtype, .owner = (uint8_t)owner, .bytes = bytes, .table = PM_NONE, .name = name};
  return r->n_bufs++;
}

PmCgStep *pm_cg_step(PmCg *cg, PmCgRegion *r, PmCgStepKind kind, int32_t n_refs) {
  r->steps = pm_grow(cg->arena, r->steps, r->n_steps, &r->cap_steps, sizeof *r->steps);
  PmCgStep *s = &r->steps[r->n_steps++];
  *s = (PmCgStep){.kind = kind, .loc = -1, .n_refs = n_refs, .kernel = PM_NONE};
  s->refs = PM_NEW_N(cg->arena, PmCgRef, n_refs + 1);
  s->writes = PM_NEW_N(cg->arena, bool, n_refs + 1);
  return s;
}
