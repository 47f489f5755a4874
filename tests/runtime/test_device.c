// The conformance suite of devices that run: dot in every layout, kernels, and independence from the number of threads.
#include <math.h>
#include <string.h>

#include "fixture.h"
#include "harness.h"
#include "runtime/device.h"

static uint32_t next_random(uint32_t *seed) {
  *seed = *seed * 1664525u + 1013904223u;
  return *seed >> 8;
}

static int64_t pick(uint32_t *seed, const int64_t *from, uint32_t n) { return from[next_random(seed) % n]; }

// Strides of a rows x cols matrix, transposed or not, with room between its lines; returns its elements.
static int64_t layout(uint32_t *seed, int64_t rows, int64_t cols, int64_t *row_stride, int64_t *col_stride) {
  int64_t pad = next_random(seed) % 3;
  if (next_random(seed) % 2) {
    *row_stride = cols + pad;
    *col_stride = 1;
    return rows * *row_stride;
  }
  *row_stride = 1;
  *col_stride = rows + pad;
  return cols * *col_stride;
}

static PmProgram *random_dot(PmArena *arena, uint32_t seed) {
  static const int64_t sizes[] = {1, 2, 3, 7, 16, 33, 64};
  static const int64_t big[] = {130, 257, 300};
  PmProgram *p = fixture_empty(arena, 1, 0, 0);
  PmDot *d = fixture_step(p, PM_ENTRY_STEP, PM_STEP_DOT, "dot")->u.dot;
  d->dtype = next_random(&seed) % 3 ? PM_K_F32 : PM_K_F64;
  int64_t size = pm_kdtype_bytes((PmKDtype)d->dtype);
  d->m = pick(&seed, sizes, 7);
  d->n = pick(&seed, sizes, 7);
  d->k = pick(&seed, sizes, 7);
  if (next_random(&seed) % 6 == 0) {
    d->m = pick(&seed, big, 3);
    d->n = pick(&seed, big, 3);
    d->k = 64;
  }
  int64_t a = layout(&seed, d->m, d->k, &d->a_m, &d->a_k);
  int64_t b = layout(&seed, d->k, d->n, &d->b_k, &d->b_n);
  int64_t c = layout(&seed, d->m, d->n, &d->c_m, &d->c_n);
  d->n_loops = (int32_t)(next_random(&seed) % 4);
  for (int32_t l = d->n_loops - 1; l >= 0; l--) {
    PmDotLoop *loop = &d->loops[l];
    *loop = (PmDotLoop){.extent = 1 + next_random(&seed) % 4, .sum = next_random(&seed) % 2};
    // An operand that lacks the axis has stride 0.
    loop->a = next_random(&seed) % 4 ? a : 0;
    loop->b = next_random(&seed) % 4 ? b : 0;
    loop->c = loop->sum ? 0 : c;
    if (loop->a) a *= loop->extent;
    if (loop->b) b *= loop->extent;
    if (loop->c) c *= loop->extent;
  }
  d->a = (PmRange){0, a * size};
  d->b = (PmRange){(d->a.bytes + 63) / 64 * 64, b * size};
  d->c = (PmRange){(d->b.offset + d->b.bytes + 63) / 64 * 64, c * size};
  fixture_buffer(p, "a", 0, d->a.bytes, -1, 0, 0);
  fixture_buffer(p, "b", d->b.offset, d->b.bytes, -1, 0, 0);
  fixture_buffer(p, "c", d->c.offset, d->c.bytes, -1, 0, 0);
  fixture_finish(p);
  PmStatus *st = pm_program_validate(p);
  if (st) pm_status_print(st, stderr);
  assert_null(st);
  return p;
}

static void put(const PmDot *d, char *at, int64_t i, double v) {
  if (d->dtype == PM_K_F32) ((float *)at)[i] = (float)v;
  if (d->dtype == PM_K_F64) ((double *)at)[i] = v;
}

static PmDevice *device_new(const char *name, const PmProgram *p, int32_t threads, const PmKernelFn *fns) {
  const PmDeviceVtbl *vtbl = NULL;
  assert_null(pm_device_find(name, &vtbl));
  PmDevice *d = NULL;
  PmStatus *st = vtbl->create(p, 0, &(PmDeviceOptions){.threads = threads, .poison = true, .fns = fns}, &d);
  if (st) pm_status_print(st, stderr);
  assert_null(st);
  return d;
}

static PmDevice *run_dot(const char *name, const PmProgram *p, int32_t threads) {
  PmDevice *device = device_new(name, p, threads, NULL);
  const PmDot *d = p->entries[PM_ENTRY_STEP].steps[0].u.dot;
  uint32_t seed = 5;
  for (int64_t i = 0; i < d->a.bytes / pm_kdtype_bytes((PmKDtype)d->dtype); i++) {
    put(d, device->arena + d->a.offset, i, (double)next_random(&seed) * 0x1p-24 - 0.5);
  }
  for (int64_t i = 0; i < d->b.bytes / pm_kdtype_bytes((PmKDtype)d->dtype); i++) {
    put(d, device->arena + d->b.offset, i, (double)next_random(&seed) * 0x1p-24 - 0.5);
  }
  assert_null(device->vtbl->dot(device, &p->entries[PM_ENTRY_STEP].steps[0]));
  return device;
}

