#include "fixture.h"

#include <string.h>

#define AXES                                                                                                     \
  "axis b 4\naxis s 6\naxis e 8\naxis h 2\naxis d 4\naxis f 8\naxis one 1\naxis two 2\naxis big 1099511627776\n" \
  "axis big2 1099511627776\n"
#define LOGICAL "module logical\n" AXES
#define LOCAL "module local\n" AXES "mesh x 2\nmesh y 2\n"

typedef struct Case {
  const char *params;  // types, separated by |
  const char *node;    // "op...(%0, ...) : type"
  const char *why;     // NULL: valid
} Case;

static void run_cases(const char *head, const Case *cases, size_t n) {
  for (size_t i = 0; i < n; i++) {
    const Case *c = &cases[i];
    PmBuf text;
    int32_t n_params = 0;
    pm_buf_init(&text);
    pm_buf_puts(&text, head);
    pm_buf_puts(&text, "fn f body {\n");
    for (const char *p = c->params; *p;) {
      size_t len = strcspn(p, "|");
      pm_buf_printf(&text, "param %%%d : %.*s\n", n_params++, (int)len, p);
      p += len + (p[len] == '|');
    }
    pm_buf_printf(&text, "%%%d = %s\nreturn %%%d\n}\n", n_params, c->node, n_params);
    if (c->why) {
      fixture_refuse(pm_buf_str(&text), c->why);
    } else {
      Fixture fx;
      fixture_init(&fx);
      fixture_read(&fx, pm_buf_str(&text));
      fixture_deinit(&fx);
    }
    pm_buf_deinit(&text);
  }
}

#define RUN(head, cases) run_cases(head, cases, sizeof cases / sizeof *cases)

static void test_pointwise(void **state) {
  (void)state;
  const Case cases[] = {
      {"", "const 1.5 : f32[]", NULL},
      {"", "const 1.5 : i32[]", "whole number"},
      {"", "const 2 : bool[]", "0 or 1"},
      {"", "const 2 : f32[b:4]", "scalar"},
      {"", "pos[s] : f64[s:6]", NULL},
      {"", "pos[s] : f32[s:6]", "the result is f64[s:6]"},
      {"", "pos[] : f64[s:6]", "one axis"},
      {"f32[s:6]", "broadcast(%0) : f32[b:4, s:6]", NULL},
      {"f32[s:6]", "broadcast(%0) : f32[b:4]", "no axis s"},
      {"i32<e>[]", "broadcast(%0) : i32<e>[b:4]", NULL},
      {"f32[s:6]", "cast(%0) : bf16[s:6]", NULL},
      {"i32<e>[s:6]", "cast(%0) : f32[s:6]", NULL},
      {"f32[s:6, b:4]|f32[b:4, s:6]", "map.add(%0, %1) : f32[s:6, b:4]", NULL},
      {"f32[s:6]|f32[b:4, s:6]", "map.add(%0, %1) : f32[b:4, s:6]", "different axes"},
      {"f32[s:6]|bf16[s:6]", "map.add(%0, %1) : f32[s:6]", "operands of f32 and bf16"},
      {"f32[s:6]", "map.add(%0) : f32[s:6]", "takes 2 operands"},
      {"f32[s:6]|f32[s:6]", "map.lt(%0, %1) : bool[s:6]", NULL},
      {"bool[s:6]", "map.not(%0) : bool[s:6]", NULL},
      {"f32[s:6]", "map.not(%0) : bool[s:6]", "takes bools"},
      {"bool[s:6]", "map.exp(%0) : bool[s:6]", "takes numbers"},
      {"bool[s:6]|i32<e>[s:6]|i32<e>[s:6]", "map.where(%0, %1, %2) : i32<e>[s:6]", NULL},
      {"bool[s:6]|i32<e>[s:6]|i32<b>[s:6]", "map.where(%0, %1, %2) : i32[s:6]", NULL},
      {"f32[s:6]|f32[s:6]|f32[s:6]", "map.where(%0, %1, %2) : f32[s:6]", "not bool"},
      {"i32<e>[s:6]|i32<e>[s:6]", "map.add(%0, %1) : i32[s:6]", NULL},
  };
  RUN(LOGICAL, cases);
}

