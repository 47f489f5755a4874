// Every claim that the validator proves, broken once.
#include <string.h>

#include "base/checked.h"
#include "fixture.h"
#include "harness.h"
#include "runtime/validate.h"

typedef struct Case {
  const char *expected;  // part of the message
  void (*damage)(PmProgram *p);
} Case;

static PmInstr *instr(PmProgram *p, int32_t kernel, int32_t i) { return &p->kernels[kernel].instrs[i]; }
static PmStep *step(PmProgram *p, int32_t i) { return &p->entries[PM_ENTRY_STEP].steps[i]; }

// Kernels: 1 scale (5 loads x, table, t; 6 stores), 2 rows (0 loop, 1 load, 2 acc, 3 end, 4 store).
static void load_high(PmProgram *p) { instr(p, 1, 0)->base = 1; }
static void load_low(PmProgram *p) { instr(p, 1, 0)->base = -1; }
static void load_overflow(PmProgram *p) { instr(p, 1, 0)->stride[0] = INT64_MAX; }
static void load_least(PmProgram *p) { instr(p, 1, 0)->stride[0] = INT64_MIN; }
static void load_closed_axis(PmProgram *p) { instr(p, 2, 4)->stride[1] = 1; }
static void load_unread(PmProgram *p) { p->kernels[1].args[0].reads = false; }
static void store_unwritten(PmProgram *p) { p->kernels[1].args[3].writes = false; }
static void no_argument(PmProgram *p) { instr(p, 1, 0)->arg = 4; }
static void operand_later(PmProgram *p) { instr(p, 1, 1)->a = 5; }
static void operand_dtype(PmProgram *p) { instr(p, 1, 5)->a = 0; }
static void half_arithmetic(PmProgram *p) { instr(p, 1, 5)->dtype = PM_K_BF16; }
static void operand_is_store(PmProgram *p) { instr(p, 1, 6)->a = 6; }
static void operand_hidden(PmProgram *p) { instr(p, 2, 4)->a = 1; }
static void acc_outside(PmProgram *p) {
  instr(p, 4, 2)->op = PM_I_ACC_SUM;
  instr(p, 4, 2)->b = -1;
}
static void loop_axis(PmProgram *p) { instr(p, 2, 0)->arg = 0; }
static void loop_extent(PmProgram *p) { instr(p, 2, 0)->extent = 0; }
static void loop_no_end(PmProgram *p) { p->kernels[2].n_instrs = 3; }
static void end_alone(PmProgram *p) { instr(p, 1, 4)->op = PM_I_END; }
static void call_compiled(PmProgram *p) { p->kernels[0].host = false; }
static void turns_meet(PmProgram *p) { instr(p, 1, 6)->stride[1] = 0; }
static void turns_meet_rows(PmProgram *p) { instr(p, 1, 6)->stride[0] = 5; }
static void no_turns(PmProgram *p) { p->kernels[1].outer[0] = 0; }
static void too_many_args(PmProgram *p) { p->kernels[1].n_args = PM_KERNEL_MAX_ARGS + 1; }
static void dyn_no_extent(PmProgram *p) { instr(p, 1, 4)->dyn = 0; }
static void dyn_far(PmProgram *p) {
  instr(p, 1, 4)->dyn = 0;
  instr(p, 1, 4)->dyn_extent = 10;
  instr(p, 1, 4)->dyn_stride = 1;
}

