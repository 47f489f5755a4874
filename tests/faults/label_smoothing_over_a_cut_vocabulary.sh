# Label smoothing spreads over the whole vocabulary, not over a rank's part of it; nor is padding counted.
. "$(dirname "$0")/lib.sh"

cat >m.pmodel <<'TXT'
pmodel 1
import "std"
axis batch = 4, seq = 4, vocab = 257, embed = 8
model m {
  input tokens[batch, seq] in vocab
  input targets[batch, seq] in vocab
  param table[vocab, embed] ~ normal(0.5)
  param head[embed, vocab] ~ normal(0.5)
  logits = dot[embed](table[vocab = tokens], head)
  minimize mean[batch, seq](xent[vocab](logits, targets, smoothing=0.2, z_loss=0.01))
}
train {
  optimizer = adamw(); lr = 1e-3; seed = 2
  data = tokens("m.pmodel", format="bytes", x=tokens, y=targets)
}
TXT
plans=('mesh tensor=2; shard vocab -> tensor; pad(vocab)' 'mesh data=2, tensor=3; shard batch -> data; shard vocab -> tensor; pad(vocab)'
  'mesh tensor=4; shard vocab -> tensor; shard act seq -> tensor; pad(vocab)')
for plan in "${plans[@]}"; do equal m.pmodel "$plan"; done

# Equal logits: log 257 and its square, whatever is smoothed.
sed 's/head\[embed, vocab\] ~ normal(0.5)/head[embed, vocab] ~ zeros/' m.pmodel >flat.pmodel
for plan in 'mesh one=1' "${plans[@]}"; do
  losses flat.pmodel "$plan" --steps 1
  awk '{ want = log(257) * (1 + 0.01 * log(257)); d = $1 / want - 1; exit !(d < 1e-6 && d > -1e-6) }' losses ||
    complain "$plan: the loss is $(cat losses)"
done
done_testing
