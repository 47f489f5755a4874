// Every op alone: what the plan computes is what the reference computes.
#include "fixture.h"

#define HEAD "module local\naxis b 3\naxis s 5\naxis t 5\naxis e 8\naxis h 2\naxis d 4\naxis f 6\naxis v 7\naxis p 2\n"

static void test_map(void **state) {
  (void)state;
  check(
      HEAD
      "fn f body {\nparam %0 : f32[b:3, e:8]\nparam %1 : f32[b:3, e:8]\nparam %2 : f32[e:8]\n"
      "%3 = map.add(%0, %1) : f32[b:3, e:8]\n%4 = broadcast(%2) : f32[b:3, e:8]\n%5 = map.mul(%3, %4) : f32[b:3, e:8]\n"
      "%6 = map.tanh(%5) : f32[b:3, e:8]\n%7 = map.gt(%6, %0) : bool[b:3, e:8]\n"
      "%8 = map.where(%7, %6, %0) : f32[b:3, e:8]\n%9 = cast(%7) : f32[b:3, e:8]\nreturn %8, %6, %7, %9\n}\n",
      1e-6);
}

static void test_reduce(void **state) {
  (void)state;
  check(HEAD
        "fn f body {\nparam %0 : f32[b:3, s:5, e:8]\n"
        "%1 = reduce.sum[e](%0) : f32[b:3, s:5]\n%2 = reduce.max[b](%0) : f32[s:5, e:8]\n"
        "%3 = reduce.sum[b, s](%0) : f32[e:8]\n%4 = reduce.sum[b, e](%0) : f32[s:5]\n"
        "%5 = reduce.sum[b, s, e](%0) : f32[]\n%6 = reduce.max[s](%0) : f32[b:3, e:8]\nreturn %1, %2, %3, %4, %5, "
        "%6\n}\n",
        1e-6);
}

static void test_large_reduce(void **state) {
  (void)state;
  check(
      "module local\naxis a 300\naxis b 400\nfn f body {\nparam %0 : f32[a:300, b:400]\n"
      "%1 = map.mul(%0, %0) : f32[a:300, b:400]\n%2 = reduce.sum[a, b](%1) : f32[]\n%3 = reduce.max[a, b](%0) : f32[]\n"
      "return %2, %3, %1\n}\n",
      1e-6);
}

static void test_dot(void **state) {
  (void)state;
  check(
      HEAD
      "fn f body {\nparam %0 : f32[b:3, s:5, e:8]\nparam %1 : f32[e:8, f:6]\nparam %2 : f32[b:3, t:5, e:8]\n"
      "%3 = dot[e](%0, %1) : f32[b:3, s:5, f:6]\n%4 = dot[e](%0, %2) : f32[b:3, s:5, t:5]\n"
      "%5 = dot[b, s](%0, %3) : f32[e:8, f:6]\n%6 = dot[s](%4, %0) : f32[b:3, t:5, e:8]\n"
      "%7 = dot[b, s, e](%0, %0) : f32[]\n%8 = dot[b](%0, %2) : f32[s:5, e:8, t:5]\nreturn %3, %4, %5, %6, %7, %8\n}\n",
      1e-5);
}

// Heads: batched products over strided operands, no copies.
static void test_attention_dots(void **state) {
  (void)state;
  Fixture fx;
  fixture_compile(&fx, HEAD
                  "fn f body {\nparam %0 : f32[b:3, s:5, h:2, d:4]\nparam %1 : f32[b:3, t:5, h:2, d:4]\n"
                  "%2 = dot[d](%0, %1) : f32[b:3, s:5, h:2, t:5]\n%3 = dot[t](%2, %1) : f32[b:3, s:5, h:2, d:4]\n"
                  "return %2, %3\n}\n");
  assert_int_equal(count_steps(&fx, PM_ENTRY_STEP, PM_STEP_DOT), 2);
  assert_int_equal(count_steps(&fx, PM_ENTRY_STEP, PM_STEP_KERNEL), 0);
  fixture_compare(&fx, 1e-5);
  fixture_deinit(&fx);
}