static void test_sums(void **state) {
  (void)state;
  const Case cases[] = {
      {"f32[b:4, s:6, e:8]|f32[e:8, f:8]", "dot[e](%0, %1) : f32[b:4, s:6, f:8]", NULL},
      {"f32[b:4, s:6, e:8]|bf16[e:8, b:4]", "dot[e](%0, %1) : f32[b:4, s:6]", NULL},
      {"f16[s:6]|bf16[b:4]", "dot[](%0, %1) : bf16[s:6, b:4]", NULL},
      {"bf16[b:4, s:6]|bf16[s:6, e:8]", "dot[s](%0, %1) : f32[b:4, e:8]", NULL},
      {"f16[b:4, s:6]|bf16[s:6, e:8]", "dot[s](%0, %1) : f32[b:4, e:8]", NULL},
      {"f32[b:4, s:6]|f32[s:6, e:8]", "dot[s](%0, %1) : bf16[b:4, e:8]", "the result is f32"},
      {"bf16[b:4, s:6]|bf16[s:6, e:8]", "dot[s](%0, %1) : f64[b:4, e:8]", "the result is bf16"},
      {"f32[s:6]|f32[e:8]", "dot[e](%0, %1) : f32[s:6]", "no axis e"},
      {"i32[s:6]|i32[s:6]", "dot[s](%0, %1) : i32[]", "takes floats"},
      {"f32[b:4, s:6, e:8]", "reduce.sum[b, e](%0) : f32[s:6]", NULL},
      {"f32[b:4, s:6]", "reduce.max[e](%0) : f32[b:4, s:6]", "no axis e"},
      {"f32[b:4, s:6]", "reduce.max[s, s](%0) : f32[b:4]", "named twice"},
      {"bool[b:4]", "reduce.max[b](%0) : bool[]", "takes numbers"},
      {"f32[big:1099511627776]|f32[big2:1099511627776]", "dot[](%0, %1) : f32[big:1099511627776, big2:1099511627776]",
       "2^48"},
  };
  RUN(LOGICAL, cases);
}

static void test_axes(void **state) {
  (void)state;
  const Case cases[] = {
      {"f32[b:4, e:8]", "rename[e -> f](%0) : f32[b:4, f:8]", NULL},
      {"f32[f:8, e:8]", "rename[e, f -> f, e](%0) : f32[e:8, f:8]", NULL},
      {"f32[f:8, e:8]", "rename[e -> f](%0) : f32[f:8, f:8]", "stands twice"},
      {"f32[b:4, e:8]", "rename[e -> s](%0) : f32[b:4, s:6]", "different sizes"},
      {"f32[e:8, b:4]", "split[e -> h, d](%0) : f32[h:2, d:4, b:4]", NULL},
      {"f32[e:8, b:4]", "split[e -> h, b](%0) : f32[h:2, b:4, b:4]", "stands twice"},
      {"f32[e:8]", "split[e -> h, s](%0) : f32[h:2, s:6]", "do not make up"},
      {"f32[d:4, b:4, h:2]", "merge[h, d -> e](%0) : f32[b:4, e:8]", NULL},
      {"f32[d:4, b:4, h:2]", "merge[d, h -> e](%0) : f32[e:8, b:4]", NULL},
      {"f32[d:4, h:2, e:8]", "merge[h, d -> e](%0) : f32[e:8, e:8]", "stands twice"},
      {"f32[s:6]|f32[s:6]", "stack[-> h](%0, %1) : f32[h:2, s:6]", NULL},
      {"f32[s:6]", "stack[-> h](%0) : f32[h:2, s:6]", "one operand an element"},
      {"f32[s:6]|f32[b:4]", "stack[-> h](%0, %1) : f32[h:2, s:6]", "no axis b"},
      {"f32[h:2, s:6]", "select[h = 1](%0) : f32[s:6]", NULL},
      {"f32[h:2, s:6]", "select[h = 2](%0) : f32[s:6]", "no element 2"},
      {"f32[h:2, s:6]", "select[h = -1](%0) : f32[s:6]", "no element -1"},
      {"f32[e:8, f:8]|i32<e>[b:4, s:6]", "index[e](%0, %1) : f32[b:4, s:6, f:8]", NULL},
      {"f32[b:4, e:8]|i32<e>[b:4, s:6]", "index[e](%0, %1) : f32[b:4, s:6]", NULL},
      {"f32[s:6, f:8]|i32<s>[s:6]", "index[s](%0, %1) : f32[s:6, f:8]", NULL},
      {"f32[e:8, f:8]|i32<f>[b:4]", "index[e](%0, %1) : f32[b:4, f:8]", "do not point"},
      {"f32[e:8, f:8]|f32[b:4]", "index[e](%0, %1) : f32[b:4, f:8]", "do not point"},
      {"i32<e>[b:4, s:6]|f32[b:4, s:6, f:8]", "scatter_add[e](%0, %1) : f32[e:8, f:8]", NULL},
      {"i32<e>[b:4, s:6]|f32[b:4, s:6]", "scatter_add[e](%0, %1) : f32[b:4, e:8]", NULL},
      {"i32<e>[b:4]|f32[b:4]", "scatter_add[e](%0, %1) : f32[e:8, f:8]", "no axis f"},
      {"i32<e>[b:4, s:6]|f32[b:4]", "scatter_add[e](%0, %1) : f32[e:8]", "no axis s"},
      {"i32<e>[b:4]|f32[b:4]", "scatter_add[e](%0, %1) : bf16[e:8]", "dtype"},
  };
  RUN(LOGICAL, cases);
}

