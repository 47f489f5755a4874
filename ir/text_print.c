// The printer of the text form. It also prints broken modules (a bad id is `?`), because that is when a dump is wanted.
#include "base/assert.h"
#include "ir/optable.h"
#include "ir/text.h"
#include "ir/text_words.h"

const char *const pm_stage_words[PM_N_STAGES] = {
    [PM_STAGE_LOGICAL] = "logical", [PM_STAGE_PLACED] = "placed", [PM_STAGE_LOCAL] = "local"};

const char *const pm_fn_kind_words[PM_N_FN_KINDS] = {
    [PM_FN_MODEL] = "model",   [PM_FN_BODY] = "body",         [PM_FN_COMPOSITE] = "composite",
    [PM_FN_UPDATE] = "update", [PM_FN_SCHEDULE] = "schedule", [PM_FN_STEP] = "step",
    [PM_FN_EVAL] = "eval"};

const char *const pm_role_words[PM_ROLE_COUNT] = {
    [PM_ROLE_PARAM] = "param", [PM_ROLE_STATE] = "state", [PM_ROLE_ACT] = "act",
    [PM_ROLE_GRAD] = "grad",   [PM_ROLE_INPUT] = "input", [PM_ROLE_STEP] = "step"};

const char *const pm_init_words[PM_N_INITS] = {
    [PM_INIT_NONE] = "none", [PM_INIT_CONST] = "const", [PM_INIT_NORMAL] = "normal", [PM_INIT_UNIFORM] = "uniform"};

static bool is_letter(char ch) { return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || ch == '_'; }

bool pm_text_is_word(const char *s) {
  if (!is_letter(*s)) return false;
  for (; *s; s++) {
    if (!is_letter(*s) && *s != '.' && !(*s >= '0' && *s <= '9')) return false;
  }
  return true;
}

static void put_string(PmBuf *out, const char *s) {
  pm_buf_putc(out, '"');
  for (; *s; s++) {
    unsigned char ch = (unsigned char)*s;
    if (ch == '"' || ch == '\\') {
      pm_buf_printf(out, "\\%c", ch);
    } else if (ch < 0x20 || ch == 0x7f) {
      pm_buf_printf(out, "\\x%02x", ch);
    } else {
      pm_buf_putc(out, (char)ch);
    }
  }
  pm_buf_putc(out, '"');
}

static void put_name(PmBuf *out, const char *s) {
  if (!s) {
    pm_buf_putc(out, '?');
  } else if (pm_text_is_word(s)) {
    pm_buf_puts(out, s);
  } else {
    put_string(out, s);
  }
}

static void put_key(PmBuf *out, const char *key, const char *value) {
  if (!value) return;
  pm_buf_printf(out, " %s=", key);
  put_string(out, value);
}

static void put_axis(const PmModule *m, PmAxisId a, PmBuf *out) {
  put_name(out, a >= 0 && a < m->n_axes ? m->axes[a].name : NULL);
}

static void put_size(const PmModule *m, PmAxisId a, PmBuf *out) {
  pm_buf_printf(out, "%lld", (long long)pm_axis_logical(m, a));
  if (m->axes[a].pad) pm_buf_printf(out, "^%lld", (long long)m->axes[a].size);
}

static void put_mesh(const PmModule *m, int32_t mesh, PmBuf *out) {
  put_name(out, mesh < m->n_mesh ? m->mesh[mesh].name : NULL);
}

static void put_mesh_list(const PmModule *m, const uint8_t *mesh, int32_t n, const char *between, PmBuf *out) {
  for (int32_t i = 0; i < n; i++) {
    if (i) pm_buf_puts(out, between);
    put_mesh(m, mesh[i], out);
  }
}

// a~zigzag+b+c
static void put_mesh_order(const PmModule *m, const uint8_t *mesh, int32_t n, bool zigzag, PmBuf *out) {
  put_mesh_list(m, mesh, zigzag ? 1 : n, "+", out);
  if (!zigzag) return;
  pm_buf_puts(out, "~zigzag");
  if (n > 1) pm_buf_putc(out, '+');
  put_mesh_list(m, mesh + 1, n - 1, "+", out);
}

