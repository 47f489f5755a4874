// Micro-batches: steps of a program in several of them, on several plans, all ranks in lockstep and in double, give
// what one forward and backward over all rows gives: loss, reports, every gradient and every variable, step after step.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/philox.h"
#include "frontend/frontend.h"
#include "harness.h"
#include "plans.h"

#define STEPS 3
#define IGNORED_ROWS 3  // of `targets`, the first ones: all labels are -1, so that micro-batches have unequal parts

// A program at one plan, with its variables as they are after the steps so far.
typedef struct Run {
  PmArena arena;
  PmInterner names;
  PmSources sources;
  PmModule *m;
  double **vars;  // by variable: the whole of it
  PmTensor *out;  // results of the newest step
  const char *diags;
} Run;

static const char dense[] =
    "pmodel 1\nimport \"std\"\n"
    "axis batch = 8, seq = 3, vocab = 6, embed = 4, ff = 8, layer = 2\n"
    "fn both(a, b) {\n  c = a + 0.5 * b\n  return c\n}\n"
    "fn spread[rows](x) {\n  s = mean[rows, seq](x * x)\n  return s\n}\n"
    "block mlp(x) {\n"
    "  param w1[embed, ff], w2[ff, embed] ~ normal(0.5)\n"
    "  state seen[embed], calls ~ zeros\n"
    "  h = gelu(dot[embed](x, w1))\n"
    "  seen += 0.1 * (sqrt(mean[batch, seq](x * x)) - seen)\n"
    "  calls += 1\n"
    "  report size = mean[batch, seq, ff](h * h)\n"
    "  report root = mean[batch, seq, ff](h * h) ** 0.5\n"
    "  return dropout(dot[ff](h, w2), 0.25)\n}\n"
    "model m {\n"
    "  input tokens[batch, seq] in vocab\n"
    "  input targets[batch, seq] in vocab\n"
    "  input weights[seq, batch]: f32\n"
    "  param table[vocab, embed], head[embed, vocab], unused[embed] ~ normal(0.5)\n"
    "  state far ~ ones\n"
    "  x = dropout(table[vocab = tokens], 0.5)\n"
    "  aux = 0.0\n"
    "  z = 0.0\n"
    "  repeat layer {\n"
    "    sub ffn = mlp\n"
    "    x += ffn(x)\n"
    "    aux += mean[batch, seq, embed](x * x) / layer\n"
    "    z += mean[batch, seq](sum[embed](x * x), where=targets > 1)\n"
    "  }\n"
    "  logits = dot[embed](x, head)\n"
    "  l = xent[vocab](logits, targets)\n"
    "  nll = mean[batch, seq](l, where=targets >= 0)\n"
    "  far = 0.5 * far + nll * aux\n"
    "  report nll = nll\n"
    "  report ppl = exp(nll)\n"
    "  report counted = sum[batch, seq](where(targets >= 0, 1.0, 0.0))\n"
    "  report fixed = sum[embed](unused)\n"
    "  w = dot[batch, seq](weights, sum[embed](x * x))\n"
    "  minimize both(nll, aux) + 0.1 * z + 0.01 * w + 0.1 * spread[batch](sum[embed](x)) + 0.01 * sum[embed](unused * "
    "unused)\n}\n"
    "train {\n  optimizer = adamw(decay=0.1)\n  lr = 0.05\n  clip = 0.5\n  seed = 5\n}\n";

