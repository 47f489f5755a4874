// Laying out a kernel's axes, and turning a written kernel into a step.
#include <string.h>

#include "base/assert.h"
#include "codegen/eval.h"

enum {
  CUT_FROM = 8192,  // a flat axis of more turns is cut in rows, which run in parallel
  COLS_MAX = 4096,
  COLS_MIN = 64,
};

// Every access steps over a whole turn of b when a steps once.
static bool mergeable(const PmCgEval *e, int32_t a, int32_t b) {
  if (e->kind[a] != e->kind[b] || e->indexed[a] || e->indexed[b]) return false;
  for (int32_t i = 0; i < e->n_accesses; i++) {
    const PmCgAccess *x = &e->accesses[i];
    if (x->stride[a] != x->stride[b] * e->space[b].extent) return false;
  }
  return true;
}

static int64_t columns(int64_t n) {
  for (int64_t c = COLS_MAX; c >= COLS_MIN; c--)
    if (n % c == 0 && c % 8 == 0) return c;
  return 0;
}

// Values that the kernel stores: each takes an argument, however many parts it is stored in.
static int32_t count_stored(const PmCgEval *e) {
  int32_t n = 0;
  for (int32_t i = 0; i < e->n_accesses; i++) {
    bool first = e->accesses[i].store;
    for (int32_t k = 0; k < i && first; k++)
      first = !e->accesses[k].store || e->accesses[k].value != e->accesses[i].value;
    n += first;
  }
  return n;
}

bool pm_cg_layout(PmCgEval *e, int32_t n_loops) {
  int32_t previous = PM_NONE, outer = 0, loops = 0;
  e->n_groups = 0;
  for (int32_t p = 0; p < e->n_space; p++) {
    e->group_of[p] = PM_NONE;
    if (e->space[p].extent == 1) continue;
    PmCgGroup *g = e->n_groups ? &e->groups[e->n_groups - 1] : NULL;
    const bool fits = g && g->extent <= INT32_MAX / e->space[p].extent;
    if (previous != PM_NONE && fits && mergeable(e, previous, p)) {
      g->extent *= e->space[p].extent;
      g->minor = p;
    } else {
      e->groups[e->n_groups++] =
          (PmCgGroup){.kind = e->kind[p], .minor = p, .extent = e->space[p].extent, .axis = PM_NONE, .rows = PM_NONE};
    }
    e->group_of[p] = e->n_groups - 1;
    previous = p;
  }
  for (int32_t g = 0; g < e->n_groups; g++) {
    outer += e->groups[g].kind != PM_CG_LOOP;
    loops += e->groups[g].kind == PM_CG_LOOP;
  }
  if (e->n_groups == 1 && outer == 1 && e->groups[0].extent > CUT_FROM && e->groups[0].kind == PM_CG_GRID &&
      !e->indexed[e->groups[0].minor]) {
    e->groups[0].cols = columns(e->groups[0].extent);
    outer += e->groups[0].cols > 0;
  }
  e->n_axes = outer + loops * n_loops;
  return !e->overflow && e->n_axes <= PM_KERNEL_MAX_AXES && e->n_args + count_stored(e) <= PM_KERNEL_MAX_ARGS;
}

const char *pm_cg_words(const PmCgEval *e) {
  const char *text = e->n_words ? e->words[0] : "copy";
  for (int32_t i = 1; i < e->n_words; i++) text = pm_arena_printf(e->cg->out_arena, "%s+%s", text, e->words[i]);
  return e->n_words ? text : "copy";
}

void pm_cg_begin(PmCgEval *e, const char *name, bool column) {
  int32_t outer = 0, loops = 0, last = PM_NONE;
  for (int32_t g = 0; g < e->n_groups; g++) {
    outer += e->groups[g].kind != PM_CG_LOOP;
    loops += e->groups[g].kind == PM_CG_LOOP;
    if (e->groups[g].kind != PM_CG_LOOP) last = g;
  }
  // Turns of a sequential axis may meet in one place, so they are no lanes.
  const bool lanes_outer =
      (loops == 0 || (column && outer > 0)) && (last == PM_NONE || e->groups[last].kind == PM_CG_GRID);
  pm_kb_init(&e->kb, e->cg->out_arena, name, e->host, lanes_outer ? PM_VEC_OUTER : PM_VEC_LOOP);
  for (int32_t g = 0; g < e->n_groups; g++) {
    PmCgGroup *x = &e->groups[g];
    const PmKAxisKind kind = x->kind == PM_CG_SEQ ? PM_KA_SEQ : PM_KA_GRID;
    if (x->kind == PM_CG_LOOP) continue;
    if (x->cols) x->rows = pm_kb_outer(&e->kb, x->extent / x->cols, kind);
    x->axis = pm_kb_outer(&e->kb, x->cols ? x->cols : x->extent, kind);
  }
  e->dry = false;
  e->n_entries = e->n_args = e->n_scalars = 0;
  if (e->acc) memset(e->acc, 0, (size_t)e->r->n_values * sizeof *e->acc);
}

void pm_cg_end(PmCgEval *e, PmCgStep *into, int32_t loc) {
  for (int32_t i = 0; i < e->n_args; i++) {
    e->kb.k->args[i].reads = e->arg_reads[i];
    e->kb.k->args[i].writes = e->arg_writes[i];
  }
  PmKernel *k = pm_kb_finish(&e->kb);
  PmCgStep *s = into ? into : pm_cg_step(e->cg, e->r, PM_CG_STEP_KERNEL, k->n_args);
  if (into) {
    *s = (PmCgStep){.kind = PM_CG_STEP_KERNEL, .n_refs = k->n_args};
    s->refs = PM_NEW_N(e->cg->arena, PmCgRef, k->n_args + 1);
    s->writes = PM_NEW_N(e->cg->arena, bool, k->n_args + 1);
  }
  s->loc = loc;
  s->op = k->name;
  s->kernel = pm_cg_add_kernel(e->cg, k);
  s->flops = pm_cg_kernel_flops(k);
  for (int32_t i = 0; i < k->n_args; i++) {
    s->refs[i] = (PmCgRef){e->arg_buf[i], 0, k->args[i].bytes};
    s->writes[i] = k->args[i].writes;
    s->bytes += (double)k->args[i].bytes * (k->args[i].reads + k->args[i].writes);
  }
  s->scalars = PM_NEW_N(e->cg->arena, PmCoordTerm, PM_KERNEL_MAX_SCALARS);
  memcpy(s->scalars, e->scalars, (size_t)e->n_scalars * sizeof *e->scalars);
}
