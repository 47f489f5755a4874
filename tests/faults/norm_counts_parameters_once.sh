# The norm of all gradients is 17 exactly: parameters that are split, whole on every rank, tied, in a repeat or padded
# count once. So clipping to 8.5 halves the update.
. "$(dirname "$0")/lib.sh"

cat >m.pmodel <<'TXT'
pmodel 1
import "std"
axis batch = 4, a = 6, b = 8, c = 9, layer = 2
model m {
  input rows[batch, a]: f32
  param tied[a, b], whole[c] ~ normal(1.0)
  ones = rows * 0.0 + 1.0
  y = 0.0
  repeat layer {
    param u[b] ~ normal(1.0)
    y += sum[b](u)
  }
  # gradients: 1 + 1 for each of 48, 3 for each of 9, 1 for each of 16
  minimize mean[batch](sum[b](dot[a](ones, tied))) + sum[a, b](tied) + 3 * sum[c](whole) + y
}
train { optimizer = sgd(); lr = 1.0; clip = 8.5 }
TXT
for plan in 'mesh data=1' 'mesh data=2; shard batch -> data' 'mesh t=2; shard a -> t' 'mesh t=4; shard b -> t' 'mesh t=3; shard c, a -> t' \
  'mesh t=4; shard a, c -> t; pad(a, c)' 'mesh data=2, t=2; shard batch -> data; shard b -> t' 'mesh data=8; shard batch -> data; pad(batch)' \
  'mesh data=2; shard batch -> data; zero(stage=1, over=data)' 'mesh data=4; shard batch -> data; zero(stage=2, over=data)' \
  'mesh data=4; shard batch -> data; zero(stage=3, over=data)' \
  'mesh data=2, t=4; shard batch -> data; shard b, c -> t; pad(c); zero(stage=3, over=data)'; do
  equal m.pmodel "$plan"
  [ "$(of grad_norm)" = 17 ] || complain "$plan: the norm is $(of grad_norm)"
  awk '/"what": "updated parameter"/ { on = 1 } on && /"error":/ { gsub(/.*: |,/, ""); exit !($0 <= 1e-6) }' out ||
    complain "$plan: the clipped update is another"
done
done_testing
