// One rank's memory by owner: what lives for the whole run, and what is live at the fullest moment.
#include <stdlib.h>

#include "tools/show.h"

#define N_BIGGEST 10

static const char *const entry_texts[PM_ENTRY_COUNT] = {
    [PM_ENTRY_SETUP] = "setup", [PM_ENTRY_STEP] = "step", [PM_ENTRY_EVAL] = "eval"};

typedef struct Peak {
  int32_t entry, step;
  int64_t bytes;  // persistent included
} Peak;

static int64_t aligned(const PmBuffer *b) {
  int64_t n;
  return pm_align_i64(b->at.bytes, PM_ARENA_ALIGN, &n) ? n : INT64_MAX;
}

static bool owns(int32_t owner, const PmBuffer *b) { return owner == PM_OWN_COUNT || owner == b->owner; }

static bool is_live(const PmBuffer *b, const Peak *at) {
  return b->entry < 0 || (b->entry == at->entry && b->first <= at->step && at->step <= b->last);
}

// The moment with the largest sum of live bytes of an owner (PM_OWN_COUNT: of all), the first of equals.
static Peak find_peak(PmArena *arena, const PmProgram *p, int32_t owner) {
  int64_t persistent = 0;
  for (int32_t i = 0; i < p->n_buffers; i++) {
    if (p->buffers[i].entry < 0 && owns(owner, &p->buffers[i])) persistent += aligned(&p->buffers[i]);
  }
  Peak best = {.entry = PM_ENTRY_STEP, .step = 0, .bytes = persistent};
  for (int32_t e = 0; e < PM_ENTRY_COUNT; e++) {
    int32_t n = p->entries[e].n_steps;
    int64_t *change = PM_NEW_N(arena, int64_t, n + 2);
    for (int32_t i = 0; i < p->n_buffers; i++) {
      const PmBuffer *b = &p->buffers[i];
      if (!owns(owner, b) || b->entry != e || b->first < 0 || b->first > n || b->last < b->first) continue;
      change[b->first] += aligned(b);
      change[b->last < n ? b->last + 1 : n + 1] -= aligned(b);
    }
    int64_t live = persistent;
    for (int32_t s = 0; s <= n; s++) {
      live += change[s];
      if (live > best.bytes) best = (Peak){.entry = e, .step = s, .bytes = live};
    }
  }
  return best;
}

typedef struct Owned {
  int64_t persistent, at_peak, most;
  int32_t buffers;
} Owned;

static void sum_owners(PmArena *arena, const PmProgram *p, const Peak *peak, Owned *owned) {
  for (int32_t i = 0; i < p->n_buffers; i++) {
    const PmBuffer *b = &p->buffers[i];
    Owned *o = &owned[b->owner];
    o->buffers++;
    if (b->entry < 0) o->persistent += aligned(b);
    if (is_live(b, peak)) o->at_peak += aligned(b);
  }
  for (int32_t i = 0; i < PM_OWN_COUNT; i++) owned[i].most = find_peak(arena, p, i).bytes;
}

static int by_bytes(const void *a, const void *b) {
  const PmBuffer *x = *(const PmBuffer *const *)a, *y = *(const PmBuffer *const *)b;
  if (x->at.bytes != y->at.bytes) return x->at.bytes > y->at.bytes ? -1 : 1;
  return x < y ? -1 : x > y;  // one array: the order of the program
}

static int32_t biggest(PmArena *arena, const PmProgram *p, const Peak *peak, const PmBuffer ***out) {
  const PmBuffer **live = (const PmBuffer **)pm_arena_alloc_n(arena, (size_t)p->n_buffers + 1, sizeof(PmBuffer *));
  int32_t n = 0;
  for (int32_t i = 0; i < p->n_buffers; i++) {
    if (is_live(&p->buffers[i], peak)) live[n++] = &p->buffers[i];
  }
  qsort((void *)live, (size_t)n, sizeof *live, by_bytes);
  *out = live;
  return n < N_BIGGEST ? n : N_BIGGEST;
}

static const char *peak_op(const PmProgram *p, const Peak *peak) {
  const PmEntry *e = &p->entries[peak->entry];
  return peak->step < e->n_steps ? e->steps[peak->step].op : "the end";
}

static double ratio(const PmProgram *p) {
  return p->live_bytes > 0 ? (double)p->arena_bytes / (double)p->live_bytes : 1;
}