static void test_local_maps(void **state) {
  (void)state;
  const Case cases[] = {
      {"", "pos[e] : f64[e:8/x]", NULL},
      {"f32[s:6/x]", "broadcast(%0) : f32[b:4/y, s:6/x]", NULL},
      {"f32[s:6/x]", "broadcast(%0) : f32[b:4/y, s:6]", "split differently"},
      {"f32[s:6]{+x}", "broadcast(%0) : f32[b:4, s:6]{+x}", NULL},
      {"f32[s:6]{+x}", "broadcast(%0) : f32[b:4/x, s:6]{+x}", "both split and partial"},
      {"f32[s:6]{+x}", "cast(%0) : bf16[s:6]{+x}", NULL},
      {"f32[s:6]{+x}", "cast(%0) : i32[s:6]{+x}", "not linear"},
      {"f32[s:6/x]|f32[s:6]", "map.add(%0, %1) : f32[s:6/x]", "split differently"},
      {"f32[b:4/x+y]|f32[b:4/x+y]", "map.add(%0, %1) : f32[b:4/x+y]", NULL},
      {"f32[s:6]{+x}|f32[s:6]{+x}", "map.add(%0, %1) : f32[s:6]{+x}", NULL},
      {"f32[s:6]{+x}|f32[s:6]", "map.add(%0, %1) : f32[s:6]{+x}", "does not pass `add`"},
      {"f32[s:6]{max x}|f32[s:6]{max x}", "map.add(%0, %1) : f32[s:6]{max x}", "partial max"},
      {"f32[s:6]{+x}|f32[s:6]", "map.mul(%0, %1) : f32[s:6]{+x}", NULL},
      {"f32[s:6]|f32[s:6]{+x}", "map.mul(%0, %1) : f32[s:6]{+x}", NULL},
      {"f32[s:6]{+x}|f32[s:6]{+x}", "map.mul(%0, %1) : f32[s:6]{+x}", "does not pass"},
      {"f32[s:6]{+x}|f32[s:6]{+y}", "map.mul(%0, %1) : f32[s:6]{+x, +y}", NULL},
      {"f32[s:6]{+x}|f32[s:6]", "map.div(%0, %1) : f32[s:6]{+x}", NULL},
      {"f32[s:6]|f32[s:6]{+x}", "map.div(%0, %1) : f32[s:6]{+x}", "does not pass"},
      {"f32[s:6]{+x, +y}", "map.neg(%0) : f32[s:6]{+x, +y}", NULL},
      {"f32[s:6]{+x}", "map.exp(%0) : f32[s:6]{+x}", "does not pass"},
      {"bool[s:6]|f32[s:6]{+x}|f32[s:6]{+x}", "map.where(%0, %1, %2) : f32[s:6]{+x}", NULL},
      {"bool[s:6]|f32[s:6]{+x}|f32[s:6]", "map.where(%0, %1, %2) : f32[s:6]{+x}", "does not pass"},
  };
  RUN(LOCAL, cases);
}

