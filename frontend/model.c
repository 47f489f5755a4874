// The model function: inputs, parameters and states in; the minimised number, the reports and the states after the step
// out.
#include "frontend/lower.h"

static void bind_params(PmLower *lw, PmFnId fn) {
  int32_t n = lw->m->n_vars;
  PmBinding *bind = PM_NEW_N(lw->arena, PmBinding, n + 1);
  for (PmVarId v = 0; v < n; v++) {
    PmType type = lw->m->vars[v].type;
    pm_type_drop_axis(&type, lw->m->micro);
    lw->frame->var_vals[v] = pm_b_param(&lw->frame->b, type, lw->m->vars[v].path);
    bind[v] = (PmBinding){.var = v};
  }
  if (lw->micro > 1) {
    lw->frame->micro = pm_b_param(&lw->frame->b, pm_type_scalar(PM_I32), NULL);
    bind[n] = (PmBinding){.var = PM_NONE};
  }
  lw->frame->var_lo = 0;
  lw->frame->var_hi = n;
  pm_fn(lw->m, fn)->param_bind = bind;
}

static void bind_results(PmLower *lw, PmFnId fn) {
  const PmFrame *frame = lw->frame;
  int32_t n = frame->n_reports + 1, n_vars = lw->m->n_vars;
  PmValueId *ids = PM_NEW_N(lw->arena, PmValueId, n + n_vars);
  PmBinding *bind = PM_NEW_N(lw->arena, PmBinding, n + n_vars);
  ids[0] = lw->loss.id;
  bind[0] = (PmBinding){.var = PM_NONE, .report = pm_intern(lw->names, "loss")};
  for (int32_t i = 1; i < n; i++) {
    ids[i] = frame->reports[i - 1].value;
    bind[i] = (PmBinding){.var = PM_NONE, .report = frame->reports[i - 1].name};
  }
  for (PmVarId v = 0; v < n_vars; v++) {
    if (lw->frame->new_vals[v] == PM_NONE) continue;
    ids[n] = lw->frame->new_vals[v];
    bind[n++] = (PmBinding){.var = v};
  }
  pm_b_results(&lw->frame->b, ids, n);
  pm_fn(lw->m, fn)->result_bind = bind;
}

void pm_lw_model(PmLower *lw, const PmItem *model) {
  lw->m->name = model->name.text;
  int32_t errors = pm_diags_errors(lw->diags);
  PmInst *inst = pm_inst_model(lw, model);
  if (pm_lw_draws(lw)) pm_lw_add_step(lw);
  PmFnId fn = pm_lw_add_fn(lw, model->name.text, PM_FN_MODEL, model->span);
  lw->m->model = fn;
  pm_lw_frame(lw, fn, model->name.span);
  bind_params(lw, fn);
  lw->scope = pm_scope_new(lw, &lw->main->globals, PM_SCOPE_BLOCK, lw->main, "");
  lw->scope->inst = inst;
  lw->scope->naming = true;
  lw->reduce = pm_lw_format(lw, PM_FORMAT_REDUCE, "");
  pm_lw_put_declared(lw, lw->scope, inst);
  pm_lw_stmts(lw, &model->body);
  if (!lw->minimize && !lw->stopped) {
    if (!lw->misplaced_minimize &&
        pm_lw_error(lw, PM_E_PROGRAM, model->name.span, "model `%s` minimises nothing", model->name.text)) {
      pm_diag_help(lw->diags, "end it with `minimize mean[...](...)`");
    }
  } else if (lw->loss.kind == PM_V_NODE) {
    bind_results(lw, fn);
    if (lw->micro > 1 && pm_diags_errors(lw->diags) == errors) pm_lw_micro_batches(lw);
  }
  lw->frame = NULL;
  lw->scope = &lw->main->globals;
}
