// Statements, functions, blocks and the model.
#include <stdio.h>
#include <string.h>

#include "gen.h"

static const Axes data_axes = A(BATCH) | A(SEQ) | A(EMBED) | A(HEADS) | A(HDIM) | A(FF) | A(VOCAB) | A(EXPERT);

// Sets that functions of the library want, which chance seldom brings together.
static Axes usual(Gen *g, Axes axes) {
  static const Axes sets[] = {
      A(BATCH) | A(SEQ), A(BATCH) | A(SEQ) | A(EMBED),  A(BATCH) | A(SEQ) | A(VOCAB), A(SEQ) | A(HEADS) | A(HDIM),
      A(EMBED) | A(FF),  A(EMBED) | A(HEADS) | A(HDIM), A(VOCAB) | A(EMBED),          A(BATCH) | A(SEQ) | A(EXPERT)};
  return gen_chance(g, 50) ? sets[gen_below(g, 8)] & axes : gen_some_of(g, axes, 3);
}

static Val *add_val(Gen *g, Scope *s, const char *prefix, Axes axes, int index_of) {
  if (s->n_vals >= MAX_VALS) return NULL;
  Val *v = &s->vals[s->n_vals++];
  *v = (Val){.axes = axes, .index_of = index_of};
  snprintf(v->name, sizeof v->name, "%s%d", prefix, g->n_names++);
  return v;
}

static bool is_full(const Scope *s) { return s->n_vals + 8 >= MAX_VALS; }

static void indent(Gen *g, const Scope *s) {
  for (int i = 0; i <= s->n_repeats; i++) gen_put(g, "  ");
}

static void typed(Gen *g, const Val *v) {
  gen_put(g, "%s: [", v->name);
  gen_names(g, v->axes);
  gen_put(g, "] = ");
}

static void init(Gen *g) {
  static const char *const texts[] = {"normal(0.5)", "uniform(0.4)", "zeros",
                                      "ones",        "0.25",         "normal(1 / embed ** 0.5)"};
  gen_put(g, " ~ %s\n", texts[gen_below(g, 6)]);
}

// One statement that declares up to three variables.
static void declare(Gen *g, Scope *s, const char *word, const char *prefix, Axes axes) {
  uint32_t n = 1 + gen_below(g, 3);
  indent(g, s);
  gen_put(g, "%s ", word);
  for (uint32_t i = 0; i < n; i++) {
    Axes own = usual(g, axes);
    Val *v = add_val(g, s, prefix, own ? own : axes & (~axes + 1), -1);
    if (!v) return;
    v->fixed = true;
    if (s->in_model && s->n_repeats == 0 && (v->axes & A(HEADS))) memcpy(g->pinned, v->name, sizeof g->pinned);
    gen_put(g, "%s%s[", i ? ", " : "", v->name);
    gen_names(g, v->axes);
    gen_put(g, "]");
  }
  init(g);
}

static void declare_subs(Gen *g, Scope *s, Axes axes) {
  for (uint32_t n = gen_below(g, 3); n > 0 && s->n_subs + 2 < MAX_SUBS; n--) {
    const Callee *block = &g->blocks[gen_below(g, (uint32_t)g->n_blocks)];
    Axes formal = axes & (block->is_norm ? data_axes | A(BD) : A(EMBED) | A(FF));
    if (block->n_formals && !formal) continue;
    int axis = block->n_formals ? gen_one_of(g, formal) : -1;
    indent(g, s);
    gen_put(g, "sub ");
    for (uint32_t k = 1 + gen_below(g, 2); k > 0; k--) {
      Sub *sub = &s->subs[s->n_subs++];
      *sub = (Sub){.block = block, .formal = axis};
      snprintf(sub->name, sizeof sub->name, "b%d", g->n_names++);
      gen_put(g, "%s%s", sub->name, k > 1 ? ", " : " = ");
    }
    gen_put(g, "%s", block->name);
    if (axis >= 0) gen_put(g, "[%s]", gen_axis(axis));
    gen_put(g, "\n");
  }
}

static Axes some_want(Gen *g, const Scope *s) { return usual(g, gen_cover(s)); }

