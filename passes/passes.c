#include "passes/passes.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/line_diff.h"
#include "ir/text.h"

static const PmPass passes[] = {
#define PASS(name, in, out, help) {#name, pm_pass_##name, PM_STAGE_##in, PM_STAGE_##out, help},
#include "passes/passes.def"
};
enum { N_PASSES = sizeof passes / sizeof passes[0] };

typedef struct Before {
  const char *a, *b, *why;
} Before;

static const Before before[] = {
#define BEFORE(a, b, why) {#a, #b, why},
#include "passes/passes.def"
};
enum { N_BEFORE = sizeof before / sizeof before[0] };

static const char *const stage_texts[] = {
    [PM_STAGE_LOGICAL] = "logical", [PM_STAGE_PLACED] = "placed", [PM_STAGE_LOCAL] = "local", [PM_STAGE_ANY] = "any"};

const PmPass *pm_pass_at(int32_t i) { return i >= 0 && i < N_PASSES ? &passes[i] : NULL; }

const PmPass *pm_pass_find(const char *name) {
  for (int32_t i = 0; i < N_PASSES; i++) {
    if (strcmp(passes[i].name, name) == 0) return &passes[i];
  }
  return NULL;
}

typedef struct PassList {
  const PmPass **items;
  int32_t n, cap;
} PassList;

static PmStatus *unknown_pass(const char *name) {
  const char *names[N_PASSES];
  for (int32_t i = 0; i < N_PASSES; i++) names[i] = passes[i].name;
  const char *near = pm_did_you_mean(name, names, N_PASSES);
  if (near) return PM_STATUS(PM_ERR_USAGE, "unknown pass `%s` (did you mean `%s`?)", name, near);
  return PM_STATUS(PM_ERR_USAGE, "unknown pass `%s`", name);
}

static PmStatus *parse_names(PmArena *arena, const char *names, PassList *out) {
  if (!*names) return NULL;
  for (const char *at = names;;) {
    size_t len = strcspn(at, ",");
    const char *name = pm_arena_strndup(arena, at, len);
    const PmPass *pass = pm_pass_find(name);
    if (!pass) return unknown_pass(name);
    out->items = pm_grow(arena, (void *)out->items, out->n, &out->cap, sizeof *out->items);
    out->items[out->n++] = pass;
    if (!at[len]) return NULL;
    at += len + 1;
  }
}

static PmStatus *check_order(const PassList *list, PmStage stage) {
  for (int32_t i = 0; i < list->n; i++) {
    for (int32_t r = 0; r < N_BEFORE; r++) {
      if (strcmp(before[r].b, list->items[i]->name) != 0) continue;
      for (int32_t j = i + 1; j < list->n; j++) {
        if (strcmp(before[r].a, list->items[j]->name) == 0) {
          return PM_STATUS(PM_ERR_USAGE, "pass `%s` may not run after `%s`: %s", before[r].a, before[r].b,
                           before[r].why);
        }
      }
    }
  }
  for (int32_t i = 0; i < list->n; i++) {
    const PmPass *pass = list->items[i];
    if (pass->stage_in != PM_STAGE_ANY && pass->stage_in != stage) {
      return PM_STATUS(PM_ERR_USAGE, "pass `%s` takes a module at stage %s, but it is then at stage %s", pass->name,
                       stage_texts[pass->stage_in], stage_texts[stage]);
    }
    if (pass->stage_out != PM_STAGE_ANY) stage = pass->stage_out;
  }
  return NULL;
}

static PmStatus *write_file(const char *path, const PmBuf *text) {
  FILE *f = fopen(path, "wb");
  if (!f) return PM_STATUS(PM_ERR_ENVIRONMENT, "cannot write `%s`: %s", path, strerror(errno));
  bool ok = fwrite(pm_buf_str(text), 1, text->len, f) == text->len;
  if (fclose(f) != 0) ok = false;
  return ok ? NULL : PM_STATUS(PM_ERR_ENVIRONMENT, "cannot write `%s`: %s", path, strerror(errno));
}

static bool prints(const PmPassCtx *ctx, const char *pass, const PmBuf *before, bool changed) {
  if (!ctx->print_after) return ctx->print_diff && changed && before->len > 0;
  if (strcmp(ctx->print_after, "changed") == 0) return changed;
  return strcmp(ctx->print_after, "all") == 0 || strcmp(ctx->print_after, pass) == 0;
}