static void put_split(const PmModule *m, const PmSplit *s, PmBuf *out) {
  if (!s->n) return;
  pm_buf_putc(out, '/');
  put_mesh_order(m, s->mesh, s->n, s->zigzag, out);
}

void pm_type_print(const PmModule *m, const PmType *t, PmBuf *out) {
  pm_buf_puts(out, t->dtype < PM_DTYPE_COUNT ? pm_dtype_text((PmDtype)t->dtype) : "?");
  if (t->index_of != PM_NONE) {
    pm_buf_putc(out, '<');
    put_axis(m, t->index_of, out);
    pm_buf_putc(out, '>');
  }
  pm_buf_putc(out, '[');
  for (int32_t i = 0; i < t->rank; i++) {
    PmAxisId a = t->dims[i].axis;
    if (i) pm_buf_puts(out, ", ");
    put_axis(m, a, out);
    if (a >= 0 && a < m->n_axes) {
      pm_buf_putc(out, ':');
      put_size(m, a, out);
    }
    put_split(m, &t->dims[i].split, out);
  }
  pm_buf_putc(out, ']');
  for (int32_t i = 0; i < t->n_partial; i++) {
    pm_buf_puts(out, i ? ", " : "{");
    pm_buf_puts(out, t->partial[i].kind == PM_SUM ? "+" : "max ");
    put_mesh(m, t->partial[i].mesh, out);
  }
  if (t->n_partial) pm_buf_putc(out, '}');
}

static void put_loc(PmLoc loc, PmBuf *out) {
  if (!loc.path) return;
  pm_buf_puts(out, " @");
  put_string(out, loc.path);
  pm_buf_printf(out, ":%d:%d", loc.line, loc.col);
}

static const PmFn *live_fn(const PmModule *m, PmFnId id) {
  return id >= 0 && id < m->n_fns && !m->fns[id].dead ? &m->fns[id] : NULL;
}

static void put_callee(const PmModule *m, PmFnId id, PmBuf *out) {
  const PmFn *f = live_fn(m, id);
  put_name(out, f ? f->name : NULL);
}

static const char *var_path(const PmModule *m, PmVarId v) { return v >= 0 && v < m->n_vars ? m->vars[v].path : NULL; }

static void put_axes(const PmModule *m, const PmAxisId *axes, int32_t n, PmBuf *out) {
  for (int32_t i = 0; i < n; i++) {
    if (i) pm_buf_puts(out, ", ");
    put_axis(m, axes[i], out);
  }
}

// What stands between the op's name and its operands, by the fields that the op uses.
static void put_attr(const PmModule *m, const PmNode *node, PmBuf *out) {
  const PmAttr *a = &node->attr;
  uint32_t fields = pm_op_fields(node->op);
  if (fields & PM_A_FN) pm_buf_printf(out, ".%s", (unsigned)a->fn < PM_SCALAR_COUNT ? pm_scalar_name(a->fn) : "?");
  if (fields & PM_A_KIND)
    pm_buf_printf(out, ".%s", (unsigned)a->kind < PM_REDUCE_COUNT ? pm_reduce_text(a->kind) : "?");
  if (fields & (PM_A_AXES | PM_A_TO | PM_A_MESH)) {
    pm_buf_putc(out, '[');
    if (fields & PM_A_AXES) put_axes(m, a->axes, a->n_axes, out);
    if (fields & PM_A_TO) {
      pm_buf_puts(out, fields & PM_A_AXES ? " -> " : "-> ");
      put_axes(m, a->to, a->n_to, out);
    }
    if (fields & PM_A_INDEX) pm_buf_printf(out, " = %lld", (long long)a->index);
    if (fields & PM_A_MESH) {
      pm_buf_puts(out, fields & PM_A_AXES ? " / " : "/ ");
      put_mesh_order(m, a->mesh, a->n_mesh, a->zigzag && (fields & PM_A_ORDER), out);
    }
    if ((fields & PM_A_GROUP) && a->n_mesh) {
      pm_buf_puts(out, " / ");
      put_mesh_list(m, a->mesh, a->n_mesh, "+", out);
    }
    pm_buf_putc(out, ']');
  }
  if ((fields & PM_A_BOUNDED) && a->bounded) pm_buf_puts(out, " bounded ");
  if (fields & PM_A_CALLEE) {
    pm_buf_puts(out, " @");
    put_callee(m, a->callee, out);
  }
  if (fields & PM_A_TURNS) {
    pm_buf_printf(out, " carry=%d inv=%d%s ", a->n_carry, a->n_inv, a->reverse ? " reverse" : "");
  }
  if (fields & PM_A_NUMBER) {
    pm_buf_putc(out, ' ');
    pm_buf_put_f64(out, a->number);
  }
}

