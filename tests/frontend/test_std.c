// The declared derivatives of the library against its definitions: fwd gives the same results, bwd the gradients that
// central differences of the definition give, in double.
#include "harness.h"

#include <math.h>
#include <string.h>

#include "base/philox.h"
#include "compile.h"
#include "ir/interp.h"

typedef struct Case {
  PmModule *m;
  PmArena *arena;
  PmFnId fn, fwd, bwd;
  PmTensor in[4];
  PmTensor cot[4];  // cotangents of the results
} Case;

static PmFnId sibling(const PmModule *m, PmFnId fn, const char *suffix) {
  char name[64];
  snprintf(name, sizeof name, "%s.%s", pm_fn(m, fn)->name, suffix);
  PmFnId found = pm_module_find_fn(m, name);
  assert_int_not_equal(found, PM_NONE);
  return found;
}

static PmTensor filled(Case *c, const PmType *t, uint64_t stream) {
  PmTensor x = pm_tensor_new(c->arena, c->m, t);
  uint64_t key = pm_random_key(stream, "std");
  for (int64_t i = 0; i < x.n; i++) {
    double u = pm_random_uniform(key, 0, (uint64_t)i);
    // Indices, one of them -1.
    x.data[i] =
        t->index_of != PM_NONE ? floor(u * (double)pm_axis_size(c->m, t->index_of)) - (i == 0 ? 1e9 : 0) : 4 * u - 2;
    if (x.data[i] < -1e8) x.data[i] = -1;
  }
  return x;
}

static void run(Case *c, PmFnId fn, const PmTensor *in, PmTensor *out) {
  PmStatus *st = pm_interp_run(c->m, fn, PM_INTERP_F64, c->arena, in, out);
  if (st) fail_msg("%s", pm_status_message(st));
}

static double objective(Case *c) {
  PmTensor out[4];
  run(c, c->fn, c->in, out);
  double sum = 0;
  for (int32_t r = 0; r < pm_fn(c->m, c->fn)->n_results; r++) {
    for (int64_t i = 0; i < out[r].n; i++) sum += out[r].data[i] * c->cot[r].data[i];
  }
  return sum;
}

static int32_t param_named(const PmFn *f, const char *name) {
  for (int32_t i = 0; i < f->n_params; i++) {
    if (strcmp(f->values[i].name, name) == 0) return i;
  }
  return PM_NONE;
}

// The tensor that bwd's parameter `name` stands for.
static PmTensor bwd_input(Case *c, const char *name, const PmTensor *saved) {
  const PmFn *f = pm_fn(c->m, c->fn), *fwd = pm_fn(c->m, c->fwd);
  int32_t own = param_named(f, name);
  if (own != PM_NONE) return c->in[own];
  for (int32_t i = 0; i < fwd->n_results; i++) {
    const char *result = fwd->values[fwd->results[i]].name;
    if (strcmp(result, name) == 0) return saved[i];
    if (i < f->n_results && strncmp(name, "d_", 2) == 0 && strcmp(result, name + 2) == 0) return c->cot[i];
  }
  fail_msg("%s has no source for `%s`", pm_fn(c->m, c->bwd)->name, name);
  return saved[0];
}

static void check(const char *text, const char *base) {
  Compiled compiled;
  compile(&compiled, "std_test.pmodel", text, NULL);
  if (compiled.text[0]) print_message("%s", compiled.text);
  Case c = {.m = compiled.module, .arena = &compiled.arena};
  c.fn = find_base(c.m, base);
  assert_int_not_equal(c.fn, PM_NONE);
  c.fwd = sibling(c.m, c.fn, "fwd");
  c.bwd = sibling(c.m, c.fn, "bwd");
  const PmFn *f = pm_fn(c.m, c.fn), *fwd = pm_fn(c.m, c.fwd), *bwd = pm_fn(c.m, c.bwd);
  for (int32_t i = 0; i < f->n_params; i++) c.in[i] = filled(&c, &f->values[i].type, (uint64_t)i);
  for (int32_t i = 0; i < f->n_results; i++) c.cot[i] = filled(&c, &f->values[f->results[i]].type, 100 + (uint64_t)i);

  PmTensor own[4], saved[6], in[8], grads[4];
  run(&c, c.fn, c.in, own);
  run(&c, c.fwd, c.in, saved);
  for (int32_t r = 0; r < f->n_results; r++) {
    assert_true(pm_type_same_logical(&own[r].type, &saved[r].type));
    for (int64_t i = 0; i < own[r].n; i++) assert_true(fabs(own[r].data[i] - saved[r].data[i]) <= 1e-12);
  }
  for (int32_t i = 0; i < bwd->n_params; i++) in[i] = bwd_input(&c, bwd->values[i].name, saved);
  run(&c, c.bwd, in, grads);
  int32_t at = 0;
  for (int32_t p = 0; p < f->n_params; p++) {
    if (!pm_dtype_is_float((PmDtype)f->values[p].type.dtype)) continue;
    assert_true(pm_type_same_logical(&grads[at].type, &f->values[p].type));
    for (int64_t i = 0; i < c.in[p].n; i++) {
      double x = c.in[p].data[i], h = 1e-5;
      c.in[p].data[i] = x + h;
      double up = objective(&c);
      c.in[p].data[i] = x - h;
      double down = objective(&c);
      c.in[p].data[i] = x;
      assert_true(fabs((up - down) / (2 * h) - grads[at].data[i]) <= 1e-7);
    }
    at++;
  }
  assert_int_equal(at, bwd->n_results);
  assert_true(fwd->n_results >= f->n_results);
  compiled_free(&compiled);
}

