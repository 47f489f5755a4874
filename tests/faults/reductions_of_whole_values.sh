# A sum of what every rank holds is computed by every rank and sends nothing; a rule splits it, and then one number is all
# that is sent for it, beside that of the norm.
. "$(dirname "$0")/lib.sh"

cat >m.pmodel <<'TXT'
pmodel 1
axis wide = 64, other = 4
model m {
  param w[wide], v[other] ~ normal(1.0)
  minimize sum[wide](w ** 2) + sum[other](v)
}
train { optimizer = sgd(); lr = 1e-2 }
optimizer sgd() {
  value = value - lr * grad
}
TXT
equal m.pmodel 'mesh t=4; shard other -> t'
expect 0 show sharding m.pmodel --plan plan.pplan
says out '^  w +param +f32\[wide:64\]'
expect 0 show comm m.pmodel --plan plan.pplan
says out '^a step: 2 all_reduce \(8 bytes\)$'
equal m.pmodel 'mesh t=4; shard wide -> t; shard other -> none'
expect 0 show comm m.pmodel --plan plan.pplan
says out '^a step: 2 all_reduce \(8 bytes\)$'
says out 'm.pmodel:5:'
equal m.pmodel 'mesh t=4; shard wide, other -> t'
expect 0 show comm m.pmodel --plan plan.pplan
says out '^a step: 2 all_reduce \(8 bytes\)$'
done_testing
