#include "tools/lsp_doc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "frontend/ast.h"
#include "tools/lsp_names.h"
#include "tools/pipeline.h"

// A failure that has no diagnostic is kept as text; diagnostics explain an INPUT status already.
static void keep_failure(PmLspState *s, PmStatus *st) {
  bool explained = pm_status_code(st) == PM_ERR_INPUT && pm_diags_errors(s->diags) > 0;
  if (st && !explained) s->failure = pm_arena_strdup(&s->arena, pm_status_message(st));
  pm_status_drop(st);
}

static void find_file(PmLspState *s, const char *path) {
  s->file = -1;
  for (int32_t i = 0; i < s->sources.n_files && s->file < 0; i++) {
    if (strcmp(s->sources.files[i].path, path) == 0) s->file = i;
  }
  if (s->file < 0) s->file = pm_sources_add(&s->sources, pm_arena_strdup(&s->arena, path), "", 0);
}

static bool is_plan(const char *path) {
  size_t n = strlen(path);
  return n >= 6 && strcmp(path + n - 6, ".pplan") == 0;
}

// What a plan says of axes and meshes is checked where a model uses it; alone, it has syntax.
static PmStatus *add_plan(PmLspState *s, const char *path, const char *text, size_t len) {
  if (len > PM_MAX_FILE_BYTES || memchr(text, 0, len)) {
    return PM_STATUS(PM_ERR_INPUT, "%s is too long, or no text", path);
  }
  pm_sources_add(&s->sources, pm_arena_strdup(&s->arena, path), pm_arena_strndup(&s->arena, text, len), len);
  return NULL;
}

static PmStatus *place(PmLspState *s) {
  PmPassCtx passes = {.diags = s->diags, .sources = &s->sources};
  if (s->module->schedule == PM_NONE) return NULL;
  PmModule *m = pm_module_clone(s->module, &s->arena);
  PM_TRY(pm_passes_run(&passes, m, PM_PLACE_PASSES));
  if (m->plan) s->placed = m;
  return NULL;
}

static PmStatus *compile(PmLspState *s, const PmTool *t, const char *path, const char *text, size_t len) {
  PmFrontendOptions options = pm_tool_frontend(t);
  PM_TRY(pm_frontend_compile_text(&s->arena, &s->names, &s->sources, s->diags, path, text, len, &options, &s->module));
  return place(s);
}

static PmLspState *state_begin(const PmTool *t, const char *path) {
  PmArena arena;
  pm_arena_init(&arena, PM_MAX_COMPILE_BYTES);
  PmLspState *s = PM_NEW(&arena, PmLspState);
  s->arena = arena;
  pm_interner_init(&s->names, &s->arena);
  pm_sources_init(&s->sources, &s->arena);
  s->diags = pm_diags_new(&s->arena, &s->sources);
  pm_diags_set_strict(s->diags, t->opt.strict);
  s->is_plan = is_plan(path);
  return s;
}

static void state_read(PmLspState *s, const PmTool *t, const char *path, const char *text, size_t len) {
  keep_failure(s, s->is_plan ? add_plan(s, path, text, len) : compile(s, t, path, text, len));
  find_file(s, path);
  pm_lsp_parse(s);
}

// Whether this process would live through the text, tried by a copy of it. A compilation that passes its memory limit
// ends its process, for it allocates everywhere and has no way back; a server must not end with it. The copy shares all
// pages and writes nothing, so a text costs twice its few milliseconds.
static bool survives(const PmTool *t, const char *path, const char *text, size_t len) {
  fflush(NULL);
  pid_t child = fork();
  if (child < 0) return true;
  if (child == 0) {
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (null >= 0) dup2(null, STDERR_FILENO);
    state_read(state_begin(t, path), t, path, text, len);
    _exit(0);
  }
  int how = 0;
  while (waitpid(child, &how, 0) < 0 && errno == EINTR) continue;
  return WIFEXITED(how) && WEXITSTATUS(how) == 0;
}

PmLspState *pm_lsp_state_new(const PmTool *t, const char *path, const char *text, size_t len) {
  PmLspState *s = state_begin(t, path);
  if (survives(t, path, text, len)) {
    state_read(s, t, path, text, len);
    return s;
  }
  s->failure = "the program is too large: checking it passes the limit of memory";
  find_file(s, path);
  s->n_trees = s->sources.n_files;
  s->trees = PM_NEW_N(&s->arena, PmText, s->n_trees);
  return s;
}

void pm_lsp_state_free(PmLspState *s) {
  if (!s) return;
  PmArena arena = s->arena;  // the state itself lies in it
  pm_arena_deinit(&arena);
}

void pm_lsp_doc_open(PmLspDoc *d, const char *uri, const char *path) {
  *d = (PmLspDoc){.uri = NULL};
  pm_arena_init(&d->arena, 0);
  d->uri = pm_arena_strdup(&d->arena, uri);
  d->path = pm_arena_strdup(&d->arena, path);
}

void pm_lsp_doc_update(PmLspDoc *d, const PmTool *t, const char *text, size_t len) {
  if (d->now != d->good) pm_lsp_state_free(d->now);
  d->now = pm_lsp_state_new(t, d->path, text, len);
  if (!d->now->parsed) return;
  pm_lsp_state_free(d->good);
  d->good = d->now;
}

void pm_lsp_doc_close(PmLspDoc *d) {
  if (d->now != d->good) pm_lsp_state_free(d->now);
  pm_lsp_state_free(d->good);
  pm_arena_deinit(&d->arena);
  *d = (PmLspDoc){.uri = NULL};
}