static void range_small(PmProgram *p) { step(p, 0)->u.kernel->args[3].bytes -= 4; }
static void range_far(PmProgram *p) { step(p, 0)->u.kernel->args[3].offset = p->arena_bytes - 4; }
static void range_negative(PmProgram *p) { step(p, 0)->u.kernel->args[3].offset = -64; }
static void range_odd(PmProgram *p) { step(p, 2)->u.kernel->args[1].offset += 2; }
static void range_dead(PmProgram *p) { step(p, 4)->u.kernel->args[1].offset = 640; }
static void shifted_in_place(PmProgram *p) {
  p->kernels[4].outer[0] = 4;
  step(p, 6)->u.kernel->args[1].offset += 4;
  step(p, 6)->u.kernel->args[0].bytes = step(p, 6)->u.kernel->args[1].bytes = 16;
  p->kernels[4].args[0].bytes = p->kernels[4].args[1].bytes = 16;
}
static void kernel_unknown(PmProgram *p) { step(p, 0)->u.kernel->kernel = 5; }
static void dot_far(PmProgram *p) { step(p, 1)->u.dot->m = 100; }
static void dot_strides(PmProgram *p) { step(p, 1)->u.dot->a_k = 2; }
static void dot_meets(PmProgram *p) { step(p, 1)->u.dot->c_m = 0; }
static void dot_in_place(PmProgram *p) { step(p, 1)->u.dot->c = step(p, 1)->u.dot->a; }
static void dot_dtype(PmProgram *p) { step(p, 1)->u.dot->dtype = PM_K_I32; }
static void coll_mesh(PmProgram *p) { step(p, 3)->u.coll->mesh[0] = 2; }
static void coll_twice(PmProgram *p) {
  step(p, 3)->u.coll->n_mesh = 2;
  step(p, 3)->u.coll->mesh[1] = 1;
}
static void coll_to_short(PmProgram *p) { step(p, 3)->u.coll->kind = PM_COLL_PERMUTE; }
static void coll_to_other(PmProgram *p) {
  step(p, 3)->u.coll->kind = PM_COLL_PERMUTE;
  step(p, 3)->u.coll->n_to = 1;
  step(p, 3)->u.coll->to[0] = 0;
}
static void coll_to_twice(PmProgram *p) {
  step(p, 3)->u.coll->n_to = 2;
  step(p, 3)->u.coll->to[0] = step(p, 3)->u.coll->to[1] = 1;
}
static void coll_to_of_another(PmProgram *p) {
  step(p, 3)->u.coll->n_to = 1;
  step(p, 3)->u.coll->to[0] = 1;
}
static void coll_count(PmProgram *p) { step(p, 3)->u.coll->count = 1000; }
static void coll_huge(PmProgram *p) { step(p, 3)->u.coll->count = INT64_MAX / 2; }
static void coll_gather_in_place(PmProgram *p) { step(p, 3)->u.coll->kind = PM_COLL_ALL_GATHER; }
static void loc_unknown(PmProgram *p) { step(p, 3)->loc = 9; }

static void buffers_overlap(PmProgram *p) { p->buffers[7].first = 1; }
static void buffers_persistent(PmProgram *p) { p->buffers[5].at.offset = 64; }
static void peak_high(PmProgram *p) { p->arena_bytes += 64; }
static void peak_low(PmProgram *p) { p->persistent_bytes -= 64; }
static void live_high(PmProgram *p) { p->live_bytes = p->arena_bytes + 1; }
static void buffer_odd(PmProgram *p) { p->buffers[5].at.offset += 4; }
static void buffer_steps(PmProgram *p) { p->buffers[5].last = 99; }
static void var_divides(PmProgram *p) { p->vars[MODEL_W].dims[0].size = 9; }
static void var_small(PmProgram *p) { p->vars[MODEL_W].at.bytes -= 4; }
static void var_mesh_twice(PmProgram *p) {
  p->vars[MODEL_W].dims[1].n_mesh = 1;
  p->vars[MODEL_W].dims[1].mesh[0] = 1;
}
static void var_order(PmProgram *p) { p->vars[MODEL_W].dims[1].zigzag = true; }
static void var_huge(PmProgram *p) { p->vars[MODEL_W].dims[1].size = INT64_C(1) << 62; }
static void var_shared(PmProgram *p) { p->vars[MODEL_T].at.offset = 0; }
static void twin_far(PmProgram *p) { p->vars[MODEL_W].twin = 4; }
static void twin_one_sided(PmProgram *p) { p->vars[MODEL_W].twin = MODEL_X; }
static void twin_itself(PmProgram *p) { p->vars[MODEL_W].twin = MODEL_W; }
static void twin_input(PmProgram *p) {
  p->vars[MODEL_X].twin = MODEL_Y;
  p->vars[MODEL_Y].twin = MODEL_X;
}
static void output_dead(PmProgram *p) { p->buffers[6].last = 5; }
static void mesh_huge(PmProgram *p) { p->mesh_size[0] = INT64_C(1) << 40; }
static void data_far(PmProgram *p) {
  p->data.format = "bytes";
  p->data.x = 4;
}
static void data_feeds_param(PmProgram *p) {
  p->data.format = "bytes";
  p->data.x = MODEL_W;
}

