// Expressions. A maker appends text whose value has exactly the axes that are wanted, or appends nothing and says so.
// What it wants of its operands follows from the rules of the language: elementwise, one contains the others; a sum
// wants more axes of its operand; a product splits them between two. Values stay near 1, so that differences can follow
// their slopes.
#include "gen.h"

static const Axes local_free = A(BATCH) | A(SEQ) | A(KV) | A(EMBED) | A(HEADS) | A(HDIM) | A(FF) | A(VOCAB) | A(EXPERT);

Axes gen_cover(const Scope *s) {
  Axes all = 0;
  for (int i = 0; i < s->n_vals; i++) all |= s->vals[i].index_of < 0 ? s->vals[i].axes : 0;
  return all;
}

void gen_number(Gen *g) {
  static const char *const texts[] = {"0.5", ".75", "1e-1", "2", "1.5e0", "0.3", "(-0.25)", "(1 / 3)", "(2 ** -1)"};
  uint32_t at = gen_below(g, 12);
  if (at < 9) {
    gen_put(g, "%s", texts[at]);
  } else if (at == 9 && g->n_consts > 0) {
    gen_put(g, "c%u", gen_below(g, (uint32_t)g->n_consts));
  } else {
    gen_put(g, "(ff / embed)");
  }
}

static const Val *find_leaf(Gen *g, const Scope *s, Axes want) {
  const Val *best = NULL;
  int score = -100;
  uint32_t first = gen_below(g, (uint32_t)s->n_vals);
  for (int i = 0; i < s->n_vals; i++) {
    const Val *v = &s->vals[(first + (uint32_t)i) % (uint32_t)s->n_vals];
    if (v->index_of >= 0) continue;
    int fit = 2 * gen_count(v->axes & want) - gen_count(v->axes & ~want);
    if (want && !(v->axes & want)) continue;
    if (fit > score) best = v;
    if (fit > score) score = fit;
  }
  return best;
}

// A name, with its other axes averaged away, and missing ones brought by other names.
static void leaf(Gen *g, Scope *s, Axes want) {
  const Val *v = find_leaf(g, s, want);
  if (!v) {
    gen_number(g);
    return;
  }
  Axes missing = want & ~v->axes, rest = v->axes & ~want;
  if (missing) gen_put(g, "outer(");
  if (rest) {
    gen_put(g, "mean[");
    gen_names(g, rest);
    gen_put(g, "](%s)", v->name);
  } else {
    gen_put(g, "%s", v->name);
  }
  if (!missing) return;
  gen_put(g, ", ");
  leaf(g, s, missing);
  gen_put(g, ")");
}

static void operand(Gen *g, Scope *s, Axes want, int depth) {
  if (depth <= 0) {
    leaf(g, s, want);
    return;
  }
  gen_put(g, "(");
  gen_expr(g, s, want, depth - 1);
  gen_put(g, ")");
}

// Numbers that know their position: they may have any of the axes.
static void exact(Gen *g, Axes axes) {
  static const char *const forms[] = {"sin(0.7 * pos(%s))", "(pos(%s) + 1) / %s", "0.8 ** pos(%s)",
                                      "where(pos(%s) > 0, 0.5, 1)", "(pos(%s) %% 2)"};
  if (axes == 0) {
    gen_number(g);
    return;
  }
  const char *name = gen_axis(gen_one_of(g, axes));
  uint32_t at = gen_below(g, 5);
  if (at == 1) {
    gen_put(g, "(pos(%s) + 1) / %s", name, name);
  } else {
    gen_put(g, "(");
    for (const char *f = forms[at]; *f; f++) {
      if (f[0] == '%' && f[1] == 's') gen_put(g, "%s", name);
      if (f[0] == '%' && f[1] == '%') gen_put(g, "%%");
      if (f[0] == '%')
        f++;
      else
        gen_put(g, "%c", *f);
    }
    gen_put(g, ")");
  }
}

static const Val *find_index(Gen *g, const Scope *s, Axes want) {
  uint32_t first = gen_below(g, (uint32_t)s->n_vals);
  for (int i = 0; i < s->n_vals; i++) {
    const Val *v = &s->vals[(first + (uint32_t)i) % (uint32_t)s->n_vals];
    if (v->index_of >= 0 && !(v->axes & ~want)) return v;
  }
  return NULL;
}

