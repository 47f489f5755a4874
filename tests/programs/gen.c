// A program: axes, functions, blocks, a model, and how to train and place it.
#include "gen.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/philox.h"

static const char *const axis_names[N_AXES] = {"batch",  "seq",    "kv",   "embed", "heads", "hdim", "ff", "vocab",
                                               "expert", "choice", "slot", "layer", "depth", "fa",   "fb", "bd"};

uint32_t gen_below(Gen *g, uint32_t n) { return pm_random_u32(g->key, 0, g->at++) % n; }
bool gen_chance(Gen *g, uint32_t percent) { return gen_below(g, 100) < percent; }

void gen_put(Gen *g, const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  pm_buf_vprintf(g->out, format, ap);
  va_end(ap);
}

const char *gen_axis(int axis) { return axis_names[axis]; }

int gen_count(Axes axes) {
  int n = 0;
  for (; axes; axes &= axes - 1) n++;
  return n;
}

int gen_one_of(Gen *g, Axes axes) {
  uint32_t at = gen_below(g, (uint32_t)gen_count(axes));
  for (int i = 0; i < N_AXES; i++) {
    if ((axes & A(i)) && at-- == 0) return i;
  }
  return -1;
}

Axes gen_some_of(Gen *g, Axes axes, int most) {
  Axes out = 0;
  for (uint32_t n = gen_below(g, (uint32_t)most + 1); n > 0 && (axes & ~out); n--) out |= A(gen_one_of(g, axes & ~out));
  return out;
}

void gen_names(Gen *g, Axes axes) {
  for (bool first = true; axes; first = false) {
    int i = gen_one_of(g, axes);
    gen_put(g, "%s%s", first ? "" : ", ", axis_names[i]);
    axes &= ~A(i);
  }
}

static void put_axes(Gen *g) {
  gen_put(g, "axis batch = %u, seq = %u, kv = seq, vocab = %u\n", 2 + 2 * gen_below(g, 2),
          g->planned ? 4 : 2 + gen_below(g, 2), 3 + gen_below(g, 3));
  gen_put(g, "axis heads = 2, hdim = %u, embed = heads * hdim, ff = %s\n", 2 + 2 * gen_below(g, 2),
          g->planned || gen_chance(g, 50) ? "embed / 2" : "heads + 1");
  gen_put(g, "axis expert = %u, choice = 2, slot = ", 3 + gen_below(g, 2));
  if (g->ragged) {
    gen_put(g, "ragged\n");
  } else if (gen_chance(g, 50)) {
    gen_put(g, "ceil(1.25 * choice * batch.micro / expert)\n");
  } else {
    gen_put(g, "%u\n", 1 + gen_below(g, 4));
  }
  gen_put(g, "axis layer = %u, depth = 2, turn2 = 2, turn3 = 1, turn4 = 2\n", 1 + gen_below(g, 3));
  static const char *const consts[] = {"0.4", "1 / (2 * layer) ** 0.5", "3 * c0 - 0.5"};
  g->n_consts = (int)gen_below(g, 4);
  for (int i = 0; i < g->n_consts; i++) gen_put(g, "const c%d = %s\n", i, consts[i]);
}

static const char *optimizer(Gen *g) {
  static const char *const known[] = {
      "sgd()",           "sgd(decay=0.01)", "momentum(beta=0.8)", "adamw(b2=0.95, decay=0.1)",
      "adamw(eps=1e-6)", "lion(decay=0.1)"};
  uint32_t at = gen_below(g, 7);
  if (at < 6) return known[at];
  gen_put(g, "optimizer own(beta=0.9, decay=0.0) {\n  state a, b ~ zeros\n  a = beta * a + grad\n");
  gen_put(g, "  b = max(b * beta, abs(grad))\n  value = value - lr * a / (b + 1e-3)\n");
  gen_put(g, "  value = where(rank >= 2, value * (1 - decay / step), value)\n}\n");
  return "own(decay=0.1)";
}

