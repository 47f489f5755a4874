// What the user sees, word for word.
#include "harness.h"

#include <string.h>

#include "compile.h"

#define HEAD                   \
  "pmodel 1\nimport \"std\"\n" \
  "axis batch = 4, seq = 8, vocab = 16, kv = seq, embed = 6, heads = 2, hdim = 3\n"

typedef struct Case {
  const char *name, *text, *expected;
} Case;

static const Case cases[] = {
    {"forgotten_rename",
     HEAD "model m {\n"
          "  input tokens[batch, seq] in vocab\n"
          "  param w[vocab, embed] ~ normal(0.1)\n"
          "  x = w[vocab = tokens]\n"
          "  param wq[embed, heads, hdim], wk[embed, heads, hdim] ~ zeros\n"
          "  q = dot[embed](x, wq)\n"
          "  k = dot[embed](x, wk)\n"
          "  a = dot[hdim](q, k)\n"
          "  p = softmax[kv](where(pos(seq) >= pos(kv), a, -inf))\n"
          "  minimize mean[batch, seq, embed](x)\n"
          "}\n",
     "errors.pmodel:12:19: error[E0233]: `where` would widen `a`: it has no axis `kv`, which "
     "`pos(seq) >= pos(kv)` has\n"
     " 12 |   p = softmax[kv](where(pos(seq) >= pos(kv), a, -inf))\n"
     "    |                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
     "    |                         |                    |\n"
     "    |                         |                    [batch, seq, heads]\n"
     "    |                         [seq, kv] (index value)\n"
     "note: values made of `pos` and numbers may not add axes to data\n"
     "help: `kv` and `seq` have the same size: was a `rename[seq -> kv]` forgotten?\n"},
    {"misspelt_axis",
     HEAD "model m {\n"
          "  input tokens[batch, seq] in vocab\n"
          "  param w[vocab, embed] ~ normal(0.1)\n"
          "  x = w[vocab = tokens]\n"
          "  y = sum[embd](x)\n"
          "  minimize mean[batch, seq, embed](x)\n"
          "}\n",
     "errors.pmodel:8:11: error[E0202]: unknown axis `embd`\n"
     " 8 |   y = sum[embd](x)\n"
     "   |           ^^^^\n"
     "help: did you mean `embed`?\n"},
    {"misspelt_name",
     HEAD "model m {\n"
          "  input tokens[batch, seq] in vocab\n"
          "  param w[vocab, embed] ~ normal(0.1)\n"
          "  x = w[vocab = tokens]\n"
          "  y = xx + 1\n"
          "  z = y * 2\n"
          "  minimize mean[batch, seq, embed](x)\n"
          "}\n",
     "errors.pmodel:8:7: error[E0201]: unknown name `xx`\n"
     " 8 |   y = xx + 1\n"
     "   |       ^^\n"
     "help: did you mean `x`?\n"},
    {"misspelt_function",
     HEAD "model m {\n"
          "  input tokens[batch, seq] in vocab\n"
          "  param w[vocab, embed] ~ normal(0.1)\n"
          "  x = w[vocab = tokens]\n"
          "  y = gelo(x)\n"
          "  minimize mean[batch, seq, embed](x)\n"
          "}\n",
     "errors.pmodel:8:7: error[E0201]: unknown function or block `gelo`\n"
     " 8 |   y = gelo(x)\n"
     "   |       ^^^^\n"
     "help: did you mean `gelu`?\n"},
    {"ambiguous_broadcast",
     HEAD "model m {\n"
          "  input tokens[batch, seq] in vocab\n"
          "  param w[vocab, embed] ~ normal(0.1)\n"
          "  x = w[vocab = tokens]\n"
          "  y = sum[embed](x) + sum[batch](w[vocab = tokens])\n"
          "  minimize mean[batch, seq, embed](x)\n"
          "}\n",
     "errors.pmodel:8:7: error[E0230]: `+` cannot combine [batch, seq] with [seq, embed]: neither's "
     "axes contain the other's\n"
     " 8 |   y = sum[embed](x) + sum[batch](w[vocab = tokens])\n"
     "   |       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ [seq, embed]\n"
     "   |       |\n"
     "   |       [batch, seq]\n"
     "note: `embed` stands in one only, and so does `batch`\n"
     "help: write `outer(a, b)` where every pair is wanted\n"},
    {"wrong_operand",
     HEAD "model m {\n"
          "  input tokens[batch, seq] in vocab\n"
          "  param w[vocab, embed] ~ normal(0.1)\n"
          "  x = w[vocab = tokens]\n"
          "  param wq[embed, heads, hdim] ~ zeros\n"
          "  param bq[heads, hdim] ~ zeros\n"
          "  y = dot[embed](x, bq)\n"
          "  minimize mean[batch, seq, embed](x)\n"
          "}\n",
     "errors.pmodel:10:11: error[E0231]: `dot` sums over `embed`, but `bq` has no such axis\n"
     " 10 |   y = dot[embed](x, bq)\n"
     "    |           ^^^^^  -  -- [heads, hdim]\n"
     "    |                  |\n"
     "    |                  [batch, seq, embed]\n"
     "help: a parameter here with these axes: `wq`[embed, heads, hdim]\n"},
    {"recursion",
     HEAD "fn f(x) = g(x)\n"
          "fn g(x) = f(x)\n"
          "model m {\n"
          "  input tokens[batch, seq] in vocab\n"
          "  param w[vocab, embed] ~ normal(0.1)\n"
          "  x = w[vocab = tokens]\n"
          "  y = f(x)\n"
          "  minimize mean[batch, seq, embed](x)\n"
          "}\n",
     "errors.pmodel:5:11: error[E0301]: `f` uses itself\n"
     " 4 | fn f(x) = g(x)\n"
     "   |    - `f` is defined here\n"
     " 5 | fn g(x) = f(x)\n"
     "   |           ^^^^\n"
     "note: through `g`\n"},
    {"recursive_block",
     HEAD "block b1(x) {\n"
          "  sub c = b1\n"
          "  return c(x)\n"
          "}\n"
          "model m {\n"
          "  input tokens[batch, seq] in vocab\n"
          "  param w[vocab, embed] ~ normal(0.1)\n"
          "  x = w[vocab = tokens]\n"
          "  sub a = b1\n"
          "  minimize mean[batch, seq, embed](x)\n"
          "}\n",
     "errors.pmodel:5:11: error[E0301]: `b1` uses itself\n"
     " 4 | block b1(x) {\n"
     "   |       -- `b1` is defined here\n"
     " 5 |   sub c = b1\n"
     "   |           ^^\n"},
    {"shadowed_axis",
     HEAD "model m {\n"
          "  input tokens[batch, seq] in vocab\n"
          "  param w[vocab, embed] ~ normal(0.1)\n"
          "  x = w[vocab = tokens]\n"
          "  kv = x\n"
          "  minimize mean[batch, seq, embed](x)\n"
          "}\n",
     "errors.pmodel:8:3: error[E0203]: `kv` is already the name of an axis\n"
     " 3 | axis batch = 4, seq = 8, vocab = 16, kv = seq, embed = 6, heads = 2, hdim = 3\n"
     "   |                                      -- declared here\n"
     "...\n"
     " 8 |   kv = x\n"
     "   |   ^^\n"
     "help: choose another name: axes, values and blocks share one namespace\n"},
    {"assigned_parameter",
     HEAD "model m {\n"
          "  input tokens[batch, seq] in vocab\n"
          "  param w[vocab, embed] ~ normal(0.1)\n"
          "  x = w[vocab = tokens]\n"
          "  w = x\n"
          "  minimize mean[batch, seq, embed](x)\n"
          "}\n",
     "errors.pmodel:8:3: error[E0203]: `w` is a parameter, input or constant and cannot be assigned\n"
     " 6 |   param w[vocab, embed] ~ normal(0.1)\n"
     "   |         - declared here\n"
     "...\n"
     " 8 |   w = x\n"
     "   |   ^\n"},
    {"sizes",
     HEAD "model m {\n"
          "  input tokens[batch, seq] in vocab\n"
          "  param w[vocab, embed] ~ normal(0.1)\n"
          "  x = w[vocab = tokens]\n"
          "  z = rename[embed -> heads](x)\n"
          "  minimize mean[batch, seq, embed](x)\n"
          "}\n",
     "errors.pmodel:8:23: error[E0204]: axis `heads` has size 2, but 6 is needed here\n"
     " 3 | axis batch = 4, seq = 8, vocab = 16, kv = seq, embed = 6, heads = 2, hdim = 3\n"
     "   |                                                           ----- `heads` comes from here\n"
     "...\n"
     " 8 |   z = rename[embed -> heads](x)\n"
     "   |                       ^^^^^\n"},
    {"axis_twice",
     HEAD "model m {\n"
          "  input tokens[batch, seq] in vocab\n"
          "  param w[vocab, embed] ~ normal(0.1)\n"
          "  x = w[vocab = tokens]\n"
          "  y = causal_attention[seq, seq, embed](x, x, x)\n"
          "  minimize mean[batch, seq, embed](x)\n"
          "}\n",
     "errors.pmodel:8:29: error[E0209]: axis `seq` is listed twice\n"
     " 8 |   y = causal_attention[seq, seq, embed](x, x, x)\n"
     "   |                             ^^^\n"},
    {"call_into_std",
     HEAD "model m {\n"
          "  input tokens[batch, seq] in vocab\n"
          "  param w[vocab, embed] ~ normal(0.1)\n"
          "  x = w[vocab = tokens]\n"
          "  y = causal_attention[seq, heads, embed](x, x, x)\n"
          "  minimize mean[batch, seq, embed](x)\n"
          "}\n",
     "std:70:29: error[E0204]: axis `s` has size 2, but 8 is needed here\n"
     " 69 | fn causal_attention[t, s, d](q, k, v) {  # k, v arrive on axis t and are renamed to "
     "s\n"
     "    |                        - `s` comes from here\n"
     " 70 |   a = dot[d](q, rename[t -> s](k)) * d ** -0.5\n"
     "    |                             ^\n"
     "   --> errors.pmodel:8:7\n"
     "  8 |   y = causal_attention[seq, heads, embed](x, x, x)\n"
     "    |       -------------------------------------------- called here\n"},
    {"arguments",
     HEAD "model m {\n"
          "  input tokens[batch, seq] in vocab\n"
          "  param w[vocab, embed] ~ normal(0.1)\n"
          "  x = w[vocab = tokens]\n"
          "  y = gelu(x, x)\n"
          "  z = gelu()\n"
          "  v = silu(y=x)\n"
          "  minimize mean[batch, seq, embed](x)\n"
          "}\n",
     "errors.pmodel:8:15: error[E0205]: `gelu` takes 1 argument\n"
     " 8 |   y = gelu(x, x)\n"
     "   |               ^\n"
     "errors.pmodel:9:7: error[E0205]: `gelu` needs argument `x`\n"
     "  9 |   z = gelu()\n"
     "    |       ^^^^^^\n"
     "   --> std:12:9\n"
     " 12 | fn gelu(x) = 0.5 * x * (1 + tanh(0.7978845608 * (x + 0.044715 * x ** 3)))\n"
     "    |         - declared here\n"
     "errors.pmodel:10:12: error[E0205]: `silu` has no argument `y`\n"
     " 10 |   v = silu(y=x)\n"
     "    |            ^\n"
     "help: did you mean `x`?\n"},
    {"block_called",
     HEAD "block b(x) {\n"
          "  return x\n"
          "}\n"
          "model m {\n"
          "  input tokens[batch, seq] in vocab\n"
          "  param w[vocab, embed] ~ normal(0.1)\n"
          "  x = w[vocab = tokens]\n"
          "  y = b(x)\n"
          "  minimize mean[batch, seq, embed](x)\n"
          "}\n",
     "errors.pmodel:11:7: error[E0206]: `b` is a block: its parameters need a name before it is used\n"
     " 11 |   y = b(x)\n"
     "    |       ^\n"
     "help: write `sub x = b` first, then call `x(...)`\n"},
    {"index_arithmetic",
     HEAD "model m {\n"
          "  input tokens[batch, seq] in vocab\n"
          "  param w[vocab, embed] ~ normal(0.1)\n"
          "  x = w[vocab = tokens]\n"
          "  y = tokens + 1\n"
          "  minimize mean[batch, seq, embed](x)\n"
          "}\n",
     "errors.pmodel:8:7: error[E0207]: `+` takes floats, but `tokens` is i32\n"
     " 8 |   y = tokens + 1\n"
     "   |       ^^^^^^\n"
     "note: these are indices: they choose along an axis, as in `table[vocab = tokens]`\n"
     "help: cast with `f32(...)`\n"},
    {"index_elsewhere",
     HEAD "model m {\n"
          "  input tokens[batch, seq] in vocab\n"
          "  param w[vocab, embed] ~ normal(0.1)\n"
          "  x = w[vocab = tokens]\n"
          "  param t[seq, embed] ~ zeros\n"
          "  y = t[seq = tokens]\n"
          "  minimize mean[batch, seq, embed](x)\n"
          "}\n",
     "errors.pmodel:9:15: error[E0234]: `tokens` points into `vocab`, but `seq` is indexed\n"
     " 9 |   y = t[seq = tokens]\n"
     "   |               ^^^^^^\n"},
    {"constant",
     HEAD "model m {\n"
          "  input tokens[batch, seq] in vocab\n"
          "  param w[vocab, embed] ~ normal(0.1)\n"
          "  x = w[vocab = tokens]\n"
          "  param z[embed] ~ normal(x)\n"
          "  minimize mean[batch, seq, embed](x)\n"
          "}\n",
     "errors.pmodel:8:27: error[E0208]: `x` is computed only when the model runs; a constant is "
     "needed here\n"
     " 8 |   param z[embed] ~ normal(x)\n"
     "   |                           ^\n"},
    {"no_initial_value",
     HEAD "model m {\n"
          "  input tokens[batch, seq] in vocab\n"
          "  param w[vocab, embed] ~ normal(0.1)\n"
          "  x = w[vocab = tokens]\n"
          "  param z[embed]\n"
          "  minimize mean[batch, seq, embed](x)\n"
          "}\n",
     "errors.pmodel:8:3: error[E0302]: parameter `z` has no initial value\n"
     " 8 |   param z[embed]\n"
     "   |   ^^^^^^^^^^^^^^\n"
     "help: add `~ normal(0.02)`, `~ zeros` or `~ ones`\n"},
    {"axis_size",
     HEAD "axis z = 7 / 2\n"
          "model m {\n"
          "  input tokens[batch, seq] in vocab\n"
          "  param w[vocab, embed] ~ normal(0.1)\n"
          "  x = w[vocab = tokens]\n"
          "  minimize mean[batch, seq, embed](x)\n"
          "}\n",
     "errors.pmodel:4:10: error[E0208]: the size of axis `z` is 3.5\n"
     " 4 | axis z = 7 / 2\n"
     "   |          ^^^^^\n"
     "note: a whole number from 1 to 1099511627776 is needed\n"},
    {"carried",
     HEAD "model m {\n"
          "  input tokens[batch, seq] in vocab\n"
          "  param w[vocab, embed] ~ normal(0.1)\n"
          "  x = w[vocab = tokens]\n"
          "  repeat heads {\n"
          "    x = sum[embed](x)\n"
          "  }\n"
          "  minimize mean[batch, seq, embed](x)\n"
          "}\n",
     "errors.pmodel:9:5: error[E0232]: `x` must keep its type: it has f32[batch, seq, embed], and "
     "f32[batch, seq] is assigned\n"
     " 7 |   x = w[vocab = tokens]\n"
     "   |   - `x` comes from outside\n"
     "...\n"
     " 9 |     x = sum[embed](x)\n"
     "   |     ^\n"
     "note: names that are carried from turn to turn, and states, have one type\n"},
    {"widened",
     HEAD "model m {\n"
          "  input tokens[batch, seq] in vocab\n"
          "  param w[vocab, embed] ~ normal(0.1)\n"
          "  x = w[vocab = tokens]\n"
          "  y = sum[embed](x)\n"
          "  y += x\n"
          "  minimize mean[batch, seq, embed](x)\n"
          "}\n",
     "errors.pmodel:9:3: error[E0233]: `+=` would widen `y`\n"
     " 9 |   y += x\n"
     "   |   ^^^^^^ [batch, seq, embed]\n"
     "   |   |\n"
     "   |   [batch, seq]\n"},
    {"declared_axes",
     HEAD "model m {\n"
          "  input tokens[batch, seq] in vocab\n"
          "  param w[vocab, embed] ~ normal(0.1)\n"
          "  x = w[vocab = tokens]\n"
          "  y: [batch, seq] = x\n"
          "  minimize mean[batch, seq, embed](x)\n"
          "}\n",
     "errors.pmodel:8:3: error[E0232]: `y` is declared with [batch, seq], but its value has [batch, "
     "seq, embed]\n"
     " 8 |   y: [batch, seq] = x\n"
     "   |   ^                 - [batch, seq, embed]\n"},
    {"vector_minimised",
     HEAD "model m {\n"
          "  param w[embed] ~ zeros\n"
          "  minimize w\n"
          "}\n",
     "errors.pmodel:6:12: error[E0232]: what is minimised must be one number, but this has [embed]\n"
     " 6 |   minimize w\n"
     "   |            ^\n"
     "help: write `mean[embed](...)`\n"},
    {"no_model", HEAD "",
     "errors.pmodel:1:1: error[E0302]: errors.pmodel has no `model`\n"
     " 1 | pmodel 1\n"
     "   | ^\n"},
    {"syntax",
     HEAD "model m {\n"
          "  x = y +\n"
          "  z = (1\n"
          "  u = 1 2\n"
          "}\n",
     "errors.pmodel:6:5: error[E0101]: unexpected `=`, expected an operator or end of line\n"
     " 6 |   z = (1\n"
     "   |     ^\n"
     "errors.pmodel:7:9: error[E0101]: unexpected `2`, expected an operator or end of line\n"
     " 7 |   u = 1 2\n"
     "   |         ^\n"},
    {"train",
     HEAD "model m {\n"
          "  input tokens[batch, seq] in vocab\n"
          "  param w[vocab, embed] ~ normal(0.1)\n"
          "  x = w[vocab = tokens]\n"
          "  minimize mean[batch, seq, embed](x)\n"
          "}\n"
          "train { optimiser = adamw(); clip = 0 }\n",
     "errors.pmodel:10:9: error[E0303]: `train` has no setting `optimiser`\n"
     " 10 | train { optimiser = adamw(); clip = 0 }\n"
     "    |         ^^^^^^^^^\n"
     "help: did you mean `optimizer`?\n"
     "errors.pmodel:10:37: error[E0208]: `clip` is the largest gradient norm and must be above 0\n"
     " 10 | train { optimiser = adamw(); clip = 0 }\n"
     "    |                                     ^\n"},
    {"train_argument",
     HEAD "model m {\n"
          "  input tokens[batch, seq] in vocab\n"
          "  param w[vocab, embed] ~ normal(0.1)\n"
          "  x = w[vocab = tokens]\n"
          "  minimize mean[batch, seq, embed](x)\n"
          "}\n"
          "train { optimizer = adamw(decy=1); lr = warmup_cosine(peek=1) }\n",
     "errors.pmodel:10:27: error[E0205]: `adamw` has no argument `decy`\n"
     " 10 | train { optimizer = adamw(decy=1); lr = warmup_cosine(peek=1) }\n"
     "    |                           ^^^^\n"
     "help: did you mean `decay`?\n"
     "errors.pmodel:10:55: error[E0205]: `warmup_cosine` has no argument `peek`\n"
     " 10 | train { optimizer = adamw(decy=1); lr = warmup_cosine(peek=1) }\n"
     "    |                                                       ^^^^\n"
     "help: did you mean `peak`?\n"},
    {"idle_pattern",
     HEAD "model m {\n"
          "  input tokens[batch, seq] in vocab\n"
          "  param w[vocab, embed] ~ normal(0.1)\n"
          "  x = w[vocab = tokens]\n"
          "  minimize mean[batch, seq, embed](x)\n"
          "}\n"
          "train { optimizer = adamw(decay=1); lr = 1e-3; \"*.qq\": decay = 1 }\n",
     "errors.pmodel:10:48: warning[W0304]: `\"*.qq\"` matches no parameter\n"
     " 10 | train { optimizer = adamw(decay=1); lr = 1e-3; \"*.qq\": decay = 1 }\n"
     "    |                                                ^^^^^^\n"},
    {"policy",
     HEAD "model m {\n"
          "  input tokens[batch, seq] in vocab\n"
          "  param w[vocab, embed] ~ normal(0.1)\n"
          "  x = w[vocab = tokens]\n"
          "  minimize mean[batch, seq, embed](x)\n"
          "}\n"
          "policy { compute = bf61; store = f32; \"*.ww\": reduce = f32 }\n"
          "train { optimizer = sgd(); lr = 1e-3; loss_scale = 1000 }\n",
     "errors.pmodel:10:20: error[E0207]: `policy` takes `f32`, `bf16` or `f16`, not `bf61`\n"
     " 10 | policy { compute = bf61; store = f32; \"*.ww\": reduce = f32 }\n"
     "    |                    ^^^^\n"
     "help: did you mean `bf16`?\n"
     "errors.pmodel:10:26: error[E0303]: `policy` has no setting `store`\n"
     " 10 | policy { compute = bf61; store = f32; \"*.ww\": reduce = f32 }\n"
     "    |                          ^^^^^\n"
     "note: its settings are `compute`, `grad`, `param` and `reduce`\n"
     "errors.pmodel:10:39: warning[W0304]: `\"*.ww\"` matches no parameter\n"
     " 10 | policy { compute = bf61; store = f32; \"*.ww\": reduce = f32 }\n"
     "    |                                       ^^^^^^\n"
     "errors.pmodel:11:52: error[E0208]: `loss_scale` is a power of two, at least 1\n"
     " 11 | train { optimizer = sgd(); lr = 1e-3; loss_scale = 1000 }\n"
     "    |                                                    ^^^^\n"
     "note: the loss is multiplied by it and the gradients are divided by it, without rounding\n"},
    {"mesh_axis",
     HEAD "model m {\n"
          "  input tokens[batch, seq] in vocab\n"
          "  param w[vocab, embed] ~ normal(0.1)\n"
          "  x = w[vocab = tokens]\n"
          "  minimize mean[batch, seq, embed](x)\n"
          "}\n"
          "plan p {\n"
          "  mesh data=2\n"
          "  shard batch -> dta\n"
          "}\n",
     "errors.pmodel:12:18: error[E0402]: the mesh has no axis `dta`\n"
     " 12 |   shard batch -> dta\n"
     "    |                  ^^^\n"
     "help: did you mean `data`?\n"},
    {"role",
     HEAD "model m {\n"
          "  input tokens[batch, seq] in vocab\n"
          "  param w[vocab, embed] ~ normal(0.1)\n"
          "  x = w[vocab = tokens]\n"
          "  minimize mean[batch, seq, embed](x)\n"
          "}\n"
          "plan p {\n"
          "  mesh data=2\n"
          "  shard acts seq -> data\n"
          "}\n",
     "errors.pmodel:12:9: error[E0401]: unknown role `acts`\n"
     " 12 |   shard acts seq -> data\n"
     "    |         ^^^^\n"
     "help: did you mean `act`?\n"
     "note: roles are `param`, `state`, `act`, `grad` and `input`; several axes are separated by "
     "commas\n"},
    {"directive",
     HEAD "model m {\n"
          "  input tokens[batch, seq] in vocab\n"
          "  param w[vocab, embed] ~ normal(0.1)\n"
          "  x = w[vocab = tokens]\n"
          "  minimize mean[batch, seq, embed](x)\n"
          "}\n"
          "plan p {\n"
          "  zeroo(stage=1)\n"
          "}\n",
     "errors.pmodel:11:3: error[E0403]: unknown directive `zeroo`\n"
     " 11 |   zeroo(stage=1)\n"
     "    |   ^^^^^\n"
     "help: did you mean `zero`?\n"},
    {"plan_cycle",
     HEAD "model m {\n"
          "  input tokens[batch, seq] in vocab\n"
          "  param w[vocab, embed] ~ normal(0.1)\n"
          "  x = w[vocab = tokens]\n"
          "  minimize mean[batch, seq, embed](x)\n"
          "}\n"
          "plan a extends a { }\n",
     "errors.pmodel:10:16: error[E0401]: plan `a` extends itself\n"
     " 10 | plan a extends a { }\n"
     "    |                ^\n"},
    {"import_escape",
     HEAD "import \"../x\"\n"
          "model m {\n"
          "  input tokens[batch, seq] in vocab\n"
          "  param w[vocab, embed] ~ normal(0.1)\n"
          "  x = w[vocab = tokens]\n"
          "  minimize mean[batch, seq, embed](x)\n"
          "}\n",
     "errors.pmodel:4:8: error[E0501]: cannot import \"../x\"\n"
     " 4 | import \"../x\"\n"
     "   |        ^^^^^^\n"
     "note: imports are \"std\" or relative paths downwards, without `.` and `..`\n"},
    {"rank_limit",
     HEAD "axis r0 = 1, r1 = 1, r2 = 1, r3 = 1, r4 = 1, r5 = 1, r6 = 1, r7 = 1, r8 = 1, r9 = 1, r10 = 1, "
          "r11 = 1, r12 = 1\n"
          "model m {\n"
          "  param w[r0, r1, r2, r3, r4, r5, r6, r7, r8, r9, r10, r11, r12] ~ zeros\n"
          "  minimize 1\n"
          "}\n",
     "errors.pmodel:6:61: error[E0103]: a tensor has at most 12 axes\n"
     " 6 |   param w[r0, r1, r2, r3, r4, r5, r6, r7, r8, r9, r10, r11, r12] ~ zeros\n"
     "   |                                                             ^^^\n"},
};