static void condition(Gen *g, Scope *s, Axes want, int depth) {
  const Val *i = find_index(g, s, want);
  switch (gen_below(g, depth > 0 ? 6 : 3)) {
    case 0:
      if (gen_count(want) >= 2) {
        int a = gen_one_of(g, want), b = gen_one_of(g, want & ~A(a));
        gen_put(g, "pos(%s) %s pos(%s)", gen_axis(a), gen_chance(g, 50) ? ">=" : "<", gen_axis(b));
        break;
      }
      // fall through
    case 1:
      if (i) {
        gen_put(g, "%s %s %u", i->name, gen_chance(g, 50) ? ">=" : "!=", gen_below(g, 2));
        break;
      }
      // fall through
    case 2:
      leaf(g, s, gen_some_of(g, want, 2));
      gen_put(g, " %s 0.%u", gen_chance(g, 50) ? ">" : "<=", 1 + gen_below(g, 5));
      break;
    case 3: {
      // One side has the axes that the other chooses from.
      Axes wide = gen_some_of(g, want, 2);
      gen_put(g, "sin(");
      leaf(g, s, wide);
      gen_put(g, ") < 0.25 %s ", gen_chance(g, 50) ? "and" : "or");
      leaf(g, s, gen_some_of(g, wide, 1));
      gen_put(g, " >= -0.5");
      break;
    }
    case 4:
      gen_put(g, "not (");
      condition(g, s, want, depth - 1);
      gen_put(g, ")");
      break;
    default:
      leaf(g, s, gen_some_of(g, want, 2));
      gen_put(g, " == 0.125");
  }
}

static bool make_unary(Gen *g, Scope *s, Axes want, int depth) {
  static const char *const fns[] = {"tanh", "sin", "cos", "gelu", "silu", "sigmoid", "softplus", "relu", "erf", "abs"};
  uint32_t at = gen_below(g, 10 + (uint32_t)g->n_pointwise);
  if (at < 10) {
    gen_put(g, "%s(", fns[at]);
  } else {
    gen_put(g, "pw%u(", at - 10);
  }
  gen_expr(g, s, want, depth - 1);
  gen_put(g, ")");
  return true;
}

// Functions whose operands are kept where they are smooth.
static bool make_guarded(Gen *g, Scope *s, Axes want, int depth) {
  static const char *const forms[] = {"exp(0.5 * tanh(%))",
                                      "log(1.5 + sin(%))",
                                      "sqrt(1.25 + cos(%))",
                                      "rsqrt(1 + % ** 2)",
                                      "(1.5 + sin(%)) ** 0.7",
                                      "tanh(%) ** 3",
                                      "-%",
                                      "-sin(%) ** 2",
                                      "floor(3 * sin(%)) * 0.1",
                                      "ceil(2 * tanh(%)) * 0.1",
                                      "sign(%) * 0.3",
                                      "(2 + tanh(%)) ** -0.5"};
  for (const char *f = forms[gen_below(g, sizeof forms / sizeof *forms)]; *f; f++) {
    if (*f == '%') {
      operand(g, s, want, depth - 1);
    } else {
      gen_put(g, "%c", *f);
    }
  }
  return true;
}

static bool make_binary(Gen *g, Scope *s, Axes want, int depth) {
  static const char *const ops[] = {"+", "-", "*"};
  Axes less = gen_some_of(g, want, 3), least = gen_some_of(g, less, 2);
  bool swap = gen_chance(g, 30), chain = gen_chance(g, 30);
  operand(g, s, swap ? less : want, depth - 1);
  gen_put(g, " %s ", ops[gen_below(g, 3)]);
  operand(g, s, swap ? want : less, depth - 1);
  if (!chain) return true;
  // Each contains the next, so that any grouping by precedence has a type.
  gen_put(g, " %s ", ops[gen_below(g, 3)]);
  operand(g, s, least, depth - 2);
  return true;
}

static bool make_scaled(Gen *g, Scope *s, Axes want, int depth) {
  operand(g, s, want, depth - 1);
  switch (gen_below(g, 4)) {
    case 0:
      gen_put(g, " * ");
      exact(g, want);
      break;
    case 1:
      gen_put(g, " / (1.75 + sin(");
      leaf(g, s, gen_some_of(g, want, 2));
      gen_put(g, "))");
      break;
    case 2:
      gen_put(g, " + ");
      gen_number(g);
      break;
    default:
      gen_put(g, " - ");
      exact(g, want);
  }
  return true;
}