static void dots_equal_plain_loops(void **state) {
  (void)state;
  for (uint32_t seed = 0; seed < 400; seed++) {
    PmArena arena;
    pm_arena_init(&arena, 0);
    PmProgram *p = random_dot(&arena, seed * 7919 + 1);
    const PmDot *d = p->entries[PM_ENTRY_STEP].steps[0].u.dot;
    PmDevice *want = run_dot("interp", p, 1), *got = run_dot("cpu", p, 1), *again = run_dot("cpu", p, 3);
    assert_memory_equal(got->arena, again->arena, (size_t)p->arena_bytes);
    for (int64_t i = 0; i < d->c.bytes / pm_kdtype_bytes((PmKDtype)d->dtype); i++) {
      double w, g;
      if (d->dtype == PM_K_F32) {
        w = (double)((const float *)(want->arena + d->c.offset))[i];
        g = (double)((const float *)(got->arena + d->c.offset))[i];
      } else {
        w = ((const double *)(want->arena + d->c.offset))[i];
        g = ((const double *)(got->arena + d->c.offset))[i];
      }
      // What neither writes keeps its poison, a NaN.
      if (isnan(w) && isnan(g)) continue;
      if (!(fabs(w - g) <= (d->dtype == PM_K_F32 ? 1e-4 : 1e-12))) {
        fail_msg("seed %u, element %lld: %g, not %g", seed, (long long)i, g, w);
      }
    }
    want->vtbl->destroy(want);
    got->vtbl->destroy(got);
    again->vtbl->destroy(again);
    pm_arena_deinit(&arena);
  }
}

// out[i] = in[i] * 2, as a compiler would make it.
static void twice(char *const *args, const int32_t *scalars, int64_t begin, int64_t end) {
  (void)scalars;
  const float *in = (const float *)args[0];
  float *out = (float *)args[1];
  for (int64_t i = begin; i < end; i++) out[i] = in[i] * 2.0f;
}

enum { TWICE_N = 200000 };

static PmProgram *twice_program(PmArena *arena) {
  PmProgram *p = fixture_empty(arena, 1, 0, 0);
  Kb b = kb_new(arena, &p->kernels[p->n_kernels++], "twice");
  kb_outer(&b, TWICE_N, PM_KA_GRID);
  kb_arg(&b, PM_K_F32, TWICE_N, true, false);
  kb_arg(&b, PM_K_F32, TWICE_N, false, true);
  int32_t v = kb_load(&b, 0, 0, 1, 0, 0), two = kb_const(&b, PM_K_F32, 2);
  kb_store(&b, 1, kb_op(&b, PM_I_MUL, PM_K_F32, v, two, -1), 0, 1, 0, 0);
  PmKernelCall *c = fixture_step(p, PM_ENTRY_STEP, PM_STEP_KERNEL, "twice")->u.kernel;
  c->args[0] = (PmRange){0, TWICE_N * 4};
  c->args[1] = (PmRange){TWICE_N * 4, TWICE_N * 4};
  fixture_buffer(p, "in", 0, TWICE_N * 4, -1, 0, 0);
  fixture_buffer(p, "out", TWICE_N * 4, TWICE_N * 4, -1, 0, 0);
  fixture_finish(p);
  assert_null(pm_program_validate(p));
  return p;
}

static void kernels_are_cut_and_joined(void **state) {
  (void)state;
  PmArena arena;
  pm_arena_init(&arena, 0);
  PmProgram *p = twice_program(&arena);
  const PmKernelFn fns[] = {twice};
  for (int32_t threads = 1; threads <= 4; threads++) {
    PmDevice *devices[] = {device_new("interp", p, threads, NULL), device_new("cpu", p, threads, fns)};
    for (int i = 0; i < 2; i++) {
      PmDevice *d = devices[i];
      float *in = (float *)d->arena, *out = in + TWICE_N;
      for (int j = 0; j < TWICE_N; j++) in[j] = (float)j;
      assert_int_equal(d->vtbl->touched(d), TWICE_N * 4);
      assert_null(d->vtbl->kernel(d, &p->entries[PM_ENTRY_STEP].steps[0]));
      assert_int_equal(d->vtbl->touched(d), p->arena_bytes);
      for (int j = 0; j < TWICE_N; j++) assert_true(out[j] == 2.0f * (float)j);
      d->vtbl->destroy(d);
    }
  }
  pm_arena_deinit(&arena);
}

static void a_compiler_is_needed(void **state) {
  (void)state;
  PmArena arena;
  pm_arena_init(&arena, 0);
  const PmDeviceVtbl *cpu = NULL;
  assert_null(pm_device_find("cpu", &cpu));
  PmDevice *d = NULL;
  PmStatus *st = cpu->create(twice_program(&arena), 0, &(PmDeviceOptions){.threads = 1}, &d);
  assert_int_equal(pm_status_code(st), PM_ERR_ENVIRONMENT);
  pm_status_drop(st);
  st = pm_device_find("gpu", &cpu);
  assert_int_equal(pm_status_code(st), PM_ERR_USAGE);
  assert_string_equal(pm_status_message(st), "no device `gpu`; there are cpu, interp, null");
  pm_status_drop(st);
  pm_arena_deinit(&arena);
}