#define HEAD "pmodel 1\nimport \"std\"\naxis b = 2, t = 3, s = t, v = 5, g = 2, d = 2\nmodel m {\n"

static void softmax(void **state) {
  (void)state;
  check(HEAD "  param x[b, v, t] ~ zeros\n  minimize sum[b, v, t](softmax[v](x))\n}\n", "softmax");
}

static void xent(void **state) {
  (void)state;
  check(HEAD "  input y[b, t] in v\n  param x[b, t, v] ~ zeros\n  minimize mean[b, t](xent[v](x, y))\n}\n", "xent");
}

// Label smoothing and the z-loss, alone and together.
static void xent_arguments(void **state) {
  (void)state;
  static const char *const args[] = {"smoothing=0.1", "z_loss=1e-2", "smoothing=0.2, z_loss=0.3"};
  for (int32_t i = 0; i < 3; i++) {
    char text[512];
    snprintf(text, sizeof text,
             HEAD "  input y[b, t] in v\n  param x[b, t, v] ~ zeros\n  minimize mean[b, t](xent[v](x, y, %s))\n}\n",
             args[i]);
    check(text, "xent");
  }
}

// Three classes, target 1, by hand.
static void xent_values(void **state) {
  (void)state;
  static const double z[3] = {0.5, -1.25, 2.0};
  static const struct {
    const char *args;
    double smoothing, z_loss;
  } rows[] = {{"", 0, 0}, {", smoothing=0.1", 0.1, 0}, {", z_loss=0.01", 0, 0.01}, {", 0.3, 0.02", 0.3, 0.02}};
  double lse = log(exp(z[0]) + exp(z[1]) + exp(z[2])), mean = (z[0] + z[1] + z[2]) / 3;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char text[512];
    snprintf(text, sizeof text,
             "pmodel 1\nimport \"std\"\naxis b = 2, v = 3\nmodel m {\n  input y[b] in v\n  param x[b, v] ~ zeros\n"
             "  report where_valid = mean[b](xent[v](x, y%s), where=y >= 0)\n"
             "  minimize sum[b](xent[v](x, y%s))\n}\n",
             rows[i].args, rows[i].args);
    Compiled compiled;
    compile(&compiled, "std_test.pmodel", text, NULL);
    assert_string_equal(compiled.text, "");
    Case c = {.m = compiled.module, .arena = &compiled.arena};
    PmTensor in[2] = {pm_tensor_new(c.arena, c.m, &c.m->vars[0].type), pm_tensor_new(c.arena, c.m, &c.m->vars[1].type)};
    PmTensor out[2];
    in[0].data[0] = 1;
    in[0].data[1] = -1;
    memcpy(in[1].data, z, sizeof z);
    memcpy(in[1].data + 3, z, sizeof z);
    run(&c, c.m->model, in, out);
    double s = rows[i].smoothing;
    double want = lse - (1 - s) * z[1] - s * mean + rows[i].z_loss * lse * lse;
    assert_true(fabs(out[0].data[0] - want) < 1e-12);
    assert_true(fabs(out[1].data[0] - want) < 1e-12);
    compiled_free(&compiled);
  }
}

// Grouped queries: k and v have no axis g, so their gradients sum over it.
static void causal_attention(void **state) {
  (void)state;
  check(HEAD
        "  param q[b, t, g, d], k[b, t, d], w[b, t, d] ~ zeros\n"
        "  minimize sum[b, t, g, d](causal_attention[t, s, d](q, k, w))\n}\n",
        "causal_attention");
}

