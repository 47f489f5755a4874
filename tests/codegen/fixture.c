#include "fixture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "runtime/session.h"

static void must(PmStatus *st) {
  if (!st) return;
  pm_status_print(st, stderr);
  pm_status_drop(st);
  fail();
}

static void bind(Fixture *fx) {
  PmModule *m = fx->m;
  m->step = pm_module_find_fn(m, "f");
  assert_true(m->step != PM_NONE);
  PmFn *f = pm_fn(m, m->step);
  f->kind = PM_FN_STEP;
  f->param_bind = PM_NEW_N(m->arena, PmBinding, f->n_params + 1);
  f->result_bind = PM_NEW_N(m->arena, PmBinding, f->n_results + 1);
  for (int32_t i = 0; i < f->n_params; i++) {
    PmVar v = {.path = pm_intern_printf(m->names, "v%d", i), .role = PM_ROLE_STATE, .type = f->values[i].type};
    v.owner = v.update = PM_NONE;
    f->param_bind[i].var = pm_module_add_var(m, v);
  }
  for (int32_t i = 0; i < f->n_results; i++) {
    f->result_bind[i].var = PM_NONE;
    f->result_bind[i].report = pm_intern_printf(m->names, "r%d", i);
  }
}

void fixture_compile(Fixture *fx, const char *text) {
  *fx = (Fixture){0};
  pm_arena_init(&fx->arena, 0);
  pm_interner_init(&fx->names, &fx->arena);
  must(pm_module_read(&fx->arena, &fx->names, "test.pir", text, strlen(text), &fx->m));
  must(pm_module_verify(fx->m));
  if (fx->m->step == PM_NONE) bind(fx);
  must(pm_codegen(&fx->arena, fx->m, &fx->p));
  PmStatus *st = pm_program_validate(fx->p);
  if (st || getenv("SHOW")) {
    PmBuf b;
    pm_buf_init(&b);
    pm_program_print(fx->p, &b);
    fputs(pm_buf_str(&b), stderr);
    pm_buf_deinit(&b);
  }
  must(st);
}

void fixture_deinit(Fixture *fx) { pm_arena_deinit(&fx->arena); }

static double random_value(uint64_t *seed, const PmType *t, const PmModule *m) {
  *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  const double u = (double)(*seed >> 11) / 9007199254740992.0;
  switch (t->dtype) {
    case PM_BOOL:
      return u < 0.5;
    case PM_I32:
      return t->index_of == PM_NONE ? floor(u * 9) - 4 : floor(u * (double)(pm_axis_size(m, t->index_of) + 1)) - 1;
    case PM_BF16:
      return (double)pm_bf16_round(2 * u - 1);
    case PM_F16:
      return (double)pm_f16_round(2 * u - 1);
    default:
      return (double)(float)(2 * u - 1);
  }
}

static int64_t elements(const PmModule *m, const PmType *t) {
  int64_t n;
  assert_true(pm_type_elements(m, t, &n));
  return n;
}

static void *to_bytes(Fixture *fx, const double *data, int64_t n, PmDtype d, int64_t *out_bytes) {
  *out_bytes = n * pm_dtype_bytes(d);
  char *out = PM_NEW_N(&fx->arena, char, *out_bytes + 8);
  for (int64_t i = 0; i < n; i++) {
    if (d == PM_BOOL) out[i] = data[i] != 0;
    if (d == PM_I32) ((int32_t *)(void *)out)[i] = (int32_t)data[i];
    if (d == PM_F32) ((float *)(void *)out)[i] = (float)data[i];
    if (d == PM_F64) ((double *)(void *)out)[i] = data[i];
    if (d == PM_BF16) ((uint16_t *)(void *)out)[i] = pm_bf16_from(data[i]);
    if (d == PM_F16) ((uint16_t *)(void *)out)[i] = pm_f16_from(data[i]);
  }
  return out;
}