// Routing without an auxiliary loss; a ragged axis drops nothing, so that nothing depends on the number of
// micro-batches.
static const char routed[] =
    "pmodel 1\nimport \"std\"\n"
    "axis batch = 8, seq = 2, vocab = 6, embed = 4, ff = 4, layer = 2, expert = 4, choice = 2, slot = ragged\n"
    "block moe(x) {\n"
    "  param wr[embed, expert] ~ normal(1)\n"
    "  param w1[expert, embed, ff], w2[expert, ff, embed] ~ normal(0.5)\n"
    "  state bias[expert] ~ zeros\n"
    "  s = sigmoid(dot[embed](x, wr))\n"
    "  top, who = topk[expert -> choice](s + bias)\n"
    "  w = s[expert = who]\n"
    "  h = dispatch[expert, slot](x, who)\n"
    "  h = dot[ff](gelu(dot[embed](h, w1)), w2)\n"
    "  load = mean[batch, seq, choice](onehot[expert](who))\n"
    "  bias += 0.1 * sign(1 / expert - load)\n"
    "  report worst = max[expert](load)\n"
    "  return sum[choice](combine[slot](h, who) * w / sum[choice](w))\n}\n"
    "model m {\n"
    "  input tokens[batch, seq] in vocab\n"
    "  input targets[batch, seq] in vocab\n"
    "  param table[vocab, embed], head[embed, vocab] ~ normal(0.5)\n"
    "  x = table[vocab = tokens]\n"
    "  repeat layer {\n    sub ffn = moe\n    x += ffn(x)\n  }\n"
    "  minimize mean[batch, seq](xent[vocab](dot[embed](x, head), targets))\n}\n"
    "train {\n  optimizer = momentum(beta=0.9)\n  lr = 0.1\n  seed = 6\n}\n";

// What is made of inputs alone goes anywhere, though `n + 1` is no sum over micro-batches of anything.
static const char counted[] =
    "pmodel 1\nimport \"std\"\n"
    "axis batch = 8, seq = 3, vocab = 6, embed = 4, layer = 2, two = 2\n"
    "model m {\n"
    "  input tokens[batch, seq] in vocab\n"
    "  input targets[batch, seq] in vocab\n"
    "  param table[vocab, embed], head[embed, vocab] ~ normal(0.5)\n"
    "  state old ~ ones\n"
    "  valid = f32(targets >= 0)\n"
    "  n = sum[batch, seq](valid)\n"
    "  k = sum[batch, seq](f32(tokens > 2))\n"
    "  x = table[vocab = tokens]\n"
    "  repeat layer {\n"
    "    param w[embed] ~ ones\n"
    "    rows = sum[batch](valid) + 1\n"
    "    x += x * w / (1 + 0.1 * n) / rows\n"
    "    report rows = mean[seq](rows * rows)\n"
    "  }\n"
    "  l = valid * xent[vocab](dot[embed](x, head), targets)\n"
    "  old = old + 1 + 0.1 * n\n"
    "  both = stack[two](n + 1, 3 + k)\n"
    "  report d = (n + 1) * k + k * k + old\n"
    "  minimize sum[batch, seq](l) / (n + 1) + sum[batch, seq](l) / ((n + 1) * k + old) * where(n > 3, k + 1, 1)"
    " + sum[batch, seq](l) / max(sum[two](both), 1) + n * mean[embed, vocab](head * head)\n}\n"
    "train {\n  optimizer = sgd()\n  lr = 0.1\n  seed = 7\n}\n";

static const char *const dp2_tp2 = "mesh data=2, tensor=2\nshard batch -> data\nshard ff, vocab -> tensor\n";
static const char *const meshes[] = {
    "mesh data=1\n",
    "mesh data=2\nshard batch -> data\n",
    "mesh data=2, tensor=2\nshard batch -> data\nshard ff, vocab -> tensor\n",
    "mesh tensor=2\nshard act seq -> none\nshard embed -> tensor\n",
    "mesh data=2\nshard batch -> data\nzero(stage=1, over=data)\n",
    "mesh data=2\nshard batch -> data\nzero(stage=2, over=data)\n",
    "mesh data=2\nshard batch -> data\nzero(stage=3, over=data)\n",
    "mesh data=2, tensor=2\nshard batch -> data\nshard ff -> tensor\nzero(stage=3, over=data)\n",
    "mesh data=4\nshard batch -> data\npad(batch)\n",
};