static const Case cases[] = {
    {"leave its", load_high},
    {"leave its", load_low},
    {"leave its", load_overflow},
    {"leave its", load_least},
    {"not open", load_closed_axis},
    {"not declared read", load_unread},
    {"not declared written", store_unwritten},
    {"no argument 4", no_argument},
    {"no earlier value", operand_later},
    {"is i32, expected f32", operand_dtype},
    {"has no bf16 form", half_arithmetic},
    {"no earlier value", operand_is_store},
    {"not visible", operand_hidden},
    {"outside of a loop", acc_outside},
    {"loop over axis", loop_axis},
    {"0 turns", loop_extent},
    {"has no end", loop_no_end},
    {"end without loop", end_alone},
    {"in a compiled kernel", call_compiled},
    {"parallel turns may meet", turns_meet},
    {"parallel turns may meet", turns_meet_rows},
    {"has 0 turns", no_turns},
    {"impossible counts", too_many_args},
    {"without extent", dyn_no_extent},
    {"leave its", dyn_far},
    {"needs", range_small},
    {"inside the arena", range_far},
    {"inside the arena", range_negative},
    {"not aligned", range_odd},
    {"every live buffer", range_dead},
    {"parallel turns may meet", shifted_in_place},
    {"no kernel 5", kernel_unknown},
    {"needs", dot_far},
    {"has strides", dot_strides},
    {"strides", dot_meets},
    {"overlaps an operand", dot_in_place},
    {"dot is malformed", dot_dtype},
    {"unknown or twice", coll_mesh},
    {"unknown or twice", coll_twice},
    {"among other mesh axes", coll_to_short},
    {"among other mesh axes", coll_to_other},
    {"unknown or twice", coll_to_twice},
    {"among other mesh axes", coll_to_of_another},
    {"needs", coll_count},
    {"a collective of", coll_huge},
    {"needs", coll_gather_in_place},
    {"step is malformed", loc_unknown},
    {"live together", buffers_overlap},
    {"persistent part", buffers_persistent},
    {"bytes of arena", peak_high},
    {"persistent", peak_low},
    {"live", live_high},
    {"does not fit", buffer_odd},
    {"lives over steps", buffer_steps},
    {"does not divide", var_divides},
    {"expected", var_small},
    {"unknown or twice", var_mesh_twice},
    {"too large", var_huge},
    {"two chunks", var_order},
    {"share the byte", var_shared},
    {"malformed", twin_far},
    {"no master and working copy", twin_one_sided},
    {"no master and working copy", twin_itself},
    {"no master and working copy", twin_input},
    {"does not outlive", output_dead},
    {"mesh axis 0", mesh_huge},
    {"data feed", data_far},
    {"data feed", data_feeds_param},
};

static void damage_is_found(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    PmArena arena;
    pm_arena_init(&arena, 0);
    PmProgram *p = fixture_model(&arena, 2, 2);
    cases[i].damage(p);
    PmStatus *st = pm_program_validate(p);
    if (!st || !strstr(pm_status_message(st), cases[i].expected)) {
      fail_msg("case %zu: expected `%s`, got `%s`", i, cases[i].expected, pm_status_message(st));
    }
    assert_int_equal(pm_status_code(st), PM_ERR_CORRUPTION);
    pm_status_drop(st);
    pm_arena_deinit(&arena);
  }
}