// Assigned names keep the state of what they are: carried ones their axes, others may change them.
static Val *assignable(Gen *g, Scope *s) {
  if (s->n_vals == 0) return NULL;
  uint32_t first = gen_below(g, (uint32_t)s->n_vals);
  for (int i = 0; i < s->n_vals; i++) {
    Val *v = &s->vals[(first + (uint32_t)i) % (uint32_t)s->n_vals];
    if (!v->fixed && v->index_of < 0) return v;
  }
  return NULL;
}

static void stmt_new(Gen *g, Scope *s) {
  Axes want = some_want(g, s);
  char name[16];
  snprintf(name, sizeof name, "v%d", g->n_names++);
  Val v = {.axes = want, .index_of = -1};
  memcpy(v.name, name, sizeof name);
  // Inside a function the caller may add axes.
  if (want && !s->in_fn && gen_chance(g, 30)) {
    typed(g, &v);
  } else {
    gen_put(g, "%s = ", v.name);
  }
  gen_expr(g, s, want, 3);
  gen_put(g, "\n");
  s->vals[s->n_vals++] = v;
}

static void stmt_add(Gen *g, Scope *s, Val *v) {
  gen_put(g, "%s += ", v->name);
  gen_expr(g, s, gen_some_of(g, v->axes, 3), 2);
  gen_put(g, "\n");
}

static void stmt_again(Gen *g, Scope *s, Val *v) {
  Axes want = v->carried ? v->axes : some_want(g, s);
  gen_put(g, "%s = ", v->name);
  if (v->carried) gen_put(g, "tanh(");
  gen_expr(g, s, want, 3);
  gen_put(g, v->carried ? ")\n" : "\n");
  v->axes = want;
}

static Axes bound(Axes axes, int formal) { return (axes & A(BD)) && formal >= 0 ? (axes & ~A(BD)) | A(formal) : axes; }

static bool covers(const Scope *s, Axes axes) { return !(axes & ~gen_cover(s)); }

static bool stmt_block(Gen *g, Scope *s) {
  if (s->n_subs == 0) return false;
  Sub *sub = &s->subs[gen_below(g, (uint32_t)s->n_subs)];
  const Callee *b = sub->block;
  if (b->is_norm || sub->spent) return false;
  for (int i = 0; i < b->n_args; i++) {
    if (!covers(s, bound(b->args[i], sub->formal))) return false;
  }
  sub->spent = b->has_state;
  char names[2][16];
  for (int i = 0; i < b->n_results; i++) snprintf(names[i], sizeof names[i], "v%d", g->n_names++);
  for (int i = 0; i < b->n_results; i++) gen_put(g, "%s%s", i ? ", " : "", names[i]);
  gen_put(g, " = %s(", sub->name);
  for (int i = 0; i < b->n_args; i++) {
    if (i) gen_put(g, ", ");
    gen_expr(g, s, bound(b->args[i], sub->formal), 2);
  }
  gen_put(g, ")\n");
  for (int i = 0; i < b->n_results; i++) {
    Val *v = &s->vals[s->n_vals++];
    *v = (Val){.axes = bound(b->results[i], sub->formal), .index_of = -1};
    memcpy(v->name, names[i], sizeof v->name);
  }
  return true;
}

static bool stmt_tuple(Gen *g, Scope *s) {
  for (int k = 0; k < g->n_fns; k++) {
    const Callee *f = &g->fns[k];
    Axes cover = gen_cover(s) & ~A(KV);
    if (f->n_results != 2 || gen_count(cover) < 2) continue;
    int map[2];
    map[0] = gen_one_of(g, cover);
    map[1] = gen_one_of(g, cover & ~A(map[0]));
    gen_put(g, "v%d, v%d = %s[", g->n_names, g->n_names + 1, f->name);
    gen_put(g, f->n_formals == 2 ? "%s, %s](" : "%s](", gen_axis(map[0]), gen_axis(map[1]));
    for (int i = 0; i < f->n_args; i++) {
      Axes want = 0;
      for (int a = 0; a < 2; a++) want |= (f->args[i] & A(FA + a)) ? A(map[a]) : 0;
      if (i) gen_put(g, ", ");
      gen_expr(g, s, want, 2);
    }
    gen_put(g, ")\n");
    for (int i = 0; i < 2; i++) {
      Axes want = 0;
      for (int a = 0; a < 2; a++) want |= (f->results[i] & A(FA + a)) ? A(map[a]) : 0;
      add_val(g, s, "v", want, -1);
    }
    return true;
  }
  return false;
}