static void messages(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Compiled c;
    compile(&c, "errors.pmodel", cases[i].text, NULL);
    if (strcmp(c.text, cases[i].expected) != 0) {
      fail_msg("%s: expected\n%s\nbut got\n%s", cases[i].name, cases[i].expected, c.text);
    }
    compiled_free(&c);
  }
}

static void write_file(const char *path, const char *text) {
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fputs(text, f);
  fclose(f);
}

static void import_cycle(void **state) {
  (void)state;
  write_file("cycle_b.pmodel", "import \"cycle_a\"\n");
  Compiled c;
  compile(&c, "cycle_a.pmodel", "import \"cycle_b\"\nmodel m {\n  minimize 1\n}\n", NULL);
  assert_string_equal(c.text,
                      "cycle_b.pmodel:1:8: error[E0502]: cycle_a.pmodel imports itself\n"
                      " 1 | import \"cycle_a\"\n"
                      "   |        ^^^^^^^^^\n"
                      "note: through cycle_b.pmodel\n");
  compiled_free(&c);
}

static void imports_expose_functions_only(void **state) {
  (void)state;
  write_file("lib.pmodel", "axis hidden = 3\nfn twice(x) = 2 * x\n");
  Compiled c;
  compile(&c, "user.pmodel", "import \"lib\"\naxis a = hidden\nmodel m {\n  minimize twice(1)\n}\n", NULL);
  assert_non_null(strstr(c.text, "error[E0201]: unknown name `hidden`"));
  compiled_free(&c);
  compile(&c, "user.pmodel", "import \"lib\"\nmodel m {\n  minimize twice(1)\n}\n", NULL);
  assert_string_equal(c.text, "");
  compiled_free(&c);
}

