# A parameter starts with the same bits on 1, 2, 4 and 8 ranks, whatever is split: the first loss tells of a single one
# that differs, as `verify` does.
. "$(dirname "$0")/lib.sh"
sizes=(--set batch=8 --set seq=4 --set vocab=24 --set embed=16 --set layer=2 --set heads=2)

for plan in 'mesh d=2; shard batch -> d; zero(stage=3, over=d)' 'mesh d=4; shard batch -> d; zero(stage=3, over=d)' \
  'mesh d=8; shard batch -> d; zero(stage=3, over=d)' 'mesh t=2; shard heads, ff, vocab -> t' 'mesh t=8; shard ff, vocab, embed -> t' \
  'mesh t=5; shard vocab, heads -> t; pad(vocab, heads)' 'mesh a=2, b=2; shard embed -> a; shard ff, vocab -> b + a'; do
  equal "$EXAMPLES/gpt_tiny.pmodel" "$plan" "${sizes[@]}"
  grep -A 3 '"initial value"' out | grep -q '"bound": 0,' || complain "initial values need not be equal: $(head -n 20 out)"
done
done_testing
