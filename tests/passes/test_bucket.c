// bucket: which all-reduces are joined, where the joined one stands, and that no result changes. Text in, text out.
#include <string.h>

#include "harness.h"
#include "ir/interp.h"
#include "ir/text.h"
#include "passes/passes.h"

#define AXES "axis b 8\naxis e 4\naxis f 4\naxis layer 2\nmesh x 2\nmesh y 2\n"
#define VARS "var \"w\" param f32[e:4] none\nvar \"v\" param f32[e:4] none\nvar \"k\" param f32[e:4] none\n"
#define HEAD(bucket) "module local name=\"m\"\n" AXES VARS "train clip=0" bucket " steps=0 seed=0\n\n"

typedef struct Test {
  PmArena arena;
  PmInterner names;
  PmModule *m;
} Test;

static void read_text(Test *t, const char *head, const char *body) {
  pm_arena_init(&t->arena, 0);
  pm_interner_init(&t->names, &t->arena);
  PmBuf text;
  pm_buf_init(&text);
  pm_buf_printf(&text, "%s%s", head, body);
  PmStatus *st = pm_module_read(&t->arena, &t->names, "t", pm_buf_str(&text), text.len, &t->m);
  if (st) fail_msg("%s\n%s", pm_status_message(st), pm_buf_str(&text));
  pm_buf_deinit(&text);
}

static void end(Test *t) { pm_arena_deinit(&t->arena); }

// The last function on made-up inputs, as every rank has it.
static PmTensor *results_of(Test *t) {
  PmFnId id = t->m->n_fns - 1;
  const PmFn *f = pm_fn(t->m, id);
  PmTensor *in = PM_NEW_N(&t->arena, PmTensor, f->n_params + 1), *out = PM_NEW_N(&t->arena, PmTensor, f->n_results + 1);
  for (int32_t i = 0; i < f->n_params; i++) {
    in[i] = pm_tensor_new(&t->arena, t->m, &f->values[i].type);
    for (int64_t k = 0; k < in[i].n * in[i].ranks; k++) in[i].data[k] = 0.1 * (double)((k * 7 + i * 3) % 11) - 0.3;
  }
  PmStatus *st = pm_interp_run(t->m, id, PM_INTERP_EXACT, &t->arena, in, out);
  if (st) fail_msg("%s", pm_status_message(st));
  return out;
}

// `want` NULL: nothing changes.
static void check(const char *head, const char *body, const char *want) {
  Test t;
  PmBuf text;
  pm_buf_init(&text);
  read_text(&t, head, body);
  const PmTensor *before = results_of(&t);
  PmPassCtx ctx = {.verify = true};
  PmStatus *st = pm_passes_run(&ctx, t.m, "bucket");
  if (st) fail_msg("%s", pm_status_message(st));
  pm_module_print(t.m, &text);
  const char *fns = strstr(pm_buf_str(&text), "\nfn ");
  assert_non_null(fns);
  assert_string_equal(fns + 1, want ? want : body);
  const PmFn *f = pm_fn(t.m, t.m->n_fns - 1);
  const PmTensor *after = results_of(&t);
  for (int32_t i = 0; i < f->n_results; i++) {
    assert_memory_equal(before[i].data, after[i].data, (size_t)(after[i].n * after[i].ranks) * sizeof(double));
  }
  // What it prints is read back, and has no more to join.
  Test again;
  read_text(&again, "", pm_buf_str(&text));
  pm_buf_clear(&text);
  PmStatus *twice = pm_passes_run(&ctx, again.m, "simplify,bucket");
  assert_null(twice);
  end(&again);
  end(&t);
  pm_buf_deinit(&text);
}

