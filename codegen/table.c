// Tables: exact numbers that cost more than a few instructions, computed once by host kernels of entry `setup`. Equal
// expressions share one table, whatever their axes are called and wherever they stand.
#include <string.h>

#include "base/assert.h"
#include "base/buf.h"
#include "codegen/eval.h"

typedef struct Key {
  const PmCgRegion *r;
  PmBuf text;
  int32_t *met;  // by value: its number in the text, + 1
  int32_t n_met;
  int32_t axes[64];  // by order of appearance
  int32_t n_axes;
  uint32_t *dependent;  // by value: the dims that it really varies along, and KNOWN
} Key;

#define KNOWN (1u << 31)

static uint32_t dependent(Key *key, PmCgId v) {
  const PmCgRegion *r = key->r;
  const PmCgNode *n = pm_cg_def(r, v);
  const PmCgValue *x = &r->values[v];
  if (key->dependent[v]) return key->dependent[v];
  uint32_t out = KNOWN | (n->op == PM_OP_pos);
  for (int32_t i = 0; i < n->n_in; i++) {
    const PmCgValue *y = &r->values[n->in[i]];
    const uint32_t in = dependent(key, n->in[i]);
    for (int32_t d = 0; d < y->rank; d++) {
      if (!(in >> d & 1)) continue;
      if (n->op == PM_OP_rename) {
        out |= 1u << d;
      } else if (n->op == PM_OP_split && y->dims[d].axis == n->axes[0]) {
        for (int32_t k = 0; k < n->n_to; k++) out |= 1u << pm_cg_find_axis(x, n->to[k]);
      } else if (n->op != PM_OP_select || y->dims[d].axis != n->axes[0]) {
        out |= 1u << pm_cg_find_axis(x, y->dims[d].axis);
      }
    }
  }
  key->dependent[v] = out;
  return out;
}

static int32_t axis_number(Key *key, int32_t axis) {
  const int32_t room = (int32_t)(sizeof key->axes / sizeof *key->axes);
  for (int32_t i = 0; i < key->n_axes; i++)
    if (key->axes[i] == axis) return i;
  if (key->n_axes == room) return room + axis;  // by its own number, then: equal texts still mean equal tables
  key->axes[key->n_axes] = axis;
  return key->n_axes++;
}

static void put_key(Key *key, PmCgId v) {
  const PmCgRegion *r = key->r;
  const PmCgNode *n = pm_cg_def(r, v);
  PmBuf *out = &key->text;
  if (n->op == PM_OP_broadcast) {
    put_key(key, n->in[0]);
    return;
  }
  if (key->met[v]) {
    pm_buf_printf(out, "#%d", key->met[v]);
    return;
  }
  key->met[v] = ++key->n_met;
  pm_buf_printf(out, "%s.%d.%d.%a.%lld", pm_op_name(n->op), r->values[v].dtype, n->op == PM_OP_map ? (int)n->fn : 0,
                n->number, (long long)n->index);
  for (int32_t i = 0; i < n->n_axes; i++) pm_buf_printf(out, " a%d", axis_number(key, n->axes[i]));
  for (int32_t i = 0; i < n->n_to; i++) {
    const int32_t d = pm_cg_find_axis(&r->values[v], n->to[i]);
    pm_buf_printf(out, " >a%d:%lld", axis_number(key, n->to[i]), (long long)r->values[v].dims[d].extent);
  }
  for (int32_t i = 0; i < PM_PROGRAM_MAX_MESH && n->op == PM_OP_pos; i++)
    pm_buf_printf(out, ",%lld", (long long)n->offset.stride[i]);
  pm_buf_putc(out, '(');
  for (int32_t i = 0; i < n->n_in; i++) {
    put_key(key, n->in[i]);
    pm_buf_putc(out, ',');
  }
  pm_buf_putc(out, ')');
}

