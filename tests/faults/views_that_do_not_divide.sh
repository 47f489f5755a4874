# A view of a split tensor whose parts do not fit the ranks works, or says which axis and which size.
. "$(dirname "$0")/lib.sh"

cat >m.pmodel <<'TXT'
pmodel 1
axis rows = 6, width = 256, half = 2, quarter = 4
model m {
  input x[rows, width]: f32
  param w[rows, width] ~ normal(1.0)
  y = x * w
  z = split[width -> quarter, inner](y, quarter=4)
  flat = merge[rows, width -> all](y)
  minimize mean[rows, quarter, inner](z ** 2) + mean[all](flat ** 3)
}
train { optimizer = sgd(); lr = 1e-2 }
optimizer sgd() {
  value = value - lr * grad
}
TXT
for plan in 'mesh m=4; shard width -> m' 'mesh m=3; shard rows -> m' 'mesh a=3, b=4; shard rows -> a; shard width -> b' \
  'mesh m=4; shard rows -> m; pad(rows)' 'mesh m=4; shard quarter -> m' 'mesh m=8; shard width -> m'; do
  equal m.pmodel "$plan"
done
on 'mesh m=4; shard rows -> m'
expect 1 check m.pmodel --plan plan.pplan
says err 'E0412.*`rows` \(6\) does not divide over `m` \(4\)'
says err 'help: m in \{1, 2, 3, 6\}'
on 'mesh m=3; shard width -> m; pad(width)'
expect 1 check m.pmodel --plan plan.pplan
says err 'E0413'
says err '`width`'
done_testing