static void init_vars(Run *r) {
  r->vars = (double **)pm_arena_alloc_n(&r->arena, (size_t)r->m->n_vars + 1, sizeof(double *));
  for (PmVarId v = 0; v < r->m->n_vars; v++) {
    int64_t n;
    assert_true(pm_type_elements(r->m, &r->m->vars[v].type, &n));
    r->vars[v] = PM_NEW_N(&r->arena, double, n);
    if (r->m->vars[v].role != PM_ROLE_INPUT) pm_var_init(r->m, v, r->m->seed, r->vars[v]);
  }
}

// `mesh` NULL: the logical step over all rows. False, with r closed, for a program that does not go with micro-batches.
static bool try_text(Run *r, const char *text, const char *mesh, int32_t micro) {
  memset(r, 0, sizeof *r);
  pm_arena_init(&r->arena, 0);
  pm_interner_init(&r->names, &r->arena);
  pm_sources_init(&r->sources, &r->arena);
  PmDiags *diags = pm_diags_new(&r->arena, &r->sources);
  const char *all = text;
  if (mesh) all = pm_arena_printf(&r->arena, "%splan p {\n%saccumulate(micro=%d)\n}\n", text, mesh, (int)micro);
  PmFrontendOptions o = {.seed = -1, .plan = mesh ? "p" : NULL};
  PmStatus *st =
      pm_frontend_compile_text(&r->arena, &r->names, &r->sources, diags, "m.pmodel", all, strlen(all), &o, &r->m);
  PmPassCtx ctx = {.diags = diags, .sources = &r->sources, .verify = true, .keep_grads = true};
  if (!st) st = pm_passes_run(&ctx, r->m, mesh ? PM_DEFAULT_PASSES : "simplify,differentiate,simplify");
  if (!st) {
    init_vars(r);
    return true;
  }
  char *said = NULL;
  size_t len;
  FILE *f = open_memstream(&said, &len);
  assert_non_null(f);
  pm_diags_print(diags, false, f);
  fclose(f);
  if (micro < 2 || !strstr(said, "error[E0404]")) fail_msg("%s\n%s\n%s", pm_status_message(st), said, all);
  free(said);
  pm_status_drop(st);
  pm_arena_deinit(&r->arena);
  return false;
}

static void open_text(Run *r, const char *text, const char *mesh, int32_t micro) {
  if (!try_text(r, text, mesh, micro)) fail_msg("refused: %s", text);
}

static void close_run(Run *r) { pm_arena_deinit(&r->arena); }

// Whole rows of a step, by element: the same whatever the axes.
static double input_value(const PmModule *m, const PmVar *v, int64_t step, int64_t i) {
  uint64_t key = pm_random_key((uint64_t)step, v->path);
  if (v->type.index_of == PM_NONE) return 2 * pm_random_uniform(key, 0, (uint64_t)i) - 1;
  int64_t seq = pm_axis_size(m, v->type.dims[v->type.rank - 1].axis);
  if (strcmp(v->path, "targets") == 0 && i / seq < IGNORED_ROWS) return -1;
  return (double)(pm_random_u32(key, 0, (uint64_t)i) % (uint64_t)pm_axis_size(m, v->type.index_of));
}

static void step(Run *r, int64_t number) {
  const PmModule *m = r->m;
  const PmFn *f = pm_fn(m, m->step);
  PmTensor *in = PM_NEW_N(&r->arena, PmTensor, f->n_params + 1);
  r->out = PM_NEW_N(&r->arena, PmTensor, f->n_results + 1);
  for (int32_t k = 0; k < f->n_params; k++) {
    PmVarId v = f->param_bind[k].var;
    in[k] = pm_tensor_new(&r->arena, m, &f->values[k].type);
    int64_t n;
    assert_true(pm_type_elements(m, &m->vars[v].type, &n));
    for (int64_t i = 0; m->vars[v].role == PM_ROLE_INPUT && i < n; i++)
      r->vars[v][i] = input_value(m, &m->vars[v], number, i);
    if (m->vars[v].role == PM_ROLE_STEP) r->vars[v][0] = (double)number;
    pm_tensor_scatter(m, r->vars[v], &in[k]);
  }
  PmStatus *st = pm_interp_run(m, m->step, PM_INTERP_F64, &r->arena, in, r->out);
  if (st) fail_msg("%s", pm_status_message(st));
  for (int32_t k = 0; k < f->n_results; k++) {
    if (f->result_bind[k].var != PM_NONE) pm_tensor_gather(m, &r->out[k], r->vars[f->result_bind[k].var]);
  }
}

