# A row of attention that may look at nothing gives 0 and gradients of 0, on every rank that holds a part of it, be what
# hides minus infinity or a large number.
. "$(dirname "$0")/lib.sh"

cat >m.pmodel <<'TXT'
pmodel 1
import "std"
axis batch = 4, seq = 8, kv = seq, vocab = 16, embed = 8
const hidden_by = -inf
model m {
  input tokens[batch, seq] in vocab
  param table[vocab, embed], wq[embed], wk[embed] ~ normal(1.0)
  x = table[vocab = tokens]
  k = rename[seq -> kv](x)
  # causal, and small tokens are padding: the first rows of many sequences see no key at all
  seen = rename[seq -> kv](where(tokens >= 10, 1.0, 0.0))
  scores = where(seen > 0, dot[embed](x * wq, k * wk), hidden_by)
  p = softmax[kv](where(pos(seq) >= pos(kv), scores, hidden_by))
  report blind = sum[batch, seq](where(sum[kv](p) == 0, 1.0, 0.0))
  minimize mean[batch, seq, embed](dot[kv](p, k) ** 2)
}
train { optimizer = adamw(); lr = 1e-2; clip = 1.0 }
TXT
for plan in 'mesh d=1' 'mesh d=2; shard batch -> d' 'mesh s=4; shard seq -> s' 'mesh s=4; shard kv -> s' \
  'mesh s=3; shard seq, kv -> s; pad(seq, kv)' \
  'mesh s=2, k=4; shard seq -> s; shard kv -> k' 'mesh e=2; shard embed -> e'; do
  equal m.pmodel "$plan"
done
sed 's/= -inf/= -3.4e38/' m.pmodel >large.pmodel
for plan in 'mesh d=2; shard batch -> d' 'mesh s=4; shard kv -> s' 'mesh s=3; shard seq, kv -> s; pad(seq, kv)'; do
  equal large.pmodel "$plan"
done
done_testing
