# The loss that balances experts, its gradient, and the bias that stands in its place have the size that they have on one
# rank: on data, tensor, sequence and expert parallel plans.
. "$(dirname "$0")/lib.sh"
steps=1 sizes=(--set batch=4 --set seq=4 --set vocab=16 --set embed=8 --set ff=8 --set hdim=4 --set layer=2)

# Heavy enough that a factor of two in its gradient is no rounding of the loss's.
sed 's/aux_weight = 0.02/aux_weight = 10.0/' "$EXAMPLES/mixtral_tiny.pmodel" >heavy.pmodel
grep -q 'aux_weight = 10.0' heavy.pmodel || complain 'the weight is not set'
for file in heavy.pmodel "$EXAMPLES/deepseek_moe_tiny.pmodel"; do
  one=
  for plan in 'mesh d=1' 'mesh d=2; shard batch -> d' 'mesh d=4; shard batch -> d' 'mesh t=2; shard kvheads, ff -> t; shard act seq -> t' \
    'mesh d=2, t=2; shard batch -> d; shard act seq -> t' 'mesh e=2; shard expert -> e' 'mesh e=4; shard batch, expert -> e' \
    'mesh d=2, e=2; shard batch -> d + e; shard expert in "*.wr" -> none; shard param expert -> e'; do
    equal "$file" "$plan" "${sizes[@]}"
    one=${one:-$(of loss)}
    awk -v a="$one" -v b="$(of loss)" 'BEGIN { exit !(a > 0 && b / a - 1 < 1e-5 && a / b - 1 < 1e-5) }' ||
      complain "$file, $plan: the loss is $(of loss), on one rank $one"
  done
done
done_testing
