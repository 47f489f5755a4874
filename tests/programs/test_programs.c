// Random programs over the grammar. Each is checked, under two layouts; laid out by `fmt`, once and twice, it stays the
// same program; its graph reads back from its text at each stage; simplifying changes no bit of what it computes; and
// the step's gradients are those of the loss, on one rank and on the ranks of its plan. PM_TEST_SEED=n runs one seed
// alone and PM_TEST_SEEDS=n the first n; PM_TEST_PRINT=1 prints the programs.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "base/philox.h"
#include "frontend/format.h"
#include "frontend/frontend.h"
#include "gen.h"
#include "harness.h"
#include "ir/interp.h"
#include "ir/text.h"
#include "passes/passes.h"

#define N_SEEDS 100

typedef struct Model {
  PmArena arena, scratch;
  PmInterner names;
  PmSources sources;
  PmDiags *diags;
  PmModule *m;
  PmTensor *in;
} Model;

static void stop(const Model *x, const char *text, const PmStatus *st, const char *what) {
  if (x) pm_diags_print(x->diags, false, stderr);
  if (st) pm_status_print(st, stderr);
  fail_msg("%s:\n%s", what, text);
}

static void compile(Model *x, const char *text, bool has_plan) {
  memset(x, 0, sizeof *x);
  pm_arena_init(&x->arena, 0);
  pm_arena_init(&x->scratch, 0);
  pm_interner_init(&x->names, &x->arena);
  pm_sources_init(&x->sources, &x->arena);
  x->diags = pm_diags_new(&x->arena, &x->sources);
  PmFrontendOptions options = {.seed = -1, .plan = has_plan ? "p0" : NULL};
  PmStatus *st = pm_frontend_compile_text(&x->arena, &x->names, &x->sources, x->diags, "gen.pmodel", text, strlen(text),
                                          &options, &x->m);
  if (st) stop(x, text, st, "refused");
}

static void model_free(Model *x) {
  pm_arena_deinit(&x->scratch);
  pm_arena_deinit(&x->arena);
}

static void run_passes(Model *x, const char *text, const char *passes) {
  PmPassCtx ctx = {.diags = x->diags, .sources = &x->sources, .verify = true, .keep_grads = true};
  PmStatus *st = pm_passes_run(&ctx, x->m, passes);
  if (st) stop(x, text, st, passes);
}

static void check_round_trip(const Model *x, const char *text, const char *stage) {
  PmArena arena;
  PmInterner names;
  PmModule *again = NULL;
  PmBuf first, second;
  pm_arena_init(&arena, 0);
  pm_interner_init(&names, &arena);
  pm_buf_init(&first);
  pm_buf_init(&second);
  pm_module_print(x->m, &first);
  PmStatus *st = pm_module_read(&arena, &names, "again.pir", pm_buf_str(&first), first.len, &again);
  if (st) stop(NULL, text, st, stage);
  pm_module_print(again, &second);
  if (strcmp(pm_buf_str(&first), pm_buf_str(&second)) != 0) stop(NULL, text, NULL, "does not read back");
  pm_buf_deinit(&first);
  pm_buf_deinit(&second);
  pm_arena_deinit(&arena);
}

// The graph without places: ` @"file":line:column`.
static void print_unplaced(const Model *x, PmBuf *out) {
  PmBuf all;
  pm_buf_init(&all);
  pm_module_print(x->m, &all);
  for (const char *at = pm_buf_str(&all); *at;) {
    if (strncmp(at, " @\"", 3) == 0) {
      at = strchr(at + 3, '"') + 1;
      at += strspn(at, ":0123456789");
    } else {
      pm_buf_putc(out, *at++);
    }
  }
  pm_buf_deinit(&all);
}

static void format(const char *text, PmBuf *out) {
  PmArena arena;
  PmInterner names;
  PmSources sources;
  pm_arena_init(&arena, 0);
  pm_interner_init(&names, &arena);
  pm_sources_init(&sources, &arena);
  PmDiags *diags = pm_diags_new(&arena, &sources);
  int32_t file = pm_sources_add(&sources, "gen.pmodel", text, strlen(text));
  if (!pm_format(&arena, &names, &sources, diags, file, false, out)) fail_msg("not formatted:\n%s", text);
  pm_arena_deinit(&arena);
}