static void missing_file_is_a_status(void **state) {
  (void)state;
  Compiled c;
  compile(&c, "no_such_file.pmodel", NULL, NULL);
  assert_int_equal(c.code, PM_ERR_ENVIRONMENT);
  compiled_free(&c);
}

// Programs that expand without end stop at a limit, soon.
static void expansion_is_limited(void **state) {
  (void)state;
  PmBuf text;
  pm_buf_init(&text);
  pm_buf_puts(&text, "axis a = 2\nblock b0(x) {\n  param w[a] ~ ones\n  return x * w\n}\nfn f0(x) = x + x\n");
  for (int i = 1; i < 60; i++) {
    pm_buf_printf(&text, "block b%d(x) {\n  sub p, q = b%d\n  return p(q(x))\n}\n", i, i - 1);
    pm_buf_printf(&text, "fn f%d(x) = f%d(x) + f%d(x)\n", i, i - 1, i - 1);
  }
  size_t common = text.len;
  static const char *const models[] = {"model m {\n  param x[a] ~ ones\n  sub z = b59\n  minimize sum[a](z(x))\n}\n",
                                       "model m {\n  minimize f59(1)\n}\n"};
  for (int i = 0; i < 2; i++) {
    text.len = common;
    pm_buf_puts(&text, models[i]);
    Compiled c;
    compile(&c, "expand.pmodel", pm_buf_str(&text), NULL);
    assert_non_null(strstr(c.text, "error[E0103]"));
    compiled_free(&c);
  }
  pm_buf_deinit(&text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(messages),
      cmocka_unit_test(import_cycle),
      cmocka_unit_test(imports_expose_functions_only),
      cmocka_unit_test(missing_file_is_a_status),
      cmocka_unit_test(expansion_is_limited),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