static bool make_between(Gen *g, Scope *s, Axes want, int depth) {
  gen_put(g, "%s(", gen_chance(g, 50) ? "max" : "min");
  gen_expr(g, s, want, depth - 1);
  gen_put(g, ", ");
  if (gen_chance(g, 40)) {
    gen_number(g);
  } else {
    gen_expr(g, s, gen_some_of(g, want, 3), depth - 1);
  }
  gen_put(g, ")");
  return true;
}

static bool make_where(Gen *g, Scope *s, Axes want, int depth) {
  gen_put(g, "where(");
  condition(g, s, want, depth - 1);
  gen_put(g, ", ");
  gen_expr(g, s, want, depth - 1);
  gen_put(g, ", ");
  if (gen_chance(g, 40)) {
    gen_number(g);
  } else {
    gen_expr(g, s, gen_some_of(g, want, 3), depth - 2);
  }
  gen_put(g, ")");
  return true;
}

static bool make_reduce(Gen *g, Scope *s, Axes want, int depth) {
  Axes extra = gen_some_of(g, gen_cover(s) & ~want, 2);
  if (!extra || gen_count(want | extra) > 4) return false;
  static const char *const fns[] = {"mean", "mean", "sum", "max", "min"};
  const char *fn = fns[gen_below(g, 5)];
  if (fn[0] == 's') gen_put(g, "tanh(");
  gen_put(g, "%s[", fn);
  gen_names(g, extra);
  gen_put(g, "](");
  gen_expr(g, s, want | extra, depth - 1);
  if (fn[1] == 'e' && gen_chance(g, 30)) {
    gen_put(g, ", where=");
    condition(g, s, want | extra, 1);
  }
  gen_put(g, fn[0] == 's' ? "))" : ")");
  return true;
}

static bool make_dot(Gen *g, Scope *s, Axes want, int depth) {
  Axes extra = gen_some_of(g, gen_cover(s) & ~want, 2);
  Axes left = gen_some_of(g, want, 3), right = (want & ~left) | gen_some_of(g, left, 1);
  if (!extra || gen_count(left | extra) > 4 || gen_count(right | extra) > 4) return false;
  gen_put(g, "sin(dot[");
  gen_names(g, extra);
  gen_put(g, "](");
  gen_expr(g, s, left | extra, depth - 1);
  gen_put(g, ", ");
  gen_expr(g, s, right | extra, depth - 1);
  gen_put(g, "))");
  return true;
}

static bool make_outer(Gen *g, Scope *s, Axes want, int depth) {
  Axes left = gen_some_of(g, want, 3);
  gen_put(g, "outer(");
  gen_expr(g, s, left, depth - 1);
  gen_put(g, ", ");
  gen_expr(g, s, want & ~left, depth - 1);
  gen_put(g, ")");
  return true;
}

// Local axes come and go inside one expression.
static bool make_local(Gen *g, Scope *s, Axes want, int depth) {
  int axis = (want & local_free) ? gen_one_of(g, want & local_free) : -1;
  switch (gen_below(g, 4)) {
    case 0:
      gen_put(g, "mean[pair](stack[pair](");
      for (int i = 0; i < 2; i++) {
        gen_put(g, g->mixed ? "f32(" : "(");
        gen_expr(g, s, want, depth - 1);
        gen_put(g, i ? ")" : "), ");
      }
      gen_put(g, "))");
      return true;
    case 1:
      gen_put(g, "stack[pair](%s(", g->mixed ? "f32" : "");
      gen_expr(g, s, want, depth - 1);
      gen_put(g, "), 0.5)[pair = 0]");
      return true;
    case 2:
      if (axis < 0) return false;
      gen_put(g, "rename[alt_%s -> %s](rename[%s -> alt_%s](", gen_axis(axis), gen_axis(axis), gen_axis(axis),
              gen_axis(axis));
      gen_expr(g, s, want, depth - 1);
      gen_put(g, "))");
      return true;
    default:
      if (!(want & A(EMBED))) return false;
      gen_put(g, "merge[%s -> embed](split[embed -> lo, hi](", gen_chance(g, 50) ? "lo, hi" : "hi, lo");
      gen_expr(g, s, want, depth - 1);
      gen_put(g, ", %s))", gen_chance(g, 50) ? "lo=2" : "hi=embed / 2");
      return true;
  }
}