// `text` under another layout, and what `fmt` makes of that, are the program whose graph is `want`.
static void check_layouts(uint64_t seed, const char *text, bool has_plan, const PmBuf *want) {
  PmBuf odd, once, twice, graph;
  PmBuf *all[] = {&odd, &once, &twice, &graph};
  for (int i = 0; i < 4; i++) pm_buf_init(all[i]);
  gen_scramble(seed, text, &odd);
  format(pm_buf_str(&odd), &once);
  format(pm_buf_str(&once), &twice);
  if (strcmp(pm_buf_str(&once), pm_buf_str(&twice)) != 0) {
    fail_msg("formatting twice:\n%s\nis now:\n%s", pm_buf_str(&once), pm_buf_str(&twice));
  }
  for (int i = 0; i < 2; i++) {
    Model x;
    compile(&x, pm_buf_str(all[i]), has_plan);
    pm_buf_clear(&graph);
    print_unplaced(&x, &graph);
    if (strcmp(pm_buf_str(&graph), pm_buf_str(want)) != 0) {
      const char *a = pm_buf_str(want), *b = pm_buf_str(&graph);
      size_t at = 0;
      while (a[at] == b[at]) at++;
      for (; at > 0 && a[at - 1] != '\n'; at--) {
      }
      fail_msg("another layout is another program:\n%.200s\n%.200s\n%s", a + at, b + at, pm_buf_str(all[i]));
    }
    model_free(&x);
  }
  for (int i = 0; i < 4; i++) pm_buf_deinit(all[i]);
}

// Values --------------------------------------------------------------------------------------------------------------

static double number(PmDtype dtype, double v) {
  return dtype == PM_F16 ? (double)pm_f16_round(v) : dtype == PM_BF16 ? (double)pm_bf16_round(v) : (double)(float)v;
}

// Away from zero, so that every term counts; a tenth of the indices point nowhere.
static void fill(Model *x, PmFnId fn, uint64_t seed) {
  const PmFn *f = pm_fn(x->m, fn);
  x->in = PM_NEW_N(&x->arena, PmTensor, f->n_params + 1);
  for (int32_t i = 0; i < f->n_params; i++) {
    PmVarId id = f->param_bind[i].var;
    const PmVar *var = &x->m->vars[id];
    x->in[i] = pm_tensor_new(&x->arena, x->m, &f->values[i].type);
    uint64_t key = pm_random_key(seed, var->path);
    if (var->role == PM_ROLE_STEP) x->in[i].data[0] = 3;
    if (var->owner != PM_NONE) pm_var_init(x->m, id, seed, x->in[i].data);
    if (var->role == PM_ROLE_STEP || var->owner != PM_NONE) continue;
    for (int64_t e = 0; e < x->in[i].n; e++) {
      double u = pm_random_uniform(key, 0, (uint64_t)e);
      double near = (u < 0.5 ? -0.1 : 0.1) + 1.6 * (u - 0.5);
      double at = floor(u * 1.1 * (double)(var->type.index_of == PM_NONE ? 1 : pm_axis_size(x->m, var->type.index_of)));
      bool outside = var->type.index_of != PM_NONE && at >= (double)pm_axis_size(x->m, var->type.index_of);
      x->in[i].data[e] = outside ? -1 : var->type.index_of != PM_NONE ? at : number((PmDtype)var->type.dtype, near);
    }
  }
}

static PmTensor *run(Model *x, PmArena *arena, PmFnId fn, PmInterpMode mode) {
  PmTensor *out = PM_NEW_N(arena, PmTensor, pm_fn(x->m, fn)->n_results + 1);
  PmStatus *st = pm_interp_run(x->m, fn, mode, arena, x->in, out);
  if (st) pm_status_print(st, stderr);
  assert_null(st);
  return out;
}

static bool same_bits(double a, double b) { return (isnan(a) && isnan(b)) || memcmp(&a, &b, sizeof a) == 0; }

