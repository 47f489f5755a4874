# A function that drops is written out where it is called: what it drops is what its text would drop there, in a model, a
# block and a repeat, through another function, on every plan.
. "$(dirname "$0")/lib.sh"

# program FUNCTIONS CALL: a model whose draws are CALL(value).
program() {
  cat <<END
pmodel 1
axis batch = 4, seq = 4, vocab = 256, embed = 8, layer = 3
$1
block mlp(x) {
  param w[embed, vocab], v[vocab, embed] ~ normal(0.1)
  return $2(dot[vocab](tanh($2(dot[embed](x, w))), v))
}
model m {
  input tokens[batch, seq] in vocab
  input targets[batch, seq] in vocab
  param table[vocab, embed], head[embed, vocab] ~ normal(0.1)
  x = $2(table[vocab = tokens])
  repeat layer {
    sub ffn = mlp
    x += ffn(x)
  }
  logits = dot[embed](x, head)
  minimize mean[batch, seq](log(sum[vocab](exp(logits))) - logits[vocab = targets])
}
optimizer sgd() {
  value = value - lr * grad
}
train {
  optimizer = sgd(); lr = 1e-2; steps = 5
  data = tokens("/usr/share/common-licenses/GPL-3", format="bytes", x=tokens, y=targets)
}
plan cut { mesh data=2, tensor=2
  shard batch -> data
  shard embed -> tensor
}
END
}

losses() {
  grep '"event":"step"' out | sed -E 's/.*"loss":([-+.e0-9]+).*/\1/'
}

program 'fn drop(x) = dropout(x, 0.3)' drop >short.pmodel
program 'fn inner[e](x) {
  a = dropout(x, 0.3)
  m = 0 * sum[e](a)
  return a + m
}
fn drop(x) = inner[batch](x)' drop >long.pmodel
sed -E 's/drop\((table\[vocab = tokens\])\)/dropout(\1, 0.3)/; s/drop\(dot\[vocab\]\(tanh\(drop\((dot\[embed\]\(x, w\))\)\), v\)\)/dropout(dot[vocab](tanh(dropout(\1, 0.3)), v), 0.3)/' short.pmodel >plain.pmodel
[ "$(grep -c 'dropout(' plain.pmodel)" = 3 ] || complain "$(cat plain.pmodel)"
for program in plain short long; do
  expect 0 train $program.pmodel --json
  losses >$program
done
[ "$(wc -l <plain)" = 5 ] || complain "no losses: $(cat out)"
cmp plain short || complain "one function: $(paste plain short)"
cmp plain long || complain "a function in a function: $(paste plain long)"
for plan in "" cut; do
  expect 0 verify long.pmodel ${plan:+--plan $plan} --against=reference --steps 3 --json
  says out '^  "ok": true'
done
done_testing