typedef struct FnPrinter {
  const PmModule *m;
  const PmFn *f;
  const int32_t *number;  // by value id: its place in the order of definition, or PM_NONE
  PmBuf *out;
} FnPrinter;

static void put_value(const FnPrinter *p, PmValueId v) {
  if (v >= 0 && v < p->f->n_values && p->number[v] != PM_NONE) {
    pm_buf_printf(p->out, "%%%d", p->number[v]);
  } else {
    pm_buf_puts(p->out, "%?");
  }
}

static void put_value_type(const FnPrinter *p, const PmValue *v) {
  pm_type_print(p->m, &v->type, p->out);
  if (v->name) {
    pm_buf_putc(p->out, ' ');
    put_string(p->out, v->name);
  }
  if (v->bound) pm_buf_putc(p->out, '!');
}

static void put_node(const FnPrinter *p, const PmNode *node) {
  pm_buf_puts(p->out, "  ");
  for (int32_t i = 0; i < node->n_out; i++) {
    if (i) pm_buf_puts(p->out, ", ");
    put_value(p, node->out + i);
  }
  if (node->n_out) pm_buf_puts(p->out, " = ");
  pm_buf_puts(p->out, pm_op_name(node->op));
  put_attr(p->m, node, p->out);
  if (node->n_in || pm_op_n_in(node->op) != 0) {
    pm_buf_putc(p->out, '(');
    for (int32_t i = 0; i < node->n_in; i++) {
      if (i) pm_buf_puts(p->out, ", ");
      put_value(p, node->in[i]);
    }
    pm_buf_putc(p->out, ')');
  }
  for (int32_t i = 0; i < node->n_out; i++) {
    pm_buf_puts(p->out, i ? ", " : " : ");
    if (node->out + i < p->f->n_values) put_value_type(p, &p->f->values[node->out + i]);
  }
  put_loc(node->loc, p->out);
  pm_buf_putc(p->out, '\n');
}

static void put_params(const FnPrinter *p) {
  for (int32_t i = 0; i < p->f->n_params; i++) {
    pm_buf_printf(p->out, "  param %%%d : ", i);
    put_value_type(p, &p->f->values[i]);
    if (p->f->param_bind) put_key(p->out, "var", var_path(p->m, p->f->param_bind[i].var));
    pm_buf_putc(p->out, '\n');
  }
}

static void put_results(const FnPrinter *p) {
  pm_buf_puts(p->out, "  return");
  for (int32_t i = 0; i < p->f->n_results; i++) {
    pm_buf_puts(p->out, i ? ", " : " ");
    put_value(p, p->f->results[i]);
    if (!p->f->result_bind) continue;
    put_key(p->out, "var", var_path(p->m, p->f->result_bind[i].var));
    put_key(p->out, "report", p->f->result_bind[i].report);
  }
  pm_buf_putc(p->out, '\n');
}