static const double *report(Run *r, const char *name, int64_t *out_n) {
  const PmFn *f = pm_fn(r->m, r->m->step);
  for (int32_t k = 0; k < f->n_results; k++) {
    if (!f->result_bind[k].report || strcmp(f->result_bind[k].report, name) != 0) continue;
    assert_true(pm_type_elements(r->m, &f->values[f->results[k]].type, out_n));
    double *whole = PM_NEW_N(&r->arena, double, *out_n);
    pm_tensor_gather(r->m, &r->out[k], whole);
    return whole;
  }
  fail_msg("no report %s", name);
  return NULL;
}

static void same(const char *what, const double *a, const double *b, int64_t n, const char *where) {
  double largest = 1e-3, worst = 0;
  for (int64_t i = 0; i < n; i++) {
    double e = a[i] > b[i] ? a[i] - b[i] : b[i] - a[i], size = a[i] < 0 ? -a[i] : a[i];
    if (size > largest) largest = size;
    if (!(e <= worst)) worst = e;
  }
  if (!(worst <= 1e-11 * largest)) fail_msg("%s: %g of %g\n%s", what, worst, largest, where);
}

static void same_steps(Run *want, Run *got, const char *where) {
  const PmFn *f = pm_fn(want->m, want->m->step);
  for (int64_t t = 1; t <= STEPS; t++) {
    step(want, t);
    step(got, t);
    for (int32_t k = 0; k < f->n_results; k++) {
      const char *name = f->result_bind[k].report;
      if (!name) continue;
      int64_t n, n_got;
      const double *a = report(want, name, &n), *b = report(got, name, &n_got);
      assert_int_equal(n, n_got);
      same(name, a, b, n, where);
    }
    for (PmVarId v = 0; v < want->m->n_vars; v++) {
      PmVarId w = pm_module_find_var(got->m, want->m->vars[v].path);
      int64_t n;
      assert_true(pm_type_elements(want->m, &want->m->vars[v].type, &n));
      same(want->m->vars[v].path, want->vars[v], got->vars[w], n, where);
    }
  }
}

static void check_all(const char *text) {
  static const int32_t parts[] = {1, 2, 4};
  for (size_t i = 0; i < sizeof meshes / sizeof *meshes; i++) {
    for (size_t k = 0; k < 3; k++) {
      Run want, got;
      open_text(&want, text, NULL, 1);
      open_text(&got, text, meshes[i], parts[k]);
      char where[512];
      snprintf(where, sizeof where, "%saccumulate(micro=%d)", meshes[i], (int)parts[k]);
      same_steps(&want, &got, where);
      close_run(&want);
      close_run(&got);
    }
  }
}

static void test_dense(void **state) {
  (void)state;
  check_all(dense);
}

static void test_routed(void **state) {
  (void)state;
  check_all(routed);
}

static void test_counted(void **state) {
  (void)state;
  check_all(counted);
}

// A share of the rows that no mesh axis divides evenly is not asked for: three micro-batches of two rows.
static void test_three(void **state) {
  (void)state;
  Run want, got;
  PmBuf text;
  pm_buf_init(&text);
  pm_buf_puts(&text, dense);
  char *at = strstr(text.data, "batch = 8");
  assert_non_null(at);
  at[8] = '6';
  open_text(&want, pm_buf_str(&text), NULL, 1);
  open_text(&got, pm_buf_str(&text), meshes[2], 3);
  same_steps(&want, &got, "three");
  close_run(&want);
  close_run(&got);
  pm_buf_deinit(&text);
}