// Scores choose experts, rows travel to their slots, through a layer of the experts, and back.
static bool stmt_routing(Gen *g, Scope *s) {
  Axes cover = gen_cover(s);
  if (!(cover & A(EXPERT)) || s->in_fn || (g->ragged && g->routed)) return false;
  Axes rest = gen_some_of(g, cover & ~(A(EXPERT) | A(CHOICE) | A(SLOT)), 2);
  Axes rows = gen_some_of(g, rest, 2) | gen_some_of(g, cover & ~(A(EXPERT) | A(CHOICE) | A(SLOT) | rest), 1);
  if (!rest || !rows) return false;
  g->routed = true;
  int n = g->n_names;
  g->n_names += 4;
  gen_put(g, "v%d, i%d = topk[expert -> choice](", n, n);
  gen_expr(g, s, rest | A(EXPERT), 2);
  gen_put(g, ")\n");
  indent(g, s);
  gen_put(g, "h%d = dispatch[expert, slot](", n);
  gen_expr(g, s, rows, 2);
  gen_put(g, ", i%d)\n", n);
  indent(g, s);
  gen_put(g, "h%d = sin(h%d) * 0.9\n", n + 1, n);
  indent(g, s);
  Axes out = rest | rows;
  gen_put(g, "v%d = sum[choice](combine[slot](h%d, i%d) * v%d)\n", n + 1, n + 1, n, n);
  const struct {
    const char *prefix;
    int at;
    Axes axes;
    int of;
  } made[] = {{"v", n, rest | A(CHOICE), -1}, {"i", n, rest | A(CHOICE), EXPERT}, {"v", n + 1, out, -1}};
  for (int i = 0; i < 3; i++) {
    Val *v = &s->vals[s->n_vals++];
    *v = (Val){.axes = made[i].axes, .index_of = made[i].of};
    snprintf(v->name, sizeof v->name, "%s%d", made[i].prefix, made[i].at);
  }
  return true;
}

static void stmts(Gen *g, Scope *s, int n);

// Averages the positions of what a turn leaves behind, so that each statement of the body counts.
static bool stmt_repeat(Gen *g, Scope *s) {
  if (s->in_fn || s->n_repeats >= (s->in_model ? 2 : 1)) return false;
  Val *carried = assignable(g, s);
  if (!carried) return false;
  if (s->in_model) {
    gen_put(g, "repeat %s {\n", s->n_repeats ? "depth" : "layer");
  } else {
    gen_put(g, "repeat turn%d {\n", g->n_blocks);
  }
  Scope inner = *s;
  inner.n_repeats++;
  for (int i = 0; i < inner.n_vals; i++) inner.vals[i].carried = true;
  for (int i = 0; i < inner.n_subs; i++) inner.subs[i].spent = inner.subs[i].spent || inner.subs[i].block->has_state;
  Axes axes = gen_cover(s) & data_axes;
  if (axes) declare(g, &inner, "param", "w", axes);
  declare_subs(g, &inner, axes);
  stmts(g, &inner, 1 + (int)gen_below(g, 3));
  indent(g, &inner);
  gen_put(g, "%s = tanh(%s + 0.5 * (", carried->name, carried->name);
  gen_expr(g, &inner, carried->axes, 2);
  gen_put(g, "))\n");
  indent(g, s);
  gen_put(g, "}\n");
  return true;
}

// A number that becomes data by being carried.
static void stmt_sum(Gen *g, Scope *s) {
  Scope inner = *s;
  inner.n_repeats++;
  gen_put(g, "  v%d = 0.0\n  repeat layer {\n    v%d += (", g->n_names, g->n_names);
  gen_expr(g, &inner, 0, 2);
  gen_put(g, ") / layer\n  }\n");
  add_val(g, s, "v", 0, -1);
}

static void stmt(Gen *g, Scope *s) {
  indent(g, s);
  Val *old = assignable(g, s);
  uint32_t at = gen_below(g, 14);
  if (at < 3 && stmt_block(g, s)) return;
  if (at == 3 && stmt_routing(g, s)) return;
  if (at >= 4 && at < 6 && stmt_repeat(g, s)) return;
  if (at == 6 && stmt_tuple(g, s)) return;
  if (at == 7 && old) {
    stmt_add(g, s, old);
  } else if (at == 8 && old) {
    stmt_again(g, s, old);
  } else if (at == 9 && s->in_model && s->n_repeats == 0) {
    gen_put(g, "report r%d = ", g->n_names++);
    gen_expr(g, s, 0, 2);
    gen_put(g, "\n");
  } else {
    stmt_new(g, s);
  }
}