static void test_local_sums(void **state) {
  (void)state;
  const Case cases[] = {
      {"f32[b:4/y, e:8/x]|f32[e:8/x, f:8]", "dot[e](%0, %1) : f32[b:4/y, f:8]{+x}", NULL},
      {"f32[b:4/y, e:8]|f32[e:8, f:8/x]", "dot[e](%0, %1) : f32[b:4/y, f:8/x]", NULL},
      {"f32[b:4/x, e:8]|f32[e:8, f:8/x]", "dot[e](%0, %1) : f32[b:4/x, f:8/x]", "used twice"},
      {"f32[b:4, e:8/x]|f32[e:8, f:8]", "dot[e](%0, %1) : f32[b:4, f:8]{+x}", "split differently"},
      {"f32[b:4, e:8]{+x}|f32[e:8, f:8]", "dot[e](%0, %1) : f32[b:4, f:8]{+x}", NULL},
      {"f32[b:4, e:8]{+x}|f32[e:8, f:8]{+y}", "dot[e](%0, %1) : f32[b:4, f:8]{+x, +y}", NULL},
      {"f32[b:4, e:8]{+x}|f32[e:8, f:8]{+x}", "dot[e](%0, %1) : f32[b:4, f:8]{+x}", "both operands"},
      {"f32[b:4, e:8]{+x}|f32[e:8, f:8/x]", "dot[e](%0, %1) : f32[b:4, f:8/x]{+x}", "both split and partial"},
      {"f32[b:4, e:8/x+y]", "reduce.sum[e](%0) : f32[b:4]{+x, +y}", NULL},
      {"f32[b:4, e:8/y]", "reduce.max[e](%0) : f32[b:4]{max y}", NULL},
      {"f32[b:4, e:8]{+x}", "reduce.sum[e](%0) : f32[b:4]{+x}", NULL},
      {"f32[b:4, e:8]{+x}", "reduce.max[e](%0) : f32[b:4]{+x}", "does not pass"},
      {"f32[s:6/x+y]", "map.neg(%0) : f32[s:6/x+y]", "does not divide"},
  };
  RUN(LOCAL, cases);
}

static void test_local_axes(void **state) {
  (void)state;
  const Case cases[] = {
      {"f32[e:8/x]", "rename[e -> f](%0) : f32[f:8/x]", NULL},
      {"f32[e:8/x]", "split[e -> h, d](%0) : f32[h:2/x, d:4]", NULL},
      {"f32[e:8/x+y]", "split[e -> h, d](%0) : f32[h:2/x, d:4]", "does not divide"},
      {"f32[h:2/x, d:4]{+y}", "merge[h, d -> e](%0) : f32[e:8/x]{+y}", NULL},
      {"f32[h:2, d:4/x]", "merge[h, d -> e](%0) : f32[e:8/x]", "not the major part"},
      {"f32[h:2/x, s:6]", "select[h = 1](%0) : f32[s:6]", "is split"},
      {"f32[s:6/x]|f32[s:6/x]", "stack[-> h](%0, %1) : f32[h:2, s:6/x]", NULL},
      {"f32[s:6]{+x}|f32[s:6]", "stack[-> h](%0, %1) : f32[h:2, s:6]{+x}", "partial alike"},
      {"f32[e:8/x, f:8]|i32<e>[b:4/y]", "index[e](%0, %1) : f32[b:4/y, f:8]{+x}", NULL},
      {"f32[e:8/x, f:8]|i32<e>[b:4/x]", "index[e](%0, %1) : f32[b:4/x, f:8]{+x}", "both split and partial"},
      {"f32[e:8, f:8]{+x}|i32<e>[b:4]", "index[e](%0, %1) : f32[b:4, f:8]{+x}", NULL},
      {"i32<e>[b:4/x]|f32[b:4/x, f:8/y]", "scatter_add[e](%0, %1) : f32[e:8, f:8/y]{+x}", NULL},
      {"i32<e>[b:4]|f32[b:4, f:8]", "scatter_add[e](%0, %1) : f32[e:8/x, f:8]", NULL},
      {"i32<e>[b:4/x]|f32[b:4/x, f:8]", "scatter_add[e](%0, %1) : f32[e:8/x, f:8]{+x}", "both split and partial"},
  };
  RUN(LOCAL, cases);
}

