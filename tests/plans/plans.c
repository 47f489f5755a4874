#include "plans.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/philox.h"
#include "harness.h"
#include "passes/tree.h"

// Operands are of the order of 1: what comes out smaller than this is what rounding left of a difference.
#define SMALLEST 1e-6

static void parse_mesh(Plan *p, const char *text) {
  p->m->mesh = PM_NEW_N(&p->arena, PmMeshAxis, PM_MAX_MESH);
  while (*text) {
    size_t n = strcspn(text, "=");
    p->m->mesh[p->m->n_mesh++] = (PmMeshAxis){.name = pm_intern_n(&p->names, text, n), .size = atoll(text + n + 1)};
    text += n;
    text += strcspn(text, ",");
    text += *text == ',';
  }
}

void plan_init(Plan *p, const char *mesh) {
  memset(p, 0, sizeof *p);
  pm_arena_init(&p->arena, 0);
  pm_interner_init(&p->names, &p->arena);
  pm_sources_init(&p->sources, &p->arena);
  p->diags = pm_diags_new(&p->arena, &p->sources);
  p->m = pm_module_new(&p->arena, &p->names);
  parse_mesh(p, mesh);
  p->m->name = pm_intern(&p->names, "test");
  p->m->step = p->m->eval = p->m->schedule = PM_NONE;
  p->m->model = pm_module_add_fn(p->m, "test", PM_FN_MODEL);
  p->m->rules = PM_NEW_N(&p->arena, PmRule, 16);
  p->b = (PmBuilder){.m = p->m, .fn = p->m->model, .loc = {pm_intern(&p->names, "t.pmodel"), 1, 1}};
}

void plan_deinit(Plan *p) { pm_arena_deinit(&p->arena); }

PmAxisId plan_axis(Plan *p, const char *name, int64_t size) {
  return pm_module_axis(p->m, pm_intern(&p->names, name), size, (PmLoc){0});
}

PmValueId plan_var(Plan *p, PmRole role, PmDtype dtype, const char *path, PmAxisId index_of, const PmAxisId *axes) {
  PmVar var = {.path = pm_intern(&p->names, path), .role = role, .owner = PM_NONE, .update = PM_NONE};
  var.type = pm_type_scalar(dtype);
  var.type.index_of = index_of;
  while (*axes != PM_NONE) pm_type_add(&var.type, *axes++);
  PmVarId id = pm_module_add_var(p->m, var);
  PmValueId v = pm_b_param(&p->b, var.type, var.path);
  PmFn *f = pm_fn(p->m, p->b.fn);
  PmBinding *bind = PM_NEW_N(&p->arena, PmBinding, f->n_params);
  if (v > 0) memcpy(bind, f->param_bind, (size_t)v * sizeof *bind);
  bind[v] = (PmBinding){.var = id};
  f->param_bind = bind;
  return v;
}

void plan_rule(Plan *p, uint32_t roles, const char *axes, const char *mesh) {
  PmRule *r = &p->m->rules[p->m->n_rules++];
  *r = (PmRule){.roles = roles ? roles : (1u << PM_ROLE_COUNT) - 1, .span = PM_NO_SPAN};
  r->text = pm_intern_printf(&p->names, "shard %s -> %s", axes, mesh);
  r->axes = PM_NEW_N(&p->arena, PmAxisId, 8);
  char copy[128], *save = NULL;
  snprintf(copy, sizeof copy, "%s", axes);
  for (char *t = strtok_r(copy, ", ", &save); t; t = strtok_r(NULL, ", ", &save))
    r->axes[r->n_axes++] = pm_module_find_axis(p->m, pm_intern(&p->names, t));
  r->none = strcmp(mesh, "none") == 0;
  snprintf(copy, sizeof copy, "%s", r->none ? "" : mesh);
  for (char *t = strtok_r(copy, "+ ", &save); t; t = strtok_r(NULL, "+ ", &save))
    r->mesh[r->n_mesh++] = (uint8_t)pm_module_find_mesh(p->m, pm_intern(&p->names, t));
}

// A number in (-1, 1), or a legal index, for element i of parameter k.
static double made_up(const PmModule *m, const PmType *t, uint64_t seed, int32_t k, int64_t i) {
  uint64_t key = pm_random_key(seed, "plan test") + (uint64_t)k;
  if (t->index_of != PM_NONE)
    return (double)(pm_random_u32(key, 0, (uint64_t)i) % (uint64_t)pm_axis_size(m, t->index_of));
  if (t->dtype == PM_I32) return (double)(pm_random_u32(key, 0, (uint64_t)i) % 100);
  return t->dtype == PM_F64 ? 3.0 : 2 * pm_random_uniform(key, 0, (uint64_t)i) - 1;
}