static void stmts(Gen *g, Scope *s, int n) {
  for (int i = 0; i < n && !is_full(s); i++) stmt(g, s);
}

// States are assigned last, from what the statements made.
static bool states(Gen *g, Scope *s, Axes axes) {
  if (!axes || !gen_chance(g, 35)) return false;
  int first = s->n_vals;
  declare(g, s, "state", "s", axes);
  int last = s->n_vals;
  stmts(g, s, 2);
  for (int i = first; i < last; i++) {
    if (gen_chance(g, 20)) continue;
    indent(g, s);
    if (gen_chance(g, 30)) {
      stmt_add(g, s, &s->vals[i]);
      continue;
    }
    gen_put(g, "%s = 0.5 * %s + ", s->vals[i].name, s->vals[i].name);
    gen_expr(g, s, s->vals[i].axes, 1);
    gen_put(g, "\n");
  }
  return true;
}

void gen_pointwise(Gen *g) {
  static const char *const forms[] = {"0.5 * x * tanh(x)", "x / (1 + x * x)", "where(abs(x) < k, x, k * x)",
                                      "max(x, k * x)",     "sin(x + k) ** 2", "-x ** 2 + (-x) * k"};
  gen_put(g, "fn pw%d(x, k=0.3) = %s\n", g->n_pointwise++, forms[gen_below(g, 6)]);
}

void gen_fn(Gen *g) {
  Callee *f = &g->fns[g->n_fns];
  *f = (Callee){.n_formals = 1 + (int)gen_below(g, 2), .n_args = 1 + (int)gen_below(g, 3), .n_results = 1};
  snprintf(f->name, sizeof f->name, "f%d", g->n_fns);
  if (gen_chance(g, 30)) f->n_results = 2;
  Scope s = {.in_fn = true};
  Axes all = f->n_formals == 2 ? A(FA) | A(FB) : A(FA);
  gen_put(g, "fn %s[%s](", f->name, f->n_formals == 2 ? "fa, fb" : "fa");
  for (int i = 0; i < f->n_args; i++) {
    f->args[i] = i ? gen_some_of(g, all, 2) : all;
    gen_put(g, "%s, ", add_val(g, &s, "x", f->args[i], -1)->name);
    s.vals[s.n_vals - 1].fixed = true;
  }
  gen_put(g, "k=0.6)");
  for (int i = 0; i < f->n_results; i++) f->results[i] = gen_some_of(g, all, 2);
  if (f->n_results == 1 && gen_chance(g, 40)) {
    gen_put(g, " = k * (");
    gen_expr(g, &s, f->results[0], 3);
    gen_put(g, ")\n");
    g->n_fns++;
    return;
  }
  gen_put(g, " {\n");
  stmts(g, &s, 1 + (int)gen_below(g, 3));
  gen_put(g, "  return ");
  for (int i = 0; i < f->n_results; i++) {
    if (i) gen_put(g, ", ");
    gen_expr(g, &s, f->results[i], 2);
  }
  gen_put(g, "\n}\n");
  g->n_fns++;
}

void gen_block(Gen *g) {
  Callee *b = &g->blocks[g->n_blocks];
  *b = (Callee){.n_args = 1 + (int)gen_below(g, 2), .n_results = 1, .n_formals = gen_chance(g, 40)};
  snprintf(b->name, sizeof b->name, "blk%d", g->n_blocks);
  if (gen_chance(g, 30)) b->n_results = 2;
  Axes axes = b->n_formals ? A(BATCH) | A(SEQ) | A(BD) : A(BATCH) | A(SEQ) | gen_some_of(g, data_axes, 3);
  Scope s = {0};
  gen_put(g, "block %s%s(", b->name, b->n_formals ? "[bd]" : "");
  for (int i = 0; i < b->n_args; i++) {
    b->args[i] = gen_some_of(g, axes, 3);
    if (i == 0 && b->n_formals) b->args[i] |= A(BD);
    gen_put(g, "%s%s", i ? ", " : "", add_val(g, &s, "x", b->args[i], -1)->name);
    s.vals[s.n_vals - 1].fixed = true;
  }
  gen_put(g, ") {\n");
  declare(g, &s, "param", "w", axes);
  declare_subs(g, &s, axes);
  if (gen_chance(g, 50)) stmts(g, &s, 1);
  b->has_state = states(g, &s, gen_cover(&s) & axes);
  stmts(g, &s, 1 + (int)gen_below(g, 3));
  for (int i = 0; i < s.n_subs; i++) b->has_state = b->has_state || s.subs[i].block->has_state;
  Axes cover = gen_cover(&s) & (axes | A(BD));
  for (int i = 0; i < b->n_results; i++) b->results[i] = gen_some_of(g, cover, 3);
  gen_put(g, "  return ");
  for (int i = 0; i < b->n_results; i++) {
    if (i) gen_put(g, ", ");
    gen_expr(g, &s, b->results[i], 2);
  }
  gen_put(g, "\n}\n");
  g->n_blocks++;
}