static void put_train(Gen *g, bool f16) {
  static const char *const rates[] = {"1e-3",
                                      "constant(1e-2)",
                                      "warmup_linear(peak=1e-3, warmup=2)",
                                      "warmup_cosine(peak=1e-3, warmup=3, final=1e-5)",
                                      "wsd(peak=1e-3, warmup=2, cool=4)",
                                      "1e-3 / step ** 0.5",
                                      "1e-2 * min(step / 4, 1) * (1 - step / (2 * steps))"};
  const char *name = optimizer(g);
  gen_put(g, "train {\n  optimizer = %s\n  lr = %s\n  steps = %u\n  seed = %u\n", name, rates[gen_below(g, 7)],
          10 + gen_below(g, 10), gen_below(g, 100));
  if (gen_chance(g, 50)) gen_put(g, "  clip = %s\n", gen_chance(g, 50) ? "1.0" : "0.5 ** 2");
  if (f16 && gen_chance(g, 50)) gen_put(g, "  loss_scale = 1024\n  loss_scale_window = 100\n");
  if (strstr(name, "decay") && gen_chance(g, 50)) gen_put(g, "  \"w*\": decay = 0.0\n");
  if (g->fed) {
    gen_put(g, "  data = tokens(%s, format=\"%s\", x=tokens, y=targets%s)\n",
            gen_chance(g, 50) ? "\"a.bin\"" : "[\"a.bin\", \"b*.bin\"]", gen_chance(g, 50) ? "llmc" : "bytes",
            gen_chance(g, 30) ? ", shuffle=true" : "");
  }
  gen_put(g, "}\n");
}

static bool put_policy(Gen *g) {
  static const char *const types[] = {"f32", "bf16", "f16"};
  static const char *const keys[] = {"param", "compute", "reduce", "grad"};
  bool f16 = false;
  gen_put(g, "policy {\n");
  for (int i = 0; i < 4; i++) {
    uint32_t at = gen_below(g, 3);
    if (gen_chance(g, 30)) continue;
    f16 = f16 || at == 2;
    gen_put(g, "  %s = %s\n", keys[i], types[at]);
  }
  if (gen_chance(g, 60)) gen_put(g, "  \"*b?.w*\": compute = %s\n", types[gen_below(g, 2)]);
  gen_put(g, "}\n");
  return f16;
}

static void put_plan(Gen *g) {
  static const char *const rules[] = {"shard batch -> data",
                                      "shard heads, ff -> tensor",
                                      "shard param embed -> tensor",
                                      "shard act seq -> data + tensor",
                                      "shard vocab in \"w*\" -> none",
                                      "shard state heads -> tensor",
                                      "shard input batch -> data",
                                      "zero(stage=1, over=data)",
                                      "overlap(off)"};
  bool child = gen_chance(g, 40);
  if (child) gen_put(g, "plan base { mesh data=1, tensor=1\n  shard batch -> data\n}\n");
  gen_put(g, "plan p0%s {\n  mesh data=%u, tensor=%u\n", child ? " extends base" : "", 1 + gen_below(g, 2),
          1 + gen_below(g, 2));
  if (g->pinned[0] && gen_chance(g, 50)) gen_put(g, "  pin(\"%s\", [heads/tensor])\n", g->pinned);
  for (int i = 0; i < 9; i++) {
    if (gen_chance(g, 40)) gen_put(g, "  %s\n", rules[i]);
  }
  gen_put(g, "}\n");
}

void gen_program(uint64_t seed, PmBuf *out, bool *out_plan) {
  Gen g = {.key = pm_random_key(seed, "program"), .out = out};
  g.ragged = gen_chance(&g, 20);
  bool has_policy = gen_chance(&g, 30);
  g.mixed = has_policy;
  g.planned = gen_chance(&g, 50);
  gen_put(&g, "# program %llu\npmodel 1\nimport \"std\"\n", (unsigned long long)seed);
  put_axes(&g);
  for (uint32_t n = gen_below(&g, 3); n > 0; n--) gen_pointwise(&g);
  for (uint32_t n = gen_below(&g, 4); n > 0; n--) gen_fn(&g);
  g.blocks[g.n_blocks++] = (Callee){.name = "layernorm", .args = {A(BD)}, .n_args = 1, .n_formals = 1, .is_norm = true};
  g.blocks[g.n_blocks++] = (Callee){.name = "rmsnorm", .args = {A(BD)}, .n_args = 1, .n_formals = 1, .is_norm = true};
  for (uint32_t n = gen_below(&g, 4); n > 0; n--) gen_block(&g);
  gen_model(&g);
  bool f16 = has_policy && put_policy(&g);
  put_train(&g, f16);
  if (g.planned) put_plan(&g);
  *out_plan = g.planned;
}