static void print_json(const PmProgram *p, const Peak *peak, const Owned *owned, const PmBuffer **big, int32_t n_big) {
  PmAnswer a;
  pm_answer_begin(&a);
  PmJson *j = &a.json;
  pm_json_put_i64(j, "ranks", pm_program_ranks(p));
  pm_json_put_i64(j, "arena_bytes", p->arena_bytes);
  pm_json_put_i64(j, "persistent_bytes", p->persistent_bytes);
  pm_json_put_i64(j, "live_bytes", p->live_bytes);
  pm_json_put_f64(j, "ratio", ratio(p));
  pm_json_key(j, "peak");
  pm_json_object(j);
  pm_json_put_str(j, "entry", entry_texts[peak->entry]);
  pm_json_put_i64(j, "step", peak->step);
  pm_json_put_str(j, "op", peak_op(p, peak));
  pm_json_put_i64(j, "bytes", peak->bytes);
  pm_json_end_object(j);
  pm_json_key(j, "owners");
  pm_json_object(j);
  for (int32_t i = 0; i < PM_OWN_COUNT; i++) {
    pm_json_key(j, pm_owner_text((PmOwner)i));
    pm_json_object(j);
    pm_json_put_i64(j, "buffers", owned[i].buffers);
    pm_json_put_i64(j, "persistent_bytes", owned[i].persistent);
    pm_json_put_i64(j, "peak_bytes", owned[i].at_peak);
    pm_json_put_i64(j, "most_bytes", owned[i].most);
    pm_json_end_object(j);
  }
  pm_json_end_object(j);
  pm_json_key(j, "biggest");
  pm_json_array(j);
  for (int32_t i = 0; i < n_big; i++) {
    pm_json_object(j);
    pm_json_put_str(j, "name", big[i]->name);
    pm_json_put_str(j, "owner", pm_owner_text((PmOwner)big[i]->owner));
    pm_json_put_i64(j, "bytes", big[i]->at.bytes);
    pm_json_put_i64(j, "offset", big[i]->at.offset);
    pm_json_put_bool(j, "persistent", big[i]->entry < 0);
    pm_json_end_object(j);
  }
  pm_json_end_array(j);
  pm_answer_end(&a);
}

static void print_owners(PmArena *arena, const Owned *owned) {
  PmTable table;
  pm_table_init(&table, arena, "lrrrr");
  const char *const head[] = {"owner", "buffers", "persistent", "at the peak", "at its own"};
  for (int32_t i = 0; i < 5; i++) pm_table_cell(&table, head[i]);
  Owned all = {0};
  for (int32_t i = 0; i < PM_OWN_COUNT; i++) {
    const Owned *o = &owned[i];
    all.buffers += o->buffers;
    all.persistent += o->persistent;
    all.at_peak += o->at_peak;
    if (o->buffers == 0) continue;
    pm_table_cell(&table, pm_owner_text((PmOwner)i));
    pm_table_count(&table, o->buffers);
    pm_table_count(&table, o->persistent);
    pm_table_count(&table, o->at_peak);
    pm_table_count(&table, o->most);
  }
  pm_table_cell(&table, "total");
  pm_table_count(&table, all.buffers);
  pm_table_count(&table, all.persistent);
  pm_table_count(&table, all.at_peak);
  pm_table_cell(&table, "");
  pm_table_print(&table, "  ", stdout);
}

static void print_text(PmArena *arena, const PmProgram *p, const Peak *peak, const Owned *owned, const PmBuffer **big,
                       int32_t n_big) {
  printf("%s, plan %s: %s; bytes of one rank, each buffer rounded up to %d\n\n", p->model, p->plan ? p->plan : "(none)",
         pm_mesh_text(arena, p->n_mesh, p->mesh_name, p->mesh_size), PM_ARENA_ALIGN);
  print_owners(arena, owned);
  printf("\narena         %s bytes (%s), allocated once\n", pm_count_text(arena, p->arena_bytes),
         pm_bytes_text(arena, p->arena_bytes));
  printf("  persistent  %s\n", pm_count_text(arena, p->persistent_bytes));
  printf("  live bound  %s, arena / bound = %.4f\n", pm_count_text(arena, p->live_bytes), ratio(p));
  printf("  peak        %s, in %s at step %d of %d (%s)\n", pm_count_text(arena, peak->bytes), entry_texts[peak->entry],
         peak->step, p->entries[peak->entry].n_steps, peak_op(p, peak));
  printf("\nlargest buffers at the peak\n");
  PmTable table;
  pm_table_init(&table, arena, "rlll");
  for (int32_t i = 0; i < n_big; i++) {
    pm_table_count(&table, big[i]->at.bytes);
    pm_table_cell(&table, pm_owner_text((PmOwner)big[i]->owner));
    pm_table_cell(&table, big[i]->name);
    if (big[i]->entry < 0) {
      pm_table_cell(&table, "whole run");
    } else {
      pm_table_printf(&table, "steps %d to %d", big[i]->first, big[i]->last);
    }
  }
  pm_table_print(&table, "  ", stdout);
}

PmStatus *pm_show_memory(PmTool *t, const char *path) {
  PmProgram *p;
  PM_TRY(pm_tool_program(t, path, &p, NULL));
  Peak peak = find_peak(&t->arena, p, PM_OWN_COUNT);
  Owned owned[PM_OWN_COUNT] = {0};
  sum_owners(&t->arena, p, &peak, owned);
  const PmBuffer **big;
  int32_t n_big = biggest(&t->arena, p, &peak, &big);
  if (t->opt.json) {
    print_json(p, &peak, owned, big, n_big);
  } else {
    print_text(&t->arena, p, &peak, owned, big, n_big);
  }
  return NULL;
}
