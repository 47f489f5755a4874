# A split sequence changes no number: ring, gather and all-to-all on 2, 4 and 8 ranks, alone and with every other way of
# splitting at once, in f32 and bf16, with dropout, and with experts.
. "$(dirname "$0")/lib.sh"

# verified FILE ARGS...
verified() {
  expect 0 verify "$@" --against=reference --json
  says out '^  "ok": true'
}

for plan in cp2_ring cp2_gather cp2_ulysses dp2_cp2_tp2; do verified "$EXAMPLES/llama_tiny.pmodel" --plan $plan; done
for c in 4 8; do verified "$EXAMPLES/llama_tiny.pmodel" --plan cp2_ring --mesh context=$c; done
verified "$EXAMPLES/llama_tiny.pmodel" --plan cp2_gather --mesh context=4
verified "$EXAMPLES/llama_tiny.pmodel" --plan cp2_ulysses --mesh context=4 --set axis.kvheads=4 --set axis.hdim=8
for plan in cp4_ring cp4_ulysses; do verified "$EXAMPLES/gpt_tiny.pmodel" --plan $plan --set axis.batch=4; done
# 36 positions are no 8 chunks: the parts follow one another.
verified "$EXAMPLES/gpt_tiny.pmodel" --plan cp4_ring --set axis.batch=2 --set axis.seq=36

printf 'mesh data=2, context=4, tensor=2\nshard batch -> data\nshard group, ff, vocab -> tensor\n' >all.pplan
printf 'shard act seq -> context + tensor\nzero(stage=2, over=data + context)\nring(kv, over=context)\n' >>all.pplan
verified "$EXAMPLES/llama_tiny.pmodel" --plan all.pplan
printf 'mesh data=2, context=2\nshard batch -> data\nshard act seq -> context\nring(kv, over=context)\n' >moe.pplan
verified "$EXAMPLES/mixtral_tiny.pmodel" --plan moe.pplan
verified "$EXAMPLES/deepseek_moe_tiny.pmodel" --plan moe.pplan
# Slots are given out along the first axis of the tokens, here the one that lies in zigzag order.
sed 's/\[batch, seq\] in/[seq, batch] in/' "$EXAMPLES/mixtral_tiny.pmodel" >seq_first.pmodel
verified seq_first.pmodel --plan moe.pplan

sed 's/x += attn(n1(x))/x += dropout(attn(n1(x)), 0.1)/' "$EXAMPLES/llama_tiny.pmodel" >dropout.pmodel
verified dropout.pmodel --plan cp2_ring --mesh context=4
sed '/^train/i policy { compute = bf16 }' "$EXAMPLES/llama_tiny.pmodel" >half.pmodel
for plan in cp2_ring cp2_ulysses; do verified half.pmodel --plan $plan; done

# The same tokens reach the same places, whatever the order in which ranks hold them: losses on data are those of one.
losses() {
  grep '"event":"step"' out | sed -E 's/.*"loss":([-+.e0-9]+).*/\1/'
}
expect 0 train "$EXAMPLES/llama_tiny.pmodel" --steps 5 --json
losses >one
[ "$(wc -l <one)" -eq 5 ] || complain "no losses: $(cat out)"
for plan in cp2_ring cp2_gather cp2_ulysses dp2_cp2_tp2; do
  expect 0 train "$EXAMPLES/llama_tiny.pmodel" --steps 5 --json --plan $plan
  losses >split
  paste one split | awk '{ d = $1 - $2; if (d < 0) d = -d; if (!($2 > 0) || d > 1e-5 * $1) exit 1 }' ||
    complain "$plan: $(paste one split)"
done
done_testing
