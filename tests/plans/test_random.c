// Random programs on random plans: calls, nested repeats, lookups, views and sums, with any of their values bound to
// any rules. The partitioned program, run on all ranks in lockstep, gives what the logical one gives on one, and every
// stage verifies and reads back from its text. PM_TEST_SEED=n runs one seed alone, PM_TEST_SEEDS=n the first n.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../passes/program.h"
#include "ir/text.h"
#include "plans.h"

#define N_SEEDS 1000

static void bind_params(Program *p, PmFnId id) {
  PmFn *f = pm_fn(p->m, id);
  f->param_bind = PM_NEW_N(&p->arena, PmBinding, f->n_params + 1);
  for (int32_t i = 0; i < f->n_params; i++) {
    PmVar var = {.path = pm_intern_printf(&p->names, "p%d", i), .type = f->values[i].type, .owner = PM_NONE};
    var.update = PM_NONE;
    var.role = program_below(p, 2) ? PM_ROLE_PARAM : PM_ROLE_INPUT;
    f->param_bind[i].var = pm_module_add_var(p->m, var);
  }
}

// Half of the values that nodes make can be bound by rules.
static void name_values(Program *p) {
  for (PmFnId id = 0; id < p->m->n_fns; id++) {
    PmFn *f = pm_fn(p->m, id);
    for (PmValueId v = f->n_params; v < f->n_values; v++) {
      if (program_below(p, 2)) continue;
      f->values[v].name = pm_intern_printf(&p->names, "f%d.v%d", id, v);
      f->values[v].bound = true;
    }
  }
}

static void add_mesh(Program *p, bool padded) {
  static const char *const names[] = {"a", "b", "c"};
  p->m->mesh = PM_NEW_N(&p->arena, PmMeshAxis, 3);
  p->m->n_mesh = 1 + program_below(p, 3);
  for (int32_t i = 0; i < p->m->n_mesh; i++)
    p->m->mesh[i] = (PmMeshAxis){.name = pm_intern(&p->names, names[i]),
                                 .size = 1 + (program_below(p, 4) > 0) * (1 + padded * program_below(p, 2))};
}

// Without padding only axes of even size are named, so that one mesh axis always divides; two are asked of axes of
// four. With padding any axis may be named but the minor part of another, and what is repeated over.
static void add_rules(Program *p, bool padded) {
  const PmAxisId axes[] = {p->i, p->k, p->k2, p->kp, padded ? p->j : p->kq, p->v};
  int32_t n_axes = padded ? 6 : 5;
  p->m->n_rules = 3 + program_below(p, 6);
  p->m->rules = PM_NEW_N(&p->arena, PmRule, p->m->n_rules + 1);
  for (int32_t i = 0; i < p->m->n_rules; i++) {
    PmRule *r = &p->m->rules[i];
    *r = (PmRule){.roles = (1u << PM_ROLE_COUNT) - 1, .n_axes = 1, .span = PM_NO_SPAN, .text = "rule"};
    static const uint32_t some[] = {1u << PM_ROLE_ACT, 1u << PM_ROLE_PARAM, 1u << PM_ROLE_INPUT};
    if (program_below(p, 2)) r->roles = some[program_below(p, 3)];
    r->axes = PM_NEW_N(&p->arena, PmAxisId, 1);
    r->axes[0] = axes[program_below(p, n_axes)];
    r->none = program_below(p, 8) == 0;
    r->mesh[r->n_mesh++] = (uint8_t)program_below(p, p->m->n_mesh);
    uint8_t second = (uint8_t)program_below(p, p->m->n_mesh);
    bool divides = padded || pm_axis_size(p->m, r->axes[0]) == 4;
    if (divides && second != r->mesh[0] && program_below(p, 2)) r->mesh[r->n_mesh++] = second;
    if (r->none) r->n_mesh = 0;
  }
  if (!padded) return;
  PmRule *pad = &p->m->rules[p->m->n_rules++];
  *pad = (PmRule){.pad = true, .n_axes = n_axes, .span = PM_NO_SPAN, .text = "pad"};
  pad->axes = pm_arena_copy(&p->arena, axes, n_axes, sizeof *axes);
}

// Slots of a routing, and what may be its positions, on one mesh axis in front of all else: rows move between ranks.
static void add_slot_rules(Program *p) {
  const PmAxisId positions[] = {p->i, p->k};
  PmRule *rules = PM_NEW_N(&p->arena, PmRule, p->m->n_rules + 64);
  int32_t n = 0;
  for (PmAxisId a = 0; a < p->m->n_axes && n < 63; a++) {
    if (strncmp(p->m->axes[a].name, "slots", 5) != 0 || p->m->axes[a].size % 2 != 0) continue;
    for (int32_t i = 0; i < 2; i++) {
      PmRule *r = &rules[n++];
      *r = (PmRule){.roles = (1u << PM_ROLE_COUNT) - 1, .n_axes = 1, .span = PM_NO_SPAN, .text = "slots", .n_mesh = 1};
      r->axes = PM_NEW_N(&p->arena, PmAxisId, 1);
      r->axes[0] = i ? positions[program_below(p, 2)] : a;
    }
  }
  memcpy(&rules[n], p->m->rules, (size_t)p->m->n_rules * sizeof *rules);
  p->m->rules = rules;
  p->m->n_rules += n;
}