static bool is_grad(const PmFn *f, int32_t result) {
  const char *report = f->result_bind ? f->result_bind[result].report : NULL;
  return report && strncmp(report, "d(", 2) == 0;
}

static double largest_of(const PmTensor *t) {
  double largest = 0;
  for (int64_t i = 0; i < t->n; i++) largest = fmax(largest, fabs(t->data[i]));
  return largest;
}

double plan_worst_error(PmArena *arena, const PmModule *logical, PmFnId logical_fn, const PmModule *local,
                        PmFnId local_fn, uint64_t seed) {
  const PmFn *f = pm_fn(logical, logical_fn), *g = pm_fn(local, local_fn);
  assert_int_equal(f->n_params, g->n_params);
  assert_int_equal(f->n_results, g->n_results);
  PmTensor *in = PM_NEW_N(arena, PmTensor, f->n_params + 1), *in_local = PM_NEW_N(arena, PmTensor, f->n_params + 1);
  for (int32_t k = 0; k < f->n_params; k++) {
    in[k] = pm_tensor_new(arena, logical, &f->values[k].type);
    bool is_state = f->param_bind && f->param_bind[k].var != PM_NONE &&
                    logical->vars[f->param_bind[k].var].role == PM_ROLE_STATE;  // second moments have a root
    for (int64_t i = 0; i < in[k].n; i++) {
      double v = made_up(logical, &in[k].type, seed, k, i);
      in[k].data[i] = is_state ? fabs(v) : v;
    }
    in_local[k] = pm_tensor_new(arena, local, &g->values[k].type);
    pm_tensor_scatter(local, in[k].data, &in_local[k]);
  }
  PmTensor *out = PM_NEW_N(arena, PmTensor, f->n_results + 1), *out_local = PM_NEW_N(arena, PmTensor, f->n_results + 1);
  assert_null(pm_interp_run(logical, logical_fn, PM_INTERP_F64, arena, in, out));
  assert_null(pm_interp_run(local, local_fn, PM_INTERP_F64, arena, in_local, out_local));
  // A key bias has a zero gradient: gradients are measured against a thousandth of the step's largest at least.
  double worst = 0, floor_of_grads = SMALLEST;
  for (int32_t k = 0; k < f->n_results; k++)
    if (is_grad(f, k)) floor_of_grads = fmax(floor_of_grads, 1e-3 * largest_of(&out[k]));
  for (int32_t k = 0; k < f->n_results; k++) {
    double *whole = PM_NEW_N(arena, double, out[k].n + 1), error = 0;
    double largest = fmax(largest_of(&out[k]), is_grad(f, k) ? floor_of_grads : SMALLEST);
    pm_tensor_gather(local, &out_local[k], whole);
    for (int64_t i = 0; i < out[k].n; i++) {
      double e = fabs(out[k].data[i] - whole[i]);
      error = isnan(e) ? INFINITY : fmax(error, e);
    }
    worst = fmax(worst, error / largest);
  }
  return worst;
}

void plan_check(Plan *p, const PmValueId *results, int32_t n) {
  pm_b_results(&p->b, results, n);
  PmStatus *st = pm_module_verify(p->m);
  if (st) fail_msg("%s", pm_status_message(st));
  PmModule *local = pm_module_clone(p->m, &p->arena);
  PmPassCtx ctx = {.diags = p->diags, .sources = &p->sources, .verify = true};
  st = pm_passes_run(&ctx, local, "place,partition");
  if (st) {
    pm_diags_print(p->diags, false, stderr);
    fail_msg("%s", pm_status_message(st));
  }
  double error = plan_worst_error(&p->arena, p->m, p->m->model, local, local->model, 7);
  if (!(error <= 1e-12)) {
    PmBuf text;
    pm_buf_init(&text);
    pm_module_print(local, &text);
    fail_msg("error %g in\n%s", error, pm_buf_str(&text));
  }
  p->m = local;
}

int64_t plan_count(const PmModule *m, PmOp op) {
  PmArena scratch;
  pm_arena_init(&scratch, 0);
  PmTree tree = pm_tree_build(&scratch, m);
  int64_t count = 0;
  for (int32_t t = 0; t < tree.n_fns; t++) {
    const PmFn *f = pm_fn(m, tree.fns[t].fn);
    for (int32_t i = 0; i < f->n_nodes; i++)
      if (f->nodes[i].op == op) count += tree.fns[t].turns;
  }
  pm_arena_deinit(&scratch);
  return count;
}
