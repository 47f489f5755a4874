// Regions -> the program: variables and tables at the bottom of the arena, then what lives within an entry.
#include <string.h>

#include "base/assert.h"
#include "codegen/codegen.h"
#include "codegen/region.h"
#include "passes/memory.h"

typedef struct Assemble {
  PmCg cg;
  PmProgram *p;
  PmCgRegion *regions[PM_ENTRY_COUNT];
  PmFnId fns[PM_ENTRY_COUNT];
  int64_t *persistent_at;  // offsets of variables, then of tables
  int32_t n_persistent;
  PmCgPlan plans[PM_ENTRY_COUNT];
  int32_t cap_buffers;
} Assemble;

static const char *keep(const Assemble *a, const char *s) { return s ? pm_arena_strdup(a->cg.out_arena, s) : NULL; }

// ---- heads ----------------------------------------------------------------------------------------------------------
static int32_t set_dims(const Assemble *a, const PmType *t, PmVarDim *out) {
  for (int32_t i = 0; i < t->rank; i++) {
    const PmDim *d = &t->dims[i];
    out[i].axis = keep(a, a->cg.m->axes[d->axis].name);
    out[i].size = pm_axis_logical(a->cg.m, d->axis);
    out[i].pad = a->cg.m->axes[d->axis].pad;
    out[i].n_mesh = d->split.n;
    memcpy(out[i].mesh, d->split.mesh, d->split.n);
    out[i].zigzag = pm_split_is_zigzag(&d->split);
  }
  return t->rank;
}

static PmProgVar make_var(Assemble *a, const PmVar *v) {
  static const uint8_t roles[PM_ROLE_COUNT] = {
      [PM_ROLE_PARAM] = PM_VAR_PARAM, [PM_ROLE_STATE] = PM_VAR_STATE, [PM_ROLE_ACT] = PM_VAR_INPUT,
      [PM_ROLE_GRAD] = PM_VAR_STATE,  [PM_ROLE_INPUT] = PM_VAR_INPUT, [PM_ROLE_STEP] = PM_VAR_STEP};
  static const uint8_t inits[] = {[PM_INIT_NONE] = PM_VAR_INIT_NONE,
                                  [PM_INIT_CONST] = PM_VAR_INIT_CONST,
                                  [PM_INIT_NORMAL] = PM_VAR_INIT_NORMAL,
                                  [PM_INIT_UNIFORM] = PM_VAR_INIT_UNIFORM};
  const PmCgValue local = pm_cg_local(&a->cg, &v->type);
  PmProgVar out = {
      .path = keep(a, v->path), .role = roles[v->role], .dtype = local.dtype, .init = inits[v->init], .twin = -1};
  out.init_value = v->init_value;
  out.index_size =
      v->type.index_of == PM_NONE || v->type.dtype != PM_I32 ? 0 : pm_axis_logical(a->cg.m, v->type.index_of);
  out.rank = set_dims(a, &v->type, out.dims);
  out.at.bytes = pm_cg_elements(&local) * pm_kdtype_bytes(local.dtype);
  return out;
}

static PmOwner var_owner(const PmProgVar *v) {
  static const uint8_t owners[] = {[PM_VAR_PARAM] = PM_OWN_PARAM,
                                   [PM_VAR_STATE] = PM_OWN_STATE,
                                   [PM_VAR_INPUT] = PM_OWN_INPUT,
                                   [PM_VAR_STEP] = PM_OWN_INPUT};
  return (PmOwner)owners[v->role];
}