// Rows of b, of d and f, point into a merged axis of their product, g.
static void test_rows(void **state) {
  (void)state;
  const Case logical[] = {
      {"f32[b:4, f:8]|i32<b>[s:6]", "gather_rows[b](%0, %1) : f32[s:6, f:8]", NULL},
      {"f32[h:2, d:4, f:8]|i32<e>[s:6]", "gather_rows[h, d](%0, %1) : f32[f:8, s:6]", NULL},
      {"i32<e>[s:6]|f32[f:8, s:6]", "scatter_rows[h, d](%0, %1) : f32[d:4, f:8, h:2]", NULL},
      {"i32<e>[s:6]|f32[s:6, f:8]", "scatter_rows[h, b](%0, %1) : f32[h:2, d:4, f:8]", "no axis b"},
      {"i32<b>[s:6]|f32[s:6, f:8]", "scatter_rows[h, d](%0, %1) : f32[h:2, d:4, f:8]", "8 rows"},
      {"f32[s:6]|f32[s:6, f:8]", "scatter_rows[b](%0, %1) : f32[b:4, f:8]", "4 rows"},
      {"i32<e>[s:6]|f32[s:6, f:8]", "scatter_rows[h, d](%0, %1) : bf16[h:2, d:4, f:8]", "two dtypes"},
      {"i32<e>[s:6]|f32[s:6]", "scatter_rows[h, d](%0, %1) : f32[h:2, d:4, f:8]", "other axes"},
      {"i32<e>[s:6]|f32[b:4, f:8]", "scatter_rows[h, d](%0, %1) : f32[h:2, d:4, f:8]", "no axis s"},
      {"i32<e>[s:6]|f32[s:6, b:4]", "scatter_rows[h, d](%0, %1) : f32[h:2, d:4, f:8]", "no axis f"},
      {"f32[h:2, d:4, f:8]|i32<e>[f:8]", "gather_rows[h, d](%0, %1) : f32[f:8, b:4]", "both sides"},
      {"f32[h:2, d:4, f:8]|i32<e>[s:6]", "gather_rows[h, d / x](%0, %1) : f32[s:6, f:8]", "no mesh axis"},
  };
  const Case local[] = {
      {"f32[h:2/x, d:4, f:8]|i32<e>[b:4/x]", "gather_rows[h, d / x](%0, %1) : f32[b:4/x, f:8]", NULL},
      {"f32[h:2/x, d:4/y, f:8]|i32<e>[b:4/y+x]", "gather_rows[h, d / x+y](%0, %1) : f32[b:4/y+x, f:8]", NULL},
      {"f32[h:2/x, d:4/y, f:8]|i32<e>[b:4/x]", "gather_rows[h, d / x](%0, %1) : f32[b:4/x, f:8]{+y}", NULL},
      {"f32[h:2/x, d:4, f:8]|i32<e>[b:4]", "gather_rows[h, d](%0, %1) : f32[b:4, f:8]{+x}", NULL},
      {"f32[h:2/x, d:4, f:8]{+y}|i32<e>[b:4/x]", "gather_rows[h, d / x](%0, %1) : f32[b:4/x, f:8]{+y}", NULL},
      {"f32[h:2/x, d:4, f:8/y]|i32<e>[b:4/x]", "gather_rows[h, d / x](%0, %1) : f32[b:4/x, f:8/y]", NULL},
      {"f32[h:2/x, d:4, f:8]|i32<e>[b:4/x]", "gather_rows[h, d](%0, %1) : f32[b:4/x, f:8]", "both split and partial"},
      {"f32[h:2, d:4, f:8]|i32<e>[b:4/x]", "gather_rows[h, d / x](%0, %1) : f32[b:4/x, f:8]", "not both"},
      {"f32[h:2/x, d:4, f:8]|i32<e>[b:4]", "gather_rows[h, d / x](%0, %1) : f32[b:4, f:8]", "not both"},
      {"f32[h:2/x, d:4, f:8]|i32<e>[b:4/x]", "gather_rows[h, d / x](%0, %1) : f32[b:4, f:8]", "split differently"},
      {"i32<e>[b:4/x]|f32[b:4/x, f:8]", "scatter_rows[h, d / x](%0, %1) : f32[h:2/x, d:4, f:8]", NULL},
      {"i32<e>[b:4/x+y]|f32[b:4/x+y, f:8]", "scatter_rows[h, d / x](%0, %1) : f32[h:2/x, d:4, f:8]{+y}", NULL},
      {"i32<e>[b:4]|f32[b:4, f:8]", "scatter_rows[h, d](%0, %1) : f32[h:2/x, d:4, f:8]", NULL},
      {"i32<e>[b:4/x]|f32[b:4/x, f:8]", "scatter_rows[h, d](%0, %1) : f32[h:2/x, d:4, f:8]", "both split and partial"},
      {"i32<e>[b:4/x]|f32[b:4/x, f:8]{max y}", "scatter_rows[h, d / x](%0, %1) : f32[h:2/x, d:4, f:8]", "max"},
  };
  RUN(LOGICAL, logical);
  RUN(LOCAL, local);
}