// Values with a size of their own, and several targets for one prediction: the declared derivatives are not for these.
static void derivatives_give_way_to_unusual_axes(void **state) {
  (void)state;
  static const char *const models[][4] = {
      {"causal_attention", "causal_attention_fwd", "causal_attention_bwd",
       HEAD "  param q[b, t, d], k[b, t, d], w[b, t, v] ~ zeros\n"
            "  minimize sum[b, t, v](causal_attention[t, s, d](q, k, w))\n}\n"},
      {"xent", "xent_fwd", "xent_bwd",
       HEAD "  input y[b, t, g] in v\n  param x[b, t, v] ~ zeros\n  minimize mean[b, t, g](xent[v](x, y))\n}\n"},
      {"xent", "xent_fwd", "xent_bwd",
       HEAD "  input y[b, g] in v\n  param x[b, t, v] ~ zeros\n  minimize mean[b, t, g](xent[v](x, y))\n}\n"}};
  for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
    Compiled c;
    compile(&c, "std_test.pmodel", models[i][3], NULL);
    assert_string_equal(c.text, "");
    assert_int_not_equal(find_base(c.module, models[i][0]), PM_NONE);
    assert_int_equal(find_base(c.module, models[i][1]), PM_NONE);
    assert_int_equal(find_base(c.module, models[i][2]), PM_NONE);
    compiled_free(&c);
  }
}

// The numbers of fn at a few points, through a model that reports nothing but its loss.
static double loss_of(const char *expr, double x) {
  char text[512];
  snprintf(text, sizeof text,
           "pmodel 1\nimport \"std\"\naxis a = 1\nmodel m {\n  input x[a]: f32\n  minimize sum[a](%s)\n}\n", expr);
  Compiled compiled;
  compile(&compiled, "std_test.pmodel", text, NULL);
  if (compiled.text[0]) print_message("%s", compiled.text);
  Case c = {.m = compiled.module, .arena = &compiled.arena};
  PmTensor in = pm_tensor_new(c.arena, c.m, &c.m->vars[0].type), out;
  in.data[0] = x;
  run(&c, c.m->model, &in, &out);
  double v = out.data[0];
  compiled_free(&compiled);
  return v;
}

static void pointwise(void **state) {
  (void)state;
  for (double x = -3; x <= 3; x += 0.75) {
    assert_true(fabs(loss_of("relu(x)", x) - fmax(x, 0)) < 1e-12);
    assert_true(fabs(loss_of("sigmoid(x)", x) - 1 / (1 + exp(-x))) < 1e-12);
    assert_true(fabs(loss_of("silu(x)", x) - x / (1 + exp(-x))) < 1e-12);
    assert_true(fabs(loss_of("softplus(x)", x) - log1p(exp(x))) < 1e-12);
    assert_true(fabs(loss_of("gelu(x)", x) - 0.5 * x * (1 + erf(x / sqrt(2)))) < 1e-3);
    assert_true(fabs(loss_of("x ** 3 + x ** 5", x) - (x * x * x + pow(x, 5))) < 1e-9);
  }
  // A row that is masked whole gives zeros, not NaN.
  assert_true(loss_of("softmax[a](where(x > 0.0, x, -inf))", -1) == 0);
  assert_true(loss_of("softmax[a](where(x > 0.0, x, -inf))", 1) == 1);
}

static double clamp01(double t) { return t < 0 ? 0 : t > 1 ? 1 : t; }

static double up_and_then(double step, double warmup, double after) {
  return step < warmup ? 0.02 * step / warmup : after;
}

// Each schedule at each step against its closed formula; the peak is 0.02, the end of the run step 40.
static void schedules(void **state) {
  (void)state;
  static const char *const names[] = {"constant(0.02)", "warmup_linear(peak=0.02, warmup=10, final=0.004)",
                                      "warmup_cosine(peak=0.02, warmup=10, final=0.004)",
                                      "wsd(peak=0.02, warmup=10, cool=12, final=0.004)"};
  for (int32_t k = 0; k < 4; k++) {
    char text[512];
    snprintf(text, sizeof text,
             "pmodel 1\nimport \"std\"\naxis b = 2\nmodel m {\n  input y[b]: f32\n  param x[b] ~ zeros\n"
             "  minimize sum[b](x * y)\n}\ntrain {\n  optimizer = sgd()\n  lr = %s\n  steps = 40\n}\n",
             names[k]);
    Compiled compiled;
    compile(&compiled, "std_test.pmodel", text, NULL);
    assert_string_equal(compiled.text, "");
    Case c = {.m = compiled.module, .arena = &compiled.arena};
    const PmFn *f = pm_fn(c.m, c.m->schedule);
    assert_int_equal(f->n_params, 1);
    for (int32_t step = 1; step <= 45; step++) {
      PmTensor in = pm_tensor_new(c.arena, c.m, &f->values[0].type), out;
      in.data[0] = step;
      run(&c, c.m->schedule, &in, &out);
      double t = clamp01((step - 10) / 30.0), cool = clamp01((step - 28) / 12.0), pi = acos(-1);
      double want[] = {0.02, up_and_then(step, 10, 0.02 - 0.016 * t),
                       up_and_then(step, 10, 0.004 + 0.008 * (1 + cos(pi * t))),
                       up_and_then(step, 10, 0.02 - 0.016 * cool)};
      assert_true(fabs(out.data[0] - want[k]) < 1e-15);
    }
    compiled_free(&compiled);
  }
}

