#include "frontend/frontend.h"

#include "frontend/lower.h"

void pm_lw_add_step(PmLower *lw) {
  if (lw->step_var != PM_NONE) return;
  lw->step_var = pm_lw_add_var(
      lw,
      (PmVar){
          .path = "step", .role = PM_ROLE_STEP, .type = pm_type_scalar(PM_F64), .owner = PM_NONE, .update = PM_NONE});
}

static const PmItem *only(PmLower *lw, PmItemKind kind, const char *what) {
  const PmItem *found = NULL;
  for (int32_t i = 0; i < lw->main->text.items.n; i++) {
    const PmItem *it = &lw->main->text.items.items[i];
    if (it->kind != kind) continue;
    if (found && pm_lw_error(lw, PM_E_PROGRAM, it->span, "a second `%s`", what)) {
      pm_diag_label(lw->diags, found->span, "the first one");
    }
    if (!found) found = it;
  }
  return found;
}

static void lower(PmLower *lw, PmPlanText *out_text) {
  const PmItem *model = only(lw, PM_IT_MODEL, "model");
  const PmItem *policy = only(lw, PM_IT_POLICY, "policy");
  const PmItem *train = only(lw, PM_IT_TRAIN, "train");
  lw->scope = &lw->main->globals;
  if (policy) pm_lw_policy(lw, policy);
  if (!model) {
    PmSpan start = {lw->main->file, 0, 0};
    pm_lw_error(lw, PM_E_PROGRAM, start, "%s has no `model`", lw->main->path);
    return;
  }
  pm_lw_model(lw, model);
  pm_lw_add_step(lw);
  pm_lw_train(lw, train);
  pm_lw_check_policy(lw);
  pm_lw_check_settings(lw);
  pm_lw_plans(lw, out_text);
}

// The newest place that something was built for.
static void put_place(void *context, FILE *to) {
  const PmLower *lw = context;
  if (lw->last_loc.path) {
    fprintf(to, "%s:%d:%d", lw->last_loc.path, lw->last_loc.line, lw->last_loc.col);
  } else {
    fputs("the program", to);
  }
}

// text NULL: the file at `path` has it.
static PmStatus *lower_text(PmLower *lw, const char *path, const char *text, size_t len, PmPlanText *out_text) {
  int32_t before = pm_diags_errors(lw->diags);
  lw->user_call = PM_NO_SPAN;
  lw->step_var = PM_NONE;
  lw->m = pm_module_new(lw->arena, lw->names);
  pm_lw_read_settings(lw);
  PM_TRY(text ? pm_lw_load_text(lw, path, text, len) : pm_lw_load_main(lw, path));
  // Syntax errors leave holes in the tree: what would follow from them is noise.
  if (!lw->broken) lower(lw, out_text);
  if (lw->missing) return lw->missing;
  int32_t errors = pm_diags_errors(lw->diags) - before;
  if (errors == 0) return NULL;
  return PM_STATUS(PM_ERR_INPUT, "%s: %d error%s", path, errors, errors == 1 ? "" : "s");
}

static PmStatus *compile(PmLower *lw, const char *path, const char *text, size_t len, PmPlanText *out_text) {
  lw->arena->put_place = put_place;
  lw->arena->place_context = lw;
  PmStatus *st = lower_text(lw, path, text, len, out_text);
  lw->arena->put_place = NULL;
  return st;
}

PmStatus *pm_frontend_compile(PmArena *arena, PmInterner *names, PmSources *sources, PmDiags *diags, const char *path,
                              const PmFrontendOptions *options, PmModule **out) {
  PmLower lw = {.arena = arena, .names = names, .sources = sources, .diags = diags, .options = options};
  PM_TRY(compile(&lw, path, NULL, 0, NULL));
  *out = lw.m;
  return NULL;
}

PmStatus *pm_frontend_compile_text(PmArena *arena, PmInterner *names, PmSources *sources, PmDiags *diags,
                                   const char *path, const char *text, size_t len, const PmFrontendOptions *options,
                                   PmModule **out) {
  PmLower lw = {.arena = arena, .names = names, .sources = sources, .diags = diags, .options = options};
  PM_TRY(compile(&lw, path, text, len, NULL));
  *out = lw.m;
  return NULL;
}

PmStatus *pm_frontend_plan(PmArena *arena, PmInterner *names, PmSources *sources, PmDiags *diags, const char *path,
                           const PmFrontendOptions *options, PmPlanText *out) {
  PmLower lw = {.arena = arena, .names = names, .sources = sources, .diags = diags, .options = options};
  return compile(&lw, path, NULL, 0, out);
}