static bool make_view(Gen *g, Scope *s, Axes want, int depth) {
  Axes parts = A(HEADS) | A(HDIM);
  Axes cover = gen_cover(s);
  if ((want & A(EMBED)) && !(want & parts) && (cover & parts) == parts) {
    gen_put(g, "merge[heads, hdim -> embed](");
    gen_expr(g, s, (want & ~A(EMBED)) | parts, depth - 1);
  } else if ((want & parts) == parts && !(want & A(EMBED)) && (cover & A(EMBED))) {
    gen_put(g, "split[embed -> heads, hdim](");
    gen_expr(g, s, (want & ~parts) | A(EMBED), depth - 1);
  } else if ((want & A(KV)) && !(want & A(SEQ)) && (cover & A(SEQ))) {
    gen_put(g, "rename[seq -> kv](");
    gen_expr(g, s, (want & ~A(KV)) | A(SEQ), depth - 1);
  } else {
    return false;
  }
  gen_put(g, ")");
  return true;
}

static bool make_select(Gen *g, Scope *s, Axes want, int depth) {
  Axes extra = gen_cover(s) & ~want;
  if (!extra || gen_count(want) > 3) return false;
  int axis = gen_one_of(g, extra);
  operand(g, s, want | A(axis), depth - 1);
  gen_put(g, "[%s = %u]", gen_axis(axis), gen_below(g, 2));
  return true;
}

// table[vocab = i]: the index brings its own axes.
static bool make_lookup(Gen *g, Scope *s, Axes want, int depth) {
  const Val *i = find_index(g, s, want);
  if (!i || !(gen_cover(s) & A(i->index_of)) || (want & A(i->index_of))) return false;
  Axes table = (want & ~i->axes) | gen_some_of(g, i->axes, 1) | A(i->index_of);
  if (gen_count(table) > 4) return false;
  operand(g, s, table, depth - 1);
  gen_put(g, "[%s = %s]", gen_axis(i->index_of), i->name);
  return true;
}

static bool make_onehot(Gen *g, Scope *s, Axes want, int depth) {
  for (int k = 0; k < s->n_vals; k++) {
    const Val *i = &s->vals[k];
    if (i->index_of < 0 || (i->axes | A(i->index_of)) & ~want || i->axes & A(i->index_of)) continue;
    gen_put(g, "onehot[%s](%s) * ", gen_axis(i->index_of), i->name);
    operand(g, s, want, depth - 1);
    return true;
  }
  return false;
}

static bool make_softmax(Gen *g, Scope *s, Axes want, int depth) {
  if (!want) return false;
  bool causal = (want & A(SEQ)) && (want & A(KV)) && gen_chance(g, 70);
  gen_put(g, "softmax[%s](", causal ? "kv" : gen_axis(gen_one_of(g, want)));
  if (causal) gen_put(g, "where(pos(seq) >= pos(kv), ");
  gen_expr(g, s, want, depth - 1);
  gen_put(g, causal ? ", -inf))" : ")");
  return true;
}

static bool make_rope(Gen *g, Scope *s, Axes want, int depth) {
  if (!(want & A(SEQ)) || !(want & (A(HDIM) | A(EMBED)))) return false;
  gen_put(g, "rope[seq, %s](", gen_axis(gen_one_of(g, want & (A(HDIM) | A(EMBED)))));
  gen_expr(g, s, want, depth - 1);
  gen_put(g, ", %s)", gen_chance(g, 50) ? "10000.0" : "theta=100.0");
  return true;
}

static bool make_attention(Gen *g, Scope *s, Axes want, int depth) {
  if (!(want & A(SEQ)) || !(want & (A(HDIM) | A(EMBED))) || (want & A(KV))) return false;
  int d = gen_one_of(g, want & (A(HDIM) | A(EMBED)));
  Axes own = A(SEQ) | A(d), keys = own | gen_some_of(g, want & ~own, 2);
  gen_put(g, "causal_attention[seq, kv, %s](", gen_axis(d));
  gen_expr(g, s, want, depth - 1);
  gen_put(g, ", ");
  gen_expr(g, s, keys, depth - 1);
  gen_put(g, ", ");
  gen_expr(g, s, keys, depth - 1);
  gen_put(g, ")");
  return true;
}

