# The tiny models in bf16 and f16 are the reference's on every plan, within the bounds of the format; a step that
# overflows changes nothing, on any of them.
. "$(dirname "$0")/lib.sh"

# mixed MODEL DTYPE: the example with a policy, in MODEL_DTYPE.pmodel.
mixed() {
  sed "/^train/i policy { param = f32; compute = $2; reduce = f32 }" "$EXAMPLES/$1.pmodel" >"$1_$2.pmodel"
}

for dtype in bf16 f16; do
  for model in gpt_tiny llama_tiny; do
    mixed $model $dtype
    for plan in "" dp2 tp2 dp2_tp2; do
      expect 0 verify ${model}_$dtype.pmodel ${plan:+--plan $plan} --set axis.batch=4 --steps 1 --against=reference --json
      says out '^  "ok": true'
      [ "$(grep -c '"ok": true' out)" -eq 11 ] || complain "$model $dtype $plan: nine kinds, memory and all: $(cat out)"
    done
  done
done

for plan in "" dp2_tp2; do
  expect 0 verify llama_tiny_f16.pmodel ${plan:+--plan $plan} --set train.loss_scale=2**40 --steps 2 --against=reference
  says out '^ +updated parameter +24 +0\.00e\+00 '
  says out '^ +updated state +54 +0\.00e\+00 '
done
# Whether a step near overflow overflows hangs on the plan; what is compared does not.
cat >near.pmodel <<'END'
pmodel 1
import "std"
axis batch = 6, seq = 5, vocab = 256
axis layer = 2, inner = 3, embed = 6, ff = 9, expert = 3, choice = 3, slot = ragged
block moe(x) {
  param wr[embed, expert] ~ normal(0.5)
  param w1[expert, embed, ff], w2[expert, ff, embed] ~ normal(0.2)
  state bias[expert] ~ zeros
  p = softmax[expert](f32(dot[embed](x, wr)))
  who0, who = topk[expert -> choice](p + bias)
  w = p[expert = who]
  h = dispatch[expert, slot](x, who)
  h = dot[ff](gelu(dot[embed](h, w1)), w2)
  load = mean[batch, seq, choice](onehot[expert](who))
  bias += 0.01 * sign(1 / expert - load)
  aux = expert * sum[expert](load * mean[batch.micro, seq](p))
  return sum[choice](combine[slot](h, who) * w), aux
}
model m {
  input tokens[batch, seq] in vocab
  input targets[batch, seq] in vocab
  param tok[vocab, embed], mix[embed, ff], sc[embed] ~ normal(0.5)
  state cnt ~ zeros
  cnt += 1
  x = tok[vocab = tokens]
  aux = 0.0
  repeat layer {
    sub f = moe
    param g[embed] ~ ones
    repeat inner {
      sub f2 = moe
      param r[embed] ~ normal(0.1)
      state q[embed] ~ zeros
      q = 0.9 * q + 0.1 * mean[batch, seq](x)
      y, a = f2(x * g - q)
      x += y * sc
      aux += a
      x += dot[ff](dot[embed](x, mix), mix) * r
    }
    y, a = f(x)
    aux += a
    x += y
  }
  logits = dot[embed](x, tok)
  report aux = aux
  minimize mean[batch, seq](xent[vocab](logits, targets)) + 0.01 * aux
}
train { optimizer = adamw(); lr = 1e-3; seed = 3 }
policy { compute = f16; "*.wr": compute = f32 }
plan z3 {
  mesh data=2, tensor=3
  shard batch -> data
  shard ff -> tensor
  zero(stage=3, over=data)
}
END
expect 0 verify near.pmodel --plan z3 --against=reference
# ZeRO: what is gathered is in the compute type, what is summed in the gradient's.
zero() {
  for stage in 1 2 3; do
    printf 'plan z%s {\n  mesh data=2\n  shard batch -> data\n  zero(stage=%s, over=data)\n}\n' $stage $stage
  done
}
for dtype in bf16 f16; do
  { cat llama_tiny_$dtype.pmodel && zero; } >zero_$dtype.pmodel
  for plan in z1 z2 z3; do
    expect 0 verify zero_$dtype.pmodel --plan $plan --steps 2 --against=reference
    says out '^  working copy +[0-9]+ +0\.00e\+00 +equal '
  done
done
cp zero_bf16.pmodel zero.pmodel
# A parameter that is read both as it is stored and in bf16 stays one variable; beside it some are split.
cat >uses.pmodel <<'END'
pmodel 1
import "std"
axis batch = 4, seq = 3, vocab = 256, layer = 2, embed = 8, ff = 12
block mlp(x) {
  param w1[embed, ff], w2[ff, embed] ~ normal(0.5)
  param nb[embed] ~ zeros
  return dot[ff](tanh(dot[embed](x, w1)), w2) + nb
}
block scaled(x, w) {
  param s[embed] ~ uniform(0.7)
  return x * w * s
}
model m {
  input tokens[batch, seq] in vocab
  input targets[batch, seq] in vocab
  param table[vocab, embed] ~ normal(0.5)
  param mix[embed] ~ ones
  x = table[vocab = tokens]
  repeat layer {
    sub f = mlp
    x += f(x)
  }
  sub g = scaled
  y = g(x, mix) * mix
  logits = dot[embed](y, table)
  minimize mean[batch, seq](xent[vocab](logits, targets))
}
policy { compute = bf16; "mix": compute = f32; "*.nb": compute = f32; "g": compute = bf16 }
train { optimizer = adamw(); lr = 1e-2; clip = 0.1 }
END
zero >>uses.pmodel
for plan in "" z1 z2 z3; do
  expect 0 verify uses.pmodel ${plan:+--plan $plan} --against=reference
  says out '^  working copy +12 +0\.00e\+00 +equal '
done
expect 0 show comm zero.pmodel --plan z3
if grep -qE '^  all_gather .* f32' out; then complain "a gather in f32: $(cat out)"; fi
if grep -qE '^  (reduce_scatter|all_reduce) .* bf16' out; then complain "a sum of gradients in bf16: $(cat out)"; fi
# Storage itself in bf16.
sed "/^train/i policy { param = bf16; compute = bf16 }" "$EXAMPLES/llama_tiny.pmodel" >stored.pmodel
expect 0 verify stored.pmodel --plan dp2_tp2 --steps 1 --against=reference
done_testing