static void build(PmCg *cg, PmCgRegion *r, PmCgId v, uint32_t dep, PmCgTable *t) {
  // The kernel stores through a region of its own, whose buffer 0 is the table.
  PmCgRegion own = *r;
  const PmCgValue *x = &r->values[v];
  PmCgEval e = {.cg = cg, .r = &own, .item = PM_NONE, .host = true, .dry = true, .exact_only = true};
  own.bufs = NULL;
  own.n_bufs = own.cap_bufs = 0;
  PmCgInfo *info = &own.info[v];
  const PmCgInfo before = *info;
  info->view_known = true;
  info->view = (PmCgView){
      .buf = pm_cg_buf(cg, &own, (PmKDtype)x->dtype, t->bytes / pm_kdtype_bytes(x->dtype), PM_OWN_TABLE, x->name)};
  int64_t stride = 1;
  for (int32_t d = x->rank - 1; d >= 0; d--) {
    info->view.stride[d] = (dep >> d & 1) ? stride : 0;
    stride *= (dep >> d & 1) ? x->dims[d].extent : 1;
  }
  for (int32_t d = 0; d < x->rank; d++)
    if ((dep >> d & 1)) e.space[e.n_space++] = x->dims[d];
  for (int32_t pass = 0; pass < 2; pass++) {
    PmCgCoord at[PM_CG_RANK];
    pm_cg_identity(&e, v, at);
    const int32_t value = pm_cg_eval(&e, v, at, false);
    pm_cg_store(&e, v, at, 0, value, false, -1, 0, 0);
    if (pass == 1) break;
    const bool ok = pm_cg_layout(&e, 0);
    PM_ASSERT(ok, "a table of too many axes");
    pm_cg_begin(&e, "table", false);
  }
  pm_cg_end(&e, &t->step, pm_cg_def(r, v)->loc);
  *info = before;
}

static int32_t find_table(PmCg *cg, PmCgRegion *r, PmCgId v, PmCgView *out) {
  const PmCgValue *x = &r->values[v];
  Key key = {.r = r, .met = PM_NEW_N(cg->arena, int32_t, r->n_values)};
  key.dependent = PM_NEW_N(cg->arena, uint32_t, r->n_values);
  const uint32_t dep = dependent(&key, v);
  int64_t elements = 1;
  *out = (PmCgView){0};
  for (int32_t d = x->rank - 1; d >= 0; d--) {
    out->stride[d] = dep >> d & 1 ? elements : 0;
    elements *= dep >> d & 1 ? x->dims[d].extent : 1;
  }
  pm_buf_init(&key.text);
  for (int32_t d = 0; d < x->rank; d++)
    if (dep >> d & 1)
      pm_buf_printf(&key.text, "a%d:%lld ", axis_number(&key, x->dims[d].axis), (long long)x->dims[d].extent);
  put_key(&key, v);
  int32_t table = 0;
  while (table < cg->n_tables && strcmp(cg->tables[table].key, pm_buf_str(&key.text)) != 0) table++;
  if (table == cg->n_tables) {
    PmCgTable t = {.key = pm_arena_strdup(cg->arena, pm_buf_str(&key.text)), .dtype = x->dtype};
    t.bytes = elements * pm_kdtype_bytes(x->dtype);
    build(cg, r, v, dep, &t);
    cg->tables = pm_grow(cg->arena, cg->tables, cg->n_tables, &cg->cap_tables, sizeof *cg->tables);
    cg->tables[cg->n_tables++] = t;
  }
  pm_buf_deinit(&key.text);
  for (int32_t i = 0; i < r->n_bufs; i++)
    if (r->bufs[i].table == table) return i;
  const int32_t buf = pm_cg_buf(cg, r, (PmKDtype)x->dtype, elements, PM_OWN_TABLE, "table");
  r->bufs[buf].table = table;
  return buf;
}

const PmCgView *pm_cg_table(PmCg *cg, PmCgRegion *r, PmCgId v) {
  PmCgInfo *info = &r->info[v];
  if (!info->view_known) {
    info->view.buf = find_table(cg, r, v, &info->view);
    info->view_known = true;
  }
  return &info->view;
}