static const char own_terms[] =
    "pmodel 1\nimport \"std\"\n"
    "axis batch = %d, seq = 2, embed = 4, expert = 4\n"
    "fn variance[rows](x) {\n"
    "  m = mean[rows, seq, expert](x)\n"
    "  return mean[rows, seq, expert](x * x) - m * m\n}\n"
    "model m {\n  input x[batch, seq, embed]: f32\n  param w[embed, expert] ~ normal(1)\n"
    "  state kept ~ zeros\n"
    "  p = softmax[expert](dot[embed](x, w))\n"
    "  load = mean[batch.micro, seq](p)\n"
    "  aux = expert * sum[expert](load * load)\n"
    "  kept = exp(aux)\n"
    "  report aux = aux\n"
    "  report variance = variance[batch.micro](p)\n"
    "  report most = max[batch.micro, seq, expert](p)\n"
    "  report rows = batch.micro\n"
    "  report all = batch\n"
    "  minimize mean[batch, seq, expert](p * p * p) + 0.1 * aux\n}\n"
    "train {\n  optimizer = sgd()\n  lr = 0.1\n  seed = 6\n}\n";

// One step over one half of the rows of `both`, alone.
static void run_half(Run *r, const Run *both, int32_t half) {
  char text[1024];
  snprintf(text, sizeof text, own_terms, 4);
  open_text(r, text, NULL, 1);
  const PmFn *f = pm_fn(r->m, r->m->step);
  PmTensor *in = PM_NEW_N(&r->arena, PmTensor, f->n_params);
  r->out = PM_NEW_N(&r->arena, PmTensor, f->n_results);
  for (int32_t k = 0; k < f->n_params; k++) {
    in[k] = pm_tensor_new(&r->arena, r->m, &f->values[k].type);
    PmVarId v = f->param_bind[k].var;
    const double *from = r->vars[v];
    if (r->m->vars[v].role == PM_ROLE_INPUT) from = both->vars[pm_module_find_var(both->m, "x")] + half * in[k].n;
    memcpy(in[k].data, from, (size_t)in[k].n * sizeof(double));
  }
  assert_null(pm_interp_run(r->m, r->m->step, PM_INTERP_F64, &r->arena, in, r->out));
}

static void check_halves(const char *mesh) {
  char text[1024];
  snprintf(text, sizeof text, own_terms, 8);
  Run both, one[2];
  open_text(&both, text, mesh, 2);
  step(&both, 1);
  for (int32_t h = 0; h < 2; h++) run_half(&one[h], &both, h);
  static const char *const names[] = {"loss", "aux", "most", "variance", "d(w)"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    int64_t n, m;
    const double *all = report(&both, names[i], &n);
    const double *a = report(&one[0], names[i], &m), *b = report(&one[1], names[i], &m);
    double mean[16];
    assert_true(n == m && n <= 16);
    for (int64_t k = 0; k < n; k++) mean[k] = (a[k] + b[k]) / 2;
    same(names[i], mean, all, n, mesh);
  }
  int64_t n;
  assert_true(*report(&both, "rows", &n) == 4);
  assert_true(*report(&both, "all", &n) == 8);
  close_run(&both);
  close_run(&one[0]);
  close_run(&one[1]);
}

// What says `batch.micro` is taken over the rows of one micro-batch, and averaged: the mean of what steps over each
// half of the rows alone have, on any mesh.
static void test_own_terms_are_averaged(void **state) {
  (void)state;
  check_halves("mesh data=1\n");
  check_halves("mesh data=2\nshard batch -> data\n");
  check_halves("mesh data=2, tensor=2\nshard batch -> data\nshard expert -> tensor\n");
  check_halves("mesh context=2, tensor=2\nshard seq -> context\nshard embed -> tensor\n");
  check_halves("mesh data=4\nshard batch -> data\nzero(stage=3, over=data)\n");
}

