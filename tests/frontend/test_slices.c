// Slices and indices made of `pos`, against numbers computed by hand.
#include "harness.h"

#include <stdio.h>

#include "compile.h"
#include "ir/interp.h"

typedef struct Case {
  const char *expr;  // a scalar made of x[row:2, col:6] = 10 row + col
  double want;
} Case;

static const Case cases[] = {
    {"sum[row, part](x[col = 1 : 4 -> part] * (pos(part) + 1))", 2 * (1 + 4 + 9) + 10 * 6},
    {"sum[row, part](x[col = 5 : 6 -> part])", 20},
    {"sum[row, part](x[col = 0 : col -> part] * x[col = 0 : 6 -> part])", 2 * 55 + 2 * 150 + 600},
    {"sum[row, col](x[col = 0 : 6])", 90},
    {"sum[b, a](x[row = 1 : 2, col = 2 : 4 -> b, a])", 12 + 13},
    {"sum[row, half](x[col = 2 * pos(half)])", 2 * (0 + 2 + 4) + 30},
    {"sum[row, half](x[col = 5 - pos(half)] * (pos(half) + 1))", 2 * (5 + 8 + 9) + 60},
    {"sum[row, half](x[col = floor(pos(half) / 2)])", 2 * (0 + 0 + 1) + 30},
    {"sum[half, other](x[row = 1][col = pos(half) + pos(other)])", 6 * 10 + 3 + 3 + 3},
    {"sum[other](x[row = pos(other), col = 0 : 2 -> two][two = 1])", 12},
};

static double value_of(Compiled *c) {
  const PmFn *f = pm_fn(c->module, c->module->model);
  PmTensor in[4], out[4];
  assert_in_range(f->n_params, 1, 4);
  for (int32_t i = 0; i < f->n_params; i++) {
    in[i] = pm_tensor_new(&c->arena, c->module, &f->values[i].type);
    for (int64_t k = 0; k < in[i].n; k++) in[i].data[k] = (double)(k / 6 * 10 + k % 6);
  }
  assert_null(pm_interp_run(c->module, c->module->model, PM_INTERP_F64, &c->arena, in, out));
  return out[0].data[0];
}

static void values(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[1024];
    snprintf(text, sizeof text,
             "pmodel 1\naxis row = 2, col = 6, half = 3, other = 2\n"
             "model m {\n  param x[row, col] ~ zeros\n  minimize %s\n}\n",
             cases[i].expr);
    Compiled c;
    compile(&c, "slices.pmodel", text, NULL);
    if (!c.module) fail_msg("%s", c.text);
    double got = value_of(&c);
    if (got != cases[i].want) fail_msg("%s is %g, not %g", cases[i].expr, got, cases[i].want);
    compiled_free(&c);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(values)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