static void models_are_valid(void **state) {
  (void)state;
  for (int64_t data = 1; data <= 4; data *= 2) {
    for (int64_t tensor = 1; tensor <= 8; tensor *= 2) {
      PmArena arena;
      pm_arena_init(&arena, 0);
      PmStatus *st = pm_program_validate(fixture_model(&arena, data, tensor));
      if (st) pm_status_print(st, stderr);
      assert_null(st);
      pm_arena_deinit(&arena);
    }
  }
}

// ---- routing: steps 0 counts, 1 counts of all, 2 slots, 3 scatter_rows, 4 gather_rows -------------------------------
static void rows_missing(PmProgram *p) { step(p, 3)->u.coll->rows = NULL; }
static void rows_unasked(PmProgram *p) { step(p, 1)->u.coll->rows = step(p, 3)->u.coll->rows; }
static void rows_axes(PmProgram *p) { step(p, 3)->u.coll->rows->n_dims = 3; }
static void rows_width(PmProgram *p) { step(p, 3)->u.coll->rows->width = 0; }
static void rows_wide(PmProgram *p) { step(p, 4)->u.coll->rows->width = 4; }
static void rows_huge(PmProgram *p) { step(p, 3)->u.coll->rows->width = INT64_MAX / 2; }
static void rows_local(PmProgram *p) { step(p, 3)->u.coll->rows->dims[0].local = 3; }
static void rows_none(PmProgram *p) { step(p, 4)->u.coll->rows->dims[1].local = 0; }
static void rows_many(PmProgram *p) { step(p, 4)->u.coll->rows->dims[1].size = INT32_MAX; }
static void rows_high(PmProgram *p) { step(p, 3)->u.coll->rows->dims[0].first.constant = 1; }
static void rows_low(PmProgram *p) { step(p, 3)->u.coll->rows->dims[0].first.stride[0] = -2; }
static void rows_mesh(PmProgram *p) { step(p, 3)->u.coll->rows->dims[0].first.stride[5] = 1; }
static void rows_overflow(PmProgram *p) { step(p, 3)->u.coll->rows->dims[0].first.stride[0] = INT64_MAX; }
static void rows_count(PmProgram *p) { step(p, 3)->u.coll->count = 9; }
static void rows_idx_small(PmProgram *p) { step(p, 3)->u.coll->rows->idx.bytes = 28; }
static void rows_idx_odd(PmProgram *p) { step(p, 4)->u.coll->rows->idx.offset += 2; }
static void rows_idx_written(PmProgram *p) { step(p, 4)->u.coll->rows->idx = step(p, 4)->u.coll->dst; }
static void rows_in_place(PmProgram *p) { step(p, 3)->u.coll->dst = step(p, 3)->u.coll->src; }
static void slots_none(PmProgram *p) { step(p, 2)->u.slots->slots = 0; }
static void slots_many(PmProgram *p) { step(p, 2)->u.slots->slots = INT32_MAX; }
static void slots_count(PmProgram *p) { step(p, 2)->u.slots->count = 9; }
static void slots_experts(PmProgram *p) { step(p, 0)->u.slots->experts = 17; }
static void slots_bounded(PmProgram *p) { step(p, 0)->u.slots->bounded = true; }
static void slots_mesh(PmProgram *p) { step(p, 2)->u.slots->mesh[0] = 1; }
static void slots_counts(PmProgram *p) { step(p, 2)->u.slots->counts.bytes -= 4; }
static void slots_work(PmProgram *p) { step(p, 2)->u.slots->work.bytes -= 4; }
static void slots_in_place(PmProgram *p) { step(p, 2)->u.slots->dst = step(p, 2)->u.slots->idx; }
static void slots_over_counts(PmProgram *p) { step(p, 2)->u.slots->work = step(p, 2)->u.slots->counts; }

