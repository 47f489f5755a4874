#include "tools/lsp_server.h"

PmStatus *pm_cmd_lsp(PmTool *t) {
  if (t->opt.n_args > 0) {
    return PM_STATUS(PM_ERR_USAGE, "`pmodel lsp` takes no file; `%s` is left over", t->opt.args[0]);
  }
  return pm_lsp_serve(t, stdin, stdout);
}
