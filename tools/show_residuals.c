// What one part of the step keeps for another: the forward for the backward, or, where that is split, its input part
// for its weight part. These are the results of the model's one function that the other is called with. Bytes are a
// rank's.
#include "tools/show.h"

typedef struct Parts {
  const char *from, *to;  // suffixes of functions
  const char *passes;
  const char *key;  // in JSON
  const char *title;
} Parts;

static const Parts forward_backward = {"fwd", "bwd", PM_PLACE_PASSES, "residuals",
                                       "kept from the forward pass for the backward pass"};
static const Parts input_weight = {"bwd_input", "bwd_weight",
                                   PM_STEP_PASSES ",masters,split_backward,simplify,pad,place", "handed",
                                   "handed from the input part of the backward pass to its weight part"};

typedef struct Residual {
  const char *name;
  PmLoc loc;
  const PmType *type;
  int64_t bytes;
} Residual;

static const PmNode *call_of(const PmModule *m, const char *suffix) {
  const PmFn *step = pm_fn(m, m->step);
  PmFnId callee = pm_module_find_fn(m, pm_intern_printf(m->names, "%s.%s", m->name, suffix));
  for (int32_t i = 0; i < step->n_nodes; i++) {
    const PmNode *node = &step->nodes[i];
    if (callee != PM_NONE && pm_op_flags(node->op) & PM_F_CALL && node->attr.callee == callee) return node;
  }
  return NULL;
}

// The name and place of what result `k` of `fn` is made of: calls and repeats are followed into their callee.
static void find_origin(const PmModule *m, const PmFn *fn, int32_t k, Residual *out) {
  for (;;) {
    PmValueId v = fn->results[k];
    const PmValue *value = &fn->values[v];
    if (value->name && !out->name) out->name = value->name;
    if (value->def == PM_NONE) return;
    const PmNode *node = &fn->nodes[value->def];
    if (node->loc.path) out->loc = node->loc;
    if (!(pm_op_flags(node->op) & PM_F_CALL)) return;
    fn = pm_fn(m, node->attr.callee);
    k = v - node->out;
  }
}

static bool uses(const PmNode *node, PmValueId v) {
  for (int32_t i = 0; i < node->n_in; i++) {
    if (node->in[i] == v) return true;
  }
  return false;
}

static void print_text(PmTool *t, const PmModule *m, const Parts *parts, const Residual *list, int32_t n,
                       int64_t total) {
  printf("%s on %s: %s, bytes a rank\n\n", m->name, pm_module_mesh_text(&t->arena, m), parts->title);
  PmTable table;
  pm_table_init(&table, &t->arena, "llrl");
  PmBuf type;
  pm_buf_init(&type);
  for (int32_t i = 0; i < n; i++) {
    pm_buf_clear(&type);
    pm_type_print(m, list[i].type, &type);
    pm_table_cell(&table, list[i].name ? list[i].name : "(unnamed)");
    pm_table_cell(&table, pm_buf_str(&type));
    pm_table_count(&table, list[i].bytes);
    pm_table_cell(&table, pm_loc_text(&t->arena, list[i].loc.path, list[i].loc.line, list[i].loc.col));
  }
  pm_table_cell(&table, "total");
  pm_table_cell(&table, "");
  pm_table_count(&table, total);
  pm_table_cell(&table, "");
  pm_table_print(&table, "", stdout);
  pm_buf_deinit(&type);
}

static void print_json(PmTool *t, const PmModule *m, const Parts *parts, const Residual *list, int32_t n,
                       int64_t total) {
  PmAnswer a;
  PmBuf type;
  pm_buf_init(&type);
  pm_answer_begin(&a);
  pm_json_key(&a.json, parts->key);
  pm_json_array(&a.json);
  for (int32_t i = 0; i < n; i++) {
    pm_buf_clear(&type);
    pm_type_print(m, list[i].type, &type);
    pm_json_object(&a.json);
    pm_json_put_str(&a.json, "name", list[i].name);
    pm_json_put_str(&a.json, "type", pm_buf_str(&type));
    pm_json_put_i64(&a.json, "bytes", list[i].bytes);
    pm_json_put_str(&a.json, "loc", pm_loc_text(&t->arena, list[i].loc.path, list[i].loc.line, list[i].loc.col));
    pm_json_end_object(&a.json);
  }
  pm_json_end_array(&a.json);
  pm_json_put_i64(&a.json, "bytes", total);
  pm_answer_end(&a);
  pm_buf_deinit(&type);
}

PmStatus *pm_show_residuals(PmTool *t, const char *path) {
  PmModule *m;
  const Parts *parts = t->opt.split_backward ? &input_weight : &forward_backward;
  PM_TRY(pm_tool_module(t, path, parts->passes, &m));
  const PmNode *from = call_of(m, parts->from), *to = call_of(m, parts->to);
  int32_t n = 0;
  int64_t total = 0;
  Residual *list = PM_NEW_N(&t->arena, Residual, from ? from->n_out + 1 : 1);
  for (int32_t k = 0; from && to && k < from->n_out; k++) {
    if (!uses(to, from->out + k)) continue;
    Residual *r = &list[n++];
    r->type = &pm_fn(m, m->step)->values[from->out + k].type;
    r->bytes = pm_type_local_bytes(m, r->type);
    total += r->bytes;
    find_origin(m, pm_fn(m, from->attr.callee), k, r);
  }
  if (t->opt.json) {
    print_json(t, m, parts, list, n, total);
  } else {
    print_text(t, m, parts, list, n, total);
  }
  return NULL;
}
