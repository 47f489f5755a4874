# Expert parallelism moves the chosen rows alone: two exchanges a layer forward and two backward, the counts that come
# first, the two sums of the balance, and no gathered tokens. An overflow of `ragged(bound=...)` ends the run.
. "$(dirname "$0")/lib.sh"
mixtral=$EXAMPLES/mixtral_tiny.pmodel

# rows NAME: the lines of function NAME in the answer, without names and places.
rows() {
  awk -v start="^mixtral_tiny.layer.$1," '$0 ~ start { on = 1; next } /^$/ { on = 0 } on && !/^  op / ' out |
    sed -E 's/^  ([a-z_]+( sum)?) +([a-z+]+) +([0-9,]+) +([0-9,]+) +([0-9,]+) +([0-9,]+) +.*/\1 \3 \4 \5 \6 \7/'
}

# same FILE: it holds what stdin says.
same() {
  diff - "$1" >difference || complain "$1 differs from what was expected:"$'\n'"$(cat difference)"
}

# Of 8,192 elements, the rows of the 128 positions that a rank has; op, mesh axes, ranks, elements, bytes, times a step.
expect 0 show comm "$mixtral" --plan ep2
rows fwd >fwd
rows bwd >bwd
same fwd <<'END'
all_gather data 2 8 32 2
scatter_rows data 2 8,192 32,768 2
all_reduce sum data 2 4 16 2
all_reduce sum data 2 4 16 2
gather_rows data 2 8,192 32,768 2
END
same bwd <<'END'
scatter_rows data 2 8,192 32,768 2
gather_rows data 2 8,192 32,768 2
END
says out '^a step: 7 all_reduce .*, 2 all_gather \(64 bytes\), 4 scatter_rows \(131,072 bytes\), 4 gather_rows \(131,072 bytes\)$'
if grep -q 'd(layer.ffn.w[123])' out; then complain "gradients of experts are reduced: $(cat out)"; fi

# Twice the slots, capacity: what is sent does not depend on the room that it goes to.
for slots in 64 'ragged(bound=2)'; do
  expect 0 show comm "$mixtral" --plan ep2 --set "axis.slot=$slots"
  rows fwd >again
  same again <fwd
done

# With tensor and sequence parallelism: rows travel among all 8 ranks, each to a part of the slots that is gathered
# before the experts and scattered behind them.
expect 0 show comm "$mixtral" --plan ep4_tp2
rows fwd | grep -A9 '^all_gather data' >fwd
same fwd <<'END'
all_gather data 4 16 64 2
scatter_rows data+tensor 8 2,048 8,192 2
all_gather tensor 2 16,384 65,536 2
all_reduce sum data+tensor 8 4 16 2
all_reduce sum data+tensor 8 4 16 2
reduce_scatter sum tensor 2 16,384 65,536 2
gather_rows data+tensor 8 2,048 8,192 2
END
rows bwd | head -5 >bwd
same bwd <<'END'
scatter_rows data+tensor 8 2,048 8,192 2
all_gather tensor 2 16,384 65,536 2
all_gather tensor 2 16,384 65,536 2
reduce_scatter sum tensor 2 16,384 65,536 2
gather_rows data+tensor 8 2,048 8,192 2
END

# A run plan counts the same.
expect 0 compile "$mixtral" --plan ep4_tp2 -o x.prun
expect 0 show comm x.prun
grep '^a step' out | tr ',' '\n' | sort >unrolled
expect 0 show comm "$mixtral" --plan ep4_tp2
grep '^a step' out | tr ',' '\n' | sort >rolled
[ "$(tr -dc 0-9 <rolled | fold -w1 | sort | tr -d '\n')" = "$(tr -dc 0-9 <unrolled | fold -w1 | sort | tr -d '\n')" ] ||
  complain "$(cat unrolled) but $(cat rolled)"

# A bound that holds gives the dropless losses; one that does not ends every rank alike, with the layer and the need.
losses() { grep -oE 'loss [0-9.]+' out; }
expect 0 train "$mixtral" --plan ep2 --steps=3
losses >dropless
expect 0 train "$mixtral" --plan ep2 --steps=3 --set 'axis.slot=ragged(bound=2.5)'
losses >bounded
cmp dropless bounded || complain "$(cat dropless) but $(cat bounded)"
for plan in "" ep2 tp2 ep4_tp2; do
  expect 4 train "$mixtral" ${plan:+--plan $plan} --steps=3 --set 'axis.slot=ragged(bound=1.25)'
  says err 'mixtral_tiny.pmodel:[0-9]+:[0-9]+: slot_of\[expert\]: in layer 1 of 2 element 2 is chosen 100 times, but'
  says err 'the bound leaves it 80 slots; nothing was dropped. `ragged\(bound=1.57\)` would hold them'
done
# Padded rows take no slots: a bound holds, or does not, as on one rank.
printf 'mesh data=5\nshard batch -> data\npad(batch)\n' >pad.pplan
for plan in "" pad.pplan; do
  expect 0 train "$mixtral" ${plan:+--plan $plan} --steps=3 --set axis.batch=3 --set 'axis.slot=ragged(bound=1.6)'
  expect 4 train "$mixtral" ${plan:+--plan $plan} --steps=3 --set axis.batch=3 --set 'axis.slot=ragged(bound=1.5)'
  says err 'in layer 1 of 2 element 2 is chosen 77 times, but the bound leaves it 72 slots'
done
# Of micro-batches each has the bound for itself.
for plan in 'mesh data=1' 'mesh data=2
shard batch -> data
shard expert in "*.wr" -> none
shard param expert -> data'; do
  printf '%s\naccumulate(micro=2)\n' "$plan" >micro.pplan
  expect 4 train "$mixtral" --plan micro.pplan --steps=4 --set axis.batch=8 --set train.seed=3 --set 'axis.slot=ragged(bound=1.58)'
  says err 'in layer 2 of 2 of micro-batch 2 of 2 element 2 is chosen 113 times, but the bound leaves it 102 slots'
done
done_testing
