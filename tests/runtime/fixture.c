#include "fixture.h"

#include <string.h>

#define ROOM 64

Kb kb_new(PmArena *arena, PmKernel *k, const char *name) {
  *k = (PmKernel){.name = name};
  return (Kb){.arena = arena, .k = k};
}

int32_t kb_outer(Kb *b, int64_t extent, PmKAxisKind kind) {
  b->k->outer[b->k->n_outer] = extent;
  b->k->outer_kind[b->k->n_outer] = (uint8_t)kind;
  b->axes++;
  return b->k->n_outer++;
}

int32_t kb_arg(Kb *b, PmKDtype dtype, int64_t elements, bool reads, bool writes) {
  b->k->args[b->k->n_args] = (PmKArg){(uint8_t)dtype, reads, writes, elements * pm_kdtype_bytes(dtype)};
  return b->k->n_args++;
}

PmInstr *kb_last(Kb *b) { return &b->k->instrs[b->k->n_instrs - 1]; }

int32_t kb_op(Kb *b, PmInstrOp op, PmKDtype dtype, int32_t x, int32_t y, int32_t z) {
  b->k->instrs = pm_grow(b->arena, b->k->instrs, b->k->n_instrs, &b->cap, sizeof *b->k->instrs);
  b->k->instrs[b->k->n_instrs++] =
      (PmInstr){.op = (uint8_t)op, .dtype = (uint8_t)dtype, .a = x, .b = y, .c = z, .dyn = -1};
  return b->k->n_instrs - 1;
}

int32_t kb_const(Kb *b, PmKDtype dtype, double v) {
  int32_t at = kb_op(b, PM_I_CONST, dtype, -1, -1, -1);
  kb_last(b)->number = v;
  return at;
}

int32_t kb_index(Kb *b, int32_t axis) {
  int32_t at = kb_op(b, PM_I_INDEX, PM_K_I32, -1, -1, -1);
  kb_last(b)->arg = (int16_t)axis;
  return at;
}

static int32_t place(Kb *b, int32_t at, int32_t arg, int64_t base, int64_t s0, int64_t s1, int64_t s2) {
  PmInstr *in = kb_last(b);
  in->arg = (int16_t)arg;
  in->base = base;
  in->stride[0] = s0;
  in->stride[1] = s1;
  in->stride[2] = s2;
  return at;
}

int32_t kb_load(Kb *b, int32_t arg, int64_t base, int64_t s0, int64_t s1, int64_t s2) {
  int32_t at = kb_op(b, PM_I_LOAD, (PmKDtype)b->k->args[arg].dtype, -1, -1, -1);
  return place(b, at, arg, base, s0, s1, s2);
}

int32_t kb_store(Kb *b, int32_t arg, int32_t value, int64_t base, int64_t s0, int64_t s1, int64_t s2) {
  int32_t at = kb_op(b, PM_I_STORE, (PmKDtype)b->k->args[arg].dtype, value, -1, -1);
  return place(b, at, arg, base, s0, s1, s2);
}

int32_t kb_loop(Kb *b, int64_t extent) {
  kb_op(b, PM_I_LOOP, PM_K_F32, -1, -1, -1);
  kb_last(b)->arg = (int16_t)b->axes;
  kb_last(b)->extent = extent;
  return b->axes++;
}

void kb_end(Kb *b) { kb_op(b, PM_I_END, PM_K_F32, -1, -1, -1); }

PmProgram *fixture_empty(PmArena *arena, int64_t m0, int64_t m1, int64_t m2) {
  static const char *const names[] = {"data", "tensor", "pipe"};
  const int64_t sizes[] = {m0, m1, m2};
  PmProgram *p = PM_NEW(arena, PmProgram);
  p->arena = arena;
  p->model = "fixture";
  for (int i = 0; i < 3 && sizes[i]; i++) {
    p->mesh_name[i] = names[i];
    p->mesh_size[i] = sizes[i];
    p->n_mesh++;
  }
  p->data.x = p->data.y = -1;
  p->seed = 7;
  p->steps = 10;
  p->buffers = PM_NEW_N(arena, PmBuffer, ROOM);
  p->kernels = PM_NEW_N(arena, PmKernel, ROOM);
  p->vars = PM_NEW_N(arena, PmProgVar, ROOM);
  p->locs = PM_NEW_N(arena, PmProgLoc, 2);
  p->n_locs = 1;
  p->locs[0] = (PmProgLoc){"fixture.pmodel", 3, 5};
  for (int32_t e = 0; e < PM_ENTRY_COUNT; e++) {
    p->entries[e].steps = PM_NEW_N(arena, PmStep, ROOM);
    p->entries[e].outputs = PM_NEW_N(arena, PmOutput, ROOM);
  }
  return p;
}

