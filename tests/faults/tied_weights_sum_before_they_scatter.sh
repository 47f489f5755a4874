# The uses of a tied weight are added before anything is reduced or scattered: one reduction, and the gradient of one rank.
. "$(dirname "$0")/lib.sh"
gpt=$EXAMPLES/gpt_tiny.pmodel
sizes=(--set batch=4 --set seq=8 --set embed=16 --set layer=2 --set vocab=32)

for plan in 'mesh d=2; shard batch -> d; zero(stage=1, over=d)' 'mesh d=4; shard batch -> d; zero(stage=2, over=d)' \
  'mesh d=4; shard batch -> d; zero(stage=3, over=d)' 'mesh t=2; shard vocab -> t' \
  'mesh d=2, t=2; shard batch -> d; shard heads, ff, vocab -> t; shard act seq -> t; zero(stage=2, over=d)'; do
  equal "$gpt" "$plan" "${sizes[@]}"
done
on 'mesh d=4; shard batch -> d; zero(stage=1, over=d)'
expect 0 show comm "$gpt" --plan plan.pplan "${sizes[@]}"
grep -E '^  reduce_scatter .*vocab:32' out >rows || true
[ "$(wc -l <rows)" -eq 1 ] || complain "the table's gradient is not reduced once: $(cat out)"
done_testing
