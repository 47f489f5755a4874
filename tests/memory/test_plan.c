// What a run plan says of its memory, recomputed from the file alone: from its buffers, and once more from what its
// steps touch, without the code that planned or validated it.

#include "harness.h"
#include "models.h"

typedef struct Use {  // of one buffer by the steps of its entry
  int32_t first, last;
  bool written_first, output;
} Use;

typedef struct Checker {
  const PmProgram *p;
  Use *uses;  // by buffer
} Checker;

static int64_t aligned(int64_t v) { return (v + PM_ARENA_ALIGN - 1) / PM_ARENA_ALIGN * PM_ARENA_ALIGN; }
static int64_t end_of(const PmBuffer *b) { return b->at.offset + aligned(b->at.bytes); }

static bool live_at(const PmBuffer *b, int32_t entry, int32_t step) {
  return b->entry < 0 || (b->entry == entry && b->first <= step && step <= b->last);
}

static bool live_together(const PmBuffer *a, const PmBuffer *b) {
  if (a->entry < 0 || b->entry < 0) return true;
  return a->entry == b->entry && a->first <= b->last && b->first <= a->last;
}

// ---- from the buffers ----------------------------------------------------------------------------------------------
static void check_sizes(const PmProgram *p) {
  int64_t top = 0, persistent = 0, live = 0;
  for (int32_t i = 0; i < p->n_buffers; i++) {
    const PmBuffer *b = &p->buffers[i];
    assert_true(b->at.offset >= 0 && b->at.bytes > 0 && b->at.offset % PM_ARENA_ALIGN == 0);
    if (end_of(b) > top) top = end_of(b);
    if (b->entry < 0 && end_of(b) > persistent) persistent = end_of(b);
  }
  for (int32_t e = 0; e < PM_ENTRY_COUNT; e++) {
    for (int32_t s = 0; s <= p->entries[e].n_steps; s++) {
      int64_t sum = 0;
      for (int32_t i = 0; i < p->n_buffers; i++)
        sum += live_at(&p->buffers[i], e, s) ? aligned(p->buffers[i].at.bytes) : 0;
      if (sum > live) live = sum;
    }
  }
  assert_int_equal(p->arena_bytes, top);
  assert_int_equal(p->persistent_bytes, persistent);
  assert_int_equal(p->live_bytes, live);
  assert_true(p->arena_bytes * 100 <= p->live_bytes * 102);
}

static void check_apart(const PmProgram *p) {
  for (int32_t i = 0; i < p->n_buffers; i++) {
    for (int32_t k = 0; k < i; k++) {
      const PmBuffer *a = &p->buffers[i], *b = &p->buffers[k];
      if (!live_together(a, b) || a->at.offset >= end_of(b) || b->at.offset >= end_of(a)) continue;
      fail_msg("`%s` and `%s` share bytes while both are live", a->name, b->name);
    }
  }
}

// ---- from the steps ------------------------------------------------------------------------------------------------
static int32_t holder(const PmProgram *p, PmRange r, int32_t entry, int32_t step) {
  for (int32_t i = 0; i < p->n_buffers; i++) {
    const PmBuffer *b = &p->buffers[i];
    if (!live_at(b, entry, step)) continue;
    if (b->at.offset <= r.offset && r.offset + r.bytes <= b->at.offset + b->at.bytes) return i;
  }
  fail_msg("entry %d, step %d: bytes %lld to %lld belong to no live buffer", entry, step, (long long)r.offset,
           (long long)(r.offset + r.bytes));
  return -1;
}

static void touch(Checker *c, PmRange r, bool reads, bool writes, int32_t entry, int32_t step) {
  if (r.bytes == 0) return;
  Use *u = &c->uses[holder(c->p, r, entry, step)];
  if (u->first < 0) *u = (Use){.first = step, .written_first = true};
  if (u->first == step && reads && !writes) u->written_first = false;
  u->last = step;
}