PmStep *fixture_step(PmProgram *p, int32_t entry, PmStepKind kind, const char *op) {
  PmEntry *e = &p->entries[entry];
  PmStep *s = &e->steps[e->n_steps++];
  e->present = true;
  *s = (PmStep){.kind = (uint8_t)kind, .loc = 0, .op = op, .flops = 10, .bytes = 40};
  if (kind == PM_STEP_KERNEL) s->u.kernel = PM_NEW(p->arena, PmKernelCall);
  if (kind == PM_STEP_DOT) s->u.dot = PM_NEW(p->arena, PmDot);
  if (kind == PM_STEP_COLL) s->u.coll = PM_NEW(p->arena, PmColl);
  if (kind == PM_STEP_SLOTS) s->u.slots = PM_NEW(p->arena, PmSlots);
  return s;
}

PmBuffer *fixture_buffer(PmProgram *p, const char *name, int64_t offset, int64_t bytes, int32_t entry, int32_t first,
                         int32_t last) {
  PmBuffer *b = &p->buffers[p->n_buffers++];
  *b = (PmBuffer){{offset, bytes}, PM_OWN_ACT, entry, first, last, name};
  return b;
}

void fixture_finish(PmProgram *p) {
  p->persistent_bytes = p->arena_bytes = 0;
  for (int32_t i = 0; i < p->n_buffers; i++) {
    int64_t end = (p->buffers[i].at.offset + p->buffers[i].at.bytes + 63) / 64 * 64;
    if (end > p->arena_bytes) p->arena_bytes = end;
    if (p->buffers[i].entry == -1 && end > p->persistent_bytes) p->persistent_bytes = end;
  }
  p->live_bytes = p->arena_bytes;
}

// ---- the model -----------------------------------------------------------------------------------------------------
enum { BATCH = 4, IN = 6, OUT = 8 };

static PmVarDim dim(const char *axis, int64_t size, int32_t mesh) {
  PmVarDim d = {.axis = axis, .size = size};
  if (mesh >= 0) d.mesh[d.n_mesh++] = (uint8_t)mesh;
  return d;
}

static PmRange at_buffer(const PmProgram *p, const char *name) {
  for (int32_t i = 0; i < p->n_buffers; i++) {
    if (strcmp(p->buffers[i].name, name) == 0) return p->buffers[i].at;
  }
  return (PmRange){0};
}

static void add_var(PmProgram *p, const char *path, PmVarRole role, PmKDtype dtype, int32_t rank, PmVarDim d0,
                    PmVarDim d1) {
  PmProgVar *v = &p->vars[p->n_vars++];
  *v = (PmProgVar){
      .path = path, .role = (uint8_t)role, .dtype = (uint8_t)dtype, .rank = rank, .dims = {d0, d1}, .twin = -1};
  v->at = at_buffer(p, path);
}

static void table_kernel(PmArena *arena, PmKernel *k) {
  Kb b = kb_new(arena, k, "table");
  k->host = true;
  kb_outer(&b, IN, PM_KA_GRID);
  kb_arg(&b, PM_K_F32, IN, false, true);
  int32_t angle = kb_op(&b, PM_I_CVT, PM_K_F64, kb_index(&b, 0), -1, -1);
  int32_t cosine = kb_op(&b, PM_I_CALL_COS, PM_K_F64, angle, -1, -1);
  kb_store(&b, 0, kb_op(&b, PM_I_CVT, PM_K_F32, cosine, -1, -1), 0, 1, 0, 0);
}

