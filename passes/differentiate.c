#include <string.h>

#include "passes/grad.h"
#include "passes/passes.h"

// Index of the value named `name` among `ids`, or PM_NONE.
static int32_t find_named(const PmFn *fn, const PmValueId *ids, int32_t n, const char *name) {
  for (int32_t i = 0; i < n; i++) {
    const char *got = fn->values[ids ? ids[i] : i].name;
    if (got && name && strcmp(got, name) == 0) return i;
  }
  return PM_NONE;
}

// A name of f.bwd's parameter, resolved: a parameter of f, a result of f.fwd, or "d_" and a result of f.
static PmStatus *declared_arg(const PmFn *f, const PmFn *fwd, const PmFn *bwd, int32_t i, PmGradArg *out) {
  const char *name = bwd->values[i].name ? bwd->values[i].name : "";
  int32_t at = find_named(f, NULL, f->n_params, name);
  *out = (PmGradArg){PM_ARG_PARAM, at};
  if (at == PM_NONE) {
    at = find_named(fwd, fwd->results, fwd->n_results, name);
    *out = (PmGradArg){PM_ARG_RESULT, at};
  }
  if (at == PM_NONE && strncmp(name, "d_", 2) == 0) {
    at = find_named(fwd, fwd->results, f->n_results, name + 2);
    *out = (PmGradArg){PM_ARG_COT, at};
  }
  if (at == PM_NONE) {
    return PM_STATUS(PM_ERR_INPUT, "`%s`: parameter `%s` is no parameter of `%s`, no result of `%s` and no cotangent",
                     bwd->name, name, f->name, fwd->name);
  }
  const PmType *has = &bwd->values[i].type;
  const PmType *want = out->kind == PM_ARG_PARAM ? &f->values[at].type : &fwd->values[fwd->results[at]].type;
  if (pm_type_same_logical(has, want)) return NULL;
  return PM_STATUS(PM_ERR_INPUT, "`%s`: parameter `%s` is not of the type of what it names", bwd->name, name);
}

static PmStatus *declared_pair(PmDiff *d, PmGradPair *p) {
  const PmFn *f = pm_fn(d->m, p->use.fn), *fwd = pm_fn(d->m, p->fwd), *bwd = pm_fn(d->m, p->bwd);
  bool fits = fwd->n_params == f->n_params && fwd->n_results >= f->n_results;
  for (int32_t i = 0; fits && i < f->n_params; i++) {
    fits = pm_type_same_logical(&fwd->values[i].type, &f->values[i].type);
  }
  for (int32_t i = 0; fits && i < f->n_results; i++) {
    fits = pm_type_same_logical(&fwd->values[fwd->results[i]].type, &f->values[f->results[i]].type);
  }
  if (!fits) return PM_STATUS(PM_ERR_INPUT, "`%s` does not take and return what `%s` does", fwd->name, f->name);
  p->n_args = bwd->n_params;
  p->args = PM_NEW_N(d->arena, PmGradArg, p->n_args);
  for (int32_t i = 0; i < p->n_args; i++) PM_TRY(declared_arg(f, fwd, bwd, i, &p->args[i]));
  p->grads = PM_NEW_N(d->arena, int32_t, f->n_params);
  for (int32_t i = 0; i < f->n_params; i++) {
    if (!pm_dtype_is_float((PmDtype)f->values[i].type.dtype)) continue;
    if (p->n_grads == bwd->n_results ||
        !pm_type_same_logical(&bwd->values[bwd->results[p->n_grads]].type, &f->values[i].type)) {
      return PM_STATUS(PM_ERR_INPUT, "`%s` does not return the cotangent of parameter %d of `%s`", bwd->name, i,
                       f->name);
    }
    p->grads[p->n_grads++] = i;
  }
  if (p->n_grads == bwd->n_results) return NULL;
  return PM_STATUS(PM_ERR_INPUT, "`%s` returns more than the cotangents of `%s`", bwd->name, f->name);
}