typedef struct Rule {
  const char *text;
  int32_t n_states;
  void (*step)(double *x, double *m, double *v, double g, int32_t t);  // rate 0.1, decay 0.01 where it has rank 2
} Rule;

static void sgd(double *x, double *m, double *v, double g, int32_t t) {
  (void)m, (void)v, (void)t;
  *x -= 0.1 * (g + 0.01 * *x);
}
static void momentum(double *x, double *m, double *v, double g, int32_t t) {
  (void)v, (void)t;
  *m = 0.8 * *m + g;
  *x -= 0.1 * (*m + 0.01 * *x);
}
static void adamw(double *x, double *m, double *v, double g, int32_t t) {
  *m = 0.9 * *m + 0.1 * g;
  *v = 0.95 * *v + 0.05 * g * g;
  *x -= 0.1 * (*m / (1 - pow(0.9, t)) / (sqrt(*v / (1 - pow(0.95, t))) + 1e-8) + 0.01 * *x);
}
static void lion(double *x, double *m, double *v, double g, int32_t t) {
  (void)v, (void)t;
  double mix = 0.9 * *m + 0.1 * g;
  *m = 0.99 * *m + 0.01 * g;
  *x -= 0.1 * ((mix > 0) - (mix < 0) + 0.01 * *x);
}

// Five steps of each optimizer on one number against its published rule.
static void optimizers(void **state) {
  (void)state;
  static const Rule rules[] = {{"sgd(decay=0.01)", 0, sgd},
                               {"momentum(beta=0.8, decay=0.01)", 1, momentum},
                               {"adamw(b2=0.95, decay=0.01)", 2, adamw},
                               {"lion(decay=0.01)", 1, lion}};
  static const double grads[] = {0.5, -1.5, 0.25, 3, -0.125};
  for (size_t k = 0; k < sizeof rules / sizeof *rules; k++) {
    char text[512];
    snprintf(text, sizeof text,
             "pmodel 1\nimport \"std\"\naxis b = 1, c = 1\nmodel m {\n  param x[b, c] ~ ones\n"
             "  minimize sum[b, c](x * x)\n}\ntrain {\n  optimizer = %s\n  lr = constant(0.1)\n  steps = 5\n}\n",
             rules[k].text);
    Compiled compiled;
    compile(&compiled, "std_test.pmodel", text, NULL);
    assert_string_equal(compiled.text, "");
    Case c = {.m = compiled.module, .arena = &compiled.arena};
    PmFnId update = c.m->vars[pm_module_find_var(c.m, "x")].update;
    const PmFn *f = pm_fn(c.m, update);
    assert_int_equal(f->n_results, 1 + rules[k].n_states);
    double x = 2, m = 0, v = 0, now[3] = {2, 0, 0};
    for (int32_t t = 1; t <= 5; t++) {
      PmTensor in[6], out[3];
      const double fixed[] = {now[0], grads[t - 1], 0.1, t, now[1], now[2]};
      for (int32_t i = 0; i < f->n_params; i++) {
        in[i] = pm_tensor_new(c.arena, c.m, &f->values[i].type);
        in[i].data[0] = fixed[i];
      }
      run(&c, update, in, out);
      for (int32_t i = 0; i < f->n_results; i++) now[i] = out[i].data[0];
      rules[k].step(&x, &m, &v, grads[t - 1], t);
      assert_true(fabs(now[0] - x) < 1e-12);
    }
    compiled_free(&compiled);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(softmax),
      cmocka_unit_test(xent),
      cmocka_unit_test(xent_arguments),
      cmocka_unit_test(xent_values),
      cmocka_unit_test(causal_attention),
      cmocka_unit_test(pointwise),
      cmocka_unit_test(schedules),
      cmocka_unit_test(optimizers),
      cmocka_unit_test(derivatives_give_way_to_unusual_axes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
