#include <string.h>

#include "base/json.h"
#include "tools/tool.h"

static PmStatus *unknown_code(const char *code) {
  const char *codes[PM_DIAG_COUNT];
  for (int32_t i = 0; i < PM_DIAG_COUNT; i++) codes[i] = pm_diag_code_text((PmDiagCode)i);
  const char *near = pm_did_you_mean(code, codes, PM_DIAG_COUNT);
  if (near) return PM_STATUS(PM_ERR_USAGE, "there is no diagnostic `%s`: did you mean `%s`?", code, near);
  return PM_STATUS(PM_ERR_USAGE, "there is no diagnostic `%s`: `pmodel explain` lists them", code);
}

static void put_code(PmJson *j, PmDiagCode code) {
  pm_json_object(j);
  pm_json_key(j, "code"), pm_json_str(j, pm_diag_code_text(code));
  pm_json_key(j, "level"), pm_json_str(j, pm_diag_severity(code) == PM_SEV_ERROR ? "error" : "warning");
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

// Words wrapped at 80 columns.
static void print_page(const char *page) {
  int col = 0;
  while (*page) {
    int len = (int)strcspn(page, " ");
    if (col > 0) {
      bool wrap = col + 1 + len > 80;
      putchar(wrap ? '\n' : ' ');
      col = wrap ? 0 : col + 1;
    }
    printf("%.*s", len, page);
    col += len;
    page += len;
    page += strspn(page, " ");
  }
  putchar('\n');
}

PmStatus *pm_cmd_explain(PmTool *t) {
  if (t->opt.n_args > 1)
    return PM_STATUS(PM_ERR_USAGE, "`pmodel explain` takes one code; `%s` is left over", t->opt.args[1]);
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
  printf("%s (%s): %s\n\n", pm_diag_code_text(code), pm_diag_severity(code) == PM_SEV_ERROR ? "error" : "warning",
         pm_diag_title(code));
  print_page(pm_diag_page(code));
  return NULL;
}