PmStatus *pm_grad_pair(PmDiff *d, const PmGradUse *use, const PmGradPair **out) {
  for (int32_t i = 0; i < d->n_pairs; i++) {
    if (!pm_grad_use_equal(d, &d->pairs[i]->use, use)) continue;
    *out = d->pairs[i];
    return NULL;
  }
  PmGradPair *p = PM_NEW(d->arena, PmGradPair);
  p->use = *use;
  bool declared = d->use_declared && !use->loop && pm_declared_pair(d->m, use->fn, &p->fwd, &p->bwd);
  if (declared && p->fwd < d->n_declared && p->bwd < d->n_declared) {
    PM_TRY(declared_pair(d, p));
  } else {
    PM_TRY(pm_grad_derive(d, p));
  }
  d->pairs = (PmGradPair **)pm_grow(d->arena, (void *)d->pairs, d->n_pairs, &d->cap_pairs, sizeof *d->pairs);
  d->pairs[d->n_pairs++] = p;
  *out = p;
  return NULL;
}

PmStatus *pm_differentiate_fn(PmModule *m, PmArena *scratch, PmFnId fn, const bool *active, bool use_declared,
                              const PmGradPair **out) {
  PmDiff d = {.m = m, .arena = scratch, .use_declared = use_declared, .n_declared = m->n_fns};
  const PmFn *f = pm_fn(m, fn);
  bool *seed = PM_NEW_N(scratch, bool, f->n_results);
  for (int32_t i = 0; i < f->n_results; i++) {
    seed[i] = pm_dtype_is_float((PmDtype)f->values[f->results[i]].type.dtype);
  }
  PmGradUse use = {.fn = fn, .axis = PM_NONE, .active = active, .seed = seed};
  return pm_grad_pair(&d, &use, out);
}

static PmStatus *differentiate_model(PmModule *m, PmArena *scratch, const PmGradPair **out) {
  if (m->model == PM_NONE || m->schedule == PM_NONE) {
    return PM_STATUS(PM_ERR_INPUT, "there is nothing to train: %s",
                     m->model == PM_NONE ? "the module has no model"
                                         : "the model has no `train` block, which gives `optimizer` and `lr`");
  }
  const PmFn *f = pm_fn(m, m->model);
  if (!f->param_bind || f->n_results < 1) {
    return PM_STATUS(PM_ERR_INPUT, "model `%s` is not bound to variables, or minimises nothing", f->name);
  }
  const PmType *loss = &f->values[f->results[0]].type;
  if (loss->rank != 0 || !pm_dtype_is_float((PmDtype)loss->dtype)) {
    return PM_STATUS(PM_ERR_INPUT, "model `%s` minimises a value that is not one number", f->name);
  }
  bool *active = PM_NEW_N(scratch, bool, f->n_params);
  bool *seed = PM_NEW_N(scratch, bool, f->n_results);
  uint8_t *held = PM_NEW_N(scratch, uint8_t, f->n_params);
  for (int32_t i = 0; i < f->n_params; i++) {
    PmVarId var = f->param_bind[i].var;
    // With micro-batches some are, and `pm_step_accumulate` looks at them.
    if (var == PM_NONE && m->micro != PM_NONE) continue;
    if (var == PM_NONE || m->vars[var].role == PM_ROLE_ACT || m->vars[var].role == PM_ROLE_GRAD) {
      return PM_STATUS(PM_ERR_INPUT, "parameter %d of model `%s` is not bound to a variable of the step", i, f->name);
    }
    active[i] = m->vars[var].role == PM_ROLE_PARAM;
    if (active[i]) held[i] = m->vars[var].grad != PM_BOOL ? m->vars[var].grad : m->vars[var].type.dtype;
  }
  seed[0] = true;
  PmDiff d = {.m = m, .arena = scratch, .use_declared = true, .n_declared = m->n_fns};
  PmGradUse use = {.fn = m->model, .axis = PM_NONE, .active = active, .seed = seed, .held = held};
  return pm_grad_pair(&d, &use, out);
}

PmStatus *pm_pass_differentiate(PmPassCtx *ctx, PmModule *m) {
  PmArena scratch;
  pm_pass_scratch(m, &scratch);
  PmStatus *st = NULL;
  PmFnId *order;
  int32_t n;
  const PmGradPair *model;
  if (m->step != PM_NONE) {
    st = PM_STATUS(PM_ERR_INPUT, "the module has a training step already");
    goto done;
  }
  // Refuses calls that nest deeper than the recursion over them may go.
  PM_TRY_CLEAN(st, pm_fn_order(m, &scratch, &order, &n), done);
  PM_TRY_CLEAN(st, differentiate_model(m, &scratch, &model), done);
  PM_TRY_CLEAN(st, pm_train_step_build(m, &scratch, model, ctx->keep_grads), done);
done:
  pm_arena_deinit(&scratch);
  return st;
}
