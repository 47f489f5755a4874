# No micro-batch is dropped, counted twice, or reduced by itself: the gradient norm is that of the step in one part, and
# each gradient is reduced once a step.
. "$(dirname "$0")/lib.sh"
steps=1 sizes=(--set batch=8 --set seq=4 --set vocab=16 --set embed=16 --set layer=2)

for model in gpt_tiny llama_tiny; do
  norm=
  for micro in 1 4; do
    for plan in 'mesh d=1' 'mesh d=2' 'mesh d=2; zero(stage=1, over=d)' 'mesh d=2; zero(stage=3, over=d)'; do
      equal "$EXAMPLES/$model.pmodel" "$plan; shard batch -> d; accumulate(micro=$micro)" "${sizes[@]}"
      norm=${norm:-$(of grad_norm)}
      awk -v a="$norm" -v b="$(of grad_norm)" 'BEGIN { exit !(a > 0 && b / a - 1 < 1e-5 && a / b - 1 < 1e-5) }' ||
        complain "$model, $plan, $micro parts: the norm is $(of grad_norm), in one part $norm"
    done
  done
done
for micro in 1 4; do
  on "mesh d=2; shard batch -> d; accumulate(micro=$micro)"
  expect 0 show comm "$EXAMPLES/gpt_tiny.pmodel" --plan plan.pplan "${sizes[@]}"
  grep '^a step' out >parts$micro
done
cmp -s parts1 parts4 || complain "four parts send more than one: $(cat parts1 parts4)"
done_testing