static void scale_kernel(PmArena *arena, PmKernel *k, int64_t rows) {
  Kb b = kb_new(arena, k, "scale");
  kb_outer(&b, rows, PM_KA_GRID);
  kb_outer(&b, IN, PM_KA_GRID);
  kb_arg(&b, PM_K_I32, rows * IN, true, false);
  kb_arg(&b, PM_K_F32, IN, true, false);
  kb_arg(&b, PM_K_I32, 1, true, false);
  kb_arg(&b, PM_K_F32, rows * IN, false, true);
  int32_t x = kb_op(&b, PM_I_CVT, PM_K_F32, kb_load(&b, 0, 0, IN, 1, 0), -1, -1);
  int32_t t = kb_op(&b, PM_I_CVT, PM_K_F32, kb_load(&b, 2, 0, 0, 0, 0), -1, -1);
  kb_store(&b, 3, kb_op(&b, PM_I_FMA, PM_K_F32, x, kb_load(&b, 1, 0, 0, 1, 0), t), 0, IN, 1, 0);
}

// to[row] = sum over col of from[row, col]; without rows a scalar.
static void sum_kernel(PmArena *arena, PmKernel *k, const char *name, int64_t rows, int64_t cols) {
  Kb b = kb_new(arena, k, name);
  k->vec = PM_VEC_LOOP;
  if (rows > 1) kb_outer(&b, rows, PM_KA_GRID);
  kb_arg(&b, PM_K_F32, rows * cols, true, false);
  kb_arg(&b, PM_K_F32, rows, false, true);
  int32_t axis = kb_loop(&b, cols);
  int32_t v = kb_load(&b, 0, 0, 0, 0, 0);
  kb_last(&b)->stride[0] = rows > 1 ? cols : 0;
  kb_last(&b)->stride[axis] = 1;
  int32_t sum = kb_op(&b, PM_I_ACC_SUM, PM_K_F32, v, -1, -1);
  kb_end(&b);
  kb_store(&b, 1, sum, 0, rows > 1 ? 1 : 0, 0, 0);
}

static void update_kernel(PmArena *arena, PmKernel *k, int64_t n) {
  Kb b = kb_new(arena, k, "update");
  kb_outer(&b, n, PM_KA_GRID);
  kb_arg(&b, PM_K_F32, n, true, false);
  kb_arg(&b, PM_K_F32, n, false, true);
  int32_t v = kb_load(&b, 0, 0, 1, 0, 0), factor = kb_const(&b, PM_K_F32, 0.75);
  kb_store(&b, 1, kb_op(&b, PM_I_MUL, PM_K_F32, v, factor, -1), 0, 1, 0, 0);
}

// `args`: names of buffers, ended by NULL.
static void call(PmProgram *p, int32_t entry, int32_t kernel, const char *const *args) {
  PmStep *s = fixture_step(p, entry, PM_STEP_KERNEL, p->kernels[kernel].name);
  s->u.kernel->kernel = kernel;
  for (int32_t i = 0; args[i]; i++) s->u.kernel->args[i] = at_buffer(p, args[i]);
}

static void all_reduce(PmProgram *p, const char *buffer, int32_t mesh, int64_t count) {
  PmColl *c = fixture_step(p, PM_ENTRY_STEP, PM_STEP_COLL, "all_reduce")->u.coll;
  *c = (PmColl){.kind = PM_COLL_ALL_REDUCE, .dtype = PM_K_F32, .n_mesh = 1, .count = count};
  c->mesh[0] = (uint8_t)mesh;
  c->src = c->dst = at_buffer(p, buffer);
}