// No operand has a unit stride where the library needs one.
static void test_awkward_dot(void **state) {
  (void)state;
  check(HEAD
        "fn f body {\nparam %0 : f32[b:3, e:8, s:5, p:2]\nparam %1 : f32[f:6, e:8, d:4, p:2]\n"
        "%2 = dot[e](%0, %1) : f32[b:3, s:5, p:2, f:6, d:4]\n%3 = select[p = 1](%0) : f32[b:3, e:8, s:5]\n"
        "%4 = dot[b, s](%3, %0) : f32[e:8, p:2]\nreturn %2\n}\n",
        1e-5);
  check(HEAD
        "fn f body {\nparam %0 : f32[b:3, s:5, p:2]\nparam %1 : f32[b:3, e:8, p:2]\n%2 = select[p = 1](%0) : f32[b:3, "
        "s:5]\n"
        "%3 = select[p = 0](%1) : f32[b:3, e:8]\n%4 = dot[b](%2, %3) : f32[s:5, e:8]\nreturn %4\n}\n",
        1e-5);
}

static void test_axes(void **state) {
  (void)state;
  check(HEAD
        "fn f body {\nparam %0 : f32[b:3, s:5, e:8]\n%1 = split[e -> h, d](%0) : f32[b:3, s:5, h:2, d:4]\n"
        "%2 = merge[h, d -> e](%1) : f32[b:3, s:5, e:8]\n%3 = merge[d, h -> e](%1) : f32[b:3, s:5, e:8]\n"
        "%4 = rename[s -> t](%0) : f32[b:3, t:5, e:8]\n%5 = select[h = 1](%1) : f32[b:3, s:5, d:4]\n"
        "%6 = map.neg(%5) : f32[b:3, s:5, d:4]\n%7 = broadcast(%6) : f32[d:4, b:3, s:5]\n"
        "%8 = broadcast(%0) : f32[e:8, s:5, b:3]\n%9 = select[s = 2](%0) : f32[b:3, e:8]\n"
        "return %1, %2, %3, %4, %5, %6, %7, %8, %9\n}\n",
        1e-6);
}

static void test_stack(void **state) {
  (void)state;
  check(HEAD
        "fn f body {\nparam %0 : f32[b:3, e:8]\nparam %1 : f32[b:3, e:8]\n%2 = map.add(%0, %1) : f32[b:3, e:8]\n"
        "%3 = stack[-> p](%2, %1) : f32[p:2, b:3, e:8]\n%4 = select[p = 0](%3) : f32[b:3, e:8]\n"
        "%5 = map.mul(%4, %1) : f32[b:3, e:8]\nreturn %3, %5\n}\n",
        1e-6);
}

// More parts than a kernel has arguments: `n` of them, as they are or each out of work of its own; what is made of the
// whole, and the parts of that again, as in a gradient.
static void wide_stack(int32_t n, bool chained) {
  PmBuf text, list;
  pm_buf_init(&text);
  pm_buf_init(&list);
  int32_t next = n;
  pm_buf_printf(&text, "module local\naxis b 3\naxis e 8\naxis p %d\nfn f body {\n", n);
  for (int32_t i = 0; i < n; i++) pm_buf_printf(&text, "param %%%d : f32[b:3, e:8]\n", i);
  for (int32_t i = 0; chained && i < n; i++) pm_buf_printf(&text, "%%%d = map.sin(%%%d) : f32[b:3, e:8]\n", next++, i);
  for (int32_t i = 0; i < n; i++) pm_buf_printf(&list, "%s%%%d", i ? ", " : "", next - n + i);
  const int32_t whole = next, square = next + 1, sum = next + 2;
  pm_buf_printf(&text, "%%%d = stack[-> p](%s) : f32[p:%d, b:3, e:8]\n", whole, pm_buf_str(&list), n);
  pm_buf_printf(&text, "%%%d = map.mul(%%%d, %%%d) : f32[p:%d, b:3, e:8]\n", square, whole, whole, n);
  pm_buf_printf(&text, "%%%d = reduce.sum[p](%%%d) : f32[b:3, e:8]\n", sum, square);
  pm_buf_clear(&list);
  next = sum + 1;
  for (int32_t i = 0; i < n; i++, next += 2) {
    pm_buf_printf(&text, "%%%d = select[p = %d](%%%d) : f32[b:3, e:8]\n", next, i, square);
    pm_buf_printf(&text, "%%%d = map.mul(%%%d, %%%d) : f32[b:3, e:8]\n", next + 1, next, i);
    pm_buf_printf(&list, ", %%%d", next + 1);
  }
  pm_buf_printf(&text, "return %%%d, %%%d%s\n}\n", whole, sum, pm_buf_str(&list));
  check(pm_buf_str(&text), 1e-6);
  pm_buf_deinit(&text);
  pm_buf_deinit(&list);
}

