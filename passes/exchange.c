#include "passes/exchange.h"

#include "passes/exec_choose.h"
#include "passes/rewrite.h"

typedef struct Form {
  PmArena *arena;
  PmModule *m;
  bool *slots;  // by axis: pm_slot_axes
  PmFn *f;
  int32_t *uses;  // by value
} Form;

bool *pm_slot_axes(PmArena *arena, const PmModule *m) {
  bool *slots = PM_NEW_N(arena, bool, m->n_axes + 1);
  for (int32_t i = 0; i < m->n_fns; i++)
    for (int32_t k = 0; k < m->fns[i].n_nodes; k++)
      if (pm_op_flags(m->fns[i].nodes[k].op) & PM_F_SLOTS) slots[m->fns[i].nodes[k].attr.to[0]] = true;
  return slots;
}

static const PmType *type_of(const Form *x, PmValueId v) { return &x->f->values[v].type; }

// Rows and positions have no axis in common, and together make up what is moved.
static bool is_plain(const PmType *idx, const PmType *table, const PmType *moved, const PmAttr *a) {
  int32_t rows = 0;
  for (int32_t i = 0; i < table->rank; i++) {
    PmAxisId axis = table->dims[i].axis;
    bool row = axis == a->axes[0] || (a->n_axes > 1 && axis == a->axes[1]);
    rows += row;
    if (pm_type_find(idx, axis) != PM_NONE || (pm_type_find(moved, axis) == PM_NONE) != row) return false;
  }
  return rows == a->n_axes && moved->rank == idx->rank + table->rank - rows;
}

static bool crosses(const Form *x, const PmNode *n) {
  uint32_t mesh = pm_exec_choose(x->arena, x->m, x->f, n).crosses;
  for (int32_t i = 0; i < x->m->n_mesh; i++)
    if ((mesh >> i & 1) && x->m->mesh[i].size > 1) return true;
  return false;
}

static PmNode exchange(const Form *x, PmOp op, PmValueId a, PmValueId b, PmValueId out, PmLoc loc) {
  PmNode n = {.op = op, .n_in = 2, .n_out = 1, .in = PM_NEW_N(x->m->arena, PmValueId, 2), .out = out, .loc = loc};
  n.in[0] = a;
  n.in[1] = b;
  return n;
}

static void set_axes(PmNode *n, const PmAxisId *axes, int32_t n_axes) {
  n->attr.n_axes = (uint8_t)n_axes;
  for (int32_t i = 0; i < n_axes; i++) n->attr.axes[i] = axes[i];
}

static bool accept(const Form *x, const PmNode *n, PmValueId idx, PmValueId table, PmValueId moved) {
  return is_plain(type_of(x, idx), type_of(x, table), type_of(x, moved), &n->attr) && crosses(x, n);
}

// The rows' axes apart, where node `at` splits what a scatter_add makes for it alone.
static void form_scatter(Form *x, int32_t at) {
  PmNode *n = &x->f->nodes[at];
  const bool splits = n->op == PM_OP_split;
  const int32_t def = splits ? x->f->values[n->in[0]].def : at;
  if (def == PM_NONE || x->f->nodes[def].op != PM_OP_scatter_add) return;
  const PmNode *s = &x->f->nodes[def];
  if (!x->slots[s->attr.axes[0]]) return;
  if (splits && (n->attr.axes[0] != s->attr.axes[0] || n->attr.n_to > 2 || x->uses[s->out] != 1)) return;
  PmNode made = exchange(x, PM_OP_scatter_rows, s->in[0], s->in[1], n->out, s->loc);
  set_axes(&made, splits ? n->attr.to : s->attr.axes, splits ? n->attr.n_to : 1);
  if (!accept(x, &made, s->in[0], made.out, s->in[1])) return;
  if (splits) x->uses[s->out] = 0;
  *n = made;
}

static void form_gather(Form *x, int32_t at) {
  PmNode *n = &x->f->nodes[at];
  if (n->op != PM_OP_index || !x->slots[n->attr.axes[0]]) return;
  const int32_t def = x->f->values[n->in[0]].def;
  const PmNode *m = def == PM_NONE ? NULL : &x->f->nodes[def];
  const bool merges = m && m->op == PM_OP_merge && m->attr.to[0] == n->attr.axes[0] && m->attr.n_axes <= 2;
  const PmValueId table = merges ? m->in[0] : n->in[0];
  PmNode made = exchange(x, PM_OP_gather_rows, table, n->in[1], n->out, n->loc);
  set_axes(&made, merges ? m->attr.axes : n->attr.axes, merges ? m->attr.n_axes : 1);
  if (!accept(x, &made, n->in[1], table, n->out)) return;
  if (merges) x->uses[m->out]--;
  *n = made;
}

// Drops the merges and scatters that nothing uses any more.
static void drop_unused(Form *x) {
  int32_t n = 0;
  for (int32_t i = 0; i < x->f->n_nodes; i++) {
    const PmNode *node = &x->f->nodes[i];
    const bool ours = node->op == PM_OP_merge || node->op == PM_OP_scatter_add;
    if (ours && x->uses[node->out] == 0) {
      x->f->values[node->out].def = PM_NONE;
      continue;
    }
    for (int32_t k = 0; k < node->n_out; k++) x->f->values[node->out + k].def = n;
    x->f->nodes[n++] = *node;
  }
  x->f->n_nodes = n;
}

void pm_exchange_form(PmArena *scratch, PmModule *m) {
  Form x = {.arena = scratch, .m = m, .slots = pm_slot_axes(scratch, m)};
  for (int32_t i = 0; i < m->n_fns; i++) {
    if (m->fns[i].dead) continue;
    x.f = &m->fns[i];
    x.uses = pm_fn_uses(scratch, x.f);
    for (int32_t k = 0; k < x.f->n_nodes; k++) {
      if (x.f->nodes[k].op == PM_OP_split) form_scatter(&x, k);
      form_gather(&x, k);
    }
    for (int32_t k = 0; k < x.f->n_nodes; k++)
      if (x.f->nodes[k].op == PM_OP_scatter_add && x.uses[x.f->nodes[k].out] > 0) form_scatter(&x, k);
    drop_unused(&x);
  }
}