static int64_t count(const char *text, const char *mesh, int32_t micro, PmOp op) {
  Run r;
  open_text(&r, text, mesh, micro);
  int64_t n = plan_count(r.m, op);
  close_run(&r);
  return n;
}

static const char small[] =
    "pmodel 1\nimport \"std\"\n"
    "axis batch = 8, embed = 4, ff = 8, layer = 2\n"
    "model m {\n  input x[batch, embed]: f32\n"
    "  h = x\n"
    "  repeat layer {\n    param w1[embed, ff], w2[ff, embed] ~ normal(0.5)\n    h += dot[ff](gelu(dot[embed](h, w1)), "
    "w2)\n  }\n"
    "  minimize mean[batch, embed](h * h, where=x > 0)\n}\n"
    "train {\n  optimizer = sgd()\n  lr = 0.1\n}\n";

// A bucket of two gradients, the loss, and the count of what the mask allows, whatever the number of micro-batches;
// under ZeRO 2 and 3 gradients are scattered in each turn of each.
static void test_collectives(void **state) {
  (void)state;
  for (int32_t micro = 2; micro <= 4; micro += 2) {
    assert_int_equal(count(small, meshes[1], micro, PM_OP_all_reduce), 1 + 1 + 1);
    // 2 layers, forward and backward, one each.
    assert_int_equal(count(small, "mesh tensor=2\nshard ff -> tensor\n", micro, PM_OP_all_reduce), 4 * micro + 1);
    assert_int_equal(count(small, meshes[4], micro, PM_OP_reduce_scatter), 2);
    assert_int_equal(count(small, meshes[4], micro, PM_OP_all_gather), 2);
    assert_int_equal(count(small, meshes[5], micro, PM_OP_reduce_scatter), 2 * 2 * micro);
    assert_int_equal(count(small, meshes[5], micro, PM_OP_all_gather), 2);
    assert_int_equal(count(small, meshes[6], micro, PM_OP_reduce_scatter), 2 * 2 * micro);
    assert_int_equal(count(small, meshes[6], micro, PM_OP_all_gather), 2 * 2 * 2 * micro);
  }
}

// The parts of a model before the pass that joins them, and the step, read back from their text.
static void test_text(void **state) {
  (void)state;
  static const char *const passes[] = {"simplify", "simplify,differentiate,simplify", PM_DEFAULT_PASSES};
  for (size_t i = 0; i < 3; i++) {
    Run r;
    memset(&r, 0, sizeof r);
    pm_arena_init(&r.arena, 0);
    pm_interner_init(&r.names, &r.arena);
    pm_sources_init(&r.sources, &r.arena);
    PmDiags *diags = pm_diags_new(&r.arena, &r.sources);
    const char *all = pm_arena_printf(&r.arena, "%splan p {\n%saccumulate(micro=2)\n}\n", dense, dp2_tp2);
    PmFrontendOptions o = {.seed = -1, .plan = "p"};
    assert_null(
        pm_frontend_compile_text(&r.arena, &r.names, &r.sources, diags, "m.pmodel", all, strlen(all), &o, &r.m));
    PmPassCtx ctx = {.diags = diags, .sources = &r.sources, .verify = true};
    assert_null(pm_passes_run(&ctx, r.m, passes[i]));
    PmBuf once, twice;
    pm_buf_init(&once);
    pm_buf_init(&twice);
    pm_module_print(r.m, &once);
    PmModule *back = NULL;
    PmStatus *st = pm_module_read(&r.arena, &r.names, "t.pir", pm_buf_str(&once), once.len, &back);
    if (st) fail_msg("%s", pm_status_message(st));
    pm_module_print(back, &twice);
    assert_string_equal(pm_buf_str(&once), pm_buf_str(&twice));
    if (i == 0) {
      assert_true(back->before != PM_NONE && back->after != PM_NONE && back->micro != PM_NONE);
      assert_null(pm_passes_run(&ctx, back, "differentiate,simplify,place,partition"));
    }
    pm_buf_deinit(&once);
    pm_buf_deinit(&twice);
    close_run(&r);
  }
}