static void print_ir(const PmPassCtx *ctx, const PmModule *m, const char *pass, const PmBuf *before,
                     const PmBuf *text) {
  if (!ctx->print_diff) {
    fprintf(stderr, "# after %s\n", pass);
    fwrite(pm_buf_str(text), 1, text->len, stderr);
    return;
  }
  PmArena scratch;
  PmBuf diff;
  pm_pass_scratch(m, &scratch);
  pm_buf_init(&diff);
  pm_line_diff(&scratch, pm_buf_str(before), before->len, pm_buf_str(text), text->len, &diff);
  fprintf(stderr, "# changed by %s\n", pass);
  fwrite(pm_buf_str(&diff), 1, diff.len, stderr);
  pm_buf_deinit(&diff);
  pm_arena_deinit(&scratch);
}

static PmStatus *dump_ir(PmPassCtx *ctx, const char *pass, const PmBuf *text) {
  if (mkdir(ctx->dump_to, 0777) != 0 && errno != EEXIST) {
    return PM_STATUS(PM_ERR_ENVIRONMENT, "cannot make folder `%s`: %s", ctx->dump_to, strerror(errno));
  }
  PmBuf path;
  pm_buf_init(&path);
  pm_buf_printf(&path, "%s/%02d-%s.pir", ctx->dump_to, ctx->n_dumped, pass);
  PmStatus *st = write_file(pm_buf_str(&path), text);
  pm_buf_deinit(&path);
  if (!st) ctx->n_dumped++;
  return st;
}

// before: the module's text before the pass.
static PmStatus *show_ir(PmPassCtx *ctx, const PmModule *m, const char *pass, const PmBuf *before) {
  if (!ctx->print_after && !ctx->print_diff && !ctx->dump_to) return NULL;
  PmBuf text;
  pm_buf_init(&text);
  pm_module_print(m, &text);
  const bool changed = text.len != before->len || memcmp(pm_buf_str(&text), pm_buf_str(before), text.len) != 0;
  if (prints(ctx, pass, before, changed)) print_ir(ctx, m, pass, before, &text);
  PmStatus *st = ctx->dump_to ? dump_ir(ctx, pass, &text) : NULL;
  pm_buf_deinit(&text);
  return st;
}

void pm_passes_hush(PmPassCtx *ctx) {
  ctx->dump_to = ctx->print_after = NULL;
  ctx->print_diff = false;
}

PmStatus *pm_passes_dump(PmPassCtx *ctx, const PmModule *m, const char *pass) {
  const PmBuf nothing = {0};
  return show_ir(ctx, m, pass, &nothing);
}

static PmStatus *run_pass(PmPassCtx *ctx, PmModule *m, const PmPass *pass, const PmBuf *before) {
  PM_TRY(pass->run(ctx, m));
  if (ctx->diags) {
    int32_t errors = pm_diags_errors(ctx->diags);
    if (errors > 0) return PM_STATUS(PM_ERR_INPUT, "%d error%s", errors, errors == 1 ? "" : "s");
  }
  if (pass->stage_out != PM_STAGE_ANY) m->stage = pass->stage_out;
  // Dumped before it is verified: a broken module is exactly the one that somebody will want to read.
  PM_TRY(show_ir(ctx, m, pass->name, before));
  if (!ctx->verify) return NULL;
  PmStatus *st = pm_module_verify(m);
  return st ? pm_status_wrap(st, __FILE__, __LINE__, "after pass `%s`", pass->name) : NULL;
}

static PmStatus *run_one(PmPassCtx *ctx, PmModule *m, const PmPass *pass) {
  PmBuf before;
  pm_buf_init(&before);
  if (ctx->print_diff || ctx->print_after) pm_module_print(m, &before);
  PmStatus *st = run_pass(ctx, m, pass, &before);
  pm_buf_deinit(&before);
  return st;
}

// For people, when memory is used up.
static void put_place(void *context, FILE *to) {
  const PmPass *pass = context;
  fprintf(to, "pass `%s`", pass->name);
}

void pm_pass_scratch(const PmModule *m, PmArena *out) {
  pm_arena_init(out, PM_MAX_SCRATCH_BYTES);
  out->put_place = m->arena->put_place;
  out->place_context = m->arena->place_context;
}

PmStatus *pm_passes_run(PmPassCtx *ctx, PmModule *m, const char *names) {
  PassList list = {0};
  PM_TRY(parse_names(m->arena, names, &list));
  PM_TRY(check_order(&list, m->stage));
  PmStatus *st = NULL;
  m->arena->put_place = put_place;
  for (int32_t i = 0; i < list.n && !st; i++) {
    m->arena->place_context = (void *)list.items[i];
    st = run_one(ctx, m, list.items[i]);
  }
  m->arena->put_place = NULL;
  return st;
}
