# A vocabulary that no number of ranks divides: what is padded never reaches the softmax, tied or not.
. "$(dirname "$0")/lib.sh"

for model in gpt_tiny llama_tiny; do
  for ranks in 2 3 4; do
    for vocab in 31 37; do
      equal "$EXAMPLES/$model.pmodel" "mesh tensor=$ranks; shard vocab -> tensor; pad(vocab)" \
        --set vocab=$vocab --set batch=2 --set seq=4 --set embed=16 --set layer=1
    done
  done
done
expect 1 check "$EXAMPLES/gpt_tiny.pmodel" --set vocab=37 --plan tp2 --shard 'vocab -> tensor'
says err 'E0412'
done_testing
