// The items of a plan: laid over a small model, through the passes, codegen and the validator.
#include "compile.h"

static const char model[] =
    "pmodel 1\nimport \"std\"\n"
    "axis batch = 8, seq = 4, kv = seq, vocab = 12, layer = 4, embed = 8, heads = 4, hdim = embed / heads, ff = 8\n"
    "block attention(x) {\n"
    "  param wq[embed, heads, hdim], wk[embed, heads, hdim], wv[embed, heads, hdim] ~ normal(0.2)\n"
    "  param wo[heads, hdim, embed] ~ normal(0.2)\n"
    "  q = dot[embed](x, wq)\n"
    "  o = causal_attention[seq, kv, hdim](q, dot[embed](x, wk), dot[embed](x, wv))\n"
    "  return dot[heads, hdim](o, wo)\n"
    "}\n"
    "block mlp(x) {\n"
    "  param w1[embed, ff], w2[ff, embed] ~ normal(0.2)\n"
    "  return dot[ff](gelu(dot[embed](x, w1)), w2)\n"
    "}\n"
    "model m {\n"
    "  input tokens[batch, seq] in vocab\n"
    "  input targets[batch, seq] in vocab\n"
    "  param table[vocab, embed] ~ normal(0.2)\n"
    "  x = table[vocab = tokens]\n"
    "  repeat layer {\n"
    "    sub ln = rmsnorm[embed]\n"
    "    sub attn = attention\n"
    "    sub ffn = mlp\n"
    "    x += attn(ln(x))\n"
    "    x += ffn(x)\n"
    "  }\n"
    "  logits = dot[embed](x, table)\n"
    "  minimize mean[batch, seq](xent[vocab](logits, targets))\n"
    "}\n"
    "train {\n  optimizer = adamw(decay=0.1)\n  lr = 1e-3\n  steps = 2\n  clip = 1.0\n}\n";

static PmStatus *planned(PmArena *arena, PmInterner *names, PmSources *sources, PmDiags *diags, const char *path,
                         PmModule **out) {
  PmFrontendOptions options = {.plan = path, .seed = -1};
  return pm_frontend_compile_text(arena, names, sources, diags, "plan.pmodel", model, sizeof model - 1, &options, out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_compile(data, size, "pplan", planned);
  return 0;
}