static void check_simplify(Model *x, const char *text, uint64_t seed) {
  fill(x, x->m->model, seed);
  PmTensor *before[2], *after[2];
  for (int i = 0; i < 2; i++) before[i] = run(x, &x->arena, x->m->model, i ? PM_INTERP_EXACT : PM_INTERP_F64);
  run_passes(x, text, "simplify");
  for (int i = 0; i < 2; i++) {
    after[i] = run(x, &x->arena, x->m->model, i ? PM_INTERP_EXACT : PM_INTERP_F64);
    for (int32_t r = 0; r < pm_fn(x->m, x->m->model)->n_results; r++) {
      for (int64_t e = 0; e < before[i][r].n; e++) {
        double a = before[i][r].data[e], b = after[i][r].data[e];
        if (!same_bits(a, b)) fail_msg("simplified, result %d is %a, not %a:\n%s", r, b, a, text);
      }
    }
  }
}

static int32_t report_at(const Model *x, const char *name) {
  const PmFn *f = pm_fn(x->m, x->m->step);
  for (int32_t i = 0; i < f->n_results; i++) {
    if (f->result_bind[i].report && strcmp(f->result_bind[i].report, name) == 0) return i;
  }
  return PM_NONE;
}

// The loss along a line through the values of one parameter. It is the model's own, before any pass.
typedef struct Line {
  Model *x;
  int32_t param;
  const double *at, *direction;
} Line;

static double loss_at(const Line *l, double h) {
  PmTensor *in = &l->x->in[l->param];
  for (int64_t e = 0; e < in->n; e++) in->data[e] = l->at[e] + h * l->direction[e];
  double loss = run(l->x, &l->x->scratch, l->x->m->model, PM_INTERP_F64)[0].data[0];
  pm_arena_reset(&l->x->scratch);
  for (int64_t e = 0; e < in->n; e++) in->data[e] = l->at[e];
  return loss;
}

static double slope(const Line *l, double h) {
  return (loss_at(l, -2 * h) - 8 * loss_at(l, -h) + 8 * loss_at(l, h) - loss_at(l, 2 * h)) / (12 * h);
}

typedef struct Count {
  int64_t slopes, kinks;
} Count;

// Where the loss has a kink between the points of a difference (max, abs, choices of topk), no slope is known, and
// differences of other steps do not agree with it. Differences alone judge that, so that a wrong gradient never looks
// like a kink.
static bool is_kink(const Line *l, double h, double found, double tolerance) {
  return fabs(slope(l, 0.37 * h) - found) > 0.2 * tolerance;
}

static void check_slope(const Line *l, const PmTensor *grad, const char *text, Count *count) {
  double largest = 1e-3, expected = 0;
  for (int64_t e = 0; e < grad->n; e++) {
    largest = fmax(largest, fabs(grad->data[e]));
    expected += grad->data[e] * l->direction[e];
  }
  double tolerance = 1e-6 * fmax(largest, fabs(expected));
  count->slopes++;
  for (double h = 1e-3; h > 1e-6; h *= 0.1) {
    double found = slope(l, h);
    if (fabs(found - expected) <= tolerance) return;
    if (is_kink(l, h, found, tolerance)) continue;
    const char *path = l->x->m->vars[pm_fn(l->x->m, l->x->m->model)->param_bind[l->param].var].path;
    fail_msg("%s: slope %.12g, not %.12g:\n%s", path, expected, found, text);
  }
  count->kinks++;
}

// Along a random direction, which sees every element, and along one element alone.
static void check_gradients(Model *x, Model *plain, const char *text, uint64_t seed, Count *count) {
  const PmFn *f = pm_fn(plain->m, plain->m->model);
  fill(x, x->m->step, seed);
  fill(plain, plain->m->model, seed);
  PmTensor *out = run(x, &x->arena, x->m->step, PM_INTERP_F64);
  double loss = out[report_at(x, "loss")].data[0],
         own = run(plain, &plain->arena, plain->m->model, PM_INTERP_F64)[0].data[0];
  if (!(fabs(loss - own) <= 1e-12 * fmax(1, fabs(own))))
    fail_msg("the step's loss is %.17g, not %.17g:\n%s", loss, own, text);
  for (int32_t i = 0; i < f->n_params; i++) {
    const PmVar *var = &plain->m->vars[f->param_bind[i].var];
    if (var->role != PM_ROLE_PARAM) continue;
    int32_t at = report_at(x, pm_arena_printf(&x->arena, "d(%s)", var->path));
    if (at == PM_NONE) fail_msg("no gradient of %s:\n%s", var->path, text);
    int64_t n = plain->in[i].n;
    double *values = PM_NEW_N(&x->arena, double, n), *direction = PM_NEW_N(&x->arena, double, n);
    memcpy(values, plain->in[i].data, (size_t)n * sizeof *values);
    for (int64_t e = 0; e < n; e++) direction[e] = pm_random_uniform(seed, (uint64_t)i, (uint64_t)e) - 0.5;
    check_slope(&(Line){plain, i, values, direction}, &out[at], text, count);
    int64_t one = (int64_t)(pm_random_u32(seed, 7, (uint64_t)i) % (uint64_t)n);
    for (int64_t e = 0; e < n; e++) direction[e] = e == one;
    check_slope(&(Line){plain, i, values, direction}, &out[at], text, count);
  }
}