static void test_wide_stack(void **state) {
  (void)state;
  static const int32_t parts[] = {22, 23, 40, 100};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    wide_stack(parts[i], false);
    wide_stack(parts[i], true);
  }
}

static void test_index(void **state) {
  (void)state;
  check(HEAD
        "fn f body {\nparam %0 : f32[v:7, e:8]\nparam %1 : i32<v>[b:3, s:5]\nparam %2 : f32[b:3, s:5, v:7]\n"
        "%3 = index[v](%0, %1) : f32[b:3, s:5, e:8]\n%4 = index[v](%2, %1) : f32[b:3, s:5]\n"
        "%5 = scatter_add[v](%1, %3) : f32[v:7, e:8]\n%6 = scatter_add[v](%1, %4) : f32[b:3, s:5, v:7]\n"
        "%7 = scatter_add[v](%1, %4) : f32[b:3, v:7]\n%8 = scatter_add[v](%1, %4) : f32[v:7]\nreturn %3, %4, %5, %6, "
        "%7, %8\n}\n",
        1e-6);
}

// Masks are computed where they are used; angles come from a table; numbers of the step from a host kernel.
static void test_exact(void **state) {
  (void)state;
  Fixture fx;
  fixture_compile(
      &fx, HEAD
      "fn f body {\nparam %0 : f32[s:5, t:5]\nparam %1 : f64[]\n"
      "%2 = pos[s] : f64[s:5]\n%3 = pos[t] : f64[t:5]\n%4 = broadcast(%2) : f64[s:5, t:5]\n"
      "%5 = broadcast(%3) : f64[s:5, t:5]\n%6 = map.ge(%4, %5) : bool[s:5, t:5]\n%7 = const 0.5 : f32[]\n"
      "%8 = broadcast(%7) : f32[s:5, t:5]\n%9 = map.where(%6, %0, %8) : f32[s:5, t:5]\n"
      "%10 = map.cos(%2) : f64[s:5]\n%11 = cast(%10) : f32[s:5]\n%12 = broadcast(%11) : f32[s:5, t:5]\n"
      "%13 = map.mul(%9, %12) : f32[s:5, t:5]\n%14 = const 0.9 : f64[]\n%15 = map.pow(%14, %1) : f64[]\n"
      "%16 = cast(%15) : f32[]\n%17 = broadcast(%16) : f32[s:5, t:5]\n%18 = map.mul(%13, %17) : f32[s:5, t:5]\n"
      "return %18, %15, %2, %6\n}\n");
  assert_int_equal(fx.p->entries[PM_ENTRY_SETUP].n_steps, 1);
  fixture_compare(&fx, 1e-6);
  fixture_deinit(&fx);
}

static void test_double(void **state) {
  (void)state;
  check(HEAD
        "fn f body {\nparam %0 : f64[b:3, e:8]\nparam %1 : f64[e:8, f:6]\n%2 = dot[e](%0, %1) : f64[b:3, f:6]\n"
        "%3 = map.exp(%2) : f64[b:3, f:6]\n%4 = reduce.sum[f](%3) : f64[b:3]\nreturn %3, %4\n}\n",
        1e-12);
}

// What goes through unchanged, twice, or from nothing.
static void test_trivial(void **state) {
  (void)state;
  check(HEAD
        "fn f body {\nparam %0 : f32[b:3, e:8]\nparam %1 : i32[b:3]\n%2 = const 2 : f32[]\n"
        "%3 = broadcast(%2) : f32[b:3]\n%4 = cast(%1) : f32[b:3]\nreturn %0, %0, %2, %3, %4\n}\n",
        0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_map),        cmocka_unit_test(test_reduce),         cmocka_unit_test(test_large_reduce),
      cmocka_unit_test(test_dot),        cmocka_unit_test(test_attention_dots), cmocka_unit_test(test_awkward_dot),
      cmocka_unit_test(test_axes),       cmocka_unit_test(test_stack),          cmocka_unit_test(test_index),
      cmocka_unit_test(test_exact),      cmocka_unit_test(test_double),         cmocka_unit_test(test_trivial),
      cmocka_unit_test(test_wide_stack),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