static void inputs(Gen *g, Scope *s) {
  static const struct {
    const char *text;
    Axes axes;
    int of;
  } all[] = {{"tokens", A(BATCH) | A(SEQ), VOCAB},
             {"targets", A(BATCH) | A(SEQ), VOCAB},
             {"label", A(BATCH), EXPERT},
             {"data", A(BATCH) | A(SEQ) | A(EMBED), -1},
             {"mask", A(SEQ) | A(HEADS), -1}};
  g->fed = true;
  for (int i = 0; i < 5; i++) {
    if (i > 1 && gen_chance(g, 40)) continue;
    if (i > 1) g->fed = false;
    gen_put(g, "  input %s[", all[i].text);
    if (i < 2) {
      gen_put(g, "batch, seq");
    } else {
      gen_names(g, all[i].axes);
    }
    if (all[i].of >= 0)
      gen_put(g, "] in %s\n", gen_axis(all[i].of));
    else
      gen_put(g, "]: f32\n");
    Val *v = &s->vals[s->n_vals++];
    *v = (Val){.axes = all[i].axes, .index_of = all[i].of, .fixed = true};
    snprintf(v->name, sizeof v->name, "%s", all[i].text);
  }
}

void gen_model(Gen *g) {
  Scope s = {.in_model = true};
  gen_put(g, "model m {\n");
  inputs(g, &s);
  declare(g, &s, "param", "w", A(VOCAB) | A(EMBED));
  declare(g, &s, "param", "w", A(BATCH) | A(SEQ) | A(HEADS) | A(HDIM));
  declare(g, &s, "param", "w", data_axes);
  if (gen_chance(g, 50)) declare(g, &s, "param", "w", data_axes);
  declare_subs(g, &s, gen_cover(&s));
  if (gen_chance(g, 30)) stmt_sum(g, &s);
  stmts(g, &s, 2 + (int)gen_below(g, 3));
  states(g, &s, gen_cover(&s) & data_axes);
  stmts(g, &s, 1 + (int)gen_below(g, 4));
  gen_put(g, "  minimize ");
  for (int i = 0; i < 2; i++) {
    Axes all = some_want(g, &s) | (gen_cover(&s) & A(BATCH));
    if (i) gen_put(g, " + 0.3 * ");
    if (all) {
      gen_put(g, "mean[");
      gen_names(g, all);
      gen_put(g, "]");
    }
    gen_put(g, "(");
    gen_expr(g, &s, all, 3);
    gen_put(g, ")");
  }
  if (covers(&s, A(BATCH) | A(SEQ) | A(VOCAB)) && gen_chance(g, 50)) {
    gen_put(g, " + mean[batch, seq](xent[vocab](");
    gen_expr(g, &s, A(BATCH) | A(SEQ) | A(VOCAB), 2);
    gen_put(g, gen_chance(g, 50) ? ", targets), where=targets >= 0)" : ", targets, smoothing=0.1))");
  }
  // What the last statements made counts in the loss.
  for (int i = s.n_vals - 1, left = 4; i >= 0 && left > 0; i--) {
    const Val *v = &s.vals[i];
    if (v->index_of >= 0 || !v->axes) continue;
    gen_put(g, " + mean[");
    gen_names(g, v->axes);
    gen_put(g, "](sin(%s))", v->name);
    left--;
  }
  gen_put(g, "\n}\n");
}
