#include "tools/fix.h"

#include "tools/pipeline.h"

// An edit may bring the next mistake to light; a chain longer than this is none that a person wrote.
#define MAX_ROUNDS 16

static void forget(PmTool *t) {
  pm_sources_init(&t->sources, &t->arena);
  t->diags = pm_diags_new(&t->arena, &t->sources);
  pm_diags_set_strict(t->diags, t->opt.strict);
  t->passes.diags = t->diags;
}

static PmStatus *edit_file(const PmTool *t, int32_t file, const PmDiagEdit *edits, int32_t n, int32_t *io_made) {
  const PmSourceFile *source = &t->sources.files[file];
  if (!source->on_disk || n == 0) return NULL;
  PmBuf text;
  pm_buf_init(&text);
  int32_t at = 0;
  for (int32_t i = 0; i < n; i++) {
    PmSpan span = edits[i].span;
    pm_buf_put(&text, source->text + at, (size_t)(span.lo - at));
    pm_buf_puts(&text, edits[i].text);
    at = span.hi;
  }
  pm_buf_put(&text, source->text + at, (size_t)(source->len - at));
  PmStatus *st = pm_tool_write(source->path, pm_buf_str(&text), text.len);
  pm_buf_clear(&text);
  for (int32_t i = 0; i < n && !st; i++) {
    PmSpan span = edits[i].span;
    pm_sources_put_loc(&t->sources, span, &text);
    pm_buf_printf(&text, ": `%.*s` is now `%s`\n", (int)(span.hi - span.lo), source->text + span.lo, edits[i].text);
  }
  fputs(pm_buf_str(&text), stdout);
  if (!st) *io_made += n;
  pm_buf_deinit(&text);
  return st;
}

PmStatus *pm_tool_fix(PmTool *t, const char *path) {
  for (int32_t round = 0, made = 1; round < MAX_ROUNDS && made > 0; round++) {
    PmFrontendOptions options = pm_tool_frontend(t);
    PmModule *m;
    // Whatever is wrong is said by the compile that follows.
    pm_status_drop(pm_frontend_compile(&t->arena, &t->names, &t->sources, t->diags, path, &options, &m));
    PmDiagEdit *edits;
    int32_t n = pm_diags_edits(t->diags, &edits);
    made = 0;
    for (int32_t i = 0; i < n;) {
      int32_t end = i;
      while (end < n && edits[end].span.file == edits[i].span.file) end++;
      PM_TRY(edit_file(t, edits[i].span.file, &edits[i], end - i, &made));
      i = end;
    }
    forget(t);
  }
  return NULL;
}
