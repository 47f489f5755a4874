# Prefix sums, shifts and updates of a part along an axis that is split: the numbers of one rank, and no more is sent than
# what is needed.
. "$(dirname "$0")/lib.sh"

cat >m.pmodel <<'TXT'
pmodel 1
axis batch = 4, seq = 8, to = seq, rest = seq - 1, embed = 4
model m {
  input rows[batch, seq, embed]: f32
  param w[seq, embed], u[embed] ~ normal(1.0)
  x = rows * w
  sums = dot[seq](where(pos(seq) <= pos(to), 1.0, 0.0) * (1 + 0 * pos(seq)), x)
  shifted = x[seq = 1 : seq -> rest] - x[seq = 0 : seq - 1 -> rest]
  updated = where(pos(seq) == 3, u, x)
  minimize mean[batch, to, embed](sums ** 2) + mean[batch, rest, embed](shifted ** 2) + mean[batch, seq, embed](updated ** 3)
}
train { optimizer = sgd(); lr = 1e-2 }
optimizer sgd() {
  value = value - lr * grad
}
TXT
for plan in 'mesh s=8; shard seq -> s' 'mesh s=4; shard seq, to -> s' 'mesh s=2, t=2; shard seq -> s; shard to -> t' \
  'mesh s=3; shard seq, to -> s; pad(seq, to)' \
  'mesh d=2, s=2; shard batch -> d; shard embed -> s' 'mesh s=4; shard to -> s'; do
  equal m.pmodel "$plan"
done
# An update of one position is made by the rank that holds it.
sed 's/minimize .*/minimize mean[batch, seq, embed](updated ** 3)/' m.pmodel >update.pmodel
on 'mesh s=8; shard seq -> s'
expect 0 show comm update.pmodel --plan plan.pplan
if grep -E 'all_gather|all_to_all|permute' out; then complain "an update moves what it does not touch: $(cat out)"; fi
done_testing