static void test_collectives(void **state) {
  (void)state;
  const Case cases[] = {
      {"f32[b:4]{+x, +y}", "all_reduce.sum[/ x](%0) : f32[b:4]{+y}", NULL},
      {"f32[b:4]{+x, max y}", "all_reduce.max[/ y](%0) : f32[b:4]{+x}", NULL},
      {"f32[b:4]{+x}", "all_reduce.max[/ x](%0) : f32[b:4]", "owes no such"},
      {"f32[b:4]{+x}", "all_reduce.sum[/ x+x](%0) : f32[b:4]", "named twice"},
      {"f32[b:4/x+y]", "all_gather[b / y](%0) : f32[b:4/x]", NULL},
      {"f32[b:4/x+y]", "all_gather[b / x+y](%0) : f32[b:4]", NULL},
      {"f32[b:4/x+y]", "all_gather[b / x](%0) : f32[b:4/y]", "does not end with"},
      {"f32[b:4]", "all_gather[b / x](%0) : f32[b:4]", "does not end with"},
      {"f32[b:4/y]{+x}", "reduce_scatter.sum[b / x](%0) : f32[b:4/y+x]", NULL},
      {"f32[one:1]{+x}", "reduce_scatter.sum[one / x](%0) : f32[one:1/x]", "does not divide"},
      {"f32[b:4/x, e:8]", "all_to_all[b -> e / x](%0) : f32[b:4, e:8/x]", NULL},
      {"f32[b:4/x, e:8]", "all_to_all[b -> b / x](%0) : f32[b:4/x, e:8]", "two axes"},
      {"f32[b:4/x, e:8]", "permute[/ x+y](%0) : f32[b:4/y, e:8]", NULL},
      {"f32[b:4/x, e:8]", "permute[/ y+x](%0) : f32[b:4/y, e:8]", "not the mesh axes"},
      {"f32[b:4/x, e:8]", "permute[/ x](%0) : f32[b:4, e:8/x]", "the shape of the parts"},
      {"f32[b:4/x, e:8]", "permute[/ x](%0) : f32[e:8, b:4/x]", "the same axes"},
      {"f32[b:4/x, e:8]{+y}", "permute[/ x+y](%0) : f32[b:4/y, e:8]", "the shape of the parts"},
      {"f32[b:4/x, one:1]", "all_to_all[b -> one / x](%0) : f32[b:4, one:1/x]", "does not divide"},
      {"f32[b:4/x]", "shift[/ x](%0) : f32[b:4/x]", NULL},
      {"f32[b:4]", "slice[b / x~zigzag](%0) : f32[b:4/x~zigzag]", NULL},
      {"f32[b:4]", "slice[b / x~zigzag](%0) : f32[b:4/x]", "the result is f32[b:4/x~zigzag]"},
      {"f32[b:4/x~zigzag]", "slice[b / y~zigzag](%0) : f32[b:4/x~zigzag+y]", "the first"},
      {"f32[b:4]", "slice[b / x~zigzag+y](%0) : f32[b:4/x~zigzag+y]", "the first"},
      {"f32[b:4/x~zigzag+y]", "all_gather[b / x+y](%0) : f32[b:4]", "does not go with others"},
      {"f32[b:4/x~zigzag]", "all_gather[b / x](%0) : f32[b:4]", NULL},
      {"f32[b:4/x]", "local[b -> two](%0) : f32[two:2]", NULL},
      {"f32[b:4]", "local[b -> two](%0) : f32[two:2]", "does not hold as much"},
      {"f32[b:4]", "slice[b / x+y](%0) : f32[b:4/x+y]", NULL},
      {"f32[b:4/x]", "slice[b / x](%0) : f32[b:4/x+x]", "used twice"},
      {"f32[b:4]{+x}", "slice[b / x](%0) : f32[b:4/x]{+x}", "both split and partial"},
  };
  RUN(LOCAL, cases);
  fixture_refuse(LOGICAL
                 "mesh x 2\nfn f body {\nparam %0 : f32[b:4]\n%1 = slice[b / x](%0) : f32[b:4/x]\nreturn %1\n}\n",
                 "stage local only");
}

// A bucket: what one of several is refused for, and that they have one dtype.
static void test_buckets(void **state) {
  (void)state;
#define BUCKET(first, second, results, out)                                                                          \
  LOCAL "fn f body {\nparam %0 : " first "\nparam %1 : " second "\n" results " = all_reduce.sum[/ x](%0, %1) : " out \
        "\nreturn %2\n}\n"
  fixture_refuse(BUCKET("f32[b:4]{+x}", "f32[e:8]{+x}", "%2", "f32[b:4]"), "another number of results");
  fixture_refuse(BUCKET("f32[b:4]{+x}", "f32[e:8]{+x}", "%2, %3, %4", "f32[b:4], f32[e:8], f32[]"),
                 "another number of results");
  fixture_refuse(BUCKET("f32[b:4]{+x}", "f32[e:8]{+y}", "%2, %3", "f32[b:4], f32[e:8]"), "owes no such");
  fixture_refuse(BUCKET("f32[b:4]{+x}", "f32[e:8]{max x}", "%2, %3", "f32[b:4], f32[e:8]"), "owes no such");
  fixture_refuse(BUCKET("f32[b:4]{+x}", "f64[e:8]{+x}", "%2, %3", "f32[b:4], f64[e:8]"), "another dtype");
  fixture_refuse(BUCKET("f32[b:4]{+x}", "f32[e:8]{+x}", "%2, %3", "f32[b:4], f32[e:8]{+x}"), "the result is f32[e:8]");
  fixture_refuse(LOCAL "fn f body {\nall_reduce.sum[/ x]()\nreturn\n}\n", "1 to 256 operands");
  Fixture fx;
  fixture_init(&fx);
  fixture_read(&fx, BUCKET("f32[b:4]{+x}", "f32[e:8/y]{+x}", "%2, %3", "f32[b:4] \"a\", f32[e:8/y] \"b\"!"));
  fixture_deinit(&fx);
}

