# Mean, variance, maximum, softmax, norms and choices along an axis that the ranks do not divide, down to ranks that hold
# nothing of it.
. "$(dirname "$0")/lib.sh"

cat >m.pmodel <<'TXT'
pmodel 1
import "std"
axis batch = 3, seq = 5, width = 7, best = 2
model m {
  input rows[batch, seq, width]: f32
  param w[width], v[seq, width] ~ normal(1.0)
  sub n = layernorm[width]
  sub r = rmsnorm[width]
  x = rows * w + v
  c = x - mean[seq](x)
  p = softmax[width](x) + softmax[seq](x)
  top, who = topk[width -> best](x)
  report highest = max[batch, seq, width](x)
  report lowest = min[seq, width](w + v)
  chosen = mean[batch, seq, best](top) + mean[batch, seq](max[width](x))
  minimize mean[batch, seq, width](n(x) * r(x) + p * p) + mean[batch, seq, width](c * c) + chosen
}
train { optimizer = adamw(); lr = 1e-2; clip = 1.0 }
TXT
for ranks in 2 4 8; do
  for axis in batch seq width; do equal m.pmodel "mesh m=$ranks; shard $axis -> m; pad($axis)"; done
done
equal m.pmodel 'mesh a=2, b=4; shard batch, seq -> a; shard width -> b; pad(batch, seq, width)'
equal m.pmodel 'mesh a=4, b=2; shard batch -> a + b; shard width -> a; pad(batch, width); zero(stage=3, over=b)'
done_testing
