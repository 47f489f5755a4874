# Attention whose values have a size of their own, and a loss with several targets for one prediction.
. "$(dirname "$0")/lib.sh"

cat >m.pmodel <<'END'
pmodel 1
import "std"
axis batch = 4, seq = 4, vocab = 16, embed = 6, hd = 4, vd = 6, kv = seq, ahead = 2
model m {
  input tokens[batch, seq] in vocab
  input targets[batch, seq, ahead] in vocab
  param tok[vocab, embed], q[embed, hd], k[embed, hd], v[embed, vd], o[vd, embed] ~ normal(0.5)
  x = tok[vocab = tokens]
  x += dot[vd](causal_attention[seq, kv, hd](dot[embed](x, q), dot[embed](x, k), dot[embed](x, v)), o)
  minimize mean[batch, seq, ahead](xent[vocab](dot[embed](x, tok), targets))
}
train { optimizer = adamw(); lr = 1e-3 }
plan zero { mesh data=4
  shard batch -> data
  zero(stage=3, over=data)
}
plan split { mesh a=2, b=2
  shard seq, vd -> a
  shard vocab -> b
}
END
{ cat m.pmodel; echo 'policy { compute = bf16 }'; } >narrow.pmodel
for model in m narrow; do
  for plan in "" zero split; do
    expect 0 verify $model.pmodel ${plan:+--plan $plan} --against=reference
  done
done

# Inputs of 16 bits hold what their type holds, for the reference as for the plan.
for dtype in f16 bf16; do
  cat >inputs.pmodel <<END
pmodel 1
import "std"
axis batch = 4, a = 3
model m {
  input x[batch, a]: $dtype
  param w[a] ~ ones
  minimize mean[batch, a](f32(x) * w)
}
train { optimizer = adamw(); lr = 1e-2 }
END
  expect 0 verify inputs.pmodel --steps 1
done
done_testing