#define CALLEE                                                                \
  "fn g body {\nparam %0 : f32[s:6]\nparam %1 : f32[]\nparam %2 : f32[s:6]\n" \
  "%3 = map.mul(%0, %2) : f32[s:6]\n%4 = reduce.sum[s](%3) : f32[]\nreturn %3, %4\n}\n"

static void test_calls(void **state) {
  (void)state;
  const char *head = LOGICAL CALLEE;
  fixture_refuse(LOGICAL CALLEE "fn f body {\nparam %0 : f32[s:6]\n%1, %2 = call @g(%0) : f32[s:6], f32[]\nreturn\n}\n",
                 "takes 3 operands");
  fixture_refuse(LOGICAL CALLEE
                 "fn f body {\nparam %0 : f32[s:6]\nparam %1 : f32[]\n%2 = call @g(%0, %1, %0) : f32[s:6]\nreturn\n}\n",
                 "number of results");
  fixture_refuse(LOGICAL CALLEE
                 "fn f body {\nparam %0 : f32[s:6]\n%1, %2 = call @g(%0, %0, %0) : f32[s:6], f32[]\nreturn\n}\n",
                 "operand 1 is not of the type");
  fixture_refuse(LOGICAL "fn f body {\ncall @f()\nreturn\n}\n", "no function `f`");
  Fixture fx;
  fixture_init(&fx);
  PmBuf text;
  pm_buf_init(&text);
  pm_buf_puts(&text, head);
  pm_buf_puts(&text,
              "fn f body {\nparam %0 : f32[s:6]\nparam %1 : f32[]\nparam %2 : f32[h:2, s:6]\n"
              "%3, %4 = call @g(%0, %1, %0) : f32[s:6], f32[]\n"
              "%5, %6 = repeat[h] @g carry=1 inv=1 reverse (%3, %1, %2) : f32[s:6], f32[h:2]\nreturn %5, %6\n}\n");
  fixture_read(&fx, pm_buf_str(&text));
  const PmFn *f = pm_fn(fx.m, pm_module_find_fn(fx.m, "f"));
  assert_int_equal(f->nodes[1].attr.n_carry, 1);
  assert_true(f->nodes[1].attr.reverse);
  pm_buf_deinit(&text);
  fixture_deinit(&fx);
  fixture_refuse(LOGICAL CALLEE
                 "fn f body {\nparam %0 : f32[s:6]\nparam %1 : f32[]\nparam %2 : f32[s:6, h:2]\n"
                 "%3, %4 = repeat[h] @g carry=1 inv=1 (%0, %1, %2) : f32[s:6], f32[h:2]\nreturn\n}\n",
                 "operand 2 is not of the type");
  fixture_refuse(LOGICAL CALLEE
                 "fn f body {\nparam %0 : f32[s:6]\nparam %1 : f32[]\nparam %2 : f32[h:2, s:6]\n"
                 "%3, %4 = repeat[h] @g carry=3 inv=1 (%0, %1, %2) : f32[s:6], f32[h:2]\nreturn\n}\n",
                 "carries more");
}

// Attributes and types that no builder would make: the rule must answer, never touch memory that it should not.
// A truth value has no other bit patterns than those of false and true.
static void make_true_or_false(PmType *t, const unsigned char *bytes) {
  for (int32_t d = 0; d < PM_MAX_RANK; d++) t->dims[d].split.zigzag = bytes[d] & 1;
}