static void set_head(Assemble *a) {
  const PmModule *m = a->cg.m;
  PmProgram *p = a->p;
  p->arena = a->cg.out_arena;
  p->model = m->name ? keep(a, m->name) : "";
  p->plan = keep(a, m->plan);
  p->n_mesh = m->n_mesh;
  for (int32_t i = 0; i < m->n_mesh; i++) {
    p->mesh_name[i] = keep(a, m->mesh[i].name);
    p->mesh_size[i] = m->mesh[i].size;
  }
  p->n_vars = m->n_vars;
  p->vars = PM_NEW_N(p->arena, PmProgVar, m->n_vars + 1);
  for (int32_t i = 0; i < m->n_vars; i++) p->vars[i] = make_var(a, &m->vars[i]);
  for (int32_t i = 0; i < m->n_vars; i++)
    if (m->vars[i].master) {
      p->vars[i].twin = m->vars[i].owner;
      p->vars[m->vars[i].owner].twin = i;
    }
  p->data = (PmProgData){.format = keep(a, m->data.format), .n_files = m->data.n_files, .x = -1, .y = -1};
  p->data.shuffle = m->data.shuffle;
  if (p->data.format) {
    p->data.x = m->data.x;
    p->data.y = m->data.y;
  }
  p->data.files = PM_NEW_N(p->arena, const char *, m->data.n_files + 1);
  for (int32_t i = 0; i < m->data.n_files; i++) p->data.files[i] = keep(a, m->data.files[i]);
  p->data.n_feeds = m->data.n_feeds;
  p->data.feeds = PM_NEW_N(p->arena, PmProgFeed, m->data.n_feeds + 1);
  for (int32_t i = 0; i < m->data.n_feeds; i++) {
    const PmFeed *f = &m->data.feeds[i];
    p->data.feeds[i] = (PmProgFeed){f->var, f->first, f->n_files};
  }
  p->steps = m->steps;
  p->seed = m->seed;
}

// ---- memory ---------------------------------------------------------------------------------------------------------
static int64_t take(int64_t *end, int64_t bytes) {
  const int64_t at = *end;
  const bool ok = pm_add_i64(*end, bytes, end) && pm_align_i64(*end, PM_ARENA_ALIGN, end);
  PM_ASSERT(ok, "an arena of more than 2^63 bytes");
  return at;
}

static void add_buffer(Assemble *a, PmRange at, PmOwner owner, int32_t entry, int32_t first, int32_t last,
                       const char *name) {
  PmProgram *p = a->p;
  p->buffers = pm_grow(p->arena, p->buffers, p->n_buffers, &a->cap_buffers, sizeof *p->buffers);
  p->buffers[p->n_buffers++] = (PmBuffer){at, (uint8_t)owner, entry, first, last, keep(a, name)};
}

static void place_persistent(Assemble *a) {
  PmProgram *p = a->p;
  int64_t end = 0;
  a->n_persistent = p->n_vars + a->cg.n_tables;
  a->persistent_at = PM_NEW_N(a->cg.arena, int64_t, a->n_persistent + 1);
  for (int32_t role = 0; role < PM_VAR_ROLE_COUNT; role++) {
    for (int32_t i = 0; i < p->n_vars; i++) {
      PmProgVar *v = &p->vars[i];
      if (v->role != role) continue;
      a->persistent_at[i] = v->at.offset = take(&end, v->at.bytes);
      add_buffer(a, v->at, var_owner(v), -1, 0, 0, v->path);
    }
  }
  for (int32_t i = 0; i < a->cg.n_tables; i++) {
    const PmRange at = {take(&end, a->cg.tables[i].bytes), a->cg.tables[i].bytes};
    a->persistent_at[p->n_vars + i] = at.offset;
    add_buffer(a, at, PM_OWN_TABLE, -1, 0, 0, "table");
  }
  p->persistent_bytes = end;
}

static void add_persistent(Assemble *a, PmCgPlan *plan) {
  for (int32_t i = 0; i < a->n_persistent; i++) {
    const bool var = i < a->p->n_vars;
    const int64_t bytes = var ? a->p->vars[i].at.bytes : a->cg.tables[i - a->p->n_vars].bytes;
    const int32_t inst = pm_cg_inst(&a->cg, plan, bytes, var ? var_owner(&a->p->vars[i]) : PM_OWN_TABLE, NULL, true);
    plan->insts[inst].offset = a->persistent_at[i];
  }
}

// First and last step of every live range, and a name for those without.
static void find_lives(const PmCgPlan *plan) {
  for (int32_t i = 0; i < plan->n_lines; i++) {
    const PmCgLine *line = &plan->lines[i];
    for (int32_t k = 0; k < line->step->n_refs; k++) {
      PmCgInst *inst = &plan->insts[line->at[k].inst];
      if (inst->first < 0) inst->first = i;
      if (inst->last < i) inst->last = i;
      if (!inst->name && line->step->writes[k]) inst->name = line->step->op;
    }
  }
}