#define STEP "fn step step {\n"
#define GRADS                                  \
  "  param %0 : f32[b:8/x, e:4]\n"             \
  "  param %1 : f32[e:4] var=\"w\"\n"          \
  "  param %2 : f32[e:4] var=\"v\"\n"          \
  "  %3 = reduce.sum[b](%0) : f32[e:4]{+x}\n"  \
  "  %4 = map.mul(%0, %0) : f32[b:8/x, e:4]\n" \
  "  %5 = reduce.sum[b](%4) : f32[e:4]{+x}\n"

// The reader of the first moves behind, what is independent of both keeps its place before them.
static void test_joined(void **state) {
  (void)state;
  check(HEAD(""),
        STEP GRADS
        "  %6 = all_reduce.sum[/ x](%3) : f32[e:4] \"d(w)\" @\"m\":1:2\n"
        "  %7 = map.add(%1, %6) : f32[e:4]\n"
        "  %8 = map.neg(%2) : f32[e:4]\n"
        "  %9 = all_reduce.sum[/ x](%5) : f32[e:4] \"d(v)\" @\"m\":3:4\n"
        "  %10 = map.add(%8, %9) : f32[e:4]\n"
        "  return %7 var=\"w\", %10 var=\"v\"\n}\n",
        STEP GRADS
        "  %6 = map.neg(%2) : f32[e:4]\n"
        "  %7, %8 = all_reduce.sum[/ x](%3, %5) : f32[e:4] \"d(w)\", f32[e:4] \"d(v)\" @\"m\":1:2\n"
        "  %9 = map.add(%1, %7) : f32[e:4]\n"
        "  %10 = map.add(%6, %8) : f32[e:4]\n"
        "  return %9 var=\"w\", %10 var=\"v\"\n}\n");
}