void pm_fn_print(const PmModule *m, PmFnId id, PmBuf *out) {
  const PmFn *f = pm_fn(m, id);
  PmArena scratch;
  pm_arena_init(&scratch, 0);
  int32_t *number = PM_NEW_N(&scratch, int32_t, f->n_values);
  for (int32_t i = 0; i < f->n_values; i++) number[i] = i < f->n_params ? i : PM_NONE;
  int32_t next = f->n_params;
  for (int32_t i = 0; i < f->n_nodes; i++) {
    for (int32_t k = 0; k < f->nodes[i].n_out; k++, next++) {
      PmValueId v = f->nodes[i].out + k;
      if (v >= 0 && v < f->n_values) number[v] = next;
    }
  }
  FnPrinter p = {m, f, number, out};
  pm_buf_puts(out, "fn ");
  put_name(out, f->name);
  pm_buf_printf(out, " %s", pm_fn_kind_words[f->kind]);
  put_key(out, "base", f->base);
  pm_buf_puts(out, " {\n");
  put_params(&p);
  for (int32_t i = 0; i < f->n_nodes; i++) put_node(&p, &f->nodes[i]);
  put_results(&p);
  pm_buf_puts(out, "}\n");
  pm_arena_deinit(&scratch);
}

// Callees before callers, so that a reader knows every signature that it meets.
static void print_fns(const PmModule *m, PmFnId id, bool *done, PmBuf *out) {
  const PmFn *f = live_fn(m, id);
  if (!f || done[id]) return;
  done[id] = true;
  for (int32_t i = 0; i < f->n_nodes; i++) {
    if (pm_op_flags(f->nodes[i].op) & PM_F_CALL) print_fns(m, f->nodes[i].attr.callee, done, out);
  }
  pm_buf_putc(out, '\n');
  pm_fn_print(m, id, out);
}

static void print_axes(const PmModule *m, PmBuf *out) {
  for (int32_t i = 0; i < m->n_axes; i++) {
    pm_buf_puts(out, "axis ");
    put_name(out, m->axes[i].name);
    pm_buf_putc(out, ' ');
    put_size(m, i, out);
    put_loc(m->axes[i].loc, out);
    pm_buf_putc(out, '\n');
  }
  for (int32_t i = 0; i < m->n_mesh; i++) {
    pm_buf_puts(out, "mesh ");
    put_name(out, m->mesh[i].name);
    pm_buf_printf(out, " %lld", (long long)m->mesh[i].size);
    put_loc(m->mesh[i].loc, out);
    pm_buf_putc(out, '\n');
  }
}

static void put_fn_key(const PmModule *m, const char *key, PmFnId id, PmBuf *out) {
  if (live_fn(m, id)) put_key(out, key, m->fns[id].name);
}

static void print_vars(const PmModule *m, PmBuf *out) {
  for (int32_t i = 0; i < m->n_vars; i++) {
    const PmVar *v = &m->vars[i];
    pm_buf_puts(out, "var ");
    put_string(out, v->path);
    pm_buf_printf(out, " %s ", pm_role_words[v->role]);
    pm_type_print(m, &v->type, out);
    pm_buf_printf(out, " %s", pm_init_words[v->init]);
    if (v->init != PM_INIT_NONE) {
      pm_buf_putc(out, '(');
      pm_buf_put_f64(out, v->init_value);
      pm_buf_putc(out, ')');
    }
    put_key(out, "owner", var_path(m, v->owner));
    if (v->master) pm_buf_puts(out, " master");
    put_key(out, "grad", v->grad == PM_BOOL ? NULL : pm_dtype_text((PmDtype)v->grad));
    put_fn_key(m, "update", v->update, out);
    put_loc(v->loc, out);
    pm_buf_putc(out, '\n');
  }
}

static void print_data(const PmModule *m, PmBuf *out) {
  const PmData *d = &m->data;
  if (!d->format) return;
  pm_buf_puts(out, "data ");
  put_string(out, d->format);
  pm_buf_puts(out, " files(");
  for (int32_t i = 0; i < d->n_files; i++) {
    if (i) pm_buf_puts(out, ", ");
    put_string(out, d->files[i]);
  }
  pm_buf_putc(out, ')');
  put_key(out, "x", var_path(m, d->x));
  put_key(out, "y", var_path(m, d->y));
  for (int32_t i = 0; i < d->n_feeds; i++) {
    put_key(out, "feed", var_path(m, d->feeds[i].var));
    pm_buf_printf(out, "[%d, %d]", d->feeds[i].first, d->feeds[i].n_files);
  }
  pm_buf_puts(out, d->shuffle ? " shuffle\n" : "\n");
}