// ---- a bucket -------------------------------------------------------------------------------------------------------
// Buffers: a at 0, b at 64, c at 128, d at 192. Parts: a in place, b to c, d in place.
static PmColl *bucket(PmProgram *p) { return step(p, 0)->u.coll; }
static void part_none(PmProgram *p) { bucket(p)->more[1].count = 0; }
static void part_short(PmProgram *p) { bucket(p)->more[0].count = 4; }
static void part_huge(PmProgram *p) { bucket(p)->more[0].count = INT64_MAX / 2; }
static void parts_huge(PmProgram *p) { bucket(p)->more[0].count = bucket(p)->more[1].count = INT64_MAX / 5; }
static void part_far(PmProgram *p) { bucket(p)->more[1].src.offset = p->arena_bytes; }
static void part_odd(PmProgram *p) { bucket(p)->more[0].dst.offset += 2; }
static void part_dead(PmProgram *p) { bucket(p)->more[0].dst.offset += 12; }
static void part_shifted(PmProgram *p) {
  bucket(p)->count = 3;
  bucket(p)->dst.offset += 4;
  bucket(p)->dst.bytes -= 4;
}
static void parts_meet(PmProgram *p) { bucket(p)->more[0].dst.offset = 12; }
static void part_written(PmProgram *p) { bucket(p)->more[0].src.offset = 0; }
static void part_over_source(PmProgram *p) { bucket(p)->more[1].dst.offset = 64 + 8; }
static void parts_of_shift(PmProgram *p) { bucket(p)->kind = PM_COLL_SHIFT; }
static void parts_negative(PmProgram *p) { bucket(p)->n_more = -1; }
static void parts_many(PmProgram *p) {
  bucket(p)->n_more = PM_MAX_PARTS;
  bucket(p)->more = PM_NEW_N(p->arena, PmCollPart, PM_MAX_PARTS);
}

static const Case bucket_cases[] = {
    {"of 0 elements", part_none},     {"needs", part_short},
    {"a collective of", part_huge},   {"needs", parts_huge},
    {"inside the arena", part_far},   {"not aligned", part_odd},
    {"every live buffer", part_dead}, {"overlap", part_shifted},
    {"overlap", parts_meet},          {"overlap", part_written},
    {"overlap", part_over_source},    {"malformed", parts_of_shift},
    {"malformed", parts_negative},    {"malformed", parts_many},
};

static const Case routing_cases[] = {
    {"malformed", rows_missing},
    {"malformed", rows_unasked},
    {"rows of 3 axes", rows_axes},
    {"rows of", rows_width},
    {"needs", rows_wide},
    {"rows of", rows_huge},
    {"3 of 4 on a rank", rows_local},
    {"0 of 2 on a rank", rows_none},
    {"of the rows", rows_many},
    {"of the rows", rows_high},
    {"of the rows", rows_low},
    {"depends on mesh axis 5", rows_mesh},
    {"32 bits", rows_overflow},
    {"needs", rows_count},
    {"needs", rows_idx_small},
    {"not aligned", rows_idx_odd},
    {"overlap", rows_idx_written},
    {"overlap", rows_in_place},
    {"with 0 slots", slots_none},
    {"positions of", slots_many},
    {"needs", slots_count},
    {"needs", slots_experts},
    {"positions of", slots_bounded},
    {"unknown or twice", slots_mesh},
    {"needs", slots_counts},
    {"needs", slots_work},
    {"overlaps", slots_in_place},
    {"overlaps", slots_over_counts},
};

static void damage_to(PmProgram *make(PmArena *arena, int64_t data), const Case *all, size_t n) {
  for (size_t i = 0; i < n; i++) {
    PmArena arena;
    pm_arena_init(&arena, 0);
    PmProgram *p = make(&arena, 2);
    PmStatus *st = pm_program_validate(p);
    if (st) pm_status_print(st, stderr);
    assert_null(st);
    all[i].damage(p);
    st = pm_program_validate(p);
    if (!st || !strstr(pm_status_message(st), all[i].expected)) {
      fail_msg("case %zu: expected `%s`, got `%s`", i, all[i].expected, pm_status_message(st));
    }
    assert_int_equal(pm_status_code(st), PM_ERR_CORRUPTION);
    pm_status_drop(st);
    pm_arena_deinit(&arena);
  }
}

static void damage_to_routing_is_found(void **state) {
  (void)state;
  damage_to(fixture_routing, routing_cases, sizeof routing_cases / sizeof *routing_cases);
}