// Partitioned by its plan and run on all ranks in lockstep, the step gives the loss and the gradients that it gave on
// one. States and parameters are left out: an optimizer may take the sign of what is zero but for rounding.
static void check_plan(Model *x, const char *text) {
  const PmFn *f = pm_fn(x->m, x->m->step);
  int32_t n_in = f->n_params, n_out = f->n_results;
  PmTensor *whole = x->in, *want = run(x, &x->arena, x->m->step, PM_INTERP_F64);
  run_passes(x, text, "place,partition,simplify");
  check_round_trip(x, text, "partition");
  f = pm_fn(x->m, x->m->step);
  assert_int_equal(f->n_params, n_in);
  assert_int_equal(f->n_results, n_out);
  x->in = PM_NEW_N(&x->arena, PmTensor, n_in + 1);
  for (int32_t i = 0; i < n_in; i++) {
    x->in[i] = pm_tensor_new(&x->arena, x->m, &f->values[i].type);
    pm_tensor_scatter(x->m, whole[i].data, &x->in[i]);
  }
  PmTensor *got = run(x, &x->arena, x->m->step, PM_INTERP_F64);
  for (int32_t i = 0; i < n_out; i++) {
    const char *report = f->result_bind[i].report;
    if (!report || (strcmp(report, "loss") != 0 && strncmp(report, "d(", 2) != 0)) continue;
    double *all = PM_NEW_N(&x->arena, double, want[i].n), largest = 1e-3;
    pm_tensor_gather(x->m, &got[i], all);
    for (int64_t e = 0; e < want[i].n; e++) largest = fmax(largest, fabs(want[i].data[e]));
    for (int64_t e = 0; e < want[i].n; e++) {
      if (fabs(all[e] - want[i].data[e]) <= 1e-9 * largest) continue;
      fail_msg("%s is %.12g on the plan, not %.12g:\n%s", report, all[e], want[i].data[e], text);
    }
  }
}

static void check_program(uint64_t seed, Count *count) {
  PmBuf text, graph;
  bool has_plan;
  pm_buf_init(&text);
  pm_buf_init(&graph);
  gen_program(seed, &text, &has_plan);
  const char *program = pm_buf_str(&text);
  if (getenv("PM_TEST_PRINT")) printf("%s\n", program);
  Model x, plain;
  compile(&x, program, has_plan);
  compile(&plain, program, has_plan);
  print_unplaced(&x, &graph);
  check_layouts(seed, program, has_plan, &graph);
  check_round_trip(&x, program, "frontend");
  check_simplify(&x, program, seed);
  check_round_trip(&x, program, "simplify");
  run_passes(&x, program, "differentiate");
  check_round_trip(&x, program, "differentiate");
  run_passes(&x, program, "simplify");
  check_round_trip(&x, program, "simplify");
  check_gradients(&x, &plain, program, seed, count);
  if (has_plan) check_plan(&x, program);
  model_free(&x);
  model_free(&plain);
  pm_buf_deinit(&text);
  pm_buf_deinit(&graph);
}

static void test_programs(void **state) {
  (void)state;
  const char *one = getenv("PM_TEST_SEED"), *n = getenv("PM_TEST_SEEDS");
  uint64_t lo = one ? strtoull(one, NULL, 10) : 0, hi = one ? lo + 1 : n ? strtoull(n, NULL, 10) : N_SEEDS;
  Count count = {0, 0};
  for (uint64_t seed = lo; seed < hi; seed++) {
    check_program(seed, &count);
  }
  print_message("%lld slopes, %lld of them at kinks\n", (long long)count.slopes, (long long)count.kinks);
  if (!one) assert_true(count.kinks * 20 <= count.slopes);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_programs)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