static bool make_xent(Gen *g, Scope *s, Axes want, int depth) {
  const Val *i = find_index(g, s, want);
  if (!i || (want & A(i->index_of)) || !(gen_cover(s) & A(i->index_of)) || gen_count(want) > 3) return false;
  static const char *const more[] = {"", "", ", smoothing=0.1", ", z_loss=1e-2", ", 0.2, 0.01"};
  gen_put(g, "xent[%s](", gen_axis(i->index_of));
  gen_expr(g, s, want | A(i->index_of), depth - 1);
  gen_put(g, ", %s%s)", i->name, more[gen_below(g, 5)]);
  return true;
}

static bool make_cast(Gen *g, Scope *s, Axes want, int depth) {
  bool like = gen_chance(g, 40) && s->n_vals > 0;
  gen_put(g, like ? "cast_like(" : "f32(");
  gen_expr(g, s, want, depth - 1);
  if (like) {
    gen_put(g, ", ");
    leaf(g, s, gen_some_of(g, want, 1));
  }
  gen_put(g, ")");
  return true;
}

static bool make_dropout(Gen *g, Scope *s, Axes want, int depth) {
  if (s->in_fn || !want) return false;
  gen_put(g, "dropout(");
  gen_expr(g, s, want, depth - 1);
  gen_put(g, ", 0.%u)", gen_below(g, 6));
  return true;
}

static Axes actual(Axes formal, const int *map) {
  Axes out = formal & ~(A(FA) | A(FB) | A(BD));
  for (int i = 0; i < 2; i++) {
    if (formal & A(FA + i)) out |= A(map[i]);
  }
  return out;
}

// Axes that a function does not name go through it, when all of its arguments have them.
static bool make_call(Gen *g, Scope *s, Axes want, int depth) {
  if (g->n_fns == 0) return false;
  const Callee *f = &g->fns[gen_below(g, (uint32_t)g->n_fns)];
  if (f->n_results != 1) return false;
  int map[2] = {-1, -1};
  Axes inside = want, outside = gen_cover(s) & ~want;
  for (int i = 0; i < f->n_formals; i++) {
    Axes *from = (f->results[0] & A(FA + i)) ? &inside : &outside;
    if (!*from) return false;
    map[i] = gen_one_of(g, *from);
    *from &= ~A(map[i]);
  }
  for (int i = 0; i < f->n_args; i++) {
    if (gen_count(inside | actual(f->args[i], map)) > 4) return false;
  }
  gen_put(g, "%s", f->name);
  for (int i = 0; i < f->n_formals; i++) {
    gen_put(g, "%s%s%s", i ? ", " : "[", gen_axis(map[i]), i == f->n_formals - 1 ? "](" : "");
  }
  for (int i = 0; i < f->n_args; i++) {
    if (i) gen_put(g, ", ");
    gen_expr(g, s, inside | actual(f->args[i], map), depth - 1);
  }
  gen_put(g, gen_chance(g, 40) ? ", k=0.4)" : ")");
  return true;
}

static bool make_norm(Gen *g, Scope *s, Axes want, int depth) {
  uint32_t first = s->n_subs ? gen_below(g, (uint32_t)s->n_subs) : 0;
  for (int i = 0; i < s->n_subs; i++) {
    const Sub *sub = &s->subs[(first + (uint32_t)i) % (uint32_t)s->n_subs];
    if (!sub->block->is_norm || !(want & A(sub->formal))) continue;
    gen_put(g, "%s(", sub->name);
    gen_expr(g, s, want, depth - 1);
    gen_put(g, ")");
    return true;
  }
  return false;
}

void gen_expr(Gen *g, Scope *s, Axes want, int depth) {
  static bool (*const makers[])(Gen *, Scope *, Axes, int) = {
      make_unary, make_unary,     make_guarded,   make_binary, make_binary, make_scaled, make_between,
      make_where, make_reduce,    make_reduce,    make_dot,    make_dot,    make_outer,  make_local,
      make_view,  make_view,      make_select,    make_lookup, make_lookup, make_onehot, make_softmax,
      make_rope,  make_attention, make_attention, make_xent,   make_xent,   make_lookup, make_onehot,
      make_cast,  make_dropout,   make_call,      make_call,   make_norm,   make_norm};
  for (int tries = 0; depth > 0 && tries < 6; tries++) {
    if (makers[gen_below(g, sizeof makers / sizeof *makers)](g, s, want, depth)) return;
  }
  leaf(g, s, want);
}
