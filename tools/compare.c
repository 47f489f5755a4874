#include "tools/compare.h"

#include <inttypes.h>
#include <math.h>

#include "tools/show.h"

static const char *const kind_texts[PM_CMP_COUNT] = {
    [PM_CMP_INITIAL] = "initial value",   [PM_CMP_LOSS] = "loss",           [PM_CMP_GRAD_NORM] = "grad_norm",
    [PM_CMP_REPORT] = "report",           [PM_CMP_GRADIENT] = "gradient",   [PM_CMP_PARAM] = "updated parameter",
    [PM_CMP_COPY] = "working copy",       [PM_CMP_STATE] = "updated state", [PM_CMP_LOGITS] = "logits",
    [PM_CMP_MODEL_STATE] = "model state",
};

// With a 16-bit format one value that rounds the other way moves by two units, and so does what it is passed on to; a
// few such lie between a weight and its gradient. A loss is a mean of many, in f32; a norm may hang on few gradients.
double pm_compare_bound(const PmCompare *c, PmCompareKind kind) {
  if (kind == PM_CMP_INITIAL || kind == PM_CMP_COPY) return 0;
  bool updates = kind == PM_CMP_PARAM || kind == PM_CMP_STATE;
  double units = kind == PM_CMP_LOSS ? 0.5 : kind == PM_CMP_GRAD_NORM ? 4 : updates ? 0 : 8;
  double coarse = units * c->unit;
  return coarse > c->bound ? coarse : c->bound;
}

void pm_compare(PmCompare *c, PmCompareKind kind, const char *path, const PmType *type, const double *a,
                const double *b, int64_t n, double floor) {
  double scale = floor, worst = -1;
  int64_t at = 0;
  for (int64_t i = 0; i < n; i++) {
    double d = isfinite(a[i]) && isfinite(b[i]) ? fabs(a[i] - b[i]) : INFINITY;
    if (isfinite(b[i]) && fabs(b[i]) > scale) scale = fabs(b[i]);
    if (d > worst) {
      worst = d;
      at = i;
    }
  }
  double error = worst <= 0 ? 0 : scale > 0 ? worst / scale : INFINITY;
  PmWorst *w = &c->worst[kind];
  if (w->tensors++ > 0 && error <= w->error) return;
  *w = (PmWorst){.tensors = w->tensors,
                 .error = error,
                 .step = c->step,
                 .path = path,
                 .at = at,
                 .type = *type,
                 .plan = n > 0 ? a[at] : 0,
                 .reference = n > 0 ? b[at] : 0};
}

bool pm_compare_ok(const PmCompare *c) {
  for (int32_t k = 0; k < PM_CMP_COUNT; k++) {
    if (c->worst[k].error > pm_compare_bound(c, (PmCompareKind)k)) return false;
  }
  return true;
}

void pm_put_element(const PmModule *m, const PmType *type, int64_t at, PmBuf *out) {
  int64_t index[PM_MAX_RANK], rest = at;
  for (int32_t d = type->rank - 1; d >= 0; d--) {
    int64_t size = pm_axis_size(m, type->dims[d].axis);
    index[d] = rest % size;
    rest /= size;
  }
  for (int32_t d = 0; d < type->rank; d++) {
    pm_buf_printf(out, "%s%s=%" PRId64, d ? ", " : "[", m->axes[type->dims[d].axis].name, index[d]);
  }
  if (type->rank > 0) pm_buf_putc(out, ']');
}

// "layer.attn.wq[layer=0, embed=3]"
static void put_place(const PmCompare *c, const PmWorst *w, PmBuf *out) {
  pm_buf_puts(out, w->path);
  pm_put_element(c->m, &w->type, w->at, out);
}

void pm_compare_print(const PmCompare *c, PmArena *arena, FILE *to) {
  PmTable table;
  pm_table_init(&table, arena, "lrrrlrrrl");
  const char *const head[] = {"what", "compared", "worst", "bound", "where", "plan", "reference", "step", ""};
  for (int32_t i = 0; i < 9; i++) pm_table_cell(&table, head[i]);
  PmBuf place;
  pm_buf_init(&place);
  for (int32_t k = 0; k < PM_CMP_COUNT; k++) {
    const PmWorst *w = &c->worst[k];
    if (w->tensors == 0) continue;
    double bound = pm_compare_bound(c, (PmCompareKind)k);
    pm_buf_clear(&place);
    put_place(c, w, &place);
    pm_table_cell(&table, kind_texts[k]);
    pm_table_count(&table, w->tensors);
    pm_table_printf(&table, "%.2e", w->error);
    if (bound > 0) {
      pm_table_printf(&table, "%.0e", bound);
    } else {
      pm_table_cell(&table, "equal");
    }
    pm_table_cell(&table, w->error > 0 ? pm_buf_str(&place) : "");
    pm_table_printf(&table, "%.9g", w->plan);
    pm_table_printf(&table, "%.9g", w->reference);
    pm_table_printf(&table, "%" PRId64, w->step);
    pm_table_cell(&table, w->error > bound ? "FAILED" : "ok");
  }
  pm_table_print(&table, "  ", to);
  pm_buf_deinit(&place);
}

void pm_compare_json(const PmCompare *c, PmJson *j) {
  PmBuf place;
  pm_buf_init(&place);
  pm_json_array(j);
  for (int32_t k = 0; k < PM_CMP_COUNT; k++) {
    const PmWorst *w = &c->worst[k];
    if (w->tensors == 0) continue;
    pm_buf_clear(&place);
    put_place(c, w, &place);
    pm_json_object(j);
    pm_json_put_str(j, "what", kind_texts[k]);
    pm_json_put_i64(j, "compared", w->tensors);
    pm_json_put_f64(j, "error", w->error);
    pm_json_put_f64(j, "bound", pm_compare_bound(c, (PmCompareKind)k));
    pm_json_put_bool(j, "ok", w->error <= pm_compare_bound(c, (PmCompareKind)k));
    pm_json_put_str(j, "where", pm_buf_str(&place));
    pm_json_put_f64(j, "plan", w->plan);
    pm_json_put_f64(j, "reference", w->reference);
    pm_json_put_i64(j, "step", w->step);
    pm_json_end_object(j);
  }
  pm_json_end_array(j);
  pm_buf_deinit(&place);
}