static void place_entry(Assemble *a, int32_t entry) {
  PmCgPlan *plan = &a->plans[entry];
  PmProgram *p = a->p;
  PmLive *live = PM_NEW_N(a->cg.arena, PmLive, plan->n_insts + 1);
  int32_t n = 0;
  for (int32_t i = 0; i < plan->n_insts; i++)
    if (!plan->insts[i].persistent && plan->insts[i].first >= 0)
      live[n++] = (PmLive){plan->insts[i].bytes, plan->insts[i].first, plan->insts[i].last, 0};
  const int64_t bound = p->persistent_bytes + pm_memory_bound(a->cg.arena, live, n, PM_ARENA_ALIGN);
  const int64_t peak = p->persistent_bytes + pm_memory_plan(a->cg.arena, live, n, PM_ARENA_ALIGN);
  if (bound > p->live_bytes) p->live_bytes = bound;
  if (peak > p->arena_bytes) p->arena_bytes = peak;
  n = 0;
  for (int32_t i = 0; i < plan->n_insts; i++) {
    PmCgInst *inst = &plan->insts[i];
    if (inst->persistent || inst->first < 0) continue;
    inst->offset = p->persistent_bytes + live[n++].offset;
    add_buffer(a, (PmRange){inst->offset, inst->bytes}, (PmOwner)inst->owner, entry, inst->first, inst->last,
               inst->name ? inst->name : "scratch");
  }
}

// ---- entries --------------------------------------------------------------------------------------------------------
static PmRange range(const PmCgPlan *plan, PmCgAt at, int64_t bytes) {
  return (PmRange){plan->insts[at.inst].offset + at.offset, bytes};
}

static PmCollPart *make_more(PmArena *arena, const PmCgPlan *plan, const PmCgLine *line) {
  const PmCgStep *s = line->step;
  PmCollPart *more = PM_NEW_N(arena, PmCollPart, s->coll->n_more);
  for (int32_t i = 0; i < s->coll->n_more; i++) {
    const int32_t ref = 2 * (i + 1);
    more[i].count = s->coll->more[i].count;
    more[i].src = range(plan, line->at[ref], s->refs[ref].bytes);
    more[i].dst = range(plan, line->at[ref + 1], s->refs[ref + 1].bytes);
  }
  return more;
}

static PmStep make_step(Assemble *a, const PmCgPlan *plan, const PmCgLine *line) {
  const PmCgStep *s = line->step;
  PmStep out = {.loc = s->loc, .op = s->op, .flops = s->flops, .bytes = s->bytes};
  PmArena *arena = a->p->arena;
  switch (s->kind) {
    case PM_CG_STEP_KERNEL:
      out.kind = PM_STEP_KERNEL;
      out.u.kernel = PM_NEW(arena, PmKernelCall);
      out.u.kernel->kernel = s->kernel;
      for (int32_t i = 0; i < s->n_refs; i++) out.u.kernel->args[i] = range(plan, line->at[i], s->refs[i].bytes);
      if (s->scalars) memcpy(out.u.kernel->scalars, s->scalars, sizeof out.u.kernel->scalars);
      break;
    case PM_CG_STEP_DOT:
      out.kind = PM_STEP_DOT;
      out.u.dot = PM_NEW(arena, PmDot);
      *out.u.dot = *s->dot;
      out.u.dot->a = range(plan, line->at[0], s->refs[0].bytes);
      out.u.dot->b = range(plan, line->at[1], s->refs[1].bytes);
      out.u.dot->c = range(plan, line->at[2], s->refs[2].bytes);
      break;
    case PM_CG_STEP_COLL:
      out.kind = PM_STEP_COLL;
      out.u.coll = PM_NEW(arena, PmColl);
      *out.u.coll = *s->coll;
      out.u.coll->src = range(plan, line->at[0], s->refs[0].bytes);
      out.u.coll->dst = range(plan, line->at[1], s->refs[1].bytes);
      if (s->coll->n_more) out.u.coll->more = make_more(arena, plan, line);
      if (!s->coll->rows) break;
      out.u.coll->rows = PM_NEW(arena, PmRows);
      *out.u.coll->rows = *s->coll->rows;
      out.u.coll->rows->idx = range(plan, line->at[2], s->refs[2].bytes);
      break;
    case PM_CG_STEP_SLOTS:
      out.kind = PM_STEP_SLOTS;
      out.u.slots = PM_NEW(arena, PmSlots);
      *out.u.slots = *s->slots;
      out.u.slots->idx = range(plan, line->at[0], s->refs[0].bytes);
      out.u.slots->dst = range(plan, line->at[1], s->refs[1].bytes);
      if (s->n_refs > 2) out.u.slots->work = range(plan, line->at[2], s->refs[2].bytes);
      if (s->n_refs > 3) out.u.slots->counts = range(plan, line->at[3], s->refs[3].bytes);
      break;
    case PM_CG_STEP_REPEAT:
      PM_UNREACHABLE("a repeat that was not unrolled");
  }
  return out;
}