static void touch_step(Checker *c, const PmStep *s, int32_t entry, int32_t step) {
  if (s->kind == PM_STEP_DOT) {
    touch(c, s->u.dot->a, true, false, entry, step);
    touch(c, s->u.dot->b, true, false, entry, step);
    touch(c, s->u.dot->c, false, true, entry, step);
  } else if (s->kind == PM_STEP_COLL) {
    for (int32_t i = 0; i <= s->u.coll->n_more; i++) {
      const PmCollPart part = pm_coll_part(s->u.coll, i);
      touch(c, part.src, true, part.src.offset == part.dst.offset, entry, step);
      touch(c, part.dst, false, true, entry, step);
    }
    if (s->u.coll->rows) touch(c, s->u.coll->rows->idx, true, false, entry, step);
  } else if (s->kind == PM_STEP_SLOTS) {
    touch(c, s->u.slots->idx, true, false, entry, step);
    touch(c, s->u.slots->counts, true, false, entry, step);
    touch(c, s->u.slots->work, true, true, entry, step);
    touch(c, s->u.slots->dst, false, true, entry, step);
  } else {
    const PmKernel *k = &c->p->kernels[s->u.kernel->kernel];
    for (int32_t i = 0; i < k->n_args; i++) {
      touch(c, s->u.kernel->args[i], k->args[i].reads, k->args[i].writes, entry, step);
    }
  }
}

// A buffer of an entry lives from the step that writes it first to the one that touches it last, or to the end when it
// holds an output: not shorter, which would be wrong, and not longer, which would be waste.
static void check_uses(const PmProgram *p, PmArena *arena) {
  Checker c = {.p = p, .uses = PM_NEW_N(arena, Use, p->n_buffers)};
  for (int32_t i = 0; i < p->n_buffers; i++) c.uses[i].first = -1;
  for (int32_t e = 0; e < PM_ENTRY_COUNT; e++) {
    const PmEntry *entry = &p->entries[e];
    for (int32_t s = 0; s < entry->n_steps; s++) touch_step(&c, &entry->steps[s], e, s);
    for (int32_t o = 0; o < entry->n_outputs; o++)
      c.uses[holder(p, entry->outputs[o].at, e, entry->n_steps - 1)].output = true;
  }
  for (int32_t i = 0; i < p->n_buffers; i++) {
    const PmBuffer *b = &p->buffers[i];
    const Use *u = &c.uses[i];
    if (b->entry < 0) continue;
    bool tight = u->first == b->first && u->written_first && (u->output || u->last == b->last);
    if (!tight) {
      fail_msg("`%s` lives from step %d to %d of entry %d, but is used from %d to %d%s", b->name, b->first, b->last,
               b->entry, u->first, u->last, u->written_first ? "" : ", and read first");
    }
  }
  for (int32_t v = 0; v < p->n_vars; v++) {
    for (int32_t e = 0; e < PM_ENTRY_COUNT; e++) {
      assert_true(p->buffers[holder(p, p->vars[v].at, e, 0)].entry < 0);
    }
  }
}

// ---- tests ---------------------------------------------------------------------------------------------------------
static PmProgram *read_back(Compiled *c) {
  PmBuf bytes;
  PmProgram *p;
  pm_buf_init(&bytes);
  pm_program_write(c->p, &bytes);
  must(pm_program_read(&c->t.arena, "memory.prun", bytes.data, bytes.len, &p));
  pm_buf_deinit(&bytes);
  return p;
}

static void peak_from_the_plan_alone(void **state) {
  (void)state;
  for (int i = 0; i < N_EXAMPLES; i++) {
    Compiled c;
    example_compile(&examples[i], &c);
    PmProgram *p = read_back(&c);
    print_message("  %s: arena %lld, live %lld\n", example_text(&examples[i]), (long long)p->arena_bytes,
                  (long long)p->live_bytes);
    check_sizes(p);
    check_apart(p);
    check_uses(p, &c.t.arena);
    example_free(&c);
  }
}

static void two_compiles_give_the_same_bytes(void **state) {
  (void)state;
  for (int i = 0; i < N_EXAMPLES; i++) {
    Compiled c[2];
    PmBuf bytes[2];
    for (int k = 0; k < 2; k++) {
      example_compile(&examples[i], &c[k]);
      pm_buf_init(&bytes[k]);
      pm_program_write(c[k].p, &bytes[k]);
    }
    assert_int_equal(bytes[0].len, bytes[1].len);
    assert_memory_equal(bytes[0].data, bytes[1].data, bytes[0].len);
    for (int k = 0; k < 2; k++) {
      pm_buf_deinit(&bytes[k]);
      example_free(&c[k]);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(peak_from_the_plan_alone),
                                     cmocka_unit_test(two_compiles_give_the_same_bytes)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