static void check_text(const PmModule *m) {
  PmBuf once, twice;
  PmArena arena;
  PmInterner names;
  pm_buf_init(&once);
  pm_buf_init(&twice);
  pm_arena_init(&arena, 0);
  pm_interner_init(&names, &arena);
  pm_module_print(m, &once);
  PmModule *back = NULL;
  PmStatus *st = pm_module_read(&arena, &names, "t.pir", pm_buf_str(&once), once.len, &back);
  if (st) fail_msg("%s", pm_status_message(st));
  pm_module_print(back, &twice);
  assert_string_equal(pm_buf_str(&once), pm_buf_str(&twice));
  pm_arena_deinit(&arena);
  pm_buf_deinit(&once);
  pm_buf_deinit(&twice);
}

// Returns the number of collectives, so that the test can see that it tests something; -1 when the plan pads what
// cannot be padded.
static int64_t run_seed(uint64_t seed, bool padded, int64_t *exchanges) {
  Program p;
  program_init(&p, seed);
  PmFnId fn = program_random_fn(&p, 4 + program_below(&p, 14), 2, true);
  p.m->model = fn;
  bind_params(&p, fn);
  name_values(&p);
  PmModule *local = pm_module_clone(p.m, &p.arena);
  PmModule *logical = p.m;
  p.m = local;
  add_mesh(&p, padded);
  add_rules(&p, padded);
  if (!padded && program_below(&p, 2)) add_slot_rules(&p);
  PmSources sources;
  pm_sources_init(&sources, &p.arena);
  PmPassCtx ctx = {.diags = pm_diags_new(&p.arena, &sources), .sources = &sources, .verify = true};
  static const char *const passes[] = {"pad", "place", "partition", "simplify"};
  for (int32_t i = 0; i < 4; i++) {
    PmStatus *st = pm_passes_run(&ctx, local, passes[i]);
    if (st && i == 0 && pm_status_code(st) == PM_ERR_INPUT) {  // a minor part after all, by a rename
      pm_status_drop(st);
      program_deinit(&p);
      return -1;
    }
    if (st) pm_diags_print(ctx.diags, false, stderr);
    if (st) fail_msg("seed %llu, %s: %s", (unsigned long long)seed, passes[i], pm_status_message(st));
    check_text(local);
  }
  double error = plan_worst_error(&p.arena, logical, logical->model, local, fn, seed);
  if (!(error <= 1e-9)) fail_msg("seed %llu: error %g", (unsigned long long)seed, error);
  int64_t n = 0;
  for (PmOp op = 0; op < PM_OP_COUNT; op++)
    if (pm_op_flags(op) & PM_F_COMM) n += plan_count(local, op);
  *exchanges += plan_count(local, PM_OP_gather_rows) + plan_count(local, PM_OP_scatter_rows);
  program_deinit(&p);
  return n;
}

static void run_seeds(bool padded) {
  const char *one = getenv("PM_TEST_SEED");
  int64_t collectives = 0, exchanges = 0;
  if (one) {
    run_seed(strtoull(one, NULL, 10), padded, &exchanges);
    return;
  }
  const char *most = getenv("PM_TEST_SEEDS");
  uint64_t n_seeds = most ? strtoull(most, NULL, 10) : N_SEEDS;
  uint64_t refused = 0;
  for (uint64_t seed = 1; seed <= n_seeds; seed++) {
    int64_t n = run_seed(seed, padded, &exchanges);
    refused += n < 0;
    collectives += n < 0 ? 0 : n;
  }
  print_message("%lld collectives, %lld of them exchanges of rows, in %llu programs, %llu refused\n",
                (long long)collectives, (long long)exchanges, (unsigned long long)n_seeds, (unsigned long long)refused);
  assert_true(collectives > (int64_t)n_seeds);
  assert_true(padded || most || exchanges > 0);
  assert_true(refused <= (padded ? n_seeds / 4 : 0));
}

static void test_random_plans(void **state) {
  (void)state;
  run_seeds(false);
}

// Sizes that no mesh axis divides, down to ranks that hold padding alone.
static void test_random_plans_with_padding(void **state) {
  (void)state;
  run_seeds(true);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_plans),
                                     cmocka_unit_test(test_random_plans_with_padding)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