static void write_steps(Assemble *a, int32_t entry) {
  const PmCgPlan *plan = &a->plans[entry];
  PmEntry *e = &a->p->entries[entry];
  e->n_steps = plan->n_lines;
  e->steps = PM_NEW_N(a->p->arena, PmStep, plan->n_lines + 1);
  for (int32_t i = 0; i < plan->n_lines; i++) e->steps[i] = make_step(a, plan, &plan->lines[i]);
}

static void build_setup(Assemble *a) {
  PmCgPlan *plan = &a->plans[PM_ENTRY_SETUP];
  add_persistent(a, plan);
  for (int32_t i = 0; i < a->cg.n_tables; i++) {
    PmCgAt *at = PM_NEW_N(a->cg.arena, PmCgAt, 1);
    at[0].inst = a->p->n_vars + i;
    plan->lines = pm_grow(a->cg.arena, plan->lines, plan->n_lines, &plan->cap_lines, sizeof *plan->lines);
    plan->lines[plan->n_lines++] = (PmCgLine){&a->cg.tables[i].step, at};
  }
  a->p->entries[PM_ENTRY_SETUP].present = a->cg.n_tables > 0;
}

// Results of variables that are elsewhere are copied at the end; what another copy overwrites is set aside first.
static void settle_results(Assemble *a, PmCgPlan *plan, const PmCgRegion *r, PmCgAt *at) {
  const int32_t n_vars = a->p->n_vars;
  bool *written = PM_NEW_N(a->cg.arena, bool, n_vars + 1);
  for (int32_t i = 0; i < r->n_results; i++)
    if (r->result_var[i] != PM_NONE && (at[i].inst != r->result_var[i] || at[i].offset))
      written[r->result_var[i]] = true;
  for (int32_t i = 0; i < r->n_results; i++) {
    if (at[i].inst >= n_vars || !written[at[i].inst] || at[i].inst == r->result_var[i]) continue;
    const PmCgAt aside = {pm_cg_inst(&a->cg, plan, r->result_ref[i].bytes, PM_OWN_SCRATCH, "aside", false), 0};
    pm_cg_copy_line(&a->cg, plan, (PmKDtype)r->values[r->results[i]].dtype, r->result_ref[i].bytes, at[i], aside,
                    "aside");
    at[i] = aside;
  }
  for (int32_t i = 0; i < r->n_results; i++) {
    const PmVarId var = r->result_var[i];
    if (var == PM_NONE) continue;
    const PmCgAt to = {var, 0};
    pm_cg_copy_line(&a->cg, plan, (PmKDtype)r->values[r->results[i]].dtype, r->result_ref[i].bytes, at[i], to, "store");
  }
}