PmProgram *fixture_model(PmArena *arena, int64_t data, int64_t tensor) {
  PmProgram *p = fixture_empty(arena, data, tensor, 0);
  int64_t rows = BATCH / data, outs = OUT / tensor;
  fixture_buffer(p, "w", 0, outs * IN * 4, -1, 0, 0)->owner = PM_OWN_PARAM;
  fixture_buffer(p, "x", 192, rows * IN * 4, -1, 0, 0)->owner = PM_OWN_INPUT;
  fixture_buffer(p, "y", 320, rows * IN * 4, -1, 0, 0)->owner = PM_OWN_INPUT;
  fixture_buffer(p, "t", 448, 4, -1, 0, 0)->owner = PM_OWN_STATE;
  fixture_buffer(p, "table", 512, IN * 4, -1, 0, 0)->owner = PM_OWN_TABLE;
  fixture_buffer(p, "xf", 576, rows * IN * 4, PM_ENTRY_STEP, 0, 1);
  fixture_buffer(p, "h", 704, rows * outs * 4, PM_ENTRY_STEP, 1, 6);
  fixture_buffer(p, "part", 576, rows * 4, PM_ENTRY_STEP, 2, 4);
  fixture_buffer(p, "loss", 832, 4, PM_ENTRY_STEP, 4, 6);
  fixture_finish(p);

  add_var(p, "w", PM_VAR_PARAM, PM_K_F32, 2, dim("out", OUT, 1), dim("in", IN, -1));
  p->vars[MODEL_W].init = PM_VAR_INIT_NORMAL;
  p->vars[MODEL_W].init_value = 0.5;
  add_var(p, "x", PM_VAR_INPUT, PM_K_I32, 2, dim("batch", BATCH, 0), dim("in", IN, -1));
  add_var(p, "y", PM_VAR_INPUT, PM_K_I32, 2, dim("batch", BATCH, 0), dim("in", IN, -1));
  p->vars[MODEL_X].index_size = p->vars[MODEL_Y].index_size = 256;
  add_var(p, "t", PM_VAR_STEP, PM_K_I32, 0, (PmVarDim){0}, (PmVarDim){0});

  p->n_kernels = 5;
  table_kernel(arena, &p->kernels[0]);
  scale_kernel(arena, &p->kernels[1], rows);
  sum_kernel(arena, &p->kernels[2], "rows", rows, outs);
  sum_kernel(arena, &p->kernels[3], "total", 1, rows);
  update_kernel(arena, &p->kernels[4], outs * IN);

  call(p, PM_ENTRY_SETUP, 0, (const char *[]){"table", NULL});
  call(p, PM_ENTRY_STEP, 1, (const char *[]){"x", "table", "t", "xf", NULL});
  PmDot *d = fixture_step(p, PM_ENTRY_STEP, PM_STEP_DOT, "dot[in]")->u.dot;
  *d = (PmDot){.dtype = PM_K_F32,
               .m = rows,
               .n = outs,
               .k = IN,
               .a_m = IN,
               .a_k = 1,
               .b_k = 1,
               .b_n = IN,
               .c_m = outs,
               .c_n = 1};
  d->a = at_buffer(p, "xf");
  d->b = at_buffer(p, "w");
  d->c = at_buffer(p, "h");
  call(p, PM_ENTRY_STEP, 2, (const char *[]){"h", "part", NULL});
  all_reduce(p, "part", 1, rows);
  call(p, PM_ENTRY_STEP, 3, (const char *[]){"part", "loss", NULL});
  all_reduce(p, "loss", 0, 1);
  call(p, PM_ENTRY_STEP, 4, (const char *[]){"w", "w", NULL});

  PmEntry *e = &p->entries[PM_ENTRY_STEP];
  e->outputs[e->n_outputs++] = (PmOutput){.name = "loss", .dtype = PM_K_F32, .at = at_buffer(p, "loss")};
  e->outputs[e->n_outputs++] = (PmOutput){.name = "h",
                                          .dtype = PM_K_F32,
                                          .rank = 2,
                                          .at = at_buffer(p, "h"),
                                          .dims = {dim("batch", BATCH, 0), dim("out", OUT, 1)}};
  return p;
}

// ---- routing -------------------------------------------------------------------------------------------------------
enum { ROUTE_COUNT = 8, ROUTE_SLOTS = 2, ROUTE_WIDTH = 3 };