static void test_hostile(void **state) {
  (void)state;
  Fixture fx;
  fixture_init(&fx);
  fixture_read(&fx, LOCAL "fn f body {\nparam %0 : f32[b:4]\nreturn %0\n}\n");
  uint64_t seed = 1;
  PmBuf why;
  pm_buf_init(&why);
  for (int32_t round = 0; round < 20000; round++) {
    unsigned char bytes[sizeof(PmAttr) + 4 * sizeof(PmType)];
    for (size_t i = 0; i < sizeof bytes; i++) {
      seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407U;
      unsigned char byte = (unsigned char)(seed >> 56);
      bytes[i] = (unsigned char)(seed >> 32 & 3 ? (i % 4 ? 0 : byte & 3) : byte);
    }
    PmAttr a;
    PmType in[3], given, out[4];
    memcpy(&a, bytes, sizeof a);
    a.reverse = false;
    a.bounded = bytes[0] & 1;
    a.zigzag = bytes[1] & 1;
    memcpy(in, bytes + sizeof a, sizeof in);
    memcpy(&given, bytes + sizeof a + sizeof in, sizeof given);
    for (int32_t i = 0; i < 3; i++) make_true_or_false(&in[i], bytes + (size_t)i * PM_MAX_RANK);
    make_true_or_false(&given, bytes);
    PmOp op = (PmOp)(round % (PM_OP_COUNT + 1));
    int32_t n_in = round / PM_OP_COUNT % 4;
    int32_t n_out = pm_infer_n_out(fx.m, op, &a, n_in);
    if (n_out > 4) n_out = 4;
    pm_infer(fx.m, op, &a, in, n_in, round & 1 ? &given : NULL, out, n_out, &why);
    pm_infer(fx.m, op, &a, in, n_in, round & 1 ? &given : NULL, out, n_out, NULL);
  }
  pm_buf_deinit(&why);
  fixture_deinit(&fx);
}

static void test_build(void **state) {
  (void)state;
  Fixture fx;
  fixture_init(&fx);
  PmModule *m = pm_module_new(&fx.arena, &fx.names);
  PmAxisId b = pm_module_axis(m, "b", 4, (PmLoc){0}), e = pm_module_axis(m, "e", 8, (PmLoc){0});
  assert_int_equal(pm_module_axis(m, "b", 4, (PmLoc){0}), b);
  assert_int_equal(pm_module_local_axis(m, "b", 4), b);
  PmAxisId b2 = pm_module_local_axis(m, "b", 5);
  assert_string_equal(m->axes[b2].name, "b.2");
  PmBuilder bld = {.m = m, .fn = pm_module_add_fn(m, "f", PM_FN_BODY)};
  PmFnId second = pm_module_add_fn(m, "f", PM_FN_BODY);
  assert_string_equal(pm_fn(m, second)->name, "f.2");
  PmType t = pm_type_scalar(PM_F32);
  pm_type_add(&t, e);
  PmValueId x = pm_b_param(&bld, t, "x");
  PmType wide = pm_type_scalar(PM_F32);
  pm_type_add(&wide, b);
  pm_type_add(&wide, e);
  PmValueId w = pm_b_param(&bld, wide, "w");
  PmValueId sum = pm_b_mapb(&bld, PM_S_add, (PmValueId[]){x, w}, 2);
  assert_true(pm_type_equal(pm_b_type(&bld, sum), &wide));
  PmValueId half = pm_b_mapb(&bld, PM_S_mul, (PmValueId[]){sum, pm_b_const(&bld, PM_F32, 0.5)}, 2);
  pm_b_name(&bld, half, "half", true);
  assert_int_equal(pm_b_cast(&bld, half, PM_F32), half);
  PmValueId r = pm_b_dot(&bld, half, x, &e, 1);
  pm_b_results(&bld, &r, 1);
  assert_null(pm_module_verify(m));
  PmArena other;
  pm_arena_init(&other, 0);
  PmModule *clone = pm_module_clone(m, &other);
  PmBuf first, again;
  pm_buf_init(&first);
  pm_buf_init(&again);
  pm_module_print(m, &first);
  pm_fn(m, 0)->nodes[0].in[0] = 99;
  PmStatus *st = pm_module_verify(m);
  assert_int_equal(pm_status_code(st), PM_ERR_INTERNAL);
  pm_status_drop(st);
  pm_module_print(clone, &again);
  assert_string_equal(pm_buf_str(&first), pm_buf_str(&again));
  pm_buf_deinit(&first);
  pm_buf_deinit(&again);
  pm_arena_deinit(&other);
  fixture_deinit(&fx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_pointwise),  cmocka_unit_test(test_sums),        cmocka_unit_test(test_axes),
      cmocka_unit_test(test_local_maps), cmocka_unit_test(test_local_sums),  cmocka_unit_test(test_local_axes),
      cmocka_unit_test(test_rows),       cmocka_unit_test(test_collectives), cmocka_unit_test(test_calls),
      cmocka_unit_test(test_buckets),    cmocka_unit_test(test_hostile),     cmocka_unit_test(test_build),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