// ---- programs by lot -----------------------------------------------------------------------------------------------
#define LOT 120

typedef enum Shape { ROWS, LINE, NUMBER, N_SHAPES } Shape;

// Values that can be named where the text stands, and the text.
typedef struct Lot {
  uint64_t seed, at;
  PmBuf text;
  char names[N_SHAPES][64][16];
  int32_t n[N_SHAPES], n_names;
} Lot;

static int32_t below(Lot *l, int32_t n) { return (int32_t)(pm_random_u32(l->seed, 0, l->at++) % (uint32_t)n); }
// Half of the time the newest.
static const char *some(Lot *l, Shape s) { return l->names[s][below(l, 2) ? l->n[s] - 1 : below(l, l->n[s])]; }

static void add_name(Lot *l, Shape s, const char *name) {
  if (l->n[s] == 64) return;
  snprintf(l->names[s][l->n[s]++], sizeof l->names[s][0], "%s", name);
}

// A value over rows, of the embedding, or a number, made of earlier ones. Sums are over all rows.
static void put_value(Lot *l, Shape s) {
  static const char *const unary[] = {"tanh", "sin", "cos", "sqrt"};
  static const char *const joint[] = {"+", "-", "*"};
  const char *op = joint[below(l, 3)], *fn = unary[below(l, 3)];
  int32_t kind = below(l, 8);
  if (s == ROWS && kind < 2) pm_buf_printf(&l->text, "%s(%s)", fn, some(l, ROWS));
  if (s == ROWS && kind >= 2 && kind < 5) pm_buf_printf(&l->text, "%s %s %s", some(l, ROWS), op, some(l, ROWS));
  if (s == ROWS && kind == 5) pm_buf_printf(&l->text, "%s %s %s", some(l, ROWS), op, some(l, LINE));
  if (s == ROWS && kind > 5) pm_buf_printf(&l->text, "%s * w", some(l, ROWS));
  if (s == LINE && kind < 3) pm_buf_printf(&l->text, "mean[batch](%s)", some(l, ROWS));
  if (s == LINE && kind == 3) pm_buf_printf(&l->text, "dot[batch](%s, %s)", some(l, ROWS), some(l, ROWS));
  if (s == LINE && kind == 4) pm_buf_printf(&l->text, "mean[batch](%s, where=x > 0)", some(l, ROWS));
  if (s == LINE && kind == 5) pm_buf_printf(&l->text, "%s(%s)", fn, some(l, LINE));
  if (s == LINE && kind > 5) pm_buf_printf(&l->text, "%s %s %s", some(l, LINE), op, some(l, LINE));
  if (s == NUMBER && kind < 3) pm_buf_printf(&l->text, "sum[embed](%s)", some(l, LINE));
  if (s == NUMBER && kind == 3) pm_buf_printf(&l->text, "mean[batch, embed](%s)", some(l, ROWS));
  if (s == NUMBER && kind == 4)
    pm_buf_printf(&l->text, "where(%s > 0, %s, %s)", some(l, NUMBER), some(l, NUMBER), some(l, NUMBER));
  if (s == NUMBER && kind == 5) pm_buf_printf(&l->text, "%s(%s)", fn, some(l, NUMBER));
  if (s == NUMBER && kind == 6) pm_buf_printf(&l->text, "%s / batch", some(l, NUMBER));
  if (s == NUMBER && kind > 6) pm_buf_printf(&l->text, "%s %s %s", some(l, NUMBER), op, some(l, NUMBER));
}

static void put_statements(Lot *l, int32_t n) {
  for (int32_t i = 0; i < n; i++) {
    Shape s = (Shape)below(l, N_SHAPES);
    char name[16];
    snprintf(name, sizeof name, "v%d", l->n_names++);
    pm_buf_printf(&l->text, "  %s = ", name);
    put_value(l, s);
    pm_buf_putc(&l->text, '\n');
    add_name(l, s, name);
  }
}

