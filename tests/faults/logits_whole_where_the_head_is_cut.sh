# A loss of logits that were gathered is the loss of logits that stay cut: no factor, no logarithm, of the number of ranks.
. "$(dirname "$0")/lib.sh"
sizes=(--set batch=4 --set seq=8 --set embed=16 --set layer=1 --set vocab=32)

for model in gpt_tiny llama_tiny; do
  for tensor in 2 4; do
    for logits in '[batch]' '[batch, vocab/tensor]' '[seq/tensor]'; do
      equal "$EXAMPLES/$model.pmodel" "mesh tensor=$tensor; shard vocab -> tensor; pin(\"logits\", $logits)" "${sizes[@]}"
    done
  done
done
expect 0 show sharding "$EXAMPLES/gpt_tiny.pmodel" "${sizes[@]}" --plan plan.pplan --value logits
says out '^logits  act  f32\[batch:4, seq:8/tensor, vocab:32\]$'
done_testing
