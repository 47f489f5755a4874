// `policy`: the number formats of parameters, of arithmetic, of sums and of gradients, by path.
#include <string.h>

#include "frontend/lower.h"

static const char *const keys[] = {"compute", "grad", "param", "reduce"};
static const PmFormat key_formats[] = {PM_FORMAT_COMPUTE, PM_FORMAT_GRAD, PM_FORMAT_PARAM, PM_FORMAT_REDUCE};

bool pm_lw_float_dtype(const char *name, PmDtype *out) {
  static const PmDtype dtypes[] = {PM_F32, PM_BF16, PM_F16};
  for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
    if (strcmp(name, pm_dtype_text(dtypes[i])) != 0) continue;
    *out = dtypes[i];
    return true;
  }
  return false;
}

static bool read_key(PmLower *lw, const PmItemEntry *e, PmFormat *out) {
  for (int32_t k = 0; k < 4; k++) {
    if (strcmp(keys[k], e->key.text) != 0) continue;
    *out = key_formats[k];
    return true;
  }
  if (pm_lw_error(lw, PM_E_TRAIN, e->key.span, "`policy` has no setting `%s`", e->key.text)) {
    pm_lw_suggest_from(lw, e->key.text, keys, 4, "its settings are");
  }
  return false;
}

static bool read_value(PmLower *lw, const PmItemEntry *e, PmDtype *out) {
  static const char *const dtypes[] = {"bf16", "f16", "f32"};
  bool name = e->value->kind == PM_X_NAME;
  if (name && pm_lw_float_dtype(e->value->name, out)) return true;
  if (pm_lw_error(lw, PM_E_DTYPE, e->value->span, "`policy` takes `f32`, `bf16` or `f16`, not %s",
                  pm_lw_text(lw, e->value->span)) &&
      name) {
    pm_lw_suggest(lw, e->value->name, dtypes, 3);
  }
  return false;
}

void pm_lw_policy(PmLower *lw, const PmItem *policy) {
  lw->formats = PM_NEW_N(lw->arena, PmFormatRule, policy->entries.n + 1);
  for (int32_t i = 0; i < policy->entries.n; i++) {
    const PmItemEntry *e = &policy->entries.items[i];
    PmFormatRule rule = {.entry = e};
    if (read_key(lw, e, &rule.format) && read_value(lw, e, &rule.dtype)) lw->formats[lw->n_formats++] = rule;
  }
}

// The newest entry for the format at the path: entries for all come first, then those of globs that match.
static const PmFormatRule *find_rule(PmLower *lw, PmFormat format, const char *path) {
  const PmFormatRule *found = NULL;
  for (int32_t i = 0; i < lw->n_formats && !lw->stopped; i++) {
    PmFormatRule *rule = &lw->formats[i];
    PmName glob = rule->entry->glob;
    if (rule->format != format) continue;
    if (glob.text && !pm_lw_matches(lw, glob, path)) continue;
    rule->hit = true;
    if (glob.text || !found || !found->entry->glob.text) found = rule;
  }
  return found;
}

PmDtype pm_lw_format(PmLower *lw, PmFormat format, const char *path) {
  const PmFormatRule *rule = find_rule(lw, format, path);
  if (rule) return rule->dtype;
  return format == PM_FORMAT_GRAD ? pm_lw_format(lw, PM_FORMAT_REDUCE, path) : PM_F32;
}

bool pm_lw_uses_f16(const PmLower *lw) {
  for (int32_t i = 0; i < lw->n_formats; i++) {
    const PmFormatRule *rule = &lw->formats[i];
    bool narrow = rule->format == PM_FORMAT_COMPUTE || rule->format == PM_FORMAT_GRAD;
    if (narrow && rule->dtype == PM_F16) return true;
  }
  return false;
}

void pm_lw_check_policy(PmLower *lw) {
  for (PmVarId v = 0; v < lw->m->n_vars && !lw->stopped; v++) {
    for (int32_t k = 0; k < 4; k++) pm_lw_format(lw, key_formats[k], lw->m->vars[v].path);
  }
  for (int32_t i = 0; i < lw->n_formats && !lw->stopped; i++) {
    const PmFormatRule *rule = &lw->formats[i];
    if (rule->hit || !rule->entry->glob.text) continue;
    pm_diag(lw->diags, PM_W_GLOB_IDLE, rule->entry->glob.span, "`\"%s\"` matches no parameter", rule->entry->glob.text);
  }
}
