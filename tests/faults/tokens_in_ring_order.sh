# Attention over a split sequence on 2, 4 and 8 ranks, with grouped queries: losses, gradients and the order of tokens are
# those of one rank, also at lengths that fit neither the ranks nor the chunks of a ring.
. "$(dirname "$0")/lib.sh"
steps=1 sizes=(--set batch=2 --set vocab=16 --set embed=8 --set ff=8 --set hdim=4 --set layer=1 --set kvheads=2 --set group=2)

for ranks in 2 4 8; do
  for how in 'ring(kv, over=c)' 'ring(kv, over=c, order=plain)' 'gather(kv, over=c)'; do
    equal "$EXAMPLES/llama_tiny.pmodel" "mesh c=$ranks; shard act seq -> c; $how" "${sizes[@]}" --set seq=16
  done
done
equal "$EXAMPLES/llama_tiny.pmodel" 'mesh c=2; shard act seq -> c; ulysses(kv, over=c)' "${sizes[@]}" --set seq=16
equal "$EXAMPLES/llama_tiny.pmodel" 'mesh c=4; shard act seq -> c; ring(kv, over=c)' "${sizes[@]}" --set seq=12
for seq in 7 13; do
  equal "$EXAMPLES/llama_tiny.pmodel" 'mesh c=4; shard act seq -> c; pad(seq)' "${sizes[@]}" --set seq=$seq
done
done_testing