static double element(const void *data, int64_t i, PmDtype d) {
  if (d == PM_BOOL) return ((const char *)data)[i];
  if (d == PM_I32) return ((const int32_t *)data)[i];
  if (d == PM_BF16) return (double)pm_bf16_to_f32(((const uint16_t *)data)[i]);
  if (d == PM_F16) return (double)pm_f16_to_f32(((const uint16_t *)data)[i]);
  return d == PM_F32 ? (double)((const float *)data)[i] : ((const double *)data)[i];
}

static void compare(Fixture *fx, const PmType *t, const PmTensor *want, const void *got, const char *name,
                    double tolerance) {
  const int64_t n = elements(fx->m, t);
  double *w = PM_NEW_N(&fx->arena, double, n + 1), most = 1;
  PmTensor whole = *want;
  whole.type.n_partial = 0;
  pm_tensor_gather(fx->m, &whole, w);
  for (int64_t i = 0; i < n; i++)
    if (isfinite(w[i]) && fabs(w[i]) > most) most = fabs(w[i]);
  for (int64_t i = 0; i < n; i++) {
    const double g = element(got, i, (PmDtype)t->dtype);
    if (g == w[i] || fabs(g - w[i]) <= tolerance * most || (isnan(g) && isnan(w[i]))) continue;
    fail_msg("%s[%lld] is %.9g, not %.9g", name, (long long)i, g, w[i]);
  }
}

void fixture_compare(Fixture *fx, double tolerance) {
  const PmModule *m = fx->m;
  const PmFn *f = pm_fn(m, m->step);
  PmSession *s;
  const PmSessionOptions options = {.device = "interp", .threads = 1, .seed = 1, .poison = true, .deadline_s = 20};
  must(pm_session_create(fx->p, &options, &s));
  must(pm_session_init(s));
  PmTensor *in = PM_NEW_N(&fx->arena, PmTensor, f->n_params + 1),
           *out = PM_NEW_N(&fx->arena, PmTensor, f->n_results + 1);
  uint64_t seed = 7;
  for (int32_t i = 0; i < f->n_params; i++) {
    const PmType *t = &f->values[i].type;
    const int64_t n = elements(m, t);
    double *data = PM_NEW_N(&fx->arena, double, n + 1);
    for (int64_t k = 0; k < n; k++) data[k] = random_value(&seed, t, m);
    if (m->vars[f->param_bind[i].var].role == PM_ROLE_STEP) data[0] = 3;
    in[i] = pm_tensor_new(&fx->arena, m, t);
    pm_tensor_scatter(m, data, &in[i]);
    int64_t bytes;
    const void *raw = to_bytes(fx, data, n, (PmDtype)t->dtype, &bytes);
    must(pm_session_set_var(s, f->param_bind[i].var, raw, bytes));
  }
  must(pm_interp_run(m, m->step, PM_INTERP_EXACT, &fx->arena, in, out));
  must(pm_session_run(s, PM_ENTRY_STEP));
  for (int32_t i = 0; i < f->n_results; i++) {
    const PmType *t = &f->values[f->results[i]].type;
    void *got = PM_NEW_N(&fx->arena, char, elements(m, t) * pm_dtype_bytes((PmDtype)t->dtype) + 8);
    const PmBinding *b = &f->result_bind[i];
    if (b->report) {
      must(pm_session_output(s, PM_ENTRY_STEP, b->report, got));
      compare(fx, t, &out[i], got, b->report, tolerance);
    }
    if (b->var != PM_NONE) {
      must(pm_session_get_var(s, b->var, got));
      compare(fx, t, &out[i], got, m->vars[b->var].path, tolerance);
    }
  }
  PmSessionMemory memory;
  pm_session_memory(s, &memory);
  assert_true(memory.arena_bytes == fx->p->arena_bytes && memory.touched_bytes <= memory.arena_bytes);
  pm_session_destroy(s);
}

void check(const char *text, double tolerance) {
  Fixture fx;
  fixture_compile(&fx, text);
  fixture_compare(&fx, tolerance);
  fixture_deinit(&fx);
}

int32_t count_steps(const Fixture *fx, int32_t entry, PmStepKind kind) {
  int32_t n = 0;
  for (int32_t i = 0; i < fx->p->entries[entry].n_steps; i++) n += fx->p->entries[entry].steps[i].kind == kind;
  return n;
}
