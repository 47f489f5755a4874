#include "tools/random_plans.h"

#include <inttypes.h>

#include "base/philox.h"
#include "passes/attend.h"

#define MAX_AXES 64
#define MAX_MESH 3

typedef struct Draw {
  const PmModule *m;
  uint64_t key, number, at;
  int32_t n_axes, n_mesh;
  PmAxisId axes[MAX_AXES];  // an axis that many values have stands here more than once
  int64_t mesh[MAX_MESH];
  bool splits[MAX_AXES];  // by entry of axes: a rule names it
  PmBuf *out;
} Draw;

static const char *const mesh_names[MAX_MESH] = {"a", "b", "c"};

static int64_t below(Draw *d, int64_t n) { return (int64_t)(pm_random_u32(d->key, d->number, d->at++) % (uint64_t)n); }

static void collect_axes(Draw *d) {
  const PmModule *m = d->m;
  for (PmVarId v = 0; v < m->n_vars; v++) {
    const PmType *t = &m->vars[v].type;
    if (m->vars[v].role == PM_ROLE_STATE || m->vars[v].role == PM_ROLE_STEP) continue;
    for (int32_t i = 0; i < t->rank; i++) {
      if (d->n_axes < MAX_AXES && pm_axis_size(m, t->dims[i].axis) > 1) d->axes[d->n_axes++] = t->dims[i].axis;
    }
  }
}

// One prime of the number of ranks after the other goes to some mesh axis.
static void draw_mesh(Draw *d, int64_t ranks) {
  d->n_mesh = 1 + (int32_t)below(d, MAX_MESH);
  for (int32_t i = 0; i < d->n_mesh; i++) d->mesh[i] = 1;
  for (int64_t p = 2; ranks > 1; p++)
    for (; ranks % p == 0; ranks /= p) d->mesh[below(d, d->n_mesh)] *= p;
  for (int32_t i = 0; i < d->n_mesh; i++)
    pm_buf_printf(d->out, "%s%s=%" PRId64, i ? ", " : "mesh ", mesh_names[i], d->mesh[i]);
  pm_buf_putc(d->out, '\n');
}

static void draw_rule(Draw *d) {
  static const char *const roles[] = {"", "", "", "", "", "act ", "act ", "param ", "param ", "input ", "grad "};
  int32_t axis = (int32_t)below(d, d->n_axes), first = (int32_t)below(d, d->n_mesh);
  pm_buf_printf(d->out, "shard %s%s -> ", roles[below(d, 11)], d->m->axes[d->axes[axis]].name);
  if (below(d, 12) == 0) {
    pm_buf_puts(d->out, "none\n");
    return;
  }
  d->splits[axis] = true;
  pm_buf_puts(d->out, mesh_names[first]);
  int32_t second = (int32_t)below(d, d->n_mesh);
  if (second != first && below(d, 3) == 0) pm_buf_printf(d->out, " + %s", mesh_names[second]);
  pm_buf_putc(d->out, '\n');
}

static void draw_pads(Draw *d) {
  for (int32_t i = 0; i < d->n_axes; i++)
    if (d->splits[i] && below(d, 3) == 0) pm_buf_printf(d->out, "pad(%s)\n", d->m->axes[d->axes[i]].name);
}

// Two or four micro-batches, where they divide the rows.
static void draw_micro(Draw *d) {
  PmAxisId batch = pm_module_find_axis(d->m, "batch");
  int64_t micro = INT64_C(2) << below(d, 2);
  if (batch == PM_NONE || pm_axis_size(d->m, batch) % micro != 0 || below(d, 3) > 0) return;
  pm_buf_printf(d->out, "accumulate(micro=%" PRId64 ")\n", micro);
}

// How attention crosses the sequence, should a rule split it.
static void draw_attend(Draw *d) {
  static const char *const words[] = {"ring", "ring", "ulysses", "gather"};
  for (PmFnId i = 0; i < d->m->n_fns; i++) {
    PmCore core;
    if (!pm_core_find(d->m, pm_fn(d->m, i), &core) || below(d, 4) == 0) continue;
    const char *word = words[below(d, 4)], *mesh = mesh_names[below(d, d->n_mesh)];
    pm_buf_printf(d->out, "%s(%s, over=%s)\n", word, d->m->axes[core.s].name, mesh);
    return;
  }
}

void pm_random_plan(const PmModule *m, int64_t ranks, uint64_t seed, uint64_t number, PmBuf *out) {
  Draw d = {.m = m, .key = pm_random_key(seed, "random plans"), .number = number, .out = out};
  collect_axes(&d);
  draw_mesh(&d, ranks);
  int64_t n_rules = d.n_axes ? 1 + below(&d, 6) : 0;
  for (int64_t i = 0; i < n_rules; i++) draw_rule(&d);
  draw_pads(&d);
  if (below(&d, 2) == 0)
    pm_buf_printf(out, "zero(stage=%" PRId64 ", over=%s)\n", 1 + below(&d, 3), mesh_names[below(&d, d.n_mesh)]);
  draw_micro(&d);
  draw_attend(&d);
}