static void build_entry(Assemble *a, int32_t entry) {
  const PmCgRegion *r = a->regions[entry];
  const PmFn *fn = pm_fn(a->cg.m, a->fns[entry]);
  PmCgPlan *plan = &a->plans[entry];
  PmEntry *e = &a->p->entries[entry];
  PmCgAt *params = PM_NEW_N(a->cg.arena, PmCgAt, r->n_params + 1);
  PmCgAt *tables = PM_NEW_N(a->cg.arena, PmCgAt, a->cg.n_tables + 1);
  PmCgAt *results = PM_NEW_N(a->cg.arena, PmCgAt, r->n_results + 1);
  add_persistent(a, plan);
  for (int32_t i = 0; i < r->n_params; i++) params[i].inst = r->param_var[i];
  for (int32_t i = 0; i < a->cg.n_tables; i++) tables[i].inst = a->p->n_vars + i;
  pm_cg_unroll(&a->cg, plan, r, params, tables, results);
  settle_results(a, plan, r, results);
  find_lives(plan);
  e->present = true;
  e->outputs = PM_NEW_N(a->p->arena, PmOutput, r->n_results + 1);
  for (int32_t i = 0; i < r->n_results; i++) {
    if (!fn->result_bind || !fn->result_bind[i].report) continue;
    PmCgInst *inst = &plan->insts[results[i].inst];
    inst->last = plan->n_lines - 1;
    PmOutput *out = &e->outputs[e->n_outputs++];
    out->name = keep(a, fn->result_bind[i].report);
    out->dtype = r->values[r->results[i]].dtype;
    out->rank = set_dims(a, &fn->values[fn->results[i]].type, out->dims);
  }
  place_entry(a, entry);
  int32_t n = 0;
  for (int32_t i = 0; i < r->n_results; i++)
    if (fn->result_bind && fn->result_bind[i].report)
      e->outputs[n++].at = range(plan, results[i], r->result_ref[i].bytes);
}

// Steps of a region with every turn of its repeats; large numbers saturate.
static double count_steps(const PmCgRegion *r) {
  double n = 0;
  for (int32_t i = 0; i < r->n_steps; i++) {
    const PmCgNode *repeat = r->steps[i].repeat;
    n += repeat ? (double)repeat->index * (count_steps(repeat->body) + (double)repeat->n_out) : 1;
  }
  return n;
}

static PmStatus *run(Assemble *a) {
  const double most_steps = 1 << 20;
  const PmModule *m = a->cg.m;
  if (m->stage != PM_STAGE_LOCAL) return PM_STATUS(PM_ERR_INTERNAL, "code generation takes a partitioned module");
  set_head(a);
  if (a->cg.status) return a->cg.status;
  for (int32_t i = 0; i < PM_ENTRY_COUNT; i++) {
    if (a->fns[i] == PM_NONE) continue;
    if (!pm_fn(m, a->fns[i])->param_bind)
      return PM_STATUS(PM_ERR_INTERNAL, "entry function %s is not bound to variables", pm_fn(m, a->fns[i])->name);
    PM_TRY(pm_cg_build(&a->cg, a->fns[i], &a->regions[i]));
    if (count_steps(a->regions[i]) > most_steps)
      return PM_STATUS(PM_ERR_LIMIT, "function %s comes to more than %.0f steps", pm_fn(m, a->fns[i])->name,
                       most_steps);
  }
  place_persistent(a);
  a->p->arena_bytes = a->p->live_bytes = a->p->persistent_bytes;
  build_setup(a);
  for (int32_t i = 0; i < PM_ENTRY_COUNT; i++)
    if (a->regions[i]) build_entry(a, i);
  for (int32_t i = 0; i < PM_ENTRY_COUNT; i++) write_steps(a, i);
  a->p->n_kernels = a->cg.n_kernels;
  a->p->kernels = PM_NEW_N(a->p->arena, PmKernel, a->cg.n_kernels + 1);
  for (int32_t i = 0; i < a->cg.n_kernels; i++) a->p->kernels[i] = *a->cg.kernels[i];
  a->p->n_locs = a->cg.n_locs;
  a->p->locs = a->cg.locs;
  return NULL;
}

// For people, when memory is used up.
static void put_place(void *context, FILE *to) {
  (void)context;
  fputs("code generation", to);
}

PmStatus *pm_codegen(PmArena *arena, const PmModule *m, PmProgram **out) {
  PmArena scratch;
  pm_arena_init(&scratch, PM_MAX_SCRATCH_BYTES);
  scratch.put_place = arena->put_place = put_place;
  Assemble a = {.cg = {.arena = &scratch, .out_arena = arena, .m = m}, .p = PM_NEW(arena, PmProgram)};
  a.cg.next_axis = m->n_axes;
  a.fns[PM_ENTRY_SETUP] = PM_NONE;
  a.fns[PM_ENTRY_STEP] = m->step;
  a.fns[PM_ENTRY_EVAL] = m->eval;
  PmStatus *st = run(&a);
  arena->put_place = NULL;
  pm_arena_deinit(&scratch);
  *out = st ? NULL : a.p;
  return st;
}