static PmColl *add_rows(PmProgram *p, PmCollKind kind, int64_t data) {
  const char *op = kind == PM_COLL_GATHER_ROWS ? "gather_rows" : "scatter_rows";
  PmColl *c = fixture_step(p, PM_ENTRY_STEP, PM_STEP_COLL, op)->u.coll;
  *c = (PmColl){.kind = (uint8_t)kind, .dtype = PM_K_F32, .n_mesh = 1, .count = ROUTE_COUNT};
  c->rows = PM_NEW(p->arena, PmRows);
  *c->rows = (PmRows){.width = ROUTE_WIDTH, .n_dims = 2};
  c->rows->dims[0] = (PmRowDim){.size = 2 * data, .local = 2, .first = {.stride = {2}}};
  c->rows->dims[1] = (PmRowDim){.size = ROUTE_SLOTS, .local = ROUTE_SLOTS};
  return c;
}

PmProgram *fixture_routing(PmArena *arena, int64_t data) {
  PmProgram *p = fixture_empty(arena, data, 0, 0);
  const int64_t experts = 2 * data, sizes[] = {ROUTE_COUNT * 4,
                                               ROUTE_COUNT * ROUTE_WIDTH * 4,
                                               experts * 4,
                                               experts * data * 4,
                                               ROUTE_COUNT * 4,
                                               experts * 4,
                                               2 * ROUTE_SLOTS * ROUTE_WIDTH * 4,
                                               ROUTE_COUNT * ROUTE_WIDTH * 4};
  static const char *const names[] = {"idx", "x", "counts", "all", "slots", "work", "h", "y"};
  PmRange at[8];
  int64_t end = 0;
  for (int i = 0; i < 8; i++) {
    at[i] = fixture_buffer(p, names[i], end, sizes[i], -1, 0, 0)->at;
    end = (end + sizes[i] + 63) / 64 * 64;
  }
  PmSlots *s = fixture_step(p, PM_ENTRY_STEP, PM_STEP_SLOTS, "count[expert]")->u.slots;
  *s = (PmSlots){.counting = true, .count = ROUTE_COUNT, .experts = experts, .idx = at[0], .dst = at[2]};
  PmColl *c = fixture_step(p, PM_ENTRY_STEP, PM_STEP_COLL, "all_gather")->u.coll;
  *c = (PmColl){
      .kind = PM_COLL_ALL_GATHER, .dtype = PM_K_I32, .n_mesh = 1, .count = experts, .src = at[2], .dst = at[3]};
  s = fixture_step(p, PM_ENTRY_STEP, PM_STEP_SLOTS, "slot_of[expert]")->u.slots;
  *s = (PmSlots){.bounded = true, .n_mesh = 1, .count = ROUTE_COUNT, .experts = experts, .slots = ROUTE_SLOTS};
  s->idx = at[0];
  s->counts = at[3];
  s->work = at[5];
  s->dst = at[4];
  c = add_rows(p, PM_COLL_SCATTER_ROWS, data);
  c->src = at[1];
  c->dst = at[6];
  c->rows->idx = at[4];
  c = add_rows(p, PM_COLL_GATHER_ROWS, data);
  c->src = at[6];
  c->dst = at[7];
  c->rows->idx = at[4];
  fixture_finish(p);
  return p;
}

PmProgram *fixture_bucket(PmArena *arena, int64_t data) {
  PmProgram *p = fixture_empty(arena, data, 0, 0);
  static const char *const names[] = {"a", "b", "c", "d"};
  static const int64_t counts[] = {10, 3, 3, 1};
  PmRange at[4];
  for (int i = 0; i < 4; i++) at[i] = fixture_buffer(p, names[i], 64 * i, counts[i] * 4, -1, 0, 0)->at;
  PmColl *c = fixture_step(p, PM_ENTRY_STEP, PM_STEP_COLL, "all_reduce")->u.coll;
  *c = (PmColl){.kind = PM_COLL_ALL_REDUCE, .dtype = PM_K_F32, .n_mesh = 1, .count = 10, .src = at[0], .dst = at[0]};
  c->n_more = 2;
  c->more = PM_NEW_N(arena, PmCollPart, 2);
  c->more[0] = (PmCollPart){3, at[1], at[2]};
  c->more[1] = (PmCollPart){1, at[3], at[3]};
  fixture_finish(p);
  return p;
}