// ---- slots ---------------------------------------------------------------------------------------------------------
// By the definition: whole lists of positions of all members, in order.
static void want_slots(const PmSlots *s, const int32_t *idx, int64_t members, int64_t me, int32_t *out) {
  for (int64_t i = 0; i < s->count; i++) {
    const int32_t own = idx[me * s->count + i];
    int64_t place = 0;
    for (int64_t k = 0; k < me * s->count + i && own >= 0; k++) place += idx[k] == own;
    const bool fits = own >= 0 && own < s->experts && place < s->slots;
    out[i] = fits ? (int32_t)(own * s->slots + place) : -1;
  }
  (void)members;
}

static PmStatus *run_slots(const char *name, const PmProgram *p, int64_t rank, const int32_t *idx, int32_t *out) {
  const PmDeviceVtbl *vtbl = NULL;
  PmDevice *d = NULL;
  assert_null(pm_device_find(name, &vtbl));
  assert_null(vtbl->create(p, rank, &(PmDeviceOptions){.threads = 1, .poison = true}, &d));
  const PmStep *steps = p->entries[PM_ENTRY_STEP].steps;
  const PmSlots *counting = steps[0].u.slots, *s = steps[2].u.slots;
  const int64_t members = pm_program_ranks(p);
  int32_t *counts = (int32_t *)(void *)(d->arena + s->counts.offset);
  for (int64_t m = 0; m < members; m++) {
    memcpy(d->arena + counting->idx.offset, idx + m * s->count, (size_t)s->count * 4);
    assert_null(d->vtbl->slots(d, &steps[0]));
    memcpy(counts + m * s->experts, d->arena + counting->dst.offset, (size_t)s->experts * 4);
  }
  memcpy(d->arena + s->idx.offset, idx + rank * s->count, (size_t)s->count * 4);
  PmStatus *st = d->vtbl->slots(d, &steps[2]);
  memcpy(out, d->arena + s->dst.offset, (size_t)s->count * 4);
  d->vtbl->destroy(d);
  return st;
}

// Ranks that know the counts of those before them give out the slots that one would; hostile indices get none.
static void slots_are_counted_over_ranks(void **state) {
  (void)state;
  static const char *const devices[] = {"cpu", "interp"};
  uint32_t seed = 11;
  for (uint32_t round = 0; round < 40; round++) {
    PmArena arena;
    pm_arena_init(&arena, 0);
    PmProgram *p = fixture_routing(&arena, 4);
    PmSlots *s = p->entries[PM_ENTRY_STEP].steps[2].u.slots;
    int32_t idx[32], got[8], want[8];
    s->bounded = false;
    for (int i = 0; i < 32; i++) idx[i] = (int32_t)(next_random(&seed) % (round % 8 + 1));
    if (round % 4 == 3) {
      idx[0] = -1;
      idx[3] = INT32_MAX;
      idx[9] = INT32_MIN;
    }
    for (int64_t rank = 0; rank < 4; rank++) {
      want_slots(s, idx, 4, rank, want);
      for (int d = 0; d < 2; d++) {
        assert_null(run_slots(devices[d], p, rank, idx, got));
        assert_memory_equal(got, want, sizeof want);
      }
    }
    pm_arena_deinit(&arena);
  }
}

// One element too many ends every rank, with what it needs; exactly as many as there are slots do not.
static void a_bound_is_kept(void **state) {
  (void)state;
  PmArena arena;
  pm_arena_init(&arena, 0);
  PmProgram *p = fixture_routing(&arena, 4);
  int32_t idx[32], got[8];
  for (int i = 0; i < 32; i++) idx[i] = i < 16 ? i / 2 : -1;
  for (int64_t rank = 0; rank < 4; rank++) assert_null(run_slots("interp", p, rank, idx, got));
  idx[31] = 5;
  for (int64_t rank = 0; rank < 4; rank++) {
    PmStatus *st = run_slots("interp", p, rank, idx, got);
    assert_int_equal(pm_status_code(st), PM_ERR_LIMIT);
    assert_string_equal(
        pm_status_message(st),
        "fixture.pmodel:3:5: slot_of[expert]: in layer 1 of 1 element 5 is chosen 3 times, but the bound "
        "leaves it 2 slots; nothing was dropped. `ragged(bound=1.42)` would hold them, `ragged` holds "
        "any number");
    pm_status_drop(st);
  }
  pm_arena_deinit(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(dots_equal_plain_loops), cmocka_unit_test(kernels_are_cut_and_joined),
      cmocka_unit_test(a_compiler_is_needed),   cmocka_unit_test(slots_are_counted_over_ranks),
      cmocka_unit_test(a_bound_is_kept),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