// PmRule.span is left out: it points into the sources of this run, and a rule that was read back has none.
static void print_rules(const PmModule *m, PmBuf *out) {
  for (int32_t i = 0; i < m->n_rules; i++) {
    const PmRule *r = &m->rules[i];
    const char *between = "";
    pm_buf_puts(out, "rule roles(");
    for (int32_t k = 0; k < PM_ROLE_COUNT; k++) {
      if (!(r->roles >> k & 1)) continue;
      pm_buf_printf(out, "%s%s", between, pm_role_words[k]);
      between = ", ";
    }
    pm_buf_puts(out, ") axes(");
    put_axes(m, r->axes, r->n_axes, out);
    pm_buf_puts(out, ") mesh(");
    put_mesh_list(m, r->mesh, r->n_mesh, ", ", out);
    pm_buf_putc(out, ')');
    if (r->none) pm_buf_puts(out, " none");
    if (r->zero) pm_buf_printf(out, " zero=%d", r->zero);
    if (r->pad) pm_buf_puts(out, " pad");
    if (r->attend) pm_buf_printf(out, " attend=%d", r->attend);
    if (r->order) pm_buf_printf(out, " order=%d", r->order);
    put_key(out, "scope", r->scope);
    put_key(out, "pin", r->pin);
    if (r->pin) {
      pm_buf_puts(out, " dims(");
      for (int32_t k = 0; k < r->n_pin_dims; k++) {
        if (k) pm_buf_puts(out, ", ");
        put_axis(m, r->pin_dims[k].axis, out);
        put_split(m, &r->pin_dims[k].split, out);
      }
      pm_buf_putc(out, ')');
    }
    put_key(out, "text", r->text);
    put_loc(r->loc, out);
    pm_buf_putc(out, '\n');
  }
}

static void print_train(const PmModule *m, PmBuf *out) {
  pm_buf_puts(out, "train");
  put_fn_key(m, "model", m->model, out);
  put_fn_key(m, "schedule", m->schedule, out);
  put_fn_key(m, "step", m->step, out);
  put_fn_key(m, "eval", m->eval, out);
  put_fn_key(m, "before", m->before, out);
  put_fn_key(m, "after", m->after, out);
  put_key(out, "micro", m->micro == PM_NONE ? NULL : m->axes[m->micro].name);
  put_key(out, "rows", m->rows == PM_NONE ? NULL : m->axes[m->rows].name);
  pm_buf_puts(out, " clip=");
  pm_buf_put_f64(out, m->clip);
  if (m->loss_scale > 0) {
    pm_buf_puts(out, " loss_scale=");
    pm_buf_put_f64(out, m->loss_scale);
    pm_buf_printf(out, " loss_scale_window=%lld", (long long)m->loss_scale_window);
  }
  if (m->bucket != PM_BUCKET_BYTES) pm_buf_printf(out, " bucket=%lld", (long long)m->bucket);
  pm_buf_printf(out, " steps=%lld seed=%llu\n", (long long)m->steps, (unsigned long long)m->seed);
}

void pm_module_print(const PmModule *m, PmBuf *out) {
  PM_ASSERT((unsigned)m->stage < PM_N_STAGES, "a module at stage %d", (int)m->stage);
  pm_buf_printf(out, "module %s", pm_stage_words[m->stage]);
  put_key(out, "name", m->name);
  put_key(out, "plan", m->plan);
  pm_buf_putc(out, '\n');
  print_axes(m, out);
  print_vars(m, out);
  print_data(m, out);
  print_rules(m, out);
  print_train(m, out);
  PmArena scratch;
  pm_arena_init(&scratch, 0);
  bool *done = PM_NEW_N(&scratch, bool, m->n_fns);
  for (PmFnId id = 0; id < m->n_fns; id++) print_fns(m, id, done, out);
  pm_arena_deinit(&scratch);
}
