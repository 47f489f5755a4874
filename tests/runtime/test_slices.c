// A rank's slices: every element of the whole is held where the layout says, by exactly the ranks that say so, and
// padding by none.
#include <string.h>

#include "base/names.h"
#include "fixture.h"
#include "harness.h"
#include "runtime/slices.h"

enum { MOST = 4096 };

typedef struct Seen {
  int64_t local[MOST];  // per element of the whole, 0: not held, else its place + 1
  int64_t elements, last_local, last_global;
} Seen;

static PmStatus *note(void *context, int64_t local, int64_t global, int64_t n) {
  Seen *s = context;
  assert_true(n > 0 && local > s->last_local && global > s->last_global);
  for (int64_t i = 0; i < n; i++) {
    assert_true(global + i < MOST && s->local[global + i] == 0);
    s->local[global + i] = local + i + 1;
  }
  s->elements += n;
  s->last_local = local + n - 1;
  s->last_global = global + n - 1;
  return NULL;
}

// Where the element at `index` stands in the rank's part, or -1.
static int64_t place(const PmProgram *p, const PmVarDim *dims, int32_t n, const int64_t *index, int64_t rank) {
  int64_t at = 0;
  for (int32_t i = 0; i < n; i++) {
    int64_t size = pm_var_dim_local(p, &dims[i]), run, in = index[i] - pm_var_dim_global(p, &dims[i], rank, 0, &run);
    if (in < 0 || in >= size) return -1;
    at = at * size + in;
  }
  return at;
}

static void check(const PmProgram *p, const PmVarDim *dims, int32_t n) {
  for (int64_t rank = 0; rank < pm_program_ranks(p); rank++) {
    static Seen seen;
    memset(&seen, 0, sizeof seen);
    seen.last_local = seen.last_global = -1;
    assert_null(pm_slice_walk(p, dims, n, rank, note, &seen));
    int64_t index[3] = {0}, whole = pm_dims_elements(dims, n), held = 0;
    for (int64_t e = 0; e < whole; e++) {
      int64_t rest = e;
      for (int32_t i = n - 1; i >= 0; i--) {
        index[i] = rest % dims[i].size;
        rest /= dims[i].size;
      }
      int64_t at = place(p, dims, n, index, rank);
      held += at >= 0;
      assert_int_equal(seen.local[e], at + 1);
    }
    assert_int_equal(seen.elements, held);
  }
}

// Every split of three dims of sizes 1 to 7 over a mesh of 2 x 3, padded to divide.
static void test_all_small_shapes(void **state) {
  (void)state;
  PmArena arena;
  pm_arena_init(&arena, 0);
  PmProgram *p = fixture_empty(&arena, 2, 3, 0);
  static const struct {
    int32_t n;
    uint8_t mesh[2];
  } splits[] = {{0, {0}}, {1, {0}}, {1, {1}}, {2, {0, 1}}, {2, {1, 0}}};
  for (int32_t shape = 0; shape < 7 * 7 * 7; shape++) {
    for (int32_t split = 0; split < 5; split++) {
      for (int32_t dim = 0; dim < 3; dim++) {
        PmVarDim dims[3] = {{.axis = "a", .size = 1 + shape % 7},
                            {.axis = "b", .size = 1 + shape / 7 % 7},
                            {.axis = "c", .size = 1 + shape / 49}};
        PmVarDim *d = &dims[dim];
        d->n_mesh = splits[split].n;
        memcpy(d->mesh, splits[split].mesh, sizeof splits[split].mesh);
        int64_t parts = 1;
        for (int32_t k = 0; k < d->n_mesh; k++) parts *= p->mesh_size[d->mesh[k]];
        d->pad = (parts - d->size % parts) % parts;
        check(p, dims, 3);
      }
    }
  }
  check(p, NULL, 0);
  pm_arena_deinit(&arena);
}

// The numbers of micro-batches and their rows are one dim, wherever they stand; nothing else is put together.
static void test_rows_of_a_step(void **state) {
  (void)state;
  const PmProgVar turns = {.rank = 3, .dims = {{PM_TURN_AXIS, .size = 2}, {"batch", .size = 4}, {"seq", .size = 8}}};
  const PmProgVar inner = {.rank = 3, .dims = {{"seq", .size = 8}, {PM_TURN_AXIS, .size = 3}, {"batch", .size = 5}}};
  const PmProgVar plain = {.rank = 2, .dims = {{NULL, .size = 4}, {PM_TURN_AXIS, .size = 8}}};
  PmVarDim dims[PM_PROGRAM_MAX_RANK];
  assert_int_equal(pm_row_dims(&turns, dims), 2);
  assert_string_equal(dims[0].axis, "batch");
  assert_int_equal(dims[0].size, 8);
  assert_int_equal(dims[1].size, 8);
  assert_int_equal(pm_row_dims(&inner, dims), 2);
  assert_int_equal(dims[0].size, 8);
  assert_int_equal(dims[1].size, 15);
  assert_int_equal(pm_row_dims(&plain, dims), 2);
  assert_int_equal(dims[0].size, 4);
  assert_int_equal(dims[1].size, 8);
  assert_int_equal(pm_row_dims(&(PmProgVar){.rank = 0}, dims), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_small_shapes), cmocka_unit_test(test_rows_of_a_step)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