// What depends on the first cannot be reduced with it; what is for people only, or of another exchange, is not.
static void test_not_joined(void **state) {
  (void)state;
  const char *cases[] = {
      STEP GRADS
      "  %6 = all_reduce.sum[/ x](%3) : f32[e:4]\n  %7 = map.mul(%5, %6) : f32[e:4]{+x}\n"
      "  %8 = all_reduce.sum[/ x](%7) : f32[e:4]\n  %9 = map.add(%1, %6) : f32[e:4]\n"
      "  %10 = map.add(%2, %8) : f32[e:4]\n  return %9 var=\"w\", %10 var=\"v\"\n}\n",
      STEP GRADS
      "  %6 = all_reduce.sum[/ x](%3) : f32[e:4]\n  %7 = all_reduce.sum[/ x](%5) : f32[e:4]\n"
      "  %8 = map.add(%1, %6) : f32[e:4]\n"
      "  return %8 var=\"w\", %7 report=\"r\"\n}\n",
      "fn step step {\n  param %0 : f32[b:8/x, e:4]\n  param %1 : f32[e:4] var=\"w\"\n  param %2 : f32[b:8/y, e:4]\n"
      "  %3 = reduce.sum[b](%0) : f32[e:4]{+x}\n  %4 = reduce.sum[b](%2) : f32[e:4]{+y}\n"
      "  %5 = reduce.max[b](%0) : f32[e:4]{max x}\n  %6 = cast(%0) : f64[b:8/x, e:4]\n"
      "  %7 = reduce.sum[b](%6) : f64[e:4]{+x}\n"
      "  %8 = all_reduce.sum[/ x](%3) : f32[e:4]\n  %9 = all_reduce.sum[/ y](%4) : f32[e:4]\n"
      "  %10 = all_reduce.max[/ x](%5) : f32[e:4]\n  %11 = all_reduce.sum[/ x](%7) : f64[e:4]\n"
      "  %12 = map.add(%8, %9) : f32[e:4]\n  %13 = map.add(%12, %10) : f32[e:4]\n  %14 = cast(%11) : f32[e:4]\n"
      "  %15 = map.add(%13, %14) : f32[e:4]\n  return %15 var=\"w\"\n}\n",
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check(HEAD(""), cases[i], NULL);
}

// A product waits for the first: joined, it would come later for nothing.
static void test_awaited(void **state) {
  (void)state;
  check(HEAD(""),
        STEP GRADS
        "  %6 = all_reduce.sum[/ x](%3) : f32[e:4]\n"
        "  %7 = dot[e](%6, %1) : f32[]\n"
        "  %8 = all_reduce.sum[/ x](%5) : f32[e:4]\n"
        "  %9 = broadcast(%7) : f32[e:4]\n"
        "  %10 = map.add(%9, %8) : f32[e:4]\n"
        "  return %10 var=\"w\"\n}\n",
        NULL);
}

// Three gradients of 16 bytes: less than 32 have room for one, 47 for two, 48 for all. One is never cut, and 0 joins
// nothing.
static void test_sizes(void **state) {
  (void)state;
#define THREE                                        \
  STEP GRADS                                         \
      "  %6 = reduce.max[b](%0) : f32[e:4]{max x}\n" \
      "  %7 = map.exp(%0) : f32[b:8/x, e:4]\n"       \
      "  %8 = reduce.sum[b](%7) : f32[e:4]{+x}\n"
#define THREE_APART                              \
  THREE                                          \
  "  %9 = all_reduce.sum[/ x](%3) : f32[e:4]\n"  \
  "  %10 = all_reduce.sum[/ x](%5) : f32[e:4]\n" \
  "  %11 = all_reduce.sum[/ x](%8) : f32[e:4]\n" \
  "  return %9 var=\"w\", %10 var=\"v\", %11 var=\"k\", %6\n}\n"
  check(HEAD(" bucket=0"), THREE_APART, NULL);
  check(HEAD(" bucket=4"), THREE_APART, NULL);
  check(HEAD(" bucket=31"), THREE_APART, NULL);
  check(HEAD(" bucket=47"), THREE_APART,
        THREE
        "  %9, %10 = all_reduce.sum[/ x](%3, %5) : f32[e:4], f32[e:4]\n"
        "  %11 = all_reduce.sum[/ x](%8) : f32[e:4]\n"
        "  return %9 var=\"w\", %10 var=\"v\", %11 var=\"k\", %6\n}\n");
  check(HEAD(" bucket=48"), THREE_APART,
        THREE
        "  %9, %10, %11 = all_reduce.sum[/ x](%3, %5, %8) : f32[e:4], f32[e:4], f32[e:4]\n"
        "  return %9 var=\"w\", %10 var=\"v\", %11 var=\"k\", %6\n}\n");
}

// Over y one hangs on the first of x, and one of x on the first of y: with these they would wait for each other. What
// hangs on none is joined all the same.
static void test_no_circle(void **state) {
  (void)state;
#define TWO_WAYS                                                                       \
  "fn step step {\n  param %0 : f32[b:8/x, e:4]\n  param %1 : f32[b:8/y, e:4]\n"       \
  "  %2 = reduce.sum[b](%0) : f32[e:4]{+x}\n  %3 = reduce.sum[b](%1) : f32[e:4]{+y}\n" \
  "  %4 = map.neg(%2) : f32[e:4]{+x}\n  %5 = map.neg(%3) : f32[e:4]{+y}\n"
  check(HEAD(""),
        TWO_WAYS
        "  %6 = all_reduce.sum[/ x](%2) : f32[e:4]\n"
        "  %7 = map.mul(%3, %6) : f32[e:4]{+y}\n"
        "  %8 = all_reduce.sum[/ y](%7) : f32[e:4]\n"
        "  %9 = all_reduce.sum[/ y](%3) : f32[e:4]\n"
        "  %10 = map.mul(%2, %9) : f32[e:4]{+x}\n"
        "  %11 = all_reduce.sum[/ x](%10) : f32[e:4]\n"
        "  %12 = all_reduce.sum[/ y](%5) : f32[e:4]\n"
        "  %13 = all_reduce.sum[/ x](%4) : f32[e:4]\n"
        "  %14 = map.add(%6, %13) : f32[e:4]\n  %15 = map.add(%11, %12) : f32[e:4]\n"
        "  return %14 var=\"w\", %8 var=\"v\", %15 var=\"k\"\n}\n",
        TWO_WAYS
        "  %6, %7 = all_reduce.sum[/ y](%3, %5) : f32[e:4], f32[e:4]\n"
        "  %8 = map.mul(%2, %6) : f32[e:4]{+x}\n"
        "  %9 = all_reduce.sum[/ x](%8) : f32[e:4]\n"
        "  %10, %11 = all_reduce.sum[/ x](%2, %4) : f32[e:4], f32[e:4]\n"
        "  %12 = map.mul(%3, %10) : f32[e:4]{+y}\n"
        "  %13 = all_reduce.sum[/ y](%12) : f32[e:4]\n"
        "  %14 = map.add(%10, %11) : f32[e:4]\n  %15 = map.add(%9, %7) : f32[e:4]\n"
        "  return %14 var=\"w\", %13 var=\"v\", %15 var=\"k\"\n}\n");
}

// In a function that is called: by what the caller does with its results. What the next turn of a repeat takes is
// awaited, what is stacked for the update is not.
static void test_calls(void **state) {
  (void)state;
#define TURN                                                                            \
  "fn turn body {\n  param %0 : f32[e:4]\n  param %1 : f32[b:8/x, e:4]\n"               \
  "  %2 = reduce.sum[b](%1) : f32[e:4]{+x}\n  %3 = map.mul(%1, %1) : f32[b:8/x, e:4]\n" \
  "  %4 = reduce.sum[b](%3) : f32[e:4]{+x}\n  %5 = map.sin(%1) : f32[b:8/x, e:4]\n"     \
  "  %6 = reduce.sum[b](%5) : f32[e:4]{+x}\n"
#define UPDATE                                                                                                  \
  "fn sgd update {\n  param %0 : f32[e:4]\n  param %1 : f32[e:4]\n  %2 = map.sub(%0, %1) : f32[e:4]\n  return " \
  "%2\n}\n\n"
#define CALLER                                                                                                        \
  STEP "  param %0 : f32[e:4]\n  param %1 : f32[layer:2, b:8/x, e:4]\n  param %2 : f32[e:4] var=\"w\"\n"              \
       "  param %3 : f32[e:4] var=\"v\"\n"                                                                            \
       "  %4, %5, %6 = repeat[layer] @turn carry=1 inv=0 (%0, %1) : f32[e:4], f32[layer:2, e:4], f32[layer:2, e:4]\n" \
       "  %7 = reduce.sum[layer](%5) : f32[e:4]\n  %8 = reduce.sum[layer](%6) : f32[e:4]\n"                           \
       "  %9 = call @sgd(%2, %7) : f32[e:4]\n  %10 = map.add(%3, %8) : f32[e:4]\n"                                    \
       "  return %9 var=\"w\", %10 var=\"v\", %4 report=\"r\"\n}\n"
  check(HEAD(""),
        TURN
        "  %7 = all_reduce.sum[/ x](%2) : f32[e:4]\n  %8 = all_reduce.sum[/ x](%4) : f32[e:4]\n"
        "  %9 = all_reduce.sum[/ x](%6) : f32[e:4]\n  %10 = map.add(%0, %7) : f32[e:4]\n  return %10, %8, "
        "%9\n}\n\n" UPDATE CALLER,
        TURN
        "  %7 = all_reduce.sum[/ x](%2) : f32[e:4]\n  %8, %9 = all_reduce.sum[/ x](%4, %6) : f32[e:4], f32[e:4]\n"
        "  %10 = map.add(%0, %7) : f32[e:4]\n  return %10, %8, %9\n}\n\n" UPDATE CALLER);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_joined), cmocka_unit_test(test_not_joined), cmocka_unit_test(test_awaited),
      cmocka_unit_test(test_sizes),  cmocka_unit_test(test_no_circle),  cmocka_unit_test(test_calls),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