static void put_repeat(Lot *l) {
  int32_t n[N_SHAPES];
  memcpy(n, l->n, sizeof n);
  pm_buf_puts(&l->text,
              "  r = x\n  c = w\n  repeat layer {\n  param u[embed] ~ normal(0.5)\n  state s[embed] ~ ones\n");
  add_name(l, LINE, "u");
  add_name(l, LINE, "s");
  add_name(l, ROWS, "r");
  add_name(l, LINE, "c");
  put_statements(l, 4 + below(l, 4));
  pm_buf_printf(&l->text, "  r = tanh(r * u + %s)\n  c += %s\n  s = 0.5 * s + %s\n  report q = %s\n  }\n",
                some(l, ROWS), some(l, LINE), some(l, LINE), some(l, NUMBER));
  memcpy(l->n, n, sizeof n);
  add_name(l, ROWS, "r");
  add_name(l, LINE, "c");
}

static void put_program(Lot *l) {
  pm_buf_puts(&l->text,
              "pmodel 1\naxis batch = 8, embed = 2, layer = 2\nmodel m {\n  input x[batch, embed]: f32\n"
              "  param w[embed] ~ normal(0.5)\n  state a[embed], b ~ ones\n  free = sum[embed](w)\n  y = sin(x * w)\n");
  add_name(l, ROWS, "x");
  for (int32_t i = 0; i < 4; i++) add_name(l, ROWS, "y");
  add_name(l, LINE, "w");
  add_name(l, LINE, "a");
  add_name(l, NUMBER, "b");
  add_name(l, NUMBER, "free");
  put_statements(l, 3 + below(l, 4));
  if (below(l, 2)) put_repeat(l);
  put_statements(l, 2 + below(l, 3));
  pm_buf_printf(&l->text, "  a = 0.5 * a + %s\n  b = %s\n  report p = %s\n", some(l, LINE), some(l, NUMBER),
                some(l, NUMBER));
  pm_buf_printf(&l->text, "  minimize mean[batch, embed](%s) + 0.1 * %s\n}\n", some(l, ROWS), some(l, NUMBER));
  pm_buf_puts(&l->text, "import \"std\"\ntrain {\n  optimizer = sgd()\n  lr = 0.05\n}\n");
}

// What is not refused gives what one forward and backward over all rows gives. PM_TEST_SEEDS=n tries the first n.
static void test_lot(void **state) {
  (void)state;
  static const char *const some_meshes[] = {"mesh data=1\n", "mesh data=2\nshard batch -> data\n",
                                            "mesh data=2\nshard batch -> data\nzero(stage=2, over=data)\n"};
  const char *most = getenv("PM_TEST_SEEDS");
  uint64_t taken = 0, n_seeds = most ? strtoull(most, NULL, 10) : LOT;
  for (uint64_t seed = 1; seed <= n_seeds; seed++) {
    Lot l = {.seed = pm_random_key(seed, "micro")};
    pm_buf_init(&l.text);
    put_program(&l);
    Run want, got;
    if (try_text(&got, pm_buf_str(&l.text), some_meshes[seed % 3], seed % 2 ? 2 : 4)) {
      taken++;
      open_text(&want, pm_buf_str(&l.text), NULL, 1);
      same_steps(&want, &got, pm_buf_str(&l.text));
      close_run(&want);
      close_run(&got);
    }
    pm_buf_deinit(&l.text);
  }
  print_message("%llu of %llu programs are not refused\n", (unsigned long long)taken, (unsigned long long)n_seeds);
  assert_true(taken > n_seeds / 2 && taken < n_seeds);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_dense),
      cmocka_unit_test(test_routed),
      cmocka_unit_test(test_counted),
      cmocka_unit_test(test_three),
      cmocka_unit_test(test_own_terms_are_averaged),
      cmocka_unit_test(test_collectives),
      cmocka_unit_test(test_text),
      cmocka_unit_test(test_lot),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
