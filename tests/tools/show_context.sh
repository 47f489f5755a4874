# What a split sequence costs, by exact counts and bytes: of c ranks the ring shifts keys and values c - 1 times forward,
# and backward those c - 1 times and their gradients c times; a gather is one of each and, backward, one more and a
# scatter; Ulysses is four all-to-alls each way, and backward one of a number a row.
. "$(dirname "$0")/lib.sh"

# A rank of cp4_ring of gpt_tiny holds 8 * 16 * 4 * 32 elements of the keys: 65,536 bytes; with the values 131,072.
expect 0 show comm "$EXAMPLES/gpt_tiny.pmodel" --plan cp4_ring
says out '^causal_attention.fwd.turn, 12 runs a step, each: 1 shift \(131,072 bytes\)$'
says out '^causal_attention.bwd.turn, 12 runs a step, each: 2 shift \(262,144 bytes\)$'
says out '^gpt_tiny.layer.bwd, 4 runs a step, each: 1 shift \(131,072 bytes\)$'
if grep -q '^gpt_tiny.layer.fwd' out; then complain "the ring sends something but in its turns: $(cat out)"; fi
says out '^a step: 3 all_reduce .*, 40 shift \(5,242,880 bytes\)$'
expect 0 compile "$EXAMPLES/gpt_tiny.pmodel" --plan cp4_ring -o x.prun
expect 0 show comm x.prun
says out '^a step: 40 shift \(5,242,880 bytes\), 3 all_reduce '

expect 0 show comm "$EXAMPLES/gpt_tiny.pmodel" --plan cp4_ring --json
says out '"op": "shift"'

expect 0 show comm "$EXAMPLES/llama_tiny.pmodel" --plan cp2_gather
says out '^llama_tiny.layer.fwd, 2 runs a step, each: 2 all_gather \(32,768 bytes\)$'
says out '^llama_tiny.layer.bwd, 2 runs a step, each: 2 all_gather \(32,768 bytes\), 2 reduce_scatter \(32,768 bytes\)$'

# q and o have 4 heads, k and v have 2; backward d_o, dq, dk, dv, and 4 * 32 * 4 / 2 sums over a head.
expect 0 show comm "$EXAMPLES/llama_tiny.pmodel" --plan cp2_ulysses
says out '^llama_tiny.layer.fwd, 2 runs a step, each: 4 all_to_all \(49,152 bytes\)$'
says out '^llama_tiny.layer.bwd, 2 runs a step, each: 5 all_to_all \(50,176 bytes\)$'
says out '^a step: 2 all_reduce .*, 18 all_to_all \(198,656 bytes\)$'

# Keys and values of fewer heads than ranks go round as they are; Ulysses refuses, or holds them on every rank.
expect 0 show comm "$EXAMPLES/llama_tiny.pmodel" --plan cp2_ring --mesh context=4
says out '^causal_attention.fwd.turn, 6 runs a step, each: 1 shift \(8,192 bytes\)$'
expect 1 check "$EXAMPLES/llama_tiny.pmodel" --plan cp2_ulysses --mesh context=4
says err 'error\[E0412\]: `kvheads`'
printf 'mesh context=4\nshard act seq -> context\nulysses(kv, over=context, heads=group)\n' >group.pplan
expect 0 show comm "$EXAMPLES/llama_tiny.pmodel" --plan group.pplan --set axis.group=4
says out '^llama_tiny.layer.fwd, 2 runs a step, each: 2 all_to_all .*, 2 all_gather '

# Without a directive: what is cheaper, collectives counted as 65,536 bytes each.
printf 'mesh context=4\nshard act seq -> context\n' >none.pplan
expect 0 show comm "$EXAMPLES/llama_tiny.pmodel" --plan none.pplan --set axis.kvheads=4
says out '^llama_tiny.layer.fwd, 2 runs a step, each: 2 all_gather '
expect 0 show comm "$EXAMPLES/llama_tiny.pmodel" --plan none.pplan --set axis.kvheads=4 --set axis.seq=2048
says out '^llama_tiny.layer.fwd, 2 runs a step, each: 4 all_to_all '
expect 0 show comm "$EXAMPLES/llama_tiny.pmodel" --plan none.pplan --set axis.seq=2048
says out '^llama_tiny.layer.fwd, 2 runs a step, each: 2 all_gather '

# The order of the parts is in the types.
expect 0 show sharding "$EXAMPLES/llama_tiny.pmodel" --plan cp2_ring
says out 'tokens .*i32<vocab>\[batch:4, seq:32/context~zigzag\]'
expect 0 show sharding "$EXAMPLES/llama_tiny.pmodel" --plan cp2_ulysses
if grep -q zigzag out; then complain "an order that nobody asked for"; fi
done_testing