static void damage_to_buckets_is_found(void **state) {
  (void)state;
  damage_to(fixture_bucket, bucket_cases, sizeof bucket_cases / sizeof *bucket_cases);
}

// What must not be refused: rotary halves in place, a row softmax in place, columns per turn, a scatter.
static PmStatus *valid_kernel(PmKernel *k) {
  int64_t work = 1 << 20;
  return pm_validate_kernel(k, &work);
}

static void clever_kernels_are_valid(void **state) {
  (void)state;
  PmArena arena;
  pm_arena_init(&arena, 0);
  PmKernel k;
  Kb b = kb_new(&arena, &k, "rotary");
  kb_outer(&b, 5, PM_KA_GRID);
  kb_outer(&b, 4, PM_KA_GRID);
  kb_arg(&b, PM_K_F32, 40, true, true);
  int32_t lo = kb_load(&b, 0, 0, 8, 1, 0), hi = kb_load(&b, 0, 4, 8, 1, 0);
  kb_store(&b, 0, hi, 0, 8, 1, 0);
  kb_store(&b, 0, lo, 4, 8, 1, 0);
  assert_null(valid_kernel(&k));
  k.instrs[1].base = 1;
  k.instrs[3].base = 1;
  k.instrs[1].stride[0] = k.instrs[3].stride[0] = 8;
  PmStatus *st = valid_kernel(&k);
  assert_non_null(st);
  pm_status_drop(st);

  b = kb_new(&arena, &k, "softmax");
  kb_outer(&b, 5, PM_KA_GRID);
  kb_arg(&b, PM_K_F32, 40, true, true);
  kb_loop(&b, 8);
  int32_t top = kb_op(&b, PM_I_ACC_MAX, PM_K_F32, kb_load(&b, 0, 0, 8, 1, 0), -1, -1);
  kb_end(&b);
  kb_loop(&b, 8);
  int32_t v = kb_load(&b, 0, 0, 8, 0, 1);
  kb_store(&b, 0, kb_op(&b, PM_I_SUB, PM_K_F32, v, top, -1), 0, 8, 0, 1);
  kb_end(&b);
  assert_null(valid_kernel(&k));

  b = kb_new(&arena, &k, "columns");
  kb_outer(&b, 8, PM_KA_GRID);
  kb_arg(&b, PM_K_F32, 40, true, true);
  kb_loop(&b, 5);
  v = kb_load(&b, 0, 0, 1, 8, 0);
  kb_store(&b, 0, v, 0, 1, 8, 0);
  kb_end(&b);
  assert_null(valid_kernel(&k));

  b = kb_new(&arena, &k, "scatter");
  kb_outer(&b, 5, PM_KA_SEQ);
  kb_outer(&b, 8, PM_KA_GRID);
  kb_arg(&b, PM_K_I32, 5, true, false);
  kb_arg(&b, PM_K_F32, 40, true, false);
  kb_arg(&b, PM_K_F32, 80, true, true);
  int32_t at = kb_load(&b, 0, 0, 1, 0, 0);
  v = kb_load(&b, 1, 0, 8, 1, 0);
  kb_op(&b, PM_I_STORE_ADD, PM_K_F32, v, -1, -1);
  *kb_last(&b) = (PmInstr){.op = PM_I_STORE_ADD,
                           .dtype = PM_K_F32,
                           .arg = 2,
                           .a = v,
                           .b = -1,
                           .c = -1,
                           .stride = {0, 1},
                           .dyn = at,
                           .dyn_stride = 8,
                           .dyn_extent = 10};
  assert_null(valid_kernel(&k));
  k.outer_kind[0] = PM_KA_GRID;
  st = valid_kernel(&k);
  assert_non_null(st);
  pm_status_drop(st);
  pm_arena_deinit(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(models_are_valid),           cmocka_unit_test(damage_is_found),
      cmocka_unit_test(damage_to_routing_is_found), cmocka_unit_test(damage_to_buckets_is_found),
      cmocka_unit_test(clever_kernels_are_valid),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
