#include "fixture.h"

#include <math.h>
#include <string.h>

void fixture_init(Fixture *fx) {
  pm_arena_init(&fx->arena, 0);
  pm_interner_init(&fx->names, &fx->arena);
  fx->m = NULL;
}

void fixture_deinit(Fixture *fx) { pm_arena_deinit(&fx->arena); }

void fixture_read(Fixture *fx, const char *text) {
  PmStatus *st = pm_module_read(&fx->arena, &fx->names, "t.pir", text, strlen(text), &fx->m);
  if (st) fail_msg("%s", pm_status_message(st));
  st = pm_module_verify(fx->m);
  if (st) fail_msg("%s", pm_status_message(st));
  PmBuf first, second;
  pm_buf_init(&first);
  pm_buf_init(&second);
  pm_module_print(fx->m, &first);
  PmModule *again;
  st = pm_module_read(&fx->arena, &fx->names, "t2.pir", pm_buf_str(&first), first.len, &again);
  if (st) fail_msg("%s\n%s", pm_status_message(st), pm_buf_str(&first));
  pm_module_print(again, &second);
  assert_string_equal(pm_buf_str(&first), pm_buf_str(&second));
  pm_buf_deinit(&first);
  pm_buf_deinit(&second);
}

void fixture_refuse(const char *text, const char *why) {
  Fixture fx;
  fixture_init(&fx);
  PmStatus *st = pm_module_read(&fx.arena, &fx.names, "t.pir", text, strlen(text), &fx.m);
  if (!st) fail_msg("accepted, but should be refused (%s):\n%s", why, text);
  assert_int_equal(pm_status_code(st), PM_ERR_INPUT);
  if (!strstr(pm_status_message(st), why)) fail_msg("`%s` lacks `%s`", pm_status_message(st), why);
  pm_status_drop(st);
  fixture_deinit(&fx);
}

static int64_t elements(const PmModule *m, const PmType *t) {
  int64_t n;
  assert_true(pm_type_elements(m, t, &n));
  return n;
}

void fixture_run(Fixture *fx, const char *name, PmInterpMode mode, const double *const *in, const double *const *want,
                 double tolerance) {
  PmFnId id = pm_module_find_fn(fx->m, name);
  assert_true(id != PM_NONE);
  const PmFn *f = pm_fn(fx->m, id);
  PmTensor args[16], out[16];
  for (int32_t i = 0; i < f->n_params; i++) {
    args[i] = pm_tensor_new(&fx->arena, fx->m, &f->values[i].type);
    pm_tensor_scatter(fx->m, in[i], &args[i]);
  }
  PmStatus *st = pm_interp_run(fx->m, id, mode, &fx->arena, args, out);
  if (st) fail_msg("%s", pm_status_message(st));
  for (int32_t i = 0; i < f->n_results; i++) {
    int64_t n = elements(fx->m, &f->values[f->results[i]].type);
    double *got = PM_NEW_N(&fx->arena, double, n);
    pm_tensor_gather(fx->m, &out[i], got);
    for (int64_t k = 0; k < n; k++) {
      bool same = got[k] == want[i][k] || (isnan(got[k]) && isnan(want[i][k]));
      if (!same && !(fabs(got[k] - want[i][k]) <= tolerance)) {
        fail_msg("%s: result %d, element %d: %.17g, not %.17g", name, i, (int)k, got[k], want[i][k]);
      }
    }
  }
}
