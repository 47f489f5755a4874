#include <string.h>

#include "base/json.h"
#include "tools/tool.h"

#define TERMINAL_WIDTH 80
#define MARKDOWN_WIDTH 110

static PmStatus *unknown_code(const char *code) {
  const char *codes[PM_DIAG_COUNT];
  for (int32_t i = 0; i < PM_DIAG_COUNT; i++) codes[i] = pm_diag_code_text((PmDiagCode)i);
  const char *near = pm_did_you_mean(code, codes, PM_DIAG_COUNT);
  if (near) return PM_STATUS(PM_ERR_USAGE, "there is no diagnostic `%s`: did you mean `%s`?", code, near);
  return PM_STATUS(PM_ERR_USAGE, "there is no diagnostic `%s`: `pmodel explain` lists them", code);
}

static const char *level(PmDiagCode code) { return pm_diag_severity(code) == PM_SEV_ERROR ? "error" : "warning"; }

static void put_code(PmJson *j, PmDiagCode code) {
  pm_json_object(j);
  pm_json_key(j, "code"), pm_json_str(j, pm_diag_code_text(code));
  pm_json_key(j, "level"), pm_json_str(j, level(code));
  pm_json_key(j, "title"), pm_json_str(j, pm_diag_title(code));
  pm_json_key(j, "page"), pm_json_str(j, pm_diag_page(code));
  pm_json_end_object(j);
}

static void print_json(PmDiagCode first, int32_t n, bool list) {
  PmBuf text;
  PmJson j;
  pm_buf_init(&text);
  pm_json_init(&j, &text, true);
  if (list) pm_json_array(&j);
  for (int32_t i = 0; i < n; i++) put_code(&j, (PmDiagCode)((int32_t)first + i));
  if (list) pm_json_end_array(&j);
  printf("%s\n", pm_buf_str(&text));
  pm_buf_deinit(&text);
}

// Words wrapped at `width` columns.
static void print_paragraph(const char *text, int len, int width) {
  int col = 0;
  for (int at = 0; at < len;) {
    int word = 0;
    while (at + word < len && text[at + word] != ' ') word++;
    if (col > 0) {
      bool wrap = col + 1 + word > width;
      putchar(wrap ? '\n' : ' ');
      col = wrap ? 0 : col + 1;
    }
    printf("%.*s", word, text + at);
    col += word;
    at += word;
    while (at < len && text[at] == ' ') at++;
  }
}

// Lines that begin with four spaces are text of a program and stay as they are; every other line is a paragraph.
static void print_page(const char *page, int width) {
  while (*page) {
    int len = (int)strcspn(page, "\n");
    if (strncmp(page, "    ", 4) == 0) {
      printf("%.*s", len, page);
    } else {
      print_paragraph(page, len, width);
    }
    putchar('\n');
    page += len;
    page += *page == '\n';
  }
}

// docs/errors.md
static void print_all(void) {
  printf(
      "# Diagnostics\n\nEvery code that pmodel reports, with what it means and the way out. `pmodel explain CODE` "
      "prints one\nof these pages; `pmodel explain --all` prints this file, which is made by it.\n");
  for (int32_t i = 0; i < PM_DIAG_COUNT; i++) {
    PmDiagCode code = (PmDiagCode)i;
    printf("\n## %s: %s\n\n", pm_diag_code_text(code), pm_diag_title(code));
    if (pm_diag_severity(code) == PM_SEV_WARNING) printf("A warning; an error under `--strict`.\n\n");
    print_page(pm_diag_page(code), MARKDOWN_WIDTH);
  }
}

PmStatus *pm_cmd_explain(PmTool *t) {
  if (t->opt.n_args > 1)
    return PM_STATUS(PM_ERR_USAGE, "`pmodel explain` takes one code; `%s` is left over", t->opt.args[1]);
  if (t->opt.all && t->opt.n_args > 0)
    return PM_STATUS(PM_ERR_USAGE, "`--all` prints every page: no code goes with it");
  if (t->opt.all && !t->opt.json) {
    print_all();
    return NULL;
  }
  if (t->opt.n_args == 0) {
    if (t->opt.json) {
      print_json((PmDiagCode)0, PM_DIAG_COUNT, true);
      return NULL;
    }
    for (int32_t i = 0; i < PM_DIAG_COUNT; i++) {
      printf("%s  %s\n", pm_diag_code_text((PmDiagCode)i), pm_diag_title((PmDiagCode)i));
    }
    return NULL;
  }
  PmDiagCode code;
  if (!pm_diag_find(t->opt.args[0], &code)) return unknown_code(t->opt.args[0]);
  if (t->opt.json) {
    print_json(code, 1, false);
    return NULL;
  }
  printf("%s (%s): %s\n\n", pm_diag_code_text(code), level(code), pm_diag_title(code));
  print_page(pm_diag_page(code), TERMINAL_WIDTH);
  return NULL;
}
