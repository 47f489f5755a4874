#include "compile.h"

#include <stdlib.h>
#include <string.h>

#include "harness.h"

static void start(Compiled *c, const char *file, const char *text) {
  memset(c, 0, sizeof *c);
  pm_arena_init(&c->arena, 0);
  pm_interner_init(&c->names, &c->arena);
  pm_sources_init(&c->sources, &c->arena);
  c->diags = pm_diags_new(&c->arena, &c->sources);
  if (!text) return;
  FILE *f = fopen(file, "w");
  assert_non_null(f);
  fputs(text, f);
  fclose(f);
}

static void finish(Compiled *c, PmStatus *st) {
  size_t len;
  FILE *f = open_memstream(&c->text, &len);
  assert_non_null(f);
  pm_diags_print(c->diags, false, f);
  fclose(f);
  c->code = pm_status_code(st);
  pm_status_drop(st);
}

void compile(Compiled *c, const char *file, const char *text, const PmFrontendOptions *options) {
  start(c, file, text);
  PmFrontendOptions none = {.seed = -1};
  finish(c,
         pm_frontend_compile(&c->arena, &c->names, &c->sources, c->diags, file, options ? options : &none, &c->module));
}

void compile_plan(Compiled *c, const char *file, const char *text, const PmFrontendOptions *options) {
  start(c, file, text);
  finish(c, pm_frontend_plan(&c->arena, &c->names, &c->sources, c->diags, file, options, &c->plan));
}

void compiled_free(Compiled *c) {
  free(c->text);
  pm_arena_deinit(&c->arena);
}

int64_t count_params(const PmModule *m) {
  int64_t total = 0;
  for (int32_t i = 0; i < m->n_vars; i++) {
    if (m->vars[i].role != PM_ROLE_PARAM) continue;
    int64_t n;
    assert_true(pm_type_elements(m, &m->vars[i].type, &n));
    total += n;
  }
  return total;
}

PmFnId find_base(const PmModule *m, const char *base) {
  for (int32_t i = 0; i < m->n_fns; i++) {
    if (!m->fns[i].dead && m->fns[i].base && strcmp(m->fns[i].base, base) == 0) return i;
  }
  return PM_NONE;
}
