# Tensor parallelism comes out as 2 + 2 all-reduces a layer, data parallelism as one all-reduce a parameter.
. "$(dirname "$0")/lib.sh"

# tensor_parallel MODEL PLAN NAME LAYERS BYTES: what the bodies of the layer send, of BYTES each, from lines of the model.
tensor_parallel() {
  local file=$EXAMPLES/$1.pmodel plan=$2 name=$3 layers=$4 bytes=$5 body
  expect 0 show comm "$file" --plan "$plan"
  for body in fwd bwd; do
    says out "^$name.layer.$body, $layers runs a step, each: 2 all_reduce \\($bytes bytes\\)\$"
  done
  awk -v start="^$name.layer." '$0 ~ start { on = 1 } /^$/ { on = 0 } on && /^  all_reduce/' out >rows
  [ "$(wc -l <rows)" -eq 4 ] || complain "$1 $plan: $(wc -l <rows) rows in the bodies of the layer, expected 2 + 2"
  if grep -vqE "^  all_reduce sum +tensor .*$1.pmodel:[0-9]+:[0-9]+\$" rows; then
    complain "$1 $plan: a row is no sum over tensor, or names no place"$'\n'"$(cat rows)"
  fi
}

tensor_parallel gpt_tiny tp2 gpt_tiny 4 524,288
tensor_parallel gpt_tiny dp2_tp2 gpt_tiny 4 262,144
tensor_parallel llama_tiny tp2 llama_tiny 2 '[0-9,]+'
tensor_parallel gpt2 tp4 gpt2 12 1,509,949,440
tensor_parallel llama3_8b tp8 llama3 32 17,179,869,184

# 20 gradients in one bucket, the loss, and nothing in the bodies of the layer.
expect 0 show comm "$EXAMPLES/gpt_tiny.pmodel" --plan dp2
says out '^gpt_tiny.bwd: 1 all_reduce \(3,337,216 bytes\)$'
says out '  834,304  3,337,216 .*  d\(wte\) and 19 more  '
says out '^a step: 2 all_reduce \(3,337,220 bytes\)$'
if grep -q '^gpt_tiny.layer' out; then complain "data parallelism sends something in a layer"; fi

# Other buckets. Of the layers' weights w1 and w2 have 1 MiB each, wo and wq, wk, wv a quarter of that; all else together
# a little less than a quarter.
buckets() {
  printf 'mesh data=2\nshard batch -> data\nbucket(%s)\n' "$1" >buckets.pplan
  expect 0 show comm "$EXAMPLES/gpt_tiny.pmodel" --plan buckets.pplan
  says out "^gpt_tiny.bwd: $2 all_reduce \\(3,337,216 bytes\\)\$"
}
buckets '"1GiB"' 1
buckets '"1MiB"' 4
buckets '"512KiB"' 5
buckets '"1"' 20
buckets 0 20
expect 0 show plan "$EXAMPLES/gpt_tiny.pmodel" --plan buckets.pplan
says out '^bucket\(0\) '
expect 0 show comm "$EXAMPLES/gpt_tiny.pmodel" --plan dp2 --json
[ "$(grep -c '^ *"d(.*)",\?$' out)" -eq 20 ] || complain "a bucket does not name its values: $(cat out)"

# A run plan counts the same, without the rolled functions.
expect 0 compile "$EXAMPLES/gpt_tiny.pmodel" --plan dp2_tp2 -o x.prun
expect 0 show comm x.prun
grep '^a step' out >unrolled
expect 0 show comm "$EXAMPLES/gpt_tiny.pmodel" --plan dp2_tp2
grep '^a step' out >rolled
cmp unrolled rolled || complain "$(cat unrolled) but $(cat rolled)"
expect 0 show comm "$EXAMPLES/gpt_tiny.pmodel"
says out '^a step: nothing is sent$'
expect 0 show comm "$EXAMPLES/gpt_tiny.pmodel" --plan tp2 --json
says out '"op": "all_reduce"'
done_testing
