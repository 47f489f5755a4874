# Micro-batches from the command line: the numbers of a run do not depend on how many there are, the step has one
# reduction of a gradient whatever their number, and settings, samples and metrics know them.
. "$(dirname "$0")/lib.sh"
model=$EXAMPLES/mlp_dropout.pmodel

plan() { # NAME ITEM...
  local name=$1
  shift
  printf '%s\n' "$@" >"$name.pplan"
}
losses() { sed -nE 's/.*"event": ?"step".*"loss": ?([-+.e0-9]+).*/\1/p' out; }
# near A B: equal but for rounding, line by line.
near() { paste "$1" "$2" | awk '{ e = $1 - $2; if (e < 0) e = -e; if (NF != 2 || e > 1e-5 * $1) bad = 1 } END { exit bad || NR == 0 }'; }

plan dp2 'mesh data=2' 'shard batch -> data'
plan dp2_m2 'mesh data=2' 'shard batch -> data' 'accumulate(micro=2)'
plan zero2_m2 'mesh data=2' 'shard batch -> data' 'accumulate(micro=2)' 'zero(stage=2, over=data)'
expect 0 train "$model" --steps 5 --json
losses >want
for p in dp2_m2 zero2_m2; do
  expect 0 train "$model" --steps 5 --json --plan $p.pplan
  losses >got
  near want got || complain "$p: other losses: $(paste want got)"
done
expect 0 verify "$model" --plan zero2_m2.pplan --json --steps 1
says out '^  "ok": true'

for p in dp2 dp2_m2; do
  expect 0 show comm "$model" --plan $p.pplan
  says out '^a step: 2 all_reduce \(114,692 bytes\)$'
done
expect 0 show plan "$model" --plan dp2_m2.pplan
says out '^accumulate\(micro=2\) +# dp2_m2.pplan:3:1$'

# The number of rows may be set; what no longer divides is an error with the numbers that would.
expect 0 train "$model" --steps 1 --plan dp2_m2.pplan --set batch=12
expect 1 check "$model" --plan dp2_m2.pplan --set batch=9
says err 'E0414.*`batch` \(9\) does not divide into 2 micro-batches'
says err 'micro in \{1, 3, 9\}'
expect 1 check "$model" --plan dp2_m2.pplan --set batch=6
says err 'E0412.*`batch.micro` \(3\) does not divide over `data` \(2\)'
says err 'with N in \{1, 3\}'

# A report in a repeat is a list with a number for each turn, under a key that does not depend on the plan.
cat >reports.pmodel <<'MODEL'
pmodel 1
import "std"
axis batch = 8, seq = 8, vocab = 256, embed = 8, layer = 3
block mlp(x) {
  param w[embed] ~ ones
  y = tanh(x * w)
  report size = mean[batch, seq, embed](y * y) ** 0.5
  return y
}
model m {
  input tokens[batch, seq] in vocab
  input targets[batch, seq] in vocab
  param table[vocab, embed] ~ normal(0.5)
  x = table[vocab = tokens]
  repeat layer {
    sub ffn = mlp
    report before = mean[batch, seq, embed](x)
    x += ffn(x)
  }
  logits = dot[embed](x, table)
  nll = mean[batch, seq](xent[vocab](logits, targets))
  report ppl = exp(nll)
  minimize nll
}
train {
  optimizer = sgd()
  lr = 0.1
  data = tokens("/usr/share/common-licenses/GPL-3", format="bytes", x=tokens, y=targets)
}
MODEL
for p in dp2 dp2_m2; do
  expect 0 train reports.pmodel --steps 2 --json --plan $p.pplan --sample 3
  says out '"layer\.ffn\.size":\[[0-9.e+-]+,[0-9.e+-]+,[0-9.e+-]+\]'
  says out '"layer\.before":\[[^]]*\]'
  says out '"ppl":[0-9]'
  says out '"event":"sample"'
  sed -nE 's/.*"layer.ffn.size":\[([^,]*),([^,]*),([^]]*)\].*/\1\n\2\n\3/p' out >"$p.sizes"
done
# The keys of a step, in order.
keys() { grep -m 1 '"event":"step"' out | sed -E 's/:(\[[^]]*\]|[^,}]*)/\n/g'; }
sed -i 's/^  minimize nll$/  report late = nll ** 2\n  report early = mean[batch, seq, embed](x * x)\n&/' reports.pmodel
expect 0 train reports.pmodel --steps 1 --json --plan dp2.pplan
keys >dp2.keys
[ "$(grep -c 'ppl\|late\|early\|size' dp2.keys)" -eq 4 ] || complain "the step has other keys: $(cat dp2.keys)"
cp out dp2.out
expect 0 train reports.pmodel --steps 1 --json --plan dp2_m2.pplan
keys | diff dp2.keys - || complain "the order of the reports depends on the number of micro-batches"
grep -m 1 -o '"early":[^,}]*' dp2.out | grep -o '[-0-9.e]*$' >one
grep -m 1 -o '"early":[^,}]*' out | grep -o '[-0-9.e]*$' >two
near one two || complain "another report: $(cat one two)"
near dp2.sizes dp2_m2.sizes || complain "other reports: $(paste dp2.sizes dp2_m2.sizes)"
done_testing
