// Repeats: kernels are shared by all turns, values move by binding, and slices are written in place.
#include "fixture.h"

#include <stdlib.h>
#include <string.h>

#define HEAD "module local\naxis b 3\naxis e 8\naxis l 4\n"

// A saved input lives in its slice from the start: one copy in front of the first turn, none within turns.
static void test_saved_input(void **state) {
  (void)state;
  Fixture fx;
  fixture_compile(
      &fx, HEAD
      "fn g body {\nparam %0 : f32[b:3, e:8]\nparam %1 : f32[e:8]\n%2 = broadcast(%1) : f32[b:3, e:8]\n"
      "%3 = map.add(%0, %2) : f32[b:3, e:8]\n%4 = map.tanh(%3) : f32[b:3, e:8]\nreturn %4, %0\n}\n"
      "fn f body {\nparam %0 : f32[b:3, e:8]\nparam %1 : f32[l:4, e:8]\n"
      "%2, %3 = repeat[l] @g carry=1 inv=0 (%0, %1) : f32[b:3, e:8], f32[l:4, b:3, e:8]\nreturn %2, %3\n}\n");
  assert_int_equal(fx.p->entries[PM_ENTRY_STEP].n_steps, 5);
  assert_int_equal(fx.p->n_kernels, 2);
  fixture_compare(&fx, 1e-6);
  fixture_deinit(&fx);
}

static void test_reverse(void **state) {
  (void)state;
  check(
      HEAD
      "fn g body {\nparam %0 : f32[b:3, e:8]\nparam %1 : f32[b:3, e:8]\nparam %2 : f32[e:8]\n"
      "%3 = broadcast(%2) : f32[b:3, e:8]\n%4 = map.mul(%0, %3) : f32[b:3, e:8]\n%5 = map.add(%4, %1) : f32[b:3, e:8]\n"
      "%6 = reduce.sum[b](%5) : f32[e:8]\nreturn %5, %0, %6, %5, %2\n}\n"
      "fn f body {\nparam %0 : f32[b:3, e:8]\nparam %1 : f32[b:3, e:8]\nparam %2 : f32[l:4, e:8]\n"
      "%3, %4, %5, %6, %7 = repeat[l] @g carry=1 inv=1 reverse (%0, %1, %2) : f32[b:3, e:8], f32[l:4, b:3, e:8], "
      "f32[l:4, e:8], f32[l:4, b:3, e:8], f32[l:4, e:8]\nreturn %3, %4, %5, %6, %7\n}\n",
      1e-6);
}

// Carried values change places from turn to turn, and one never changes.
static void test_swap(void **state) {
  (void)state;
  check(HEAD
        "fn g body {\nparam %0 : f32[e:8]\nparam %1 : f32[e:8]\nparam %2 : f32[e:8]\nparam %3 : f32[e:8]\n"
        "%4 = map.add(%1, %3) : f32[e:8]\nreturn %4, %0, %2, %4\n}\n"
        "fn f body {\nparam %0 : f32[e:8]\nparam %1 : f32[e:8]\nparam %2 : f32[e:8]\nparam %3 : f32[l:4, e:8]\n"
        "%4, %5, %6, %7 = repeat[l] @g carry=3 inv=0 (%0, %1, %2, %3) : f32[e:8], f32[e:8], f32[e:8], f32[l:4, e:8]\n"
        "%8 = map.add(%4, %5) : f32[e:8]\nreturn %8, %4, %5, %6, %7\n}\n",
        1e-6);
}

static void test_nested(void **state) {
  (void)state;
  check(
      "module local\naxis e 8\naxis l 4\naxis k 2\n"
      "fn h body {\nparam %0 : f32[e:8]\nparam %1 : f32[e:8]\n%2 = map.add(%0, %1) : f32[e:8]\n%3 = map.sin(%2) : "
      "f32[e:8]\n"
      "return %3, %2\n}\n"
      "fn g body {\nparam %0 : f32[e:8]\nparam %1 : f32[k:2, e:8]\n"
      "%2, %3 = repeat[k] @h carry=1 inv=0 (%0, %1) : f32[e:8], f32[k:2, e:8]\nreturn %2, %3, %2\n}\n"
      "fn f body {\nparam %0 : f32[e:8]\nparam %1 : f32[l:4, k:2, e:8]\n"
      "%2, %3, %4 = repeat[l] @g carry=1 inv=0 (%0, %1) : f32[e:8], f32[l:4, k:2, e:8], f32[l:4, e:8]\nreturn %2, %3, "
      "%4\n}\n",
      1e-6);
}

// Variables that change places, and an old value that is reported.
static void test_variables(void **state) {
  (void)state;
  check(
      "module local\naxis e 8\ntrain step=\"up\" clip=0 steps=0 seed=0\nvar \"a\" state f32[e:8] none\n"
      "var \"c\" state f32[e:8] none\nvar \"step\" step f64[] none\n"
      "fn up step {\nparam %0 : f32[e:8] var=\"a\"\nparam %1 : f32[e:8] var=\"c\"\nparam %2 : f64[] var=\"step\"\n"
      "%3 = cast(%2) : f32[]\n%4 = broadcast(%3) : f32[e:8]\n%5 = map.mul(%0, %4) : f32[e:8]\n"
      "return %1 var=\"a\", %5 var=\"c\", %0 report=\"old\", %3 report=\"n\"\n}\n",
      1e-6);
  check(
      "module local\naxis e 8\ntrain step=\"up\" clip=0 steps=0 seed=0\nvar \"a\" state f32[e:8] none\n"
      "var \"c\" state f32[e:8] none\nfn up step {\nparam %0 : f32[e:8] var=\"a\"\nparam %1 : f32[e:8] var=\"c\"\n"
      "return %1 var=\"a\", %0 var=\"c\"\n}\n",
      0);
}

static void test_deterministic(void **state) {
  (void)state;
  PmBuf text[2];
  for (int32_t i = 0; i < 2; i++) {
    Fixture fx;
    void *shift = malloc(1000 + 64 * (size_t)i);  // addresses differ between the two compiles
    fixture_compile(&fx, HEAD
                    "fn g body {\nparam %0 : f32[b:3, e:8]\nparam %1 : f32[e:8]\n%2 = broadcast(%1) : f32[b:3, e:8]\n"
                    "%3 = map.add(%0, %2) : f32[b:3, e:8]\n%4 = reduce.sum[b](%3) : f32[e:8]\nreturn %3, %4\n}\n"
                    "fn f body {\nparam %0 : f32[b:3, e:8]\nparam %1 : f32[l:4, e:8]\n"
                    "%2, %3 = repeat[l] @g carry=1 inv=0 (%0, %1) : f32[b:3, e:8], f32[l:4, e:8]\nreturn %2, %3\n}\n");
    pm_buf_init(&text[i]);
    pm_program_write(fx.p, &text[i]);
    fixture_deinit(&fx);
    free(shift);
  }
  assert_int_equal(text[0].len, text[1].len);
  assert_memory_equal(text[0].data, text[1].data, text[0].len);
  pm_buf_deinit(&text[0]);
  pm_buf_deinit(&text[1]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_saved_input), cmocka_unit_test(test_reverse),   cmocka_unit_test(test_swap),
      cmocka_unit_test(test_nested),      cmocka_unit_test(test_variables), cmocka_unit_test(test_deterministic),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
