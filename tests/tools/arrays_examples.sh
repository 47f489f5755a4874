# The examples that read arrays: they train, with the same rows and so the same losses on every plan, agree with the
# reference, and refuse arrays that do not fit with the file, the row and the value.
. "$(dirname "$0")/lib.sh"
bash "$(dirname "$0")/arrays.sh"

losses() {
  grep '"event":"step"' "$1" | sed -E 's/.*"loss":([-+.e0-9]+).*/\1/'
}

# falls FILE FACTOR: the mean of the last 20 losses is below that part of the first.
falls() {
  awk -v factor="$2" '{ l[NR] = $1 } END {
    for (i = NR - 19; i <= NR; i++) sum += l[i]
    print "first", l[1], "last", sum / 20
    exit !(NR >= 100 && sum / 20 < factor * l[1]) }' "$1" >mean || complain "$1: $(cat mean)"
}

for model in autoencoder classifier; do
  expect 0 train "$EXAMPLES/$model.pmodel" --json
  losses out >$model
  for plan in dp2 tp2 zero2; do
    expect 0 train "$EXAMPLES/$model.pmodel" --plan $plan --steps 30 --set train.lr=1e-3 --json
    losses out >$plan
    expect 0 verify "$EXAMPLES/$model.pmodel" --plan $plan --against=reference --json
    says out '^  "ok": true'
  done
  expect 0 train "$EXAMPLES/$model.pmodel" --steps 30 --set train.lr=1e-3 --json
  losses out >one
  for plan in dp2 tp2 zero2; do
    paste one $plan | awk '{ d = ($1 - $2) / $1; if (d < 0) d = -d; if (d > worst) worst = d; n++ }
      END { print "worst", worst; exit !(n == 30 && worst <= 1e-4) }' >worst || complain "$model $plan: $(cat worst)"
  done
done
falls autoencoder 0.1
falls classifier 0.75

expect 0 train "$EXAMPLES/classifier.pmodel" --steps 1
says out '^1 steps of 32 rows$'
expect 1 train "$EXAMPLES/classifier.pmodel" --set class=3 --steps 100
says err 'classes.npy: row [0-9]+ holds 3, but `classes` indexes an axis of 3'
expect 1 train "$EXAMPLES/classifier.pmodel" --set seq=16
says err 'bytes.npy: `bytes` takes rows of shape \[N, seq=16\], the array has \[752, 32\]'
expect 1 train "$EXAMPLES/classifier.pmodel" --data bytes.npy
says err '`--data` replaces the files of one input, and 2 are fed here'
expect 1 train "$EXAMPLES/autoencoder.pmodel" --data bytes.npy
says err 'bytes.npy: `rows` takes rows of shape \[N, feature=24\]'
expect 3 train "$EXAMPLES/autoencoder.pmodel" --data none.npy
says err 'no data file `none.npy`'
expect 1 train "$EXAMPLES/autoencoder.pmodel" --data "$EXAMPLES/autoencoder.pmodel"
says err 'not a .npy file'
done_testing
