# Slices and indices made of `pos`, also along axes that the plan splits: loss, gradients and updates are the reference's.
. "$(dirname "$0")/lib.sh"

cat >m.pmodel <<'END'
pmodel 1
axis batch = 4, seq = 8, vocab = 16, embed = 8, half = 4, rest = 5
fn pairs[d, h](x) = x[d = 2 * pos(h)] * x[d = 2 * pos(h) + 1]
model m {
  input tokens[batch, seq] in vocab
  param w[vocab, embed] ~ normal(0.5)
  x = w[vocab = tokens]
  first = x[seq = 0 : 3 -> few]
  last = x[seq = 3 : seq -> rest]
  back = x[seq = seq - 1 - pos(rest), embed = 0 : 1 -> one]
  corner = x[seq = 0 : 4, embed = 4 : 8 -> s, e]
  a = mean[batch, few, embed](first ** 2) + mean[batch, rest, embed](last ** 3)
  b = mean[batch, seq, half](pairs[embed, half](x)) + mean[batch, rest, one](back ** 2)
  minimize a + b + mean[batch, s, e](exp(corner))
}
train { optimizer = sgd(); lr = 1e-2 }
optimizer sgd() {
  value = value - lr * grad
}
plan rows { mesh data=2
  shard batch -> data
}
plan cut { mesh a=2, b=2
  shard seq, half -> a
  shard embed -> b
}
plan out { mesh a=2
  shard half, s -> a
}
END
for plan in "" rows cut out; do
  expect 0 verify m.pmodel ${plan:+--plan $plan} --against=reference --json
  says out '^  "ok": true'
done
done_testing
