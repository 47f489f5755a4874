#include "base/status.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/dl.h"
#include "child.h"

static PmStatus *inner(void) { return pm_status_new(PM_ERR_ENVIRONMENT, "a.c", 12, "cannot open %s", "x.prun"); }

static PmStatus *middle(void) {
  PM_TRY(inner());
  return NULL;
}

static PmStatus *outer(int *released) {
  PmStatus *st = NULL;
  PM_TRY_CLEAN(st, middle(), done);
  *released = -1;
done:
  ++*released;
  return pm_status_wrap(st, "b.c", 34, "while loading %s", "the plan");
}

static void chain_of_frames(void **state) {
  (void)state;
  int released = 0;
  PmStatus *st = outer(&released);
  assert_int_equal(released, 1);
  assert_int_equal(pm_status_code(st), PM_ERR_ENVIRONMENT);
  assert_string_equal(pm_status_message(st), "cannot open x.prun");
  char *text = NULL;
  size_t size;
  FILE *to = open_memstream(&text, &size);
  pm_status_print(st, to);
  fclose(to);
  assert_string_equal(text, "pmodel: error: cannot open x.prun\n  at a.c:12\n  at b.c:34: while loading the plan\n");
  free(text);
  pm_status_drop(st);
}

static void null_is_ok(void **state) {
  (void)state;
  assert_int_equal(pm_status_code(NULL), PM_OK);
  assert_string_equal(pm_status_message(NULL), "");
  PmStatus *st = pm_status_wrap(NULL, "a.c", 1, "nothing");
  assert_null(st);
  pm_status_print(NULL, stderr);
  pm_status_drop(NULL);
}

static void fail_assert(void) { PM_ASSERT(1 + 1 == 3, "node %d", 7); }
static void reach(void) { PM_UNREACHABLE("kind %d", 9); }

static void asserts_exit_with_70(void **state) {
  (void)state;
  char text[512];
  assert_int_equal(child_exit_code(fail_assert, text, sizeof text), 70);
  assert_non_null(strstr(text, "1 + 1 == 3"));
  assert_non_null(strstr(text, "node 7"));
  assert_int_equal(child_exit_code(reach, text, sizeof text), 70);
  assert_non_null(strstr(text, "kind 9"));
}

static void libraries(void **state) {
  (void)state;
  void *cosine = NULL, *missing = NULL;
  const PmDlSymbol good[] = {{"cos", &cosine}};
  PmStatus *st = pm_dl_open((const char *const[]){"libpm-absent.so.9", "libm.so.6", NULL}, good, 1);
  assert_null(st);
  assert_non_null(cosine);
  cosine = NULL;
  const PmDlSymbol bad[] = {{"cos", &cosine}, {"pm_no_such_symbol", &missing}};
  st = pm_dl_open((const char *const[]){"libpm-absent.so.9", "libm.so.6", NULL}, bad, 2);
  assert_int_equal(pm_status_code(st), PM_ERR_ENVIRONMENT);
  assert_non_null(strstr(pm_status_message(st), "libpm-absent.so.9"));
  assert_non_null(strstr(pm_status_message(st), "library libm.so.6 has no symbol `pm_no_such_symbol`"));
  assert_null(cosine);
  assert_null(missing);
  pm_status_drop(st);
  st = pm_dl_open((const char *const[]){NULL}, good, 1);
  assert_int_equal(pm_status_code(st), PM_ERR_ENVIRONMENT);
  pm_status_drop(st);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(chain_of_frames),
      cmocka_unit_test(null_is_ok),
      cmocka_unit_test(asserts_exit_with_70),
      cmocka_unit_test(libraries),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
